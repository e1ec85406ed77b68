"""Pins: messages that no view leaves out, also where the state has let go of them.

A pin is of a message, not of a place: it goes quiet while a rollback has the message off the
record, and counts again when that returns.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AnyMessage

from unsay.context.compaction import with_partners
from unsay.context.exclusions import cleared_ids, forgotten_ids, remembered, untold
from unsay.context.topics import by_topic
from unsay.errors import ConflictError
from unsay.messages.annotations import spoken
from unsay.prompts.fields import Texts
from unsay.state import State
from unsay.storage.segments import OffloadedSegment
from unsay.types import Pin

PINS = 64
"""Most pins of a thread: what no view leaves out must leave room for the talk."""


def pinned_ids(state: Mapping[str, Any]) -> frozenset[str]:
    """Return the ids of pinned messages, also of those that a rollback removed."""
    return frozenset(each["message_id"] for each in state.get("pins", []))


def make_pin(name: str, page: str | None) -> Pin:
    """Return a pin; `page` is the offloaded segment that holds the message."""
    return Pin(message_id=name) if page is None else Pin(message_id=name, page=page)


def bounded(pins: list[Pin]) -> list[Pin]:
    """Return the pins, or raise `ConflictError` if there are too many."""
    if len(pins) > PINS:
        raise ConflictError(
            f"{len(pins)!r} pins are more than the {PINS!r} that a thread may have: unpin some first"
        )
    return pins


def leading(messages: Sequence[AnyMessage], names: Collection[str]) -> list[str]:
    """Return the first message of each step; a pin on it holds the rest of its step too."""
    led: list[str] = []
    seen: set[int] = set()
    for index, message in enumerate(messages):
        if message.id in names and index not in seen:
            led.append(message.id or "")
            seen |= with_partners(messages, {message.id or ""})
    return led


def sealed_pins(pins: Sequence[Pin], gone: Collection[str | None], page_id: str) -> list[Pin]:
    """The pins once a page holds some messages."""
    return [
        make_pin(each["message_id"], page_id) if each["message_id"] in gone else each
        for each in pins
    ]


def unsealed_pins(pins: Sequence[Pin], back: Collection[str | None] | None = None) -> list[Pin]:
    """The pins once the state holds some messages again, or nobody does; by default all."""
    return [
        make_pin(each["message_id"], None) if back is None or each["message_id"] in back else each
        for each in pins
    ]


def pinned_pages(state: State) -> list[str]:
    """The pages that hold pinned messages."""
    return [each["page"] for each in state.get("pins", []) if "page" in each]


def in_order(pages: Iterable[OffloadedSegment]) -> list[OffloadedSegment]:
    """Pages in the order in which they stand on the record."""
    return sorted(pages, key=lambda page: page.before["messages"] if page.before else 0)


def shown_of(
    page: OffloadedSegment, topics: Collection[str], state: State, texts: Texts
) -> list[AnyMessage]:
    """Return what contexts show of an offloaded segment: some topics and what is pinned.

    What is forgotten is left out. In a segment without topics all messages belong to the topics.
    """
    grouped = by_topic(page.messages, page.segments)
    all_of_one = grouped.get("", [])
    shown = {m.id for each in topics for m in grouped.get(each, all_of_one)}
    said = {message.id for message in spoken(page.messages)}
    held = with_partners(page.messages, pinned_ids(state))
    shown |= {page.messages[index].id for index in held} & said
    left = remembered(page.messages, page.segments, state.get("forgotten", []), texts)
    return [message for message in left if message.id in shown]


def with_fold_untold(state: State) -> State:
    """The state with a fold that tells of nothing forgotten."""
    messages, segments = state["messages"], state.get("segments", [])
    entries = state.get("forgotten", [])
    out, cleared = forgotten_ids(messages, segments, entries), cleared_ids(messages, entries)
    if not entries or "fold" not in state:
        return state
    fold = untold(messages, segments, state["fold"], forgotten=out, cleared=cleared)
    return {**state, "fold": fold}
