"""What calls beside the answers used, added up by purpose."""

from collections.abc import Mapping
from typing import TypedDict

from unsay.budget.pricing import Amount, Usage


class Tally(TypedDict):
    """What the calls of one purpose used: tokens, and the cost in millionths of a currency."""

    input: int
    output: int
    total: int
    micros: int


def tally_of(usage: Usage, amount: Amount) -> Tally:
    """What one call used."""
    return Tally(
        input=amount.tokens - usage.output,
        output=usage.output,
        total=amount.tokens,
        micros=amount.micros,
    )


def merged(one: Mapping[str, Tally], other: Mapping[str, Tally]) -> dict[str, Tally]:
    """Both together, purpose by purpose."""
    none = Tally(input=0, output=0, total=0, micros=0)
    return {
        purpose: _sum(one.get(purpose, none), other.get(purpose, none))
        for purpose in {**one, **other}
    }


def _sum(one: Tally, other: Tally) -> Tally:
    return Tally(
        input=one["input"] + other["input"],
        output=one["output"] + other["output"],
        total=one["total"] + other["total"],
        micros=one["micros"] + other["micros"],
    )
