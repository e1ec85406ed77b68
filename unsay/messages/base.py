"""Registration of rules about transcripts, their reports, and what they know about a provider."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Literal

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

Role = Literal["system", "human", "ai", "tool"]

_ROLES: Mapping[type[BaseMessage], Role] = {
    HumanMessage: "human",
    AIMessage: "ai",
    ToolMessage: "tool",
    SystemMessage: "system",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One rule that a transcript breaks."""

    index: int  # of the message that breaks the rule; 0 for a transcript without messages
    rule: str  # a stable name, for example `results_follow_calls`
    words: str  # what is wrong and how to correct it
    source: str  # the public document that states the rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What one provider requires; a rule applies if it has a source here."""

    sources: Mapping[str, str]  # for each rule by name, the document that states it
    thinking_sources: Mapping[str, str] = field(default_factory=dict)  # while thinking is on
    blocks: Mapping[Role, frozenset[str]] = field(default_factory=dict)  # types it accepts

    dropped: frozenset[str] = frozenset()  # assistant blocks that LangChain leaves out of requests
    strict: bool = False  # whether it does so only where another provider wrote the message

    # Values of `response_metadata["model_provider"]`: those whose thinking the provider recognizes,
    # and those whose standard `reasoning` blocks LangChain turns into the provider's thinking.
    own: frozenset[str] = frozenset()
    translated: frozenset[str] = frozenset()
    thinking_types: frozenset[str] = frozenset()  # blocks that reach the provider as thinking

    blank: Literal["whitespace", "empty"] = "whitespace"  # what counts as blank text

    # Regular expressions that the whole name or id matches.
    tool_name: str = ""
    tool_id: str = ""
    file_name: str = ""
    file_name_keys: tuple[str, ...] = ()  # keys of a file block, or of its extras, with its name

    # Ways to give the data of a media block, by its type; `source` and `native` are Anthropic's and
    # Bedrock's own forms. And the MIME types of inline data, by the kind of media.
    media: Mapping[str, frozenset[str]] = field(default_factory=dict)
    mime_types: Mapping[str, frozenset[str]] = field(default_factory=dict)


Finding = tuple[int, str]  # index of the message that breaks a rule, and the `words` of the fault
Rule = Callable[[Sequence[BaseMessage], Dialect], Iterator[Finding]]

RULES: dict[str, Rule] = {}
"""Every rule by its name, in the order in which the rules are checked."""


def rule(check: Rule) -> Rule:
    """Register a rule about a whole transcript under the function's name."""
    RULES[check.__name__] = check
    return check


def message_rule(check: Callable[[BaseMessage, Dialect], Iterator[str]]) -> Rule:
    """Register a rule about each message by itself under the function's name."""

    @wraps(check)
    def check_all(messages: Sequence[BaseMessage], dialect: Dialect) -> Iterator[Finding]:
        for index, message in enumerate(messages):
            for words in check(message, dialect):
                yield index, words

    return rule(check_all)


def role_of(message: BaseMessage) -> Role | None:
    """Return the role of a message; `None` if some provider does not know it."""
    return next((role for kind, role in _ROLES.items() if isinstance(message, kind)), None)


def is_v1(message: BaseMessage) -> bool:
    """Return whether a message's content is in LangChain's standard blocks."""
    return message.response_metadata.get("output_version") == "v1"
