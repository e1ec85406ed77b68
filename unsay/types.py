"""The values that the packages exchange, all plain and frozen.

What LangGraph checkpoints is the TypedDicts at the end: JSON values and
messages only, because classes come back as dicts under strict msgpack.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, Protocol, TypedDict

Outcome = Literal["passed", "failed", "unscored"]
Judge = Literal["model", "prejudge", "person"]
Language = Literal["en", "ja"]
ShiftKind = Literal["same", "new", "back"]
CutKind = Literal[
    "draft",
    "context",
    "document",
    "person",
    "undo",
    "redo",
    "restore",
    "retry",
    "order",
    "interrupted",
    "rejected",
]
CheckpointReason = Literal["score", "task_start", "instruction", "tool_step", "error", "order"]
OperationKind = Literal["turn", "rollback", "restore", "insert", "pick", "unfold", "forget"]
EventType = Literal[
    "user_message",
    "assistant_message",
    "tool_call",
    "tool_result",
    "planner_note",
    "thinking",
    "verdict",
    "checkpoint",
    "rollback",
    "fold",
    "unfold",
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
    "prompted",
    "planning",
    "executing_tools",
    "synthesizing",
    "completed",
    "failed",
    "canceled",
]
Provider = Literal["openai", "anthropic", "bedrock", "gemini"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One question and its answer, with just enough around them to judge."""

    question: str
    """Empty when an answer was injected without a question."""

    answer: str
    """Empty when the model returned nothing."""

    earlier: tuple[tuple[str, str], ...] = ()
    """A few earlier pairs of question and answer of the thread, oldest first."""

    truncated: bool = False
    """Whether the provider said that the answer hit its length limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a judge said about one answer."""

    outcome: Outcome
    """Passed may become a checkpoint, failed may roll back, unscored changes nothing."""

    score: float | None
    """From 0 to 1; `None` exactly when the outcome is unscored."""

    reason: str
    """One sentence; for unscored, what went wrong with the judge."""

    source: Judge


@dataclass(frozen=True, slots=True, kw_only=True)
class PreVerdict:
    """The verdict of the local checks on an exchange, without a model."""

    score: float
    """From 0 to 1, from surface features alone."""

    decided: bool
    """Whether the case is obvious, so that no model need be asked."""

    reason: str
    """The strongest signal, in one English sentence."""

    signals: tuple[str, ...] = ()
    """Names of the rules that fired, for example `empty` or `loop`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMemory:
    """What a topic detector sees of one topic of a thread."""

    topic_id: str
    texts: tuple[str, ...]
    """The newest few questions and answers of the topic, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicShift:
    """The topic that a question belongs to: the current, a new or an earlier one."""

    kind: ShiftKind
    similarity: float
    """To that topic, or for a `new` one to the current topic; from 0 to 1."""

    topic_id: str | None = None
    """The earlier topic for `back`; else `None`."""


class TopicDetector(Protocol):
    """Tells whether a question continues the topic, changes it, or returns to an earlier one.

    A detector is pure: no model, clock, randomness, input or output.
    """

    def detect(
        self, question: str, current: TopicMemory, others: Sequence[TopicMemory]
    ) -> TopicShift:
        """Assign a question to a topic; `back` only with the id of one of `others`.

        Args:
            question: The user's newest message.
            current: The topic of the turn before; it has at least one text.
            others: Earlier topics, the most recently left one first.
        """


class Checkpoint(TypedDict):
    """A good point on the record; `sealed` where its message is in the part that is sealed."""

    id: str
    name: str | None
    message_id: str | None
    turn: int
    score: float | None
    topic: str
    reason: CheckpointReason
    created_at: str
    sealed: NotRequired[bool]


class Segment(TypedDict):
    """A stretch of the record that belongs to one topic, up to the next segment's start."""

    topic_id: str
    start: str


