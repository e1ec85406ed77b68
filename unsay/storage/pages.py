"""Chains of pages in a store: immutable, named by their content, each linked to the one before.

The event log, the offloaded segments and the old operations of a thread are such chains. A page's
id is a hash of its link, its facts and its body. So a step that runs twice writes one page, and a
reader that starts at an id from the committed state notices every page that is missing, changed or
swapped. A page that a crash left before the commit cannot be reached from there.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from langgraph.store.base import BaseStore, Item
from typing_extensions import TypedDict

from unsay.effects import Call, Steps
from unsay.errors import DatabaseCorruptError, EventLogGapError, StorageError
from unsay.events.bodies import Body, bodies_in
from unsay.storage import items
from unsay.storage.pagination import read_items


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One immutable item of a chain; `before` is the id of the older page, `None` for the first.

    `facts` are plain JSON, and `body` is packed values.
    """

    id: str
    before: str | None
    facts: Mapping[str, Any]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The pages of one kind in one thread, such as its event log; a function per kind makes it.

    Every method that reads a page raises `error`, a class, if the page is missing or was changed;
    `name` and `hint` are part of its message.
    """

    store: BaseStore
    namespace: tuple[str, ...]
    name: str
    error: type[StorageError] = DatabaseCorruptError
    hint: str = ""

    def put(self, *pages: Page) -> Call[object]:
        """Return a call that writes pages, which never expire; repeating it changes nothing."""
        values = {page.id: {**_stored(page), "body": items.frozen(page.body)} for page in pages}
        return items.put_items(self.store, self.namespace, values)

    def get(self, page_id: str) -> Steps[Page]:
        """Read one page; the chain's `error` if it is missing or was changed."""
        pages = self._pages((yield from self._item(page_id)))
        if not pages:
            raise self.damaged(page_id)
        return pages[0]

    def values(self, page: Page) -> Any:
        """Return the values in a page's body; the chain's `error` if they cannot be decoded."""
        try:
            return items.unpacked(page.body)
        except DatabaseCorruptError as error:
            raise self.damaged(page.id) from error

    def _item(self, key: str) -> Steps[Item | None]:
        """Read an item, `None` if it is missing; the chain's `error` if the database finds it damaged."""
        try:
            return (yield from items.get_item(self.store, self.namespace, key))
        except DatabaseCorruptError as error:
            raise self.damaged(key) from error

    def damaged(self, page_id: str | None) -> StorageError:
        """Return the chain's `error` for a missing or changed page; the caller raises it."""
        return self.error(
            f"Page {page_id!r} of {self.name} is missing or was changed: {items.BACKUP}{self.hint}"
        )

    def _pages(self, item: Item | None) -> list[Page]:
        """Return the page in an item; empty without one, if it is damaged, or under a wrong key."""
        if item is None:
            return []
        with suppress(DatabaseCorruptError), items.reading(f"Page {item.key!r}"):
            page = self._page(dict(item.value))
            return [page] if page.id == item.key else []
        return []

    def _page(self, value: dict[str, Any]) -> Page:
        before, body = value.pop("before"), value.pop("body")
        return _linked(before, value, body if isinstance(body, bytes) else items.bytes_of(body))


def make_page(before: str | None, facts: Mapping[str, Any], values: Any) -> Page:
    """Return the page after the one with the id `before` (`None`: the first); nothing is stored.

    `facts` are plain JSON, read without the body. `values` are the body: `InputError` if they
    cannot be stored. The same arguments make the same page; the order of keys counts in `values`.
    """
    return _linked(before, items.storable(facts), items.packed(values))


def _linked(before: str | None, facts: Mapping[str, Any], body: bytes) -> Page:
    # Sorted, so that equal facts in another order give the same id.
    id_source = json.dumps([before, facts, _digest(body)], sort_keys=True)
    name = f"page-{_digest(id_source.encode())[:32]}"
    return Page(id=name, before=before, facts=facts, body=body)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class End(TypedDict):
    """Where to read bodies from: a page, the position behind its bodies, and that behind the last pack.

    `page_id` is `None` for an empty log.
    """

    page_id: str | None
    next: int
    packed: int


class Head(End):
    """The end of an event log, with the number of its events and of its newest, loose pages.

    The state keeps it and commits it with the transcript. Pages that a crash left behind cannot be
    reached from it, and therefore do not count. Loose pages are not packed yet.
    """

    count: int
    loose: int


EMPTY = Head(page_id=None, count=0, next=0, packed=0, loose=0)


