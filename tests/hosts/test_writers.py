"""One writer per thread, for every way in which a host runs the compiled graph."""

import asyncio
import json
import os
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Send

from tests.children import Child as ChildProcess
from tests.hosts.savers import (
    CONFIG,
    WAYS,
    ainvoke,
    answer,
    answering,
    invoke,
    open_savers,
    opened_awaited,
    question_input,
    questions_in,
    questions_of,
)
from tests.reading import branches, listed_branches, messages_with_branch
from tests.tiers import sampled
from unsay.conversation.conversation import Conversation
from unsay.errors import ConflictError, ThreadBusyError
from unsay.hosts.single_writer import HOLD
from unsay.storage.sqlite import open_database
from unsay.storage.writer_lock import NAMESPACE
from unsay.testing import ScriptedJudge

KINDS = ["memory", "ours", "sqlite", "sqlite and store"]
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of other processes")
Starts = Callable[..., "Child"]


class Child:
    """Another process that runs the graph."""

    def __init__(self, folder: Path, arguments: dict[str, Any]) -> None:
        self._reached = folder / f"{arguments['name']}.reached"
        self.process = ChildProcess("tests.hosts.writer_child", str(folder), json.dumps(arguments))

    def until_it_asks_its_model(self) -> None:
        """Wait until it is in the middle of its turn."""
        while not self._reached.exists():
            assert self.process.is_running, self.process.wait().stderr
            time.sleep(0.01)

    def until_it_waits_to_write(self) -> None:
        """Wait until it is where `wait_at` says."""
        while not self._reached.with_suffix(".waits").exists():
            assert self.process.is_running, self.process.wait().stderr
            time.sleep(0.01)

    def let_it_write(self) -> None:
        """Wake it up."""
        self._reached.with_suffix(".goes").touch()
        os.kill(self.process.pid, signal.SIGCONT)

    def outcomes(self) -> list[list[str]]:
        """What became of each of its turns, once it has ended."""
        process = self.process.wait()
        assert process.returncode == 0, process.stderr
        return [json.loads(line) for line in process.stdout.splitlines()]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starts]:
    """Starts processes over one folder; none outlives the test."""
    children: list[Child] = []

    def starts(name: str, kind: str, **options: Any) -> Child:
        defaults = {"turns": 1, "seconds": 0, "way": "invoke", "settings": {}}
        arguments = {"name": name, "kind": kind, **defaults, **options}
        children.append(Child(tmp_path, arguments))
        return children[-1]

    yield starts
    for child in children:
        child.process.kill()
        child.process.wait()


