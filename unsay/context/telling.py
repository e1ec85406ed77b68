"""Where a view tells of the topics that it does not show.

What was left before the topic under way began stands at the head. What was left
since stands where the talk returned to it. So a return finds in a provider's
cache all that was said on the topic, and another topic adds one summary at an end.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from langchain_core.messages import AnyMessage

from unsay.context.topics import standing
from unsay.types import Segment, Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Summaries of topics, each in the one place where a view tells it."""

    head: tuple[str, ...]
    """Before everything that was said, the topic left longest ago first."""

    before: Mapping[str, tuple[str, ...]]
    """By the id of a message, what stands right before it."""


def told(
    messages: Sequence[AnyMessage],
    segments: Sequence[Segment],
    topics: Sequence[Topic],
    opened: Collection[str],
) -> Told:
    """Place the summaries of the topics that a view does not show.

    Args:
        messages: The record as far as the state holds it.
        segments: Which stretch belongs to which topic.
        topics: With the summaries of those that were left.
        opened: Ids of the topics that are shown word for word; of these only what the
            state has let go of is told.
    """
    places = {message.id: index for index, message in enumerate(messages)}
    there = standing(messages, segments)
    starts = [each["start"] for each in there if each["topic_id"] in opened]
    head: list[str] = []
    before: dict[str, list[str]] = {}
    for left, words in sorted(_left(topics, opened, places), key=lambda each: each[0]):
        start = next((id_ for id_ in starts if places[id_] > left), None)
        told_at = head if start is None or start == starts[0] else before.setdefault(start, [])
        told_at.append(words)
    return Told(head=tuple(head), before={id_: tuple(each) for id_, each in before.items()})


def _left(
    topics: Sequence[Topic], opened: Collection[str], places: Mapping[str | None, int]
) -> list[tuple[int, str]]:
    """Each summary, and the index of the last message that it tells of."""
    found: list[tuple[int, str]] = []
    for topic in topics:
        summary = None if topic["id"] in opened else topic["summary"]
        if words := summary or topic.get("sealed"):
            found.append((places.get(topic["summarized_through"], -1) if summary else -1, words))
    return found
