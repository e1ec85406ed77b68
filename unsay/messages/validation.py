"""Whether a provider would accept a transcript as it stands.

The common law holds for any transcript: every tool call of an assistant is
answered by exactly the tool messages that directly follow it. Each provider
adds its own; a rule holds for a provider exactly when a public document of it,
or LangChain's own conversion, says so.
"""

from collections.abc import Mapping, Sequence

from langchain_core.messages import BaseMessage

from unsay.errors import InputError, TranscriptError
from unsay.messages import call_rules, content_rules, thinking_rules
from unsay.messages.base import Dialect, Fault, Rule
from unsay.messages.provider_rules import ANTHROPIC, BEDROCK, COMMON, GEMINI, OPENAI
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
        call_rules.known_roles,
        call_rules.not_empty,
        call_rules.has_turns,
        call_rules.starts_with_user,
        call_rules.system_first,
        call_rules.ends_with_user,
        call_rules.ends_without_space,
        call_rules.author_names,
        call_rules.call_ids,
        call_rules.results_follow_calls,
        call_rules.results_match_calls,
        call_rules.results_once,
        call_rules.call_ids_differ,
        call_rules.calls_are_parsed,
        call_rules.calls_are_declared,
        call_rules.calls_follow_user,
        call_rules.tool_names,
        call_rules.tool_ids,
        content_rules.known_blocks,
        content_rules.has_content,
        content_rules.no_blank_text,
        content_rules.texts_with_files,
        content_rules.media_sources,
        content_rules.mime_types,
        content_rules.file_names,
        content_rules.file_names_differ,
        thinking_rules.thinking_first,
        thinking_rules.thinking_signed,
        thinking_rules.thinking_own,
        thinking_rules.parts_in_order,
        thinking_rules.thinking_leads,
        thinking_rules.no_thinking_at_end,
        thinking_rules.signatures_decode,
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
