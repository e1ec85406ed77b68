"""Positions of messages as ranges: a transcript of any length takes a few numbers.

Each body of a thread has a position, counted from 0. `Ranges` are positions in the order of a transcript: a
tuple of `(start, stop)` pairs without the stop, none of them empty, and no pair continues the one before.
"""

from collections.abc import Iterable
from typing import TypeAlias

Ranges: TypeAlias = tuple[tuple[int, int], ...]


def ranges_of(positions: Iterable[int]) -> Ranges:
    """Return positions as ranges, in the order in which they are given."""
    pairs: list[tuple[int, int]] = []
    start, stop = -1, -1
    for position in positions:
        if position != stop:
            pairs.append((start, stop))
            start = position
        stop = position + 1
    return (*pairs[1:], (start, stop)) if pairs else ()


def positions_of(ranges: Ranges) -> list[int]:
    """Return the positions of ranges, in their order."""
    positions: list[int] = []
    for start, stop in ranges:
        positions += range(start, stop)
    return positions
