"""Chains of pages in a store: immutable, named by their content, each linked to the one before.

The event log, the offloaded segments and the old operations of a thread are such chains. A page's
id is a hash of its link, its facts and its body. So a step that runs twice writes one page, and a
reader that starts at an id from the committed state notices every page that is missing, changed or
swapped. A page that a crash left before the commit cannot be reached from there.
"""

import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast
from zlib import crc32

from langchain_core.messages import AnyMessage, message_to_dict, messages_from_dict
from langgraph.store.base import BaseStore, Item

from unsay.effects import Call, Steps
from unsay.errors import DatabaseCorruptError, StorageError
from unsay.messages.content import checksum_of
from unsay.storage import items
from unsay.storage.pagination import read_items
from unsay.types import Offloaded, Segment, Topic

# Suffix of the key of an item that holds only the body of a page.
BODY = ".words"
MOST_PACKED = 1_000

WORTH_PACKING = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One immutable item of a chain; `before` is the id of the older page, `None` for the first.

    `facts` are plain JSON that can be read without the body. `body` is packed values; `None` if it
    is stored in a separate item and was not read. `digest` is the SHA-256 of the body.
    """

    id: str
    before: str | None
    facts: Mapping[str, Any]
    body: bytes | None
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The pages of one kind in one thread, such as its event log; a function per kind makes it.

    Every method that reads a page raises `error`, a class, if the page is missing or was changed;
    `name` and `hint` are part of its message. With `apart`, bodies are stored in separate items, so
    that large ones are read only when needed.
    """

    store: BaseStore
    namespace: tuple[str, ...]
    name: str
    error: type[StorageError] = DatabaseCorruptError
    hint: str = ""
    apart: bool = False

    def put(self, page: Page) -> Call[object]:
        """Return a call that writes a page, which never expires; repeating it changes nothing."""
        assert page.body is not None  # noqa: S101 - a page that was made or read whole
        value = {"before": page.before, **page.facts, "body": page.digest}
        if self.apart:
            # One batch is one transaction: a page never exists without its body.
            body = {"body": items.frozen(page.body, dense=True)}
            return items.put_items(
                self.store, self.namespace, {f"{page.id}{BODY}": body, page.id: value}
            )
        value["body"] = items.frozen(page.body)
        return items.put_items(self.store, self.namespace, {page.id: value})

    def get(self, page_id: str) -> Steps[Page]:
        """Read one page. With `apart` it comes without its body, which the method `body` reads.

        Raises the chain's `error` if the page is missing or was changed.
        """
        pages = self._pages((yield from self._item(page_id)))
        if not pages:
            raise self.damaged(page_id)
        return pages[-1]  # a packed item holds several pages and has the id of its newest

    def body(self, page: Page) -> Steps[Any]:
        """Read the values of a page whose body is stored separately (`apart`).

        Raises the chain's `error` if the body is missing or was changed.
        """
        item = yield from self._item(f"{page.id}{BODY}")
        try:
            with items.reading(f"Page {page.id!r}"):
                data = b"" if item is None else items.bytes_of(item.value["body"])
        except DatabaseCorruptError as error:
            raise self.damaged(page.id) from error
        if _digest(data) != page.digest:
            raise self.damaged(page.id)
        return self.values(replace(page, body=data))

    def values(self, page: Page) -> Any:
        """Return the values of a page that has its body; for one without it (`apart`) use `body`.

        Raises the chain's `error` if they cannot be decoded.
        """
        try:
            return items.unpacked(page.body or b"")
        except DatabaseCorruptError as error:
            raise self.damaged(page.id) from error

    def read_all(self, page_id: str | None) -> Steps[list[Page]]:
        """Read the chain that ends at `page_id` in few round trips, oldest first; empty for `None`.

        Raises the chain's `error` if a page is missing or was changed.
        """
        if page_id is None:
            return []
        page_groups: list[list[Page]] = []
        # One damaged item fails the whole search. Read one by one, only pages of this chain count.
        with suppress(DatabaseCorruptError):
            page_groups = yield from read_items(self.store, self.namespace, self._pages)
        page_by_id = {page.id: page for pages in page_groups for page in pages}
        chain: list[Page] = []
        while page_id is not None:
            # A search can miss a page that another process is packing, and skips damaged ones.
            page = page_by_id.get(page_id) or (yield from self.get(page_id))
            chain.append(page)
            page_id = page.before
        return chain[::-1]

    def pack(self, page_id: str | None) -> Steps[None]:
        """Replace the newest pages in the store by one item that holds them all, to save space.

        It packs up to `MOST_PACKED` pages from `page_id` back, and stops before the first page that
        was packed earlier or is `items.LARGE`. Fewer than `WORTH_PACKING` pages stay as they are. The ids and the order
        of the pages do not change. Raises the chain's `error` if a page was changed.
        """
        # Many small items take three times the space of one. Source: own measurement.
        loose: list[Page] = []
        while page_id is not None and len(loose) < MOST_PACKED:
            item = yield from self._item(page_id)
            # Without an item the page was packed with later ones: a host went back to its state.
            if item is None or "pages" in item.value or len(item.value["body"]) > items.LARGE:
                break
            pages = self._pages(item)
            if not pages:
                raise self.damaged(page_id)
            loose += pages
            page_id = pages[-1].before
        if len(loose) < WORTH_PACKING:
            return
        values = [
            {"before": page.before, **page.facts, "body": page.body} for page in reversed(loose)
        ]
        # Written before the old items are deleted: a crash in between leaves each page twice, with
        # the same content, and the other way round it would lose pages. The state refers to the newest
        # page, so its id is the key.
        yield from items.put_items(
            self.store, self.namespace, {loose[0].id: {"pages": items.freeze(values, dense=True)}}
        )
        yield from items.drop_items(self.store, self.namespace, [page.id for page in loose[1:]])

    def _item(self, key: str) -> Steps[Item | None]:
        """Read the item of a page or a body; `None` if it is missing.

        Raises the chain's `error` if unsay's database finds the item damaged.
        """
        try:
            return (yield from items.get_item(self.store, self.namespace, key))
        except DatabaseCorruptError as error:
            raise self.damaged(key.removesuffix(BODY)) from error

    def damaged(self, page_id: str | None) -> StorageError:
        """Return the chain's `error` for a missing or changed page; the caller raises it."""
        return self.error(
            f"Page {page_id!r} of {self.name} is missing or was changed: {items.BACKUP}{self.hint}"
        )

    def _pages(self, item: Item | None) -> list[Page]:
        """Return the pages in an item, oldest first.

        The list is empty without an item, and for one that is damaged or stored under a wrong key.
        """
        if item is None:
            return []
        try:
            with items.reading(f"Page {item.key!r}"):
                values = items.thaw(item.value["pages"]) if "pages" in item.value else [item.value]
                pages = [self._page(dict(value)) for value in values]
                return pages if pages[-1].id == item.key else []
        except DatabaseCorruptError:
            return []

    def _page(self, value: dict[str, Any]) -> Page:
        before, body = value.pop("before"), value.pop("body")
        if self.apart:
            return _linked(before, value, None, body)
        data = body if isinstance(body, bytes) else items.bytes_of(body)
        return _linked(before, value, data, _digest(data))


