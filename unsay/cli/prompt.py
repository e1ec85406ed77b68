"""Reading messages from a terminal: several lines, a history, completion and a bottom line."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from select import select
from unicodedata import normalize

import click
from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.data_structures import Point
from prompt_toolkit.document import Document
from prompt_toolkit.filters import shift_selection_mode
from prompt_toolkit.formatted_text import FormattedText, StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.selection import SelectionState

import unsay
from unsay.cli.keyboard import is_dumb
from unsay.cli.terminal import columns, wrapped
from unsay.errors import UnsayError
from unsay.orders.orders import SLASH_COMMANDS
from unsay.orders.parse import parse_command
from unsay.results.timeline import one_line
from unsay.types import Language

# Newest lines that are read; older ones stay in the file.
NEWEST = 1_000


def typed_texts(path: Path) -> list[str]:
    """Return the last texts that were typed in any chat, newest first, and at most `NEWEST`.

    Damaged lines are skipped. Empty if the file does not exist or cannot be read.
    """
    entries: list[tuple[str, str]] = []
    with suppress(OSError):
        entries.extend(_entries(path))
    return [text for _, text in reversed(entries[-NEWEST:])]


def add_text(path: Path, thread_id: str, text: str) -> None:
    """Append a text to the history file, which is created if needed.

    If the file cannot be written, nothing is kept and no error is raised.
    """
    line = json.dumps({"thread": thread_id, "text": text}, ensure_ascii=False)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, f"{line}\n", os.O_APPEND)


def forget_thread(path: Path, thread_id: str) -> None:
    """Remove everything that was typed in a thread from the history file, and any damaged lines.

    If the file does not exist, nothing happens. Raises `OSError` if it cannot be read or written;
    the file is then as it was.
    """
    if not path.exists():
        return
    entries = [(thread, text) for thread, text in _entries(path) if thread != thread_id]
    lines = (
        json.dumps({"thread": thread, "text": text}, ensure_ascii=False) for thread, text in entries
    )
    # The old file is replaced in one step: a process killed before it loses nothing.
    new = path.with_name(f"{path.name}.new")
    _write(new, "".join(f"{line}\n" for line in lines), os.O_TRUNC)
    new.replace(path)


def _write(path: Path, text: str, how: int) -> None:
    """Append all of the text to a file; with the flag `os.O_TRUNC` as `how`, replace its content.

    Raises `OSError` if that fails, as on a full disk; no part of the text is then in the file.
    """
    file = os.open(path, os.O_WRONLY | os.O_CREAT | how, 0o600)
    try:
        os.fchmod(file, 0o600)
        end, rest = os.fstat(file).st_size, text.encode("utf-8", "replace")
        try:
            while rest:  # a disk that is nearly full takes a part, and the next write fails
                rest = rest[os.write(file, rest) :]
        except OSError:
            os.ftruncate(file, end)  # the next line would continue a part of this one
            raise
    finally:
        os.close(file)


def _entries(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the thread and the text of each line, oldest first; a damaged line is skipped.

    Raises `OSError` if the file cannot be read.
    """
    # Not `splitlines`: JSON does not escape U+2028, which that takes for the end of a line.
    for line in path.read_text("utf-8", "replace").split("\n"):
        with suppress(ValueError, KeyError, TypeError, RecursionError):
            entry = json.loads(line)
            thread, text = entry["thread"], entry["text"]
            if isinstance(thread, str) and isinstance(text, str):
                yield thread, text


PROMPT = "> "
ROLLBACK = "/rollback"
TAKES_CHECKPOINT = f"{ROLLBACK} "

# Words that leave the chat, as in other programs; the model is not sent them.
LEAVING = frozenset({"exit", "quit", "終了"})

# A dumb terminal sends a paste line by line; lines that follow within this time belong to it.
PASTE_SECONDS = 0.05


def ends_chat(text: str) -> bool:
    """Return whether a text is a word that leaves the chat, also in full-width letters."""
    return normalize("NFKC", text).strip().lower() in LEAVING


def verb_of(text: str) -> str:
    """Return the verb of a text that is a command; empty for another text."""
    command = parse_command(text)
    return "" if command is None else command["verb"]


class Commands(Completer):
    """Completes slash commands, with what they do, and the names of checkpoints.

    While the chat waits for a decision, other lines are completed with `choices`.
    """

    def __init__(
        self, described: Iterable[tuple[str, str]], names: Callable[[], Iterable[tuple[str, str]]]
    ) -> None:
        self._described = list(described)
        self._names = names
        self.choices: Sequence[str] = ()

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        """Yield what can complete the text before the cursor; prompt_toolkit calls this.

        After `/rollback` and a space these are checkpoints, after a slash commands, and in any
        other text the `choices` of a decision. If the chat does not wait for a decision, other text
        has none.
        """
        del complete_event
        line = document.text_before_cursor
        candidates: Iterable[tuple[str, str]]
        if self.choices and not line.startswith("/"):
            candidates, prefix = [(each, "") for each in self.choices], line
        elif line.startswith(TAKES_CHECKPOINT):
            candidates, prefix = self._names(), line.removeprefix(TAKES_CHECKPOINT)
        elif line.startswith("/"):
            candidates, prefix = self._described, line
        else:
            return
        for word, meaning in candidates:
            if word.startswith(prefix):
                yield Completion(word, start_position=-len(prefix), display_meta=meaning)


def described_commands(language: Language) -> list[tuple[str, str]]:
    """Return the name of each slash command, such as `/undo`, and its meaning in a language."""
    return [(f"/{each.name}", each.meaning(language)) for each in SLASH_COMMANDS]


