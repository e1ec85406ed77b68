"""Judging old conversations: functions of a conversation that change none of its messages."""

from unsay.evaluation.judged_summaries import JudgedSummary, judge_summaries
from unsay.evaluation.judging import Bisection, JudgedTurn, bisect, import_ratings, judge
from unsay.judging.calibration import Calibration, Costs, Labelled, calibrate
from unsay.judging.metrics import metric_judge

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
