"""Connections to a SQLite file that commit nothing of what failed."""

import sqlite3
from contextlib import suppress
from typing import Any, Self


class Cursor(sqlite3.Cursor):
    """A cursor whose statements, when one fails, take back all that their transaction did."""

    def execute(self, sql: str, parameters: Any = (), /) -> Self:
        """See `sqlite3.Cursor.execute`; to commit what was taken back changes nothing."""
        if sql == "COMMIT" and not self.connection.in_transaction:
            return self
        try:
            return super().execute(sql, parameters)
        except sqlite3.Error as error:
            take_back(self.connection, error)
            raise

    def executemany(self, sql: str, parameters: Any, /) -> Self:
        """See `sqlite3.Cursor.executemany`."""
        try:
            return super().executemany(sql, parameters)
        except sqlite3.Error as error:
            take_back(self.connection, error)
            raise


class Connection(sqlite3.Connection):
    """A connection that commits nothing of what failed.

    LangGraph's saver and store end what they began with a commit, also where one of its statements
    failed: half of a step's writes would be stored, and the step be taken for done.

    Source:
        SQLite, "Transaction", response to errors: after a full disk, a lock or a broken read an
        application is to roll back by itself.
    """

    busy_seconds: float = 0.0
    """How long it waits for another process's lock."""

    def cursor(self, factory: Any = Cursor) -> Any:
        """See `sqlite3.Connection.cursor`."""
        return super().cursor(factory)

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        """See `sqlite3.Connection.execute`."""
        return self.cursor().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Any, /) -> Any:
        """See `sqlite3.Connection.executemany`."""
        return self.cursor().executemany(sql, parameters)

    def commit(self) -> None:
        """See `sqlite3.Connection.commit`."""
        try:
            super().commit()
        except sqlite3.Error as error:
            take_back(self, error)
            raise


def connect(path: str, *, busy_seconds: float, isolation_level: str | None = "") -> Connection:
    """A connection that any thread may use, one at a time.

    Args:
        path: Of the file, or `:memory:`.
        busy_seconds: How long to wait for another process's lock.
        isolation_level: See `sqlite3.connect`; `None` is autocommit.

    Source:
        SQLite, "Defense Against The Dark Arts": for files that others may have written to.
    """
    connection = sqlite3.connect(
        path,
        timeout=busy_seconds,
        check_same_thread=False,
        isolation_level=isolation_level,  # type: ignore[arg-type]
        factory=Connection,
    )
    connection.busy_seconds = busy_seconds
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute("PRAGMA cell_size_check=ON")
    return connection


def take_back(connection: sqlite3.Connection, error: sqlite3.Error) -> None:
    """Roll back the transaction of a failed statement, and note in its error how long it waited."""
    vars(error)["busy_seconds"] = getattr(connection, "busy_seconds", 0.0)
    if connection.in_transaction:
        with suppress(sqlite3.Error):
            connection.rollback()