def make_page(before: str | None, facts: Mapping[str, Any], values: Any) -> Page:
    """Return the page after the one with the id `before` (`None`: the first); nothing is stored.

    `facts` are plain JSON, read without the body. `values` are the body: `InputError` if they
    cannot be stored. The same arguments make the same page; the order of keys counts in `values`.
    """
    body = items.packed(values)
    return _linked(before, items.storable(facts), body, _digest(body))


def _linked(before: str | None, facts: Mapping[str, Any], body: bytes | None, digest: str) -> Page:
    # Sorted, so that equal facts in another order give the same id.
    id_source = json.dumps([before, facts, digest], sort_keys=True)
    name = f"page-{_digest(id_source.encode())[:32]}"
    return Page(id=name, before=before, facts=facts, body=body, digest=digest)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# Bytes of each message id's hash in a page's facts, so that a search need not read all bodies.
PRINT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class OffloadedSegment:
    """A part of a transcript that was moved from the state to the store.

    `id` is that of its page. `before` refers to the older part, `None` if this is the beginning.
    `turns` counts its answered turns. `messages` has one or more, oldest first. `topics` are as
    they were when it was moved. `instructions` are the texts of all system messages of the
    transcript up to its end.
    """

    id: str
    before: Offloaded | None
    turns: int
    messages: tuple[AnyMessage, ...]
    segments: tuple[Segment, ...]
    topics: tuple[Topic, ...]
    instructions: tuple[str, ...]

    @property
    def head(self) -> Offloaded:
        """The reference to this segment and all older ones; the state keeps it as `offloaded`."""
        older = self.before or Offloaded(page_id="", last="", messages=0, turns=0)
        head = Offloaded(
            page_id=self.id,
            last=self.messages[-1].id or "",
            messages=older["messages"] + len(self.messages),
            turns=older["turns"] + self.turns,
        )
        if self.before is None or "checksum" in self.before:
            head["checksum"] = older.get("checksum", 0) + checksum_of(self.messages)
        return {**head, "instructions": list(self.instructions)} if self.instructions else head


def put_page(
    store: BaseStore,
    thread_id: str,
    before: Offloaded | None,
    messages: Sequence[AnyMessage],
    *,
    turns: int,
    segments: Sequence[Segment],
    topics: Sequence[Topic],
    instructions: Sequence[str],
) -> Steps[OffloadedSegment]:
    """Write the oldest messages of the state as a new segment; the caller commits its `head`.

    `before` refers to the older segments, `None` if there are none. `turns` counts the segment's
    answered turns. `segments` and `topics` are those of its messages. `instructions` are the texts
    of all system messages up to its end, with those of older segments. Raises `InputError` if a
    message cannot be stored.
    """
    ids = b64encode(b"".join(_print_of(message.id) for message in messages)).decode("ascii")
    body = {
        "messages": [message_to_dict(message) for message in messages],
        "segments": list(segments),
        "topics": list(topics),
        "instructions": list(instructions),
    }
    facts = {"older": before, "turns": turns, "ids": ids}
    page = make_page(None if before is None else before["page_id"], facts, body)
    yield from segment_chain(store, thread_id).put(page)
    return _segment(page, messages, body)


