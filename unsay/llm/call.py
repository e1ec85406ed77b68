"""One call of a model: reserve its cost, queue, call it or its fallback, settle.

Every call of a model passes here: answers, judges, summaries, titles. What it may come to is held
on the thread's usage account before it is made, and stored, so that a crash forgets nothing that is
held or spent; afterwards the hold makes way for what the model reported.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from typing import Any, Self, TypeVar

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables import Runnable

from unsay.budget.accounts import LAYERS, Place
from unsay.budget.limits import Limits, delay_ms, limits_of, pressure
from unsay.context.overflow import is_context_overflow
from unsay.effects import Call, Steps, off_loop
from unsay.errors import BudgetDeclinedError
from unsay.interrupts import ask_person, read_permission, spending_request
from unsay.llm.gateway import Gate, pause
from unsay.llm.usage import (
    Purpose,
    answered_by,
    is_graph,
    longest_reply,
    messages_in,
    name_of,
    prompt_tokens,
    replies_in,
    used_by,
)
from unsay.llm.usage_account import Grant, account_of_thread, note_spent
from unsay.model_factory import resolve_model
from unsay.prompts.fields import Texts
from unsay.runtime import Scope, with_witness
from unsay.settings import Settings
from unsay.tokens.pricing import Amount, Tally, Usage, amount_of, prices_for, tally_of

T = TypeVar("T")

Model = Runnable[Any, Any]

AGENT = "agent"
"""The label of a run that names the agent on whose budget its calls go."""

BROKEN = "the model broke off, and another one answers"

TOO_LONG = "the view was too long for the model, and a shorter one is sent"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One call of a model: what it is sent, what for, who pays and how it is made."""

    scope: Scope
    model: Model
    """Perhaps with tools bound. A graph does not queue: its own calls would wait for its place."""

    value: Any
    purpose: Purpose
    key: str
    """Names the call within the thread, the same when it is made again after a crash."""

    tokens: Callable[[], int] | None = None
    """Counts the prompt where a budget is set; `None` estimates it here."""

    quiet: bool = True
    """Whether its tokens must not reach the user."""

    aside: bool = False
    timeout_seconds: float | None = None
    """Time in the queue does not count; `None` waits for ever."""

    witness: BaseCallbackHandler | None = None
    fallback: Callable[[Model], Model] | None = None
    """Prepares the fallback model, for example binds the tools; `None` allows no fallback."""

    @property
    def is_limited(self) -> bool:
        """Whether a budget is set. Readers of a thread have none: they could not book it."""
        return not self.scope.is_reader and limits_of(self.scope.settings).is_set

    @property
    def limits(self) -> Limits:
        """The limits of the call: only an answer of a thread can wait for a person."""
        limits = limits_of(self.scope.settings)
        can_wait = self.scope.in_graph and self.scope.thread_id and self.purpose == "answer"
        return limits if can_wait or limits.mode != "ask" else replace(limits, mode="hard")

    @property
    def texts(self) -> Texts:
        """The catalogue in the language of the prompt."""
        return self.scope.texts(list(messages_in(self.value)))

    @property
    def prompt(self) -> int:
        """Tokens of the prompt."""
        return prompt_tokens(self.value) if self.tokens is None else self.tokens()

    def most(self, models: Mapping[str, Model]) -> Amount:
        """What the call may come to, with the dearest of the models that may answer."""
        prices, limits, prompt = self.scope.settings.prices, self.limits, self.prompt
        needed = any(limits.of(layer).micros is not None for layer in LAYERS)
        found = [
            amount_of(
                Usage(input=prompt, output=longest_reply(model, self.purpose)),
                prices_for(name_of(model), prices, needed=needed),
            )
            for model in models.values()
        ]
        return max(found, key=lambda each: (each.micros, each.tokens))

    def spent(self, reply: Any) -> Tally:
        """What the call came to."""
        replies, table = replies_in(reply, self.value), self.scope.settings.prices
        usage = used_by(replies, self.prompt)
        prices = prices_for(answered_by(replies), table) or prices_for(name_of(self.model), table)
        return tally_of(usage, amount_of(usage, prices))


def ask_model(request: ModelRequest) -> Steps[Any]:
    """The reply of a model, within the budgets.

    Where a budget has no room for an answer and its mode is `ask`, a person is asked through an
    interrupt, before anything is paid for. The other purposes never interrupt: their calls come
    after an answer that is paid for, and a node that is interrupted runs again from its top.
    They are refused as in `hard`, and their callers go on without.

    Raises:
        BudgetExceededError: No budget has room for it; the model was not asked.
        BudgetDeclinedError: A person said no; the model was not asked.
        WaitingLineFullError: Too many calls wait.
        CircuitOpenError: Neither model could be reached just now.
        ConfigurationError: A budget of cost is set, and the model has no price.
        Exception: As the model's client raised it.
    """
    models = {name_of(request.model) or request.purpose: request.model}
    other = request.scope.settings.fallback_model
    if request.fallback and other and other not in models and not is_graph(request.model):
        fallbacks = request.scope.services.sole(Fallbacks)
        made = yield off_loop(lambda: fallbacks.model(other))
        models[other] = request.fallback(made)
    if request.is_limited:
        reply = yield from _paid(request, models)
    else:
        reply = yield from _asked(request, models)
    if request.purpose != "answer":
        yield from note_spent(request.scope, {request.purpose: request.spent(reply)})
    return reply


