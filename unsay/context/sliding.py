"""The sliding window, and how every strategy shortens tool results."""

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.messages import AnyMessage

from unsay.context.plan import Plan, PlanContext
from unsay.context.strategy import PerTurn, Strategy, check_per_turn
from unsay.context.tool_results import large, stale
from unsay.errors import ConfigurationError, ContextOverflowError
from unsay.messages.annotations import is_question
from unsay.messages.boundaries import safe_split, tail_start


def clear_stale(ctx: PlanContext) -> Plan:
    """Clear the tool results that are not among the newest few."""
    gone = ctx.shortened_ids
    found = [each for each in stale(ctx.unpinned, ctx.texts) if each.id not in gone]
    return ctx.shorten(clear=found[-1]) if found else ctx.keep()


def truncate_large(ctx: PlanContext, goal_tokens: int | None) -> Plan:
    """Truncate tool results, the oldest first, until the goal is reached; `None` truncates one."""
    plan, gone = ctx.keep(), ctx.shortened_ids
    for each in large(ctx.unpinned, ctx.texts):
        if each.id in gone:
            continue
        plan = ctx.shorten(truncate=each)
        if goal_tokens is None or plan.after.tokens <= goal_tokens:
            break
    return plan


def shorten_results(ctx: PlanContext) -> Plan:
    """Clear stale tool results, else truncate large ones, because a context was too long.

    If the window is known, truncate as many as it takes to fit. Otherwise the first overflow of a
    call truncates one result, a further one all of them.
    """
    cleared = clear_stale(ctx)
    if cleared.after is not ctx:
        return cleared
    goal = 0 if ctx.overflows > 1 else ctx.window_tokens and ctx.window_tokens - 1
    return truncate_large(ctx, goal)


WHY = "window"  # the rule's name in omissions and manifests

SMALLEST_TRIM = 2
"""Number of messages that an overflow removes at least.
Source: strands-agents sdk-python 1232230d, sliding window (`reduce_context`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingWindow(Strategy):
    """Show the newest messages, without a summary of the others.

    The window begins with a question. If it contains none, the newest question is shown before it
    and counts as one of its messages.

    Source: strands-agents, `SlidingWindowConversationManager`.
    """

    window_size: int = 40  # messages, besides pins and instructions; 0 shows only these
    truncate_results: bool = True  # an overflow first shortens tool results
    per_turn: PerTurn = False
    pin_first: int = 0  # first messages that are never left out

    def __post_init__(self) -> None:
        check_per_turn(self.per_turn)
        for name in ("window_size", "pin_first"):
            if getattr(self, name) < 0:
                raise ConfigurationError(f"{name} {getattr(self, name)!r}: write 0 or more")

    def plan(self, ctx: PlanContext) -> Plan:
        """Leave out the messages before the window."""
        body = ctx.unprotected(self.pin_first)
        return self._trimmed(ctx, body, len(body) - self.window_size)

    def reduce(self, ctx: PlanContext) -> Plan:
        """Shorten tool results; if none can be shortened, leave out older messages.

        If the window is unknown, the first overflow removes the fewest messages, the second half of
        them, and the third all that may be left out.
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
            surplus += max(SMALLEST_TRIM, (len(body) - surplus) // 4)
            plan = self._trimmed(ctx, body, surplus)
        if plan.after is ctx:
            stuck = "Unable to trim conversation context: all that is shown must stay"
            return ctx.keep(ContextOverflowError(stuck))
        return plan

    def _trimmed(self, ctx: PlanContext, body: Sequence[AnyMessage], surplus: int) -> Plan:
        if surplus <= 0:
            return ctx.keep()
        if self.window_size == 0:
            return ctx.leave_out(body, why=WHY)
        surplus = min(surplus, len(body))
        start = tail_start(body, surplus, towards="newer")
        if start is not None:
            return ctx.leave_out(body[:start], why=WHY)
        asked = next((m for m in reversed(body) if is_question(m)), None)
        start = safe_split(body, min(surplus + 1, len(body)), towards="newer")
        if start == len(body):
            start = tail_start(body, surplus, towards="older") or 0
        return ctx.leave_out([m for m in body[:start] if m is not asked], why=WHY)
