"""The parts of a message, for any provider's form of its content."""

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast
from unicodedata import normalize

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolMessage
from wcwidth import grapheme_boundary_before, width

from unsay.errors import InputError
from unsay.types import Language


def text_of(message: BaseMessage) -> str:
    """Return the text of a message; images, files, thinking and tool calls are left out."""
    if isinstance(message.content, str):
        return message.content
    texts = (block for block in blocks_of(message) if block.get("type") == "text")
    return "".join(str(block.get("text", "")) for block in texts)


def with_text(message: AnyMessage, text: str) -> AnyMessage:
    """Return a message with another text; its images and other parts stay."""
    parts = message.content if isinstance(message.content, list) else []
    others = [part for part in parts if isinstance(part, dict) and part.get("type") != "text"]
    content = [{"type": "text", "text": text}, *others] if others else text
    return message.model_copy(update={"content": content})


def has_other_content(message: BaseMessage) -> bool:
    """Return whether a message has content besides text and thinking, such as an image.

    A tool call counts only if it is a block of the content.
    """
    return any(
        block.get("type") != "text" and not is_thinking(block) for block in blocks_of(message)
    )


def is_empty(message: BaseMessage) -> bool:
    """Return whether a message has neither text nor other content; thinking and tool calls do not count."""
    return not text_of(message).strip() and not has_other_content(message)


# Each provider has its own field for why a message ended.
_ENDS = ("finish_reason", "stop_reason", "done_reason", "status")
_CUT_OFF = ("length", "max_tokens", "max_output_tokens", "incomplete")


def broke_off(message: object) -> bool:
    """Return whether the provider stopped a message at its length limit, or its stream broke off.

    `False` for a reply that is not a message.
    """
    metadata = getattr(message, "response_metadata", None) or {}
    ends = [str(metadata.get(name)).lower() for name in _ENDS]
    return has_no_end(message) or any(end in _CUT_OFF for end in ends)


def has_no_end(message: object) -> bool:
    """Return whether the stream of a message ended before the message did.

    It is recognized for models of OpenAI's and Anthropic's protocols only.
    """
    # A stream that breaks off between two pieces raises nothing in these clients; only its reason to
    # finish is missing.
    metadata = getattr(message, "response_metadata", None) or {}
    known_provider = metadata.get("model_provider") in ("openai", "anthropic")
    return known_provider and not any(name in metadata for name in _ENDS)


def language_of(text: str) -> Language:
    """Return the language to answer a text in: Japanese if it has kana, else English.

    Han characters alone count as Japanese if they outnumber Latin letters.

    >>> language_of("Pythonのデコレータとは?"), language_of("What is a decorator?")
    ('ja', 'en')
    """
    if text.isascii():  # compiling the patterns below takes 2 ms, the first time
        return "en"
    kana, han, latin = r"[\u3040-\u30ff\uff66-\uff9f]", r"[\u4e00-\u9fff]", r"[A-Za-z\u00c0-\u024f]"
    if re.search(kana, text):
        return "ja"
    return "ja" if len(re.findall(han, text)) > len(re.findall(latin, text)) else "en"


def same_name(one: str | None, other: str | None) -> bool:
    r"""Return whether two names are equal in NFC, for keyboards that type a letter in parts.

    >>> same_name("caf\u00e9", "cafe\u0301")
    True
    """
    return normalize("NFC", one or "") == normalize("NFC", other or "")


def preview(text: str, limit: int = 60) -> str:
    r"""Return the beginning of a text on one line, at most `limit` characters long.

    >>> preview("one\ntwo three", limit=8)
    'one two…'
    """
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def without_files(text: str) -> str:
    r"""Return a message's text without the files that `unsay chat --file` put after it.

    >>> without_files('What is this?\n\n<file name="a.py">\nimport os\n</file>')
    'What is this?'
    """
    return text.partition('\n\n<file name="')[0]


def with_file_names(text: str) -> str:
    r"""Return a message's text with the names of such files instead of their contents.

    >>> with_file_names('What is this?\n\n<file name="a.py">\nimport os\n</file>')
    'What is this? [a.py]'
    """
    words = without_files(text)
    names = re.findall(r'^<file name="(.+)">$', text[len(words) :], re.MULTILINE)
    return " ".join([words, *(f"[{name}]" for name in names)])


