"""Neighbours of one role made one message, so that user and assistant take turns."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage

from unsay.transcript.parts import blocks_of, calls_of, is_thinking, thinking_of

_AUTHORSHIP = ("model_provider", "output_version")
"""What `response_metadata` says of who wrote the thinking and in which blocks.

Source:
    LangChain, "Messages"; its integrations read them to tell their own thinking from another's.
"""


def merge_neighbours(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Join neighbours of one role, so that user and assistant take turns.

    Words are joined by a blank line, blocks follow one another, thinking goes
    first, and the id and notes of the first stay. Thinking of a later message
    is left out where nobody signed it, or another model than the first's did.
    An assistant message that calls tools is never joined to what follows it.
    """
    merged: list[AnyMessage] = []
    for message in messages:
        if merged and _same_voice(merged[-1], message):
            merged[-1] = _joined(merged[-1], message)
        else:
            merged.append(message)
    return merged


def _same_voice(first: AnyMessage, second: AnyMessage) -> bool:
    return first.type == second.type and first.type in ("human", "ai") and not calls_of(first)


def _joined(first: AnyMessage, second: AnyMessage) -> AnyMessage:
    changed: dict[str, Any] = {
        "content": _joined_content(first, second),
        "additional_kwargs": {**second.additional_kwargs, **first.additional_kwargs},
        "name": first.name if first.name == second.name else None,
    }
    if isinstance(second, AIMessage):
        changed["tool_calls"] = second.tool_calls
        if not thinking_of(first):
            changed["response_metadata"] = _written_by(first, second)
    return first.model_copy(update=changed)


def _written_by(first: AnyMessage, second: AnyMessage) -> dict[str, Any]:
    """The first's metadata, with the authorship of the second."""
    own = {k: v for k, v in first.response_metadata.items() if k not in _AUTHORSHIP}
    return own | {k: v for k, v in second.response_metadata.items() if k in _AUTHORSHIP}


def _joined_content(first: BaseMessage, second: BaseMessage) -> Any:
    if isinstance(first.content, str) and isinstance(second.content, str):
        return "\n\n".join(text for text in (first.content, second.content) if text)
    foreign = bool(thinking_of(first)) and _author(first) != _author(second)
    later = [
        block
        for block in blocks_of(second)
        if not is_thinking(block) or (is_signed(block) and not foreign)
    ]
    blocks = [block for block in (*blocks_of(first), *later) if not is_blank(block)]
    return sorted(blocks, key=lambda block: not is_thinking(block))


def _author(message: BaseMessage) -> list[Any]:
    return [message.response_metadata.get(key) for key in _AUTHORSHIP]


def folded(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """The messages joined into one; none of none."""
    whole = list(messages[:1])
    for message in messages[1:]:
        whole[0] = _joined(whole[0], message)
    return whole


def is_blank(block: str | dict[str, Any]) -> bool:
    """Whether a block is text without words.

    Source:
        Anthropic and Bedrock answer 400, "text content blocks must contain non-whitespace text".
    """
    if isinstance(block, str):
        return not block.strip()
    return block.get("type") == "text" and not str(block.get("text") or "").strip()


def is_signed(block: dict[str, Any]) -> bool:
    """Whether a block holds thinking that a provider signed or encrypted."""
    return any(each.signed for each in thinking_of(AIMessage(content=[block])))
