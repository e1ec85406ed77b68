"""The graph as a node of another graph: what it removes and restores, the parent has too."""

import re
from collections.abc import Iterator, Sequence
from operator import add
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, Send
from typing_extensions import TypedDict

from tests.graph.kit import Numbered, config, make, scores
from tests.reading import said as said_with_ids
from unsay.errors import ConfigurationError
from unsay.graph import as_node, build_graph
from unsay.hosts.entry import HostGraph
from unsay.messages.content import text_of
from unsay.storage.sqlite import open_database

ORDERS = {
    "undo and redo": ["one", "two", "/undo", "/redo", "/undo", "three", "four", "/undo", "five"],
    "rollback": ["one", "two", "three", "/rollback 2", "four", "/undo", "/undo", "/redo", "five"],
    "retry": ["one", "two", "/retry", "three", "/undo", "/undo", "four"],
    "日本語": ["リストとは？", "タプルとは？", "/undo", "/redo", "/undo", "辞書とは？"],
}


def speeches(messages: list[AnyMessage]) -> list[str]:
    """A transcript as `role: words`, without the ids of checkpoints."""
    return [re.sub(r"cp-\w+", "cp", text) for text in said_with_ids(messages)]


class Parent(MessagesState):
    """A parent's state that can also order a rollback."""

    should_rollback: bool
    rollback_checkpoint_id: str | None


def parent_of(node: Any, *, schema: Any = Parent, **options: Any) -> Any:
    """A parent whose only node is the graph."""
    builder: Any = StateGraph(schema)
    builder.add_node("talk", node)
    builder.add_edge(START, "talk")
    return builder.compile(**{"checkpointer": InMemorySaver(), **options})


def child_of(kind: str, model: Any, judge: Any = None, **options: Any) -> HostGraph:
    """The graph with no checkpointer, with `True`, with its own, or as `as_node` returns it."""
    saver: Any = {"True": True, "own": InMemorySaver()}.get(kind)
    graph = build_graph(model, judge=judge or scores(), checkpointer=saver, **options)
    return as_node(graph) if kind == "as_node" else graph


@pytest.fixture(params=["None", "True", "own", "as_node"])
def kind(request: pytest.FixtureRequest) -> str:
    """With which checkpointer the graph is built."""
    return str(request.param)


