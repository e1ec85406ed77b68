"""One SQLite file for a thread's state and for what outlives it."""

import asyncio
import os
import sqlite3
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.base import Op, Result
from langgraph.store.sqlite import SqliteStore

from unsay.errors import (
    ConfigurationError,
    DatabaseCorruptError,
    DatabaseLockedError,
    DatabaseTooNewError,
    StorageError,
)

APPLICATION_ID = 0x756E7379
"""Marks a file as ours; it spells `unsy`. Source: SQLite file format, offset 68."""

LAYOUT_VERSION = 1
"""Of the file as a whole; a higher one was written by a newer unsay."""

BUSY_SECONDS = 30.0
"""How long a connection waits for another process's lock."""

MEMORY = ":memory:"

COMPRESSED = "+z"
"""Marks the type of a compressed value."""

COMPRESSED_FROM = 256
"""Smallest value that is worth compressing, in bytes. Source: own measurement."""

_DAMAGED = (
    "{path!r} is damaged or no SQLite file ({error}): put a backup in its place, or give another "
    "path. unsay changed nothing in it"
)
_TABLES = frozenset({"checkpoints", "writes", "store", "store_migrations"})


class CompressedSerializer(JsonPlusSerializer):
    """LangGraph's strict serializer, its larger values compressed.

    Only messages and plain values are read back: nothing in a file can name code to run.
    """

    def __init__(self) -> None:
        super().__init__(allowed_msgpack_modules=None)

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """The value's type, marked when it is compressed, and its bytes."""
        kind, data = super().dumps_typed(obj)
        if len(data) < COMPRESSED_FROM:
            return kind, data
        return f"{kind}{COMPRESSED}", zlib.compress(data, level=1)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value, whether it was compressed or not."""
        kind, packed = data
        if kind.endswith(COMPRESSED):
            kind, packed = kind.removesuffix(COMPRESSED), zlib.decompress(packed)
        return super().loads_typed((kind, packed))


class FileSaver(SqliteSaver):
    """LangGraph's SQLite checkpointer, usable from an event loop as well.

    Its calls are moved to a thread there: the file is local and the calls short.
    """

    async def aget_tuple(self, config: Any) -> Any:
        """`get_tuple`, off the event loop."""
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(self, config: Any, **options: Any) -> AsyncIterator[Any]:
        """`list`, off the event loop."""
        for found in await asyncio.to_thread(lambda: list(self.list(config, **options))):
            yield found

    async def aput(self, *args: Any, **options: Any) -> Any:
        """`put`, off the event loop."""
        return await asyncio.to_thread(self.put, *args, **options)

    async def aput_writes(self, *args: Any, **options: Any) -> None:
        """`put_writes`, off the event loop."""
        await asyncio.to_thread(self.put_writes, *args, **options)

    async def adelete_thread(self, thread_id: str) -> None:
        """`delete_thread`, off the event loop."""
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def aget_delta_channel_history(self, *, config: Any, channels: Sequence[str]) -> Any:
        """`get_delta_channel_history`, off the event loop."""
        return await asyncio.to_thread(
            lambda: self.get_delta_channel_history(config=config, channels=channels)
        )


class FileStore(SqliteStore):
    """LangGraph's SQLite store, usable from an event loop as well."""

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """`batch`, off the event loop."""
        return await asyncio.to_thread(self.batch, list(ops))


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """An open file: a checkpointer and a store on two connections."""

    path: str
    """Of the file, or `:memory:`."""

    saver: FileSaver
    """Keeps the threads' states."""

    store: FileStore
    """Keeps cuts and the catalogue."""

    def close(self) -> None:
        """Close both connections; nothing is pending on them."""
        self.saver.conn.close()
        self.store.conn.close()


def open_database(path_or_url: str | os.PathLike[str]) -> Database:
    """Open a file, making it if there is none.

    Args:
        path_or_url: A path, `sqlite:///path`, or `:memory:`.

    Raises:
        ConfigurationError: It is the URL of something else.
        StorageError: The file cannot be made, read or written.
        DatabaseCorruptError: It is no SQLite file, or another program's.
        DatabaseTooNewError: A newer unsay wrote it.
        DatabaseLockedError: Another process holds it.
    """
    path = _path_of(os.fspath(path_or_url))
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
        store.setup()
        second.execute("PRAGMA synchronous=NORMAL")
        failed.pop_all()
    return Database(path=path, saver=saver, store=store)


def _path_of(location: str) -> str:
    plain = location.removeprefix("sqlite:///")
    if "://" in plain:
        raise ConfigurationError(
            f"{location!r} is no SQLite file: give a path or sqlite:///path. For another "
            "database compile build_graph(…) with its checkpointer and store"
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
        StorageError: Anything else about the file.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise _explained(error, path) from error
    except (zlib.error, JSONDecodeError) as error:
        raise DatabaseCorruptError(_DAMAGED.format(path=path, error=error)) from error


def _explained(error: sqlite3.Error, path: str) -> StorageError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return DatabaseLockedError(
            f"{path!r} was locked by another process for {BUSY_SECONDS:g} s; try again when it "
            "is done. Nothing that was stored is lost"
        )
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return DatabaseCorruptError(_DAMAGED.format(path=path, error=error))
    return StorageError(f"{path!r} could not be read or written ({error})")
