"""`SlidingWindow`, and the shortening of tool results that several strategies share."""

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.messages import AnyMessage, ToolMessage

from unsay.arguments import configurable
from unsay.context.plan import Plan, PlanContext
from unsay.context.strategy import PerTurn, Strategy, check_least, check_per_turn
from unsay.context.tool_results import clear, truncate
from unsay.errors import ContextOverflowError
from unsay.messages.annotations import is_question
from unsay.messages.boundaries import safe_split, tail_start

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


WHY = "window"  # the rule's name in omissions and manifests

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
            return ctx.leave_out(body, why=WHY)
        surplus = min(surplus, len(body))
        start = tail_start(body, surplus, towards="newer")
        if start is not None:
            return ctx.leave_out(body[:start], why=WHY)
        # No question begins a window of this size: keep the newest one in front of the window.
        asked = next((m for m in reversed(body) if is_question(m)), None)
        start = safe_split(body, min(surplus + 1, len(body)), towards="newer")
        if start == len(body):
            start = tail_start(body, surplus, towards="older") or 0
        return ctx.leave_out([m for m in body[:start] if m is not asked], why=WHY)
