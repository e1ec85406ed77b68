"""What a host may pass to the compiled graph, and what becomes of everything else."""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    convert_to_messages,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import EmptyInputError, InvalidUpdateError
from langgraph.graph import START, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.types import Command, Overwrite, Send
from pydantic import BaseModel
from typing_extensions import TypedDict

from tests.hosts.savers import CONFIG, answering, open_savers, opened_awaited, question_input
from unsay.conversation.conversation import Conversation
from unsay.errors import InputError, UnsayError
from unsay.graph import build_graph
from unsay.hosts.entry import HostGraph, Trusted
from unsay.state import Input, State, merge_messages
from unsay.storage.sqlite import open_database

pytestmark = pytest.mark.usefixtures("closes_databases")

BLOCKS: list[Any] = [
    {"type": "text", "text": "What is this? これは何? 🕷"},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
]
MESSAGES = [
    pytest.param("What? これは? 🕷", id="text"),
    pytest.param(["One?", "Two?"], id="texts"),
    pytest.param(("user", "What?"), id="pair"),
    pytest.param([("user", "One?"), ("ai", "One."), ("human", "Two?")], id="pairs"),
    pytest.param({"role": "user", "content": "What?"}, id="role"),
    pytest.param({"type": "human", "content": "What?", "id": "mine"}, id="type"),
    pytest.param([{"role": "user", "content": BLOCKS}], id="content blocks"),
    pytest.param(HumanMessage("What?"), id="message"),
    pytest.param([SystemMessage("Be brief."), HumanMessage(BLOCKS, id="m")], id="messages"),
    pytest.param([AIMessageChunk("Half"), ("user", "What?")], id="chunk"),
    pytest.param([], id="none"),
]
BAD_MESSAGES = [
    pytest.param(None, id="null"),
    pytest.param(5, id="number"),
    pytest.param({}, id="empty object"),
    pytest.param([{"content": "x"}], id="no role"),
    pytest.param([{"role": "user"}], id="no content"),
    pytest.param([{"role": "user", "content": 5}], id="content is a number"),
    pytest.param([{"role": "nobody", "content": "x"}], id="unknown role"),
    pytest.param(("nobody", "x"), id="unknown role of a pair"),
    pytest.param([[HumanMessage("x")]], id="nested"),
    pytest.param([("user", "x"), None], id="null in a list"),
    pytest.param("a \ud800 b", id="lone surrogate"),
    pytest.param([HumanMessage([{"type": "text", "text": "\udfff"}])], id="surrogate in a block"),
    pytest.param([HumanMessage("x", additional_kwargs={"n": 2**70})], id="not storable"),
    pytest.param(Overwrite([HumanMessage("x")]), id="overwrite"),
    pytest.param({"__overwrite__": [HumanMessage("x")]}, id="overwrite in JSON"),
    pytest.param({"value": [], "type": "__overwrite__"}, id="overwrite without its class"),
]
PRIVATE = sorted(State.__annotations__.keys() - Input.__annotations__.keys())
BAD_VALUES = [
    pytest.param({"should_rollback": "yes"}, id="flag"),
    pytest.param({"should_rollback": Overwrite(value=True)}, id="overwritten flag"),
    pytest.param({"rollback_checkpoint_id": 5}, id="id"),
    pytest.param({"rollback_checkpoint_id": {"__overwrite__": "x"}}, id="overwritten id"),
    pytest.param({"messages": "fine", "turn": {"done": True}}, id="private"),
    pytest.param({"pins": {"__overwrite__": []}}, id="private overwritten"),
    pytest.param(Command(update={"checkpoints": [{"id": "x"}]}), id="command"),
    pytest.param(Command(update=[("topics", 5)]), id="command with pairs"),
    pytest.param(Command(update={"messages": None}), id="command with bad messages"),
    pytest.param(Command(update="x"), id="command with a text"),
    pytest.param(Command(goto="process_message"), id="goto"),
    pytest.param(Command(goto=Send("process_message", {"turn": 5})), id="send"),
    pytest.param(Command(goto=[Send("rollback", {})], update={"messages": "x"}), id="sends"),
    pytest.param(Send("process_message", {}), id="bare send"),
    pytest.param([Command(update={"turn": 5})], id="list of commands"),
    pytest.param(Overwrite({"messages": []}), id="overwrite"),
    pytest.param([HumanMessage("x")], id="list"),
    pytest.param("x", id="text"),
    pytest.param(Command(), id="empty command"),
]


