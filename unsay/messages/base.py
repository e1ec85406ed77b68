"""What a rule finds, and what the rules know of a provider."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from unsay.messages.content import Role

MediaSource = Literal["url", "base64", "file_id", "text", "source", "native"]
"""How a media block gives its data; `source` and `native` are Anthropic's and Bedrock's own forms."""


_ROLES: tuple[tuple[type[BaseMessage], Role], ...] = (
    (HumanMessage, "human"),
    (AIMessage, "ai"),
    (ToolMessage, "tool"),
    (SystemMessage, "system"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One rule that a transcript breaks."""

    index: int
    """Of the message that breaks it; 0 for a transcript without messages."""

    rule: str
    """Its name, stable and short, for example `results_follow_calls`."""

    words: str
    """What is wrong and what would be right, with ids and names by `!r`."""

    source: str
    """The public document that forbids it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Where a rule is broken, before it is known whose rule it is."""

    index: int
    """Of the message that breaks it."""

    words: str
    """What is wrong and what would be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What one provider demands. A rule holds for a provider exactly when a source here says so."""

    sources: Mapping[str, str]
    """For each rule by name, the document that states it."""

    thinking_sources: Mapping[str, str] = field(default_factory=dict)
    """The same for rules that hold only while extended thinking is on."""

    blocks: Mapping[Role, frozenset[str]] = field(default_factory=dict)
    """Types of the content blocks that the provider takes from each role."""

    dropped: frozenset[str] = frozenset()
    """Types of an assistant's blocks that LangChain leaves out on the way to this provider."""

    own: frozenset[str] = frozenset()
    """Values of `response_metadata["model_provider"]` whose thinking the provider knows for its own."""

    translated: frozenset[str] = frozenset()
    """Values of it whose standard `reasoning` blocks LangChain turns into the provider's thinking."""

    strict: bool = False
    """Whether LangChain leaves out those blocks only where another provider wrote the message."""

    blank: str = "whitespace"
    """What counts as blank text: `whitespace`, or only what is `empty`."""

    tool_name: str = ""
    """The pattern of a tool's name."""

    tool_id: str = ""
    """The pattern of a tool call's id."""

    media: Mapping[str, frozenset[MediaSource]] = field(default_factory=dict)
    """For media blocks by type, how their data may be given."""

    mime_types: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """For media blocks by kind, the MIME types that inline data may have."""

    file_name: str = ""
    """The pattern of a file's name."""

    file_name_keys: tuple[str, ...] = ()
    """Keys of a file block, or of its extras, that may hold its name."""

    thinking_types: frozenset[str] = frozenset()
    """Types of the content blocks that reach the provider as thinking."""


Rule = Callable[[Sequence[BaseMessage], Dialect], Iterator[Finding]]


def role_of(message: BaseMessage) -> Role | None:
    """The role of a message; `None` for a message of no role that every provider knows."""
    return next((role for kind, role in _ROLES if isinstance(message, kind)), None)


def written_by(message: BaseMessage) -> str | None:
    """The provider that wrote a message, as its integration noted; `None` when nobody noted it."""
    noted = message.response_metadata.get("model_provider")
    return noted if isinstance(noted, str) else None


def thinks(message: BaseMessage, block: Mapping[str, Any], dialect: Dialect) -> bool:
    """Whether a block reaches the provider as thinking."""
    kind = block.get("type")
    if dialect.own and written_by(message) not in (None, *dialect.own):
        return False
    if kind == "reasoning" and is_v1(message) and written_by(message) in dialect.translated:
        return True
    return kind in dialect.thinking_types


def is_dropped(message: BaseMessage, kind: str, dialect: Dialect) -> bool:
    """Whether LangChain leaves an assistant's block of this type out on the way."""
    return kind in dialect.dropped and not (dialect.strict and written_by(message) in dialect.own)


def is_v1(message: BaseMessage) -> bool:
    """Whether a message's content is in LangChain's standard blocks, whoever wrote it."""
    return message.response_metadata.get("output_version") == "v1"
