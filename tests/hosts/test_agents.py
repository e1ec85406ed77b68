"""Agents as the model: their own state, their structured replies, and their tokens."""

import asyncio
import json
import logging
import threading
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelCallLimitMiddleware, ToolCallLimitMiddleware
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from pydantic import BaseModel
from typing_extensions import TypedDict

from tests.graph.kit import config, make, scores
from unsay import Conversation
from unsay.errors import ConfigurationError, InputError, ModelReplyError
from unsay.graph.builder import build_graph
from unsay.models.agents import state_before, with_agent_state
from unsay.testing import Fault, ScriptedChat, ScriptedJudge, ToolCalls


class Task(BaseModel):
    """A value of the agent's own class."""

    title: str


class Given(TypedDict):
    """What the agent takes."""

    messages: Annotated[list[AnyMessage], add_messages]
    files: dict[str, str]


class Returned(TypedDict):
    """What the agent gives."""

    messages: Annotated[list[AnyMessage], add_messages]
    todos: list[Task]


class Everything(Given, Returned):
    """The agent's state; `secret` and `calls` are private."""

    secret: str
    calls: int


def _work(state: Everything) -> dict[str, Any]:
    """Note each question as a todo and as a file."""
    question = str(state["messages"][-1].content).splitlines()[0]
    todos = state.get("todos", [])
    files = state.get("files", {})
    answer = AIMessage(f"{len(todos)} todos and {len(files)} files were there before this one.")
    return {
        "messages": [answer],
        "todos": [*todos, Task(title=question)],
        "files": {**files, question: "text"},
        "secret": "words",
        "calls": state.get("calls", 0) + 1,
    }


def agent(**options: Any) -> Any:
    """An agent with todos and files."""
    builder = StateGraph(Everything, input_schema=Given, output_schema=Returned)
    builder.add_node("work", _work)
    builder.add_edge(START, "work")
    builder.add_edge("work", END)
    return builder.compile(**options)


def count(text: str) -> str:
    """The numbers of todos and files in an answer."""
    text_words = text.split()
    return f"{text_words[0]} {text_words[3]}"


def ask(question: str) -> Any:
    """A host's input."""
    return {"messages": [("user", question)]}


def _fails(state: Everything) -> Any:
    raise ValueError("The agent failed.")


def failing_agent() -> Any:
    """An agent that answers nothing."""
    builder = StateGraph(Everything, input_schema=Given, output_schema=Returned)
    builder.add_node("work", _fails)
    builder.add_edge(START, "work")
    return builder.compile()


CHAT = ScriptedChat(default="Two days in Kyoto.")
FAILING_CHAT = ScriptedChat(default=Fault(error=ValueError("The chat failed.")))


@pytest.mark.parametrize(
    ("main", "fallback", "expected"),
    [
        (agent(), CHAT, "0 todos"),
        (failing_agent(), CHAT, "Two days"),
        (failing_agent(), agent(), "0 todos"),
        (CHAT, agent(), "Two days"),
        (FAILING_CHAT, agent(), "0 todos"),
    ],
    ids=["not-used", "chat", "agent", "agent-not-used", "agent-of-a-chat"],
)
def test_a_fallback_of_any_kind_answers(main: Any, fallback: Any, expected: str) -> None:
    """A chat model for an agent that fails, and the reverse, blocking and on an event loop."""
    model = main.with_fallbacks([fallback]).with_retry(stop_after_attempt=1)
    graph = build_graph(model, judge=ScriptedJudge(), checkpointer=InMemorySaver())
    blocking = graph.invoke(ask("q"), config("blocking"))
    async_state = asyncio.run(graph.ainvoke(ask("q"), config("awaited")))
    for state in (blocking, async_state):
        assert state["messages"][-1].text.startswith(expected)


@pytest.mark.sample(every=2)
@pytest.mark.parametrize(
    "wrap",
    [
        lambda agent: agent,
        lambda agent: agent.with_retry(),
        lambda agent: agent | (lambda state: state),
    ],
    ids=["alone", "retries", "sequence"],
)
def test_the_state_of_an_agent_follows_the_transcript(wrap: Any, tmp_path: Path) -> None:
    """Todos and files are there in the next turn, and are rolled back, redone and forked."""
    path = tmp_path / "t.db"
    options: Any = {"model": wrap(agent()), "judge": ScriptedJudge()}
    with Conversation.open(path, thread="t", **options) as conversation:
        assert ["0 0", "1 1"] == [
            count(conversation.say(question).text) for question in ("買い物", "two")
        ]
        conversation.undo()
        assert "1 1" == count(conversation.say("three").text)
        conversation.undo()
        conversation.redo()
        assert "2 2" == count(conversation.say("four").text)
    with Conversation.open(path, thread="t", **options) as conversation:
        fork_of_end = conversation.fork()
        fork_of_start = conversation.fork(turns=2)
        conversation.rollback(turns=2)
        assert "1 1" == count(conversation.say("five").text)
        assert "3 3" == count(fork_of_end.say("in the fork").text)
        assert "2 2" == count(conversation.say("six").text)
        assert "1 1" == count(fork_of_start.say("in the earlier fork").text)
        fork_of_end.undo()
        fork_of_end.redo()
        assert "3 3" == count(fork_of_end.retry().text)


