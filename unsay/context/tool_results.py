"""Shortening of tool results in a context; the transcript keeps them whole."""

import json
from collections.abc import Mapping
from typing import Any, Literal

from langchain_core.messages import AnyMessage, ToolMessage

from unsay.messages.annotations import annotate, annotation_of
from unsay.messages.content import Media, Other, Text, ToolResult, parts_of
from unsay.messages.truncation import READ_TOOL, clip
from unsay.prompts.catalogue import Texts

Shortened = Literal["truncated", "cleared"]

# Characters of a truncated result that are shown at either end.
# Source: strands-agents sdk-python 1232230d, sliding window (`_PRESERVE_CHARS`).
KEEP_CHARS = 200


def truncate(
    message: ToolMessage, texts: Texts, *, keep: int = KEEP_CHARS, lacking: int = 0
) -> ToolMessage:
    """Return a copy of a tool result with its beginning and end, and a line about the middle.

    `keep` is the number of characters at either end. `lacking` is the number of characters that
    were taken out of the middle before this call; the line counts them too. A line replaces each image and file. A result that
    would not become shorter, or was shortened before, is returned itself.
    """
    if _is_short(message, 2 * keep):
        return message
    words, media = text_and_media(message, texts)
    head, tail = clip(words, keep), words[len(clip(words, max(len(words) - keep, 0))) :]
    left = len(words) - len(head) - len(tail) + lacking
    named = {"tool": READ_TOOL, "id": message.tool_call_id, "start": len(head)}
    shorter = f"{head}\n{texts.say('result_truncated', removed=left, **named)}\n{tail}"
    kept = shorter if left > 0 and len(shorter) < len(words) else words
    if kept == words and not media:
        return message
    content = "\n".join(filter(None, (kept, *media)))
    return annotate(message.model_copy(update={"content": content}), shortened="truncated")


def clear(message: ToolMessage, texts: Texts) -> ToolMessage:
    """Return a copy of a tool result in which one line with its length replaces the text.

    A line replaces each image and file. A result that would not become shorter, or was shortened
    before, is returned itself.
    """
    if _is_short(message, 2 * KEEP_CHARS):
        return message
    words, media = text_and_media(message, texts)
    named = {"tool": READ_TOOL, "id": message.tool_call_id}
    content = "\n".join([texts.say("result_cleared", chars=len(words), **named), *media])
    if len(content) >= len(words) and not media:
        return message
    return annotate(message.model_copy(update={"content": content}), shortened="cleared")


def shortened(message: AnyMessage) -> Shortened | None:
    """Return how a context shortened a message, `truncated` or `cleared`; `None` if it did not."""
    how: Shortened | None = annotation_of(message).get("shortened")
    return how


def _is_short(message: ToolMessage, chars: int) -> bool:
    if shortened(message):
        return True
    return isinstance(message.content, str) and len(message.content) <= chars


def words_of(message: AnyMessage, texts: Texts) -> str:
    """Return a message's text and data as one text, then a line for each image and file.

    Data are content blocks of other types, as JSON; thinking and calls of tools are left out.
    """
    words, media = text_and_media(message, texts)
    return "\n".join(filter(None, (words, *media)))


def text_and_media(message: AnyMessage, texts: Texts) -> tuple[str, list[str]]:
    """Return a message's text and data as one text, and a line for each of its images and files.

    Data are content blocks of other types, as JSON; thinking and calls of tools are left out.
    """
    words: list[str] = []
    media: list[str] = []
    for part in parts_of(message):
        if isinstance(part, ToolResult):
            words.append(part.content)
        elif isinstance(part, Text):
            words.append(part.text)
        elif isinstance(part, Media):
            named, size = _described(part.block)
            line = texts.say("media_left_out", kind=part.kind, format=named or "?", bytes=size)
            media.append(line)
        elif isinstance(part, Other):
            words.append(json.dumps(part.block, ensure_ascii=False, default=repr))
    return "\n".join(filter(None, words)), media


def _described(block: Mapping[str, Any]) -> tuple[str, int | str]:
    """Return the format of a media block, empty if unknown, and its size in bytes or `?`."""
    inner = next((v for v in block.values() if isinstance(v, Mapping)), {})
    fields = {**inner, **block}
    url = str(fields.get("url") or fields.get("image_url") or "")
    mime = fields.get("mime_type") or fields.get("media_type") or ""
    data = fields.get("base64") or fields.get("data")
    if url.startswith("data:"):
        mime, _, data = url.removeprefix("data:").partition(";base64,")
    encoded = data if isinstance(data, str) else ""
    # Four characters of base64 are three bytes; each `=` marks a missing byte.
    size = len(encoded) * 3 // 4 - encoded[-2:].count("=")
    named = str(mime).rpartition("/")[2] or str(fields.get("format") or "")
    return named, size if encoded else "?"