class Slow:
    """A model that waits for `free`, and records the questions that it was asked."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.free = threading.Event()
        self.asked: list[str] = []

    def __call__(self, messages: list[Any]) -> str:
        """The answer to the newest question."""
        self.asked.append(messages[-1].text)
        self.reached.set()
        assert self.free.wait(60)
        return answer(messages)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["invoke", "stream"])
def test_all_parallel_turns_land(tmp_path: Path, kind: str, form: str) -> None:
    """Each of six Python threads waits for the others, and no question vanishes."""
    questions = [f"q{number}" for number in range(6)]
    with open_savers(kind, tmp_path) as savers, ThreadPoolExecutor(6) as pool:
        graph = answering(**savers)
        answers = list(pool.map(lambda question: WAYS[form](graph, question), questions))
        landed_questions = questions_of(graph)

    assert [f"This answers {question}" for question in questions] == answers
    assert questions == sorted(landed_questions)


@pytest.mark.parametrize("kind", ["memory", "ours", "sqlite"])
async def test_all_parallel_tasks_land(tmp_path: Path, kind: str) -> None:
    """So do six tasks of one event loop."""
    questions = [f"q{number}" for number in range(6)]
    async with opened_awaited(kind, tmp_path) as savers:
        graph = answering(**savers)
        await asyncio.gather(*(ainvoke(graph, question) for question in questions))
        state = await graph.aget_state(CONFIG)

    assert questions == sorted(questions_in(state.values["messages"]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_refused_turn_costs_nothing(tmp_path: Path, kind: str) -> None:
    """Who does not wait gets an error that says what to do, before the model is called."""
    model = Slow()
    with open_savers(kind, tmp_path) as savers, ThreadPoolExecutor(1) as pool:
        graph = answering(model=model, settings={"thread_wait_seconds": 0}, **savers)
        first = pool.submit(invoke, graph, "first")
        model.reached.wait(60)
        for run in (
            lambda: invoke(graph, "second"),
            lambda: WAYS["stream"](graph, "second"),
            lambda: graph.update_state(CONFIG, question_input("second"), as_node="process_message"),
        ):
            with pytest.raises(ConflictError, match=r"running.*try again when it has ended"):
                run()
        model.free.set()
        first.result()

        assert ["first"] == model.asked
        assert ["first"] == questions_of(graph)
        assert "This answers third" == invoke(graph, "third")


@pytest.mark.parametrize("kind", ["memory", "ours", "sqlite"])
async def test_a_refused_task_costs_nothing(tmp_path: Path, kind: str) -> None:
    """So it is on an event loop, for runs and for updates."""
    reached_event = asyncio.Event()
    free = asyncio.Event()

    async def model(messages: list[Any]) -> str:
        reached_event.set()
        await free.wait()
        return answer(messages)

    async with opened_awaited(kind, tmp_path) as savers:
        graph = answering(model=model, settings={"thread_wait_seconds": 0}, **savers)
        first = asyncio.create_task(ainvoke(graph, "first"))
        await reached_event.wait()
        with pytest.raises(ConflictError):
            await ainvoke(graph, "second")
        with pytest.raises(ConflictError):
            await graph.aupdate_state(CONFIG, question_input("second"), as_node="process_message")
        free.set()
        await first
        state = await graph.aget_state(CONFIG)

    assert ["first"] == questions_in(state.values["messages"])


def test_another_process_of_the_same_checkpointer_is_refused(tmp_path: Path) -> None:
    """Two connections to one file of LangGraph's checkpointer share no lock in a process."""
    model = Slow()
    with (
        open_savers("sqlite", tmp_path) as one,
        open_savers("sqlite", tmp_path) as two,
        ThreadPoolExecutor(1) as pool,
    ):
        first = pool.submit(invoke, answering(model=model, **one), "first")
        model.reached.wait(60)
        other_graph = answering(settings={"thread_wait_seconds": 0}, **two)
        with pytest.raises(ThreadBusyError, match=f"in process {os.getpid()}"):
            invoke(other_graph, "second")
        model.free.set()
        first.result()

        assert "This answers second" == invoke(other_graph, "second")
        assert ["first", "second"] == questions_of(other_graph)


@pytest.mark.parametrize("path", ["talk.db", ":memory:"])
def test_a_conversation_and_the_graph_exclude_each_other(tmp_path: Path, path: str) -> None:
    """`Conversation.say` is refused beside a run of the graph, and a run beside `say`."""
    model = Slow()
    database = open_database(path if path == ":memory:" else tmp_path / path)
    settings = {"thread_wait_seconds": 0}
    conversation = Conversation.open(
        database, thread="t", model=model, judge=ScriptedJudge(), settings=settings
    )
    graph = answering(
        model=model, settings=settings, checkpointer=database.saver, store=database.store
    )
    for begin, run_other in ((conversation.say, invoke), (None, None)):
        model.reached.clear()
        model.free.clear()
        with ThreadPoolExecutor(1) as pool:
            running = (
                pool.submit(begin, "by say") if begin else pool.submit(invoke, graph, "by graph")
            )
            model.reached.wait(60)
            with pytest.raises(ConflictError):
                run_other(graph, "refused") if run_other else conversation.say("refused")
            with pytest.raises(ConflictError):
                invoke(conversation.graph, "refused")
            with pytest.raises(ConflictError):
                conversation.undo()
            model.free.set()
            running.result()

    assert ["by say", "by graph"] == model.asked
    assert ["by say", "by graph"] == questions_in(conversation.messages())
    database.close()


