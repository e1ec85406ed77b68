"""Replies of models: the messages in a reply, their usage, and the model that wrote them."""

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from unsay.tokens.counter import TokenCounter
from unsay.tokens.pricing import Usage, usage_of


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
