"""Measure the pre-judge without a model: `python benchmarks/judging.py FILE… [--json]`.

A file holds one conversation a line, `{"id", "lang", "utts": [{"role", "text"}]}`, and is used in
one of two ways. Where `"otx": [null or [fine, possible, breakdown] per utterance]` counts how many
annotators saw a breakdown, the scores are held against them:

- `spearman_breakdown`: rank correlation of a low score with the share of breakdown votes, a
  possible breakdown counting half.
- `auc_breakdown`: chance that an answer that most call a breakdown scores below another.
- `decided_share`: share of these answers that the pre-judge fails by itself.

Else the answers are taken to be good, and are corrupted in ways that must be noticed. The pre-judge
notices an answer that it fails by itself, or about which it gives the judge a hint:

- `recall_…`: share of the answers so corrupted that it notices.
- `recall_mean`: the mean of those.
- `recall_decided`: the same mean of those that it fails by itself.
- `false_alarm_share`: share of the answers as they were that it notices.
- `false_decided_share`: share of them that it fails by itself.
- `good_under_half`: share of them that score under 0.5, decided or not.

In both ways, in a conversation of `--turns N …` (50 and 100; none without a number) of the file's own
questions and answers, with a scripted model and judge:

- `judge_share_N`: tokens of the judge over those of the answers.
- `judge_share_N_every_4`: the same with the setting `judge_every` 4, which leaves out three quarters of
  the answers that the local checks do not doubt; `skipped_share_N_every_4` is the share of turns so
  skipped. A doubted answer is always judged, so `recall_mean` is the recall with skipping on, too.

In both ways, of the good answers of at most 12 words (those that most annotators call fine):

- `short_false_share`: share of them that it fails by itself.
- `short_false_bound`: highest share that this number of answers leaves possible, at 95 %; without
  an alarm, 3 / items. No bound is claimed on fewer than 59 answers.
"""

import argparse
import json
import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import comb
from pathlib import Path
from typing import Any

from judge_cost import cost_figures
from report import Figure, Figures, run, share_of, shown

from unsay.judging.heuristics import prejudge
from unsay.judging.vocabulary import is_short
from unsay.verdicts import Exchange, PreVerdict

EARLIER = 3
"""How many earlier exchanges are shown, as in the product."""

ENOUGH_SHORT = 59
"""Fewest short answers on which a bound is claimed: without an alarm they show at most 5 %."""

KEPT_SHARE = 0.6
"""How much of an answer a truncation leaves, from its beginning."""

DROPPED_WORD = 10
"""A near repetition omits one of this number of words, in Japanese of characters."""

LONG_ENOUGH = 80
"""Characters from which on an English answer is truncated; half as many in Japanese."""

LOOPS = 4
"""How often a loop says its sentence."""

REFUSALS = {
    "en": (
        "I'm sorry, but I can't help with that.",
        "I cannot assist with that request.",
        "As an AI language model, I am unable to answer that question.",
    ),
    "ja": (
        "申し訳ありませんが、その質問にはお答えできません。",
        "すみません、お手伝いできません。",
        "申し訳ございませんが、そのご要望にはお応えできかねます。",
    ),
}
"""What a refusal says, by language."""

EMPTIES = ("", " \n", "...", "。")
"""What an empty answer says."""


PUBLISHED = {
    "recall_mean": "  goal .93 in English, .91 in Japanese",
    "false_alarm_share": "  goal .02 in English, .04 in Japanese",
    "spearman_breakdown": "  .42 can be trained, which then fails 41 % of good assistant answers",
}
"""What to hold a figure against, shown beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One answer to be judged."""

    talk: str
    """Id of its conversation."""

    language: str
    """`ja` or another."""

    exchange: Exchange
    """The answer with its question and a few earlier exchanges."""

    votes: tuple[int, int, int] | None
    """Annotators who said fine, possible breakdown, breakdown; `None` without labels."""


Corruption = Callable[[Sequence[Case], int], str | None]


def cases(path: Path) -> Iterator[Case]:
    """Read the answers of a file.

    Raises:
        ValueError: A line is not of the format; the message names it.
    """
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                if line.strip():
                    yield from _answers(json.loads(line))
            except (AttributeError, LookupError, TypeError, ValueError) as error:
                raise ValueError(f"{path}, line {number}: {error!r}; see --help") from error


