"""Which messages of the graph around unsay are its conversation: by any name, in any form."""

from operator import add
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph, add_messages
from pydantic import BaseModel
from typing_extensions import TypedDict

from tests.graph.kit import Numbered, config, make, scores
from tests.hosts.test_as_node import ORDERS, Parent, child_of, parent_of, speeches
from unsay.errors import ConfigurationError, InputError
from unsay.graph import build_graph
from unsay.hosts.entry import HostGraph
from unsay.testing import ScriptedChat, ToolCalls


def keep_newest(earlier: Any, update: Any) -> Any:
    """A reducer of a host's own, which keeps the newest messages."""
    messages: Any = add_messages(earlier, update)
    return messages[-40:]


class Chat(TypedDict):
    """Messages under another name, beside those of somebody else."""

    messages: Annotated[list[AnyMessage], add_messages]
    chat: Annotated[list[AnyMessage], add_messages]
    notes: Annotated[list[str], add]


class Model(BaseModel):
    """A parent's state that pydantic checks."""

    chat: Annotated[list[AnyMessage], add_messages] = []


class Own(TypedDict):
    """Messages with a reducer of the host's own."""

    chat: Annotated[list[AnyMessage], keep_newest]


class Plain(TypedDict):
    """Messages without a reducer."""

    messages: list[Any]


class Added(TypedDict):
    """Messages that are only ever added."""

    messages: Annotated[list[Any], add]


class Replaced(TypedDict):
    """Messages that each write replaces."""

    messages: Annotated[list[Any], lambda _, new: new]


def chat_of(state: Any) -> list[AnyMessage]:
    """The messages of a parent's state."""
    messages: list[AnyMessage] = state["chat"] if isinstance(state, dict) else state.chat
    return messages


@pytest.mark.sample(every=4)
@pytest.mark.parametrize(
    ("schema", "form", "kind"),
    [
        *((Chat, form, "None") for form in ("all", "last", "copies", "async")),
        *((Chat, "last", kind) for kind in ("True", "as_node")),
        *((schema, form, "None") for schema in (Model, Own) for form in ("all", "copies")),
    ],
)
async def test_orders_hold_under_another_name(schema: Any, form: str, kind: str) -> None:
    """What is removed and restored, and what the model is sent next, is as in the graph alone."""
    inner = Numbered()
    outer = Numbered()
    graph = child_of(kind, inner)
    alone = make(outer)

    def blocking(state: Any) -> Any:
        messages_given: Any = chat_of(state)
        if form == "copies":
            messages_given = [(message.type, message.content) for message in messages_given]
        messages = graph.invoke({"messages": messages_given})["messages"]
        return {"chat": messages if form == "all" else messages[-1:]}

    async def run_async(state: Any) -> Any:
        return {"chat": (await graph.ainvoke({"messages": chat_of(state)}))["messages"][-1:]}

    parent = parent_of(run_async if form == "async" else blocking, schema=schema)
    for text in (*ORDERS["undo and redo"], "/rollback 1", "six"):
        alone.invoke({"messages": [("user", text)]}, config())
        await parent.ainvoke({"chat": [("user", text)]}, config())

        expected = alone.get_state(config()).values["messages"]
        assert speeches(expected) == speeches(chat_of(parent.get_state(config()).values)), text
        assert outer.texts() == inner.texts()


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("key", ["messages", "chat"])
def test_orders_hold_in_the_graph_around_the_parent(key: str) -> None:
    """A parent that is a node itself, also behind a function, does not keep what was removed."""
    inner = Numbered()
    outer = Numbered()
    parent = parent_of(child_of("None", inner), checkpointer=None)
    alone = make(outer)

    def around(state: Any) -> Any:
        return {key: parent.invoke({"messages": state[key]})["messages"]}

    grandparent = parent_of(around if key == "chat" else parent, schema=Chat)
    for text in ORDERS["undo and redo"]:
        alone.invoke({"messages": [("user", text)]}, config())
        state = grandparent.invoke({key: [("user", text)]}, config())

        assert speeches(alone.get_state(config()).values["messages"]) == speeches(state[key]), text
        assert outer.texts() == inner.texts()


FORMS: Any = {
    "message": HumanMessage("one"),
    "tuple": ("user", "one"),
    "dict": {"role": "user", "content": "one"},
}


@pytest.mark.parametrize("name", FORMS)
def test_a_reducer_that_only_adds_is_refused_with_the_reason(name: str) -> None:
    """Messages without ids, tuples and dicts are recognized too; the model is not asked."""
    model = Numbered()
    parent = parent_of(build_graph(model, judge=scores()), schema=Added)

    with pytest.raises(ConfigurationError, match="declare messages: Annotated"):
        parent.invoke({"messages": [FORMS[name]]}, config())
    assert not model.inputs


@pytest.mark.parametrize("schema", [Plain, Replaced, MessagesState])
@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_a_message_is_answered(name: str, schema: Any) -> None:
    """Without a reducer, or with one that replaces, the result has each message once."""
    parent = parent_of(build_graph(Numbered(), judge=scores()), schema=schema)
    messages = parent.invoke({"messages": [FORMS[name]]}, config())["messages"]

    assert ["human", "ai"] == [message.type for message in messages]
    messages = parent.invoke({"messages": [*messages, ("user", "/rollback")]}, config())["messages"]
    assert ["human: /rollback"] == [speech for speech in speeches(messages) if "human" in speech][
        -1:
    ]


