import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
)
from langchain_core.tools import tool

from unsay.prompts.catalogue import Texts
from unsay.testing.scripted_models import ScriptedChat
from unsay.testing.scripts import Delay, Fault, ToolCalls, Truncated, tokens_of

LOOK = {"name": "trains", "args": {"to": "Kyoto"}}


@tool
def trains(to: str) -> str:
    """Look up when the next train leaves."""
    return f"9:14 to {to}"


def attempt(number: int, question: str) -> list[BaseMessage]:
    """A question under unsay's own retry prompt."""
    retry = Texts("en").say("retry", attempt=number, reasons="too short")
    return [SystemMessage(f"Be kind.\n\n{retry}"), HumanMessage(question)]


def join_chunks(chunks: Sequence[AIMessageChunk]) -> AIMessageChunk:
    """What LangChain makes of a stream."""
    first, *tail_chunks = chunks
    return first + tail_chunks if tail_chunks else first


@given(st.text())
def test_tokens_join_to_the_text(text: str) -> None:
    """No text loses or gains a character by being cut into tokens."""
    assert text == "".join(tokens_of(text))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Two days, then.", ["Two", " days,", " then."]),
        ("京都へ行きます。", ["京都", "へ行", "きま", "す。"]),
        ("Go to 京都 now\n", ["Go", " to", " 京都", " now", "\n"]),
        ("", []),
    ],
)
def test_tokens_are_words_or_a_few_characters(text: str, tokens: list[str]) -> None:
    """Latin text comes word by word, Japanese by two characters."""
    assert tokens == tokens_of(text)


async def test_four_ways_of_calling_agree() -> None:
    """Sync, async, streamed and streamed async give the same message, apart from its id."""
    chat = ScriptedChat(replies={"train": ToolCalls(calls=[LOOK], text="Let me look.")})
    bound = chat.bind_tools([trains])

    got = [
        bound.invoke("train"),
        await bound.ainvoke("train"),
        join_chunks(list(bound.stream("train"))),
        join_chunks([chunk async for chunk in bound.astream("train")]),
    ]

    fields = {"content", "tool_calls", "usage_metadata", "response_metadata"}
    first, *dumps = [message.model_dump(include=fields) for message in got]
    assert [first] * 3 == dumps
    assert "Let me look." == first["content"]
    assert 1 == len(first["tool_calls"])
    assert "tool_calls" == first["response_metadata"]["finish_reason"]


async def test_stream_comes_in_tokens() -> None:
    """A stream yields a chunk for each token and one with what belongs to the whole."""
    chat = ScriptedChat(default="Two days, then.")

    chunks = [chunk async for chunk in chat.astream("How long?")]

    assert ["Two", " days,", " then.", ""] == [chunk.content for chunk in chunks]
    assert [False, False, False, True] == [chunk.usage_metadata is not None for chunk in chunks]
    assert "last" == chunks[-1].chunk_position


def test_empty_reply_streams() -> None:
    """An empty reply is a stream of one empty chunk."""
    assert [""] == [chunk.content for chunk in ScriptedChat(default="").stream("Hi")]


def test_usage_and_metadata() -> None:
    """Tokens are counted from the text, the total is the sum, and the model names itself."""
    message = ScriptedChat(default="Two days.", model_name="m").invoke(
        [SystemMessage("Be kind."), HumanMessage("How long is it?")]
    )

    assert {"input_tokens": 6, "output_tokens": 2, "total_tokens": 8} == message.usage_metadata
    assert {"model_name": "m", "finish_reason": "stop"} == {
        key: message.response_metadata[key] for key in ("model_name", "finish_reason")
    }


def test_usage_counts_tool_calls() -> None:
    """A message that only calls tools still costs tokens, when written and when sent again."""
    chat = ScriptedChat(default=ToolCalls(calls=[LOOK]))
    question = HumanMessage("train")
    call_message = chat.bind_tools([trains]).invoke([question])
    answer = ScriptedChat(default="Yes.").invoke([question, call_message])

    assert call_message.usage_metadata is not None
    assert answer.usage_metadata is not None
    assert call_message.usage_metadata["output_tokens"] > 0
    assert 1 + call_message.usage_metadata["output_tokens"] == answer.usage_metadata["input_tokens"]


