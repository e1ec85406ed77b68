"""JSON as Postgres can hold it."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unsay.storage.postgres_schema import from_json, to_json

ANY_TEXT = st.text(
    st.characters(exclude_categories=[]) | st.sampled_from("\0\ud83c\udf41\ufdd0\\u")
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | ANY_TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner),
)


def as_jsonb(text: str) -> str:
    """JSON as `jsonb` writes it back: every character as itself; refuses what it refuses."""
    escapes = re.findall(r"\\(u[0-9a-f]{4}|.)", text)
    assert "u0000" not in escapes
    value = json.loads(text)
    plain = json.dumps(value, ensure_ascii=False)
    return plain.encode().decode()


@given(VALUES)
def test_every_value_comes_back(value: object) -> None:
    """NUL, half surrogate pairs and the escape itself survive, as keys and as values."""
    assert json.loads(json.dumps(value)) == from_json(as_jsonb(to_json(value)).encode())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param("a\0b", r'"a\ufdd00000b"', id="nul"),
        pytest.param("\ud800", r'"\ufdd0d800"', id="half a pair"),
        pytest.param("🍁", r'"\ud83c\udf41"', id="a pair"),
        pytest.param("\ufdd0", r'"\ufdd0fdd0"', id="the escape"),
        pytest.param("\\u0000", r'"\\u0000"', id="only looks like nul"),
    ],
)
def test_what_is_escaped(value: str, text: str) -> None:
    """Only what Postgres refuses is written otherwise."""
    assert text == to_json(value)
