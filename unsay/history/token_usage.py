"""Tokens and cost of messages, as their models reported them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from unsay.context.manifest import manifest_in
from unsay.messages.annotations import annotation_of
from unsay.tokens.pricing import MICROS, Tally, amount_of, reply_prices, usage_of

# Identifies a message; an id alone does not, since some servers give two messages the same id.
Key = tuple[str | None, str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens that models read and wrote, as they reported them.

    `cached` is the part of the input from the provider's cache. `micros` is the cost in millionths
    of the prices' currency; 0 if no price is known.
    """

    input: int = 0
    output: int = 0
    total: int = 0
    cached: int = 0
    micros: int = 0

    @property
    def cost(self) -> float:
        """Cost in the currency of the prices."""
        return self.micros / MICROS

    def __add__(self, other: "Tokens") -> "Tokens":
        names = [field.name for field in fields(Tokens)]
        return Tokens(**{name: getattr(self, name) + getattr(other, name) for name in names})

    def __str__(self) -> str:
        return f"{self.total} tokens ({self.input} in, {self.output} out)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Tokens that a conversation used; each message counts once, also on several branches.

    `live` counts the transcript, `abandoned` the drafts and answers that were removed and not
    restored. Without `is_whole`, some messages could not be counted, and the sums are too low.
    """

    live: Tokens
    abandoned: Tokens
    judging: Tokens = Tokens()
    summaries: Tokens = Tokens()
    titles: Tokens = Tokens()
    is_whole: bool = True

    @property
    def total(self) -> Tokens:
        """Sum of all parts."""
        return sum((getattr(self, purpose) for purpose in PURPOSES), Tokens())

    def __str__(self) -> str:
        shown = (name for name in PURPOSES if name in PURPOSES[:2] or getattr(self, name).total)
        return "; ".join(f"{name}: {getattr(self, name)}" for name in shown)


# The fields of `Spent` that count tokens, in the order of a report.
PURPOSES = ("live", "abandoned", "judging", "summaries", "titles")


def tokens_of(
    messages: Iterable[BaseMessage],
    prices: Mapping[str, Mapping[Any, float]] | None = None,
    model: str | None = None,
    fallback: str | None = None,
) -> Tokens:
    """Return the sum of the tokens of messages, each counted once; copies of `pick` do not count.

    Only assistant messages with the usage that their provider reported are counted. `prices` are by
    model name, in a currency for a million tokens; without a price the cost is 0. `model` is used
    for messages that do not name their model, and for the thread's own answers by a name without a
    price, unless this is the name of the `fallback` model.
    """
    sums = Tokens()
    for message in {key_of(m): m for m in messages if isinstance(m, AIMessage)}.values():
        used = message.usage_metadata
        if not used or "picked" in annotation_of(message):
            continue
        usage, manifest = usage_of(used), manifest_in(message)
        metadata = message.response_metadata
        reported = metadata.get("model_name") or metadata.get("model")
        named = reported or (manifest["model"] if manifest else None) or model
        name = named if isinstance(named, str) else None
        # The thread's own answers have a manifest: their model may report a name without a price.
        asked = model if manifest else None
        known = reply_prices(name, prices or {}, model=asked, fallback=fallback)
        sums += Tokens(
            input=used["input_tokens"],
            output=used["output_tokens"],
            total=used["total_tokens"],
            cached=usage.cache_read,
            micros=amount_of(usage, known).micros,
        )
    return sums


def tokens_in(tallies: Mapping[str, Tally], purpose: str) -> Tokens:
    """Return the tokens counted for one purpose, such as `judge`; zeros if it has no tally."""
    tally = tallies.get(purpose)
    return Tokens() if tally is None else Tokens(**tally)


def key_of(message: BaseMessage) -> Key:
    """Return a key that differs for messages of different id, content or tokens."""
    usage = message.usage_metadata if isinstance(message, AIMessage) else None
    return message.id, repr(message.content), usage["total_tokens"] if usage else 0
