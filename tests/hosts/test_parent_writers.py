"""One writer per thread, when the thread is that of a graph around unsay."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, RetryPolicy, Send, interrupt

from tests.hosts.savers import CONFIG, answer, open_savers, opened_awaited, question_input
from tests.hosts.test_writers import LAST, Starts, freeze, linux, start  # noqa: F401 - a fixture
from unsay.errors import ConflictError
from unsay.graph import as_node, build_graph
from unsay.hosts.entry import HostGraph
from unsay.testing import ScriptedJudge

KINDS = ["None", "True", "own", "as_node"]
COMBINATIONS = [*(("memory", kind) for kind in KINDS), ("ours", "None"), ("sqlite", "True")]
Run = Callable[[Any, Any], Any]


def child_of(kind: str, model: Any) -> HostGraph:
    """The graph with no checkpointer, with `True`, with its own, or as `as_node` returns it."""
    saver: Any = {"True": True, "own": InMemorySaver()}.get(kind)
    graph = build_graph(model, judge=ScriptedJudge(), checkpointer=saver)
    return as_node(graph) if kind == "as_node" else graph


def parent_of(node: Any, *, first: Any = None, **savers: Any) -> Any:
    """A parent that runs `first`, if any, and then the graph."""
    builder: Any = StateGraph(MessagesState)
    builder.add_node("talk", node)
    if first is None:
        builder.add_edge(START, "talk")
    else:
        builder.add_node("first", first)
        builder.add_edge(START, "first")
        builder.add_edge("first", "talk")
    return builder.compile(**savers)


def outcome(run: Callable[[], Any]) -> str:
    """The answer of a run, or that it was refused."""
    try:
        return str(run()["messages"][-1].text)
    except ConflictError:
        return "refused"


def check(graph: Any, answers_by_question: dict[str, str], paid: list[str]) -> None:
    """Each turn that was not refused is whole, and a model was paid for no other."""
    texts = [message.text for message in graph.get_state(CONFIG).values["messages"]]
    for question, got in answers_by_question.items():
        if got == "refused":
            assert not any(question in text for text in paid)
        else:
            assert question in got
            assert texts[texts.index(got) - 1].endswith(question)


class Paid:
    """A model that answers its newest question, and records which questions it was paid for."""

    def __init__(self) -> None:
        self.questions: list[str] = []

    def __call__(self, messages: list[Any]) -> str:
        """The answer."""
        self.questions.append(messages[-1].text)
        return answer(messages)


WAYS: dict[str, Run] = {
    "invoke": lambda graph, value: graph.invoke(value, CONFIG),
    "exit": lambda graph, value: graph.invoke(value, CONFIG, durability="exit"),
    "sync": lambda graph, value: graph.invoke(value, CONFIG, durability="sync"),
    "stream": lambda graph, value: list(graph.stream(value, CONFIG, stream_mode="values"))[-1],
}


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("form", WAYS)
@pytest.mark.parametrize(("saver", "kind"), COMBINATIONS)
def test_parallel_runs_land_whole_or_are_refused(
    tmp_path: Path, saver: str, kind: str, form: str
) -> None:
    """Of six runs that begin together none reports an answer that the thread does not have."""
    model = Paid()
    begin = Barrier(6, timeout=60)

    def run(question: str) -> str:
        begin.wait()
        return outcome(lambda: WAYS[form](graph, question_input(question)))

    with open_savers(saver, tmp_path) as savers, ThreadPoolExecutor(6) as pool:
        graph = parent_of(child_of(kind, model), **savers)
        WAYS[form](graph, question_input("before"))
        questions = [f"q{number}" for number in range(6)]
        answers_by_question = dict(zip(questions, pool.map(run, questions), strict=True))
        answers_by_question["before"] = "This answers before"

        check(graph, answers_by_question, model.questions)
        assert "after" in outcome(lambda: WAYS[form](graph, question_input("after")))


@pytest.mark.parametrize(("saver", "kind"), COMBINATIONS)
async def test_parallel_tasks_land_whole_or_are_refused(
    tmp_path: Path, saver: str, kind: str
) -> None:
    """The same on one event loop."""
    model = Paid()
    answers_by_question = {}
    async with opened_awaited(saver, tmp_path) as savers:
        graph = parent_of(child_of(kind, model), **savers)

        async def run(question: str) -> None:
            try:
                state = await graph.ainvoke(question_input(question), CONFIG)
                answers_by_question[question] = state["messages"][-1].text
            except ConflictError:
                answers_by_question[question] = "refused"

        await asyncio.gather(*(run(f"q{number}") for number in range(6)))
        assert set(answers_by_question.values()) != {"refused"}
        await asyncio.to_thread(check, graph, answers_by_question, model.questions)
        await run("after")
        assert "after" in answers_by_question["after"]


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_began_before_another_ended_is_refused(kind: str, durability: Any) -> None:
    """It reached the graph afterwards, and still works on the messages from before."""
    model = Paid()
    waits = Event()
    goes = Event()

    def first(state: Any) -> Any:
        if state["messages"][-1].text == "slow":
            waits.set()
            assert goes.wait(60)
        return {}

    graph = parent_of(child_of(kind, model), first=first, checkpointer=InMemorySaver())
    graph.invoke(question_input("before"), CONFIG, durability=durability)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(
            outcome, lambda: graph.invoke(question_input("slow"), CONFIG, durability=durability)
        )
        assert waits.wait(60)
        quick = graph.invoke(question_input("quick"), CONFIG, durability=durability)["messages"][
            -1
        ].text
        goes.set()

    assert "refused" == slow.result()
    texts = [message.text for message in graph.get_state(CONFIG).values["messages"]]
    assert quick == texts[-1]
    assert not any("slow" == question for question in model.questions)


def test_a_turn_below_many_states_of_a_run_that_failed_is_not_lost() -> None:
    """A run from before the turn wrote forty states on top of it and never reached the graph."""
    waits = Event()
    goes = Event()

    def wait(state: Any) -> Any:
        if state["messages"][-1].text == "slow":
            waits.set()
            assert goes.wait(60)
        return {}

    def fail(state: Any) -> Any:
        if state["messages"][-1].text == "slow":
            raise RuntimeError("broken")
        return {}

    builder: Any = StateGraph(MessagesState)
    names = [f"step{number}" for number in range(40)]
    steps = [wait, *[lambda _: {}] * (len(names) - 2), fail]
    for name, node in zip(names, steps, strict=True):
        builder.add_node(name, node)
    builder.add_node("talk", build_graph(Paid(), judge=ScriptedJudge()))
    builder.add_edge(START, names[0])
    for one, two in pairwise([*names, "talk"]):
        builder.add_edge(one, two)
    saver = InMemorySaver()
    graph = builder.compile(checkpointer=saver)
    short = parent_of(child_of("None", Paid()), checkpointer=saver)
    short.invoke(question_input("before"), CONFIG)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(graph.invoke, question_input("slow"), {**CONFIG, "recursion_limit": 100})
        assert waits.wait(60)
        quick = short.invoke(question_input("quick"), CONFIG)["messages"][-1].text
        goes.set()
        with pytest.raises(RuntimeError, match="broken"):
            slow.result()

    assert "refused" == outcome(lambda: short.invoke(question_input("next"), CONFIG))
    short.invoke(question_input("again"), CONFIG)
    texts = [message.text for message in short.get_state(CONFIG).values["messages"]]
    assert quick in texts


def test_an_update_of_the_parent_during_a_run_refuses_it() -> None:
    """A host that updates the parent's state before the graph is reached keeps its update."""

    def first(state: Any) -> Any:
        if state["messages"][-1].text == "slow":
            graph.update_state(CONFIG, {"messages": [("ai", "an update")]})
        return {}

    model = Paid()
    graph = parent_of(child_of("None", model), first=first, checkpointer=InMemorySaver())
    graph.invoke(question_input("before"), CONFIG)
    with pytest.raises(ConflictError):
        graph.invoke(question_input("slow"), CONFIG)

    assert "slow" not in model.questions
    assert "an update" in [m.text for m in graph.get_state(CONFIG).values["messages"]]


