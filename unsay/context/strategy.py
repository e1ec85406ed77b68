"""The `Strategy` protocol, which decides what a context leaves out, and how strategies are called."""

import math
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from unsay.arguments import check_arity, check_returns, configurable, shown
from unsay.context.plan import WORDING, Plan, PlanContext
from unsay.effects import Steps, is_own, user_call
from unsay.errors import ConfigurationError, ContextOverflowError, ModelError, SummarizationError

_OVERFLOW = WORDING["overflow"]
OVERFLOW_CODES = frozenset(_OVERFLOW["codes"])
OVERFLOW_WORDS: tuple[str, ...] = tuple(_OVERFLOW["words"])


def is_context_overflow(error: BaseException) -> bool:
    """Return whether a provider's error says that the prompt exceeds the model's window.

    `True` also for every `ContextOverflowError`, of any library. A rate limit that mentions tokens
    does not say so.
    """
    if any(kind.__name__ == "ContextOverflowError" for kind in type(error).__mro__):
        return True
    # LangChain's own `ContextOverflowError` is not raised for these codes in current versions.
    if getattr(error, "code", None) in OVERFLOW_CODES:
        return True
    # In a stream, some servers send the reason as plain text, which openai's client puts aside.
    text = f"{error} {getattr(error, 'body', '')}".lower()
    if getattr(error, "status_code", 400) not in (400, 413, 422):
        return False
    throttled = any(words in text for words in _OVERFLOW["throttling"])
    return not throttled and any(words in text for words in OVERFLOW_WORDS)


# Most repetitions of one call, each with a smaller context.
# Source: strands-agents harness-sdk, `_context_manager` (overflow retry cap).
MAX_RETRIES = 3

PerTurn = bool | int
"""`False` plans at the end of a turn; `True` also plans before every model call, N before every Nth."""


class Strategy(Protocol):
    """Base class of strategies, which decide what a context leaves out.

    Implement `plan`; override `reduce` and `per_turn` if their defaults do not fit. A strategy
    computes a plan from a `PlanContext` and stores nothing between plans. To ask a model, write `plan`
    as a generator: `reply = yield from ctx.ask(messages, None)`. `plan` and `reduce` may be async;
    they run off the event loop. An exception, or no plan within 30 seconds, leaves the
    context as it was; the turn continues.

    >>> class QuestionsOnly(Strategy):
    ...     def plan(self, ctx):
    ...         if ctx.utilization < 0.5:
    ...             return ctx.keep()
    ...         old = [message for message in ctx.shown[:-4] if message.type == "ai"]
    ...         return ctx.leave_out(old, why="answers")
    >>> QuestionsOnly().per_turn
    True
    """

    @property
    def per_turn(self) -> PerTurn:
        """When `plan` is called: always at the end of a turn, and maybe also before model calls.

        `True` is before each model call, a number N before every Nth one of a turn, `False` before
        none.
        """
        return True

    def plan(self, ctx: PlanContext) -> Plan | Steps[Plan] | Awaitable[Plan]:
        """Return the plan of the next context: of `ctx.keep`, `ctx.leave_out` or `ctx.shorten`.

        Called at the end of each turn, and before model calls as `per_turn` says. Leave out many
        messages at once, and rarely: each change invalidates the provider's cache.
        """
        ...

    def reduce(self, ctx: PlanContext) -> Plan | Steps[Plan] | Awaitable[Plan]:
        """Return the plan of a smaller context after the model refused this one as too long.

        By default this is `plan`. Return `ctx.keep(problem)` if nothing more can be left out; the
        turn then fails with a `ContextOverflowError`.
        """
        return self.plan(ctx)


def check_per_turn(per_turn: PerTurn) -> None:
    """Raise a `ConfigurationError` unless `per_turn` is a boolean or a whole number from 1.

    Source: strands-agents sdk-python 1232230d, `per_turn`.
    """
    if not isinstance(per_turn, int) or (not isinstance(per_turn, bool) and per_turn < 1):
        raise ConfigurationError(
            f"per_turn must be False, True or a number of calls from 1, got {per_turn!r}"
        )


def check_least(part: object, least: int, *names: str) -> None:
    """Raise a `ConfigurationError` unless these attributes of `part` are finite and `least` or more.

    `None` is accepted.
    """
    for name in names:
        value = getattr(part, name)
        if value is not None and not least <= value < math.inf:
            raise ConfigurationError(f"{name} must be {least} or more, got {value!r}")