@pytest.mark.parametrize("kind", ["memory", "ours", "sqlite"])
def test_a_stream_that_is_left_frees_the_thread(tmp_path: Path, kind: str) -> None:
    """Closing the generator ends the run; the next one need not wait."""
    with open_savers(kind, tmp_path) as savers:
        graph = answering(settings={"thread_wait_seconds": 0}, **savers)
        chunks: Any = graph.stream(question_input("left"), CONFIG, stream_mode="updates")
        next(chunks)
        with pytest.raises(ConflictError):
            invoke(graph, "refused")
        chunks.close()

        assert "This answers next" == invoke(graph, "next")


@pytest.mark.parametrize("kind", ["memory", "ours", "sqlite"])
async def test_a_cancelled_run_frees_the_thread(tmp_path: Path, kind: str) -> None:
    """So do a cancelled task and an asynchronous generator that is closed."""
    reached_event = asyncio.Event()

    async def model(messages: list[Any]) -> str:
        if messages[-1].text == "cancelled":
            reached_event.set()
            await asyncio.Event().wait()
        return answer(messages)

    async with opened_awaited(kind, tmp_path) as savers:
        graph = answering(model=model, settings={"thread_wait_seconds": 0}, **savers)
        task = asyncio.create_task(ainvoke(graph, "cancelled"))
        await reached_event.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        chunks: Any = graph.astream(question_input("left"), CONFIG, stream_mode="updates")
        await anext(chunks)
        await chunks.aclose()

        assert "This answers next" == await ainvoke(graph, "next")


@pytest.mark.parametrize("kind", KINDS)
def test_a_failed_run_frees_the_thread(tmp_path: Path, kind: str) -> None:
    """An error of the model releases everything."""

    def model(messages: list[Any]) -> str:
        if messages[-1].text == "broken":
            raise RuntimeError("broken")
        return answer(messages)

    with open_savers(kind, tmp_path) as savers:
        graph = answering(model=model, settings={"thread_wait_seconds": 0}, **savers)
        with pytest.raises(Exception, match="broken"):
            invoke(graph, "broken")

        assert "This answers next" == invoke(graph, "next")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["invoke", "update"])
def test_a_turn_that_uses_its_own_thread_is_refused_at_once(
    tmp_path: Path, kind: str, form: str
) -> None:
    """A model or a tool that runs the graph on the thread of its turn never waits for that turn."""
    errors: list[Exception] = []

    def model(messages: list[Any]) -> str:
        try:
            if form == "invoke":
                invoke(graph, "inner")
            else:
                graph.update_state(CONFIG, question_input("inner"), as_node="process_message")
        except ConflictError as error:
            errors.append(error)
        return answer(messages)

    with open_savers(kind, tmp_path) as savers:
        graph = answering(model=model, **savers)
        invoke(graph, "outer")

        assert "give it another thread" in str(errors[0])
        assert ["outer"] == questions_of(graph)


def test_a_tool_that_talks_on_its_own_thread_is_refused_at_once() -> None:
    """The same for `Conversation`."""
    errors: list[Exception] = []

    def model(messages: list[Any]) -> str:
        try:
            conversation.say("inner")
        except ConflictError as error:
            errors.append(error)
        return answer(messages)

    conversation = Conversation.open(":memory:", thread="t", model=model, judge=ScriptedJudge())
    conversation.say("outer")

    assert "give it another thread" in str(errors[0])
    assert ["outer"] == questions_in(conversation.messages())
    conversation.close()


@pytest.mark.parametrize("value", ["x", True, {"lock": 1, "lease": None}])
def test_the_right_to_write_cannot_be_forged(value: Any) -> None:
    """A value from a client's JSON does not count as holding the thread."""
    model = Slow()
    graph = answering(
        model=model, settings={"thread_wait_seconds": 0}, checkpointer=InMemorySaver()
    )
    config: Any = {"configurable": {"thread_id": "t", HOLD: value, "__pregel_read": value}}
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(invoke, graph, "first")
        model.reached.wait(60)
        with pytest.raises(ConflictError):
            graph.invoke(question_input("second"), config)
        model.free.set()
        first.result()

    assert ["first"] == model.asked


def test_the_hold_is_shown_nowhere() -> None:
    """No stream and no stored metadata of a run names it."""
    saver = InMemorySaver()
    graph = answering(checkpointer=saver)
    modes: Any = ["debug", "checkpoints", "tasks", "updates", "values"]
    chunks = list(graph.stream(question_input("q"), CONFIG, stream_mode=modes))

    assert "unsay_hold" not in repr(chunks)
    assert "unsay_hold" not in repr(list(saver.list(CONFIG)))


