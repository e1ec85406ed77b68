"""The tables in a Postgres database: how they are made, and how a thread leaves them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, LiteralString, Protocol

from unsay.errors import ConfigurationError, DatabaseLockedError, DatabaseTooNewError
from unsay.history.catalogue import THREADS
from unsay.history.database import LAYOUT_VERSION
from unsay.history.items import thread_namespace
from unsay.history.purge import OURS, Purged

SETUP_LOCK = 0x756E7379
"""Advisory lock held while tables are made; it spells `unsy`."""

SETUP_SECONDS = 30.0
"""How long to wait for another process that makes them."""

VACUUM: LiteralString = "VACUUM checkpoints, checkpoint_blobs, checkpoint_writes, store"

_VERSIONS: dict[LiteralString, LiteralString] = {
    "checkpoint_migrations": "SELECT max(v) AS one FROM checkpoint_migrations",
    "store_migrations": "SELECT max(v) AS one FROM store_migrations",
    "unsay_layout": "SELECT max(version) AS one FROM unsay_layout",
}
_DELETE: dict[LiteralString, LiteralString] = {
    "checkpoints": "DELETE FROM checkpoints WHERE thread_id = %s",
    "checkpoint_blobs": "DELETE FROM checkpoint_blobs WHERE thread_id = %s",
    "checkpoint_writes": "DELETE FROM checkpoint_writes WHERE thread_id = %s",
}
_DELETE_ITEMS: LiteralString = (
    "DELETE FROM store WHERE split_part(prefix, '.', 1) = %s AND split_part(prefix, '.', 3) = %s"
    " OR prefix = %s AND key = %s"
)


class Family(Protocol):
    """One of LangGraph's, that makes its own tables."""

    MIGRATIONS: Any

    def setup(self) -> None:
        """Make them, or bring them up to date."""
        ...


def prepare(connection: Any, path: str, saver: Family, store: Family) -> None:
    """Make the tables if they are not there, once, however many processes begin.

    Where they are there nothing is written: the user needs no right to make any.

    Args:
        connection: In autocommit mode, with rows as dicts.
        path: For messages.
        saver: The checkpointer, on this connection.
        store: The store, on this connection.

    Raises:
        ConfigurationError: The database cannot hold every language.
        DatabaseTooNewError: A newer unsay made them.
        DatabaseLockedError: Another process makes them, and does not end.
    """
    encoding = _one(connection, "SELECT current_setting('server_encoding') AS one")
    if encoding != "UTF8":
        raise ConfigurationError(
            f"{path!r} stores text as {encoding}: CREATE DATABASE … ENCODING 'UTF8' another"
        )
    if _is_current(connection, path, saver, store):
        return
    with _alone(connection, path):
        saver.setup()
        store.setup()
        connection.execute("CREATE TABLE IF NOT EXISTS unsay_layout (version integer PRIMARY KEY)")
        connection.execute(
            "INSERT INTO unsay_layout VALUES (%s) ON CONFLICT DO NOTHING", [LAYOUT_VERSION]
        )


def erase(connection: Any, thread_id: str) -> Purged:
    """Delete a thread's rows; the caller opened a transaction."""
    gone = {table: connection.execute(each, [thread_id]) for table, each in _DELETE.items()}
    (_, _, quoted) = thread_namespace("*", thread_id)
    items = connection.execute(_DELETE_ITEMS, [OURS, quoted, ".".join(THREADS), thread_id])
    return Purged(
        checkpoints=gone["checkpoints"].rowcount,
        writes=gone["checkpoint_writes"].rowcount,
        items=items.rowcount,
    )


def _is_current(connection: Any, path: str, saver: Family, store: Family) -> bool:
    found = {
        table: _one(connection, query)
        for table, query in _VERSIONS.items()
        if _one(connection, "SELECT to_regclass(%s) AS one", table) is not None
    }
    version = found.get("unsay_layout")
    if version is not None and version > LAYOUT_VERSION:
        raise DatabaseTooNewError(
            f"{path!r} was written by a newer unsay (layout {version}, this one knows "
            f"{LAYOUT_VERSION}): upgrade unsay; the database is unchanged"
        )
    newest = (len(saver.MIGRATIONS) - 1, len(store.MIGRATIONS) - 1, LAYOUT_VERSION)
    versions = [found.get(table) for table in _VERSIONS]
    return all(
        has is not None and has >= wants for has, wants in zip(versions, newest, strict=True)
    )


@contextmanager
def _alone(connection: Any, path: str) -> Iterator[None]:
    """Hold the lock for making tables.

    It is asked for again and again: a statement that waited for it would itself be waited for
    by the other's `CREATE INDEX CONCURRENTLY`, for ever.
    """
    latest = time.monotonic() + SETUP_SECONDS
    while not _one(connection, "SELECT pg_try_advisory_lock(%s) AS one", SETUP_LOCK):
        if time.monotonic() > latest:
            raise DatabaseLockedError(
                f"Another process has been making tables in {path!r} for {SETUP_SECONDS:g} s: "
                "try again when it is done"
            )
        time.sleep(0.05)
    try:
        yield
    finally:
        connection.execute("SELECT pg_advisory_unlock(%s)", [SETUP_LOCK])


def _one(connection: Any, query: LiteralString, *values: Any) -> Any:
    return connection.execute(query, values).fetchone()["one"]
