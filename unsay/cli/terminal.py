"""A turn as a person sees it in a terminal: the words as they come, all else dimmed."""

import os
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, TypeVar

import click
from wcwidth import iter_graphemes

from unsay.cli.output import note
from unsay.cli.strings import Labels
from unsay.conversation.results import Event, Reply
from unsay.conversation.tree import one_line, printable
from unsay.messages.content import cells_of
from unsay.operations.commands import score_text
from unsay.storage.pagination import MOST, Slice

T = TypeVar("T")

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
        """Begin a line whose first `indent` cells the caller fills; in all others they stay free."""
        self._columns = max(columns, indent + 2)
        self._indent = indent
        self._column = indent
        self._blanks = ""
        self._word = ""
        self.rows = 0

    def feed(self, text: str) -> str:
        """Return the text that can be printed after this piece."""
        return "".join(self._take(char) for char in text)

    def _take(self, char: str) -> str:
        if char == "\n":
            done = self.end()
            self._blanks = ""
            return done + self._new_line()
        if char.isspace():
            done = self.end()
            self._blanks += char
            return done
        done = self.end() if self._breaks_before(char) else ""
        self._word += char
        return done

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
        """Return the word that was held; an empty text without one."""
        word, self._word = self._word, ""
        if not word:
            return ""
        blanks, self._blanks = self._blanks, ""
        done = ""
        if self._column > self._indent and self._too_long(blanks + word):
            done, blanks = self._new_line(), ""
        for cluster in iter_graphemes(blanks + word):
            # A word may be longer than a whole line.
            if self._too_long(cluster):
                done += self._new_line()
            done += cluster
            self._column += cells_of(cluster)
        return done

    def _too_long(self, text: str) -> bool:
        return self._column + cells_of(text) > self._columns

    def _new_line(self) -> str:
        self.rows += 1
        self._column = self._indent
        return "\n" + " " * self._indent


def wrapped(text: str, *, columns: int, indent: int = 0) -> str:
    r"""Return a whole text in lines.

    >>> wrapped("何も変更していません。", columns=10)
    '何も変更し\nていませ\nん。'
    """
    wrap = Wrap(columns=columns, indent=indent)
    return wrap.feed(text) + wrap.end()


NOTE_INDENT = 2
UNBOUNDED = 1_000_000
"""Cells in a line that no terminal breaks."""


def columns() -> int:
    """Cells in a line of the terminal as it is now; 80 where there is none."""
    return shutil.get_terminal_size().columns


def room() -> int:
    """Cells in a line of standard output, without a limit where it is no terminal."""
    return columns() if sys.stdout.isatty() else UNBOUNDED


class Screen:
    """Shows the events of one turn after another."""

    def __init__(self, labels: Labels, *, live: bool, notes_apart: bool = True) -> None:
        """Show drafts as they arrive if `live`, and notes on standard error if `notes_apart`."""
        self.labels = labels
        self._live = live
        self._notes_apart = notes_apart
        self._draft = ""
        self._message_id: str | None = None
        self._wrap = Wrap(columns=columns())
        self._shown: Mapping[str, Callable[[Event], None]] = {
            "token": self._token,
            "draft_rejected": self._draft_rejected,
            "rollback": self._rollback,
            "topic": self._topic,
            "compaction": lambda event: self._fill(self.labels.summarized, event.data),
            "verdict": self._verdict,
            "messages_removed": lambda _: self.note(self.labels.question_removed),
            "summary_failed": lambda event: self._fill(self.labels.summary_failed, event.data),
            "context_warning": lambda event: self._fill(self.labels.context_warning, event.data),
            "budget_warning": lambda event: self._fill(self.labels.budget_warning, event.data),
        }

    def show(self, event: Event) -> None:
        """Show one event; kinds that say nothing new to a person are left out."""
        if event.reply is not None:
            self.reply(event.reply)
        elif handler := self._shown.get(event.kind):
            handler(event)

    def reply(self, reply: Reply) -> None:
        """Show how a turn ended, unless its words are on the screen already."""
        if not self._live:
            click.echo(reply.text)
        elif self._draft.strip() != reply.text.strip():
            self.end_line()
            self._write(reply.text)
        self.end_line()
        if reply.kind == "answer":
            self.note(self._status(reply))
        if reply.request is not None:
            self.note(reply.request["action_requests"][0]["description"])

    def end_line(self) -> None:
        """End the line of a draft that is on the screen."""
        if self._draft:
            click.echo(self._wrap.end())
        self._draft = ""
        self._wrap = Wrap(columns=columns())

    def note(self, text: str) -> None:
        """Print a dimmed line, indented, on standard error or, without `notes_apart`, on standard output."""
        fits = columns() if sys.stderr.isatty() or not self._notes_apart else UNBOUNDED
        line = " " * NOTE_INDENT + wrapped(text, columns=fits, indent=NOTE_INDENT)
        click.echo(click.style(line, dim=True), err=self._notes_apart)

    def _fill(self, label: str, data: Mapping[str, Any]) -> None:
        scores = {key: score_text(data[key]) for key in ("score", "similarity") if key in data}
        self.note(label.format(**{**data, **scores}))

    def _write(self, text: str) -> None:
        self._draft += text
        click.echo(self._wrap.feed(text), nl=False)
        sys.stdout.flush()

    def _token(self, event: Event) -> None:
        if not self._live:
            return
        if self._message_id != event.message_id:
            self.end_line()
        self._message_id = event.message_id
        self._write(event.text)

    def _draft_rejected(self, event: Event) -> None:
        in_sight = self._wrap.rows < shutil.get_terminal_size().lines - 1
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb"
        if self._draft and in_sight and sys.stdout.isatty() and not plain:
            # The draft is drawn once more in its place, struck out.
            up = f"\x1b[{self._wrap.rows}A" if self._wrap.rows else ""
            words = wrapped(self._draft, columns=columns())
            click.echo(f"{up}\r\x1b[J{click.style(words, dim=True, strikethrough=True)}")
            self._draft = ""
        self.end_line()
        self._fill(self.labels.draft_rejected, event.data)

    def _rollback(self, event: Event) -> None:
        kind, removed = event.data["kind"], event.data["removed"]
        # A person's own order is answered by a notice, and a mere draft is announced already.
        if kind == "context" or (kind == "draft" and removed):
            self._fill(self.labels.rolled_back_to, event.data)

    def _topic(self, event: Event) -> None:
        if event.data["similarity"] is not None:
            back = event.data["kind"] == "back"
            self._fill(self.labels.back_to_topic if back else self.labels.new_topic, event.data)

    def _verdict(self, event: Event) -> None:
        if event.data["of"] == "context":
            self._fill(self.labels.judged, event.data)

    def _status(self, reply: Reply) -> str:
        words = self.labels
        scored = words.unscored.format(reason=reply.reason)
        if reply.score is not None:
            scored = words.score.format(score=score_text(reply.score))
        parts = [scored, words.topic.format(label=reply.topic) if reply.topic else ""]
        if reply.checkpoint_id:
            parts.append(words.checkpoint.format(id=reply.checkpoint_id))
        if reply.checkpoints_removed:
            names = ", ".join(reply.checkpoints_removed)
            parts.append(words.checkpoints_removed.format(names=names))
        if reply.flag == "low_quality":
            parts.append(words.low_quality.format(reason=reply.reason))
        return " · ".join(part for part in parts if part)