@pytest.fixture(params=["memory", "ours", "sqlite"])
def kind(request: pytest.FixtureRequest) -> str:
    """The savers; `tests/postgres` runs the same tests on its own."""
    return str(request.param)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the savers' files."""
    return tmp_path


@dataclass(frozen=True)
class Host:
    """A host that runs the graph, blocking or on an event loop."""

    kind: str
    folder: Path
    awaits: bool
    memory: Any
    """The saver in memory, which must outlive a run."""

    def does(self, act: Callable[[HostGraph], Any], act_async: Callable[[HostGraph], Any]) -> Any:
        """Open the saver, run the graph, and close everything again."""
        if not self.awaits:
            with (
                nullcontext(self.memory)
                if self.memory
                else open_savers(self.kind, self.folder) as savers
            ):
                return act(answering(**savers))

        async def run() -> Any:
            if self.memory:
                return await act_async(answering(**self.memory))
            async with opened_awaited(self.kind, self.folder) as savers:
                return await act_async(answering(**savers))

        return asyncio.run(run())

    def invoke(self, value: Any) -> Any:
        """Run the graph."""
        return self.does(lambda g: g.invoke(value, CONFIG), lambda g: g.ainvoke(value, CONFIG))

    def update(self, value: Any, as_node: str | None) -> Any:
        """Update the state."""
        return self.does(
            lambda g: g.update_state(CONFIG, value, as_node=as_node),
            lambda g: g.aupdate_state(CONFIG, value, as_node=as_node),
        )

    def state(self) -> Any:
        """The thread's state."""
        return self.does(lambda g: g.get_state(CONFIG), lambda g: g.aget_state(CONFIG))

    def messages(self) -> list[BaseMessage]:
        """The transcript as it is stored now."""
        return list(self.state().values.get("messages", []))


@pytest.fixture(params=[False, True], ids=["blocking", "awaited"])
def host(request: pytest.FixtureRequest, folder: Path, kind: str) -> Iterator[Host]:
    """A host with its own saver and one answered turn."""
    with ExitStack() as stack:
        savers = stack.enter_context(open_savers(kind, folder)) if kind == "memory" else None
        host_under_test = Host(kind=kind, folder=folder, awaits=request.param, memory=savers)
        host_under_test.invoke(question_input("Hello?"))
        yield host_under_test


def speeches(messages: list[Any]) -> list[tuple[str, Any]]:
    """Who says what."""
    return [(message.type, message.content) for message in messages]


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("messages", MESSAGES)
def test_what_add_messages_accepts_works(host: Host, messages: Any) -> None:
    """The transcript has what LangGraph's reducer makes of it, and the same after a restart."""
    before = len(host.messages())
    messages_returned = host.invoke({"messages": messages})["messages"]
    messages_given = convert_to_messages(cast("Any", add_messages([], messages)))

    assert speeches(messages_given) == speeches(
        messages_returned[before : before + len(messages_given)]
    )
    assert bool(messages_given) == (len(messages_returned) == before + len(messages_given) + 1)
    assert messages_returned == host.messages()
    assert len(messages_returned) == len({message.id for message in messages_returned})


@contextmanager
def expect_no_change(host: Host) -> Iterator[None]:
    """What happens meanwhile leaves the thread as it was."""
    before = host.state()
    yield
    assert before == host.state()


def expect_refusal() -> Any:
    """A refusal says what is wrong, and that nothing was stored."""
    return pytest.raises(InputError, match=r"Nothing was stored$")


def bad_values() -> Iterator[Any]:
    """Everything that a host may not pass."""
    for param in BAD_MESSAGES:
        yield {"messages": param.values[0]}
        yield Command(update={"messages": param.values[0]})
    for param in BAD_VALUES:
        yield param.values[0]


@pytest.mark.sample(every=4)
def test_everything_else_is_refused_as_input(host: Host) -> None:
    """The thread is as it was, and answers the next question."""
    with expect_no_change(host):
        for value in bad_values():
            with expect_refusal():
                host.invoke(value)

    assert "This answers Well?" == host.invoke(question_input("Well?"))["messages"][-1].text


