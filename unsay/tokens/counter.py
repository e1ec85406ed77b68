"""Counting of a prompt's tokens, by an encoder or an estimate, corrected by the model's reports."""

import json
import os
import re
import tomllib
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from math import ceil, log
from pathlib import Path
from tempfile import gettempdir
from typing import Any, NotRequired
from zlib import crc32

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from typing_extensions import TypedDict

from unsay.tokens.estimate import Vocabulary, estimate
from unsay.types import Provider

Encoder = Callable[[str], int]  # the number of tokens of a text, by the model's own vocabulary


_TABLES = tomllib.loads(Path(__file__).with_name("vocabularies.toml").read_text("utf-8"))


def encoder_of(vocabulary: Vocabulary) -> Encoder | None:
    """Return the encoder of a vocabulary; `None` if tiktoken lacks the vocabulary.

    `None` also if `tiktoken` or a complete file of the vocabulary is not on this disk. The call
    takes half a second of processor time: call it once, and not on an event loop.
    """
    checksums = _TABLES["files"].get(vocabulary)
    if checksums is None or not _is_whole(*checksums):
        return None
    try:
        from tiktoken import get_encoding  # noqa: PLC0415 - a slow import that most users skip
    except ImportError:
        return None
    encoding = get_encoding(f"{vocabulary}_base")
    return lambda text: len(encoding.encode_ordinary(text))


def _is_whole(file: str, digest: str) -> bool:
    # Checked here because tiktoken downloads a broken file again, and caches nothing if the folder's
    # name is empty. Source: tiktoken's `load.py`.
    usual = str(Path(gettempdir(), "data-gym-cache"))
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR", usual))
    path = Path(folder, file)
    return bool(folder) and path.is_file() and sha256(path.read_bytes()).hexdigest() == digest


VOCABULARIES: Mapping[str, Vocabulary] = _TABLES["models"]


