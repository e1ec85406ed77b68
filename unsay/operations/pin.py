"""Pins: messages that contexts always include, offloaded ones too.

While a rollback has removed a pinned message from the transcript, its pin has no effect.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from langchain_core.messages import AnyMessage

from unsay.context.compaction import with_partners
from unsay.errors import ConflictError
from unsay.state import State
from unsay.types import Pin

# Most pins of a thread: pinned messages must leave room for the conversation.
PINS = 64


def pinned_ids(state: Mapping[str, Any]) -> frozenset[str]:
    """Return the ids of pinned messages, also of those that a rollback removed."""
    return frozenset(each["message_id"] for each in state.get("pins", []))


def make_pin(message_id: str, page: str | None) -> Pin:
    """Return a pin on a message; `page` is the id of its offloaded segment, `None` for the state."""
    return Pin(message_id=message_id) if page is None else Pin(message_id=message_id, page=page)


def bounded(pins: list[Pin]) -> list[Pin]:
    """Return the pins unchanged, or raise `ConflictError` if there are more than `PINS`."""
    if len(pins) > PINS:
        raise ConflictError(
            f"A thread may have {PINS} pins, and this would make {len(pins)}: unpin some first"
        )
    return pins


def ids_to_pin(messages: Sequence[AnyMessage], message_ids: Collection[str]) -> list[str]:
    """Return the ids to pin so that contexts include all messages with these ids.

    A tool call and its results need only one pin, which covers them all: that of the first named.
    """
    led: list[str] = []
    seen: set[int] = set()
    for index, message in enumerate(messages):
        if message.id in message_ids and index not in seen:
            led.append(message.id or "")
            seen |= with_partners(messages, {message.id or ""})
    return led


def move_pins(
    pins: Sequence[Pin], page: str | None, message_ids: Collection[str | None] | None = None
) -> list[Pin]:
    """Return all pins, with those of the given messages moved to the offloaded segment `page`.

    `None` as `message_ids` means all pins, and `None` as `page` means the state.
    """
    return [
        make_pin(each["message_id"], page)
        if message_ids is None or each["message_id"] in message_ids
        else each
        for each in pins
    ]


def pinned_pages(state: State) -> list[str]:
    """Return the segment's id of each offloaded pin; some can be equal. Empty without offloaded pins."""
    return [each["page"] for each in state.get("pins", []) if "page" in each]
