"""Lessons, ratings, old scores, bisection and calibration on the command line, over real HTTP."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, Serve, run_json
from tests.cli.scripted_conversation import DRAFTS, LISTS, NESTED, ON_LISTS, ON_NESTED, SCORES
from unsay.settings.settings import load_settings


def ask_questions(run: Run, serve: Serve) -> None:
    """Two turns, the second with a rejected draft."""
    serve(DRAFTS, SCORES)
    assert 0 == run("say", LISTS, "--thread", "t").exit_code
    assert 0 == run("say", NESTED, "--thread", "t").exit_code


def test_lessons_are_listed_changed_and_removed(run: Run, serve: Serve) -> None:
    """The numbers of the list name them."""
    ask_questions(run, serve)
    (lesson,) = run_json(run, "lessons")["lessons"]
    assert lesson["rejected"].startswith("Buy a car.")

    assert "Changed lesson 1" in run("lesson", "1", "No cars.").stdout
    assert "1. No cars." in run("lessons").stdout
    assert "Removed lesson 1." in run("unlearn", "1").stdout
    assert "There are no lessons yet." in run("lessons").stdout
    assert 3 == run("unlearn", "1").exit_code


def test_ratings_are_printed_as_json_lines_and_read_again(run: Run, serve: Serve) -> None:
    """What `ratings` prints, `ratings --import` takes."""
    ask_questions(run, serve)
    assert "Rated as good" in run("rate", "1", "good").stdout
    run("rate", "2", "bad", "--reason", "It is about cars.")

    output = run("ratings").stdout
    rows = [json.loads(row) for row in output.splitlines()]
    assert [("good", ON_LISTS), ("bad", ON_NESTED)] == [(r["label"], r["answer"]) for r in rows]

    Path("ratings.jsonl").write_text(output, encoding="utf-8")
    run("fork", "--as", "copy")
    assert (
        "Imported 2 ratings."
        in run("ratings", "--import", "ratings.jsonl", "--thread", "copy").stdout
    )
    everywhere = [json.loads(row)["thread"] for row in run("ratings", "--all").stdout.splitlines()]
    assert [2, 2] == [everywhere.count(thread) for thread in ("copy", rows[0]["thread"])]
    for options in (["--thread", "copy"], ["--import", "ratings.jsonl"]):
        assert 2 == run("ratings", "--all", *options).exit_code


def test_an_old_thread_is_judged_and_bisected(run: Run, serve: Serve) -> None:
    """Another judge finds the second turn bad, and the rollback is offered and made."""
    ask_questions(run, serve)
    serve(DRAFTS, {ON_NESTED: 0.1})

    turns = run_json(run, "judge")["turns"]
    assert ["passed", "failed"] == [turn["verdict"]["outcome"] for turn in turns]
    result = run("bisect")
    assert "It went wrong in turn 2 (judgements: 2, turns: 2)" in result.stdout
    assert "unsay rollback --turns 1" in result.stderr
    assert run_json(run, "bisect", "--yes")["rolled_back"]
    assert 1 == len(run_json(run, "timeline")["turns"])


def test_calibrate_shows_figures_and_writes_the_settings(run: Run) -> None:
    """The threshold of each language goes to the settings file, whose other lines stay."""
    rows = [
        {"question": f"q{n}", "answer": "a", "lang": "en", "label": label, "score": score}
        for n in range(60)
        for label, score in (("good", 0.8), ("bad", 0.55))
    ]
    Path("labels.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    Path("unsay.toml").write_text('language = "en"\n[presets.x]\nrecents = 4\n', encoding="utf-8")

    result = run("calibrate", "labels.jsonl", "--write")
    assert 0 == result.exit_code
    assert "At most 5% of good answers fail (95 % sure, 60 good labels)." in result.stdout
    assert "good that fail: 0.0% (95 %: 0.0% to 6.0%; labels: 60)" in result.stdout
    assert [">", "0.60", "0", "0", "0.0"] in [line.split() for line in result.stdout.splitlines()]
    settings_file = tomllib.loads(Path("unsay.toml").read_text(encoding="utf-8"))
    assert {"en": 0.6} == settings_file["quality_thresholds"]
    assert {"x": {"recents": 4}} == settings_file["presets"]
    settings = load_settings()
    assert [0.6, 0.5] == [settings.quality_in("en"), settings.quality_in("ja")]

    few = [*rows[:10]]
    Path("few.jsonl").write_text("\n".join(map(json.dumps, few)), encoding="utf-8")
    assert "59 good labels of which none fails are needed" in run("calibrate", "few.jsonl").stdout
    assert run_json(run, "calibrate", "few.jsonl")["languages"][0]["claim"] is None


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        pytest.param({"score": 7}, "score must be a number from 0 to 1 or null, got 7", id="score"),
        pytest.param({"score": True}, "from 0 to 1 or null, got True", id="a flag"),
        pytest.param({"earlier": [["Hi"]]}, "earlier must be a list of pairs", id="half a pair"),
        pytest.param({"earlier": 3}, "earlier must be a list of pairs", id="no list"),
        pytest.param({"earlier": [["Hi", None]]}, "each a question and its answer", id="a gap"),
        pytest.param({"question": None}, "question must be a text, got None", id="no question"),
        pytest.param({"answer": None}, "answer must be a text, got None", id="no answer"),
    ],
)
def test_a_rating_of_another_form_is_refused(
    run: Run, fields: dict[str, Any], problem: str
) -> None:
    """The error names the line and what it must have."""
    row = {"question": "q", "answer": "a", "label": "good", **fields}
    Path("labels.jsonl").write_text(json.dumps(row), encoding="utf-8")

    result = run("calibrate", "labels.jsonl")

    assert 2 == result.exit_code
    assert "labels.jsonl, line 1: " in result.stderr
    assert problem in result.stderr


def test_a_rating_may_have_any_line_break(run: Run) -> None:
    """A question with U+2028, which JSON does not escape, is one line of the file."""
    rows = [
        {"question": "one\u2028two", "answer": "a", "lang": "en", "label": label, "score": 0.5}
        for label in ("good", "bad")
    ]
    text = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    Path("labels.jsonl").write_text(text, encoding="utf-8")

    assert 2 == run_json(run, "calibrate", "labels.jsonl")["languages"][0]["labels"]


def test_figures_are_in_the_language_of_the_labels(run: Run) -> None:
    """Japanese labels have a Japanese page, with the interval and the refused claim."""
    write_labels(ja=10)

    result = run("calibrate", "labels.jsonl")

    assert "ja: 品質のしきい値 0.60(ラベル20件から)" in result.stdout
    assert "良いのに不合格: 0.0%(95%信頼区間: 0.0%〜27.8%、ラベル10件)" in result.stdout
    assert "「良い回答が不合格になる割合は5%以下」とは言えません" in result.stdout
    write_labels(ja=60)
    assert "unsay.toml に書き込みました" in run("calibrate", "labels.jsonl", "--write").stderr


def write_labels(**good: int) -> None:
    """Write a file with so many good labels of each language, and as many bad ones."""
    rows = [
        {"question": f"{language}{n}", "answer": "a", "lang": language, "label": label, "score": s}
        for language, count in good.items()
        for n in range(count)
        for label, s in (("good", 0.8), ("bad", 0.55))
    ]
    Path("labels.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        pytest.param({"en": 1}, "en 1 of 59", id="two labels"),
        pytest.param({"en": 58, "ja": 3}, "en 58 of 59, ja 3 of 59", id="both too few"),
    ],
)
def test_too_few_labels_are_not_written(run: Run, labels: dict[str, int], problem: str) -> None:
    """The error says how many good labels there are and how many are needed; no file is made."""
    write_labels(**labels)
    result = run("calibrate", "labels.jsonl", "--write")
    assert (2, True) == (result.exit_code, problem in result.stderr)
    assert not Path("unsay.toml").exists()


def test_a_language_with_too_few_labels_keeps_its_threshold(run: Run) -> None:
    """The other language's is written, and a note says why this one is not."""
    write_labels(en=59, ja=3)
    Path("unsay.toml").write_text("quality_thresholds = {ja = 0.4}\n", encoding="utf-8")
    result = run("calibrate", "labels.jsonl", "--write")
    assert "書き込んでいません: 良い評価が足りません(ja 3 of 59)。" in result.stderr
    settings_file = tomllib.loads(Path("unsay.toml").read_text(encoding="utf-8"))
    assert {"ja": 0.4, "en": 0.6} == settings_file["quality_thresholds"]


