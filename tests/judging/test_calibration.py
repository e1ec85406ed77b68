"""Calibration on labels: out of fold, per language, and no claim beyond the labels."""

import pytest

from unsay.judging.calibration import (
    Confusion,
    Costs,
    Labelled,
    Share,
    calibrate,
    fit,
    labels_needed,
)


def labels(good: int, bad: int, language: str = "en", *, start: int = 0) -> list[Labelled]:
    """Good answers that score 0.7 to 0.9, and bad ones that score 0.2 to 0.4."""
    rows = [(0.7 + 0.1 * (n % 3), True, n) for n in range(start, start + good)]
    rows += [(0.2 + 0.1 * (n % 3), False, n + 1_000) for n in range(start, start + bad)]
    return [
        Labelled(question=f"q{n}", language=language, score=score, good=is_good)  # type: ignore[arg-type]
        for score, is_good, n in rows
    ]


def test_the_threshold_separates_the_labels() -> None:
    """Out of fold no label is decided wrongly, and each was decided once."""
    (calibration,) = calibrate(labels(60, 40), Costs())

    assert 0.4 < calibration.threshold <= 0.7
    assert (
        Confusion(good_passed=60, good_failed=0, bad_passed=0, bad_failed=40)
        == calibration.held_out
    )
    assert "at most 5%" in calibration.claim


def test_a_claim_needs_enough_labels() -> None:
    """58 good labels without an alarm are one too few."""
    assert 59 == labels_needed()
    (few,) = calibrate(labels(58, 40), Costs())
    (enough,) = calibrate(labels(59, 40), Costs())
    assert ["", True] == [few.claim, bool(enough.claim)]


def test_languages_have_thresholds_of_their_own() -> None:
    """A language with labels of one kind only has none."""
    rows = labels(30, 30) + [
        Labelled(question=label.question, language="ja", score=label.score - 0.15, good=label.good)
        for label in labels(30, 30)
    ]
    thresholds = {label.language: label.threshold for label in calibrate(rows, Costs())}

    assert thresholds["ja"] < thresholds["en"]
    assert [] == calibrate(labels(10, 0), Costs())


def test_labels_of_one_question_are_in_one_fold() -> None:
    """All labels of a single question cannot be decided by a threshold fitted without it."""
    rows = [Labelled(question="q", language="en", score=0.5, good=n % 2 == 0) for n in range(20)]
    (calibration,) = calibrate(rows, Costs())

    assert None is calibration.held_out.alarms.value
    assert "" == calibration.claim


@pytest.mark.parametrize(
    ("alarm", "miss", "threshold"),
    [
        pytest.param(10.0, 1.0, 0.35, id="alarms-cost"),
        pytest.param(1.0, 10.0, 0.65, id="misses-cost"),
    ],
)
def test_costs_move_the_threshold(alarm: float, miss: float, threshold: float) -> None:
    """Where scores overlap, the dearer error is avoided."""
    rows = [
        Labelled(question=str(n), language="en", score=score, good=good)
        for n, (score, good) in enumerate([(0.4, True), (0.9, True), (0.6, False), (0.3, False)])
    ]
    assert threshold == pytest.approx(fit(rows, Costs(alarm=alarm, miss=miss)))


def test_an_interval_holds_its_share() -> None:
    """Source: Wilson's interval for 5 of 50 is 4.3 % to 21.4 %."""
    low, high = Share(hits=5, items=50).interval
    assert (0.043, 0.214) == (round(low, 3), round(high, 3))
    assert (0.0, 1.0) == Share(hits=0, items=0).interval
