"""`ThreeStage`, the default strategy: the first messages, a summary, the newest messages."""

import logging
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from langchain_core.messages import AnyMessage, ToolMessage

from unsay.arguments import configurable
from unsay.context.compaction import Compaction, clear, summary_message, truncate
from unsay.context.plan import WINDOW_TOKENS, Plan, PlanContext
from unsay.context.strategy import PerTurn, Strategy, check_least, check_per_turn
from unsay.context.summaries import (
    SUMMARY_TOKENS,
    Summarizer,
    compact_locally,
    compact_with_model,
    refuse_two_instructions,
)
from unsay.effects import Steps
from unsay.errors import ConfigurationError, ContextOverflowError
from unsay.messages.annotations import is_question
from unsay.messages.boundaries import safe_indices, safe_split, steps, tail_start
from unsay.settings.groups import clamped

# Number of newest results that are never cleared.
# Source: strands-agents harness-sdk, stale_tool_cleanup (keep newest 5).
FRESH_RESULTS = 5


def clear_stale(ctx: PlanContext) -> Plan:
    """Return the plan that clears all tool results except pinned ones and the newest five.

    A cleared result is one line. If nothing becomes shorter, the plan changes nothing.
    """
    results = [message for message in ctx.unpinned if isinstance(message, ToolMessage)]
    shortened = ctx.shortened_ids
    for result in reversed(results[:-FRESH_RESULTS]):
        if result.id not in shortened and clear(result, ctx.texts) is not result:
            return ctx.shorten(clear=result)
    return ctx.keep()


def truncate_large(ctx: PlanContext, goal_tokens: int | None) -> Plan:
    """Return the plan that truncates tool results, oldest first, until `goal_tokens` are reached.

    `goal_tokens` is for the whole request; `None` truncates one result. Pinned and shortened
    results are skipped. If nothing can be truncated, the plan changes nothing.
    """
    plan, shortened = ctx.keep(), ctx.shortened_ids
    results = [message for message in ctx.unpinned if isinstance(message, ToolMessage)]
    for result in results:
        if result.id in shortened or truncate(result, ctx.texts) is result:
            continue
        plan = ctx.shorten(truncate=result)
        if goal_tokens is None or plan.after.tokens <= goal_tokens:
            break
    return plan


def shorten_results(ctx: PlanContext) -> Plan:
    """Return the plan that clears old tool results, or truncates large ones if none can be cleared.

    It is for an overflow. The first overflow of a call truncates results until the request fits the
    window, or one result if the window is unknown; a later overflow truncates all of them. If no
    result can become shorter, the plan changes nothing.
    """
    cleared = clear_stale(ctx)
    if cleared.after is not ctx:
        return cleared
    goal = 0 if ctx.overflows > 1 else ctx.window_tokens and ctx.window_tokens - 1
    return truncate_large(ctx, goal)


WINDOW_RULE = "window"  # the rule's name in omissions and manifests

# Fewest messages that an overflow leaves out.
# Source: strands-agents sdk-python 1232230d, sliding window (`reduce_context`).
SMALLEST_TRIM = 2


