"""Strategies and the context of one model call, computed from the transcript."""

from unsay.context.plan import Omission, Plan, PlanContext
from unsay.context.reminders import Reminder
from unsay.context.sliding import SlidingWindow
from unsay.context.strategy import Composed, Null, PerTurn, Strategy
from unsay.context.summarizing import ByTurns, Summarizing
from unsay.context.three_stage import Proactive, Rate, ThreeStage
from unsay.context.topics import TopicScoped

__all__ = [
    "ByTurns",
    "Composed",
    "Null",
    "Omission",
    "PerTurn",
    "Plan",
    "PlanContext",
    "Proactive",
    "Rate",
    "Reminder",
    "SlidingWindow",
    "Strategy",
    "Summarizing",
    "ThreeStage",
    "TopicScoped",
]
