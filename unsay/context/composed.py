"""Strategies one after the other, each on what the one before it left."""

from dataclasses import dataclass, replace

from unsay.context.base import PerTurn, Strategy, check_strategy, is_smaller, planned, tried
from unsay.context.situation import Plan, Situation
from unsay.effects import Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed:
    """Several strategies in order.

    Each sees the view, and its share of the window, as the one before left it. One
    that fails changes nothing and does not stop the next.

    Source:
        strands-agents harness-sdk, `ContextManager`.
    """

    strategies: tuple[Strategy, ...]
    """In the order in which they are asked, each at its own rhythm."""

    def __post_init__(self) -> None:
        for each in self.strategies:
            check_strategy(each)

    @property
    def per_turn(self) -> PerTurn:
        """Always: each of them has its own."""
        return True

    def plan(self, now: Situation) -> Steps[Plan]:
        """The view after all of them."""
        plan = now.keep()
        for each in self.strategies:
            later = yield from planned(each, plan.after)
            plan = replace(later, problems=(*plan.problems, *later.problems))
        return plan

    def reduce(self, now: Situation) -> Steps[Plan]:
        """The first of them that makes the view smaller; `keep` with all reasons when none can."""
        plan = now.keep()
        for each in self.strategies:
            later = yield from tried(each.reduce, plan.after)
            plan = replace(later, problems=(*plan.problems, *later.problems))
            if is_smaller(plan.after, now):
                break
        return plan