def _answers(row: Mapping[str, Any]) -> Iterator[Case]:
    """Give a row's answers; a question in several messages is one question."""
    votes = row.get("otx") or [None] * len(row["utts"])
    earlier: list[tuple[str, str]] = []
    asked: list[str] = []
    for utterance, counted in zip(row["utts"], votes, strict=True):
        if utterance["role"] == "user":
            asked.append(utterance["text"])
            continue
        question, answer = "\n".join(asked), utterance["text"]
        seen = Exchange(question=question, answer=answer, earlier=tuple(earlier[-EARLIER:]))
        yield Case(
            talk=str(row["id"]),
            language=str(row.get("lang", "en")),
            exchange=seen,
            votes=None if counted is None else (counted[0], counted[1], counted[2]),
        )
        earlier.append((question, answer))
        asked = []


def against_votes(labelled: Sequence[Case]) -> Figures:
    """Hold scores against annotators' votes."""
    found = [prejudge(case.exchange) for case in labelled]
    lows = [1 - verdict.score for verdict in found]
    votes = [case.votes for case in labelled if case.votes is not None]
    mass = [
        (possible / 2 + broken) / (fine + possible + broken) for fine, possible, broken in votes
    ]
    most = [broken > max(fine, possible) for fine, possible, broken in votes]
    good = [fine > max(possible, broken) for fine, possible, broken in votes]
    return {
        "spearman_breakdown": Figure(value=spearman(lows, mass), items=len(lows)),
        "auc_breakdown": Figure(value=auc(lows, most), items=len(lows)),
        "decided_share": share([verdict.decided for verdict in found]),
        **short_figures(
            [
                verdict.decided
                for case, verdict, is_good in zip(labelled, found, good, strict=True)
                if is_good and is_short(case.exchange.answer)
            ]
        ),
    }


def against_corruption(good: Sequence[Case]) -> Figures:
    """Count what is seen of corrupted answers, and what is seen in answers as they were."""
    whole = [prejudge(case.exchange) for case in good]
    corrupted = {
        name: [
            prejudge(replace(case.exchange, answer=answer))
            for number, case in enumerate(good)
            if (answer := corrupt(good, number)) is not None
        ]
        for name, corrupt in CORRUPTIONS.items()
    }
    seen = {
        f"recall_{name}": share([noticed(verdict) for verdict in verdicts])
        for name, verdicts in corrupted.items()
    }
    decided = [share([verdict.decided for verdict in each]) for each in corrupted.values()]
    items = sum(figure.items for figure in seen.values())
    short = [
        verdict.decided
        for case, verdict in zip(good, whole, strict=True)
        if is_short(case.exchange.answer)
    ]
    return {
        **seen,
        "recall_mean": Figure(value=mean(values(seen.values())), items=items),
        "recall_decided": Figure(value=mean(values(decided)), items=items),
        "false_alarm_share": share([noticed(verdict) for verdict in whole]),
        "false_decided_share": share([verdict.decided for verdict in whole]),
        "good_under_half": share([verdict.score < 0.5 for verdict in whole]),
        **short_figures(short),
    }


def noticed(verdict: PreVerdict) -> bool:
    """Tell whether an answer fails for certain, or the judge gets a hint about it."""
    return verdict.decided or bool(verdict.hint)


def short_figures(alarms: Sequence[bool]) -> Figures:
    """Give the share of false alarms on short answers and its upper bound at 95 %."""
    bound = upper_bound(sum(alarms), len(alarms)) if len(alarms) >= ENOUGH_SHORT else None
    return {
        "short_false_share": share(alarms),
        "short_false_bound": Figure(value=bound, items=len(alarms)),
    }


def upper_bound(hits: int, items: int) -> float:
    """Give the highest share under which so few hits still have a chance of 5 %; 3 / items for none."""
    if not hits:
        return 3 / items
    low, high = hits / items, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        chance = sum(
            comb(items, n) * middle**n * (1 - middle) ** (items - n) for n in range(hits + 1)
        )
        low, high = (middle, high) if chance > 0.05 else (low, middle)
    return high


def values(figures: Iterable[Figure]) -> list[float]:
    """Give the values of the figures that have one."""
    return [figure.value for figure in figures if figure.value is not None]


def _emptied(_: Sequence[Case], number: int) -> str:
    return EMPTIES[number % len(EMPTIES)]


def _refused(good: Sequence[Case], number: int) -> str:
    refusals = REFUSALS["ja" if good[number].language == "ja" else "en"]
    return refusals[number % len(refusals)]


def _echoed(good: Sequence[Case], number: int) -> str | None:
    return good[number].exchange.question or None


def _looped(good: Sequence[Case], number: int) -> str | None:
    parts = re.split(r"(?<=[.!?])\s|(?<=[。！？])|\n", good[number].exchange.answer)
    said = [part for part in parts if part.strip()]
    return " ".join([said[0]] * LOOPS) if said else None


