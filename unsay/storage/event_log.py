"""The ledger's pages in a store, each naming the one before by what is in it."""

import hashlib
import json
import zlib
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, cast

from langgraph.store.base import BaseStore, Item

from unsay.effects import Call, Steps
from unsay.errors import DatabaseCorruptError, EventConflictError, InputError, LedgerGapError
from unsay.events.event_types import body_of
from unsay.storage.items import (
    BACKUP,
    bytes_of,
    drop_items,
    freeze,
    get_item,
    put_item,
    thaw,
    thread_namespace,
    unpacked,
)
from unsay.storage.pagination import has_labels, scan
from unsay.types import Event, EventType


class Head(TypedDict):
    """The end of a ledger: what the state keeps of it, committed with the record.

    Pages that a crash left behind are not reached from it, and so do not count.
    """

    page_id: str | None
    """Of the newest page; `None` while there is none."""

    count: int
    """Of all events up to there."""


EMPTY = Head(page_id=None, count=0)
"""The end of a ledger in which nothing happened yet."""


TOGETHER = 1_000
"""Most pages that are put together at once."""


WORTH_IT = 16
"""Fewest that are."""


class Page(TypedDict):
    """Some events that follow each other, as the store keeps them."""

    id: str
    """Follows from everything else here."""

    previous: str | None
    """Id of the page before; `None` for the first."""

    first: int
    """How many events stand before."""

    count: int
    """How many events it holds."""

    events: str | bytes
    """The events, frozen, or as the bytes that were frozen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """What became of an event that was to be added."""

    head: Head
    """The end of the ledger now."""

    inserted: bool
    """Whether it was new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    """Some of the events that were asked for."""

    events: tuple[Event, ...]
    """Oldest first."""

    cursor: str | None
    """To ask for those after them; `None` when there are no more."""


def ledger_namespace(thread_id: str) -> tuple[str, ...]:
    """The store's namespace for a thread's ledger, safe for any thread id."""
    return thread_namespace("ledger", thread_id)


def make_page(head: Head, events: Sequence[Event]) -> Page:
    """The page that continues a ledger; the same events make the same page.

    Args:
        head: The end of the ledger.
        events: What happened since.

    Raises:
        InputError: There are none.
    """
    if not events:
        raise InputError("A page of the ledger needs an event; write none when nothing happened")
    page = Page(
        id="",
        previous=head["page_id"],
        first=head["count"],
        count=len(events),
        events=freeze(list(events)),
    )
    return {**page, "id": _page_id(page)}


def head_of(page: Page) -> Head:
    """The end of a ledger whose newest page this is."""
    return Head(page_id=page["id"], count=page["first"] + page["count"])


def put_page(store: BaseStore, thread_id: str, page: Page) -> Call:
    """A call that writes a page; it never expires, and writing it again changes nothing."""
    return _put(store, thread_id, page["id"], page)


def read_pages(store: BaseStore, thread_id: str, head: Head) -> Steps[list[Page]]:
    """The ledger's pages, oldest first.

    Raises:
        LedgerGapError: A page is missing or was changed.
    """
    wanted = head["page_id"]
    if wanted is None:
        verify([], head)
        return []
    place = ledger_namespace(thread_id)
    listed = yield from scan(
        store, place, lambda item: _pages(item) if item.namespace == place else None
    )
    found = {page["id"]: page for pages in listed for page in pages}
    chain: list[Page] = []
    while wanted is not None:
        page = found.get(wanted)
        if page is None:
            page = _page((yield _get(store, thread_id, wanted)))
        if page is None:
            raise _missing(wanted)
        _check(page)
        chain.append(page)
        wanted = page["previous"]
    pages = chain[::-1]
    verify(pages, head)
    return pages


def pack_pages(store: BaseStore, thread_id: str, head: Head) -> Steps[None]:
    """Put the newest pages, those not yet put together, into one item; the ledger stays the same.

    Many small items take three times the room of one. A crash between the two writes leaves pages
    in two places, which say the same. Behind a page that has no item of its own there is nothing
    to do: a host may go on from an earlier state, whose page is together with later ones by now.
    Whoever reads the ledger is told of one that is lost.

    Args:
        store: Any LangGraph store.
        thread_id: Whose ledger.
        head: Its end, as the state has it.

    Raises:
        LedgerGapError: A page was changed.
    """
    loose: list[Page] = []
    wanted = head["page_id"]
    while wanted is not None and len(loose) < TOGETHER:
        item = yield _get(store, thread_id, wanted)
        page = None if item is None or "pages" in item.value else _page(item)
        if page is None:
            break
        _check(page)
        loose.append(page)
        wanted = page["previous"]
    if len(loose) < WORTH_IT:
        return
    pages = [{**page, "events": _bytes(page)} for page in reversed(loose)]
    yield _put(store, thread_id, loose[0]["id"], {"pages": freeze(pages, dense=True)})
    keys = [page["id"] for page in loose[1:]]
    yield drop_items(store, ledger_namespace(thread_id), keys)


def read_events(store: BaseStore, thread_id: str, head: Head) -> Steps[list[Event]]:
    """Everything that happened in a thread, oldest first.

    Raises:
        LedgerGapError: A page is missing or was changed.
    """
    pages = yield from read_pages(store, thread_id, head)
    return events_in(pages)


def events_in(pages: Sequence[Page]) -> list[Event]:
    """The events of some pages, in order.

    Raises:
        LedgerGapError: A page cannot be read.
    """
    return [event for page in pages for event in _events(page)]


