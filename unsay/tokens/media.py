"""Tokens of pictures, recordings and files, by the providers' published rules."""

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from unsay.types import Provider

PAGE_TOKENS = 2_250  # Source: Anthropic's PDF support, 1,500 to 3,000 tokens a page
PAGE_BYTES = 50_000  # of a PDF whose pages cannot be counted. Source: own estimate
SECOND_TOKENS = {"audio": 32, "video": 300}  # Source: Gemini's token guide
SECOND_BYTES = {"audio": 16_000, "video": 250_000}  # 128 kbit of sound, 2 Mbit of film
UNKNOWN_SECONDS = 30  # assumed length of a recording whose data is not given
_HEAD = 64 * 1024  # bytes of a picture that are searched for its size
_LOOKED_THROUGH = 2**20  # bytes of a file that are searched for its pages

_DATA_URL = re.compile(r"^data:[^,]{0,200},", re.IGNORECASE)
_PAGE = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")
_CARRIERS = frozenset({"data", "base64", "file_data", "bytes"})  # keys of base64 text
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # JPEG's markers of a frame's start


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A picture's size in pixels, from 1."""

    width: int
    height: int


def media_tokens(block: Mapping[str, Any], provider: Provider) -> int:
    """Return the tokens of a media block in any provider's form.

    If the data is not in the block, a picture counts as 1,024 by 1,024 pixels, a recording as
    `UNKNOWN_SECONDS`, and a file as one page. What is neither picture nor recording is a file.
    """
    known = f"{block.get('type', '')} {block.get('mime_type', '')} {' '.join(map(str, block))}"
    kind = next((kind for kind in ("image", "audio", "video") if kind in known), "file")
    payload = next(_payloads(block), b"")
    if kind == "image":
        inner = block.get("image_url")
        low = (inner if isinstance(inner, Mapping) else block).get("detail") == "low"
        return image_tokens(size_of(_decoded(payload, _HEAD)), provider, low=low)
    length = len(payload) if isinstance(payload, bytes) else len(payload.rstrip("=")) * 3 // 4
    if kind in SECOND_TOKENS:
        seconds = ceil(length / SECOND_BYTES[kind]) if length else UNKNOWN_SECONDS
        return seconds * SECOND_TOKENS[kind]
    pages = len(_PAGE.findall(_decoded(payload, _LOOKED_THROUGH)))
    return PAGE_TOKENS * (pages or max(1, ceil(length / PAGE_BYTES)))


def image_tokens(size: Size | None, provider: Provider, *, low: bool = False) -> int:
    """Return the tokens of a picture; an unknown size counts as 1,024 by 1,024 pixels.

    `low` is OpenAI's low detail, which other providers ignore.

    Source: OpenAI's vision guide (85, and 170 for each tile of 512 once the picture fits 2,048
    squared with a shorter side of 768); Anthropic's (width times height over 750, once the longer
    side is at most 1,568 and the whole at most 1.15 megapixels); Gemini's token guide (258 for
    each tile of 768).
    """
    size = size or Size(width=1024, height=1024)
    if provider == "openai":
        shrink = min(2048 / max(size.width, size.height), 768 / min(size.width, size.height), 1.0)
        fitted = Size(width=ceil(size.width * shrink), height=ceil(size.height * shrink))
        return 85 if low else 85 + 170 * _tiles(fitted, 512)
    if provider == "gemini":
        return 258 * _tiles(size, 768)
    shrink = min(1.0, 1568 / max(size.width, size.height))
    pixels = min(size.width * size.height * shrink**2, 1_150_000)
    return max(1, ceil(pixels / 750))


def _tiles(size: Size, side: int) -> int:
    return ceil(size.width / side) * ceil(size.height / side)


def size_of(head: bytes) -> Size | None:
    """Return the size of a PNG, GIF, JPEG or WebP from its first bytes.

    `None` for another format, or if the bytes do not have the size.
    """
    found = (0, 0)
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        found = int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
    elif head.startswith(b"GIF8"):
        found = int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")
    elif head.startswith(b"\xff\xd8"):
        found = _jpeg(head)
    elif head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        found = _webp(head)
    return Size(width=found[0], height=found[1]) if all(found) else None


def _jpeg(head: bytes) -> tuple[int, int]:
    place = 2
    while place + 9 <= len(head):
        if head[place + 1] in _FRAMES:
            height, width = head[place + 5 : place + 7], head[place + 7 : place + 9]
            return int.from_bytes(width, "big"), int.from_bytes(height, "big")
        place += 2 + int.from_bytes(head[place + 2 : place + 4], "big")
    return 0, 0


def _webp(head: bytes) -> tuple[int, int]:
    kind = head[12:16]
    if kind == b"VP8X":
        sides = int.from_bytes(head[24:27], "little"), int.from_bytes(head[27:30], "little")
        return sides[0] + 1, sides[1] + 1
    if kind == b"VP8L":
        packed = int.from_bytes(head[21:25], "little")
        return (packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1
    return (
        int.from_bytes(head[26:28], "little") & 0x3FFF,
        int.from_bytes(head[28:30], "little") & 0x3FFF,
    )


def _payloads(value: Any) -> Iterator[str | bytes]:
    """Yield the data in a block, at any depth: bytes, or text in base64."""
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if isinstance(inner, str) and (key in _CARRIERS or inner[:5].lower() == "data:"):
                yield _DATA_URL.sub("", inner, count=1)
            else:
                yield from _payloads(inner)


def _decoded(payload: str | bytes, limit: int) -> bytes:
    if isinstance(payload, bytes):
        return payload[:limit]
    # A picture's size and most pages of a file are in the first part; decoding all of it is slow.
    first = payload[: limit // 3 * 4]
    try:
        return b64decode(first + "=" * (-len(first) % 4))
    except ValueError:
        return b""
