"""Strategies and the context of one model call, computed from the transcript.

The names for users are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unsay.context.plan import Omission, Plan, Situation
    from unsay.context.reminders import Reminder
    from unsay.context.sliding import SlidingWindow
    from unsay.context.strategy import Composed, Null, PerTurn, Strategy
    from unsay.context.summarizing import ByTurns, Summarizing
    from unsay.context.three_stage import Proactive, Rate, ThreeStage
    from unsay.context.topics import TopicScoped

_HOMES = {
    "ByTurns": "summarizing",
    "Composed": "strategy",
    "Null": "strategy",
    "Omission": "plan",
    "PerTurn": "strategy",
    "Plan": "plan",
    "Proactive": "three_stage",
    "Rate": "three_stage",
    "Reminder": "reminders",
    "Situation": "plan",
    "SlidingWindow": "sliding",
    "Strategy": "strategy",
    "Summarizing": "summarizing",
    "ThreeStage": "three_stage",
    "TopicScoped": "topics",
}

__all__ = [
    "ByTurns",
    "Composed",
    "Null",
    "Omission",
    "PerTurn",
    "Plan",
    "Proactive",
    "Rate",
    "Reminder",
    "Situation",
    "SlidingWindow",
    "Strategy",
    "Summarizing",
    "ThreeStage",
    "TopicScoped",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'unsay.context' has no attribute {name!r}")
    return getattr(import_module(f"unsay.context.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
