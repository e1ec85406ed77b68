"""Where conversations lie, and which of them is meant."""

import asyncio
import os
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig
from platformdirs import user_data_dir

from unsay.cli.output import note
from unsay.cli.strings import Labels, labels
from unsay.conversation.conversation import AsyncConversation, Conversation
from unsay.conversation.results import Event, Reply, reply_of
from unsay.errors import InputError, UnknownThreadError
from unsay.graph.builder import make_services
from unsay.history.threads import list_threads
from unsay.messages.content import language_of, newest_language
from unsay.settings import Settings, load_settings
from unsay.storage.base import Database, translated
from unsay.storage.sqlite import open_database
from unsay.storage.urls import is_postgres

FILE = "unsay.db"
"""Name of the database in unsay's folder."""


def home() -> Path:
    """The folder of unsay's files: `UNSAY_HOME`, else where the platform keeps such data."""
    return Path(os.environ.get("UNSAY_HOME") or user_data_dir("unsay", appauthor=False))


def location(db: str | None) -> str:
    """The database that is meant; `None` is unsay's own."""
    return str(home() / FILE) if db is None else db


def exists(db: str | None) -> bool:
    """Whether the database is there, so that reading need not make one."""
    place = location(db)
    return is_postgres(place) or Path(place.removeprefix("sqlite:///")).exists()


def newest_thread(database: Database) -> str:
    """The thread that was spoken in last.

    Raises:
        UnknownThreadError: There is none.
    """
    with translated(database.path):
        entries = list_threads(database.store)
    if not entries:
        raise UnknownThreadError(
            f"There is no thread in {database.path!r} yet; `unsay chat` begins one"
        )
    return entries[0].thread_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A thread in an open database."""

    database: Database
    """Closed by whoever opened it."""

    thread_id: str
    """As given, or of the newest thread."""

    def open(self) -> Conversation:
        """The conversation; reading it and taking things back need no model."""
        return Conversation.open(self.database, thread=self.thread_id)


@contextmanager
def existing_thread(db: str | None, thread: str | None) -> Iterator[Found]:
    """A thread that was begun before; without an id the newest, and the user is told.

    Raises:
        UnknownThreadError: There is no database, or no thread in it.
    """
    if not exists(db):
        raise UnknownThreadError(
            f"There is no database at {location(db)!r} yet; `unsay chat` begins one"
        )
    with closing(open_database(location(db))) as database:
        if thread is None:
            thread = newest_thread(database)
            note(f"thread {thread}")
        yield Found(database=database, thread_id=thread)


Show = Callable[[Event], None]
"""Shows one event to whoever is there."""


class Turns:
    """Says things in one conversation.

    A blocking run ends only when its model has answered; a task on an event
    loop is cancelled where it waits.
    """

    def __init__(self, conversation: AsyncConversation, runner: asyncio.Runner) -> None:
        """Use one loop for all turns: a model's connections belong to it."""
        self._conversation = conversation
        self._runner = runner

    def say(self, words: str, show: Show, turn_id: str | None = None) -> None:
        """Have a message answered; the last event shown is the reply.

        Args:
            words: The message.
            show: Is given every event.
            turn_id: See `Conversation.say`.

        Raises:
            UnsayError: As `Conversation.say`.
            KeyboardInterrupt: Ctrl-C was pressed; `resume` goes on from there.
        """
        self._runner.run(self._streamed(words, show, turn_id))

    def resume(self, decision: Any, show: Show) -> None:
        """Go on with a turn that stopped, or as a person decided; shows the reply.

        Raises:
            UnsayError: As `Conversation.resume`.
            KeyboardInterrupt: As `say`.
        """
        reply = self._runner.run(self._conversation.resume(decision))
        show(reply_event(reply))

    def retry(self, show: Show) -> None:
        """Have the last question answered anew; shows the reply.

        Raises:
            UnsayError: As `Conversation.retry`.
            KeyboardInterrupt: As `say`.
        """
        show(reply_event(self._runner.run(self._conversation.retry())))

    async def _streamed(self, words: str, show: Show, turn_id: str | None) -> None:
        async for event in self._conversation.stream(words, turn_id=turn_id):
            show(event)


@contextmanager
def turns_of(conversation: AsyncConversation) -> Generator[Turns, None, None]:
    """The turns of a conversation, on a loop that lives as long as they are needed."""
    with asyncio.Runner() as runner:
        yield Turns(conversation, runner)


def reply_event(reply: Reply) -> Event:
    """A reply as the event that ends a turn."""
    return Event(kind="reply", text=reply.text, message_id=reply.message_id, reply=reply)


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """A conversation that a person speaks in."""

    conversation: Conversation
    """For looking at it."""

    turns: Turns
    """For saying things in it."""

    settings: Settings
    """From all sources."""

    def due(self) -> Reply | None:
        """The decision that a person must take before anything else; `None` when none is due."""
        config: RunnableConfig = {"configurable": {"thread_id": self.conversation.thread_id}}
        snapshot = self.conversation.graph.get_state(config)
        return reply_of(snapshot.values, snapshot.interrupts) if snapshot.interrupts else None

    def labels_for(self, words: str) -> Labels:
        """The notes in the language that a message is answered in."""
        chosen = self.settings.language
        return labels(language_of(words) if chosen == "auto" else chosen)

    def labels(self) -> Labels:
        """The notes in the language of what was said last."""
        chosen = self.settings.language
        newest = newest_language(self.conversation.messages())
        return labels(newest if chosen == "auto" else chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """The settings and the model, known before any file is opened."""

    settings: Settings
    """From all sources, with the models that were named on the command line."""

    model: Runnable[Any, Any]
    """Answers."""

    @classmethod
    def named(cls, *, model: str | None, judge_model: str | None) -> "Cast":
        """The configured models, or those named.

        Raises:
            ConfigurationError: A setting is impossible.
            MissingModelError: No model is configured; the message says what to set.
        """
        named: Mapping[str, Any] = {"model": model, "judge_model": judge_model}
        settings = load_settings({k: v for k, v in named.items() if v is not None})
        return cls(settings=settings, model=make_services(settings=settings).model)

    @contextmanager
    def speaker(self, database: Database, thread: str | None) -> Generator[Speaker, None, None]:
        """A thread of an open database, ready to be spoken in; `None` begins a new one."""
        conversation = Conversation.open(
            database, thread=thread, model=self.model, settings=self.settings
        )
        twin = AsyncConversation.open(
            database, thread=conversation.thread_id, model=self.model, settings=self.settings
        )
        with turns_of(twin) as turns:
            yield Speaker(conversation=conversation, turns=turns, settings=self.settings)


def readable(words: str) -> str:
    """The same words, known to be text.

    Raises:
        InputError: They came from bytes that are no UTF-8.
    """
    try:
        words.encode()
    except UnicodeEncodeError as error:
        raise InputError("The message is not UTF-8 text; convert it first") from error
    return words


EDIT = "edit:"
"""Begins a decision that carries the answer itself."""


def decision_of(words: str) -> dict[str, Any]:
    """What to resume the conversation with.

    >>> decision_of("approve")
    {'decisions': [{'type': 'approve'}]}
    >>> decision_of("shorter, please")
    {'decisions': [{'type': 'respond', 'message': 'shorter, please'}]}
    """
    said = words.strip()
    if said in ("approve", "reject"):
        return {"decisions": [{"type": said}]}
    if said.startswith(EDIT):
        action = {"name": "deliver_answer", "args": {"answer": said.removeprefix(EDIT).strip()}}
        return {"decisions": [{"type": "edit", "edited_action": action}]}
    return {"decisions": [{"type": "respond", "message": said}]}
