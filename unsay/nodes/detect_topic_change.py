"""detect_topic_change: the same topic, a new one, or back to an earlier one."""

from collections.abc import Sequence
from typing import cast

from unsay.context.exclusions import forgotten_ids, forgotten_topics, remaining_topics, topic_starts
from unsay.context.topics import limited, live_segments, memories
from unsay.effects import Steps, user_call
from unsay.history.branch import LiveBranch, replace_tail
from unsay.judging.topic_detector import check_shift, label_of
from unsay.messages.content import text_of
from unsay.operations.compact import compact
from unsay.operations.restore import COMPARED
from unsay.operations.rollback import live_branch
from unsay.operations.state_history import add_note
from unsay.runtime import Scope
from unsay.state import State, Update
from unsay.topic_shift import TopicMemory, TopicShift
from unsay.types import Segment, Topic, TopicChange

# Most segments of a thread; beyond that the oldest are merged.
SEGMENTS = 48


def detect_topic_change(state: State, scope: Scope) -> Steps[Update]:
    """Find the question's topic; if it changed, start a segment and summarize the other topics.

    On the same topic the update has only `topic_similarity`. It is empty for a command, and with
    the setting `topics="off"`.
    """
    turn, request = state["turn"], state.get("rollback_request")
    is_command = turn["done"] or state.get("notice") or (request and request["kind"] != "context")
    if is_command or scope.settings.topics == "off":
        return Update()
    live = live_branch(state)
    question = text_of(next(m for m in live.messages if m.id == turn["question_id"]))
    if request:  # The topic is found in the transcript that the requested rollback will leave.
        live = replace_tail(live, request["to"], label=COMPARED, keep=turn["pending"]).live
    shift = yield from _shift(live, turn["pending"], question, state, scope)
    similarity = shift.similarity if shift else None
    if shift is not None and shift.kind == "same":
        return Update(topic_similarity=similarity)
    update = yield from _start_segment(state, scope, live, shift, question)
    return {**update, "topic_similarity": similarity}


def _shift(
    live: LiveBranch, pending: Sequence[str], question: str, state: State, scope: Scope
) -> Steps[TopicShift | None]:
    """Return what the detector decides; `None` for a conversation's first question.

    The first question begins the first topic. `pending` are the ids of the question's messages,
    which are not part of a topic yet.
    """
    if not live.segments:
        return None
    forgotten, current_id = state.get("forgotten", []), live.segments[-1]["topic_id"]
    # The detector must not see forgotten text, so that a question after it begins a new topic.
    if current_id in forgotten_topics(forgotten):
        return TopicShift(kind="new", similarity=0.0)
    before = [m for m in live.messages if m.id not in pending]
    hidden = forgotten_ids(before, live.segments, forgotten)
    starts, _ = topic_starts(before, live.segments, (), hidden)
    known = memories(
        [m for m in before if m.id not in hidden],
        starts,
        remaining_topics(state.get("topics", []), forgotten),
    )
    current = next((topic for topic in known if topic.topic_id == current_id), None)
    others = [topic for topic in known if topic.topic_id != current_id and topic.texts]
    if current is None or not current.texts:
        current = TopicMemory(topic_id=current_id, texts=(question,))
    return (yield from _detected(scope, question, current, others))


def _detected(
    scope: Scope, question: str, current: TopicMemory, others: Sequence[TopicMemory]
) -> Steps[TopicShift]:
    """Return what the detector decides about the question.

    If the detector fails, takes too long or returns something invalid, the question stays in its
    topic.
    """
    detect, limit = scope.services.detector.detect, scope.settings.part_timeout_seconds
    try:
        shift: TopicShift = yield user_call(
            detect, question, current, others, timeout_seconds=limit
        )
        check_shift(shift, [topic.topic_id for topic in others])
    except Exception as error:  # noqa: BLE001 - a detector is anyone's code and may fail in any way
        scope.report_failure("topic_failed", error)
        return TopicShift(kind="same", similarity=0.0)
    return shift


def _start_segment(
    state: State, scope: Scope, live: LiveBranch, shift: TopicShift | None, question: str
) -> Steps[Update]:
    """Start a segment of a new topic, or of the earlier one that the conversation returns to.

    Without a `shift` the question begins the first topic.
    """
    turn = state["turn"]
    change = cast("TopicChange | None", shift.kind if shift else None)
    kind = change or "new"
    topics = list(state.get("topics", []))
    topic_id = shift.topic_id if shift and kind == "back" else None
    if topic_id is None:
        # Not the count of topics: old ones are dropped, and no id may be used twice.
        number = 1 + max((int(topic["id"].split("-")[1]) for topic in topics), default=0)
        topic_id, label = f"topic-{number}", label_of(question)
        topics.append(Topic(id=topic_id, label=label, summary=None, summarized_through=None))
    first_pending = turn["pending"][0]
    start = Segment(topic_id=topic_id, start=first_pending)
    before = state["messages"][: live_branch(state).index_of(first_pending)]
    segments = [*live_segments(before, state.get("segments", [])), start][-SEGMENTS:]
    extended = LiveBranch(messages=live.messages, segments=(*live.segments, start))
    topics = yield from compact(extended, topics, scope, state.get("forgotten", []))
    label = next((t["label"] for t in topics if t["id"] == topic_id), label_of(question))
    scope.emit("topic", kind=kind, label=label, similarity=shift.similarity if shift else None)
    history = add_note({**state, "current_topic": label}, scope, "detect_topic_change", kind, None)
    return Update(
        topics=limited(topics, segments),
        segments=segments,
        current_topic=label,
        state_history=history,
        turn={**turn, "topic_change": change},
    )
