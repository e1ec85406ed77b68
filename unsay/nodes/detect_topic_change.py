"""detect_topic_change: same subject, a new one, or back to an earlier one."""

from collections.abc import Sequence

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage

from unsay.context.topics import by_topic, current_topic_id, memories, standing
from unsay.effects import Steps
from unsay.history.line import Line
from unsay.judging.labels import label_of
from unsay.nodes.logbook import log_fold
from unsay.nodes.moves import line_of, note
from unsay.prompts.catalogue import Fence
from unsay.prompts.texts import Texts
from unsay.services import Scope
from unsay.state import State, Update
from unsay.transcript.marks import is_question
from unsay.transcript.text import preview, text_of
from unsay.types import Segment, Topic, TopicMemory, TopicShift

SEGMENTS = 48
"""How many stretches a thread tells apart; the oldest run together past that."""

TOPICS = 24
"""How many topics a thread tells apart; those left longest ago are forgotten past that."""

SUMMARY_CHARS = 1_500
"""Longest summary of one topic that a view carries, in characters."""

MATERIAL_CHARS = 24_000
"""How much of a topic a summarizer is shown, its newest part."""


def detect_topic_change(state: State, scope: Scope) -> Steps[Update]:
    """Place the pending question among the topics, and fold what was left."""
    turn, move = state["turn"], state.get("move")
    if turn["done"] or state.get("notice") or (move and move["kind"] != "context"):
        return Update()
    if scope.settings.topics == "off":
        return Update()
    line = line_of(state)
    kept = _kept(line, move["to"], turn["pending"]) if move else line
    question = next(m for m in line.messages if m.id == turn["question_id"])
    shift = _shift(kept, turn["pending"], text_of(question), scope)
    if shift is None or shift.kind != "same":
        return (yield from _change(state, scope, kept, shift, text_of(question)))
    return Update()


def _kept(line: Line, base: str | None, pending: Sequence[str]) -> Line:
    """The line as it will be once the rollback that is due has been made."""
    stays = {m.id for m in line.messages[: line.index_of(base) + 1]} | set(pending)
    return Line(
        messages=tuple(m for m in line.messages if m.id in stays),
        segments=tuple(each for each in line.segments if each["start"] in stays),
    )


def _shift(line: Line, pending: Sequence[str], question: str, scope: Scope) -> TopicShift | None:
    """The detector's finding; `None` for a conversation's first question."""
    if not line.segments:
        return None
    before = [m for m in line.messages if m.id not in pending]
    known = memories(before, line.segments)
    current, others = known[0], [each for each in known[1:] if each.texts]
    if not current.texts:
        current = TopicMemory(topic_id=current.topic_id, texts=(question,))
    return scope.services.detector.detect(question, current, others)


def _change(
    state: State, scope: Scope, line: Line, shift: TopicShift | None, question: str
) -> Steps[Update]:
    """Start a segment, of a new topic or of the one that the talk returns to."""
    turn = state["turn"]
    topics = list(state.get("topics", []))
    topic_id = shift.topic_id if shift and shift.kind == "back" else None
    if topic_id is None:
        topic_id = f"topic-{1 + max((int(t['id'].split('-')[1]) for t in topics), default=0)}"
        topics.append(
            Topic(id=topic_id, label=label_of(question), summary=None, summarized_through=None)
        )
    start = Segment(topic_id=topic_id, start=turn["pending"][0])
    before = [*state["messages"][: line_of(state).index_of(turn["pending"][0])]]
    segments = [*standing(before, state.get("segments", [])), start][-SEGMENTS:]
    shown = Line(messages=line.messages, segments=(*line.segments, start))
    topics = yield from _fold(shown, topics, scope)
    labels = {each["id"]: each["label"] for each in topics}
    label = labels.get(topic_id, label_of(question))
    kind = shift.kind if shift else "new"
    scope.tell("topic", kind=kind, label=label, similarity=shift.similarity if shift else None)
    history = note({**state, "current_topic": label}, scope, "detect_topic_change", kind, None)
    return Update(
        topics=topics[-TOPICS:],
        segments=segments,
        current_topic=label,
        state_history=history,
        turn={**turn, "new_topic": shift is not None and kind == "new"},
    )


def _fold(line: Line, topics: Sequence[Topic], scope: Scope) -> Steps[list[Topic]]:
    """Summarize each topic that is not under way and has grown since its last summary."""
    current = current_topic_id(line.segments)
    grouped = by_topic(line.messages, line.segments)
    folded: list[Topic] = []
    for topic in topics:
        said = grouped.get(topic["id"], [])
        if topic["id"] == current or not said or said[-1].id == topic["summarized_through"]:
            folded.append(topic)
            continue
        summary = yield from _summary(said, scope)
        folded.append({**topic, "summary": summary, "summarized_through": said[-1].id})
        log_fold(scope, folded[-1])
        scope.tell("fold", label=topic["label"], messages=len(said), summary=summary)
    return folded


def _summary(messages: list[AnyMessage], scope: Scope) -> Steps[str]:
    """A summary by the summarizer, or the local one where there is none or it fails."""
    texts = scope.texts(messages)
    local = local_summary(messages, texts)
    try:
        summarizer = yield scope.resolve("summarizer")
        if summarizer is None:
            return local
        said = "\n".join(f"{m.type}: {text_of(m)}" for m in messages)[-MATERIAL_CHARS:]
        material = Fence.around(said).mark("conversation", said)
        request = [
            SystemMessage(texts.summary_system),
            HumanMessage(texts.summary_request.format(material=material)),
        ]
        limit = scope.settings.judge_timeout_seconds
        reply = yield scope.ask(summarizer, request, quiet=True, aside=True, timeout_seconds=limit)
    except Exception as error:  # noqa: BLE001 - a summarizer is anyone's code; folding needs none
        scope.tell("summary_failed", error=f"{type(error).__name__}: {error}"[:300])
        return local
    written = (reply if isinstance(reply, str) else text_of(reply)).strip()
    return written[:SUMMARY_CHARS] or local


def local_summary(messages: Sequence[AnyMessage], texts: Texts) -> str:
    """What was asked, in the user's own words, shortened: a summary without a model."""
    questions = [preview(text_of(m), 120) for m in messages if is_question(m)]
    return texts.local_summary.format(questions=" / ".join(questions))[:SUMMARY_CHARS]
