"""Messages as plain text."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from unsay.messages.content import (
    cells_of,
    has_other_content,
    language_of,
    newest_language,
    preview,
    text_of,
)
from unsay.types import Language

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


@pytest.mark.parametrize(
    ("content", "text", "has_other"),
    [
        pytest.param("words", "words", False, id="words"),
        pytest.param("", "", False, id="empty"),
        pytest.param([], "", False, id="no blocks"),
        pytest.param(["one ", "two"], "one two", False, id="bare words in a list"),
        pytest.param([{"type": "text", "text": "one"}], "one", False, id="a text block"),
        pytest.param([{"type": "text"}], "", False, id="a text block without text"),
        pytest.param([{"type": "text", "text": "What?"}, IMAGE], "What?", True, id="an image"),
        pytest.param([IMAGE], "", True, id="an image alone"),
        pytest.param([{"type": "file", "id": "f"}, "!"], "!", True, id="a file"),
        pytest.param(
            [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "4"}],
            "4",
            False,
            id="thinking",
        ),
        pytest.param([{"type": "reasoning", "summary": []}], "", False, id="reasoning alone"),
        pytest.param([{"type": "redacted_thinking", "data": "x"}], "", False, id="hidden thinking"),
        pytest.param([{"type": "reasoning_content"}], "", False, id="thinking of Bedrock"),
        pytest.param(
            [{"type": "text", "text": "a"}, "b", {"type": "text", "text": "c"}],
            "abc",
            False,
            id="mixed",
        ),
    ],
)
def test_a_message_is_its_words(content: Any, text: str, *, has_other: bool) -> None:
    """The words in order, without images, files and thinking, which are distinguished."""
    message = AIMessage(content)

    assert (text, has_other) == (text_of(message), has_other_content(message))


@pytest.mark.parametrize(
    ("text", "language"),
    [
        pytest.param("", "en", id="nothing"),
        pytest.param("What is a decorator?", "en", id="english"),
        pytest.param("デコレータとは?", "ja", id="japanese"),
        pytest.param("Pythonの使い方", "ja", id="one kana"),
        pytest.param("ﾃｽﾄ", "ja", id="half width"),
        pytest.param("東京都", "ja", id="han alone"),
        pytest.param("Tokyo 東京", "en", id="more letters than han"),
        pytest.param("東京 ab", "en", id="as many letters as han"),
        pytest.param("Où est l'hôtel ?", "en", id="french"),
        pytest.param("Привет", "en", id="russian"),
        pytest.param("2 + 2 = ?", "en", id="no letters"),
    ],
)
def test_a_text_has_its_language(text: str, language: Language) -> None:
    """Japanese where it has kana or more han than letters, else English."""
    assert language == language_of(text)


def human(content: Any) -> HumanMessage:
    """The user's words."""
    return HumanMessage(content)


@pytest.mark.parametrize(
    ("messages", "language"),
    [
        pytest.param([], "en", id="nothing"),
        pytest.param([human("こんにちは")], "ja", id="japanese"),
        pytest.param([human("こんにちは"), human("Hi")], "en", id="the newest counts"),
        pytest.param([human("こんにちは"), human([IMAGE])], "ja", id="an image has no language"),
        pytest.param([human("こんにちは"), human(" \n")], "ja", id="neither have blanks"),
        pytest.param([human("こんにちは"), human("asdf")], "ja", id="random letters"),
        pytest.param([human("こんにちは"), human("OK")], "ja", id="a word of both"),
        pytest.param([human("こんにちは"), human("for x in y:")], "ja", id="code"),
        pytest.param(
            [human("こんにちは"), human("def f():\n return g\nfor x in y:\n pass")],
            "ja",
            id="lines of code",
        ),
        pytest.param([human("こんにちは"), human("ＥＸＩＴ")], "ja", id="full-width letters"),
        pytest.param([human("こんにちは"), human("OK 👍")], "ja", id="an emoji"),
        pytest.param(
            [human("要約して"), human('OK\n\n<file name="a">\nWhat is this?\n</file>')],
            "ja",
            id="a file",
        ),
        pytest.param([human("こんにちは"), human("Wo ist das Hotel")], "en", id="a sentence"),
        pytest.param([human("こんにちは"), human("Où ?")], "en", id="accents"),
        pytest.param([human("asdf")], "en", id="nothing but random letters"),
        pytest.param([human("こんにちは"), AIMessage("Hi")], "ja", id="the user's words count"),
        pytest.param(
            [human("/undo"), AIMessage("取り除きました。")], "ja", id="only a notice is left"
        ),
        pytest.param(
            [human("／ｕｎｄｏ"), AIMessage("取り除きました。")], "ja", id="a command in full width"
        ),
    ],
)
def test_a_conversation_has_the_language_of_its_newest_words(
    messages: list[AnyMessage], language: Language
) -> None:
    """The newest message of the user that has words decides, and without one an answer."""
    assert language == newest_language(messages)


@pytest.mark.parametrize(
    ("text", "limit", "line"),
    [
        pytest.param("one", 3, "one", id="just fits"),
        pytest.param("one two", 6, "one t…", id="cut"),
        pytest.param("one two", 5, "one…", id="no blank before the dots"),
        pytest.param(" one\n\ttwo ", 60, "one two", id="one line"),
        pytest.param("one", 1, "…", id="shortest"),
        pytest.param("", 60, "", id="empty"),
        pytest.param("x" * 61, 60, "x" * 59 + "…", id="sixty by default"),
    ],
)
def test_a_preview_is_the_beginning(text: str, limit: int, line: str) -> None:
    """One line, cut where it is too long."""
    assert line == preview(text, limit)


@given(text=st.text(), limit=st.integers(min_value=1, max_value=80))
def test_a_preview_is_never_too_long(text: str, limit: int) -> None:
    """At most the limit, one line, a beginning of the text, and cut only when it must be."""
    line = preview(text, limit)
    one_line_text = " ".join(text.split())

    assert len(line) <= limit
    assert one_line_text.startswith(line.removesuffix("…") if line != one_line_text else line)
    assert (line == one_line_text) == (len(one_line_text) <= limit or one_line_text == line)


@pytest.mark.parametrize(
    ("text", "cells"),
    [("", 0), ("abc", 3), ("日本", 4), ("ﾃｽﾄ", 3), ("Ａ", 2), ("é", 1), ("a、", 3)],
)
def test_wide_characters_take_two_cells(text: str, cells: int) -> None:
    """A line's width on a terminal."""
    assert cells == cells_of(text)
