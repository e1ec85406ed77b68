"""Sources: hashes of the messages that a summary was made of, by which a later change is noticed."""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar, cast

from langchain_core.messages import AIMessage, BaseMessage

from unsay.messages.content import Text, Thinking, parts_of, text_of

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
