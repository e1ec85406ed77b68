"""Changed facts: numbers, names and dates that differ from what an earlier answer said.

Two sentences are compared that have almost the same other words. A value that the user's question
gives is a correction, and changes nothing. This is a hint for the judge, never a verdict.
"""

import re

from unsay.judging.vocabulary import sentences, vocabulary
from unsay.verdicts import Exchange

CHANGED = "The answer gives another number, name or date than an earlier answer."

# Share of the words beside the values that two sentences about the same thing have in common, and
# the fewest such words. Source: own choice, on sentences made by hand.
SAME_WORDS = 0.6
FEWEST_WORDS = 2

_KINDS = ("number", "name")
_NUMBER = re.compile(
    r"\d+月\d+日|\d+(?:[.,:/-]\d+)*|[〇一二三四五六七八九十百千万億]+(?=[年月日時分人円個])"
)
_NAME = re.compile(r"(?<=[a-z0-9,;:] )[A-Z][\w'-]+(?: [A-Z][\w'-]+)*|[ァ-ヶ][ァ-ヶー・]+")


def changed_facts(exchange: Exchange) -> str:
    """Return `CHANGED` if the answer contradicts an earlier one in a value; otherwise empty."""
    known = _values(exchange.question)
    said = [s for _, answer in exchange.earlier for s in sentences(answer) if _values(s)]
    for sentence in sentences(exchange.answer) if said else ():
        values = _values(sentence) - known
        if values and any(_contradicts(sentence, values, earlier) for earlier in said):
            return CHANGED
    return ""


def _contradicts(sentence: str, values: set[str], earlier: str) -> bool:
    """Return whether a sentence has other values of the same kind than an earlier one like it."""
    before = _values(earlier)
    pairs = [(_of_kind(values, kind), _of_kind(before, kind)) for kind in _KINDS]
    if not any(new and old and new.isdisjoint(old) for new, old in pairs):
        return False
    words, others = _frame(sentence), _frame(earlier)
    shared = words & others
    return len(shared) >= FEWEST_WORDS and len(shared) >= SAME_WORDS * len(words | others)


def _values(text: str) -> set[str]:
    return {*_NUMBER.findall(text), *_NAME.findall(text)}


def _of_kind(values: set[str], kind: str) -> set[str]:
    return {value for value in values if _kind(value) == kind}


def _kind(value: str) -> str:
    return "number" if _NUMBER.fullmatch(value) else "name"


def _frame(text: str) -> frozenset[str]:
    """Return the words of a sentence beside its values."""
    return vocabulary(_NAME.sub(" ", _NUMBER.sub(" ", text)))
