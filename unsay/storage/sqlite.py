"""One SQLite file as checkpointer and store."""

import json
import logging
import os
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Self

from langgraph.store.base import Item, Op, PutOp, Result
from langgraph.store.sqlite import SqliteStore

from unsay.errors import (
    ConfigurationError,
    DatabaseCorruptError,
    DatabaseLockedError,
    InputError,
    StorageError,
)
from unsay.storage.base import (
    APPLICATION_ID,
    BUSY_SECONDS,
    LAYOUT_VERSION,
    OURS,
    THREADS,
    Database,
    Purged,
    check_layout,
    damaged_file,
    translated,
)
from unsay.storage.items import damaged, quoted, reading, with_checksum, without_checksum
from unsay.storage.leases import FileLeases, thread_of_item
from unsay.storage.sqlite_checkpointer import CheckedSerializer, FileSaver, off_loop_method
from unsay.storage.urls import is_postgres, masked
from unsay.storage.writer_lock import set_leases


@contextmanager
def _rolling_back(connection: sqlite3.Connection) -> Iterator[None]:
    """Roll back after a failed statement, and note the connection's lock timeout on the error."""
    try:
        yield
    except sqlite3.Error as error:
        vars(error)["busy_seconds"] = getattr(connection, "busy_seconds", 0.0)
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.rollback()
        raise


class Cursor(sqlite3.Cursor):
    """A cursor that rolls its transaction back when a statement fails."""

    def execute(self, sql: str, parameters: Any = (), /) -> Self:
        """Run a statement; if that fails, roll back and raise the error. A needless `COMMIT` does nothing."""
        # LangGraph's store commits even after a failed statement, which was rolled back here already.
        if sql == "COMMIT" and not self.connection.in_transaction:
            return self
        with _rolling_back(self.connection):
            return super().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Any, /) -> Self:
        """Run a statement for each set of parameters; if that fails, roll back and raise the error."""
        with _rolling_back(self.connection):
            return super().executemany(sql, parameters)


class Connection(sqlite3.Connection):
    """A connection that rolls back at once when a statement fails."""

    # LangGraph's saver and store commit in `finally`, also after a failed statement: half of a
    # step's writes would be stored, and the step would count as done. After a full disk, a lock or
    # a failed read the application must roll back. Source: SQLite, "Transaction", response to errors.
    busy_seconds: float = 0.0
    path: str = ""

    def cursor(self, factory: Any = Cursor) -> Any:
        """Return a new cursor, which rolls back when a statement fails; `InputError` if closed."""
        try:
            return super().cursor(factory)
        except sqlite3.ProgrammingError as error:
            raise InputError(f"{self.path!r} was closed: open it again") from error

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        """Run a statement on a new cursor and return the cursor. Raises as `cursor` and `Cursor.execute`."""
        return self.cursor().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Any, /) -> Any:
        """Run a statement for each set of parameters on a new cursor; returns and raises as `execute`."""
        return self.cursor().executemany(sql, parameters)

    def commit(self) -> None:
        """Commit the transaction; if that fails, roll it back and raise the error."""
        with _rolling_back(self):
            super().commit()


def connect(path: str, *, busy_seconds: float, isolation_level: str | None = "") -> Connection:
    """Return a connection that any Python thread may use, one at a time.

    `busy_seconds` is how long it waits for a lock; `isolation_level=None` is autocommit. Raises
    `sqlite3.Error` if the file cannot be opened.
    """
    connection = sqlite3.connect(
        path,
        timeout=busy_seconds,
        check_same_thread=False,
        isolation_level=isolation_level,  # type: ignore[arg-type]
        factory=Connection,
    )
    connection.busy_seconds, connection.path = busy_seconds, path
    # For files that others may have written to. Source: SQLite, "Defense Against The Dark Arts".
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute("PRAGMA cell_size_check=ON")
    return connection


LOG = logging.getLogger(__name__)

# Largest file whose pages are all checked when it is opened: the check costs about 1.5 ms of CPU a
# megabyte. Source: own measurement.
LOOK_BYTES = 8 * 2**20
MEMORY = ":memory:"

_TABLES = frozenset({"checkpoints", "writes", "store", "store_migrations", "leases"})