def without_middle(text: str, chars: int, gap: str = " … ") -> str:
    """Return both ends of a text of more than `chars` characters, with `gap` between them.

    Each end has half of `chars` characters, rounded down. A shorter text is returned whole.

    >>> without_middle("abcdefgh", chars=4)
    'ab … gh'
    """
    half = chars // 2
    return text if len(text) <= chars else f"{text[:half]}{gap}{text[-half:]}"


def cells_of(text: str) -> int:
    """Return the width of a line in terminal cells; control characters take none.

    >>> cells_of("漢字"), cells_of("👨‍👩‍👧"), cells_of("x̄")
    (4, 2, 1)
    """
    return width(text, control_codes="ignore")


# Words of English sentences that are neither words of code nor names.
_ENGLISH = frozenset({
    "are", "can", "could", "do", "does", "hello", "hey", "hi", "how", "me", "my", "of", "please", "thanks",
    "that", "the", "there", "these", "this", "those", "to", "was", "were", "what", "when", "where", "which",
    "who", "why", "would", "you", "your",
})  # fmt: skip
# A line of ASCII letters with this many words is a sentence.
_SENTENCE = 4


def newest_language(messages: list[AnyMessage], otherwise: Language = "en") -> Language:
    """Return the language of the user's newest message that is a sentence.

    Commands, names, pasted code and random letters are skipped. If no message is left, it is the
    language of the newest answer or notice; if there is none either, `otherwise`.
    """
    for message in reversed(messages):
        text = text_of(message) if message.type == "human" and not message.name else ""
        # "ＯＫ", typed with a Japanese keyboard, is "OK".
        text = normalize("NFKC", without_files(text)).strip()
        # Digits, signs, a name or pasted code say nothing about the language.
        if not text.startswith("/") and re.search(r"[^\W\d_]{2}", text):
            words = re.findall("[a-z]{2,}", text.lower())
            foreign = re.search(r"[^\W\d_a-zA-Z]", text)
            is_sentence = len(words) >= _SENTENCE and "\n" not in text
            if foreign or is_sentence or _ENGLISH.intersection(words):
                return language_of(text)
    # An undo can remove every question; the notice that is left is in their language.
    answers = (text_of(message) for message in reversed(messages) if message.type == "ai")
    newest = next(filter(None, answers), "")
    return language_of(newest) if newest else otherwise


MediaKind = Literal["image", "file", "audio", "video"]

# Types of the content blocks that hold thinking. Source: Anthropic (`thinking`,
# `redacted_thinking`), Bedrock Converse as langchain-aws writes it (`reasoning_content`),
# LangChain's standard blocks and OpenAI's Responses (`reasoning`).
THINKING_TYPES = frozenset({"thinking", "redacted_thinking", "reasoning_content", "reasoning"})

# Types of the content blocks that repeat a tool call of `AIMessage.tool_calls`. Source: Anthropic
# (`tool_use`), LangChain's standard blocks (`tool_call`), OpenAI's Responses (`function_call`).
CALL_TYPES = frozenset({"tool_use", "tool_call", "function_call"})