def checkpoint_names(conversation: "unsay.Conversation") -> list[tuple[str, str]]:
    """Return each checkpoint's name (or id, if unnamed) and its topic.

    Empty for a new thread, or one that cannot be read.
    """
    try:
        marks = conversation.checkpoints()
    except UnsayError:
        return []
    return [(each.name or each.id, each.topic) for each in marks]


class ThreadHistory(History):
    """The history of a chat's prompt: it shows the texts of all chats, and adds to one thread."""

    def __init__(self, path: Path, thread_id: str) -> None:
        super().__init__()
        self._path, self._thread_id = path, thread_id

    def load_history_strings(self) -> Iterable[str]:
        """Return what was typed in all chats, newest first, 1,000 at most; prompt_toolkit calls this."""
        return typed_texts(self._path)

    def store_string(self, string: str) -> None:
        """Add a text that was sent to the history file; prompt_toolkit calls this."""
        add_text(self._path, self._thread_id, string)


class Keyboard:
    """Reads one message after another with prompt_toolkit.

    Enter sends, Alt-Enter adds a line, and a paste of several lines is one text. Esc Esc sends the
    text `/rollback`, and keeps in `typed` what stood in the prompt.
    """

    def __init__(
        self,
        conversation: "unsay.Conversation",
        language: Language,
        history: Path,
        status: Callable[[], str],
    ) -> None:
        self.typed = ""
        self.selects = False
        """Whether the next prefill is selected, so that what is typed or pasted replaces it."""

        self._completer = Commands(
            described_commands(language), lambda: checkpoint_names(conversation)
        )
        self._session: PromptSession[str] = PromptSession(
            completer=self._completer,
            history=ThreadHistory(history, conversation.thread_id),
            key_bindings=self._keys(),
            multiline=True,
            prompt_continuation=FormattedText([("fg:ansibrightblack", "· ")]),
            bottom_toolbar=lambda: one_line(status(), columns() - 1),
        )

    def read(self, prefill: str, choices: Sequence[str] = ()) -> str:
        """Show the prompt and return what a person enters.

        `prefill` is in the prompt at first and can be changed; with `selects` it is selected. `choices` are shown and completed
        while a decision is due. After Esc Esc the text `/rollback` is returned. Raises `EOFError`
        after Ctrl-D, and `KeyboardInterrupt` after Ctrl-C.
        """
        self.typed, self._completer.choices = "", choices
        prompt_text = f"{' | '.join(choices)}\n{PROMPT}" if choices else PROMPT
        select, self.selects = self._select if self.selects else None, False
        return self._session.prompt(prompt_text, default=prefill, pre_run=select)

    def _select(self) -> None:
        selection = SelectionState()  # from the first character to the cursor behind the last one
        selection.enter_shift_mode()
        self._session.default_buffer.selection_state = selection

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter")
        def send(event: KeyPressEvent) -> None:
            event.current_buffer.validate_and_handle()

        @keys.add("escape", "enter")
        @keys.add("c-j")
        def add_line(event: KeyPressEvent) -> None:
            event.current_buffer.exit_selection()
            event.current_buffer.insert_text("\n")

        @keys.add("escape", "escape", eager=True)
        def go_back(event: KeyPressEvent) -> None:
            self.typed = event.current_buffer.text
            event.current_buffer.reset()
            event.app.exit(result=ROLLBACK)

        @keys.add(Keys.BracketedPaste, filter=shift_selection_mode)
        def paste_over(event: KeyPressEvent) -> None:
            event.current_buffer.cut_selection()
            event.key_processor.feed(event.key_sequence[0], first=True)

        return keys


class PlainReader:
    """Reads lines without prompt_toolkit: from a pipe, or from a terminal that can show only text.

    On a terminal, lines that arrive at once, as a paste does, are one message.
    """

    typed = ""

    def __init__(self, *, interactive: bool) -> None:
        self._interactive = interactive

    def read(self, prefill: str, choices: Sequence[str] = ()) -> str:
        """Return a message; `EOFError` at the end, `UnicodeDecodeError` if it is not UTF-8 text.

        Raises `KeyboardInterrupt` after Ctrl-C.

        On a terminal `choices` are shown before it. There is no `prefill` that could be changed.
        """
        del prefill
        if not self._interactive:
            return input()
        prompt_text = f"{' | '.join(choices)}\n{PROMPT}" if choices else PROMPT
        click.echo(prompt_text, nl=False, err=True)
        lines = [input()]
        while _more_waits():
            try:
                lines.append(input())
            except EOFError:
                break
        return "\n".join(lines)


def _more_waits() -> bool:
    return bool(select([sys.stdin], [], [], PASTE_SECONDS)[0])


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
    choice = _List(title, rows, hint, start).run()
    return choice if isinstance(choice, int) else None


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
        user_input = input("> ").strip()
    except (EOFError, KeyboardInterrupt):
        return None
    return {str(index + 1): index for index in range(len(rows))}.get(user_input)


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
            fragments: StyleAndTextTuples = []
            for index, row in enumerate(self._rows):
                pointer, style = ("❯ ", "reverse") if index == self._at else ("  ", "")
                fragments.append((style, f"{pointer}{one_line(row.text, cells - 3)}\n"))
            return fragments

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
    text = event.data.replace("\r\n", "\n").replace("\r", "\n")
    if text.strip() and "\x1b" not in text and (len(text) > 1 or text.isprintable()):
        event.app.exit(result=text)