@configurable
@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingWindow(Strategy):
    """Send the newest `window_size` messages and no summary of the older ones.

    The window begins with a question. If none is among the newest messages, the newest question is
    sent before them and counts as one of them. Use it when old messages do not matter: it never
    calls a model.

    Attributes:
        window_size: Number of messages besides pins and system messages; 0 sends only these and
            the question.
        truncate_results: Whether an overflow first shortens tool results.
        per_turn: See `Strategy.per_turn`.
        pin_first: Number of messages at the beginning that are never left out.

    Source: strands-agents, `SlidingWindowConversationManager`.
    """

    window_size: int = 40
    truncate_results: bool = True
    per_turn: PerTurn = False
    pin_first: int = 0

    def __post_init__(self) -> None:
        check_per_turn(self.per_turn)
        check_least(self, 0, "window_size", "pin_first")

    def plan(self, ctx: PlanContext) -> Plan:
        """Return the plan that leaves out all but the newest `window_size` messages.

        Pinned messages, the first `pin_first` ones and system messages stay as well. Fewer than
        `window_size` messages stay if that lets the rest begin with a question.
        """
        body = ctx.unprotected(self.pin_first)
        return self._trimmed(ctx, body, len(body) - self.window_size)

    def reduce(self, ctx: PlanContext) -> Plan:
        """Shorten tool results; if that saves nothing, leave out more of the oldest messages.

        The first overflow of a call leaves out two or more messages, the second at least half of
        those that may be left out, and the third all of these; with a known window also as many as
        needed until the request fits. If all must stay, the plan changes nothing and has the
        problem.
        """
        if self.truncate_results:
            shorter = shorten_results(ctx)
            if shorter.after.tokens < ctx.tokens:
                return shorter
        body = ctx.unprotected(self.pin_first)
        least = max(SMALLEST_TRIM, len(body) - self.window_size)
        surplus = {1: least, 2: max(least, len(body) // 2)}.get(max(ctx.overflows, 1), len(body))
        plan = self._trimmed(ctx, body, surplus)
        while ctx.window_tokens and surplus < len(body) and plan.after.tokens >= ctx.window:
            # In large steps, since each step counts the tokens of the whole context again.
            surplus += max(SMALLEST_TRIM, (len(body) - surplus) // 4)
            plan = self._trimmed(ctx, body, surplus)
        if plan.after is ctx:
            return ctx.keep(ContextOverflowError("All messages of the context must stay"))
        return plan

    def _trimmed(self, ctx: PlanContext, body: Sequence[AnyMessage], surplus: int) -> Plan:
        """Return the plan that leaves out about `surplus` of the oldest messages of `body`.

        The rest begins with a question. If no question follows, the newest one before it stays too.
        For a `surplus` of 0 or less, the plan changes nothing.
        """
        if surplus <= 0:
            return ctx.keep()
        if self.window_size == 0:
            return ctx.leave_out(body, why=WINDOW_RULE)
        surplus = min(surplus, len(body))
        start = tail_start(body, surplus, towards="newer")
        if start is not None:
            return ctx.leave_out(body[:start], why=WINDOW_RULE)
        # No question begins a window of this size: keep the newest one in front of the window.
        question = next((m for m in reversed(body) if is_question(m)), None)
        start = safe_split(body, min(surplus + 1, len(body)), towards="newer")
        if start == len(body):
            start = tail_start(body, surplus, towards="older") or 0
        return ctx.leave_out([m for m in body[:start] if m is not question], why=WINDOW_RULE)


LOG = logging.getLogger(__name__)


@configurable
@dataclass(frozen=True, kw_only=True, eq=False)
class Proactive:
    """Share of the window, above 0 and up to 1, at which messages are summarized.

    Source: strands-agents 1.62.0, `proactive_compression` (0.7, inclusive).
    """

    threshold: float = 0.7

    def __post_init__(self) -> None:
        if not 0 < self.threshold <= 1:
            raise ConfigurationError(
                f"threshold must be above 0 and at most 1, got {self.threshold!r}"
            )

    def reached(self, tokens: int | None, window_tokens: int | None) -> bool:
        """Return whether a request of `tokens` reaches the threshold; `False` for `None` tokens.

        For an unknown window (`None`) `WINDOW_TOKENS` is assumed, with one warning in the log.
        """
        if tokens is None:
            return False
        if window_tokens is None:
            _warn_once(self)
        return tokens >= self.threshold * (window_tokens or WINDOW_TOKENS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratios:
    """Shares of a budget at which compression begins (`trigger`) and ends (`target`).

    Values outside 0.1 to 0.95 and 0.1 to 0.9 are limited, with a warning in the log.

    Source: Kocoro-lab/Shannon 0190a84, `getCompressionRatios` (0.75, 0.375, and the limits).
    """

    trigger: float = 0.75
    target: float = 0.375

    def __post_init__(self) -> None:
        object.__setattr__(self, "trigger", clamped("trigger_ratio", self.trigger, 0.1, 0.95))
        object.__setattr__(self, "target", clamped("target_ratio", self.target, 0.1, 0.9))

    def reached(self, tokens: int, budget_tokens: int) -> bool:
        """Return whether `tokens` of a request are at least the share `trigger` of the budget."""
        return tokens >= self.trigger * budget_tokens

    def goal(self, budget_tokens: int) -> int:
        """Return the share `target` of the budget: the tokens that compression aims at; more can remain."""
        return int(self.target * budget_tokens)


@configurable
@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Least distance between two compactions, in new messages and in minutes; both must be reached.

    Source: Kocoro-lab/Shannon 0190a84, `ShouldCompressContext` (20 messages and 30 minutes).
    """

    min_new_messages: int = 20
    min_minutes: float = 30.0

    def __post_init__(self) -> None:
        check_least(self, 0, "min_new_messages", "min_minutes")

    def allows(self, compaction: Compaction, *, length: int, minutes: float | None) -> bool:
        """Return whether enough messages and minutes are new since the last compaction, `compaction`.

        `length` is the number of messages of the transcript; before the first compaction all of
        them are new. If it is less than at the last compaction, because of a rollback, no new
        messages are needed. `minutes` is the time now on the caller's clock; without a clock it is
        `None`, and only messages count.
        """
        new = length - compaction.get("length", 0)
        last = compaction.get("minutes")
        rested = last is None or minutes is None or minutes - last >= self.min_minutes
        # A rollback makes the transcript shorter than at the last compaction: do not wait then.
        return rested and (new >= self.min_new_messages or new < 0)


@lru_cache(maxsize=256)
def _warn_once(proactive: Proactive) -> None:
    LOG.warning(
        "threshold=%r assumed_tokens=%d the model's window is not known",
        proactive.threshold,
        WINDOW_TOKENS,
    )


# A multiple of the primers above which the recents are out of balance: the presets and the advice
# have up to 17, the warning example 50. Source: Zhang 2026, chapters 7.4, 7.7 and 7.9.
UNBALANCED = 20


@lru_cache(maxsize=256)
def _warn_of_balance(primers: int, recents: int) -> None:
    LOG.warning(
        "primers=%d recents=%d the numbers are unbalanced: with few primers the model forgets what "
        "the user first asked, with few recents what was just said; 3 and 20 are balanced",
        primers,
        recents,
    )


MIDDLE_RULE = "middle"  # the rule's name in omissions and manifests

# Smallest saving for which the strategy acts, as a share of the tokens between trigger and target:
# a smaller one would be repeated at each call, and each change invalidates the provider's cache.
GAIN = 0.25


@configurable
@dataclass(frozen=True, slots=True, kw_only=True)
class ThreeStage(Strategy):
    """Keep the first and the newest messages and replace the middle with a summary.

    When a request reaches the trigger, the strategy summarizes the oldest messages after the
    primers until the target is reached. Until the next compaction the context only grows, which
    keeps the provider's cache valid. Recents are summarized, too, if the target needs it; but all
    of them stay if the request with them is at most the midpoint of trigger and target.

    Values outside their limits are limited, with a warning in the log.

    Attributes:
        primers: Number of first messages that stay, from 0 to 1000.
        recents: Number of newest messages that stay if the target allows it, from 0 to 1000.
        trigger_ratio: Share of the window at which the strategy acts, from 0.1 to 0.95.
        target_ratio: Share of the window that it leaves, from 0.1 to 0.9; below `trigger_ratio`.
        summary_tokens: Requested length of a summary.
        window_messages: The strategy also acts when a context has more messages than this; `None`
            counts only tokens. Fewer `recents` stay if they and the primers fill this window.
        summarizer: A model that has its own instructions; `None` uses the graph's summarizer.
        system_prompt: Instructions for the graph's summarizer; excludes `summarizer`.
        rate: Least distance between two compactions; `None` sets none.
        per_turn: See `Strategy.per_turn`.
        ratios: Both ratios within their limits.

    Source: Zhang 2026, chapters 7.3 and 7.4; Kocoro-lab/Shannon 0190a84.
    """

    primers: int = 3
    recents: int = 20
    trigger_ratio: float = 0.75
    target_ratio: float = 0.375
    summary_tokens: int = SUMMARY_TOKENS
    window_messages: int | None = None
    summarizer: Any = None
    system_prompt: str | None = None
    rate: Rate | None = None
    per_turn: PerTurn = True
    ratios: Ratios = field(init=False)

    def __post_init__(self) -> None:
        check_per_turn(self.per_turn)
        refuse_two_instructions(self.summarizer, self.system_prompt)
        ratios = Ratios(trigger=self.trigger_ratio, target=self.target_ratio)
        if ratios.target >= ratios.trigger:
            raise ConfigurationError(
                f"target_ratio must be less than trigger_ratio={ratios.trigger!r}, got "
                f"{ratios.target!r}"
            )
        object.__setattr__(self, "ratios", ratios)
        for name in ("primers", "recents"):
            object.__setattr__(self, name, int(clamped(name, getattr(self, name), 0, 1_000)))
        check_least(self, 1, "window_messages", "summary_tokens")
        if not self.primers <= self.recents <= UNBALANCED * max(1, self.primers):
            _warn_of_balance(self.primers, self.recents)

    def plan(self, ctx: PlanContext) -> Steps[Plan]:
        """Clear old tool results and summarize old messages if the request reaches the trigger.

        If the shorter request still reaches the trigger, large tool results are truncated too. With
        more than `window_messages` messages only the middle is summarized, whatever the tokens. The
        plan changes nothing if it would save few tokens, if `rate` does not allow it yet, or if the
        summarizer fails; then it has the problem.
        """
        too_many = self._surplus(ctx)
        if not too_many and not self.ratios.reached(ctx.tokens, ctx.window):
            return ctx.keep()
        length = len(ctx.messages)
        if self.rate and not self.rate.allows(
            ctx.own_compaction, length=length, minutes=ctx.minutes
        ):
            return ctx.keep()
        if too_many:
            return (yield from compact_with_model(ctx, too_many, self._how(), why=MIDDLE_RULE))
        goal = self.ratios.goal(ctx.window)
        cleared = clear_stale(ctx).after  # first, because it needs no model
        room = (goal + self.ratios.trigger * ctx.window) / 2
        middle = self._until(cleared, goal, room) if cleared.tokens > goal else []
        shorter = self._tight(cleared.leave_out(middle, why=MIDDLE_RULE).after, goal).after
        if ctx.tokens - shorter.tokens < GAIN * (self.ratios.trigger * ctx.window - goal):
            return ctx.keep()
        summarized = yield from compact_with_model(cleared, middle, self._how(), why=MIDDLE_RULE)
        if summarized.problems:
            return ctx.keep(*summarized.problems)
        return self._tight(summarized.after, goal)

    def reduce(self, ctx: PlanContext) -> Steps[Plan]:
        """Shorten tool results and maybe summarize old messages, after an overflow of the window.

        It summarizes unless the shortened request fits a known window. Each further overflow keeps
        fewer messages, in the end no primers. If the summarizer fails, the summary is made without
        a model. If nothing more can be left out, the plan changes nothing and has the problem.
        """
        after = shorten_results(ctx).after
        if after is not ctx and ctx.window_tokens and after.tokens < ctx.window_tokens:
            return Plan(after=after)
        middle = self._less(after)
        summarized = yield from compact_with_model(after, middle, self._how(), why=MIDDLE_RULE)
        if summarized.problems:
            summarized = replace(
                compact_locally(after, middle, why=MIDDLE_RULE), problems=summarized.problems
            )
        if summarized.after is ctx:
            stuck = ContextOverflowError("There is no message between those that must stay")
            return ctx.keep(*summarized.problems, stuck)
        return summarized

    def middle(self, ctx: PlanContext, *, primers: int, recents: int) -> list[AnyMessage]:
        """Return the messages between primers and recents, also those that are left out already.

        A tool call and its results are never separated: they are in the middle together or not at
        all.
        """
        messages = ctx.conversation
        first = safe_split(messages, min(primers, len(messages)), towards="newer")
        last = safe_split(messages, max(0, len(messages) - recents), towards="older")
        return list(messages[first:last])

    def _surplus(self, ctx: PlanContext) -> list[AnyMessage]:
        """Return the middle if the context has more than `window_messages`; else an empty list."""
        if self.window_messages is None:
            return []
        message_count = sum(message.type != "system" for message in ctx.shown)
        if message_count <= self.window_messages:
            return []
        primers, recents = self.primers, self.recents
        if primers + recents >= self.window_messages:
            # Half of the window, so that the next compaction is not due at once.
            recents = max(1, self.window_messages // 2)
            primers = min(primers, self.window_messages - recents - 1)
        return ctx.removable(self.middle(ctx, primers=max(0, primers), recents=recents))

    def _tight(self, ctx: PlanContext, goal: int) -> Plan:
        reached = self.ratios.reached(ctx.tokens, ctx.window)
        return truncate_large(ctx, goal) if reached else ctx.keep()

    def _until(self, ctx: PlanContext, goal: int, room: float) -> list[AnyMessage]:
        """Return the oldest messages after the primers whose removal leaves at most `goal` tokens.

        If no removal leaves so few, all that can be removed are returned; the list can be empty.
        The newest `recents` messages can be in it. They are not if the removal of the messages
        before them leaves at most `room` tokens.
        """
        messages = ctx.conversation
        first = safe_split(messages, min(self.primers, len(messages)), towards="newer")
        ends = [index for index in safe_indices(messages)[:-1] if index > first]
        if not ends:
            return []
        context, removable = ctx.context, {m.id for m in ctx.removable(messages[first:])}
        summary = self.summary_tokens + ctx.count([summary_message([""], ctx.texts)])

        def left(end: int) -> int:
            removed = removable & {message.id for message in messages[first:end]}
            remainder = [message for message in context if message.id not in removed]
            return ctx.overhead_tokens + ctx.count(remainder) + summary

        floor = safe_split(messages, max(0, len(messages) - self.recents), towards="older")
        end = ends[min(bisect_left(ends, -goal, key=lambda index: -left(index)), len(ends) - 1)]
        # The recents stay whole if that leaves at most `room` tokens.
        if first < floor < end and left(floor) <= room:
            end = floor
        return list(messages[first:end])

    def _less(self, ctx: PlanContext) -> list[AnyMessage]:
        """Return the messages to summarize after an overflow; empty if all must stay.

        Each further overflow of a call returns more.
        """
        times = max(ctx.overflows, 1) - 1
        # A known window gives a goal in tokens. If that finds nothing, halve the recents.
        if ctx.window_tokens is not None:
            goal = self.ratios.goal(min(ctx.window_tokens, ctx.tokens)) >> times
            if removable := ctx.removable(self._until(ctx, goal, room=0)):
                return removable
        halved = [self.recents >> shift for shift in range(self.recents.bit_length() + 1)]
        messages = ctx.conversation
        newest = {messages[index].id for step in steps(messages)[-1:] for index in step}
        for primers, recents in [*((self.primers, count) for count in halved), (0, 0)][times:]:
            middle = self.middle(ctx, primers=primers, recents=recents)
            if removable := ctx.removable(m for m in middle if m.id not in newest):
                return removable
        return []

    def _how(self) -> Summarizer:
        return Summarizer(
            model=self.summarizer, system=self.system_prompt, tokens=self.summary_tokens
        )
