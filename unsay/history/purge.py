"""Purging: a thread leaves the store, the checkpoints, and the bytes of the file."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from sqlite3 import Connection
from typing import Any

from langgraph.store.base import BaseStore, PutOp, SearchItem

from unsay.effects import Call, Steps
from unsay.errors import DatabaseLockedError
from unsay.history.recall_cache import MEMORIES
from unsay.history.threads import get_entry
from unsay.storage.base import OURS, THREADS, Database, Purged, translated
from unsay.storage.items import thread_namespace
from unsay.storage.pagination import scan
from unsay.storage.sqlite import FileDatabase

BATCH = 500
"""Items deleted, or namespaces listed, at once."""


def purge_thread(database: Database, thread_id: str) -> Steps[Purged]:
    """Remove a thread from a database, and its words from a file's bytes.

    What is stored goes first, its line in the catalogue last; a purge that was cut short can be
    made again, and the file is cleaned every time. Copies elsewhere, such as backups, are the
    operator's to clean, and so are the bytes that a Postgres server has not yet written over:
    see `PostgresDatabase.scrub`. The caller holds the thread's lock.

    Raises:
        StorageError: The file cannot be read or written.
        DatabaseLockedError: Another process kept the file from being cleaned.
    """
    MEMORIES.drop(database.store, thread_id)
    with translated(database.path):
        purged: Purged = yield _off_loop(lambda: _delete_thread(database, thread_id))
        yield scrubbing(database)
    return purged


def scrubbing(database: Database) -> Call:
    """A call that leaves in a file the bytes of what is stored in it, and no others.

    Of a Postgres server it promises less: see `PostgresDatabase.scrub`.

    It takes as long as writing the file anew.

    Raises:
        DatabaseLockedError: Another process reads the file.

    Source:
        SQLite, VACUUM and `PRAGMA wal_checkpoint`: what is deleted stays in free pages, in what
        pages in use have left over, and in the journal.
    """
    return _off_loop(lambda: _scrub(database))


def purge_store(store: BaseStore, thread_id: str) -> Steps[int]:
    """Remove a thread from any store, and say how many items it had there.

    The checkpoints are the checkpointer's to delete, and the bytes the server's to clean.
    """
    MEMORIES.drop(store, thread_id)
    doomed: list[tuple[tuple[str, ...], str]] = []
    for place in (yield from _places(store, thread_id)):
        doomed += yield from scan(store, place, partial(_id_in, place))
    line = yield get_entry(store, thread_id)
    if line is not None:
        doomed.append((THREADS, thread_id))
    for start in range(0, len(doomed), BATCH):
        yield _deleting(store, doomed[start : start + BATCH])
    return len(doomed)


def _places(store: BaseStore, thread_id: str) -> Steps[list[tuple[str, ...]]]:
    """Every namespace of ours that belongs to the thread, of whatever kind."""
    prefix = thread_namespace("*", thread_id)
    found: list[tuple[str, ...]] = []
    while page := (yield _listing(store, prefix, len(found))):
        found += page
    return [place for place in found if _is_of(place, thread_id)]


def _is_of(place: Sequence[str], thread_id: str) -> bool:
    """Whether a namespace is the thread's, compared as it is written: no pattern decides."""
    (_, _, quoted) = thread_namespace("*", thread_id)
    return len(place) > 2 and (place[0], place[2]) == (OURS, quoted)


def _id_in(place: tuple[str, ...], item: SearchItem) -> tuple[tuple[str, ...], str] | None:
    return (place, item.key) if tuple(item.namespace) == place else None


def _listing(store: BaseStore, prefix: tuple[str, ...], offset: int) -> Call:
    return Call(
        blocking=lambda: store.list_namespaces(prefix=prefix, limit=BATCH, offset=offset),
        awaitable=lambda: store.alist_namespaces(prefix=prefix, limit=BATCH, offset=offset),
    )


def _deleting(store: BaseStore, doomed: Sequence[tuple[tuple[str, ...], str]]) -> Call:
    puts = [PutOp(namespace=place, key=key, value=None) for place, key in doomed]
    return Call(blocking=lambda: store.batch(puts), awaitable=lambda: store.abatch(puts))


def _delete_thread(database: Database, thread_id: str) -> Purged:
    """Delete a thread's rows without reading their values: damaged ones go as well."""
    if not isinstance(database, FileDatabase):
        return database.erase(thread_id)
    with database.saver.cursor(transaction=False) as cursor:
        checkpoints, writes = cursor.execute(
            "SELECT (SELECT count(*) FROM checkpoints WHERE thread_id = ?1),"
            " (SELECT count(*) FROM writes WHERE thread_id = ?1)",
            (thread_id,),
        ).fetchone()
    database.saver.delete_thread(thread_id)
    with database.store.lock:
        items = _delete_items(database.store.conn, thread_id)
    return Purged(checkpoints=checkpoints, writes=writes, items=items)


def _delete_items(connection: Connection, thread_id: str) -> int:
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        rows = connection.execute(
            "SELECT DISTINCT prefix FROM store WHERE prefix GLOB ?", (f"{OURS}.*",)
        ).fetchall()
        places = [(place,) for (place,) in rows if _is_of(place.split("."), thread_id)]
        items = connection.executemany("DELETE FROM store WHERE prefix = ?", places).rowcount
        line = connection.execute(
            "DELETE FROM store WHERE prefix = ? AND key = ?", (".".join(THREADS), thread_id)
        )
        return max(items, 0) + line.rowcount


def _scrub(database: Database) -> None:
    if not isinstance(database, FileDatabase):
        database.scrub()
        return
    store = database.store
    with store.lock:
        store.conn.execute("VACUUM")
        busy, *_ = store.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        raise DatabaseLockedError(
            f"{database.path!r} was being read by another process: the thread is gone, but its "
            "bytes may lie in the journal still. Purge it again when the other is done"
        )


def _off_loop(work: Callable[[], Any]) -> Call:
    return Call(blocking=work, awaitable=lambda: asyncio.to_thread(work))
