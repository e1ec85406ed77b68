"""Rules about the content of messages and about a model's thinking."""

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from unsay.messages.call_rules import Dialect, Finding, is_v1, message_rule, problem, role_of, rule
from unsay.messages.content import CALL_TYPES, blocks_of, calls_of, is_thinking, thinking_in

# Types that LangChain translates for every provider in a message of its standard blocks.
# Source: LangChain, "Messages", standard content blocks (`output_version="v1"`).
_V1_TYPES = frozenset({"reasoning", "tool_call"})
_KINDS = {"image": "image", "image_url": "image", "file": "file", "audio": "audio"}
_DATA_URL = re.compile(r"data:(?P<mime>[^;,]*)[;,]")


@message_rule
def known_blocks(message: BaseMessage, dialect: Dialect) -> Iterator[str]:
    """Every content block has a type that the provider accepts from its role.

    A text block has a text.
    """
    role, v1 = role_of(message), is_v1(message)
    for block in blocks_of(message):
        kind = _kind(block)
        is_supported = role is None or kind in dialect.blocks[role]
        if role == "ai" and not is_supported:
            is_supported = (v1 and kind in _V1_TYPES) or _is_dropped(message, kind, dialect)
        if not is_supported:
            yield problem("known_blocks", message=message, kind=kind)
        elif kind == "text" and not isinstance(block.get("text"), str):
            yield problem("known_blocks_text")


@message_rule
def has_content(message: BaseMessage, dialect: Dialect) -> Iterator[str]:
    """Every message except a tool's has content that reaches the provider, or calls tools."""
    role = role_of(message)

    def arrives(block: Mapping[str, Any]) -> bool:
        if _kind(block) == "text":
            return bool(block.get("text"))
        return role is None or (_kind(block) in dialect.blocks[role] and not is_thinking(block))

    if role != "tool" and not calls_of(message) and not any(map(arrives, blocks_of(message))):
        yield problem("has_content", message=message)


@message_rule
def no_blank_text(message: BaseMessage, dialect: Dialect) -> Iterator[str]:
    """No text is blank; an empty string as the whole content, and any string of a tool, may be.

    Some providers refuse only empty texts in blocks (`Dialect.blank`), where others refuse
    whitespace.
    """
    content, tool = message.content, role_of(message) == "tool"
    if isinstance(content, str):
        blank = bool(content) and not tool and not content.strip()
        blank = blank and dialect.blank == "whitespace"
    else:
        texts = [block for block in blocks_of(message) if _kind(block) == "text"]
        blank = any(_is_blank(block, dialect, tool=tool) for block in texts)
    if blank:
        yield problem("no_blank_text", message=message)


def _is_blank(block: Mapping[str, Any], dialect: Dialect, *, tool: bool) -> bool:
    text = str(block.get("text") or "")
    if dialect.blank == "whitespace":
        return not text.strip()
    # Gemini may attach a thought signature to an empty text.
    signature = block.get("thought_signature") or (block.get("extras") or {}).get("signature")
    return not text and not tool and not signature


