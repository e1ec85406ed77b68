import pytest
from hypothesis import given
from hypothesis import strategies as st

from unsay.cli.terminal import GAP, block, clean, side_by_side
from unsay.messages.content import cells_of

WORDS = st.text(st.sampled_from("ab 漢字かな。、「」(),\n\t-é"), max_size=200)


@given(left_text=WORDS, right_text=WORDS, columns=st.integers(min_value=100, max_value=240))
def test_the_line_between_columns_is_straight(
    left_text: str, right_text: str, columns: int
) -> None:
    """Each half keeps its width for any content, and no word is lost."""
    lines = side_by_side(("one", "two"), (left_text, right_text), columns=columns).split("\n")[1:]
    width = (columns - cells_of(GAP)) // 2
    halves = [(line[: line.index("│")], line[line.index("│") + 1 :]) for line in lines]
    assert {width + 1} == {cells_of(before) for before, _ in halves}
    assert max(cells_of(after) for _, after in halves) <= width + 1
    for text, side in ((left_text, 0), (right_text, 1)):
        assert "".join(text.split()) == "".join("".join(half[side] for half in halves).split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("one\x1b[31m\x07", "one\ufffd[31m\ufffd", id="escape codes"),
        pytest.param("a\u202eb", "ab", id="direction marks"),
        pytest.param("\ud800", "\ufffd", id="half surrogate"),
        pytest.param("か\u3099", "が", id="composed"),
        pytest.param("\ta\n  b", "    a\n  b", id="tabs and lines"),
    ],
)
def test_words_cannot_steer_the_terminal(text: str, expected: str) -> None:
    """A model's words are words."""
    assert expected == clean(text)


def test_combining_marks_take_no_cells() -> None:
    """A letter with a combining mark is as wide as the letter."""
    output = side_by_side(("", ""), ("x\u0304", "y"), columns=103)
    assert f"x\u0304{' ' * 49}{GAP}y" == output.split("\n")[1]


def test_a_block_stands_in() -> None:
    """All of its lines do, and empty ones stay empty."""
    assert "  one\n\n    two\n  three" == block("one\n\n  two three\n", columns=8)
