"""Making whole what an interruption left, and making a view that every provider accepts.

`repair` is for the record: it answers what was left open and changes no word.
`conform` is for a view: it may also join, rename and leave out.
"""

import re
from collections.abc import Collection, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage

from unsay.errors import EmptyMessageError
from unsay.messages.content import (
    Thinking,
    ToolCall,
    blocks_of,
    calls_of,
    is_thinking,
    parts_of,
    thinking_of,
)
from unsay.messages.tool_pairs import fitting, settle, with_calls
from unsay.messages.validation import faults
from unsay.types import Provider

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


INTERRUPTED = "Tool was interrupted before it returned a result."
"""What the result of a call that nothing answered says."""


OPENING_ID = "unsay-opening"
"""Id of the user message that `conform` puts before a view that lacks one."""


_CALL_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")
"""An id that all four accept.

Source:
    Anthropic and Bedrock state the letters (Bedrock 64 of them); OpenAI answers
    400 with "maximum length 40", vercel/ai#5171, agno-agi/agno#5382.
"""


_TOOL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
"""A tool's name that all four accept.

Source:
    OpenAI `^[a-zA-Z0-9_-]{1,64}$`, Bedrock the same; Gemini begins with a letter
    or `_`, at most 64.
"""


_AUTHOR = re.compile(r"[^\s<|\\/>]+")
"""A name beside a role.

Source:
    OpenAI answers 400 on `messages[].name`, with this pattern.
"""


_BLOCK_RULES = ("known_blocks", "thinking_signed", "thinking_own", "signatures_decode")
"""The rules that one block of an assistant breaks by itself."""


def repair(
    messages: Sequence[AnyMessage], *, interrupted: str = INTERRUPTED, pending: bool = False
) -> list[AnyMessage]:
    """Bring tool calls and results together after an interruption.

    Each call has one result right behind it: one that is missing becomes an
    error, one that strayed moves back, and one that answers nothing, or the
    same call again, is left out.

    Args:
        messages: Oldest first; not changed.
        interrupted: What the error of an unanswered call says.
        pending: Whether the tools of the last step are still at work; its
            unanswered calls then stay so.

    Returns:
        An equal list of the same objects where nothing was wrong.

    Source:
        strands-agents sdk-python 1232230d, `_fix_broken_tool_use`; issues 859, 2025.
    """
    return settle(messages, interrupted=interrupted, pending=pending)


def conform(
    messages: Sequence[AnyMessage],
    *,
    opening: str,
    provider: Provider | None = None,
    interrupted: str = INTERRUPTED,
) -> list[AnyMessage]:
    """Make a view that a provider accepts out of any messages.

    Calls and results are whole, ids and names are of the letters that all
    providers allow, one system message leads, the user speaks first, roles
    take turns, and nothing is blank. What follows a finished answer never
    changes what stands before it, so a cached prefix stays good.

    What the user sent is never left out: an image or a file that the provider
    does not take is for `faults` to tell. Nor is a question added at the end.

    Args:
        messages: Oldest first; not changed.
        opening: The user's words before a view that begins with the assistant.
        provider: Whose model is called; blocks of an assistant that it refuses,
            such as another's thinking, are left out. `None` keeps whatever some
            provider signed.
        interrupted: What the error of an unanswered call says.

    Returns:
        The same objects, save those that had to change; nothing for nothing.

    Raises:
        EmptyMessageError: The opening has no words.
    """
    if not opening.strip():
        raise EmptyMessageError(f"opening is {opening!r}; give words that a user may say first")
    whole = settle(messages, interrupted=interrupted, pending=False, fits=_is_call_id)
    sound = [_sound(_named(message), provider) for message in whole]
    held = [each for each in sound if each.content or each.type == "tool" or calls_of(each)]
    told = [each for each in merge_neighbours(_one_system(held)) if _says(each, provider)]
    return _opened(merge_neighbours(told), opening)


