"""`unsay recall` finds earlier messages about some words."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run, run_json
from unsay.conversation.conversation import Conversation
from unsay.testing import ScriptedChat, ScriptedJudge

FACT = "Our parrot is called Biscuit."
OTHERS = ("Tell me about bread.", "Tell me about tides.")


@pytest.fixture
def thread(home: Path) -> str:
    """A conversation of three turns."""
    model = ScriptedChat(default="That is something to talk about at length.")
    with Conversation.open(
        home / "unsay.db", thread="pets", model=model, judge=ScriptedJudge()
    ) as conversation:
        for text in (FACT, *OTHERS):
            conversation.say(text)
    return "pets"


def test_what_was_found_is_printed(run: Run, thread: str) -> None:
    """Each message has a line with its turn, who said it, its words and why it was found."""
    result = run("recall", "the", "parrot", "--thread", thread)
    (line,) = [line for line in result.stdout.splitlines() if "Biscuit" in line]
    assert (0, "") == (result.exit_code, result.stderr)
    assert "1. user: “Our parrot is called Biscuit.”" in line
    assert "parrot" in line.rpartition("”")[2]


def test_what_was_found_for_programs(run: Run, thread: str) -> None:
    """Programs get the message's id, turn, speaker, text, and the reason with its words."""
    first = run_json(run, "recall", "parrot", "--thread", thread)["recalled"][0]
    assert first.pop("message_id")
    assert {
        "turn": 1,
        "speaker": "user",
        "text": FACT,
        "why": "words",
        "words": ["parrot"],
    } == first


def test_words_that_nobody_said(run: Run, thread: str) -> None:
    """Finding nothing is not an error: people get a message, programs an empty list."""
    result = run("recall", "zeppelin", "--thread", thread)
    assert (0, "No message matches “zeppelin”.") == (
        result.exit_code,
        result.stdout.strip(),
    )
    assert [] == run_json(run, "recall", "zeppelin", "--thread", thread)["recalled"]


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        pytest.param(("recall", "parrot", "--thread", "nowhere"), "'nowhere'", id="thread"),
        pytest.param(("recall", " ", "--thread", "pets"), "query is empty", id="words"),
        pytest.param(("recall",), "Missing argument", id="nothing"),
    ],
)
def test_what_cannot_be_looked_for(
    run: Run, thread: str, command: tuple[str, ...], problem: str
) -> None:
    """A thread that there is not, and no words, are errors on standard error."""
    del thread
    result = run(*command)
    assert 0 != result.exit_code
    assert problem in result.stderr
    assert "" == result.stdout


def test_json_of_an_error(run: Run, thread: str) -> None:
    """Nothing is printed that a program might take for what was found."""
    del thread
    result = run("recall", "parrot", "--thread", "nowhere", "--json")
    assert 0 != result.exit_code
    assert not result.stdout or "recalled" not in json.loads(result.stdout)
