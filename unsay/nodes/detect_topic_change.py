"""detect_topic_change: the same topic, a new one, or back to an earlier one."""

from collections.abc import Sequence

from unsay.context.exclusions import forgotten_ids, forgotten_topics, remaining_topics, topic_starts
from unsay.context.topics import limited, live_segments, memories
from unsay.effects import Steps
from unsay.history.branch import LiveBranch, replace_tail
from unsay.judging.topic_detector import label_of
from unsay.messages.content import text_of
from unsay.operations.compact import compact
from unsay.operations.restore import COMPARED
from unsay.operations.rollback import live_branch, note
from unsay.runtime import Scope
from unsay.state import State, Update
from unsay.types import Segment, Topic, TopicMemory, TopicShift

SEGMENTS = 48
"""Most segments of a thread; beyond that the oldest are merged."""


def detect_topic_change(state: State, scope: Scope) -> Steps[Update]:
    """Find the topic of the pending question, and compact the topics that were left."""
    turn, move = state["turn"], state.get("rollback_request")
    if turn["done"] or state.get("notice") or (move and move["kind"] != "context"):
        return Update()
    if scope.settings.topics == "off":
        return Update()
    live = live_branch(state)
    kept = live
    if move:  # as the transcript will be after the rollback that is due
        kept = replace_tail(live, move["to"], label=COMPARED, keep=turn["pending"]).live
    question = next(m for m in live.messages if m.id == turn["question_id"])
    shift = _shift(kept, turn["pending"], text_of(question), state, scope)
    if shift is None or shift.kind != "same":
        return (yield from _change(state, scope, kept, shift, text_of(question)))
    return Update()


def _shift(
    live: LiveBranch, pending: Sequence[str], question: str, state: State, scope: Scope
) -> TopicShift | None:
    """The detector's finding; `None` for a conversation's first question.

    It does not see what is forgotten: what follows a forgotten topic is a new one.
    """
    if not live.segments:
        return None
    forgotten, here = state.get("forgotten", []), live.segments[-1]["topic_id"]
    if here in forgotten_topics(forgotten):
        return TopicShift(kind="new", similarity=0.0)
    before = [m for m in live.messages if m.id not in pending]
    out = forgotten_ids(before, live.segments, forgotten)
    known = memories(
        [m for m in before if m.id not in out],
        topic_starts(before, live.segments, (), out).segments,
        remaining_topics(state.get("topics", []), forgotten),
    )
    current = next((each for each in known if each.topic_id == here), None)
    others = [each for each in known if each.topic_id != here and each.texts]
    if current is None or not current.texts:
        current = TopicMemory(topic_id=here, texts=(question,))
    return scope.services.detector.detect(question, current, others)


def _change(
    state: State, scope: Scope, live: LiveBranch, shift: TopicShift | None, question: str
) -> Steps[Update]:
    """Start a segment of a new topic, or of the one that the conversation returns to."""
    turn = state["turn"]
    topics = list(state.get("topics", []))
    topic_id = shift.topic_id if shift and shift.kind == "back" else None
    if topic_id is None:
        topic_id = f"topic-{1 + max((int(t['id'].split('-')[1]) for t in topics), default=0)}"
        topics.append(
            Topic(id=topic_id, label=label_of(question), summary=None, summarized_through=None)
        )
    start = Segment(topic_id=topic_id, start=turn["pending"][0])
    before = [*state["messages"][: live_branch(state).index_of(turn["pending"][0])]]
    segments = [*live_segments(before, state.get("segments", [])), start][-SEGMENTS:]
    shown = LiveBranch(messages=live.messages, segments=(*live.segments, start))
    topics = yield from compact(shown, topics, scope, state.get("forgotten", []))
    labels = {each["id"]: each["label"] for each in topics}
    label = labels.get(topic_id, label_of(question))
    kind = shift.kind if shift else "new"
    scope.tell("topic", kind=kind, label=label, similarity=shift.similarity if shift else None)
    history = note({**state, "current_topic": label}, scope, "detect_topic_change", kind, None)
    return Update(
        topics=limited(topics, segments),
        segments=segments,
        current_topic=label,
        state_history=history,
        turn={**turn, "new_topic": shift is not None and kind == "new"},
    )
