"""How much of a long record is let go of: where the pages end."""

from collections.abc import Sequence
from itertools import pairwise

from langchain_core.messages import AnyMessage

from unsay.context.topics import by_topic, current_topic_id, standing
from unsay.nodes.entry import read_entry, unjudged
from unsay.transcript.cut import tail_places
from unsay.types import Segment

PAGE_MESSAGES = 200
"""Most messages of a page, but for a turn that alone has more."""

LONGEST = 2
"""Past so many windows the words of the topic under way are sealed as well, and only told of."""


def first_waiting(messages: Sequence[AnyMessage], most: int) -> int:
    """Index of what waits for an answer, or of the first exchange that waits for a verdict.

    Args:
        messages: The record as far as the state holds it.
        most: How many exchanges one turn judges, the newest.
    """
    start = read_entry(messages, None).start
    entered = unjudged(messages, start)[-most:]
    return entered[0].start if entered else start


def page_ends(
    messages: Sequence[AnyMessage], segments: Sequence[Segment], *, limit: int, waiting: int
) -> list[int]:
    """Where the pages end that are to be sealed; none while the record fits its window.

    What belongs to no topic yet stays: nothing would tell of it.

    Args:
        messages: The record as far as the state holds it.
        segments: Which stretch belongs to which topic.
        limit: The window, in messages; half of it stays.
        waiting: Index from which nothing is let go of.
    """
    if len(messages) <= limit or not segments:
        return []
    most = min(len(messages) - limit // 2, waiting)
    if len(messages) <= LONGEST * limit:
        opened = _first_of(messages, segments, current_topic_id(segments))
        most = min(most, opened)
    if most < limit // 4:
        return []
    places = [each for each in tail_places(messages) if 0 < each <= most]
    bounds: list[int] = []
    for here, following in pairwise((*places, len(messages) + PAGE_MESSAGES)):
        start = bounds[-1] if bounds else 0
        if following - start > PAGE_MESSAGES or here == places[-1]:
            bounds.append(here)
    return bounds


def _first_of(
    messages: Sequence[AnyMessage], segments: Sequence[Segment], topic_id: str | None
) -> int:
    """Index of a topic's first message; the record's length where it has none."""
    if topic_id is None:
        return 0
    said = by_topic(messages, standing(messages, segments)).get(topic_id, [])
    first = said[0].id if said else None
    return next((i for i, m in enumerate(messages) if m.id == first), len(messages))
