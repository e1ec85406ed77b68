"""Strategies and the context of one model call, computed from the transcript."""

from unsay.context.plan import Omission, Plan, PlanContext
from unsay.context.strategy import Composed, Null, PerTurn, Strategy
from unsay.context.summarizing import ByTurns, Summarizing
from unsay.context.topics import TopicScoped
from unsay.context.view import Reminder
from unsay.context.windows import Proactive, Rate, SlidingWindow, ThreeStage

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
