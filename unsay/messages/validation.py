"""`faults` and `validate`: whether a provider would accept messages unchanged."""

from collections.abc import Mapping, Sequence

from langchain_core.messages import BaseMessage

from unsay.errors import InputError, TranscriptError
from unsay.messages import content_rules  # noqa: F401 - it registers its rules
from unsay.messages.call_rules import RULES, Fault
from unsay.messages.provider_rules import ANTHROPIC, BEDROCK, COMMON, GEMINI, OPENAI, Dialect
from unsay.types import Provider

DIALECTS: Mapping[Provider, Dialect] = {
    "openai": OPENAI,
    "anthropic": ANTHROPIC,
    "bedrock": BEDROCK,
    "gemini": GEMINI,
}


def faults(
    messages: Sequence[BaseMessage], provider: Provider | None = None, *, thinking: bool = False
) -> tuple[Fault, ...]:
    """Return each reason for which a provider would refuse these messages, oldest message first.

    The result is empty if the provider would accept them.

    Args:
        messages: Oldest first, as they would be sent.
        provider: Selects the rules; `None` checks only those that all providers share, such as a
            result directly after each tool call.
        thinking: Whether extended thinking is on for the call.

    Raises:
        InputError: The provider is unknown.
    """
    if provider is not None and provider not in DIALECTS:
        raise InputError(f"The provider {provider!r} is not one of {sorted(DIALECTS)!r} or None.")
    dialect = COMMON if provider is None else DIALECTS[provider]
    sources = {**dialect.sources, **(dialect.thinking_sources if thinking else {})}
    found = [
        Fault(index=index, rule=name, problem=problem, source=sources[name])
        for name, rule in RULES.items()
        if name in sources
        for index, problem in rule(messages, dialect)
    ]
    return tuple(sorted(found, key=lambda fault: fault.index))


def validate(
    messages: Sequence[BaseMessage], provider: Provider | None = None, *, thinking: bool = False
) -> None:
    """Raise an error if a provider would refuse the messages; the arguments are those of `faults`.

    Raises:
        TranscriptError: A rule is broken; the error names the message, the rule and the correction.
        InputError: The provider is unknown.
    """
    found = faults(messages, provider, thinking=thinking)
    if not found:
        return
    first, others = found[0], len(found) - 1
    more = f" ({others} more: see `faults`.)" if others else ""
    raise TranscriptError(
        f"Message {first.index} breaks {first.rule!r} of {provider or 'every provider'!r}: "
        f"{first.problem}{more} Source: {first.source}."
    )
