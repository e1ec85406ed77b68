"""What a call of a model uses: before it is made by estimate, afterwards by the model's own report."""

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
REPLY_TOKENS: Mapping[Purpose, int] = MappingProxyType(
    {"answer": 500, "judge": 100, "summary": 400, "title": 20}
)
"""What a reply is assumed to cost until its model has said what it did.

Source:
    Zhang 2026, chapter 7.4 for summaries; else own choice: an answer of a few paragraphs, a
    verdict of two sentences, a line.
"""


def inner_of(runnable: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """The model inside bound arguments, structured output and the like."""
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
    """Whether it is no single call of a model, but a graph that makes calls of its own."""
    return isinstance(inner_of(runnable), Pregel)


def name_of(runnable: Runnable[Any, Any]) -> str | None:
    """What a model's provider calls it; `None` where it does not say."""
    inner = inner_of(runnable)
    names = (getattr(inner, each, None) for each in ("model_name", "model"))
    return next((each for each in names if isinstance(each, str) and each), None)


def longest_reply(runnable: Runnable[Any, Any], purpose: Purpose) -> int:
    """What its reply is assumed to cost: less where the model is told to stop sooner."""
    most = getattr(inner_of(runnable), "max_tokens", None)
    assumed = REPLY_TOKENS[purpose]
    return min(most, assumed) if isinstance(most, int) and most > 0 else assumed


def prompt_tokens(value: Any) -> int:
    """What a model is sent, by the plain estimate."""
    return TokenCounter().count(messages_in(value))


def replies_in(reply: Any, value: Any) -> list[AIMessage]:
    """The models' own messages in a reply, those that they were sent left out."""
    if isinstance(reply, Mapping) and "raw" in reply:
        reply = reply["raw"]
    sent = {message.id for message in messages_in(value)} - {None}
    found = messages_in(AIMessage(reply) if isinstance(reply, str) else reply)
    return [each for each in found if isinstance(each, AIMessage) and each.id not in sent]


def used_by(replies: list[AIMessage], prompt: int) -> Usage:
    """What one call used, as its model reported it, else as it is estimated from the prompt's tokens."""
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
    """The model that wrote a reply, as its provider names it; `None` where it does not."""
    metadata = replies[-1].response_metadata if replies else {}
    names = (metadata.get(each) for each in ("model_name", "model"))
    return next((each for each in names if isinstance(each, str) and each), None)


def messages_in(value: Any) -> list[BaseMessage]:
    """The messages that a call is given or gives; none of what is in no known form."""
    if isinstance(value, Mapping):
        value = value.get("messages", [])
    if isinstance(value, str):
        value = HumanMessage(value)
    found = value if isinstance(value, list | tuple) else [value]
    return [each for each in found if isinstance(each, BaseMessage)]
