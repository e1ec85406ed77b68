"""Strategies: what views leave out, and when. One protocol for ours and for users' own.

A strategy is pure: it makes a plan from a situation. Where it needs a model's
words it is a step, which yields the call and goes on with the reply. It may ask
for whatever it likes to be left out: what must stay, stays.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from unsay.context.overflow import is_context_overflow
from unsay.context.plan import Plan, Situation
from unsay.effects import Steps
from unsay.errors import ConfigurationError, ContextOverflowError, ModelError

MAX_RETRIES = 3
"""How often one call is made again with a smaller view.

Source:
    strands-agents harness-sdk, `_context_manager` (overflow retry cap).
"""

PerTurn = bool | int
"""When to plan: `False` at the end of a turn, `True` before every model call as well, N before
every Nth."""


class Strategy(Protocol):
    """Decides what views leave out.

    >>> class QuestionsOnly(Strategy):
    ...     def plan(self, now):
    ...         if now.utilization < 0.5:
    ...             return now.keep()
    ...         old = [each for each in now.shown[:-4] if each.type == "ai"]
    ...         return now.leave_out(old, why="answers")
    >>> QuestionsOnly().per_turn
    True
    """

    @property
    def per_turn(self) -> PerTurn:
        """When it is asked for a plan; before every call where a strategy does not say."""
        return True

    def plan(self, now: Situation) -> Plan | Steps[Plan]:
        """Plan the next view; `now.keep()` where nothing need change.

        A plan is asked for again and again: what it leaves out should last until
        there is much more to leave out, or no provider's cache is ever of use.
        """
        ...

    def reduce(self, now: Situation) -> Plan | Steps[Plan]:
        """Make the view smaller, because the model says that it is too long.

        Returns:
            `now.keep(problem)` where nothing more can go.
        """
        return self.plan(now)


def check_per_turn(per_turn: PerTurn) -> None:
    """Refuse a rhythm that does not exist.

    Raises:
        ConfigurationError: It is no number, or one under 1.

    Source:
        strands-agents sdk-python 1232230d, `per_turn`.
    """
    if not isinstance(per_turn, int) or (not isinstance(per_turn, bool) and per_turn < 1):
        raise ConfigurationError(
            f"per_turn={per_turn!r} is never due: write False, True, or a number of calls from 1"
        )


def check_strategy(strategy: Any) -> None:
    """Refuse what could never plan a view.

    Raises:
        ConfigurationError: It lacks `plan` or `reduce`, or its rhythm does not exist.
    """
    for name in ("plan", "reduce"):
        if isinstance(strategy, type) or not callable(getattr(strategy, name, None)):
            raise ConfigurationError(
                f"{strategy!r} is no strategy, as it has no {name!r} to call: hand in an object of "
                "a class that extends unsay.context.strategy.Strategy"
            )
    check_per_turn(rhythm_of(strategy))


def rhythm_of(strategy: Strategy) -> PerTurn:
    """When a strategy is asked for a plan: before every call where it does not say."""
    return getattr(strategy, "per_turn", True)


def is_due(per_turn: PerTurn, call: int | None) -> bool:
    """Whether a strategy is asked for a plan now.

    `call` is the number of the next model call of the turn, `None` at its end.
    """
    if call is None or isinstance(per_turn, bool):
        return call is None or bool(per_turn)
    return call % per_turn == 0


def planned(strategy: Strategy, now: Situation) -> Steps[Plan]:
    """The strategy's plan, where one is due; what fails changes nothing and is told."""
    if not is_due(rhythm_of(strategy), now.call):
        return now.keep()
    return (yield from tried(strategy.plan, now))


