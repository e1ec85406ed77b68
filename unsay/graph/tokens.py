"""What messages cost, from what their models said of themselves."""

from collections.abc import Iterable
from dataclasses import dataclass

from langchain_core.messages import AIMessage, BaseMessage

from unsay.transcript.marks import mark_of

Key = tuple[str | None, str, int]
"""A message, told from another that a server gave the same id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """What models read and wrote, as they counted it themselves."""

    input: int = 0
    """Tokens of the prompts."""

    output: int = 0
    """Tokens of the answers."""

    total: int = 0
    """Both, as the provider adds them up."""

    def __str__(self) -> str:
        return f"{self.total} tokens ({self.input} in, {self.output} out)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a conversation cost; each message counts once, wherever it stands now."""

    live: Tokens
    """Of the answers on the record."""

    abandoned: Tokens
    """Of the drafts and answers that were taken back and have not returned."""

    def __str__(self) -> str:
        return f"live: {self.live}; abandoned: {self.abandoned}"


def tokens_of(messages: Iterable[BaseMessage]) -> Tokens:
    """What some messages cost; one that stands there twice counts once.

    A message that was picked from elsewhere was paid for there.
    """
    found = {key_of(m): m for m in messages if isinstance(m, AIMessage)}
    used = [
        m.usage_metadata
        for m in found.values()
        if isinstance(m, AIMessage) and m.usage_metadata and "picked" not in mark_of(m)
    ]
    return Tokens(
        input=sum(each["input_tokens"] for each in used),
        output=sum(each["output_tokens"] for each in used),
        total=sum(each["total_tokens"] for each in used),
    )


def key_of(message: BaseMessage) -> Key:
    """What makes a message itself: its id and words, and what it cost."""
    usage = message.usage_metadata if isinstance(message, AIMessage) else None
    return message.id, repr(message.content), usage["total_tokens"] if usage else 0
