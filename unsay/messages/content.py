"""The parts of a message in their sacred order, whatever shape a provider gave its content.

An assistant message thinks, then speaks, then calls tools; a tool message
answers one call. Reading invents nothing: what a message lacks is not listed.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from wcwidth import width

from unsay.types import Language

_KANA = re.compile(r"[\u3040-\u30ff\uff66-\uff9f]")


_HAN = re.compile(r"[\u4e00-\u9fff]")


_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]")


def text_of(message: BaseMessage) -> str:
    """The words of a message, without its images, files, thinking or tool calls."""
    content = message.content
    if isinstance(content, str):
        return content
    parts = [
        block if isinstance(block, str) else str(block.get("text", ""))
        for block in content
        if isinstance(block, str) or block.get("type") == "text"
    ]
    return "".join(parts)


def has_other_content(message: BaseMessage) -> bool:
    """Whether a message carries something besides text, such as an image or a file."""
    return isinstance(message.content, list) and any(
        isinstance(block, dict) and block.get("type") not in ("text", "thinking", "reasoning")
        for block in message.content
    )


def language_of(text: str) -> Language:
    """The language that a text is answered in: Japanese where it has kana, else English.

    Han characters alone count as Japanese when they outnumber Latin letters.

    >>> language_of("Pythonのデコレータとは?"), language_of("What is a decorator?")
    ('ja', 'en')
    """
    if _KANA.search(text):
        return "ja"
    return "ja" if len(_HAN.findall(text)) > len(_LATIN.findall(text)) else "en"


def preview(text: str, limit: int = 60) -> str:
    r"""The beginning of a text on one line, at most `limit` characters long.

    >>> preview("one\ntwo three", limit=8)
    'one two…'
    """
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def cells_of(text: str) -> int:
    """Return how many terminal cells a line takes; control characters take none.

    >>> cells_of("漢字"), cells_of("👨‍👩‍👧"), cells_of("x̄")
    (4, 2, 1)
    """
    return width(text, control_codes="ignore")


def newest_language(messages: list[AnyMessage]) -> Language:
    """The language of the user's newest words that are no order, English without any."""
    for message in reversed(messages):
        text = text_of(message).strip() if message.type == "human" and not message.name else ""
        if text and not text.startswith("/"):
            return language_of(text)
    return "en"


Role = Literal["system", "human", "ai", "tool"]


ThinkingForm = Literal["thinking", "reasoning_content", "reasoning"]


MediaKind = Literal["image", "file", "audio", "video"]


THINKING_TYPES = frozenset({"thinking", "redacted_thinking", "reasoning_content", "reasoning"})
"""Types of the content blocks that hold thinking.

Source:
    Anthropic (`thinking`, `redacted_thinking`), Bedrock Converse as langchain-aws
    writes it (`reasoning_content`), LangChain's standard blocks and OpenAI's
    Responses (`reasoning`).
"""


CALL_TYPES = frozenset({"tool_use", "tool_call", "function_call"})
"""Types of the content blocks that repeat a tool call of `AIMessage.tool_calls`.

Source:
    Anthropic (`tool_use`), LangChain's standard blocks (`tool_call`), OpenAI's
    Responses (`function_call`).
"""


