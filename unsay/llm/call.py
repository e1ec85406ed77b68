"""One call of a model: reserve its cost, wait in the queue, call it or its fallback, settle the cost.

Every answer, verdict, summary and title is produced here. The highest possible cost is reserved and
stored before the call, so that a crash loses no cost; afterwards the real cost replaces it.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from types import MappingProxyType
from typing import Any, Literal, TypeVar
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables import Runnable, RunnableBinding, RunnableConfig
from langgraph.errors import GraphBubbleUp
from langgraph.pregel._messages import StreamMessagesHandler

from unsay.budget.accounts import AccountKey
from unsay.budget.limits import (
    Limits,
    delay_ms,
    exceeded_settings,
    gauges_text,
    limits_of,
    pressure,
    settings_text,
)
from unsay.context.strategy import is_context_overflow
from unsay.decisions import ask_person, read_permission, spending_request
from unsay.effects import Call, Steps, off_loop
from unsay.errors import BudgetDeclinedError
from unsay.llm import gateway
from unsay.llm.usage_account import Grant, account_of_thread, note_spent
from unsay.messages.content import text_of
from unsay.models.factory import inner_of, is_chat_model, is_graph, name_of, resolve_model
from unsay.prompts.catalogue import Texts
from unsay.runtime import Scope
from unsay.settings.settings import Settings
from unsay.tokens import pricing
from unsay.tokens.counter import TokenCounter
from unsay.tracing import with_handler

_WHERE = "langgraph_"  # beginning of the metadata that say which node of which graph is running
_TOOLS = "tools:"  # beginning of a part of a namespace: an agent inside of a tool


class AgentTokens(BaseCallbackHandler):
    """Announces model calls inside of an agent to the streams that leave out subgraphs."""

    run_inline = True  # LangChain would otherwise call it in another Python thread

    def __init__(self, config: RunnableConfig) -> None:
        """Take the configuration of the node that calls the agent."""
        callbacks = config.get("callbacks")
        handlers = callbacks.handlers if isinstance(callbacks, BaseCallbackManager) else []
        self._streams = [
            each
            for each in handlers
            if isinstance(each, StreamMessagesHandler) and not each.subgraphs
        ]
        self._node = {
            name: value
            for name, value in config.get("metadata", {}).items()
            if name.startswith(_WHERE)
        }

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        tags: list[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Register a call, so that the host's stream shows its tokens as those of the node.

        Calls of an agent inside a tool are skipped: they do not give the answer.
        """
        namespace = str((metadata or {}).get("langgraph_checkpoint_ns", ""))
        own = str(self._node.get("langgraph_checkpoint_ns", ""))
        inside = namespace.split("|")[own.count("|") + 1 : -1]
        if any(part.startswith(_TOOLS) for part in inside):
            return
        for stream in self._streams:
            call_metadata = {**(metadata or {}), **self._node}
            stream.on_chat_model_start(
                serialized, messages, run_id=run_id, tags=tags, metadata=call_metadata
            )


class AgentReplies(BaseCallbackHandler):
    """Keeps the replies of all models inside of an agent, which are lost if the agent fails.

    A reply whose stream broke off fails there, so that no step of the agent is made of it.
    """

    run_inline = True  # LangChain would otherwise call it in another Python thread
    raise_error = True

    def __init__(self) -> None:
        self.replies: list[AIMessage] = []

    def on_llm_end(self, response: LLMResult, **_: Any) -> None:
        """Keep the reply of one call; `ConnectionClosedError` if it has no end."""
        generations = (each for several in response.generations for each in several)
        messages = (each.message for each in generations if isinstance(each, ChatGeneration))
        self.replies += [gateway.whole(each) for each in messages if isinstance(each, AIMessage)]


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
BROKEN = "broken_off"

