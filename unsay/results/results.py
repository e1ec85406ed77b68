"""The results of a conversation: replies, moves, and the events of a stream."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeVar

from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage

from unsay.context.manifest import Tokens
from unsay.history.compensations import Compensation, Report
from unsay.messages.annotations import annotation_of, is_notice
from unsay.messages.content import language_of, preview, text_of, with_file_names
from unsay.moves.compensate import report_text, stays_in_effect
from unsay.prompts.catalogue import ENGLISH, JAPANESE, StepChange, Texts
from unsay.transcript.live import Moved
from unsay.types import Checkpoint as StoredCheckpoint
from unsay.types import CheckpointReason, Printed, TopicChange

T = TypeVar("T")

QUESTION_CHARS = 200  # of a question in a list of places to roll back to


def score_text(score: float | None) -> str:
    """Return a score with two decimals, or a dash for an unscored answer."""
    return "–" if score is None else f"{score:.2f}"


EventKind = Literal[
    "token",
    "tool_call",
    "tool_result",
    "judging",
    "verdict",
    "draft_rejected",
    "restored",
    "phase",
    "topic",
    "compaction",
    "rollback",
    "undone",
    "redone",
    "checkpoint",
    "compensation",
    "notice",
    "search_again",
    "messages_removed",
    "checkpoints_removed",
    "segment_lost",
    "judge_failed",
    "topic_failed",
    "recall_failed",
    "context_problem",
    "agent_state_problem",
    "summary_failed",
    "context_warning",
    "budget_warning",
    "backpressure",
    "decision",
    "reply",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint(Printed):
    """A good point in the transcript; verbs take it wherever they take its name or id.

    Attributes:
        name: `None` for one that unsay saved.
        message_id: Id of the last message before it; `None` is the beginning.
        turn: How many answered turns are before it.
        score: The answer's, from 0 to 1; `None` for unscored.
        topic: Label of the topic; empty if it has none.
        reason: Why it was saved.
        created_at: ISO 8601, UTC.
        in_turn: Whether it is at a tool step, before the turn's question is answered.
    """

    id: str
    name: str | None
    message_id: str | None
    turn: int
    score: float | None
    topic: str
    reason: CheckpointReason
    created_at: str
    in_turn: bool = False

    @classmethod
    def of(cls, stored: StoredCheckpoint) -> "Checkpoint":
        """Return a checkpoint of the state; where its messages are stored is left out."""
        own: Any = {name: value for name, value in stored.items() if name in cls.__slots__}
        return cls(**own)

    def __getitem__(self, field: str) -> Any:
        return getattr(self, field)

    def __str__(self) -> str:
        topic = f", topic {self.topic}" if self.topic else ""
        score = score_text(self.score)
        return f"{self.id}  {self.name or '-'}  after turn {self.turn}, score {score}{topic}"


Target = str | Checkpoint
"""A checkpoint, or its name, its id or the beginning of its id."""


def id_of(value: T | Checkpoint) -> T | str:
    """Return the id of a checkpoint, or another value unchanged."""
    return value.id if isinstance(value, Checkpoint) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """What one automatic rollback removed from the transcript; `restore(branch)` puts it back.

    `turns` and `messages` are numbers, `branch` is an id, and `reason` is the judge's.
    """

    turns: int
    messages: int
    branch: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The end of a turn: an answer, a notice, or a decision that a person must take.

    It prints as its text; a decision without a text prints what the person is asked.

    Attributes:
        kind: Whether the text is the model's answer, a notice of unsay, or waits for a decision.
        text: For a decision about drafts, the best draft; for another decision it may be empty.
        message_id: `None` while the turn waits for a decision.
        score: From 0 to 1; `None` for unscored.
        outcome: `passed`, `failed` or `unscored`; `None` for notices.
        topic: Label of the topic; empty if it has none.
        topic_change: `new` if the question began this topic, `back` if it returned to it; else `None`.
            `same_topic()` says that it continues the topic before.
        flag: `low_quality` if the best draft was delivered although it failed, `by_person` if a
            person wrote the answer; else `None`.
        rollbacks: Number of drafts that were rejected before this answer.
        removed: What automatic rollbacks of this turn removed from the transcript; empty for nothing.
        checkpoints_removed: Names of the checkpoints that a retry or an edit removed.
        checkpoint_id: Id of the checkpoint at this answer; `None` if it has none.
        request: For a decision, LangChain's human-in-the-loop request; else `None`.
        turn_id: `say` with this id and the same text returns this answer without a model call.
    """

    kind: Literal["answer", "notice", "decision"]
    text: str
    message_id: str | None
    score: float | None = None
    outcome: str | None = None
    reason: str = ""
    topic: str = ""
    topic_change: TopicChange | None = None
    flag: str | None = None
    rollbacks: int = 0
    removed: tuple[Removed, ...] = ()
    checkpoints_removed: tuple[str, ...] = ()
    checkpoint_id: str | None = None
    request: Mapping[str, Any] | None = None
    turn_id: str | None = None

    def __str__(self) -> str:
        actions = (self.request or {}).get("action_requests")
        if self.text or not isinstance(actions, list):
            return self.text
        descriptions = (each.get("description") for each in actions if isinstance(each, Mapping))
        return "\n".join(map(str, filter(None, descriptions)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackResult(Moved, Printed):
    """What a rollback, an undo, or another change did to the transcript; prints as text.

    Attributes:
        turns: Answered turns that the transcript has now.
        removed: Number of messages that left the transcript.
        restored: Number of messages that returned, or that contexts hold again.
        at: Where the transcript ends, in words.
        question: The question of the first removed turn, for a person who wants to ask it again;
            several are joined by line breaks, and none is an empty text.
        report: What became of the removed tool calls.
        change: What an undo or a redo did, in turns; `None` for other verbs.
        branch: Id of the branch that holds the removed messages, for `restore`; `None` for none.
    """

    question: str
    report: Report = field(default_factory=Report)
    change: StepChange | None = None
    branch: str | None = None

    def __str__(self) -> str:
        texts = JAPANESE if language_of(self.at) == "ja" else ENGLISH
        lines = [
            texts.step_text(self.change) if self.change else "",
            texts.say("moved_to", where=self.at, turns=counted(self.turns, "turn", texts)),
            texts.say("moved_counts", removed=self.removed, restored=self.restored),
            report_text(self.report, texts),
            texts.say("moved_question", question=preview(self.question)) if self.question else "",
        ]
        return "\n".join(filter(None, lines))


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview(Printed):
    """What a rollback would remove, oldest first; prints as text.

    `at` says in words where the transcript would end. `turns` is the number of answered turns,
    `tool_calls` has names of tools. `compensations` has the calls with consequences: each would be
    undone, unless its `obstacle` says why it cannot.
    """

    at: str
    turns: int
    questions: tuple[str, ...]
    message_ids: tuple[str, ...]
    checkpoints: tuple[Checkpoint, ...]
    tool_calls: tuple[str, ...]
    compensations: tuple[Compensation, ...]
    tokens: Tokens

    def __str__(self) -> str:
        return self.text(JAPANESE if language_of(self.at) == "ja" else ENGLISH)

    def text(self, texts: Texts) -> str:
        """Return the place, the counts, and a line for each question and for what else it removes."""
        tokens = {name: f"{count:,}" for name, count in asdict(self.tokens).items()}
        counts = {"turns": self.turns, "messages": len(self.message_ids), **tokens}
        rows = [texts.say("preview", where=self.at), texts.say("preview_removed", **counts)]
        for question in self.questions:
            words = preview(with_file_names(question), QUESTION_CHARS)
            rows.append(f"  {texts.say('at_message', words=words).strip()}")
        names_by_label = {
            "checkpoints": [each.name or each.id for each in self.checkpoints],
            "tools": list(self.tool_calls),
            "undoable": [e.description for e in self.compensations if not e.obstacle],
            "not_undoable": [e.description for e in self.compensations if stays_in_effect(e)],
        }
        listed = {label: ", ".join(names) for label, names in names_by_label.items() if names}
        return "\n".join([*rows, *(texts.say(label, names=n) for label, n in listed.items())])


class Rows(tuple[T, ...]):
    """A tuple that prints one line for each item; verbs return their lists in it."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n".join(map(_row, self)) or "Nothing here."

    def _repr_pretty_(self, printer: Any, cycle: object) -> None:
        # IPython asks a tuple for this method, and not for `_repr_mimebundle_`.
        del cycle
        printer.text(str(self))


def _row(item: Any) -> str:
    if not isinstance(item, Mapping):
        return str(item)
    if "label" in item and "turn" in item:  # a rating
        score, question = score_text(item["score"]), preview(item["question"])
        cells = (f"{item['turn']}.", score, item["label"], question, item["note"])
        return "  ".join(filter(None, cells))
    values = (counted(len(v), "message") if isinstance(v, list) else v for v in item.values())
    return "  ".join(str(value) for value in values if value)


def counted(number: int, noun: str, texts: Texts = ENGLISH) -> str:
    """Return a number with its noun, a row of the texts' `amounts`.

    >>> counted(1, "branch"), counted(2, "earlier_turn")
    ('1 branch', '2 earlier turns')
    """
    return texts.table("amounts")[noun if number != 1 else f"{noun}_one"].format(count=number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happens while a turn runs.

    `text` is a piece of the draft for `token`, and the whole for `notice` and `reply`. `data` has
    everything else as plain JSON. Only the event `reply` has a `reply`.
    """

    kind: EventKind
    text: str
    message_id: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    reply: Reply | None = None


def reply_event(reply: Reply) -> Event:
    """Return the last event of a turn, which carries the reply."""
    return Event(kind="reply", text=reply.text, message_id=reply.message_id, reply=reply)


def event_of(mode: str, chunk: Any) -> Event | None:
    """Return the event for a chunk of a graph's stream; `None` if users are not shown it.

    `mode` is LangGraph's stream mode, `custom` or `messages`.
    """
    if mode == "custom":
        if not isinstance(chunk, Mapping) or "unsay" not in chunk:
            return None
        data = {key: value for key, value in chunk.items() if key not in ("unsay", "message_id")}
        return Event(
            kind=chunk["unsay"],
            text=str(chunk.get("text", "")),
            message_id=chunk.get("message_id"),
            data=data,
        )
    message, metadata = chunk
    spoken_by_model = isinstance(message, AIMessage | AIMessageChunk) and not is_notice(message)
    if not spoken_by_model or metadata.get("langgraph_node") != "process_message":
        return None
    text = text_of(message)
    return Event(kind="token", text=text, message_id=message.id) if text else None


def reply_of(state: Mapping[str, Any], interrupts: tuple[Any, ...]) -> Reply:
    """Return the reply of the turn with which a state ends.

    With `interrupts` of the graph it is a decision that a person must take: about drafts, or what a
    tool or an agent of the host asks.
    """
    turn = state.get("turn")
    turn_id = turn["question_id"] if turn else None
    if not interrupts:
        reply = reply_to(state["messages"][-1], state.get("checkpoints", []))
        return replace(reply, turn_id=turn_id)
    request = interrupts[0].value
    # Tools and agents of the host interrupt with values of any shape.
    try:
        draft = request["action_requests"][0]["args"]
        is_draft = {"answer", "score"} <= set(draft)
    except (KeyError, IndexError, TypeError):
        is_draft = False
    if not is_draft:  # a tool or an agent asks for its own decision
        content = request if isinstance(request, Mapping) else {"value": request}
        return Reply(kind="decision", text="", message_id=None, request=content, turn_id=turn_id)
    return Reply(
        kind="decision",
        text=draft["answer"],
        message_id=None,
        score=draft["score"],
        outcome="failed",
        request=request,
        turn_id=turn_id,
    )


def reply_to(answer: AnyMessage, checkpoints: Sequence[StoredCheckpoint]) -> Reply:
    """Return the reply of the turn that ended with this answer or notice.

    If one of the `checkpoints` is at the answer, the reply has its id.
    """
    if is_notice(answer):
        return Reply(kind="notice", text=text_of(answer), message_id=answer.id)
    annotation = annotation_of(answer)
    own = (checkpoint["id"] for checkpoint in checkpoints if checkpoint["message_id"] == answer.id)
    return Reply(
        kind="answer",
        text=text_of(answer),
        message_id=answer.id,
        topic=annotation.get("topic", ""),
        checkpoint_id=next(own, None),
        **judged_fields(annotation),
    )


def judged_fields(annotation: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that `Reply` and `TimelineTurn` share, from an answer's annotation.

    An empty annotation gives those of a question that waits.
    """
    return {
        "score": annotation.get("score"),
        "outcome": annotation.get("outcome"),
        "reason": annotation.get("reason", ""),
        "topic_change": annotation.get("topic_change"),
        "flag": annotation.get("flag"),
        "rollbacks": annotation.get("rollbacks", 0),
        "removed": tuple(Removed(**each) for each in annotation.get("removed", ())),
        "checkpoints_removed": tuple(annotation.get("dropped_checkpoints", ())),
    }
