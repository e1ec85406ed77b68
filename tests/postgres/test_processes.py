"""Several processes behind one Postgres database: none keeps anything, and none may be missed."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.children import run_child
from tests.graph.kit import said
from tests.threads import recorded
from unsay.conversation.conversation import Conversation
from unsay.events.transcript_replay import replay
from unsay.storage.sqlite import open_database

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[2]
WHOLE = ["human: Pay 5.", "ai: ", "tool: paid", "ai: It is paid."]
THREADS = 50


def pay(folder: Path, url: str, where: str, text: str) -> subprocess.CompletedProcess[str]:
    """A process that says a text and may be killed on the way."""
    return run_child("tests.postgres.crash_child", str(folder), where, text, url)


@pytest.mark.parametrize(
    ("where", "again"),
    [
        pytest.param("model", "Pay 5.", id="before-the-model-and-said-again"),
        pytest.param("tool", "Pay 5.", id="in-the-tool-and-said-again"),
        pytest.param("answer", "", id="after-the-tool-and-resumed"),
        pytest.param("judge", "", id="at-the-judge-and-resumed"),
    ],
)
def test_a_turn_survives_signal_9(tmp_path: Path, url: str, where: str, again: str) -> None:
    """Killed anywhere in a turn, the next process ends it: one question, one payment, one answer."""
    killed = pay(tmp_path, url, where, "Pay 5.")
    assert killed.returncode == -signal.SIGKILL, killed.stderr

    resumed = pay(tmp_path, url, "nowhere", again)

    assert resumed.returncode == 0, resumed.stderr
    assert WHOLE == resumed.stdout.splitlines()
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
    both = Worker(url), Worker(url)
    yield both
    for each in both:
        each.process.communicate()


def test_two_processes_share_fifty_threads(url: str, workers: tuple[Worker, Worker]) -> None:
    """They answer alternate turns, then speak in all threads at once: every turn lands whole."""
    asked: dict[str, list[str]] = {f"t{number}": [] for number in range(THREADS)}
    for turn in range(4):
        for place, worker in enumerate(workers):
            mine = [t for number, t in enumerate(asked) if number % 2 == (turn + place) % 2]
            worker.ask([(thread, f"q{turn}") for thread in mine])
        assert [THREADS / 2] * 2 == [len(worker.answers()) for worker in workers]
        for texts in asked.values():
            texts.append(f"q{turn}")
    for name, worker in zip("ab", workers, strict=True):
        worker.ask([(thread, f"both {name}") for thread in asked])
    answers = {answer for worker in workers for answer in worker.answers()}
    assert {"This answers both a fully.", "This answers both b fully."} == answers

    database = open_database(url)
    for thread, texts in asked.items():
        conversation = Conversation.open(database, thread=thread)
        transcript = said(conversation.messages())
        questions = [line.removeprefix("human: ") for line in transcript[::2]]
        assert texts == questions[:4]
        assert {"both a", "both b"} == set(questions[4:])
        assert [f"ai: This answers {text} fully." for text in questions] == transcript[1::2]
        assert transcript == said(replay(recorded(conversation).events()).messages)
    database.close()
