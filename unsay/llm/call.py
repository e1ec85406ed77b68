"""One call of a model: reserve its cost, wait in the queue, call it or its fallback, settle the cost.

Every answer, verdict, summary and title is produced here. The highest possible cost is reserved and
stored before the call, so that a crash loses no cost; afterwards the real cost replaces it.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableBinding

from unsay.budget.accounts import LAYERS, AccountKey
from unsay.budget.limits import Limits, delay_ms, limits_of, pressure
from unsay.context.overflow import is_context_overflow
from unsay.effects import Call, Steps, off_loop
from unsay.errors import BudgetDeclinedError
from unsay.interrupts import ask_person, read_permission, spending_request
from unsay.llm.agent_tokens import AgentTokens
from unsay.llm.gateway import Gate, may_be_charged, pause
from unsay.llm.usage_account import Grant, account_of_thread, note_spent
from unsay.model_factory import inner_of, is_graph, name_of, resolve_model
from unsay.prompts.fields import Texts
from unsay.runtime import Scope
from unsay.settings import Settings
from unsay.tokens.counter import TokenCounter
from unsay.tokens.pricing import Amount, Tally, Usage, amount_of, prices_for, tally_of, usage_of
from unsay.tracing import with_handler

T = TypeVar("T")

Model = Runnable[Any, Any]
Purpose = Literal["answer", "judge", "summary", "title"]
# Assumed tokens of a reply until the model reports them. Source: Zhang 2026, chapter 7.4 for
# summaries; the others are our own choice.
REPLY_TOKENS: Mapping[Purpose, int] = MappingProxyType(
    {"answer": 500, "judge": 100, "summary": 400, "title": 20}
)

# Label of a run with the name of the agent whose budget pays for its calls.
AGENT = "agent"
LOG = logging.getLogger(__name__)
BROKEN = "the model stopped in mid-reply, and the fallback model answers"

TOO_LONG = "the context was too long for the model, and a shorter one is sent"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """What `ask_model` needs for one call: its input, its purpose, its budget and how it is made."""

    scope: Scope
    model: Model
    value: Any
    purpose: Purpose
    key: str  # of the call in its thread; the same when the call is repeated after a crash
    tokens: Callable[[], int] | None = None  # counts the prompt; `None` estimates it
    quiet: bool = True  # whether the user's stream lacks the reply
    timeout_seconds: float | None = None  # without the queue; `None` sets no limit
    handler: BaseCallbackHandler | None = None  # see `Scope.ask`
    fallback: Callable[[Model], Model] | None = None  # such as binding tools; `None` allows none

    @property
    def is_limited(self) -> bool:
        """Whether a budget applies; a reader of a thread has none, since it cannot write."""
        return not self.scope.is_reader and limits_of(self.scope.settings).is_set

    @property
    def limits(self) -> Limits:
        """The limits of the call.

        In the mode `ask` only an answer in a run with a thread can ask a person; for other calls
        the mode is `hard`.
        """
        limits = limits_of(self.scope.settings)
        can_wait = self.scope.in_graph and self.scope.thread_id and self.purpose == "answer"
        return limits if can_wait or limits.mode != "ask" else replace(limits, mode="hard")

    @property
    def texts(self) -> Texts:
        """Texts in the language of the prompt."""
        return self.scope.texts(list(messages_in(self.value)))

    @property
    def prompt(self) -> int:
        """The tokens of the prompt: `tokens()` if it is given, else an estimate."""
        return prompt_tokens(self.value) if self.tokens is None else self.tokens()

    def most(self, models: Mapping[str, Model]) -> Amount:
        """Return what the call may take at most from the budgets: that of the most expensive model.

        Only the values of `models` count. A model without a price costs 0; if a cost budget is set,
        it raises `ConfigurationError`.
        """
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
        """Return the tokens and cost of the call as the reply reports them, else as estimated."""
        replies, table = replies_in(reply, self.value), self.scope.settings.prices
        usage = used_by(replies, self.prompt)
        prices = prices_for(answered_by(replies), table) or prices_for(name_of(self.model), table)
        return tally_of(usage, amount_of(usage, prices))


def ask_model(request: ModelRequest) -> Steps[Any]:
    """Return the reply of a model, within the budgets.

    If an answer exceeds a budget in the mode `ask`, an interrupt asks a person. Calls for other
    purposes are refused then.

    Raises:
        BudgetExceededError: The call exceeds a budget.
        BudgetDeclinedError: A person refused the call.
        QueueFullError: Too many calls are waiting, or this one waited too long.
        CircuitOpenError: All models failed several times in a row.
        ConfigurationError: A cost budget is set, and the model has no price; or the fallback model
            cannot be made.
        DatabaseCorruptError: The stored usage of the thread is damaged.
        TimeoutError: The model took longer than the request's `timeout_seconds`.
        Exception: The model's client raised it.
    """
    # Only an answer may interrupt: other calls follow an answer that is paid for already, and an
    # interrupt would run their node again from its start.
    models = {name_of(request.model) or request.purpose: request.model}
    other = request.scope.settings.fallback_model
    if request.fallback and other and other not in models and not is_graph(request.model):
        fallback = request.scope.services.sole(_fallbacks)
        models[other] = request.fallback((yield off_loop(lambda: fallback(other))))
    if request.is_limited:
        reply = yield from _paid(request, models)
    else:
        reply = yield from _asked(request, models, [])
    # Outside of a run an answer is only looked at, and is never part of the thread.
    if request.purpose != "answer" or request.scope.in_graph:
        yield from note_spent(request.scope, {request.purpose: request.spent(reply)})
    return reply


def with_room(request: ModelRequest, steps: Callable[[], Steps[T]]) -> Steps[T]:
    """Run steps that end in `ask_model` while the cost of its call is reserved; return the result.

    If the steps fail, the reservation is released. Without a budget the steps are only run. Raises
    what `ask_model` raises about the budget before the steps, and the errors of the steps.
    """
    # A person is asked before the steps: an interrupted node runs again from its start and would pay
    # twice for the calls in the steps, such as a summary.
    if not request.is_limited:
        return (yield from steps())
    grant = yield from _reserved(request, request.most({"": request.model}))
    try:
        return (yield from steps())
    except Exception:  # of any client; a call that was made has settled its cost already
        yield from account_of_thread(request.scope).release(grant.key)
        raise


def _paid(request: ModelRequest, models: Mapping[str, Model]) -> Steps[Any]:
    """Return a model's reply; its cost is reserved before the call and settled afterwards.

    A call near a limit is warned of or delayed. The errors are those of `ask_model`.
    """
    scope, most = request.scope, request.most(models)
    account = account_of_thread(scope)
    grant = yield from _reserved(request, most)
    place = _place(scope)
    check = grant.check  # stored now: a crash from here on leaves the reserved cost, never less
    if check.warnings:
        limits = [asdict(gauge) for gauge in check.warnings]
        text = request.texts.budgets("; ".join(map(str, check.warnings)))
        scope.emit("budget_warning", text=text, usage=check.usage, limits=limits)
    delay = delay_ms(check.usage, scope.settings.backpressure)
    if delay:
        level = pressure(check.usage)
        scope.emit("backpressure", delay_ms=delay, usage=check.usage, pressure=level)
        yield pause(delay)
    charged: list[str] = []
    try:
        reply = yield from _asked(request, models, charged)
    except Exception:  # a client may raise any class
        if charged:
            lost = _lost(request, models, charged)
            yield from account.settle(lost, key=grant.key, place=place)
        else:
            yield from account.release(grant.key)
        raise
    spent, lost = request.spent(reply), _lost(request, models, charged)
    actual = Amount(tokens=spent["total"] + lost.tokens, micros=spent["micros"] + lost.micros)
    try:
        yield from account.settle(actual, key=grant.key, place=place)
    except Exception as error:  # noqa: BLE001 - of any database
        # The reserved cost stays counted. The reply is paid for, so it must not be lost.
        LOG.warning("thread=%r reason=%r the cost of a call was not stored", scope.thread_id, error)
    return reply


def _lost(request: ModelRequest, models: Mapping[str, Model], charged: list[str]) -> Amount:
    """Return the most that the calls of the models named in `charged` may have cost together."""
    amounts = [request.most({name: models[name]}) for name in charged]
    tokens = sum(each.tokens for each in amounts)
    return Amount(tokens=tokens, micros=sum(each.micros for each in amounts))


def _place(scope: Scope) -> AccountKey:
    return AccountKey(task_id=scope.task_id, agent_id=scope.labels.get(AGENT, AGENT))


def _reserved(request: ModelRequest, most: Amount) -> Steps[Grant]:
    """Reserve `most` for a call, and return the grant.

    A person is asked if it exceeds a budget in the mode `ask`. Raises `BudgetExceededError` if the
    budget refuses it, `BudgetDeclinedError` if the person does, and what `ThreadAccount.read`
    raises.
    """
    scope = request.scope
    reserve = partial(
        account_of_thread(scope).reserve,
        request.limits,
        most,
        key=f"{request.key}-{request.purpose}",
        place=_place(scope),
        at=scope.now(),
    )
    grant = yield from reserve()
    if grant.check.outcome != "ask":
        return grant
    is_allowed = ask_person(spending_request(grant.check, request.texts), read_permission)
    scope.emit("decision", decision="approve" if is_allowed else "reject")
    if not is_allowed:
        over = "; ".join(map(str, grant.check.exceeded))
        raise BudgetDeclinedError(
            f"The model was not called: {over}, and a person declined. "
            "The question is kept: raise the budget, then send it again"
        )
    return (yield from reserve(may_exceed=True))


def _asked(request: ModelRequest, models: Mapping[str, Model], charged: list[str]) -> Steps[Any]:
    """Return the reply of the first available model (see `Gate.through`); no budget is checked here.

    Single models wait in the gate's queue, an agent or graph does not. The errors are those of
    `ask_model`, except those of budgets. See `Gate.through` for `charged`.
    """
    scope, stream = request.scope, _Stream()
    is_single = not is_graph(request.model)
    if not request.quiet:
        shown = stream if is_single else AgentTokens(scope.config)
        callbacks = with_handler(scope.config.get("callbacks"), shown)
        scope = replace(scope, config={**scope.config, "callbacks": callbacks})
    calls = {
        name: scope.ask(
            model,
            request.value,
            quiet=request.quiet,
            aside=None if request.purpose == "answer" else request.purpose,
            timeout_seconds=request.timeout_seconds,
            handler=request.handler,
        )
        for name, model in models.items()
    }
    if not is_single:  # its own calls would wait for the place that it occupies
        ((name, call),) = calls.items()
        try:
            return (yield call)
        except Exception as error:  # an agent may raise any class
            charged += [name] if may_be_charged(error) else []
            raise
    for name in list(calls)[1:]:
        calls[name] = _after(partial(_take_back, request, stream, BROKEN), calls[name])
    try:
        return (yield from scope.services.sole(Gate.of).through(calls, charged))
    except Exception as error:  # a client may raise any class
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


def _fallbacks(settings: Settings) -> Callable[[str], Model]:
    return cache(lambda name: resolve_model(name, settings))


class _Stream(BaseCallbackHandler):
    """Records whether a part of a reply has reached the user."""

    run_inline = True  # LangChain would otherwise call it in another Python thread

    def __init__(self) -> None:
        self.has_begun = False
        self.message_id: str | None = None

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, **_: Any) -> None:
        """Record the id of the streamed message and, if the token has text, that the reply has begun."""
        self.has_begun = self.has_begun or bool(token)
        self.message_id = getattr(getattr(chunk, "message", None), "id", self.message_id)


def _take_back(request: ModelRequest, stream: _Stream, why: str) -> None:
    """Tell the user's stream to discard a part of a reply, since another reply begins.

    `why` is the reason that is shown. Nothing is sent if no part of a reply was streamed.
    """
    if stream.has_begun:  # this does not count as an attempt, hence 0
        reason = request.texts.rules.get(why, why)
        data = {"message_id": stream.message_id, "attempt": 0, "score": None, "reason": reason}
        request.scope.emit("draft_rejected", **data)
    stream.has_begun = False


def longest_reply(runnable: Runnable[Any, Any], purpose: Purpose) -> int:
    """Return the most tokens of a reply: the `max_tokens` bound to the request, if there is one.

    Else it is the number assumed for the `purpose`, or the model's `max_tokens` if that is less.
    """
    bound = runnable.kwargs.get("max_tokens") if isinstance(runnable, RunnableBinding) else None
    if isinstance(bound, int) and bound > 0:
        return bound
    most = getattr(inner_of(runnable), "max_tokens", None)
    assumed = REPLY_TOKENS[purpose]
    return min(most, assumed) if isinstance(most, int) and most > 0 else assumed


def prompt_tokens(value: Any) -> int:
    """Return an estimate of the tokens of a prompt: text, messages, or a mapping with `messages`."""
    return TokenCounter().count(messages_in(value))


def replies_in(reply: Any, value: Any) -> list[AIMessage]:
    """Return the messages of models in a reply, without those of the prompt (`value`)."""
    if isinstance(reply, Mapping) and "raw" in reply:
        reply = reply["raw"]
    sent = {message.id for message in messages_in(value)} - {None}
    found = messages_in(AIMessage(reply) if isinstance(reply, str) else reply)
    return [m for m in found if isinstance(m, AIMessage) and m.id not in sent]


def used_by(replies: list[AIMessage], prompt: int) -> Usage:
    """Return the sum of the usage that the replies report.

    If none of them reports its usage, it is `prompt` tokens and an estimate of the replies' tokens.
    """
    reported = [usage_of(reply.usage_metadata) for reply in replies if reply.usage_metadata]
    if not reported:
        return Usage(input=prompt, output=TokenCounter().count(replies))
    return Usage(
        input=sum(usage.input for usage in reported),
        output=sum(usage.output for usage in reported),
        cache_read=sum(usage.cache_read for usage in reported),
        cache_creation=sum(usage.cache_creation for usage in reported),
    )


def answered_by(replies: list[AIMessage]) -> str | None:
    """Return the provider's name for the model that wrote the last reply; `None` if it has none."""
    metadata = replies[-1].response_metadata if replies else {}
    names = (metadata.get(name) for name in ("model_name", "model"))
    return next((name for name in names if isinstance(name, str) and name), None)


def messages_in(value: Any) -> list[BaseMessage]:
    """Return the messages in the input or the reply of a call, in any form that LangChain uses.

    Anything else in it is left out.
    """
    if isinstance(value, Mapping):
        value = value.get("messages", [])
    if isinstance(value, str):
        value = HumanMessage(value)
    found = value if isinstance(value, list | tuple) else [value]
    return [message for message in found if isinstance(message, BaseMessage)]
