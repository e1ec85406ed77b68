"""Tool results too large for a context, and the JSON that replaces them."""

import json
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import ToolMessage
from wcwidth import grapheme_boundary_before

from unsay.errors import InputError
from unsay.messages.content import Media, Other, ToolResult, parts_of

PREVIEW_CHARS = 400  # shown characters of an omitted result. Source: Strands, 200 at either end.
SMALLEST = 256  # bytes that the JSON may have under any limit
READ_TOOL = "read_tool_result"  # name of the tool by which a model reads any part of a result
REASON = "size_limit"  # why a result was omitted. Source: Goa-AI, tool_result_content.go.
_START = '{"omitted": true, "reason": '


def omission(
    text: str,
    limit_bytes: int,
    *,
    preview: str | None = None,
    bounds: Mapping[str, Any] | None = None,
    call_id: str | None = None,
) -> str:
    """Return the JSON text that replaces a text of more than `limit_bytes` in a context.

    It has a preview, by default the beginning of the text, which shrinks until the JSON has
    `limit_bytes`, or `SMALLEST` bytes if that is more. A `preview` that is given is only cut to
    `PREVIEW_CHARS`, and `bounds`, the extent that the tool reported, is never cut: with them the
    JSON can be larger. `call_id` tells the model what to read with `READ_TOOL`.
    """
    shown = clip(text if preview is None else preview, PREVIEW_CHARS)
    fields = {
        "omitted": True,
        "reason": REASON,
        "bytes": size_of(text),
        "preview": shown,
        "bounds": dict(bounds) if bounds is not None else {"limit_bytes": limit_bytes},
    }
    if call_id is not None:
        fields["read"] = {"tool": READ_TOOL, "tool_call_id": call_id}
    while True:
        written = _json({**fields, "preview": shown})
        fits = size_of(shown) <= limit_bytes and size_of(written) <= max(limit_bytes, SMALLEST)
        if fits or not shown or preview is not None:  # a tool's own preview is not shortened
            return written
        shown = clip(shown, len(shown) // 2)


def shortened_result(
    message: ToolMessage,
    limit_bytes: int,
    *,
    preview: str | None = None,
    bounds: Mapping[str, Any] | None = None,
    readable: bool = False,
) -> ToolMessage:
    """Return a tool result, or a copy with an `omission` in place of more than `limit_bytes`.

    `preview` and `bounds` are as for `omission`. Images and other media stay and do not count. With
    `readable`, the omission names the tool that reads the rest. Raises `InputError` if the limit is
    less than 1.
    """
    if limit_bytes < 1:
        raise InputError(f"limit_bytes must be 1 or more, got {limit_bytes!r}")
    result, *others = parts_of(message)
    words = result.content if isinstance(result, ToolResult) else ""
    data = [_json(part.block) for part in others if isinstance(part, Other)]
    text = "\n".join([words, *data])
    if size_of(text) <= limit_bytes or is_omission(text):
        return message
    call_id = message.tool_call_id if readable else None
    replacement = omission(text, limit_bytes, preview=preview, bounds=bounds, call_id=call_id)
    media = [part.block for part in others if isinstance(part, Media)]
    content = [{"type": "text", "text": replacement}, *media] if media else replacement
    return message.model_copy(update={"content": content})


def is_omission(text: str) -> bool:
    """Return whether a text begins as the JSON that `omission` makes."""
    return text.startswith(_START)


def size_of(text: str) -> int:
    """Return the number of bytes of a text in UTF-8; half of a surrogate pair counts 3."""
    return len(text.encode("utf-8", "surrogatepass"))


def clip(text: str, chars: int) -> str:
    r"""Return at most `chars` code points of a text; it never ends inside a visible character.

    Halves of surrogate pairs become question marks.

    >>> clip("ab\u0301c", 2), clip("👩\u200d👧", 2)
    ('a', '')
    """
    end = min(chars, len(text))
    if end < len(text):
        end = grapheme_boundary_before(text, end + 1)
    # Lone surrogates, which no provider or database accepts, become question marks.
    return text[:end].encode("utf-8", "replace").decode()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=repr)