def vocabulary_of(model: str | None) -> Vocabulary:
    """Return the vocabulary of a model; for an unknown model OpenAI's newest.

    >>> vocabulary_of("openai/gpt-4-turbo"), vocabulary_of("gpt-5-mini"), vocabulary_of(None)
    ('cl100k', 'o200k', 'o200k')
    """
    names = re.split(r"[/:\s]+", (model or "").lower())
    parts = [*names, *(part for name in names for part in name.split(".")[1:])]
    for start, vocabulary in VOCABULARIES.items():
        if any(part.startswith(start) for part in parts):
            return vocabulary
    return "o200k"


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
    label = f"{block.get('type', '')} {block.get('mime_type', '')} {' '.join(map(str, block))}"
    kind = next((kind for kind in ("image", "audio", "video") if kind in label), "file")
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
    size = (0, 0)
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        size = int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
    elif head.startswith(b"GIF8"):
        size = _little(head[6:8]), _little(head[8:10])
    elif head.startswith(b"\xff\xd8"):
        size = _jpeg(head)
    elif head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        size = _webp(head)
    return Size(width=size[0], height=size[1]) if all(size) else None


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
        return _little(head[24:27]) + 1, _little(head[27:30]) + 1
    if kind == b"VP8L":
        packed = _little(head[21:25])
        return (packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1
    return _little(head[26:28]) & 0x3FFF, _little(head[28:30]) & 0x3FFF


def _little(raw: bytes) -> int:
    return int.from_bytes(raw, "little")


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


Tool = BaseTool | Mapping[str, Any]  # a tool, or its schema in any provider's form

# Tokens of a message, of a reply's beginning, of a tool call and of a tool, besides their text.
# Source: OpenAI's cookbook on counting tokens (3 and the role, 3, for gpt-4o 7); calls: own estimate.
MESSAGE_TOKENS = 4
REPLY_TOKENS = 3
CALL_TOKENS = 8
TOOL_TOKENS = 7

# Tokens that are taken as estimated correctly before the first report, and how fast reports that
# differ reduce them. Source: own measurement, `calibrated_error_NAME` of `benchmarks/tokens.py`.
PRIOR_TOKENS = 100
DOUBT = 20

# Tokens of reports that influence the correction: few enough that it follows a change of language.
# Source: own measurement.
MEMORY_TOKENS = 8_000

# Weight of a report of a whole prompt, which may include tokens that cannot be counted, such as a
# provider's instructions for tools. Source: own choice.
_WHOLE_SHARE = 0.25

_PLAUSIBLE = (0.2, 5.0)  # reports outside these multiples of the count are ignored
_LONGEST_KNOWN = 10_000  # characters of a text whose estimate is cached

_WORDS = ("text", "thinking", "reasoning", "refusal")  # keys whose text a model reads
_HOLDERS = ("content", "reasoning_content", "summary", "source")  # keys of text or other blocks

# Types of blocks: those that repeat a message's tool calls, those in which only plain text counts,
# and those of a picture, a recording or a file.
_CALLS = frozenset({"tool_use", "tool_call", "function_call", "tool_call_chunk"})
_HIDDEN = frozenset({"redacted_thinking", "reasoning", "reasoning_content", "thinking"})
_MEDIA = frozenset(
    {"image", "image_url", "input_image", "file", "input_file", "document", "media"}
) | {"audio", "input_audio", "video", "video_url"}


def words_of(message: BaseMessage) -> Iterator[str]:
    """Yield the texts of a message that a model reads, tool calls included; media are skipped."""
    if message.name:
        yield message.name
    for block in _blocks(message.content):
        yield from _words(block)
    if isinstance(message, AIMessage):
        for call in message.tool_calls:
            yield f"{call['name']}({_json(call['args'])})"
        for broken in message.invalid_tool_calls:
            yield f"{broken['name']}({broken['args']})"


def schema_of(tool: Tool) -> str:
    """Return the JSON that describes a tool to a model, as text."""
    if isinstance(tool, BaseTool):
        return _json(convert_to_openai_tool(tool)["function"])
    return _json(tool.get("function", tool))


def prompt_checksum(messages: Sequence[BaseMessage], tools: Sequence[Tool]) -> int:
    """Return a checksum of a prompt: of its messages with their media, and of its tools."""
    # The null characters keep texts apart: moved words must change the checksum, too.
    texts = [schema_of(tool) for tool in tools]
    for message in messages:
        texts += [f"\0{message.type}", *(f"\0{text}" for text in words_of(message))]
        texts += [f"\0{block!r}" for block in _media(message.content)]
    digest = 0
    for text in texts:
        digest = crc32(text.encode("utf-8", "surrogatepass"), digest)
    return digest


def _blocks(content: Any) -> Iterator[Any]:
    yield from [content] if isinstance(content, str | Mapping) else content or ()


def _words(block: Any) -> Iterator[str]:
    """Yield the texts of a content block that a model reads; none for tool calls and media.

    A block of an unknown kind is yielded as JSON; hidden thinking has no text.
    """
    if isinstance(block, Mapping) and isinstance(block.get("reasoning_content"), Mapping):
        block = {**block["reasoning_content"], "type": "reasoning_content"}  # Bedrock nests it
    if isinstance(block, str):
        yield block
    elif isinstance(block, Mapping) and block.get("type") not in _CALLS and not _is_media(block):
        texts = [block[key] for key in _WORDS if isinstance(block.get(key), str)]
        inner = [block[key] for key in _HOLDERS if block.get(key)]
        yield from texts
        for value in inner:
            for part in _blocks(value):
                yield from _words(part)
        if block.get("type") == "text" and isinstance(block.get("data"), str):
            yield block["data"]
        elif not texts and not inner and block.get("type") not in _HIDDEN | {"text"}:
            yield _json(block)


def _media(content: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the media blocks of a message's content, also those inside of tool results."""
    for block in _blocks(content):
        if isinstance(block, Mapping) and _is_media(block):
            yield block
        elif isinstance(block, Mapping) and "content" in block:
            yield from _media(block["content"])


def _is_media(block: Mapping[str, Any]) -> bool:
    source = block.get("source")
    # A document of plain text has no pages: its text counts as text.
    is_plain_text = isinstance(source, Mapping) and source.get("type") in ("text", "content")
    is_media_type = block.get("type") in _MEDIA or (
        "type" not in block and not _MEDIA.isdisjoint(block)
    )
    return is_media_type and not is_plain_text and block.get("source_type") != "text"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


class Anchor(TypedDict):
    """A prompt whose tokens the model reported."""

    messages: int  # number of messages
    digest: int  # see `prompt_checksum`
    tokens: int


class Calibration(TypedDict):
    """Sums of counted and reported tokens; newer prompts have more weight."""

    counted: float
    reported: float
    anchor: NotRequired[Anchor]


def uncalibrated() -> Calibration:
    """Return the calibration before the first report."""
    return Calibration(counted=0.0, reported=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    fixed: int  # tokens of framing and pictures, by published rules
    words: float  # tokens of all texts, which the model's reports correct


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCounter:
    """Counts the tokens of prompts, and learns from the tokens that the model reports.

    A counter never changes: `observe` returns one that has learned. If a prompt begins with the
    last one that the model reported, only its new messages are counted.
    """

    encode: Encoder | None = None  # `None` estimates
    vocabulary: Vocabulary = "o200k"  # of the estimate
    provider: Provider = "openai"  # selects the rules for pictures and files
    calibration: Calibration = field(default_factory=uncalibrated)

    @property
    def ratio(self) -> float:
        """The factor that corrects counts of texts: about reported over counted tokens, at first 1."""
        calibration = self.calibration
        if calibration["counted"] <= 0 or calibration["reported"] <= 0:
            return 1.0
        # An estimate that is far off for many tokens is of another vocabulary: it is not kept.
        distance = log(calibration["reported"] / calibration["counted"])
        prior = PRIOR_TOKENS / (1 + DOUBT * calibration["counted"] * distance**2)
        return (calibration["reported"] + prior) / (calibration["counted"] + prior)

    def count(self, messages: Sequence[BaseMessage], tools: Sequence[Tool] = ()) -> int:
        """Return the tokens of a prompt, corrected by `ratio`; 0 without messages and tools.

        The sum of the counts of its parts differs from the count of the whole.
        """
        anchor = self._anchor(messages, tools)
        if anchor:
            return anchor["tokens"] + self._added(messages[anchor["messages"] :])
        return self._added(messages, tools) + REPLY_TOKENS if messages or tools else 0

    def project(self, messages: Sequence[BaseMessage], tools: Sequence[Tool] = ()) -> int:
        """Return the tokens of the next prompt, from the usage of the newest answer that reports one.

        Only messages after that answer are counted, and no `tools`. If no answer reports its usage,
        this is `count`.
        """
        for place in range(len(messages) - 1, -1, -1):
            message = messages[place]
            if isinstance(message, AIMessage) and (usage := message.usage_metadata):
                tokens = usage["input_tokens"] + usage["output_tokens"]
                return tokens + self._added(messages[place + 1 :])
        return self.count(messages, tools)

    def observe(
        self,
        sent: Sequence[BaseMessage],
        usage: Mapping[str, Any] | None,
        tools: Sequence[Tool] = (),
    ) -> "TokenCounter":
        """Return a counter that has learned from the usage of the answer to `sent`.

        `usage` is the answer's `usage_metadata`. If it reports no prompt tokens, the counter itself
        is returned.
        """
        reported = (usage or {}).get("input_tokens")
        if not isinstance(reported, int) or reported <= 0:
            return self
        anchor = self._anchor(sent, tools)
        if anchor:
            new, share = self._parts(sent[anchor["messages"] :]), 1.0
            words = reported - anchor["tokens"] - new.fixed
        else:
            new, share = self._parts(sent, tools), _WHOLE_SHARE
            words = reported - REPLY_TOKENS - new.fixed
        # Only the count of texts is corrected: framing and pictures follow published rules.
        calibration = _learned(self.calibration, counted=new.words, reported=words, share=share)
        anchor = Anchor(messages=len(sent), digest=prompt_checksum(sent, tools), tokens=reported)
        return replace(self, calibration={**calibration, "anchor": anchor})

    def _anchor(self, messages: Sequence[BaseMessage], tools: Sequence[Tool]) -> Anchor | None:
        """Return the last reported prompt if these messages continue it, else `None`."""
        anchor = self.calibration.get("anchor")
        if anchor is None or not 0 < anchor["messages"] <= len(messages):
            return None
        same = anchor["digest"] == prompt_checksum(messages[: anchor["messages"]], tools)
        return anchor if same else None

    def _added(self, messages: Sequence[BaseMessage], tools: Sequence[Tool] = ()) -> int:
        parts = self._parts(messages, tools)
        return round(parts.fixed + parts.words * self.ratio)

    def _parts(self, messages: Sequence[BaseMessage], tools: Sequence[Tool] = ()) -> _Parts:
        calls = sum(len(m.tool_calls) for m in messages if isinstance(m, AIMessage))
        framing = MESSAGE_TOKENS * len(messages) + CALL_TOKENS * calls + TOOL_TOKENS * len(tools)
        media = (media_tokens(b, self.provider) for m in messages for b in _media(m.content))
        texts = [text for message in messages for text in words_of(message)]
        return _Parts(
            fixed=framing + sum(media),
            words=sum(map(self._words, [*texts, *(schema_of(tool) for tool in tools)])),
        )

    def _words(self, text: str) -> float:
        if self.encode is not None:
            return self.encode(text)
        if len(text) > _LONGEST_KNOWN:
            return estimate(text, self.vocabulary)
        return _known(text, self.vocabulary)


@lru_cache(maxsize=4_096)
def _known(text: str, vocabulary: Vocabulary) -> float:
    return estimate(text, vocabulary)


def _learned(known: Calibration, *, counted: float, reported: float, share: float) -> Calibration:
    if not _PLAUSIBLE[0] * counted <= reported <= _PLAUSIBLE[1] * counted:
        return known
    new = min(counted * share, MEMORY_TOKENS)
    fade = 1 - new / MEMORY_TOKENS  # older reports fade, so the sum stays below the limit
    return Calibration(
        counted=known["counted"] * fade + new,
        reported=known["reported"] * fade + (reported * new / counted if counted else 0.0),
    )
