"""Rules about images, files and recordings."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage

from unsay.transcript.parts import blocks_of
from unsay.transcript.rules_base import Dialect, Finding, MediaSource

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
