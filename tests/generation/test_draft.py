"""What a model or agent returned, as messages that may enter the transcript."""

from collections import UserList
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from unsay.errors import ModelReplyError
from unsay.generation.draft import messages_of, with_fresh_ids
from unsay.messages.annotations import KEY

CALL = {"name": "add", "args": {}, "id": "call-1", "type": "tool_call"}
STEP = AIMessage("", id="s", tool_calls=[CALL])
RESULT = ToolMessage("4", id="r", tool_call_id="call-1")
WORDS = AIMessage("4", id="w")
SENT = [SystemMessage("Be brief.", id="p"), HumanMessage("2 + 2?", id="q"), AIMessage("3", id="o")]


@pytest.mark.parametrize(
    ("reply", "messages"),
    [
        pytest.param(WORDS, [WORDS], id="a message"),
        pytest.param("4", [AIMessage("4")], id="text"),
        pytest.param("", [AIMessage("")], id="empty text"),
        pytest.param([WORDS], [WORDS], id="a list"),
        pytest.param((WORDS,), [WORDS], id="a tuple"),
        pytest.param(UserList([WORDS]), [WORDS], id="another sequence"),
        pytest.param({"messages": [WORDS]}, [WORDS], id="a state"),
        pytest.param({"messages": "4", "other": 1}, [AIMessage("4")], id="a state with text"),
        pytest.param({"messages": WORDS}, [WORDS], id="a state with one message"),
        pytest.param(
            [{"role": "assistant", "content": "4"}], [AIMessage("4")], id="a list of dicts"
        ),
        pytest.param([STEP, RESULT, WORDS], [STEP, RESULT, WORDS], id="tool steps"),
        pytest.param([*SENT, WORDS], [WORDS], id="with what was sent"),
        pytest.param([*SENT, STEP, RESULT, WORDS], [STEP, RESULT, WORDS], id="sent and steps"),
        pytest.param([AIMessage("3"), WORDS], [AIMessage("3"), WORDS], id="two without ids"),
        pytest.param([HumanMessage("hm?", id="x"), WORDS], [WORDS], id="an agent's own question"),
        pytest.param(AIMessageChunk("4", id="w"), [WORDS], id="a chunk"),
        pytest.param(
            [AIMessageChunk("4", id="w", tool_calls=[])], [WORDS], id="a list with a chunk"
        ),
    ],
)
def test_a_reply_is_its_new_messages(reply: Any, messages: list[AnyMessage]) -> None:
    """Of any agent's output, only the new messages are taken, whole and in order."""
    reply_messages = messages_of(reply, {message.id for message in SENT})

    assert messages == reply_messages
    assert [type(message) for message in messages] == [type(message) for message in reply_messages]


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        pytest.param(None, "returned NoneType, not a message", id="nothing"),
        pytest.param(4, "returned int, not a message", id="a number"),
        pytest.param({"output": "4"}, "returned dict, not a message", id="another state"),
        pytest.param({"messages": None}, "returned NoneType, not a message", id="no messages"),
        pytest.param(iter([WORDS]), "iterator, not a message", id="an iterator"),
        pytest.param(b"4", "not one of messages", id="bytes"),
        pytest.param([4], "not one of messages", id="a list of numbers"),
        pytest.param([None], "not one of messages", id="a list of nothing"),
        pytest.param([{"text": "4"}], "not one of messages", id="dicts of another kind"),
        pytest.param(
            [{"role": "critic", "content": "4"}], "not one of messages", id="another role"
        ),
        pytest.param([], "does not end in a message of the assistant", id="an empty list"),
        pytest.param(SENT, "does not end in a message of the assistant", id="nothing new"),
        pytest.param(
            [HumanMessage("4")], "does not end in a message of the assistant", id="the user's words"
        ),
        pytest.param([STEP, RESULT], "does not end in a message", id="a tool's result last"),
        pytest.param([WORDS, STEP], "calls 'add', and has no such tool", id="a call last"),
    ],
)
def test_what_is_no_reply_is_refused(reply: Any, problem: str) -> None:
    """Every other value is an error that says what is expected, never a crash."""
    with pytest.raises(ModelReplyError, match=problem):
        messages_of(reply, {message.id for message in SENT})


@pytest.mark.parametrize("kind", [AIMessage, AIMessageChunk])
def test_a_model_cannot_write_our_notes(kind: type[AIMessage]) -> None:
    """A reply loses a verdict that it carries; the rest is unchanged."""
    metadata = {KEY: {"kind": "notice", "score": 1.0}, "finish_reason": "stop"}
    (message,) = messages_of(kind("4", id="w", response_metadata=metadata), set())

    assert AIMessage("4", id="w", response_metadata={"finish_reason": "stop"}) == message


@pytest.mark.parametrize(
    ("given_ids", "ids"),
    [
        pytest.param(["x", "y"], ["x", "y"], id="free"),
        pytest.param([None, "y"], ["try-0", "y"], id="none"),
        pytest.param(["", "y"], ["try-0", "y"], id="empty"),
        pytest.param(["taken", "y"], ["try-0", "y"], id="in the transcript"),
        pytest.param(["x", "x"], ["x", "try-1"], id="twice"),
        pytest.param([], [], id="no messages"),
    ],
)
def test_ids_are_made_free(given_ids: list[str | None], ids: list[str]) -> None:
    """A server that numbers every reply alike cannot overwrite an earlier answer."""
    messages = [AIMessage(f"words {index}", id=name) for index, name in enumerate(given_ids)]
    fresh = with_fresh_ids(messages, ["taken", None], "try")

    assert ids == [message.id for message in fresh]
    assert [message.content for message in messages] == [message.content for message in fresh]
    assert given_ids == [message.id for message in messages]


@given(
    names=st.lists(st.one_of(st.none(), st.sampled_from("abcd")), max_size=6),
    taken_ids=st.sets(st.sampled_from("abcd")),
)
def test_fresh_ids_are_free_and_different(names: list[str | None], taken_ids: set[str]) -> None:
    """No id is in the transcript or given twice, and one that is free is kept."""
    fresh = [m.id for m in with_fresh_ids([AIMessage("", id=n) for n in names], taken_ids, "try")]

    assert len(names) == len(set(fresh))
    assert set() == taken_ids & set(fresh)
    assert {name for name in names if name} - taken_ids <= set(fresh)
