"""The event log: what happened in a thread, stored as a chain of pages."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from langgraph.store.base import BaseStore

from unsay.effects import Call, Steps
from unsay.errors import EventConflictError, InputError
from unsay.events.bodies import bodies_in
from unsay.events.event_types import body_of
from unsay.phrases import Option
from unsay.storage.items import digest_of, get_item, put_item
from unsay.storage.pages import EMPTY, Head, Page, event_chain, event_log_namespace
from unsay.storage.pages import make_page as link
from unsay.storage.pagination import Slice, decode_cursor, encode_cursor, has_labels
from unsay.types import Event, EventType

# Fewest events of a page that another one of the same step follows.
PAGE_EVENTS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """The result of `append`: the new end of the log, and whether the event was added.

    If the event was there already, `inserted` is false and the end is the old one.
    """

    head: Head
    inserted: bool


def make_page(
    head: Head,
    events: Sequence[Event],
    *,
    end: int | None = None,
    copies: Mapping[int, int] = MappingProxyType({}),
) -> Page:
    """Return the page that continues an event log after `head`; nothing is stored yet.

    `end` is the position behind its bodies; `None` counts them. `copies` has, by the position of a body
    whose annotation alone is new, the position of the same message before. Equal arguments make an equal
    page. Raises `InputError` without events, or for one that cannot be stored.
    """
    if not events:
        raise InputError("events=() makes no page of the event log: give 1 event or more")
    first = head["next"]
    if end is None:
        bodies = bodies_in((event["type"], event["data"]) for event in events)
        end = first + sum(1 for _ in bodies)
    facts: dict[str, Any] = {"count": head["count"] + len(events), "first": first, "next": end}
    if inside := [pair for pair in sorted(copies.items()) if first <= pair[0] < end]:
        facts["copies"] = inside
    return link(head["page_id"], facts, list(events))


def make_pages(
    head: Head, events: Sequence[Event], end: int, copies: Mapping[int, int]
) -> tuple[list[Page], Head]:
    """Return the pages that continue an event log after `head`, oldest first, and the new head.

    Nothing is stored yet. Many messages that entered at once are divided at questions. The arguments
    are those of `make_page`.
    """
    starts = [0]
    for index, event in enumerate(events):
        if event["type"] == "user_message" and index - starts[-1] >= PAGE_EVENTS:
            starts.append(index)
    pages: list[Page] = []
    for start, stop in pairwise((*starts, len(events))):
        known_end = end if len(starts) == 1 else None
        pages.append(make_page(head, events[start:stop], end=known_end, copies=copies))
        head = head_of(pages[-1], head)
    return pages, head


def head_of(page: Page, before: Head = EMPTY) -> Head:
    """Return the `Head`, that is the end, of the event log whose newest page is `page`.

    `before` is the end that the page continues.
    """
    return Head(
        page_id=page.id,
        count=page.facts["count"],
        next=page.facts["next"],
        packed=before["packed"],
        loose=before["loose"] + 1,
    )


def put_pages(store: BaseStore, thread_id: str, pages: Sequence[Page]) -> Call[object]:
    """Return a call that writes pages; repeating it changes nothing."""
    return event_chain(store, thread_id).put(*pages)


def read_events(store: BaseStore, thread_id: str, head: Head) -> Steps[list[Event]]:
    """Read all events up to `head`, oldest first; an empty list for an empty log.

    Raises `EventLogGapError` if an event is missing or was changed.
    """
    chain = event_chain(store, thread_id)
    events: list[Event] = []
    for page in (yield from chain.read_all(head)):
        events += chain.values(page)
        if len(events) != page.facts["count"]:
            raise chain.damaged(page.id)
    if len(events) != head["count"]:
        raise chain.damaged(head["page_id"])
    return events


def append(store: BaseStore, thread_id: str, head: Head, event: Event) -> Steps[Appended]:
    """Store an event once and return the new end of the log, which the caller commits.

    `head` is the end that the state has. An event that is in the log already is not added again,
    even if its time differs.

    Raises:
        InputError: The event cannot be stored.
        EventConflictError: A different event has this id.
        EventLogGapError: The id is known, and a page of the log is missing or was changed.
    """
    namespace, key = event_log_namespace(thread_id), f"event-{digest_of(event['id'])}"
    body = digest_of(body_of(event))
    item = yield from get_item(store, namespace, key)
    if item is not None:
        # A crash before the commit leaves the key of an event whose page is not in the chain:
        # only a page that can be reached from the committed head proves that the event is there.
        pages = yield from event_chain(store, thread_id).read_all(head)
        there = any(page.id == item.value["page"] for page in pages)
        if there and item.value["body"] != body:
            raise EventConflictError(
                f"The event log has another event with the id {event['id']!r}: "
                "give this event a different id"
            )
        if there:
            return Appended(head=head, inserted=False)
    page = make_page(head, [event])
    # The page comes first: a crash in between leaves a page that nothing refers to. The other way
    # round, the key would name a page that does not exist.
    yield from put_pages(store, thread_id, [page])
    yield from put_item(store, namespace, key, {"page": page.id, "body": body})
    return Appended(head=head_of(page, head), inserted=True)


def select(
    events: Sequence[Event],
    *,
    limit: int,
    run_id: str | None = None,
    types: Collection[EventType] | None = None,
    labels: Mapping[str, str] | None = None,
    cursor: str | None = None,
) -> Slice[Event]:
    """Return the first `limit` events after `cursor` that match all filters, oldest first.

    `cursor` is the one of the previous slice; `None` starts at the first event. A filter that is
    `None` matches every event; an event must have all the `labels` with the same values. The
    slice's own cursor is `None` if no other event matches. Raises `InputError` if `limit` is
    under 1 or the cursor is of other events.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InputError(f"limit={limit!r} is not a page length: give a whole number, 1 or more")
    start = 0 if cursor is None else _after(events, cursor)
    indices = [
        index
        for index, event in enumerate(events)
        if index >= start
        and run_id in (None, event["run_id"])
        and (types is None or event["type"] in types)
        and has_labels(event["labels"], labels or {})
    ]
    page = indices[:limit]
    return Slice(
        items=tuple(events[index] for index in page),
        cursor=encode_cursor(page[-1], events[page[-1]]["id"]) if len(indices) > limit else None,
    )


def _after(events: Sequence[Event], cursor: str) -> int:
    """Return the index after the event that a cursor names; `InputError` if it names none."""
    with suppress(TypeError, ValueError, LookupError):
        index, name = decode_cursor(cursor)
        if index >= 0 and events[index]["id"] == name:
            return int(index) + 1
    raise InputError(code="strange_cursor", option=Option("cursor", cursor))
