"""`conform`, which makes a context that a provider accepts out of any messages."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

from unsay.errors import EmptyMessageError, InputError, TranscriptError
from unsay.messages import content_rules  # noqa: F401 - it registers its rules
from unsay.messages.annotations import DOCUMENT
from unsay.messages.boundaries import INTERRUPTED, fitting, repair, with_calls
from unsay.messages.call_rules import COMMON, DIALECTS, RULES, Fault
from unsay.messages.content import Thinking, blocks_of, calls_of, is_thinking, parts_of, thinking_in
from unsay.types import Provider


def faults(
    messages: Sequence[BaseMessage], provider: Provider | None = None, *, thinking: bool = False
) -> tuple[Fault, ...]:
    """Return each reason for which a provider would refuse these messages, oldest message first.

    The result is empty if the provider would accept them.

    Args:
        messages: Oldest first, as they would be sent.
        provider: Selects the rules; `None` checks only those that all providers share, such as a
            result directly after each tool call.
        thinking: Whether extended thinking is on for the call.

    Raises:
        InputError: The provider is unknown.
    """
    if provider is not None and provider not in DIALECTS:
        raise InputError(f"The provider {provider!r} is not one of {sorted(DIALECTS)!r} or None.")
    dialect = COMMON if provider is None else DIALECTS[provider]
    sources = {**dialect.sources, **(dialect.thinking_sources if thinking else {})}
    all_faults = [
        Fault(index=index, rule=name, problem=problem, source=sources[name])
        for name, rule in RULES.items()
        if name in sources
        for index, problem in rule(messages, dialect)
    ]
    return tuple(sorted(all_faults, key=lambda fault: fault.index))


def validate(
    messages: Sequence[BaseMessage], provider: Provider | None = None, *, thinking: bool = False
) -> None:
    """Raise an error if a provider would refuse the messages; the arguments are those of `faults`.

    Raises:
        TranscriptError: A rule is broken; the error names the message, the rule and the correction.
        InputError: The provider is unknown.
    """
    all_faults = faults(messages, provider, thinking=thinking)
    if not all_faults:
        return
    first, others = all_faults[0], len(all_faults) - 1
    more = f" ({others} more: see `faults`.)" if others else ""
    raise TranscriptError(
        f"Message {first.index} breaks {first.rule!r} of {provider or 'every provider'!r}: "
        f"{first.problem}{more} Source: {first.source}."
    )


# Roles that a `ChatMessage` may have under another name. Source: langchain-core, `convert_to_messages`.
_ROLES: dict[str, type[BaseMessage]] = {
    **dict.fromkeys(("user", "human"), HumanMessage),
    **dict.fromkeys(("assistant", "ai"), AIMessage),
    **dict.fromkeys(("system", "developer"), SystemMessage),
}
_KINDS = ("type", "source_type")  # fields of a block that LangChain looks up
PLAIN = frozenset({HumanMessage, AIMessage, SystemMessage, ToolMessage})


def is_plain(message: Any) -> bool:
    """Return whether readers can use a message as it is; of a block only the text is checked."""
    return (
        type(message) in PLAIN
        and isinstance(message.id, str | None)
        and isinstance(message.name, str | None)
        and (isinstance(message.content, str) or _has_blocks(message.content))
        and isinstance(message.additional_kwargs, dict)
        and isinstance(message.response_metadata, dict)
    )


def _has_blocks(content: Any) -> bool:
    return isinstance(content, list) and all(
        isinstance(block, str)
        or (isinstance(block, dict) and isinstance(block.get("text", ""), str))
        for block in content
    )


def plain(message: BaseMessage) -> Any:
    """Return a message as a user's, an assistant's, a system's or a tool's, or as a `RemoveMessage`.

    Chunks and subclasses become the class that they extend, without fields of their own. A message
    of any other kind, such as a function's, becomes a document. Content blocks that unsay
    cannot read become text. A message that needs no change is returned as it is.

    Raises:
        ValueError: A field has a value that LangChain refuses.
        TypeError: The same.
    """
    if isinstance(message, RemoveMessage):
        return RemoveMessage(id=message.id or "")
    attributes: dict[str, Any] = dict(vars(message))
    kind: Any = next((each for each in type(message).__mro__ if each in PLAIN), None)
    kind = kind or _ROLES.get(str(attributes.get("role")).lower())
    if kind is None:
        kind, attributes = HumanMessage, {**attributes, "name": DOCUMENT}
    if not isinstance(attributes["content"], str | list):
        attributes["content"] = "" if attributes["content"] is None else str(attributes["content"])
    for name in ("id", "name"):
        if not isinstance(attributes.get(name), str):
            attributes[name] = None
    fields = kind.model_fields.keys() & attributes.keys() - {"type"}
    new_message = kind(
        **{name: attributes[name] for name in fields if attributes[name] is not None}
    )
    if not isinstance(new_message.content, str) and not _is_readable(new_message):
        return new_message.model_copy(update={"content": str(new_message.content)})
    return message if is_plain(message) else new_message


def _is_readable(message: Any) -> bool:
    """Return whether contexts for all providers can be made of a message's content blocks."""
    try:
        for provider in DIALECTS:
            conform([message], opening="-", provider=provider)
        blocks = [*blocks_of(message), *message.content_blocks]
        return all(isinstance(block.get(name, ""), str) for block in blocks for name in _KINDS)
    except (AttributeError, LookupError, TypeError, ValueError):
        return False


