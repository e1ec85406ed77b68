"""How much of a long record is let go of: where the pages end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from langchain_core.messages import AnyMessage

from unsay.context.exclusions import told_topics
from unsay.context.topics import by_topic, current_topic_id, standing
from unsay.context.view import opened_topics
from unsay.effects import Steps
from unsay.errors import DatabaseCorruptError
from unsay.messages.boundaries import tail_places
from unsay.operations.pending import read_entry, unjudged
from unsay.operations.pin import in_order, pinned_pages, shown_of
from unsay.runtime import Scope
from unsay.state import State
from unsay.storage.segments import OffloadedSegment, read_page
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """Messages of the sealed part."""

    words: list[AnyMessage]
    """Those that views show, oldest first."""

    places: Mapping[str, int]
    """By id, where each stands on the record, from 1."""


def opened_words(state: State, scope: Scope) -> Steps[Earlier]:
    """What is sealed of the topics that views show, as far as the talk can return to it, and pins.

    A page that is missing or was changed is left out: the topic's summary tells of it.
    """
    segments = standing(state["messages"], state.get("segments", []))
    opened = opened_topics(segments, state.get("unfolded", []))
    known = told_topics(state.get("topics", []), state.get("forgotten", []))
    topics = [each for each in known if each["id"] in opened]
    of_topics = (name for each in topics for name in each.get("pages", []))
    pages: list[OffloadedSegment] = []
    for name in dict.fromkeys((*of_topics, *pinned_pages(state))):
        assert scope.store is not None and scope.thread_id is not None  # noqa: S101, PT018 - it has pages
        try:
            page = yield from read_page(scope.store, scope.thread_id, name)
        except DatabaseCorruptError as error:
            scope.tell("words_lost", error=str(error))
            continue
        pages.append(page)
    texts = scope.texts(state["messages"])
    words: list[AnyMessage] = []
    places: dict[str, int] = {}
    for page in in_order(pages):
        here = [each["id"] for each in topics if page.id in each.get("pages", [])]
        words += shown_of(page, here, state, texts)
        start = page.before["messages"] if page.before else 0
        places |= {m.id or "": place for place, m in enumerate(page.messages, start=start + 1)}
    shown = {message.id for message in words}
    return Earlier(words=words, places={name: n for name, n in places.items() if name in shown})
