"""Measure the pre-judge without a model: `python benchmarks/judging.py FILE… [--json]`.

Intervals are of 95 %, by conversation: answers of one conversation count as one sample.

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
- `recall_sure`: the same mean of those that it fails by itself or would not let the judge skip.
- `recall_decided`: the same mean of those that it fails by itself.
- `false_alarm_share`: share of the answers as they were that it notices.
- `read_share`: share of them that it would not let the judge skip.
- `false_decided_share`: share of them that it fails by itself.
- `padding_raised`: share of them that score higher by 0.05 or more with empty phrases at the end.
- `good_under_half`: share of them that score under 0.5, decided or not.

With `--turns N …` (50 and 100; none without a number) conversations of the file's own questions and
answers are played, with scripted models and `judge_share` 0.2:

- `judge_share_N`: tokens of the judge over those of the answers; `skipped_share_N` is the share of
  turns that it skips, and `judge_share_N_unskipped` the cost with `judge_share` 1, which skips none.
- `played_recall`: like `recall_mean`, the share of corrupted answers that fail or that the judge reads,
  in conversations of 50 turns from the first on that may be skipped.
- `played_read_share`: share of the answers as they were, between them, that the judge reads.

In both ways, of the good answers of at most 12 words (those that most annotators call fine):

- `short_false_share`: share of them that it fails by itself.
- `short_false_bound`: highest share that this number of answers leaves possible, at 95 %; without
  an alarm, 3 / items. No bound is claimed on fewer than 59 answers.
"""

import argparse
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import comb
from pathlib import Path

from answers import CORRUPTIONS, Case, cases, padded
from judge_cost import cost_figures, played_figures
from report import Figure, Figures, Hit, mean_of, resampled, run, share_in, shown

from unsay.judging.heuristics import changed_facts, is_plainly_good, prejudge
from unsay.judging.vocabulary import is_short
from unsay.protocols import Exchange, PreVerdict

ENOUGH_SHORT = 59
"""Fewest short answers on which a bound is claimed: without an alarm they show at most 5 %."""

Prejudged = tuple[str, Exchange, PreVerdict]
"""The id of a conversation, one of its answers, and what the pre-judge says of it."""

PUBLISHED = {
    "recall_mean": "  goal .93 in English, .91 in Japanese",
    "recall_sure": "  goal .93 in English, .91 in Japanese",
    "played_recall": "  goal .93 in English, .91 in Japanese",
    "false_alarm_share": "  goal .007 in English, .03 in Japanese",
    "spearman_breakdown": "  .42 can be trained, which then fails 41 % of good assistant answers",
}
"""What to hold a figure against, shown beside it."""


