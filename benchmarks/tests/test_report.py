"""Intervals of the benchmarks: grouped by conversation, for shares, means and files."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmarks' common module."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("report")


def width(figure: object) -> float:
    """How wide a figure's interval is."""
    low, high = figure.interval  # type: ignore[attr-defined]
    return float(high - low)


def test_answers_of_one_conversation_count_less(report: ModuleType) -> None:
    """40 hits of 80 are surer in 80 conversations than in 4 that are wholly good or bad."""
    apart = [(str(number), number % 2 == 0) for number in range(80)]
    together = [(str(number // 20), number // 20 % 2 == 0) for number in range(80)]
    one = [("1", number % 2 == 0) for number in range(80)]

    figures = [report.share_in(results) for results in (apart, together, one)]

    assert [(0.5, 80)] * 3 == [(figure.value, figure.items) for figure in figures]
    assert width(figures[0]) == pytest.approx(width(report.share_of(40, 80)), rel=0.02)
    assert 0.6 < width(figures[1]) <= width(figures[2])
    assert report.share_in([]).interval is None


def test_no_hit_at_all_is_as_sure_as_its_conversations(report: ModuleType) -> None:
    """Without variation each conversation counts once."""
    none = [(str(number // 10), False) for number in range(100)]

    assert report.share_in(none).interval == report.share_of(0, 10).interval


def test_a_mean_of_shares_has_an_interval(report: ModuleType) -> None:
    """Each kind counts the same, however many items it has."""
    long_file = [(str(number), True) for number in range(40)]
    few = [(str(number), number % 2 == 0) for number in range(10)]

    figures = report.mean_of([long_file, few])

    assert (0.75, 50) == (figures.value, figures.items)
    low, high = figures.interval
    assert 0.5 < low < 0.75 < high < 1


def test_the_mean_over_files_has_an_interval(report: ModuleType) -> None:
    """Two files of the same width give one that is narrower by the root of two."""
    file = {"share": report.Figure(value=0.5, items=10, interval=(0.4, 0.7))}

    figures = report.overall([file, file])["share"]

    assert (0.5, 20) == (figures.value, figures.items)
    assert (
        pytest.approx(0.5 - 0.1 / 2**0.5),
        pytest.approx(0.5 + 0.2 / 2**0.5),
    ) == figures.interval
    bare = {"share": report.Figure(value=0.5, items=10)}
    assert report.overall([file, bare])["share"].interval is None


@pytest.mark.parametrize("name", ["judging", "topics", "retention", "tokens"])
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"", "; --help has the format", id="empty"),
        pytest.param(b"[1]\n", "line 1: a value has another type", id="no-object"),
        pytest.param(b"{\n", "line 1: ", id="no-json"),
        pytest.param(b'{"id": "a"}\n', "is missing", id="no-turns"),
        pytest.param(b'{"id": "\xe9"}\n', "is not UTF-8", id="not-utf-8"),
    ],
)
def test_a_file_without_figures_is_refused(
    report: ModuleType,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: bytes,
    problem: str,
) -> None:
    """It ends with status 2 and one line that says what is wrong, also with `--json`."""
    file = tmp_path / "a.jsonl"
    file.write_bytes(content)

    status = importlib.import_module(name).main([str(file), "--json"])

    output = capsys.readouterr()
    assert (2, "", 1) == (status, output.out, len(output.err.splitlines()))
    assert problem in output.err
