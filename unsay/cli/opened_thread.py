"""The database and the thread that a command works with."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from typing import Any

import click
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from unsay.cli.language import chosen_language, in_shell_language, shell_language
from unsay.cli.loading import load_tools
from unsay.cli.output import note, show
from unsay.cli.paths import check_exists, location
from unsay.conversation.conversation import Conversation
from unsay.conversation.registry import Registry
from unsay.conversation.thread import Confirm
from unsay.errors import UnknownThreadError
from unsay.history.threads import list_threads
from unsay.interrupts import yes_or_no
from unsay.messages.content import newest_language
from unsay.operations.command_table import SLASH_COMMANDS
from unsay.prompts.catalogue import Texts
from unsay.storage.base import Database, translated
from unsay.storage.sqlite import open_database
from unsay.storage.urls import file_at
from unsay.types import Language

Command = Callable[..., None]

_COMMAND = re.compile(
    rf"/((?:{'|'.join(each.name for each in SLASH_COMMANDS)})\b(?: (?:\{{branch\}}|ID\b))?)"
)


def for_shell(texts: Texts) -> Texts:
    """Return a copy whose texts name `unsay undo` and not the chat's `/undo`."""
    return texts.mapped(lambda text: _COMMAND.sub(r"`unsay \1`", text))


@contextmanager
def existing_database(db: str | None) -> Iterator[Database | None]:
    """Open the database for the block, but create none.

    Yields `None` if the default database does not exist.

    Raises:
        NotFoundError: The user named a file that does not exist.
        StorageError: The database cannot be opened; for this and other errors see `open_database`.
    """
    check_exists(db)
    place = location(db)
    file = file_at(place)
    if file is None or file.exists():
        with closing(open_database(place)) as database:
            yield database
    else:
        yield None


@contextmanager
def listed_database(db: str | None) -> Iterator[Database]:
    """Open the database for the block, to list it.

    If the default database does not exist, it is an empty one in memory. Raises the errors of
    `existing_database`, such as `NotFoundError` for a file that does not exist.
    """
    with existing_database(db) as found, closing(found or open_database(":memory:")) as database:
        yield database


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A thread of an open database, and how a command prints its result.

    `existing_thread` makes it.
    """

    database: Database
    thread_id: str
    as_json: bool = False
    # The tools whose calls a command can undo.
    tools: Sequence[Any] = ()

    @cached_property
    def conversation(self) -> Conversation:
        """The conversation, without a model: most commands only read it or roll it back.

        Raises `ConfigurationError` for an impossible setting, `InvalidNameError` for a wrong id.
        """
        return Conversation.open(self.database, thread=self.thread_id, tools=self.tools)

    @cached_property
    def registry(self) -> Registry:
        """The registry of the thread's database."""
        return Registry(self.database)

    @property
    def confirm(self) -> Confirm | None:
        """A function that asks a person whether to undo a tool call; `None` without a terminal."""
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return None
        words = self.labels
        return lambda call: is_confirmed(words.say("ask_undo", call=call.description))

    @property
    def labels(self) -> Texts:
        """The texts in the language of the settings or the thread. Raises as `language_of_thread`."""
        return for_shell(Texts(chosen_language() or language_of_thread(self.conversation)))

    def show(self, words: Callable[[], str | None], **fields: Any) -> None:
        """Print a command's result with the thread's id, as the function `show` does."""
        show(words, as_json=self.as_json, **{"thread_id": self.thread_id, **fields})


@contextmanager
def existing_thread(
    db: str | None, thread: str | None, *, as_json: bool = False, names_thread: bool = False
) -> Iterator[Opened]:
    """Open a thread for the block; `None` is the newest one, whose id is noted on standard error.

    A command whose output `names_thread` gets no note. An id is not checked here: verbs of the
    conversation raise `UnknownThreadError` for one that does not exist.

    Raises:
        UnknownThreadError: There is no default database, or `thread` is `None` and no thread
            exists.
        NotFoundError: The user named a database file that does not exist.
        StorageError: The database cannot be opened; for other errors see `open_database`.
    """
    with existing_database(db) as database:
        if database is None:
            raise UnknownThreadError(
                f"There is no database at {location(db)!r} yet; `unsay chat` creates one"
            )
        if thread is None:
            with translated(database.path):
                entries = list_threads(database.store)
            if not entries:
                raise UnknownThreadError(
                    f"There is no thread in {database.path!r} yet; `unsay chat` starts one"
                )
            thread = entries[0].thread_id
            if not names_thread:
                note(in_shell_language(f"thread {thread}"))
        yield Opened(database=database, thread_id=thread, as_json=as_json)


def on_thread(
    check: Callable[..., None] | None = None, *, names_thread: bool = False
) -> Callable[[Command], Command]:
    """Turn a function that takes an `Opened` thread into a command that opens it.

    `check` is called with the options before anything is opened, to refuse those that exclude each
    other. `names_thread` and the errors are those of `existing_thread`.
    """

    def decorate(command: Command) -> Command:
        @wraps(command)
        def run(
            *,
            thread: str | None,
            db: str | None,
            as_json: bool,
            tools: Sequence[str] = (),
            **options: Any,
        ) -> None:
            if check is not None:
                check(**options)
            loaded = load_tools(tools)
            with existing_thread(db, thread, as_json=as_json, names_thread=names_thread) as opened:
                command(replace(opened, tools=loaded), **options)

        return run

    return decorate


def language_of_thread(conversation: Conversation, words: str | None = None) -> Language:
    """Return the language of a thread's transcript; if all of it was removed, of its branches.

    `words` are its next message, `None` if there is none. A text such as `OK` does not change the
    language. For a new thread, or one without both, it is that of the shell. Raises `StorageError`
    if the thread cannot be read.
    """
    messages: list[AnyMessage] = conversation.messages()
    if not messages:
        with suppress(UnknownThreadError):
            messages = [AIMessage(branch.words) for branch in conversation.branches()]
    asked = [] if words is None else [HumanMessage(words)]
    return newest_language([*messages, *asked], otherwise=shell_language())


def is_confirmed(question: str) -> bool:
    """Ask a yes-or-no question on standard error and return the answer; Enter means no.

    The answer may be Japanese, such as はい. Any other word repeats the question. Ctrl-C raises
    `click.Abort`.
    """

    def decision(typed: str) -> bool:
        read = yes_or_no(typed)
        if read is None:
            raise click.BadParameter(in_shell_language("Type y or n."))
        return read == "approve"

    # `click.confirm` takes English words only.
    asked = f"{question} [y/N]"
    return bool(click.prompt(asked, default="n", show_default=False, value_proc=decision, err=True))