GAP = " │ "
"""Between two columns."""


def clean(text: str) -> str:
    r"""Return the text without characters that control a terminal; lines and indents stay.

    Control characters become U+FFFD, and marks that change the direction of writing are dropped.
    Characters are composed (NFC), so that each takes the cells that it seems to take.

    >>> clean("one\x1b[31m\ttwo\n  three")
    'one�[31m    two\n  three'
    """
    lines = unicodedata.normalize("NFC", text).expandtabs(4)
    return "".join(char if char == "\n" else printable(char) for char in lines)


def block(text: str, *, columns: int | None = None, indent: int = 2) -> str:
    """Return a text in lines that fit standard output, or `columns` cells, all indented."""
    cells = room() if columns is None else columns
    words = wrapped(clean(text).rstrip("\n"), columns=cells, indent=indent)
    return "\n".join(line.rstrip() for line in f"{' ' * indent}{words}".split("\n"))


def side_by_side(heads: Sequence[str], texts: Sequence[str], *, columns: int) -> str:
    """Return two texts next to each other, each under its heading of one line."""
    width = (columns - cells_of(GAP)) // 2
    left, right = (wrapped(clean(text), columns=width).split("\n") for text in texts)
    first, second = (one_line(head, width) for head in heads)
    rows = [(padded(one, width), two) for one, two in zip_longest(left, right, fillvalue="")]
    heads = (click.style(padded(first, width), bold=True), click.style(second, bold=True))
    return "\n".join(f"{one}{GAP}{two}".rstrip() for one, two in (heads, *rows))


def padded(line: str, cells: int) -> str:
    """Return a line with blanks added, so that it takes this many cells."""
    return line + " " * (cells - cells_of(line))


WIDE = 100
"""Cells from which a terminal has room for whole dates, and for two texts side by side."""

# Cells of the text that ends a table's line: without a terminal, and on the narrowest one.
PIPED_CELLS = 60
LEAST_CELLS = 16


def gathered(
    read: Callable[[str | None, int], Slice[T]], *, limit: int | None, cursor: str | None
) -> Slice[T]:
    """Return one page after a cursor, or without a limit everything from the cursor on."""
    page = read(cursor, MOST if limit is None else limit)
    lines = list(page.items)
    while limit is None and page.cursor is not None:
        page = read(page.cursor, MOST)
        lines += page.items
    return Slice(items=tuple(lines), cursor=page.cursor)


def end_list(page: Sequence[object], cursor: str | None, empty: str) -> None:
    """Say how to get the next page where there is one, and that a list is empty."""
    if cursor is not None:
        note(f"more rows: --cursor {cursor}")
    if not page:
        note(empty)


def moment(at: str) -> str:
    """Return a stored ISO time for people, in UTC; on a narrow terminal without year and seconds."""
    return at[slice(0, 19) if room() >= WIDE else slice(5, 16)].replace("T", " ")


def line(head: str, words: str) -> str:
    """Return a table's line: the columns, then as much of a text as fits."""
    cells = columns() - cells_of(head) - 2 if sys.stdout.isatty() else PIPED_CELLS
    return f"{head}  {one_line(words, max(LEAST_CELLS, cells))}".rstrip()


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield each row with its cells as wide as the widest of their column."""
    widths = [max(map(cells_of, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(map(padded, row, widths))