@pytest.mark.parametrize("awaits", [False, True])
async def test_the_thread_is_free_after_every_end_of_a_run(*, awaits: bool) -> None:
    """After an error, an interrupt, a stream that is left, and a cancelled task."""
    reached_event = asyncio.Event()

    async def model(messages: list[Any]) -> str:
        text = messages[-1].text
        if text.endswith("broken"):
            raise RuntimeError("broken")
        if text.endswith("cancelled"):
            reached_event.set()
            await asyncio.Event().wait()
        return answer(messages)

    def ask(state: Any) -> Any:
        if state["messages"][-1].text == "interrupted":
            interrupt("Go on?")
        return {}

    graph = parent_of(child_of("None", model), first=ask, checkpointer=InMemorySaver())

    async def run(value: Any) -> Any:
        if awaits:
            return await graph.ainvoke(value, CONFIG)
        return await asyncio.to_thread(graph.invoke, value, CONFIG)

    with pytest.raises(Exception, match="broken"):
        await run(question_input("broken"))
    await run(question_input("one"))
    await run(question_input("interrupted"))
    await run(Command(resume="yes"))
    if awaits:
        task = asyncio.create_task(graph.ainvoke(question_input("cancelled"), CONFIG))
        await reached_event.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        chunks = graph.astream(question_input("left"), CONFIG, stream_mode="messages")
        await anext(chunks)
        await chunks.aclose()
    state = await run(question_input("two"))
    assert state["messages"][-1].text.endswith("two")


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_other_ways_on_are_not_refused(durability: Any) -> None:
    """Several nodes before the graph, several runs of one step, and an earlier state."""
    model = Paid()
    builder: Any = StateGraph(MessagesState)
    for name in "abcdef":
        builder.add_node(name, lambda _: {})
    builder.add_node("talk", build_graph(model, judge=ScriptedJudge()))
    builder.add_edge(START, "a")
    for one, two in zip("abcde", "bcdef", strict=True):
        builder.add_edge(one, two)
    builder.add_conditional_edges("f", lambda state: [Send("talk", state)] * 2, ["talk"])
    graph = builder.compile(checkpointer=InMemorySaver())
    for question in ("one", "two"):
        graph.invoke(question_input(question), CONFIG, durability=durability)
    earlier = [snapshot for snapshot in graph.get_state_history(CONFIG) if not snapshot.next][
        1
    ].config
    graph.invoke(question_input("three"), earlier, durability=durability)

    texts = [message.text for message in graph.get_state(CONFIG).values["messages"]]
    assert ["one", "three"] == [text for text in texts if not text.startswith("This")]


