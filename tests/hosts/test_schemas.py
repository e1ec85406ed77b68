"""What a host sees of the graph: three schemas, a context, a tool, a drawing."""

import json
import warnings
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import get_runtime

from tests.graph.kit import Numbered, config, make
from unsay.graph import build_graph
from unsay.hosts.entry import HostGraph

INPUT = ["messages", "order", "should_rollback", "rollback_checkpoint_id", "start_task"]
OUTPUT = [
    "messages",
    "quality_score",
    "current_topic",
    "checkpoints",
    "checkpoint_metadata",
    "should_rollback",
    "state_history",
    "refusal",
]
DRAFT = "This is draft 1, about what was asked."


def test_the_input_schema_has_what_a_host_may_write() -> None:
    """Studio, MCP and AG-UI ask for it."""
    assert INPUT == list(build_graph().get_input_jsonschema()["properties"])


def test_the_output_schema_has_what_a_run_returns() -> None:
    """Nothing of the working state is in it, or in what `invoke` and `stream` return."""
    graph = make(Numbered())
    question: Any = {"messages": [("user", "Hi")]}
    state = graph.invoke(question, config())
    *_, last_values = graph.stream(question, config(), stream_mode="values")

    assert OUTPUT == list(graph.get_output_jsonschema()["properties"])
    assert set(state) <= set(OUTPUT)
    assert set(last_values) <= set(OUTPUT)
    assert {"messages", "quality_score", "checkpoints"} <= set(state)


def test_the_context_schema_names_the_overrides() -> None:
    """Studio shows them as the assistant's configuration."""
    schema = build_graph().get_context_jsonschema()
    assert schema is not None
    assert {"quality_threshold", "labels"} <= schema["properties"].keys()


async def test_a_context_with_foreign_keys_is_passed_through() -> None:
    """Our own keys work, and an agent that answers sees the host's."""
    contexts: list[Any] = []

    def agent(state: MessagesState) -> dict[str, Any]:
        contexts.append(get_runtime().context)
        return {"messages": [AIMessage("An answer to what was asked.")]}

    builder: Any = StateGraph(MessagesState)
    builder.add_node("agent", agent)
    builder.add_edge(START, "agent")
    graph = make(builder.compile())
    context: Any = {"user_id": "u7", "judging": "off"}

    graph.invoke({"messages": "Hi"}, config(), context=context)
    await graph.ainvoke({"messages": "Hi"}, config(), context=context)

    assert [context, context] == contexts
    assert None is graph.get_state(config()).values.get("quality_score")


@pytest.fixture
def tool() -> BaseTool:
    """The graph as a tool of another agent."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `as_tool` is in beta
        return make(Numbered(), checkpointer=None, store=None).as_tool(
            name="unsay", description="Answers questions."
        )


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param("Hi", id="a text"),
        pytest.param([("user", "Hi")], id="a pair"),
        pytest.param([{"role": "user", "content": "Hi"}], id="role and content"),
        pytest.param([{"type": "human", "content": "Hi"}], id="type and content"),
        pytest.param([HumanMessage("Hi")], id="a message"),
    ],
)
async def test_the_graph_is_a_tool(tool: BaseTool, messages: Any) -> None:
    """A tool call needs the messages only, in any form that the graph reads; it gives the answer alone."""
    call = {"type": "tool_call", "id": "c", "name": "unsay", "args": {"messages": messages}}

    assert DRAFT == tool.invoke({"messages": messages})
    assert DRAFT.replace("1", "2") == (await tool.ainvoke(call)).content
    assert "unsay" == make(Numbered()).as_tool().name


def test_the_tools_schema_is_small(tool: BaseTool) -> None:
    """A model is sent it with every call."""
    schema = convert_to_openai_tool(tool)

    assert INPUT == list(schema["function"]["parameters"]["properties"])
    assert len(json.dumps(schema)) < 1_000


def test_the_drawing_has_the_seeds_edges() -> None:
    """Mermaid shows the labels of the original agent. Source: seed 003, its diagram."""
    drawing = build_graph().get_graph().draw_mermaid().replace("&nbsp;", " ")

    assert {
        "__start__ --> evaluate_quality;",
        "evaluate_quality --> detect_topic_change;",
        "detect_topic_change --> process_message;",
        "process_message -.  continue  .-> __end__;",
        "process_message -.  checkpoint  .-> create_checkpoint;",
        "process_message -.-> rollback;",
        "rollback --> process_message;",
        "create_checkpoint --> __end__;",
    } == {line.strip() for line in drawing.splitlines() if "->" in line}


def test_a_parent_graph_gets_the_output_only() -> None:
    """Names that a parent shares with our working state keep the parent's values."""

    class Parent(MessagesState):
        turn: str
        branches: int

    builder: Any = StateGraph(Parent)
    child: HostGraph = build_graph(Numbered(), judge=lambda _: 0.9)
    builder.add_node("child", child)
    builder.add_edge(START, "child")
    state = builder.compile().invoke({"messages": "Hi", "turn": "mine", "branches": 5})

    assert ["Hi", DRAFT] == [m.content for m in state["messages"]]
    assert ("mine", 5) == (state["turn"], state["branches"])