Block = str | dict[str, Any]

OPENING_ID = "unsay-opening"  # id of the user message before a context that lacks one

# Keys of `response_metadata` by which LangChain's integrations recognize their own thinking.
# Source: LangChain, "Messages".
_AUTHORSHIP = ("model_provider", "output_version")

# An id that all four providers accept. Source: Anthropic and Bedrock state the letters (Bedrock 64
# of them); OpenAI answers 400 with "maximum length 40", vercel/ai#5171, agno-agi/agno#5382.
_CALL_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")

# A tool's name that all four accept. Source: OpenAI `^[a-zA-Z0-9_-]{1,64}$`, Bedrock the same;
# Gemini begins with a letter or `_`, at most 64.
_TOOL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")

# A name beside a role. Source: OpenAI answers 400 on `messages[].name`, with this pattern.
_AUTHOR = re.compile(r"[^\s<|\\/>]+")

# Rules that a single block of an assistant can break.
_BLOCK_RULES = ("known_blocks", "thinking_signed", "thinking_own", "signatures_decode")


def conform(
    messages: Sequence[AnyMessage],
    *,
    opening: str,
    provider: Provider | None = None,
    interrupted: str = INTERRUPTED,
) -> list[AnyMessage]:
    """Return a context that a provider accepts, made out of any messages.

    The result has complete tool calls, valid ids and names, at most one system message at the
    beginning, a user message next, alternating roles and no blank text. Messages after a finished
    answer never change those before it, so a cached prefix stays valid.

    Use it for a context: it may merge, rename and remove. `tool_pairs.repair` is for the transcript
    and changes no text. An image or file of the user is never removed, even if the provider refuses
    it: `faults` reports it.

    Args:
        messages: Oldest first; not changed.
        opening: Text of the user message before a context that begins with the assistant.
        provider: Blocks of an assistant that this provider refuses, such as the thinking of another
            provider, are removed; `None` keeps all signed thinking.
        interrupted: Text of the error for an unanswered call.

    Returns:
        The same objects, except those that had to change.

    Raises:
        EmptyMessageError: The opening has no words.
    """
    if not opening.strip():
        raise EmptyMessageError(f"opening must have words of a user, got {opening!r}")
    # First, because merging relies on results that directly follow their calls.
    whole = repair(messages, interrupted=interrupted, allowed=_CALL_ID)
    sound = [_sound(_named(message), provider) for message in whole]
    kept_messages = [m for m in sound if m.content or m.type == "tool" or calls_of(m)]
    systems: list[AnyMessage] = [message for message in kept_messages if message.type == "system"]
    spoken = merge_neighbours([message for message in kept_messages if message.type != "system"])
    # A removed message may leave two neighbours of one role, so neighbours are merged again.
    spoken = merge_neighbours([message for message in spoken if _says(message, provider)])
    if (systems or spoken) and not (spoken and spoken[0].type == "human"):
        spoken = [HumanMessage(opening, id=OPENING_ID), *spoken]
    return [*([reduce(_joined, systems)] if systems else []), *spoken]