@rule
def texts_with_files(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """A user message that has a file, or another user message in the same row, has text."""
    # Results and system messages do not end a run of user messages.
    turns = ((i, m) for i, m in enumerate(messages) if role_of(m) not in ("tool", "system"))
    for human, run in groupby(turns, key=lambda each: role_of(each[1]) == "human"):
        kinds = [(index, _kind(block)) for index, message in run for block in blocks_of(message)]
        files = [index for index, kind in kinds if kind in ("file", "document")]
        if human and files and "text" not in {kind for _, kind in kinds}:
            yield files[0], problem("texts_with_files")


@message_rule
def media_sources(message: BaseMessage, dialect: Dialect) -> Iterator[str]:
    """Every image, file and recording is in a form that the provider accepts."""
    for block in _media(message):
        allowed = dialect.media.get(block["type"])
        source = _source(block)
        if allowed is not None and source not in allowed:
            yield problem("media_sources", block=block, source=source, allowed=sorted(allowed))


@message_rule
def mime_types(message: BaseMessage, dialect: Dialect) -> Iterator[str]:
    """Inline data has a MIME type that the provider reads."""
    for block in _media(message):
        allowed = dialect.mime_types.get(_KINDS.get(block["type"], ""))
        if allowed is None or _source(block) not in ("base64", "source"):
            continue
        mime = _mime(block)
        if mime not in allowed:
            yield problem("mime_types", block=block, mime=mime, allowed=sorted(allowed))


@message_rule
def file_names(message: BaseMessage, dialect: Dialect) -> Iterator[str]:
    """Every inline file has a name that the provider allows."""
    keys, allowed = dialect.file_name_keys, dialect.file_name
    for name in _names(message, dialect):
        if not re.fullmatch(allowed, name):
            yield problem("file_names", name=name, keys=keys, allowed=allowed)


@rule
def file_names_differ(messages: Sequence[BaseMessage], dialect: Dialect) -> Iterator[Finding]:
    """No two inline files have the same name."""
    earlier_names: set[str] = set()
    for index, message in enumerate(messages):
        for name in _names(message, dialect):
            if name and name in earlier_names:
                yield index, problem("file_names_differ", name=name)
            earlier_names.add(name)


@rule
def thinking_first(messages: Sequence[BaseMessage], dialect: Dialect) -> Iterator[Finding]:
    """In the newest turn, an assistant message that calls tools begins with thinking.

    If the turn's first assistant message begins with thinking, its later ones need none. Earlier
    turns need none either, nor does a turn that ends with an assistant message.
    """
    begun: bool | None = None
    start = _newest_turn(messages)
    for index, message in enumerate(messages[start:], start):
        if not isinstance(message, AIMessage):
            continue
        begins = _thinks(message, next(blocks_of(message), {}), dialect)
        begun = begins if begun is None else begun
        ids = [call.id for call in calls_of(message)]
        if ids and not begun and not begins:
            yield index, problem("thinking_first", ids=ids)


@message_rule
def thinking_signed(message: BaseMessage, dialect: Dialect) -> Iterator[str]:
    """Every block of thinking has its signature or its encrypted text."""
    if not isinstance(message, AIMessage):
        return
    for block in blocks_of(message):
        thought = thinking_in(block)
        if thought and _thinks(message, block, dialect) and not thought.signed:
            yield problem("thinking_signed", block=block)


@message_rule
def thinking_own(message: BaseMessage, dialect: Dialect) -> Iterator[str]:
    """No thinking is from another provider, whose signature this one cannot verify."""
    author = _written_by(message)
    if author is None or author in dialect.own or not isinstance(message, AIMessage):
        return
    if any(block.get("type") in dialect.thinking_types for block in blocks_of(message)):
        yield problem("thinking_own", author=author)


@message_rule
def parts_in_order(message: BaseMessage, dialect: Dialect) -> Iterator[str]:
    """An assistant message has thinking first, then text, then tool calls.

    A message that uses the provider's own tools is not checked: it may think again after each use.
    """
    blocks = list(blocks_of(message)) if isinstance(message, AIMessage) else []
    kinds = [block.get("type") for block in blocks]
    names = [str(kind) for kind in kinds]
    if any(name.startswith("server_tool") or name.endswith("_tool_result") for name in names):
        return
    ranks = [
        0 if _thinks(message, block, dialect) else 2 if kind in CALL_TYPES else 1
        for block, kind in zip(blocks, kinds, strict=True)
    ]
    if ranks != sorted(ranks):
        yield problem("parts_in_order", kinds=kinds)


@message_rule
def thinking_leads(message: BaseMessage, dialect: Dialect) -> Iterator[str]:
    """An assistant message that holds thinking begins with it."""
    at = _thinks_at(message, dialect)
    if at and at[0] > 0:
        yield problem("thinking_leads", place=at[0])


@rule
def no_thinking_at_end(messages: Sequence[BaseMessage], dialect: Dialect) -> Iterator[Finding]:
    """A final assistant message, which the provider would continue, has no thinking."""
    if messages and _thinks_at(messages[-1], dialect):
        yield len(messages) - 1, problem("no_thinking_at_end")


@message_rule
def signatures_decode(message: BaseMessage, dialect: Dialect) -> Iterator[str]:
    """A signature that the provider gave is base64; messages of other providers are not checked."""
    if _written_by(message) not in dialect.own:
        return
    for block in blocks_of(message):
        extras = block.get("extras")
        inner = extras.get("signature") if isinstance(extras, Mapping) else None
        signature = block.get("thought_signature") or block.get("signature") or inner
        try:
            base64.b64decode(signature or "")
        except (ValueError, TypeError):
            yield problem("signatures_decode", kind=block.get("type"))


def _kind(block: Mapping[str, Any]) -> str:
    return str(block.get("type", ""))


def _media(message: BaseMessage) -> Iterator[dict[str, Any]]:
    for block in blocks_of(message):
        if isinstance(block.get("type"), str) and block["type"] != "text":
            yield block


def _names(message: BaseMessage, dialect: Dialect) -> Iterator[str]:
    for block in _media(message):
        if block["type"] == "file" and _source(block) == "base64":
            holders = (block, block.get("metadata") or {}, block.get("extras") or {})
            candidates = (holder.get(key) for key in dialect.file_name_keys for holder in holders)
            yield next((str(name) for name in candidates if name), "")


def _source(block: Mapping[str, Any]) -> str | None:
    """Return the form in which a block gives its data, such as `url`; `None` if it gives none."""
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
    url_value = block.get("image_url", block.get("url"))
    url = url_value.get("url") if isinstance(url_value, Mapping) else url_value
    return url if isinstance(url, str) else None


def _mime(block: Mapping[str, Any]) -> str | None:
    source = block.get("source")
    if isinstance(source, Mapping):
        return source.get("media_type")
    url = _url(block)
    if url is not None and (match := _DATA_URL.match(url)):
        return match["mime"]
    return block.get("mime_type")


def _newest_turn(messages: Sequence[BaseMessage]) -> int:
    """Return the index of the user message at which the newest turn begins; 0 without one.

    User messages in a row begin one turn. A user message directly after tool results belongs to the
    turn of these results. If the last message is an assistant's, the result is the number of
    messages.
    """
    start = len(messages)
    for index, message in reversed(list(enumerate(messages))):
        role = role_of(message)
        if role == "human":
            start = index
        elif start == index + 1 and role != "tool":
            return start
    return 0


def _thinks_at(message: BaseMessage, dialect: Dialect) -> list[int]:
    """Return the indices of the thinking among the blocks of a message that reach the provider.

    Empty for a message that is not an assistant's.
    """
    if not isinstance(message, AIMessage):
        return []
    thoughts = ((block, _thinks(message, block, dialect)) for block in blocks_of(message))
    arriving = [
        thinks
        for block, thinks in thoughts
        if thinks or not _is_dropped(message, _kind(block), dialect)
    ]
    return [index for index, thinks in enumerate(arriving) if thinks]


def _written_by(message: BaseMessage) -> str | None:
    provider = message.response_metadata.get("model_provider")
    return provider if isinstance(provider, str) else None


def _thinks(message: BaseMessage, block: Mapping[str, Any], dialect: Dialect) -> bool:
    kind, author = block.get("type"), _written_by(message)
    if dialect.own and author not in (None, *dialect.own):
        return False
    if kind == "reasoning" and is_v1(message) and author in dialect.translated:
        return True
    return kind in dialect.thinking_types


def _is_dropped(message: BaseMessage, kind: str, dialect: Dialect) -> bool:
    """Return whether LangChain does not send blocks of type `kind` in this assistant message."""
    return kind in dialect.dropped and not (dialect.strict and _written_by(message) in dialect.own)