def check_strategy(strategy: Any) -> None:
    """Raise a `ConfigurationError` unless an object has the methods `plan` and `reduce`.

    Both take a `PlanContext`. A `per_turn` may be missing, but must be valid.
    """
    for name in ("plan", "reduce"):
        if isinstance(strategy, type) or not callable(getattr(strategy, name, None)):
            raise ConfigurationError(
                f"{strategy!r} is not a strategy: pass an object of a class in unsay.context, such as "
                "SlidingWindow(), or of your own subclass of Strategy; settings={'strategy': …} "
                "takes a name"
            )
        method = getattr(strategy, name)
        check_arity(method, 1, f"strategy.{name}", "the PlanContext")
        check_returns(method, f"strategy.{name}", may_yield=True)
    check_per_turn(planning_interval(strategy))


def planning_interval(strategy: Strategy) -> PerTurn:
    """Return the `per_turn` of a strategy; `True` (also before every model call) if it has none."""
    return getattr(strategy, "per_turn", True)


def is_due(per_turn: PerTurn, call: int | None) -> bool:
    """Return whether a strategy plans before the turn's model call number `call`, from 1.

    `None` is the end of the turn, at which every strategy plans.
    """
    if call is None or isinstance(per_turn, bool):
        return call is None or bool(per_turn)
    return call % per_turn == 0


def plan_if_due(strategy: Strategy, ctx: PlanContext) -> Steps[Plan]:
    """Return the plan that a strategy makes of `ctx`.

    If the strategy's `per_turn` excludes this call, or the strategy fails, the plan changes
    nothing.
    """
    if not is_due(planning_interval(strategy), ctx.call):
        return ctx.keep()
    return (yield from call_strategy(strategy.plan, ctx))


def reduce_context(strategy: Strategy, ctx: PlanContext) -> Steps[Plan]:
    """Return the strategy's plan of a smaller context after the model refused `ctx` as too long.

    Raises:
        ContextOverflowError: The context did not become smaller.
        ModelError: It did not, because a model that the strategy asked failed. With the strategies
            of unsay this is a `SummarizationError`.
    """
    plan = yield from call_strategy(strategy.reduce, ctx)
    if is_smaller(plan.after, ctx):
        return plan
    # A failed summarizer is the cause that a user can fix, so its error is raised instead.
    model_errors = (p for p in plan.problems if isinstance(p, ModelError))
    stuck = next((p for p in model_errors if not isinstance(p, ContextOverflowError)), None)
    reasons = "; ".join(
        str(each) if isinstance(each, ContextOverflowError) else f"{type(each).__name__}: {each}"
        for each in plan.problems
    )
    raise stuck or ContextOverflowError(
        code="context_too_long",
        messages=len(ctx.context),
        tokens=ctx.tokens,
        strategy=type(strategy).__name__,
        reasons=reasons or "all remaining messages must stay",
    )


def is_smaller(after: PlanContext, before: PlanContext) -> bool:
    """Return whether the context `after` shows fewer messages or has fewer tokens than `before`."""
    return len(after.shown) < len(before.shown) or after.tokens < before.tokens


def call_strategy(
    make: Callable[[PlanContext], Plan | Steps[Plan] | Awaitable[Plan]], ctx: PlanContext
) -> Steps[Plan]:
    """Return the plan that `make`, a strategy's `plan` or `reduce`, returns for `ctx`.

    After an error, or if the plan lacks a pin or the running question, the returned plan changes
    nothing and has the error in `problems`.
    """
    try:
        plan = yield from user_call(make, ctx)
        if isinstance(plan, Generator):
            plan = yield from _advanced(plan, ctx, own=is_own(make))
        if not isinstance(plan, Plan):
            raise ConfigurationError(
                f"strategy.{shown(make)} returned {plan!r} instead of a plan: return ctx.keep() or "
                "ctx.leave_out(…)"
            )
        # A strategy may make a plan without `leave_out`, which would keep these messages.
        must = (ctx.pins | ctx.pending) & {message.id for message in ctx.messages}
        if plan.after is not ctx and (lost := must - {m.id for m in plan.after.context}):
            raise ConfigurationError(
                f"The plan leaves out {min(lost)!r}, which is pinned or the running question: "
                "return a plan of ctx.leave_out(…), which keeps such messages"
            )
    except Exception as problem:  # noqa: BLE001 - a user's strategy may raise anything
        return ctx.keep(problem)
    return plan


