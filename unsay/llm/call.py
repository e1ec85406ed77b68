"""The one door to the models: what a call may cost, its place in line, and what it came to.

Every call of a model passes here: answers, judges, summaries, titles. It must have room in the
budgets (`nodes.bills`); single calls then wait in line with those of all threads of the graph, and
a fallback answers in the place of a model that cannot be reached.

Budgets are of one thread, and a thread has one writer at a time in all processes; see
`nodes.open_books`. The line and the circuits are of one graph in one process.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Self, TypeVar

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables import Runnable

from unsay.context.overflow import is_context_overflow
from unsay.effects import Call, Steps
from unsay.llm.gateway import Gate
from unsay.llm.request import Bill, note_spent, within_budgets
from unsay.llm.request import with_room as steps_with_room
from unsay.llm.usage import Purpose, is_graph, name_of
from unsay.model_factory import resolve_model
from unsay.runtime import Scope, with_witness
from unsay.settings import Settings

T = TypeVar("T")


BROKEN = "the model broke off, and another one answers"


TOO_LONG = "the view was too long for the model, and a shorter one is sent"


def ask_model(
    scope: Scope,
    runnable: Runnable[Any, Any],
    value: Any,
    *,
    purpose: Purpose,
    key: str,
    tokens: Callable[[], int] | None = None,
    quiet: bool = True,
    aside: bool = False,
    timeout_seconds: float | None = None,
    configurable: dict[str, Any] | None = None,
    witness: BaseCallbackHandler | None = None,
    fallback: Callable[[Runnable[Any, Any]], Runnable[Any, Any]] | None = None,
) -> Steps[Any]:
    """The reply of a model, within what may be spent.

    Where a budget has no room for an answer and its mode is `ask`, a person is asked through an
    interrupt, before anything is paid for. The other purposes never interrupt: their calls come
    after an answer that is paid for, and a node that is interrupted runs again from its top.
    They are refused as in `hard`, and their callers go on without.

    Args:
        scope: Of the step.
        runnable: The model, perhaps bound; a graph does not wait in line, for its calls would
            wait for the place that it holds.
        value: What it is given.
        purpose: What for; it is booked under it.
        key: Names the call within the thread, the same when it is made again after a crash.
        tokens: Counts what the prompt costs, where a budget stands; `None` estimates it here.
        quiet: See `Scope.ask`.
        aside: See `Scope.ask`.
        timeout_seconds: See `Scope.ask`; waiting in line does not count.
        configurable: See `Scope.ask`.
        witness: See `Scope.ask`.
        fallback: Makes of the fallback model what is called in this one's place, with tools as
            it has them; `None` where nothing can stand for it.

    Raises:
        BudgetExceededError: No budget has room for it; the model was not asked.
        BudgetDeclinedError: A person said no; the model was not asked.
        WaitingLineFullError: Too many calls wait.
        CircuitOpenError: Neither model could be reached just now.
        ConfigurationError: A budget of cost stands, and the model has no price.
        Exception: As the model's client raised it.
    """
    models = yield from _models(scope, runnable, purpose, fallback)
    bill = Bill(
        scope=scope,
        purpose=purpose,
        key=f"{key}-{purpose}",
        models=models,
        value=value,
        sent=tokens,
    )
    ask = partial(
        _asking,
        value=value,
        quiet=quiet,
        aside=aside,
        timeout_seconds=timeout_seconds,
        configurable=configurable,
        witness=witness,
    )
    make = partial(_made, bill, ask, is_shown=not quiet)
    reply = yield from (within_budgets(bill, make) if bill.is_limited else make())
    if purpose != "answer":
        yield from note_spent(bill, reply)
    return reply


def with_room(
    scope: Scope,
    runnable: Runnable[Any, Any],
    steps: Callable[[], Steps[T]],
    *,
    purpose: Purpose,
    key: str,
    tokens: Callable[[], int],
) -> Steps[T]:
    """Make the steps that lead up to a call, and the call, once it has its room in the budgets.

    A person is asked before the steps: a node that is interrupted runs again from its top, and
    what they pay for, such as a summary, would be paid for twice.

    Args:
        scope: Of the step.
        runnable: The model that the call is for.
        steps: With the call, by `ask_model` with the same purpose and key.
        purpose: See `ask_model`.
        key: See `ask_model`.
        tokens: Counts what the prompt costs at most, where a budget stands.

    Raises:
        BudgetExceededError: See `ask_model`.
        Exception: As the steps raise it.
    """
    models = {name_of(runnable) or purpose: runnable}
    bill = Bill(
        scope=scope, purpose=purpose, key=f"{key}-{purpose}", models=models, value=[], sent=tokens
    )
    return (yield from (steps_with_room(bill, steps) if bill.is_limited else steps()))


def _models(
    scope: Scope,
    runnable: Runnable[Any, Any],
    purpose: Purpose,
    fallback: Callable[[Runnable[Any, Any]], Runnable[Any, Any]] | None,
) -> Steps[dict[str, Runnable[Any, Any]]]:
    """The models that may answer, by the names of their circuits."""
    found = {name_of(runnable) or purpose: runnable}
    name = scope.settings.fallback_model
    if fallback is None or name is None or name in found or is_graph(runnable):
        return found
    other = yield scope.off_loop(lambda: scope.services.sole(Fallbacks).model(name))
    return {**found, name: fallback(other)}


class Fallbacks:
    """The models that answer in another's place, made when first needed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._made: dict[str, Runnable[Any, Any]] = {}

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Those of a graph with these settings."""
        return cls(settings)

    def model(self, name: str) -> Runnable[Any, Any]:
        """A model by its name.

        Raises:
            MissingModelError: There is no key or address for it.
        """
        if name not in self._made:
            self._made[name] = resolve_model(name, self._settings)
        return self._made[name]


class _Stream(BaseCallbackHandler):
    """Notices whether words of a reply have reached the user."""

    run_inline = True
    """Called in place: an event loop would otherwise take it to another thread."""

    def __init__(self) -> None:
        self.has_begun = False
        self.message_id: str | None = None

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, **_: Any) -> None:
        """Note the words' message."""
        self.has_begun = self.has_begun or bool(token)
        self.message_id = getattr(getattr(chunk, "message", None), "id", self.message_id)


