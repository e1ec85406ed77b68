"""Fit `unsay/judging/experts.json`: `python benchmarks/fit_experts.py FILE… > experts.json`.

Each FILE is one of `SOURCES` in the format of `judging.py`, with `"set": "train"` or `"dev"` per
line. Only train parts are used; a source that has none is used whole. Answers as they are count as
good, and answers that `judging.py` would corrupt as bad.

Each expert is fitted five times without a fifth of the questions, and its hints begin where those
five fits leave the allowed share of good answers: no answer is scored by a fit that has seen it.
"""

import argparse
import json
import math
import random
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from answers import Case, cases, dropped
from trees import Forest

from unsay.judging import measures
from unsay.judging.vocabulary import units
from unsay.protocols import Exchange

MEASURES = {
    "off_topic": [
        "japanese",
        "question_in_answer",
        "question_in_answer_best",
        "answer_in_question",
        "answer_in_last",
        "answer_in_last_best",
        "answer_in_thread",
        "answer_in_thread_best",
        "question_in_last",
        "question_in_older",
        "answer_in_older",
        "opening_in_question",
        "opening_in_thread",
        "like_question",
        "asked",
        "said",
        "length",
        "question_length",
        "new_names",
        "numbers",
        "closed",
        "refers",
        "hearer",
        "speaker",
        "why",
        "like_earlier",
    ],
    "truncation": [
        "japanese",
        "last_kind",
        "stops_short",
        "needs_more",
        "japanese_end",
        "casual",
        "item",
        "alike",
        "alike_end",
        "earlier_end",
        "lines",
        "sentences",
        "last_length",
        "last_over_usual",
        "open_pairs",
        "odd_marks",
        "open_formula",
        "capital",
        "length",
        "earlier",
        "writes",
        "rework",
    ],
    "repetition": [
        "japanese",
        "like_earlier",
        "held_earlier",
        "same_question",
        "newest",
        "held_question",
        "runs",
        "question_in_answer",
        "answer_in_question",
        "length",
        "again",
        "doubt",
    ],
}
"""What each expert measures."""

ALARMS = {"off_topic": 0.005, "truncation": 0.004, "repetition": 0.004}
"""Share of the good answers of an assistant about which an expert may give a hint."""

CHAT_ALARMS = 0.01
"""The same of a source of small talk or reservations, where answers share fewer words."""

FEWEST = 6
"""Exchanges that must have a word for it to get a rarity of its own."""

STRAYS = 4
"""Answers to other questions that each question gets as a bad answer."""

FOLDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a file is from."""

    origin: str
    licence: str
    weight: float
    alarms: float | None = None
    """`None` for an assistant, which has `ALARMS`."""


SOURCES = {
    "topic_mtb101": Source(origin="mtbench101/mt-bench-101", licence="Apache-2.0", weight=1.0),
    "topic_mtja": Source(
        origin="MT-Bench-ja in sbintuitions/flexeval", licence="Apache-2.0", weight=0.5
    ),
    "topic_tiage": Source(origin="HuiyuanXie/tiage", licence="MIT", weight=0.3, alarms=CHAT_ALARMS),
    "topic_jmwoz": Source(
        origin="llm-jp/JMultiWOZ-TC", licence="CC BY 4.0", weight=0.3, alarms=CHAT_ALARMS
    ),
}
"""The files that may be used, by stem: weights may be shipped only where every licence allows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One answer, good or bad."""

    source: str
    group: str
    """Questions of one group are in one fold."""

    kind: str
    """`good`, or the expert that should notice it."""

    found: dict[str, float]


def read(path: Path) -> list[Case]:
    """Return the answers of a file's train part, or of the whole file if it has none."""
    with path.open(encoding="utf-8") as lines:
        parts = {str(row["id"]): row.get("set") for row in map(json.loads, lines)}
    found = list(cases(path))
    return [case for case in found if parts[case.talk] == "train"] or found


def rows(source: str, answers: Sequence[Case], chance: random.Random) -> Iterable[Row]:
    """Return the answers of a source, good as they are and bad in each way."""
    groups = grouped(answers)
    for case in answers:
        given = case.exchange
        bad = [*strays(case, answers, chance), *repetitions(given, case.language, chance)]
        bad += truncations(given, case.language, chance)
        for kind, answer in [("good", given.answer), *bad]:
            found = measures.measures(replace(given, answer=answer))
            yield Row(source=source, group=groups[given.question], kind=kind, found=found)


def grouped(answers: Sequence[Case]) -> dict[str, str]:
    """Return each question's group: a follow-up is in the group of the only question before it."""
    before: dict[str, set[str]] = {}
    for case in answers:
        asked = [question for question, _ in case.exchange.earlier]
        before.setdefault(case.exchange.question, set()).add(asked[-1] if asked else "")
    repeated = Counter(case.exchange.question for case in answers)
    groups = {}
    for question, earlier in before.items():
        follows = len(earlier) == 1 and repeated[question] > 1
        groups[question] = next(iter(earlier)) if follows else question
    return groups


def strays(case: Case, answers: Sequence[Case], chance: random.Random) -> Iterable[tuple[str, str]]:
    """Return answers to other questions of other conversations."""
    own = {case.exchange.answer, *(answer for _, answer in case.exchange.earlier)}
    others = [chance.choice(answers) for _ in range(STRAYS + 6)]
    fitting = [
        other.exchange.answer
        for other in others
        if other.talk != case.talk
        and other.exchange.question != case.exchange.question
        and other.exchange.answer not in own
    ]
    return [("off_topic", answer) for answer in fitting[:STRAYS]]


