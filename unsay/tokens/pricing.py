"""Tokens of a call by kind, and their price."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from typing_extensions import TypedDict

from unsay.errors import ConfigurationError, InputError

MICROS = 1_000_000  # costs are whole millionths of the prices' currency, which add up exactly

# Dates and versions at the end of model names. Source: OpenAI, Anthropic, Vertex AI, Bedrock model
# lists.
_VERSION = re.compile(r"(-\d{8}|-\d{4}-\d{2}-\d{2}|-\d{3,4}|-latest|@\w+)?(-v\d+:\d+)?$")
# The region and the maker in front of a model's name on Bedrock.
_MAKER = re.compile(r"^((us|eu|apac|global)\.)?anthropic\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one call by kind; each token is of one kind only."""

    input: int = 0  # tokens of the prompt that the provider's cache was not used for
    output: int = 0  # tokens of the reply, thinking included
    cache_read: int = 0  # tokens of the prompt that came from the provider's cache
    cache_creation: int = 0  # tokens of the prompt that were written to the provider's cache

    def __post_init__(self) -> None:
        _check_counts(self, "input", "output", "cache_read", "cache_creation")

    @property
    def tokens(self) -> int:
        """The sum of the tokens of all kinds, those of the cache included."""
        # Cached tokens count against a budget like others. Source: Shannon, budget manager.
        return self.input + self.output + self.cache_read + self.cache_creation


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Prices of a million tokens of one model; for the cache, `None` means the price of `input`."""

    input: float
    output: float
    cache_read: float | None = None
    cache_creation: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """What a call takes from a budget."""

    tokens: int = 0
    micros: int = 0  # cost in millionths of the prices' currency; 0 if no price is known

    def __post_init__(self) -> None:
        _check_counts(self, "tokens", "micros")


def usage_of(metadata: Mapping[str, object] | None) -> Usage:
    """Return the tokens of a message's `usage_metadata` by kind; a missing count is 0.

    All counts are 0 for `None`.

    `input` is without the tokens that the cache was used for. All lifetimes of cached tokens are
    added up as `cache_creation`.

    Source: langchain-core `UsageMetadata`; langchain-anthropic adds the cache's lifetimes as
    `ephemeral_…`, langchain-openai puts the service tier before a kind (`flex_cache_read`).
    """
    if not metadata:
        return Usage()
    raw_details = metadata.get("input_token_details")
    details = raw_details if isinstance(raw_details, Mapping) else {}
    prompt = _count(metadata.get("input_tokens"))  # LangChain includes the cached tokens
    read_tokens = min(
        prompt, sum(_count(v) for k, v in details.items() if k.endswith("cache_read"))
    )
    write_tokens = sum(
        _count(v)
        for k, v in details.items()
        if k.endswith("cache_creation") or k.startswith("ephemeral_")
    )
    write_tokens = min(prompt - read_tokens, write_tokens)
    return Usage(
        input=prompt - read_tokens - write_tokens,
        output=_count(metadata.get("output_tokens")),
        cache_read=read_tokens,
        cache_creation=write_tokens,
    )


def amount_of(usage: Usage, prices: Prices | None = None) -> Amount:
    """Return what a call takes from budgets: cost rounded up to a millionth, 0 without `prices`."""
    if prices is None:
        return Amount(tokens=usage.tokens)
    read_price = prices.input if prices.cache_read is None else prices.cache_read
    write_price = prices.input if prices.cache_creation is None else prices.cache_creation
    # The price of a million tokens is the price of one token in millionths.
    micros = (
        usage.input * prices.input
        + usage.output * prices.output
        + usage.cache_read * read_price
        + usage.cache_creation * write_price
    )
    return Amount(tokens=usage.tokens, micros=ceil(round(micros, 6)))


def prices_for(
    model: str | None, table: Mapping[str, Mapping[Any, float]], *, needed: bool = False
) -> Prices | None:
    """Return the prices of a model; `None` if the table does not have it, or `model` is `None`.

    With `needed` (for a cost budget) that raises `ConfigurationError`. If the table lacks the whole
    name, the name is tried without the date or version at its end (`-2025-01-01`, `-0613`,
    `-latest`, `@VERSION`, `-v1:0`), then also without Bedrock's beginning, such as `us.anthropic.`.
    """
    name = model or ""
    plain = _VERSION.sub("", name, count=1)
    for model_key in (name, plain, _MAKER.sub("", plain)):
        if model_key in table:
            return Prices(**table[model_key])
    if needed and not name:
        raise ConfigurationError(
            "The model has no name and thus no price, so a cost budget cannot work: give it the attribute "
            "`model_name` with a name in `prices`, or set a budget in tokens"
        )
    if needed:
        raise ConfigurationError(
            f"There is no price for model {model!r}, so a cost budget cannot work: add prices = "
            f'{{"{name}" = {{input = …, output = …}}}} to the settings, or remove the cost budgets'
        )
    return None


def highest_prices(table: Mapping[str, Mapping[Any, float]]) -> Prices:
    """Return the highest price of each kind in a table, for a model whose name is not known."""
    price_list = [Prices(**prices) for prices in table.values()]
    return Prices(
        input=max((each.input for each in price_list), default=0.0),
        output=max((each.output for each in price_list), default=0.0),
        cache_creation=max(
            (each.cache_creation or each.input for each in price_list), default=None
        ),
    )


def reply_prices(
    reported: str | None,
    table: Mapping[str, Mapping[Any, float]],
    *,
    model: str | None,
    fallback: str | None,
) -> Prices | None:
    """Return the prices of a reply: of the name that it reports, else of `model`, which was asked.

    If the reply reports the name of the `fallback` model, that one answered: `None` if it has no
    price. `None` also if the table has neither name.
    """
    prices = prices_for(reported, table)
    if prices is not None or _is_same(reported, fallback):
        return prices
    return prices_for(model, table)


def _is_same(reported: str | None, named: str | None) -> bool:
    """Return whether a reported name is that of a setting, maybe with a version or a provider."""
    if not reported or not named:
        return False
    names = (named, named.partition(":")[2])
    return _VERSION.sub("", reported, count=1) in [_VERSION.sub("", n, count=1) for n in names]


def _count(value: object) -> int:
    return max(0, value) if isinstance(value, int) else 0


def _check_counts(holder: object, *names: str) -> None:
    for name in names:
        value = getattr(holder, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise InputError(f"{name} must be a whole number from 0, got {value!r}")


class Tally(TypedDict):
    """Tokens and cost of the calls of one purpose."""

    input: int  # tokens of prompts, cached ones included
    output: int
    total: int
    micros: int  # cost in millionths of the prices' currency


def tally_of(usage: Usage, amount: Amount) -> Tally:
    """Return the tokens and the cost of one model call; `amount` is that of its `usage`."""
    return Tally(
        input=amount.tokens - usage.output,
        output=usage.output,
        total=amount.tokens,
        micros=amount.micros,
    )


def merged(first: Mapping[str, Tally], second: Mapping[str, Tally]) -> dict[str, Tally]:
    """Return the sums of two mappings of tallies, by purpose; neither mapping is changed."""
    sums: dict[str, Tally] = {}
    for purpose, tally in (*first.items(), *second.items()):
        subtotal = sums.get(purpose, Tally(input=0, output=0, total=0, micros=0))
        sums[purpose] = Tally(
            input=subtotal["input"] + tally["input"],
            output=subtotal["output"] + tally["output"],
            total=subtotal["total"] + tally["total"],
            micros=subtotal["micros"] + tally["micros"],
        )
    return sums
