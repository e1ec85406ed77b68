import json
import os
import sqlite3
from pathlib import Path

import pytest

from tests.cli.conftest import Run, Serve
from tests.cli.scripted_conversation import ANSWERS, LISTS, NESTED, ON_NESTED
from unsay.cli.session import speaking
from unsay.conversation.conversation import Conversation
from unsay.errors import DatabaseCorruptError
from unsay.testing import ScriptedChat, ScriptedJudge

READING = ["timeline", "checkpoints", "checkpoint", "rollback", "undo"]


@pytest.fixture
def database_path(home: Path) -> Path:
    """A conversation of two turns, each a checkpoint."""
    path = home / "unsay.db"
    model = ScriptedChat(replies=ANSWERS)
    with Conversation.open(path, thread="t", model=model, judge=ScriptedJudge()) as conversation:
        conversation.say(LISTS)
        conversation.checkpoint("lists")
        conversation.say(NESTED)
    return path


def test_no_model(run: Run, home: Path) -> None:
    """Without a model `say` and `chat` tell what to set, and touch nothing."""
    for command in (["say", LISTS], ["chat"]):
        result = run(*command)
        assert (1, "", False) == (result.exit_code, result.stdout, home.exists())
        assert all(name in result.stderr for name in ("UNSAY_MODEL", "OPENAI_API_KEY", "demo"))


