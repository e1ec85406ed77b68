"""Which cases of a long table the default tier runs."""

from collections.abc import Iterable
from typing import Any

import pytest

_ROW = type(pytest.param(None))


def sampled(table: Iterable[Any], *, every: int) -> list[Any]:
    """Return a table of `pytest.mark.parametrize` with one of `every` rows in the default tier.

    The other rows are in the full tier. A row is a value, a tuple of values or a `pytest.param`.
    """
    rows = []
    for number, given in enumerate(table):
        if isinstance(given, _ROW):
            row = given
        else:
            row = pytest.param(*given) if isinstance(given, tuple) else pytest.param(given)
        marks = row.marks if number % every == 0 else [*row.marks, pytest.mark.full]
        rows.append(pytest.param(*row.values, marks=marks, id=row.id))
    return rows