class FileStore(SqliteStore):
    """LangGraph's SQLite store for synchronous and asynchronous callers, with checksums."""

    conn: Connection
    location: str | None = None
    """The file; `None` in memory. Two stores with the same location are one database."""

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations in one transaction, and return their results in order.

        A search returns a damaged item with an empty value, so that it does not hide the others, and
        logs a warning; for `get` it raises `DatabaseCorruptError`. For a value that cannot be stored
        it raises what LangGraph raises. Errors of SQLite, such as for a lost lease, are raised as
        `sqlite3.Error`: `translated` makes errors of unsay of them.
        """
        operations = list(ops)
        for index, op in enumerate(operations):
            if isinstance(op, PutOp) and op.value is not None and op.namespace[0] == OURS:
                operations[index] = op._replace(value=with_checksum(op.namespace, op.key, op.value))
        with _translated(puts=any(isinstance(op, PutOp) for op in operations)):
            results = super().batch(operations)
        for result in results:
            for item in result if isinstance(result, list) else [result]:
                if not isinstance(item, Item):
                    continue
                is_ours = item.namespace[0] == OURS
                if not is_ours and item.value is not None:
                    continue
                try:
                    item.value = without_checksum(item.namespace, item.key, item.value)
                except DatabaseCorruptError as error:
                    if item is result or not is_ours:
                        raise
                    LOG.warning(
                        "namespace=%r reason=%r a damaged item is left out",
                        item.namespace,
                        str(error),
                    )
                    item.value = {}
        return results

    abatch = off_loop_method("batch")

    @contextmanager
    def _cursor(self, *, transaction: bool = True) -> Iterator[sqlite3.Cursor]:
        with super()._cursor(transaction=transaction) as cursor:
            cursor.row_factory = _with_readable_times
            try:
                yield cursor
            except BaseException:  # also when cancelled: LangGraph would commit half of the batch
                self.conn.rollback()
                raise

    def _prepare_batch_search_queries(self, search_ops: Any) -> Any:
        # A filter must not fail over a row that is not JSON: such a row has no fields.
        queries, requests = super()._prepare_batch_search_queries(search_ops)
        fields = "json_extract(iif(json_valid(value), value, '{}'), "
        return [
            (sql.replace("json_extract(value, ", fields), *rest) for sql, *rest in queries
        ], requests


def _with_readable_times(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row with `None` in place of a time that cannot be read.

    LangGraph would refuse the whole list. The value has a checksum of its own, and unsay does not
    use the times.
    """
    names = [column[0] for column in cursor.description]
    return tuple(
        None if name in ("created_at", "updated_at") and not _is_time(value) else value
        for name, value in zip(names, row, strict=True)
    )


def _is_time(stored: Any) -> bool:
    try:
        return bool(datetime.fromisoformat(stored))
    except (TypeError, ValueError):
        return False


def _value_of(stored: Any) -> Any:
    """Return the value of an item's row; `None` if it is damaged, since no item has this value."""
    try:
        return json.loads(stored)
    except ValueError:
        return None


