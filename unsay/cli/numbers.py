"""The numbers that options of the command line take."""

from math import inf
from typing import Any

import click


class Number(click.FloatRange):
    """Click's type for a number from `least` to `most`; `None` for `most` is no upper bound."""

    def __init__(self, kind: type[int | float], *, least: int, most: int | None = None) -> None:
        super().__init__(least, most)
        self._kind, self._least, self._most = kind, least, most

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | float:
        """Return the number; `UsageError` names the option and the value that it does not take."""
        noun = "a whole number" if self._kind is int else "a number"
        bounds = (
            f"{self._least} or more" if self._most is None else f"{self._least} to {self._most}"
        )
        option = param.opts[0] if param else "The number"
        try:
            number = self._kind(value)
        except ValueError:
            raise click.UsageError(f"{option} must be {noun}, got {value!r}.", ctx) from None
        if not self._least <= number <= (inf if self._most is None else self._most):
            raise click.UsageError(f"{option} must be {bounds}, got {value}.", ctx)
        return number


COUNT = Number(int, least=1)
SHARE = Number(float, least=0, most=1)
COST = Number(float, least=0)