@pytest.fixture(params=["store", "no store"])
def store(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The parent's store, or none."""
    return {"store": InMemoryStore()} if request.param == "store" else {}


async def send(graph: Any, form: str, text: str, **values: Any) -> list[AnyMessage]:
    """Send a text; the messages of the state that was stored."""
    value = {"messages": [("user", text)], **values}
    if form == "invoke":
        graph.invoke(value, config())
    else:
        await graph.ainvoke(value, config())
    messages: list[AnyMessage] = graph.get_state(config()).values["messages"]
    return messages


def without_keys(texts: Sequence[str]) -> list[str]:
    """Texts without the keys of fences, which have a secret of each thread."""
    return [re.sub(r' key="\d+"', "", text) for text in texts]


@pytest.mark.sample(every=4)
@pytest.mark.parametrize(("form", "store"), [("invoke", "store"), ("ainvoke", "no store")])
@pytest.mark.parametrize("texts", ORDERS.values(), ids=ORDERS)
async def test_the_parent_has_the_transcript_of_the_graph_alone(
    texts: list[str], form: str, store: str, kind: str
) -> None:
    """After every order its messages, and what the model is sent next, are the same."""
    inner = Numbered()
    outer = Numbered()
    alone = make(outer, store=InMemoryStore() if store == "store" else None)
    parent = parent_of(child_of(kind, inner), store=InMemoryStore() if store == "store" else None)
    for text in texts:
        expected = await send(alone, form, text)
        messages = await send(parent, form, text)

        assert speeches(expected) == speeches(messages), text
        assert without_keys(outer.texts()) == without_keys(inner.texts())


@pytest.fixture
def reopen_parent(tmp_path: Path) -> Iterator[Any]:
    """Builds the parent over a file, which is opened again every time."""
    databases = []

    def build(kind: str, model: Any) -> Any:
        for database in databases:
            database.close()
        databases[:] = [open_database(tmp_path / "parent.db")]
        savers = {"checkpointer": databases[0].saver, "store": databases[0].store}
        return parent_of(child_of(kind, model), **savers)

    yield build
    databases[0].close()


@pytest.mark.sample(every=4)
async def test_orders_hold_after_reloading_the_parent(reopen_parent: Any, kind: str) -> None:
    """Each message and order comes to a parent that was built again."""
    inner = Numbered()
    outer = Numbered()
    alone = make(outer)
    for text in ORDERS["undo and redo"]:
        expected = await send(alone, "invoke", text)
        messages = await send(reopen_parent(kind, inner), "invoke", text)

        assert speeches(expected) == speeches(messages), text
        assert without_keys(outer.texts()) == without_keys(inner.texts())


@pytest.mark.sample(every=2)
async def test_a_host_orders_a_rollback_through_the_parent(
    kind: str, store: dict[str, Any]
) -> None:
    """`should_rollback` removes from the parent, and only once."""
    inner = Numbered()
    outer = Numbered()
    alone = make(outer)
    parent = parent_of(child_of(kind, inner), **store)
    for text, flags in [("one", {}), ("two", {}), ("three", {"should_rollback": True}), ("4", {})]:
        expected = await send(alone, "invoke", text, **flags)
        messages = await send(parent, "invoke", text, **flags)

        assert speeches(expected) == speeches(messages), text
        assert without_keys(outer.texts()) == without_keys(inner.texts())


@pytest.mark.sample(every=2)
async def test_a_rejected_injected_message_leaves_the_parent(
    kind: str, store: dict[str, Any]
) -> None:
    """The judge rejects an answer that another node wrote; no later call is sent it."""

    def judge(documents: Any) -> float:
        return 0.1 if "nonsense" in str(documents) else 0.9

    model = Numbered()
    parent = parent_of(child_of(kind, model, judge), **store)
    await send(parent, "invoke", "one")
    history = [HumanMessage("what else?"), AIMessage("some nonsense"), HumanMessage("two")]
    parent.invoke({"messages": history}, config())
    messages = await send(parent, "invoke", "three")

    assert "some nonsense" not in speeches(messages)
    assert not any("nonsense" in text_of(message) for message in messages)
    assert not any("nonsense" in text for text in model.texts())


def test_several_runs_at_once_remove_their_own(store: dict[str, Any]) -> None:
    """Under `Send` each run removes the messages of its order, and only these."""

    class Sent(MessagesState):
        orders: list[str]

    model = Numbered()
    builder: Any = StateGraph(Sent)
    builder.add_node("talk", build_graph(model, judge=scores()))

    def fan(state: Any) -> list[Send]:
        return [
            Send("talk", {"messages": [*state["messages"], HumanMessage(order, id=order)]})
            for order in state["orders"]
        ]

    builder.add_conditional_edges(START, fan)
    parent = builder.compile(checkpointer=InMemorySaver(), **store)
    messages: Any = [HumanMessage("one", id="1"), AIMessage("First answer.", id="2")]
    messages += [HumanMessage("two", id="3"), AIMessage("Second answer.", id="4")]
    parent.invoke({"messages": messages, "orders": ["/rollback 1", "/help"]}, config())
    state = parent.invoke({"orders": ["/rollback 1", "/rollback 1 "]}, config())

    texts = speeches(state["messages"])
    assert "ai: Second answer." not in texts
    assert "human: one" in texts


def test_runs_at_once_cannot_share_one_state() -> None:
    """With `checkpointer=True` or `as_node` the second would overwrite the state of the first."""
    for graph in (child_of("True", Numbered()), child_of("as_node", Numbered())):
        builder: Any = StateGraph(MessagesState)
        builder.add_node("talk", graph)
        builder.add_conditional_edges(START, lambda state: [Send("talk", state)] * 2)
        parent = builder.compile(checkpointer=InMemorySaver())

        with pytest.raises(ConfigurationError, match="2 runs of this node were sent at once"):
            parent.invoke({"messages": "one"}, config())


async def test_two_graphs_in_one_parent(store: dict[str, Any]) -> None:
    """Each keeps its own steps; what one removes the other is not sent either."""
    first = Numbered()
    second = Numbered()
    builder: Any = StateGraph(MessagesState)
    graphs = [
        build_graph(model, judge=scores(), name=name)
        for name, model in (("first", first), ("second", second))
    ]
    for graph in graphs:
        builder.add_node(graph.name, graph)

    def route(state: Any) -> str:
        return "second" if "second" in text_of(state["messages"][-1]) else "first"

    builder.add_conditional_edges(START, route, ["first", "second"])
    parent = builder.compile(checkpointer=InMemorySaver(), **store)
    for text in ("one", "two for the second", "three", "/undo"):
        messages = await send(parent, "invoke", text)

    assert ["first", "second"] == [graph.name for graph in graphs]
    assert "human: three" not in speeches(messages)
    await send(parent, "invoke", "four for the second")
    assert not any("three" in text for text in second.texts())
    assert any("two for the second" in text for text in second.texts())


@pytest.mark.parametrize("form", ["nodes", "sends"])
def test_answers_of_one_step_are_two_messages(form: str) -> None:
    """Two nodes, or two runs of one, answer the same question; neither answer replaces the other."""
    builder: Any = StateGraph(MessagesState)
    for name in ("first", "second"):
        graph = build_graph(lambda _, word=name: f"The {word} answer.", judge=scores(), name=name)
        builder.add_node(name, graph)
        if form == "nodes":
            builder.add_edge(START, name)
    if form == "sends":
        builder.add_conditional_edges(START, lambda state: [Send("first", state)] * 2, ["first"])
    parent = builder.compile(checkpointer=InMemorySaver())
    messages = parent.invoke({"messages": [HumanMessage("one", id="1")]}, config())["messages"]

    assert ["human", "ai", "ai"] == [message.type for message in messages]


async def test_other_nodes_keep_their_messages(kind: str) -> None:
    """An undo removes the turn; what another node adds afterwards stays, and is not doubled."""
    model = Numbered()
    builder: Any = StateGraph(MessagesState)
    builder.add_node("talk", child_of(kind, model))
    builder.add_node("log", lambda s: {"messages": [AIMessage(f"noted {len(s['messages'])}")]})
    builder.add_edge(START, "talk")
    builder.add_edge("talk", "log")
    parent = builder.compile(checkpointer=InMemorySaver())
    await send(parent, "invoke", "one")
    await send(parent, "invoke", "two")
    messages = await send(parent, "invoke", "/undo")

    assert "human: two" not in speeches(messages)
    assert "ai: noted 2" in speeches(messages)
    assert len({message.id for message in messages}) == len(messages)
    await send(parent, "invoke", "three")
    assert not any("two" in text for text in model.texts())


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("form", ["invoke", "ainvoke"])
async def test_a_function_around_the_graph_may_return_any_part(form: str, kind: str) -> None:
    """The last message is enough, as a supervisor's `last_message` returns it."""
    model = Numbered()
    outer = Numbered()
    graph = child_of(kind, model)
    alone = make(outer)

    def blocking(state: Any) -> Any:
        return {"messages": graph.invoke(state)["messages"][-1:]}

    async def run_async(state: Any, config: RunnableConfig) -> Any:
        return {"messages": (await graph.ainvoke(state, config))["messages"][-1:]}

    parent = parent_of(blocking if form == "invoke" else run_async)
    for text in ORDERS["undo and redo"]:
        expected = await send(alone, form, text)
        messages = await send(parent, form, text)

        assert speeches(expected) == speeches(messages), text
        assert outer.texts() == model.texts()


async def test_offloaded_messages_stay_in_the_parent() -> None:
    """A long transcript is offloaded inside the graph; the parent keeps and removes as before."""
    model = Numbered()
    settings = {"live_messages": 16}
    parent = parent_of(build_graph(model, judge=scores(), settings=settings), store=InMemoryStore())
    for number in range(40):
        messages = await send(parent, "invoke", f"Question {number} about lists and tuples?")
    assert 80 == len(messages)

    messages = await send(parent, "invoke", "/rollback 30")

    assert [f"Question {n} about lists and tuples?" for n in range(10)] == [
        text_of(m) for m in messages[:-2] if m.type == "human"
    ]
    messages = await send(parent, "invoke", "/undo")
    assert 80 == len([m for m in messages if not text_of(m).startswith("/")]) - 1


async def test_a_host_that_removes_messages_in_the_parent(kind: str) -> None:
    """The graph is not sent them either, unless it keeps a transcript of its own."""
    model = Numbered()
    parent = parent_of(child_of(kind, model))
    await send(parent, "invoke", "one")
    messages = await send(parent, "invoke", "two")
    parent.update_state(
        config(), {"messages": [RemoveMessage(id=m.id or "") for m in messages[2:]]}
    )
    await send(parent, "invoke", "three")

    assert (kind == "True") == any("two" in text for text in model.texts())


@pytest.mark.parametrize("form", ["invoke", "ainvoke"])
async def test_a_decision_inside_the_parent(form: str, kind: str) -> None:
    """A person decides about a failed draft by resuming the parent."""
    model = Numbered()
    graph = child_of(kind, model, lambda _: 0.1, settings={"on_exhausted": "ask"})
    parent = parent_of(graph)
    value: Any = {"messages": [("user", "one")]}
    waiting = parent.invoke(value, config())
    resume: Any = Command(resume={"decisions": [{"type": "approve"}]})
    assert waiting["__interrupt__"]
    if form == "invoke":
        state = parent.invoke(resume, config())
    else:
        state = await parent.ainvoke(resume, config())

    assert ["human", "ai"] == [message.type for message in state["messages"]]
    assert ["human", "ai"] == [m.type for m in (await send(parent, "invoke", "/undo"))[-2:]]


def test_an_order_is_streamed_to_the_host() -> None:
    """The parent's stream of updates shows what was removed."""
    parent = parent_of(build_graph(Numbered(), judge=scores()))
    for text in ("one", "two"):
        parent.invoke({"messages": text}, config())
    updates = list(parent.stream({"messages": "/undo"}, config(), stream_mode="updates"))

    assert "RemoveMessage" in str(updates)


def test_the_graph_inside_itself_changes_nothing_outside() -> None:
    """As the model of another graph of ours it may remove only what is its own."""

    def judge(documents: Any) -> float:
        return 0.1 if "nonsense" in str(documents) else 0.9

    inner = build_graph(Numbered(), judge=judge)
    outer = make(inner, lambda _: 0.9)
    messages = [HumanMessage("what?"), AIMessage("some nonsense"), HumanMessage("two")]
    state = outer.invoke({"messages": messages}, config())

    assert "ai: some nonsense" in speeches(state["messages"])


class Added(TypedDict):
    """Messages that are only ever added."""

    messages: Annotated[list[AnyMessage], add]


class Chat(TypedDict):
    """Messages without a reducer."""

    chat: list[Any]


def test_a_parent_in_which_no_rollback_would_hold_is_refused() -> None:
    """A reducer that only adds keeps what was removed; the model is not asked."""
    model = Numbered()
    parent = parent_of(build_graph(model, judge=scores()), schema=Added)

    with pytest.raises(ConfigurationError, match="ignores RemoveMessage"):
        parent.invoke({"messages": [HumanMessage("one", id="1")]}, config())
    assert not model.inputs


def test_as_node_refuses_what_would_not_hold() -> None:
    """The reason says what the parent lacks; the model is not asked."""
    model = Numbered()
    graph = child_of("as_node", model)
    value: Any = {"messages": [HumanMessage("one", id="1")]}

    def run_anything(_: Any) -> Any:
        return graph.invoke({"messages": "other"})

    def run_renamed(state: Any) -> Any:
        return {"chat": graph.invoke({"messages": state["chat"]})["messages"]}

    with pytest.raises(ConfigurationError, match="its parent has no checkpointer"):
        parent_of(graph, checkpointer=None).invoke(value)
    with pytest.raises(ConfigurationError, match="not given the messages of its parent"):
        parent_of(run_anything).invoke(value, config())
    with pytest.raises(ConfigurationError, match="no messages with a reducer"):
        parent_of(run_renamed, schema=Chat).invoke({"chat": ["one"]}, config())
    assert not model.inputs


def test_a_parent_without_a_checkpointer() -> None:
    """A rollback holds in the state that the parent returns; nothing can be undone."""
    model = Numbered()
    parent = parent_of(build_graph(model, judge=scores()), checkpointer=None)
    state = parent.invoke({"messages": "one"})
    state = parent.invoke({"messages": [*state["messages"], HumanMessage("two")]})
    state = parent.invoke({"messages": [*state["messages"], HumanMessage("/rollback 1")]})

    assert "human: two" not in speeches(state["messages"])
    assert "human: one" in speeches(state["messages"])


def test_as_node_refuses_a_parent_that_is_a_node() -> None:
    """If the parent is interrupted, LangGraph drops what was removed for the outer graph."""
    model = Numbered()
    builder: Any = StateGraph(MessagesState)
    builder.add_node("inner", parent_of(child_of("as_node", model), checkpointer=None))
    builder.add_edge(START, "inner")

    with pytest.raises(ConfigurationError, match="its parent is a node itself"):
        builder.compile(checkpointer=InMemorySaver()).invoke({"messages": "one"}, config())
    assert not model.inputs
