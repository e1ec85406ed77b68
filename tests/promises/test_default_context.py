"""Every combination of the defaults, with a model whose window is small, on files."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from langchain_core.tools import tool

from tests.tiers import sampled
from unsay import AsyncConversation, Conversation
from unsay.errors import ContextOverflowError
from unsay.messages.conformance import validate
from unsay.messages.content import text_of
from unsay.testing import Fault, ScriptedChat, ScriptedJudge, ToolCalls
from unsay.testing.scripts import question_of, tokens_of

WINDOW = 2_000
TURNS = 18
STORY = "The train of day {n} leaves the old town for hill {n} and the valley behind it. " * 6
TOO_LONG = "This model's maximum context length is 2000 tokens"


class TooLongError(Exception):
    """What a server answers to a request that does not fit."""

    status_code = 400
    code = "context_length_exceeded"


@tool
def look_up(day: int) -> str:
    """Look up the train of a day."""
    return f"day {day}: " + "platform and carriage, " * 100


def narrow(*, with_tools: bool) -> ScriptedChat:
    """A model that refuses what does not fit into its window."""

    def script(messages: Sequence[BaseMessage]) -> Any:
        question = question_of(messages)
        if sum(len(tokens_of(text_of(message))) for message in messages) > WINDOW:
            return Fault(error=TooLongError(TOO_LONG))
        number = int(question.split()[-1].strip("?"))
        if with_tools and number % 5 == 0 and messages[-1].type == "human":
            return ToolCalls(calls=[{"name": "look_up", "args": {"day": number}}])
        return f"Of day {number}: {STORY.format(n=number)}"

    return ScriptedChat(script=script)


def question(number: int) -> str:
    """A question about the current subject; every tenth changes it."""
    if number % 10 == 9:
        return f"By the way, which bread did bakers of the village bake in winter {number}?"
    return f"Tell me of the train that leaves on day {number}"


COMBINATIONS = [
    pytest.param(
        {"strategy": strategy, "topics": topics, "stream": "held" if with_tools else "live"},
        with_tools,
        id=f"{strategy}-{topics}-{'tools' if with_tools else 'no tools'}",
    )
    for strategy, topics, with_tools in product(
        ("three_stage", "summarizing", "sliding"), ("compaction", "off"), (False, True)
    )
]
COMBINATIONS.append(pytest.param({"recall_tokens": 0}, True, id="no recall"))


@pytest.mark.parametrize(("settings", "with_tools"), sampled(COMBINATIONS, every=3))
def test_a_long_conversation_in_a_small_window(
    settings: dict[str, Any], *, with_tools: bool, tmp_path: Path
) -> None:
    """Each question is answered, each request is valid and fits in the end, nothing is lost."""
    chat = narrow(with_tools=with_tools)
    options = {**settings, "context_window_tokens": WINDOW, "judging": "local"}
    with Conversation.open(
        tmp_path / "t.db", model=chat, tools=[look_up] if with_tools else [], settings=options
    ) as conversation:
        for number in range(TURNS):
            reply = conversation.say(question(number))
            assert f"Of day {number}:" in reply.text
        transcript = conversation.messages()

    texts = [text_of(m) for m in transcript if m.type == "human"]
    assert [question(number) for number in range(TURNS)] == texts
    assert TURNS == sum(text_of(m).startswith("Of day") for m in transcript)
    for call in chat.calls:
        validate(call, "openai")
    refusal_count = sum(
        sum(len(tokens_of(text_of(m))) for m in call) > WINDOW for call in chat.calls
    )
    assert refusal_count <= len(chat.calls) / 4


@pytest.mark.full
async def test_the_default_in_async_code(tmp_path: Path) -> None:
    """The same talk, on an event loop, reopened in the middle."""
    for turn_numbers in (range(9), range(9, TURNS)):
        chat = narrow(with_tools=True)
        async with AsyncConversation.open(
            tmp_path / "t.db",
            thread="t",
            model=chat,
            tools=[look_up],
            judge=ScriptedJudge(),
            settings={"context_window_tokens": WINDOW},
        ) as conversation:
            for number in turn_numbers:
                assert f"Of day {number}:" in (await conversation.say(question(number))).text
            transcript = await conversation.messages()
    assert TURNS == sum(text_of(m).startswith("Of day") for m in transcript)


@pytest.mark.parametrize("tools", [(), (look_up,)], ids=["alone", "with tools"])
def test_words_of_a_call_that_was_too_long_are_taken_back(tmp_path: Path, tools: Any) -> None:
    """A server may report it within a stream; the reply to the shorter context then starts over."""
    faults = [Fault(error=TooLongError(TOO_LONG), after_tokens=3, text="Of the train I know")]

    def script(messages: Sequence[BaseMessage]) -> Any:
        is_long = len(messages) > 8 and faults
        return faults.pop() if is_long else f"About {question_of(messages)} {STORY}"

    settings = {"judging": "off", "topics": "off", "recall_tokens": 0, "strategy": "sliding"}
    chat = ScriptedChat(script=script)
    with Conversation.open(
        tmp_path / "t.db", model=chat, tools=list(tools), settings=settings
    ) as conversation:
        for number in range(4):
            conversation.say(question(number))
        events = [event for event in conversation.stream(question(5)) if event.kind != "phase"]

    (void,) = [event for event in events if event.kind == "draft_rejected"]
    text: dict[str | None, str] = {}
    for event in events:
        if event.kind == "token":
            text[event.message_id] = text.get(event.message_id, "") + event.text
    assert "Of the train I know".startswith(text.pop(void.message_id))
    assert [events[-1].text] == list(text.values())


@pytest.mark.full
def test_nothing_left_out_overflows_and_says_so(tmp_path: Path) -> None:
    """Without a strategy the error has our words, and the question is kept."""
    settings = {"strategy": "null", "topics": "off", "judging": "local"}
    with Conversation.open(
        tmp_path / "t.db", model=narrow(with_tools=False), settings=settings
    ) as conversation:
        with pytest.raises(ContextOverflowError, match="cannot make it smaller"):
            [conversation.say(question(number)) for number in range(TURNS)]
        last = conversation.messages()[-1]
        assert ("human", True) == (last.type, text_of(last).startswith("Tell me"))


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("preset", ["chat", "debugging", "long_task"])
def test_a_conversation_with_a_preset(preset: str, tmp_path: Path) -> None:
    """Each preset works for a whole conversation."""
    settings = {"context_window_tokens": WINDOW, "budget_mode": "soft", "backpressure": ()}
    chat = narrow(with_tools=True)
    with Conversation.open(
        tmp_path / "t.db",
        model=chat,
        tools=[look_up],
        judge=ScriptedJudge(),
        settings={**settings, "preset": preset},
    ) as conversation:
        for number in range(9):
            assert f"Of day {number}:" in conversation.say(question(number)).text
    for call in chat.calls:
        validate(call, "openai")
