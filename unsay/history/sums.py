"""Checksums, and what they tell: stored bytes that are no longer those that were written."""

import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from unsay.errors import DatabaseCorruptError

BACKUP = "put a backup of the database in its place"

SUM = "unsay_sum"
"""Where an item's value holds the checksum of all the rest."""

SUM_BYTES = 4
"""Length of a checksum before some bytes."""


def damaged(what: str, error: object) -> DatabaseCorruptError:
    """The error for something stored that cannot be what was written."""
    return DatabaseCorruptError(f"{what} is damaged ({error}): {BACKUP}")


@contextmanager
def sound(what: str) -> Iterator[None]:
    """Whatever damaged bytes make of their reader, as one error.

    Args:
        what: That is read, for the message.

    Raises:
        DatabaseCorruptError: It cannot be what was written.
    """
    try:
        yield
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        MemoryError,
        NotImplementedError,
        RecursionError,
        TypeError,
        ValueError,
        zlib.error,
    ) as error:
        raise damaged(what, f"{type(error).__name__}: {error}") from error


def guard(data: bytes) -> bytes:
    """Bytes with their checksum before them."""
    return zlib.crc32(data).to_bytes(SUM_BYTES) + data


def unguard(data: bytes) -> bytes:
    """The bytes that were guarded.

    Raises:
        ValueError: They are others.
    """
    kept = data[SUM_BYTES:]
    if guard(kept) != data:
        raise ValueError("the checksum is another")
    return kept


def summed(place: tuple[str, ...], key: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """An item's value with its checksum; without one where it is no plain JSON."""
    try:
        return {**value, SUM: _sum(place, key, value)}
    except (TypeError, ValueError):
        return dict(value)


def unsummed(place: tuple[str, ...], key: str, value: Any) -> dict[str, Any]:
    """The value that was summed; one without a checksum, from elsewhere, as it is.

    Raises:
        DatabaseCorruptError: It is another, or another item's.
    """
    what = f"The item {key!r} of {place!r}"
    if not isinstance(value, dict):
        raise damaged(what, "it is no JSON object")
    rest = {name: each for name, each in value.items() if name != SUM}
    if SUM in value and value[SUM] != _sum(place, key, rest):
        raise damaged(what, "the checksum is another")
    return rest


def _sum(place: tuple[str, ...], key: str, value: Mapping[str, Any]) -> int:
    text = json.dumps([*place, key, value], allow_nan=False)
    return zlib.crc32(text.encode("ascii"))