def against_votes(labelled: Sequence[Case]) -> Figures:
    """Hold scores against annotators' votes."""
    rated = [
        Rated(talk=case.talk, answer=case.exchange.answer, votes=case.votes, verdict=verdict)
        for case in labelled
        if case.votes is not None and sum(case.votes)
        for verdict in [prejudge(case.exchange)]
    ]
    talks = list(by_talk(rated).values())
    return {
        "spearman_breakdown": over_talks(talks, _spearman_of),
        "auc_breakdown": over_talks(talks, _auc_of),
        "decided_share": share_in([(each.talk, each.verdict.decided) for each in rated]),
        **short_figures(
            [
                (each.talk, each.verdict.decided)
                for each in rated
                if each.is_good and is_short(each.answer)
            ]
        ),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Rated:
    """One answer with annotators' votes, and what the pre-judge says."""

    talk: str
    answer: str
    votes: tuple[int, int, int]
    verdict: PreVerdict

    @property
    def mass(self) -> float:
        """Share of the votes for a breakdown; a possible one counts half."""
        _, possible, broken = self.votes
        return (possible / 2 + broken) / sum(self.votes)

    @property
    def is_broken(self) -> bool:
        """Whether most annotators call it a breakdown."""
        fine, possible, broken = self.votes
        return broken > max(fine, possible)

    @property
    def is_good(self) -> bool:
        """Whether most annotators call it fine."""
        fine, possible, broken = self.votes
        return fine > max(possible, broken)


def by_talk(rated: Sequence[Rated]) -> Mapping[str, list[Rated]]:
    """Return the answers of each conversation."""
    talks: dict[str, list[Rated]] = {}
    for each in rated:
        talks.setdefault(each.talk, []).append(each)
    return talks


def over_talks(
    talks: Sequence[Sequence[Rated]], value: Callable[[Sequence[Rated]], float | None]
) -> Figure:
    """Return a value of all answers, with its interval by conversation."""

    def joined(sample: Sequence[Sequence[Rated]]) -> float | None:
        return value([each for talk in sample for each in talk])

    return Figure(
        value=joined(talks), items=sum(map(len, talks)), interval=resampled(talks, joined)
    )


def _spearman_of(rated: Sequence[Rated]) -> float | None:
    return spearman([1 - each.verdict.score for each in rated], [each.mass for each in rated])


def _auc_of(rated: Sequence[Rated]) -> float | None:
    return auc([1 - each.verdict.score for each in rated], [each.is_broken for each in rated])


def against_corruption(good: Sequence[Case]) -> Figures:
    """Count what is seen of corrupted answers, and what is seen in answers as they were."""
    whole = [(case.talk, case.exchange, prejudge(case.exchange)) for case in good]
    corrupted = {
        name: [
            (case.talk, changed, prejudge(changed))
            for number, case in enumerate(good)
            if (answer := corrupt(good, number)) is not None
            for changed in [replace(case.exchange, answer=answer)]
        ]
        for name, corrupt in CORRUPTIONS.items()
    }
    seen = {name: hits(found, noticed) for name, found in corrupted.items()}
    decided = [hits(found, _decided) for found in corrupted.values()]
    read = [hits(found, is_read) for found in corrupted.values()]
    short = [each for each in whole if is_short(each[1].answer)]
    longer = [
        (talk, prejudge(padded(case)).score >= verdict.score + 0.05)
        for case, (talk, _, verdict) in zip(good, whole, strict=True)
    ]
    return {
        **{f"recall_{name}": share_in(found) for name, found in seen.items()},
        "recall_mean": mean_of(list(seen.values())),
        "recall_sure": mean_of(read),
        "recall_decided": mean_of(decided),
        "false_alarm_share": share_in(hits(whole, noticed)),
        "read_share": share_in(hits(whole, is_read)),
        "padding_raised": share_in(longer),
        "false_decided_share": share_in(hits(whole, _decided)),
        "good_under_half": share_in(hits(whole, lambda _, found: found.score < 0.5)),
        **short_figures(hits(short, _decided)),
    }


def hits(found: Sequence[Prejudged], counts: Callable[[Exchange, PreVerdict], bool]) -> list[Hit]:
    """Return for each answer whether it counts, after its conversation."""
    return [(talk, counts(exchange, verdict)) for talk, exchange, verdict in found]


def noticed(_: Exchange, verdict: PreVerdict) -> bool:
    """Tell whether an answer fails for certain, or the judge gets a hint about it."""
    return verdict.decided or bool(verdict.hint)


def is_read(exchange: Exchange, verdict: PreVerdict) -> bool:
    """Tell whether an answer fails for certain, or is read by a judge that skips where it may."""
    return not is_plainly_good(exchange, verdict) or bool(changed_facts(exchange))


def _decided(_: Exchange, verdict: PreVerdict) -> bool:
    return verdict.decided


def short_figures(alarms: Sequence[Hit]) -> Figures:
    """Give the share of false alarms on short answers and its upper bound at 95 %."""
    failed = sum(alarm for _, alarm in alarms)
    bound = upper_bound(failed, len(alarms)) if len(alarms) >= ENOUGH_SHORT else None
    return {
        "short_false_share": share_in(alarms),
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
        raise ValueError(
            f"{path}: no answers to questions of the role 'user'; --help has the format"
        )
    labelled = [case for case in found if case.votes is not None]
    figures = against_votes(labelled) if labelled else against_corruption(found)
    asked = [case for case in found if case.exchange.question and case.exchange.answer]
    if not asked or not lengths:
        return figures
    played = {} if labelled else played_figures(asked)
    return {**figures, **played, **cost_figures(asked, lengths)}


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
