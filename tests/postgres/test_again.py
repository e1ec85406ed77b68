"""Tests of conversations that were written for a file, made again on a Postgres server.

Every test of the modules below is collected here once more, but for those that look into the
file itself. What they open at a path is a database of the server instead.
"""

import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.graph import (
    kit,
    test_back_and_forth,
    test_branches,
    test_conversation,
    test_ended_threads,
    test_ledger_of_the_graph,
    test_restoring,
    test_runs_of_the_graph,
    test_tools,
)
from tests.graph.conftest import opened as opening
from tests.postgres.conftest import Machine
from unsay.conversation import factory as opened
from unsay.conversation import registry
from unsay.storage.base import Database
from unsay.storage.sqlite import open_database

pytestmark = pytest.mark.full

MODULES: tuple[ModuleType, ...] = (
    test_back_and_forth,
    test_branches,
    test_conversation,
    test_ended_threads,
    test_ledger_of_the_graph,
    test_restoring,
    test_runs_of_the_graph,
    test_tools,
)
OF_FILES = frozenset(
    {
        "test_a_killed_run_stays_running_until_it_goes_on",
        "test_a_crash_between_page_and_commit",
        "test_a_damaged_value_is_a_clear_error",
        "test_a_locked_file_is_a_clear_error_and_loses_nothing",
        "test_a_stream_that_is_left_early_is_a_canceled_run",
    }
)
"""They write into the file by another way, start processes that open it, or take 30 s."""


@pytest.fixture
def databases(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Any], Database]]:
    """Opens a database of the server for every path, the same for the same path."""
    urls: dict[str, str] = {}
    every: list[Database] = []
    lent = ExitStack()

    def opens(path: Any) -> Database:
        place = os.fspath(path)
        name = place if place != ":memory:" else f":memory:{len(urls)}"
        if name not in urls:
            urls[name] = lent.enter_context(machine.database())
        every.append(open_database(urls[name]))
        return every[-1]

    for module in (opened, registry, *MODULES):
        if hasattr(module, "open_database"):
            monkeypatch.setattr(module, "open_database", opens)
    yield opens
    for database in every:
        database.close()
    lent.close()


@pytest.fixture(autouse=True)
def _on_the_server(
    databases: Callable[[Any], Database], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Graphs that a test would keep in memory are kept in a database as well."""
    made: list[Database] = []

    def saver() -> Any:
        made.append(databases(tmp_path / f"graph-{len(made)}"))
        return made[-1].saver

    monkeypatch.setattr(kit, "InMemorySaver", saver)
    monkeypatch.setattr(kit, "InMemoryStore", lambda: made[-1].store)


def again(module: ModuleType) -> dict[str, Any]:
    """A module's tests and fixtures, under names of their own."""
    fixtures = {name: each for name, each in vars(module).items() if _is_fixture(each)}
    tests = {
        f"{name}__on_postgres": each
        for name, each in vars(module).items()
        if name.startswith("test_") and callable(each) and name not in OF_FILES
    }
    return {**fixtures, **tests}


def is_given(value: Any, *names: str) -> bool:
    """Whether it is a fixture, or a test that asks for one of these."""
    return _is_fixture(value) or not {*names}.isdisjoint(inspect.signature(value).parameters)


def _is_fixture(value: Any) -> bool:
    return type(value).__name__ == "FixtureFunctionDefinition"


for _module in MODULES:
    globals().update(again(_module))
globals()["opened"] = opening  # several modules have one; this does what each of them does