def test_a_removal_that_the_parent_would_keep_is_refused() -> None:
    """A function that passes a part of messages that are only added gets an error, not a notice."""
    graph = build_graph(Numbered(), judge=scores(), checkpointer=InMemorySaver())

    def run_part(state: Any) -> Any:
        return {"messages": graph.invoke({"messages": state["messages"][1:]})["messages"][-1:]}

    builder: Any = StateGraph(Added).add_node("talk", run_part).add_edge(START, "talk")
    parent = builder.compile(checkpointer=InMemorySaver())
    parent.invoke({"messages": [("system", "Be brief."), HumanMessage("one", id="1")]}, config())
    before = parent.get_state(config()).values["messages"]

    with pytest.raises(ConfigurationError, match="ignores RemoveMessage"):
        parent.invoke({"messages": [HumanMessage("/rollback 1", id="2")]}, config())
    assert before == parent.get_state(config()).values["messages"][:-1]


def in_sequence(first: Any, second: Any) -> Any:
    """A parent with two nodes, one after the other."""
    builder: Any = StateGraph(Parent).add_sequence([("first", first), ("second", second)])
    return builder.add_edge(START, "first").compile(checkpointer=InMemorySaver())


def critic(model: Any) -> HostGraph:
    """Another graph of unsay."""
    return build_graph(model, judge=scores(), name="critic")


@pytest.mark.parametrize("form", ["unsay", "agent"])
async def test_a_second_node_without_a_question_is_refused(form: str) -> None:
    """The first node's answer is no question; a command that it carried out needs no second answer."""
    model = Numbered()
    first = (
        child_of("None", Numbered()) if form == "unsay" else lambda _: {"messages": ("ai", "Hi")}
    )
    parent = in_sequence(first, critic(model))

    with pytest.raises(InputError, match="add a user message"):
        parent.invoke({"messages": [("user", "one")]}, config())
    with pytest.raises(InputError, match="add a user message"):
        await parent.ainvoke({"messages": [("user", "two")]}, config("awaited"))
    if form == "unsay":
        state = parent.invoke({"messages": [("user", "/undo")]}, config())
        assert "ai: Removed 1 turn. /redo restores it." == speeches(state["messages"])[-1]
        parent.invoke({"should_rollback": True}, config())
    assert not model.inputs


def test_a_user_message_between_two_nodes_is_answered() -> None:
    """The second node answers what a node before it adds."""
    builder: Any = StateGraph(MessagesState)
    builder.add_sequence(
        [
            ("first", child_of("None", Numbered())),
            ("ask", lambda _: {"messages": [("user", "Is that true?")]}),
            ("second", critic(Numbered())),
        ]
    )
    parent = builder.add_edge(START, "first").compile(checkpointer=InMemorySaver())
    state = parent.invoke({"messages": [("user", "one")]}, config())

    assert ["human", "ai", "human", "ai"] == [message.type for message in state["messages"]]


def test_an_exchange_that_a_host_passes_needs_no_answer() -> None:
    """Messages with which the parent's run begins may end in an answer: they are judged."""
    parent = parent_of(child_of("None", Numbered()))
    state = parent.invoke({"messages": [("user", "one"), ("ai", "Two days.")]}, config())

    assert ["human: one", "ai: Two days."] == speeches(state["messages"])
    assert 0.9 == state["messages"][1].response_metadata["unsay"]["score"]


@pytest.mark.parametrize("form", ["invoke", "ainvoke", "unsay"])
async def test_parallel_calls_of_one_tool_share_a_transcript(form: str) -> None:
    """Each call of an agent sees the one before, and none is lost inside of a graph of unsay."""
    model = Numbered()
    settings = {"topics": "off"}
    guide = build_graph(model, judge=scores(), checkpointer=True, name="guide", settings=settings)

    def ask_guide(question: str) -> str:
        """Ask the guide."""
        answer: str = guide.invoke({"messages": [("user", question)]})["messages"][-1].text
        return answer

    async def ask_guide_async(question: str) -> str:
        """Ask the guide."""
        state = await guide.ainvoke({"messages": [("user", question)]})
        answer: str = state["messages"][-1].text
        return answer

    tools = [ask_guide_async if form == "ainvoke" else ask_guide]
    name = tools[0].__name__
    calls = [{"name": name, "args": {"question": town}} for town in ("Kyoto?", "Nara?", "Uji?")]
    chat = ScriptedChat(default=ToolCalls(calls=calls, then="Stay two days."))
    if form == "unsay":
        agent: Any = build_graph(chat, judge=scores(), tools=tools, checkpointer=InMemorySaver())
    else:
        agent = create_agent(chat, tools=tools, checkpointer=InMemorySaver())
    for _ in range(2):
        question = {"messages": [("user", "Plan my trip.")]}
        if form == "ainvoke":
            state = await agent.ainvoke(question, config())
        else:
            state = agent.invoke(question, config())

    assert 6 == len([message for message in state["messages"] if message.type == "tool"])
    counts = [
        len([message for message in messages if message.type == "human"])
        for messages in model.inputs
    ]
    assert form == "unsay" or [1, 2, 3, 4, 5, 6] == counts