@pytest.mark.sample(every=4)
def test_everything_else_is_refused_as_an_update(host: Host) -> None:
    """An update is refused for each node that it claims to come from."""
    nodes = itertools.cycle([None, "__start__", "__input__", "process_message"])
    with expect_no_change(host):
        for value, as_node in zip(bad_values(), nodes, strict=False):
            with expect_refusal():
                host.update(value, as_node)

    host.update({"messages": ("user", "Well?")}, "__start__")
    assert "This answers Well?" == host.invoke(None)["messages"][-1].text


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("name", PRIVATE)
def test_no_private_channel_can_be_written(name: str) -> None:
    """An input, a command and an update are refused, for every node."""
    graph = answering(checkpointer=InMemorySaver())
    graph.invoke(question_input("Hello?"), CONFIG)
    before = graph.get_state(CONFIG)
    value: dict[str, Any] = {name: "theirs"}
    for given_value in (value, Command(update=value), {**value, "messages": "x"}):
        with pytest.raises(InputError, match=f"^{name}: only unsay writes this"):
            graph.invoke(given_value, CONFIG)
    with pytest.raises(InputError, match=f"^{name}: only unsay writes this"):
        graph.invoke(value, {"configurable": {}})
    for node in [None, *graph.nodes, "__input__"]:
        with pytest.raises(InputError, match=f"^{name}: only unsay writes this"):
            graph.update_state(CONFIG, value, as_node=node)

    assert before == graph.get_state(CONFIG)


def test_an_update_inside_a_copy_is_checked(host: Host) -> None:
    """LangGraph takes a list of updates together with a copy of a state."""
    bad = [({"turn": {"done": True}}, "process_message")]
    with expect_no_change(host), expect_refusal():
        host.update(bad, "__copy__")


@pytest.mark.sample(every=2)
def test_a_host_may_pass_on_what_it_read(host: Host) -> None:
    """AG-UI sends a thread's whole state with a new message, and writes it back to edit one."""
    values = dict(host.state().values)
    host.update(values, "__start__")
    messages_returned = host.invoke({**values, "messages": "Well?", "ag-ui": {"tools": []}})

    assert ["Hello?", "This answers Hello?", "Well?", "This answers Well?"] == [
        message.text for message in messages_returned["messages"]
    ]
    with expect_no_change(host), expect_refusal():
        host.invoke({**values, "turn": {}})


def test_removals_work(host: Host) -> None:
    """A host replaces the messages with `RemoveMessage`, as the refusal of `Overwrite` says."""
    new = [RemoveMessage(id=REMOVE_ALL_MESSAGES), HumanMessage("New?"), AIMessage("New.")]
    host.invoke({"messages": new})

    assert [("human", "New?"), ("ai", "New.")] == speeches(host.messages())


class Typed(BaseModel):
    """A pydantic state."""

    messages: list[Any]


@dataclass
class Plain:
    """A state that is a dataclass."""

    messages: list[Any]


@pytest.mark.parametrize("kind_of_state", [Typed, Plain])
def test_a_state_may_be_an_object(kind_of_state: Callable[..., Any]) -> None:
    """A parent graph with such a state passes it as it is."""
    state = answering().invoke(kind_of_state(messages=[("user", "Well?")]))

    assert "This answers Well?" == state["messages"][-1].text


def test_ids_are_unique_across_threads_and_runs() -> None:
    """The same words in another thread, or again in this one, are other messages."""
    graph = answering(checkpointer=InMemorySaver())
    ids = []
    for thread in ("a", "b"):
        config: Any = {"configurable": {"thread_id": thread}}
        for _ in range(2):
            graph.invoke({"messages": ["Well?", ("user", "Well?")]}, config)
        graph.invoke(question_input("/undo"), config)
        ids += [message.id for message in graph.get_state(config).values["messages"]]
    ids += [
        message.id
        for message in graph.builder.compile().invoke(question_input("Well?"))["messages"]
    ]
    for _ in range(2):
        ids += [message.id for message in answering().invoke(question_input("Well?"))["messages"]]

    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    "node", ["evaluate_quality", "detect_topic_change", "process_message", "rollback"]
)
def test_an_update_before_the_first_turn_does_no_harm(node: str) -> None:
    """The next question is answered, although the update began no turn."""
    graph = answering(checkpointer=InMemorySaver())
    graph.update_state(CONFIG, {"messages": [("ai", "Welcome!")]}, as_node=node)
    graph.invoke(None, CONFIG)

    assert (
        "This answers Well?" == graph.invoke(question_input("Well?"), CONFIG)["messages"][-1].text
    )


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("messages", [5, None, {"x": 1}, [["user", 5]], [{"role": "nobody"}]])
def test_a_bad_write_of_an_older_version_is_left_out(host: Host, messages: Any) -> None:
    """Earlier versions stored a write before they read it; the next question is answered."""
    bad: Any = Trusted({"messages": messages})
    host.update(bad, "create_checkpoint")

    assert "This answers Well?" == host.invoke(question_input("Well?"))["messages"][-1].text
    assert 4 == len(host.messages())


