import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, Serve
from tests.cli.scripted_conversation import DRAFTS, LISTS, NESTED, SCORES
from unsay.cli.main import GROUPS
from unsay.cli.schemas import OBJECTS, model_of
from unsay.orders.orders import COMMANDS

FILLED = ("--thread", "t")
WEATHER = "Something else: what is the weather in Kyoto today?"


@pytest.fixture
def thread(run: Run, serve: Serve) -> None:
    """Two turns, the second with a rejected draft, and a named checkpoint between them."""
    serve({WEATHER: "I cannot see the weather from here.", **DRAFTS}, SCORES)
    run("say", LISTS, *FILLED)
    run("checkpoint", "first", *FILLED)
    run("pin", *FILLED)
    run("say", NESTED, *FILLED)


def fits(command: str, output: str) -> None:
    """Each printed object is what the schema says, and nothing else."""
    model = model_of(command)
    assert model is not None
    try:
        rows = [json.loads(output)]  # one object, maybe on several lines
    except json.JSONDecodeError:
        rows = [json.loads(row) for row in output.splitlines()]
    assert rows
    for row in rows:
        model.model_validate(row)


def _branch(run: Run) -> str:
    """Roll back one turn; the branch with its messages."""
    run("rollback", "--turns", "1", *FILLED)
    rows: dict[str, Any] = json.loads(run("branches", *FILLED, "--json").stdout)
    return str(next(branch["id"] for branch in rows["branches"] if branch["kind"] == "person"))


def _redo(run: Run) -> list[str]:
    run("undo", *FILLED)
    return ["redo", *FILLED]


def _restore(run: Run) -> list[str]:
    return ["restore", _branch(run), *FILLED]


def _pick(run: Run) -> list[str]:
    branch = _branch(run)
    ids = json.loads(run("diff", branch, *FILLED, "--json").stdout)["a"]["only"]
    return ["pick", *[message["data"]["id"] for message in ids], "--from", branch, *FILLED]


def _same(run: Run) -> list[str]:
    run("say", WEATHER, *FILLED)
    return ["same", *FILLED]


def _ratings(run: Run) -> list[str]:
    run("rate", "1", "good", *FILLED)
    run("rate", "2", "bad", "--reason", "It is wrong.", *FILLED)
    return ["ratings", *FILLED]


def _import(run: Run) -> list[str]:
    Path("rated.jsonl").write_text(run(*_ratings(run)).stdout, encoding="utf-8")
    return ["ratings", "--import", "rated.jsonl", *FILLED]


def _calibrate(run: Run) -> list[str]:
    output = run(*_ratings(run)).stdout
    Path("rated.jsonl").write_text(output * 4, encoding="utf-8")
    return ["calibrate", "rated.jsonl"]


CASES: dict[str, list[list[str] | Callable[[Run], list[str]]]] = {
    "say": [["say", LISTS, *FILLED]],
    "retry": [["retry", *FILLED]],
    "edit": [["edit", "1", LISTS, *FILLED]],
    "compact": [["compact", *FILLED]],
    "threads": [["threads"], ["threads", "--status", "active"]],
    "timeline": [["timeline", *FILLED]],
    "timeline --context": [["timeline", "--context", "2", *FILLED]],
    "tokens": [["tokens", *FILLED]],
    "checkpoints": [["checkpoints", *FILLED]],
    "checkpoint": [["checkpoint", "second", *FILLED]],
    "task": [["task", "trip", *FILLED]],
    "rollback": [["rollback", "--turns", "1", *FILLED]],
    "rollback --preview": [["rollback", "--turns", "1", "--preview", *FILLED]],
    "undo": [["undo", *FILLED]],
    "redo": [_redo],
    "remove": [["remove", "1", *FILLED]],
    "restore": [_restore],
    "pick": [_pick],
    "fork": [["fork", *FILLED]],
    "branches": [["branches", *FILLED]],
    "diff": [["diff", "first", *FILLED]],
    "pin": [["pin", *FILLED]],
    "unpin": [["unpin", "--turn", "1", *FILLED]],
    "forget": [["forget", "--turn", "1", *FILLED]],
    "forgotten": [["forgotten", *FILLED]],
    "recall": [["recall", "comprehension", *FILLED]],
    "runs": [["runs", *FILLED], ["runs", "--all"]],
    "events": [["events", *FILLED]],
    "events --verify": [["events", "--verify", *FILLED]],
    "replay": [["replay", *FILLED]],
    "replay --payload": [["replay", "--payload", *FILLED]],
    "same": [_same],
    "lessons": [["lessons", *FILLED]],
    "lesson": [["lesson", "1", "Stay on the question.", *FILLED]],
    "unlearn": [["unlearn", "1", *FILLED]],
    "rate": [["rate", "1", "good", *FILLED]],
    "ratings": [_ratings],
    "ratings --import": [_import],
    "calibrate": [_calibrate],
    "judge": [["judge", "--turn", "1", *FILLED]],
    "bisect": [["bisect", *FILLED]],
    "label": [["label", "kind=test", *FILLED]],
    "end": [["end", *FILLED]],
    "purge": [["purge", "--yes", *FILLED]],
    "demo": [["demo"]],
    "chat": [["chat", *FILLED]],
    "doctor": [["doctor"]],
    "settings": [["settings"]],
    "schema": [["schema", "say"]],
    "completion": [["completion", "zsh"]],
    "error": [["timeline", "--thread", "none"], ["timeline", "--nonsense"]],
}
"""For each schema command lines that print it, or what prepares them and returns them."""