def test_a_retry_of_the_node_is_refused_as_well() -> None:
    """A parent that tries its nodes again does not run on messages from before either."""
    model = Paid()
    waits = Event()
    goes = Event()

    def first(state: Any) -> Any:
        if state["messages"][-1].text == "slow":
            waits.set()
            assert goes.wait(60)
        return {}

    builder: Any = StateGraph(MessagesState)
    builder.add_node("first", first)
    retry_policy = RetryPolicy(initial_interval=0.001, max_attempts=3, retry_on=ConflictError)
    builder.add_node("talk", build_graph(model, judge=ScriptedJudge()), retry_policy=retry_policy)
    builder.add_edge(START, "first")
    builder.add_edge("first", "talk")
    graph = builder.compile(checkpointer=InMemorySaver(), store=InMemoryStore())
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(outcome, lambda: graph.invoke(question_input("slow"), CONFIG))
        assert waits.wait(60)
        graph.invoke(question_input("quick"), CONFIG)
        goes.set()

    assert "refused" == slow.result()
    assert "slow" not in model.questions


def test_a_graph_deep_inside_holds_the_thread_of_the_outermost_run() -> None:
    """Its state is written at the end of that run."""
    model = Paid()
    waits = Event()
    goes = Event()

    def last(state: Any) -> Any:
        if state["messages"][-1].text.endswith("slow"):
            waits.set()
            assert goes.wait(60)
        return {}

    inner = parent_of(child_of("None", model))
    builder: Any = StateGraph(MessagesState)
    builder.add_node("inner", inner)
    builder.add_node("last", last)
    builder.add_edge(START, "inner")
    builder.add_edge("inner", "last")
    graph = builder.compile(checkpointer=InMemorySaver())
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(outcome, lambda: graph.invoke(question_input("slow"), CONFIG))
        assert waits.wait(60)
        assert "refused" == outcome(lambda: graph.invoke(question_input("quick"), CONFIG))
        goes.set()

    assert "This answers slow" == slow.result()
    assert "This answers slow" == graph.get_state(CONFIG).values["messages"][-1].text


