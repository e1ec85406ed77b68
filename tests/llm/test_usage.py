"""What calls use: names and limits of models, what replies report, and what they add up to."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph

from unsay.llm.call import (
    is_graph,
    longest_reply,
    prompt_tokens,
)
from unsay.llm.gateway import answered_by, replies_in, used_by
from unsay.models.factory import name_of
from unsay.tokens.pricing import Amount, Tally, Usage, merged, tally_of

CHAT = ChatOpenAI(model="small", api_key="-", max_tokens=60)
SCHEMA = {"title": "verdict", "type": "object", "properties": {"score": {"type": "number"}}}
ASKED = [HumanMessage("How warm is it?", id="q")]


def answer(text: str, *, name: str, tokens: int | None = None, model: str = "small-2") -> AIMessage:
    """A reply that may tell what it cost."""
    usage = {"input_tokens": tokens or 0, "output_tokens": 5, "total_tokens": (tokens or 0) + 5}
    return AIMessage(
        text,
        id=name,
        usage_metadata=None if tokens is None else usage,
        response_metadata={"model_name": model},
    )


def agent() -> Runnable[Any, Any]:
    """A graph that answers."""
    builder = StateGraph(MessagesState)
    builder.add_node("say", lambda _: {"messages": [AIMessage("Hello.")]})
    builder.add_edge(START, "say")
    builder.add_edge("say", END)
    return builder.compile()


@pytest.mark.parametrize(
    ("runnable", "name", "longest"),
    [
        pytest.param(CHAT, "small", 60, id="model"),
        pytest.param(CHAT.bind(stop=["x"]), "small", 60, id="bound"),
        pytest.param(
            CHAT.with_structured_output(SCHEMA, include_raw=True), "small", 60, id="structured"
        ),
        pytest.param(CHAT.with_structured_output(SCHEMA), "small", 60, id="structured alone"),
        pytest.param(CHAT.with_fallbacks([RunnableLambda(str)]), "small", 60, id="fallbacks"),
        pytest.param(CHAT | RunnableLambda(str), "small", 60, id="sequence"),
        pytest.param(RunnableLambda(str), None, 500, id="function"),
        pytest.param(ChatOpenAI(model="m", api_key="-", max_tokens=9_999), "m", 500, id="long"),
    ],
)
def test_a_model_is_found_in_what_is_around_it(
    runnable: Runnable[Any, Any], name: str | None, longest: int
) -> None:
    """With its provider's name for it, and what it may reply at most."""
    assert (name, longest) == (name_of(runnable), longest_reply(runnable, "answer"))
    assert not is_graph(runnable)


@pytest.mark.parametrize(
    "runnable", [agent(), agent().with_config(tags=["x"])], ids=["graph", "bound"]
)
def test_a_graph_is_no_single_call(runnable: Runnable[Any, Any]) -> None:
    """With any text around it."""
    assert is_graph(runnable)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        pytest.param(answer("21", name="a", tokens=7), Usage(input=7, output=5), id="message"),
        pytest.param(
            {"raw": answer("21", name="a", tokens=7), "parsed": None},
            Usage(input=7, output=5),
            id="raw",
        ),
        pytest.param(
            {
                "messages": [
                    *ASKED,
                    answer("", name="a", tokens=7),
                    ToolMessage("21", tool_call_id="c"),
                    answer("21", name="b", tokens=20),
                ]
            },
            Usage(input=27, output=10),
            id="agent",
        ),
        pytest.param(answer("21 degrees", name="a"), Usage(input=9, output=8), id="no report"),
        pytest.param("21 degrees", Usage(input=9, output=8), id="text"),
        pytest.param(0.9, Usage(input=9), id="number"),
    ],
)
def test_a_reply_tells_what_it_cost(reply: Any, expected: Usage) -> None:
    """As far as it does; else it is estimated."""
    assert expected == used_by(replies_in(reply, ASKED), 9)


def test_what_was_sent_is_not_paid_for_again() -> None:
    """An agent gives the messages back that it was sent."""
    earlier = answer("Hello.", name="a", tokens=7)
    reply = {"messages": [earlier, *ASKED, answer("21", name="b", tokens=20)]}

    replies = replies_in(reply, {"messages": [earlier, *ASKED]})

    assert (["b"], "small-2") == ([item.id for item in replies], answered_by(replies))


def test_a_prompt_is_counted_in_every_form() -> None:
    """A list, a state, a text."""
    question = "How warm is it?"
    counts = {prompt_tokens(item) for item in (ASKED, {"messages": ASKED}, question)}
    assert 1 == len(counts)
    assert counts.pop() > 4


TALLIES = st.dictionaries(
    st.sampled_from(["judge", "summary", "title"]),
    st.builds(
        lambda input_tokens, output_tokens, micros: tally_of(
            Usage(input=input_tokens, output=output_tokens),
            Amount(tokens=input_tokens + output_tokens, micros=micros),
        ),
        *[st.integers(0, 10**9)] * 3,
    ),
)


@given(one=TALLIES, second=TALLIES, third=TALLIES)
def test_tallies_add_up_in_any_order(
    one: dict[str, Tally], second: dict[str, Tally], third: dict[str, Tally]
) -> None:
    """And an empty value gives nothing."""
    assert merged(merged(one, second), third) == merged(one, merged(third, second))
    assert one == merged({}, one) == merged(one, {})
    assert all(
        item["input"] + item["output"] == item["total"] for item in merged(one, second).values()
    )
