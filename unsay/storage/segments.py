"""The oldest part of a long record: pages in the store, each naming the one before.

A page follows from what is in it, so that a step run twice writes it once, and never changes.
"""

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypedDict, cast
from zlib import crc32

from langchain_core.messages import AnyMessage, message_to_dict, messages_from_dict
from langgraph.store.base import BaseStore

from unsay.effects import Steps
from unsay.errors import DatabaseCorruptError
from unsay.storage.items import freeze, get_item, put_item, thaw, thread_namespace
from unsay.types import Offloaded, Segment, Topic

WORDS = ".words"
"""Ends the key of the item that holds a page's messages; the page's line tells what they are."""


PRINT = 4
"""Bytes by which a line tells of a message: who looks for one need not read all words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A stretch of a record that the state let go of."""

    id: str
    """Follows from everything else here."""

    before: Offloaded | None
    """Where the record's older part ends; `None` where this is its beginning."""

    turns: int
    """How many answered turns it has."""

    messages: tuple[AnyMessage, ...]
    """Oldest first, at least one."""

    segments: tuple[Segment, ...]
    """Those that start here."""

    topics: tuple[Topic, ...]
    """The topics of its messages as they were before."""

    instructions: tuple[str, ...]
    """What the system messages say that the record has up to here."""

    @property
    def head(self) -> Offloaded:
        """What the state keeps of the record up to here."""
        older = self.before or Offloaded(page_id="", last="", messages=0, turns=0)
        head = Offloaded(
            page_id=self.id,
            last=self.messages[-1].id or "",
            messages=older["messages"] + len(self.messages),
            turns=older["turns"] + self.turns,
        )
        return {**head, "instructions": list(self.instructions)} if self.instructions else head


class Line(TypedDict):
    """What a page's line in the store says, beside its words."""

    before: Offloaded | None
    turns: int
    ids: str
    body: str


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
) -> Steps[Page]:
    """Write a stretch of a record, and give its page.

    Args:
        store: Any LangGraph store.
        thread_id: Whose record.
        before: Where its older part ends.
        messages: The stretch, oldest first, not empty.
        turns: How many answered turns it has.
        segments: Those that start in it.
        topics: Of its messages, as they are.
        instructions: What the system messages say that the record has up to its end.
    """
    body = freeze(
        {
            "messages": [message_to_dict(each) for each in messages],
            "segments": list(segments),
            "topics": list(topics),
            "instructions": list(instructions),
        },
        dense=True,
    )
    ids = b64encode(b"".join(_print_of(each.id) for each in messages)).decode("ascii")
    line = Line(before=before, turns=turns, ids=ids, body=_digest(body))
    name = _page_id(line)
    yield put_item(store, _place(thread_id), f"{name}{WORDS}", {"body": body})
    yield put_item(store, _place(thread_id), name, line)
    return Page(
        id=name,
        before=before,
        turns=turns,
        messages=tuple(messages),
        segments=tuple(segments),
        topics=tuple(topics),
        instructions=tuple(instructions),
    )


def read_page(store: BaseStore, thread_id: str, page_id: str) -> Steps[Page]:
    """A stretch of a record.

    Raises:
        DatabaseCorruptError: The page is missing or was changed.
    """
    line = yield from _line(store, thread_id, page_id)
    item = yield get_item(store, _place(thread_id), f"{page_id}{WORDS}")
    frozen = "" if item is None else str(item.value.get("body"))
    if _digest(frozen) != line["body"]:
        raise _lost(page_id)
    body = thaw(frozen)
    return Page(
        id=page_id,
        before=line["before"],
        turns=line["turns"],
        messages=tuple(cast("list[AnyMessage]", messages_from_dict(body["messages"]))),
        segments=tuple(body["segments"]),
        topics=tuple(body["topics"]),
        instructions=tuple(body["instructions"]),
    )


def older_part(store: BaseStore, thread_id: str, page_id: str) -> Steps[Offloaded | None]:
    """Where the record's part before a page ends, also where the page's words are lost.

    Raises:
        DatabaseCorruptError: The page's line is missing or was changed.
    """
    return (yield from _line(store, thread_id, page_id))["before"]


def find_page(
    store: BaseStore, thread_id: str, head: Offloaded | None, message_id: str
) -> Steps[Page | None]:
    """The page that holds a message; `None` where none does.

    Raises:
        DatabaseCorruptError: A page is missing or was changed.
    """
    wanted = _print_of(message_id)
    while head is not None:
        line = yield from _line(store, thread_id, head["page_id"])
        if wanted in _prints(line["ids"]):
            page = yield from read_page(store, thread_id, head["page_id"])
            if any(message.id == message_id for message in page.messages):
                return page
        head = line["before"]
    return None


def read_back(
    store: BaseStore,
    thread_id: str,
    head: Offloaded | None,
    wanted: Collection[str | None] | None,
    *,
    turns: int = 0,
) -> Steps[list[Page]]:
    """The newest pages, as many as hold some messages and some turns.

    Args:
        store: Any LangGraph store.
        thread_id: Whose record.
        head: Where its sealed part ends; `None` where it has none.
        wanted: Ids of messages; those that are nowhere are left out. `None` among them, or in
            their place, is the record's beginning.
        turns: How many answered turns the pages must have.

    Returns:
        The newest first; no more than it takes.

    Raises:
        DatabaseCorruptError: A page is missing or was changed.
    """
    to_the_end = wanted is None or None in wanted
    prints = set() if to_the_end else {_print_of(each) for each in wanted or ()}
    names: list[str] = []
    needed = 0
    while head is not None and (to_the_end or prints or turns > 0):
        line = yield from _line(store, thread_id, head["page_id"])
        names.append(head["page_id"])
        here = _prints(line["ids"])
        if to_the_end or prints & here or turns > 0:
            needed = len(names)
        prints -= here
        turns -= line["turns"]
        head = line["before"]
    pages: list[Page] = []
    for name in names[:needed]:
        pages += [(yield from read_page(store, thread_id, name))]
    return pages


def _line(store: BaseStore, thread_id: str, page_id: str) -> Steps[Line]:
    item = yield get_item(store, _place(thread_id), page_id)
    value = None if item is None else item.value
    if value is None or value.keys() != Line.__annotations__.keys():
        raise _lost(page_id)
    line = cast("Line", value)
    if _page_id(line) != page_id:
        raise _lost(page_id)
    return line


def _place(thread_id: str) -> tuple[str, ...]:
    return thread_namespace("sealed", thread_id)


def _print_of(message_id: str | None) -> bytes:
    """Four bytes by which a page knows that it may hold a message."""
    return crc32((message_id or "").encode("utf-8", "surrogatepass")).to_bytes(PRINT)


def _prints(ids: str) -> set[bytes]:
    plain = b64decode(ids)
    return {plain[start : start + PRINT] for start in range(0, len(plain), PRINT)}


def _page_id(line: Line) -> str:
    """A name that follows from a page's place and from what is in it."""
    before = line["before"]
    place = "" if before is None else f"{before['page_id']}\x00{before['turns']}"
    parts = (place, str(line["turns"]), line["ids"], line["body"])
    digest = _digest("\x00".join(parts))
    return f"sealed-{digest[:20]}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _lost(page_id: str) -> DatabaseCorruptError:
    return DatabaseCorruptError(
        f"Page {page_id!r} of this thread's record is missing or was changed: put a backup of the "
        "database in its place. What is newer is intact"
    )
