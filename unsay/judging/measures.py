"""What the experts know about an exchange: numbers about its words, its ending and its repetitions.

The words are those of `vocabulary.units`. A word that few conversations have tells more about the
subject, so words count by their rarity. Shares and likenesses are from 0 to 1; -1 means that there
was nothing to measure.
"""

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import exp
from pathlib import Path
from typing import Any

from unsay.judging.vocabulary import (
    FENCED,
    ITEM,
    JAPANESE,
    beginning,
    is_casual,
    known_terms,
    normal,
    patterns,
    sentences,
    similarity,
    squeezed,
    stops_short,
    units,
    width,
    without_copies,
)
from unsay.protocols import Exchange, LocalCheck

HINT_FROM = 0.5  # doubt from which the judge gets a hint

# A tree is the log-odds that it adds, or `[place of a measure, bound, tree up to it, tree over it]`.
Tree = float | Sequence[Any]


def doubts(exchange: Exchange, checks: Collection[LocalCheck]) -> Mapping[LocalCheck, float]:
    """Return how likely an answer is bad, from 0 to 1, by each of the `checks` with an expert.

    For an empty answer the result is empty. The scale depends on the language: hardly any good
    answer of the data that it was fitted to reaches `HINT_FROM`.
    """
    experts = {check: expert for check, expert in TABLES["experts"].items() if check in checks}
    if not experts or not exchange.answer.strip():
        return {}
    measure_values = measures(exchange)
    language = "ja" if JAPANESE.search(exchange.question + exchange.answer) else "en"
    return {check: _doubt(expert, measure_values, language) for check, expert in experts.items()}


def _doubt(expert: Mapping[str, Any], found: Mapping[str, float], language: str) -> float:
    values = [found[name] for name in expert["measures"]]
    log_odds = expert["bias"] + sum([_value(tree, values) for tree in expert["trees"]])
    return 1 / (1 + exp(expert["hint_from"][language] - log_odds))


def _value(tree: Tree, values: Sequence[float]) -> float:
    while not isinstance(tree, int | float):
        place, bound, low, high = tree
        tree = low if values[place] <= bound else high
    return tree


# Fitted by `benchmarks/fit_experts.py`; the file names its sources and their licences.
TABLES = json.loads(Path(__file__).with_name("experts.json").read_text("utf-8"))
RARITY: Mapping[str, float] = TABLES["rarity"]  # of common words; `UNCOMMON` is that of all others
UNCOMMON: float = TABLES["uncommon"]

READ = 600  # letters of a text whose likeness to another is measured
READ_AGAIN = 1_500  # the same for repetitions, which are long
ROW_WIDTH = 12  # width from which a line shows whether its kind ends with stops
ANSWER_WIDTH = 16  # width from which an answer does
LEAST_WIDTH = 30  # width from which an answer can stop short

_ALIKE = 0.8  # what a word counts if only one with the same beginning is known
_BUDGET = 400  # words whose pairs are compared

_PATTERNS = patterns("measures")
_NAME = re.compile(r"(?<![.!?:\n]\s)(?<!\A)\b[A-Z][a-z]{2,}")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")

# How much of the end of a line is read: a line of stops alone would be read once for each stop.
ENDING_CHARS = 80
_STOP = re.compile(r"[.!?。！？…]\W*\Z")
# Kinds of a last character, from a sure end to a sure interruption.
_LAST_KINDS = (".!?。！？…", ")]}）」』】\"'”’`*_|>")
_OPENING = ",、，:：;；(（「『[{-–—=+/&"
_PAIRS = (("(", ")"), ("[", "]"), ("{", "}"), ("（", "）"), ("「", "」"), ("『", "』"))
_MARKS = ('"', "**", "`", "$")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    weights: Mapping[str, float]  # of each distinct word
    known: frozenset[str]  # the words, their parts and beginnings, by which another text meets them


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shared:
    share: float  # of the weight of a text's words, that another text has too
    best: float  # weight of the heaviest shared word


def measures(exchange: Exchange) -> dict[str, float]:
    """Return all measurements of an exchange by their names; an expert uses some of them.

    Sentences that the answer copies from the question do not count for its subject and manner.
    """
    own = replace(exchange, answer=without_copies(exchange.question, exchange.answer))
    return {**_subject(own), **_manner(own), **_ending(exchange), **_repeated(exchange)}


