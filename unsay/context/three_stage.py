"""The default strategy: the first messages, a summary, the newest messages."""

import logging
import math
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from langchain_core.messages import AnyMessage

from unsay.context.compaction import Compaction, summary_message
from unsay.context.plan import WINDOW_TOKENS, Plan, PlanContext
from unsay.context.sliding import clear_stale, shorten_results, truncate_large
from unsay.context.strategy import PerTurn, Strategy, check_per_turn
from unsay.context.summaries import SUMMARY_TOKENS, Summarizer, compact_locally, compact_with_model
from unsay.effects import Steps
from unsay.errors import ConfigurationError, ContextOverflowError
from unsay.messages.boundaries import safe_indices, safe_split, steps

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, eq=False)
class Proactive:
    """Share of the window, over 0 and up to 1, from which on messages are summarized.

    Source: strands-agents 1.62.0, `proactive_compression` (0.7, inclusive).
    """

    threshold: float = 0.7

    def __post_init__(self) -> None:
        if not 0 < self.threshold <= 1:
            raise ConfigurationError(
                f"threshold {self.threshold!r} is no share of a window: write a number over 0, "
                "up to 1"
            )

    def reached(self, tokens: int | None, window_tokens: int | None) -> bool:
        """Return whether a request reaches the threshold; one of unknown size never does.

        An unknown window is taken to be `WINDOW_TOKENS`, which is logged once.
        """
        if tokens is None:
            return False
        if window_tokens is None:
            _tell_once(self)
        return tokens >= self.threshold * (window_tokens or WINDOW_TOKENS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratios:
    """Shares of a budget at which compression begins and ends, brought into their limits.

    Source: Kocoro-lab/Shannon 0190a84, `getCompressionRatios` (0.75, 0.375, and the limits).
    """

    trigger: float = 0.75
    target: float = 0.375

    def __post_init__(self) -> None:
        object.__setattr__(self, "trigger", clamped("trigger_ratio", self.trigger, 0.1, 0.95))
        object.__setattr__(self, "target", clamped("target_ratio", self.target, 0.1, 0.9))

    def reached(self, tokens: int, budget_tokens: int) -> bool:
        """Return whether a request of this size has to be compressed."""
        return tokens >= self.trigger * budget_tokens

    def goal(self, budget_tokens: int) -> int:
        """Return the most tokens that a compressed request should have."""
        return int(self.target * budget_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Least new messages and minutes between two compactions.

    Source: Kocoro-lab/Shannon 0190a84, `ShouldCompressContext` (20 messages and 30 minutes).
    """

    min_new_messages: int = 20
    min_minutes: float = 30.0

    def allows(self, compaction: Compaction, *, length: int, minutes: float | None) -> bool:
        """Return whether another compaction is due.

        `length` is the number of messages of the transcript; `minutes` is `None` without a clock,
        and then only messages count.
        """
        new = length - compaction.get("length", 0)
        last = compaction.get("minutes")
        rested = last is None or minutes is None or minutes - last >= self.min_minutes
        return rested and (new >= self.min_new_messages or new < 0)


def clamped(name: str, value: float, least: float, most: float) -> float:
    """Return the value brought between two limits; a change is logged as a warning.

    Raises:
        ConfigurationError: The value is NaN.
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


WHY = "middle"  # the rule's name in omissions and manifests

GAIN = 0.25
"""Least gain of a compaction, as a share of the tokens between trigger and target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreeStage(Strategy):
    """Keep the first and the newest messages, and replace the middle with a summary.

    The strategy acts when a request reaches `trigger_ratio` of the window, and leaves out the
    oldest messages of the middle until `target_ratio` is left. Between the two the context only
    grows for many turns, so that the provider's cache serves it. If the recents alone exceed the
    target, they stay while the request is below the middle between trigger and target.

    Values outside their limits are brought in: `trigger_ratio` from 0.1 to 0.95, `target_ratio`
    from 0.1 to 0.9, `primers` and `recents` from 0 to 1000.

    Source: Zhang 2026, chapters 7.3 and 7.4; Kocoro-lab/Shannon 0190a84.
    """

    primers: int = 3
    recents: int = 20
    trigger_ratio: float = 0.75
    target_ratio: float = 0.375
    summary_tokens: int = SUMMARY_TOKENS
    summarizer: Any = None  # a model; `None` is the graph's
    rate: Rate | None = None  # `None` sets no limit: a compaction lasts until the window is full
    per_turn: PerTurn = True
    ratios: Ratios = field(init=False)

    def __post_init__(self) -> None:
        check_per_turn(self.per_turn)
        ratios = Ratios(trigger=self.trigger_ratio, target=self.target_ratio)
        if ratios.target >= ratios.trigger:
            raise ConfigurationError(
                f"target_ratio {ratios.target!r} does not lie under trigger_ratio "
                f"{ratios.trigger!r}: every call would fold; lower the first"
            )
        object.__setattr__(self, "ratios", ratios)
        for name in ("primers", "recents"):
            object.__setattr__(self, name, int(clamped(name, getattr(self, name), 0, 1_000)))

    def plan(self, ctx: PlanContext) -> Steps[Plan]:
        """Clear stale tool results and summarize the middle once the trigger is reached.

        Change nothing if the gain would be small, because the next call would do it again.
        """
        if not self.ratios.reached(ctx.tokens, ctx.window):
            return ctx.keep()
        length = len(ctx.messages)
        if self.rate and not self.rate.allows(
            ctx.own_compaction, length=length, minutes=ctx.minutes
        ):
            return ctx.keep()
        goal = self.ratios.goal(ctx.window)
        cleared = clear_stale(ctx).after
        room = (goal + self.ratios.trigger * ctx.window) / 2
        middle = self._until(cleared, goal, room) if cleared.tokens > goal else []
        shorter = self._tight(cleared.leave_out(middle, why=WHY).after, goal).after
        if ctx.tokens - shorter.tokens < GAIN * (self.ratios.trigger * ctx.window - goal):
            return ctx.keep()
        summarized = yield from compact_with_model(cleared, middle, self._how(), why=WHY)
        if summarized.problems:
            return ctx.keep(*summarized.problems)
        return self._tight(summarized.after, goal)

    def reduce(self, ctx: PlanContext) -> Steps[Plan]:
        """Shorten tool results, then summarize the middle, because a context was too long.

        Each further overflow leaves less, and the last ones no primers. If the summarizer fails,
        the summary is made of the user's questions.
        """
        after = shorten_results(ctx).after
        if after is not ctx and ctx.window_tokens and after.tokens < ctx.window_tokens:
            return Plan(after=after)
        middle = self._less(after)
        summarized = yield from compact_with_model(after, middle, self._how(), why=WHY)
        if summarized.problems:
            summarized = replace(
                compact_locally(after, middle, why=WHY), problems=summarized.problems
            )
        if summarized.after is ctx:
            stuck = ContextOverflowError("Nothing lies between what must be shown")
            return ctx.keep(*summarized.problems, stuck)
        return summarized

    def middle(self, ctx: PlanContext, *, primers: int, recents: int) -> list[AnyMessage]:
        """Return the messages between primers and recents, without steps that reach into either."""
        said = ctx.conversation
        first = safe_split(said, min(primers, len(said)), towards="newer")
        last = safe_split(said, max(0, len(said) - recents), towards="older")
        return list(said[first:last])

    def _tight(self, ctx: PlanContext, goal: int) -> Plan:
        reached = self.ratios.reached(ctx.tokens, ctx.window)
        return truncate_large(ctx, goal) if reached else ctx.keep()

    def _until(self, ctx: PlanContext, goal: int, room: float) -> list[AnyMessage]:
        """The oldest messages of the middle, as many as reach the goal with a summary included.

        The recents stay whole if that leaves at most `room` tokens.
        """
        said = ctx.conversation
        first = safe_split(said, min(self.primers, len(said)), towards="newer")
        ends = [index for index in safe_indices(said)[:-1] if index > first]
        if not ends:
            return []
        view, loose = ctx.context, {m.id for m in ctx.removable(said[first:])}
        told = self.summary_tokens + ctx.count([summary_message([""], ctx.texts)])

        def left(end: int) -> int:
            gone = loose & {each.id for each in said[first:end]}
            shown = [each for each in view if each.id not in gone]
            return ctx.overhead_tokens + ctx.count(shown) + told

        floor = safe_split(said, max(0, len(said) - self.recents), towards="older")
        end = ends[min(bisect_left(ends, -goal, key=lambda each: -left(each)), len(ends) - 1)]
        if first < floor < end and left(floor) <= room:
            end = floor
        return list(said[first:end])

    def _less(self, ctx: PlanContext) -> list[AnyMessage]:
        times = max(ctx.overflows, 1) - 1
        if ctx.window_tokens is not None:
            goal = self.ratios.goal(min(ctx.window_tokens, ctx.tokens)) >> times
            if found := ctx.removable(self._until(ctx, goal, room=0)):
                return found
        halved = [self.recents >> each for each in range(self.recents.bit_length() + 1)]
        newest = {
            ctx.conversation[index].id for step in steps(ctx.conversation)[-1:] for index in step
        }
        for primers, recents in [*((self.primers, each) for each in halved), (0, 0)][times:]:
            middle = self.middle(ctx, primers=primers, recents=recents)
            if found := ctx.removable(each for each in middle if each.id not in newest):
                return found
        return []

    def _how(self) -> Summarizer:
        return Summarizer(model=self.summarizer, tokens=self.summary_tokens)
