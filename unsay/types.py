"""The values that the packages exchange, all plain: LangGraph checkpoints the TypedDicts as JSON."""

from collections.abc import Collection
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from unsay.protocols import Judge

SCHEMA_VERSION = 2  # of the JSON objects that the command line prints


class Printed:
    """Base class of results that a notebook shows as their text, as `print` does."""

    __slots__ = ()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        del include, exclude
        return {"text/plain": str(self)}


Language = Literal["en", "ja"]
BranchKind = Literal[
    "draft",
    "context",
    "document",
    "person",
    "undo",
    "redo",
    "restore",
    "retry",
    "edit",
    "remove",
    "order",
    "interrupted",
    "rejected",
    "host",
]
CheckpointReason = Literal[
    "score", "task_start", "instruction", "tool_step", "risky", "error", "order"
]
# In the order of `/help`.
CommandName = Literal[
    "undo",
    "redo",
    "retry",
    "edit",
    "remove",
    "rollback",
    "checkpoint",
    "task",
    "compact",
    "checkpoints",
    "timeline",
    "branches",
    "restore",
    "tokens",
    "recall",
    "pin",
    "unpin",
    "forget",
    "forgotten",
    "same",
    "good",
    "bad",
    "lessons",
    "lesson",
    "unlearn",
    "help",
]
AllowedCommands = Literal["all", "none"] | Collection[CommandName]  # which users of a host may use

OperationKind = Literal[
    "turn",
    "rollback",
    "restore",
    "insert",
    "pick",
    "add",
    "expand",
    "forget",
    "pin",
    "checkpoint",
    "label",
    "remove",
    "compact",
    "same_topic",
]
TopicChange = Literal["new", "back"]  # a new topic, or back to an earlier one
EventType = Literal[
    "user_message",
    "assistant_message",
    "tool_call",
    "tool_result",
    "planner_note",
    "thinking",
    "verdict",
    "checkpoint",
    "checkpoint_removed",
    "rollback",
    "compaction",
    "expand",
    "recall",
    "restore",
    "edit",
    "fork",
    "forget",
    "remember",
    "pin",
    "unpin",
]
ForgottenKind = Literal["message", "span", "topic", "tool_results"]
RunStatus = Literal["pending", "running", "completed", "failed", "canceled", "paused"]
RunPhase = Literal[
    "prompted", "planning", "executing_tools", "synthesizing", "completed", "failed", "canceled"
]
Provider = Literal["openai", "anthropic", "bedrock", "gemini"]


class Checkpoint(TypedDict):
    """A good point in the transcript; `offloaded` if the message before it was offloaded."""

    id: str
    name: str | None
    message_id: str | None  # the last message before it; `None`: the beginning
    turn: int  # how many answered turns are before it
    score: float | None  # the answer's; `None` if it is unscored
    topic: str  # the topic's label
    reason: CheckpointReason
    created_at: str  # ISO 8601, UTC
    offloaded: NotRequired[bool]
    in_turn: NotRequired[bool]  # at a tool step: the turn's question is not answered before it


class Segment(TypedDict):
    """A part of the transcript on one topic, from the message `start` to the next segment's start."""

    topic_id: str
    start: str


class Topic(TypedDict):
    """A topic of the thread, with its summary once the conversation left it.

    `summary` covers the topic's messages up to the one with the id `summarized_through`; both are
    `None` before. `offloaded` is the summary of its offloaded messages, and `pages` are the newest
    pages with them. `sources` are hashes of the messages that `summary` was made of, and of those
    that were loaded since; a summary applies only while the transcript has all of them.
    """

    id: str
    label: str
    summary: str | None
    summarized_through: str | None
    offloaded: NotRequired[str]
    pages: NotRequired[list[str]]
    sources: NotRequired[list[str]]


class Offloaded(TypedDict):
    """A reference to the oldest part of the transcript, which was moved to pages in the store.

    `page_id` is the newest of these pages, and `last` the id of the last message. `messages` and
    `turns` count messages and answered turns. `instructions` are the texts of the system messages.
    `checksum` is that of the words of all its messages; older references have none.
    """

    page_id: str
    last: str
    messages: int
    turns: int
    instructions: NotRequired[list[str]]
    checksum: NotRequired[int]


class _Branch(TypedDict):
    id: str
    kind: BranchKind
    base: str | None  # the message that the branch followed; `None`: the beginning
    reason: str
    created_at: str


class StoredBranch(_Branch):
    """A branch: messages that left the transcript, with all that is needed to restore them.

    `positions` has, by id, the positions of its messages and drafts in the event log; a branch of
    this step and one without a store have none.
    """

    messages: list[Any]  # removed from the transcript, oldest first
    drafts: list[Any]  # rejected, so never in the transcript
    positions: NotRequired[dict[str, int]]
    checkpoints: list[Checkpoint]
    segments: list[Segment]
    topics: NotRequired[list[Topic]]


class BranchRef(_Branch):
    """The state's reference to a branch in the store; `body` is the branch itself without a store.

    `size` is the number of its messages and drafts.
    """

    size: int
    body: NotRequired[StoredBranch]