def _advanced(steps: Steps[Plan], ctx: PlanContext, *, own: bool) -> Steps[Any]:
    """Return the plan that a strategy's generator ends with.

    A user's generator (not `own`) runs off the event loop. Its code up to each call that it
    yields has the context's time limit, with `TimeoutError` after it. An error of a yielded call
    is raised inside the generator; an error that the generator raises is raised here.
    """
    advance: Callable[[], Any] = partial(next, steps)
    while True:
        next_part = partial(_part, advance)
        part = next_part() if own else (yield from user_call(next_part))
        if isinstance(part, _End):
            return part.plan
        try:
            # Not `yield from`: it would run whatever else a user's generator yields.
            advance = partial(steps.send, (yield part))
        except Exception as error:  # noqa: BLE001 - handed to the strategy, which decides
            advance = partial(steps.throw, error)


@dataclass(frozen=True, slots=True)
class _End:
    plan: Any


def _part(advance: Callable[[], Any]) -> Any:
    """Return the next call that a generator yields, or an `_End` with its result.

    A thread cannot hand on `StopIteration`.
    """
    try:
        return advance()
    except StopIteration as stop:
        return _End(stop.value)


def ask_with_strategy(
    strategy: Strategy,
    ctx: PlanContext,
    send: Callable[[Plan], Steps[Any]],
    *,
    has_extras: Callable[[], bool] = lambda: False,
    retries: int = MAX_RETRIES,
) -> Steps[tuple[Any, Plan]]:
    """Return a model's reply and the plan that it replied to; reduce the context until it fits.

    `send` sends a plan. If `plan.after.overflows` is not 0, it leaves out extras such as recalled
    messages. After an overflow of a request with extras (`has_extras()`), the same plan is sent
    again without them; otherwise the strategy makes the context smaller.

    Raises:
        ContextOverflowError: The context was too long in all `retries` + 1 requests, or the
            strategy cannot make it smaller.
        ModelError: It cannot, because a model that it asked failed: see `reduce_context`.
        Exception: Any other error of `send`.
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
                    f"The context was too long {overflows} times, although it was made smaller "
                    f"{retries} times ({error}). Unpin messages, ask for less at once, or use a "
                    "model with a larger window."
                ) from error
            failed = any(isinstance(each, SummarizationError) for each in plan.problems)
            is_paused = plan.after.is_paused or failed
            after = replace(plan.after, overflows=overflows, is_paused=is_paused)
            if has_extras():
                plan = replace(plan, after=after)
            else:
                smaller = yield from reduce_context(strategy, after)
                plan = replace(smaller, problems=(*plan.problems, *smaller.problems))
        else:
            return reply, plan
    raise AssertionError("the last failure was raised")


@configurable
@dataclass(frozen=True, slots=True, kw_only=True)
class Null(Strategy):
    """Send every message; a context that is too long fails with a `ContextOverflowError`.

    Source: strands-agents, `NullConversationManager`.
    """

    per_turn: PerTurn = False

    def plan(self, ctx: PlanContext) -> Plan:
        """Return the plan that changes nothing."""
        return ctx.keep()


@configurable
@dataclass(frozen=True, slots=True, kw_only=True)
class Composed(Strategy):
    """Apply several strategies in order, each to the context that the one before it planned.

    A strategy that fails changes nothing and does not stop the next one.

    Source: strands-agents harness-sdk, `ContextManager`.
    """

    strategies: Sequence[Strategy]

    def __post_init__(self) -> None:
        object.__setattr__(self, "strategies", tuple(self.strategies))
        for strategy in self.strategies:
            check_strategy(strategy)

    def plan(self, ctx: PlanContext) -> Steps[Plan]:
        """Apply each strategy whose own `per_turn` includes this call to the result so far."""
        plan = ctx.keep()
        for strategy in self.strategies:
            next_plan = yield from plan_if_due(strategy, plan.after)
            plan = replace(next_plan, problems=(*plan.problems, *next_plan.problems))
        return plan

    def reduce(self, ctx: PlanContext) -> Steps[Plan]:
        """Apply the strategies, each to the result so far, until one makes the context smaller.

        If none does, the plan has the problems of all.
        """
        plan = ctx.keep()
        for strategy in self.strategies:
            next_plan = yield from call_strategy(strategy.reduce, plan.after)
            plan = replace(next_plan, problems=(*plan.problems, *next_plan.problems))
            if is_smaller(plan.after, ctx):
                break
        return plan
