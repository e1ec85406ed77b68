"""Which cases of a long table the default tier runs."""

from collections.abc import Iterable
from typing import Any

import pytest

_ROW = type(pytest.param(None))


def sampled(table: Iterable[Any], *, every: int, full: int = 1) -> list[Any]:
    """Return a table of `pytest.mark.parametrize` with one of `every` rows in the default tier.

    Of the other rows one of `full` is in the full tier, and the rest are in the nightly one.
    A row is a value, a tuple of values or a `pytest.param`.
    """
    rows = []
    for number, item in enumerate(table):
        if isinstance(item, _ROW):
            row = item
        else:
            row = pytest.param(*item) if isinstance(item, tuple) else pytest.param(item)
        tier = _tier(number, every, full)
        rows.append(pytest.param(*row.values, marks=[*row.marks, *tier], id=row.id))
    return rows


def _tier(number: int, every: int, full: int) -> list[pytest.MarkDecorator]:
    if number % every == 0:
        return []
    return [pytest.mark.full if number % full == 0 else pytest.mark.nightly]