def test_reading_bad_writes_does_not_depend_on_their_split() -> None:
    """LangGraph may replay writes in any batches."""
    writes: list[Any] = [HumanMessage("a", id="1"), 5, [None, ("ai", "b")], {"x": 1}]
    messages_in_order = merge_messages([], writes)

    assert ["a", "b"] == [message.content for message in messages_in_order]
    for split in range(len(writes) + 1):
        assert messages_in_order == merge_messages(
            merge_messages([], writes[:split]), writes[split:]
        )
    assert [] == merge_messages(cast("Any", 5), [])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "type", "content", "id", "__overwrite__", "value", "x"])
            | st.text(max_size=3),
            inner | st.sampled_from(["user", "ai", "tool", "remove", "__remove_all__"]),
            max_size=3,
        )
    ),
    max_leaves=8,
)
CHANNELS = st.sampled_from([*State.__annotations__, "other"])
NODES = st.sampled_from([*build_graph().nodes, "__input__", "__copy__", "__end__", "nobody"])
WRITES: Any = st.dictionaries(CHANNELS, JSON, min_size=1, max_size=2) | JSON
STEPS = st.one_of(
    st.tuples(st.just("input"), WRITES),
    st.tuples(st.just("command"), WRITES),
    st.tuples(st.just("resume"), JSON),
    st.tuples(st.just("update"), WRITES, st.none() | NODES),
    st.tuples(st.just("turn"), st.sampled_from(["Well?", "/undo", "/rollback", "/redo"])),
)


@pytest.fixture(scope="module", params=["memory", "ours"])
def graph(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A graph over a saver that many threads share."""
    with open_savers(request.param, tmp_path_factory.mktemp("property")) as savers:
        yield answering(**savers)


@pytest.mark.sample(every=2)
@given(steps=st.lists(STEPS, min_size=1, max_size=6))
def test_no_json_makes_a_thread_unusable(graph: HostGraph, steps: list[Any]) -> None:
    """Arbitrary JSON in any channel, in any order with good turns; then a question is answered."""
    config: Any = {"configurable": {"thread_id": str(uuid4())}}
    for door, value, *node in steps:
        with suppress(UnsayError, EmptyInputError, InvalidUpdateError):
            if door == "turn":
                graph.invoke(question_input(value), config)
            elif door == "input":
                graph.invoke(value, config)
            elif door == "update":
                graph.update_state(config, value, as_node=node[0])
            else:
                order = {"resume": value} if door == "resume" else {"update": value}
                graph.invoke(Command(**order), config)
    state = graph.invoke(question_input("And now?"), config)

    assert "This answers And now?" == state["messages"][-1].text
    assert state["messages"] == graph.get_state(config).values["messages"]


def test_a_conversation_goes_on_after_refusals(tmp_path: Path) -> None:
    """The same file opens with `Conversation`, and every verb works."""
    database = open_database(tmp_path / "talk.db")
    graph = answering(checkpointer=database.saver, store=database.store)
    graph.invoke(question_input("Hello?"), CONFIG)
    for value in bad_values():
        with suppress(InputError):
            graph.invoke(value, CONFIG)
    with Conversation.open(database, thread="t", model=lambda _: "An answer.") as conversation:
        conversation.say("Well?")
        assert 1 == conversation.undo().turns
        assert ["Hello?", "This answers Hello?"] == [m.text for m in conversation.messages()]
    database.close()


def test_an_input_with_none_of_the_graphs_names_is_refused() -> None:
    """Alone, as an update, and from a parent whose messages have another name."""

    class Parent(TypedDict):
        chat: Annotated[list[AnyMessage], add_messages]

    graph = build_graph(lambda _: "Hi.", judge=lambda _: 0.9)
    saved = build_graph(lambda _: "Hi.", judge=lambda _: 0.9, checkpointer=InMemorySaver())
    parent = StateGraph(Parent).add_node("talk", graph).add_edge(START, "talk").compile()
    calls: list[Callable[[], object]] = [
        lambda: graph.invoke({"input": "Hello"}),
        lambda: saved.update_state(CONFIG, {"input": "Hello"}),
        lambda: parent.invoke({"chat": [("user", "Hello")]}),
    ]
    for call in calls:
        with pytest.raises(
            InputError, match=r"has only '.*', which the graph does not read; a host"
        ):
            call()
