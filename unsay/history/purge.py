"""Purging: a thread leaves the store, the checkpoints, and the bytes of the file."""

from unsay.effects import Steps, off_loop
from unsay.history.recall_cache import MEMORIES
from unsay.storage.base import Database, Purged


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
    purged: Purged = yield off_loop(lambda: database.erase(thread_id))
    yield off_loop(database.scrub)
    return purged
