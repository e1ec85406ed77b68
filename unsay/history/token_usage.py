"""What messages cost, from what their models said of themselves."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from unsay.context.manifest import manifest_in
from unsay.messages.annotations import mark_of
from unsay.tokens.pricing import MICROS, Tally, amount_of, prices_for, usage_of

Key = tuple[str | None, str, int]
"""A message, told from another that a server gave the same id."""

PriceTable = Mapping[str, Mapping[Any, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """What models read and wrote, as they counted it themselves."""

    input: int = 0
    output: int = 0
    total: int = 0
    cached: int = 0
    """Of the prompts, what came from the provider's cache."""

    micros: int = 0
    """Cost in millionths of the prices' currency; 0 where no price is known."""

    @property
    def cost(self) -> float:
        """In the prices' currency."""
        return self.micros / MICROS

    def __add__(self, other: "Tokens") -> "Tokens":
        return Tokens(
            input=self.input + other.input,
            output=self.output + other.output,
            total=self.total + other.total,
            cached=self.cached + other.cached,
            micros=self.micros + other.micros,
        )

    def __str__(self) -> str:
        return f"{self.total} tokens ({self.input} in, {self.output} out)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a conversation cost; each message counts once, wherever it is now."""

    live: Tokens
    abandoned: Tokens
    """Of the drafts and answers that were taken back and have not returned."""

    judging: Tokens = Tokens()
    summaries: Tokens = Tokens()
    titles: Tokens = Tokens()
    is_whole: bool = True
    """Whether all was looked at; else it is the least that was spent."""

    @property
    def total(self) -> Tokens:
        """All together."""
        return self.live + self.abandoned + self.judging + self.summaries + self.titles

    def __str__(self) -> str:
        named = ("live", "abandoned", "judging", "summaries", "titles")
        shown = (each for each in named if each in named[:2] or getattr(self, each).total)
        return "; ".join(f"{each}: {getattr(self, each)}" for each in shown)


def tokens_of(
    messages: Iterable[BaseMessage], prices: PriceTable | None = None, model: str | None = None
) -> Tokens:
    """What some messages cost; one that is there twice counts once.

    A message that was picked from elsewhere was paid for there. `model` is that of a message that
    does not name its own.
    """
    found = {key_of(m): m for m in messages if isinstance(m, AIMessage)}
    paid = (m for m in found.values() if m.usage_metadata and "picked" not in mark_of(m))
    return sum((_tokens(each, prices or {}, model) for each in paid), Tokens())


def tokens_in(tallies: Mapping[str, Tally], purpose: str) -> Tokens:
    """What was booked under a purpose."""
    booked = tallies.get(purpose)
    return Tokens() if booked is None else Tokens(**booked)


def key_of(message: BaseMessage) -> Key:
    """What makes a message itself: its id and words, and what it cost."""
    usage = message.usage_metadata if isinstance(message, AIMessage) else None
    return message.id, repr(message.content), usage["total_tokens"] if usage else 0


def _tokens(message: AIMessage, prices: PriceTable, model: str | None) -> Tokens:
    used = message.usage_metadata
    assert used is not None  # noqa: S101 - the caller has just seen it
    usage, manifest = usage_of(used), manifest_in(message)
    metadata = message.response_metadata
    named = metadata.get("model_name") or metadata.get("model")
    named = named or (manifest["model"] if manifest else None) or model
    amount = amount_of(usage, prices_for(named if isinstance(named, str) else None, prices))
    return Tokens(
        input=used["input_tokens"],
        output=used["output_tokens"],
        total=used["total_tokens"],
        cached=usage.cache_read,
        micros=amount.micros,
    )
