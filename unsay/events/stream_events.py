"""The events of a run's stream: what `astream(stream_mode="custom")` yields beside the tokens.

Each is a dict of plain JSON with its kind under `unsay`. `Conversation.stream` yields the same as
`Event`: `kind`, `text`, `message_id`, and the other keys as `data`. `docs/generate_events.py` writes
the table in `docs/observability.md` from these classes.
"""

from typing import Any, Literal

from typing_extensions import TypedDict

from unsay.budget.accounts import Layer, Unit
from unsay.budget.limits import Pressure
from unsay.protocols import Judge, Outcome
from unsay.types import Checkpoint, RunPhase


class PhaseEvent(TypedDict):
    """The turn is planning, running tools, or writing the answer after them."""

    unsay: Literal["phase"]
    phase: RunPhase


class ToolCallEvent(TypedDict):
    """A tool that the model called is run. The call may still leave the page with a rejected draft.

    A turn that was stopped in the call, or in which the tool asks a person, streams it again.
    """

    unsay: Literal["tool_call"]
    call_id: str | None
    name: str
    args: dict[str, Any]


class ToolResultEvent(TypedDict):
    """The result of the tool call with this `call_id`; `status` is `error` if the tool failed."""

    unsay: Literal["tool_result"]
    call_id: str
    name: str | None
    status: Literal["success", "error"]
    text: str


class JudgingEvent(TypedDict):
    """The judge reads this draft or message."""

    unsay: Literal["judging"]
    message_id: str | None


class VerdictEvent(TypedDict):
    """What the judge decided about a draft, a document, or a message that a host added (`context`).

    `score`, `consistency` and `agreement` are from 0 to 1, or `None` if unknown. `advice` is for the
    next attempt, `query` another search; both may be empty. `blamed` are ids of messages. `intent` is
    what the question does to the topic in the judge's words, `returns_to` the id of the earlier topic
    that it names; both may be empty. `skipped`: the judge was not asked, by the setting `judge_share`.
    """

    unsay: Literal["verdict"]
    of: Literal["draft", "document", "context"]
    message_id: str | None
    outcome: Outcome
    score: float | None
    reason: str
    source: Judge
    blamed: tuple[str, ...]
    consistency: float | None
    advice: str
    query: str
    agreement: float | None
    intent: str
    returns_to: str
    skipped: bool


class DraftRejectedEvent(TypedDict):
    """The draft did not pass: remove the message with this id from the page.

    `attempt` counts the drafts of the turn from 1. It is 0 if the model broke off and another reply begins.
    """

    unsay: Literal["draft_rejected"]
    message_id: str | None
    attempt: int
    score: float | None
    reason: str


class RestoredEvent(TypedDict):
    """No draft passed: this number of messages that rollbacks of the turn had removed are back; maybe 0."""

    unsay: Literal["restored"]
    messages: int


class TopicEvent(TypedDict):
    """The question began a topic, or went back to one; `same`: the judge took that back.

    `similarity` to the topic before is from 0 to 1; `None` for the first topic.
    """

    unsay: Literal["topic"]
    kind: Literal["new", "back", "same"]
    label: str
    similarity: float | None


class CompactionEvent(TypedDict):
    """In contexts a summary replaces this number of messages of a topic; empty without a summary."""

    unsay: Literal["compaction"]
    label: str
    messages: int
    summary: str


class RemovedPart(TypedDict):
    """What one automatic rollback removed; the `branch` with this id keeps it.

    `turns` and `messages` are numbers.
    """

    turns: int
    messages: int
    branch: str
    reason: str


class RollbackEvent(TypedDict):
    """A rollback: remove the messages after `message_id` from the page; `None` is the beginning.

    `to` says the same in words. `removed` is the number of messages. `removals` has what automatic
    rollbacks removed, each with `turns`, `messages`, `branch` and `reason`.
    """

    unsay: Literal["rollback"]
    kind: str
    reason: str
    to: str
    message_id: str | None
    removed: int
    removals: list[RemovedPart]


class UndoneEvent(TypedDict):
    """A step was undone: how many messages left the transcript, and how many returned."""

    unsay: Literal["undone"]
    removed: int
    restored: int


class RedoneEvent(TypedDict):
    """A step was redone: how many messages left the transcript, and how many returned."""

    unsay: Literal["redone"]
    removed: int
    restored: int


