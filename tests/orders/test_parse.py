"""Slash commands."""

import unicodedata
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from unsay.history.checkpoints import make_checkpoint
from unsay.messages.annotations import annotate, answered_turns, notice
from unsay.orders.order import TYPED
from unsay.orders.orders import ALIASES
from unsay.orders.parse import (
    ALONE,
    NOT_IN_GRAPH,
    REFUSE,
    SUGGEST,
    UNKNOWN,
    VERBS,
    parse_command,
)
from unsay.prompts.catalogue import Texts
from unsay.results.lists import TIMELINE_TURNS, checkpoints_text, timeline_text
from unsay.results.results import score_text
from unsay.state import Command, State
from unsay.types import CommandName, Language


@pytest.mark.parametrize(
    ("text", "verb", "argument"),
    [
        pytest.param("/undo", "undo", "", id="undo"),
        pytest.param("  /undo \n", "undo", "", id="blanks around"),
        pytest.param("/UNDO", "undo", "", id="capitals"),
        pytest.param("/rollback", "rollback", "", id="rollback"),
        pytest.param("/rollback  cp-1 ", "rollback", "cp-1", id="rollback to an id"),
        pytest.param("/rollback Before  Lunch", "rollback", "Before  Lunch", id="to a name"),
        pytest.param("/checkpoint 昼食前", "checkpoint", "昼食前", id="checkpoint"),
        pytest.param("/checkpoints", "checkpoints", "", id="checkpoints"),
        pytest.param("/timeline", "timeline", "", id="timeline"),
        pytest.param("/help", "help", "", id="help"),
        pytest.param("／undo", "undo", "", id="a wide slash"),
        pytest.param("／ｃｈｅｃｋｐｏｉｎｔ　昼食前", "checkpoint", "昼食前", id="wide letters"),
        pytest.param("/rewind 2", "rollback", "2", id="alias"),
        pytest.param("／ｑｕｉｔ", "exit", "", id="wide alias"),
        pytest.param("/usage", "tokens", "", id="usage"),
        pytest.param("/context", "tokens", "", id="context"),
        pytest.param("/rewnd 2", "suggest", "/rewind 2", id="mistyped alias"),
        pytest.param("/help?", "suggest", "/help", id="with a question mark"),
        pytest.param("/rolback", "suggest", "/rollback", id="mistyped"),
        pytest.param("/rolback cp-1", "suggest", "/rollback cp-1", id="mistyped with argument"),
        pytest.param("/udno", "suggest", "/undo", id="turned letters"),
        pytest.param("/rm -rf", "unknown", "/rm", id="unknown"),
        pytest.param("/" + "undo" * 50_001, "unknown", "/" + "undo" * 50_001, id="long"),
        pytest.param("/消去", "unknown", "/消去", id="unknown, Japanese"),
        pytest.param("/clear\nall", "unknown", "/clear", id="unknown, two lines"),
        pytest.param("/undoit", "suggest", "/undo", id="a longer word"),
        pytest.param("/undo please", "alone", "/undo", id="an argument too many"),
        pytest.param("/rollback a\nand then?", "alone", "/rollback", id="two lines"),
        pytest.param("What now?\n/undo", "alone", "/undo", id="after a question"),
        pytest.param("What now? /undo", "alone", "/undo", id="behind a question"),
        pytest.param("Osaka castle?/rollback", "alone", "/rollback", id="typed onto a question"),
        pytest.param("城を見せて。／undo", "alone", "/undo", id="behind a Japanese sentence"),
    ],
)
def test_a_command_is_recognized(text: str, verb: str, argument: str) -> None:
    """A known verb alone on its line, with its argument."""
    assert Command(verb=verb, argument=argument) == parse_command(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("undo", id="no slash"),
        pytest.param("/", id="a slash"),
        pytest.param("/ undo", id="a blank after the slash"),
        pytest.param("//undo", id="two slashes"),
        pytest.param("/usr/bin", id="a path"),
        pytest.param("/usr/bin is what?", id="a question that begins with a path"),
        pytest.param("/ 3 = ?", id="a sum"),
        pytest.param("Say /undo", id="inside a sentence"),
        pytest.param("What is ../undo and a.b/help", id="paths behind stops"),
        pytest.param("/etc/hosts の中身は?", id="a question about a path"),
        pytest.param("/usr/bin\n/etc is next", id="paths in lines"),
    ],
)
def test_other_words_go_to_the_model(text: str) -> None:
    """What resembles no command is a question."""
    assert parse_command(text) is None


