"""Tool results too large for a view."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import ToolMessage

from unsay.errors import InputError
from unsay.messages.content import (
    PREVIEW_CHARS,
    SMALLEST,
    clip,
    is_omission,
    omission,
    shortened_result,
    size_of,
)

MAX_TOOL_RESULT_BYTES = 64 * 1024
TEXTS = st.text(alphabet=st.characters(exclude_categories=()), max_size=600)
IMAGE = {"type": "image", "data": "x" * 500}


def result(content: Any) -> ToolMessage:
    """A tool result."""
    return ToolMessage(content, tool_call_id="c", id="a", artifact={"rows": [1]})


def omission_in(message: ToolMessage) -> dict[str, Any]:
    """The note of an omission in a tool result."""
    text = message.content if isinstance(message.content, str) else message.content[0]["text"]
    return json.loads(text)  # type: ignore[arg-type]


def test_a_large_result_becomes_a_note_of_what_was_left_out() -> None:
    """It says that, why and how much was left out, and shows the beginning."""
    large = result("k" * (MAX_TOOL_RESULT_BYTES + 1))

    assert {
        "omitted": True,
        "reason": "size_limit",
        "bytes": MAX_TOOL_RESULT_BYTES + 1,
        "preview": "k" * PREVIEW_CHARS,
        "bounds": {"limit_bytes": MAX_TOOL_RESULT_BYTES},
    } == omission_in(shortened_result(large, MAX_TOOL_RESULT_BYTES))


def test_a_result_at_the_limit_stays() -> None:
    """The limit itself is no excess, in bytes and not in characters."""
    assert (original := result("あ" * 10)) is shortened_result(original, 30)
    assert original is not shortened_result(original, 29)


def test_only_the_content_changes() -> None:
    """Id, call, status and artifact stay, and so does the message that was given."""
    large = result("k" * 600)
    before = large.model_copy(deep=True)
    result_shown = shortened_result(large, 300)

    assert before == large
    assert large.model_copy(update={"content": result_shown.content}) == result_shown


@given(text=TEXTS, limit=st.integers(1, 700))
def test_a_note_fits_and_is_the_same_every_time(text: str, limit: int) -> None:
    """No note is longer than the limit or the smallest note, or broken."""
    transcript = omission(text, limit)

    assert transcript == omission(text, limit)
    assert size_of(transcript) <= max(limit, SMALLEST)
    assert json.loads(transcript)["bytes"] == size_of(text)
    transcript.encode()


@given(text=TEXTS, limit=st.integers(1, 700))
def test_presenting_twice_changes_nothing(text: str, limit: int) -> None:
    """A note of an omission is not omitted in turn."""
    once = shortened_result(result(text), limit)

    assert once == shortened_result(once, limit)


@pytest.mark.parametrize(
    "text",
    ["e\u0301", "👩\u200d👩\u200d👧", "👍🏽", "❤\ufe0f", "🇯🇵", "か\u3099", "1\ufe0f\u20e3"],
    ids=["accent", "family", "tone", "heart", "flag", "dakuten", "keycap"],
)
def test_no_visible_character_is_cut_in_half(text: str) -> None:
    """A cut inside a character is moved before it."""
    for end in range(1, len(text)):
        assert "a" == clip(f"a{text}b", 1 + end)


def test_a_given_preview_stands_in_place_of_the_beginning() -> None:
    """The tool knows best what shows its result, under any limit."""
    result_shown = omission_in(
        shortened_result(result("k" * 600), 5, preview="first rows", bounds={"total": 9})
    )

    assert ("first rows", {"total": 9}) == (result_shown["preview"], result_shown["bounds"])


def test_media_stay_and_are_not_measured() -> None:
    """Images beside the words are kept, and large images alone leave the result as it is."""
    mixed_result = result([{"type": "text", "text": "k" * 600}, IMAGE])
    result_shown = shortened_result(mixed_result, 300)

    assert IMAGE == result_shown.content[1]
    assert is_omission(result_shown.content[0]["text"])  # type: ignore[index]
    assert (picture := result([IMAGE])) is shortened_result(picture, 300)


def test_data_blocks_are_measured() -> None:
    """What is neither words nor media counts as its JSON."""
    assert is_omission(
        str(shortened_result(result([{"type": "json", "json": "k" * 600}]), 300).content)
    )


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_is_positive(limit: int) -> None:
    """No limit is clamped in silence."""
    with pytest.raises(InputError, match=str(limit)):
        shortened_result(result("x"), limit)
