"""Topics by a model: the intent of a question, asked for alone or with the verdict on its answer."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from langchain_core.messages import AnyMessage

from unsay.effects import Steps
from unsay.errors import ModelReplyError
from unsay.generation.judge import ask_plainly, texts_for
from unsay.judging.scores import read_reply
from unsay.judging.verdict import request_of, topics_shown
from unsay.memory.topics import KnownTopics, correct_topic, known_topics
from unsay.messages.content import text_of
from unsay.prompts.catalogue import Texts
from unsay.protocols import ShiftKind, TopicShift, Verdict
from unsay.runtime import Scope
from unsay.state import State, Update
from unsay.transcript.live import live_branch

# What each intent means for the topic. Source: Def-DTS; the return is our own.
SHIFTS: dict[str, ShiftKind] = {
    "JUST_COMMENT": "same",
    "JUST_ANSWER": "same",
    "DEVELOP_TOPIC": "same",
    "INTRODUCE_TOPIC": "new",
    "CHANGE_TOPIC": "new",
    "RETURN_TO_TOPIC": "back",
}


def intent_request(
    question: str, topics: Sequence[tuple[str, tuple[str, ...]]], texts: Texts
) -> list[AnyMessage]:
    """Return the request for the intent of a question; `topics` are those of an `Exchange`."""
    parts = {"topics": topics_shown(topics, texts), "question": question}
    return request_of(texts.say("intent_system"), parts, texts, task="intent_request")


def shift_of(
    intent: str, topic_id: str, others: Collection[str], *, similarity: float
) -> TopicShift:
    """Return the change of topic that an intent means.

    Args:
        intent: As a model wrote it.
        topic_id: The earlier topic that the model named, for a return.
        others: Ids of the earlier topics.
        similarity: For the result.

    Raises:
        ModelReplyError: The intent is unknown, or a return names no earlier topic.
    """
    kind = SHIFTS.get(intent.strip().upper())
    if kind is None:
        raise ModelReplyError(f"The model's intent is {intent!r}, not one of {', '.join(SHIFTS)}")
    if kind == "back" and topic_id not in others:
        raise ModelReplyError(f"The model returns to topic {topic_id!r}, which does not exist")
    return TopicShift(
        kind=kind, similarity=similarity, topic_id=topic_id if kind == "back" else None
    )


Topics = tuple[tuple[str, tuple[str, ...]], ...]


def ask_intent(
    question: str, known: KnownTopics, scope: Scope, *, detected: TopicShift, key: str
) -> Steps[TopicShift]:
    """Ask the judge's model for the intent of a question, and return the change that it means.

    `known` are the current topic and the earlier ones. If the model fails, its reply cannot be
    used or a budget is used up, nothing is raised: the result is what the detector has `detected`,
    and the reason is reported. `key` identifies the call, so that it is paid once after a crash.
    """
    try:
        request = intent_request(question, _as_material(known), texts_for(question, scope))
        parsed_reply = read_reply(
            (yield from ask_plainly(request, scope, key=key)), needed="intent"
        )
        others = [topic.topic_id for topic in known.others]
        return shift_of(
            parsed_reply.intent, parsed_reply.topic, others, similarity=detected.similarity
        )
    except Exception as error:  # noqa: BLE001 - a judge is anyone's code and may fail in any way
        scope.report_failure("topic_failed", error)
        return detected


def topics_to_label(state: State) -> Topics:
    """Return the topics that the judge needs to label the turn's question.

    Empty if the topic is not left to the judge of the answer.
    """
    topics = _known(state)
    return () if topics is None else _as_material(topics)


def label_topic(state: State, scope: Scope, verdict: Verdict) -> Steps[Update]:
    """Return the update that gives the question the topic that the judge named in its verdict.

    The update is empty if the judge was not asked, or agrees with the detector; also if the judge
    failed or its intent cannot be used, and then the reason is reported.
    """
    topics = _known(state)
    if topics is None or verdict.skipped or verdict.source != "model":
        return Update()
    similarity = state.get("topic_similarity") or 0.0
    try:
        if verdict.outcome == "unscored":
            raise ModelReplyError(verdict.reason)
        others = [topic.topic_id for topic in topics.others]
        shift = shift_of(verdict.intent, verdict.returns_to, others, similarity=similarity)
    except ModelReplyError as error:
        scope.report_failure("topic_failed", error)
        return Update()
    return (yield from correct_topic(state, scope, shift, _question(state)))


def _known(state: State) -> KnownTopics | None:
    turn = state["turn"]
    if not turn.get("judge_labels"):
        return None
    live, pending = live_branch(state), turn["pending"]
    # Without the segment that the detector began before the answer.
    before = tuple(each for each in live.segments if each["start"] not in pending)
    return known_topics(replace(live, segments=before), pending, _question(state), state)


def _question(state: State) -> str:
    return text_of(next(m for m in state["messages"] if m.id == state["turn"]["question_id"]))


def _as_material(known: KnownTopics) -> Topics:
    return tuple((topic.topic_id, topic.texts) for topic in (known.current, *known.others))