def verify(pages: Sequence[Page], head: Head) -> None:
    """Refuse pages that are not exactly the ledger which ends there.

    Args:
        pages: Oldest first.
        head: The end of the ledger.

    Raises:
        LedgerGapError: A page is missing, was changed, or stands in another's place.
    """
    after = EMPTY
    for page in pages:
        _check(page)
        if page["previous"] != after["page_id"]:
            raise _missing(page["previous"] or after["page_id"])
        if page["first"] != after["count"]:
            raise _altered(page)
        after = head_of(page)
    if after != head:
        raise _missing(head["page_id"] or after["page_id"])


def append(store: BaseStore, thread_id: str, head: Head, event: Event) -> Steps[Appended]:
    """Add one event with an id of the caller's own, once.

    Args:
        store: Any LangGraph store.
        thread_id: Whose ledger.
        head: Its end.
        event: What happened; a time of its own does not make it another event.

    Returns:
        The end to go on from; as it was when the event is there already.

    Raises:
        EventConflictError: The ledger has another event with this id.
        LedgerGapError: A page of the ledger is missing or was changed.
    """
    key = f"event-{_digest(event['id'])}"
    body = _digest(body_of(event))
    known = yield _get(store, thread_id, key)
    if known is not None:
        there = yield from _reaches(store, thread_id, head, known.value["page"])
        if there and known.value["body"] != body:
            raise EventConflictError(
                f"The ledger has another event with the id {event['id']!r}: "
                "give this one an id of its own"
            )
        if there:
            return Appended(head=head, inserted=False)
    page = make_page(head, [event])
    yield put_page(store, thread_id, page)
    yield _put(store, thread_id, key, {"page": page["id"], "body": body})
    return Appended(head=head_of(page), inserted=True)


def _reaches(store: BaseStore, thread_id: str, head: Head, page_id: str) -> Steps[bool]:
    """Whether a page is part of the ledger, and not what a crash left behind."""
    if page_id == head["page_id"]:
        return True
    pages = yield from read_pages(store, thread_id, head)
    return any(page["id"] == page_id for page in pages)


def select(
    events: Sequence[Event],
    *,
    limit: int,
    run_id: str | None = None,
    types: Collection[EventType] | None = None,
    labels: Mapping[str, str] | None = None,
    cursor: str | None = None,
) -> EventPage:
    """Some of a thread's events, oldest first.

    Args:
        events: All of them.
        limit: Most events to give; 1 or more.
        run_id: Those of one run alone.
        types: Those of some types alone.
        labels: Those that have all of these labels.
        cursor: Of the page before; `None` to begin.

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
    return EventPage(
        events=tuple(events[index] for index in page),
        cursor=_cursor(page[-1], events[page[-1]]) if len(wanted) > limit else None,
    )


def _cursor(index: int, event: Event) -> str:
    return urlsafe_b64encode(json.dumps([index, event["id"]]).encode()).decode("ascii")


def _after(events: Sequence[Event], cursor: str) -> int:
    try:
        index, name = json.loads(b64decode(cursor, altchars=b"-_", validate=True))
        if index >= 0 and events[index]["id"] == name:
            return int(index) + 1
    except (TypeError, ValueError, LookupError):
        pass
    raise InputError(
        f"cursor={cursor!r} is none of this ledger: give back the one that came with a page, "
        "or None for the first page"
    )


def _page(item: Item | None) -> Page | None:
    """The page with the item's name, by itself or the last of several."""
    pages = _pages(item)
    return pages[-1] if pages else None


def _pages(item: Item | None) -> list[Page]:
    """The pages that an item holds, oldest first."""
    if item is None or not {"events", "pages"} & set(item.value):
        return []
    if "events" in item.value:
        return [_whole({**item.value, "id": item.key})]
    try:
        return [_whole(each) for each in thaw(item.value["pages"])]
    except (DatabaseCorruptError, LookupError, TypeError) as error:
        raise LedgerGapError(f"Pages {item.key!r} of the ledger were changed: {BACKUP}") from error


def _whole(value: Mapping[str, Any]) -> Page:
    page = cast("Page", value)
    if not Page.__required_keys__ <= set(page):
        raise _altered(page)
    return page


def _page_id(page: Page) -> str:
    plain = hashlib.sha256(_bytes(page)).hexdigest()
    parts = [page["previous"], page["first"], page["count"], plain]
    return f"page-{_digest(json.dumps(parts))}"


def _bytes(page: Page) -> bytes:
    events = page["events"]
    return events if isinstance(events, bytes) else bytes_of(events)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _check(page: Page) -> None:
    try:
        same = page["id"] == _page_id(page)
    except (TypeError, ValueError, zlib.error) as error:
        raise _altered(page) from error
    if not same:
        raise _altered(page)


def _events(page: Page) -> list[Event]:
    try:
        events = unpacked(_bytes(page))
    except (DatabaseCorruptError, ValueError, zlib.error) as error:
        raise _altered(page) from error
    return cast("list[Event]", events)


def _altered(page: Page) -> LedgerGapError:
    return LedgerGapError(f"Page {page['id']!r} of the ledger was changed: {BACKUP}")


def _missing(page_id: str | None) -> LedgerGapError:
    return LedgerGapError(f"Page {page_id!r} of the ledger is missing or out of place: {BACKUP}")


def _get(store: BaseStore, thread_id: str, key: str) -> Call:
    return get_item(store, ledger_namespace(thread_id), key)


def _put(store: BaseStore, thread_id: str, key: str, value: Mapping[str, Any]) -> Call:
    return put_item(store, ledger_namespace(thread_id), key, value)