class CheckpointEvent(Checkpoint):
    """A checkpoint was saved after `turn` answered turns; `score` and `topic` are the answer's."""

    unsay: Literal["checkpoint"]


class CompensationEvent(TypedDict):
    """What became of a tool call that was rolled back.

    `reason` says why the call was not undone; it is empty if it was.
    """

    unsay: Literal["compensation"]
    result: Literal["undone", "failed", "unknown", "skipped", "returned"]
    reason: str
    tool: str
    tool_call_id: str
    description: str


class NoticeEvent(TypedDict):
    """A text of unsay for the user, such as the answer to a command."""

    unsay: Literal["notice"]
    text: str
    message_id: str | None


class SearchAgainEvent(TypedDict):
    """A search found nothing relevant and is made again with this query; `number` counts from 1."""

    unsay: Literal["search_again"]
    query: str
    number: int


class MessagesRemovedEvent(TypedDict):
    """Messages left the transcript without a rollback, such as those of a turn that never ended."""

    unsay: Literal["messages_removed"]
    reason: str


class CheckpointsRemovedEvent(TypedDict):
    """A new answer replaced one that had these named checkpoints, which are removed with it."""

    unsay: Literal["checkpoints_removed"]
    names: list[str]


class DecisionEvent(TypedDict):
    """A person took a decision, and the turn continues."""

    unsay: Literal["decision"]
    decision: Literal["approve", "edit", "reject", "respond"]


class ContextWarningEvent(TypedDict):
    """The pinned messages do not fit into the model's window."""

    unsay: Literal["context_warning"]
    text: str


class BudgetUse(TypedDict):
    """One limit of a budget; `used` and `asked` are tokens, or millionths of the prices' currency.

    `since` is the time of the first call in `used`; `None` before one.
    """

    layer: Layer
    unit: Unit
    used: int
    asked: int
    limit: int
    since: str | None


class BudgetWarningEvent(TypedDict):
    """A budget is nearly used.

    `usage` is the highest share of a limit. Each of `limits` has `layer`, `unit`, `used`, `asked`, `limit` and `since`.
    """

    unsay: Literal["budget_warning"]
    text: str
    usage: float
    limits: list[BudgetUse]


class BackpressureEvent(TypedDict):
    """The model call waits because a budget is nearly used."""

    unsay: Literal["backpressure"]
    delay_ms: int
    usage: float
    pressure: Pressure


class _ErrorEvent(TypedDict):
    error: str


class JudgeFailedEvent(_ErrorEvent):
    """The judge failed: the answer is unscored."""

    unsay: Literal["judge_failed"]


class TopicFailedEvent(_ErrorEvent):
    """The topic detector failed: the topic stays."""

    unsay: Literal["topic_failed"]


class RecallFailedEvent(_ErrorEvent):
    """The search for earlier messages failed: nothing is recalled."""

    unsay: Literal["recall_failed"]


class SummaryFailedEvent(_ErrorEvent):
    """The summarizer failed: the context has no new summary."""

    unsay: Literal["summary_failed"]


class ContextProblemEvent(_ErrorEvent):
    """The strategy failed or could not do all of its work."""

    unsay: Literal["context_problem"]


class AgentStateProblemEvent(_ErrorEvent):
    """A channel of the agent that answers cannot be stored, and is not kept."""

    unsay: Literal["agent_state_problem"]


class SegmentLostEvent(_ErrorEvent):
    """Offloaded messages or a branch could not be read."""

    unsay: Literal["segment_lost"]


StreamEvent = (
    PhaseEvent
    | ToolCallEvent
    | ToolResultEvent
    | JudgingEvent
    | VerdictEvent
    | DraftRejectedEvent
    | RestoredEvent
    | TopicEvent
    | CompactionEvent
    | RollbackEvent
    | UndoneEvent
    | RedoneEvent
    | CheckpointEvent
    | CompensationEvent
    | NoticeEvent
    | SearchAgainEvent
    | MessagesRemovedEvent
    | CheckpointsRemovedEvent
    | DecisionEvent
    | ContextWarningEvent
    | BudgetWarningEvent
    | BackpressureEvent
    | JudgeFailedEvent
    | TopicFailedEvent
    | RecallFailedEvent
    | SummaryFailedEvent
    | ContextProblemEvent
    | AgentStateProblemEvent
    | SegmentLostEvent
)
"""Any event of a custom stream; a type checker tells the kinds apart by `event["unsay"]`."""
