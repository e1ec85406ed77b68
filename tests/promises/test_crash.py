import signal
import subprocess
from pathlib import Path

import pytest

from tests.children import run_child

pytestmark = pytest.mark.full

WHOLE = ["human: Pay 5.", "ai: ", "tool: paid", "ai: It is paid."]


def run(folder: Path, point: str, text: str) -> subprocess.CompletedProcess[str]:
    """A process that says a text and may be killed on the way."""
    return run_child("tests.promises.crash_child", str(folder), point, text)


@pytest.mark.parametrize(
    ("point", "second_text"),
    [
        pytest.param("model", "Pay 5.", id="before-the-model-and-said-again"),
        pytest.param("tool", "Pay 5.", id="in-the-tool-and-said-again"),
        pytest.param("answer", "Pay 5.", id="after-the-tool-and-said-again"),
        pytest.param("answer", "", id="after-the-tool-and-resumed"),
        pytest.param("judge", "", id="at-the-judge-and-resumed"),
    ],
)
def test_a_turn_survives_signal_9(tmp_path: Path, point: str, second_text: str) -> None:
    """Killed anywhere in a turn, the next process ends it: one question, one payment, one answer."""
    first_run = run(tmp_path, point, "Pay 5.")
    assert -signal.SIGKILL == first_run.returncode

    second_run = run(tmp_path, "nowhere", second_text)

    assert second_run.returncode == 0, second_run.stderr
    assert WHOLE == second_run.stdout.splitlines()
    assert (tmp_path / "paid.txt").read_text() == "5\n"


def test_another_question_after_signal_9_sets_the_first_aside(tmp_path: Path) -> None:
    """A question that was never answered does not stand before the next one."""
    run(tmp_path, "answer", "Pay 5.")

    after = run(tmp_path, "nowhere", "Pay 5 again, please.")

    assert after.returncode == 0, after.stderr
    assert after.stdout.splitlines()[0] == "human: Pay 5 again, please."
    assert len(after.stdout.splitlines()) == 4