def test_a_table_of_thresholds_is_left_as_it_is(run: Run) -> None:
    """A file with thresholds as a table would have them twice, so it is not changed."""
    write_labels(en=59)
    before = "[quality_thresholds]\nja = 0.4\n"
    Path("unsay.toml").write_text(before, encoding="utf-8")
    result = run("calibrate", "labels.jsonl", "--write")
    assert (2, True) == (result.exit_code, "unsay.toml' cannot be changed" in result.stderr)
    assert before == Path("unsay.toml").read_text(encoding="utf-8")


def test_a_japanese_thread_is_judged_in_japanese(run: Run, serve: Serve) -> None:
    """Scores, the turn where it went wrong, and the offer; the thread is named without an option."""
    first = "リスト内包表記とは何ですか?"
    second = "入れ子にもできますか?"
    good = "リスト内包表記は、式とforを使って一行でリストを作る記法です。"
    bad = "はい、リスト内包表記は中にもう一つforを書いて入れ子にできます。"
    serve({first: good, second: bad})
    run("say", first, "--thread", "t")
    run("say", second, "--thread", "t")
    serve({}, {bad: 0.1})

    output = run("judge", "t").stdout
    assert "ターン1  0.90  合格  リスト内包表記とは何ですか?" in output
    assert "ターン2  0.10  不合格" in output
    result = run("bisect", "t")
    assert "ターン2で品質が落ちました(全2ターン、判定2回)" in result.stdout
    assert "`unsay rollback --turns 1` でその前に戻れます" in result.stderr
    assert "1ターン戻りました。`unsay undo`" in run("bisect", "t", "--yes").stderr
    assert "不合格になるターンはありません" in run("bisect", "t").stdout


