"""Changed facts: numbers, names and dates that differ from what an earlier answer said.

Two sentences are compared that have almost the same other words. A value that the user's question
gives is a correction, and changes nothing. This is a hint for the judge, never a verdict.
"""

import re
from dataclasses import dataclass

from unsay.judging.vocabulary import sentences, vocabulary
from unsay.verdicts import Exchange

CHANGED = "The answer gives another number, name or date than an earlier answer."

# Share of the words beside the values that two sentences about the same thing have in common, and
# the fewest such words. Source: own choice, on sentences made by hand.
SAME_WORDS = 0.6
FEWEST_WORDS = 2

STATEMENTS = 40
"""Sentences of one answer that are compared, so that the time is bounded."""

_NUMBER = re.compile(
    r"\d+月\d+日|\d+(?:[.,:/-]\d+)*|(?<![〇一二三四五六七八九十百千万億])[〇一二三四五六七八九十百千万億]+(?=[年月日時分人円個])"
)
_NAME = re.compile(r"(?<=[a-z0-9,;:] )[A-Z][\w'-]+(?: [A-Z][\w'-]+)*|[ァ-ヶ][ァ-ヶー・]+")


@dataclass(frozen=True, slots=True)
class _Statement:
    """A sentence with values: its numbers, its names, and its other words."""

    numbers: frozenset[str]
    names: frozenset[str]
    words: frozenset[str]


def changed_facts(exchange: Exchange) -> str:
    """Return the hint `CHANGED` if the answer gives another value than an earlier answer; else "".

    Values that the question gives do not count. The judge gets the result as a hint.
    """
    earlier = [each for _, answer in exchange.earlier for each in _statements(answer)]
    if not earlier:
        return ""
    given = {*_NUMBER.findall(exchange.question), *_NAME.findall(exchange.question)}
    for said in _statements(exchange.answer):
        numbers, names = said.numbers - given, said.names - given
        for before in earlier:
            differs = _other(numbers, before.numbers) or _other(names, before.names)
            if differs and _is_same_thing(said.words, before.words):
                return CHANGED
    return ""


def _statements(text: str) -> list[_Statement]:
    """Return the first `STATEMENTS` sentences of a text that have a number or a name."""
    found: list[_Statement] = []
    for sentence in sentences(text):
        numbers, names = _NUMBER.findall(sentence), _NAME.findall(sentence)
        if numbers or names:
            rest = vocabulary(_NAME.sub(" ", _NUMBER.sub(" ", sentence)))
            found.append(_Statement(frozenset(numbers), frozenset(names), rest))
        if len(found) == STATEMENTS:
            break
    return found


def _other(values: frozenset[str], before: frozenset[str]) -> bool:
    return bool(values) and bool(before) and values.isdisjoint(before)


def _is_same_thing(words: frozenset[str], others: frozenset[str]) -> bool:
    shared = len(words & others)
    return shared >= FEWEST_WORDS and shared >= SAME_WORDS * len(words | others)