@contextmanager
def _translated(*, puts: bool) -> Iterator[None]:
    """Return a context manager that turns errors of damaged rows into `DatabaseCorruptError`.

    With `puts` (some operations write) they are raised unchanged, because a value that cannot be
    stored causes the same errors. An error that SQLite caused is raised as SQLite raised it.
    """
    try:
        yield
    except (AttributeError, TypeError, ValueError) as error:
        if isinstance(error.__cause__, sqlite3.Error):
            raise error.__cause__ from None
        if puts or str(error).startswith(("Invalid filter key", "Unsupported operator")):
            raise
        raise damaged("An item", f"{type(error).__name__}: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDatabase(Database):
    """An open file: a checkpointer, a store and leases, each with a connection."""

    saver: FileSaver
    store: FileStore

    def close(self) -> None:
        """Give up all leases and close all connections; a second call changes nothing."""
        self.leases.close()
        self.saver.conn.close()
        self.store.conn.close()

    def erase(self, thread_id: str) -> Purged:
        """Delete all rows of a thread, also damaged ones, and return their number. Raises as `translated`."""
        with translated(self.path):
            with self.saver.cursor(transaction=False) as cursor:
                checkpoints, writes = cursor.execute(
                    "SELECT (SELECT count(*) FROM checkpoints WHERE thread_id = :thread),"
                    " (SELECT count(*) FROM writes WHERE thread_id = :thread)",
                    {"thread": thread_id},
                ).fetchone()
            # The store comes last: its list of threads still names the thread after a crash, so that
            # the purge can be repeated.
            self.saver.delete_thread(thread_id)
            with self.store.lock:
                items = _delete_items(self.store.conn, thread_id)
        return Purged(checkpoints=checkpoints, writes=writes, items=items)

    def scrub(self) -> None:
        """Rewrite the file, so that the bytes of deleted rows are gone.

        Raises:
            DatabaseLockedError: Another process reads or writes the file. The bytes may remain:
                call it again. The rows stay deleted.
        """
        # Deleted bytes stay in free pages, in the unused part of other pages, and in the journal.
        # Source: SQLite, VACUUM and `PRAGMA wal_checkpoint`.
        with translated(self.path), self.store.lock:
            # Before the checkpoint of the journal, since it writes there itself.
            self.store.conn.execute("VACUUM")
            busy, *_ = self.store.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise DatabaseLockedError(
                f"{self.path!r} is being read by another process: the thread is deleted, but the journal "
                "may still hold its bytes. Purge it again when the other process is done"
            )

    def check(self) -> None:
        """Raise `DatabaseCorruptError` for a damaged page or an index without its rows."""
        with translated(self.path), self.store.lock:
            _check_pages(self.store.conn, self.path)


def open_database(
    path_or_url: str | os.PathLike[str], *, busy_seconds: float | None = None
) -> Database:
    """Open a SQLite file, which is created if it does not exist, or a Postgres database.

    Args:
        path_or_url: A path, `sqlite:///path`, `:memory:`, or
            `postgresql://user:password@host:port/name`.
        busy_seconds: How long to wait while another process locks the file; `None` means 30.

    Raises:
        ConfigurationError: The URL is ambiguous or of another kind of database, the encoding of the
            Postgres database is not UTF-8, or this is Windows.
        MissingExtraError: The URL is of Postgres, and the extra `postgres` is not installed.
        StorageError: The file cannot be created, read or written, or the server refuses.
        DatabaseCorruptError: The file is damaged or belongs to another program.
        DatabaseTooNewError: A newer version of unsay wrote it.
        DatabaseTooOldError: An older version wrote it, with another layout.
        DatabaseLockedError: Another process keeps it locked.
    """
    # Leases check with signal 0 whether a process still runs: on Windows that signal is Ctrl-C.
    if sys.platform == "win32":
        raise ConfigurationError(
            "unsay runs on Linux and macOS, not on Windows, where it cannot check whether another "
            "process still runs: use the Windows Subsystem for Linux (WSL)"
        )
    location = os.fspath(path_or_url)
    if is_postgres(location):
        database: Database = import_module("unsay.storage.postgres").open_postgres(location)
        return database
    plain = location.removeprefix("sqlite:///")
    if "://" in plain:
        raise ConfigurationError(
            f"{masked(plain)!r} is not a supported database: give a path, sqlite:///path, or "
            "postgresql://user:password@host:port/name"
        )
    path = plain if plain == MEMORY else os.path.abspath(plain)
    busy = BUSY_SECONDS if busy_seconds is None else busy_seconds
    if path != MEMORY:
        _make_file(Path(path))
    with translated(path), ExitStack() as failed:
        first = connect(path, busy_seconds=busy)
        failed.callback(first.close)
        with reading(repr(path)):
            _check_layout(first, path)
        if path != MEMORY and os.path.getsize(path) <= LOOK_BYTES:
            _check_pages(first, path)
        saver = FileSaver(first, serde=CheckedSerializer())
        saver.setup()
        # After `setup`, which switches to WAL: there NORMAL loses no transaction to a crash of the
        # process, and a commit needs no fsync. Source: SQLite, `PRAGMA synchronous`.
        first.execute("PRAGMA synchronous=NORMAL")
        second = connect(path, busy_seconds=busy, isolation_level=None)
        failed.callback(second.close)
        store = FileStore(second, deserializer=_value_of)
        _set_up(store)
        second.execute("PRAGMA synchronous=NORMAL")
        if path != MEMORY:
            # Separate, so that renewing a lease never waits for a long call over another connection.
            third = connect(path, busy_seconds=busy, isolation_level=None)
            failed.callback(third.close)
            third.execute("PRAGMA synchronous=NORMAL")
            leases = FileLeases(third)
            set_leases(saver, leases)
            store.location = path
            for table in ("checkpoints", "writes"):
                leases.guard(first, table, ("thread_id",), str)
            leases.guard(second, "store", ("prefix", "key"), thread_of_item)
        failed.pop_all()
    return FileDatabase(path=path, saver=saver, store=store)


def _delete_items(connection: sqlite3.Connection, thread_id: str) -> int:
    """Delete a thread's items and its entry in the list of threads; return how many in all."""
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        rows = connection.execute("SELECT DISTINCT prefix FROM store").fetchall()
        # Compared as text: in a pattern, characters of an id would be wildcards.
        own = [(name,) for (name,) in rows if name.split(".")[0:3:2] == [OURS, quoted(thread_id)]]
        items = connection.executemany("DELETE FROM store WHERE prefix = ?", own).rowcount
        entry_cursor = connection.execute(
            "DELETE FROM store WHERE prefix = ? AND key = ?", (".".join(THREADS), thread_id)
        )
        return max(items, 0) + entry_cursor.rowcount


def _set_up(store: FileStore) -> None:
    """Create or migrate the store's tables in one transaction, which a kill undoes as a whole."""
    # LangGraph's own `setup` commits each migration before it notes its number. After a kill between
    # the two, every later start would repeat the migration and fail.
    connection = store.conn
    if _next_migration(connection) < len(store.MIGRATIONS):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("CREATE TABLE IF NOT EXISTS store_migrations (v INTEGER PRIMARY KEY)")
        first = _next_migration(connection)  # another process may have been faster
        for number, script in enumerate(store.MIGRATIONS[first:], start=first):
            for statement in _statements(script):
                _migrate(connection, statement)
            connection.execute("INSERT INTO store_migrations (v) VALUES (?)", (number,))
        connection.commit()
    store.setup()


def _next_migration(connection: Connection) -> int:
    cursor = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'store_migrations'")
    if cursor.fetchone() is None:
        return 0
    newest = connection.execute("SELECT coalesce(max(v), -1) FROM store_migrations").fetchone()
    return int(newest[0]) + 1


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for part in script.split(";"):
        statement += f"{part};"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _migrate(connection: Connection, statement: str) -> None:
    try:
        # Not `connection.execute`, which would roll the whole transaction back.
        sqlite3.Connection.cursor(connection).execute(statement)
    except sqlite3.OperationalError as error:
        # A process that ran LangGraph's own `setup` was killed after this migration.
        if "duplicate column name" not in str(error):
            connection.rollback()
            raise


def _make_file(path: Path) -> None:
    """Create a file for its owner alone unless it exists; `StorageError` if it is not writable."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))  # SQLite itself: 0644
        with path.open("r+b"):  # SQLite would open it for reading only, and fail later
            pass
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        access = (
            "give this user write access to the file and its folder, or "
            if isinstance(error, PermissionError)
            else ""
        )
        raise StorageError(
            f"{str(path)!r} cannot be written ({reason}): {access}choose another path, on the command "
            "line by --db or UNSAY_HOME"
        ) from error


def _check_layout(connection: sqlite3.Connection, path: str) -> None:
    """Mark a new file as one of unsay, or check the layout of one that exists.

    Raises `DatabaseCorruptError` for a file of another program, `DatabaseTooNewError` or
    `DatabaseTooOldError` for another layout.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    tables = {name for (name,) in names if not name.startswith("sqlite_")}
    if application not in (0, APPLICATION_ID) or (application == 0 and tables - _TABLES):
        raise DatabaseCorruptError(f"{path!r} is a database of another program: give another path")
    if application == APPLICATION_ID:
        check_layout(path, version)
        return
    # The application id comes last: after a crash, a file that has it also has its version.
    connection.execute(f"PRAGMA user_version = {LAYOUT_VERSION}")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _check_pages(connection: sqlite3.Connection, path: str) -> None:
    """Raise `DatabaseCorruptError` for a damaged page, or an index that differs from its table."""
    (problem,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if problem != "ok":
        raise damaged_file(path, problem.replace("\n", " "))
