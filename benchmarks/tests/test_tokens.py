"""The benchmark of token counts: the files that it reads, its figures, its command line."""

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest
from langchain_core.messages import AIMessage, HumanMessage

pytestmark = pytest.mark.full

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SAID = ["How far is the moon?", "About 384,000 kilometres.", "And the sun?", "Much farther."]


@pytest.fixture
def tokens(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark as a module, with vocabularies that have a token for four characters."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    module = importlib.import_module("tokens")
    quarters = {"o200k": lambda text: -(-len(text) // 4), "cl100k": lambda text: -(-len(text) // 3)}
    monkeypatch.setattr(module, "real", lambda: quarters)
    return module


def write_rows(folder: Path, name: str, *rows: object) -> Path:
    """A file of a JSON value a line."""
    path = folder / name
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "row"),
    [
        pytest.param(
            "a.jsonl",
            {
                "utts": [
                    {"role": role, "text": text}
                    for role, text in zip(["user", "assistant"] * 2, SAID, strict=True)
                ]
            },
            id="utterances",
        ),
        pytest.param(
            "a.jsonl",
            {
                "turns": [
                    {"id": str(index), "speaker": "AB"[index % 2], "text": text}
                    for index, text in enumerate(SAID)
                ]
            },
            id="speakers",
        ),
        pytest.param(
            "a.jsonl",
            {
                "messages": [
                    {"role": role, "content": text}
                    for role, text in zip(["user", "assistant"] * 2, SAID, strict=True)
                ]
            },
            id="messages",
        ),
        pytest.param(
            "a.json",
            [
                {"role": role, "content": text}
                for role, text in zip(["user", "assistant"] * 2, SAID, strict=True)
            ],
            id="a list of messages",
        ),
    ],
)
def test_a_file_of_conversations_is_read(
    tokens: ModuleType, tmp_path: Path, name: str, row: object
) -> None:
    """Every shared format gives the same messages."""
    (messages,) = tokens.conversations(write_rows(tmp_path, name, row))

    assert [HumanMessage, AIMessage, HumanMessage, AIMessage] == [type(m) for m in messages]
    assert [m.text for m in messages] == SAID


def test_a_text_is_read_in_pieces(tokens: ModuleType, tmp_path: Path) -> None:
    """Any other file is one text, and a long one several."""
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"a": "b" * 5_000}), encoding="utf-8")

    pieces = [message.text for (message,) in tokens.conversations(path)]
    assert path.read_text(encoding="utf-8") == "".join(pieces)
    assert len(pieces) == 2


def test_figures_rest_on_the_conversations(tokens: ModuleType, tmp_path: Path) -> None:
    """Every figure says how many conversations it rests on; the worst is at least the mean."""
    rows = [{"messages": [{"role": "user", "content": text}] * 4} for text in SAID]
    figures = tokens.measure(write_rows(tmp_path, "a.jsonl", *rows))

    assert {4} == {figure.items for figure in figures.values()}
    assert figures["mean_error"] == figures["mean_error_o200k"]
    worst = max(figures["worst_over"].value, figures["worst_under"].value)
    assert 0 < figures["mean_error"].value <= worst
    assert figures["calibrated_error_cl100k"].value < figures["default_error_cl100k"].value
    assert figures["calibrated_error_cl100k"].value <= figures["ratio_error_cl100k"].value + 0.01


def test_the_command_prints_one_object(
    tokens: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --json there is one object, with all figures and each file's own."""
    path = write_rows(
        tmp_path, "a.jsonl", {"messages": [{"role": "user", "content": "Hello!"}] * 4}
    )

    assert tokens.main([str(path), "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert {"value", "items"} == set(output["mean_error"])
    assert [str(path)] == list(output["files"])


def test_an_unreadable_line_is_named(
    tokens: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unreadable entry is reported with its file and line."""
    path = write_rows(tmp_path, "a.jsonl", {"messages": []}, {"said": []})

    assert tokens.main([str(path)]) == 2
    assert f"{path}, line 2" in capsys.readouterr().err
