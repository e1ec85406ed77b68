"""Stores, and ways to run steps, that several unit tests go through."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore

from unsay.effects import adrive, drive
from unsay.storage.sqlite import open_database

Do = Callable[[Any], Awaitable[Any]]


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Each of the stores, empty."""
    if request.param == "memory":
        yield InMemoryStore()
        return
    database = open_database(tmp_path / "t.db")
    yield database.store
    database.close()


@pytest.fixture(params=["blocking", "awaited"])
def do(request: pytest.FixtureRequest) -> Do:
    """Runs steps, in each of the two ways."""

    async def run(steps: Any) -> Any:
        return drive(steps) if request.param == "blocking" else await adrive(steps)

    return run