def test_without_a_thread_nothing_waits() -> None:
    """Runs that store nothing, and runs on different threads, are independent."""
    barrier = threading.Barrier(2, timeout=60)

    def model(messages: list[Any]) -> str:
        barrier.wait()
        return answer(messages)

    plain = answering(model=model)
    graph = answering(model=model, checkpointer=InMemorySaver())
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: plain.invoke(question_input("q")), range(2)))
        configs: Any = [{"configurable": {"thread_id": thread_id}} for thread_id in ("a", "b")]
        states = list(
            pool.map(lambda run_config: graph.invoke(question_input("q"), run_config), configs)
        )

    assert [2, 2] == [len(state["messages"]) for state in states]


def test_nodes_of_another_graph_run_side_by_side() -> None:
    """Under `Send` two runs of the graph belong to one run of the parent."""
    barrier = threading.Barrier(2, timeout=60)

    def model(messages: list[Any]) -> str:
        barrier.wait()
        return answer(messages)

    parent: Any = StateGraph(MessagesState)
    parent.add_node("talk", answering(model=model))
    parent.add_conditional_edges(
        START, lambda _: [Send("talk", question_input(letter)) for letter in "ab"]
    )
    graph = parent.compile(checkpointer=InMemorySaver())
    state = graph.invoke({"messages": []}, CONFIG)

    answers = [message.text for message in state["messages"] if message.type == "ai"]
    assert ["This answers a", "This answers b"] == sorted(answers)


def test_a_node_of_another_graph_takes_its_lease(tmp_path: Path) -> None:
    """The run of the parent has the thread, once for all runs of the node, and gives it back."""
    parent: Any = StateGraph(MessagesState)
    parent.add_node("talk", answering())
    parent.add_conditional_edges(START, lambda state: [Send("talk", state)] * 2, ["talk"])
    with open_savers("sqlite", tmp_path) as savers:
        saver = savers["checkpointer"]
        graph = parent.compile(checkpointer=saver)
        graph.invoke(question_input("a"), CONFIG)
        graph.invoke(question_input("b"), CONFIG)
        namespace_config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": NAMESPACE}}

        assert 2 == len(list(saver.list(namespace_config)))
        assert not [thread for thread in threading.enumerate() if thread.name == "unsay-lease"]


@pytest.mark.parametrize("kind", ["ours", "sqlite", "sqlite and store"])
@pytest.mark.parametrize("ways", [("invoke", "ainvoke"), ("stream", "invoke")], ids="-".join)
def test_every_turn_of_every_process_lands(
    start: Starts, tmp_path: Path, kind: str, ways: tuple[str, str]
) -> None:
    """Processes wait for each other as Python threads do."""
    with open_savers(kind, tmp_path) as savers:
        invoke(answering(**savers), "before")
    children = [start(name, kind, turns=4, way=form) for name, form in zip("ab", ways, strict=True)]
    outcomes = [outcome for child in children for outcome in child.outcomes()]
    with open_savers(kind, tmp_path) as savers:
        landed_questions = questions_of(answering(**savers))

    questions = [f"{name}-{number}" for name in "ab" for number in range(4)]
    assert [[question, f"This answers {question}"] for question in questions] == outcomes
    assert ["before", *questions] == [landed_questions[0], *sorted(landed_questions[1:])]


def rounds_of_six(start: Starts, folder: Path, kind: str, rounds: int) -> None:
    """Let six processes write at once, none of which waits; what was not refused must be there."""
    # The answers would quote what was recalled from offloaded messages.
    settings = {"thread_wait_seconds": 0.2, "recall_tokens": 0}
    with open_savers(kind, folder) as savers:
        invoke(answering(**savers), "before")
    ways = ["invoke", "ainvoke", "stream"] * 2
    children = [
        start(name, kind, turns=rounds, way=form, settings=settings)
        for name, form in zip("abcdef", ways, strict=True)
    ]
    outcomes = [outcome for child in children for outcome in child.outcomes()]
    answered_questions = [question for question, outcome in outcomes if outcome != "refused"]
    with open_savers(kind, folder) as savers:
        landed_questions = questions_of(answering(**savers))

    assert 6 * rounds == len(outcomes)
    assert sorted(["before", *answered_questions]) == sorted(landed_questions)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["ours", "sqlite", "sqlite and store"])