async def test_the_state_holds_in_the_compiled_graph() -> None:
    """So it is for a host, which may also go back by LangGraph's own states."""
    graph = make(agent(), ScriptedJudge())
    run = config()
    first = await graph.ainvoke(ask("one"), run)
    after_one = graph.get_state(run).config
    second = graph.invoke(ask("two"), run)
    replay = graph.invoke(ask("three"), after_one)
    counts = [count(state["messages"][-1].content) for state in (first, second, replay)]
    assert ["0 0", "1 1", "1 1"] == counts
    rollback = graph.invoke({"messages": [("user", "/undo")]}, run)
    assert "1 1" == count(graph.invoke(ask("four"), run)["messages"][-1].content), rollback


async def test_the_agents_own_state_is_refused_in_an_input() -> None:
    """A host's value for the agent is not dropped without a word; other names are ignored."""
    graph = build_graph(
        agent().with_config(tags=["mine"]), judge=ScriptedJudge(), checkpointer=InMemorySaver()
    )
    for name in ("files", "unknown"):
        value = {**ask("q"), name: {"a": "text"}}
        if name == "unknown":
            graph.invoke(value, config())
            continue
        with pytest.raises(InputError, match="files: only the agent inside writes this"):
            graph.invoke(value, config())
        with pytest.raises(InputError, match="files: only the agent inside writes this"):
            await graph.ainvoke(value, config())
        with pytest.raises(InputError, match="files: only the agent inside writes this"):
            graph.update_state(config(), value)
    assert "0 0" == count(graph.get_state(config()).values["messages"][-1].text)


LIMITS: Any = {
    "model": ModelCallLimitMiddleware(thread_limit=2),
    "tools": ToolCallLimitMiddleware(thread_limit=2, exit_behavior="end"),
}


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("limit", LIMITS)
async def test_a_limit_by_thread_counts_the_turns(limit: str, tmp_path: Path) -> None:
    """It ends the third turn, also on an event loop; an undo takes a turn's count back."""
    call = ToolCalls(calls=[{"name": "look", "args": {}}], then="It is open.")
    model = ScriptedChat(default="It is open." if limit == "model" else call)

    def look() -> str:
        """Look."""
        return "9:00 to 17:00"

    inner: Any = create_agent(model, tools=[look], middleware=[LIMITS[limit]])
    graph = build_graph(inner, judge=ScriptedJudge(), checkpointer=InMemorySaver())
    answers = [graph.invoke(ask(q), config())["messages"][-1].text for q in ("1", "2", "3")]
    graph.invoke(ask("/undo"), config())
    graph.invoke(ask("/undo"), config())
    answers += [graph.invoke(ask(q), config())["messages"][-1].text for q in ("4", "5")]
    assert [False, False, True, False, True] == ["limit" in text for text in answers]

    replies = []
    for q in "123":
        with Conversation.open(
            tmp_path / "a.db", thread="t", model=inner, judge=ScriptedJudge()
        ) as conversation:
            replies.append(conversation.say(q).text)
    replies += [(await graph.ainvoke(ask(q), config("b")))["messages"][-1].text for q in "123"]
    assert [False, False, True] * 2 == ["limit" in text for text in replies]


def test_a_rejected_draft_leaves_no_state() -> None:
    """The next attempt, and the next turn, do not find what a rejected draft made."""
    graph = make(agent(), scores(0.1, 0.9))
    state = graph.invoke(ask("one"), config())
    assert "0 0" == count(state["messages"][-1].content)
    assert "1 1" == count(graph.invoke(ask("two"), config())["messages"][-1].content)


