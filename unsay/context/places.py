"""Places on a record, written short: `1-3,190-212`."""

import re
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection, Iterator

from unsay.errors import InputError

READABLE_CHARS = 64
"""Up to this length places are written as ranges; past it, as bits where those are shorter."""

MOST = 10_000_000
"""More places than any record has: who writes of more was not `write_places`."""

_RANGES = re.compile(r"(\d+(-\d+)?)(,\d+(-\d+)?)*", re.ASCII)
_BITS = re.compile(r"(\d+):([A-Za-z0-9_-]+)", re.ASCII)


def write_places(places: Collection[int]) -> str:
    """Places, from 1, as ranges; where they are many and scattered, as the bits of a number.

    >>> write_places([1, 2, 3, 190, 212, 211])
    '1-3,190,211-212'
    """
    ranges = write_ranges(places)
    if len(ranges) <= READABLE_CHARS:
        return ranges
    return min(ranges, _bits(places), key=len)


def write_ranges(places: Collection[int]) -> str:
    """Places as ranges, however many.

    >>> write_ranges({7, 9, 8, 1})
    '1,7-9'
    """
    return ",".join(
        str(first) if first == last else f"{first}-{last}" for first, last in _runs(places)
    )


def read_places(text: str) -> tuple[int, ...]:
    """What `write_places` wrote, ascending.

    Raises:
        InputError: It is nothing that it writes.

    >>> read_places("1-3,190")
    (1, 2, 3, 190)
    """
    if bits := _BITS.fullmatch(text):
        return _of_bits(int(bits[1]), bits[2])
    if text and not _RANGES.fullmatch(text):
        raise InputError(f"{text!r} names no places: write them as '1-3,190'")
    ends = [each.partition("-") for each in text.split(",") if each]
    rows = [range(int(first), int(last or first) + 1) for first, _, last in ends]
    if sum(map(len, rows)) > MOST:
        raise InputError(f"{text!r} names more places than {MOST}, which no record has")
    return tuple(place for row in rows for place in row)


def _runs(places: Collection[int]) -> Iterator[tuple[int, int]]:
    """The first and the last of each unbroken row."""
    first = last = None
    for place in sorted(places):
        if first is None or last is None:
            first = place
        elif place > last + 1:
            yield first, last
            first = place
        last = place
    if first is not None and last is not None:
        yield first, last


def _bits(places: Collection[int]) -> str:
    """The first place, and a bit for it and each one after it, the lowest first, packed."""
    first = min(places)
    number = sum(1 << (place - first) for place in set(places))
    data = zlib.compress(number.to_bytes((number.bit_length() + 7) // 8, "little"), 9, -15)
    return f"{first}:{urlsafe_b64encode(data).decode('ascii').rstrip('=')}"


def _of_bits(first: int, data: str) -> tuple[int, ...]:
    try:
        packed = urlsafe_b64decode(data + "=" * (-len(data) % 4))
        bits = zlib.decompressobj(-15).decompress(packed, MOST // 8)
    except (ValueError, zlib.error) as error:
        raise InputError(f"{data!r} holds no places: it was not packed here") from error
    return tuple(
        first + 8 * place + bit
        for place, byte in enumerate(bits)
        for bit in range(8)
        if byte >> bit & 1
    )
