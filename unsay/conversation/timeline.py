"""A thread as a person sees it: its turns, checkpoints and branches."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    ToolCall,
    ToolMessage,
)

from unsay.context.manifest import ids_checksum, manifest_in
from unsay.context.topics import by_topic, forgotten_ids, forgotten_topics
from unsay.conversation.thread import ThreadHandle
from unsay.effects import Steps
from unsay.history.branch import branches_beside
from unsay.history.compensations import Entry, list_entries
from unsay.history.threads import load_pending_input
from unsay.memory.visibility import no_turn
from unsay.messages.annotations import (
    annotation_of,
    answer_of_turn,
    answers_by_turn,
    in_turns,
    is_question,
)
from unsay.messages.content import text_of
from unsay.orders.parse import command_of
from unsay.results.results import Checkpoint, judged_fields
from unsay.results.svg import mimebundle
from unsay.results.timeline import (
    PendingCall,
    PendingQuestion,
    RejectedDraft,
    TimelineData,
    TimelineTopic,
    TimelineTurn,
    UndoneCall,
    tree_text,
)
from unsay.state import State
from unsay.transcript.live import readable_branches
from unsay.turn.delivery import find_stored
from unsay.types import SCHEMA_VERSION, StoredBranch


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline(TimelineData):
    """The whole thread at one moment; prints as a tree, and notebooks show it as a picture."""

    def __str__(self) -> str:
        return tree_text(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        del include, exclude
        return mimebundle(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON, with `schema_version`."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}


def _turns_of(state: Mapping[str, Any]) -> list[TimelineTurn]:
    messages, entries = state.get("messages", []), state.get("forgotten", [])
    labels = {entry["id"]: entry["label"] for entry in state.get("topics", [])}
    grouped = by_topic(messages, state.get("segments", []))
    topics = {m.id: labels.get(topic, "") for topic, group in grouped.items() for m in group}
    forgotten = forgotten_ids(messages, state.get("segments", []), entries)
    pinned = {entry["message_id"] for entry in state.get("pins", [])}
    turns: list[TimelineTurn] = []
    waiting: AnyMessage | None = None
    step_ids: list[str] = []

    def add(question: AnyMessage | None, answer: AnyMessage | None) -> None:
        annotation = annotation_of(answer) if answer is not None else {}
        question_id = None if question is None else question.id
        message_id = question_id if answer is None else answer.id
        ids = {question_id, message_id} - {None}
        turn = TimelineTurn(
            number=len(turns) + 1,
            question="" if question is None else text_of(question),
            answer=None if answer is None else text_of(answer),
            message_id=message_id,
            question_id=question_id,
            topic=topics.get(message_id, ""),
            pinned=not pinned.isdisjoint(ids),
            forgotten=not forgotten.isdisjoint(ids),
            skipped=annotation.get("skipped", False),
            step_ids=tuple(step_ids),
            similarity=annotation.get("similarity"),
            **judged_fields(annotation),
        )
        step_ids.clear()
        turns.append(turn)

    answers_by_id = {each[0].id: answer_of_turn(each) for each in answers_by_turn(messages)}
    for message in in_turns(messages):
        if is_question(message):
            waiting = message
        elif message.id in answers_by_id:
            add(waiting, answers_by_id[message.id])
            waiting = None
        elif message.type in ("ai", "tool"):
            step_ids.append(message.id or "")
    if waiting is not None:
        add(waiting, None)
    return turns


def timeline(thread: ThreadHandle) -> Steps[Timeline]:
    """Return what a page shows of the thread: turns, rejected drafts, checkpoints, branches, topics."""
    snapshot = yield from thread.snapshot()
    pending_input = yield from load_pending_input(*thread.address)
    # The first question of a thread is stored before there is a transcript.
    is_new = bool(pending_input) and not snapshot.values.get("messages")
    state: Any = {"messages": []} if is_new else (yield from thread.load_whole_state())
    timeline_data = timeline_of(thread, state)
    entries = yield from list_entries(*thread.address, skip_damaged=True)
    refs = state.get("branches", [])
    names = [each["id"] for each in refs if each["kind"] in ("draft", "rejected")]
    rejected = yield from readable_branches(names, thread.scope(), refs)
    beside = {each["id"] for each in branches_beside(state["messages"], rejected)}
    delivered = {each["id"] for each in rejected} - beside
    pending = yield from _pending_of(
        thread, state, timeline_data.turns, pending_input, snapshot.interrupts
    )
    pending_messages = [HumanMessage(pending.question)] if pending else []
    return replace(
        timeline_data,
        language=thread.scope().language([*_worded(state), *pending_messages]),
        turns=_with_rejected(timeline_data.turns, rejected),
        branches=tuple(each for each in timeline_data.branches if each["id"] not in delivered),
        pending=pending,
        undone_calls=tuple(_undone_call(each) for each in entries if each.status in _RESULTS),
    )


def _with_rejected(
    turns: Sequence[TimelineTurn], branches: Sequence[StoredBranch]
) -> tuple[TimelineTurn, ...]:
    """Return the turns, the answered ones with their rejected drafts, which the branches keep."""
    drafts: dict[str, dict[str | None, RejectedDraft]] = {}
    for branch in branches:
        for message in branch["drafts"]:
            manifest = manifest_in(message)
            if manifest is not None and "outcome" in annotation_of(message):
                own = drafts.setdefault(manifest["question"], {})
                own[message.id] = _draft_of(message)
    new_turns = []
    for turn in turns:
        own = drafts.get(ids_checksum([turn.question_id or ""]), {})
        # The best of the failed drafts can be the answer.
        rejected = tuple(each for each in own.values() if each.message_id != turn.message_id)
        new_turns.append(turn if turn.answer is None else replace(turn, rejected=rejected))
    return tuple(new_turns)


def _draft_of(message: AnyMessage) -> RejectedDraft:
    annotation = annotation_of(message)
    return RejectedDraft(
        text=text_of(message),
        score=annotation.get("score"),
        reason=annotation.get("reason", ""),
        message_id=message.id,
    )


_RESULTS: Mapping[str, Literal["undone", "failed", "skipped", "unknown"]] = {
    "done": "undone",
    "failed": "failed",
    "skipped": "skipped",
    "running": "unknown",
}
"""What a compensation's status says of a call; with another status nothing was to be undone yet."""


