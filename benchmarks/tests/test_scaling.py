"""The benchmark of what a database and its processes bear: its figures and its command line."""

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.full

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
OF_SERVERS = {"server_cpu_ms_per_turn", "transactions_per_turn", "connections_per_process"}


@pytest.fixture
def scaling(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark as a module."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    module = importlib.import_module("scaling")
    monkeypatch.setattr(module, "SETTLE_SECONDS", 0.0)
    return module


@pytest.mark.full
def test_a_file_has_all_figures_but_a_servers(
    scaling: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two processes' turns are counted together; what only a server has is no number."""
    few = ["--threads", "1", "--turns", "2", "--messages", "2000"]
    assert scaling.main(["--processes", "2", *few, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert {"2": figures.pop("files")["2"]} == {"2": figures}
    assert OF_SERVERS == {
        name for name, figure_entry in figures.items() if figure_entry["value"] is None
    }
    own_figures = {
        name: figure_entry for name, figure_entry in figures.items() if name not in OF_SERVERS
    }
    assert all(figure_entry["value"] > 0 for figure_entry in own_figures.values())
    assert 4 == figures["turns_per_second"]["items"]


def test_what_cannot_be_measured_is_refused(
    scaling: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fewer turns than threads are refused with a clear word."""
    with pytest.raises(SystemExit):
        scaling.main(["--threads", "3", "--turns", "2"])
    assert "a turn or more for each thread" in capsys.readouterr().err


def test_people_get_a_column_for_each_number_of_processes(scaling: ModuleType) -> None:
    """A figure without a value is a dash."""
    figure = scaling.Figure(value=1500.0, items=4)
    nothing = scaling.Figure(value=None, items=4)
    table = scaling.table({1: {"bytes_per_turn": figure}, 2: {"bytes_per_turn": nothing}})
    assert ["processes", "1", "2"] == table.splitlines()[0].split()
    assert ["bytes_per_turn", "1,500.00", "(4)", "-"] == table.splitlines()[1].split()