def end_of(head: Head) -> End:
    """Return what a branch or a segment keeps of a head, to read its messages later."""
    return End(page_id=head["page_id"], next=head["next"], packed=head["packed"])


# Positions in a pack, and pages with which one is written anew. Source: own measurement.
PACK = 128
LOOSE = 128
# Pages with which a pack is full: a thread may have many events without a body.
PACK_PAGES = 512


event_log_namespace = partial(items.thread_namespace, "event_log")


# The loose pages that this process wrote, by thread and id; they are dropped with the thread.
RECENT: dict[tuple[str, ...], dict[str, Page]] = {}
RECENT_THREADS = 32
RECENT_BYTES = 1_000_000


class EventChain(Chain):
    """The event log's pages: the newest are items of their own, the older ones lie in packs.

    A pack has the key of `pack_key` and holds the pages whose first body is one of its `PACK` positions.
    """

    def put(self, *pages: Page) -> Call[object]:
        """Return a call that writes pages, which never expire; repeating it changes nothing."""
        recent = RECENT.pop(self.namespace, {}) | {page.id: page for page in pages}
        size = sum([len(page.body) for page in recent.values()])
        while size > RECENT_BYTES or len(recent) > 2 * LOOSE:
            size -= len(recent.pop(next(iter(recent))).body)
        RECENT[self.namespace] = recent
        for name in list(RECENT)[:-RECENT_THREADS]:  # other threads of the process may do the same
            RECENT.pop(name, None)
        return super().put(*pages)

    def get(self, page_id: str, near: int | None = None) -> Steps[Page]:
        """Read one page; `near` is the position at which it ends, to find it in a pack."""
        if (item := (yield from self._item(page_id))) is not None:
            if pages := self._pages(item):
                return pages[0]
            raise self.damaged(page_id)
        bucket = -1 if near is None else near // PACK
        while bucket >= 0:
            for page in (yield from self._packs([bucket])):
                if page.id == page_id:
                    return page
            bucket -= 1
        raise self.damaged(page_id)

    def _packs(self, buckets: Iterable[int]) -> Steps[list[Page]]:
        """Read packs, as far as they exist, and return their pages, oldest first."""
        try:
            keys = list(map(pack_key, buckets))
            packs = yield from items.get_items(self.store, self.namespace, keys)
            full = [f"{key}.{part}" for key in packs for part in range(packs[key].get("full", 0))]
            packs |= yield from items.get_items(self.store, self.namespace, full)
        except DatabaseCorruptError as error:
            raise self.damaged(None) from error
        return [page for key in sorted(packs) for page in self._values(packs[key])]

    def read_all(self, head: Head) -> Steps[list[Page]]:
        """Read the whole log in few round trips, oldest page first; `EventLogGapError` for a gap."""
        groups: list[list[Page]] = []
        # One damaged item fails the whole search. Read one by one, only pages of this chain count.
        with suppress(DatabaseCorruptError):
            groups = yield from read_items(self.store, self.namespace, self._pages)
        known = {page.id: page for pages in groups for page in pages}
        chain: list[Page] = []
        page_id, near = head["page_id"], head["next"]
        while page_id is not None:
            # A search can miss a page that another process is packing, and skips damaged ones.
            page = known.get(page_id) or (yield from self.get(page_id, near))
            chain.append(page)
            page_id, near = page.before, page.facts["first"]
        return chain[::-1]

    def loose_pages(self, head: End, first: int = -1) -> Steps[list[Page]]:
        """Read the newest pages that are no part of a pack, newest first, down to a position."""
        pages: list[Page] = []
        page_id, start = head["page_id"], head["next"]
        recent = RECENT.get(self.namespace, {})
        while page_id is not None and start > first:
            page = recent.get(page_id)
            if page is None and (item := (yield from self._item(page_id))) is not None:
                page = next(iter(self._pages(item)), None)
                if page is None:
                    raise self.damaged(page_id)
            if page is None:
                break
            pages.append(page)
            page_id, start = page.before, page.facts["first"]
        return pages

    def read_bodies(self, head: End, positions: Iterable[int]) -> Steps[dict[int, dict[str, Any]]]:
        """Return bodies as dicts of messages, by position; `EventLogGapError` if one is missing."""
        wanted = set(positions)
        # Loose pages first: a host may have gone back to an older end, and then packs have bodies of
        # another line at the same positions.
        newest = [place for place in wanted if place >= head["packed"]]
        loose = (yield from self.loose_pages(head, min(newest))) if newest else []
        missing = wanted - _places(loose)
        pages = yield from self._packs(sorted({place // PACK for place in missing}))
        # A page begins in one pack and may end in the next ones.
        bucket = min(missing, default=0) // PACK
        while bucket > 0 and missing - _places(pages):
            bucket -= 1
            pages += yield from self._packs([bucket])
        holding = {p.id: p for p in pages if not missing.isdisjoint(_places([p]))}
        if sum(len(_places([page])) for page in holding.values()) > len(_places(holding.values())):
            line = yield from self._line(head, min(missing))
            holding = {name: page for name, page in holding.items() if name in line}
        holding |= {p.id: p for p in loose if not wanted.isdisjoint(_places([p]))}
        if wanted - _places(holding.values()):
            raise self.damaged(head["page_id"])

        bodies: dict[int, dict[str, Any]] = {}
        changed: dict[int, tuple[Body, int]] = {}
        for page in holding.values():
            copies = dict(page.facts.get("copies", ()))
            events = ((event["type"], event["data"]) for event in self.values(page))
            for place, body in enumerate(bodies_in(events), page.facts["first"]):
                if place in wanted and body.envelope is None:
                    changed[place] = body, copies[place]
                elif place in wanted:
                    bodies[place] = body.tree()
        if changed:
            earlier = yield from self.read_bodies(head, {old for _, old in changed.values()})
            bodies |= {place: body.tree(earlier[old]) for place, (body, old) in changed.items()}
        return bodies

    def _line(self, head: End, first: int) -> Steps[set[str]]:
        """Return the ids of the pages that lead to an end, down to the one with a position."""
        names: set[str] = set()
        page_id, near = head["page_id"], head["next"]
        while page_id is not None and near > first:
            page = yield from self.get(page_id, near)
            names.add(page.id)
            page_id, near = page.before, page.facts["first"]
        return names

    def pack(self, head: Head) -> Steps[None]:
        """Move the newest pages into packs, to save space; their ids and their order stay.

        Raises `EventLogGapError` if a page was changed.
        """
        # Many small items take three times the space of one. Source: own measurement.
        loose = (yield from self.loose_pages(head))[::-1]
        packs: dict[int, list[Page]] = {}
        for page in loose:
            packs.setdefault(page.facts["first"] // PACK, []).append(page)
        values: dict[str, Any] = {}
        for bucket, pages in packs.items():
            key, is_full = pack_key(bucket), bucket < head["next"] // PACK
            item = yield from self._item(key)
            old = {"pages": items.freeze([])} if item is None else item.value
            older, full = self._values(old), int(old.get("full", 0))
            if len(older) >= PACK_PAGES:
                values[f"{key}.{full}"] = {"pages": old["pages"]}
                older, full = [], full + 1
            whole = [*map(_stored, {page.id: page for page in (*older, *pages)}.values())]
            values[key] = {"pages": items.freeze(whole, dense=is_full), "full": full}
        # One batch, and in a store where it is not one transaction the packs come first: a crash in
        # between leaves pages twice, with the same content.
        if values:
            yield from items.put_items(self.store, self.namespace, values)
            yield from items.drop_items(self.store, self.namespace, [page.id for page in loose])
            RECENT.pop(self.namespace, None)

    def _pages(self, item: Item | None) -> list[Page]:
        """Return the pages in an item, oldest first; empty if it is damaged or has a wrong key."""
        if item is None or item.key.startswith("event-"):
            return []
        if "pages" not in item.value:
            return super()._pages(item)
        with suppress(EventLogGapError):
            return self._values(item.value)
        return []

    def _values(self, pack: Mapping[str, Any]) -> list[Page]:
        try:
            with items.reading("A pack of the event log"):
                return [self._page(dict(value)) for value in items.thaw(pack["pages"])]
        except DatabaseCorruptError as error:
            raise self.damaged(None) from error


def _places(pages: Iterable[Page]) -> set[int]:
    """Return the positions of the bodies of pages."""
    return {p for page in pages for p in range(page.facts["first"], page.facts["next"])}


def pack_key(bucket: int) -> str:
    """Return the key of the pack with the positions from `bucket * PACK` on."""
    return f"pack-{bucket:08}"


def _stored(page: Page) -> dict[str, Any]:
    return {"before": page.before, **page.facts, "body": page.body}


def event_chain(store: BaseStore, thread_id: str) -> EventChain:
    """Return the chain of pages of a thread's event log; nothing is read yet."""
    return EventChain(
        store=store,
        namespace=event_log_namespace(thread_id),
        name="the event log",
        error=EventLogGapError,
    )
