"""Lists that come in pages, and the lines of their tables."""

import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar

from unsay.cli.output import note, versioned
from unsay.cli.terminal import columns
from unsay.conversation.results import Event
from unsay.conversation.tree import one_line
from unsay.messages.content import cells_of
from unsay.storage.pagination import MOST, Slice

T = TypeVar("T")


WIDE = 100
"""From so many cells on a terminal has room for whole dates, and for two texts side by side."""


PIPED_CELLS = 60
"""So much of a text ends a table's line where no terminal says how wide it is."""


LEAST_CELLS = 16
"""So much of a text ends a table's line on the narrowest terminal."""


Read = Callable[[str | None, int], Slice[T]]
"""Gives the page after a cursor, at most so many lines long."""


def gathered(read: Read[T], *, limit: int | None, cursor: str | None) -> Slice[T]:
    """One page, or without a limit everything from the cursor on."""
    if limit is not None:
        return read(cursor, limit)
    page = read(cursor, MOST)
    lines = list(page.lines)
    while page.cursor is not None:
        page = read(page.cursor, MOST)
        lines += page.lines
    return Slice(lines=tuple(lines), cursor=None)


def tell_more(cursor: str | None) -> None:
    """Say how to get the next page, where there is one."""
    if cursor is not None:
        note(f"there is more: --cursor {cursor}")


def moment(at: str) -> str:
    """A stored time for people, UTC as it is stored; on a narrow terminal without year and seconds.

    Args:
        at: ISO 8601.
    """
    narrow = sys.stdout.isatty() and columns() < WIDE
    return at[slice(5, 16) if narrow else slice(0, 19)].replace("T", " ")


def line(head: str, words: str) -> str:
    """A table's line: what stands in columns, then as much of a text as fits."""
    room = columns() - cells_of(head) - 2 if sys.stdout.isatty() else PIPED_CELLS
    return f"{head}  {one_line(words, max(LEAST_CELLS, room))}".rstrip()


def event_object(event: Event) -> dict[str, Any]:
    """An event with the same four fields whatever its kind; a reply's own stand in `data`."""
    data = dict(event.data) if event.reply is None else asdict(event.reply)
    return versioned(event=event.kind, text=event.text, message_id=event.message_id, data=data)