def _made(
    bill: Bill, ask: Callable[[Scope, Runnable[Any, Any]], Call], *, is_shown: bool
) -> Steps[Any]:
    """The reply of the first model that answers."""
    scope, stream = bill.scope, _Stream()
    (first, runnable), *others = bill.models.items()
    if is_graph(runnable):
        return (yield ask(scope, runnable))
    watched = _watched(scope, stream) if is_shown else scope
    calls = {first: ask(watched, runnable)}
    for name, other in others:
        calls[name] = _after(partial(_take_back, bill, stream, BROKEN), ask(watched, other))
    try:
        return (yield from scope.services.sole(Gate).through(calls))
    except Exception as error:  # any client may raise anything; what is no overflow goes on
        if is_context_overflow(error):
            _take_back(bill, stream, TOO_LONG)
        raise


def _asking(scope: Scope, runnable: Runnable[Any, Any], *, value: Any, **options: Any) -> Call:
    return scope.ask(runnable, value, **options)


def _watched(scope: Scope, stream: _Stream) -> Scope:
    callbacks = with_witness(scope.config.get("callbacks"), stream)
    return replace(scope, config={**scope.config, "callbacks": callbacks})


def _after(first: Callable[[], None], call: Call) -> Call:
    """A call before which something is done."""

    def blocking() -> Any:
        first()
        return call.blocking()

    async def awaiting() -> Any:
        first()
        return await call.awaitable()

    return replace(call, blocking=blocking, awaitable=awaiting)


def _take_back(bill: Bill, stream: _Stream, why: str) -> None:
    """Announce that the words which reached the user are void: they will begin anew.

    No attempt is used up, so that its number is 0.
    """
    if stream.has_begun:
        reason = bill.texts().rules.get(why, why)
        told = {"message_id": stream.message_id, "attempt": 0, "score": None, "reason": reason}
        bill.scope.tell("taken_back", **told)
    stream.has_begun = False
