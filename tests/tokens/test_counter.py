import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool

from benchmarks.seed_estimate import seed_estimate
from unsay.tokens.counter import (
    CALL_TOKENS,
    MEMORY_TOKENS,
    MESSAGE_TOKENS,
    REPLY_TOKENS,
    TOOL_TOKENS,
    Calibration,
    TokenCounter,
)

WORDS = "the quick brown fox jumps over a lazy dog and runs away from all of them "
JAPANESE = "週末の旅行について相談したいのですが、京都でおすすめの宿はありますか。"


def count_words(text: str) -> int:
    """A vocabulary that has a token for each word."""
    return len(text.split())


@tool
def weather(city: str) -> str:
    """Tell the weather of a city."""
    return city


def messages_of(turns: int, text: str = WORDS) -> list[BaseMessage]:
    """Questions and answers of many words."""
    messages: list[BaseMessage] = []
    for turn in range(turns):
        messages += [
            HumanMessage(f"{text} {turn}", id=f"q{turn}"),
            AIMessage(text, id=f"a{turn}"),
        ]
    return messages


def test_a_prompt_is_its_words_and_its_framing() -> None:
    """Each message and the reply's beginning cost what the provider puts around the words."""
    counter = TokenCounter(encode=count_words)
    messages = [SystemMessage("be kind"), HumanMessage("how are you today")]

    assert 6 + 2 * MESSAGE_TOKENS + REPLY_TOKENS == counter.count(messages)


def test_nothing_costs_nothing() -> None:
    """No messages are no tokens."""
    assert TokenCounter().count([]) == 0


def test_a_counter_without_an_encoder_estimates() -> None:
    """A text is near what the real vocabulary has (o200k: 15 tokens), Japanese too (20)."""
    counter = TokenCounter()

    framing = MESSAGE_TOKENS + REPLY_TOKENS
    assert counter.count([HumanMessage(WORDS)]) == pytest.approx(framing + 16, abs=2)
    assert counter.count([HumanMessage(JAPANESE)]) == pytest.approx(framing + 23, abs=4)


def test_a_vocabulary_can_be_named() -> None:
    """Japanese costs more in an older vocabulary."""
    messages = [HumanMessage(JAPANESE * 20)]

    assert TokenCounter(vocabulary="cl100k").count(messages) > 1.2 * TokenCounter().count(messages)


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        pytest.param(HumanMessage("one two", name="ann"), 3, id="a name"),
        pytest.param(HumanMessage([{"type": "text", "text": "one two"}, "three"]), 3, id="blocks"),
        pytest.param(
            AIMessage("", tool_calls=[{"id": "1", "name": "find", "args": {"q": "one two"}}]),
            2 + CALL_TOKENS,
            id="a call",
        ),
        pytest.param(
            AIMessage(
                [{"type": "tool_use", "id": "1", "name": "find", "input": {"q": "one two"}}],
                tool_calls=[{"id": "1", "name": "find", "args": {"q": "one two"}}],
            ),
            2 + CALL_TOKENS,
            id="a call that stands twice",
        ),
        pytest.param(ToolMessage("one two", tool_call_id="1"), 2, id="a result"),
        pytest.param(
            ToolMessage([{"type": "json", "json": {"a": "one two"}}], tool_call_id="1"),
            2,
            id="a result in JSON",
        ),
        pytest.param(
            HumanMessage([{"type": "tool_result", "content": [{"type": "text", "text": "a b"}]}]),
            2,
            id="Anthropic's result",
        ),
        pytest.param(
            AIMessage([{"type": "thinking", "thinking": "one two", "signature": "s" * 400}]),
            2,
            id="a thought without its proof",
        ),
        pytest.param(
            AIMessage([{"type": "reasoning", "summary": [{"type": "x", "text": "one two"}]}]),
            2,
            id="a summary of thoughts",
        ),
        pytest.param(
            AIMessage([{"type": "redacted_thinking", "data": "s" * 400}]), 0, id="a hidden thought"
        ),
        pytest.param(
            AIMessage(
                [
                    {"type": "reasoning_content", "reasoning_content": {"text": "one two"}},
                    {"type": "text", "text": ""},
                ]
            ),
            2,
            id="Bedrock's thought",
        ),
        pytest.param(
            AIMessage(
                [
                    {
                        "type": "reasoning_content",
                        "reasoning_content": {"redacted_content": "s" * 400},
                    }
                ]
            ),
            0,
            id="Bedrock's hidden thought",
        ),
        pytest.param(
            AIMessage(
                [{"type": "reasoning_content", "reasoning_content": {"signature": "s" * 400}}]
            ),
            0,
            id="the proof of Bedrock's thought",
        ),
        pytest.param(
            HumanMessage([{"type": "image_url", "image_url": {"url": "https://example.org"}}]),
            765,
            id="a picture",
        ),
        pytest.param(
            ToolMessage(
                [{"type": "tool_result", "content": [{"type": "image", "url": "https://e.org"}]}],
                tool_call_id="1",
            ),
            765,
            id="a picture in a result",
        ),
        pytest.param(
            HumanMessage(
                [{"type": "document", "source": {"type": "text", "data": "one two three"}}]
            ),
            3,
            id="a document of words",
        ),
        pytest.param(
            HumanMessage([{"type": "text-plain", "text": "one two three"}]), 3, id="a plain file"
        ),
        pytest.param(
            HumanMessage([{"type": "document", "source": {"type": "url", "url": "https://e.org"}}]),
            2_250,
            id="a document behind a link",
        ),
        pytest.param(
            AIMessage(
                "",
                invalid_tool_calls=[{"id": "1", "name": "find", "args": "{one two", "error": None}],
            ),
            2,
            id="a broken call",
        ),
    ],
)
def test_all_of_a_message_is_counted_once(message: BaseMessage, tokens: int) -> None:
    """Words wherever they stand, calls, results, pictures and documents count, proofs do not."""
    counter = TokenCounter(encode=count_words)

    assert tokens + MESSAGE_TOKENS + REPLY_TOKENS == counter.count([message])