def test_bisect_without_a_judge_finds_nothing(
    run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says that the last answer was not judged, and why, in place of a thread without faults."""
    ask_questions(run, serve)
    monkeypatch.setenv("UNSAY_JUDGING", "off")
    result = run("bisect")
    assert "The last answer could not be judged" in result.stdout
    assert "passes again" not in result.stderr


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("command", ["judge", "bisect"])
def test_without_a_model_no_turn_is_judged(
    run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """One error says what to do, instead of one verdict without a score for each turn."""
    ask_questions(run, serve)
    monkeypatch.delenv("UNSAY_MODEL", raising=False)
    monkeypatch.delenv("UNSAY_JUDGE_MODEL", raising=False)
    result = run(command, "t")
    assert (1, "") == (result.exit_code, result.stdout)
    assert 1 == result.stderr.count("There is no model")


@pytest.mark.parametrize("command", ["judge", "bisect", "same"])
def test_a_thread_is_named_once(run: Run, command: str) -> None:
    """As an argument or with the option, and an unknown one is not found."""
    assert "Name the conversation once" in run(command, "t", "--thread", "t").stderr
    assert 3 == run(command, "t").exit_code


def test_calibrate_refuses_other_files(run: Run) -> None:
    """The line that is no label is named."""
    Path("bad.jsonl").write_text('{"label": "good"}\n{"label": "fine"}\n', encoding="utf-8")
    result = run("calibrate", "bad.jsonl")
    assert (2, True) == (result.exit_code, "bad.jsonl, line 2" in result.stderr)
    assert 2 == run("calibrate", "missing.jsonl").exit_code


def test_a_thread_without_turns_has_nothing_to_judge(run: Run, serve: Serve) -> None:
    """The command says so."""
    serve({LISTS: ON_LISTS})
    run("say", LISTS, "--thread", "t")
    run("undo", "t")
    assert "There are no messages yet.\n" == run("judge", "t").stdout
