"""Other graphs keep their threads in our file: nothing of theirs is deleted."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import END, START, MessagesState, StateGraph
from typing_extensions import TypedDict

from tests.graph.kit import Numbered, config, make, say
from tests.reading import said
from unsay.state import merge_messages
from unsay.storage.base import Database
from unsay.storage.sqlite import open_database


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Our file."""
    sqlite_database = open_database(tmp_path / "unsay.db")
    yield sqlite_database
    sqlite_database.close()


class Deltas(TypedDict, total=False):
    """A transcript of which most checkpoints hold the changes only."""

    messages: Annotated[list[AnyMessage], DeltaChannel(merge_messages, snapshot_frequency=3)]


def foreign_graph(schema: Any, **options: Any) -> Any:
    """A graph that is not ours and has our name for its messages."""
    builder: Any = StateGraph(schema)

    def answer(state: Any) -> Any:
        return {"messages": [AIMessage(f"answer {len(state['messages'])}")]}

    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    return builder.compile(**options)


def states(graph: Any) -> dict[str, list[str]]:
    """The transcript of every state of the thread, by checkpoint id."""
    return {
        state.config["configurable"]["checkpoint_id"]: said(state.values.get("messages", []))
        for state in graph.get_state_history(config())
    }


@pytest.mark.parametrize("schema", [MessagesState, Deltas], ids=["whole", "deltas"])
def test_another_graphs_history_is_kept(database: Database, schema: Any) -> None:
    """Every state that it ever had is there and reads the same."""
    graph = foreign_graph(schema, checkpointer=database.saver)
    states_by_key: dict[str, list[str]] = {}
    for number in range(12):
        graph.invoke({"messages": [("user", f"q{number}")]}, config())
        states_by_key |= {
            key: value for key, value in states(graph).items() if key not in states_by_key
        }
    assert 3 * 12 == len(states_by_key)
    assert states_by_key == states(graph)


@pytest.mark.full
@pytest.mark.parametrize("schema", [MessagesState, Deltas], ids=["whole", "deltas"])
def test_a_thread_of_two_graphs_keeps_the_others_states(database: Database, schema: Any) -> None:
    """Our states that its states build on are kept as well."""
    ours = make(Numbered(), checkpointer=database.saver, store=database.store)
    theirs = foreign_graph(schema, checkpointer=database.saver)
    say(ours, "q1", "q2")
    theirs.invoke({"messages": [("user", "theirs")]}, config())
    before = states(theirs)
    say(ours, *(f"q{number}" for number in range(3, 200)))
    after = states(theirs)
    lost_keys = before.keys() - after.keys()
    assert len(after) < 2 * 200
    assert {} == {key: value for key, value in before.items() if after.get(key, value) != value}
    assert not any("theirs" in str(before[key]) for key in lost_keys)


def test_our_state_inside_of_another_graph_is_kept(database: Database) -> None:
    """A node that keeps its state is not asked in many turns of the graph around it."""
    child = make(Numbered(), checkpointer=None, store=None)
    child.checkpointer = True
    builder: Any = StateGraph(MessagesState)
    builder.add_node("talk", child)
    builder.add_node("skip", lambda _: {})
    builder.add_conditional_edges(
        START, lambda s: "talk" if s["messages"][-1].text.startswith("q") else "skip"
    )
    parent = builder.compile(checkpointer=database.saver, store=database.store)
    say(parent, "q1")
    for number in range(10):
        parent.invoke({"messages": [("user", f"other {number}")]}, config())
    say(parent, "q2")
    inner = next(
        each
        for each in database.saver.list(config())
        if each.config["configurable"]["checkpoint_ns"] == "talk"
    )
    assert inner.checkpoint["channel_values"]["turn"]["number"] > 1


@pytest.mark.full
def test_our_own_states_are_still_pruned(database: Database) -> None:
    """A long thread of our graph has few states, and all can be read."""
    graph = make(Numbered(), checkpointer=database.saver, store=database.store)
    say(graph, *(f"q{number}" for number in range(150)))
    assert len(states(graph)) < 200