class ExpandedTopic(TypedDict):
    """An earlier topic that contexts include again while a later segment is the current one.

    `at` is the start of that segment.
    """

    topic_id: str
    at: str


class Pin(TypedDict):
    """A message that is always included in the context.

    `page` is the id of the offloaded segment with the message; it is missing for a live message.
    """

    message_id: str
    page: NotRequired[str]


class Forgotten(TypedDict):
    """Messages that contexts leave out until they are restored; of tool results they show one line.

    They are those with `message_ids`, or the whole topic `topic_id` up to the newest of them.
    """

    id: str
    kind: ForgottenKind
    message_ids: list[str]
    reason: str
    created_at: str
    topic_id: NotRequired[str]


class Operation(TypedDict):
    """One step that `undo` can reverse, as operations append it to the state.

    Which fields it has depends on its `kind`; those that it lacks were not changed by it.
    """

    kind: OperationKind
    base: str | None  # the messages after it replaced those of `branches`; `None`: the beginning
    branches: list[str]
    ids: NotRequired[list[str]]  # only these replaced them; of a `remove`, the messages taken out
    asked: NotRequired[list[str]]  # of a `restore`: the messages put back that wait for an answer
    topic: NotRequired[str]  # the earlier one that an `expand` put into contexts again
    forgotten: NotRequired[list[Forgotten]]  # of a `forget`: new
    remembered: NotRequired[list[Forgotten]]  # what `forgotten` replaced
    unpinned: NotRequired[list[Pin]]  # of a `pin` or a `forget`: removed
    pinned: NotRequired[list[Pin]]  # added
    made: NotRequired[list[Checkpoint]]  # new ones
    replaced: NotRequired[list[Checkpoint]]  # those that `made` replaced
    labels: NotRequired[dict[str, str | None]]  # new values
    old_labels: NotRequired[dict[str, str | None]]
    compaction: NotRequired[Any]  # the new one
    old_compaction: NotRequired[Any]
    compacted: NotRequired[Topic]  # of a `compact`: the topic with its new summary
    segment: NotRequired[Segment]  # of a `same_topic`: it got the topic `into`
    into: NotRequired[str]


class Undone(Operation):
    """A step that was undone, in a form that `redo` can make again.

    `at` is the id of the transcript's last message after the undo; `None` is the beginning. If the
    transcript ends elsewhere now, nothing can be redone.
    """

    at: str | None


class PendingCompensation(TypedDict):
    """A tool call that left the transcript, to be undone, or returned to it, to be reported.

    `key` names its entry in the log of compensations; `body` is that entry if there is no store.
    `returned` is true for a call that returned to the transcript.
    """

    key: str
    returned: bool
    body: NotRequired[dict[str, Any]]


class Note(TypedDict):
    """One entry of `state_history`: what a node did, without any message text."""

    node: str
    event: str  # what the node did, such as `judged`
    description: str  # the same as a sentence, in the language of the conversation
    turn: int  # the turn's number; 0 before the first
    score: float | None
    topic: str  # the topic's label
    at: str


class Rejection(TypedDict):
    """A rejected draft (its `messages`) and the verdict that rejected it.

    `reason` is for the user, `advice` for the next attempt; either can be empty.
    """

    messages: list[Any]
    score: float | None
    reason: str
    source: Judge
    advice: NotRequired[str]


class Turn(TypedDict):
    """The current turn or, when done, the last one."""

    number: int  # counted from 1, in the transcript
    run_id: str
    question_id: str | None  # the user's newest message; `None` in a run without a question
    pending: list[str]  # ids of all messages to answer, with documents
    base: str | None  # the last message before the turn; `None`: the beginning
    done: bool  # answered, or nothing is to be answered
    rejections: list[Rejection]
    rollbacks: int  # how many the turn has made
    extra_attempts: int  # granted by a person, beyond `max_rollbacks`
    branches: list[str]  # ids of the branches of the turn's rollbacks, oldest first
    draft_branches: list[str]  # those of `branches` that a rejected draft caused
    removed: NotRequired[list[Any]]  # what the rollbacks removed; see `Removal`
    steps: NotRequired[list[Any]]  # finished ones of the last draft; the next one goes on from them
    context_reason: str | None  # why messages that entered were removed, for the next attempt
    guidance: str | None  # a person's advice for the next attempt
    topic_change: NotRequired[TopicChange | None]  # what the question did; `None`: it continued
    judge_labels: NotRequired[bool]  # the judge says with its verdict what the topic is
    task: NotRequired[str | None]  # name of the task that starts with the question
    earlier_answers: NotRequired[list[str]]  # of a question asked again: a retry wants another one
    keep_names: NotRequired[list[str]]  # named checkpoints of the old answer, for the new one
    dropped_names: NotRequired[list[str]]  # named checkpoints that a retry or an edit removed
    checkpoints_due: list[Checkpoint]  # earned, and not yet added to the state


class Event(TypedDict):
    """An entry of the event log; what `data` has depends on the `type`."""

    id: str
    type: EventType
    thread_id: str
    run_id: str | None
    turn_id: str | None
    at: str
    labels: dict[str, str]
    data: dict[str, Any]