def test_truncated_reply_says_so() -> None:
    """A truncated reply has the finish reason of a length limit, whole and in a stream."""
    chat = ScriptedChat(default=Truncated(text="Two da"))

    got = [chat.invoke("How long?"), join_chunks(list(chat.stream("How long?")))]

    assert [("Two da", "length")] * 2 == [
        (message.content, message.response_metadata["finish_reason"]) for message in got
    ]


def test_message_is_sent_as_it_stands() -> None:
    """A scripted message keeps its blocks, calls and metadata, and is not changed by the call."""
    blocks: list[str | dict[str, Any]] = [{"type": "text", "text": "Two days."}]
    call = {"name": "invented", "args": {}, "id": "c1"}
    message = AIMessage(blocks, tool_calls=[call], response_metadata={"finish_reason": "odd"})
    copy = message.model_copy(deep=True)
    chat = ScriptedChat(default=message)

    got = [chat.invoke("How long?"), join_chunks(list(chat.stream("How long?")))]

    assert [(blocks, ["invented"], "odd")] * 2 == [
        (m.content, [c["name"] for c in m.tool_calls], m.response_metadata["finish_reason"])
        for m in got
    ]
    got[0].tool_calls.clear()
    got[1].tool_calls[0]["args"]["to"] = "Nara"
    assert copy == message


def test_ids_are_langchains() -> None:
    """Each answer gets a new id, since an equal one would replace the other."""
    chat = ScriptedChat(default="Yes.")

    assert chat.invoke("one").id != chat.invoke("one").id


async def test_protocol_events_stream() -> None:
    """LangChain's event stream carries the tokens and ends with the whole message."""
    chat = ScriptedChat(default="Two days.")

    events = [event async for event in chat.astream_events("How long?", version="v2")]

    tokens = [e["data"]["chunk"].content for e in events if e["event"] == "on_chat_model_stream"]
    assert ["Two", " days.", ""] == tokens


async def test_fault_before_the_answer() -> None:
    """A fault without tokens fails every way of calling at once, at its attempt alone."""
    chat = ScriptedChat(replies={"one": [Fault(error=ConnectionError("down")), "1"]})

    with pytest.raises(ConnectionError, match="down"):
        chat.invoke("one")
    with pytest.raises(ConnectionError, match="down"):
        await chat.ainvoke("one")
    with pytest.raises(ConnectionError, match="down"):
        next(iter(chat.stream("one")))
    assert "1" == chat.invoke(attempt(2, "one")).content
    chat.assert_all_used()


async def test_fault_in_the_middle_of_a_stream() -> None:
    """A stream yields the tokens before the fault and then raises; an invocation only raises."""
    fault = Fault(error=TimeoutError, after_tokens=2, text="Two days, then home.")
    chat = ScriptedChat(default=fault)
    stream = chat.stream("How long?")
    astream = chat.astream("How long?")

    assert ["Two", " days,"] == [next(stream).content for _ in range(2)]
    assert ["Two", " days,"] == [(await anext(astream)).content for _ in range(2)]
    with pytest.raises(TimeoutError):
        next(stream)
    with pytest.raises(TimeoutError):
        await anext(astream)
    with pytest.raises(TimeoutError):
        await chat.ainvoke("How long?")


def test_fault_is_raised_fresh_each_time() -> None:
    """One error that is raised often does not drag a growing traceback along."""
    chat = ScriptedChat(default=Fault(error=OSError("down")))

    def depth() -> int:
        with pytest.raises(OSError, match="down") as caught:
            chat.invoke("one")
        return len(caught.traceback)

    assert depth() == depth()


async def test_delay_leaves_the_event_loop_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """A delayed reply is awaited, never slept, so a timeout of the caller's ends it."""
    monkeypatch.setattr(
        "unsay.testing.scripted_models.time.sleep", lambda _: pytest.fail("it blocks")
    )
    chat = ScriptedChat(default=Delay(seconds=3600, reply="Late."))

    for call in (chat.ainvoke("one"), anext(chat.astream("two"))):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(call, timeout=0.02)

    assert [["one"], ["two"]] == [[m.text for m in request] for request in chat.calls]


def test_delays_add_up_and_end_in_the_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nested delays are slept once, as their sum, before the first token."""
    slept: list[float] = []
    monkeypatch.setattr("unsay.testing.scripted_models.time.sleep", slept.append)
    chat = ScriptedChat(default=Delay(seconds=2, reply=Delay(seconds=3, reply="Late.")))

    assert "Late." == chat.invoke("one").content
    assert ["Late.", ""] == [chunk.content for chunk in chat.stream("one")]
    assert [5.0, 5.0] == slept
