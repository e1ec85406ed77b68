"""Offloaded segments: the oldest part of a long transcript, as a chain of pages in the store.

A page that is missing or was changed raises `DatabaseCorruptError`.
"""

from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from zlib import crc32

from langchain_core.messages import AnyMessage, message_to_dict, messages_from_dict
from langgraph.store.base import BaseStore

from unsay.effects import Steps
from unsay.storage.items import thread_namespace
from unsay.storage.pages import Chain, Page, make_page
from unsay.types import Offloaded, Segment, Topic

# Bytes of a message's id in a page's facts: a search need not read all bodies.
PRINT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class OffloadedSegment:
    """A stretch of a transcript that is no longer in the state."""

    id: str
    before: Offloaded | None
    """Where the older part of the transcript ends; `None` where this is its beginning."""

    turns: int
    messages: tuple[AnyMessage, ...]
    """Oldest first, at least one."""

    segments: tuple[Segment, ...]
    topics: tuple[Topic, ...]
    """The topics of its messages as they were before."""

    instructions: tuple[str, ...]
    """What the system messages say that the transcript has up to here."""

    @property
    def head(self) -> Offloaded:
        """What the state keeps of the transcript up to here."""
        older = self.before or Offloaded(page_id="", last="", messages=0, turns=0)
        head = Offloaded(
            page_id=self.id,
            last=self.messages[-1].id or "",
            messages=older["messages"] + len(self.messages),
            turns=older["turns"] + self.turns,
        )
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
    """Write a stretch of a transcript as a page behind the others."""
    ids = b64encode(b"".join(_print_of(each.id) for each in messages)).decode("ascii")
    body = {
        "messages": [message_to_dict(each) for each in messages],
        "segments": list(segments),
        "topics": list(topics),
        "instructions": list(instructions),
    }
    facts = {"older": before, "turns": turns, "ids": ids}
    page = make_page(None if before is None else before["page_id"], facts, body)
    yield segment_chain(store, thread_id).put(page)
    return _segment(page, messages, body)


def read_page(store: BaseStore, thread_id: str, page_id: str) -> Steps[OffloadedSegment]:
    """Read a stretch of a transcript."""
    chain = segment_chain(store, thread_id)
    return (yield from _whole(chain, (yield from chain.get(page_id))))


def older_part(store: BaseStore, thread_id: str, page_id: str) -> Steps[Offloaded | None]:
    """Read where the transcript's part before a page ends, also where the page's body is lost."""
    page = yield from segment_chain(store, thread_id).get(page_id)
    return cast("Offloaded | None", page.facts["older"])


def find_page(
    store: BaseStore, thread_id: str, head: Offloaded | None, message_id: str
) -> Steps[OffloadedSegment | None]:
    """Find the page that holds a message; `None` where none does."""
    chain, wanted = segment_chain(store, thread_id), _print_of(message_id)
    next_id = head["page_id"] if head else None
    while next_id is not None:
        page = yield from chain.get(next_id)
        if wanted in _prints(page):
            found = yield from _whole(chain, page)
            if any(message.id == message_id for message in found.messages):
                return found
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
    """Read the newest pages, newest first, as many as hold some messages and some answered turns.

    In `wanted` are ids of messages; those that are nowhere are left out. `None` among them, or in
    their place, is the transcript's beginning.
    """
    to_the_end = wanted is None or None in wanted
    prints = set() if to_the_end else {_print_of(each) for each in wanted or ()}
    chain, next_id = segment_chain(store, thread_id), head["page_id"] if head else None
    pages: list[Page] = []
    needed = 0
    while next_id is not None and (to_the_end or prints or turns > 0):
        page = yield from chain.get(next_id)
        pages.append(page)
        if to_the_end or prints & _prints(page) or turns > 0:
            needed = len(pages)
        prints -= _prints(page)
        turns -= page.facts["turns"]
        next_id = page.before
    # Bodies are read only now: those of the last pages are not needed where a message is nowhere.
    found: list[OffloadedSegment] = []
    for page in pages[:needed]:
        found += [(yield from _whole(chain, page))]
    return found


def segment_chain(store: BaseStore, thread_id: str) -> Chain:
    """The chain of pages of a thread's offloaded segments."""
    return Chain(
        store=store,
        place=thread_namespace("offloaded", thread_id),
        name="this thread's record",
        hint=". What is newer is intact",
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
    return crc32((message_id or "").encode("utf-8", "surrogatepass")).to_bytes(PRINT)


def _prints(page: Page) -> set[bytes]:
    plain = b64decode(page.facts["ids"])
    return {plain[start : start + PRINT] for start in range(0, len(plain), PRINT)}
