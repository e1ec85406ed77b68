"""The compiled graph as the one writer of a thread on Postgres, over our saver and LangGraph's."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hosts import test_writers
from tests.hosts.test_many_runs import all_runs_end, tasks_of_the_host  # noqa: F401 - a fixture
from tests.hosts.test_writers import Starts, rounds_of_six, start  # noqa: F401 - a fixture

pytestmark = pytest.mark.full

KINDS = ["ours", "postgres"]
"""Our saver on the server, and LangGraph's `PostgresSaver` without a store."""


@pytest.fixture
def tmp_path(tmp_path: Path, url: str) -> Iterator[Path]:
    """A folder whose databases are on the server."""
    (tmp_path / "url").write_text(url)
    return tmp_path


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["invoke", "stream"])
def test_all_parallel_turns_land(tmp_path: Path, kind: str, form: str) -> None:
    """See `tests/hosts/test_writers.py`."""
    test_writers.test_all_parallel_turns_land(tmp_path, kind, form)


@pytest.mark.parametrize("kind", KINDS)
async def test_all_parallel_tasks_land(tmp_path: Path, kind: str) -> None:
    """See `tests/hosts/test_writers.py`."""
    await test_writers.test_all_parallel_tasks_land(tmp_path, kind)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", KINDS)
async def test_all_runs_that_begin_at_once_end(
    tmp_path: Path,
    kind: str,
    tasks_of_the_host: Callable[[], Any],  # noqa: F811
) -> None:
    """See `tests/hosts/test_many_runs.py`."""
    await all_runs_end(kind, tmp_path, tasks_of_the_host)


@pytest.mark.parametrize("kind", KINDS)
def test_a_refused_turn_costs_nothing(tmp_path: Path, kind: str) -> None:
    """See `tests/hosts/test_writers.py`."""
    test_writers.test_a_refused_turn_costs_nothing(tmp_path, kind)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_cancelled_run_frees_the_thread(tmp_path: Path, kind: str) -> None:
    """See `tests/hosts/test_writers.py`."""
    await test_writers.test_a_cancelled_run_frees_the_thread(tmp_path, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_twenty_rounds_of_six_writers(start: Starts, tmp_path: Path, kind: str) -> None:  # noqa: F811
    """See `tests/hosts/test_writers.py`."""
    rounds_of_six(start, tmp_path, kind, 20)


@pytest.mark.nightly
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("kind", KINDS)
def test_two_hundred_rounds_of_six_writers(start: Starts, tmp_path: Path, kind: str) -> None:  # noqa: F811
    """See `tests/hosts/test_writers.py`."""
    rounds_of_six(start, tmp_path, kind, 200)


@test_writers.linux
@pytest.mark.parametrize("form", ["invoke", "ainvoke"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_writer_keeps_nobody_out(
    start: Starts,  # noqa: F811
    tmp_path: Path,
    kind: str,
    form: str,
) -> None:
    """See `tests/hosts/test_writers.py`."""
    test_writers.test_a_killed_writer_keeps_nobody_out(start, tmp_path, kind, form)


@pytest.mark.parametrize("form", ["invoke", "ainvoke"])
def test_a_frozen_writer_commits_nothing(
    start: Starts,  # noqa: F811
    tmp_path: Path,
    form: str,
) -> None:
    """See `tests/hosts/test_writers.py`; over our saver a suspended process keeps its leases."""
    test_writers.test_a_frozen_writer_commits_nothing(start, tmp_path, "postgres", form)


@pytest.mark.parametrize(
    ("form", "wait_at"),
    [
        ("invoke", "question"),
        ("invoke", "answer"),
        ("ainvoke", "question's state"),
        ("ainvoke", "answer's state"),
    ],
)
def test_a_late_commit_takes_nothing_from_the_other(
    start: Starts,  # noqa: F811
    tmp_path: Path,
    form: str,
    wait_at: str,
) -> None:
    """See `tests/hosts/test_writers.py`."""
    test_writers.test_a_late_commit_takes_nothing_from_the_other(
        start, tmp_path, "postgres", form, wait_at
    )
