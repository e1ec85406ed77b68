"""Tool results too large for a view: a record of what was left out, in their place."""

import json
import unicodedata
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import ToolMessage

from unsay.errors import InputError
from unsay.messages.content import Media, Other, ToolResult, parts_of

MAX_TOOL_RESULT_BYTES = 64 * 1024
"""Largest tool result that is shown whole. Source: Goa-AI, MaxToolResultContentBytes."""


PREVIEW_CHARS = 400
"""Longest beginning of an omitted result that is shown. Source: Strands, 200 at either end."""


SMALLEST = 256
"""Bytes that a record may always have: what is left out is named under any limit."""


READ_TOOL = "read_tool_result"
"""Name of the tool by which a model reads any part of a result."""


REASON = "size_limit"
"""Why a result was omitted. Source: Goa-AI, tool_result_content.go."""


_START = '{"omitted": true, "reason": '


_JOINERS = frozenset("\u200d\ufe0e\ufe0f\u20e3")


def omission(
    text: str,
    limit_bytes: int,
    *,
    preview: str | None = None,
    bounds: Mapping[str, Any] | None = None,
    call_id: str | None = None,
) -> str:
    """JSON that stands in a view for a text which is too large for it.

    Args:
        text: What is left out.
        limit_bytes: The beginning shrinks until the whole fits, or has `SMALLEST` bytes.
        preview: In place of the text's beginning.
        bounds: What the tool said of its result's extent; ours when `None`.
        call_id: Of the tool call whose result the model can read by `READ_TOOL`; `None` where it
            has no such tool.

    >>> json.loads(omission("many rows", 8))["reason"]
    'size_limit'
    """
    shown = cut(text if preview is None else preview, PREVIEW_CHARS)
    way = {} if call_id is None else {"read": {"tool": READ_TOOL, "tool_call_id": call_id}}
    while True:
        record = _json(
            {
                "omitted": True,
                "reason": REASON,
                "bytes": size_of(text),
                "preview": shown,
                "bounds": dict(bounds) if bounds is not None else {"limit_bytes": limit_bytes},
                **way,
            }
        )
        fits = size_of(shown) <= limit_bytes and size_of(record) <= max(limit_bytes, SMALLEST)
        if fits or not shown or preview is not None:
            return record
        shown = cut(shown, len(shown) // 2)


def present(
    message: ToolMessage,
    limit_bytes: int,
    *,
    preview: str | None = None,
    bounds: Mapping[str, Any] | None = None,
    readable: bool = False,
) -> ToolMessage:
    """The tool result as a view shows it: itself, or a copy that says what was left out.

    Images and other media stay; only words and data are measured.

    Args:
        message: As the record keeps it; it is not changed.
        limit_bytes: Largest result that is shown whole.
        preview: In place of the result's beginning.
        bounds: What the tool said of its result's extent.
        readable: Whether the model has the tool that reads the rest.

    Raises:
        InputError: The limit is no positive number.
    """
    if limit_bytes < 1:
        raise InputError(f"{limit_bytes!r} bytes cannot be a limit; give 1 or more")
    result, *others = parts_of(message)
    words = result.content if isinstance(result, ToolResult) else ""
    data = [_json(part.block) for part in others if isinstance(part, Other)]
    text = "\n".join([words, *data])
    if size_of(text) <= limit_bytes or is_omission(text):
        return message
    call_id = message.tool_call_id if readable else None
    record = omission(text, limit_bytes, preview=preview, bounds=bounds, call_id=call_id)
    media = [part.block for part in others if isinstance(part, Media)]
    content = [{"type": "text", "text": record}, *media] if media else record
    return message.model_copy(update={"content": content})


def is_omission(text: str) -> bool:
    """Whether a text is a record of something left out."""
    return text.startswith(_START)


def size_of(text: str) -> int:
    """Bytes of a text in UTF-8."""
    return len(text.encode("utf-8", "surrogatepass"))


def cut(text: str, chars: int) -> str:
    r"""The beginning of a text, at most so many code points, no visible character in half.

    >>> cut("ab\u0301c", 2), cut("👩\u200d👧", 2)
    ('a', '')
    """
    end = min(chars, len(text))
    while 0 < end < len(text) and _joined(text[end - 1], text[end]):
        end -= 1
    return text[:end].encode("utf-8", "replace").decode()


def _joined(left: str, right: str) -> bool:
    """Whether two code points are shown as one; of two flags either is taken for half of one."""
    tone = "\U0001f3fb" <= right <= "\U0001f3ff"
    flag = all("\U0001f1e6" <= each <= "\U0001f1ff" for each in (left, right))
    combining = unicodedata.category(right).startswith("M")
    return combining or tone or flag or left == "\u200d" or right in _JOINERS


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=repr)
