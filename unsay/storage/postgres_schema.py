"""The tables in a Postgres database: creating them, deleting a thread, queries, JSON, error texts."""

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, LiteralString

from unsay.errors import (
    ConfigurationError,
    DatabaseCorruptError,
    DatabaseLockedError,
    StorageError,
    ThreadBusyError,
    UnsayError,
)
from unsay.storage.base import LAYOUT_VERSION, OURS, THREADS, Purged, check_layout
from unsay.storage.items import quoted

# Advisory lock held while tables are made; it spells `unsy`.
SETUP_LOCK = 0x756E7379
SETUP_SECONDS = 30.0

VACUUM: LiteralString = "VACUUM checkpoints, checkpoint_blobs, checkpoint_writes, store"

_VERSIONS: dict[LiteralString, LiteralString] = {
    "checkpoint_migrations": "SELECT max(v) AS one FROM checkpoint_migrations",
    "store_migrations": "SELECT max(v) AS one FROM store_migrations",
    "unsay_layout": "SELECT max(version) AS one FROM unsay_layout",
}
_TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
_DELETE_ITEMS: LiteralString = (
    "DELETE FROM store WHERE split_part(prefix, '.', 1) = %s AND split_part(prefix, '.', 3) = %s "
    "OR prefix = %s AND key = %s"
)
# A column of each state that is read.
GREATEST_ID: LiteralString = (
    "(SELECT max(checkpoint_id) FROM checkpoints other WHERE other.thread_id = checkpoints.thread_id "
    "AND other.checkpoint_ns = checkpoints.checkpoint_ns) AS greatest_id"
)
TRY_LOCK: LiteralString = (
    "SELECT key, pg_backend_pid() AS pid, pg_try_advisory_lock(key) AS got "
    "FROM (SELECT hashtextextended(%s, 0) AS key) AS name"
)
UNLOCK: LiteralString = "SELECT pg_advisory_unlock(%s) WHERE pg_backend_pid() = %s"
# The session timeout is off: the connection of the leases may be idle for a whole turn.
KEEP_ALIVE: LiteralString = (
    "SELECT set_config(name, wanted, false) FROM pg_settings JOIN (VALUES"
    " ('tcp_keepalives_idle', %s), ('tcp_keepalives_interval', %s), ('tcp_keepalives_count', %s),"
    " ('idle_session_timeout', '0')) AS ours (name, wanted) USING (name)"
)

