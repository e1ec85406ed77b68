import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.children import Child as ChildProcess
from tests.reading import handle_of, replayed, said
from tests.threads import registry_of
from unsay.cli.main import cli
from unsay.conversation.conversation import Conversation
from unsay.conversation.timeline import timeline as timeline_steps
from unsay.effects import drive
from unsay.errors import ThreadBusyError
from unsay.storage.sqlite import open_database
from unsay.testing import ScriptedChat, ScriptedJudge

CHILD = "tests.promises.writer_child"
FORMS = pytest.mark.parametrize("form", ["blocking", "awaited"])
Starts = Callable[..., "Child"]


class Child:
    """Another process that takes turns."""

    def __init__(self, folder: Path, arguments: dict[str, Any]) -> None:
        self._reached = folder / f"{arguments['name']}.reached"
        self.process = ChildProcess(CHILD, str(folder), json.dumps(arguments))

    def until_it_asks_its_model(self) -> None:
        """Wait until it is in the middle of its turn."""
        while not self._reached.exists():
            assert self.process.is_running, self.process.wait().stderr
            time.sleep(0.01)

    def told(self) -> list[list[str]]:
        """What became of each of its turns, once it has ended."""
        exit_code = self.process.wait()
        assert exit_code.returncode == 0, exit_code.stderr
        return [json.loads(line) for line in exit_code.stdout.splitlines()]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starts]:
    """Starts processes over one file; none outlives the test."""
    open_database(tmp_path / "talk.db").close()
    children: list[Child] = []

    def starts(name: str, **arguments: Any) -> Child:
        defaults = {"turns": 1, "seconds": 0, "form": "blocking", "settings": {}}
        children.append(Child(tmp_path, {"name": name, **defaults, **arguments}))
        return children[-1]

    yield starts
    for child in children:
        child.process.kill()
        child.process.wait()


def open_here(folder: Path, **settings: Any) -> Conversation:
    """The same thread, in this process."""
    model = ScriptedChat(script=lambda messages: f"This answers {messages[-1].text}")
    return Conversation.open(
        folder / "talk.db", thread="t", model=model, judge=ScriptedJudge(), settings=settings
    )


def checked_questions(folder: Path) -> list[str]:
    """The questions of a transcript in which every turn is whole and in the event log as it is."""
    with open_here(folder) as conversation:
        transcript = conversation.messages()
        events = registry_of(conversation).events()
    assert transcript == replayed(events).messages
    questions = [message.text for message in transcript[::2]]
    answers = [
        line
        for question in questions
        for line in (f"human: {question}", f"ai: This answers {question}")
    ]
    assert answers == said(transcript)
    return questions


def kept_beside(folder: Path, question: str) -> list[str]:
    """Return all messages of the event log of a thread whose last turn is whole."""
    with open_here(folder) as conversation:
        transcript = conversation.messages()
        log = replayed(conversation)
    assert transcript == log.messages
    assert [question, "ai"] == [transcript[-2].text, transcript[-1].type]
    return [
        message.text for messages in (transcript, *log.branches.values()) for message in messages
    ]


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("writers", [2, 3, pytest.param(6, marks=pytest.mark.full)])
def test_every_turn_of_every_writer_lands(start: Starts, tmp_path: Path, writers: int) -> None:
    """They wait for each other: nothing is lost, doubled, or mixed with another's."""
    forms = ["blocking", "awaited"] * 3
    names = "abcdef"[:writers]
    children = [start(name, turns=15, form=form) for name, form in zip(names, forms, strict=False)]
    reported_children = [outcome for child in children for outcome in child.told()]
    questions = checked_questions(tmp_path)

    assert [
        [f"{name}-{n}", f"This answers {name}-{n}"] for name in names for n in range(15)
    ] == reported_children
    assert sorted(question for question, _ in reported_children) == sorted(questions)
    for name in names:
        assert [f"{name}-{n}" for n in range(15)] == [q for q in questions if q.startswith(name)]


