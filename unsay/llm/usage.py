"""Tokens of a model call: estimated before it, reported by the model afterwards."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import (
    Runnable,
    RunnableBinding,
    RunnableParallel,
    RunnableSequence,
    RunnableWithFallbacks,
)
from langgraph.pregel import Pregel

from unsay.tokens.counter import TokenCounter
from unsay.tokens.pricing import Usage, usage_of

Purpose = Literal["answer", "judge", "summary", "title"]
# Assumed tokens of a reply until the model reports them. Source: Zhang 2026, chapter 7.4 for
# summaries; the others are our own choice.
REPLY_TOKENS: Mapping[Purpose, int] = MappingProxyType(
    {"answer": 500, "judge": 100, "summary": 400, "title": 20}
)


def inner_of(runnable: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """Return the model inside LangChain's wrappers, such as bound arguments or structured output."""
    while True:
        if isinstance(runnable, RunnableBinding):
            runnable = runnable.bound
        elif isinstance(runnable, RunnableSequence):
            runnable = runnable.first
        elif isinstance(runnable, RunnableWithFallbacks):
            runnable = runnable.runnable
        elif isinstance(runnable, RunnableParallel) and len(runnable.steps__) == 1:
            (runnable,) = runnable.steps__.values()
        else:
            return runnable


def is_graph(runnable: Runnable[Any, Any]) -> bool:
    """Return whether it is a LangGraph graph, such as an agent, which calls models itself."""
    return isinstance(inner_of(runnable), Pregel)


def name_of(runnable: Runnable[Any, Any]) -> str | None:
    """Return the provider's name for a model; `None` if it is unknown."""
    inner = inner_of(runnable)
    names = (getattr(inner, each, None) for each in ("model_name", "model"))
    return next((each for each in names if isinstance(each, str) and each), None)


def longest_reply(runnable: Runnable[Any, Any], purpose: Purpose) -> int:
    """Return the assumed tokens of a reply, which the model's `max_tokens` limits."""
    most = getattr(inner_of(runnable), "max_tokens", None)
    assumed = REPLY_TOKENS[purpose]
    return min(most, assumed) if isinstance(most, int) and most > 0 else assumed


def prompt_tokens(value: Any) -> int:
    """Estimate the tokens of a prompt."""
    return TokenCounter().count(messages_in(value))


def replies_in(reply: Any, value: Any) -> list[AIMessage]:
    """Return the messages of models in a reply, without those of the prompt (`value`)."""
    if isinstance(reply, Mapping) and "raw" in reply:
        reply = reply["raw"]
    sent = {message.id for message in messages_in(value)} - {None}
    found = messages_in(AIMessage(reply) if isinstance(reply, str) else reply)
    return [each for each in found if isinstance(each, AIMessage) and each.id not in sent]


def used_by(replies: list[AIMessage], prompt: int) -> Usage:
    """Return the usage that the replies report, or an estimate; `prompt` is in tokens."""
    reported = [usage_of(each.usage_metadata) for each in replies if each.usage_metadata]
    if not reported:
        return Usage(input=prompt, output=TokenCounter().count(replies))
    return Usage(
        input=sum(each.input for each in reported),
        output=sum(each.output for each in reported),
        cache_read=sum(each.cache_read for each in reported),
        cache_creation=sum(each.cache_creation for each in reported),
    )


def answered_by(replies: list[AIMessage]) -> str | None:
    """Return the provider's name for the model that replied; `None` if the reply has none."""
    metadata = replies[-1].response_metadata if replies else {}
    names = (metadata.get(each) for each in ("model_name", "model"))
    return next((each for each in names if isinstance(each, str) and each), None)


def messages_in(value: Any) -> list[BaseMessage]:
    """Return the messages in the input or the reply of a call, in any form that LangChain uses."""
    if isinstance(value, Mapping):
        value = value.get("messages", [])
    if isinstance(value, str):
        value = HumanMessage(value)
    found = value if isinstance(value, list | tuple) else [value]
    return [each for each in found if isinstance(each, BaseMessage)]