def with_room(request: ModelRequest, steps: Callable[[], Steps[T]]) -> Steps[T]:
    """Run the steps that lead up to a call, and make it by `ask_model`, while its cost is held.

    A person is asked before the steps: a node that is interrupted runs again from its top, and
    what they pay for, such as a summary, would be paid for twice.
    """
    if not request.is_limited:
        return (yield from steps())
    grant = yield from _reserved(request, request.most({"": request.model}))
    try:
        return (yield from steps())
    except Exception:  # whatever they raise; a call that was made has settled its hold
        yield from account_of_thread(request.scope).release(grant.key)
        raise


def _paid(request: ModelRequest, models: Mapping[str, Model]) -> Steps[Any]:
    scope, most = request.scope, request.most(models)
    account = account_of_thread(scope)
    grant = yield from _reserved(request, most)
    place = _place(scope)
    check = grant.check
    if check.warnings:
        limits = [asdict(gauge) for gauge in check.warnings]
        told = "; ".join(map(str, check.warnings))
        scope.tell("budget_warning", text=told, usage=check.usage, limits=limits)
    delay = delay_ms(check.usage, scope.settings.backpressure)
    if delay:
        level = pressure(check.usage)
        scope.tell("backpressure", delay_ms=delay, usage=check.usage, pressure=level)
        yield pause(delay)
    try:
        reply = yield from _asked(request, models)
    except TimeoutError:  # the request was sent, and is being paid for
        yield from account.settle(most, key=grant.key, place=place)
        raise
    except Exception:  # whatever the client raises
        yield from account.release(grant.key)
        raise
    spent = request.spent(reply)
    came_to = Amount(tokens=spent["total"], micros=spent["micros"])
    yield from account.settle(came_to, key=grant.key, place=place)
    return reply


def _place(scope: Scope) -> Place:
    return Place(task_id=scope.task_id, agent_id=scope.labels.get(AGENT, AGENT))


def _reserved(request: ModelRequest, most: Amount) -> Steps[Grant]:
    """Hold what a call may come to; where there is no room and a person may be asked, ask."""
    scope = request.scope
    reserve = partial(
        account_of_thread(scope).reserve,
        request.limits,
        most,
        key=f"{request.key}-{request.purpose}",
        place=_place(scope),
    )
    grant = yield from reserve()
    if grant.check.outcome != "ask":
        return grant
    is_allowed = ask_person(spending_request(grant.check, request.texts), read_permission)
    scope.tell("decision", decision="approve" if is_allowed else "reject")
    if not is_allowed:
        over = "; ".join(map(str, grant.check.exceeded))
        raise BudgetDeclinedError(
            f"The model was not asked: {over}, and a person said no. "
            "The question is kept: say it again, or raise the budget"
        )
    return (yield from reserve(may_exceed=True))


def _asked(request: ModelRequest, models: Mapping[str, Model]) -> Steps[Any]:
    scope, stream = request.scope, _Stream()
    is_single = not is_graph(request.model)
    if is_single and not request.quiet:
        callbacks = with_witness(scope.config.get("callbacks"), stream)
        scope = replace(scope, config={**scope.config, "callbacks": callbacks})
    calls = {
        name: scope.ask(
            model,
            request.value,
            quiet=request.quiet,
            aside=request.aside,
            timeout_seconds=request.timeout_seconds,
            witness=request.witness,
        )
        for name, model in models.items()
    }
    if not is_single:  # the calls that a graph makes would wait for its place in the queue
        (call,) = calls.values()
        return (yield call)
    for name in list(calls)[1:]:
        calls[name] = _after(partial(_take_back, request, stream, BROKEN), calls[name])
    try:
        return (yield from scope.services.sole(Gate).through(calls))
    except Exception as error:  # any client may raise anything; what is no overflow goes on
        if is_context_overflow(error):
            _take_back(request, stream, TOO_LONG)
        raise


def _after(first: Callable[[], None], call: Call) -> Call:
    def blocking() -> Any:
        first()
        return call.blocking()

    async def awaiting() -> Any:
        first()
        return await call.awaitable()

    return replace(call, blocking=blocking, awaitable=awaiting)


class Fallbacks:
    """The models that answer in another's place, made when first needed."""

    def __init__(self, settings: Settings) -> None:
        self.model = cache(lambda name: resolve_model(name, settings))

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Those of a graph with these settings."""
        return cls(settings)


class _Stream(BaseCallbackHandler):
    """Notices whether words of a reply have reached the user."""

    # In place: an event loop would otherwise take it to another thread.
    run_inline = True

    def __init__(self) -> None:
        self.has_begun = False
        self.message_id: str | None = None

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, **_: Any) -> None:
        """Note the words' message."""
        self.has_begun = self.has_begun or bool(token)
        self.message_id = getattr(getattr(chunk, "message", None), "id", self.message_id)


def _take_back(request: ModelRequest, stream: _Stream, why: str) -> None:
    """Announce that the words which reached the user are void: another reply begins.

    No attempt is used up, so that its number is 0.
    """
    if stream.has_begun:
        reason = request.texts.rules.get(why, why)
        told = {"message_id": stream.message_id, "attempt": 0, "score": None, "reason": reason}
        request.scope.tell("taken_back", **told)
    stream.has_begun = False
