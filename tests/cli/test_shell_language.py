"""The command line speaks Japanese by the setting `language` or the locale."""

import ast
import re
from pathlib import Path

import click
import pytest

import unsay
from tests.cli.conftest import Run, Serve
from tests.cli.scripted_conversation import ANSWERS, LISTS
from unsay.cli.output import typed_words
from unsay.prompts.catalogue import Texts


@pytest.fixture
def japanese(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person who set the language."""
    monkeypatch.setenv("UNSAY_LANGUAGE", "ja")


def is_japanese(text: str) -> bool:
    """Whether a text is Japanese, apart from commands, options, names and quotations."""
    return bool(re.search("[ぁ-ん]", text)) and not re.search(r"[A-Za-z]{3,} [a-z]{2,} [a-z]", text)


WRONG = """
nosuch|threads --nope|threads --limit x|threads --limit 0|threads --status foo|threads --since now|threads --cursor x
rate 1|rate 1 fine|undo --thread|undo one two|forget|say|say --resume hi|purge --thread x|label foo|undo --thread nope
timeline|undo|redo|rollback|rollback 3 --turns 2|threads --db nowhere.db|say hello|schema nothing|edit x y
diff|chat --tools x|pick|same a --thread b|checkpoint --thread nope|say hello --thread \x07
"""


@pytest.mark.usefixtures("japanese")
@pytest.mark.parametrize(
    "typed", [each for line in WRONG.split("\n") for each in line.split("|") if each]
)
def test_errors_are_japanese(run: Run, typed: str) -> None:
    """What a person meets first is not English: wrong options, missing threads, files and keys."""
    result = run(*typed.split())
    assert result.exit_code
    error = result.stderr.splitlines()[-1]
    assert is_japanese(error.removeprefix("unsay: "))


@pytest.mark.usefixtures("japanese")
@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("session_budget_token = 1", "「session_budget_tokens」のことですか?"),
        ("zzz = 1", "`unsay settings` で一覧を表示できます"),
    ],
    ids=["misspelt", "unknown"],
)
def test_a_setting_that_does_not_exist_is_refused_in_japanese(
    run: Run, line: str, advice: str
) -> None:
    """The whole error is Japanese, and says what to do."""
    Path("unsay.toml").write_text(line, encoding="utf-8")
    error = run("settings").stderr
    assert f"設定 {line.split(maxsplit=1)[0]} はありません" in error
    assert advice in error
    assert "such" not in error


@pytest.mark.parametrize(
    ("word", "meant"), [("tree", "timeline"), ("ls", "threads"), ("export", "timeline --json")]
)
def test_a_word_of_another_program_names_the_command(run: Run, word: str, meant: str) -> None:
    """Nothing runs: the error suggests what does the same, not what is spelled alike."""
    result = run(word)
    assert 2 == result.exit_code
    assert f"No such command '{word}'. Did you mean '{meant}'?" in result.stderr


def test_why_the_judge_was_skipped_is_in_the_language_of_the_chat() -> None:
    """A Japanese chat shows a reason of an English question, such as "undo", in Japanese."""
    japanese = Texts("ja")
    assert japanese.say("judge_skipped") == japanese.reason(Texts("en").say("judge_skipped"))


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
    for typed in ("redo", "restore", "restore branch-x", "rollback nowhere", "rollback --turns 9"):
        result = run(*typed.split())
        assert result.stderr.startswith("スレッド t\nunsay: ")
        assert is_japanese(result.stderr.split("unsay: ")[1])
    for typed in (
        "pin nope",
        "label =x",
        "replay --run run-x",
        "replay --attempt 5",
        "fork --thread t",
        "fork nope",
    ):
        assert is_japanese(run(*typed.split()).stderr.split("スレッド t\n")[-1])
    assert "条件に合うイベントはありません。" in run("events", "--run", "x").stderr
    assert "/" not in run("compact").stdout
    assert "“" not in run("timeline", "--context", "1").stdout
    run("undo")
    run("undo")
    assert "元に戻せる操作はもうありません" in run("undo").stderr
    run("end", "--thread", "t")
    assert is_japanese(run("say", LISTS, "--thread", "t").stderr)


@pytest.mark.usefixtures("japanese")
def test_doctor_and_settings_are_japanese(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Findings, advice, sections and sources are Japanese; the JSON has its English keys."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    found = run("doctor").stdout
    assert "失敗    モデル        モデルが指定されていません。" in found
    assert all(is_japanese(line) for line in found.splitlines() if "→" in line)
    assert '"failed"' in run("doctor", "--json").stdout
    shown = run("settings").stdout
    assert "予算と呼び出し" in shown
    assert "環境変数     language" in shown


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


def _templates(folder: Path) -> set[str]:
    """Every text in a folder's code, with `{}` for each value."""
    found = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            texts = [
                re.sub(r"\{\w[^{}]*\}", "{}", str(part.value))
                if isinstance(part, ast.Constant)
                else "{}"
                for part in parts
            ]
            found.add(typed_words("shell", "".join(texts)))
    return found


def test_every_translated_text_exists() -> None:
    """No translation is left over from a text that the code no longer has."""
    package, clicks = Path(unsay.__file__).parent, Path(click.__file__).parent
    own = {Texts("en").say("judge_skipped")}
    known = "\n".join(_templates(package) | _templates(clicks) | own)
    parts = re.compile(r"\{\}|--\w+|[.,:;]|a (?:whole )?number")
    translated = Texts("ja").table("refusals")
    pieces = {text: sorted(parts.split(text), key=len)[-2:] for text in translated}
    left_over = [t for t, two in pieces.items() if not any(p.strip() in known for p in two if p)]
    assert [] == left_over


def test_each_text_has_its_own_translation() -> None:
    """A shorter text with a gap, such as "Try {}.", does not take the longer ones that fit it."""
    words = Texts("ja")
    clear = [text for text in words.table("refusals") if "{}{}" not in text]
    given = {text: ["x1"] * text.count("{}") for text in clear}
    found = {text: words.reason(text.format(*values)) for text, values in given.items()}
    expected = {
        text: words.budgets(words.table("refusals")[text].format(*given[text])) for text in clear
    }
    assert expected == found


def test_values_keep_their_quotes() -> None:
    """A quoted name gets Japanese quotation marks, a list of names keeps its own."""
    reason = Texts("ja").reason
    assert "コマンド「x」はありません。" == reason("No such command 'x'.")
    text = "Invalid value for '--status': 'x' is not one of 'active', 'ended'."
    assert "「--status」の値「x」は使えません。次から選んでください: 'active', 'ended'。" == reason(
        text
    )


def test_budgets_are_japanese(serve: Serve, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A used-up budget is named in the language of the question, in the decision and the error."""
    monkeypatch.setenv("UNSAY_SESSION_BUDGET_TOKENS", "10")
    serve({"京都": "京都は二日で十分です。"})
    asked = run("chat", input="京都は何日必要ですか?\nいいえ\n").stderr
    assert re.search(r"セッションの予算: 使用済み0、今回\d+、上限10トークン", asked)
    monkeypatch.setenv("UNSAY_BUDGET_MODE", "hard")
    monkeypatch.setenv("UNSAY_LANGUAGE", "ja")
    refused = run("say", "京都は何日必要ですか?").stderr
    assert "モデルに質問していません: セッションの予算: 使用済み0" in refused
