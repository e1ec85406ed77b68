import pytest
from hypothesis import given
from hypothesis import strategies as st

from unsay.cli.terminal import NO_END, NO_START, Wrap, wrapped
from unsay.messages.content import cells_of

TEXTS = st.text(alphabet="ab cd\n、。「」漢字かな.", max_size=80)


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


def test_indent_keeps_cells_free() -> None:
    """Later lines begin under the first one's words."""
    assert "one two\n  three" == wrapped("one two three", columns=10, indent=2)


@given(text=TEXTS, columns=st.integers(4, 30), cut=st.integers(0, 80))
def test_pieces_make_no_difference(text: str, columns: int, cut: int) -> None:
    """A stream is laid out like the whole text, and its rows are counted."""
    wrap = Wrap(columns=columns)
    laid_out = wrap.feed(text[:cut]) + wrap.feed(text[cut:]) + wrap.end()
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