TOO_LONG = "too_long"


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
        return self.scope.texts(list(gateway.messages_in(self.value)))

    @property
    def prompt(self) -> int:
        """The tokens of the prompt: `tokens()` if it is given, else an estimate."""
        return prompt_tokens(self.value) if self.tokens is None else self.tokens()

    def most(self, models: Mapping[str, Model]) -> pricing.Amount:
        """Return what the call may take at most from the budgets: that of the most expensive model.

        Only the values of `models` count. A model without a price costs 0; if a cost budget is set,
        it raises `ConfigurationError`.
        """
        prompt = self.prompt
        amounts = [
            pricing.amount_of(
                pricing.Usage(input=prompt, output=longest_reply(model, self.purpose)),
                self._prices_of(model),
            )
            for model in models.values()
        ]
        return max(amounts, key=lambda each: (each.micros, each.tokens))

    def _prices_of(self, model: Model) -> pricing.Prices | None:
        """Return the prices of a model before it is called; `None` if it costs 0.

        Only the replies of an agent name its models, so an agent has the highest prices. A function
        that judges or summarizes costs what its reply reports.
        """
        table, name = self.scope.settings.prices, name_of(model)
        if name is None and is_graph(model):
            return pricing.highest_prices(table) if self.limits.counts_costs else None
        is_function = name is None and not is_chat_model(inner_of(model))
        needs_price = self.limits.counts_costs and not (is_function and self.purpose != "answer")
        return pricing.prices_for(name, table, needed=needs_price)

    def spent(self, reply: Any) -> pricing.Tally:
        """Return the tokens and cost of the call as the reply reports them, else as estimated."""
        return self.spent_by(gateway.replies_in(reply, self.value), self.prompt)

    def spent_by(self, replies: list[AIMessage], prompt: int) -> pricing.Tally:
        """Return the tokens and cost of replies as they report them, else of `prompt` tokens."""
        settings, usage = self.scope.settings, gateway.used_by(replies, prompt)
        model, fallback = name_of(self.model), settings.fallback_model
        name = gateway.answered_by(replies)
        prices = pricing.reply_prices(name, settings.prices, model=model, fallback=fallback)
        if prices is None and is_graph(self.model) and self.limits.counts_costs:
            prices = pricing.highest_prices(settings.prices)
        return pricing.tally_of(usage, pricing.amount_of(usage, prices))


