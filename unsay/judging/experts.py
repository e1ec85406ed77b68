"""Experts: small fitted models that estimate how likely an answer is bad in one way.

Each is a sum of small decision trees over `measures`, shipped as numbers in `experts.json`. An
expert is never certain: its doubt is a hint for the judge, and where no judge is asked it leaves the
answer unscored.
"""

from collections.abc import Collection, Mapping, Sequence
from math import exp
from typing import Any

from unsay.judging.measures import TABLES, measures
from unsay.judging.vocabulary import JAPANESE
from unsay.verdicts import Exchange, LocalCheck

HINT_FROM = 0.5  # doubt from which the judge gets a hint

# A tree is the log-odds that it adds, or `[place of a measure, bound, tree up to it, tree over it]`.
Tree = float | Sequence[Any]


def doubts(exchange: Exchange, checks: Collection[LocalCheck]) -> Mapping[LocalCheck, float]:
    """Return how likely an answer is bad, from 0 to 1, by each of the `checks` with an expert.

    For an empty answer the result is empty. The scale depends on the language: hardly any good
    answer of the data that it was fitted to reaches `HINT_FROM`.
    """
    asked = {check: expert for check, expert in TABLES["experts"].items() if check in checks}
    if not asked or not exchange.answer.strip():
        return {}
    found = measures(exchange)
    language = "ja" if JAPANESE.search(exchange.question + exchange.answer) else "en"
    return {check: _doubt(expert, found, language) for check, expert in asked.items()}


def _doubt(expert: Mapping[str, Any], found: Mapping[str, float], language: str) -> float:
    values = [found[name] for name in expert["measures"]]
    log_odds = expert["bias"] + sum(_value(tree, values) for tree in expert["trees"])
    return 1 / (1 + exp(expert["hint_from"][language] - log_odds))


def _value(tree: Tree, values: Sequence[float]) -> float:
    while not isinstance(tree, int | float):
        place, bound, low, high = tree
        tree = low if values[place] <= bound else high
    return tree
