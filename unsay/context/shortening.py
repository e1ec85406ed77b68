"""Plans that shorten tool results: stale ones are cleared before any is truncated."""

from collections.abc import Sequence

from langchain_core.messages import ToolMessage

from unsay.context.situation import Plan, Situation
from unsay.context.tool_results import large, stale


def clear_stale(now: Situation) -> Plan:
    """Clear the results that are not among the newest few."""
    found = _whole(now, stale(now.unpinned, now.texts))
    return now.shorten(clear=found[-1]) if found else now.keep()


def truncate_large(now: Situation, goal_tokens: int | None) -> Plan:
    """Truncate results, the oldest first, until the request has at most so many tokens.

    Args:
        now: The situation.
        goal_tokens: `None` truncates one.
    """
    plan = now.keep()
    for each in _whole(now, large(now.unpinned, now.texts)):
        plan = now.shorten(truncate=each)
        if goal_tokens is None or plan.after.tokens <= goal_tokens:
            break
    return plan


def shorten_results(now: Situation) -> Plan:
    """Clear stale results, else truncate large ones, because a view was too long.

    The first overflow of a call truncates one result, a further one all of them; where
    the window is known, as many as it takes to get under it.
    """
    cleared = clear_stale(now)
    if cleared.after is not now:
        return cleared
    goal = 0 if now.overflows > 1 else now.window_tokens and now.window_tokens - 1
    return truncate_large(now, goal)


def _whole(now: Situation, results: Sequence[ToolMessage]) -> list[ToolMessage]:
    """Those of the results that the view shows as the record has them."""
    gone = now.shortened_ids
    return [each for each in results if each.id not in gone]