@pytest.mark.sample(every=4)
@pytest.mark.usefixtures("thread")
@pytest.mark.parametrize(
    ("schema", "case"),
    [pytest.param(name, case, id=name) for name, cases in CASES.items() for case in cases],
)
def test_the_json_of_a_command_fits_its_schema(
    run: Run, schema: str, case: list[str] | Callable[[Run], list[str]]
) -> None:
    """Every field is declared, and every declared field is there."""
    arguments = case(run) if callable(case) else case
    lines = f"{NESTED}\n/undo\n/resume\n" if schema == "chat" else None
    fits(schema, run(*arguments, "--json", input=lines).stdout)


def test_every_command_has_a_schema_a_test_and_a_group(run: Run) -> None:
    """A new command needs all three, and its schema is printed."""
    names = [command.name for command in COMMANDS if command.module]
    assert [] == [name for name in names if name not in OBJECTS]
    assert OBJECTS.keys() == CASES.keys()
    assert sorted(names) == sorted(name for group in GROUPS.values() for name in group.split())
    schemas = {name: json.loads(run("schema", name).stdout) for name in OBJECTS}
    assert {"object"} == {json_schema["type"] for json_schema in schemas.values()}
    assert 2 == run("schema", "nonsense").exit_code


def test_the_short_help(run: Run) -> None:
    """`unsay` alone lists a few commands, `--help` all of them in groups."""
    short = run().stderr
    help_text = run("--help").stdout
    assert "unsay doctor" in short
    assert "purge" not in short
    assert "Go back:\n" in help_text
    assert all(f"\n  {command.name} " in help_text for command in COMMANDS if command.module)


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
        ("UNSAY_MODEL", "anwserer", "model", "Set UNSAY_MODEL, such as: answerer, judge."),
        ("UNSAY_JUDGE_MODEL", "jugde", "model", "Set UNSAY_JUDGE_MODEL, such as: answerer, judge."),
        ("OPENAI_BASE_URL", "http://127.0.0.1:9/v1", "server", "is your server running?"),
        ("UNSAY_QUALITY_THRESHOLD", "2", "settings", "Correct the variable"),
        ("UNSAY_HOME", "/proc/none", "write", "--db or UNSAY_HOME"),
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
    failed = [check for check in json.loads(result.stdout)["checks"] if check["status"] == "failed"]
    assert 1 == result.exit_code
    assert [check] == [check["check"] for check in failed]
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


@pytest.mark.usefixtures("asks")
def test_an_error_names_what_can_be_typed(run: Run, serve: Serve) -> None:
    """At a decision the command line names its option, the chat its words, neither a Python call."""
    serve(DRAFTS, SCORES)
    run("say", NESTED, *FILLED)
    assert "`unsay say --decide approve`" in run("undo", *FILLED).stderr
    assert "decide with approve or reject" in run("chat", *FILLED, input="/retry\n").stderr
