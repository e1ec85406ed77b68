"""How much each message bears on a question.

Words first: BM25, spread over neighbours, because an answer often stands next to
the words that were asked for. Then who spoke, how much a message says, and, where
vectors are given, what it means.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import log

from unsay.context.recall_index import RecallIndex
from unsay.context.recall_terms import Query, query_of, terms

SATURATION = 1.2
"""BM25's k1. Source: Robertson and Zaragoza 2009, chapter 3."""

LENGTH_SHARE = 0.6
"""BM25's b: how far a long message must have a term more often. Source: own measurement."""

KERNEL = (0.25, 0.5, 1.0, 0.25, 0.12)
"""What a message gets of the scores of the two before it, of its own, and of the two after it.

Source: own measurement; half of the one before and a quarter of the one after is the
usual rule, and with two people speaking in turn the one before last is the same speaker.
"""

SURROUNDINGS = 8
"""So many messages to either side are the surroundings, whose mean score a message gets as well."""

SPEAKER_SHARE = 0.35
"""What a message gets for its speaker, as a share of what a word is worth that one message has."""

SUBSTANCE_SHARE = 0.17
"""What a message of mean substance gets for it, as such a share; greetings get next to nothing."""

KINDS = frozenset({"human", "ai", "tool", "system", "remove", "chat", "function"})
"""What stands for a speaker who has no name."""

_FIRST_PERSON = re.compile(r"\b(?:i|my|mine|myself)\b|私|僕|俺|うちの", re.IGNORECASE)
_SECOND_PERSON = re.compile(
    r"\b(?:you (?:said|told|suggested|recommended|wrote|gave|mentioned)|did you|have you|your)\b"
    r"|あなた|君[がのは]",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """What is known of every indexed message, by its place."""

    query: Query
    """What was looked for."""

    words: Sequence[float]
    """What its words and its neighbours' are worth; 0 where nothing near it has any."""

    total: Sequence[float]
    """By this the messages are chosen."""

    bears: bool
    """Whether any message has a word that was looked for, or its speaker's name was asked."""


def ranked(question: str, index: RecallIndex) -> Ranking:
    """Rank the indexed messages by a question's words.

    Source:
        Robertson and Zaragoza 2009 (BM25).
    """
    people = {name: frozenset(terms(name)) for name in set(index.speakers) - KINDS}
    asked = frozenset(terms(question))
    persons = {name for name, parts in people.items() if asked & parts}
    query = query_of(question, names=frozenset().union(*people.values()))
    own = bm25(query, index)
    words = spread(own)
    speakers = persons | kinds_meant(question)
    unit = rarity(1, len(index))
    mean = sum(index.substance) / max(len(index), 1) or 1.0
    total = [
        worth
        + unit * SPEAKER_SHARE * (speaker in speakers)
        + unit * SUBSTANCE_SHARE * substance / mean
        for worth, speaker, substance in zip(words, index.speakers, index.substance, strict=True)
    ]
    return Ranking(query=query, words=words, total=total, bears=any(own) or bool(persons))


def kinds_meant(question: str) -> set[str]:
    """Whose words a question means by `I` and `you`, as kinds of messages."""
    meant = {"human": _FIRST_PERSON, "ai": _SECOND_PERSON}
    return {kind for kind, pattern in meant.items() if pattern.search(question)}


def rarity(having: int, among: int) -> float:
    """What a term tells that so many of the messages have (BM25's idf, never below 0)."""
    return log(1 + (among - having + 0.5) / (having + 0.5))


def bm25(query: Query, index: RecallIndex) -> list[float]:
    """What each message's own words are worth."""
    scores = [0.0] * len(index)
    lengths = index.lengths
    mean = sum(lengths) / max(len(index), 1) or 1.0
    for term, weight in query.weights.items():
        places = index.found(term)
        worth = weight * rarity(len(places), len(index)) * (SATURATION + 1)
        for place, times in places:
            longer = 1 - LENGTH_SHARE + LENGTH_SHARE * lengths[place] / mean
            scores[place] += worth * times / (times + SATURATION * longer)
    return scores


def spread(scores: Sequence[float]) -> list[float]:
    """Scores with what each message gets of those around it."""
    edge = [0.0] * (len(KERNEL) // 2)
    padded = [*edge, *scores, *edge]
    neighbours = zip(*(padded[offset:] for offset in range(len(KERNEL))), strict=False)
    wide = [0.0] * SURROUNDINGS
    sums = [0.0, *accumulate([*wide, *scores, *wide])]
    width = 2 * SURROUNDINGS + 1
    around = (max(0.0, last - first) for first, last in zip(sums, sums[width:], strict=False))
    two_before, before, own, after, two_after = KERNEL
    return [
        two_before * a + before * b + own * c + after * d + two_after * e + total / width
        for (a, b, c, d, e), total in zip(neighbours, around, strict=True)
    ]
