"""Several processes behind one Postgres database: none keeps anything, and none may be missed."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.children import run_child
from tests.reading import replayed, said
from unsay.conversation.conversation import Conversation
from unsay.storage.sqlite import open_database

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[2]
WHOLE = ["human: Pay 5.", "ai: ", "tool: paid", "ai: It is paid."]
THREADS = 50


def pay(folder: Path, url: str, point: str, text: str) -> subprocess.CompletedProcess[str]:
    """A process that says a text and may be killed on the way."""
    return run_child("tests.postgres.crash_child", str(folder), point, text, url)


@pytest.mark.parametrize(
    ("point", "second_text"),
    [
        pytest.param("model", "Pay 5.", id="before-the-model-and-said-again"),
        pytest.param("tool", "Pay 5.", id="in-the-tool-and-said-again"),
        pytest.param("answer", "", id="after-the-tool-and-resumed"),
        pytest.param("judge", "", id="at-the-judge-and-resumed"),
    ],
)
def test_a_turn_survives_signal_9(tmp_path: Path, url: str, point: str, second_text: str) -> None:
    """Killed anywhere in a turn, the next process ends it: one question, one payment, one answer."""
    killed_process = pay(tmp_path, url, point, "Pay 5.")
    assert killed_process.returncode == -signal.SIGKILL, killed_process.stderr

    resumed_process = pay(tmp_path, url, "nowhere", second_text)

    assert resumed_process.returncode == 0, resumed_process.stderr
    assert WHOLE == resumed_process.stdout.splitlines()
    assert "5\n" == (tmp_path / "paid.txt").read_text()


class Worker:
    """A process that takes turns."""

    def __init__(self, url: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.postgres.turns_child", url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def ask(self, turns: list[tuple[str, str]]) -> None:
        """Begin some turns."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(turns) + "\n")
        self.process.stdin.flush()

    def answers(self) -> list[str]:
        """The answers of the turns that were begun."""
        assert self.process.stdout is not None
        answers: list[str] = json.loads(self.process.stdout.readline())
        return answers


@pytest.fixture
def workers(url: str) -> Iterator[tuple[Worker, Worker]]:
    """Two of them."""
    pair = Worker(url), Worker(url)
    yield pair
    for worker in pair:
        worker.process.communicate()


def test_two_processes_share_fifty_threads(url: str, workers: tuple[Worker, Worker]) -> None:
    """They answer alternate turns, then speak in all threads at once: every turn lands whole."""
    texts_by_thread: dict[str, list[str]] = {f"t{number}": [] for number in range(THREADS)}
    for turn in range(4):
        for worker_number, worker in enumerate(workers):
            mine = [
                t
                for number, t in enumerate(texts_by_thread)
                if number % 2 == (turn + worker_number) % 2
            ]
            worker.ask([(thread, f"q{turn}") for thread in mine])
        assert [THREADS / 2] * 2 == [len(worker.answers()) for worker in workers]
        for texts in texts_by_thread.values():
            texts.append(f"q{turn}")
    for name, worker in zip("ab", workers, strict=True):
        worker.ask([(thread, f"both {name}") for thread in texts_by_thread])
    answers = {answer for worker in workers for answer in worker.answers()}
    assert {"This answers both a fully.", "This answers both b fully."} == answers

    database = open_database(url)
    for thread, texts in texts_by_thread.items():
        conversation = Conversation.open(database, thread=thread)
        transcript = said(conversation.messages())
        questions = [line.removeprefix("human: ") for line in transcript[::2]]
        assert texts == questions[:4]
        assert {"both a", "both b"} == set(questions[4:])
        assert [f"ai: This answers {text} fully." for text in questions] == transcript[1::2]
        assert transcript == said(replayed(conversation).messages)
    database.close()
