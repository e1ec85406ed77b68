"""What a host sees of a run: traces, scores as feedback, every stream mode, streams that are left."""

import gc
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.context import collect_runs
from langchain_core.tracers.langchain import LangChainTracer
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore
from langsmith import Client

from tests.graph.kit import config, make
from tests.hosts.langsmith_server import LangSmithServer
from unsay import Conversation, tracing
from unsay.graph import build_graph
from unsay.testing import ScriptedChat, ScriptedJudge, ToolCalls

ASK = {"messages": [("user", "What is one plus two?")]}
MODES: list[Any] = ["values", "updates", "messages", "custom", "debug", "checkpoints", "tasks"]
MODES = [*MODES, MODES]
NODES = ["evaluate_quality", "detect_topic_change", "process_message", "create_checkpoint"]
CALL = ToolCalls(calls=[{"name": "add", "args": {"a": 1, "b": 2}}], then="Three is the sum.")


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Tree(BaseTracer):
    """Keeps the runs of each trace."""

    def __init__(self) -> None:
        super().__init__()
        self.roots: list[Any] = []

    def _persist_run(self, run: Any) -> None:
        self.roots.append(run)


def tree_of(run: Any) -> Any:
    """A run as its name and those inside it, without what LangSmith hides."""
    inside = [tree_of(child) for child in run.child_runs if "langsmith:hidden" not in child.tags]
    return (run.name, *inside) if inside else run.name


def walk(run: Any) -> Iterator[Any]:
    """A run and all inside it."""
    yield run
    for child in run.child_runs:
        yield from walk(child)


async def test_traces_name_the_nodes_and_show_each_call_once() -> None:
    """The model, the tools and the judge are where a reader of a trace looks for them."""
    for is_async in (False, True):
        tree = Tree()
        graph = make(ScriptedChat(default=CALL), lambda _: 0.9, tools=[add])
        run: Any = {**config(), "callbacks": [tree]}
        await graph.ainvoke(ASK, run) if is_async else graph.invoke(ASK, run)
        model = ("call_model", "ScriptedChat", "next_step")
        step = ("process_message", ("tool_loop", model, ("tools", "add"), model), "judge")
        around = [*NODES[:2], (*step, "after_process_message"), NODES[3]]
        assert [("unsay", *around)] == [tree_of(root) for root in tree.roots]


def test_calls_beside_the_answer_have_names_and_tags(tmp_path: Path) -> None:
    """`judge`, `summary` and `title`; each call inside has the tags too, so that it can be filtered."""
    with (
        collect_runs() as collector,
        Conversation.open(
            tmp_path / "talk.db",
            model=ScriptedChat(default="Two days are enough."),
            judge=ScriptedJudge(),
            summarizer=ScriptedChat(default="They plan a trip."),
            title=ScriptedChat(default="A trip"),
            settings={"summaries": "model"},
        ) as conversation,
    ):
        for number in range(6):
            conversation.say(f"How long in town {number}?")
        conversation.compact()
    runs = [run for root in collector.traced_runs for run in walk(root)]
    for name in ("judge", "summary", "title"):
        (first, *_) = [run for run in runs if run.name == name]
        assert all({"unsay:aside", f"unsay:{name}"} <= set(run.tags) for run in walk(first))


