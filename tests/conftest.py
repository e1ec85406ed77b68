"""The three tiers of tests, and an environment that the person who runs them cannot reach.

`pytest` runs the default tier. `pytest -m "(full or hypothesis) and not nightly"` runs the full tier:
kills, servers, Postgres, and 60 examples for every property. `pytest -m "nightly or hypothesis"` takes hours: 3,000
examples, and kills at hundreds of instants.
"""

import gc
import os
from collections.abc import Awaitable, Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from langgraph.store.memory import InMemoryStore

from tests.log.shadow import Shadow, watching
from unsay.effects import adrive, drive
from unsay.storage.sqlite import Connection, open_database

Do = Callable[[Any], Awaitable[Any]]

FOREIGN = ("UNSAY_", "OPENAI_", "LANGSMITH_", "LANGCHAIN_")
EXAMPLES = {"default": 8, "full": 60, "nightly": 3000}

for _tier, _examples in EXAMPLES.items():
    settings.register_profile(
        _tier,
        derandomize=_tier != "nightly",
        max_examples=_examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose how many examples a property gets, by the tier that was asked for."""
    marks = str(config.option.markexpr)
    if "not full" in marks:
        settings.load_profile("default")
    elif "nightly" in marks and "not nightly" not in marks:
        settings.load_profile("nightly")
    else:
        settings.load_profile("full")


def pytest_xdist_auto_num_workers() -> int:
    """Run one worker more than there are cores: tests wait for files, servers and processes."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_finish() -> None:
    """Spare the garbage collector the tests and the imported modules, which stay to the end."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pycollect_makeitem() -> Generator[None, Any, Any]:
    """Move all but one of `every` cases of a long table into the full tier.

    The mark `sample` says of how many one stays; without it, this grows with the table. With two parameters
    the cases that stay are on a diagonal, so that each value of both is among them.
    """
    items = yield
    if isinstance(items, list):
        _move_to_full([item for item in items if isinstance(item, pytest.Function)])
    return items


def _move_to_full(items: list[pytest.Function]) -> None:
    cases = [item for item in items if not any(map(item.get_closest_marker, ("full", "nightly")))]
    for number, item in enumerate(cases):
        sample = item.get_closest_marker("sample")
        every = min(4, 1 + len(cases) // 4) if sample is None else sample.kwargs["every"]
        if (number + number // every) % every:
            item.add_marker(pytest.mark.full)


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting, key or home of the person who runs the tests reaches them."""
    for name in os.environ:
        if name.upper().startswith(FOREIGN):
            monkeypatch.delenv(name)
    monkeypatch.setenv("UNSAY_HOME", str(tmp_path))


@pytest.fixture(autouse=True)
def shadow() -> Iterator[Shadow]:
    """Each thread has a log of changes beside its storage, and both agree after every update.

    Only the default tier fails otherwise: long random sequences of the others still find differences.
    """
    with watching() as watched:
        yield watched
    assert watched.differences == [] or settings().max_examples > EXAMPLES["default"]


@pytest.fixture
def closes_databases(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close every connection that the test leaves open; Python 3.13 warns of each."""
    connections: list[Connection] = []
    plain = Connection.__init__

    def opens(self: Connection, *args: Any, **options: Any) -> None:
        plain(self, *args, **options)
        connections.append(self)

    monkeypatch.setattr(Connection, "__init__", opens)
    yield
    for connection in connections:
        connection.close()


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
