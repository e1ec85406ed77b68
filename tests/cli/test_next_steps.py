import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run, Serve
from tests.cli.scripted_conversation import ANSWERS, DRAFTS, LISTS, NESTED, SCORES
from unsay.conversation.conversation import Conversation
from unsay.messages.content import preview
from unsay.testing import ScriptedChat, ScriptedJudge


@pytest.fixture
def sample_thread(home: Path) -> None:
    """The conversation `t` of two turns; the second one ends at the checkpoint `nested`."""
    model = ScriptedChat(replies=ANSWERS)
    with Conversation.open(
        home / "unsay.db", thread="t", model=model, judge=ScriptedJudge()
    ) as conversation:
        conversation.say(LISTS)
        conversation.say(NESTED)
        conversation.checkpoint("nested")


@pytest.mark.usefixtures("sample_thread")
def test_a_rollback_to_where_the_conversation_is_says_so(run: Run) -> None:
    """Nothing is removed, so no undo or restore is offered: it would reverse another step."""
    for command in (
        ["rollback", "nested", "--thread", "t"],
        ["say", "--thread", "t", "/rollback nested"],
    ):
        output = run(*command, env={"UNSAY_MODEL": "gpt-x", "OPENAI_API_KEY": "x"}).stdout
        assert output == "The conversation is at checkpoint nested already. Nothing was removed.\n"


@pytest.mark.usefixtures("sample_thread")
@pytest.mark.parametrize(
    "command", [["rollback", "2"], ["rollback", "2", "--preview"], ["fork", "2"]]
)
def test_a_number_as_a_checkpoint_names_the_option_for_turns(run: Run, command: list[str]) -> None:
    """In the chat `/rollback 2` is a number of turns; on the command line it has an option."""
    result = run(*command)
    assert 3 == result.exit_code
    assert result.stderr.endswith(". A number of turns is given with --turns\n")
    assert "--turns" not in run("rollback", "nowhere").stderr


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        (["say", "hello", "there"], "A TEXT of several words needs quotes."),
        (["edit", "1", "hello", "there"], "A TEXT of several words needs quotes."),
        (["say", "-really"], "A TEXT that begins with a dash comes after --."),
        (["--db", "my.db", "threads"], "Options come after the command."),
        (["say"], "TEXT (- reads standard input)"),
        (["say", "hi", "--tools", "sys:maxsize"], "neither a tool nor a function"),
        (["say", "hi", "--tools", "mine.py:add"], "leave out .py"),
    ],
)
def test_wrong_usage_says_what_is_right(
    run: Run, serve: Serve, command: list[str], hint: str
) -> None:
    """Forgotten quotes, a dash, a pipe without `-`, and values that are no tools."""
    serve(ANSWERS)
    result = run(*command)
    assert 2 == result.exit_code
    assert hint in result.stderr


def test_a_removed_turn_that_is_sent_again_is_named(run: Run, serve: Serve) -> None:
    """Its stored answer is shown; the screen says that the conversation does not have it."""
    serve(ANSWERS)
    turn = ["say", "--thread", "t", "--turn-id", "17", LISTS]
    first = run(*turn)
    second = run(*turn)
    run("undo", "t")
    removed = run(*turn)
    assert first.stdout == second.stdout == removed.stdout
    assert "was removed from the conversation" not in second.stderr
    assert "was removed from the conversation" in removed.stderr


@pytest.mark.full
def test_a_decision_on_a_budget_is_yes_or_no(
    run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edited answer or instructions are offered for drafts only."""
    serve(DRAFTS, SCORES)
    monkeypatch.setenv("UNSAY_SESSION_BUDGET_TOKENS", "300")
    line = run("say", "--thread", "my trip", NESTED).stderr.splitlines()[-1]
    assert "decide: unsay say --thread 'my trip' --decide approve|reject" == line


@pytest.mark.full
def test_an_exceeded_soft_budget_is_called_exceeded(
    run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A budget that only warns says whether it is nearly used or exceeded."""
    serve(ANSWERS)
    monkeypatch.setenv("UNSAY_SESSION_BUDGET_TOKENS", "300")
    monkeypatch.setenv("UNSAY_BUDGET_MODE", "soft")
    assert "the budget is exceeded: session budget" in run("say", NESTED).stderr


@pytest.mark.usefixtures("sample_thread")
def test_what_was_forgotten_names_how_to_restore_it(run: Run) -> None:
    """The id is that of `unsay restore`."""
    row, hint = run("forget", "--turn", "1", "--thread", "t").stdout.splitlines()
    assert f"“{preview(LISTS, 40)}”" in row
    assert "`unsay restore ID` lets the model see it again." == hint
    assert 0 == run("restore", row.split()[0], "--thread", "t").exit_code
    assert "Nothing has been forgotten." in run("forgotten", "t").stdout


@pytest.mark.full
@pytest.mark.usefixtures("sample_thread")
def test_lists_and_differences_are_japanese(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkpoints have a header in the language; so has a difference."""
    assert ["id", "name", "turn", "score", "topic"] == run("checkpoints").stdout.split("\n")[
        0
    ].split()
    monkeypatch.setenv("UNSAY_LANGUAGE", "ja")
    assert "ID             名前    ターン  スコア  話題" == run("checkpoints").stdout.split("\n")[0]
    output = run("diff", "nested").stdout.splitlines()
    assert "共通: 4件" == output[0]
    assert output[1].startswith("nested: 4件、スコアの平均0.90、")
    run("end", "t")
    monkeypatch.setenv("UNSAY_MODEL", "gpt-x")
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    assert "に終了しているため" in run("say", "--thread", "t", "もしもし").stderr


def test_a_reader_that_has_enough_is_no_error(run: Run, serve: Serve) -> None:
    """`| head` closes the pipe: nothing is printed about it."""
    serve(ANSWERS)
    run("say", "--thread", "t", LISTS)
    command = [sys.executable, "-m", "unsay", "chat", "--json", "--thread", "t"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as chat:
        assert chat.stdin is not None
        assert chat.stdout is not None
        assert chat.stderr is not None
        chat.stdout.close()
        chat.stdin.write(f"{NESTED}\n")
        chat.stdin.close()
        assert "Error" not in chat.stderr.read()
    assert 1 == chat.returncode


def test_the_demo_speaks_the_language_of_the_shell(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--lang` is stronger."""
    monkeypatch.setenv("UNSAY_LANGUAGE", "ja")
    assert "チェックポイント" in run("demo").stdout
    assert "チェックポイント" not in run("demo", "--lang", "en").stdout