def merge_neighbours(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return the messages with neighbours of one role merged, so that user and assistant alternate.

    The merged message has the id of the first one, with thinking before all other blocks. Of a
    later message unsigned thinking is removed; if the first one has thinking, that of another
    provider is removed, too. An assistant message that calls tools is never merged with the next
    message; tool and system messages are not merged.
    """
    merged: list[AnyMessage] = []
    for message in messages:
        first = merged[-1] if merged else None
        if first and first.type == message.type in ("human", "ai") and not calls_of(first):
            merged[-1] = _joined(first, message)
        else:
            merged.append(message)
    return merged


def _joined(first: AnyMessage, second: AnyMessage) -> AnyMessage:
    updates: dict[str, Any] = {
        "content": _joined_content(first, second),
        "additional_kwargs": {**second.additional_kwargs, **first.additional_kwargs},
        "name": first.name if first.name == second.name else None,
    }
    if isinstance(second, AIMessage):
        updates["tool_calls"] = second.tool_calls
        if not any(map(is_thinking, blocks_of(first))):
            # The merged thinking is the second one's, so its author must be, too.
            own = {k: v for k, v in first.response_metadata.items() if k not in _AUTHORSHIP}
            theirs = {k: v for k, v in second.response_metadata.items() if k in _AUTHORSHIP}
            updates["response_metadata"] = own | theirs
    return first.model_copy(update=updates)


def _joined_content(first: BaseMessage, second: BaseMessage) -> Any:
    if isinstance(first.content, str) and isinstance(second.content, str):
        return "\n\n".join(text for text in (first.content, second.content) if text)
    authors = [[m.response_metadata.get(key) for key in _AUTHORSHIP] for m in (first, second)]
    # A message has one author for all its thinking; a provider refuses thinking of another model.
    foreign = any(map(is_thinking, blocks_of(first))) and authors[0] != authors[1]
    thoughts = ((block, thinking_in(block)) for block in blocks_of(second))
    second_blocks = [block for block, t in thoughts if t is None or (t.signed and not foreign)]
    blocks = [block for block in (*blocks_of(first), *second_blocks) if not _is_blank(block)]
    return sorted(blocks, key=lambda block: not is_thinking(block))


def _is_blank(block: Block) -> bool:
    # Source: Anthropic and Bedrock answer 400, "text content blocks must contain non-whitespace text".
    if isinstance(block, str):
        return not block.strip()
    return block.get("type") == "text" and not str(block.get("text") or "").strip()


def _sound(message: AnyMessage, provider: Provider | None) -> AnyMessage:
    """Return the message without blank text.

    An assistant's message also loses the blocks that the provider refuses, calls whose arguments
    could not be read, and space at its end. Its thinking is moved to the beginning if a provider
    needs that.
    """
    content: Any = message.content
    if isinstance(content, str):
        text = content if content.strip() else ""
        content = text.rstrip() if message.type == "ai" else text
    else:
        blocks = [block for block in content if not _is_blank(block)]
        if isinstance(message, AIMessage):
            blocks = [block for block in blocks if not _is_refused(message, block, provider)]
            blocks = _closed(_thinking_first(blocks, calls=bool(calls_of(message))))
        content = blocks or ""
    updates: dict[str, Any] = {} if content == message.content else {"content": content}
    if isinstance(message, AIMessage) and message.invalid_tool_calls:
        updates["invalid_tool_calls"] = []
    return message.model_copy(update=updates) if updates else message


def _thinking_first(blocks: list[Block], *, calls: bool) -> list[Block]:
    # Source: Anthropic answers 400, "If an assistant message contains any thinking blocks, the first
    # block must be `thinking`", anthropics/claude-code#20691, "The final block in an assistant
    # message cannot be `thinking`", tailcallhq/forgecode#2107, and refuses blocks of the newest
    # answer that were moved without need, anthropics/claude-code#63284.
    thoughts = [block for block in blocks if not isinstance(block, str) and is_thinking(block)]
    if not thoughts or (blocks[0] is thoughts[0] and (calls or blocks[-1] is not thoughts[-1])):
        return blocks
    return [*thoughts, *(block for block in blocks if block not in thoughts)]


def _closed(blocks: list[Block]) -> list[Block]:
    # Source: Anthropic answers 400, "final assistant content cannot end with trailing whitespace".
    # Stripped in every message, not only the last, so that a message is the same in every context.
    for index in reversed(range(len(blocks))):
        last = blocks[index]
        if isinstance(last, str):
            return [*blocks[:index], last.rstrip(), *blocks[index + 1 :]]
        if last.get("type") == "text":
            closed = {**last, "text": last["text"].rstrip()}
            return [*blocks[:index], closed, *blocks[index + 1 :]]
        if not is_thinking(last):
            break
    return blocks


def _is_refused(message: AIMessage, block: Block, provider: Provider | None) -> bool:
    # Unsigned thinking is removed for every provider: Anthropic answers 400, "thinking.signature:
    # Field required", and the others do not need it.
    if isinstance(block, str) or block.get("type") == "text":
        return False
    thought = thinking_in(block)
    if thought and not thought.signed:
        return True
    return _breaks(message.model_copy(update={"content": [block]}), _BLOCK_RULES, provider)


def _breaks(message: AnyMessage, rules: Sequence[str], provider: Provider | None) -> bool:
    violations = faults([message], provider) if provider else ()
    return any(fault.rule in rules for fault in violations)


def _says(message: AnyMessage, provider: Provider | None) -> bool:
    """Return whether an assistant's message has more to send than thinking; others always have."""
    # Source: Anthropic answers 400, "final block in an
    # assistant message cannot be `thinking`", tailcallhq/forgecode#2107.
    if not isinstance(message, AIMessage):
        return True
    only_thinks = all(isinstance(part, Thinking) for part in parts_of(message))
    return not only_thinks and not _breaks(message, ("has_content",), provider)


def _named(message: AnyMessage) -> AnyMessage:
    """Return the message with an author name and tool names that all providers accept.

    A name that they do not accept is dropped for an author, and replaced for a tool.
    """
    name = message.name
    fit = name if name and _AUTHOR.fullmatch(name) else None
    if message.type == "tool" and name is not None:
        fit = _tool_name(name)
    if fit != name:
        message = message.model_copy(update={"name": fit})
    calls = calls_of(message)
    renamed = [replace(call, name=_tool_name(call.name)) for call in calls]
    if not isinstance(message, AIMessage) or renamed == list(calls):
        return message
    return with_calls(message, renamed)


def _tool_name(name: str) -> str:
    return name if _TOOL_NAME.fullmatch(name) else "t_" + fitting(name, limit=62)
