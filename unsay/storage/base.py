"""What SQLite and Postgres share: the open database, its errors, and the order of its states.

LangGraph makes the ids of states from the clock, and takes the greatest as a thread's newest. So a
state that was written while a clock was ahead would hide all later ones. Its time is given to
LangGraph as that of the last id it made: every id that it makes in this process is then greater.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import langgraph.checkpoint.base.id
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.store.base import BaseStore

from unsay.errors import (
    ConflictError,
    DatabaseCorruptError,
    DatabaseLockedError,
    DatabaseTooNewError,
    DatabaseTooOldError,
    InputError,
    StorageError,
    ThreadBusyError,
    UnsayError,
)
from unsay.storage.leases import LOST, Leases
from unsay.storage.writer_lock import leases_of

THREADS = ("unsay", "threads")

# First label of all namespaces of unsay; a third label is always the quoted id of a thread.
OURS = THREADS[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Purged:
    """Number of rows that `erase` deleted; all are 0 for a thread that did not exist.

    `checkpoints` includes those of subgraphs, `items` the thread's entry in the list of threads.
    """

    checkpoints: int
    writes: int
    items: int


# Marks a file as one of unsay; it spells `unsy`. Source: SQLite file format, offset 68.
APPLICATION_ID = 0x756E7379
# Version of the whole database; unsay reads no other.
LAYOUT_VERSION = 4
BUSY_SECONDS = 30.0
# Next step by error code. Source: SQLite, "Result and Error Codes".
_ADVICE = {
    sqlite3.SQLITE_FULL: "free disk space, or give another path",
    sqlite3.SQLITE_READONLY: "give this user write access to the file and its folder, or give another path",
    sqlite3.SQLITE_CANTOPEN: "give this user write access to its folder, which holds the journal too",
    sqlite3.SQLITE_IOERR: "check the disk, and the largest file size that this user may write",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """An open database: a checkpointer and a store; `open_database` returns it.

    `path` is that of the file, `:memory:`, or a URL without its secrets.
    """

    path: str

    saver: BaseCheckpointSaver[Any]
    store: BaseStore

    @property
    def leases(self) -> Leases:
        """The leases of its checkpointer, which decide who may write to a thread."""
        return leases_of(self.saver)

    def close(self) -> None:
        """Give up all leases and close all connections; a second call changes nothing."""
        raise NotImplementedError

    def erase(self, thread_id: str) -> Purged:
        """Delete all rows of a thread, also unreadable ones, and return their numbers.

        Only `purge_thread` calls this; it cannot be undone. Raises `ThreadBusyError` if this process
        lost its lease on the thread, `StorageError` for other errors of the database.
        """
        raise NotImplementedError

    def scrub(self) -> None:
        """Overwrite the bytes of deleted rows, as far as this kind of database allows.

        `purge_thread` calls this after `erase`. Raises `DatabaseLockedError` if another process
        uses the SQLite file, `StorageError` for other errors, such as a full disk.
        """
        raise NotImplementedError

    def check(self) -> None:
        """Raise `DatabaseCorruptError` if the file is damaged; for Postgres, do nothing.

        All pages of the file are read. `open_database` does this only for a file of up to 8 MiB, so
        call it yourself for a larger one.
        """


def check_layout(path: str, version: int) -> None:
    """Raise `DatabaseTooNewError` or `DatabaseTooOldError` for another layout than ours."""
    if version > LAYOUT_VERSION:
        raise DatabaseTooNewError(
            f"{path!r} was written by a newer version of unsay (layout {version}, this version "
            f"reads {LAYOUT_VERSION}): upgrade unsay. The database is unchanged"
        )
    if version < LAYOUT_VERSION:
        raise DatabaseTooOldError(
            f"{path!r} was written by an older version of unsay (layout {version}, this version "
            f"reads {LAYOUT_VERSION}): give another path. The database is unchanged"
        )


LOST_ADVICE = (
    "This process did not renew its lease in time, and another process "
    "took over the thread: check its timeline, then repeat this. Nothing that was stored is lost"
)


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Return a context manager that turns errors of SQLite into errors of unsay.

    They are `DatabaseLockedError`, `DatabaseCorruptError`, `ThreadBusyError` for a lost lease,
    `InputError` for a closed database, otherwise `StorageError`. Messages name the database by
    `path`. An answer that could not be saved stays on the error as `answer`.
    """
    try:
        with _translated(path):
            yield
    except UnsayError as error:
        error.answer = error.answer or getattr(error.__cause__, "answer", None)
        raise