def _subject(exchange: Exchange) -> dict[str, float]:
    question, answer = _words(exchange.question), _words(exchange.answer)
    newest = exchange.earlier[-1] if exchange.earlier else ("", "")
    last = _known(newest)
    older = _known([text for pair in exchange.earlier[:-1] for text in pair])
    thread = question.known | last | older
    opening = _words(next(iter(sentences(exchange.answer)), ""))
    question_overlap = _shared(question, answer.known)
    answer_overlap = _shared(answer, question.known)
    from_last, from_thread = _shared(answer, last), _shared(answer, thread)
    return {
        "question_in_answer": question_overlap.share,
        "question_in_answer_best": question_overlap.best,
        "answer_in_question": answer_overlap.share,
        "answer_in_last": from_last.share,
        "answer_in_last_best": from_last.best,
        "answer_in_older": _shared(answer, older).share,
        "answer_in_thread": from_thread.share,
        "answer_in_thread_best": from_thread.best,
        "question_in_last": _shared(question, last).share,
        "question_in_older": _shared(question, older).share,
        "opening_in_question": _shared(opening, question.known).share,
        "opening_in_thread": _shared(opening, thread).share,
        "asked": math.log1p(sum(question.weights.values())),
        "said": math.log1p(sum(answer.weights.values())),
    }


def _manner(exchange: Exchange) -> dict[str, float]:
    question, answer = normal(exchange.question), normal(exchange.answer)
    thread = " ".join([question, *(normal(text) for pair in exchange.earlier for text in pair)])
    names = {name.lower() for name in _NAME.findall(exchange.answer)}
    letters = [squeezed(text)[:READ] for text in (question, answer)]
    return {
        "japanese": _has(JAPANESE, question),
        "earlier": float(len(exchange.earlier)),
        "length": math.log1p(width(answer)),
        "question_length": math.log1p(width(question)),
        "like_question": similarity(*letters) if all(letters) else 0.0,
        "new_names": sum(name not in thread for name in names) / len(names) if names else -1.0,
        "numbers": float(len(set(_NUMBER.findall(answer)))),
        "closed": _has(_PATTERNS["closed"], question) - _has(_PATTERNS["affirms"], answer),
        "refers": _has(_PATTERNS["refers"], answer),
        "why": _has(_PATTERNS["why"], question) + 2 * _has(_PATTERNS["because"], answer),
        "doubt": _has(_PATTERNS["doubts"], question) + 2 * _has(_PATTERNS["apologizes"], answer),
        "rework": _has(_PATTERNS["reworks"], question),
        "writes": _has(_PATTERNS["writes"], question),
        "hearer": _has(_PATTERNS["hearer"], question) + 2 * _has(_PATTERNS["speaker"], answer),
        "speaker": _has(_PATTERNS["speaker"], question) + 2 * _has(_PATTERNS["hearer"], answer),
    }


