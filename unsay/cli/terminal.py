"""Laying out text for a terminal: lines that fit, tables, and pages of rows."""

import shutil
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import zip_longest

import click
from wcwidth import iter_graphemes, ljust

from unsay.cli.output import note, shell_texts
from unsay.messages.content import cells_of
from unsay.results.timeline import one_line, printable

NO_START = frozenset(
    "。、，．・：；？！」』）］｝〉》】〕’”…ー々ぁぃぅぇぉっゃゅょァィゥェォッャュョ,.:;?!)]}%"
)
"""What may not begin a line. Source: JIS X 4051, line start prohibition rule, abridged."""

NO_END = frozenset("「『（［｛〈《【〔‘“([{")
"""What may not end a line. Source: JIS X 4051, line end prohibition rule."""


class Wrap:
    r"""Lays out text that arrives in pieces; the last word is held until it is complete.

    >>> wrap = Wrap(columns=7)
    >>> wrap.feed("one two thr") + wrap.feed("ee") + wrap.end()
    'one two\nthree'
    """

    def __init__(self, *, columns: int, indent: int = 0) -> None:
        """Begin a first line whose `indent` cells the caller has filled.

        Every later line begins with `indent` spaces. A line has at most `columns` cells, with the
        indent.
        """
        self._columns = max(columns, indent + 2)
        self._indent = indent
        self._column = indent
        self._blanks = ""
        self._word = ""
        self.rows = 0

    def feed(self, text: str) -> str:
        """Take the next piece of the text, and return what can be printed now."""
        return "".join(self._take(char) for char in text)

    def _take(self, char: str) -> str:
        if char == "\n":
            output = self.end()
            self._blanks = ""
            return output + self._new_line()
        if char.isspace():
            output = self.end()
            self._blanks += char
            return output
        output = self.end() if self._breaks_before(char) else ""
        self._word += char
        return output

    def _breaks_before(self, char: str) -> bool:
        if not self._word or char in NO_START or self._word[-1] in NO_END:
            return False
        last = next(filter(cells_of, reversed(self._word)), "")
        if cells_of(char) < 2 and cells_of(last) < 2:
            return False
        # Characters that a terminal joins to one, such as a flag's two, take fewer cells together.
        apart = cells_of(self._word) + cells_of(char)
        return cells_of(char) > 0 and cells_of(self._word + char) == apart

    def end(self) -> str:
        """Return the held word after its blanks or a line break; empty if no word is held."""
        word, self._word = self._word, ""
        if not word:
            return ""
        blanks, self._blanks = self._blanks, ""
        output = ""
        if self._column > self._indent and self._too_long(blanks + word):
            output, blanks = self._new_line(), ""
        for cluster in iter_graphemes(blanks + word):
            # A word may be longer than a whole line.
            if self._too_long(cluster):
                output += self._new_line()
            output += cluster
            self._column += cells_of(cluster)
        return output

    def _too_long(self, text: str) -> bool:
        return self._column + cells_of(text) > self._columns

    def _new_line(self) -> str:
        self.rows += 1
        self._column = self._indent
        return "\n" + " " * self._indent


def wrapped(text: str, *, columns: int, indent: int = 0) -> str:
    r"""Return a text broken into lines of at most `columns` cells.

    Every line but the first begins with `indent` spaces. The first is shorter by as many cells,
    because the caller prints something before it.

    >>> wrapped("何も変更していません。", columns=10)
    '何も変更し\nていませ\nん。'
    """
    wrap = Wrap(columns=columns, indent=indent)
    return wrap.feed(text) + wrap.end()


UNBOUNDED = 1_000_000
"""Cells in a line that no terminal breaks."""


def columns() -> int:
    """Return the cells in a line of the terminal as it is now; 80 if standard output is none."""
    return shutil.get_terminal_size().columns


def room() -> int:
    """Return the cells in a line of standard output; `UNBOUNDED` if it is not a terminal."""
    return columns() if sys.stdout.isatty() else UNBOUNDED


GAP = " │ "
"""Between two columns."""


def clean(text: str) -> str:
    r"""Return the text without characters that control a terminal; line breaks and indents stay.

    Control characters become U+FFFD, also a carriage return that does not end a line. A tab becomes 1 to 4 spaces, up to the
    next multiple of four characters. Invisible marks, such as those that change the direction of
    writing, are dropped. Characters are composed (NFC), so that each takes the cells that it seems
    to take.

    >>> clean("one\x1b[31m\ttwo\n  three")
    'one�[31m    two\n  three'
    >>> clean("a\tb")
    'a   b'
    """
    lines = unicodedata.normalize("NFC", text.replace("\r\n", "\n")).expandtabs(4)
    return "".join(char if char == "\n" else printable(char) for char in lines)


