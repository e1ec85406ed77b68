import json
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Run, Serve
from tests.cli.scripted_conversation import ANSWERS, LISTS
from tests.cli.terminal import Terminal
from tests.threads import registry_of
from unsay.conversation.conversation import Conversation
from unsay.storage.base import THREADS
from unsay.storage.sqlite import open_database
from unsay.testing import ScriptedChat, ScriptedJudge

JAPANESE = "リスト内包表記とは何ですか?"


@pytest.fixture
def database(home: Path) -> Path:
    """Three conversations: `first`, `second` with labels, and `third`, which is Japanese."""
    path = home / "unsay.db"
    model = ScriptedChat(replies=ANSWERS, default="良い回答です。")
    for thread, question in (("first", LISTS), ("second", LISTS), ("third", JAPANESE)):
        with Conversation.open(
            path, thread=thread, model=model, judge=ScriptedJudge()
        ) as conversation:
            conversation.say(question)
            if thread == "second":
                registry_of(conversation).label(project="unsay", person="花子")
    return path


def threads_of(run: Run, *arguments: str) -> list[str]:
    """The ids of the threads that a list has."""
    return [
        thread["thread_id"]
        for thread in json.loads(run("threads", "--json", *arguments).stdout)["threads"]
    ]


@pytest.mark.sample(every=2)
@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        pytest.param(["--label", "project=unsay"], ["second"], id="label"),
        pytest.param(
            ["--label", "project=unsay", "--label", "person=太郎"], [], id="both labels must match"
        ),
        pytest.param(["--status", "active"], ["third", "second", "first"], id="newest first"),
        pytest.param(["--status", "ended"], [], id="status"),
        pytest.param(["--since", "2001-01-01T00:00:00Z"], ["third", "second", "first"], id="since"),
        pytest.param(["--since", "2001-01-01"], ["third", "second", "first"], id="a date"),
        pytest.param(["--until", "2001-01-01 09:00"], [], id="a local time"),
        pytest.param(["--until", "2001-01-01T00:00:00Z"], [], id="until"),
    ],
)
def test_threads_are_found(
    run: Run, database: Path, filters: list[str], expected: list[str]
) -> None:
    """Filters narrow the list, and the one begun last comes first."""
    del database
    assert expected == threads_of(run, *filters)


@pytest.mark.parametrize("time", ["yesterday", "", "0001-01-01T00:00:00+00:00"])
def test_a_time_that_cannot_be_read_hides_no_thread(run: Run, database: Path, time: str) -> None:
    """It is printed as it is stored; the other threads are listed as well."""
    with closing(open_database(database)) as sqlite_database:
        item = sqlite_database.store.get(THREADS, "second")
        assert item is not None
        sqlite_database.store.put(THREADS, "second", {**item.value, "updated_at": time})
    output = run("threads").stdout
    assert all(name in output for name in ("first", "second", "third"))


def test_pages_fit_together(run: Run, database: Path) -> None:
    """The cursor of a shorter list leads to the rest, and people see it as well."""
    del database
    first = json.loads(run("threads", "--json", "--limit", "2").stdout)
    next_page = json.loads(run("threads", "--json", "--cursor", first["cursor"]).stdout)
    assert [["third", "second"], ["first"]] == [
        [thread["thread_id"] for thread in page["threads"]] for page in (first, next_page)
    ]
    assert next_page["cursor"] is None
    result = run("threads", "--limit", "2")
    assert 3 == len(result.stdout.splitlines())  # with the header
    assert f"--cursor {first['cursor']}" in result.stderr


def test_without_filters_nothing_is_new(run: Run, database: Path) -> None:
    """The plain list has no cursor, in JSON neither."""
    del database
    assert {"schema_version", "threads"} == json.loads(run("threads", "--json").stdout).keys()


def test_no_thread_fits(run: Run, database: Path) -> None:
    """No match and an empty database give different messages."""
    del database
    result = run("threads", "--status", "ended")
    assert (0, "", "No thread matches.\n") == (result.exit_code, result.stdout, result.stderr)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize(
    "arguments",
    [
        ["threads", "--since", "yesterday"],
        ["threads", "--limit", "0"],
        ["threads", "--cursor", "nonsense"],
        ["threads", "--label", "project"],
        ["threads", "--status", "asleep"],
        ["label", "--thread", "first", "project"],
        ["label", "--thread", "first", "=unsay"],
        ["label", "--thread", "first", "a=b", "--remove", "a"],
        ["end"],
        ["purge"],
        ["purge", "--thread", "first"],
    ],
    ids=" ".join,
)
def test_bad_usage(run: Run, database: Path, arguments: list[str]) -> None:
    """What cannot be used is refused, and nothing changes."""
    del database
    before = run("threads", "--json").stdout
    result = run(*arguments)
    assert (2, "") == (result.exit_code, result.stdout)
    assert result.stderr.startswith("unsay: ")
    assert before == run("threads", "--json").stdout


