"""Whether a provider would accept a transcript as it stands.

The common law holds for any transcript: every tool call of an assistant is
answered by exactly the tool messages that directly follow it. Each provider
adds its own; a rule holds for a provider exactly when a public document of it,
or LangChain's own conversion, says so.
"""

from collections.abc import Mapping, Sequence

from langchain_core.messages import BaseMessage

from unsay.errors import InputError, TranscriptError
from unsay.transcript import (
    rules_calls,
    rules_content,
    rules_media,
    rules_thinking,
    rules_turns,
)
from unsay.transcript.rules_anthropic import ANTHROPIC
from unsay.transcript.rules_base import Dialect, Fault, Rule
from unsay.transcript.rules_bedrock import BEDROCK
from unsay.transcript.rules_common import COMMON
from unsay.transcript.rules_gemini import GEMINI
from unsay.transcript.rules_openai import OPENAI
from unsay.types import Provider

__all__ = ["DIALECTS", "RULES", "Fault", "faults", "validate"]

DIALECTS: Mapping[Provider, Dialect] = {
    "openai": OPENAI,
    "anthropic": ANTHROPIC,
    "bedrock": BEDROCK,
    "gemini": GEMINI,
}
"""The providers whose demands are known."""

RULES: Mapping[str, Rule] = {
    rule.__name__: rule
    for rule in (
        rules_turns.known_roles,
        rules_turns.not_empty,
        rules_turns.has_turns,
        rules_turns.starts_with_user,
        rules_turns.system_first,
        rules_turns.ends_with_user,
        rules_turns.ends_without_space,
        rules_turns.author_names,
        rules_calls.call_ids,
        rules_calls.results_follow_calls,
        rules_calls.results_match_calls,
        rules_calls.results_once,
        rules_calls.call_ids_differ,
        rules_calls.calls_are_parsed,
        rules_calls.calls_are_declared,
        rules_calls.calls_follow_user,
        rules_calls.tool_names,
        rules_calls.tool_ids,
        rules_content.known_blocks,
        rules_content.has_content,
        rules_content.no_blank_text,
        rules_content.texts_with_files,
        rules_media.media_sources,
        rules_media.mime_types,
        rules_media.file_names,
        rules_media.file_names_differ,
        rules_thinking.thinking_first,
        rules_thinking.thinking_signed,
        rules_thinking.thinking_own,
        rules_thinking.parts_in_order,
        rules_thinking.thinking_leads,
        rules_thinking.no_thinking_at_end,
        rules_thinking.signatures_decode,
    )
}
"""Every rule by the name that a fault bears."""


def faults(
    messages: Sequence[BaseMessage],
    provider: Provider | None = None,
    *,
    thinking: bool = False,
) -> tuple[Fault, ...]:
    """Everything that would make a provider refuse these messages, oldest message first.

    Args:
        messages: Oldest first, as they would be sent.
        provider: Whose rules hold; `None` for the common law alone.
        thinking: Whether extended thinking is on for the call.

    Raises:
        InputError: The provider is not one that the rules know.
    """
    dialect = _dialect(provider)
    sources = {**dialect.sources, **(dialect.thinking_sources if thinking else {})}
    found = [
        Fault(index=each.index, rule=name, words=each.words, source=sources[name])
        for name, rule in RULES.items()
        if name in sources
        for each in rule(messages, dialect)
    ]
    return tuple(sorted(found, key=lambda fault: fault.index))


def validate(
    messages: Sequence[BaseMessage],
    provider: Provider | None = None,
    *,
    thinking: bool = False,
) -> None:
    """Refuse messages that a provider would refuse.

    Args:
        messages: Oldest first, as they would be sent.
        provider: Whose rules hold; `None` for the common law alone.
        thinking: Whether extended thinking is on for the call.

    Raises:
        TranscriptError: A rule is broken; the text names the first message that
            breaks one, the rule, and what would be right.
        InputError: The provider is not one that the rules know.
    """
    found = faults(messages, provider, thinking=thinking)
    if not found:
        return
    first, others = found[0], len(found) - 1
    more = f" ({others} more: see `faults`.)" if others else ""
    raise TranscriptError(
        f"Message {first.index} breaks {first.rule!r} of {provider or 'every provider'!r}: "
        f"{first.words}{more} Source: {first.source}."
    )


def _dialect(provider: Provider | None) -> Dialect:
    if provider is None:
        return COMMON
    if provider not in DIALECTS:
        raise InputError(f"The provider {provider!r} is not one of {sorted(DIALECTS)!r} or None.")
    return DIALECTS[provider]
