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
    "prompted", "planning", "executing_tools", "synthesizing", "completed", "failed", "canceled"
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
    """A good point in the transcript; `sealed` if its message is offloaded."""

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
    """A part of the transcript on one topic, up to the start of the next segment."""

    topic_id: str
    start: str


class Topic(TypedDict):
    """A topic of the thread, with its summary once it was left.

    `sealed` describes its offloaded messages; `pages` are the newest pages that hold them, as long
    as the conversation can return to them.
    """

    id: str
    label: str
    summary: str | None
    summarized_through: str | None
    sealed: NotRequired[str]
    pages: NotRequired[list[str]]


class Offloaded(TypedDict):
    """The oldest part of the transcript, moved from the state to pages in the store.

    `last` is its last message; `messages` and `turns` count what it has; `instructions` are the
    texts of its system messages.
    """

    page_id: str
    last: str
    messages: int
    turns: int
    instructions: NotRequired[list[str]]


class Cut(TypedDict):
    """What a rollback removed from the transcript, whole, so that it can be restored."""

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
    """A reference to a cut in the state; `body` only if no store keeps the cut."""

    id: str
    kind: CutKind
    base: str | None
    reason: str
    created_at: str
    size: int
    body: NotRequired[Cut]


class Unfolded(TypedDict):
    """An earlier topic that is included in the context while the segment from `at` is current."""

    topic_id: str
    at: str


class Pin(TypedDict):
    """A message that is always included in the context; `page` holds it if it is offloaded."""

    message_id: str
    page: NotRequired[str]


class Forgotten(TypedDict):
    """Messages, or the whole topic `topic_id`, that are left out of the context until restored."""

    id: str
    kind: ForgottenKind
    message_ids: list[str]
    reason: str
    created_at: str
    topic_id: NotRequired[str]


class Operation(TypedDict):
    """One step that can be undone: the messages after `base` replaced the cuts.

    An `insert` brought only `ids`; other messages after the base stay. An `unfold` includes `topic`
    in the context again, and a `forget` replaced `remembered` by `forgotten` and removed the pins
    `unpinned`; neither has a base in the transcript.
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
    """A step that was undone; the cuts hold its result, and the transcript then ended at `at`."""

    at: str | None


class Owed(TypedDict):
    """A tool call that left the transcript or returned to it, still to be reported to a person.

    `key` names its entry in the log of compensations; `body` is the entry if no store keeps it.
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
    """A rejected draft, and why it was rejected."""

    messages: list[Any]
    score: float | None
    reason: str
    source: Judge


class Turn(TypedDict):
    """The current turn or, when done, the last one."""

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
    """An entry of the event log."""

    id: str
    type: EventType
    thread_id: str
    run_id: str | None
    turn_id: str | None
    at: str
    labels: dict[str, str]
    data: dict[str, Any]