def rounds_of_six(start: Starts, folder: Path, saver: str, rounds: int) -> None:  # noqa: F811
    """Let six processes write at once; what was not refused must be there."""
    with open_savers(saver, folder) as savers:
        parent_of(child_of("None", answer), **savers).invoke(question_input("before"), CONFIG)
    ways = ["invoke", "ainvoke", "stream"] * 2
    children = [
        start(name, saver, turns=rounds, way=form, parent=True)
        for name, form in zip("abcdef", ways, strict=True)
    ]
    answers_by_question = dict(turn for child in children for turn in child.outcomes())
    with open_savers(saver, folder) as savers:
        check(parent_of(child_of("None", answer), **savers), answers_by_question, [])

    assert 6 * rounds == len(answers_by_question)
    assert {"refused"} != set(answers_by_question.values())


@pytest.mark.full
@pytest.mark.parametrize("saver", ["ours", "sqlite", "sqlite and store"])
def test_ten_rounds_of_six_processes(start: Starts, tmp_path: Path, saver: str) -> None:  # noqa: F811
    """Each turn is there whole or was refused."""
    rounds_of_six(start, tmp_path, saver, 10)


@pytest.mark.nightly
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("saver", ["ours", "sqlite", "sqlite and store"])
def test_two_hundred_rounds_of_six_processes(start: Starts, tmp_path: Path, saver: str) -> None:  # noqa: F811
    """The same twenty times as long."""
    rounds_of_six(start, tmp_path, saver, 200)


def texts_of(graph: Any) -> list[str]:
    """The texts of the thread."""
    return [message.text for message in graph.get_state(CONFIG).values["messages"]]


@pytest.mark.full
@linux
@pytest.mark.parametrize("saver", ["ours", "sqlite"])
def test_a_killed_run_keeps_nobody_out(start: Starts, tmp_path: Path, saver: str) -> None:  # noqa: F811
    """Another process goes on at once, long before the lease expires."""
    child = start("a", saver, seconds=60, parent=True, lease=600)
    child.until_it_asks_its_model()
    child.process.kill()
    child.process.wait()
    with open_savers(saver, tmp_path) as savers:
        graph = parent_of(child_of("None", answer), **savers)

        assert graph.invoke(question_input("next"), CONFIG)["messages"][-1].text.endswith("next")


@pytest.mark.full
@pytest.mark.parametrize("form", ["invoke", "ainvoke"])
@pytest.mark.parametrize("saver", ["ours", "sqlite"])
@pytest.mark.parametrize("late", ["model", "state"])
def test_a_frozen_run_is_refused(
    start: Starts,  # noqa: F811
    tmp_path: Path,
    saver: str,
    form: str,
    late: str,
) -> None:
    """It wakes up after its lease, and the turn of the other stays; also if it froze as it committed."""
    if late == "state":
        child = start("a", saver, way=form, parent=True, **LAST, wait_at="answer's state")
        child.until_it_waits_to_write()
    else:
        child = start("a", saver, seconds=1, way=form, parent=True, lease=0.5)
        child.until_it_asks_its_model()
    freeze(child, tmp_path / "talk.db")
    with open_savers(saver, tmp_path) as savers:
        graph = parent_of(child_of("None", answer), **savers)
        deadline = time.monotonic() + 60
        while "refused" == (
            got := outcome(lambda: graph.invoke(question_input("meanwhile"), CONFIG))
        ):
            assert time.monotonic() < deadline  # until the lease ends
        child.let_it_write()

        assert [["a-0", "refused"]] == child.outcomes()
        assert got == texts_of(graph)[-1]
