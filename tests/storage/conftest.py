"""The backends that take the storage exam: memory, a file, and a Postgres server."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.postgres.conftest import machine  # noqa: F401 - the server, as a fixture
from unsay.storage.base import Database
from unsay.storage.sqlite import open_database

Opens = Callable[[], Database]
"""Opens the same database once more, as another process would."""

BACKENDS = ["memory", "file", pytest.param("postgres", marks=pytest.mark.full)]
SHARED = BACKENDS[1:]
"""Those that several processes can open."""


@pytest.fixture(params=BACKENDS)
def opens(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opens]:
    """Each backend; the one in memory is opened once, since it cannot be opened again."""
    databases: list[Database] = []
    with ExitStack() as stack:
        location = ":memory:" if request.param == "memory" else str(tmp_path / "t.db")
        if request.param == "postgres":
            location = stack.enter_context(request.getfixturevalue("machine").database())

        def opens_it() -> Database:
            if request.param != "memory" or not databases:
                databases.append(open_database(location))
            return databases[-1]

        yield opens_it
        for database in databases:
            database.close()


@pytest.fixture
def database(opens: Opens) -> Database:
    """An empty database."""
    return opens()
