"""A model from a name, or from any other kind of value that a caller may give as one."""

import inspect
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from functools import partial, wraps
from importlib import import_module
from os import environ
from typing import Any, cast
from urllib.request import getproxies

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import (
    Runnable,
    RunnableConfig,
    RunnableLambda,
    RunnableParallel,
    RunnableSequence,
    RunnableWithFallbacks,
)
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.configurable import DynamicRunnable
from langgraph.pregel import Pregel

from unsay.arguments import check_arity, inner_function
from unsay.effects import run_on_own_loop, user_call
from unsay.errors import ConfigurationError, MissingModelError
from unsay.settings.settings import Settings
from unsay.types import Provider

ModelLike = BaseChatModel | Runnable[Any, Any] | Callable[[Any], Any] | str
"""A chat model, an agent that takes and gives messages, a function, or a model's name."""

JudgeLike = ModelLike | Callable[[str, str], Any]
"""A model that scores, or a function of question and answer."""

PROVIDERS: Mapping[str, Provider] = {
    "openai": "openai",
    "anthropic": "anthropic",
    "bedrock_converse": "bedrock",
    "google-generative-ai": "gemini",
    "vertexai": "gemini",
}
"""Providers by a part of LangChain's name for the kind of model. Source: `_llm_type` of each."""


# Providers of names such as `anthropic:claude-sonnet-4-5`; in other names the colon is a part of the
# name, as in `llama3.2:3b`. Source: langchain 1.4, `init_chat_model`.
_NAMED_PROVIDERS = re.compile(
    "openai|anthropic(_bedrock)?|azure_(ai|openai)|baseten|bedrock(_converse)?|cohere|deepseek|"
    "fireworks|google_(anthropic_vertex|genai|vertexai)|groq|huggingface|ibm|langsmith|litellm|meta|"
    "mistralai|nvidia|ollama|openrouter|perplexity|together|upstage|xai"
)


def resolve_model(model: ModelLike, settings: Settings) -> Runnable[Any, Any]:
    """Return a Runnable from any model that a caller may give.

    A name such as `anthropic:claude-sonnet-4-5` becomes a client of its provider. A name without a
    provider becomes an OpenAI client.

    Raises:
        MissingModelError: A name was given, and there is no key or address for it, or its
            provider's client refuses it.
        ConfigurationError: It is none of the accepted kinds, or the provider's package is missing.
    """
    if isinstance(model, RunnableLambda) and not hasattr(model, "func"):
        return _function(model.afunc)  # LangChain's own can only be awaited
    if isinstance(model, Runnable):
        return model
    if callable(model):
        return _function(model)
    if not isinstance(model, str):
        raise ConfigurationError(
            f"{model!r} cannot answer: give a LangChain chat model, a model's name, "
            "or a Runnable that takes and gives messages"
        )
    provider, _, rest = model.partition(":")
    if not rest or not _NAMED_PROVIDERS.fullmatch(provider):
        return _of_openai(model, settings)
    if provider == "openai":
        return _of_openai(rest, settings)
    return _of_provider(model, provider, settings)


def _of_provider(name: str, provider: str, settings: Settings) -> Runnable[Any, Any]:
    """Return LangChain's client for a name such as `xai:grok-4`, with our timeout if it takes one.

    Raises `ConfigurationError` if a package is missing, `MissingModelError` if the client
    refuses, as without a key.
    """
    try:
        make = import_module("langchain.chat_models").init_chat_model
        seconds = settings.model_timeout_seconds
        if provider == "ollama":
            return cast("BaseChatModel", make(name, client_kwargs={"timeout": seconds}))
        model = make(name)  # only the client says whether it takes a timeout
        fields = type(model).model_fields
        if "timeout" in {*fields, *(field.alias for field in fields.values())}:
            model = make(name, timeout=seconds)
    except ImportError as error:
        raise ConfigurationError(
            code="model_package", model=name, error=str(error), provider=provider.replace("_", "-")
        ) from error
    # Each client has its own way to say that it lacks a key.
    except Exception as error:
        raise MissingModelError(code="model_unusable", model=name, error=str(error)) from error
    return _without_quota_retries(cast("BaseChatModel", model))


