"""A list on the terminal from which a person chooses one row, with a preview of the row."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import click
from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import FormattedTextControl, HSplit, Layout, Window

from unsay.cli.keyboard import is_dumb
from unsay.cli.terminal import columns, wrapped
from unsay.conversation.tree import one_line

INDENT = 7 * " "
# Lines of the preview below the rows.
PREVIEW_ROWS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row: its text, and what the preview says.

    `preview` is called when the row is reached; `None` shows nothing.
    """

    text: str
    preview: Callable[[], str] | None = None


def choose(title: str, rows: Sequence[Row], hint: str, *, start: int = 0) -> int | None:
    """Let a person choose a row and return its index; `None` after Esc or Ctrl-C.

    `rows` must not be empty. `hint` is only shown, and `start` is the row where the list opens. A
    dumb terminal shows a numbered list and reads a number once; any other input gives `None`. No
    letter chooses a row, since the person may already be typing the next message.
    """
    if is_dumb():
        return _numbered(title, rows, hint)
    chosen = _List(title, rows, hint, start).run()
    return chosen if isinstance(chosen, int) else None


def choose_or_type(title: str, rows: Sequence[Row], hint: str) -> int | str | None:
    """Let a person choose a row or begin a text: return the row's index, or what was typed.

    The list ends with the first character or with a paste, so that the text is only its beginning;
    the next prompt reads the rest. `None` after Esc or Ctrl-C. The terminal must not be dumb.
    """
    return _List(title, rows, hint, 0, takes_text=True).run()


def _numbered(title: str, rows: Sequence[Row], hint: str) -> int | None:
    click.echo(title, err=True)
    for number, row in enumerate(rows, 1):
        click.echo(f"  {number}. {row.text}", err=True)
        if row.preview is not None:
            for line in row.preview().split("\n"):
                text = wrapped(line, columns=columns(), indent=len(INDENT))
                click.echo(f"{INDENT}{text}", err=True)
            click.echo(err=True)
    click.echo(hint, err=True)
    try:
        typed = input("> ").strip()
    except (EOFError, KeyboardInterrupt):
        return None
    return {str(index + 1): index for index in range(len(rows))}.get(typed)


class _List:
    """The list of `choose` or `choose_or_type` while it is open on the terminal."""

    def __init__(
        self, title: str, rows: Sequence[Row], hint: str, start: int, *, takes_text: bool = False
    ) -> None:
        self._title, self._rows, self._hint = title, rows, hint
        self._takes_text = takes_text
        self._at = start
        self._previews: dict[int, str] = {}

    def run(self) -> int | str | None:
        """Show the list until a row is chosen or a text begun; `None` after Esc and Ctrl-C."""
        size = shutil.get_terminal_size()
        room = max(3, size.lines - 4)
        parts = [self._line(self._title, "bold"), self._list(room, size.columns)]
        if any(row.preview is not None for row in self._rows):
            parts.append(self._preview(min(PREVIEW_ROWS, max(1, room // 2))))
        parts.append(self._line(self._hint, "class:dim fg:ansibrightblack"))
        app: Application[int | str | None] = Application(
            layout=Layout(HSplit(parts)), key_bindings=self._keys(), erase_when_done=True
        )
        return app.run()

    def _line(self, text: str, style: str) -> Window:
        return Window(FormattedTextControl([(style, text)]), height=1, wrap_lines=False)

    def _list(self, room: int, cells: int) -> Window:
        def lines() -> StyleAndTextTuples:
            shown: StyleAndTextTuples = []
            for index, row in enumerate(self._rows):
                pointer, style = ("❯ ", "reverse") if index == self._at else ("  ", "")
                shown.append((style, f"{pointer}{one_line(row.text, cells - 3)}\n"))
            return shown

        control = FormattedTextControl(
            lines, focusable=True, show_cursor=False, get_cursor_position=lambda: Point(0, self._at)
        )
        previews = any(row.preview is not None for row in self._rows)
        most = max(2, room // 2) if previews else room
        return Window(control, height=min(len(self._rows), most), wrap_lines=False)

    def _preview(self, lines: int) -> Window:
        def text() -> StyleAndTextTuples:
            return [("fg:ansiyellow", self._previewed(self._at))]

        return Window(FormattedTextControl(text), height=lines, wrap_lines=True)

    def _previewed(self, index: int) -> str:
        if index not in self._previews:
            preview = self._rows[index].preview
            text = "" if preview is None else preview()
            lines = (wrapped(line, columns=columns()) for line in text.split("\n"))
            self._previews[index] = "\n".join(lines)
        return self._previews[index]

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        def move(by: int) -> Callable[[KeyPressEvent], None]:
            def handle(_: KeyPressEvent) -> None:
                self._at = max(0, min(len(self._rows) - 1, self._at + by))

            return handle

        def cancel(event: KeyPressEvent) -> None:
            event.app.exit(result=None)

        page = max(1, shutil.get_terminal_size().lines // 3)
        for name, by in (("up", -1), ("down", 1), ("pageup", -page), ("pagedown", page)):
            keys.add(name)(move(by))
        keys.add("home")(move(-len(self._rows)))
        keys.add("end")(move(len(self._rows)))
        keys.add("enter")(lambda event: event.app.exit(result=self._at))
        keys.add("escape", eager=True)(cancel)
        keys.add("c-c")(cancel)
        if self._takes_text:
            keys.add(Keys.Any)(_end_with_text)
            keys.add(Keys.BracketedPaste)(_end_with_text)
        return keys


def _end_with_text(event: KeyPressEvent) -> None:
    """Close the list with the text of a key or a paste as its result; Tab and such do nothing."""
    typed = event.data.replace("\r\n", "\n").replace("\r", "\n")
    if typed.strip() and "\x1b" not in typed and (len(typed) > 1 or typed.isprintable()):
        event.app.exit(result=typed)
