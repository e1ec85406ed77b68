"""What of messages and tools is counted as words, and what is counted otherwise."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from zlib import crc32

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

Tool = BaseTool | Mapping[str, Any]
"""A tool, or its schema in any provider's form."""

_WORDS = ("text", "thinking", "reasoning", "refusal")
"""Keys whose text a model reads."""

_HOLDERS = ("content", "reasoning_content", "summary", "source")
"""Keys under which a block holds words, or other blocks."""

_CALLS = frozenset({"tool_use", "tool_call", "function_call", "tool_call_chunk"})
"""Blocks that say again what stands among a message's tool calls."""

_HIDDEN = frozenset({"redacted_thinking", "reasoning", "thinking"})
"""Blocks of which only open words are read."""

_MEDIA = frozenset(
    {
        "image",
        "image_url",
        "input_image",
        "file",
        "input_file",
        "document",
        "media",
        "audio",
        "input_audio",
        "video",
        "video_url",
    }
)
"""Blocks that hold a picture, a recording or a file."""


def words_of(message: BaseMessage) -> Iterator[str]:
    """All texts of a message that a model reads: said, thought, called, returned."""
    if message.name:
        yield message.name
    for block in _blocks(message.content):
        yield from _words(block)
    if isinstance(message, AIMessage):
        for call in message.tool_calls:
            yield f"{call['name']}({_json(call['args'])})"
        for broken in message.invalid_tool_calls:
            yield f"{broken['name']}({broken['args']})"


def media_of(message: BaseMessage) -> Iterator[Mapping[str, Any]]:
    """The blocks of a message that hold no words, those inside results included."""
    yield from _media(message.content)


def calls_in(message: BaseMessage) -> int:
    """How many tools a message calls."""
    return len(message.tool_calls) if isinstance(message, AIMessage) else 0


def schema_of(tool: Tool) -> str:
    """What a model is told of a tool, as the JSON that it stands in."""
    if isinstance(tool, BaseTool):
        return _json(convert_to_openai_tool(tool)["function"])
    return _json(tool.get("function", tool))


def digest_of(messages: Sequence[BaseMessage], tools: Sequence[Tool]) -> int:
    """A number that is another for other messages, almost surely."""
    digest = 0
    for tool in tools:
        digest = _added(schema_of(tool), digest)
    for message in messages:
        digest = _added(f"\0{message.type}", digest)
        for text in words_of(message):
            digest = _added(f"\0{text}", digest)
        for block in media_of(message):
            digest = _added(f"\0{block!r}", digest)
    return digest


def _added(text: str, digest: int) -> int:
    return crc32(text.encode("utf-8", "surrogatepass"), digest)


def _blocks(content: Any) -> Iterator[Any]:
    yield from [content] if isinstance(content, str | Mapping) else content or ()


def _words(block: Any) -> Iterator[str]:
    if isinstance(block, str):
        yield block
    elif isinstance(block, Mapping) and block.get("type") not in _CALLS and not _is_media(block):
        known = [block[key] for key in _WORDS if isinstance(block.get(key), str)]
        inner = [block[key] for key in _HOLDERS if block.get(key)]
        yield from known
        for each in inner:
            for part in _blocks(each):
                yield from _words(part)
        if block.get("type") == "text" and isinstance(block.get("data"), str):
            yield block["data"]
        elif not known and not inner and block.get("type") not in _HIDDEN | {"text"}:
            yield _json(block)


def _media(content: Any) -> Iterator[Mapping[str, Any]]:
    for block in _blocks(content):
        if isinstance(block, Mapping) and _is_media(block):
            yield block
        elif isinstance(block, Mapping) and "content" in block:
            yield from _media(block["content"])


def _is_media(block: Mapping[str, Any]) -> bool:
    """Whether a block holds no words; a document may hold nothing else."""
    source = block.get("source")
    written = isinstance(source, Mapping) and source.get("type") in ("text", "content")
    named = block.get("type") in _MEDIA or ("type" not in block and not _MEDIA.isdisjoint(block))
    return named and not written and block.get("source_type") != "text"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