def test_no_key(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model's name alone is not enough."""
    monkeypatch.setenv("UNSAY_MODEL", "answerer")
    result = run("say", LISTS, "--json")
    assert (1, "MissingModelError") == (
        result.exit_code,
        json.loads(result.stdout)["error"]["type"],
    )


@pytest.mark.parametrize("message", ["", "  \n\t "], ids=["empty", "blank"])
def test_message_without_words(run: Run, serve: Serve, message: str) -> None:
    """Nothing to answer is bad input."""
    server = serve(ANSWERS)
    result = run("say", message)
    assert (2, []) == (result.exit_code, server.asked)
    assert "unsay: The message is empty" in result.stderr


def test_message_of_a_megabyte(run: Run, serve: Serve) -> None:
    """A message that is too long is refused with the limit, and the thread stays usable."""
    server = serve(ANSWERS)
    result = run("say", "-", "--thread", "t", input="x" * 1_000_000)
    assert (2, []) == (result.exit_code, server.asked)
    assert "200000" in result.stderr
    assert f"{ON_NESTED}\n" == run("say", NESTED, "--thread", "t").stdout


def test_input_that_is_not_text(run: Run, serve: Serve) -> None:
    """Bytes that are no UTF-8 are bad input, not a traceback."""
    serve(ANSWERS)
    result = run("say", "-", input=b"caf\xe9")
    assert 2 == result.exit_code
    assert "not UTF-8" in result.stderr


def test_argument_that_is_not_text(run: Run, serve: Serve) -> None:
    """What the system could not decode is bad input, and the model is not asked."""
    server = serve(ANSWERS)
    assert 2 == run("say", "caf\udce9").exit_code
    assert [] == server.asked


def test_thread_without_a_name(run: Run, serve: Serve) -> None:
    """An id of blanks cannot be used."""
    serve(ANSWERS)
    assert 2 == run("say", LISTS, "--thread", " ").exit_code


@pytest.mark.parametrize("command", READING)
def test_unknown_thread(run: Run, database_path: Path, command: str) -> None:
    """Every verb that needs a thread says which one is missing."""
    del database_path
    result = run(command, "--thread", "nowhere")
    assert 3 == result.exit_code
    assert "'nowhere'" in result.stderr


@pytest.mark.parametrize("command", READING)
def test_no_database(run: Run, home: Path, command: str) -> None:
    """Looking for what was never begun makes no file."""
    assert 3 == run(command).exit_code
    assert not home.exists()


def test_database_without_threads(run: Run, home: Path) -> None:
    """A database in which nothing was said has no newest thread."""
    Conversation.open(home / "unsay.db").close()
    assert 3 == run("timeline").exit_code


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("flags", [["--resume"], ["--decide", "approve"]], ids=["resume", "decide"])
def test_nothing_to_go_on_with(
    run: Run, serve: Serve, database_path: Path, flags: list[str]
) -> None:
    """A finished turn can neither be resumed nor decided about."""
    del database_path
    serve(ANSWERS)
    assert run("say", "--thread", "t", *flags).exit_code in (3, 4)


def test_unknown_checkpoint(run: Run, database_path: Path) -> None:
    """The message lists the checkpoints that there are."""
    del database_path
    result = run("rollback", "lunch")
    assert 3 == result.exit_code
    assert "(lists)" in result.stderr


def test_ambiguous_checkpoint(run: Run, database_path: Path) -> None:
    """The beginning of several ids is a conflict, and nothing moves."""
    del database_path
    assert 4 == run("rollback", "cp-").exit_code
    assert 2 == len(json.loads(run("timeline", "--json").stdout)["turns"])


def test_checkpoint_name_that_is_taken(run: Run, database_path: Path) -> None:
    """Two points cannot have one name."""
    del database_path
    assert 4 == run("checkpoint", "lists").exit_code


def test_checkpoint_name_that_cannot_be_one(run: Run, database_path: Path) -> None:
    """A name with a line break is bad input."""
    del database_path
    assert 2 == run("checkpoint", "a\nb").exit_code


def test_nothing_to_undo(run: Run, database_path: Path) -> None:
    """After the checkpoint and the two turns no step is left, and the thread is still there."""
    del database_path
    assert [0, 0, 0, 3] == [run("undo").exit_code for _ in range(4)]
    assert 0 == run("timeline").exit_code


def test_model_that_returns_nothing(run: Run, serve: Serve) -> None:
    """An empty answer is an error that says what to do, and the question can be said again."""
    server = serve({NESTED: ""})
    result = run("say", NESTED, "--thread", "t")
    assert (1, "") == (result.exit_code, result.stdout.strip())
    assert "unsay: The model returned an empty answer" in result.stderr
    server.script = serve(ANSWERS).script
    assert f"{ON_NESTED}\n" == run("say", NESTED, "--thread", "t").stdout


def test_model_that_cannot_be_reached(
    run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken connection is one line, and the question is kept."""
    serve(ANSWERS)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    result = run("say", NESTED, "--thread", "t", "--json")
    assert (1, "ModelUnavailableError") == (
        result.exit_code,
        json.loads(result.stdout)["error"]["type"],
    )
    serve(ANSWERS)
    assert f"{ON_NESTED}\n" == run("say", "--resume", "--thread", "t").stdout


def test_damaged_database(run: Run, home: Path) -> None:
    """A file that is no database is left as it is."""
    home.mkdir()
    (home / "unsay.db").write_bytes(b"not a database" * 100)
    result = run("timeline", "--json")
    assert (1, "DatabaseCorruptError") == (
        result.exit_code,
        json.loads(result.stdout)["error"]["type"],
    )
    assert b"not a database" * 100 == (home / "unsay.db").read_bytes()


def test_file_that_is_damaged_while_it_is_open(database_path: Path, serve: Serve) -> None:
    """A chat that reads the stopped question then names the file instead of an error of SQLite."""
    serve(ANSWERS)
    with speaking(str(database_path), None, begins=False) as speaker:
        with database_path.open("r+b") as file:
            file.seek(4096)
            file.write(b"\xff" * (database_path.stat().st_size - 4096))
        with pytest.raises(DatabaseCorruptError, match="is damaged"):
            speaker.stopped_question()


def test_newer_database(run: Run, database_path: Path) -> None:
    """A file of a newer unsay is refused, not guessed at."""
    with sqlite3.connect(database_path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    result = run("timeline")
    assert 1 == result.exit_code
    assert "newer version of unsay" in result.stderr


def test_locked_database(run: Run, database_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program's lock is named, and goes away with it."""
    monkeypatch.setattr("unsay.storage.sqlite.BUSY_SECONDS", 0.05)
    connection = sqlite3.connect(database_path, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    result = run("undo")
    connection.close()
    assert 1 == result.exit_code
    assert "locked by another process" in result.stderr
    assert 0 == run("undo").exit_code


def test_path_that_cannot_be_written(run: Run, serve: Serve, tmp_path: Path) -> None:
    """A folder that cannot be made is one line with the next step."""
    serve(ANSWERS)
    (tmp_path / "file").touch()
    result = run("say", LISTS, "--db", str(tmp_path / "file" / "unsay.db"))
    assert 1 == result.exit_code
    assert "UNSAY_HOME" in result.stderr


def test_url_of_another_database(run: Run, serve: Serve) -> None:
    """A server's URL is no file."""
    serve(ANSWERS)
    assert 1 == run("say", LISTS, "--db", "postgres://somewhere").exit_code


def test_impossible_setting(run: Run, database_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting that cannot be is named."""
    del database_path
    monkeypatch.setenv("UNSAY_MAX_ROLLBACKS", "many")
    result = run("timeline")
    assert 1 == result.exit_code
    assert "max_rollbacks" in result.stderr


def test_no_error_leaves_the_home_of_another(database_path: Path) -> None:
    """The database is the user's alone."""
    assert 0o600 == os.stat(database_path).st_mode & 0o777


@pytest.mark.parametrize("command", [["rollback", "--turns"], ["events", "--limit"]])
def test_a_number_below_one_is_refused_by_the_option_s_name(run: Run, command: list[str]) -> None:
    """The error says what was given and what is possible, and where the help is."""
    result = run(*command, "-3")
    assert 2 == result.exit_code
    assert f"{command[-1]} must be 1 or more, got -3." in result.stderr
    assert f"{command[0]} --help" in result.stderr


TURN = "write a turn number N or a range N-M"


@pytest.mark.parametrize("turn", ["x", "", "3-", "1.5", "1,2"])
def test_turn_that_is_no_number(run: Run, database_path: Path, turn: str) -> None:
    """What is not a turn's number is refused, and nothing is forgotten."""
    result = run("forget", "--turn", turn)
    assert (2, "") == (result.exit_code, result.stdout)
    assert TURN in result.stderr
    with Conversation.open(database_path, thread="t") as conversation:
        assert () == conversation.forgotten()


@pytest.mark.parametrize(
    "command",
    [
        ["forget", "--turn", "9"],
        ["forget", "--turn", "-1"],
        ["pin", "--turn", "9"],
        ["unpin", "--turn", "9"],
        ["timeline", "--context", "9"],
        ["replay", "--turn", "9"],
    ],
    ids="-".join,
)
def test_turn_that_does_not_exist(run: Run, database_path: Path, command: list[str]) -> None:
    """The error says which turns there are, and names the command that lists them."""
    del database_path
    result = run(*command)
    assert (3, "") == (result.exit_code, result.stdout)
    assert (
        f"unsay: There is no turn {command[-1]}: the conversation has turns 1 to 2; "
        "`unsay timeline` lists them" in result.stderr
    )


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (["pin", "--turn", "x"], "--turn"),
        (["rollback", "--turns", "1.5"], "--turns"),
        (["fork", "--turns", "-1"], "--turns"),
        (["timeline", "--context", "-1"], "--context"),
        (["replay", "--attempt", "0"], "--attempt"),
        (["events", "--limit", "many"], "--limit"),
        (["forget", "--results-below", "low"], "--results-below"),
        (["forget", "--results-below", "nan"], "--results-below"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_number_out_of_bounds(
    run: Run, database_path: Path, command: list[str], option: str
) -> None:
    """A number is refused by its option's name, with the bounds."""
    del database_path
    result = run(*command)
    assert (2, "") == (result.exit_code, result.stdout)
    assert f"unsay: {option} must be " in result.stderr
    assert f"got {command[-1]}." in result.stderr.replace("'", "")


@pytest.mark.sample(every=2)
@pytest.mark.parametrize(
    "command",
    [
        ["rollback", ""],
        ["fork", ""],
        ["pin", ""],
        ["restore", ""],
        ["timeline", "--thread", ""],
        ["runs", "--thread", ""],
        ["events", "--run", ""],
        ["threads", "--since", ""],
        ["label", "--remove", ""],
        ["pick", "", "--from", "branch-1"],
        ["threads", "--db", ""],
    ],
    ids="-".join,
)
def test_empty_argument(run: Run, database_path: Path, command: list[str]) -> None:
    """An empty argument is refused; it is not the same as none."""
    del database_path
    result = run(*command)
    assert (2, "") == (result.exit_code, result.stdout)
    assert " must not be empty." in result.stderr


@pytest.mark.parametrize("option", ["--since", "--until", "--cursor"])
@pytest.mark.parametrize("command", [["threads"], ["runs", "--all"]], ids="-".join)
def test_filter_without_a_database(run: Run, home: Path, command: list[str], option: str) -> None:
    """A filter is checked where there is no database yet, and is named as it is typed."""
    result = run(*command, option, "yesterday")
    assert (2, "", False) == (result.exit_code, result.stdout, home.exists())
    assert f"unsay: {option} 'yesterday' is not " in result.stderr
    assert "None" not in result.stderr


@pytest.mark.parametrize("command", ["threads", "timeline", "events", "undo", "purge"])
def test_database_that_does_not_exist(run: Run, tmp_path: Path, command: str) -> None:
    """A file that the user named and that does not exist is an error."""
    path = str(tmp_path / "nope" / "x.db")
    options = ["--thread", "t", "--yes"] if command == "purge" else []
    result = run(command, "--db", path, *options)
    assert (3, "") == (result.exit_code, result.stdout)
    assert f"unsay: There is no database file {path!r}: check --db" in result.stderr


def test_removing_a_label_that_is_not_set(run: Run, database_path: Path) -> None:
    """It is an error, and the other labels stay as they were."""
    del database_path
    assert 0 == run("label", "a=1").exit_code
    result = run("label", "b=2", "--remove", "zz")
    assert (3, "") == (result.exit_code, result.stdout)
    assert "unsay: Thread 't' has no label 'zz'; `unsay label` lists its labels" in result.stderr
    assert "a=1\n" == run("label").stdout


def test_label_without_a_value(run: Run, database_path: Path) -> None:
    """Two sentences of an error are two sentences."""
    del database_path
    assert "'x' is not a label: write NAME=VALUE. Try '" in run("label", "x").stderr


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (["checkpoint", "a", "t"], "extra argument (t). A thread is named with --thread ID. Try '"),
        (["threads", "t"], "extra argument (t). Try '"),
        (["schema", "zz"], "'zz' is not a command with a schema; `unsay --help` lists them"),
        (
            ["pin", "9"],
            "; `unsay timeline` lists its messages. A turn is given with the option --turn",
        ),
        (["forget", "9"], "`unsay timeline` lists them. A turn is given with the option --turn"),
        (["timeline", "--db", "mysql://x"], "'mysql://x' is not a supported database: give a path"),
        (["calibrate", "/"], "unsay: / cannot be read: Is a directory"),
        (["say", "hi", "--mcp", "/"], "--mcp '/' cannot be read: Is a directory"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_use_says_what_to_type(
    run: Run, database_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], problem: str
) -> None:
    """An error names the option that was meant, and nothing that only the system says."""
    del database_path
    monkeypatch.setenv("UNSAY_MODEL", "answerer")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    result = run(*command)
    assert result.exit_code
    assert problem in result.stderr


def test_a_thread_without_labels(run: Run, database_path: Path) -> None:
    """It says so, and how to set one."""
    del database_path
    assert "No labels. NAME=VALUE sets one.\n" == run("label").stdout