@pytest.mark.parametrize("checkpointer", [InMemorySaver(), True])
def test_an_agent_with_a_checkpointer_is_refused(checkpointer: Any) -> None:
    """It would remember what was rolled back; so would an agent inside of it."""
    with pytest.raises(ConfigurationError, match=r"its own checkpointer.*rolled back"):
        build_graph(agent(checkpointer=checkpointer))
    outer = StateGraph(Everything)
    outer.add_node("inner", agent(checkpointer=checkpointer))
    outer.add_edge(START, "inner")
    with pytest.raises(ConfigurationError, match="its own checkpointer"):
        build_graph(outer.compile())


class Locked(Given):
    """A state with a value that cannot be stored."""

    lock: threading.Lock


def test_what_cannot_be_kept_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """`build_graph` names the channels that are lost, with the reason."""
    builder = StateGraph(Locked)
    builder.add_node("work", lambda _: {"messages": [AIMessage("A short answer to it.")]})
    builder.add_edge(START, "work")
    with caplog.at_level(logging.WARNING, logger="unsay"):
        build_graph(builder.compile())
        build_graph(agent())
    assert [("lock" in message, "secret" in message) for message in caplog.messages] == [
        (True, False),
        (False, True),
    ]


def test_a_state_that_a_changed_agent_cannot_read_is_left_out() -> None:
    """The agent's new type for a channel is one of which no value can be stored."""
    builder = StateGraph(Locked)
    builder.add_node("work", lambda _: {"messages": [AIMessage("A short answer to it.")]})
    builder.add_edge(START, "work")
    answers = with_agent_state([AIMessage("An answer")], {"lock": "text", "files": {"a": "b"}})

    assert {"files": {"a": "b"}} == state_before(builder.compile(), answers)


def test_a_channel_whose_value_does_not_fit_is_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The answer is delivered, and the reason is logged; pydantic's errors take more than a text."""

    class Numbers(TypedDict):
        messages: Annotated[list[Any], add_messages]
        numbers: list[int]
        raw: bytes

    builder = StateGraph(Numbers)
    answer = {"messages": [AIMessage("Two days are enough for the temples of Kyoto.")]}
    builder.add_node("work", lambda _: {**answer, "numbers": "seven", "raw": b"\xff"})
    builder.add_edge(START, "work")
    options: Any = {"model": builder.compile(), "judge": ScriptedJudge()}
    with (
        caplog.at_level(logging.WARNING, logger="unsay"),
        Conversation.open(":memory:", **options) as conversation,
    ):
        assert "temples" in conversation.say("How long in Kyoto?").text
    assert [True, True] == [f"channel '{name}'" in caplog.text for name in ("numbers", "raw")]


class Shape(BaseModel):
    """A structured reply."""

    name: str
    legs: int


def test_a_structured_reply_is_returned() -> None:
    """An agent that answers by a tool call gives its values as text and as data, in each turn."""
    agents = pytest.importorskip("langchain.agents", reason="needs langchain")
    call = {"name": "Shape", "args": {"name": "クモ", "legs": 8}}
    structured_output = pytest.importorskip("langchain.agents.structured_output")
    model = ScriptedChat(default=ToolCalls(calls=[call]))
    inner = agents.create_agent(model, response_format=structured_output.ToolStrategy(Shape))
    graph = make(inner, ScriptedJudge())
    for question in ("one", "two"):
        answer = graph.invoke(ask(question), config())["messages"][-1]
        expected = {"name": "クモ", "legs": 8}
        assert expected == json.loads(answer.content)
        agent_state = answer.response_metadata["unsay"]["agent_state"]
        assert expected == agent_state["structured_response"]


def test_a_structured_reply_that_json_cannot_hold_is_named() -> None:
    """The error says what is wrong with the reply."""

    def model(state: Any) -> dict[str, Any]:
        return {"messages": state, "structured_response": object()}

    with (
        Conversation.open(":memory:", model=model, judge=ScriptedJudge()) as conversation,
        pytest.raises(ModelReplyError, match="structured reply is not JSON"),
    ):
        conversation.say("How long in Kyoto?")


