import pytest
from hypothesis import given
from hypothesis import strategies as st

from unsay.cli.terminal import NO_END, NO_START, Wrap, wrapped
from unsay.messages.content import cells_of
from unsay.results.timeline import one_line

TEXTS = st.text(alphabet="ab cd\n、。「」漢字かな.👨👩\u200d🇯🇵\u0301", max_size=80)


@pytest.mark.parametrize(
    ("text", "columns", "expected"),
    [
        pytest.param("one two three", 7, "one two\nthree", id="words"),
        pytest.param("  indented code", 20, "  indented code", id="indent is kept"),
        pytest.param("a\n\nb", 9, "a\n\nb", id="empty lines are kept"),
        pytest.param("abcdefghij", 4, "abcd\nefgh\nij", id="a word too long for any line"),
        pytest.param("これは文です。次です。", 12, "これは文で\nす。次です。", id="Japanese"),
        pytest.param("あいう「え」", 8, "あいう\n「え」", id="brackets stay with their words"),
        pytest.param("あいう。", 6, "あい\nう。", id="a full stop begins no line"),
        pytest.param("`@timed` と書く", 10, "`@timed`\nと書く", id="mixed"),
    ],
)
def test_lines(text: str, columns: int, expected: str) -> None:
    """Lines break between words, and in Japanese anywhere the rules allow."""
    assert expected == wrapped(text, columns=columns)


FAMILY = "👨‍👩‍👧"
FLAG = "🇯🇵"
THUMB = "👍🏽"
KEYCAP = "1️⃣"


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        pytest.param("", 0, id="nothing"),
        pytest.param("abc –…", 6, id="narrow"),
        pytest.param("漢字かな。", 10, id="Japanese"),
        pytest.param("ｶﾅ", 2, id="half width"),
        pytest.param(FAMILY, 2, id="family"),
        pytest.param(FLAG, 2, id="flag"),
        pytest.param(FLAG + "🇫🇷", 4, id="two flags"),
        pytest.param(THUMB, 2, id="skin tone"),
        pytest.param(KEYCAP, 2, id="keycap"),
        pytest.param("e\u0301", 1, id="combining mark"),
        pytest.param("か\u3099", 2, id="combining voiced mark"),
        pytest.param("a\x00b", 2, id="control character"),
    ],
)
def test_cells(text: str, cells: int) -> None:
    """A line takes the cells that a terminal draws, however many characters it has."""
    assert cells == cells_of(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(FAMILY * 3, [FAMILY * 2, FAMILY], id="families"),
        pytest.param(FLAG * 3, [FLAG * 2, FLAG], id="flags"),
        pytest.param(THUMB * 3, [THUMB * 2, THUMB], id="skin tones"),
        pytest.param("e\u0301" * 5, ["e\u0301" * 4, "e\u0301"], id="combining marks"),
        pytest.param("か\u3099" * 3, ["か\u3099" * 2, "か\u3099"], id="combining voiced marks"),
        pytest.param(f"ab {FAMILY}です", ["ab", f"{FAMILY}で", "す"], id="mixed"),
    ],
)
def test_no_line_ends_within_what_is_drawn_as_one(text: str, expected: list[str]) -> None:
    """A family, a flag or a letter with its mark stays together, also in a stream of characters."""
    wrap = Wrap(columns=4)
    pieces = "".join(map(wrap.feed, text)) + wrap.end()
    assert expected == wrapped(text, columns=4).split("\n") == pieces.split("\n")


def test_a_shortened_line_keeps_to_its_cells() -> None:
    """A text that is cut for a table ends between two drawn characters."""
    assert f"{FAMILY * 2}…" == one_line(FAMILY * 5, 5)


def test_indent_keeps_cells_free() -> None:
    """Later lines begin under the first one's words."""
    assert "one two\n  three" == wrapped("one two three", columns=10, indent=2)


@given(text=TEXTS, columns=st.integers(4, 30), branch=st.integers(0, 80))
def test_pieces_make_no_difference(text: str, columns: int, branch: int) -> None:
    """A stream is laid out like the whole text, and its rows are counted."""
    wrap = Wrap(columns=columns)
    laid_out = wrap.feed(text[:branch]) + wrap.feed(text[branch:]) + wrap.end()
    assert wrapped(text, columns=columns) == laid_out
    assert laid_out.count("\n") == wrap.rows


@given(text=TEXTS, columns=st.integers(4, 30))
def test_nothing_is_lost_and_nothing_is_too_wide(text: str, columns: int) -> None:
    """Only blanks are dropped, and no line passes the last column."""
    lines = wrapped(text, columns=columns).split("\n")
    assert "".join(text.split()) == "".join("".join(lines).split())
    assert all(cells_of(line) <= columns for line in lines)


def test_no_character_is_forbidden_on_both_ends() -> None:
    """Such a character could never be laid out."""
    assert not NO_START & NO_END
