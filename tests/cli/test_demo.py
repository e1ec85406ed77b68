import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from unsay.cli.demo import scenario
from unsay.conversation.conversation import Conversation
from unsay.types import Language

LANGUAGES: list[Language] = ["en", "ja"]


def play(run: Run, language: Language, *options: str) -> list[dict[str, Any]]:
    """The demo's objects."""
    result = run("demo", "--lang", language, "--json", *options)
    assert (0, "") == (result.exit_code, result.stderr)
    return [json.loads(line) for line in result.stdout.splitlines()]


def kinds(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """The data of the events of one kind."""
    return [item["data"] for item in objects if item["event"] == kind]


@pytest.fixture(params=LANGUAGES)
def objects(run: Run, request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """The demo in each language."""
    return play(run, request.param)


def test_says_at_once_that_it_is_scripted(objects: list[dict[str, Any]]) -> None:
    """The output shows that no model gave these answers."""
    assert ("demo", 2) == (objects[0]["event"], objects[0]["schema_version"])
    assert "script" in objects[0]["text"] or "あらかじめ用意" in objects[0]["text"]


def test_topics_change_and_return(objects: list[dict[str, Any]]) -> None:
    """The weather is a new topic, the decorators lead back to the first one."""
    topics = kinds(objects, "topic")
    assert ["new", "new", "back"] == [topic["kind"] for topic in topics]
    assert topics[0]["label"] == topics[2]["label"]
    assert [topics[0]["label"], topics[1]["label"]] == [
        compaction["label"] for compaction in kinds(objects, "compaction")
    ]
    assert all(compaction["summary"] for compaction in kinds(objects, "compaction"))


def test_a_draft_and_an_inserted_exchange_are_taken_back(objects: list[dict[str, Any]]) -> None:
    """Both rollbacks have their reason, and both questions are answered."""
    assert ["draft", "context"] == [rejection["kind"] for rejection in kinds(objects, "rollback")]
    assert all(rejection["reason"] for rejection in kinds(objects, "rollback"))
    replies = kinds(objects, "reply")
    assert [0, 0, 0, 1, 1] == [reply["rollbacks"] for reply in replies]
    assert all(reply["outcome"] == "passed" for reply in replies)


def test_every_answer_is_scored_by_the_library(objects: list[dict[str, Any]]) -> None:
    """The scores in the replies are those of the verdicts, and they differ."""
    verdicts = [v["score"] for v in kinds(objects, "verdict") if v["outcome"] == "passed"]
    assert verdicts == [reply["score"] for reply in kinds(objects, "reply")]
    assert len(set(verdicts)) > 1


def test_ends_with_the_timeline(objects: list[dict[str, Any]]) -> None:
    """The last object has the turns, the checkpoints and both branches."""
    (timeline,) = kinds(objects[-1:], "timeline")
    assert (5, 2) == (len(timeline["turns"]), len(timeline["branches"]))
    assert timeline["checkpoints"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_for_people(run: Run, language: Language) -> None:
    """A person sees the script's words, both rollbacks, the checkpoints and the tree."""
    result = run("demo", "--lang", language, env={"COLUMNS": "500"})
    script = scenario(language)
    output = result.stdout
    assert script["heading"] in output
    for act in script["acts"]:
        assert all(text in output for text in (act["title"], act["question"]))
        assert all(line in output for reply in act["replies"] for line in reply.splitlines())
    assert script["checkpoints"] in output
    assert script["gone"] in output


def test_the_environment_changes_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thresholds and models of the user's own do not reach the demo."""
    monkeypatch.setenv("UNSAY_CHECKPOINT_THRESHOLD", "1.0")
    monkeypatch.setenv("UNSAY_QUALITY_THRESHOLD", "1.0")
    monkeypatch.setenv("UNSAY_JUDGE_MODEL", "judge")
    monkeypatch.setenv("UNSAY_STREAM", "held")
    assert ["draft", "context"] == [
        rejection["kind"] for rejection in kinds(play(run, "en"), "rollback")
    ]


def test_db_keeps_the_conversation(run: Run, tmp_path: Path) -> None:
    """With --db the demo can be looked at and undone afterwards."""
    path = tmp_path / "kept.db"
    thread = play(run, "en", "--db", str(path))[0]["data"]["thread_id"]
    with Conversation.open(path, thread=thread) as conversation:
        before = conversation.timeline()
        change = conversation.undo()
    assert (5, 2) == (len(before.turns), len(before.branches))
    assert (4, 2) == (change.turns - 1, change.restored)


def test_db_is_named_at_the_end(run: Run, tmp_path: Path) -> None:
    """A kept conversation can be found again."""
    path = str(tmp_path / "kept.db")
    output = " ".join(run("demo", "--db", path).stdout.split())
    (thread,) = json.loads(run("threads", "--db", path, "--json").stdout)["threads"]
    assert f"unsay timeline --db {path} --thread {thread['thread_id']}" in output