def _ending(exchange: Exchange) -> dict[str, float]:
    answer = exchange.answer.rstrip()
    plain = FENCED.sub("\n```\n", answer)
    lines = [line.strip() for line in plain.splitlines() if line.strip()] or [""]
    last, parts = lines[-1], [width(part) for part in sentences(plain)] or [0]
    item = ITEM.match(last) is not None
    alike = [
        line
        for line in lines[:-1]
        if (ITEM.match(line) is not None) == item and width(line) >= ROW_WIDTH
    ]
    earlier = [text.rstrip() for _, text in exchange.earlier if width(text) >= ANSWER_WIDTH]
    before = sorted(parts[:-1])
    usual = before[len(before) // 2] if before else parts[-1]
    return {
        "last_kind": _kind(answer[-1:]),
        "stops_short": float(stops_short(answer, enough=LEAST_WIDTH)),
        "needs_more": _has(_PATTERNS["needs_more"], last.lower()),
        "japanese_end": _has(_PATTERNS["japanese_end"], last),
        "casual": float(is_casual(exchange)),
        "item": float(item),
        "alike": float(len(alike)),
        "alike_end": _ended(alike),
        "earlier_end": _ended(earlier),
        "lines": float(len(lines)),
        "sentences": float(len(parts)),
        "last_length": math.log1p(parts[-1]),
        "last_over_usual": math.log((1 + parts[-1]) / (1 + usual)),
        "open_pairs": float(sum(answer.count(a) > answer.count(b) for a, b in _PAIRS)),
        "odd_marks": float(sum(answer.count(mark) % 2 for mark in _MARKS)),
        "open_formula": float(
            any(answer.count(f"\\{a}") > answer.count(f"\\{b}") for a, b in _PAIRS[:2])
        ),
        "capital": float(last[:1].isupper()),
    }


def _repeated(exchange: Exchange) -> dict[str, float]:
    """Return how much the answer repeats the question and the earlier answer most like it, by name.

    Without an earlier answer, all that compares with one is 0.
    """
    question, answer = normal(exchange.question), normal(exchange.answer)
    letters, runs = squeezed(answer)[:READ_AGAIN], _runs(answer)
    comparisons = [
        (
            similarity(letters, squeezed(normal(earlier_answer))[:READ_AGAIN]),
            _held(runs, earlier_answer),
            earlier_question,
            place,
        )
        for place, (earlier_question, earlier_answer) in enumerate(
            exchange.earlier, 1 - len(exchange.earlier)
        )
    ]
    like, repeated_share, earlier_question, place = max(
        comparisons, key=lambda row: row[0] + row[1], default=(0.0, 0.0, "", -1)
    )
    return {
        "like_earlier": like,
        "held_earlier": repeated_share,
        "same_question": similarity(
            squeezed(normal(earlier_question))[:READ], squeezed(question)[:READ]
        ),
        "newest": float(place == 0),
        "held_question": _held(runs, question),
        "runs": math.log1p(len(runs)),
        "again": _has(_PATTERNS["again"], question),
    }


@lru_cache(maxsize=64)
def _words(text: str) -> _Words:
    weights = {
        unit.whole: RARITY.get(unit.whole, UNCOMMON) * (unit.weight if unit.parts else 1.0)
        for unit in units(text)
    }
    return _Words(weights=weights, known=known_terms(text))


def _known(texts: Sequence[str]) -> frozenset[str]:
    return frozenset[str]().union(*(_words(text).known for text in texts))


def _shared(words: _Words, known: frozenset[str]) -> _Shared:
    met = [weight * _met(word, known) for word, weight in words.weights.items()]
    total = sum(words.weights.values())
    return _Shared(share=sum(met) / total if total else 0.0, best=max(met, default=0.0))


def _met(word: str, known: frozenset[str]) -> float:
    if word in known:
        return 1.0
    if word.isascii():
        return _ALIKE * (beginning(word) in known)
    pairs = [word[start : start + 2] for start in range(len(word) - 1)]
    return sum(pair in known for pair in pairs) / len(pairs) if pairs else 0.0


def _runs(text: str) -> list[str]:
    """Return each pair of adjacent words; for Japanese, each three adjacent characters.

    One word alone is returned as it is. Empty for a shorter text.
    """
    if JAPANESE.search(text):
        letters = squeezed(text)[:READ_AGAIN]
        return [letters[start : start + 3] for start in range(len(letters) - 2)]
    words = re.findall(r"\w+", text)[:_BUDGET]
    return [" ".join(words[start : start + 2]) for start in range(len(words) - 1)] or words


def _held(runs: Sequence[str], text: str) -> float:
    text_runs = set(_runs(normal(text)))
    return sum([run in text_runs for run in runs]) / len(runs) if runs else 0.0


def _ended(texts: Sequence[str]) -> float:
    ended = sum(_STOP.search(text[-ENDING_CHARS:]) is not None for text in texts)
    return ended / len(texts) if texts else -1.0


def _kind(last: str) -> float:
    if not last:
        return -1.0
    for kind, characters in enumerate(_LAST_KINDS):
        if last in characters:
            return float(kind)
    if last in _OPENING:
        return 6.0
    if last.isdigit():
        return 3.0
    if "ぁ" <= last <= "ゟ":
        return 4.0
    return 5.0 if last.isalpha() else 2.0


def _has(pattern: re.Pattern[str], text: str) -> float:
    return float(pattern.search(text) is not None)
