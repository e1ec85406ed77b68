"""The event log: what happened in a thread, as a chain of pages in the store."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from langgraph.store.base import BaseStore

from unsay.effects import Call, Steps
from unsay.errors import EventConflictError, EventLogGapError, InputError
from unsay.events.event_types import body_of
from unsay.storage.items import get_item, put_item, thread_namespace
from unsay.storage.pages import Chain, Page
from unsay.storage.pages import make_page as link
from unsay.storage.pagination import Slice, decode_cursor, encode_cursor, has_labels
from unsay.types import Event, EventType


class Head(TypedDict):
    """The end of an event log: what the state keeps of it, committed with the transcript.

    Pages that a crash left behind are not reached from it, and so do not count.
    """

    page_id: str | None
    count: int


EMPTY = Head(page_id=None, count=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """The outcome of adding an event."""

    head: Head
    inserted: bool


def event_log_namespace(thread_id: str) -> tuple[str, ...]:
    """Return the store's namespace for a thread's event log."""
    return thread_namespace("event_log", thread_id)


def event_chain(store: BaseStore, thread_id: str) -> Chain:
    """Return the chain of pages of a thread's event log."""
    return Chain(
        store=store, place=event_log_namespace(thread_id), name="the ledger", error=EventLogGapError
    )


def make_page(head: Head, events: Sequence[Event]) -> Page:
    """Make the page that continues an event log; the same events make the same page.

    Raises:
        InputError: There are no events.
    """
    if not events:
        raise InputError("A page of the ledger needs an event; write none when nothing happened")
    return link(head["page_id"], {"count": head["count"] + len(events)}, list(events))


def head_of(page: Page) -> Head:
    """Return the end of an event log whose newest page this is."""
    return Head(page_id=page.id, count=page.facts["count"])


def put_page(store: BaseStore, thread_id: str, page: Page) -> Call:
    """Make a call that writes a page; writing it again changes nothing."""
    return event_chain(store, thread_id).put(page)


def read_events(store: BaseStore, thread_id: str, head: Head) -> Steps[list[Event]]:
    """Read everything that happened in a thread, oldest first.

    Raises:
        EventLogGapError: A page is missing or was changed, or counts events it does not have.
    """
    chain = event_chain(store, thread_id)
    events: list[Event] = []
    for page in (yield from chain.read_all(head["page_id"])):
        events += chain.values(page)
        if len(events) != page.facts["count"]:
            raise chain.damaged(page.id)
    if len(events) != head["count"]:
        raise chain.damaged(head["page_id"])
    return events


def append(store: BaseStore, thread_id: str, head: Head, event: Event) -> Steps[Appended]:
    """Add one event with an id of the caller's own, once.

    The same event at another time is not added again; the head then stays the same.

    Raises:
        EventConflictError: The event log has another event with this id.
        EventLogGapError: A page of the event log is missing or was changed.
    """
    place, key = event_log_namespace(thread_id), f"event-{_digest(event['id'])}"
    body = _digest(body_of(event))
    known = yield get_item(store, place, key)
    if known is not None:
        # A crash before the commit leaves the key of an event whose page is not in the chain.
        pages = yield from event_chain(store, thread_id).read_all(head["page_id"])
        there = any(page.id == known.value["page"] for page in pages)
        if there and known.value["body"] != body:
            raise EventConflictError(
                f"The ledger has another event with the id {event['id']!r}: "
                "give this one an id of its own"
            )
        if there:
            return Appended(head=head, inserted=False)
    page = make_page(head, [event])
    yield put_page(store, thread_id, page)
    yield put_item(store, place, key, {"page": page.id, "body": body})
    return Appended(head=head_of(page), inserted=True)


def select(
    events: Sequence[Event],
    *,
    limit: int,
    run_id: str | None = None,
    types: Collection[EventType] | None = None,
    labels: Mapping[str, str] | None = None,
    cursor: str | None = None,
) -> Slice[Event]:
    """Return some of a thread's events, oldest first, from behind the page of a cursor.

    Raises:
        InputError: The limit or the cursor cannot be used.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InputError(f"limit={limit!r} is no page length: give a whole number from 1")
    start = 0 if cursor is None else _after(events, cursor)
    wanted = [
        index
        for index, event in enumerate(events)
        if index >= start
        and run_id in (None, event["run_id"])
        and (types is None or event["type"] in types)
        and has_labels(event["labels"], labels or {})
    ]
    page = wanted[:limit]
    return Slice(
        lines=tuple(events[index] for index in page),
        cursor=encode_cursor(page[-1], events[page[-1]]["id"]) if len(wanted) > limit else None,
    )


def _after(events: Sequence[Event], cursor: str) -> int:
    try:
        index, name = decode_cursor(cursor)
        if index >= 0 and events[index]["id"] == name:
            return int(index) + 1
    except (TypeError, ValueError, LookupError):
        pass
    raise InputError(
        f"cursor={cursor!r} is none of this ledger: give back the one that came with a page, "
        "or None for the first page"
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
