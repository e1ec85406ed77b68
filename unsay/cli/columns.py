"""Anybody's words laid out for a terminal: one below the other, or two side by side."""

import unicodedata
from collections.abc import Sequence
from itertools import zip_longest

import click

from unsay.cli.wrap import wrapped
from unsay.graph.trees import one_line
from unsay.transcript.text import cells_of

GAP = " │ "
"""Between two columns."""

_JOINERS = "\u200c\u200d"
_ZERO_WIDTH = frozenset({"Mn", "Me", "Cf"})


def clean(text: str) -> str:
    r"""The text without what would steer a terminal; its lines and indents stay.

    Control characters become U+FFFD, and marks that change the direction of writing are dropped.
    What Unicode can write as one character is one, so that it takes the cells it seems to.

    >>> clean("one\x1b[31m\ttwo\n  three")
    'one�[31m    two\n  three'
    """
    lines = unicodedata.normalize("NFC", text).expandtabs(4)
    return "".join(_shown(char) for char in lines)


def _shown(char: str) -> str:
    category = unicodedata.category(char)
    if category == "Cf" and char not in _JOINERS:
        return ""
    return "\ufffd" if category in ("Cc", "Cs") and char != "\n" else char


def block(text: str, *, columns: int, indent: int = 2) -> str:
    """A text in lines that all stand in by some cells."""
    words = wrapped(clean(text).rstrip("\n"), columns=columns, indent=indent)
    return "\n".join(line.rstrip() for line in f"{' ' * indent}{words}".split("\n"))


def side_by_side(heads: Sequence[str], texts: Sequence[str], *, columns: int) -> str:
    """Two texts next to each other, each under its heading.

    Args:
        heads: Of the left and of the right text; each takes one line.
        texts: The left and the right one.
        columns: Of the terminal, in cells.
    """
    width = (columns - cells_of(GAP)) // 2
    left, right = (wrapped(clean(text), columns=width).split("\n") for text in texts)
    first, second = (one_line(head, width) for head in heads)
    rows = [_row(one, two, width) for one, two in zip_longest(left, right, fillvalue="")]
    head = _row(click.style(_padded(first, width), bold=True), click.style(second, bold=True), 0)
    return "\n".join([head, *rows])


def _row(left: str, right: str, width: int) -> str:
    return f"{_padded(left, width)}{GAP}{right}".rstrip()


def _padded(line: str, cells: int) -> str:
    seen = "".join(char for char in line if unicodedata.category(char) not in _ZERO_WIDTH)
    return line + " " * (cells - cells_of(seen))
