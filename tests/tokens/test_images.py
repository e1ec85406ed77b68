from base64 import b64encode
from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unsay.tokens.counter import PAGE_TOKENS, Size, image_tokens, media_tokens, size_of
from unsay.types import Provider

PNG = b"\x89PNG\r\n\x1a\n" + pack(">I4sII", 13, b"IHDR", 1024, 512)
GIF = b"GIF89a" + pack("<HH", 640, 480)
JPEG = (
    b"\xff\xd8"
    + b"\xff\xe1"
    + pack(">H", 14)
    + b"Exif\xff\xc0\0\x11\x08\0\1\0"
    + b"\xff\xc2"
    + pack(">HBHH", 17, 8, 300, 400)
    + b"\3"
)
WEBP_LOSSY = b"RIFF\0\0\0\0WEBPVP8 " + bytes(10) + pack("<HH", 800, 600)
WEBP_LOSSLESS = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f" + pack("<I", 99 | 49 << 14)
WEBP_EXTENDED = b"RIFF\0\0\0\0WEBPVP8X" + bytes(8) + b"\x1f\x03\0\x57\x02\0"
PDF = b"%PDF-1.7\n1 0 obj<</Type /Pages>>\n" + b"<< /Type /Page >>\n" * 3


def encode(data: bytes) -> str:
    """Bytes as blocks carry them."""
    return b64encode(data).decode()


@pytest.mark.parametrize(
    ("head", "size"),
    [
        pytest.param(PNG, (1024, 512), id="PNG"),
        pytest.param(GIF, (640, 480), id="GIF"),
        pytest.param(JPEG, (400, 300), id="JPEG, past what its camera noted"),
        pytest.param(WEBP_LOSSY, (800, 600), id="WebP, lossy"),
        pytest.param(WEBP_LOSSLESS, (100, 50), id="WebP, lossless"),
        pytest.param(WEBP_EXTENDED, (800, 600), id="WebP, extended"),
    ],
)
def test_a_picture_says_its_size(head: bytes, size: tuple[int, int]) -> None:
    """Each format's first bytes tell the picture's size."""
    assert Size(width=size[0], height=size[1]) == size_of(head)


@pytest.mark.parametrize("head", [b"", b"GIF", PNG[:12], b"\xff\xd8\xff", b"hello"], ids=repr)
def test_what_is_no_picture_has_no_size(head: bytes) -> None:
    """Bytes that end too soon, or are none of these formats, say nothing."""
    assert size_of(head) is None


@given(st.sampled_from([b"", b"\xff\xd8", b"\x89PNG\r\n\x1a\n", b"GIF8"]), st.binary(max_size=80))
def test_no_bytes_are_too_strange(start: bytes, tail: bytes) -> None:
    """For any bytes, there is a size of at least one pixel, or none."""
    size = size_of(start + tail)

    assert size is None or min(size.width, size.height) >= 1


@pytest.mark.parametrize(
    ("provider", "size", "tokens"),
    [
        pytest.param("openai", (1024, 1024), 765, id="OpenAI, the guide's square"),
        pytest.param("openai", (2048, 4096), 1105, id="OpenAI, the guide's large picture"),
        pytest.param("openai", (100, 100), 255, id="OpenAI, one tile"),
        pytest.param("anthropic", (200, 200), 54, id="Anthropic, the guide's thumbnail"),
        pytest.param("anthropic", (1000, 1000), 1334, id="Anthropic, the guide's square"),
        pytest.param("anthropic", (8000, 8000), 1534, id="Anthropic, shrunk"),
        pytest.param("bedrock", (200, 200), 54, id="Bedrock as Anthropic"),
        pytest.param("gemini", (384, 384), 258, id="Gemini, small"),
        pytest.param("gemini", (1000, 700), 516, id="Gemini, two tiles"),
        pytest.param("openai", None, 765, id="OpenAI, a link"),
        pytest.param("gemini", None, 1032, id="Gemini, a link"),
    ],
)
def test_a_picture_costs_what_its_provider_says(
    provider: Provider, size: tuple[int, int] | None, tokens: int
) -> None:
    """Each provider's published rule gives its own published numbers."""
    known_size = Size(width=size[0], height=size[1]) if size else None

    assert tokens == image_tokens(known_size, provider)


@pytest.mark.parametrize(
    ("block", "tokens"),
    [
        pytest.param(
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{encode(PNG)}"}},
            425,
            id="OpenAI's data URL",
        ),
        pytest.param(
            {"type": "image_url", "image_url": {"url": "https://example.org/a", "detail": "low"}},
            85,
            id="OpenAI's low detail",
        ),
        pytest.param(
            {"type": "image", "source": {"type": "base64", "data": encode(GIF)}},
            425,
            id="Anthropic's source",
        ),
        pytest.param({"type": "image", "base64": encode(JPEG)}, 255, id="LangChain's block"),
        pytest.param({"image": {"source": {"bytes": JPEG}}}, 255, id="Bedrock's bytes"),
        pytest.param({"type": "image_url", "image_url": "???"}, 765, id="nothing known"),
        pytest.param({"type": "media", "mime_type": "image/gif", "data": "A"}, 765, id="no base64"),
        pytest.param(
            {"type": "file", "base64": encode(PDF), "mime_type": "application/pdf"},
            3 * PAGE_TOKENS,
            id="a PDF's pages",
        ),
        pytest.param(
            {"type": "file", "base64": encode(bytes(120_000))}, 3 * PAGE_TOKENS, id="size"
        ),
        pytest.param({"type": "file", "file_id": "f1"}, PAGE_TOKENS, id="a file that is named"),
        pytest.param({"type": "audio", "base64": encode(bytes(160_000))}, 320, id="ten seconds"),
        pytest.param({"type": "video", "url": "https://example.org/v"}, 9_000, id="a film"),
    ],
)
def test_a_block_costs_what_it_holds(block: dict[str, Any], tokens: int) -> None:
    """Pictures, files and recordings are found in every form of block."""
    assert tokens == media_tokens(block, "openai")