@given(st.text())
def test_any_text_is_a_command_or_a_question(text: str) -> None:
    """Nothing but a slash and a known verb is ever taken for an order."""
    order = parse_command(f"/{text}")

    if order is not None and order["verb"] in {*VERBS, *NOT_IN_GRAPH}:
        assert VERBS.get(order["verb"], True) or not order["argument"]
        names = (order["verb"], *(a for a, name in ALIASES.items() if name == order["verb"]))
        assert unicodedata.normalize("NFKC", text).strip().lower().startswith(names)
        assert parse_command(f"/{order['verb']} {order['argument']}") == order
    elif order is not None and order["verb"] == UNKNOWN:
        assert order["argument"][1:].isalpha()
    elif order is not None:
        assert order["verb"] in (SUGGEST, ALONE, REFUSE)
        assert order["argument"].split()[0][1:] in {*VERBS, *NOT_IN_GRAPH}


def exchange(index: int, score: float | None = None) -> list[AnyMessage]:
    """A question and its judged answer."""
    answer = AIMessage(f"answer {index}", id=f"a{index}")
    return [HumanMessage(f"question {index}", id=f"q{index}"), annotate(answer, score=score)]


COMMANDED = [
    *exchange(1, 0.9),
    HumanMessage("/timeline", id="c1"),
    notice("1. …", "n1", ["c1"]),
    AIMessage("", id="t1", tool_calls=[{"name": "f", "args": {}, "id": "1"}]),
    AIMessage("unasked", id="a2"),
    HumanMessage("two\nlines", id="q3"),
    HumanMessage("and more", id="q4"),
    AIMessage("answer", id="a4"),
    HumanMessage("pending", id="q5"),
]


def test_turns_are_answers_with_their_questions() -> None:
    """Commands, notices, tool calls, second answers and the pending question are no turns."""
    assert [
        ("question 1", "a1"),
        ("and more", "a4"),
    ] == [(question, answer.id) for question, answer in answered_turns(COMMANDED)]


@pytest.mark.parametrize(
    ("language", "empty", "full"),
    [
        pytest.param(
            "en",
            "There are no messages yet.",
            "1. 0.90  question 1\n2. –  and more",
            id="english",
        ),
        pytest.param(
            "ja",
            "メッセージはまだありません。",
            "1. 0.90  question 1\n2. –  and more",
            id="japanese",
        ),
    ],
)
def test_the_timeline_lists_turns(language: Language, empty: str, full: str) -> None:
    """One line a turn, with number, score and question."""
    assert empty == timeline_text(State(messages=[]), Texts(language))
    assert full == timeline_text(State(messages=COMMANDED), Texts(language))


def test_a_long_timeline_lists_the_newest_turns() -> None:
    """Earlier turns are left out, the numbers stay."""
    total = TIMELINE_TURNS + 3
    messages = [message for index in range(1, total + 1) for message in exchange(index, 1.0)]

    lines = timeline_text(State(messages=messages), Texts("en")).splitlines()

    assert TIMELINE_TURNS == len(lines)
    assert ["4. 1.00  question 4", f"{total}. 1.00  question {total}"] == [lines[0], lines[-1]]


def test_a_question_stays_on_one_line() -> None:
    """Braces are words, and line breaks and length are taken out."""
    messages = [HumanMessage("{turn}\n" + "x" * 100, id="q"), AIMessage("a", id="a")]

    assert "1. –  {turn} " + "x" * 52 + "…" == timeline_text(State(messages=messages), Texts("en"))


@pytest.mark.parametrize(
    ("language", "empty", "full"),
    [
        pytest.param(
            "en",
            "There are no checkpoints yet.",
            "cp-2c26b46b68  {lunch}  turn 3  score 0.80  Kyoto\ncp-fcde2b2edb  -  turn 4  score –  ",
            id="english",
        ),
        pytest.param(
            "ja",
            "チェックポイントはまだありません。",
            "cp-2c26b46b68  {lunch}  ターン3  スコア 0.80  Kyoto\ncp-fcde2b2edb  -  ターン4  スコア –  ",
            id="japanese",
        ),
    ],
)
def test_checkpoints_are_listed(language: Language, empty: str, full: str) -> None:
    """One line a checkpoint, with all there is to know of it."""
    checkpoints = [
        make_checkpoint(
            message_id=message_id,
            turn=turn,
            score=score,
            topic=topic,
            reason="order",
            created_at="",
            name=name,
        )
        for message_id, turn, score, topic, name in [
            ("foo", 3, 0.8, "Kyoto", "{lunch}"),
            ("bar", 4, None, "", None),
        ]
    ]

    assert empty == checkpoints_text([], Texts(language))
    assert full == checkpoints_text(checkpoints, Texts(language))


@pytest.mark.parametrize(
    ("score", "text"),
    [(None, "–"), (0.0, "0.00"), (1, "1.00"), (0.456, "0.46"), (0.999, "1.00")],
)
def test_a_score_has_two_digits(score: float | None, text: str) -> None:
    """A dash is no score, which is not nought."""
    assert text == score_text(score)


def test_every_slash_command_of_the_table_has_an_operation() -> None:
    """The graph carries out exactly the commands that the table gives to it."""
    assert set(VERBS) == set(TYPED) == set(get_args(CommandName))
