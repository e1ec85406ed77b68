"""The benchmark of what a conversation costs: its traffic, its figures, its command line."""

import importlib
import json
from pathlib import Path
from statistics import mean
from types import ModuleType

import pytest

pytestmark = pytest.mark.full

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

FIGURES = {
    "disk_over_raw",
    "cpu_ms_per_turn",
    "cpu_ms_last_over_first",
    "wall_ms_per_turn",
    "rollback_ms",
    "rollback_kb",
    "undo_ms",
    "undo_kb",
    "open_ms",
    "messages_ms",
    "peak_mb",
    "commits_per_turn",
    "raw_bytes",
    "file_bytes",
}


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark as a module."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("storage")


@pytest.fixture
def traffic(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The made-up conversations as a module."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("traffic")


@pytest.mark.full
def test_figures_carry_their_items(storage: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """With `--json` there is one object, its figures with their items, and the same by length."""
    assert storage.main(["--turns", "20", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    by_length = figures.pop("files")
    assert {"20": figures} == by_length
    assert figures.keys() >= FIGURES
    assert all(figure["items"] > 0 for figure in figures.values())
    ratio = figures["file_bytes"]["value"] / figures["raw_bytes"]["value"]
    assert pytest.approx(ratio, abs=0.001) == figures["disk_over_raw"]["value"]


@pytest.mark.full
def test_memory_has_no_file(storage: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """In memory there are no figures about a file, and people get a line for each of the others."""
    assert storage.main(["--turns", "20", "--database", "memory"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    names = {row.split()[0] for row in rows}
    assert ["turns", "20"] == head.split()
    assert {"cpu_ms_per_turn", "rollback_ms", "peak_mb"} <= names
    assert not {"disk_over_raw", "rollback_kb", "open_ms", "file_bytes"} & names


def test_a_conversation_that_is_too_short_is_refused(
    storage: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """A conversation that is too short to be gone back in is refused."""
    with pytest.raises(SystemExit):
        storage.main(["--turns", "19"])
    assert "--turns 19: give 20 or more" in capsys.readouterr().err


def test_a_figure_that_is_missing_is_a_dash(storage: ModuleType) -> None:
    """A conversation without a figure that another one has shows a dash."""
    figure = storage.Figure(value=1.5, items=2)
    results = {20: storage.Measured(figures={"open_ms": figure}), 30: storage.Measured(figures={})}
    assert ["open_ms", "1.50", "(2)", "-"] == storage.table(results).splitlines()[1].split()


def test_conversation_is_the_same_every_time(traffic: ModuleType) -> None:
    """Two conversations of one seed are one conversation, and a shorter one is its beginning."""
    longer = list(traffic.Speech().exchanges(60))
    assert list(traffic.Speech().exchanges(40)) == longer[:40]


def test_conversation_is_as_described(traffic: ModuleType) -> None:
    """Questions and answers have their length, one answer in 40 fails first, none comes again."""
    exchanges = list(traffic.Speech().exchanges(80))
    answers = [exchange.drafts[-1] for exchange in exchanges]
    assert pytest.approx(300, abs=8) == mean(len(exchange.question) for exchange in exchanges)
    assert pytest.approx(700, abs=8) == mean(map(len, answers))
    assert [20, 60] == [n for n, exchange in enumerate(exchanges, 1) if len(exchange.drafts) > 1]
    assert len(set(answers)) == len(answers)