@pytest.mark.parametrize(
    "tool",
    [
        pytest.param(weather, id="a tool"),
        pytest.param(
            {"type": "function", "function": {"name": "weather", "description": "of a city"}},
            id="OpenAI's schema",
        ),
        pytest.param({"name": "weather", "input_schema": {"d": "of a city"}}, id="Anthropic's"),
    ],
)
def test_tools_count(tool: Any) -> None:
    """The description of the tools is part of the prompt."""
    counter = TokenCounter(encode=count_words)
    messages = [HumanMessage("hi")]

    assert counter.count(messages, [tool]) >= counter.count(messages) + TOOL_TOKENS + 3


def test_the_last_report_says_what_the_next_prompt_costs() -> None:
    """All up to the last answer costs what its model said; only what follows is counted."""
    usage = {"input_tokens": 900, "output_tokens": 100, "total_tokens": 1_000}
    messages = [
        SystemMessage("be kind"),
        HumanMessage("hello"),
        AIMessage("hi", usage_metadata=usage),
        HumanMessage("how are you"),
    ]

    assert 1_000 + 3 + MESSAGE_TOKENS == TokenCounter(encode=count_words).project(messages)


def test_a_conversation_without_reports_is_counted() -> None:
    """Where no model reported anything, the next prompt is the sum of what is in it."""
    counter = TokenCounter(encode=count_words)

    assert counter.count(messages_of(2), [weather]) == counter.project(messages_of(2), [weather])


def test_a_context_that_continues_a_reported_one_costs_the_report_and_what_was_added() -> None:
    """A prompt is known once it was reported, with any hidden parts."""
    messages = messages_of(3)
    counter = TokenCounter(encode=count_words).observe(messages, {"input_tokens": 5_000}, [weather])
    token_count = counter.count([*messages, HumanMessage("one two")], [weather])

    assert 5_000 == counter.count(messages, [weather])
    assert token_count == pytest.approx(5_000 + (2 + MESSAGE_TOKENS) * counter.ratio, abs=1)


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(messages_of(3)[2:], id="its beginning left out"),
        pytest.param([HumanMessage("other words"), *messages_of(3)[1:]], id="a message changed"),
        pytest.param(messages_of(2), id="its end left out"),
        pytest.param([], id="nothing"),
    ],
)
def test_a_context_that_was_changed_is_counted_again(view: list[BaseMessage]) -> None:
    """A report says nothing of a prompt that does not begin as the reported one did."""
    counter = TokenCounter(encode=count_words).observe(messages_of(3), {"input_tokens": 5_000})

    assert counter.count(view) < 1_000


def test_other_tools_are_another_prompt() -> None:
    """What was reported with tools says nothing of the prompt without them."""
    counter = TokenCounter(encode=count_words).observe(
        messages_of(3), {"input_tokens": 5_000}, [weather]
    )

    assert counter.count(messages_of(3)) < 1_000


