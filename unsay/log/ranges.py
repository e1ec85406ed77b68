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


def join(parts: Iterable[Iterable[tuple[int, int]]]) -> Ranges:
    """Return ranges one behind the other."""
    pairs: list[tuple[int, int]] = []
    for start, stop in (pair for part in parts for pair in part):
        if start >= stop:
            continue
        if pairs and pairs[-1][1] == start:
            pairs[-1] = (pairs[-1][0], stop)
        else:
            pairs.append((start, stop))
    return tuple(pairs)


def positions_of(ranges: Ranges) -> list[int]:
    """Return the positions of ranges, in their order."""
    positions: list[int] = []
    for start, stop in ranges:
        positions += range(start, stop)
    return positions


def size_of(ranges: Ranges) -> int:
    """Return how many positions ranges have."""
    return sum(stop - start for start, stop in ranges)


def index_of(ranges: Ranges, position: int) -> int | None:
    """Return how many positions come before one; `None` if it is not among the ranges."""
    count = 0
    for start, stop in ranges:
        if start <= position < stop:
            return count + position - start
        count += stop - start
    return None


def position_at(ranges: Ranges, index: int) -> int | None:
    """Return the position with so many others before it; `None` for an index below 0."""
    first, _ = split(ranges, index + 1)
    return first[-1][1] - 1 if first else None


def split(ranges: Ranges, index: int) -> tuple[Ranges, Ranges]:
    """Return the first `index` positions, and the others."""
    first, rest = list[tuple[int, int]](), list[tuple[int, int]]()
    for start, stop in ranges:
        middle = min(max(start, start + index), stop)
        index -= stop - start
        first.append((start, middle))
        rest.append((middle, stop))
    return join([first]), join([rest])


def subtract(ranges: Ranges, others: Ranges) -> Ranges:
    """Return the positions of ranges that others do not have, in the same order."""
    cuts = sorted(others)
    pairs = []
    for start, stop in ranges:
        uncut = start
        for cut_start, cut_stop in cuts:
            if uncut < cut_stop and cut_start < stop:
                pairs.append((uncut, cut_start))
                uncut = cut_stop
        pairs.append((uncut, stop))
    return join([pair] for pair in pairs)


def intersect(ranges: Ranges, others: Ranges) -> Ranges:
    """Return the positions of ranges that others have too, in the same order."""
    return subtract(ranges, subtract(ranges, others))
