"""detect_topic_change: the same topic, a new one, or back to an earlier one."""

from unsay.effects import Steps, user_call
from unsay.generation.judge import ask_intent
from unsay.history.branch import LiveBranch, replace_tail
from unsay.judging.topic_detector import check_shift
from unsay.memory.topics import KnownTopics, known_topics, nearest_topic, start_segment
from unsay.messages.content import text_of
from unsay.moves.restore import COMPARED
from unsay.protocols import TopicShift
from unsay.runtime import Scope
from unsay.state import State, Update
from unsay.transcript.live import live_branch


def detect_topic_change(state: State, scope: Scope) -> Steps[Update]:
    """Find the question's topic; if it is the first or another one, start a segment.

    The topics that were left are summarized. With `topics="model"` a model decides, here or with
    the verdict on the answer. On the same topic the update has only the similarity, and maybe a
    note in the turn that the judge decides. It is empty for a command, and with `topics="off"`. A
    detector or a model that fails is reported, and nothing is raised.
    """
    turn, request = state["turn"], state.get("rollback_request")
    is_command = turn["done"] or state.get("notice") or (request and request["kind"] != "context")
    if is_command or scope.settings.topics == "off":
        return Update()
    live = live_branch(state)
    question = text_of(next(m for m in live.messages if m.id == turn["question_id"]))
    if request:  # The topic is found in the transcript that the requested rollback will leave.
        live = replace_tail(live, request["to"], label=COMPARED, keep=turn["pending"]).live
    earlier_topics = known_topics(live, turn["pending"], question, state)
    shift = yield from _shift(earlier_topics, live, question, state, scope)
    update = Update(topic_similarity=shift.similarity if shift else None)
    if earlier_topics and scope.settings.judge_labels_topics:
        state = {**state, "turn": {**turn, "judge_labels": True}}
        update["turn"] = state["turn"]
    if shift is not None and shift.kind == "same":
        return update
    return {**update, **(yield from start_segment(state, scope, live, shift, question))}


def _shift(
    known: KnownTopics | None, live: LiveBranch, question: str, state: State, scope: Scope
) -> Steps[TopicShift | None]:
    """Return what the detector or the model decides; `None` only for a conversation's first question.

    On the same topic the kind is `same`. `known` is `None` if the current topic is forgotten:
    the question then begins a new topic.
    """
    if not live.segments:
        return None
    if known is None:
        # The current topic is forgotten. The detector must not see it, so that a new topic begins.
        return TopicShift(kind="new", similarity=0.0)
    shift = yield from _detected(scope, question, known)
    shift = yield from nearest_topic(question, known, shift, scope)
    if scope.settings.topics != "model" or scope.settings.judge_labels_topics:
        return shift
    key = f"{state['turn']['question_id']}-topic"
    return (yield from ask_intent(question, known, scope, detected=shift, key=key))


def _detected(scope: Scope, question: str, known: KnownTopics) -> Steps[TopicShift]:
    """Return what the detector decides about the question.

    If the detector fails, takes too long or returns something invalid, the question stays in its
    topic.
    """
    detect = scope.services.detector.detect
    try:
        shift = yield from user_call(detect, question, known.current, known.others)
        check_shift(shift, [topic.topic_id for topic in known.others])
    except Exception as error:  # noqa: BLE001 - a detector is anyone's code and may fail in any way
        scope.report_failure("topic_failed", error)
        return TopicShift(kind="same", similarity=0.0)
    return shift
