"""Sort the codes before and at a position into kinds that predict a token boundary."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from unsay.tokens.estimate import DISTANCES

KINDS = 16
"""Kinds of each side."""

ROUNDS = 16
"""How often each side is sorted again."""

TRIES = 4
"""From how many beginnings."""

PRIOR = 30
"""As how many places of it a character is taken to behave as its group does, besides its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Places of texts, one text after the other."""

    codes: Any
    """The codes at each position, from 0."""

    boundaries: Any
    """How many tokens begin there."""

    weights: Any
    """How much each counts; all together 1."""

    starts: Any
    """Where texts begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """Tables of all steps, and chances."""

    tables: list[Any]
    """For each step and code, the kind before in the high four bits, that after in the low."""

    chances: Any
    """Of a cut, by the code that the last step gives."""

    def at(self, codes: Any) -> Any:
        """The chances at each place of a text, none at the first."""
        for table, reach in zip(self.tables, DISTANCES, strict=True):
            kinds = table[codes]
            codes = _before(kinds >> 4, reach) << 4 | kinds & 15
        chances = self.chances[codes]
        chances[0] = 0
        return chances


def places(parts: Iterable[tuple[Any, Any, float]]) -> Places:
    """Lay texts' codes, cuts and weights one after the other."""
    rows = list(parts)
    lengths = [len(codes) for codes, _, _ in rows]
    weights = np.repeat([weight for _, _, weight in rows], lengths)
    return Places(
        codes=np.concatenate([codes for codes, _, _ in rows]),
        boundaries=np.concatenate([boundaries for _, boundaries, _ in rows]),
        weights=weights / weights.sum(),
        starts=np.cumsum([0, *lengths[:-1]]),
    )


def learn(seen: Places, size: int, groups: Any = None) -> Learned:
    """Learn all steps.

    Args:
        seen: Places of texts.
        size: How many codes there are.
        groups: For each code its group's number, which tells how a rare one behaves.
    """
    tables, codes = [], seen.codes
    for reach in DISTANCES:
        inside = np.ones(len(codes), bool)
        for place in range(reach):
            inside[np.minimum(seen.starts + place, len(codes) - 1)] = False
        before = _before(codes, reach)
        sums = [np.zeros((size, size)), np.zeros((size, size))]
        at = (before[inside], codes[inside])
        np.add.at(sums[0], at, seen.weights[inside])
        np.add.at(sums[1], at, (seen.weights * seen.boundaries)[inside])
        table = sort(*sums, groups, seen.weights[seen.weights > 0].mean())
        kinds = table[codes]
        high = _before(kinds >> 4, reach)
        high[~inside] = 0
        codes, size, groups = high << 4 | kinds & 15, 256, None
        tables.append(table)
    number = np.bincount(codes, seen.weights, 256) + 1e-7
    boundary = np.bincount(codes, seen.weights * seen.boundaries, 256)
    return Learned(tables=tables, chances=(boundary + 1e-7 * boundary.sum()) / number)


def _before(codes: Any, reach: int) -> Any:
    """Return the codes some positions earlier; 0 before the beginning."""
    return np.concatenate([np.zeros(reach, codes.dtype), codes])[: len(codes)]


def sort(number: Any, boundary: Any, groups: Any, one: float) -> Any:
    """Sort codes into kinds, once as the code before and once as the code at a position.

    Args:
        number: How often each code comes before each.
        boundary: How often there is a cut between.
        groups: As `learn` takes them.
        one: What one place counts.
    """
    sides = [(number, boundary), (number.T, boundary.T)]
    if groups is not None:
        sides = [tuple(_smoothed(each, groups, one, side[0]) for each in side) for side in sides]
    tried = [
        _sorted(sides, np.random.default_rng(seed), 0.1 if seed else 0.01) for seed in range(TRIES)
    ]
    kinds = min(tried, key=lambda kinds: _loss(number, boundary, kinds))
    return (kinds[0] << 4 | kinds[1]).astype(np.uint8)


def _smoothed(sums: Any, groups: Any, one: float, number: Any) -> Any:
    """Sums, with `PRIOR` places of its group's for each code."""
    belongs = np.eye(groups.max() + 1)[:, groups]
    all_places = np.maximum((belongs @ number).sum(1, keepdims=True), 1e-15)
    return sums + PRIOR * one * ((belongs @ sums) / all_places)[groups]


def _sorted(sides: Any, random: Any, jitter: float) -> list[Any]:
    kinds = [_first(*side, random, jitter) for side in sides]
    for _ in range(ROUNDS):
        for side, (number, boundary) in enumerate(sides):
            other = np.eye(KINDS)[kinds[1 - side]]
            own = np.eye(KINDS)[kinds[side]]
            near, boundaries = number @ other, boundary @ other
            mean = _ratio(own.T @ boundaries, own.T @ near, boundary.sum() / number.sum())
            kinds[side] = (near @ (mean**2).T - 2 * boundaries @ mean.T).argmin(1)
    return kinds


def _first(number: Any, boundary: Any, random: Any, jitter: float) -> Any:
    """Kinds to begin with: codes in the order of their chances, in parts that weigh alike."""
    weight = number.sum(1) + 1e-12
    chance = _ratio(boundary.sum(1), number.sum(1), 0.5) + random.normal(0, jitter, len(number))
    order = chance.argsort()
    share = weight[order].cumsum() / weight.sum()
    kinds = np.zeros(len(number), int)
    kinds[order] = np.minimum((share * KINDS).astype(int), KINDS - 1)
    return kinds


def _loss(number: Any, boundary: Any, kinds: list[Any]) -> float:
    """How badly two kinds tell a cut; only what differs between sortings."""
    own, other = (np.eye(KINDS)[each] for each in kinds)
    boundaries, near = own.T @ boundary @ other, own.T @ number @ other
    return -float((boundaries * _ratio(boundaries, near, 0.0)).sum())


def _ratio(part: Any, whole: Any, empty: float) -> Any:
    return np.where(whole > 0, part / np.maximum(whole, 1e-15), empty)
