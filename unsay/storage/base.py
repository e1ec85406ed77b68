"""What both kinds of database share: the open database, its errors, its URL."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.store.base import BaseStore

from unsay.errors import (
    ConfigurationError,
    DatabaseCorruptError,
    DatabaseLockedError,
    DatabaseTooNewError,
    DatabaseTooOldError,
    StorageError,
    ThreadBusyError,
)
from unsay.storage.leases import LOST, Leases

THREADS = ("unsay", "threads")

# First label of all our namespaces; where there is a third, it is the thread's quoted id.
OURS = THREADS[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Purged:
    """Rows that a purge deleted; all zero for a thread that did not exist."""

    checkpoints: int
    """LangGraph checkpoints, including those of subgraphs."""

    writes: int
    items: int
    """Items of the store, including the thread's entry in the list of threads."""


# Marks a file as ours; it spells `unsy`. Source: SQLite file format, offset 68.
APPLICATION_ID = 0x756E7379
# Of the database as a whole; no other is read.
LAYOUT_VERSION = 3
BUSY_SECONDS = 30.0
# By code. Source: SQLite, "Result and Error Codes".
_ADVICE = {
    sqlite3.SQLITE_FULL: "make room on its disk, or give another path",
    sqlite3.SQLITE_READONLY: "let this user write to it and to its folder, or give another path",
    sqlite3.SQLITE_CANTOPEN: "let this user write to its folder too, where the journal lies",
    sqlite3.SQLITE_IOERR: "look at its disk, and at how large this user's files may be",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """An open database: a checkpointer and a store."""

    path: str
    """Of the file, `:memory:`, or a URL without its secrets."""

    saver: BaseCheckpointSaver[Any]
    store: BaseStore
    leases: Leases = field(default_factory=Leases)

    def close(self) -> None:
        """Close its connections."""
        raise NotImplementedError

    def erase(self, thread_id: str) -> Purged:
        """Delete a thread's rows, whatever they hold, and count them."""
        raise NotImplementedError

    def scrub(self) -> None:
        """Clean the bytes of deleted rows, as far as this kind of database can."""
        raise NotImplementedError

    def check(self) -> None:
        """Check all pages, unless the database's server does so by itself.

        Raises:
            DatabaseCorruptError: A page is damaged.
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
    """Turn errors of SQLite into errors that say what to do.

    Raises:
        DatabaseLockedError: Another process held the file for too long.
        DatabaseCorruptError: The file is damaged or no SQLite file.
        ThreadBusyError: This process has lost its lease to another.
        StorageError: Anything else about the file.
    """
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        waited = getattr(error, "busy_seconds", BUSY_SECONDS)
        if str(error) == LOST:
            raise ThreadBusyError(
                "This process gave no sign of life for longer than UNSAY_LEASE_SECONDS, and "
                "another writer took the thread over: look at its timeline, then say this again. "
                "Nothing that was stored is lost"
            ) from error
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise DatabaseLockedError(
                f"{path!r} was locked by another process for {waited:g} s; try again when it "
                "is done. Nothing that was stored is lost"
            ) from error
        # Python gives an error about a text that is none no code.
        undecoded = "Could not decode to UTF-8" in str(error)
        if undecoded or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise damaged_file(path, error) from error
        advice = f": {_ADVICE[code]}. What was stored before is kept" if code in _ADVICE else ""
        raise StorageError(f"{path!r} could not be read or written ({error}){advice}") from error


def damaged_file(path: str, error: object) -> DatabaseCorruptError:
    """Return the error for a file that SQLite cannot read."""
    return DatabaseCorruptError(
        f"{path!r} is damaged or no SQLite file ({error}): put a backup in its place, or give "
        "another path. unsay changed nothing in it"
    )


# Source: PostgreSQL, libpq connection URIs.
SCHEMES = ("postgresql://", "postgres://")
# Parameters that say which database is meant; all others stay unseen.
SHOWN = frozenset({"dbname", "host", "hostaddr", "options", "port", "user"})
_URL = re.compile(r"([a-z][a-z0-9+.-]*)://([^/?]*)(/[^?]*)?(?:\?(.*))?", re.IGNORECASE | re.DOTALL)
_HOST = r"(?:\[[^\]@]*\]|[^:,@\[\]]*)(?::\d*)?"
_AUTHORITY = re.compile(rf"(?:([^:@]*)(?::[^@]*)?@)?({_HOST}(?:,{_HOST})*)")


def is_postgres(location: str) -> bool:
    """Return whether a location is the URL of a Postgres database."""
    return location.startswith(SCHEMES)


def masked(url: str) -> str:
    """Return a URL as it may be shown: with its user, host and database, without any secret.

    Example:
        >>> masked("postgres://ann:sesame@db.example.org:5433/talks?sslpassword=open")
        'postgresql://ann@db.example.org:5433/talks'
    """
    found = _URL.fullmatch(url)
    if found is None:
        return "…"
    scheme = "postgresql" if is_postgres(url) else found[1]
    authority = _AUTHORITY.fullmatch(found[2])
    asked = found[4].split("&") if found[4] else []
    moved = "@" in (found[3] or "") or not all("=" in each for each in asked)
    if authority is None or moved or ("@" in (found[4] or "") and "@" not in found[2]):
        return f"{scheme}://…"
    user = f"{authority[1]}@" if authority[1] else ""
    asked = [each for each in asked if each.split("=")[0] in SHOWN]
    query = f"?{'&'.join(asked)}" if asked else ""
    return f"{scheme}://{user}{authority[2]}{found[3] or ''}{query}"


def check_url(url: str) -> None:
    """Refuse an ambiguous URL.

    With an `@`, `/` or `?` in the password, its rest would be read as the host, and shown.

    Raises:
        ConfigurationError: It is ambiguous.
    """
    if masked(url).endswith("://…"):
        raise ConfigurationError(
            "The database's URL is ambiguous (it is not shown, since it may hold a password): "
            "write postgresql://user:password@host:port/name, and in the password @ as %40, "
            "/ as %2F, : as %3A, ? as %3F, % as %25"
        )
