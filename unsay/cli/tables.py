"""Lists that come in pages, and the lines of their tables."""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from unsay.cli.output import note
from unsay.cli.terminal import columns, padded
from unsay.conversation.tree import one_line
from unsay.messages.content import cells_of
from unsay.storage.pagination import MOST, Slice

T = TypeVar("T")

WIDE = 100
"""Cells from which a terminal has room for whole dates, and for two texts side by side."""

PIPED_CELLS = 60
"""Cells of the text that ends a table's line where no terminal says how wide it is."""

LEAST_CELLS = 16
"""Cells of the text that ends a table's line on the narrowest terminal."""

Read = Callable[[str | None, int], Slice[T]]
"""Returns the page after a cursor, with at most this many lines."""


def gathered(read: Read[T], *, limit: int | None, cursor: str | None) -> Slice[T]:
    """Return one page, or without a limit everything from the cursor on."""
    if limit is not None:
        return read(cursor, limit)
    page = read(cursor, MOST)
    lines = list(page.lines)
    while page.cursor is not None:
        page = read(page.cursor, MOST)
        lines += page.lines
    return Slice(lines=tuple(lines), cursor=None)


def end_list(page: Sequence[object], cursor: str | None, empty: str) -> None:
    """Say how to get the next page where there is one, and that a list is empty."""
    if cursor is not None:
        note(f"there is more: --cursor {cursor}")
    if not page:
        note(empty)


def moment(at: str) -> str:
    """Return a stored time for people, in UTC; on a narrow terminal without year and seconds.

    Args:
        at: ISO 8601.
    """
    narrow = sys.stdout.isatty() and columns() < WIDE
    return at[slice(5, 16) if narrow else slice(0, 19)].replace("T", " ")


def line(head: str, words: str) -> str:
    """Return a table's line: the columns, then as much of a text as fits."""
    room = columns() - cells_of(head) - 2 if sys.stdout.isatty() else PIPED_CELLS
    return f"{head}  {one_line(words, max(LEAST_CELLS, room))}".rstrip()


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield each row with its cells as wide as the widest of their column."""
    widths = [max(map(cells_of, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(map(padded, row, widths))
