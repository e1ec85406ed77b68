"""A model from a name, or from any other kind of value that a caller may give as one."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial, wraps
from importlib import import_module
from os import environ
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableLambda

from unsay.arguments import check_arity
from unsay.effects import user_call
from unsay.errors import ConfigurationError, MissingModelError
from unsay.settings import Settings
from unsay.types import Provider

ModelLike = BaseChatModel | Runnable[Any, Any] | Callable[[Any], Any] | str
"""A chat model, an agent that takes and gives messages, a function, or a model's name."""

PROVIDERS: Mapping[str, Provider] = {
    "openai": "openai",
    "anthropic": "anthropic",
    "bedrock_converse": "bedrock",
    "google-generative-ai": "gemini",
    "vertexai": "gemini",
}
"""Providers by a part of LangChain's name for the kind of model. Source: `_llm_type` of each."""


def resolve_model(model: ModelLike, settings: Settings) -> Runnable[Any, Any]:
    """Return a Runnable from any model that a caller may give; a name becomes an OpenAI client.

    Raises:
        MissingModelError: A name was given, but no key or address for it.
        ConfigurationError: It is none of the accepted kinds.
    """
    if isinstance(model, Runnable):
        return model
    if callable(model):
        return _function(model)
    if not isinstance(model, str):
        raise ConfigurationError(
            f"{model!r} cannot answer: give a LangChain chat model, a model's name, "
            "or a Runnable that takes and gives messages"
        )
    key, base = environ.get("OPENAI_API_KEY"), environ.get("OPENAI_BASE_URL")
    if not key and not base:
        raise MissingModelError(
            f"There is no key for model {model!r}: set OPENAI_API_KEY, or OPENAI_BASE_URL for a "
            "server of your own (Ollama, vLLM, llama.cpp); `unsay demo` needs neither"
        )
    chat_openai, extra = import_module("langchain_openai").ChatOpenAI, {}
    # LangChain shares one HTTP client among all event loops of the process, and a connection that
    # an ended loop kept open fails in the next one. A proxy set for LangChain needs its own client.
    if not environ.get("OPENAI_PROXY"):
        limits = import_module("httpx").Limits(max_keepalive_connections=0)
        extra["http_async_client"] = import_module("openai").DefaultAsyncHttpxClient(limits=limits)
    chat_model: Runnable[Any, Any] = chat_openai(
        model=model,
        timeout=settings.model_timeout_seconds,
        stream_usage=True,
        # The client cannot be made without a key, also for a server that needs none.
        **({} if key else {"api_key": "not-needed"}),
        **extra,
    )
    return chat_model


def refuse_class(value: object, name: str) -> None:
    """Raise `ConfigurationError` if a class is given where an object of it is meant."""
    if isinstance(value, type):
        raise ConfigurationError(f"{name}={value!r} is a class: pass an object of it")


def check_model(model: ModelLike | None, name: str) -> None:
    """Raise `ConfigurationError` for a class, and for a function that cannot take the messages."""
    refuse_class(model, name)
    if callable(model) and not isinstance(model, Runnable):
        check_arity(model, 1, name, "the messages")


def _function(function: Callable[..., Any]) -> Runnable[Any, Any]:
    """Return a Runnable of a function, sync or async, that both `invoke` and `ainvoke` can call."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        return RunnableLambda(function)
    # The signature is kept: LangChain gives a function its `config` if it takes one.
    kept = wraps(function) if hasattr(function, "__name__") else wraps(type(function).__call__)

    @kept
    def blocking(*args: Any, **kwargs: Any) -> Any:
        return user_call(partial(function, *args, **kwargs)).blocking()

    @kept
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        return await user_call(partial(function, *args, **kwargs)).awaitable()

    return RunnableLambda(blocking, awaited)