def reduced(strategy: Strategy, now: Situation) -> Steps[Plan]:
    """The strategy's smaller view, after the model said that this one is too long.

    `now` has the fold of the view that was too long.

    Raises:
        ContextOverflowError: The view did not become smaller.
        SummarizationError: Nor did it, for want of a summary.
    """
    plan = yield from tried(strategy.reduce, now)
    if is_smaller(plan.after, now):
        return plan
    # Of a model that is to blame we say so; that the view is too long is said with the next step.
    models = (p for p in plan.problems if isinstance(p, ModelError))
    stuck = next((p for p in models if not isinstance(p, ContextOverflowError)), None)
    raise stuck or ContextOverflowError(
        f"A view of {len(now.view)} messages, about {now.tokens} tokens, is too long for the model "
        f"and {type(strategy).__name__!r} cannot make it smaller: {said(plan.problems)}. Unpin "
        "something, ask for less at once, use a model with a larger window, or start a new topic."
    )


def is_smaller(after: Situation, before: Situation) -> bool:
    """Whether something was gained: fewer tokens, or fewer of the record's messages."""
    return len(after.shown) < len(before.shown) or after.tokens < before.tokens


def said(problems: Sequence[Exception]) -> str:
    """Problems in one line."""
    words = "; ".join(
        str(each) if isinstance(each, ContextOverflowError) else f"{type(each).__name__}: {each}"
        for each in problems
    )
    return words or "all that is left must stay"


def tried(make: Callable[[Situation], Plan | Steps[Plan]], now: Situation) -> Steps[Plan]:
    """A strategy's plan; where it fails, nothing is changed and the reason is told."""
    try:
        made = make(now)
        plan = made if isinstance(made, Plan) else (yield from made)
        if not isinstance(plan, Plan):
            raise ConfigurationError(
                f"{make!r} made {plan!r}, which is no plan: return now.keep() or now.leave_out(…)"
            )
        must = (now.pins | now.pending) & {each.id for each in now.messages}
        if plan.after is not now and (lost := must - {each.id for each in plan.after.view}):
            raise ConfigurationError(
                f"The plan leaves out {min(lost)!r}, which is pinned or the running question: make "
                "plans by now.leave_out(…), which keeps what must stay"
            )
    except Exception as problem:  # noqa: BLE001 - a strategy is anyone's code; the talk goes on
        return now.keep(problem)
    return plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A model's reply, and the plan of the view that it replied to."""

    reply: Any
    plan: Plan


def ask_with(
    strategy: Strategy,
    now: Situation,
    send: Callable[[Plan], Steps[Any]],
    *,
    has_extras: Callable[[], bool] = lambda: False,
    retries: int = MAX_RETRIES,
) -> Steps[Answered]:
    """Plan a view and ask the model; where it is too long, reduce it and ask again.

    Where `has_extras` says that more was sent than the plan's view, that alone is left out first.

    Raises:
        ContextOverflowError: It was too long every time, or could not be made smaller.
        SummarizationError: It could not be made smaller for want of a summary.
        Exception: Whatever else the call raises.
    """
    plan = yield from planned(strategy, now)
    for overflows in range(1, retries + 2):
        try:
            reply = yield from send(plan)
        except Exception as error:  # any client may raise anything; what is no overflow goes on
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
                plan = yield from reduced(strategy, after)
        else:
            return Answered(reply=reply, plan=plan)
    raise AssertionError("the last failure was raised")


@dataclass(frozen=True, slots=True, kw_only=True)
class Null:
    """Shows everything; an overflow is the caller's to deal with.

    Source:
        strands-agents, `NullConversationManager`.
    """

    per_turn: PerTurn = False

    def plan(self, now: Situation) -> Plan:
        """The view as it is."""
        return now.keep()

    def reduce(self, now: Situation) -> Plan:
        """The view as it is."""
        return now.keep()


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed:
    """Several strategies in order.

    Each sees the view, and its share of the window, as the one before left it. One
    that fails changes nothing and does not stop the next.

    Source:
        strands-agents harness-sdk, `ContextManager`.
    """

    strategies: tuple[Strategy, ...]

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
