"""One SQLite file for a thread's state and for what outlives it."""

import asyncio
import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from json import JSONDecodeError
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.store.base import BaseStore, Op, Result
from langgraph.store.sqlite import SqliteStore

from unsay.errors import (
    ConfigurationError,
    DatabaseCorruptError,
    DatabaseLockedError,
    DatabaseTooNewError,
    StorageError,
    ThreadBusyError,
    UnsayError,
)
from unsay.history.leases import LOST, TABLE, FileLeases, Leases, NoLeases, thread_of_item
from unsay.history.saver import CompressedSerializer, FileSaver
from unsay.history.urls import is_postgres, masked

if TYPE_CHECKING:
    from unsay.history.purge import Purged

APPLICATION_ID = 0x756E7379
"""Marks a file as ours; it spells `unsy`. Source: SQLite file format, offset 68."""

LAYOUT_VERSION = 1
"""Of the file as a whole; a higher one was written by a newer unsay."""

BUSY_SECONDS = 30.0
"""How long a connection waits for another process's lock."""

MEMORY = ":memory:"

_DAMAGED = (
    "{path!r} is damaged or no SQLite file ({error}): put a backup in its place, or give another "
    "path. unsay changed nothing in it"
)
_TABLES = frozenset({"checkpoints", "writes", "store", "store_migrations", TABLE})


class FileStore(SqliteStore):
    """LangGraph's SQLite store, usable from an event loop as well."""

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """`batch`, off the event loop."""
        return await asyncio.to_thread(self.batch, list(ops))


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """An open database: a checkpointer and a store."""

    path: str
    """Of the file, `:memory:`, or a URL without its secrets."""

    saver: BaseCheckpointSaver[Any]
    """Keeps the threads' states."""

    store: BaseStore
    """Keeps cuts and the catalogue."""

    leases: Leases = field(default_factory=NoLeases)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDatabase(Database):
    """An open file: a checkpointer, a store and leases on a connection each."""

    saver: FileSaver
    """Keeps the threads' states."""

    store: FileStore
    """Keeps cuts and the catalogue."""

    def close(self) -> None:
        """Close the connections; nothing is pending on them."""
        self.leases.close()
        self.saver.conn.close()
        self.store.conn.close()


def open_database(path_or_url: str | os.PathLike[str]) -> Database:
    """Open a file, making it if there is none, or a Postgres database.

    Args:
        path_or_url: A path, `sqlite:///path`, `:memory:`, or
            `postgresql://user:password@host:port/name`.

    Raises:
        ConfigurationError: It is the URL of something else.
        MissingExtraError: It is Postgres' and the extra is not installed.
        StorageError: The file cannot be made, read or written; the server refuses.
        DatabaseCorruptError: It is no SQLite file, or another program's.
        DatabaseTooNewError: A newer unsay wrote it.
        DatabaseLockedError: Another process holds it.
    """
    location = os.fspath(path_or_url)
    if is_postgres(location):
        opened: Database = import_module("unsay.history.postgres").open_postgres(location)
        return opened
    path = _path_of(location)
    if path != MEMORY:
        _make_file(Path(path))
    with translated(path), ExitStack() as failed:
        first = _connect(path)
        failed.callback(first.close)
        _check_layout(first, path)
        saver = FileSaver(first, serde=CompressedSerializer())
        saver.setup()
        first.execute("PRAGMA synchronous=NORMAL")
        second = _connect(path, isolation_level=None)
        failed.callback(second.close)
        store = FileStore(second)
        _set_up(store)
        second.execute("PRAGMA synchronous=NORMAL")
        leases = NoLeases() if path == MEMORY else _open_leases(path, saver, store, failed)
        failed.pop_all()
    return FileDatabase(path=path, saver=saver, store=store, leases=leases)


def _set_up(store: FileStore) -> None:
    """Make the store's tables, step by step with other processes that begin at the same time."""
    for _ in store.MIGRATIONS:
        try:
            return store.setup()
        except (sqlite3.IntegrityError, sqlite3.OperationalError) as error:
            if not isinstance(error, sqlite3.IntegrityError) and "duplicate" not in str(error):
                raise
    return store.setup()


def _open_leases(path: str, saver: FileSaver, store: FileStore, failed: ExitStack) -> FileLeases:
    """The file's leases, on a connection that neither long reads nor long writes of ours keep."""
    connection = _connect(path, isolation_level=None)
    failed.callback(connection.close)
    connection.execute("PRAGMA synchronous=NORMAL")
    leases = FileLeases(connection)
    for table in ("checkpoints", "writes"):
        leases.guard(saver.conn, table, ("thread_id",), str)
    leases.guard(store.conn, "store", ("prefix", "key"), thread_of_item)
    return leases


def _path_of(location: str) -> str:
    plain = location.removeprefix("sqlite:///")
    if "://" in plain:
        raise ConfigurationError(
            f"{masked(plain)!r} is no database: give a path, sqlite:///path, or "
            "postgresql://user:password@host:port/name. For another compile build_graph(…) with "
            "its checkpointer and store"
        )
    return plain if plain == MEMORY else os.path.abspath(plain)


def _make_file(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        with path.open("r+b"):
            pass
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise StorageError(
            f"{str(path)!r} cannot be written ({why}): give another path, "
            "or set UNSAY_HOME to a folder of your own"
        ) from error


def _connect(path: str, isolation_level: str | None = "") -> sqlite3.Connection:
    return sqlite3.connect(
        path,
        timeout=BUSY_SECONDS,
        check_same_thread=False,
        isolation_level=isolation_level,  # type: ignore[arg-type]
    )


def _check_layout(connection: sqlite3.Connection, path: str) -> None:
    """Refuse a file that is not ours; give a new one its marks."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    tables = {name for (name,) in names if not name.startswith("sqlite_")}
    if application not in (0, APPLICATION_ID) or (application == 0 and tables - _TABLES):
        raise DatabaseCorruptError(
            f"{path!r} is another program's database; give unsay a file of its own"
        )
    if version > LAYOUT_VERSION:
        raise DatabaseTooNewError(
            f"{path!r} was written by a newer unsay (layout {version}, this one knows "
            f"{LAYOUT_VERSION}): upgrade unsay; the file is unchanged"
        )
    if application == 0:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {LAYOUT_VERSION}")


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
    except (zlib.error, JSONDecodeError) as error:
        raise DatabaseCorruptError(_DAMAGED.format(path=path, error=error)) from error


def _explained(error: sqlite3.Error, path: str) -> UnsayError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if str(error) == LOST:
        return ThreadBusyError(
            "This process gave no sign of life for longer than UNSAY_LEASE_SECONDS, and another "
            "writer took the thread over: look at its timeline, then say this again. Nothing that "
            "was stored is lost"
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return DatabaseLockedError(
            f"{path!r} was locked by another process for {BUSY_SECONDS:g} s; try again when it "
            "is done. Nothing that was stored is lost"
        )
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return DatabaseCorruptError(_DAMAGED.format(path=path, error=error))
    return StorageError(f"{path!r} could not be read or written ({error})")
