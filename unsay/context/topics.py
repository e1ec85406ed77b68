"""Which messages belong to which topic."""

from collections.abc import Sequence

from langchain_core.messages import AnyMessage

from unsay.transcript.marks import spoken
from unsay.transcript.text import text_of
from unsay.types import Segment, Topic, TopicMemory

MEMORY_TEXTS = 12
"""How many of a topic's newest texts a detector is shown."""

MEMORY_TOPICS = 8
"""How many topics a detector is shown, the most recent ones."""

TOPICS = 24
"""How many topics a thread tells apart at most."""

TOPICS_KEPT = 16
"""So many are left then: dropping one at a time would change each view's head. Source: own
measurement."""

TEXT_CHARS = 2_000
"""How much of one text a detector is shown, from its beginning."""


def current_topic_id(segments: Sequence[Segment]) -> str | None:
    """The topic under way; `None` before the first question."""
    return segments[-1]["topic_id"] if segments else None


def standing(messages: Sequence[AnyMessage], segments: Sequence[Segment]) -> list[Segment]:
    """The segments whose start is still on the record, in the record's order."""
    places = {message.id: index for index, message in enumerate(messages)}
    there = [each for each in segments if each["start"] in places]
    return sorted(there, key=lambda each: places[each["start"]])


def by_topic(
    messages: Sequence[AnyMessage], segments: Sequence[Segment]
) -> dict[str, list[AnyMessage]]:
    """The conversation's messages under the topic that each belongs to.

    Messages before the first segment belong to its topic; notices belong to none.
    """
    starts = {each["start"]: each["topic_id"] for each in segments}
    current = segments[0]["topic_id"] if segments else ""
    grouped: dict[str, list[AnyMessage]] = {}
    said = {message.id for message in spoken(messages)}
    for message in messages:
        current = starts.get(message.id or "", current)
        if message.id in said:
            grouped.setdefault(current, []).append(message)
    return grouped


def limited(topics: Sequence[Topic], segments: Sequence[Segment]) -> list[Topic]:
    """The topics; where they are too many, those that the talk was on last."""
    if len(topics) <= TOPICS:
        return list(topics)
    visited = dict.fromkeys(each["topic_id"] for each in reversed(segments))
    order = [*visited, *(each["id"] for each in reversed(topics) if each["id"] not in visited)]
    there = {each["id"] for each in topics}
    kept = [name for name in order if name in there][:TOPICS_KEPT]
    return [each for each in topics if each["id"] in kept]


def memories(
    messages: Sequence[AnyMessage], segments: Sequence[Segment], topics: Sequence[Topic] = ()
) -> list[TopicMemory]:
    """What a detector may know of each topic, the current one first, then the last left.

    Of a topic whose messages the state has let go of it is what their summary tells.

    Args:
        messages: Oldest first.
        segments: Which stretch belongs to which topic.
        topics: All of the thread's.
    """
    sealed = {each["id"]: words for each in topics if (words := each.get("sealed"))}
    named = [*(each["topic_id"] for each in reversed(segments)), *reversed(sealed)]
    grouped = by_topic(messages, segments)
    return [
        TopicMemory(
            topic_id=topic_id,
            texts=(
                *([sealed[topic_id][:TEXT_CHARS]] if topic_id in sealed else []),
                *_newest_texts(grouped.get(topic_id, [])),
            ),
        )
        for topic_id in list(dict.fromkeys(named))[:MEMORY_TOPICS]
    ]


def _newest_texts(messages: Sequence[AnyMessage]) -> list[str]:
    return [
        text[:TEXT_CHARS]
        for message in messages[-MEMORY_TEXTS:]
        if message.type in ("human", "ai") and (text := text_of(message)).strip()
    ]