def test_reports_correct_the_count() -> None:
    """After a few turns, texts are counted as the model counts them, here half as much again."""
    truth = TokenCounter(encode=lambda text: count_words(text) * 3 // 2)
    counter = TokenCounter(encode=count_words)
    for turns in range(1, 12):
        counter = counter.observe(
            messages_of(turns), {"input_tokens": truth.count(messages_of(turns))}
        )

    other_messages = [HumanMessage(WORDS * 20)]
    assert counter.count(other_messages) == pytest.approx(truth.count(other_messages), rel=0.1)
    assert TokenCounter(encode=count_words).count(other_messages) < 0.7 * truth.count(
        other_messages
    )


def test_what_nobody_counted_is_not_taken_for_a_dearer_vocabulary() -> None:
    """A provider's own instructions, the same in each prompt, hardly change what a text costs."""
    counter = exact = TokenCounter(encode=count_words)
    for turns in range(1, 30):
        counter = counter.observe(
            messages_of(turns), {"input_tokens": 300 + exact.count(messages_of(turns))}
        )

    messages = [HumanMessage(WORDS * 20)]

    assert counter.count(messages) == pytest.approx(exact.count(messages), rel=0.1)


def test_another_vocabulary_is_learned_in_few_turns() -> None:
    """After 100 tokens of texts at twice the count, the next text is counted within 10 %."""
    counter = TokenCounter(encode=count_words)
    messages = list[BaseMessage]()
    tokens_reported = 0
    for turn in range(4):
        new = HumanMessage(f"{WORDS} {turn} " * (25 // count_words(WORDS)))
        messages = [*messages, new]
        tokens_reported = tokens_reported + 2 * count_words(new.text) + MESSAGE_TOKENS
        counter = counter.observe(messages, {"input_tokens": tokens_reported + REPLY_TOKENS})

    assert counter.ratio == pytest.approx(2, rel=0.1)


def test_a_correction_follows_the_conversation() -> None:
    """Where a conversation changes its language, what was learned of the first is forgotten."""
    counter = TokenCounter(encode=count_words)
    messages = list[BaseMessage]()
    tokens_reported = 0
    ratios: list[float] = []
    for turn in range(120):
        new = HumanMessage(f"{WORDS * 20} {turn}")
        messages = [*messages, new]
        price = 2 if turn < 30 else 1
        tokens_reported += price * count_words(new.text) + MESSAGE_TOKENS
        counter = counter.observe(messages, {"input_tokens": tokens_reported + REPLY_TOKENS})
        ratios = [*ratios, counter.ratio]

    assert ratios[29] == pytest.approx(2, abs=0.1)
    assert ratios[-1] == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(
    "usage",
    [None, {}, {"input_tokens": 0}, {"input_tokens": None}, {"input_tokens": -5}],
    ids=repr,
)
def test_a_report_of_nothing_teaches_nothing(usage: dict[str, Any] | None) -> None:
    """A model that reports nothing, or nonsense, leaves the counter as it was."""
    counter = TokenCounter(encode=count_words)

    assert counter is counter.observe(messages_of(1), usage)


def test_a_report_that_cannot_be_of_this_prompt_changes_no_ratio() -> None:
    """A report a hundred times the count is of something else; texts cost what they did."""
    counter = TokenCounter(encode=count_words).observe(messages_of(2), {"input_tokens": 10_000})

    assert 1.0 == counter.ratio


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(-10, 10**9)), max_size=30))
def test_what_is_learned_stays_small_and_plain(reports: list[tuple[int, int]]) -> None:
    """For any report, the calibration is JSON of one size and the ratio is plausible."""
    counter = TokenCounter()
    for turns, tokens_reported in reports:
        counter = counter.observe(messages_of(turns % 4), {"input_tokens": tokens_reported})
    calibration = json.dumps(counter.calibration)

    assert len(calibration) < 250
    assert counter.calibration == json.loads(calibration)
    assert counter.calibration["counted"] <= 2 * MEMORY_TOKENS
    assert 0.2 <= counter.ratio <= 5.0


def test_what_was_learned_can_be_put_away_and_taken_up() -> None:
    """A counter made of what another learned counts as that one."""
    counter = TokenCounter().observe(messages_of(3), {"input_tokens": 130})
    calibration: Calibration = json.loads(json.dumps(counter.calibration))

    assert counter.count(messages_of(5)) == TokenCounter(calibration=calibration).count(
        messages_of(5)
    )


@given(st.lists(st.text(max_size=60), min_size=1, max_size=8))
def test_more_messages_never_cost_less(texts: list[str]) -> None:
    """A prompt with one more message costs at least as much."""
    counter = TokenCounter()
    messages = [HumanMessage(text) for text in texts]

    assert counter.count(messages) >= counter.count(messages[:-1])


def test_the_rule_of_thumb_is_the_seeds() -> None:
    """Four characters a token, five a message, a tenth on top, rounded down."""
    assert 231 == seed_estimate([HumanMessage("a" * 400), AIMessage("b" * 400)])
