"""The protocol of strategies, which decide what a context leaves out, and how they are called.

A strategy is pure: it makes a plan from a situation. If it needs a summary from a model, it is a
generator that yields the call. Messages that must stay are kept whatever it leaves out.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from unsay.context.overflow import is_context_overflow
from unsay.context.plan import Plan, PlanContext
from unsay.effects import Steps
from unsay.errors import ConfigurationError, ContextOverflowError, ModelError

MAX_RETRIES = 3
"""How often one call is repeated with a smaller context.
Source: strands-agents harness-sdk, `_context_manager` (overflow retry cap)."""

PerTurn = bool | int
"""`False` plans at the end of a turn, `True` also before every model call, N before every Nth."""


class Strategy(Protocol):
    """Decide what a context leaves out.

    >>> class QuestionsOnly(Strategy):
    ...     def plan(self, ctx):
    ...         if ctx.utilization < 0.5:
    ...             return ctx.keep()
    ...         old = [each for each in ctx.shown[:-4] if each.type == "ai"]
    ...         return ctx.leave_out(old, why="answers")
    >>> QuestionsOnly().per_turn
    True
    """

    @property
    def per_turn(self) -> PerTurn:
        """When the strategy plans."""
        return True

    def plan(self, ctx: PlanContext) -> Plan | Steps[Plan]:
        """Plan the next context; return `ctx.keep()` if nothing has to change.

        Leave out much at once and rarely: each change invalidates the provider's cache.
        """
        ...

    def reduce(self, ctx: PlanContext) -> Plan | Steps[Plan]:
        """Make the context smaller because the model said that it is too long.

        Returns:
            `ctx.keep(problem)` if nothing more can be left out.
        """
        return self.plan(ctx)


def check_per_turn(per_turn: PerTurn) -> None:
    """Check a `per_turn` value.

    Raises:
        ConfigurationError: It is neither a boolean nor a number from 1.

    Source: strands-agents sdk-python 1232230d, `per_turn`.
    """
    if not isinstance(per_turn, int) or (not isinstance(per_turn, bool) and per_turn < 1):
        raise ConfigurationError(
            f"per_turn={per_turn!r} is never due: write False, True, or a number of calls from 1"
        )


def check_strategy(strategy: Any) -> None:
    """Check that an object can be used as a strategy.

    Raises:
        ConfigurationError: It lacks `plan` or `reduce`, or its `per_turn` is invalid.
    """
    for name in ("plan", "reduce"):
        if isinstance(strategy, type) or not callable(getattr(strategy, name, None)):
            raise ConfigurationError(
                f"{strategy!r} is no strategy, as it has no {name!r} to call: hand in an object of "
                "a class that extends unsay.context.strategy.Strategy"
            )
    check_per_turn(planning_interval(strategy))


def planning_interval(strategy: Strategy) -> PerTurn:
    """Return when a strategy plans: before every call if it has no `per_turn`."""
    return getattr(strategy, "per_turn", True)


def is_due(per_turn: PerTurn, call: int | None) -> bool:
    """Return whether a strategy plans before this model call of the turn; `None` is its end."""
    if call is None or isinstance(per_turn, bool):
        return call is None or bool(per_turn)
    return call % per_turn == 0


def plan_if_due(strategy: Strategy, ctx: PlanContext) -> Steps[Plan]:
    """Return the strategy's plan if one is due, as `call_strategy` does."""
    if not is_due(planning_interval(strategy), ctx.call):
        return ctx.keep()
    return (yield from call_strategy(strategy.plan, ctx))


def reduce_context(strategy: Strategy, ctx: PlanContext) -> Steps[Plan]:
    """Return the strategy's plan of a smaller context, after `ctx` was too long for the model.

    Raises:
        ContextOverflowError: The context did not become smaller.
        SummarizationError: It did not, because there was no summary.
    """
    plan = yield from call_strategy(strategy.reduce, ctx)
    if is_smaller(plan.after, ctx):
        return plan
    # A summarizer's own failure says more than that the context is too long.
    models = (p for p in plan.problems if isinstance(p, ModelError))
    stuck = next((p for p in models if not isinstance(p, ContextOverflowError)), None)
    reasons = "; ".join(
        str(each) if isinstance(each, ContextOverflowError) else f"{type(each).__name__}: {each}"
        for each in plan.problems
    )
    raise stuck or ContextOverflowError(
        f"A view of {len(ctx.context)} messages, about {ctx.tokens} tokens, is too long for the model "
        f"and {type(strategy).__name__!r} cannot make it smaller: "
        f"{reasons or 'all that is left must stay'}. Unpin something, ask for less at once, use a "
        "model with a larger window, or start a new topic."
    )


