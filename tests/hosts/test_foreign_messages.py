"""Whatever a host, a model or another graph makes a message of: the thread answers the next question."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    HumanMessageChunk,
    SystemMessage,
    ToolMessage,
)
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore
from typing_extensions import TypedDict

from tests.hosts.savers import answering, question_input
from tests.reading import said
from unsay.conversation.conversation import Conversation
from unsay.errors import InputError, ModelReplyError
from unsay.graph import build_graph
from unsay.storage.sqlite import open_database
from unsay.testing import ScriptedJudge

pytestmark = [
    pytest.mark.usefixtures("closes_databases"),
    # LangGraph's own saver warns of classes that are not LangChain's.
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings"),
]


class Voice(HumanMessage):
    """A question with a field of its own."""

    seconds: int = 3


class Priced(AIMessage):
    """An answer with a field of its own."""

    cost: float = 0.1


class Rules(SystemMessage):
    """Instructions of a class of their own."""


class Row(ToolMessage):
    """A result with a field of its own."""

    table: str = "t"


class Spoken(HumanMessageChunk):
    """A piece of a question, with a field of its own."""

    seconds: int = 3


class Remark(BaseMessage):
    """A message of no kind that LangChain knows."""

    type: str = "remark"


CLASSES: list[Callable[[Any], BaseMessage]] = [
    *(Voice, Priced, Rules, Spoken, Remark, HumanMessage, AIMessage, AIMessageChunk),
    lambda content: Row(content, tool_call_id="call"),
    lambda content: ChatMessage(role="critic", content=content),
    lambda content: ChatMessage(role="assistant", content=content),
    lambda content: FunctionMessage(name="f", content=content),
]
ODD = st.sampled_from(
    [None, 5, True, 1.5, "", "words", [], [5], ["words"], {}, {"a": 1}, {"url": 5}, [{"text": "t"}]]
)
BLOCKS = st.dictionaries(
    st.sampled_from(["type", "text", "id", "name", "input", "source_type", "image_url", "summary"]),
    st.one_of(
        ODD, st.sampled_from(["text", "image", "audio", "tool_use", "reasoning", "thinking"])
    ),
    max_size=3,
)
CONTENT = st.one_of(
    st.just("words"), ODD, st.lists(st.one_of(BLOCKS, st.just("words")), max_size=2)
)
CALLS = st.lists(
    st.dictionaries(st.sampled_from(["name", "args", "id", "type", "function"]), ODD), max_size=2
)
ROLES = st.sampled_from(
    [
        "user",
        "assistant",
        "system",
        "developer",
        "tool",
        "function",
        "chat",
        "critic",
        "nobody",
        "remove",
    ]
)
DICTS = st.builds(
    lambda role, content: {"role": role, **content},
    ROLES,
    st.fixed_dictionaries(
        {},
        optional={
            "content": CONTENT,
            "id": ODD,
            "name": ODD,
            "tool_calls": st.one_of(ODD, CALLS),
            "tool_call_id": ODD,
            "response_metadata": ODD,
            "additional_kwargs": ODD,
        },
    ),
)


def message(build: Callable[[Any], BaseMessage], content: Any, fields: dict[str, Any]) -> Any:
    """A message of a class; fields may have any value, since LangChain does not check those set later."""
    result = build("words")
    for name, value in {"content": content, **fields}.items():
        setattr(result, name, value)
    return result


CHANGED = st.dictionaries(st.sampled_from(["id", "name", "response_metadata"]), ODD, max_size=1)
OBJECTS = st.builds(message, st.sampled_from(CLASSES), CONTENT, CHANGED)
GIVEN = st.lists(st.one_of(OBJECTS, DICTS, st.tuples(ROLES, CONTENT), ODD), max_size=3)


class Loose(TypedDict):
    """The state of a graph that keeps anything."""

    messages: Any


def store_loosely(value: Any, saver: Any, run_config: Any) -> None:
    """Let another graph write to the thread what unsay would refuse; the saver may refuse it."""
    builder: Any = StateGraph(Loose).add_node("put", lambda _: {"messages": value})
    with suppress(Exception):
        builder.add_edge(START, "put").compile(checkpointer=saver).invoke(
            {"messages": []}, run_config
        )


numbers = count()


@pytest.mark.full
@pytest.mark.parametrize("door", ["input", "update", "add", "another graph"])
@given(value=GIVEN)
@example(value=[message(HumanMessage, "words", {"id": [5]})])
def test_a_thread_stays_usable(door: str, value: list[Any]) -> None:
    """What no provider knows is refused, and nothing is stored, or it is read and the thread goes on."""
    database = open_database(":memory:")
    thread_id = f"t{next(numbers)}"
    run_config: Any = {"configurable": {"thread_id": thread_id}}
    graph = answering(checkpointer=database.saver, store=database.store)
    conversation = Conversation.open(
        database, thread=thread_id, model=lambda _: "An answer", judge=ScriptedJudge()
    )
    graph.invoke(question_input("Hello?"), run_config)
    before = graph.get_state(run_config).values["messages"]

    try:
        if door == "input":
            graph.invoke({"messages": value}, run_config)
        elif door == "update":
            graph.update_state(run_config, {"messages": value})
        elif door == "add":
            conversation.add(value)
        else:
            store_loosely(value, database.saver, run_config)
    except InputError:
        assert before == graph.get_state(run_config).values["messages"]

    assert "ai" == graph.invoke(question_input("And now, please?"), run_config)["messages"][-1].type
    for verb in ("/undo", "/redo", "/rollback"):
        graph.invoke(question_input(verb), run_config)
    str(conversation.timeline()), str(conversation.branches()), conversation.messages()
    assert "An answer" == str(conversation.say("Is it well?"))
    database.close()


@pytest.mark.parametrize("given_role", ["function", "chat"])
def test_words_of_an_unknown_author_are_a_document(given_role: str) -> None:
    """They reach the model as retrieved material, never as a question of the user."""
    calls: list[Any] = []
    graph = answering(
        model=lambda messages: calls.append(messages) or "An answer", checkpointer=InMemorySaver()
    )
    one = FunctionMessage(name="f", content="It rains.")
    critic = ChatMessage(role="critic", content="It rains.")
    run_config: Any = {"configurable": {"thread_id": "t"}}

    state = graph.invoke({"messages": [one if given_role == "function" else critic]}, run_config)
    assert [("human", "document")] == [
        (message.type, message.name) for message in state["messages"]
    ]
    assert not calls

    state = graph.invoke(question_input("And the weather?"), run_config)
    assert "An answer" == state["messages"][-1].text
    assert "It rains." in str(calls[-1][-1].content)


def test_a_parents_foreign_messages_are_answered() -> None:
    """A node of the parent writes a class of its own, which its checkpointer restores as it was."""
    node = answering()
    builder: Any = StateGraph(MessagesState).add_node("talk", node)
    builder.add_node("remark", lambda _: {"messages": [FunctionMessage(name="f", content="Odd.")]})
    builder.add_edge(START, "remark").add_edge("remark", "talk")
    parent = builder.compile(checkpointer=InMemorySaver(), store=InMemoryStore())
    run_config: Any = {"configurable": {"thread_id": "t"}}

    for question in ("One?", "Two?", "/undo", "Three?"):
        state = parent.invoke({"messages": [Voice(question)]}, run_config)

    assert "ai" == state["messages"][-1].type


class Server(BaseChatModel):
    """A chat model that first calls tools and then answers with what it was told."""

    calls: list[dict[str, Any]]

    @property
    def _llm_type(self) -> str:
        return "server"

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        """The model as it is."""
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        results = [message.text for message in messages if message.type == "tool"]
        reply = Priced(" and ".join(results)) if results else Priced("", tool_calls=self.calls)
        return ChatResult(generations=[ChatGeneration(message=reply)])


def double(number: int) -> str:
    """Return twice a number."""
    return str(2 * number)


@pytest.mark.parametrize("call_id", [None, "", "same"])
@pytest.mark.parametrize("form", ["invoke", "ainvoke"])
def test_calls_without_an_id_of_their_own_get_one(call_id: str | None, form: str) -> None:
    """Each result is paired with its call, in the turn and in later ones."""
    calls = [{"name": "double", "args": {"number": n}, "id": call_id} for n in (1, 2)]
    database = open_database(":memory:")
    graph = build_graph(
        Server(calls=calls),
        judge=ScriptedJudge(),
        tools=[double],
        checkpointer=database.saver,
        store=database.store,
    )
    run_config: Any = {"configurable": {"thread_id": "t"}}
    state: Any = {}
    for question in ("Double them?", "Again?"):
        if form == "invoke":
            state = graph.invoke(question_input(question), run_config)
        else:
            state = asyncio.run(graph.ainvoke(question_input(question), run_config))

    expected = ["human: Double them?", "ai: ", "tool: 2", "tool: 4", "ai: 2 and 4"]
    assert [*expected, "human: Again?", "ai: 2 and 4"] == said(state["messages"])
    ids = [call["id"] for call in state["messages"][1].tool_calls]
    assert 2 == len(set(ids))
    assert all(ids)
    assert ids == [message.tool_call_id for message in state["messages"][2:4]]
    assert {AIMessage, HumanMessage, ToolMessage} == {
        type(message) for message in state["messages"]
    }
    database.close()


def test_a_reply_of_another_role_ends_the_turn_with_our_error() -> None:
    """The question waits, and a model that answers gets it."""
    replies: list[Any] = [ChatMessage(role="model", content="?"), "An answer"]
    saver = InMemorySaver()
    graph = answering(model=lambda _: replies.pop(0), checkpointer=saver)
    run_config: Any = {"configurable": {"thread_id": "t"}}

    with pytest.raises(ModelReplyError):
        graph.invoke(question_input("Hello?"), run_config)

    assert "An answer" == graph.invoke(None, run_config)["messages"][-1].text
