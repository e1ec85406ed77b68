"""Rules about what a model thought before it spoke."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from unsay.messages.base import (
    Dialect,
    Finding,
    is_dropped,
    message_rule,
    role_of,
    rule,
    thinks,
    written_by,
)
from unsay.messages.content import CALL_TYPES, blocks_of, calls_of, is_thinking, thinking_of


@rule
def thinking_first(messages: Sequence[BaseMessage], dialect: Dialect) -> Iterator[Finding]:
    """In the newest turn, an assistant that calls tools has begun by thinking.

    A later step of the same turn may go on without; earlier turns are free.
    """
    begun: bool | None = None
    for index in range(_newest_turn(messages), len(messages)):
        message = messages[index]
        if not isinstance(message, AIMessage):
            continue
        begins = thinks(message, next(blocks_of(message), {}), dialect)
        begun = begins if begun is None else begun
        if calls_of(message) and not begun and not begins:
            yield (
                index,
                "An assistant message with tool calls "
                f"{[call.id for call in calls_of(message)]!r} does not begin with a block of "
                "thinking: put back the one that came with it, or turn thinking off.",
            )


@message_rule
def thinking_signed(message: BaseMessage, dialect: Dialect) -> Iterator[str]:
    """Every block of thinking has its signature or its encrypted words."""
    if not isinstance(message, AIMessage):
        return
    blocks = [block for block in blocks_of(message) if is_thinking(block)]
    for block, thought in zip(blocks, thinking_of(message), strict=True):
        if thinks(message, block, dialect) and not thought.signed:
            yield (
                f"A block of type {block['type']!r} has neither signature nor redacted "
                "data: send it as the provider gave it, or leave it out."
            )


@message_rule
def thinking_own(message: BaseMessage, dialect: Dialect) -> Iterator[str]:
    """No thinking is of another provider, whose signature this one cannot verify."""
    author = written_by(message)
    if author is None or author in dialect.own or not isinstance(message, AIMessage):
        return
    if any(block.get("type") in dialect.thinking_types for block in blocks_of(message)):
        yield (
            f"A message that {author!r} wrote holds thinking that only {author!r} can "
            "verify: leave its thinking out."
        )


@message_rule
def parts_in_order(message: BaseMessage, dialect: Dialect) -> Iterator[str]:
    """An assistant message thinks first, then speaks, then calls tools.

    One that used the provider's own tools may think again after each of them.
    """
    blocks = list(blocks_of(message))
    kinds = [str(block.get("type")) for block in blocks]
    server_tools = any(k.startswith("server_tool") or k.endswith("_tool_result") for k in kinds)
    if not isinstance(message, AIMessage) or server_tools:
        return
    ranks = [
        0 if thinks(message, block, dialect) else 2 if block.get("type") in CALL_TYPES else 1
        for block in blocks
    ]
    if ranks != sorted(ranks):
        yield (
            f"The blocks stand in the order {[block.get('type') for block in blocks]!r}: "
            "thinking comes first, then text, then tool calls."
        )


@message_rule
def thinking_leads(message: BaseMessage, dialect: Dialect) -> Iterator[str]:
    """An assistant message that holds thinking begins with it."""
    at = _thinks_at(message, dialect)
    if at and at[0] > 0:
        yield f"A block of thinking stands at place {at[0]} of its message: put it first."


@rule
def no_thinking_at_end(messages: Sequence[BaseMessage], dialect: Dialect) -> Iterator[Finding]:
    """A final assistant message, which the provider would go on with, holds no thinking."""
    if messages and _thinks_at(messages[-1], dialect):
        yield (
            len(messages) - 1,
            "The conversation ends with an assistant message that holds thinking: end it "
            "with a user message, or leave the thinking out.",
        )


@message_rule
def signatures_decode(message: BaseMessage, dialect: Dialect) -> Iterator[str]:
    """A signature of the provider's own is base64."""
    if written_by(message) not in dialect.own:
        return
    for block in blocks_of(message):
        extras = block.get("extras")
        inner = extras.get("signature") if isinstance(extras, Mapping) else None
        if not _decodes(block.get("thought_signature") or block.get("signature") or inner):
            yield (
                f"A block of type {block.get('type')!r} has a signature that is no "
                "base64: send it as Gemini gave it, or leave it out."
            )


def _newest_turn(messages: Sequence[BaseMessage]) -> int:
    """Where the newest turn begins; words that the user adds to results go on with their turn."""
    start = len(messages)
    for index in range(len(messages) - 1, -1, -1):
        role = role_of(messages[index])
        if role == "human":
            start = index
        elif start == index + 1 and role != "tool":
            return start
    return 0


def _thinks_at(message: BaseMessage, dialect: Dialect) -> list[int]:
    """The places of an assistant's thinking among the blocks that reach the provider."""
    if not isinstance(message, AIMessage):
        return []
    arriving = (
        thought
        for block in blocks_of(message)
        if (thought := thinks(message, block, dialect))
        or not is_dropped(message, str(block.get("type")), dialect)
    )
    return [at for at, thought in enumerate(arriving) if thought]


def _decodes(signature: Any) -> bool:
    try:
        base64.b64decode(signature or "")
    except (ValueError, TypeError):
        return False
    return True
