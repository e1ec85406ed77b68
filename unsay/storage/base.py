"""unsay.storage.base."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.store.base import BaseStore

from unsay.errors import (
    DatabaseCorruptError,
    DatabaseLockedError,
    DatabaseTooNewError,
    DatabaseTooOldError,
    StorageError,
    ThreadBusyError,
    UnsayError,
)
from unsay.storage.leases import LOST, Leases

THREADS = ("unsay", "threads")
"""The store's namespace of the catalogue."""

OURS = THREADS[0]
"""First label of all our namespaces; where there is a third, it is the thread's quoted id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Purged:
    """What a purge took away; all zero for a thread that was not there."""

    checkpoints: int
    """LangGraph checkpoints, those of graphs within the graph included."""

    writes: int
    """Writes of single steps, kept between the checkpoints."""

    items: int
    """Items of the store, the thread's line in the catalogue included."""


APPLICATION_ID = 0x756E7379
"""Marks a file as ours; it spells `unsy`. Source: SQLite file format, offset 68."""

LAYOUT_VERSION = 2
"""Of the database as a whole; no other is read."""

BUSY_SECONDS = 30.0
"""How long a connection waits for another process's lock."""

_DAMAGED = (
    "{path!r} is damaged or no SQLite file ({error}): put a backup in its place, or give another "
    "path. unsay changed nothing in it"
)

_ADVICE = {
    sqlite3.SQLITE_FULL: "make room on its disk, or give another path",
    sqlite3.SQLITE_READONLY: "let this user write to it and to its folder, or give another path",
    sqlite3.SQLITE_CANTOPEN: "let this user write to its folder too, where the journal lies",
    sqlite3.SQLITE_IOERR: "look at its disk, and at how large this user's files may be",
}
"""By code. Source: SQLite, "Result and Error Codes"."""

_UNDECODED = "Could not decode to UTF-8"
"""Python's words for a text that is none; such an error has no code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """An open database: a checkpointer and a store."""

    path: str
    """Of the file, `:memory:`, or a URL without its secrets."""

    saver: BaseCheckpointSaver[Any]
    store: BaseStore
    leases: Leases = field(default_factory=Leases)
    """Keep other processes from writing to a thread at the same time."""

    def close(self) -> None:
        """Close its connections; nothing is pending on them."""
        raise NotImplementedError

    def erase(self, thread_id: str) -> "Purged":
        """Delete a thread's rows, whatever they hold, and count them."""
        raise NotImplementedError

    def scrub(self) -> None:
        """Clean the bytes of what was deleted, as far as this kind of database can."""
        raise NotImplementedError

    def check(self) -> None:
        """Look through all of it, where its server does not do so by itself.

        Raises:
            DatabaseCorruptError: Something in it is damaged.
        """


def check_layout(path: str, version: int) -> None:
    """Refuse a database of another layout than ours.

    Raises:
        DatabaseTooNewError: A newer unsay wrote it.
        DatabaseTooOldError: An older one wrote it.
    """
    if version > LAYOUT_VERSION:
        raise DatabaseTooNewError(
            f"{path!r} was written by a newer unsay (layout {version}, this one knows "
            f"{LAYOUT_VERSION}): upgrade unsay; the database is unchanged"
        )
    if version < LAYOUT_VERSION:
        raise DatabaseTooOldError(
            f"{path!r} was written by an older unsay (layout {version}, this one reads "
            f"{LAYOUT_VERSION} alone): give another path; the database is unchanged"
        )


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Errors of SQLite as errors that say what to do.

    Raises:
        DatabaseLockedError: Another process held the file for too long.
        DatabaseCorruptError: The file is damaged or no SQLite file.
        ThreadBusyError: This process has lost its lease to another.
        StorageError: Anything else about the file.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise _explained(error, path) from error


def _explained(error: sqlite3.Error, path: str) -> UnsayError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    waited = getattr(error, "busy_seconds", BUSY_SECONDS)
    if str(error) == LOST:
        return ThreadBusyError(
            "This process gave no sign of life for longer than UNSAY_LEASE_SECONDS, and another "
            "writer took the thread over: look at its timeline, then say this again. Nothing that "
            "was stored is lost"
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return DatabaseLockedError(
            f"{path!r} was locked by another process for {waited:g} s; try again when it "
            "is done. Nothing that was stored is lost"
        )
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or _UNDECODED in str(error):
        return DatabaseCorruptError(_DAMAGED.format(path=path, error=error))
    advice = f": {_ADVICE[code]}. What was stored before is kept" if code in _ADVICE else ""
    return StorageError(f"{path!r} could not be read or written ({error}){advice}")