def test_twenty_rounds_of_six_writers(start: Starts, tmp_path: Path, kind: str) -> None:
    """Each turn lands whole or is refused; none vanishes."""
    rounds_of_six(start, tmp_path, kind, 20)


@pytest.mark.nightly
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("kind", ["ours", "sqlite", "sqlite and store"])
def test_two_hundred_rounds_of_six_writers(start: Starts, tmp_path: Path, kind: str) -> None:
    """The same ten times as long."""
    rounds_of_six(start, tmp_path, kind, 200)


@linux
@pytest.mark.parametrize("form", ["invoke", "ainvoke"])
@pytest.mark.parametrize("kind", ["ours", "sqlite"])
def test_a_killed_writer_keeps_nobody_out(
    start: Starts, tmp_path: Path, kind: str, form: str
) -> None:
    """Another process can write at once, long before the lease expires."""
    child = start("a", kind, seconds=60, way=form, lease=600)
    child.until_it_asks_its_model()
    child.process.kill()
    child.process.wait()
    with open_savers(kind, tmp_path) as savers:
        graph = answering(settings={"thread_wait_seconds": 10}, **savers)

        # The question of the killed run was stored, and no answer followed it.
        assert "This answers a-0\n\nnext" == invoke(graph, "next")


@pytest.mark.full
@pytest.mark.parametrize("form", ["invoke", "ainvoke"])
@pytest.mark.parametrize("kind", ["ours", "sqlite"])
def test_a_slow_model_does_not_cost_the_thread(
    start: Starts, tmp_path: Path, kind: str, form: str
) -> None:
    """A run may take many times the lease's time, and a waiting caller comes after it."""
    child = start("a", kind, seconds=2, way=form, lease=0.5)
    child.until_it_asks_its_model()
    with open_savers(kind, tmp_path) as savers:
        graph = answering(**savers)
        invoke(graph, "next")

        assert [["a-0", "This answers a-0"]] == child.outcomes()
        assert ["a-0", "next"] == questions_of(graph)


def freeze(child: Child, file: Path) -> None:
    """Stop a process at an instant at which it does not write to the file."""
    with closing(sqlite3.connect(file, timeout=0.1, isolation_level=None)) as connection:
        while True:
            os.kill(child.process.pid, signal.SIGSTOP)
            with suppress(sqlite3.OperationalError):
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("ROLLBACK")
                return
            os.kill(child.process.pid, signal.SIGCONT)


@pytest.mark.full
@pytest.mark.parametrize("form", ["invoke", "ainvoke"])
@pytest.mark.parametrize("kind", ["ours", "sqlite", "sqlite and store"])
def test_a_frozen_writer_commits_nothing(
    start: Starts, tmp_path: Path, kind: str, form: str
) -> None:
    """Waking up after its lease, it is refused, and the turn of the other stays as it is."""
    with open_savers(kind, tmp_path) as savers:
        invoke(answering(**savers), "before")
    child = start("a", kind, seconds=1, way=form, lease=0.5)
    child.until_it_asks_its_model()
    freeze(child, tmp_path / "talk.db")
    with open_savers(kind, tmp_path) as savers:
        graph = answering(**savers)
        invoke(graph, "meanwhile")
        os.kill(child.process.pid, signal.SIGCONT)

        assert [["a-0", "refused"]] == child.outcomes()
        texts = [message.text for message in graph.get_state(CONFIG).values["messages"]]
        before = ["before", "This answers before"]
        assert [*before, "a-0", "meanwhile", "This answers a-0\n\nmeanwhile"] == texts


def texts_of(messages: list[Any]) -> list[str]:
    """The messages' texts."""
    return [message.text for message in messages]


def branches_of(graph: Any) -> list[list[str]]:
    """The texts of each branch that the thread lists."""
    assert listed_branches(graph) == branches(graph)
    return [texts_of(branch.messages) for branch in branches(graph)]


