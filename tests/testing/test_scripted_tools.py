from typing import Any, TypedDict

import pytest
from langchain_core.exceptions import OutputParserException
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    ToolMessage,
)
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from pydantic import BaseModel, ValidationError

from unsay.testing.scripted_models import ScriptedChat
from unsay.testing.scripts import Reply, ToolCalls

LOOK = {"name": "trains", "args": {"to": "Kyoto"}}


class Grade(BaseModel):
    """The grade of an answer."""

    score: float
    reason: str


class GradeDict(TypedDict):
    """The grade of an answer."""

    score: float
    reason: str


GRADE_SCHEMA = {
    "title": "grade",
    "description": "The grade of an answer.",
    "type": "object",
    "properties": {"score": {"type": "number"}, "reason": {"type": "string"}},
    "required": ["score", "reason"],
}


@tool
def trains(to: str) -> str:
    """Look up when the next train leaves."""
    return f"9:14 to {to}"


@tool
def hotels(city: str) -> str:
    """Look up a hotel."""
    return f"an inn in {city}"


def agent(chat: ScriptedChat) -> Any:
    """A model, its tools, and what delivers the answer."""
    model = chat.bind_tools([trains, hotels])

    def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    def route(state: MessagesState) -> str:
        return "tools" if state["messages"][-1].tool_calls else "deliver"

    def deliver(state: MessagesState) -> dict[str, Any]:
        return {}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_node("tools", ToolNode([trains, hotels]))
    graph.add_node("deliver", deliver)
    graph.add_edge(START, "answer")
    graph.add_conditional_edges("answer", route, ["tools", "deliver"])
    graph.add_edge("tools", "answer")
    return graph.compile()


STAY = ToolCalls(
    calls=[LOOK, {"name": "hotels", "args": {"city": "Kyoto"}}],
    then=ToolCalls(calls=[{"name": "trains", "args": {"to": "Nara"}}], then="And {result}."),
    text="Let me look.",
)


def test_tool_loop_runs_to_its_end() -> None:
    """Two tools at once, then another, then the text with its result: each step in its turn."""
    chat = ScriptedChat(replies={"stay": STAY})

    transcript = agent(chat).invoke({"messages": ["Where do we stay?"]})["messages"]

    assert [
        "Where do we stay?",
        "Let me look.",
        "9:14 to Kyoto",
        "an inn in Kyoto",
        "",
        "9:14 to Nara",
        "And 9:14 to Nara.",
    ] == [message.content for message in transcript]
    chat.assert_all_used()


def test_results_fill_the_text_together() -> None:
    """The results of parallel calls stand for `{result}`, one a line, in the order of the calls."""
    chat = ScriptedChat(replies={"stay": ToolCalls(calls=STAY.calls, then="{result}")})

    transcript = agent(chat).invoke({"messages": ["Where do we stay?"]})["messages"]

    assert "9:14 to Kyoto\nan inn in Kyoto" == transcript[-1].content


def test_braces_without_results_stay() -> None:
    """Where no tool has run, `{result}` is text like any other."""
    assert "{result}" == ScriptedChat(default="{result}").invoke("How?").content


def test_tool_loop_streams() -> None:
    """Under LangGraph's message stream the same loop yields the same tokens."""
    chat = ScriptedChat(replies={"stay": STAY})

    stream = agent(chat).stream({"messages": ["Where do we stay?"]}, stream_mode="messages")

    assert ["Let", " me", " look.", "", "", "And", " 9:14", " to", " Nara.", ""] == [
        chunk.content for chunk, _ in stream if isinstance(chunk, AIMessageChunk)
    ]


def call_message(chat: ScriptedChat, question: HumanMessage) -> AIMessage:
    """The first reply to a question that is alone in its context."""
    return chat.bind_tools([trains, hotels]).invoke([question])