@pytest.fixture(params=[False, True], ids=["batch", "multipart"])
def langsmith(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[LangSmithServer]:
    """A server, which LangSmith's client may reach."""
    monkeypatch.setenv("LANGSMITH_DISABLE_RUN_COMPRESSION", "true")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with LangSmithServer(multipart=request.param) as server:
        yield server


def connect_tracer(server: LangSmithServer) -> tuple[Client, LangChainTracer]:
    """A client of the server, and the tracer that a host passes as callback."""
    client = Client(api_url=server.url, api_key="key")
    return client, LangChainTracer(project_name="unsay-tests", client=client)


def all_sent(client: Client) -> None:
    """Wait until scores and runs have arrived."""
    tracing.SENDER.drain(30)
    client.flush()


async def test_scores_are_feedback_in_langsmith(langsmith: LangSmithServer) -> None:
    """A draft's score is on its node, the score of the delivered answer on the graph's run."""
    scores_left = [0.2, 0.8, "no score"]
    graph = make(ScriptedChat(default="Three is the sum."), lambda _: scores_left.pop(0))
    client, tracer = connect_tracer(langsmith)
    graph.invoke(ASK, {**config(), "callbacks": [tracer]})
    await graph.ainvoke(ASK, {**config("u"), "callbacks": [tracer]})
    all_sent(client)

    ratings = [
        (langsmith.names(rating["run_id"]), rating["key"], rating["score"])
        for rating in langsmith.feedback
    ]
    node = ["unsay", "process_message"]
    expected = [(node, 0.2), (node, 0.8), (["unsay"], 0.8)]
    assert [(names, "quality_score", score) for names, score in expected] == ratings
    roots = {run["id"] for run in langsmith.runs.values() if not run.get("parent_run_id")}
    assert {rating["trace_id"] for rating in langsmith.feedback} <= roots


def test_a_langsmith_that_fails_changes_no_turn(
    langsmith: LangSmithServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The score is dropped and logged; nobody waits."""
    monkeypatch.setattr(tracing, "ATTEMPTS", 1)
    langsmith.status = 403
    client, tracer = connect_tracer(langsmith)
    graph = make(ScriptedChat(default="Three is the sum."), lambda _: 0.8)
    state = graph.invoke(ASK, {**config(), "callbacks": [tracer]})
    all_sent(client)

    assert 0.8 == state["quality_score"]
    assert [] == langsmith.feedback
    assert "a score was not sent to LangSmith" in caplog.text


def in_a_parent(graph: Any, **savers: Any) -> Any:
    """A parent graph with this one as its node."""
    builder = StateGraph(MessagesState)
    builder.add_node("talk", graph)
    builder.add_edge(START, "talk")
    return builder.compile(**savers)


def host(kind: str) -> Any:
    """A graph alone, with tools or an agent as model, and one in a parent."""
    savers: Any = {"checkpointer": InMemorySaver(), "store": InMemoryStore()}
    judge = ScriptedChat(default='{"score": 0.9, "reason": "right"}')
    options: Any = {"judge": judge, "settings": {"thread_wait_seconds": 0}}
    chat = ScriptedChat(default=CALL)
    if kind == "agent":
        agents = pytest.importorskip("langchain.agents", reason="needs langchain")
        return build_graph(agents.create_agent(chat, tools=[add]), **options, **savers)
    if kind == "parent":
        return in_a_parent(build_graph(chat, tools=[add], **options), **savers)
    return build_graph(chat, tools=[add], **options, **savers)


KINDS = pytest.mark.parametrize("kind", ["tools", "agent", "parent"])


@pytest.mark.sample(every=3)
@KINDS
async def test_every_stream_mode_gives_the_same_blocking_and_awaited(kind: str) -> None:
    """Each mode alone and all at once, with and without subgraphs; the answer comes in each."""
    graph = host(kind)
    for mode in MODES:
        stream = graph.astream(ASK, config(f"{mode}"), stream_mode=mode, subgraphs=True)
        chunks = [chunk async for chunk in stream]
        assert chunks
        assert mode == "custom" or "Three" in repr(chunks)
    for subgraphs in (False, True):
        options: Any = {"stream_mode": MODES[-1], "subgraphs": subgraphs}
        blocking = list(graph.stream(ASK, config("b"), **options))
        async_chunks = [chunk async for chunk in graph.astream(ASK, config("a"), **options)]
        assert len(blocking) == len(async_chunks)


@KINDS
async def test_astream_events_have_the_tokens_and_the_tags(kind: str) -> None:
    """A host tells the answer's tokens from the judge's by the tag."""
    graph = host(kind)
    tokens: dict[bool, str] = {False: "", True: ""}
    async for event in graph.astream_events(ASK, config(), version="v2"):
        if event["event"] == "on_chat_model_stream":
            is_aside = "unsay:aside" in event["tags"]
            assert is_aside == ("unsay:judge" in event["tags"])
            chunk = event["data"]["chunk"]
            tokens[is_aside] += f"{chunk.content}{chunk.tool_calls if is_aside else ''}"
    assert "Three is the sum." == tokens[False]
    assert "score" in tokens[True]


@pytest.mark.full
@KINDS
async def test_a_stream_that_is_left_closes(kind: str) -> None:
    """After `close`, `aclose` or a dropped stream the thread is free at once, without a warning."""
    graph = host(kind)
    for mode in ("messages", MODES[-1]):
        options: Any = {"stream_mode": mode, "subgraphs": True}
        for chunk_count in (1, 4):
            thread = config(f"{mode} {chunk_count}")
            running = graph.stream(ASK, thread, **options)
            for _ in range(chunk_count):
                next(running, None)
            running.close()
            running = graph.stream(ASK, thread, **options)
            next(running)
            del running
            gc.collect()
            stream = graph.astream(ASK, thread, **options)
            for _ in range(chunk_count):
                await anext(stream, None)
            await stream.aclose()
            state = await graph.ainvoke(ASK, thread)
            assert "Three is the sum." == state["messages"][-1].content
    assert not [thread for thread in threading.enumerate() if thread.name == "unsay-call"]


def test_an_agent_judges_and_its_messages_stay_out_of_the_stream() -> None:
    """Its reply is read from its messages or its structured response; no mode `messages` shows it."""
    agents = pytest.importorskip("langchain.agents", reason="needs langchain")
    plain_model = ScriptedChat(default='{"score": 0.7, "reason": "heard by nobody"}')
    call = {"name": "Grade", "args": {"score": 0.6, "reason": "heard by nobody"}}
    tool_model = ScriptedChat(default=ToolCalls(calls=[call], then="done"))
    schema = {"title": "Grade", "type": "object", "properties": {"score": {"type": "number"}}}
    for judge, score in (
        (agents.create_agent(plain_model), 0.7),
        (agents.create_agent(plain_model).with_retry(), 0.7),
        (agents.create_agent(tool_model, response_format=schema), 0.6),
    ):
        graph = make(ScriptedChat(default="Three is the sum."), judge)
        for subgraphs in (False, True):
            thread = config(f"{subgraphs}")
            options: Any = {"stream_mode": "messages", "subgraphs": subgraphs}
            chunks: list[Any] = list(graph.stream(ASK, thread, **options))
            messages: list[BaseMessage] = [
                (chunk[1] if subgraphs else chunk)[0] for chunk in chunks
            ]
            assert "nobody" not in repr([message.content for message in messages])
            assert score == graph.get_state(thread).values["quality_score"]


def test_a_held_answer_streams_no_draft_from_subgraphs() -> None:
    """`stream="held"` holds with tools and `subgraphs=True`, too: only the delivered answer comes."""
    first_scores = [0.1]
    graph = make(
        ScriptedChat(default=CALL),
        lambda _: first_scores.pop() if first_scores else 0.9,
        tools=[add],
        settings={"stream": "held"},
    )
    options: Any = {"stream_mode": "messages", "subgraphs": True}
    chunks: list[Any] = list(graph.stream(ASK, config(), **options))
    texts = [message.content for _, (message, _) in chunks if message.content]
    assert 1 == texts.count("Three is the sum.")