def _one_system(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """All instructions in one system message that leads."""
    systems = [message for message in messages if message.type == "system"]
    rest = [message for message in messages if message.type != "system"]
    return [*folded(systems), *rest]


def _sound(message: AnyMessage, provider: Provider | None) -> AnyMessage:
    """The message without what is blank or refused; its content is empty when nothing is left."""
    content = _sound_content(message, provider)
    changed: dict[str, Any] = {} if content == message.content else {"content": content}
    if isinstance(message, AIMessage) and message.invalid_tool_calls:
        changed["invalid_tool_calls"] = []
    return message.model_copy(update=changed) if changed else message


def _sound_content(message: AnyMessage, provider: Provider | None) -> Any:
    content = message.content
    if isinstance(content, str):
        text = content if content.strip() else ""
        return text.rstrip() if message.type == "ai" else text
    kept = [block for block in content if not is_blank(block)]
    if isinstance(message, AIMessage):
        kept = [block for block in kept if not _is_refused(message, block, provider)]
        kept = _closed(_thinking_first(kept, calls=bool(calls_of(message))))
    return kept or ""


def _thinking_first(
    blocks: list[str | dict[str, Any]], *, calls: bool
) -> list[str | dict[str, Any]]:
    """The blocks, thinking first where words lead or thinking ends; else it stays where it stands.

    Source:
        Anthropic answers 400, "If an assistant message contains any thinking blocks, the first
        block must be `thinking`", anthropics/claude-code#20691, "The final block in an assistant
        message cannot be `thinking`", tailcallhq/forgecode#2107, and refuses blocks of the
        newest answer that were moved without need, anthropics/claude-code#63284.
    """
    thinks = [_thinks(block) for block in blocks]
    if not any(thinks) or (thinks[0] and (calls or not thinks[-1])):
        return blocks
    return sorted(blocks, key=lambda block: not _thinks(block))


def _thinks(block: str | dict[str, Any]) -> bool:
    return not isinstance(block, str) and is_thinking(block)


def _closed(blocks: list[str | dict[str, Any]]) -> list[str | dict[str, Any]]:
    """The blocks, the last words without white space at their end.

    Source:
        Anthropic answers 400, "final assistant content cannot end with trailing whitespace";
        stripped wherever it stands, so that the message is the same in every view.
    """
    spoken = [place for place, block in enumerate(blocks) if not _thinks(block)]
    last = blocks[spoken[-1]] if spoken else ""
    if isinstance(last, str):
        closed: str | dict[str, Any] = last.rstrip()
    else:
        closed = {**last, "text": last["text"].rstrip()} if last.get("type") == "text" else last
    return [closed if place in spoken[-1:] else block for place, block in enumerate(blocks)]


def _is_refused(message: AIMessage, block: str | dict[str, Any], provider: Provider | None) -> bool:
    """Whether a provider would refuse a block of an assistant, whatever stands around it.

    Thinking that nobody signed goes for every provider: Anthropic refuses it, the others do
    not need it.

    Source:
        Anthropic answers 400, "thinking.signature: Field required".
    """
    if isinstance(block, str) or block.get("type") == "text":
        return False
    if is_thinking(block) and not is_signed(block):
        return True
    if provider is None:
        return False
    alone = message.model_copy(update={"content": [block]})
    return _breaks(alone, _BLOCK_RULES, provider)


def _breaks(message: AnyMessage, rules: Collection[str], provider: Provider) -> bool:
    """Whether a message by itself breaks one of these rules."""
    return any(fault.rule in rules for fault in faults([message], provider))


def _says(message: AnyMessage, provider: Provider | None) -> bool:
    """Whether an assistant's message gets further than thinking, and so to the provider.

    Source:
        Anthropic answers 400, "final block in an assistant message cannot be `thinking`",
        tailcallhq/forgecode#2107.
    """
    if not isinstance(message, AIMessage):
        return True
    if all(isinstance(part, Thinking) for part in parts_of(message)):
        return False
    return provider is None or not _breaks(message, ("has_content",), provider)


def _named(message: AnyMessage) -> AnyMessage:
    """The message with names that every provider accepts; an author's that none would, goes."""
    name = message.name
    if message.type == "tool":
        fit = name if name is None else _tool_name(name)
    else:
        fit = name if name and _AUTHOR.fullmatch(name) else None
    if fit != name:
        message = message.model_copy(update={"name": fit})
    calls = calls_of(message)
    if not isinstance(message, AIMessage) or all(_is_tool_name(call.name) for call in calls):
        return message
    return with_calls(
        message, [ToolCall(id=c.id, name=_tool_name(c.name), args=c.args) for c in calls]
    )


def _tool_name(name: str) -> str:
    return name if _is_tool_name(name) else "t_" + fitting(name, limit=62)


def _is_call_id(text: str) -> bool:
    return _CALL_ID.fullmatch(text) is not None


def _is_tool_name(text: str) -> bool:
    return _TOOL_NAME.fullmatch(text) is not None


def _opened(messages: list[AnyMessage], opening: str) -> list[AnyMessage]:
    """The messages with the user's words first."""
    start = next((i for i, m in enumerate(messages) if m.type != "system"), len(messages))
    if not messages or (start < len(messages) and messages[start].type == "human"):
        return messages
    return [*messages[:start], HumanMessage(opening, id=OPENING_ID), *messages[start:]]
