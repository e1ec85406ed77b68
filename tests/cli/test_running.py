import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.scripted_conversation import ANSWERS, LISTS, NESTED
from unsay.conversation.conversation import Conversation
from unsay.effects import drive
from unsay.history.runs import open_run
from unsay.storage.pages import event_log_namespace
from unsay.storage.sqlite import open_database
from unsay.testing import ScriptedChat, ScriptedJudge

BROKEN = "What breaks?"


@pytest.fixture
def database(home: Path) -> Path:
    """`talk`, of which one turn was taken back and one failed, and a Japanese thread."""
    path = home / "unsay.db"
    model = ScriptedChat(replies={**ANSWERS, BROKEN: []}, default="良い回答です。")
    with Conversation.open(path, thread="old", model=model, judge=ScriptedJudge()) as conversation:
        conversation.say("リスト内包表記とは何ですか?")
    with Conversation.open(path, thread="talk", model=model, judge=ScriptedJudge()) as conversation:
        conversation.say(LISTS)
        conversation.say(NESTED)
        conversation.undo()
        with pytest.raises(AssertionError):
            conversation.say(BROKEN)
    return path


def runs_of(run: Run, *arguments: str) -> list[tuple[str, str]]:
    """Thread and status of each run that is listed."""
    page = json.loads(run("runs", "--json", *arguments).stdout)
    return [(run_entry["thread_id"], run_entry["status"]) for run_entry in page["runs"]]


def test_runs(run: Run, database: Path) -> None:
    """Each has a line with its question, also when it was taken back, and its error below."""
    del database
    result = run("runs")
    title, *lines = result.stdout.splitlines()
    assert "thread talk\n" == result.stderr
    column = title.index("question")
    assert [LISTS, NESTED, BROKEN] == [line[column:] for line in lines[:3]]
    assert ["completed", "completed", "failed"] == [line.split()[1] for line in lines[:3]]
    assert lines[3].startswith("    AssertionError: ")
    assert 4 == len(lines)


def test_runs_json(run: Run, database: Path) -> None:
    """Programs get each run whole."""
    del database
    page = json.loads(run("runs", "--thread", "talk", "--json").stdout)
    assert (2, "talk", None) == (page["schema_version"], page["thread_id"], page["cursor"])
    keys = {"run_id", "turn_id", "status", "phase", "started_at", "ended_at", "error", "labels"}
    assert keys <= page["runs"][0].keys()


def test_runs_of_all_threads(run: Run, database: Path) -> None:
    """With --all each line ends in its thread."""
    del database
    _, *lines = run("runs", "--all", "--status", "completed").stdout.splitlines()
    assert ["old", "talk", "talk"] == [line.split()[-1] for line in lines]


@pytest.mark.sample(every=2)
@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        pytest.param(["--status", "failed"], [("talk", "failed")], id="status"),
        pytest.param(
            ["--all", "--status", "failed", "--status", "completed"],
            [("old", "completed"), *[("talk", "completed")] * 2, ("talk", "failed")],
            id="one of several",
        ),
        pytest.param(["--phase", "planning"], [], id="phase"),
        pytest.param(["--label", "a=b"], [], id="label"),
        pytest.param(["--until", "2001-01-01T00:00:00Z"], [], id="until"),
        pytest.param(["--since", "2001-01-01T00:00:00Z", "--limit", "1"], [("talk", "completed")]),
    ],
)
def test_runs_are_found(
    run: Run, database: Path, filters: list[str], expected: list[tuple[str, str]]
) -> None:
    """Filters narrow the list, and the run opened first comes first."""
    del database
    assert expected == runs_of(run, *filters)


def test_pages_fit_together(run: Run, database: Path) -> None:
    """The cursor of a shorter list leads to the rest."""
    del database
    cursor = json.loads(run("runs", "--json", "--limit", "2").stdout)["cursor"]
    assert [("talk", "failed")] == runs_of(run, "--cursor", cursor)
    assert f"--cursor {cursor}" in run("runs", "--limit", "2").stderr


def test_no_run_fits(run: Run, database: Path) -> None:
    """An empty list is reported, and is not an error."""
    del database
    result = run("runs", "--thread", "talk", "--status", "paused")
    assert (0, "", "No run matches.\n") == (result.exit_code, result.stdout, result.stderr)


def test_a_damaged_event_log_hides_no_run(run: Run, database: Path) -> None:
    """The questions stand in the event log; without it the runs are listed all the same."""
    sqlite_database = open_database(database)
    for item in sqlite_database.store.search(event_log_namespace("talk")):
        sqlite_database.store.delete(event_log_namespace("talk"), item.key)
    sqlite_database.close()
    result = run("runs", "--thread", "talk")
    assert (0, 5) == (result.exit_code, len(result.stdout.splitlines()))  # with the header
    assert LISTS not in result.stdout


def test_a_run_that_nothing_came_of(run: Run, database: Path) -> None:
    """It is listed with what it is at, also where a crash left its thread without a transcript."""
    sqlite_database = open_database(database)
    moment = "2026-01-31T09:00:00+00:00"
    drive(open_run(sqlite_database.store, "lost", "run-1", now=moment))
    sqlite_database.close()
    _, line = run("runs", "--thread", "lost").stdout.splitlines()
    assert ["run-1", "running", "prompted", "2026-01-31", "09:00:00", "–"] == line.split()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param(["--thread", "nowhere"], 3, id="unknown thread"),
        pytest.param(["--thread", "talk", "--all"], 2, id="one or all"),
        pytest.param(["--status", "asleep"], 2, id="no such status"),
        pytest.param(["--since", "yesterday"], 2, id="no moment"),
    ],
)
def test_bad_usage(run: Run, database: Path, arguments: list[str], code: int) -> None:
    """What cannot be listed says why."""
    del database
    result = run("runs", *arguments)
    assert (code, "") == (result.exit_code, result.stdout)


def test_no_database(run: Run, home: Path) -> None:
    """All runs of a fresh machine are none, and looking does not make a file."""
    assert [] == runs_of(run, "--all")
    assert 3 == run("runs").exit_code
    assert not home.exists()
