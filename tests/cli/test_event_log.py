import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from tests.cli.conftest import Run
from tests.cli.scripted_conversation import CARS, DRAFTS, LISTS, NESTED, ON_LISTS
from tests.threads import registry_of
from unsay.cli.records import words_of
from unsay.conversation.conversation import Conversation
from unsay.events.event_types import Stamp, split_message, stamped
from unsay.hosts.entry import Trusted
from unsay.storage.event_log import head_of, make_page, put_pages
from unsay.storage.pages import EMPTY, event_log_namespace
from unsay.storage.sqlite import open_database
from unsay.testing import ScriptedChat, ScriptedJudge

JUDGE = {"Buy a car": {"score": 0.1, "reason": "It speaks of cars."}}


@pytest.fixture
def database(home: Path) -> Path:
    """`talk`, in which a draft was taken back and a remark was made, and a Japanese thread."""
    path = home / "unsay.db"
    judge = ScriptedJudge(scores=JUDGE)
    model = ScriptedChat(replies=DRAFTS, default="良い回答。")
    with Conversation.open(path, thread="old", model=model, judge=judge) as conversation:
        conversation.say("リスト内包表記とは何ですか?")
    with Conversation.open(path, thread="talk", model=model, judge=judge) as conversation:
        conversation.say(LISTS)
        conversation.say(NESTED)
        registry_of(conversation).note("a beginner asks", labels={"by": "host"})
    return path


def events_of(run: Run, *arguments: str) -> list[dict[str, Any]]:
    """The events that are listed."""
    events: list[dict[str, Any]] = json.loads(run("events", "--json", *arguments).stdout)["events"]
    return events


def test_events(run: Run, database: Path) -> None:
    """Each has a line with its time, type, turn, run and words, the oldest first."""
    del database
    result = run("events")
    title, *lines = [line.split(maxsplit=5) for line in result.stdout.splitlines()]
    assert ["time", "event", "turn", "run", "text"] == title
    assert "thread talk\n" == result.stderr
    assert ["user_message", "1", LISTS] == [lines[0][2], lines[0][3], lines[0][5]]
    assert ["assistant_message", "1", ON_LISTS[:20]] == [*lines[1][2:4], lines[1][5][:20]]
    assert ["planner_note", "2", "–", "a beginner asks"] == lines[-1][2:]
    assert ["0.10 failed It speaks of cars."] == [line[5] for line in lines if "0.10" in line[5]]
    assert ["draft −1 It speaks of cars."] == [line[5] for line in lines if line[2] == "rollback"]


def test_events_json(run: Run, database: Path) -> None:
    """Programs get each event whole."""
    del database
    answer = json.loads(run("events", "--thread", "talk", "--json").stdout)
    assert (2, "talk", None) == (answer["schema_version"], answer["thread_id"], answer["cursor"])
    keys = {"id", "type", "thread_id", "run_id", "turn_id", "at", "labels", "data"}
    assert keys == answer["events"][0].keys()


def test_events_are_found(run: Run, database: Path) -> None:
    """Type, run and label narrow the list together."""
    del database
    second = events_of(run, "--type", "rollback")[0]["run_id"]
    kinds = ["--type", "user_message", "--type", "assistant_message"]
    spoken = events_of(run, *kinds, "--run", second)
    contents = [event["data"]["message"]["data"]["content"] for event in spoken]
    assert [NESTED, CARS] == contents[:2]
    assert 3 == len(contents)
    assert ["a beginner asks"] == [
        event["data"]["text"] for event in events_of(run, "--label", "by=host")
    ]
    result = run("events", "--type", "edit", "--thread", "talk")
    assert (0, "", "No event matches.\n") == (result.exit_code, result.stdout, result.stderr)


def test_pages_fit_together(run: Run, database: Path) -> None:
    """The cursor of a shorter list leads to the rest."""
    del database
    first = json.loads(run("events", "--json", "--limit", "3").stdout)
    next_events = events_of(run, "--cursor", first["cursor"])
    assert events_of(run) == [*first["events"], *next_events]
    assert f"--cursor {first['cursor']}" in run("events", "--limit", "3").stderr


def test_what_json_cannot_hold(run: Run, home: Path) -> None:
    """Bytes and numbers that are none still come out as JSON."""
    odd = {"raw": b"\x00\xff", "score": float("nan"), "set": {1}}
    with Conversation.open(
        home / "unsay.db", thread="t", model=ScriptedChat(default="ok")
    ) as conversation:
        conversation.add([HumanMessage(LISTS), AIMessage("ok", additional_kwargs=odd)])

    output = run("events", "--json").stdout
    message = json.loads(output, parse_constant=pytest.fail)["events"][-1]["data"]["message"]

    expected = {"raw": "AP8=", "score": "NaN", "set": [1]}
    assert expected == message["data"]["additional_kwargs"]


