"""Calibration: the threshold of quality that fits a person's labels, and what it is worth.

A threshold is chosen on all labels of a language. Its figures are out of fold: each label is
decided by a threshold that was fitted without it and without the other labels of its question.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt

from unsay.types import Language

PARTS = 5
STEPS = 20  # thresholds that are tried, from 0 to 1
ALARM_SHARE = 0.05
"""The claim that is checked: at most this share of good answers fails."""

CONFIDENCE = 0.05
"""Chance that a claim is wrong."""

Z = 1.96
"""Quantile of the normal distribution for intervals of 95 %. Source: Wilson 1927."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """The score of one answer from 0 to 1, and whether a person found the answer good."""

    question: str
    language: Language
    score: float
    good: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What a good answer that fails costs, and what a bad one that passes costs."""

    alarm: float = 1.0
    miss: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Confusion:
    """How many good and bad answers passed and failed at a threshold."""

    good_passed: int
    good_failed: int
    bad_passed: int
    bad_failed: int

    @property
    def alarms(self) -> "Share":
        """The share of good answers that fail; without good answers its `value` is `None`."""
        return Share(hits=self.good_failed, items=self.good_failed + self.good_passed)

    @property
    def caught(self) -> "Share":
        """The share of bad answers that fail; without bad answers its `value` is `None`."""
        return Share(hits=self.bad_failed, items=self.bad_failed + self.bad_passed)

    def cost(self, costs: Costs) -> float:
        """Return the cost of all wrong decisions: of `good_failed` and of `bad_passed`."""
        return self.good_failed * costs.alarm + self.bad_passed * costs.miss


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share of `items`, with an interval of 95 %."""

    hits: int
    items: int

    @property
    def value(self) -> float | None:
        """The share, from 0 to 1; `None` without items."""
        return self.hits / self.items if self.items else None

    @property
    def interval(self) -> tuple[float, float]:
        """The lower and the upper bound of Wilson's interval of 95 %; 0 and 1 without items."""
        if not self.items:
            return 0.0, 1.0
        share, n = self.hits / self.items, self.items
        middle = (share + Z * Z / (2 * n)) / (1 + Z * Z / n)
        half = Z * sqrt(share * (1 - share) / n + Z * Z / (4 * n * n)) / (1 + Z * Z / n)
        return max(0.0, middle - half), min(1.0, middle + half)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The threshold for one language, and how well it decides.

    `threshold` is fitted on all labels, whose number is `labels`. In `held_out` each label was
    decided by a threshold that was fitted without it. `curve` has each threshold that was tried,
    with its decisions on all labels.
    """

    language: Language
    threshold: float
    held_out: Confusion
    curve: tuple[tuple[float, Confusion], ...]
    labels: int

    @property
    def claim(self) -> str:
        """What may be claimed of false alarms, as a sentence; empty if there are too few labels.

        It is also empty if too many good answers fail.
        """
        alarms = self.held_out.alarms
        if alarms.items == 0 or upper_bound(alarms) > ALARM_SHARE:
            return ""
        return f"at most {ALARM_SHARE:.0%} of good answers fail (95 % sure, {alarms.items} labels)"


def upper_bound(share: Share) -> float:
    """Return the highest true share that fits the counted hits, with 95 % certainty.

    `share` has 1 item or more.
    """
    if share.hits == 0:
        return 1 - float(CONFIDENCE ** (1 / share.items))
    return share.interval[1]


def labels_needed() -> int:
    """Return how many labels of good answers are needed for `Calibration.claim`, if none fails.

    >>> labels_needed()
    59
    """
    return next(n for n in range(1, 1_000) if upper_bound(Share(hits=0, items=n)) <= ALARM_SHARE)


def calibrate(labels: Sequence[Labelled], costs: Costs) -> list[Calibration]:
    """Return the calibration of each language that has good labels and bad labels."""
    made = []
    for language in dict.fromkeys(label.language for label in labels):
        own = [label for label in labels if label.language == language]
        if len({label.good for label in own}) == 1:
            continue
        curve = tuple((t, confusion(own, t)) for t in _thresholds())
        made.append(
            Calibration(
                language=language,
                threshold=fit(own, costs),
                held_out=_held_out(own, costs),
                curve=curve,
                labels=len(own),
            )
        )
    return made


def fit(labels: Sequence[Labelled], costs: Costs) -> float:
    """Return the threshold from 0 to 1, in steps of 1/`STEPS`, whose wrong decisions cost least.

    If several cost the same, it is the lowest, which fails the fewest answers.
    """
    return min(_thresholds(), key=lambda t: (confusion(labels, t).cost(costs), t))


def confusion(labels: Iterable[Labelled], threshold: float) -> Confusion:
    """Return how many labels pass and fail at a threshold; a score that is equal to it passes."""
    counted = [(label.good, label.score >= threshold) for label in labels]
    return _counted(counted)


def _counted(decided: Sequence[tuple[bool, bool]]) -> Confusion:
    return Confusion(
        good_passed=decided.count((True, True)),
        good_failed=decided.count((True, False)),
        bad_passed=decided.count((False, True)),
        bad_failed=decided.count((False, False)),
    )


def _held_out(labels: Sequence[Labelled], costs: Costs) -> Confusion:
    decided: list[tuple[bool, bool]] = []
    for number in range(PARTS):
        fold = [label for label in labels if _part(label.question) == number]
        rest = [label for label in labels if _part(label.question) != number]
        if fold and rest:
            threshold = fit(rest, costs)
            decided += [(label.good, label.score >= threshold) for label in fold]
    return _counted(decided)


def _part(question: str) -> int:
    digest = hashlib.sha256(question.encode("utf-8", "surrogatepass")).digest()
    return digest[0] % PARTS


def _thresholds() -> list[float]:
    return [step / STEPS for step in range(STEPS + 1)]