@contextmanager
def _translated(path: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        # The low byte of an extended error code is the primary code. Source: SQLite.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        wait_seconds = getattr(error, "busy_seconds", BUSY_SECONDS)
        if "closed database" in str(error):
            raise InputError(f"{path!r} was closed: open it again") from error
        if str(error) == LOST:
            raise ThreadBusyError(LOST_ADVICE) from error
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise DatabaseLockedError(
                f"{path!r} was locked by another process for {wait_seconds:g} s: try again when that "
                "process is done. Nothing that was stored is lost"
            ) from error
        # Python raises this error itself, without a code of SQLite: a text in the file is no UTF-8.
        undecoded = "Could not decode to UTF-8" in str(error)
        if undecoded or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise damaged_file(path, error) from error
        advice = f": {_ADVICE[code]}. What was stored before is kept" if code in _ADVICE else ""
        raise StorageError(f"{path!r} could not be read or written ({error}){advice}") from error


def damaged_file(path: str, error: object) -> DatabaseCorruptError:
    """Return the error for a file that SQLite cannot read; the caller raises it."""
    return DatabaseCorruptError(
        f"{path!r} is damaged, or it is not a SQLite file ({error}): restore a backup, or give "
        "another path. unsay did not change the file"
    )


# Any: LangGraph annotates the time of its last id as `None`.
_IDS: Any = langgraph.checkpoint.base.id

# Time 0 of the ids, in units of 100 ns. Source: RFC 9562, section 5.6.
_EPOCH = datetime(1582, 10, 15, tzinfo=UTC)
# Ids of later times are not followed: no id can be greater than those of the year 5236.
_LAST = int((datetime(5000, 1, 1, tzinfo=UTC) - _EPOCH).total_seconds()) * 10_000_000


def follow(checkpoint_id: str | None) -> None:
    """Have LangGraph make only ids greater than this one; `None` and foreign ids are ignored."""
    ticks = _ticks(checkpoint_id or "")
    last = _IDS._last_v6_timestamp
    # No call between the reading and the assignment: another Python thread may make an id.
    if ticks < _LAST and (last is None or last < ticks):
        _IDS._last_v6_timestamp = ticks


def follow_or_refuse(newest: CheckpointTuple | None, thread_id: str) -> None:
    """Call `follow` for a thread's newest state, before a run or an update writes a newer one.

    Raises `ConflictError` if LangGraph still makes a smaller id: the new state would be lost.
    """
    checkpoint_id = newest.checkpoint["id"] if newest else ""
    follow(checkpoint_id)
    if str(_IDS.uuid6()) > checkpoint_id:
        return
    until = _EPOCH + timedelta(seconds=_ticks(checkpoint_id) // 10_000_000)
    behind = until - datetime.now(UTC).replace(microsecond=0)
    raise ConflictError(
        f"The newest state of the thread {thread_id!r} is from {until:%Y-%m-%d %H:%M:%S} UTC, and the clock "
        f"is {behind} behind: a turn would be lost until then. Copy the messages to another thread. "
        "Nothing was stored, and no model was called"
    )


def _ticks(checkpoint_id: str) -> int:
    """Return the time in an id; 0 if it is not an id of LangGraph."""
    try:
        parsed_id = _IDS.UUID(hex=checkpoint_id)
    except ValueError:
        return 0
    return parsed_id.time if parsed_id.version == 6 else 0
