"""Messages as plain text."""

import re
import unicodedata

from langchain_core.messages import AnyMessage, BaseMessage

from unsay.types import Language

_KANA = re.compile(r"[\u3040-\u30ff\uff66-\uff9f]")
_HAN = re.compile(r"[\u4e00-\u9fff]")
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]")


def text_of(message: BaseMessage) -> str:
    """The words of a message, without its images, files, thinking or tool calls."""
    content = message.content
    if isinstance(content, str):
        return content
    parts = [
        block if isinstance(block, str) else str(block.get("text", ""))
        for block in content
        if isinstance(block, str) or block.get("type") == "text"
    ]
    return "".join(parts)


def has_other_content(message: BaseMessage) -> bool:
    """Whether a message carries something besides text, such as an image or a file."""
    return isinstance(message.content, list) and any(
        isinstance(block, dict) and block.get("type") not in ("text", "thinking", "reasoning")
        for block in message.content
    )


def language_of(text: str) -> Language:
    """The language that a text is answered in: Japanese where it has kana, else English.

    Han characters alone count as Japanese when they outnumber Latin letters.

    >>> language_of("Pythonのデコレータとは?"), language_of("What is a decorator?")
    ('ja', 'en')
    """
    if _KANA.search(text):
        return "ja"
    return "ja" if len(_HAN.findall(text)) > len(_LATIN.findall(text)) else "en"


def preview(text: str, limit: int = 60) -> str:
    r"""The beginning of a text on one line, at most `limit` characters long.

    >>> preview("one\ntwo three", limit=8)
    'one two…'
    """
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def cells_of(text: str) -> int:
    """How many terminal cells a line takes; East Asian wide characters take two."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def newest_language(messages: list[AnyMessage]) -> Language:
    """The language of the user's newest words that are no order, English without any."""
    for message in reversed(messages):
        text = text_of(message).strip() if message.type == "human" and not message.name else ""
        if text and not text.startswith("/"):
            return language_of(text)
    return "en"
