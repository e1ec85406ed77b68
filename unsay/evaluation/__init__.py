"""Judging old conversations: functions of a conversation that change none of its messages."""

from unsay.evaluation.judging import (
    Bisection,
    JudgedSummary,
    JudgedTurn,
    bisect,
    import_ratings,
    judge,
    judge_summaries,
)
from unsay.judging.calibration import Calibration, Costs, Labelled, calibrate, metric_judge

__all__ = [
    "Bisection",
    "Calibration",
    "Costs",
    "JudgedSummary",
    "JudgedTurn",
    "Labelled",
    "bisect",
    "calibrate",
    "import_ratings",
    "judge",
    "judge_summaries",
    "metric_judge",
]