def test_verify(run: Run, database: Path) -> None:
    """A whole event log is said to be whole, in the thread's language."""
    del database
    count = len(events_of(run))
    result = run("events", "--verify", "--thread", "talk")
    assert (0, "") == (result.exit_code, result.stderr)
    assert result.stdout.startswith("The event log is complete and unchanged")
    assert "欠落や改変はなく" in run("events", "--verify", "--thread", "old").stdout
    answer = json.loads(run("events", "--verify", "--thread", "talk", "--json").stdout)
    assert {
        "schema_version": 2,
        "thread_id": "talk",
        "verified": True,
        "events": count,
        "messages": 4,
    } == answer


def test_a_missing_page(run: Run, database: Path) -> None:
    """A gap fails the check, and every other look, with the page that is missing."""
    sqlite_database = open_database(database)
    namespace = event_log_namespace("talk")
    first = min(
        sqlite_database.store.search(namespace), key=lambda item: item.value.get("count", 1_000)
    )
    sqlite_database.store.delete(namespace, first.key)
    sqlite_database.close()
    for arguments in (["--verify"], []):
        result = run("events", "--thread", "talk", *arguments)
        assert (1, "") == (result.exit_code, result.stdout)
        assert first.key in result.stderr


def test_an_event_log_that_gives_another_transcript(run: Run, database: Path) -> None:
    """A forged chain without a gap is not accepted."""
    with Conversation.open(database, thread="talk") as conversation:
        page = make_page(EMPTY, registry_of(conversation).events()[:3])
        config = {"configurable": {"thread_id": "talk"}}
        head = {**conversation.graph.get_state(config).values["event_log"], **head_of(page)}
        update: Any = Trusted({"event_log": head})
        conversation.graph.update_state(config, update, as_node="create_checkpoint")
    sqlite_database = open_database(database)
    put_pages(sqlite_database.store, "talk", [page]).blocking()
    sqlite_database.close()
    result = run("events", "--verify", "--thread", "talk", "--json")
    error = json.loads(result.stdout)["error"]
    assert (1, "EventLogGapError") == (result.exit_code, error["type"])
    assert "2 messages instead of 4" in error["message"]


@pytest.mark.sample(every=2)
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param(["--thread", "nowhere"], 3, id="unknown thread"),
        pytest.param(["--thread", "nowhere", "--verify"], 3, id="nothing to verify"),
        pytest.param(["--verify", "--limit", "1"], 2, id="part of a check"),
        pytest.param(["--type", "nonsense"], 2, id="no such type"),
        pytest.param(["--thread", "talk", "--limit", "0"], 2, id="no limit"),
        pytest.param(["--thread", "talk", "--cursor", "nonsense"], 2, id="no cursor"),
    ],
)
def test_bad_usage(run: Run, database: Path, arguments: list[str], code: int) -> None:
    """What cannot be listed says why."""
    del database
    result = run("events", *arguments)
    assert (code, "") == (result.exit_code, result.stdout)


CALL = {"name": "weather", "args": {"city": "京都"}, "id": "c1"}
SPOKEN = [
    pytest.param(HumanMessage("How warm?"), ["How warm?"], id="words"),
    pytest.param(
        HumanMessage(
            [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": "data:"}]
        ),
        ["What is it? [image_url]"],
        id="image",
    ),
    pytest.param(
        AIMessage([{"type": "thinking", "thinking": "Cold."}, "Warm."]),
        ["Cold.", " Warm."],
        id="thinking",
    ),
    pytest.param(
        AIMessage("", additional_kwargs={"reasoning_content": "Cold."}), ["Cold.", ""], id="aside"
    ),
    pytest.param(AIMessage("", tool_calls=[CALL]), ["", 'weather({"city": "京都"})'], id="call"),
    pytest.param(ToolMessage("18 °C", tool_call_id="c1"), ["18 °C"], id="result"),
]


@pytest.mark.parametrize(("message", "expected"), SPOKEN)
def test_words_of_a_message(message: Any, expected: list[str]) -> None:
    """Each piece of a message says what is in it."""
    stamp = Stamp(thread_id="t", at="2026-01-31T09:00:00+00:00")
    message_with_id = message.model_copy(update={"id": "m1"})
    assert expected == [words_of(event) for event in stamped(split_message(message_with_id), stamp)]
