"""Connections on which a transaction happens whole or not at all."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from unsay.storage.sqlite import Connection, connect


@pytest.fixture(params=["", None], ids=["implicit", "autocommit"])
def connection(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Connection]:
    """A connection to a file with a table that keeps each number once."""
    connection = connect(str(tmp_path / "t.db"), busy_seconds=0.1, isolation_level=request.param)
    connection.execute("CREATE TABLE t (n INTEGER PRIMARY KEY)")
    yield connection
    connection.close()


def rows(path: Path) -> list[int]:
    """What is committed, as another connection sees it."""
    connection = sqlite3.connect(path)
    numbers = [n for (n,) in connection.execute("SELECT n FROM t ORDER BY n")]
    connection.close()
    return numbers


def test_a_statement_that_fails_takes_its_transaction_back(
    connection: Connection, tmp_path: Path
) -> None:
    """A commit that comes after a failure all the same, as LangGraph makes it, commits nothing."""
    if connection.isolation_level is None:
        connection.execute("BEGIN")
    cursor = connection.cursor()
    try:
        with pytest.raises(sqlite3.IntegrityError):
            cursor.executemany("INSERT INTO t VALUES (?)", [(1,), (2,), (1,)])
    finally:
        connection.execute("COMMIT")
        connection.commit()

    assert [] == rows(tmp_path / "t.db")
    connection.execute("INSERT INTO t VALUES (3)")
    connection.commit()
    assert [3] == rows(tmp_path / "t.db")


def test_what_succeeds_is_committed(connection: Connection, tmp_path: Path) -> None:
    """Nothing else changes."""
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO t VALUES (?)", [(1,), (2,)])
    connection.execute("COMMIT")

    assert [1, 2] == rows(tmp_path / "t.db")


def test_a_lock_is_waited_for_as_long_as_was_said(connection: Connection, tmp_path: Path) -> None:
    """The error has the waiting time, for the one that explains it."""
    other_connection = sqlite3.connect(tmp_path / "t.db", isolation_level=None)
    other_connection.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError, match="locked") as raises:
        connection.execute("INSERT INTO t VALUES (1)")
    other_connection.close()

    assert 0.1 == vars(raises.value)["busy_seconds"]
    assert not connection.in_transaction


def test_a_schema_is_not_trusted(connection: Connection) -> None:
    """Each connection keeps what a file brings with it from calling anything of note."""
    assert (0,) == connection.execute("PRAGMA trusted_schema").fetchone()
    assert (1,) == connection.execute("PRAGMA cell_size_check").fetchone()