BEFORE = ["before", "This answers before"]
BOTH = ["a-0", "meanwhile", "This answers a-0\n\nmeanwhile"]


# Where a process is suspended, the last check of its lease behind it.
COMMITS = ["question", "question's state", "answer", "answer's writes", "answer's state"]
# With this threshold no checkpoint is saved, so the answer's node is the last.
LAST: dict[str, Any] = {"settings": {"checkpoint_threshold": 1.0}, "lease": 0.5}


@pytest.mark.parametrize(
    ("kind", "form", "wait_at"),
    sampled(
        [
            *(("sqlite", "invoke", commit) for commit in COMMITS),
            ("sqlite", "ainvoke", "question's state"),
            ("sqlite", "ainvoke", "answer's state"),
            ("sqlite and store", "invoke", "question"),
            ("sqlite and store", "invoke", "answer"),
        ],
        every=3,
    ),
)
def test_a_late_commit_takes_nothing_from_the_other(
    start: Starts, tmp_path: Path, kind: str, form: str, wait_at: str
) -> None:
    """A writer that freezes after its last check is refused, and what it still wrote is a branch."""
    with open_savers(kind, tmp_path) as savers:
        invoke(answering(**savers), "before")
    child = start("a", kind, way=form, **LAST, wait_at=wait_at)
    child.until_it_waits_to_write()
    freeze(child, tmp_path / "talk.db")
    with open_savers(kind, tmp_path) as savers:
        graph = answering(**savers)
        invoke(graph, "meanwhile")
        child.let_it_write()

        assert [["a-0", "refused"]] == child.outcomes()
        turns = BOTH
        late = ["This answers a-0"]
        if "question" in wait_at:
            turns = ["meanwhile", "This answers meanwhile"]
            late = ["a-0"]
        assert [*BEFORE, *turns] == texts_of(graph.get_state(CONFIG).values["messages"])
        assert [late] == branches_of(graph)
        invoke(graph, "next")
        turns = [*turns, "next", "This answers next"]
        assert [*BEFORE, *turns] == texts_of(graph.get_state(CONFIG).values["messages"])
        newest_branch = listed_branches(graph)[-1]
        assert late[0] in texts_of(messages_with_branch(graph, newest_branch.id))


@pytest.mark.parametrize(
    ("enter", "wait_at"),
    sampled(
        [
            ("invoke", "answer"),
            ("ainvoke", "answer"),
            ("update", "answer"),
            ("invoke", "answer's state"),
            ("ainvoke", "answer's state"),
        ],
        every=4,
    ),
)
def test_a_late_writer_that_dies_takes_nothing_either(
    start: Starts, tmp_path: Path, enter: str, wait_at: str
) -> None:
    """The next writer finds the late state, also one with an older id, and continues from the other writer's turn."""
    with open_savers("sqlite", tmp_path) as savers:
        invoke(answering(**savers), "before")
    child = start("a", "sqlite", **LAST, wait_at=wait_at, dies=True)
    child.until_it_waits_to_write()
    freeze(child, tmp_path / "talk.db")
    with open_savers("sqlite", tmp_path) as savers:
        invoke(answering(**savers), "meanwhile")
    child.let_it_write()
    assert -signal.SIGKILL == child.process.wait().returncode
    if enter == "ainvoke":
        asyncio.run(one_more(tmp_path))
    with open_savers("sqlite", tmp_path) as savers:
        graph = answering(**savers)
        if enter == "invoke":
            invoke(graph, "next")
        elif enter == "update":
            graph.update_state(CONFIG, question_input("next"), as_node="__start__")
            graph.invoke(None, CONFIG)
        turns = [*BOTH, "next", "This answers next"]
        assert [*BEFORE, *turns] == texts_of(graph.get_state(CONFIG).values["messages"])
        assert [["This answers a-0"]] == branches_of(graph)
        invoke(graph, "again")
        assert [["This answers a-0"]] == branches_of(graph)


async def one_more(folder: Path) -> None:
    """One turn on an event loop."""
    async with opened_awaited("sqlite", folder) as savers:
        await ainvoke(answering(**savers), "next")
