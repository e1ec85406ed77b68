"""What the rules accept is converted: random transcripts, most of them broken somewhere."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from tests.providers.converters import PROVIDERS, convert
from tests.providers.servers import complaints
from tests.providers.test_conversion import AWS_THINKING, FILE, IMAGE, REDACTED, THINKING
from unsay.messages.conformance import faults
from unsay.types import Provider

WORDS = st.sampled_from(["Two.", "一足す一は？", "ok", "a\nb"])
BLANKS = st.sampled_from(["", " ", "\n\n", "ends "])
ODD_IDS = st.sampled_from(["c1", "a.b:0", "x" * 41, "y" * 65])
NAMES = st.sampled_from(["add"] * 8 + ["look_up"] * 8 + ["math.add", "to do"])


def frequent(usual: st.SearchStrategy[Any], odd: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The usual seven times of eight."""
    return st.integers(0, 7).flatmap(lambda number: usual if number else odd)


def text(content: str) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": content}


@st.composite
def blocks(draw: st.DrawFn, extras: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Content blocks: some words among other things, in any order."""
    extra_blocks = draw(st.lists(st.sampled_from(extras), max_size=2))
    block_texts = draw(st.lists(frequent(WORDS, BLANKS), min_size=1, max_size=2))
    blocks = [*extra_blocks, *map(text, block_texts)]
    return draw(frequent(st.just(blocks), st.permutations(blocks)))


UNSIGNED = {"type": "thinking", "thinking": "hm"}
USERS = frequent(st.one_of(WORDS, blocks([IMAGE, IMAGE, FILE])), BLANKS)
ANSWERS = frequent(
    st.one_of(WORDS, blocks([THINKING])),
    st.one_of(BLANKS, blocks([REDACTED, AWS_THINKING, UNSIGNED])),
)
STAMPS = frequent(
    st.just({}), st.sampled_from([{"model_provider": "anthropic"}, {"model_provider": "openai"}])
)


@st.composite
def steps(draw: st.DrawFn) -> list[BaseMessage]:
    """Calls and their results, in any order."""
    fresh = st.uuids().map(lambda identifier: identifier.hex)
    ids = draw(st.lists(frequent(fresh, ODD_IDS), min_size=1, max_size=3, unique=True))
    calls = [
        {"name": draw(NAMES), "args": {}, "id": call_id, "type": "tool_call"} for call_id in ids
    ]
    answer = draw(st.one_of(st.just(""), ANSWERS))
    results = [
        ToolMessage(
            draw(st.one_of(WORDS, st.just(""))),
            tool_call_id=call_id,
            status=draw(st.sampled_from(["success", "error"])),
        )
        for call_id in draw(st.permutations(ids))
    ]
    message = AIMessage(answer, tool_calls=calls, response_metadata=draw(STAMPS))
    return [message, *results]


@st.composite
def turns(draw: st.DrawFn) -> list[BaseMessage]:
    """A user's message and what answers it."""
    messages: list[BaseMessage] = [HumanMessage(draw(USERS))]
    for step in draw(st.lists(steps(), max_size=2)):
        messages += step
    if draw(st.booleans()):
        messages.append(AIMessage(draw(ANSWERS), response_metadata=draw(STAMPS)))
    return messages


def drop(messages: list[BaseMessage], index: int) -> list[BaseMessage]:
    """Without one message."""
    return messages[:index] + messages[index + 1 :]


def double(messages: list[BaseMessage], index: int) -> list[BaseMessage]:
    """With one message twice."""
    return messages[: index + 1] + messages[index:]


def swap(messages: list[BaseMessage], index: int) -> list[BaseMessage]:
    """With one message behind the next."""
    return messages[:index] + messages[index : index + 2][::-1] + messages[index + 2 :]


def instruct(messages: list[BaseMessage], index: int) -> list[BaseMessage]:
    """With a system message before one."""
    return [*messages[:index], SystemMessage("Be short."), *messages[index:]]


def silence(messages: list[BaseMessage], index: int) -> list[BaseMessage]:
    """With one message emptied."""
    return [
        *messages[:index],
        messages[index].model_copy(update={"content": ""}),
        *messages[index + 1 :],
    ]


DAMAGE = st.sampled_from([drop, double, swap, instruct, silence])


@st.composite
def transcripts(draw: st.DrawFn) -> list[BaseMessage]:
    """A few turns, damaged once or not at all."""
    messages = [
        message for turn in draw(st.lists(turns(), min_size=1, max_size=3)) for message in turn
    ]
    damage: Callable[[list[BaseMessage], int], list[BaseMessage]] | None
    damage = draw(st.one_of(st.none(), st.none(), DAMAGE))
    index = draw(st.integers(0, len(messages) - 1))
    return messages if damage is None else damage(messages, index)


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("thinking", [False, True], ids=["plain", "thinking"])
@pytest.mark.parametrize("provider", PROVIDERS)
@given(messages=transcripts())
def test_what_the_rules_accept_arrives(
    provider: Provider, messages: list[BaseMessage], *, thinking: bool
) -> None:
    """It is converted without an error or a warning, and the server has no complaint."""
    is_accepted = not faults(messages, provider, thinking=thinking)
    event(f"accepted: {is_accepted}")
    claude = thinking and provider in ("anthropic", "bedrock")

    if is_accepted:
        assert [] == complaints(convert(messages, provider), provider, thinking=claude)


PLAIN_IDS = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=3, unique=True)


@st.composite
def portable(draw: st.DrawFn) -> list[BaseMessage]:
    """Turns of words, images and tool calls that no provider could mind."""
    messages: list[BaseMessage] = []
    for number in range(draw(st.integers(1, 3))):
        media = draw(st.sampled_from([[], [IMAGE]]))
        messages.append(HumanMessage([text(draw(WORDS)), *media]))
        for step in range(draw(st.integers(0, 2))):
            ids = [f"{plain_id}-{number}-{step}" for plain_id in draw(PLAIN_IDS)]
            calls = [
                {"name": "add", "args": {}, "id": call_id, "type": "tool_call"} for call_id in ids
            ]
            thought = draw(st.sampled_from([[], [THINKING]]))
            messages.append(AIMessage([*thought, text(draw(WORDS))], tool_calls=calls))
            messages += [ToolMessage(draw(WORDS), tool_call_id=call_id) for call_id in ids]
        messages.append(AIMessage(draw(WORDS)))
    return messages


@pytest.mark.parametrize("provider", PROVIDERS)
@given(messages=portable())
def test_a_portable_transcript_is_accepted(provider: Provider, messages: list[BaseMessage]) -> None:
    """The rules find no fault where there is none."""
    assert () == faults(messages, provider)
    assert [] == complaints(convert(messages, provider), provider)