def test_a_turn_lands_whole_or_is_refused(start: Starts, tmp_path: Path) -> None:
    """A caller that does not wait gets an error, and nothing of the refused turn is stored."""
    forms = ["blocking", "awaited", "blocking"]
    settings = {"thread_wait_seconds": 0}
    children = [
        start(name, turns=15, seconds=0.01, form=form, settings=settings)
        for name, form in zip("abc", forms, strict=True)
    ]
    reported_children = [outcome for child in children for outcome in child.told()]
    stored_questions = [question for question, outcome in reported_children if outcome != "busy"]

    assert len(reported_children) == 45
    assert sorted(stored_questions) == sorted(checked_questions(tmp_path))


@FORMS
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of other processes")
def test_a_killed_writer_keeps_nobody_out(start: Starts, tmp_path: Path, form: str) -> None:
    """Its lease is taken over before its time is over; the repeated turn continues."""
    child = start("a", seconds=60, form=form, lease=600)
    child.until_it_asks_its_model()
    child.process.kill()
    with open_here(tmp_path, thread_wait_seconds=10) as conversation:
        conversation.say("a-0")

    assert ["a-0"] == checked_questions(tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of other processes")
def test_what_a_killed_writer_asked_is_kept(start: Starts, tmp_path: Path) -> None:
    """Another question may be asked at once, and the one that was never answered is not lost."""
    child = start("a", seconds=60, lease=600)
    child.until_it_asks_its_model()
    child.process.kill()
    with open_here(tmp_path, thread_wait_seconds=10) as conversation:
        conversation.say("Something else")

    assert "a-0" in kept_beside(tmp_path, "Something else")


@FORMS
def test_a_frozen_writer_overwrites_nothing(start: Starts, tmp_path: Path, form: str) -> None:
    """Waking up after its time, it learns that it came too late; its question is kept."""
    child = start("a", seconds=1, form=form, lease=0.5)
    child.until_it_asks_its_model()
    os.kill(child.process.pid, signal.SIGSTOP)
    with open_here(tmp_path) as conversation:
        conversation.say("Meanwhile")
    os.kill(child.process.pid, signal.SIGCONT)
    outcomes = child.told()
    branches_kept = kept_beside(tmp_path, "Meanwhile")

    assert [["a-0", "busy"]] == outcomes
    assert "a-0" in branches_kept
    assert "This answers a-0" not in branches_kept


@pytest.mark.full
@FORMS
def test_a_slow_model_does_not_cost_the_thread(start: Starts, tmp_path: Path, form: str) -> None:
    """A turn may take many times the lease's time, and a waiting caller comes after it."""
    child = start("a", seconds=2, form=form, lease=0.5)
    child.until_it_asks_its_model()
    with open_here(tmp_path) as conversation:
        conversation.say("Meanwhile")

    assert [["a-0", "This answers a-0"]] == child.told()
    assert ["a-0", "Meanwhile"] == checked_questions(tmp_path)


def test_reading_waits_for_nobody(start: Starts, tmp_path: Path) -> None:
    """While another process runs a turn, the transcript can be read in both."""
    with open_here(tmp_path, thread_wait_seconds=0) as conversation:
        conversation.say("Before")
        child = start("a", seconds=60)
        child.until_it_asks_its_model()
        reader = handle_of(conversation)
        timeline = drive(reader.reading(timeline_steps))
        with pytest.raises(ThreadBusyError):
            conversation.say("Now")

        assert "Before" == timeline.turns[0].question


def test_the_command_line_says_that_a_thread_is_busy(
    start: Starts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A conflict's exit code, and who has the thread."""
    child = start("a", seconds=60)
    child.until_it_asks_its_model()
    for name, value in {"MODEL": "m", "THREAD_WAIT_SECONDS": "0"}.items():
        monkeypatch.setenv(f"UNSAY_{name}", value)
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    monkeypatch.chdir(tmp_path)
    state = CliRunner().invoke(cli, ["say", "--db", "talk.db", "--thread", "t", "Hello"])

    assert 4 == state.exit_code, state.output
    assert f"is running in process {child.process.pid}" in state.stderr
