"""Counting of a prompt's tokens, by an encoder or an estimate, corrected by the model's reports."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import log
from typing import Any, NotRequired
from zlib import crc32

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from typing_extensions import TypedDict

from unsay.tokens.estimate import Vocabulary, estimate
from unsay.tokens.media import media_tokens
from unsay.types import Provider

Encoder = Callable[[str], int]  # the number of tokens of a text, by the model's own vocabulary
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
        known = [block[key] for key in _WORDS if isinstance(block.get(key), str)]
        inner = [block[key] for key in _HOLDERS if block.get(key)]
        yield from known
        for value in inner:
            for part in _blocks(value):
                yield from _words(part)
        if block.get("type") == "text" and isinstance(block.get("data"), str):
            yield block["data"]
        elif not known and not inner and block.get("type") not in _HIDDEN | {"text"}:
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
    written = isinstance(source, Mapping) and source.get("type") in ("text", "content")
    named = block.get("type") in _MEDIA or ("type" not in block and not _MEDIA.isdisjoint(block))
    return named and not written and block.get("source_type") != "text"


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
        known = self.calibration
        if known["counted"] <= 0 or known["reported"] <= 0:
            return 1.0
        # An estimate that is far off for many tokens is of another vocabulary: it is not kept.
        distance = log(known["reported"] / known["counted"])
        prior = PRIOR_TOKENS / (1 + DOUBT * known["counted"] * distance**2)
        return (known["reported"] + prior) / (known["counted"] + prior)

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
            if isinstance(message, AIMessage) and (used := message.usage_metadata):
                spent = used["input_tokens"] + used["output_tokens"]
                return spent + self._added(messages[place + 1 :])
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
        learned = _learned(self.calibration, counted=new.words, reported=words, share=share)
        anchor = Anchor(messages=len(sent), digest=prompt_checksum(sent, tools), tokens=reported)
        return replace(self, calibration={**learned, "anchor": anchor})

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
