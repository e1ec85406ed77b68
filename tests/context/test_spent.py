from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from unsay.context.manifest import Manifest, Spent, Tokens, tokens_in, tokens_of, with_manifest
from unsay.messages.annotations import annotate

MANIFEST = Manifest(
    sent="1",
    by_rule={},
    parts={},
    window=0,
    question="q",
    digest="d",
    attempt=1,
    call=1,
    model="m",
)
PRICES = {"m": {"input": 2.0, "output": 10.0, "cache_read": 0.5}}


def answer(name: str = "a", cached: int = 0, **metadata: Any) -> AIMessage:
    """An answer that cost 100 tokens in and 10 out."""
    usage: Any = {
        "input_tokens": 100,
        "output_tokens": 10,
        "total_tokens": 110,
        "input_token_details": {"cache_read": cached},
    }
    return AIMessage(name, id=name, usage_metadata=usage, response_metadata=metadata)


def test_each_message_counts_once() -> None:
    """Repeated messages, and those of a person or from elsewhere, cost nothing."""
    picked_answer = annotate(answer("p"), picked="t")
    messages = [
        answer("a"),
        answer("b", cached=60),
        answer("a"),
        HumanMessage("q", id="q"),
        picked_answer,
    ]
    assert Tokens(input=200, output=20, total=220, cached=60) == tokens_of(messages)


@pytest.mark.parametrize(
    ("message", "model", "micros"),
    [
        (answer(model_name="m"), None, 300),
        (answer(cached=60, model_name="m"), None, 40 * 2 + 60 * 0.5 + 100),
        (answer(model_name="m-2025-04-14"), None, 300),
        (answer(), "m", 300),
        (answer(), None, 0),
        (answer(model_name="other"), "m", 0),
        (answer(model_name="m-0613"), None, 300),
        (answer(model_name="m-001"), None, 300),
        (answer(model_name="us.anthropic.m-20240620-v1:0"), None, 300),
        (answer(model_name="m-turbo"), None, 0),
        (with_manifest(answer(model_name="alias"), MANIFEST), "m", 300),
        (with_manifest(answer(), MANIFEST), None, 300),
    ],
    ids=["its own name", "cached", "a dated name", "the setting's", "nobody knows", "no price",
         "a short date", "a version", "Bedrock", "another model", "the thread's own answer",
         "the manifest's name"],
)  # fmt: skip
def test_what_a_message_cost_follows_its_model(
    message: AIMessage, model: str | None, micros: int
) -> None:
    """The price is that of the model which answered; without one there is no cost."""
    tokens = tokens_of([message], PRICES, model)
    assert (micros, micros / 1_000_000) == (tokens.micros, tokens.cost)


@pytest.mark.parametrize(
    ("fallback", "micros"),
    [("backup", 0), ("openai:backup", 0), ("backup-2025-04-14", 0), ("third", 300), (None, 300)],
)
def test_a_fallback_without_a_price_costs_nothing(fallback: str | None, micros: int) -> None:
    """It does not cost what the configured model would have."""
    fallback_answer = with_manifest(answer(model_name="backup"), MANIFEST)
    assert micros == tokens_of([fallback_answer], PRICES, "m", fallback).micros


def test_what_was_counted_for_a_purpose_is_read() -> None:
    """A purpose that nothing was booked under cost nothing."""
    usage: Any = {"judge": {"input": 5, "output": 2, "total": 7, "micros": 9}}
    assert Tokens(input=5, output=2, total=7, micros=9) == tokens_in(usage, "judge")
    assert Tokens() == tokens_in(usage, "title")


def test_all_purposes_add_up() -> None:
    """The total is that of all parts, and those that cost nothing go unsaid."""
    usage = Spent(
        live=Tokens(input=1, output=2, total=3), abandoned=Tokens(), judging=Tokens(total=4)
    )
    assert 7 == usage.total.total
    assert (
        "live: 3 tokens (1 in, 2 out); abandoned: 0 tokens (0 in, 0 out); "
        "judging: 4 tokens (0 in, 0 out)"
    ) == str(usage)