def ask_model(request: ModelRequest) -> Steps[Any]:
    """Return the reply of a model, within the budgets.

    If an answer exceeds a budget in the mode `ask`, an interrupt asks a person. Calls for other
    purposes are refused then; for these an agent takes and gives messages, like a chat model.

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
    if request.purpose != "answer" and is_graph(request.model):
        request = replace(request, value={"messages": gateway.messages_in(request.value)})
    models = {name_of(request.model) or request.purpose: request.model}
    other = request.scope.settings.fallback_model
    if request.fallback and other and other not in models and not is_graph(request.model):
        fallback = request.scope.services.sole(_fallbacks)
        models[other] = request.fallback((yield from off_loop(lambda: fallback(other))))
    if request.is_limited:
        reply = yield from _paid(request, models)
    else:
        reply = yield from _asked(request, models, _Charged())
    # Outside of a run an answer is only looked at, and is never part of the thread.
    if request.purpose != "answer" or request.scope.in_graph:
        yield from note_spent(request.scope, {request.purpose: request.spent(reply)})
    is_state = request.purpose != "answer" and isinstance(reply, Mapping) and "messages" in reply
    return gateway.messages_in(reply)[-1] if is_state else reply


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
        text = request.texts.message(gauges_text(check.warnings), "chat")
        scope.emit("budget_warning", text=text, usage=check.usage, limits=limits)
    delay = delay_ms(check.usage, scope.settings.backpressure)
    if delay:
        level = pressure(check.usage)
        scope.emit("backpressure", delay_ms=delay, usage=check.usage, pressure=level)
        yield from gateway.pause(delay)
    charged = _Charged()
    try:
        reply = yield from _asked(request, models, charged)
    except Exception:  # a client may raise any class
        if charged.names or charged.replies:
            lost = _lost(request, models, charged)
            yield from account.settle(lost, key=grant.key, place=place)
        else:
            yield from account.release(grant.key)
        raise
    reply_usage, lost = request.spent(reply), _lost(request, models, charged)
    actual = pricing.Amount(
        tokens=reply_usage["total"] + lost.tokens, micros=reply_usage["micros"] + lost.micros
    )
    try:
        yield from account.settle(actual, key=grant.key, place=place)
    except Exception as error:  # noqa: BLE001 - of any database
        # The reserved cost stays counted. The reply is paid for, so it must not be lost.
        LOG.warning("thread=%r reason=%r the cost of a call was not stored", scope.thread_id, error)
    return reply


@dataclass(frozen=True, slots=True, kw_only=True)
class _Charged:
    """What a provider may charge for without a result.

    `names` are models whose call failed after it was sent, `replies` those that a failed agent got.
    """

    names: list[str] = field(default_factory=list)
    replies: list[AIMessage] = field(default_factory=list)


def _lost(request: ModelRequest, models: Mapping[str, Model], charged: _Charged) -> pricing.Amount:
    """Return the most that may be charged without a result."""
    amounts = [request.most({name: models[name]}) for name in charged.names]
    paid = request.spent_by(charged.replies, 0)
    tokens = sum(each.tokens for each in amounts) + paid["total"]
    return pricing.Amount(
        tokens=tokens, micros=sum(each.micros for each in amounts) + paid["micros"]
    )


def _place(scope: Scope) -> AccountKey:
    return AccountKey(task_id=scope.task_id, agent_id=scope.labels.get(AGENT, AGENT))


def _reserved(request: ModelRequest, most: pricing.Amount) -> Steps[Grant]:
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
    texts = request.texts
    is_allowed = ask_person(spending_request(grant.check, texts), read_permission, texts)
    scope.emit("decision", decision="approve" if is_allowed else "reject")
    if not is_allowed:
        raise BudgetDeclinedError(
            code="budget_declined",
            settings=exceeded_settings(grant.check),
            limits=gauges_text(grant.check.exceeded),
            names=settings_text(grant.check),
        )
    return (yield from reserve(may_exceed=True))


def _asked(request: ModelRequest, models: Mapping[str, Model], charged: _Charged) -> Steps[Any]:
    """Return the reply of the first available model (see `Gate.through`); no budget is checked here.

    Single models wait in the gate's queue, an agent or graph does not. The errors are those of
    `ask_model`, except those of budgets. `charged` is filled (see `Gate.through`).
    """
    scope, stream, heard = request.scope, _Stream(), AgentReplies()
    is_single = not is_graph(request.model)
    if not is_single:
        scope = _heard_by(heard, scope)
    if not request.quiet:
        scope = _heard_by(stream if is_single else AgentTokens(scope.config), scope)
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
            return gateway.whole((yield from call), request.value)
        except Exception as error:  # an agent may raise any class
            # An interrupted agent goes on later, and its reply then has these messages too.
            charged.replies.extend([] if isinstance(error, GraphBubbleUp) else heard.replies)
            charged.names.extend([name] if gateway.may_be_charged(error) else [])
            raise
    for name in list(calls)[1:]:
        calls[name] = _after(partial(_take_back, request, stream, BROKEN), calls[name])
    try:
        return (yield from scope.services.sole(gateway.Gate.of).through(calls, charged.names))
    except Exception as error:  # a client may raise any class
        if is_context_overflow(error):
            _take_back(request, stream, TOO_LONG)
        raise


def _heard_by(handler: BaseCallbackHandler, scope: Scope) -> Scope:
    callbacks = with_handler(scope.config.get("callbacks"), handler)
    return replace(scope, config={**scope.config, "callbacks": callbacks})


def _after(first: Callable[[], None], call: Call[T]) -> Call[T]:
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
    """Stream why a part of a reply is discarded; nothing if no part of it was streamed."""
    if stream.has_begun:  # this does not count as an attempt, hence 0
        reason = request.texts.table("taken_back")[why]
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
    return TokenCounter().count(gateway.messages_in(value))


# Status codes with which servers refuse a parameter or a structured reply.
REFUSALS = (400, 404, 422)
# Names of an option in the errors of providers and clients.
_SPELLINGS = {"max_tokens": ("max_tokens", "max_completion_tokens", "max_output_tokens")}
# Reasons with which providers end a reply at its length limit.
_CUT_OFF = ("length", "max_tokens", "MAX_TOKENS")


def ask_with_options(
    request: ModelRequest, options: Mapping[str, Any], *, is_own: bool = False
) -> Steps[Any]:
    """Return the reply of a chat model that is sent `options`, such as `temperature`.

    If the model refuses an option, the call is repeated without it, and this graph does not send it
    to the model again. The same is true of `max_tokens` if a reasoning model used all of it before
    its first word. A Runnable that is not a chat model gets no options.

    Args:
        request: The call; its model must have no tools bound.
        options: Parameters of the request by LangChain's names: `max_tokens`, `temperature`.
        is_own: Whether the model was made for this purpose; then values that it has already stay.

    Raises:
        Exception: Any error of `ask_model` that does not refuse an option.
    """
    learned_refusals, model = request.scope.services.learned, request.model
    fixed = _set_on(model) if is_own else set()
    request_options = {
        name: value
        for name, value in options.items()
        if name not in fixed and _refusal(model, name) not in learned_refusals
    }
    if not is_chat_model(inner_of(model)):
        request_options = {}
    dropped: set[str] = set()
    while request_options:
        try:
            reply = yield from ask_model(replace(request, model=model.bind(**request_options)))
        except Exception as error:
            refused = _refused(error, request_options)
            if not refused:
                raise
        else:
            if not _is_cut_off(reply) or "max_tokens" not in request_options:
                learned_refusals.update(dropped)
                return reply
            refused = ["max_tokens"]
        dropped.update(_refusal(model, name) for name in refused)
        request_options = {
            name: value for name, value in request_options.items() if name not in refused
        }
    reply = yield from ask_model(request)
    # Without a success the options need not be the reason of the refusals.
    learned_refusals.update(dropped)
    return reply


def _refusal(model: Runnable[Any, Any], option: str) -> str:
    return f"the model {name_of(model)!r} refuses {option!r}"


def _set_on(model: Runnable[Any, Any]) -> set[str]:
    """Return the names of options that a model was given when it was made or bound."""
    names = set(getattr(inner_of(model), "model_fields_set", ()))
    return names | set(model.kwargs if isinstance(model, RunnableBinding) else ())


def _refused(error: Exception, sent: Mapping[str, Any]) -> list[str]:
    """Return the options that an error refuses: those that it names, or all if it names none.

    Empty for an error that is not a refusal of the request.
    """
    # A client that does not know a parameter raises a `TypeError` or a `ValueError`.
    is_refusal = isinstance(error, TypeError | ValueError)
    status = getattr(error, "status_code", None)
    if is_context_overflow(error) or not (is_refusal or status in REFUSALS):
        return []
    text = str(error)
    option_names = [
        name for name in sent if any(word in text for word in _SPELLINGS.get(name, (name,)))
    ]
    return option_names or list(sent)


def _is_cut_off(reply: Any) -> bool:
    """Return whether a reply ended at its length limit before its first word."""
    if not isinstance(reply, BaseMessage) or text_of(reply).strip():
        return False
    ends = ("finish_reason", "stop_reason", "done_reason")
    return any(reply.response_metadata.get(name) in _CUT_OFF for name in ends)