def _undone_call(entry: Entry) -> UndoneCall:
    call = entry.compensation
    return UndoneCall(
        tool=call.tool,
        tool_call_id=call.tool_call_id,
        description=call.description,
        result=_RESULTS[entry.status],
        reason=entry.error,
    )


def _pending_of(
    thread: ThreadHandle,
    state: State,
    turns: Sequence[TimelineTurn],
    stored: Sequence[BaseMessage],
    interrupts: Sequence[Any],
) -> Steps[PendingQuestion | None]:
    """Return the question that waits, in the transcript or still in the pending input (`stored`).

    `None` if no question waits.
    """
    message_ids, settings = {message.id for message in state["messages"]}, thread.scope().settings
    waiting = [
        m for m in stored if m.id not in message_ids and command_of([m], m, settings) is None
    ]
    turn = state.get("turn")
    if turns and turns[-1].answer is None:
        question, question_id = turns[-1].question, turns[-1].question_id
    elif waiting:
        question, question_id = text_of(waiting[-1]), waiting[-1].id
    else:
        return None
    drafts: list[list[AnyMessage]] = []
    under_way: list[AnyMessage] = []
    if turn and turn["question_id"] == question_id:
        drafts = [each["messages"] for each in turn["rejections"]]
        stored_draft = yield from find_stored(thread.scope(), state)
        under_way = stored_draft[0]["messages"] if stored_draft else []
    return PendingQuestion(
        question=question,
        question_id=question_id,
        request=interrupts[0].value if interrupts else None,
        rejected=tuple(_draft_of(draft[-1]) for draft in drafts),
        calls=_calls_in([message for draft in (*drafts, under_way) for message in draft]),
    )


def _calls_in(messages: Sequence[AnyMessage]) -> tuple[PendingCall, ...]:
    """Return the tool calls in messages of drafts, of which later ones may repeat earlier steps."""
    results = {m.tool_call_id: m for m in messages if isinstance(m, ToolMessage)}
    calls = {c["id"]: c for m in messages if isinstance(m, AIMessage) for c in m.tool_calls}
    return tuple(_call_with(call, results.get(name or "")) for name, call in calls.items())


def _call_with(call: ToolCall, result: ToolMessage | None) -> PendingCall:
    return PendingCall(
        call_id=call["id"],
        name=call["name"],
        args=call["args"],
        status=None if result is None else result.status,
        text=None if result is None else text_of(result),
    )


def timeline_of(thread: ThreadHandle, state: Mapping[str, Any]) -> Timeline:
    """Return the timeline of a whole transcript; `pending`, `undone_calls`, `rejected` are not set."""
    settings = thread.scope().settings
    segments, forgotten = state.get("segments", []), state.get("forgotten", [])
    present = {segment["topic_id"] for segment in segments}
    current = segments[-1]["topic_id"] if segments else None
    hidden = forgotten_topics(forgotten)
    topics = [
        TimelineTopic(
            label=topic["label"],
            summarized=topic["id"] != current,
            summary=topic["summary"] if topic["id"] != current else None,
            forgotten=topic["id"] in hidden,
        )
        for topic in state.get("topics", [])
        if topic["id"] in present
    ]
    # A branch in the state can hold whole messages, which are no JSON.
    refs = [{k: v for k, v in ref.items() if k != "body"} for ref in state.get("branches", [])]
    return Timeline(
        thread_id=thread.thread_id,
        turns=tuple(_turns_of(state)),
        checkpoints=tuple(map(Checkpoint.of, state.get("checkpoints", []))),
        branches=tuple(refs),  # type: ignore[arg-type]
        topics=tuple(topics),
        current_topic=state.get("current_topic", ""),
        quality_threshold=settings.quality_threshold,
        checkpoint_threshold=settings.checkpoint_threshold,
        pins=tuple(state.get("pins", [])),
        forgotten=tuple(forgotten),
        language=thread.scope().language(_worded(state)),
    )


def _worded(state: Mapping[str, Any]) -> list[AnyMessage]:
    """Return the messages; of an emptied thread, one with the topics that it had."""
    topics = (entry["topic"] for entry in state.get("state_history", []))
    return list(state.get("messages", [])) or [AIMessage(" ".join(topics))]


def asked_turn(turns: Sequence[TimelineTurn], number: int | None) -> TimelineTurn:
    """Return the turn with this number that a question began; `None` takes the last.

    Raises `UnknownTurnError` if there is none.
    """
    matches = [turn for turn in turns if turn.question_id]
    if number is not None:
        matches = [turn for turn in matches if turn.number == number]
    if not matches:
        raise no_turn(number, 0 if number is None else len(turns))
    return matches[-1]
