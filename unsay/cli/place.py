"""Where conversations lie, and which of them is meant."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_data_dir

from unsay.cli.output import note
from unsay.errors import UnknownThreadError
from unsay.graph.conversation import Conversation
from unsay.history.catalogue import list_threads
from unsay.history.database import Database, open_database, translated
from unsay.history.urls import is_postgres

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
