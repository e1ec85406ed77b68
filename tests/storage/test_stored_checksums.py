"""Checksums of what is stored."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unsay.errors import DatabaseCorruptError
from unsay.storage.items import (
    SUM,
    add_checksum,
    reading,
    strip_checksum,
    with_checksum,
    without_checksum,
)

PLACE = ("unsay", "branches", "t")
JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**53), 2**53),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(exclude_categories=["Cs"])),
    ),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
)


@given(data=st.binary(), position=st.integers(0), bits=st.integers(1, 255))
def test_guarded_bytes_come_back_or_are_refused(data: bytes, position: int, bits: int) -> None:
    """Bytes are what they were; with any one of them changed they are refused."""
    guarded_data = add_checksum(data)
    changed_data = bytearray(guarded_data)
    changed_data[position % len(changed_data)] ^= bits

    assert data == strip_checksum(guarded_data)
    with pytest.raises(ValueError, match="the checksum does not match"):
        strip_checksum(bytes(changed_data))


@given(value=st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), JSON))
def test_an_item_comes_back_or_is_refused(value: dict[str, Any]) -> None:
    """A value is unchanged; as another item's, or with another field, it is refused."""
    value.pop(SUM, None)
    guarded_value = with_checksum(PLACE, "k", value)

    assert value == without_checksum(PLACE, "k", guarded_value)
    for namespace, key, found in (
        (PLACE, "other", guarded_value),
        (("unsay", "branches", "u"), "k", guarded_value),
        (PLACE, "k", {**guarded_value, "one more": 1}),
    ):
        with pytest.raises(
            DatabaseCorruptError, match=r"the checksum does not match.*restore a backup"
        ):
            without_checksum(namespace, key, found)


@pytest.mark.parametrize("value", [{"a": object()}, {"a": float("nan")}], ids=["object", "nan"])
def test_what_is_no_plain_json_has_no_sum(value: dict[str, Any]) -> None:
    """A value that a store may still take is left as it is."""
    assert value == with_checksum(PLACE, "k", value)


def test_an_item_without_a_sum_is_read() -> None:
    """What another program, or an earlier unsay, wrote is taken as it is."""
    assert {"a": 1} == without_checksum(PLACE, "k", {"a": 1})


@pytest.mark.parametrize("value", [[], "text", None, 1])
def test_an_item_is_an_object(value: Any) -> None:
    """Anything else was not written by a store."""
    with pytest.raises(DatabaseCorruptError, match="it is not a JSON object"):
        without_checksum(PLACE, "k", value)


@pytest.mark.parametrize(
    "error", [KeyError("k"), ValueError("v"), TypeError("t"), RecursionError("r")], ids=repr
)
def test_a_readers_error_is_told_as_damage(error: Exception) -> None:
    """For any damaged bytes, the message names what was read."""
    raises = pytest.raises(DatabaseCorruptError, match=r"A value is damaged .*restore a backup")
    with raises as error_info, reading("A value"):
        raise error

    assert error is error_info.value.__cause__


def test_other_errors_stay() -> None:
    """An interruption is no damage."""
    with pytest.raises(KeyboardInterrupt), reading("A value"):
        raise KeyboardInterrupt


def test_the_field_of_a_checksum_is_part_of_the_format() -> None:
    """A value that another version of this library wrote is checked as well."""
    guarded_value = {"a": 1, "unsay_sum": 1}
    with pytest.raises(DatabaseCorruptError):
        without_checksum(PLACE, "k", guarded_value)

    assert {"a", "unsay_sum"} == with_checksum(PLACE, "k", {"a": 1}).keys()