def test_deep_agents_keep_todos_and_files() -> None:
    """The files of one turn can be read in the next, and todos are kept."""
    deepagents = pytest.importorskip("deepagents", reason="needs deepagents")
    write = {"name": "write_file", "args": {"file_path": "/a.txt", "content": "legs: 8"}}
    plan = [{"content": "count", "status": "pending"}]
    todos = {"name": "write_todos", "args": {"todos": plan}}
    middleware = pytest.importorskip("langchain.agents.middleware").TodoListMiddleware()
    read_call = {"name": "read_file", "args": {"file_path": "/a.txt"}}
    model = ScriptedChat(
        replies={
            "write": ToolCalls(calls=[write, todos], then="I wrote the file for you."),
            "read": ToolCalls(calls=[read_call], then="I have read the file for you."),
        }
    )
    deep = deepagents.create_deep_agent(model=model, middleware=[middleware])
    graph = make(deep, ScriptedJudge())
    graph.invoke(ask("write"), config())
    state = graph.invoke(ask("read"), config())
    results = [message.content for message in state["messages"] if message.type == "tool"]
    assert "legs: 8" in results[-1]
    agent_state = state["messages"][-1].response_metadata["unsay"]["agent_state"]
    assert (["/a.txt"], plan) == (list(agent_state["files"]), agent_state["todos"])
    for _ in range(2):
        graph.invoke({"messages": [("user", "/undo")]}, config())
    state = graph.invoke(ask("read"), config())
    results = [message.content for message in state["messages"] if message.type == "tool"]
    assert "legs: 8" not in results[-1]


def talker(model: ScriptedChat) -> Any:
    """An agent that calls a chat model."""
    builder = StateGraph(Given)
    builder.add_node("talk", lambda state: {"messages": [model.invoke(state["messages"])]})
    builder.add_edge(START, "talk")
    return builder.compile()


def _streamed_texts(chunks: list[Any], node: str = "process_message") -> list[str]:
    return [
        chunk.content
        for chunk, metadata in chunks
        if isinstance(chunk, AIMessageChunk) and metadata["langgraph_node"] == node
    ]


async def test_the_tokens_of_an_agent_stream() -> None:
    """They come without `subgraphs=True`, once, as those of the node that answers."""
    answer = "Spiders have eight legs, and insects have six."
    inner = talker(ScriptedChat(default=answer))
    outer = StateGraph(Given)
    outer.add_node("worker", inner)
    outer.add_edge(START, "worker")
    for model in (inner, outer.compile(), inner.with_retry()):
        graph = make(model, ScriptedJudge())
        pairs = list(graph.stream(ask("one"), config(), stream_mode="messages"))
        async_chunks = [
            chunk async for chunk in graph.astream(ask("one"), config("u"), stream_mode="messages")
        ]
        for stream in (pairs, async_chunks):
            assert len(_streamed_texts(stream)) > 3
            assert answer == "".join(_streamed_texts(stream))
            assert [] == [chunk for chunk, _ in stream if type(chunk) is AIMessage]
        with_subgraphs = graph.stream(
            ask("one"), config("w"), stream_mode="messages", subgraphs=True
        )
        chunks = [
            payload[0] for _, payload in with_subgraphs if isinstance(payload[0], AIMessageChunk)
        ]
        assert answer == "".join(str(chunk.content) for chunk in chunks)
    holding = make(inner, ScriptedJudge(), settings={"stream": "held"})
    pairs = list(holding.stream(ask("one"), config(), stream_mode="messages"))
    assert [] == _streamed_texts(pairs)


def test_the_tokens_of_create_agent_stream() -> None:
    """The tokens of LangChain's agent come, and those of an agent inside a tool do not."""
    agents = pytest.importorskip("langchain.agents", reason="needs langchain")
    helper = talker(ScriptedChat(default="I am the helper, and nobody hears me."))

    def consult(question: str) -> str:
        """Consult the helper."""
        return str(helper.invoke({"messages": [("user", question)]})["messages"][-1].content)

    call = ToolCalls(
        calls=[{"name": "consult", "args": {"question": "?"}}], then="Spiders have eight legs."
    )
    graph = make(agents.create_agent(ScriptedChat(default=call), tools=[consult]), ScriptedJudge())
    chunks = list(graph.stream(ask("one"), config(), stream_mode="messages"))
    assert "Spiders have eight legs." == "".join(_streamed_texts(chunks))


def test_the_files_of_finished_steps_are_there_in_the_next_attempt() -> None:
    """A rejected draft's steps are not run again, so the state that they made is kept with them."""
    deepagents = pytest.importorskip("deepagents", reason="needs deepagents")
    write = {"name": "write_file", "args": {"file_path": "/a.txt", "content": "legs: 8"}}
    first = ToolCalls(calls=[write], then="A first answer that is wrong.")
    model = ScriptedChat(replies={"write": [first, "A second answer that is right."]})
    graph = make(deepagents.create_deep_agent(model=model), scores(0.1, 0.9))
    answer = graph.invoke(ask("write"), config())["messages"][-1]
    assert "A second answer that is right." == answer.content
    assert ["/a.txt"] == list(answer.response_metadata["unsay"]["agent_state"]["files"])