@pytest.mark.parametrize(
    "arguments",
    [["label", "a=b"], ["label"], ["end"], ["purge", "--yes"]],
    ids=["label", "labels", "end", "purge"],
)
def test_unknown_thread(run: Run, database: Path, arguments: list[str]) -> None:
    """The error names the thread that is not there."""
    del database
    result = run(*arguments, "--thread", "nowhere")
    assert 3 == result.exit_code
    assert "'nowhere'" in result.stderr


def test_no_database(run: Run, home: Path) -> None:
    """Looking for what was never begun makes no file."""
    assert 3 == run("end", "--thread", "t").exit_code
    assert [] == threads_of(run, "--status", "ended")
    assert not home.exists()


def test_labels_are_set_listed_and_removed(run: Run, database: Path) -> None:
    """Each order prints the labels that the thread has then."""
    del database
    thread = ("--thread", "second")
    assert "project=unsay\nperson=花子\n" == run("label", *thread).stdout
    assert "person=花子\nproject=a=b\n" == run("label", *thread, "project=a=b").stdout
    assert "project=a=b\n" == run("label", *thread, "--remove", "person").stdout
    assert "project=a=b\nself=x\n" == run("label", *thread, "self=x").stdout
    run("label", *thread, "--remove", "self")
    answer = json.loads(run("label", *thread, "--json").stdout)
    assert (2, "second", {"project": "a=b"}) == (
        answer["schema_version"],
        answer["thread_id"],
        answer["labels"],
    )


def test_labels_of_the_last_thread(run: Run, database: Path) -> None:
    """Without --thread it is the newest, which is named on standard error."""
    del database
    result = run("label", "a=b")
    assert ("a=b\n", "thread third\n") == (result.stdout, result.stderr)


def test_end(run: Run, database: Path) -> None:
    """An ended thread is found as such, and ending it again changes nothing."""
    del database
    assert "Thread first is ended:" in run("end", "--thread", "first").stdout
    assert "スレッド third を終了しました。" in run("end", "--thread", "third").stdout
    assert ["third", "first"] == threads_of(run, "--status", "ended")
    answers = [json.loads(run("end", "--thread", "first", "--json").stdout) for _ in range(2)]
    assert "ended" == answers[0]["status"]
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    ("arguments", "spoken"), [(["say", LISTS], ""), (["chat"], f"{LISTS}\n")], ids=["say", "chat"]
)
def test_nothing_is_said_in_an_ended_thread(
    run: Run, database: Path, serve: Serve, arguments: list[str], spoken: str
) -> None:
    """It is a conflict, no model is asked, and the transcript can be read."""
    del database
    server = serve(ANSWERS)
    run("end", "--thread", "first")
    result = run(*arguments, "--thread", "first", input=spoken)
    assert (4, "", []) == (result.exit_code, result.stdout, server.asked)
    assert "was ended" in result.stderr
    assert LISTS in run("timeline", "--thread", "first").stdout


@pytest.mark.full
def test_a_thread_that_is_ended_while_one_talks(run: Run, database: Path, serve: Serve) -> None:
    """The chat ends with it, instead of refusing line after line."""
    serve(ANSWERS)
    with Terminal("chat", "--thread", "first", "--json") as terminal:
        terminal.expect("/help lists the commands")
        with Conversation.open(database, thread="first") as conversation:
            registry_of(conversation).end()
        terminal.type(f"{LISTS}\r")
        terminal.expect('"SessionEndedError"')
        assert 4 == terminal.wait()


def test_purge(run: Run, database: Path) -> None:
    """With --yes a thread goes without a question, and what went is said."""
    output = run("purge", "--thread", "third", "--yes").stdout
    assert output.startswith("スレッド third を完全に削除しました(")
    assert JAPANESE.encode() not in database.read_bytes()
    went = json.loads(run("purge", "--thread", "second", "--yes", "--json").stdout)
    assert {"schema_version", "thread_id", "checkpoints", "writes", "items"} == went.keys()
    assert went["checkpoints"] > 0
    assert ["first"] == threads_of(run)


@pytest.mark.full
@pytest.mark.parametrize(
    ("reply", "code", "threads_left"),
    [
        ("n", 1, ["third", "second", "first"]),
        ("y", 0, ["third", "second"]),
        ("はい", 0, ["third", "second"]),
        ("maybe\r", 1, ["third", "second", "first"]),
    ],
    ids=["no", "yes", "japanese yes", "neither"],
)
def test_purge_asks_on_a_terminal(
    run: Run, database: Path, reply: str, code: int, threads_left: list[str]
) -> None:
    """Nothing goes unless a person says so."""
    del database
    with Terminal("purge", "--thread", "first") as terminal:
        assert LISTS in " ".join(terminal.expect("[y/N]").split())
        terminal.type(f"{reply}\r")
        assert code == terminal.wait()
    assert threads_left == threads_of(run, "--status", "active")
