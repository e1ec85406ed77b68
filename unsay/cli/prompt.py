"""Reading messages from a terminal: several lines, a history, completion and a bottom line."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from select import select
from unicodedata import normalize

import click
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import shift_selection_mode
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.selection import SelectionState

from unsay.cli.chat_history import add_text, typed_texts
from unsay.cli.terminal import columns
from unsay.conversation.conversation import Conversation
from unsay.conversation.tree import one_line
from unsay.errors import UnsayError
from unsay.operations.command_table import SLASH_COMMANDS
from unsay.operations.commands import parse_command
from unsay.types import Language

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
        found: Iterable[tuple[str, str]]
        if self.choices and not line.startswith("/"):
            found, typed = [(each, "") for each in self.choices], line
        elif line.startswith(TAKES_CHECKPOINT):
            found, typed = self._names(), line.removeprefix(TAKES_CHECKPOINT)
        elif line.startswith("/"):
            found, typed = self._described, line
        else:
            return
        for word, meaning in found:
            if word.startswith(typed):
                yield Completion(word, start_position=-len(typed), display_meta=meaning)


def described_commands(language: Language) -> list[tuple[str, str]]:
    """Return the name of each slash command, such as `/undo`, and its meaning in a language."""
    return [(f"/{each.name}", each.meaning(language)) for each in SLASH_COMMANDS]


def checkpoint_names(conversation: Conversation) -> list[tuple[str, str]]:
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
        conversation: Conversation,
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
        asked = f"{' | '.join(choices)}\n{PROMPT}" if choices else PROMPT
        select, self.selects = self._select if self.selects else None, False
        return self._session.prompt(asked, default=prefill, pre_run=select)

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
        asked = f"{' | '.join(choices)}\n{PROMPT}" if choices else PROMPT
        click.echo(asked, nl=False, err=True)
        lines = [input()]
        while _more_waits():
            try:
                lines.append(input())
            except EOFError:
                break
        return "\n".join(lines)


def _more_waits() -> bool:
    return bool(select([sys.stdin], [], [], PASTE_SECONDS)[0])