def read_page(store: BaseStore, thread_id: str, page_id: str) -> Steps[OffloadedSegment]:
    """Read one segment by its page's id; `DatabaseCorruptError` if it is missing or damaged."""
    chain = segment_chain(store, thread_id)
    return (yield from _whole(chain, (yield from chain.get(page_id))))


def older_part(store: BaseStore, thread_id: str, page_id: str) -> Steps[Offloaded | None]:
    """Return the reference to the segments older than a page; `None` if there are none.

    The page's messages are not read. Raises `DatabaseCorruptError` if the page itself is missing or
    damaged.
    """
    page = yield from segment_chain(store, thread_id).get(page_id)
    return cast("Offloaded | None", page.facts["older"])


def find_page(
    store: BaseStore, thread_id: str, head: Offloaded | None, message_id: str
) -> Steps[OffloadedSegment | None]:
    """Return the segment that holds a message; `None` if none has it.

    `head` refers to the newest segment, `None` if there are none. Raises `DatabaseCorruptError` if
    a segment that must be searched is missing or damaged.
    """
    chain, target_print = segment_chain(store, thread_id), _print_of(message_id)
    next_id = head["page_id"] if head else None
    while next_id is not None:
        page = yield from chain.get(next_id)
        if target_print in _prints(page):
            # Two ids can have the same short hash, so the messages themselves decide.
            segment = yield from _whole(chain, page)
            if any(message.id == message_id for message in segment.messages):
                return segment
        next_id = page.before
    return None


def read_back(
    store: BaseStore,
    thread_id: str,
    head: Offloaded | None,
    wanted: Collection[str | None] | None,
    *,
    turns: int = 0,
) -> Steps[list[OffloadedSegment]]:
    """Read the newest segments, as many as hold the wanted messages and answered turns.

    The newest segment is first in the result. `head` refers to it; for `None` the result is empty.
    `wanted` has ids of messages; an id that no segment has adds none. `None` among them, or instead of
    them, reads all. `turns` counts answered turns. Raises `DatabaseCorruptError` if a segment is
    missing or damaged.
    """
    to_the_end = wanted is None or None in wanted
    prints = set() if to_the_end else {_print_of(message_id) for message_id in wanted or ()}
    chain, next_id = segment_chain(store, thread_id), head["page_id"] if head else None
    pages: list[Page] = []
    page_count = 0
    while next_id is not None and (to_the_end or prints or turns > 0):
        page = yield from chain.get(next_id)
        pages.append(page)
        if to_the_end or prints & _prints(page) or turns > 0:
            page_count = len(pages)
        prints -= _prints(page)
        turns -= page.facts["turns"]
        next_id = page.before
    # Bodies are read only now: an unknown id leads to the oldest page, whose body is not needed.
    restored: list[OffloadedSegment] = []
    for page in pages[:page_count]:
        restored += [(yield from _whole(chain, page))]
    return restored


def offloaded_ids(
    store: BaseStore, thread_id: str, head: Offloaded | None, ids: Collection[str | None]
) -> Steps[list[str]]:
    """Return those of the ids that messages of the segments have, also of damaged segments.

    Only short hashes of ids are compared, and segments older than a missing one are not known.
    """
    chain, next_id = segment_chain(store, thread_id), head["page_id"] if head else None
    prints: set[bytes] = set()
    with suppress(DatabaseCorruptError):
        while next_id is not None:
            page = yield from chain.get(next_id)
            prints |= _prints(page)
            next_id = page.before
    return [name for name in ids if name is not None and _print_of(name) in prints]


def segment_chain(store: BaseStore, thread_id: str) -> Chain:
    """Return the chain of pages of a thread's offloaded segments; nothing is read yet."""
    return Chain(
        store=store,
        namespace=items.thread_namespace("offloaded", thread_id),
        name="this thread's transcript",
        hint=". Newer messages are intact",
        apart=True,
    )


def _whole(chain: Chain, page: Page) -> Steps[OffloadedSegment]:
    body = yield from chain.body(page)
    messages = cast("list[AnyMessage]", messages_from_dict(body["messages"]))
    return _segment(page, messages, body)


def _segment(
    page: Page, messages: Sequence[AnyMessage], body: Mapping[str, Any]
) -> OffloadedSegment:
    return OffloadedSegment(
        id=page.id,
        before=page.facts["older"],
        turns=page.facts["turns"],
        messages=tuple(messages),
        segments=tuple(body["segments"]),
        topics=tuple(body["topics"]),
        instructions=tuple(body["instructions"]),
    )


def _print_of(message_id: str | None) -> bytes:
    """Return a short hash of a message id; two ids can have the same. `None` counts as an empty id."""
    return crc32((message_id or "").encode("utf-8", "surrogatepass")).to_bytes(PRINT)


def _prints(page: Page) -> set[bytes]:
    plain = b64decode(page.facts["ids"])
    return {plain[start : start + PRINT] for start in range(0, len(plain), PRINT)}