_MEDIA_TYPES: Mapping[MediaKind, tuple[str, ...]] = {
    "image": ("image", "image_url"),
    "file": ("file", "document", "input_file", "text-plain"),
    "audio": ("audio", "input_audio"),
    "video": ("video", "video_url"),
}
_MEDIA = {name: kind for kind, names in _MEDIA_TYPES.items() for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinking:
    """What a model wrote before its answer, which the provider may sign or hide."""

    text: str  # empty if the provider hides it
    signature: str | None = None  # the provider's proof that it wrote the text
    redacted: str | bytes | None = None  # the encrypted text of a hidden block

    @property
    def signed(self) -> bool:
        """Whether the provider can verify that it wrote this."""
        return bool(self.signature or self.redacted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A piece of a message's text."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool call of an assistant."""

    id: str  # empty if the provider gave none
    name: str
    args: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The result of one tool call."""

    tool_call_id: str
    content: str  # its text; images and files follow as `Media`
    is_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """An image, file, recording or video block of a message."""

    kind: MediaKind
    block: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Other:
    """A content block of any other type."""

    block: dict[str, Any]


Part = Thinking | Text | ToolCall | ToolResult | Media | Other


def parts_of(message: BaseMessage) -> tuple[Part, ...]:
    """Return the parts of a message: thinking first, then the other content, then tool calls.

    Text, media and blocks of other types (`Other`) stay in their order; empty texts are left out.
    A tool message gives its result, with all its text, then its other blocks.
    """
    parts = [part for part in map(_part, blocks_of(message)) if part is not None]
    if isinstance(message, ToolMessage):
        result = ToolResult(
            tool_call_id=message.tool_call_id,
            content=text_of(message),
            is_error=message.status == "error",
        )
        return (result, *(part for part in parts if not isinstance(part, Text)))
    return (*sorted(parts, key=lambda part: not isinstance(part, Thinking)), *calls_of(message))


def calls_of(message: BaseMessage) -> tuple[ToolCall, ...]:
    """Return the tool calls of an assistant's message; calls only in content blocks come last.

    For other messages the result is empty.
    """
    if not isinstance(message, AIMessage):
        return ()
    declared = [
        ToolCall(id=call["id"] or "", name=call["name"], args=call["args"])
        for call in message.tool_calls
    ]
    declared_ids = {call.id for call in declared}
    block_calls = [
        ToolCall(
            id=block.get("id") or "",
            name=block.get("name") or "",
            args=args if isinstance(args := block.get("input", block.get("args")), dict) else {},
        )
        for block in blocks_of(message)
        if block.get("type") in ("tool_use", "tool_call")
        and (block.get("id") or "") not in declared_ids
    ]
    return (*declared, *block_calls)


def blocks_of(message: BaseMessage) -> Iterator[dict[str, Any]]:
    """Yield the content of a message as blocks; text outside of blocks becomes a text block."""
    content = [message.content] if isinstance(message.content, str) else message.content
    for block in content:
        yield {"type": "text", "text": block} if isinstance(block, str) else block


def is_thinking(block: Mapping[str, Any]) -> bool:
    """Return whether a content block holds thinking."""
    return str(block.get("type")) in THINKING_TYPES


def message_of(parts: Iterable[Part], *, message_id: str | None = None) -> AIMessage:
    """Return an assistant's message made of parts in any order: thinking first, calls last.

    Tool results, which are messages of their own, are left out.
    """
    all_parts = list(parts)
    calls = [part for part in all_parts if isinstance(part, ToolCall)]
    thinking = [_thinking_block(part) for part in all_parts if isinstance(part, Thinking)]
    spoken = [part for part in all_parts if isinstance(part, Text | Media | Other)]
    texts = [part.text for part in spoken if isinstance(part, Text)]
    content: Any = "".join(texts)
    if thinking or len(spoken) > 1 or len(spoken) > len(texts):
        blocks = (
            {"type": "text", "text": part.text} if isinstance(part, Text) else part.block
            for part in spoken
            if part != Text(text="")
        )
        content = [*thinking, *blocks]
    return AIMessage(
        content=content,
        tool_calls=[{"id": call.id, "name": call.name, "args": call.args} for call in calls],
        id=message_id,
    )


def _thinking_block(part: Thinking) -> dict[str, Any]:
    if part.redacted:
        return {"type": "redacted_thinking", "data": part.redacted}
    signed = {"signature": part.signature} if part.signature else {}
    return {"type": "thinking", "thinking": part.text, **signed}


def _part(block: dict[str, Any]) -> Part | None:
    kind = str(block.get("type"))
    if kind == "text":
        return Text(text=block["text"]) if block.get("text") else None
    if kind in CALL_TYPES:
        return None
    if kind in _MEDIA:
        return Media(kind=_MEDIA[kind], block=block)
    return thinking_in(block) or Other(block=block)


def thinking_in(block: Mapping[str, Any]) -> Thinking | None:
    """Return the thinking in a content block; `None` for a block of another type."""
    if not is_thinking(block):
        return None
    kind = block["type"]
    if kind == "redacted_thinking":
        return Thinking(text="", redacted=block.get("data"))
    if kind == "thinking":
        return Thinking(text=block.get("thinking") or "", signature=block.get("signature") or None)
    if kind == "reasoning_content":
        inner = block.get("reasoning_content")
        inner = inner if isinstance(inner, Mapping) else {"text": inner}
        return Thinking(
            text=inner.get("text") or "",
            signature=inner.get("signature") or None,
            redacted=inner.get("redacted_content") or None,
        )
    summary = (str(part.get("text", "")) for part in block.get("summary") or ())
    text = str(block["reasoning"] or "") if "reasoning" in block else "\n\n".join(summary)
    # The proof is a signature, or what OpenAI encrypted or stored under an id. Source: OpenAI answers
    # 400 where a function call comes back "without its required 'reasoning' item: 'rs_...'".
    extras = block.get("extras") or {}
    proof = extras.get("signature") or block.get("encrypted_content")
    proof = proof or extras.get("encrypted_content")
    if not proof and str(block.get("id") or "").startswith("rs_"):
        proof = str(block["id"])
    return Thinking(text=text, signature=proof)


def question_content(text: str, images: Sequence[str]) -> str | list[str | dict[str, Any]]:
    """Return the content of a user's message: the text, and with images a list of blocks.

    Each image is a URL; that of an image in the message itself is `data:image/png;base64,…`. Raises
    `InputError` if an image is another text than these.
    """
    blocks: list[str | dict[str, Any]] = []
    for url in images:
        kind, _, data = url.removeprefix("data:").partition(";base64,")
        if url.startswith("data:image/") and data:
            blocks.append({"type": "image", "base64": data, "mime_type": kind})
        elif url.startswith(("https://", "http://")):
            blocks.append({"type": "image", "url": url})
        else:
            raise InputError(
                f"{url[:40]!r} is not an image: give a URL, or data:image/png;base64,…"
            )
    return [{"type": "text", "text": text}, *blocks] if blocks else text


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
    excerpt = clip(text if preview is None else preview, PREVIEW_CHARS)
    fields = {
        "omitted": True,
        "reason": REASON,
        "bytes": size_of(text),
        "preview": excerpt,
        "bounds": dict(bounds) if bounds is not None else {"limit_bytes": limit_bytes},
    }
    if call_id is not None:
        fields["read"] = {"tool": READ_TOOL, "tool_call_id": call_id}
    while True:
        note = _json({**fields, "preview": excerpt})
        fits = size_of(excerpt) <= limit_bytes and size_of(note) <= max(limit_bytes, SMALLEST)
        if fits or not excerpt or preview is not None:  # a tool's own preview is not shortened
            return note
        excerpt = clip(excerpt, len(excerpt) // 2)


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


OFFLOADED = "offloaded"  # the source that stands for all offloaded messages
M = TypeVar("M", bound=Mapping[str, Any])


def words_of(message: BaseMessage) -> list[Any]:
    """Return a message's role, text and other parts, for comparing two messages.

    Thinking and the form of the content are left out: front ends change them.
    """
    calls = isinstance(message, AIMessage) and message.tool_calls
    if isinstance(message.content, str) and not calls and message.type != "tool":
        return [message.type, message.content, []]
    others = [part for part in parts_of(message) if not isinstance(part, Text | Thinking)]
    return [message.type, text_of(message), others]


def sources_of(messages: Iterable[BaseMessage], offloaded: object = None) -> list[str]:
    """Return a short hash of each message's words, and `OFFLOADED` if `offloaded` is true.

    Slashes at the beginning do not count: a model is sent one less than a person typed.
    """
    return [*map(_source, messages), *([OFFLOADED] if offloaded else [])]


def checksum_of(messages: Iterable[BaseMessage]) -> int:
    """Return a checksum of the messages' words; those of two lists add up to that of both together."""
    return sum(int(_source(message), 16) for message in messages)


def _source(message: BaseMessage) -> str:
    kind, text, others = words_of(message)
    words = repr([kind, text.lstrip("/"), others]).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(words, digest_size=5).hexdigest()


def has_sources(made: Mapping[str, Any], sources: Collection[str]) -> bool:
    """Return whether all messages of which a summary or lesson was made are among `sources`.

    If one is missing, it was removed or rewritten, and no model may be sent its words again.
    """
    return made.get("summary", "") is None or set(made.get("sources", ())).issubset(sources)


def relocated(
    made: M, *, gone: Collection[str] = (), back: Iterable[str] = (), offloaded: object
) -> M:
    """Return what was made of messages after some were offloaded (`gone`) or loaded (`back`).

    Both are `sources_of` messages; `offloaded` is true if there are offloaded messages now.
    """
    sources = made.get("sources", [])
    kept_sources = [each for each in sources if each not in gone and each != OFFLOADED]
    if len(kept_sources) == len(sources):
        return made
    return cast(
        "M", {**made, "sources": [*kept_sources, *back, *([OFFLOADED] if offloaded else [])]}
    )
