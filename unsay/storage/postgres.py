"""Postgres as checkpointer and store, shared by many processes."""

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, LiteralString, TypeVar

from langgraph.store.base import Op, PutOp, Result

from unsay.errors import InputError, MissingExtraError, StorageError
from unsay.storage import postgres_schema as schema
from unsay.storage.base import Database, Purged, follow
from unsay.storage.leases import Lease, Leases, thread_of_item
from unsay.storage.sqlite_checkpointer import CompressedSerializer, OffLoop, off_loop_method
from unsay.storage.urls import check_url, masked
from unsay.storage.writer_lock import set_leases

try:
    import psycopg
    from langgraph.checkpoint.postgres import PostgresSaver
    from langgraph.store.postgres import PostgresStore
    from psycopg.rows import DictRow, dict_row
    from psycopg.types.json import set_json_dumps, set_json_loads
    from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout
except ImportError as error:
    raise MissingExtraError(
        f"A postgresql:// URL needs more packages ({error}): pip install 'unsay[postgres]'"
    ) from error

T = TypeVar("T")
Connection = psycopg.Connection[DictRow]

# Largest number of connections of one open database. Source: own measurement.
CONNECTIONS = 10
CONNECT_SECONDS = 10
# Keepalive packets that may be lost before the server ends the connection of a silent machine.
KEEPALIVE_PROBES = 4
# How long a call waits for a free connection, also while the server restarts.
WAIT_SECONDS = 30.0
# Options of every connection. Source: langgraph-checkpoint-postgres, `from_conn_string`.
OPTIONS: dict[str, Any] = {
    "autocommit": True,
    "prepare_threshold": 0,
    "row_factory": dict_row,
    "connect_timeout": CONNECT_SECONDS,
    "application_name": "unsay",
}


@dataclass(slots=True, eq=False)
class PostgresLease(Lease):
    """The right to write to a thread while the connection with the backend id `pid` is open."""

    key: int = 0
    pid: int | None = None
    ended: bool = False
    mutex: threading.Lock = field(default_factory=threading.Lock)


