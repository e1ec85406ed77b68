"""The event log: what happened in a thread, stored as a chain of pages."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from langgraph.store.base import BaseStore
from typing_extensions import TypedDict

from unsay.effects import Call, Steps
from unsay.errors import EventConflictError, EventLogGapError, InputError
from unsay.events.event_types import body_of
from unsay.phrases import Option
from unsay.storage.items import digest_of, get_item, put_item, thread_namespace
from unsay.storage.pages import Chain, Page
from unsay.storage.pages import make_page as link
from unsay.storage.pagination import Slice, decode_cursor, encode_cursor, has_labels
from unsay.types import Event, EventType


class Head(TypedDict):
    """The end of an event log: the id of its newest page and the number of its events.

    The state keeps it and commits it with the transcript. Pages that a crash left behind cannot be
    reached from it, and therefore do not count. `page_id` is `None` for an empty log.
    """

    page_id: str | None
    count: int


EMPTY = Head(page_id=None, count=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """The result of `append`: the new end of the log, and whether the event was added.

    If the event was there already, `inserted` is false and the end is the old one.
    """

    head: Head
    inserted: bool


event_log_namespace = partial(thread_namespace, "event_log")


def event_chain(store: BaseStore, thread_id: str) -> Chain:
    """Return the chain of pages of a thread's event log; nothing is read yet."""
    return Chain(
        store=store,
        namespace=event_log_namespace(thread_id),
        name="the event log",
        error=EventLogGapError,
    )


def make_page(head: Head, events: Sequence[Event]) -> Page:
    """Return the page that continues an event log after `head`; nothing is stored yet.

    Equal arguments make an equal page. Raises `InputError` without events, or for one that cannot be
    stored.
    """
    if not events:
        raise InputError("events=() makes no page of the event log: give 1 event or more")
    return link(head["page_id"], {"count": head["count"] + len(events)}, list(events))


def head_of(page: Page) -> Head:
    """Return the `Head`, that is the end, of the event log whose newest page is `page`."""
    return Head(page_id=page.id, count=page.facts["count"])


def put_page(store: BaseStore, thread_id: str, page: Page) -> Call[object]:
    """Return a call that writes a page; repeating it changes nothing."""
    return event_chain(store, thread_id).put(page)


def read_events(store: BaseStore, thread_id: str, head: Head) -> Steps[list[Event]]:
    """Read all events up to `head`, oldest first; an empty list for an empty log.

    Raises `EventLogGapError` if an event is missing or was changed.
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
        pages = yield from event_chain(store, thread_id).read_all(head["page_id"])
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
    yield from put_page(store, thread_id, page)
    yield from put_item(store, namespace, key, {"page": page.id, "body": body})
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
