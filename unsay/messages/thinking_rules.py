"""Rules about what a model thought before it spoke."""

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from unsay.messages.base import Dialect, Finding, is_dropped, role_of, thinks, written_by
from unsay.messages.content import CALL_TYPES, blocks_of, calls_of, is_thinking, thinking_of


def thinking_signed(messages: Sequence[BaseMessage], dialect: Dialect) -> Iterator[Finding]:
    """Every block of thinking has its signature or its encrypted words."""
    for index, message in enumerate(messages):
        if not isinstance(message, AIMessage):
            continue
        blocks = [block for block in blocks_of(message) if is_thinking(block)]
        for block, thought in zip(blocks, thinking_of(message), strict=True):
            if thinks(message, block, dialect) and not thought.signed:
                yield Finding(
                    index=index,
                    words=f"A block of type {block['type']!r} has neither signature nor redacted "
                    "data: send it as the provider gave it, or leave it out.",
                )


def thinking_first(messages: Sequence[BaseMessage], dialect: Dialect) -> Iterator[Finding]:
    """In the newest turn, an assistant that calls tools has begun by thinking.

    A later step of the same turn may go on without; earlier turns are free.
    """
    begun: bool | None = None
    for index in range(_newest_turn(messages), len(messages)):
        message = messages[index]
        if not isinstance(message, AIMessage):
            continue
        begins = _begins_with_thinking(message, dialect)
        begun = begins if begun is None else begun
        if calls_of(message) and not begun and not begins:
            yield Finding(
                index=index,
                words="An assistant message with tool calls "
                f"{[call.id for call in calls_of(message)]!r} does not begin with a block of "
                "thinking: put back the one that came with it, or turn thinking off.",
            )


def parts_in_order(messages: Sequence[BaseMessage], dialect: Dialect) -> Iterator[Finding]:
    """An assistant message thinks first, then speaks, then calls tools.

    One that used the provider's own tools may think again after each of them.
    """
    for index, message in enumerate(messages):
        if not isinstance(message, AIMessage) or _used_server_tools(message):
            continue
        ranks = [_rank(message, block, dialect) for block in blocks_of(message)]
        if ranks != sorted(ranks):
            yield Finding(
                index=index,
                words="The blocks stand in the order "
                f"{[block.get('type') for block in blocks_of(message)]!r}: thinking comes first, "
                "then text, then tool calls.",
            )


def thinking_own(messages: Sequence[BaseMessage], dialect: Dialect) -> Iterator[Finding]:
    """No thinking is of another provider, whose signature this one cannot verify."""
    for index, message in enumerate(messages):
        author = written_by(message)
        if author is None or author in dialect.own or not isinstance(message, AIMessage):
            continue
        if any(block.get("type") in dialect.thinking_types for block in blocks_of(message)):
            yield Finding(
                index=index,
                words=f"A message that {author!r} wrote holds thinking that only {author!r} can "
                "verify: leave its thinking out.",
            )


def no_thinking_at_end(messages: Sequence[BaseMessage], dialect: Dialect) -> Iterator[Finding]:
    """A final assistant message, which the provider would go on with, holds no thinking."""
    last = messages[-1] if messages else None
    if isinstance(last, AIMessage) and _thinks_at(last, dialect):
        yield Finding(
            index=len(messages) - 1,
            words="The conversation ends with an assistant message that holds thinking: end it "
            "with a user message, or leave the thinking out.",
        )


def thinking_leads(messages: Sequence[BaseMessage], dialect: Dialect) -> Iterator[Finding]:
    """An assistant message that holds thinking begins with it."""
    for index, message in enumerate(messages):
        at = _thinks_at(message, dialect) if isinstance(message, AIMessage) else []
        if at and at[0] > 0:
            yield Finding(
                index=index,
                words=f"A block of thinking stands at place {at[0]} of its message: put it first.",
            )


def signatures_decode(messages: Sequence[BaseMessage], dialect: Dialect) -> Iterator[Finding]:
    """A signature of the provider's own is base64."""
    for index, message in enumerate(messages):
        if written_by(message) not in dialect.own:
            continue
        for block in blocks_of(message):
            if not _decodes(block):
                yield Finding(
                    index=index,
                    words=f"A block of type {block.get('type')!r} has a signature that is no "
                    "base64: send it as Gemini gave it, or leave it out.",
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


def _begins_with_thinking(message: BaseMessage, dialect: Dialect) -> bool:
    first = next(blocks_of(message), {})
    return thinks(message, first, dialect)


def _thinks_at(message: BaseMessage, dialect: Dialect) -> list[int]:
    """The places of thinking among the blocks that reach the provider."""
    arriving = (
        block
        for block in blocks_of(message)
        if thinks(message, block, dialect)
        or not is_dropped(message, str(block.get("type")), dialect)
    )
    return [at for at, block in enumerate(arriving) if thinks(message, block, dialect)]


def _rank(message: BaseMessage, block: Mapping[str, Any], dialect: Dialect) -> int:
    if thinks(message, block, dialect):
        return 0
    return 2 if block.get("type") in CALL_TYPES else 1


def _used_server_tools(message: BaseMessage) -> bool:
    kinds = (str(block.get("type")) for block in blocks_of(message))
    return any(kind.startswith("server_tool") or kind.endswith("_tool_result") for kind in kinds)


def _decodes(block: Mapping[str, Any]) -> bool:
    extras = block.get("extras")
    inner = extras.get("signature") if isinstance(extras, Mapping) else None
    signature = block.get("thought_signature") or block.get("signature") or inner
    try:
        base64.b64decode(signature or "")
    except (binascii.Error, ValueError, TypeError):
        return False
    return True