class PostgresLeases(Leases):
    """The leases of one Postgres database, all on one connection.

    A lease is an advisory lock of a connection that does nothing else. It ends with that connection:
    when its process ends, when the server stops, or when the network is down for longer than a lease
    lasts. An owner that lost it is refused at its next write. A process that is suspended keeps its
    leases; `pg_terminate_backend` ends them.
    """

    kind = PostgresLease

    def __init__(self, session: "Session") -> None:
        super().__init__()
        self._session = session
        self._tuned: tuple[int, float] | None = None
        self._freeing = ThreadPoolExecutor(max_workers=1, thread_name_prefix="unsay-lease")

    def proofs(self, thread_ids: Iterable[str | None]) -> list[tuple[int | None, int, int]]:
        """Return the parameters of `GUARD` for those of the threads on which this process has a lease."""
        leases = [self._held.get(thread_id or "") for thread_id in dict.fromkeys(thread_ids)]
        return [
            (lease.pid, lease.key >> 32 & 0xFFFFFFFF, lease.key & 0xFFFFFFFF)
            for lease in leases
            if lease is not None
        ]

    def forget(self, lease: PostgresLease) -> None:
        """Remove a lease and free its lock, in a background thread."""
        super().forget(lease)
        lease.ended = True
        with suppress(RuntimeError):  # closed: the lock ended with its connection
            lease.done = self._freeing.submit(self._free, lease)

    def close(self) -> None:
        """End the connection that holds the locks, and with it every lease."""
        self._freeing.shutdown()
        self._session.close()

    def _ask(self, lease: PostgresLease, *, waits: bool) -> str:
        del waits  # the server's locks keep no queue
        with lease.mutex:
            if lease.ended:  # a lock taken after its release would never be freed
                return " in another process"
            row = self._session.ask(schema.TRY_LOCK, lease.thread_id)
            if row["got"]:
                lease.key, lease.pid = row["key"], row["pid"]
        if self._tuned != (row["pid"], lease.seconds):
            half = lease.seconds / 2  # the server counts in whole seconds
            idle, interval = max(1, int(half)), max(1, int(half / KEEPALIVE_PROBES))
            self._session.ask(schema.KEEP_ALIVE, str(idle), str(interval), str(KEEPALIVE_PROBES))
            self._tuned = row["pid"], lease.seconds
        return "" if row["got"] else " in another process"

    def _free(self, lease: PostgresLease) -> None:
        """Free a lock. Nothing is sent if none was obtained; a lost connection frees it anyway."""
        with lease.mutex:
            if lease.pid is not None:
                self._session.execute(schema.UNLOCK, lease.key, lease.pid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The connections to a database, and the leases that its writes check.

    `due` holds, for each Python thread, the proofs of the leases that its current write needs.
    """

    path: str
    pool: ConnectionPool[Connection]
    leases: PostgresLeases
    due: threading.local = field(default_factory=threading.local)

    def reach(self, work: Callable[[], T]) -> T:
        """Return what `work` returns; run it once more if its connection was lost.

        Errors are turned by `_translated`. What writes uses `write`, which checks leases.
        """
        with _translated(self.path):
            try:  # work can be repeated after a lost commit: rows are written under fixed ids
                return work()
            except psycopg.OperationalError as error:
                if not _is_lost(error):
                    raise
                self.pool.check()  # a restart of the server ends all connections, not only this one
                return work()

    def write(self, thread_ids: Iterable[str | None], work: Callable[[], T]) -> T:
        """Run `work` as `reach` does; `ThreadBusyError` if a lease on these threads was lost."""
        self.due.proofs = self.leases.proofs(thread_ids)
        try:
            return self.reach(work)
        finally:
            self.due.proofs = []

    def check(self, cursor: Any) -> None:
        """Make the open transaction fail if a lease that it needs was lost: `write` raises `ThreadBusyError`."""
        for proof in getattr(self.due, "proofs", []):
            cursor.execute(schema.GUARD, proof)


class _Pooled:
    """A checkpointer or store whose calls each take a connection from the pool."""

    lock: Any

    def __init__(self, server: Server, **options: Any) -> None:
        super().__init__(server.pool, **options)  # type: ignore[call-arg]
        # LangGraph's lock would let one call through at a time.
        self.lock, self.server, self.location = nullcontext(), server, server.path

    @contextmanager
    def _cursor(self, *, pipeline: bool = False) -> Iterator[psycopg.Cursor[DictRow]]:
        with super()._cursor(pipeline=pipeline) as cursor:  # type: ignore[misc]
            self.server.check(cursor)
            yield cursor


def _reading(name: str) -> Any:
    def call(self: Any, *args: Any, **options: Any) -> Any:
        return self.server.reach(partial(getattr(PostgresSaver, name), self, *args, **options))

    return call


def _writing(name: str) -> Any:
    def call(self: Any, place: Any, *args: Any, **options: Any) -> Any:
        work = partial(getattr(PostgresSaver, name), self, place, *args, **options)
        thread_id = place if isinstance(place, str) else place["configurable"]["thread_id"]
        return self.server.write([thread_id], work)

    return call


class PoolSaver(_Pooled, OffLoop, PostgresSaver):
    """LangGraph's Postgres checkpointer over a pool, for synchronous and asynchronous callers."""

    SELECT_SQL = PostgresSaver.SELECT_SQL.replace("select", f"select {schema.GREATEST_ID},", 1)
    get_tuple = _reading("get_tuple")
    get_delta_channel_history = _reading("get_delta_channel_history")
    put = _writing("put")
    put_writes = _writing("put_writes")
    delete_thread = _writing("delete_thread")

    def list(self, config: Any, **options: Any) -> Iterator[Any]:
        """Return the checkpoints that match, newest first. Raises as `Server.reach`."""
        query = partial(super().list, config, **options)
        # Read at once: a generator would run after `reach`, without its second attempt.
        return iter(self.server.reach(lambda: [*query()]))

    def _load_checkpoint_tuple(self, value: DictRow) -> Any:
        follow(value["greatest_id"])
        return super()._load_checkpoint_tuple(value)


class PoolStore(_Pooled, PostgresStore):
    """LangGraph's Postgres store over a pool, without an index and without expiry."""

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations, and return their results. Raises as `Server.write` for the threads they write to."""
        operations = list(ops)
        puts = (op for op in operations if isinstance(op, PutOp))
        threads = [thread_of_item(".".join(op.namespace), op.key) for op in puts]
        return self.server.write(threads, partial(super().batch, operations))

    abatch = off_loop_method("batch")


class Session:
    """The connection that holds the locks of all leases; it is opened on first use."""

    def __init__(self, url: str, path: str) -> None:
        self._url, self._path = url, path
        self._connection: Connection | None = None
        self._is_closed = False
        self._mutex = threading.Lock()

    def ask(self, query: LiteralString, *values: Any) -> Any:
        """Return the first row of a query, or `None`; the first call opens the connection.

        If the connection was lost, the query is run again on a new one, which has no locks.
        Raises `InputError` after `close`, `StorageError` if the server cannot be reached.
        """
        with self._mutex, _translated(self._path):
            if self._is_closed:
                raise PoolClosed
            connection = self._connection
            if connection is not None and not connection.closed:
                try:
                    return connection.execute(query, values).fetchone()
                except psycopg.OperationalError as error:
                    if not _is_lost(error):
                        raise
            if connection is not None:
                connection.close()
            # It holds none of the old locks; `GUARD` refuses writes by their owners.
            self._connection = connect(self._url, self._path)
            return self._connection.execute(query, values).fetchone()

    def execute(self, query: LiteralString, *values: Any) -> None:
        """Run a query; do nothing without an open connection. An `OperationalError` is ignored."""
        with self._mutex, suppress(psycopg.OperationalError):
            if self._connection is not None:
                self._connection.execute(query, values)

    def close(self) -> None:
        """Close the connection, if it was opened; no other is opened later."""
        with self._mutex:
            self._is_closed = True
            if self._connection is not None:
                self._connection.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresDatabase(Database):
    """An open Postgres database: a checkpointer and a store on one pool."""

    server: Server

    def close(self) -> None:
        """Give up all leases and close all connections; a second call changes nothing."""
        self.leases.close()
        self.server.pool.close()

    def erase(self, thread_id: str) -> Purged:
        """Delete all rows of a thread in one transaction, and return their number. Raises as `Server.write`."""

        def work() -> Purged:
            with self.server.pool.connection() as connection, connection.transaction():
                self.server.check(connection)
                return schema.erase(connection, thread_id)

        return self.server.write([thread_id], work)

    def scrub(self) -> None:
        """Free the space of deleted rows for new ones.

        No query finds deleted rows. Their bytes can remain in the tables until new rows overwrite
        them, in the write-ahead log, on replicas and in backups. Only the server's operator can
        remove those. Source: PostgreSQL, VACUUM; own measurement of the files.
        """

        def work() -> None:
            with self.server.pool.connection() as connection:
                connection.execute(schema.VACUUM)

        self.server.reach(work)


def open_postgres(url: str) -> PostgresDatabase:
    """Open a Postgres database, and create its tables if they are missing.

    `url` has the syntax of libpq. A pooler in front of the server must not share connections by
    transaction. Raises the errors that `open_database` lists.
    """
    check_url(url)
    path = masked(url)
    with _translated(path), connect(url, path) as first:
        schema.prepare(first, path, PostgresSaver(first), PostgresStore(first))
    pool: ConnectionPool[Connection] = ConnectionPool(
        url,
        min_size=1,
        max_size=CONNECTIONS,
        timeout=WAIT_SECONDS,
        kwargs=OPTIONS,
        configure=_configure,
        open=True,
        name="unsay",
    )
    leases = PostgresLeases(Session(url, path))
    server = Server(path=path, pool=pool, leases=leases)
    saver = PoolSaver(server, serde=CompressedSerializer())
    set_leases(saver, leases)
    return PostgresDatabase(path=path, saver=saver, store=PoolStore(server), server=server)


def connect(url: str, path: str) -> Connection:
    """Return a new connection.

    Raises `ConfigurationError` if the URL cannot be read, `StorageError` if the connection fails.
    The password is in neither message.
    """
    # Raised outside of `except`, so that libpq's error is not chained: it can hold the password.
    failure: psycopg.Error
    try:
        return psycopg.connect(url, **OPTIONS)
    except psycopg.Error as error:
        failure = error
    readable = isinstance(failure, psycopg.OperationalError)
    raise schema.refusal(str(failure), path) if readable else schema.unreadable(path)


def _is_lost(error: psycopg.OperationalError) -> bool:
    """Return whether an error means that the connection ended, so that a new one can help."""
    of_pool = isinstance(error, PoolTimeout | PoolClosed)
    return not of_pool and (error.sqlstate is None or schema.is_broken(error.sqlstate))


@contextmanager
def _translated(path: str) -> Iterator[None]:
    """Turn Postgres' errors in a `with` block into `meaning`'s, the pool's into `StorageError`."""
    try:
        yield
    except PoolTimeout as error:
        raise StorageError(
            f"{path!r} gave no connection within {WAIT_SECONDS:g} s: check that the server runs, and "
            f"that it has free connections. {schema.KEPT}"
        ) from error
    except PoolClosed as error:
        raise InputError(f"{path!r} was closed: open it again") from error
    except psycopg.Error as error:
        lost = isinstance(error, psycopg.OperationalError) and _is_lost(error)
        raise schema.meaning(str(error), error.sqlstate, path, lost=lost) from error


def _configure(connection: Connection) -> None:
    # Postgres can hold no NUL and no half surrogate pairs in JSON.
    set_json_dumps(schema.to_json, connection)
    set_json_loads(schema.from_json, connection)
