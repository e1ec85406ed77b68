"""The table of what one turn does: it only goes down."""

import importlib
import json
import platform
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
FIGURES = ("python_calls", "own_calls", "sql_statements", "write_commits", "journal_bytes")


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark as a module."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("counts")


@pytest.mark.parametrize("door", ["conversation", "conversation_tools", "graph", "graph_tools"])
def test_a_turn_does_no_more_than_the_table_says(counts: ModuleType, door: str) -> None:
    """No figure of a door is more than one percent over `benchmarks/counts.json`."""
    table = json.loads(counts.TABLE.read_text("utf-8"))
    measured_with = table["versions"]["python"].rpartition(".")[0]
    if platform.python_version().rpartition(".")[0] != measured_with:
        pytest.skip(f"the table was measured with Python {measured_with}")
    figures = counts.measured([door], 60)

    assert {f"{door}_{name}" for name in FIGURES} == figures.keys()
    assert [] == list(counts.problems(figures, table))


def test_a_figure_over_the_table_is_named(counts: ModuleType) -> None:
    """A figure two percent over its limit is a problem; half a percent is noise."""
    table = {"versions": counts.versions(), "figures": {"graph_sql_statements": 100.0}}

    assert [] == list(counts.problems({"graph_sql_statements": 100.5}, table))
    (problem,) = counts.problems({"graph_sql_statements": 102.0}, table)
    assert "graph_sql_statements is 102.0, and the table allows 100.0" in problem


def test_calls_of_other_versions_are_not_compared(counts: ModuleType) -> None:
    """With another LangGraph only the calls in our own code count."""
    figures = {"graph_python_calls": 100.0, "graph_own_calls": 50.0}
    table = {"versions": {}, "figures": figures}
    higher = {name: 2 * value for name, value in figures.items()}

    (problem,) = counts.problems(higher, table)
    assert problem.startswith("graph_own_calls")