def _without_quota_retries(model: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """Return a model, whose client of OpenAI, if it has one, does not retry on an exhausted quota."""
    for name, hook in (("root_client", _end_retries), ("root_async_client", _end_async_retries)):
        client = getattr(getattr(model, name, None), "_client", None)
        # Some clients share one HTTP client, which then has the hook already.
        if client is not None and hook not in client.event_hooks["response"]:
            client.event_hooks["response"].append(hook)
    return model


def _end_retries(response: Any) -> None:
    if response.status_code == 429 and b"insufficient_quota" in response.read():
        # Source: openai 3.54, `_should_retry`: this header decides.
        response.headers["x-should-retry"] = "false"


async def _end_async_retries(response: Any) -> None:
    if response.status_code == 429:
        await response.aread()
        _end_retries(response)


def _of_openai(model: str, settings: Settings) -> Runnable[Any, Any]:
    key, base = environ.get("OPENAI_API_KEY"), environ.get("OPENAI_BASE_URL")
    if not key and not base:
        raise MissingModelError(code="no_key", model=model)
    chat_openai, extra = import_module("langchain_openai").ChatOpenAI, {}
    # LangChain shares one HTTP client among all event loops of the process, and a connection that
    # an ended loop kept open fails in the next one. A proxy set for LangChain needs its own client.
    if not environ.get("OPENAI_PROXY"):
        limits = import_module("httpx").Limits(max_keepalive_connections=0)
        # Options of sockets would make LangChain's blocking client ignore the system's proxies.
        if getproxies():
            extra["http_socket_options"] = ()
        extra["http_async_client"] = import_module("openai").DefaultAsyncHttpxClient(limits=limits)
    chat_model: Runnable[Any, Any] = chat_openai(
        model=model,
        timeout=settings.model_timeout_seconds,
        stream_usage=True,
        # The client cannot be made without a key, also for a server that needs none.
        **({} if key else {"api_key": "not-needed"}),
        **extra,
    )
    return _without_quota_retries(chat_model)


def refuse_class(value: object, name: str) -> None:
    """Raise `ConfigurationError` if a class is given where an object of it is meant.

    `name` is the argument's name, for the message.
    """
    if isinstance(value, type):
        raise ConfigurationError(f"{name}={value!r} is a class: pass an object of it")


def check_model(model: ModelLike | None, name: str) -> None:
    """Raise `ConfigurationError` for a model that can never answer.

    That is a class, an empty name, a function that cannot take the messages, or a graph with its
    own checkpointer. `None` and other kinds of values pass. `name` is the argument's name, for the
    message.
    """
    refuse_class(model, name)
    if isinstance(model, str) and not model.strip():
        raise ConfigurationError(
            f"{name}={model!r} is empty: give a model's name, such as 'gpt-4.1-mini', or leave it out"
        )
    if callable(model) and not isinstance(model, Runnable):
        pair = ", or with two, question and answer" if name == "judge" else ""
        check_arity(model, 1, name, f"one argument, the messages{pair}")
    graph = inner_of(model) if isinstance(model, Runnable) else None
    if isinstance(graph, Pregel):
        graphs: list[Any] = [graph, *(each for _, each in graph.get_subgraphs(recurse=True))]
        if any(getattr(each, "checkpointer", None) not in (None, False) for each in graphs):
            raise ConfigurationError(
                f"{name}={graph.name!r} is a graph with its own checkpointer, or has one inside: "
                "it would remember answers that were rejected or rolled back. Compile it without "
                "checkpointer=…; unsay keeps its state with each turn"
            )


def inner_of(runnable: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """Return the model inside LangChain's wrappers; a runnable without wrappers is returned itself.

    Wrappers are bound arguments, retries, a sequence (its first part), fallbacks (the main one),
    a configurable model (its default), and a parallel with one part.
    """
    while True:
        if isinstance(runnable, RunnableBindingBase):
            runnable = runnable.bound
        elif isinstance(runnable, RunnableSequence):
            runnable = runnable.first
        elif isinstance(runnable, RunnableWithFallbacks):
            runnable = runnable.runnable
        elif isinstance(runnable, DynamicRunnable | _Changed):
            runnable = runnable.default
        elif isinstance(runnable, RunnableParallel) and len(runnable.steps__) == 1:
            (runnable,) = runnable.steps__.values()
        else:
            return runnable


def name_of(runnable: Runnable[Any, Any]) -> str | None:
    """Return the name under which the provider knows a model; `None` if the object has none.

    A function has one if it has the attribute `model_name`.
    """
    inner = inner_of(runnable)
    holders = (inner, getattr(inner, "func", None), getattr(inner, "afunc", None))
    names = (getattr(each, name, None) for each in holders for name in ("model_name", "model"))
    return next((name for name in names if isinstance(name, str) and name), None)


def is_graph(runnable: Runnable[Any, Any]) -> bool:
    """Return whether a model is a LangGraph graph, such as an agent, which calls models itself.

    Wrappers such as retries do not matter; of a sequence only the first part counts.
    """
    return isinstance(inner_of(runnable), Pregel)


def is_chat_model(runnable: object) -> bool:
    """Return whether a value is a chat model, maybe with retries, fallbacks or configurable fields.

    With fallbacks, all of them must be chat models.
    """
    if isinstance(runnable, RunnableBindingBase):
        return is_chat_model(runnable.bound)
    if isinstance(runnable, RunnableWithFallbacks):
        return all(is_chat_model(each) for each in (runnable.runnable, *runnable.fallbacks))
    if isinstance(runnable, DynamicRunnable | _Changed):
        return is_chat_model(runnable.default)
    # The configurable model of `init_chat_model` is not a `BaseChatModel`.
    kind, methods = type(runnable), ("bind_tools", "with_structured_output")
    return isinstance(runnable, BaseChatModel) or all(hasattr(kind, each) for each in methods)


def change_inner(
    runnable: Runnable[Any, Any], change: Callable[[Any], Runnable[Any, Any]]
) -> Runnable[Any, Any]:
    """Return a model in which `change` was applied to the model inside its wrappers, which stay.

    Wrappers are bound arguments, retries, fallbacks (all are changed), a sequence (its first
    part), a parallel with one part, and configurable models (changed at each call). Anything else
    is given to `change` as it is. `change` binds tools, for example: LangChain's own wrappers
    would refuse that, or lose their configuration. The given model is not changed.
    """
    if isinstance(runnable, RunnableBindingBase):
        # A chain passes no arguments on to the model inside, so they are bound there.
        bound = _bind(change_inner(runnable.bound, change), runnable.kwargs)
        return runnable.model_copy(update={"bound": bound, "kwargs": {}})
    if isinstance(runnable, RunnableWithFallbacks):
        main = change_inner(runnable.runnable, change)
        others = [change_inner(each, change) for each in runnable.fallbacks]
        return runnable.model_copy(update={"runnable": main, "fallbacks": others})
    if isinstance(runnable, RunnableSequence):
        return runnable.model_copy(update={"first": change_inner(runnable.first, change)})
    if isinstance(runnable, RunnableParallel) and len(runnable.steps__) == 1:
        parts = {name: change_inner(each, change) for name, each in runnable.steps__.items()}
        return runnable.model_copy(update={"steps__": parts})
    if isinstance(runnable, DynamicRunnable):
        return _Changed(runnable, change)
    if isinstance(runnable, _Changed):
        earlier = runnable.change
        return _Changed(runnable.default, lambda model: change_inner(earlier(model), change))
    return change(runnable)


def at_temperature_0(model: Runnable[Any, Any], *, is_given: bool) -> Runnable[Any, Any] | None:
    """Return a chat model with temperature 0, to judge; `None` if it must be used as it is.

    That is so if it is not a chat model, has temperature 0 already, has no temperature, or if a host
    made it (`is_given`) and chose one.
    """
    chat = inner_of(model)
    if not is_chat_model(model) or not _has_temperature(chat):
        return None
    temperature = getattr(chat, "temperature", None)
    if temperature == 0 or (temperature is not None and is_given):
        return None
    return change_inner(model, partial(_set_to_0, is_given=is_given))


def _has_temperature(chat: object) -> bool:
    return "temperature" in getattr(type(chat), "model_fields", ())


def _set_to_0(chat: Any, *, is_given: bool) -> Runnable[Any, Any]:
    # A fallback or an alternative may have a temperature of the host's choice, or none.
    has_choice = is_given and getattr(chat, "temperature", None) is not None
    same: Runnable[Any, Any] = chat
    is_changed = _has_temperature(chat) and not has_choice
    return chat.model_copy(update={"temperature": 0.0}) if is_changed else same


def _bind(runnable: Runnable[Any, Any], kwargs: Mapping[str, Any]) -> Runnable[Any, Any]:
    """Return a runnable whose model is called with these arguments."""
    if not kwargs:
        return runnable
    if isinstance(runnable, RunnableSequence):
        return RunnableSequence(_bind(runnable.first, kwargs), *runnable.middle, runnable.last)
    if isinstance(runnable, RunnableParallel):
        return RunnableParallel(
            {name: _bind(each, kwargs) for name, each in runnable.steps__.items()}
        )
    return runnable.bind(**kwargs)


@dataclass(eq=False, repr=False)
class _Changed(Runnable[Any, Any]):
    """A configurable model that `change_inner` changed.

    Each call makes the model from the call's configuration and changes it.
    """

    default: DynamicRunnable[Any, Any]  # the configurable model
    change: Callable[[Any], Runnable[Any, Any]]

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002 - its name
        """Return the reply of the model that the configuration chooses."""
        model, config = self.default.prepare(config)
        return change_inner(model, self.change).invoke(input, config, **kwargs)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002 - its name
        """Return the reply of the model that the configuration chooses, on an event loop."""
        model, config = self.default.prepare(config)
        return await change_inner(model, self.change).ainvoke(input, config, **kwargs)


def _function(function: Callable[..., Any]) -> Runnable[Any, Any]:
    """Return a Runnable of a function that both `invoke` and `ainvoke` can call.

    The function is sync or async, and returns its reply or yields the parts of it.
    """
    # The signature is kept: LangChain gives a function its `config` if it takes one.
    decorator = wraps(function) if hasattr(function, "__name__") else wraps(type(function).__call__)

    @decorator
    def blocking(*args: Any, **kwargs: Any) -> Any:
        return user_call(partial(function, *args, **kwargs)).blocking()

    @decorator
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        return await user_call(partial(function, *args, **kwargs)).awaitable()

    @decorator
    def generating(*args: Any, **kwargs: Any) -> Any:
        yield from function(*args, **kwargs)

    @decorator
    async def generating_later(*args: Any, **kwargs: Any) -> Any:
        async for part in function(*args, **kwargs):
            yield part

    @decorator
    def joined(*args: Any, **kwargs: Any) -> Any:
        return run_on_own_loop(_joined(function(*args, **kwargs)))

    inner = inner_function(function)
    if inspect.isgeneratorfunction(inner):
        return RunnableLambda(generating)
    if inspect.isasyncgenfunction(inner):
        return RunnableLambda(joined, generating_later)
    return RunnableLambda(blocking, awaited)


async def _joined(parts: AsyncIterator[Any]) -> Any:
    """Return the sum of the parts of a reply, or the last part of those that cannot be added.

    It is as LangChain makes it; `None` without parts.
    """
    whole: Any = None
    async for part in parts:
        try:
            whole = part if whole is None else whole + part
        except TypeError:
            whole = part
    return whole
