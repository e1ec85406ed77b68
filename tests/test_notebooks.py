"""The notebooks run as they are published, without a key."""

import re
import runpy
from pathlib import Path
from typing import Any

import nbformat
import pytest

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
MACHINE = re.compile(
    r"(?<![\w<.])/(?:home|root|tmp|usr|var|Users)/|\b0x[0-9a-f]{6,}|\b20\d\d-\d\d-\d\d"
)

SHOWN = {
    "01_first_conversation": ("Score of each turn", "Thread first"),
    "02_contexts_and_budgets": (
        "middle: ",
        "recalled: 5-",
        "pinned: 3-4",
        "forgotten: 1-2",
        "decision - ",
    ),
    "03_embedding": (
        "rejected with 0.1: You should buy a car.",
        "Undone: seat 4A.",
        "Back after turn 1 - bookings: []",
        "取り消した処理: seat 7C。",
        "Score of each turn",
    ),
    "04_judge_and_rollback": (
        "0.90  0.85  0.80  0.90         6            4",
        "0.60  low_quality  Two days.",
        "frf",
        "removed 1 turn (It does not answer.)",
        "removed 2 messages: Kyoto is in Japan.",
        "2ターン、4件のメッセージ",
        "4 turns, as before the rollback",
        "Score of each turn",
    ),
    "05_strategies": (
        "53 turns",
        "Null: at most 7,2",
        "ThreeStage: at most 2,9",
        "SlidingWindow: at most 1,482 tokens, 5% cached",
        "Null: 8 of 8 at the end",
        "ThreeStage: 8 of 8 at the end",
        "SlidingWindow: 0 of 8 at the end",
        "trim_messages: 0 of 8 at the end",
        "with recall",
    ),
    "06_retrieval": (
        "searched for: capital Australia",
        "kept in the transcript: Whisk three eggs",
        "sent to the model: [The result of this search",
        "informed: True",
        "checkpoints earned: 0",
    ),
}
"""What each shows, in words or in a picture."""


def read_notebook(path: Path) -> Any:
    """A notebook as it is in the repository."""
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def results(notebook: Any) -> str:
    """The text and the pictures that the cells of a notebook show; an error is no result."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert [] == [output for output in outputs if output.output_type == "error"]
    pictures = [output.data.get("image/svg+xml", "") for output in outputs if "data" in output]
    return "\n".join([*pictures, *(output.get("text", "") for output in outputs)])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_published_with_results(path: Path) -> None:
    """A notebook is stored valid and with what a run from top to bottom shows."""
    notebook = read_notebook(path)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert list(range(1, len(code) + 1)) == [cell.execution_count for cell in code]
    output = results(notebook)
    assert [] == [text for text in SHOWN[path.stem] if text not in output]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_published_without_traces_of_a_machine(path: Path) -> None:
    """No stored result has a folder, an address in memory, a date or the time of a run."""
    notebook = read_notebook(path)
    outputs = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]

    assert [] == MACHINE.findall(str(outputs))
    assert [{}] * len(notebook.cells) == [cell.metadata for cell in notebook.cells]
    assert {"name": "python"} == notebook.metadata.language_info


@pytest.mark.full
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs(path: Path) -> None:
    """Every cell runs without an error, and shows what the notebook is about."""
    run = runpy.run_path(str(FOLDER.parent / "docs" / "run_notebooks.py"))["run"]
    output = results(run(path))
    assert [] == [text for text in SHOWN[path.stem] if text not in output]


def test_there_are_notebooks() -> None:
    """The checks above have something to check."""
    assert list(SHOWN) == [path.stem for path in NOTEBOOKS]
