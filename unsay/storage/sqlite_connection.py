"""Connections to a SQLite file that roll back at once when a statement fails."""

import sqlite3
from contextlib import suppress
from typing import Any, Self

from unsay.errors import InputError


def _roll_back(connection: sqlite3.Connection, error: sqlite3.Error) -> None:
    """Roll back after a failed statement, and note the connection's lock timeout on the error.

    The caller raises the error.
    """
    vars(error)["busy_seconds"] = getattr(connection, "busy_seconds", 0.0)
    if connection.in_transaction:
        with suppress(sqlite3.Error):
            connection.rollback()


class Cursor(sqlite3.Cursor):
    """A cursor that rolls its transaction back when a statement fails."""

    def execute(self, sql: str, parameters: Any = (), /) -> Self:
        """Run a statement; if that fails, roll back and raise the error. A needless `COMMIT` does nothing."""
        # LangGraph's store commits even after a failed statement, which was rolled back here already.
        if sql == "COMMIT" and not self.connection.in_transaction:
            return self
        try:
            return super().execute(sql, parameters)
        except sqlite3.Error as error:
            _roll_back(self.connection, error)
            raise

    def executemany(self, sql: str, parameters: Any, /) -> Self:
        """Run a statement for each set of parameters; if that fails, roll back and raise the error."""
        try:
            return super().executemany(sql, parameters)
        except sqlite3.Error as error:
            _roll_back(self.connection, error)
            raise


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
        try:
            super().commit()
        except sqlite3.Error as error:
            _roll_back(self, error)
            raise


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