class Topic(TypedDict):
    """A topic of the thread, with its fold's summary once it was left.

    `sealed` tells of those of its messages that the state let go of; `pages` are the newest that
    hold them, as long as the talk can return to their words.
    """

    id: str
    label: str
    summary: str | None
    summarized_through: str | None
    sealed: NotRequired[str]
    pages: NotRequired[list[str]]


class Offloaded(TypedDict):
    """The oldest part of a record, which the state let go of: it lies in the store, in pages.

    `last` is its last message, behind which the rest of the record begins; `messages` and `turns`
    say how many it has, `instructions` what its system messages say.
    """

    page_id: str
    last: str
    messages: int
    turns: int
    instructions: NotRequired[list[str]]


class Cut(TypedDict):
    """What a rollback took off the record, whole, so that it can be put back."""

    id: str
    kind: CutKind
    base: str | None
    reason: str
    created_at: str
    messages: list[Any]
    drafts: list[Any]
    checkpoints: list[Checkpoint]
    segments: list[Segment]
    topics: NotRequired[list[Topic]]


class CutRef(TypedDict):
    """A cut as the state names it; `body` only where no store keeps it."""

    id: str
    kind: CutKind
    base: str | None
    reason: str
    created_at: str
    size: int
    body: NotRequired[Cut]


class Unfolded(TypedDict):
    """A topic whose words views show although the talk is elsewhere.

    It counts while the stretch under way is the one that began at `at`.
    """

    topic_id: str
    at: str


class Pin(TypedDict):
    """A message that no view leaves out; `page` holds it where it is sealed."""

    message_id: str
    page: NotRequired[str]


class Forgotten(TypedDict):
    """What a person wants views to leave out, until it is restored.

    `topic_id` means all that was said on a topic, in place of single messages.
    """

    id: str
    kind: ForgottenKind
    message_ids: list[str]
    reason: str
    created_at: str
    topic_id: NotRequired[str]


class Operation(TypedDict):
    """One step that can be undone: what stands after `base` replaced the cuts.

    `ids`, of an `insert`, are all that it brought: the rest after the base stays. `topic`, of an
    `unfold`, is the topic whose words views show again; its base is no place, nor that of a
    `forget`, which put `forgotten` in the place of `remembered` and took the pins `unpinned` off.
    """

    kind: OperationKind
    base: str | None
    cuts: list[str]
    ids: NotRequired[list[str]]
    topic: NotRequired[str]
    forgotten: NotRequired[list[Forgotten]]
    remembered: NotRequired[list[Forgotten]]
    unpinned: NotRequired[list[Pin]]


class Undone(Operation):
    """A step that was undone: the cuts hold what it had made. `at` is where the talk then ended."""

    at: str | None


class Owed(TypedDict):
    """A tool's call that left the record, or returned to it, and of which a person is to be told.

    `key` is its entry in the journal of compensations; `body` that entry where no store keeps it.
    """

    key: str
    returned: bool
    body: NotRequired[dict[str, Any]]


class Note(TypedDict):
    """One line of `state_history`: what a node did, never what was said."""

    node: str
    event: str
    turn: int
    score: float | None
    topic: str
    at: str


class Rejection(TypedDict):
    """A draft that was taken back, and why."""

    messages: list[Any]
    score: float | None
    reason: str
    source: Judge


class Turn(TypedDict):
    """The turn under way or, when done, the last one."""

    number: int
    run_id: str
    question_id: str | None
    pending: list[str]
    base: str | None
    done: bool
    rejections: list[Rejection]
    rollbacks: int
    extra_attempts: int
    cuts: list[str]
    draft_cuts: list[str]
    context_reason: str | None
    guidance: str | None
    new_topic: bool
    checkpoints_due: list[Checkpoint]


class Event(TypedDict):
    """One thing that happened, as the ledger keeps it for good."""

    id: str
    type: EventType
    thread_id: str
    run_id: str | None
    turn_id: str | None
    at: str
    labels: dict[str, str]
    data: dict[str, Any]