# Divides by zero, and so ends its transaction, unless a lease is still held. Source: PostgreSQL,
# pg_locks: a bigint key's high half is the class, its low half the object.
GUARD: LiteralString = (
    "SELECT 1 / count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = %s "
    "AND objsubid = 1 AND classid = %s AND objid = %s "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


def prepare(connection: Any, path: str, saver: Any, store: Any) -> None:
    """Create the tables if they are missing, once, even if several processes start together.

    If they exist, nothing is written, and the user needs no right to create tables. The connection
    must be in autocommit mode and return rows as dicts.

    Raises:
        ConfigurationError: The encoding is not UTF-8.
        DatabaseTooNewError: A newer version of unsay made the tables.
        DatabaseTooOldError: An older version made them, with another layout.
        DatabaseLockedError: Another process creates them for longer than `SETUP_SECONDS`.
    """
    encoding = _one(connection, "SELECT current_setting('server_encoding') AS one")
    if encoding != "UTF8":
        raise ConfigurationError(
            f"{path!r} has the encoding {encoding}: use one made with CREATE DATABASE … ENCODING 'UTF8'"
        )
    if _is_current(connection, path, saver, store):
        return
    # The version comes last: after a crash in between, the next process makes the tables again.
    with _alone(connection, path):
        saver.setup()
        store.setup()
        connection.execute("CREATE TABLE IF NOT EXISTS unsay_layout (version integer PRIMARY KEY)")
        connection.execute(
            "INSERT INTO unsay_layout VALUES (%s) ON CONFLICT DO NOTHING", [LAYOUT_VERSION]
        )


def erase(connection: Any, thread_id: str) -> Purged:
    """Delete all rows of a thread and return their number; the caller has opened a transaction."""
    deleted = {
        table: connection.execute(f"DELETE FROM {table} WHERE thread_id = %s", [thread_id])  # noqa: S608 - a constant
        for table in _TABLES
    }
    items = connection.execute(
        _DELETE_ITEMS, [OURS, quoted(thread_id), ".".join(THREADS), thread_id]
    )
    return Purged(
        checkpoints=deleted["checkpoints"].rowcount,
        writes=deleted["checkpoint_writes"].rowcount,
        items=items.rowcount,
    )


def _is_current(connection: Any, path: str, saver: Any, store: Any) -> bool:
    """Return whether nothing is to be created; `False` if a table is missing or must be migrated.

    LangGraph migrates its own older tables. Another layout of unsay raises `DatabaseTooNewError` or
    `DatabaseTooOldError`.
    """
    version_of = {
        table: _one(connection, query)
        for table, query in _VERSIONS.items()
        if _one(connection, "SELECT to_regclass(%s) AS one", table) is not None
    }
    version = version_of.get("unsay_layout")
    if version is not None:
        check_layout(path, version)
    newest = (len(saver.MIGRATIONS) - 1, len(store.MIGRATIONS) - 1, LAYOUT_VERSION)
    versions = [version_of.get(table) for table in _VERSIONS]
    return all(
        has is not None and has >= wants for has, wants in zip(versions, newest, strict=True)
    )


@contextmanager
def _alone(connection: Any, path: str) -> Iterator[None]:
    """Return a context manager that holds the lock for creating tables.

    Raises `DatabaseLockedError` if another process holds it for longer than `SETUP_SECONDS`.
    """
    # Polled: a statement that waits for the lock is an open transaction, and `CREATE INDEX
    # CONCURRENTLY` in the process that holds the lock would wait for it, which is a deadlock.
    latest = time.monotonic() + SETUP_SECONDS
    while not _one(connection, "SELECT pg_try_advisory_lock(%s) AS one", SETUP_LOCK):
        if time.monotonic() > latest:
            raise DatabaseLockedError(
                f"Another process has been creating tables in {path!r} for {SETUP_SECONDS:g} s: "
                "try again when it is done"
            )
        time.sleep(0.05)
    try:
        yield
    finally:
        connection.execute("SELECT pg_advisory_unlock(%s)", [SETUP_LOCK])


def _one(connection: Any, query: LiteralString, *values: Any) -> Any:
    return connection.execute(query, values).fetchone()["one"]


# Comes before the four hexadecimal digits of a character that `jsonb` refuses; a noncharacter. Source: Unicode
# 16, chapter 23.7, noncharacters.
ESCAPE = "\ufdd0"
_UNSTORABLE = re.compile(
    r"\\ud[89ab]..\\ud[c-f]..|\\u(0000|d[89a-f]..|fdd0)|\\.", re.IGNORECASE | re.DOTALL
)


def to_json(value: Any) -> str:
    r"""Return a value as JSON that `jsonb` accepts; `from_json` restores it.

    Raises `TypeError` for a value that is not plain JSON.

    Source:
        PostgreSQL, chapter 8.14: `\u0000` and lone surrogates are refused.
    """
    text = json.dumps(value)
    if "\\u" not in text:
        return text
    return _UNSTORABLE.sub(lambda at: rf"\ufdd0{at[1]}" if at[1] else at[0], text)


def from_json(data: str | bytes) -> Any:
    """Return the value of JSON made by `to_json`."""
    text = data if isinstance(data, str) else bytes(data).decode()
    if ESCAPE in text:
        text = re.sub(f"{ESCAPE}(....)", r"\\u\1", text)
    return json.loads(text)


KEPT = "What was committed is stored: repeat the last message to continue"

# Next step by error code. Source: PostgreSQL, appendix A, error codes.
ADVICE: dict[str, tuple[type[StorageError], str]] = {
    "25006": (StorageError, "it is a standby; give the URL of the primary server"),
    "42501": (StorageError, "ask the owner of the tables to GRANT this user access"),
    "42P01": (StorageError, "its tables are missing; restore a backup, or open the database again"),
    "53100": (StorageError, "free disk space on the server"),
    "53300": (StorageError, "raise the server's max_connections, or open fewer connections"),
    "55P03": (DatabaseLockedError, "try again when the other process is done"),
    "57014": (DatabaseLockedError, "try again, or raise statement_timeout"),
    "40P01": (DatabaseLockedError, "try again"),
    "XX001": (DatabaseCorruptError, "restore a backup"),
    "XX002": (DatabaseCorruptError, "ask the server's operator to REINDEX it"),
}
# Next step by a part of the English message: a refused connection has no error code.
REFUSALS = {
    "authentication failed": "check the user and the password",
    "no password supplied": "give the password in the URL, PGPASSWORD or ~/.pgpass",
    'role "': "check the user, or CREATE ROLE it",
    'database "': "check the name, or CREATE DATABASE it with ENCODING 'UTF8'",
    "clients already": "raise the server's max_connections, or open fewer connections",
    "starting up": "try again in a moment",
    "pg_hba.conf": "ask the server's operator to allow this user from this machine",
}


def is_broken(code: str) -> bool:
    """Return whether an error code means that the connection ended."""
    # Class 08, 57P01 to 57P05, and the timeouts of class 25. Source: PostgreSQL, appendix A.
    return re.fullmatch(r"08...|57P0[1-5]|25P0[34]", code) is not None


def unreadable(path: str) -> ConfigurationError:
    """Return the error for a URL that libpq cannot parse; its text hides the password.

    The caller raises it.
    """
    return ConfigurationError(
        f"{path!r} is not the URL of a Postgres database: check its parameters, and write % in a "
        "password as %25"
    )


def refusal(words: str, path: str) -> StorageError:
    """Return the error for a connection that failed; `words` is libpq's message.

    The caller raises it.
    """
    reason = " ".join(words.split())
    other = "check that the server runs, and that host and port are right"
    advice = next((advice for part, advice in REFUSALS.items() if part in reason), other)
    return StorageError(f"{path!r} cannot be opened ({reason}): {advice}")


def meaning(words: str, code: str | None, path: str, *, lost: bool) -> UnsayError:
    """Return the error of unsay for one of Postgres, whose text is `words`; the caller raises it.

    It is `ThreadBusyError` for a lost lease; otherwise `StorageError`, or of that the subclass
    `DatabaseLockedError` or `DatabaseCorruptError`. `code` is the SQLSTATE, `None` if the server
    sent none; `lost` says that the connection ended.
    """
    if code == "22012":  # division by zero, which only `GUARD` does
        return ThreadBusyError(
            f"The connection to {path!r} that held the lease of this thread was lost, and another "
            f"process may be writing to the thread. The rest of this turn was not stored. {KEPT}"
        )
    reason = " ".join(words.split())
    if lost:
        return StorageError(f"The connection to {path!r} was lost ({reason}). {KEPT}")
    kind, advice = ADVICE.get(code or "", (StorageError, ""))
    return kind(f"{path!r} could not be read or written ({reason})" + (advice and f": {advice}"))
