from pathlib import Path

import pytest

from tests.cli.conftest import Run, run_json
from tests.graph.kit import Numbered, scores
from unsay.conversation.conversation import Conversation


@pytest.fixture(autouse=True)
def database(home: Path) -> Path:
    """A conversation of three turns."""
    path = home / "unsay.db"
    with Conversation.open(path, thread="talk", model=Numbered(), judge=scores()) as conversation:
        for number in (1, 2, 3):
            conversation.say(f"Question {number} about lists?")
    return path


def test_pin_and_unpin(run: Run) -> None:
    """A turn is pinned and unpinned by its number, by default the last; both are reported."""
    assert "Question 3" in run("pin").stdout
    assert "Question 1" in run("pin", "--turn", "1").stdout
    assert 4 == len(run_json(run, "timeline")["pins"])
    assert [True, False, True] == [turn["pinned"] for turn in run_json(run, "timeline")["turns"]]
    assert "[pinned]" in run("timeline").stdout
    assert "Question 3" in run("unpin").stdout
    name = run_json(run, "timeline")["turns"][0]["message_id"]
    assert [name] != [pin["message_id"] for pin in run_json(run, "unpin", name)["pins"]]


def test_forget_and_restore(run: Run) -> None:
    """What is forgotten is listed with the id that brings it back."""
    output = run("forget", "--turn", "1-2", "--reason", "it was wrong").stdout
    (entry,) = run_json(run, "forgotten")["forgotten"]

    assert entry["id"] in output
    assert output == run("forgotten").stdout
    assert ["span", 4, "it was wrong"] == [
        entry["kind"],
        len(entry["message_ids"]),
        entry["reason"],
    ]
    assert 2 == run("timeline").stdout.count("[forgotten]")
    assert 0 == run("restore", entry["id"]).exit_code
    assert "Nothing has been forgotten." in run("forgotten").stdout


def test_undo_and_redo(run: Run) -> None:
    """A forgetting is the newest step."""
    run("forget", "--turn", "2")
    run("undo")
    assert [] == run_json(run, "forgotten")["forgotten"]
    run("redo")
    assert 1 == len(run_json(run, "forgotten")["forgotten"])


def test_a_message_a_span_and_a_topic(run: Run) -> None:
    """Messages are named by their ids, a topic by its label."""
    turns = run_json(run, "timeline")["turns"]
    (one,) = run_json(run, "forget", turns[0]["message_id"])["forgotten"]
    (span,) = run_json(run, "forget", turns[1]["question_id"], turns[2]["question_id"])["forgotten"]
    (topic,) = run_json(run, "forget", turns[0]["topic"])["forgotten"]

    assert ["message", "span", "topic"] == [entry["kind"] for entry in (one, span, topic)]
    assert 3 == len(span["message_ids"])


def test_results(run: Run) -> None:
    """Where no tool was called there is no result to forget."""
    assert "Nothing has been forgotten." in run("forget", "--results-below", "0.3").stdout


def test_events(run: Run) -> None:
    """The event log contains each, and still gives the transcript."""
    run("pin", "--turn", "1")
    run("forget", "--turn", "1")
    run("undo")
    run("unpin", "--turn", "1")

    assert {"pin", "forget", "remember", "unpin"} <= {
        event["type"] for event in run_json(run, "events")["events"]
    }
    for kind in ("pin", "forget", "remember", "unpin"):
        assert run("events", "--type", kind).stdout.strip()
    assert 0 == run("events", "--verify").exit_code


@pytest.mark.parametrize(
    ("command", "code"),
    [
        pytest.param(["forget", "nowhere"], 3, id="unknown"),
        pytest.param(["pin", "nowhere"], 3, id="no message"),
        pytest.param(["unpin", "nowhere"], 3, id="no pin"),
        pytest.param(["forget"], 2, id="nothing named"),
        pytest.param(["forget", "a", "--turn", "1"], 2, id="two things named"),
        pytest.param(["pin", "a", "--turn", "1"], 2, id="a message and a turn"),
        pytest.param(["forget", "--results-below", "2"], 2, id="no score"),
    ],
)
def test_what_cannot_be(run: Run, command: list[str], code: int) -> None:
    """An order that names nothing fails with one line and changes nothing."""
    result = run(*command)

    assert code == result.exit_code
    assert [] == run_json(run, "forgotten")["forgotten"]