def is_smaller(after: PlanContext, before: PlanContext) -> bool:
    """Return whether a plan gained something: fewer tokens, or fewer messages."""
    return len(after.shown) < len(before.shown) or after.tokens < before.tokens


def call_strategy(
    make: Callable[[PlanContext], Plan | Steps[Plan]], ctx: PlanContext
) -> Steps[Plan]:
    """Return a strategy's plan; if it fails, the plan changes nothing and has the problem."""
    try:
        made = make(ctx)
        plan = made if isinstance(made, Plan) else (yield from made)
        if not isinstance(plan, Plan):
            raise ConfigurationError(
                f"{make!r} made {plan!r}, which is no plan: return ctx.keep() or ctx.leave_out(…)"
            )
        must = (ctx.pins | ctx.pending) & {each.id for each in ctx.messages}
        if plan.after is not ctx and (lost := must - {each.id for each in plan.after.context}):
            raise ConfigurationError(
                f"The plan leaves out {min(lost)!r}, which is pinned or the running question: make "
                "plans by ctx.leave_out(…), which keeps what must stay"
            )
    except Exception as problem:  # noqa: BLE001 - a strategy is anyone's code; the talk goes on
        return ctx.keep(problem)
    return plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A model's reply, and the plan of the context that it replied to."""

    reply: Any
    plan: Plan


def ask_with_strategy(
    strategy: Strategy,
    ctx: PlanContext,
    send: Callable[[Plan], Steps[Any]],
    *,
    has_extras: Callable[[], bool] = lambda: False,
    retries: int = MAX_RETRIES,
) -> Steps[Answered]:
    """Plan a context and ask the model; if it is too long, reduce it and ask again.

    If `has_extras` says that more was sent than the plan's messages, the same plan is sent again
    first: once `overflows` is set, `send` leaves out the extras.

    Raises:
        ContextOverflowError: The context was too long every time, or could not be made smaller.
        SummarizationError: It could not be made smaller, because there was no summary.
    """
    plan = yield from plan_if_due(strategy, ctx)
    for overflows in range(1, retries + 2):
        try:
            reply = yield from send(plan)
        except Exception as error:  # any client may raise anything; only an overflow is handled
            if not is_context_overflow(error):
                raise
            if overflows > retries:
                raise ContextOverflowError(
                    f"The view was too long {overflows} times, although it was made smaller "
                    f"{retries} times ({error}). Unpin something, ask for less at once, or use a "
                    "model with a larger window."
                ) from error
            after = replace(plan.after, overflows=overflows)
            if has_extras():
                plan = replace(plan, after=after)
            else:
                plan = yield from reduce_context(strategy, after)
        else:
            return Answered(reply=reply, plan=plan)
    raise AssertionError("the last failure was raised")


@dataclass(frozen=True, slots=True, kw_only=True)
class Null(Strategy):
    """Show everything; the caller handles an overflow.

    Source: strands-agents, `NullConversationManager`.
    """

    per_turn: PerTurn = False

    def plan(self, ctx: PlanContext) -> Plan:
        """Leave out nothing."""
        return ctx.keep()


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed(Strategy):
    """Apply several strategies in order.

    Each plans from the context that the one before left. One that fails changes nothing and does
    not stop the next.

    Source: strands-agents harness-sdk, `ContextManager`.
    """

    strategies: tuple[Strategy, ...]

    def __post_init__(self) -> None:
        for each in self.strategies:
            check_strategy(each)

    def plan(self, ctx: PlanContext) -> Steps[Plan]:
        """Apply all of them; each plans when its own `per_turn` says."""
        plan = ctx.keep()
        for each in self.strategies:
            later = yield from plan_if_due(each, plan.after)
            plan = replace(later, problems=(*plan.problems, *later.problems))
        return plan

    def reduce(self, ctx: PlanContext) -> Steps[Plan]:
        """Apply them until one makes the context smaller; keep it, with all problems, if none can."""
        plan = ctx.keep()
        for each in self.strategies:
            later = yield from call_strategy(each.reduce, plan.after)
            plan = replace(later, problems=(*plan.problems, *later.problems))
            if is_smaller(plan.after, ctx):
                break
        return plan
