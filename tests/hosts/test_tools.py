"""Tools as hosts write them: injected state and store, commands, hand-offs, and async tools."""

from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime
from langgraph.store.base import BaseStore
from langgraph.types import Command

from tests.graph.kit import config, make
from unsay import Conversation
from unsay.errors import ConfigurationError
from unsay.testing import ScriptedChat, ScriptedJudge, ToolCalls

SEEN: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    SEEN.clear()


def ask(question: str) -> Any:
    """A host's input."""
    return {"messages": [("user", question)]}


def calls(name: str, **args: Any) -> ScriptedChat:
    """A model that calls a tool, then answers."""
    call = ToolCalls(calls=[{"name": name, "args": args}], then="The tool has done its work.")
    return ScriptedChat(replies={"tool": call}, default="An answer without tools.")


@tool
def look(state: Annotated[dict[str, Any], InjectedState]) -> str:
    """Look at the conversation."""
    SEEN.append([str(message.content) for message in state["messages"]])
    SEEN.append(state["current_topic"])
    return "seen"


@tool
def look_at_messages(messages: Annotated[list[AnyMessage], InjectedState("messages")]) -> str:
    """Look at the messages."""
    SEEN.append([str(message.content) for message in messages])
    SEEN.append("")
    return "seen"


@tool
def look_through_runtime(runtime: ToolRuntime) -> str:
    """Look through the runtime."""
    SEEN.append([str(message.content) for message in runtime.state["messages"]])
    SEEN.append("")
    return "seen"


@pytest.mark.parametrize("tool", [look, look_at_messages, look_through_runtime])
async def test_a_tool_sees_the_conversation(tool: Any) -> None:
    """Its state has the earlier turns, the question and the call; not commands or their notices."""
    graph = make(calls(tool.name), ScriptedJudge(), tools=[tool])
    graph.invoke(ask("こんにちは"), config())
    graph.invoke(ask("/help"), config())
    graph.invoke(ask("use the tool"), config())
    expected = ["こんにちは", "An answer without tools.", "use the tool", ""]
    assert expected == SEEN[0]
    await graph.ainvoke(ask("use the tool again"), config())
    assert [*expected, "seen", "The tool has done its work.", "use the tool again", ""] == SEEN[2]


async def test_a_tool_gets_the_store(tmp_path: Path) -> None:
    """Through the graph it is the host's store, and in a conversation that of the file."""

    @tool
    def remember(what: str, store: Annotated[BaseStore, InjectedStore]) -> str:
        """Remember something."""
        store.put(("mine",), what, {"kept": True})
        return "kept"

    graph = make(calls("remember", what="legs"), ScriptedJudge(), tools=[remember])
    graph.invoke(ask("use the tool"), config())
    assert graph.store is not None
    assert ["legs"] == [item.key for item in graph.store.search(("mine",))]
    model = calls("remember", what="legs")
    options: Any = {"model": model, "judge": ScriptedJudge(), "tools": [remember]}
    with Conversation.open(tmp_path / "t.db", **options) as conversation:
        conversation.say("use the tool")
        assert "kept" == conversation.messages()[-2].content


