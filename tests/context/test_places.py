import pytest
from hypothesis import given
from hypothesis import strategies as st

from unsay.context.manifest import READABLE_CHARS, read_places, write_places
from unsay.errors import DatabaseCorruptError

PLACES = st.sets(st.integers(1, 1200), max_size=400)


@pytest.mark.parametrize(
    ("indexes", "text"),
    [
        ([], ""),
        ([7], "7"),
        ([1, 2], "1-2"),
        ([212, 190, 3, 1, 2, 211, 210], "1-3,190,210-212"),
        (range(1, 10_001), "1-10000"),
    ],
    ids=["none", "one", "a pair", "several rows", "a long row"],
)
def test_places_are_written_short(indexes: list[int], text: str) -> None:
    """Rows of any number and order become ranges."""
    assert text == write_places(indexes)
    assert tuple(sorted(indexes)) == read_places(text)


def test_many_scattered_places_are_packed() -> None:
    """Every other message of a long transcript takes no longer than a few rows."""
    indexes = range(401, 1401, 2)
    assert len(write_places(indexes)) < READABLE_CHARS
    assert tuple(indexes) == read_places(write_places(indexes))


@given(indexes=PLACES)
def test_what_is_written_is_read(indexes: set[int]) -> None:
    """Any places come back, ascending."""
    assert tuple(sorted(indexes)) == read_places(write_places(indexes))


@given(indexes=PLACES)
def test_scattered_places_are_bounded(indexes: set[int]) -> None:
    """However they lie, they cost no more than a fifth of a byte for each message between."""
    length = max(indexes, default=1) - min(indexes, default=1) + 1
    assert len(write_places(indexes)) <= max(READABLE_CHARS, length / 5 + 16)


@pytest.mark.parametrize(
    "text",
    ["1-", "a-b", "1,,2", "-3", " 1", "1;2", "4:A", "4:*", "4:____", "x:AA", "１",
     "1-99999999999"],
    ids=["half a range", "letters", "a gap", "no start", "space", "semicolon", "half a byte",
         "no Base64", "nothing packed", "no first place", "a digit of another script",
         "more than there can be"],
)  # fmt: skip
def test_what_names_no_places_is_refused(text: str) -> None:
    """A text that was changed is reported, not misread."""
    with pytest.raises(DatabaseCorruptError, match="places"):
        read_places(text)
