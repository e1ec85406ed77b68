"""Rules about what a message may contain."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage

from unsay.messages.base import (
    Dialect,
    Finding,
    MediaSource,
    is_dropped,
    is_v1,
    message_rule,
    role_of,
    rule,
)
from unsay.messages.content import blocks_of, calls_of, is_thinking

_V1_TYPES = frozenset({"reasoning", "tool_call"})
"""Types that LangChain translates for every provider in a message of its standard blocks.

Source:
    LangChain, "Messages", standard content blocks (`output_version="v1"`).
"""

_KINDS = {"image": "image", "image_url": "image", "file": "file", "audio": "audio"}

_DATA_URL = re.compile(r"data:(?P<mime>[^;,]*)[;,]")


@message_rule
def known_blocks(message: BaseMessage, dialect: Dialect) -> Iterator[str]:
    """Every content block is of a type that the provider takes from its role."""
    for block in blocks_of(message):
        kind = _kind(block)
        if not _taken(message, kind, dialect):
            yield (
                f"A {message.type!r} message holds a block of type {kind!r}, which the "
                "provider does not take there: leave it out, or say it as text."
            )
        elif kind == "text" and not isinstance(block.get("text"), str):
            yield "A text block has no text: leave it out."


def _taken(message: BaseMessage, kind: str, dialect: Dialect) -> bool:
    """Whether a block of this type reaches the provider, or is left out without harm."""
    role = role_of(message)
    if role is None or kind in dialect.blocks[role]:
        return True
    return role == "ai" and (
        (is_v1(message) and kind in _V1_TYPES) or is_dropped(message, kind, dialect)
    )


@message_rule
def has_content(message: BaseMessage, dialect: Dialect) -> Iterator[str]:
    """Every message but a tool's holds something that reaches the provider."""
    if role_of(message) == "tool" or calls_of(message):
        return
    if not any(_arrives(message, block, dialect) for block in blocks_of(message)):
        yield (
            f"A {message.type!r} message has no words, media or calls for the provider: "
            "leave the message out."
        )


def _arrives(message: BaseMessage, block: Mapping[str, Any], dialect: Dialect) -> bool:
    """Whether the provider gets a block, and the block is not empty."""
    kind, role = _kind(block), role_of(message)
    if kind == "text":
        return bool(block.get("text"))
    return role is None or (kind in dialect.blocks[role] and not is_thinking(block))


@message_rule
def no_blank_text(message: BaseMessage, dialect: Dialect) -> Iterator[str]:
    """No text is blank, except an assistant's and a tool's that are plainly empty."""
    content, tool = message.content, role_of(message) == "tool"
    if isinstance(content, str):
        blank = bool(content) and not tool and not content.strip()
        blank = blank and dialect.blank == "whitespace"
    else:
        texts = [block for block in blocks_of(message) if _kind(block) == "text"]
        blank = any(_is_blank(block, dialect, tool=tool) for block in texts)
    if blank:
        yield f"A {message.type!r} message holds blank text: leave the text out, or the message."


def _is_blank(block: Mapping[str, Any], dialect: Dialect, *, tool: bool) -> bool:
    text = str(block.get("text") or "")
    if dialect.blank == "whitespace":
        return not text.strip()
    # Gemini may attach a thought signature to an empty text.
    signature = block.get("thought_signature") or (block.get("extras") or {}).get("signature")
    return not text and not tool and not signature


@rule
def texts_with_files(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """Where the user sends a file, the same run of user messages has words, too."""
    first_file: int | None = None
    has_text = False
    for index in range(len(messages) + 1):
        role = role_of(messages[index]) if index < len(messages) else None
        if role == "human":
            kinds = {_kind(block) for block in blocks_of(messages[index])}
            has_text = has_text or "text" in kinds
            if first_file is None and kinds & {"file", "document"}:
                first_file = index
        elif role not in ("tool", "system"):
            if first_file is not None and not has_text:
                yield (
                    first_file,
                    "A file stands without any text: add a text block that says what it is.",
                )
            first_file, has_text = None, False


@message_rule
def media_sources(message: BaseMessage, dialect: Dialect) -> Iterator[str]:
    """Every image, file and recording is given in a way that the provider takes."""
    for block in _media(message):
        allowed = dialect.media.get(block["type"])
        source = _source(block)
        if allowed is not None and source not in allowed:
            yield (
                f"A block of type {block['type']!r} gives its data by {source!r}: give it "
                f"by one of {sorted(allowed)!r}."
            )


@message_rule
def mime_types(message: BaseMessage, dialect: Dialect) -> Iterator[str]:
    """Inline data says what it is, and is what the provider reads."""
    for block in _media(message):
        allowed = dialect.mime_types.get(_KINDS.get(block["type"], ""))
        if allowed is None or _source(block) not in ("base64", "source"):
            continue
        mime = _mime(block)
        if mime not in allowed:
            yield (
                f"A block of type {block['type']!r} has the MIME type {mime!r}: the provider "
                f"reads {sorted(allowed)!r}."
            )


@message_rule
def file_names(message: BaseMessage, dialect: Dialect) -> Iterator[str]:
    """Every inline file has a name that the provider allows."""
    for name in _names(message, dialect):
        if not re.fullmatch(dialect.file_name, name):
            yield (
                f"A file has the name {name!r} in {dialect.file_name_keys!r}: it must match "
                f"{dialect.file_name!r}."
            )


@rule
def file_names_differ(messages: Sequence[BaseMessage], dialect: Dialect) -> Iterator[Finding]:
    """No two inline files have the same name."""
    seen: set[str] = set()
    for index, message in enumerate(messages):
        for name in _names(message, dialect):
            if name and name in seen:
                yield index, f"Two files have the name {name!r}: rename one."
            seen.add(name)


def _kind(block: Mapping[str, Any]) -> str:
    return str(block.get("type", ""))


def _media(message: BaseMessage) -> Iterator[dict[str, Any]]:
    """Every typed block that is no text."""
    for block in blocks_of(message):
        if isinstance(block.get("type"), str) and block["type"] != "text":
            yield block


def _names(message: BaseMessage, dialect: Dialect) -> Iterator[str]:
    """The name that LangChain would send for each inline file; empty when there is none."""
    for block in _media(message):
        if block["type"] == "file" and _source(block) == "base64":
            holders = (block, block.get("metadata") or {}, block.get("extras") or {})
            named = (holder.get(key) for key in dialect.file_name_keys for holder in holders)
            yield next((str(name) for name in named if name), "")


def _source(block: Mapping[str, Any]) -> MediaSource | None:
    """How a block gives its data; `None` when it gives none."""
    if isinstance(block.get("source"), Mapping):
        return "source"
    if block["type"] in block and block["type"] != "image_url":
        return "native"
    if "base64" in block or block.get("source_type") == "base64":
        return "base64"
    if "file_id" in block or block.get("source_type") == "id":
        return "file_id"
    url = _url(block)
    if url is not None:
        return "base64" if url.startswith("data:") and block["type"] == "image_url" else "url"
    return "text" if "text" in block else None


def _url(block: Mapping[str, Any]) -> str | None:
    given = block.get("image_url", block.get("url"))
    url = given.get("url") if isinstance(given, Mapping) else given
    return url if isinstance(url, str) else None


def _mime(block: Mapping[str, Any]) -> str | None:
    """What a block says that its data is."""
    source = block.get("source")
    if isinstance(source, Mapping):
        return source.get("media_type")
    url = _url(block)
    if url is not None and (match := _DATA_URL.match(url)):
        return match["mime"]
    return block.get("mime_type")