@tool
def note(word: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Return an update."""
    message = ToolMessage(f"noted: {word}", tool_call_id=tool_call_id)
    return Command(update={"messages": [message], "anything": 1})


async def test_a_tool_may_return_a_command() -> None:
    """Its messages are the result of the call."""
    graph = make(calls("note", word="足"), ScriptedJudge(), tools=[note])
    for state in (
        graph.invoke(ask("use the tool"), config()),
        await graph.ainvoke(ask("use the tool"), config("u")),
    ):
        contents = [message.content for message in state["messages"]]
        assert ["use the tool", "", "noted: 足", "The tool has done its work."] == contents


@tool
def transfer_to_bob(
    state: Annotated[dict[str, Any], InjectedState],
    tool_call_id: Annotated[str, InjectedToolCallId],
) -> Command[Any]:
    """Hand the conversation over to Bob."""
    result = ToolMessage("Bob takes over.", tool_call_id=tool_call_id)
    messages = [*state["messages"], result]
    return Command(goto="bob", graph=Command.PARENT, update={"messages": messages})


def bob(state: MessagesState) -> dict[str, Any]:
    """Another agent."""
    SEEN.append([str(message.content) for message in state["messages"]])
    return {"messages": [AIMessage("Bob speaking.")]}


async def test_a_hand_off_reaches_the_graph_around() -> None:
    """The other node goes on with the whole conversation."""
    worker = make(
        calls("transfer_to_bob"),
        ScriptedJudge(),
        tools=[transfer_to_bob],
        checkpointer=None,
        store=None,
    )
    for is_async in (False, True):
        SEEN.clear()
        builder = StateGraph(MessagesState)
        builder.add_node("alice", worker, destinations=("bob",))
        builder.add_node("bob", bob)
        builder.add_edge(START, "alice")
        parent = builder.compile(checkpointer=InMemorySaver())
        question = ask("use the tool")
        state = (
            await parent.ainvoke(question, config())
            if is_async
            else parent.invoke(question, config())
        )
        assert [["use the tool", "", "Bob takes over."]] == SEEN
        assert "Bob speaking." == state["messages"][-1].content
        assert 4 == len(state["messages"])


def test_a_hand_off_without_a_graph_around_is_refused() -> None:
    """The error says where the graph must be added."""
    graph = make(calls("transfer_to_bob"), ScriptedJudge(), tools=[transfer_to_bob])
    with pytest.raises(ConfigurationError, match=r"'bob'.*no graph around.*add it as a node"):
        graph.invoke(ask("use the tool"), config())


async def count_legs(animal: str) -> str:
    """Count the legs."""
    return f"{animal}: 8"


@pytest.mark.parametrize(
    "tool",
    [count_legs, StructuredTool.from_function(coroutine=count_legs)],
    ids=["function", "tool"],
)
async def test_an_async_tool_works_from_blocking_code(tool: Any, tmp_path: Path) -> None:
    """So does one of an MCP server, also inside of an event loop."""
    options: Any = {
        "model": calls("count_legs", animal="クモ"),
        "judge": ScriptedJudge(),
        "tools": [tool],
    }
    with Conversation.open(tmp_path / "t.db", **options) as conversation:
        conversation.say("use the tool")
        assert "クモ: 8" == conversation.messages()[-2].content
    graph = make(options["model"], options["judge"], tools=[tool])
    state = await graph.ainvoke(ask("use the tool"), config())
    assert "クモ: 8" == state["messages"][-2].content


def test_an_agent_with_async_tools_works_from_blocking_code(tmp_path: Path) -> None:
    """The agent that answers calls them too; its own tool node is not changed."""
    agents = pytest.importorskip("langchain.agents", reason="needs langchain")
    agent = agents.create_agent(calls("count_legs", animal="クモ"), tools=[count_legs])
    with Conversation.open(tmp_path / "t.db", model=agent, judge=ScriptedJudge()) as conversation:
        conversation.say("use the tool")
        assert "クモ: 8" == conversation.messages()[-2].content
    assert agent.nodes["tools"].bound.tools_by_name["count_legs"].func is None


def test_an_agent_inside_of_agents_calls_async_tools_from_blocking_code() -> None:
    """The agent is a node of the agent that answers, or of a node of it."""
    agents = pytest.importorskip("langchain.agents", reason="needs langchain")
    model = agents.create_agent(calls("count_legs", animal="spider"), tools=[count_legs])
    for thread in ("one", "two"):
        builder: Any = StateGraph(MessagesState)
        builder.add_node("worker", model)
        builder.add_edge(START, "worker")
        model = builder.compile()
        state = make(model, ScriptedJudge()).invoke(ask("use the tool"), config(thread))
        assert "spider: 8" == state["messages"][-2].content
