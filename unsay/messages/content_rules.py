"""Rules about what a message may hold."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage

from unsay.messages.base import Dialect, Finding, MediaSource, is_dropped, is_v1, role_of
from unsay.messages.content import blocks_of, calls_of, is_thinking

V1_TYPES = frozenset({"reasoning", "tool_call"})
"""Types that LangChain translates for every provider in a message of its standard blocks.

Source:
    LangChain, "Messages", standard content blocks (`output_version="v1"`).
"""


def known_blocks(messages: Sequence[BaseMessage], dialect: Dialect) -> Iterator[Finding]:
    """Every content block is of a type that the provider takes from its role."""
    for index, message in enumerate(messages):
        for block in blocks_of(message):
            kind = _kind(block)
            if not _taken(message, kind, dialect):
                yield Finding(
                    index=index,
                    words=f"A {message.type!r} message holds a block of type {kind!r}, which the "
                    "provider does not take there: leave it out, or say it as text.",
                )
            elif kind == "text" and not isinstance(block.get("text"), str):
                yield Finding(index=index, words="A text block has no text: leave it out.")


def has_content(messages: Sequence[BaseMessage], dialect: Dialect) -> Iterator[Finding]:
    """Every message but a tool's holds something that reaches the provider."""
    for index, message in enumerate(messages):
        if role_of(message) == "tool" or calls_of(message):
            continue
        if not any(_says_something(message, block, dialect) for block in blocks_of(message)):
            yield Finding(
                index=index,
                words=f"A {message.type!r} message has no words, media or calls for the provider: "
                "leave the message out.",
            )


def no_blank_text(messages: Sequence[BaseMessage], dialect: Dialect) -> Iterator[Finding]:
    """No text is blank, except an assistant's and a tool's that are plainly empty."""
    for index, message in enumerate(messages):
        if isinstance(message.content, str):
            blank = message.content and role_of(message) != "tool" and _blank(message.content)
            blank = blank and dialect.blank == "whitespace"
        else:
            blank = any(_is_blank_block(message, block, dialect) for block in blocks_of(message))
        if blank:
            yield Finding(
                index=index,
                words=f"A {message.type!r} message holds blank text: leave the text out, or the "
                "message.",
            )


def texts_with_files(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """Where the user sends a file, the same run of user messages has words, too."""
    start = 0
    for index in range(len(messages) + 1):
        if index < len(messages) and role_of(messages[index]) in ("human", "tool", "system"):
            continue
        run = [message for message in messages[start:index] if role_of(message) == "human"]
        blocks = [block for message in run for block in blocks_of(message)]
        if any(_kind(block) in ("file", "document") for block in blocks) and not any(
            _kind(block) == "text" for block in blocks
        ):
            yield Finding(
                index=next(at for at in range(start, index) if _holds_file(messages[at])),
                words="A file stands without any text: add a text block that says what it is.",
            )
        start = index + 1


def _holds_file(message: BaseMessage) -> bool:
    kinds = {_kind(block) for block in blocks_of(message)}
    return role_of(message) == "human" and bool(kinds & {"file", "document"})


def _taken(message: BaseMessage, kind: str, dialect: Dialect) -> bool:
    """Whether a block of this type reaches the provider, or is left out without harm."""
    role = role_of(message)
    if role is None:
        return True
    if kind in dialect.blocks[role]:
        return True
    if role != "ai":
        return False
    if is_v1(message) and kind in V1_TYPES:
        return True
    return is_dropped(message, kind, dialect)


def _says_something(message: BaseMessage, block: Mapping[str, Any], dialect: Dialect) -> bool:
    """Whether the provider gets a block, and the block is not empty."""
    kind = _kind(block)
    if kind == "text":
        return bool(block.get("text"))
    role = role_of(message)
    return role is None or (kind in dialect.blocks[role] and not is_thinking(block))


def _is_blank_block(message: BaseMessage, block: Mapping[str, Any], dialect: Dialect) -> bool:
    if _kind(block) != "text":
        return False
    text = str(block.get("text") or "")
    if dialect.blank == "whitespace":
        return _blank(text)
    return not text and role_of(message) != "tool" and not _signature(block)


def _blank(text: str) -> bool:
    return not text.strip()


def _signature(block: Mapping[str, Any]) -> object:
    """A thought signature, which Gemini may hang on a text that is empty."""
    return block.get("thought_signature") or (block.get("extras") or {}).get("signature")


def _kind(block: Mapping[str, Any]) -> str:
    return str(block.get("type", ""))


_KINDS = {"image": "image", "image_url": "image", "file": "file", "audio": "audio"}


_DATA_URL = re.compile(r"data:(?P<mime>[^;,]*)[;,]")


def media_sources(messages: Sequence[BaseMessage], dialect: Dialect) -> Iterator[Finding]:
    """Every image, file and recording is given in a way that the provider takes."""
    for index, block in _media(messages):
        allowed = dialect.media.get(block["type"])
        source = _source(block)
        if allowed is not None and source not in allowed:
            yield Finding(
                index=index,
                words=f"A block of type {block['type']!r} gives its data by {source!r}: give it "
                f"by one of {sorted(allowed)!r}.",
            )


def mime_types(messages: Sequence[BaseMessage], dialect: Dialect) -> Iterator[Finding]:
    """Inline data says what it is, and is what the provider reads."""
    for index, block in _media(messages):
        allowed = dialect.mime_types.get(_KINDS.get(block["type"], ""))
        if allowed is None or _source(block) not in ("base64", "source"):
            continue
        mime = _mime(block)
        if mime not in allowed:
            yield Finding(
                index=index,
                words=f"A block of type {block['type']!r} has the MIME type {mime!r}: the provider "
                f"reads {sorted(allowed)!r}.",
            )


def file_names(messages: Sequence[BaseMessage], dialect: Dialect) -> Iterator[Finding]:
    """Every inline file has a name that the provider allows."""
    for index, name in _names(messages, dialect):
        if not re.fullmatch(dialect.file_name, name):
            yield Finding(
                index=index,
                words=f"A file has the name {name!r} in {dialect.file_name_keys!r}: it must match "
                f"{dialect.file_name!r}.",
            )


def file_names_differ(messages: Sequence[BaseMessage], dialect: Dialect) -> Iterator[Finding]:
    """No two inline files have the same name."""
    seen: set[str] = set()
    for index, name in _names(messages, dialect):
        if name and name in seen:
            yield Finding(index=index, words=f"Two files have the name {name!r}: rename one.")
        seen.add(name)


def _names(messages: Sequence[BaseMessage], dialect: Dialect) -> Iterator[tuple[int, str]]:
    """The name of every inline file, empty where there is none, with its message's index."""
    for index, block in _media(messages):
        if block["type"] == "file" and _source(block) == "base64":
            yield index, _file_name(block, dialect)


def _media(messages: Sequence[BaseMessage]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every typed block that is no text, with the index of its message."""
    for index, message in enumerate(messages):
        for block in blocks_of(message):
            if isinstance(block.get("type"), str) and block["type"] != "text":
                yield index, block


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


def _file_name(block: Mapping[str, Any], dialect: Dialect) -> str:
    """The name that LangChain would send; empty when there is none."""
    for key in dialect.file_name_keys:
        for place in (block, block.get("metadata") or {}, block.get("extras") or {}):
            if place.get(key):
                return str(place[key])
    return ""
