import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.scripted_conversation import ANSWERS, LISTS, NESTED, age
from unsay.conversation.conversation import Conversation
from unsay.testing import ScriptedChat, ScriptedJudge


def fill(path: Path, thread: str, *questions: str, name: str | None = None) -> None:
    """A conversation with these questions, and a checkpoint at the first answer."""
    model = ScriptedChat(replies=ANSWERS, default="これは良い回答です。")
    with Conversation.open(path, thread=thread, model=model, judge=ScriptedJudge()) as conversation:
        for number, question in enumerate(questions):
            conversation.say(question)
            if number == 0 and name:
                conversation.checkpoint(name)


@pytest.fixture
def database(home: Path) -> Path:
    """Two conversations, the one called `talk` spoken in last."""
    fill(home / "unsay.db", "old", "リスト内包表記とは何ですか?")
    age(home / "unsay.db", "old")
    fill(home / "unsay.db", "talk", LISTS, NESTED, name="lists")
    return home / "unsay.db"


def test_threads(run: Run, database: Path) -> None:
    """Each has a line with its id, time, turns and title, the newest first."""
    del database
    heads, *rows = run("threads").stdout.splitlines()
    assert ["id", "last", "message", "turns", "title"] == heads.split()
    lines = [line.split(maxsplit=4) for line in rows]
    assert [("talk", "2", LISTS), ("old", "1", "リスト内包表記とは何ですか?")] == [
        (thread, turns, title) for thread, _day, _time, turns, title in lines
    ]


def test_threads_json(run: Run, database: Path) -> None:
    """Programs get each thread's entry whole."""
    del database
    answer = json.loads(run("threads", "--json").stdout)
    assert 2 == answer["schema_version"]
    assert {"talk": 2, "old": 1} == {
        thread["thread_id"]: thread["turns"] for thread in answer["threads"]
    }
    assert {"created_at", "updated_at", "title"} <= answer["threads"][0].keys()


def test_no_threads_yet(run: Run, home: Path) -> None:
    """A fresh machine has an empty list, and looking does not make a file."""
    result = run("threads")
    assert (0, "", False) == (result.exit_code, result.stdout, home.exists())
    assert "`unsay chat` starts one" in result.stderr
    assert [] == json.loads(run("threads", "--json").stdout)["threads"]


def test_timeline(run: Run, database: Path) -> None:
    """Without --thread it is the newest thread's, which the first line names."""
    del database
    result = run("timeline")
    assert "" == result.stderr
    assert "Thread talk: " in result.stdout
    assert LISTS in result.stdout
    assert NESTED in result.stdout


def test_timeline_json(run: Run, database: Path) -> None:
    """Programs get turns, checkpoints, branches and topics."""
    del database
    answer = json.loads(run("timeline", "--thread", "talk", "--json").stdout)
    assert (2, "talk") == (answer["schema_version"], answer["thread_id"])
    assert [LISTS, NESTED] == [turn["question"] for turn in answer["turns"]]
    assert {"checkpoints", "branches", "topics", "current_topic"} <= answer.keys()


def test_checkpoints(run: Run, database: Path) -> None:
    """Each checkpoint has its id, name, turn, score and topic, in the thread's language."""
    del database
    assert "lists  1     0.90   list comprehension" in run("checkpoints").stdout
    assert "ターン  スコア  話題" in run("checkpoints", "--thread", "old").stdout


def test_checkpoints_json(run: Run, database: Path) -> None:
    """Programs get each checkpoint whole."""
    del database
    answer = json.loads(run("checkpoints", "--json").stdout)
    assert ["lists", None] == [checkpoint["name"] for checkpoint in answer["checkpoints"]]


def test_checkpoint(run: Run, database: Path) -> None:
    """A point can be marked from outside, with a name or without."""
    del database
    assert "Created checkpoint nested.\n" == run("checkpoint", "nested").stdout
    checkpoint = json.loads(run("checkpoint", "--thread", "old", "--json").stdout)["checkpoint"]
    assert (None, 1) == (checkpoint["name"], checkpoint["turn"])


def test_rollback_and_undo(run: Run, database: Path) -> None:
    """Going back takes the last turn off, names its question, and undo brings it back."""
    del database
    result = run("rollback", "lists")
    assert result.stdout.startswith(
        "Rolled back to checkpoint lists. Removed 2 messages. The conversation has 1 turn."
    )
    assert f"removed question: “{NESTED}”" in result.stderr
    assert run("undo").stdout.startswith("Restored 1 turn. `unsay redo` reverses this.")
    assert 2 == len(json.loads(run("timeline", "--json").stdout)["turns"])


def test_rollback_json(run: Run, database: Path) -> None:
    """The JSON output has the position and the question to put back into a prompt."""
    del database
    rollback_answer = json.loads(run("rollback", "--thread", "talk", "--json").stdout)
    assert {
        "schema_version": 2,
        "thread_id": "talk",
        "turns": 1,
        "removed": 2,
        "restored": 0,
        "question": NESTED,
    }.items() <= rollback_answer.items()
    undo_answer = json.loads(run("undo", "--thread", "talk", "--json").stdout)
    assert (2, 2, "") == (undo_answer["turns"], undo_answer["restored"], undo_answer["question"])


def test_moving_speaks_the_threads_language(run: Run, database: Path) -> None:
    """A Japanese conversation is answered in Japanese, even when nothing of it remains."""
    del database
    result = run("undo", "--thread", "old")
    assert "1ターンを取り除きました。" in result.stdout
    assert "取り除いた質問: 「リスト内包表記とは何ですか?」" in result.stderr


@pytest.mark.parametrize("prefix", ["", "sqlite:///"], ids=["path", "url"])
def test_db_names_another_file(run: Run, database: Path, tmp_path: Path, prefix: str) -> None:
    """--db is stronger than UNSAY_HOME."""
    del database
    fill(tmp_path / "other.db", "elsewhere", LISTS)
    answer = json.loads(run("threads", "--json", "--db", f"{prefix}{tmp_path}/other.db").stdout)
    assert ["elsewhere"] == [thread["thread_id"] for thread in answer["threads"]]


def test_files_lie_where_the_platform_keeps_them(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without UNSAY_HOME the database is in the user's data folder."""
    monkeypatch.delenv("UNSAY_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    fill(tmp_path / "data" / "unsay" / "unsay.db", "talk", LISTS)
    assert LISTS in run("timeline").stdout