_MEDIA: Mapping[str, MediaKind] = {
    "image_url": "image",
    "image": "image",
    "file": "file",
    "document": "file",
    "input_file": "file",
    "text-plain": "file",
    "input_audio": "audio",
    "audio": "audio",
    "video": "video",
    "video_url": "video",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinking:
    """What a model thought before it spoke."""

    text: str
    """Its words; empty where the provider hides them."""

    signature: str | None = None
    """The provider's proof that the words are its own; `None` when it gave none."""

    redacted: str | bytes | None = None
    """The encrypted words of a block that was hidden; `None` for an open one."""

    form: ThinkingForm = "thinking"
    """Whose kind of block it is, so that it can be written as it was read."""

    @property
    def signed(self) -> bool:
        """Whether a provider would know it for its own."""
        return bool(self.signature or self.redacted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Words."""

    text: str
    """Never empty when it was read from a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call that an assistant declared."""

    id: str
    """The provider's; empty when it gave none."""

    name: str
    """Of the tool."""

    args: dict[str, Any]
    """By the tool's parameter names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What one tool call returned."""

    tool_call_id: str
    """Of the call that it answers."""

    content: str
    """Its words; images and files follow it as `Media`."""

    is_error: bool = False
    """Whether the tool failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """An image, file, recording or film."""

    kind: MediaKind
    """What it is."""

    block: dict[str, Any]
    """The content block as the message holds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Other:
    """A content block of a kind that is none of these."""

    block: dict[str, Any]
    """The content block as the message holds it."""


Part = Thinking | Text | ToolCall | ToolResult | Media | Other


def parts_of(message: BaseMessage) -> tuple[Part, ...]:
    """The parts of a message: thinking, then words and media as they stand, then tool calls.

    A tool message's parts are its result, then its media.
    """
    blocks = [part for part in map(_part, blocks_of(message)) if part is not None]
    if isinstance(message, ToolMessage):
        result = ToolResult(
            tool_call_id=message.tool_call_id,
            content=text_of(message),
            is_error=message.status == "error",
        )
        return (result, *(part for part in blocks if not isinstance(part, Text)))
    thinking = [part for part in blocks if isinstance(part, Thinking)]
    spoken = [part for part in blocks if not isinstance(part, Thinking)]
    return (*thinking, *spoken, *calls_of(message))


def calls_of(message: BaseMessage) -> tuple[ToolCall, ...]:
    """The tool calls of a message; last those that only its content blocks name."""
    if not isinstance(message, AIMessage):
        return ()
    declared = [
        ToolCall(id=call["id"] or "", name=call["name"], args=call["args"])
        for call in message.tool_calls
    ]
    known = {call.id for call in declared}
    written = (_call(block) for block in blocks_of(message))
    return (*declared, *(call for call in written if call is not None and call.id not in known))


def thinking_of(message: BaseMessage) -> tuple[Thinking, ...]:
    """What a message thought, in the order in which it stands."""
    parts = (_part(block) for block in blocks_of(message) if is_thinking(block))
    return tuple(part for part in parts if isinstance(part, Thinking))


def blocks_of(message: BaseMessage) -> Iterator[dict[str, Any]]:
    """The content of a message as blocks; words that stand bare become text blocks."""
    content = [message.content] if isinstance(message.content, str) else message.content
    for block in content:
        yield {"type": "text", "text": block} if isinstance(block, str) else block


def is_thinking(block: Mapping[str, Any]) -> bool:
    """Whether a content block holds thinking."""
    return block.get("type") in THINKING_TYPES


def message_of(parts: Sequence[Part], *, role: Role, message_id: str | None = None) -> AnyMessage:
    """A message made of parts, its content in sacred order; the inverse of `parts_of`.

    Args:
        parts: In any order; a tool message needs exactly one `ToolResult`.
        role: As LangChain names the types of messages.
        message_id: Its id on the record.

    Returns:
        A message whose content is a plain text where it holds nothing else.
    """
    content = _content(parts)
    if role == "tool":
        (result,) = (part for part in parts if isinstance(part, ToolResult))
        return ToolMessage(
            content=content,
            tool_call_id=result.tool_call_id,
            status="error" if result.is_error else "success",
            id=message_id,
        )
    if role == "ai":
        calls = [part for part in parts if isinstance(part, ToolCall)]
        return AIMessage(
            content=content,
            tool_calls=[{"id": c.id, "name": c.name, "args": c.args} for c in calls],
            id=message_id,
        )
    return (HumanMessage if role == "human" else SystemMessage)(content=content, id=message_id)


def _content(parts: Iterable[Part]) -> Any:
    """Content blocks in sacred order, or the one text that stands alone."""
    listed = [part for part in parts if not isinstance(part, ToolCall)]
    listed.sort(key=lambda part: not isinstance(part, Thinking))
    texts = [_words(part) for part in listed]
    if len(listed) <= 1 and None not in texts:
        return "".join(text or "" for text in texts)
    return [_block(part) for part in listed if _words(part) != ""]


def _words(part: Part) -> str | None:
    if isinstance(part, Text):
        return part.text
    return part.content if isinstance(part, ToolResult) else None


def _block(part: Part) -> dict[str, Any]:
    if isinstance(part, Thinking):
        return _thinking_block(part)
    if isinstance(part, Media | Other):
        return part.block
    return {"type": "text", "text": _words(part)}


def _thinking_block(part: Thinking) -> dict[str, Any]:
    if part.form == "reasoning_content":
        signed = {"signature": part.signature} if part.signature else {}
        hidden = {"redacted_content": part.redacted}
        inner = hidden if part.redacted else {"text": part.text, **signed}
        return {"type": "reasoning_content", "reasoning_content": inner}
    if part.form == "reasoning":
        extras = {"extras": {"signature": part.signature}} if part.signature else {}
        return {"type": "reasoning", "reasoning": part.text, **extras}
    if part.redacted:
        return {"type": "redacted_thinking", "data": part.redacted}
    signed = {"signature": part.signature} if part.signature else {}
    return {"type": "thinking", "thinking": part.text, **signed}


def _part(block: dict[str, Any]) -> Part | None:
    """A content block as a part; `None` for empty words and for calls, listed apart."""
    kind = str(block.get("type"))
    if kind == "text":
        return Text(text=block["text"]) if block.get("text") else None
    if kind in CALL_TYPES:
        return None
    if kind in THINKING_TYPES:
        return _thinking(block)
    if kind in _MEDIA:
        return Media(kind=_MEDIA[kind], block=block)
    return Other(block=block)


def _thinking(block: Mapping[str, Any]) -> Thinking:
    kind = block["type"]
    if kind == "redacted_thinking":
        return Thinking(text="", redacted=block.get("data"))
    if kind == "thinking":
        return Thinking(text=block.get("thinking") or "", signature=block.get("signature") or None)
    if kind == "reasoning_content":
        inner = block.get("reasoning_content")
        return _from_bedrock(inner if isinstance(inner, Mapping) else {"text": inner})
    return Thinking(
        text=_reasoning_words(block),
        signature=_signature(block),
        form="reasoning",
    )


def _from_bedrock(inner: Mapping[str, Any]) -> Thinking:
    return Thinking(
        text=inner.get("text") or "",
        signature=inner.get("signature") or None,
        redacted=inner.get("redacted_content") or None,
        form="reasoning_content",
    )


def _reasoning_words(block: Mapping[str, Any]) -> str:
    if "reasoning" in block:
        return str(block["reasoning"] or "")
    return "\n\n".join(str(each.get("text", "")) for each in block.get("summary") or ())


def _signature(block: Mapping[str, Any]) -> str | None:
    """A `reasoning` block's proof: a signature, or what OpenAI encrypted or kept under an id.

    Source:
        OpenAI answers 400 where a function call comes back "without its required 'reasoning'
        item: 'rs_...'".
    """
    extras = block.get("extras") or {}
    proof = extras.get("signature") or block.get("encrypted_content")
    kept = str(block.get("id") or "")
    return proof or extras.get("encrypted_content") or (kept if kept.startswith("rs_") else None)


def _call(block: Mapping[str, Any]) -> ToolCall | None:
    """A call that stands in the content; `None` for any other block."""
    if block.get("type") not in ("tool_use", "tool_call"):
        return None
    args = block.get("input", block.get("args"))
    return ToolCall(
        id=block.get("id") or "",
        name=block.get("name") or "",
        args=args if isinstance(args, dict) else {},
    )