def block(text: str, *, columns: int | None = None, indent: int = 2) -> str:
    """Return a text in indented lines of at most `columns` cells, indent included.

    `None` is the terminal's width; without a terminal no line is broken. `clean` makes the text safe
    to print. Its own line breaks stay, except at its end.
    """
    cells = room() if columns is None else columns
    words = wrapped(clean(text).rstrip("\n"), columns=cells, indent=indent)
    return "\n".join(line.rstrip() for line in f"{' ' * indent}{words}".split("\n"))


def side_by_side(heads: Sequence[str], texts: Sequence[str], *, columns: int) -> str:
    """Return two texts beside each other in `columns` cells, each under its heading of one line."""
    width = (columns - cells_of(GAP)) // 2
    left_lines, right = (wrapped(clean(text), columns=width).split("\n") for text in texts)
    first, second = (one_line(head, width) for head in heads)
    rows = [(ljust(one, width), two) for one, two in zip_longest(left_lines, right, fillvalue="")]
    heads = (click.style(ljust(first, width), bold=True), click.style(second, bold=True))
    return "\n".join(f"{one}{GAP}{two}".rstrip() for one, two in (heads, *rows))


WIDE = 100
"""Cells from which a terminal has room for whole dates, and for two texts side by side."""

# Cells of the text that ends a table's line: without a terminal, and on the narrowest one.
PIPED_CELLS = 60
LEAST_CELLS = 16


def end_list(page: Sequence[object], cursor: str | None, empty: str) -> None:
    """Note on standard error the cursor of the next page, if there is one.

    If the page is empty, the text `empty` is noted.
    """
    if cursor is not None:
        note(shell_texts().say("more_rows", cursor=cursor))
    if not page:
        note(empty)


def moment(at: str) -> str:
    """Return a stored ISO time in local time; on a narrow terminal without year and seconds."""
    return _local(at)[slice(0, 19) if room() >= WIDE else slice(5, 16)]


def local_minute(at: str) -> str:
    """Return a stored ISO time in local time, such as `2026-01-31 09:00`."""
    return _local(at)[:16]


def _local(at: str) -> str:
    """Return a stored ISO time in local time; a text that is not a time is returned as it is."""
    try:
        return datetime.fromisoformat(at).astimezone().isoformat(" ")
    except (ValueError, OverflowError):
        return at


def line(head: str, words: str) -> str:
    """Return a table's line: the columns in `head`, then as much of the text `words` as fits."""
    cells = columns() - cells_of(head) - 2 if sys.stdout.isatty() else PIPED_CELLS
    return f"{head}  {one_line(words, max(LEAST_CELLS, cells))}".rstrip()


def print_table(
    titles: str, cells: Sequence[tuple[str, ...]], tails: Sequence[str], below: Sequence[str] = ()
) -> None:
    """Print a header and rows, each with its text from `below`, if it has one; nothing without rows.

    `titles` are those of the columns, with `|` between them; the last one is that of `tails`.
    """
    if not cells:
        return
    *heads, last = titles.split("|")
    title, *rows = aligned([heads, *cells])
    click.echo(line(title, last))
    for row, tail, text in zip_longest(rows, tails, below, fillvalue=""):
        click.echo(line(row, tail))
        if text:
            click.echo(f"    {text}")


def help_table(text: str, *, columns: int) -> str:
    r"""Return a help of lines `/usage  meaning` in two columns; other lines are unchanged.

    A meaning that does not fit in `columns` cells continues in the second column.

    >>> print(help_table("/undo  go back\n/pin [N]  keep", columns=15))
    /undo     go
              back
    /pin [N]  keep
    """
    rows = [line.partition("  ") for line in text.split("\n")]
    indent = max((cells_of(usage) + 2 for usage, _, meaning in rows if meaning), default=0)
    return "\n".join(
        ljust(usage, indent) + wrapped(meaning, columns=columns, indent=indent)
        if meaning
        else usage
        for usage, _, meaning in rows
    )


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield each row as one line; every column is as wide as its widest cell.

    All rows must have the same number of cells.
    """
    widths = [max(map(cells_of, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(map(ljust, row, widths))