def test_call_ids_are_unique_and_replayed_alike() -> None:
    """Calls of one conversation never share an id; a replay of it gives the same ids."""
    chat = ScriptedChat(replies={"stay": STAY}, default="Yes.")
    ask = HumanMessage("Where do we stay?", id="q1")
    transcript = agent(chat).invoke({"messages": [ask]})["messages"]
    replay = agent(chat).invoke({"messages": [ask]})["messages"]
    second = HumanMessage("Where do we stay?", id="q2")
    messages_after = agent(chat).invoke({"messages": [*transcript, second]})["messages"]

    def ids(messages: list[BaseMessage]) -> list[str | None]:
        return [c["id"] for m in messages if isinstance(m, AIMessage) for c in m.tool_calls]

    assert 6 == len(set(ids(messages_after)))
    assert ids([call_message(chat, ask)]) != ids([call_message(chat, second)])
    assert ids(transcript) == ids(replay)


def test_call_keeps_the_id_it_was_given() -> None:
    """A scripted call's own id is used."""
    chat = ScriptedChat(default=ToolCalls(calls=[LOOK | {"id": "c1"}])).bind_tools([trains])

    assert ["c1"] == [call["id"] for call in chat.invoke("train").tool_calls]


def test_calls_without_an_end() -> None:
    """Calls with nothing after them are made again and again, which tests a step limit."""
    chat = ScriptedChat(default=ToolCalls(calls=[LOOK])).bind_tools([trains])
    transcript: list[BaseMessage] = [HumanMessage("train")]
    for _ in range(5):
        transcript += [chat.invoke(transcript), ToolMessage("9:14", tool_call_id="c")]

    calls = [call["id"] for m in transcript if isinstance(m, AIMessage) for call in m.tool_calls]
    assert 5 == len(set(calls))


def test_tools_may_be_bound_in_any_form() -> None:
    """A provider's own tool has no function; it is known by its name or type."""
    chat = ScriptedChat(default=ToolCalls(calls=[{"name": "web_search_preview"}]))

    bound = chat.bind_tools([{"type": "web_search_preview"}], tool_choice="auto")

    assert ["web_search_preview"] == [call["name"] for call in bound.invoke("Hi").tool_calls]


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param({"score": 0.5, "reason": "可"}, id="mapping"),
        pytest.param('{"score": 0.5, "reason": "可"}', id="text"),
    ],
)
@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param(Grade, Grade(score=0.5, reason="可"), id="pydantic"),
        pytest.param(GradeDict, {"score": 0.5, "reason": "可"}, id="TypedDict"),
        pytest.param(GRADE_SCHEMA, {"score": 0.5, "reason": "可"}, id="JSON schema"),
    ],
)
async def test_structured_output(schema: Any, expected: object, reply: Reply) -> None:
    """A mapping or JSON text comes back in the form of any schema, sync and async, raw or not."""
    model = ScriptedChat(default=reply)
    plain = model.with_structured_output(schema)
    raw = model.with_structured_output(schema, include_raw=True)

    assert expected == plain.invoke("Grade it.")
    assert expected == await plain.ainvoke("Grade it.")
    assert expected == list(plain.stream("Grade it."))[-1]
    with_raw = raw.invoke("Grade it.")
    assert (expected, None) == (with_raw["parsed"], with_raw["parsing_error"])
    assert isinstance(with_raw["raw"], AIMessage)


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        pytest.param("I would say 0.5.", OutputParserException, id="no JSON"),
        pytest.param('{"score": 0.5, "rea', OutputParserException, id="JSON broken off"),
        pytest.param("[0.5]", ValueError, id="no object"),
        pytest.param({"score": "high"}, ValidationError, id="not the schema"),
    ],
)
def test_invalid_structured_output_is_a_parsing_error(reply: Reply, error: type[Exception]) -> None:
    """What does not fit the schema raises, or with `include_raw` is handed back."""
    model = ScriptedChat(default=reply)

    with pytest.raises(error):
        model.with_structured_output(Grade).invoke("Grade it.")
    with_raw = model.with_structured_output(Grade, include_raw=True).invoke("Grade it.")
    assert with_raw["parsed"] is None
    assert isinstance(with_raw["parsing_error"], error)


def test_mapping_without_a_schema_is_json_text() -> None:
    """A mapping is written as JSON when no schema was asked for."""
    assert '{"reason": "可"}' == ScriptedChat(default={"reason": "可"}).invoke("Hi").content
