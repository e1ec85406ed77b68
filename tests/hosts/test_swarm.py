"""The graph as an agent of LangGraph's swarm."""

import warnings
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command

from tests.graph.kit import Numbered, config, scores
from tests.reading import said
from unsay.graph import as_node, build_graph
from unsay.messages.content import text_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    swarm: Any = pytest.importorskip("langgraph_swarm")


def greeter() -> Any:
    """An agent that hands the conversation over when it is asked to."""

    def greet(state: Any) -> Any:
        if "talker" not in text_of(state["messages"][-1]):
            return {"messages": [AIMessage("I only greet.")]}
        call = {"name": "transfer_to_talker", "args": {}, "id": "c1"}
        handover = [AIMessage("", tool_calls=[call]), ToolMessage("handed over", tool_call_id="c1")]
        update = {"messages": [*state["messages"], *handover], "active_agent": "talker"}
        return Command(goto="talker", graph=Command.PARENT, update=update)

    builder: Any = StateGraph(swarm.SwarmState)
    builder.add_node("greet", greet)
    builder.add_edge(START, "greet")
    return builder.compile(name="greeter")


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("kind", ["None", "True", "own", "as_node"])
@pytest.mark.parametrize("form", ["invoke", "ainvoke"])
async def test_orders_hold_in_a_swarm(kind: str, form: str) -> None:
    """After a hand-off the graph is the active agent; an undo removes from the swarm."""
    model = Numbered()
    saver: Any = {"True": True, "own": InMemorySaver()}.get(kind)
    graph = build_graph(model, judge=scores(), name="talker", checkpointer=saver)
    graph = as_node(graph) if kind == "as_node" else graph
    swarm_graph = swarm.create_swarm([greeter(), graph], default_active_agent="greeter")
    app = swarm_graph.compile(checkpointer=InMemorySaver())
    after = {}
    for text in ("Hi", "To the talker!", "two", "/undo", "/redo", "/undo", "three"):
        value: Any = {"messages": [("user", text)]}
        if form == "invoke":
            app.invoke(value, config())
        else:
            await app.ainvoke(value, config())
        after[text] = said(app.get_state(config()).values["messages"])

    assert "human: two" not in after["/undo"]
    assert after["two"] == after["/redo"][: len(after["two"])]
    assert "human: To the talker!" in after["three"]
    assert not any("two" in text for text in model.texts())
    assert "talker" == app.get_state(config()).values["active_agent"]
