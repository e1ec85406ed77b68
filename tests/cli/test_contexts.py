import json
from pathlib import Path

import click
import pytest
from langchain_core.messages import RemoveMessage

from tests.cli.conftest import Run
from tests.cli.scripted_conversation import DRAFTS, LISTS, NESTED
from tests.cli.terminal import Terminal
from tests.graph.back_kit import SHIFTS
from unsay.context.windows import SlidingWindow
from unsay.conversation.conversation import Conversation
from unsay.messages.content import cells_of
from unsay.testing import ScriptedChat, ScriptedJudge

WINDOW = SlidingWindow(window_size=2)
JAPANESE = ["リストとは何ですか。", "入れ子にできますか。", "例を見せてください。"]


def fill(home: Path, thread: str, *questions: str) -> Conversation:
    """A conversation with these questions, of which views show the newest alone."""
    model = ScriptedChat(replies=DRAFTS, default="これは良い回答です。")
    judge = ScriptedJudge(scores={"Buy a car": 0.1})
    conversation = Conversation.open(
        home / "unsay.db", thread=thread, model=model, judge=judge, strategy=WINDOW,
        detector=SHIFTS, settings={"recall_tokens": 0},
    )  # fmt: skip
    for question in questions:
        conversation.say(question)
    return conversation


@pytest.fixture
def conversation(home: Path) -> Conversation:
    """Three turns; the last took two drafts."""
    with fill(home, "talk", LISTS, "And in Japanese?", NESTED) as state:
        return state


def test_a_context_shows_each_call(run: Run, conversation: Conversation) -> None:
    """The rejected and the delivered draft are shown, each with its request."""
    del conversation
    text = run("timeline", "--context", "3").stdout
    head, first, second = text.split("\n\n")
    assert f"turn 3: “{NESTED}”" == head
    assert first.startswith("attempt 1, call 1 · scripted · removed, branch-")
    assert "score 0.10" in first
    assert second.startswith("attempt 2, call 1 · scripted · score 0.90")
    assert "  sent in full        messages 3-5 (3)\n" in second
    assert "  outside the window  messages 1-2 (2)\n" in second
    assert "  Context: " in second
    assert "  Reported by the model: " in second


def test_a_context_for_programs(run: Run, conversation: Conversation) -> None:
    """Places, ids and tokens of each call as JSON."""
    del conversation
    answer = json.loads(run("timeline", "--context", "3", "--json").stdout)
    assert (2, "talk", 3) == (answer["schema_version"], answer["thread_id"], answer["turn"])
    last = answer["calls"][-1]
    assert "live" == last["branch"]
    assert [1, 2] == last["context"]["rules"]["window"]["places"]
    assert 2 == len(last["context"]["rules"]["window"]["message_ids"])
    assert last["context"]["fits"]
    assert last["context"]["parts"]["recents"] > 0


def test_a_context_in_japanese(run: Run, home: Path) -> None:
    """The words are in the language of the question."""
    with fill(home, "日本", *JAPANESE):
        text = run("timeline", "--context", "3", "--thread", "日本").stdout
    assert "ターン3: 「例を見せてください。」" in text
    assert "試行1、呼び出し1" in text
    assert "全文を送信  3-5番目(3件)" in text
    assert "範囲外      1-2番目(2件)" in text
    assert "コンテキスト: " in text


def test_a_context_says_that_the_transcript_has_changed(run: Run, home: Path) -> None:
    """Places are then told as those of the time."""
    with fill(home, "talk", LISTS, NESTED) as conversation:
        conversation.add([RemoveMessage(id=conversation.messages()[0].id or "")])
        text = run("timeline", "--context", "2").stdout
    assert "The conversation has changed since then; these are the old positions." in text


def test_no_line_is_wider_than_the_terminal(home: Path) -> None:
    """Everything can be shown, for any content and any number of branches."""
    with fill(home, "日本", *JAPANESE, "長い質問です。" * 30):
        pass
    with Terminal("timeline", "--context", "4", "--thread", "日本", columns=40) as terminal:
        screen = terminal.expect("モデルの報告") + terminal.expect("出力")
        assert 0 == terminal.wait()
    lines = click.unstyle(screen).splitlines()
    assert max(map(cells_of, lines)) <= 40
    assert len(lines) > 8


def test_a_timeline_ends_in_the_tokens(run: Run, conversation: Conversation) -> None:
    """Who used the window last, and what was spent; programs get the same under `tokens`."""
    del conversation
    *_, window, usage_line = run("timeline").stdout.splitlines()
    assert window.startswith("Context: ")
    assert usage_line.startswith("Used: ")
    assert "removed" in usage_line
    tokens = json.loads(run("timeline", "--json").stdout)["tokens"]
    assert tokens["spent"] == json.loads(run("tokens", "--json").stdout)["spent"]


def test_tokens(run: Run, conversation: Conversation) -> None:
    """Each part of the window and each purpose has a line."""
    del conversation
    lines = [line.split("  ")[1] for line in run("tokens").stdout.splitlines() if line[:1] == " "]
    assert ["recent messages", "reply (maximum)", "current branch", "removed", "judging"] == [
        line.strip() for line in lines
    ]


def test_tokens_for_programs(run: Run, conversation: Conversation) -> None:
    """All purposes are there, also those on which nothing was spent."""
    del conversation
    answer = json.loads(run("tokens", "--json").stdout)
    purposes = {"live", "abandoned", "judging", "summaries", "titles", "total"}
    assert purposes == answer["spent"].keys()
    assert {"input", "output", "total", "cached", "micros"} == answer["spent"]["live"].keys()
    assert [] == answer["budgets"]
    assert {"size", "parts"} == answer["window"].keys()