def repetitions(given: Exchange, language: str, chance: random.Random) -> Iterable[tuple[str, str]]:
    """Return the answer before it, whole and with words missing."""
    if not given.earlier:
        return []
    newest, any_one = given.earlier[-1][1], chance.choice(given.earlier)[1]
    return [
        ("repetition", newest),
        ("repetition", dropped(newest, language, every=10, start=chance.randrange(10))),
        ("repetition", dropped(any_one, language, every=chance.choice((6, 8, 12, 20)), start=1)),
    ]


def truncations(given: Exchange, language: str, chance: random.Random) -> Iterable[tuple[str, str]]:
    """Return two beginnings of an answer that is long enough."""
    answer = given.answer
    if len(answer) < (40 if language == "ja" else 80):
        return []
    kept = [0.6, chance.uniform(0.3, 0.95)]
    return [("truncation", answer[: int(len(answer) * share)]) for share in kept]


def rarity(answers: Sequence[Case]) -> tuple[dict[str, float], float]:
    """Return the rarity of each common word, and that of all others."""
    counts: Counter[str] = Counter()
    for case in answers:
        text = f"{case.exchange.question}\n{case.exchange.answer}"
        counts.update({unit.whole for unit in units(text)})
    common = {word: count for word, count in sorted(counts.items()) if count >= FEWEST}
    return (
        {word: round(math.log(len(answers) / count), 2) for word, count in common.items()},
        round(math.log(len(answers) / (FEWEST / 2)), 2),
    )


def expert(check: str, given: Sequence[Row]) -> dict[str, Any]:
    """Return a fitted expert as JSON values."""
    used = [row for row in given if row.kind in ("good", check)]
    values = np.array([[row.found[name] for name in MEASURES[check]] for row in used])
    bad = np.array([row.kind == check for row in used], float)
    weights = balanced(used, bad)
    names = sorted({row.group for row in used})
    random.Random(1).shuffle(names)
    fold_of = {name: place % FOLDS for place, name in enumerate(names)}
    folds = np.array([fold_of[row.group] for row in used])
    unseen = np.zeros(len(used))
    for fold in range(FOLDS):
        kept = folds != fold
        fitted = Forest.fit(values[kept], bad[kept], weights[kept])
        unseen[~kept] = fitted.log_odds(values[~kept])
    forest = Forest.fit(values, bad, weights)
    bounds: dict[str, float] = {}
    for name, source in SOURCES.items():
        good = np.array([row.source == name and row.kind == "good" for row in used])
        allowed = source.alarms or ALARMS[check]
        bound = float(np.quantile(unseen[good], 1 - allowed, method="higher"))
        language = "ja" if name in ("topic_mtja", "topic_jmwoz") else "en"
        bounds[language] = max(bounds.get(language, bound), bound)
        seen = float(
            (unseen[(bad == 1) & np.array([r.source == name for r in used])] > bound).mean()
        )
        print(f"{check} {name}: {seen:.3f} noticed at {allowed:.3f}", file=sys.stderr)
    return {
        "measures": MEASURES[check],
        "hint_from": {language: round(bound + 0.01, 2) for language, bound in bounds.items()},
        "bias": round(forest.bias, 3),
        "trees": [plain(tree) for tree in forest.trees],
    }


def balanced(used: Sequence[Row], bad: Any) -> Any:
    """Return a weight for each row, so that good and bad answers of a source count alike."""
    kinds = Counter((row.source, row.kind == "good") for row in used)
    sizes = Counter(row.source for row in used)
    return np.array(
        [
            SOURCES[row.source].weight
            * sizes[row.source]
            / (2 * kinds[row.source, row.kind == "good"])
            for row in used
        ]
    )


def plain(tree: Any) -> Any:
    """Return a tree as lists of rounded numbers."""
    if isinstance(tree, float):
        return round(tree, 3)
    place, bound, low, high = tree
    return [place, round(bound, 3), plain(low), plain(high)]


def main() -> int:
    """Fit the experts to the files of the command line and print them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    files = parser.parse_args().files
    strange = [path.stem for path in files if path.stem not in SOURCES]
    if strange:
        print(f"{strange}: not among {list(SOURCES)}, so its licence is unknown", file=sys.stderr)
        return 2
    answers = {path.stem: read(path) for path in files}
    measures.RARITY, measures.UNCOMMON = rarity(
        [case for all_ in answers.values() for case in all_]
    )
    chance = random.Random(1)
    given = [row for name, found in answers.items() for row in rows(name, found, chance)]
    experts = {check: expert(check, given) for check in MEASURES}
    head = {
        "provenance": "Fitted by benchmarks/fit_experts.py; no text of a source is included.",
        "sources": credits_of(list(answers)),
        "rarity": measures.RARITY,
        "uncommon": measures.UNCOMMON,
    }
    print(lines_of(head, experts))
    return 0


def credits_of(names: Sequence[str]) -> list[dict[str, str]]:
    """Return the origin and the licence of each source."""
    return [{"origin": SOURCES[name].origin, "licence": SOURCES[name].licence} for name in names]


def lines_of(head: dict[str, Any], experts: dict[str, Any]) -> str:
    """Return the file's text, with a line for each tree so that a change can be read."""
    body = json.dumps({**head, "experts": experts}, ensure_ascii=False, separators=(",", ":"))
    return (
        body.replace('"trees":[', '"trees":[\n').replace("]],[", "]],\n[").replace('],"', '],\n"')
    )


if __name__ == "__main__":
    sys.exit(main())
