"""What a call used, and what that costs."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unsay.errors import ConfigurationError, InputError
from unsay.tokens.pricing import Amount, Prices, Usage, amount_of, prices_for, usage_of

PRICES = Prices(input=2.5, output=10.0, cache_read=1.25, cache_creation=3.125)
TABLE = {
    "gpt-4.1": {"input": 2.0, "output": 8.0, "cache_read": 0.5},
    "claude-sonnet-4-5": {"input": 3.0, "output": 15.0},
    "exact-2024-08-06": {"input": 1.0, "output": 1.0},
}


@pytest.mark.parametrize(
    ("metadata", "usage"),
    [
        pytest.param(None, Usage(), id="nothing reported"),
        pytest.param({}, Usage(), id="empty"),
        pytest.param(
            {"input_tokens": 5, "output_tokens": 7, "total_tokens": 12},
            Usage(input=5, output=7),
            id="no cache",
        ),
        pytest.param(
            {
                "input_tokens": 100,
                "output_tokens": 7,
                "input_token_details": {"cache_read": 60, "cache_creation": 30, "audio": 4},
            },
            Usage(input=10, output=7, cache_read=60, cache_creation=30),
            id="both kinds of cache",
        ),
        pytest.param(
            {
                "input_tokens": 100,
                "output_tokens": 7,
                "input_token_details": {
                    "cache_creation": 0,
                    "ephemeral_5m_input_tokens": 20,
                    "ephemeral_1h_input_tokens": 5,
                },
            },
            Usage(input=75, output=7, cache_creation=25),
            id="by lifetime, as Anthropic tells",
        ),
        pytest.param(
            {
                "input_tokens": 100,
                "output_tokens": 7,
                "input_token_details": {"flex_cache_read": 40, "flex": 60},
            },
            Usage(input=60, output=7, cache_read=40),
            id="by service tier, as OpenAI tells",
        ),
        pytest.param(
            {
                "input_tokens": 10,
                "output_tokens": None,
                "input_token_details": {"cache_read": 99, "cache_creation": None},
            },
            Usage(cache_read=10),
            id="more from the cache than there was",
        ),
        pytest.param(
            {
                "input_tokens": 10,
                "output_tokens": 1,
                "input_token_details": {"cache_read": 4, "cache_creation": 99},
            },
            Usage(output=1, cache_read=4, cache_creation=6),
            id="more to the cache than there was",
        ),
        pytest.param(
            {"input_tokens": 10, "output_tokens": 1, "input_token_details": None},
            Usage(input=10, output=1),
            id="no details",
        ),
    ],
)
def test_each_token_is_of_one_kind(metadata: dict[str, Any] | None, usage: Usage) -> None:
    """LangChain's sums hold the cached tokens, ours do not hold them twice."""
    assert usage == usage_of(metadata)


def test_cached_tokens_count_in_full_and_cost_their_own_price() -> None:
    """A budget of tokens sees all of them, a budget of cost each at its price."""
    usage = Usage(input=100, output=50, cache_read=500, cache_creation=200)

    assert Amount(tokens=850, micros=250 + 500 + 625 + 625) == amount_of(usage, PRICES)
    assert Amount(tokens=850) == amount_of(usage)


def test_without_a_price_of_their_own_cached_tokens_cost_what_others_do() -> None:
    """No discount is guessed."""
    plain = Prices(input=2.0, output=4.0)

    assert amount_of(Usage(input=30), plain) == amount_of(
        Usage(input=10, cache_read=10, cache_creation=10), plain
    )


@pytest.mark.parametrize(
    ("price", "count", "micros"),
    [
        pytest.param(0.1, 3, 1, id="a part counts as a whole"),
        pytest.param(0.1, 30, 3, id="but not what only a float has"),
        pytest.param(0.0, 10**6, 0, id="nothing for nothing"),
        pytest.param(75.0, 10**6, 75_000_000, id="a million at its price"),
    ],
)
def test_a_cost_is_a_whole_number_of_millionths(price: float, count: int, micros: int) -> None:
    """Rounded up, so that no sum comes out under the bill."""
    assert micros == amount_of(Usage(input=count), Prices(input=price, output=0)).micros


@pytest.mark.parametrize(
    ("model", "price"),
    [
        pytest.param("gpt-4.1", 2.0, id="its name"),
        pytest.param("gpt-4.1-2025-04-14", 2.0, id="with a date"),
        pytest.param("claude-sonnet-4-5-20250929", 3.0, id="with a date without dashes"),
        pytest.param("claude-sonnet-4-5@20250929", 3.0, id="with a version"),
        pytest.param("claude-sonnet-4-5-latest", 3.0, id="the latest"),
        pytest.param("exact-2024-08-06", 1.0, id="a date that has a price of its own"),
        pytest.param("gpt-4.1-mini", None, id="another model whose name begins so"),
        pytest.param("", None, id="no name"),
        pytest.param(None, None, id="nobody knows which"),
    ],
)
def test_a_model_has_its_own_price(model: str | None, price: float | None) -> None:
    """A date behind the name is the same model; any other word behind it is not."""
    model_prices = prices_for(model, TABLE)

    assert price == (model_prices and model_prices.input)


def test_a_price_that_is_needed_and_missing_is_an_error() -> None:
    """A budget of cost that would count nothing is not kept up for show."""
    with pytest.raises(
        ConfigurationError, match=r"no price for model 'gpt-5'.* add prices = .*gpt-5"
    ):
        prices_for("gpt-5", TABLE, needed=True)


@pytest.mark.parametrize("value", [-1, 1.5, True, "1", None])
@pytest.mark.parametrize(
    ("kind", "name"),
    [(Usage, "input"), (Usage, "cache_read"), (Amount, "tokens"), (Amount, "micros")],
)
def test_what_is_no_count_is_refused(kind: type[Usage | Amount], name: str, value: Any) -> None:
    """Neither a usage nor an amount can be less than nothing, or a part of a token."""
    with pytest.raises(
        InputError, match=re.escape(f"{name} must be a whole number from 0, got {value!r}")
    ):
        kind(**{name: value})


COUNTS = st.integers(0, 10**6)
USAGES = st.builds(Usage, input=COUNTS, output=COUNTS, cache_read=COUNTS, cache_creation=COUNTS)


@given(usage=USAGES)
def test_what_langchain_adds_up_is_taken_apart(usage: Usage) -> None:
    """For all kinds, reading LangChain's form of a usage gives the usage."""
    metadata = {
        "input_tokens": usage.input + usage.cache_read + usage.cache_creation,
        "output_tokens": usage.output,
        "total_tokens": usage.tokens,
        "input_token_details": {
            "cache_read": usage.cache_read,
            "cache_creation": usage.cache_creation,
        },
    }

    assert usage == usage_of(metadata)


@given(usages=st.lists(USAGES, max_size=6), price=st.floats(0, 1_000))
def test_counted_costs_are_at_most_a_millionth_a_call_over_the_price(
    usages: list[Usage], price: float
) -> None:
    """And never under it by more than the rounding of the bill itself."""
    prices = Prices(input=price, output=price)
    micros = sum(amount_of(usage, prices).micros for usage in usages)
    bill = sum(usage.tokens for usage in usages) * price

    assert bill - 0.01 <= micros <= bill + len(usages) + 0.01
