"""Offloaded segments: the oldest parts of a transcript, as a chain of pages with positions of messages.

Words are in the event log alone. A segment says which of its messages belong to it, and what was known of their
topics.
"""

from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, cast
from zlib import crc32

from langchain_core.messages import AnyMessage, messages_from_dict
from langgraph.store.base import BaseStore

from unsay.effects import Steps
from unsay.errors import DatabaseCorruptError, StorageError
from unsay.log.ranges import positions_of, ranges_of
from unsay.messages.content import checksum_of
from unsay.storage import items
from unsay.storage.pages import EMPTY, Chain, Head, Page, end_of, event_chain, make_page
from unsay.types import Offloaded, Segment, Topic

# Suffix of the key of an item with the positions of a segment's messages, known when it is committed.
PLACES = ".places"

# Bytes of each message id's hash in a page's facts, so that a search need not read all bodies.
PRINT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class OffloadedSegment:
    """A part of a transcript that was moved from the state to the store.

    `id` is that of its page. `before` refers to the older part, `None` if this is the beginning.
    `turns` counts its answered turns. `messages` has one or more, oldest first. `topics` are as
    they were when it was moved. `instructions` are the texts of all system messages of the
    transcript up to its end. `positions` are those of its messages in the event log, by id.
    """

    id: str
    before: Offloaded | None
    turns: int
    messages: tuple[AnyMessage, ...]
    segments: tuple[Segment, ...]
    topics: tuple[Topic, ...]
    instructions: tuple[str, ...]
    positions: Mapping[str, int] = field(default_factory=dict)

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
    ids = _prints_of(messages)
    body = {
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
    page = yield from segment_chain(store, thread_id).get(page_id)
    return (yield from _whole(store, thread_id, [page]))[0]


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
            (segment,) = yield from _whole(store, thread_id, [page])
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
    return (yield from _whole(store, thread_id, pages[:page_count]))


def read_holding(
    store: BaseStore, thread_id: str, head: Offloaded | None, ids: Collection[str]
) -> Steps[list[OffloadedSegment]]:
    """Read only the segments that hold messages with these ids, the newest first.

    `head` refers to the newest segment. Raises `DatabaseCorruptError` if one is missing or damaged.
    """
    chain, next_id = segment_chain(store, thread_id), head["page_id"] if head else None
    prints, pages = {_print_of(name) for name in ids}, list[Page]()
    while next_id is not None and prints:
        page = yield from chain.get(next_id)
        pages += [page] if prints & _prints(page) else []
        prints -= _prints(page)
        next_id = page.before
    return (yield from _whole(store, thread_id, pages))


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
    )


def put_positions(
    store: BaseStore,
    thread_id: str,
    pages: Mapping[str, Sequence[str]],
    places: Mapping[str, int],
    head: Head,
) -> Steps[None]:
    """Write where the messages of new segments are in the event log, before they are committed.

    `pages` has the messages' ids by page, `places` the positions by id, and `head` is the log's end.
    """
    values = {
        f"{page}{PLACES}": {
            "positions": ranges_of([places[name] for name in ids]),
            "end": end_of(head),
        }
        for page, ids in pages.items()
    }
    if values:
        yield from items.put_items(store, segment_chain(store, thread_id).namespace, values)


def read_messages(
    store: BaseStore, thread_id: str, wanted: Mapping[str, Sequence[int]]
) -> Steps[list[AnyMessage]]:
    """Read single messages: `wanted` has their indices by segment, the newest segment first.

    Raises `DatabaseCorruptError` if one is missing or was changed.
    """
    chain = segment_chain(store, thread_id)
    keys = [f"{name}{PLACES}" for name in wanted]
    values = yield from items.get_items(store, chain.namespace, keys)
    try:
        with items.reading("A list of positions"):
            positions: list[int] = []
            for key, indices in zip(keys, wanted.values(), strict=True):
                all_positions = positions_of(values[key]["positions"])
                positions += [all_positions[index] for index in indices]
            end = values[keys[0]]["end"]
        trees = yield from event_chain(store, thread_id).read_bodies(end, positions)
        return cast("list[AnyMessage]", messages_from_dict([trees[p] for p in positions]))
    except StorageError as error:
        raise chain.damaged(next(iter(wanted))) from error


def _whole(
    store: BaseStore, thread_id: str, pages: Sequence[Page]
) -> Steps[list[OffloadedSegment]]:
    """Return segments with their messages, in the order of their pages, the newest first.

    Raises `DatabaseCorruptError` if a message is missing or was changed.
    """
    chain, log = segment_chain(store, thread_id), event_chain(store, thread_id)
    keys = [f"{page.id}{PLACES}" for page in pages]
    segments: list[OffloadedSegment] = []
    try:
        values = yield from items.get_items(store, chain.namespace, keys)
        with items.reading("A position"):
            places = {key: positions_of(values[key]["positions"]) for key in keys}
            end = values[keys[0]]["end"] if keys else EMPTY
        # In one go, since segments share packs.
        trees = yield from log.read_bodies(end, (p for key in keys for p in places[key]))
    except StorageError as error:
        if len(pages) == 1:
            raise chain.damaged(pages[0].id) from error
        # One by one, to name the segment that is damaged.
        for page in pages:
            segments += yield from _whole(store, thread_id, [page])
        return segments
    for page, key in zip(pages, keys, strict=True):
        messages = cast("list[AnyMessage]", messages_from_dict([trees[p] for p in places[key]]))
        if _prints_of(messages) != page.facts["ids"] and len(pages) == 1:
            raise chain.damaged(page.id)
        if _prints_of(messages) != page.facts["ids"]:  # of another line, maybe
            segments += yield from _whole(store, thread_id, [page])
            continue
        positions = dict(zip((m.id or "" for m in messages), places[key], strict=True))
        segment = _segment(page, messages, chain.values(page))
        segments.append(replace(segment, positions=positions))
    return segments


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


def _prints_of(messages: Sequence[AnyMessage]) -> str:
    return b64encode(b"".join(_print_of(message.id) for message in messages)).decode("ascii")


def _prints(page: Page) -> set[bytes]:
    plain = b64decode(page.facts["ids"])
    return {plain[start : start + PRINT] for start in range(0, len(plain), PRINT)}
