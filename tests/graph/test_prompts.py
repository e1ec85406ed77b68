"""Prompts that a host replaces."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from unsay import Conversation
from unsay.errors import ConfigurationError, InputError, UnsayError
from unsay.prompts import ENGLISH, JAPANESE
from unsay.testing import ScriptedChat, ScriptedDetector, ScriptedJudge
from unsay.types import Language

GOOD = "A list comprehension builds a list in one expression."
QUESTION = "What is a list comprehension?"


def request_text(model: Any) -> str:
    """Everything that a model was sent."""
    return "\n".join(str(m.content) for call in model.calls for m in call)


def reply_of(text: str) -> Any:
    """A script that answers every request with one text."""

    def script(messages: list[BaseMessage]) -> str:
        del messages
        return text

    return script


@pytest.mark.parametrize(
    ("catalogue", "question", "other"),
    [
        pytest.param(ENGLISH, QUESTION, "How is the weather?", id="english"),
        pytest.param(JAPANESE, "リスト内包表記とは何ですか?", "今日の天気は?", id="japanese"),
    ],
)
def test_models_receive_the_replaced_texts(
    tmp_path: Path, catalogue: Any, question: str, other: str
) -> None:
    """The judge, the next attempt, the summarizer and the titler are sent the host's words."""
    prompts = catalogue.replace(
        judge_system="JUDGE-1",
        judge_request="{material}\nJUDGE-2",
        retry="Attempt {attempt}\nRETRY {reasons}",
        summary_system="SUMMARY-1",
        summary_request="{material}\nSUMMARY-2",
        summary_heading="SUMMARY-3",
        title_system="TITLE-1",
    )
    model = ScriptedChat(replies={question: ["Buy a car.", GOOD], other: "Sunny."})
    judge = ScriptedJudge(scores={"Buy a car.": 0.1}, default=0.9)
    summarizer, titler = (ScriptedChat(script=reply_of(text)) for text in ("Lists.", "Lists"))
    with Conversation.open(
        tmp_path / "t.db",
        model=model,
        judge=judge,
        summarizer=summarizer,
        title=titler,
        detector=ScriptedDetector(shifts={other: "new"}),
        prompts=prompts,
    ) as conversation:
        conversation.say(question)
        conversation.say(other)

    assert {"JUDGE-1"} == {str(call[0].content) for call in judge.calls}
    assert all(str(call[1].content).endswith("JUDGE-2") for call in judge.calls)
    assert "Attempt 2\nRETRY " in request_text(model)
    assert "SUMMARY-1" in request_text(summarizer)
    assert "SUMMARY-2" in request_text(summarizer)
    assert "TITLE-1" in request_text(titler)


def test_notices_use_the_replaced_texts(tmp_path: Path) -> None:
    """A notice about an undo is written with the host's words, in that language only."""
    prompts = [ENGLISH.replace(undone="Reversed! {changes}"), JAPANESE]
    model = ScriptedChat(replies={QUESTION: GOOD, "リスト": "式でリストを作る書き方です。"})
    options: dict[str, Any] = {"model": model, "judge": ScriptedJudge(default=0.9)}
    with Conversation.open(tmp_path / "t.db", prompts=prompts, **options) as conversation:
        conversation.say(QUESTION)
        english = conversation.say("/undo").text
        conversation.say("リスト内包表記とは何ですか?")
        japanese = conversation.say("/undo").text

    assert english.startswith("Reversed! Removed 1 turn.")
    assert japanese.startswith("1ターンを取り除きました。")


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        pytest.param({"retry": "Again."}, r"retry: the placeholder \{attempt\} is", id="missing"),
        pytest.param(
            {"refused": "{reason} {why}"}, r"refused: the placeholder \{why\} is", id="unknown"
        ),
        pytest.param({"refused": "{reason} {"}, "refused: ", id="unbalanced"),
        pytest.param({"refused": "{reason:>9}"}, r"refused: write \{reason\}", id="a format"),
        pytest.param({"refused": "{reason.x}"}, r"refused: .*\{reason\}", id="an attribute"),
        pytest.param({"title_system": " "}, "title_system=' ': ", id="blank"),
        pytest.param({"title_system": 3}, "title_system=3: ", id="no text"),
        pytest.param({"tokens_names": {"live": "x"}}, "tokens_names: .* is missing", id="names"),
        pytest.param({"counts": "many"}, "counts='many': give a mapping", id="no table"),
        pytest.param({"language": "fr"}, "language='fr': ", id="no language of ours"),
        pytest.param({"judge_sytem": "x"}, "no text 'judge_sytem'.*judge_system", id="misspelt"),
        pytest.param({"counts.turns": "x"}, "no text 'counts.turns'", id="a row alone"),
        pytest.param(
            {"recall_reasons": {**ENGLISH.table("recall_reasons"), "meaning": "like {it}"}},
            r"recall_reasons\['meaning'\]: the placeholder \{it\} is unknown",
            id="in a table",
        ),
    ],
)
def test_a_text_that_cannot_be_filled_is_refused(fields: dict[str, Any], problem: str) -> None:
    """The error names the field and the placeholder when the catalogue is made."""
    with pytest.raises(ConfigurationError, match=problem):
        ENGLISH.replace(**fields)


@pytest.mark.parametrize("prompts", ["You are a judge.", [ENGLISH, ENGLISH], [None]], ids=str)
def test_only_catalogues_are_prompts(tmp_path: Path, prompts: Any) -> None:
    """Anything else, and two catalogues of one language, is refused when a thread is opened."""
    with pytest.raises((ConfigurationError, InputError), match="prompts"):
        Conversation.open(tmp_path / "t.db", prompts=prompts)


def test_a_text_without_placeholders_may_show_json() -> None:
    """A system prompt is sent as it is, with its braces."""
    text = 'Reply with {"score": 0.5, "reason": "…"} and {nothing} else.'

    assert text == ENGLISH.replace(judge_system=text).say("judge_system")


@pytest.mark.parametrize("language", ["en", "ja"])
def test_a_copy_has_the_texts_of_its_language(language: Language) -> None:
    """What is not replaced stays, and the original is as it was."""
    catalogue = ENGLISH if language == "en" else JAPANESE
    copied = catalogue.replace(refused="No: {reason}")

    assert copied.say("undone") == catalogue.say("undone")
    assert "No: {reason}" == copied.say("refused")
    assert "No: {reason}" != catalogue.say("refused")


def test_a_copy_of_a_copy_keeps_what_was_replaced() -> None:
    """Also with `dataclasses.replace`, and a table is replaced as a whole."""
    counts = {name: f"{text} So." for name, text in ENGLISH.table("counts").items()}
    first = ENGLISH.replace(refused="No: {reason}", counts=counts)
    second = dataclasses.replace(first, at_start="the top")

    assert "No: it waits" == second.refusal(UnsayError("it waits"))
    assert "The conversation has 2 turns. So." == second.changes(turns=2, removed=0)
    assert "the top" == second.say("at_start")
