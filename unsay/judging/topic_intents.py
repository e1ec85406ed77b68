"""Intents of a question, by which a model says whether the topic changes.

A model that names the intent of a turn finds changes far better than one that is asked for them. On
TIAGE GPT-4o has F1 .70 with intents and .19 without. Source: Def-DTS, arXiv 2505.21033, table 3.
"""

from collections.abc import Collection, Sequence

from langchain_core.messages import AnyMessage

from unsay.errors import ModelReplyError
from unsay.judging.verdict import request_of, topics_shown
from unsay.prompts.fields import Texts
from unsay.topic_shift import ShiftKind, TopicShift

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
    return request_of(texts.intent_system, texts.intent_request, parts)


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