def _repeated(good: Sequence[Case], number: int) -> str | None:
    earlier = good[number].exchange.earlier
    return earlier[-1][1] if earlier else None


def _nearly_repeated(good: Sequence[Case], number: int) -> str | None:
    answer = _repeated(good, number)
    if answer is None:
        return None
    return dropped(answer, good[number].language, every=DROPPED_WORD, start=number)


def dropped(answer: str, language: str, *, every: int, start: int) -> str:
    """Return an answer without one of `every` words, in Japanese characters, counted from `start`."""
    joint = "" if language == "ja" else " "
    words = answer.split(joint) if joint else list(answer)
    return joint.join(word for at, word in enumerate(words, start) if at % every)


def _truncated(good: Sequence[Case], number: int) -> str | None:
    case = good[number]
    answer = case.exchange.answer
    enough = LONG_ENOUGH / 2 if case.language == "ja" else LONG_ENOUGH
    return answer[: int(len(answer) * KEPT_SHARE)] if len(answer) >= enough else None


def _strayed(good: Sequence[Case], number: int) -> str | None:
    """Give the answer half a file away, or the next one of another conversation."""
    start = number + len(good) // 2
    turned = (good[(start + step) % len(good)] for step in range(len(good)))
    others = (case for case in turned if case.talk != good[number].talk)
    return next((case.exchange.answer for case in others), None)


CORRUPTIONS: Mapping[str, Corruption] = {
    "empty": _emptied,
    "refusal": _refused,
    "echo": _echoed,
    "loop": _looped,
    "repetition": _repeated,
    "near_repetition": _nearly_repeated,
    "truncation": _truncated,
    "irrelevant": _strayed,
}
"""Functions that make an answer bad, by name; they return `None` if they cannot."""


def share(hits: Sequence[bool]) -> Figure:
    """Give the share of hits."""
    return share_of(sum(hits), len(hits))


def mean(values: Sequence[float]) -> float | None:
    """Give the mean, `None` of nothing."""
    return sum(values) / len(values) if values else None


def spearman(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Give the rank correlation; `None` where either side does not vary."""
    first, second = ranks(one), ranks(other)
    middle = (len(first) + 1) / 2
    spread = [sum((rank - middle) ** 2 for rank in side) for side in (first, second)]
    if not all(spread):
        return None
    shared = sum((a - middle) * (b - middle) for a, b in zip(first, second, strict=True))
    return float(shared / (spread[0] * spread[1]) ** 0.5)


def ranks(values: Sequence[float]) -> list[float]:
    """Give ranks from 1; equal values share theirs."""
    ordered = sorted(values)
    return [(bisect_left(ordered, v) + bisect_right(ordered, v) + 1) / 2 for v in values]


def auc(lows: Sequence[float], bad: Sequence[bool]) -> float | None:
    """Give the chance that a bad answer ranks above another; `None` where one kind is missing."""
    worse = [rank for rank, is_bad in zip(ranks(lows), bad, strict=True) if is_bad]
    others = len(bad) - len(worse)
    if not worse or not others:
        return None
    return (sum(worse) - len(worse) * (len(worse) + 1) / 2) / (len(worse) * others)


def measure(path: Path, lengths: Sequence[int] = ()) -> Figures:
    """Give the figures of one file, with those of the judge's cost in conversations of these lengths.

    Raises:
        ValueError: The file has no answers, or a line is not of the format.
    """
    found = list(cases(path))
    if not found:
        raise ValueError(f"{path}: no answers; see --help")
    labelled = [case for case in found if case.votes is not None]
    turns = [(case.exchange.question, case.exchange.answer) for case in found]
    figures = against_votes(labelled) if labelled else against_corruption(found)
    asked = [(question, answer) for question, answer in turns if question and answer]
    return {**figures, **cost_figures(asked, lengths)} if asked else figures


def table(rows: Mapping[str, Figures]) -> str:
    """Give the figures as a table for people, a line for each figure of each file."""
    lines = []
    for name, figures in rows.items():
        lines.append(name)
        for figure, found in figures.items():
            lines.append(f"  {figure:<24} {shown(found)}{PUBLISHED.get(figure, '')}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the files and print; give the exit status."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--turns", nargs="*", type=int, default=[50, 100])
    options, others = parser.parse_known_args(arguments)
    return run(
        partial(measure, lengths=options.turns),
        table,
        description=__doc__ or "",
        wanted='Give one or more files of conversations, one JSON object a line with "utts", and '
        '"otx" where annotators judged',
        arguments=others,
    )


if __name__ == "__main__":
    sys.exit(main())
