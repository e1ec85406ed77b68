"""When there is enough to leave out: shares of a window, and how often."""

import logging
import math
from dataclasses import dataclass
from functools import lru_cache

from unsay.context.folds import Fold
from unsay.context.situation import WINDOW_TOKENS
from unsay.errors import ConfigurationError

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, eq=False)
class Proactive:
    """Tells before a call that the window is filling up.

    Source:
        strands-agents 1.62.0, `proactive_compression` (0.7, inclusive).
    """

    threshold: float = 0.7
    """Share of the window, over 0 and up to 1; it is reached at exactly this."""

    def __post_init__(self) -> None:
        if not 0 < self.threshold <= 1:
            raise ConfigurationError(
                f"threshold {self.threshold!r} is no share of a window: write a number over 0, "
                "up to 1"
            )

    def reached(self, tokens: int | None, window_tokens: int | None) -> bool:
        """Whether it is time.

        Args:
            tokens: Of the next request; `None`, unknown, never reaches it.
            window_tokens: The model's; unknown, one of 200 000 is assumed and that is told once.
        """
        if tokens is None:
            return False
        if window_tokens is None:
            _tell_once(self)
        return tokens >= self.threshold * (window_tokens or WINDOW_TOKENS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratios:
    """Where compression begins, and where it ends, as shares of a budget.

    Source:
        Kocoro-lab/Shannon 0190a84, `getCompressionRatios` (0.75, 0.375, and the limits).
    """

    trigger: float = 0.75
    """At or over it something is left out; from 0.1 to 0.95, what lies outside is brought in."""

    target: float = 0.375
    """What is left is at most this; from 0.1 to 0.9, what lies outside is brought in."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "trigger", clamped("trigger_ratio", self.trigger, 0.1, 0.95))
        object.__setattr__(self, "target", clamped("target_ratio", self.target, 0.1, 0.9))

    def reached(self, tokens: int, budget_tokens: int) -> bool:
        """Whether a request of so many tokens calls for compression."""
        return tokens >= self.trigger * budget_tokens

    def goal(self, budget_tokens: int) -> int:
        """The most tokens that a request should have after it."""
        return int(self.target * budget_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How often at most something is folded.

    Source:
        Kocoro-lab/Shannon 0190a84, `ShouldCompressContext` (20 messages and 30 minutes).
    """

    min_new_messages: int = 20
    """So many must have been said since the last time, or since the beginning."""

    min_minutes: float = 30.0
    """So many must have passed since the last time."""

    def allows(self, fold: Fold, *, length: int, minutes: float | None) -> bool:
        """Whether it may be done again.

        Args:
            fold: As the last time left it.
            length: How many messages the record has, not a window of it.
            minutes: Of the clock; `None` without one, and then only messages count.
        """
        new = length - fold.get("length", 0)
        last = fold.get("minutes")
        rested = last is None or minutes is None or minutes - last >= self.min_minutes
        return rested and (new >= self.min_new_messages or new < 0)


def clamped(name: str, value: float, least: float, most: float) -> float:
    """The value, brought between two limits and told in the log where it lay outside.

    Raises:
        ConfigurationError: It is no number.
    """
    if math.isnan(value):
        raise ConfigurationError(f"{name} {value!r}: write a number from {least!r} to {most!r}")
    inside = min(max(value, least), most)
    if inside != value:
        LOG.warning(
            "name=%s value=%r used=%r a setting lies outside its limits", name, value, inside
        )
    return inside


@lru_cache(maxsize=256)
def _tell_once(asked: Proactive) -> None:
    LOG.warning(
        "threshold=%r assumed_tokens=%d the model's window is not known",
        asked.threshold,
        WINDOW_TOKENS,
    )
