"""The command line speaks Japanese by the setting `language` or the locale."""

import re
from pathlib import Path

import pytest

from tests.cli.conftest import Run, Serve
from tests.cli.scripted_conversation import ANSWERS, LISTS


@pytest.fixture
def japanese(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person who set the language."""
    monkeypatch.setenv("UNSAY_LANGUAGE", "ja")


def is_japanese(text: str) -> bool:
    """Whether a text is Japanese, apart from commands, options, names and quotations."""
    return bool(re.search("[ぁ-ん]", text)) and not re.search(r"[A-Za-z]{3,} [a-z]{2,} [a-z]", text)


WRONG = """
threads --since now|threads --cursor x|undo --thread nope|timeline|undo|redo|rollback|rollback 3 --turns 2
threads --db nowhere.db|say hello|schema nothing|chat --tools x
checkpoint --thread nope|say hello --thread \x07
"""


@pytest.mark.usefixtures("japanese")
@pytest.mark.parametrize(
    "command_line",
    [
        command_line
        for line in WRONG.split("\n")
        for command_line in line.split("|")
        if command_line
    ],
)
def test_errors_are_japanese(run: Run, command_line: str) -> None:
    """What a person meets first is not English: missing threads, files and keys."""
    result = run(*command_line.split())
    assert result.exit_code
    error = result.stderr.splitlines()[-1]
    assert is_japanese(error.removeprefix("unsay: "))


@pytest.mark.parametrize(
    ("word", "command"), [("tree", "timeline"), ("ls", "threads"), ("export", "timeline --json")]
)
def test_a_word_of_another_program_names_the_command(run: Run, word: str, command: str) -> None:
    """Nothing runs: the error suggests what does the same, not what is spelled alike."""
    result = run(word)
    assert 2 == result.exit_code
    assert f"No such command '{word}'. Did you mean '{command}'?" in result.stderr


@pytest.mark.usefixtures("japanese")
def test_an_error_of_a_module_is_quoted(
    run: Run, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's own words are quoted as they are, also where they resemble a text of unsay."""
    serve(ANSWERS)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "unready.py").write_text("import json\njson.nothing\n")
    error = run("chat", "--tools", "unready:weather", input=f"{LISTS}\n").stderr
    assert "を読み込めません: module 'json' has no attribute 'nothing'" in error


@pytest.mark.usefixtures("japanese")
def test_errors_of_a_thread_are_japanese(run: Run, serve: Serve) -> None:
    """Also where the conversation is English: nothing to undo, redo, restore, pin or roll back."""
    serve(ANSWERS)
    assert "スコア 0.90" in run("say", LISTS, "--thread", "t").stderr
    assert "ターン" in run("timeline").stdout
    for command_line in (
        "redo",
        "restore",
        "restore branch-x",
        "rollback nowhere",
        "rollback --turns 9",
    ):
        result = run(*command_line.split())
        assert result.stderr.startswith("スレッド t\nunsay: ")
        assert is_japanese(result.stderr.split("unsay: ")[1])
    for command_line in (
        "pin nope",
        "label =x",
        "replay --run run-x",
        "replay --attempt 5",
        "fork --thread t",
        "fork nope",
    ):
        assert is_japanese(run(*command_line.split()).stderr.split("スレッド t\n")[-1])
    assert "条件に合うイベントはありません。" in run("events", "--run", "x").stderr
    assert "/" not in run("compact").stdout
    assert "“" not in run("timeline", "--context", "1").stdout
    run("undo")
    run("undo")
    assert "元に戻せる操作はもうありません" in run("undo").stderr
    run("end", "--thread", "t")
    assert is_japanese(run("say", LISTS, "--thread", "t").stderr)


@pytest.mark.usefixtures("japanese")
@pytest.mark.parametrize(
    "command_line", ["nosuch", "threads --limit 0", "say", "doctor", "settings", "--help"]
)
def test_what_operators_read_is_english(run: Run, command_line: str) -> None:
    """Click's errors, the help, `doctor` and `settings` are in one language."""
    result = run(*command_line.split())
    assert not re.search("[ぁ-ん]", result.stdout + result.stderr)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"LANG": "ja_JP.UTF-8"}, True),
        ({"LC_ALL": "ja_JP.UTF-8", "LANG": "en_US.UTF-8"}, True),
        ({"LC_ALL": "C.UTF-8", "LANG": "ja_JP.UTF-8"}, False),
        ({"UNSAY_LANGUAGE": "en", "LANG": "ja_JP.UTF-8"}, False),
        ({"UNSAY_LANGUAGE": "auto", "LANG": "ja_JP.UTF-8"}, True),
        ({"LANG": "en_US.UTF-8"}, False),
    ],
)
def test_the_language_of_the_shell(
    run: Run, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], *, expected: bool
) -> None:
    """The setting counts first, then the locale."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert expected is is_japanese(run("undo").stderr)


def test_the_file_sets_the_language(run: Run) -> None:
    """A `language` in unsay.toml counts as the variable does."""
    Path("unsay.toml").write_text('language = "ja"\n')
    assert is_japanese(run("undo").stderr)


@pytest.mark.usefixtures("japanese")
def test_why_an_answer_has_no_score_is_japanese(
    run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is unsay's own text, and not a judge's."""
    serve(ANSWERS)
    monkeypatch.setenv("UNSAY_JUDGING", "off")
    assert "採点なし: 評価はオフになっています" in run("say", LISTS, "--thread", "t").stderr


def test_budgets_are_japanese(serve: Serve, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A used-up budget is named in the language of the question, in the decision and the error."""
    monkeypatch.setenv("UNSAY_SESSION_BUDGET_TOKENS", "10")
    serve({"京都": "京都は二日で十分です。"})
    errors = run("chat", input="京都は何日必要ですか?\nいいえ\n").stderr
    assert re.search(r"セッションの予算: 使用済み0、今回\d+、上限10トークン", errors)
    monkeypatch.setenv("UNSAY_BUDGET_MODE", "hard")
    monkeypatch.setenv("UNSAY_LANGUAGE", "ja")
    errors = run("say", "京都は何日必要ですか?").stderr
    assert "モデルに質問していません: セッションの予算: 使用済み0" in errors
