import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, Serve
from tests.cli.scripted_conversation import DRAFTS, LISTS, NESTED, SCORES
from unsay.cli.help_text import GROUPS
from unsay.cli.schemas import OBJECTS, model_of
from unsay.operations.command_table import COMMANDS

FILLED = ("--thread", "t")


@pytest.fixture
def thread(run: Run, serve: Serve) -> None:
    """Two turns, the second with a rejected draft, and a named checkpoint between them."""
    serve(DRAFTS, SCORES)
    run("say", LISTS, *FILLED)
    run("checkpoint", "first", *FILLED)
    run("pin", *FILLED)
    run("say", NESTED, *FILLED)


def fits(command: str, printed: str) -> None:
    """Each printed object is what the schema says, and nothing else."""
    model = model_of(command)
    assert model is not None
    rows = [json.loads(row) for row in printed.splitlines()]
    assert rows
    for row in rows:
        model.model_validate(row)


@pytest.mark.usefixtures("thread")
@pytest.mark.parametrize(
    ("schema", "given"),
    [
        ("say", ["say", LISTS, *FILLED]),
        ("retry", ["retry", *FILLED]),
        ("edit", ["edit", "1", LISTS, *FILLED]),
        ("threads", ["threads"]),
        ("threads", ["threads", "--status", "active"]),
        ("timeline", ["timeline", *FILLED]),
        ("timeline --context", ["timeline", "--context", "2", *FILLED]),
        ("tokens", ["tokens", *FILLED]),
        ("checkpoints", ["checkpoints", *FILLED]),
        ("checkpoint", ["checkpoint", "second", *FILLED]),
        ("task", ["task", "trip", *FILLED]),
        ("rollback", ["rollback", "--turns", "1", *FILLED]),
        ("rollback --preview", ["rollback", "--turns", "1", "--preview", *FILLED]),
        ("undo", ["undo", *FILLED]),
        ("remove", ["remove", "1", *FILLED]),
        ("fork", ["fork", *FILLED]),
        ("branches", ["branches", *FILLED]),
        ("diff", ["diff", "first", *FILLED]),
        ("pin", ["pin", *FILLED]),
        ("unpin", ["unpin", "--turn", "1", *FILLED]),
        ("forget", ["forget", "--turn", "1", *FILLED]),
        ("forgotten", ["forgotten", *FILLED]),
        ("recall", ["recall", "comprehension", *FILLED]),
        ("runs", ["runs", *FILLED]),
        ("runs", ["runs", "--all"]),
        ("events", ["events", *FILLED]),
        ("events --verify", ["events", "--verify", *FILLED]),
        ("replay", ["replay", *FILLED]),
        ("lessons", ["lessons", *FILLED]),
        ("lesson", ["lesson", "1", "Stay on the question.", *FILLED]),
        ("unlearn", ["unlearn", "1", *FILLED]),
        ("rate", ["rate", "1", "good", *FILLED]),
        ("judge", ["judge", "--turn", "1", *FILLED]),
        ("bisect", ["bisect", *FILLED]),
        ("label", ["label", "kind=test", *FILLED]),
        ("end", ["end", *FILLED]),
        ("purge", ["purge", "--yes", *FILLED]),
        ("demo", ["demo"]),
        ("doctor", ["doctor"]),
        ("settings", ["settings"]),
        ("completion", ["completion", "zsh"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_json_of_a_command_fits_its_schema(run: Run, schema: str, given: list[str]) -> None:
    """Every field is declared, and every declared field is there."""
    fits(schema, run(*given, "--json").stdout)


@pytest.mark.usefixtures("thread")
def test_steps_that_go_back_fit_their_schema(run: Run) -> None:
    """Redo, restore and pick need an undo or a rollback before them."""
    run("undo", *FILLED)
    fits("redo", run("redo", *FILLED, "--json").stdout)
    run("rollback", "--turns", "1", *FILLED)
    rows: dict[str, Any] = json.loads(run("branches", *FILLED, "--json").stdout)
    branch = next(each["id"] for each in rows["branches"] if each["kind"] == "person")
    ids = json.loads(run("diff", branch, *FILLED, "--json").stdout)["a"]["only"]
    picked = [each["data"]["id"] for each in ids]
    fits("pick", run("pick", *picked, "--from", branch, *FILLED, "--json").stdout)
    run("undo", *FILLED)
    fits("restore", run("restore", branch, *FILLED, "--json").stdout)


def test_a_chat_prints_events(run: Run, serve: Serve) -> None:
    """The first object names the thread; all others are events."""
    serve(DRAFTS, SCORES)
    printed = run("chat", "--json", input=f"{NESTED}\n/undo\n").stdout
    fits("chat", "\n".join(printed.splitlines()[1:]))


def test_every_command_has_a_schema_and_a_group(run: Run) -> None:
    """Only `schema` and `ratings` have none: they print a schema, and lines for `calibrate`."""
    names = [each.name for each in COMMANDS if each.module]
    assert ["ratings", "schema"] == [name for name in names if name not in OBJECTS]
    assert sorted(names) == sorted(name for _, group in GROUPS for name in group)
    assert "object" == json.loads(run("schema", "rollback --preview").stdout)["type"]
    assert 2 == run("schema", "nonsense").exit_code


def test_the_short_help(run: Run) -> None:
    """`unsay` alone lists a few commands, `--help` all of them in groups."""
    short, whole = run().stderr, run("--help").stdout
    assert "unsay doctor" in short
    assert "purge" not in short
    assert "Go back:\n" in whole
    assert all(f"\n  {each.name} " in whole for each in COMMANDS if each.module)


def test_the_doctor_of_a_good_place(run: Run, serve: Serve) -> None:
    """Nothing fails with a server, and nothing is created."""
    serve(DRAFTS)
    result = run("doctor")
    assert 0 == result.exit_code
    assert "does not exist yet; `unsay chat` creates it" in result.stdout


@pytest.mark.parametrize(
    ("name", "value", "check", "advice"),
    [
        ("UNSAY_MODEL", "", "model", "Set UNSAY_MODEL"),
        ("OPENAI_BASE_URL", "http://127.0.0.1:9/v1", "server", "is your server running?"),
        ("UNSAY_QUALITY_THRESHOLD", "2", "settings", "Correct the variable"),
        ("UNSAY_HOME", "/proc/none", "write", "set UNSAY_HOME to another folder"),
    ],
)
def test_the_doctor_says_what_to_do(
    run: Run,
    serve: Serve,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
    check: str,
    advice: str,
) -> None:
    """What cannot work is named with its remedy, and the exit code is 1."""
    serve(DRAFTS)
    monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
    result = run("doctor", "--json")
    failed = [each for each in json.loads(result.stdout)["checks"] if each["status"] == "failed"]
    assert 1 == result.exit_code
    assert [check] == [each["check"] for each in failed]
    assert advice in failed[0]["advice"]


def test_the_doctor_of_a_damaged_database(run: Run, serve: Serve, tmp_path: Path) -> None:
    """A file that is no database is named."""
    serve(DRAFTS)
    (tmp_path / "a.db").write_bytes(b"This is no database." * 500)
    result = run("doctor", "--db", str(tmp_path / "a.db"))
    assert 1 == result.exit_code
    assert "FAILED  database" in result.stdout


def test_a_list_of_nothing_opens_no_database(run: Run, home: Path) -> None:
    """`unsay threads` without a database creates none."""
    assert "There is no thread" in run("threads").stderr
    assert not home.exists()


def test_an_error_names_what_can_be_typed(
    run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a decision the command line names its option, the chat its words, neither a Python call."""
    monkeypatch.setenv("UNSAY_ON_EXHAUSTED", "ask")
    monkeypatch.setenv("UNSAY_MAX_ROLLBACKS", "0")
    serve(DRAFTS, SCORES)
    run("say", NESTED, *FILLED)
    assert "`unsay say --decide approve`" in run("undo", *FILLED).stderr
    assert "enter approve or reject" in run("chat", *FILLED, input="/retry\n").stderr
    monkeypatch.setenv("UNSAY_MAX_MESSAGE_CHARS", "10")
    assert "UNSAY_MAX_MESSAGE_CHARS" in run("say", LISTS).stderr
