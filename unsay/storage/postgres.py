"""Postgres for the threads' states and for what outlives them, shared by many processes."""

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, LiteralString, TypeVar

from langgraph.store.base import Op, PutOp, Result

from unsay.errors import MissingExtraError, StorageError
from unsay.storage.base import Database, Purged, check_url, masked
from unsay.storage.leases import thread_of_item
from unsay.storage.postgres_leases import GUARD, PostgresLeases
from unsay.storage.postgres_schema import (
    KEPT,
    VACUUM,
    erase,
    from_json,
    is_broken,
    meaning,
    prepare,
    refusal,
    to_json,
    unreadable,
)
from unsay.storage.sqlite_checkpointer import CompressedSerializer, OffLoop

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

# Most connections of one open database. Source: own measurement.
CONNECTIONS = 10
CONNECT_SECONDS = 10

# How long a call waits for a connection: for another call's, or for a server that restarts.
WAIT_SECONDS = 30.0
# Of every connection. Source: langgraph-checkpoint-postgres, `from_conn_string`.
OPTIONS: dict[str, Any] = {
    "autocommit": True,
    "prepare_threshold": 0,
    "row_factory": dict_row,
    "connect_timeout": CONNECT_SECONDS,
    "application_name": "unsay",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The connections to a database."""

    path: str
    pool: ConnectionPool[Connection]
    leases: PostgresLeases
    due: threading.local = field(default_factory=threading.local)
    """The proofs of leases that the write in this thread needs."""

    def reach(self, work: Callable[[], T]) -> T:
        """Do some work, once more if its connection was lost.

        Rows are written under ids of their own, so all of it may be done twice.
        """
        with _translated(self.path):
            try:
                return work()
            except psycopg.OperationalError as error:
                if not _is_lost(error):
                    raise
                self.pool.check()
                return work()

    def write(self, thread_ids: Iterable[str | None], work: Callable[[], T]) -> T:
        """Do some work that writes to threads; refuse it if the lease on one was lost."""
        self.due.proofs = self.leases.proofs(thread_ids)
        try:
            return self.reach(work)
        finally:
            self.due.proofs = []

    def check(self, cursor: Any) -> None:
        """Make a transaction fail unless the leases of what is due are held."""
        for proof in getattr(self.due, "proofs", []):
            cursor.execute(GUARD, proof)


class _Pooled:
    """A checkpointer or store over a pool.

    LangGraph's own lock, which would let one call through at a time, is taken off: each call has a
    connection to itself.
    """

    lock: Any

    def __init__(self, server: Server, **options: Any) -> None:
        super().__init__(server.pool, **options)  # type: ignore[call-arg]
        self.lock = nullcontext()
        self.server = server

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
    def call(self: Any, config: Any, *args: Any, **options: Any) -> Any:
        work = partial(getattr(PostgresSaver, name), self, config, *args, **options)
        return self.server.write([config["configurable"]["thread_id"]], work)

    return call


class PoolSaver(_Pooled, OffLoop, PostgresSaver):
    """LangGraph's Postgres checkpointer over a pool, usable from an event loop as well."""

    get_tuple = _reading("get_tuple")
    get_delta_channel_history = _reading("get_delta_channel_history")
    put = _writing("put")
    put_writes = _writing("put_writes")

    def list(self, config: Any, **options: Any) -> Iterator[Any]:
        """See `PostgresSaver`."""
        found = partial(super().list, config, **options)
        return iter(self.server.reach(lambda: [*found()]))

    def delete_thread(self, thread_id: str) -> None:
        """See `PostgresSaver`."""
        self.server.write([thread_id], partial(super().delete_thread, thread_id))


class PoolStore(_Pooled, PostgresStore):
    """LangGraph's Postgres store over a pool; nothing is indexed, and nothing expires."""

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """See `PostgresStore`."""
        given = list(ops)
        puts = [each for each in given if isinstance(each, PutOp)]
        threads = [thread_of_item(".".join(each.namespace), each.key) for each in puts]
        return self.server.write(threads, partial(super().batch, given))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """`batch`, off the event loop."""
        return await asyncio.to_thread(self.batch, list(ops))


class Session:
    """The connection of the leases."""

    def __init__(self, url: str, path: str) -> None:
        self._url = url
        self._path = path
        self._connection: Connection | None = None
        self._mutex = threading.Lock()

    def ask(self, query: LiteralString, *values: Any) -> Any:
        """Return the first row of a query; connect again if the connection was lost."""
        with self._mutex, _translated(self._path):
            connection = self._connection
            if connection is not None and not connection.closed:
                try:
                    return connection.execute(query, values).fetchone()
                except psycopg.OperationalError as error:
                    if not _is_lost(error):
                        raise
            if connection is not None:
                connection.close()
            self._connection = connect(self._url, self._path)
            return self._connection.execute(query, values).fetchone()

    def tell(self, query: LiteralString, *values: Any) -> None:
        """Run a query if there is a connection."""
        with self._mutex, suppress(psycopg.OperationalError):
            if self._connection is not None:
                self._connection.execute(query, values)

    def close(self) -> None:
        """Close the connection if there is one."""
        with self._mutex:
            if self._connection is not None:
                self._connection.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresDatabase(Database):
    """An open Postgres database: a checkpointer and a store on one pool."""

    server: Server

    def close(self) -> None:
        """Close all connections."""
        self.leases.close()
        self.server.pool.close()

    def erase(self, thread_id: str) -> Purged:
        """Delete a thread's rows, all in one transaction."""

        def work() -> Purged:
            with self.server.pool.connection() as connection, connection.transaction():
                self.server.check(connection)
                return erase(connection, thread_id)

        return self.server.write([thread_id], work)

    def scrub(self) -> None:
        """Free the space of deleted rows.

        No query finds them any more, and later rows take their place. Until then their bytes
        may lie in the tables' free space, as they do in the write-ahead log, on replicas and in
        backups: only the server's operator can clean those, the tables by `VACUUM FULL`, which
        locks everybody out for its while.

        Source:
            PostgreSQL, VACUUM; own measurement of the files.
        """

        def work() -> None:
            with self.server.pool.connection() as connection:
                connection.execute(VACUUM)

        self.server.reach(work)


def open_postgres(url: str) -> PostgresDatabase:
    """Open a Postgres database; its tables are made if they are not there.

    Args:
        url: `postgresql://user:password@host:port/name`, as libpq reads it. Between here and
            the server no pooler may share connections by transaction.

    Raises:
        ConfigurationError: The URL cannot be read.
        StorageError: The server, the database or the user is not there.
        DatabaseTooNewError: A newer unsay made its tables.
        DatabaseTooOldError: An older one made them, in another layout.
    """
    check_url(url)
    path = masked(url)
    with _translated(path), connect(url, path) as first:
        prepare(first, path, PostgresSaver(first), PostgresStore(first))
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
    return PostgresDatabase(
        path=path,
        saver=PoolSaver(server, serde=CompressedSerializer()),
        store=PoolStore(server),
        leases=leases,
        server=server,
    )


def connect(url: str, path: str) -> Connection:
    """Open a connection; libpq's error is not chained, since it carries the password.

    Raises:
        ConfigurationError: The URL cannot be read.
        StorageError: The server, the database or the user is not there.
    """
    failure: psycopg.Error
    try:
        return psycopg.connect(url, **OPTIONS)
    except psycopg.Error as error:
        failure = error
    readable = isinstance(failure, psycopg.OperationalError)
    raise refusal(str(failure), path) if readable else unreadable(path)


def _is_lost(error: psycopg.OperationalError) -> bool:
    if isinstance(error, PoolTimeout | PoolClosed):
        return False
    return error.sqlstate is None or is_broken(error.sqlstate)


@contextmanager
def _translated(path: str) -> Iterator[None]:
    try:
        yield
    except PoolTimeout as error:
        raise StorageError(
            f"{path!r} gave no connection for {WAIT_SECONDS:g} s: see that the server runs, and "
            f"that not all connections are in use; {KEPT}"
        ) from error
    except PoolClosed as error:
        raise StorageError(f"{path!r} was closed: open it again") from error
    except psycopg.Error as error:
        lost = isinstance(error, psycopg.OperationalError) and _is_lost(error)
        raise meaning(str(error), error.sqlstate, path, lost=lost) from error


def _configure(connection: Connection) -> None:
    # Postgres can hold no NUL and no half surrogate pairs in JSON.
    set_json_dumps(to_json, connection)
    set_json_loads(from_json, connection)
