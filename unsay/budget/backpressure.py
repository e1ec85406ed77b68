"""Backpressure: the closer a budget is to its end, the longer its next call waits.

Nothing waits here. The caller does, in its own way: a thread sleeps, an event loop does not.
"""

from collections.abc import Sequence
from typing import Literal

from unsay.spending import BACKPRESSURE

Pressure = Literal["low", "medium", "high", "critical"]
Step = tuple[float, int]
"""From this share of a budget on, a call waits this many milliseconds."""

_LEVELS: tuple[tuple[float, Pressure], ...] = ((0.9, "critical"), (0.75, "high"), (0.5, "medium"))
"""Source: Shannon, budget manager, calculatePressureLevel."""


def delay_ms(usage: float, steps: Sequence[Step] = BACKPRESSURE) -> int:
    """How long a call waits.

    Args:
        usage: The share of the budget that is taken once the call is made; over 1 where it is
            exceeded.
        steps: In any order; each holds from its share on, that share included. Of those that
            hold the longest counts.

    Returns:
        In milliseconds; 0 under the first step, and without steps.
    """
    return max((delay for share, delay in steps if usage >= share), default=0)


def is_active(usage: float, steps: Sequence[Step] = BACKPRESSURE) -> bool:
    """Whether any step holds, even one that does not wait."""
    return any(usage >= share for share, _ in steps)


def pressure(usage: float) -> Pressure:
    """How close a budget is to its end, in one word."""
    return next((word for share, word in _LEVELS if usage >= share), "low")
