"""The list of runs, as invocations of the graph leave it."""

import asyncio
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt

from tests.children import run_child
from tests.graph.kit import GOOD, Numbered, config, make, say, scores
from tests.graph.test_hosts import events, stream_parts
from tests.reading import said, transcript
from tests.threads import registry_of
from unsay import AsyncConversation, Conversation
from unsay.effects import drive
from unsay.errors import SessionEndedError
from unsay.history.runs import Run, children, list_runs
from unsay.history.threads import begin, end
from unsay.settings.settings import Context
from unsay.storage.sqlite import open_database
from unsay.testing import Delay, ScriptedChat, ScriptedJudge, ToolCalls

NOW = "2026-01-01T00:00:00.000+00:00"
HOST_RUN = UUID("11111111-2222-3333-4444-555555555555")
ASKING = {"on_exhausted": "ask", "max_rollbacks": 0}
FORMS = pytest.mark.parametrize("form", ["invoke", "ainvoke"])


@pytest.fixture(params=["memory", "sqlite"])
def parts_of_graph(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Where a graph keeps things: in memory, or in a file."""
    if request.param == "memory":
        yield {"checkpointer": InMemorySaver(), "store": InMemoryStore()}
        return
    database = open_database(tmp_path / "t.db")
    yield {"checkpointer": database.saver, "store": database.store}
    database.close()


async def run_graph(form: str, graph: Any, value: Any, **options: Any) -> Any:
    """What the graph gives, blocking or not."""
    given_options = {"config": config(), "durability": "sync", **options}
    if form == "invoke":
        return graph.invoke(value, **given_options)
    return await graph.ainvoke(value, **given_options)


def input_of(text: str) -> dict[str, Any]:
    """A user's message as the graph's input."""
    return {"messages": [("user", text)]}


def runs(store: BaseStore | None, thread: str | None = "t") -> tuple[Run, ...]:
    """The runs of a thread."""
    assert store is not None
    return drive(list_runs(store, thread_id=thread)).runs


def lines(found: Any) -> list[tuple[str, str, int]]:
    """Status, phase and attempt of each run."""
    return [(run.status, run.phase, run.attempt) for run in found]


def failing(*errors: Exception) -> Callable[[Any], AIMessage]:
    """A model that raises these in order, and answers then."""
    remaining_errors = list(errors)

    def model(_: Any) -> AIMessage:
        if remaining_errors:
            raise remaining_errors.pop(0)
        return AIMessage(GOOD)

    return model


DONE = ("completed", "completed", 1)


@FORMS
async def test_each_invocation_is_one_completed_run(
    parts_of_graph: dict[str, Any], form: str
) -> None:
    """A line names its turn and has the host's labels; a turn without any has none."""
    graph = make(Numbered(), **parts_of_graph)

    for text, labels in (("q1", {"tenant": "a"}), ("q2", None)):
        state = await run_graph(form, graph, input_of(text), context=Context(labels=labels))

    first, second = runs(graph.store)
    questions = [message.id for message in state["messages"][::2]]
    assert [DONE, DONE] == lines((first, second))
    assert questions == [first.turn_id, second.turn_id]
    assert ({"tenant": "a"}, {}) == (first.labels, second.labels)
    assert (None, None, None) == (first.parent_run_id, first.error, first.suspension)
    assert first.ended_at is not None
    assert first.started_at <= first.ended_at


@FORMS
async def test_a_rejected_draft_stays_within_its_run(
    parts_of_graph: dict[str, Any], form: str
) -> None:
    """However often a turn is taken back, it is one run and one attempt of it."""
    graph = make(Numbered(), scores(0.1, 0.1, 0.9), **parts_of_graph)

    await run_graph(form, graph, input_of("q"))

    assert [DONE] == lines(runs(graph.store))


def test_commands_and_orders_are_runs_too() -> None:
    """What changes the conversation completes a run; what only shows something is none."""
    graph = make(Numbered())

    say(graph, "q1", "q2", "/checkpoint x", "/undo", "/timeline")
    graph.invoke({"should_rollback": True}, config())

    assert [DONE] * 5 == lines(runs(graph.store))


def test_labels_of_the_run_are_on_its_events(tmp_path: Path) -> None:
    """Every event of a run names the run, its turn and its labels."""
    context = Context(labels={"tenant": "a"})
    with Conversation.open(
        tmp_path / "t.db", model=Numbered(), judge=scores(), context=context
    ) as t:
        t.say("q")
        (run,) = registry_of(t).runs(labels={"tenant": "a"}).runs
        found = {
            (e["run_id"], e["turn_id"], e["labels"]["tenant"]) for e in registry_of(t).events()
        }
        assert () == registry_of(t).runs(labels={"tenant": "b"}).runs
    assert {(run.run_id, run.turn_id, "a")} == found


def trains(to: str) -> str:
    """Tell when the next train leaves."""
    return f"10:15 to {to}"


ASK = ToolCalls(calls=[{"name": "trains", "args": {"to": "Kyoto"}}], then="It leaves at {result}.")


class Watched(InMemoryStore):
    """A store that remembers the phases of the lines written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.phases: list[str] = []

    def put(self, namespace: tuple[str, ...], key: str, value: Any, **options: Any) -> None:  # type: ignore[override]
        """Write as ever."""
        if "phase" in value:
            self.phases.append(value["phase"])
        super().put(namespace, key, value, **options)


def test_phases_are_announced_as_they_are_stored() -> None:
    """With tools a run plans, executes tools and synthesizes; the line has the same at each step."""
    chat = ScriptedChat(replies={"train": ASK})
    store = Watched()
    graph = make(chat, ScriptedJudge(), tools=[trains], store=store)

    phases = [
        event["phase"] for event in events(stream_parts(graph, "When is the train?"), "phase")
    ]

    assert ["planning", "executing_tools", "synthesizing"] == phases
    assert ["prompted", *phases, "completed"] == store.phases


def test_a_run_is_listed_before_its_work_begins() -> None:
    """While the model thinks, its run is there and plans."""
    seen: list[list[tuple[str, str, int]]] = []

    def model(_: Any) -> str:
        seen.append(lines(runs(graph.store)))
        return f"This is answer {len(seen)}, about what was asked."

    graph = make(model)

    say(graph, "q1", "q2")

    assert [[("running", "planning", 1)], [DONE, ("running", "planning", 1)]] == seen


def test_phases_are_announced_without_tools_and_without_a_store() -> None:
    """A host that keeps nothing still hears what the run is at."""
    graph = make(Numbered(), scores(0.1, 0.9), store=None, checkpointer=None)

    phases = [event["phase"] for event in events(stream_parts(graph, "q"), "phase")]

    assert ["planning", "planning"] == phases


@FORMS
async def test_a_failed_run_says_why_and_goes_on(parts_of_graph: dict[str, Any], form: str) -> None:
    """The error's class and words are kept; the same run ends the turn in its second attempt."""
    graph = make(failing(ValueError("no such 花")), **parts_of_graph)
    with pytest.raises(ValueError, match="no such"):
        await run_graph(form, graph, input_of("q"))
    (failed,) = runs(graph.store)

    await run_graph(form, graph, None)

    (whole,) = runs(graph.store)
    assert ("failed", "ValueError: no such 花") == (failed.status, failed.error)
    assert failed.ended_at is not None
    assert (failed.run_id, failed.started_at) == (whole.run_id, whole.started_at)
    assert ("completed", "completed", 2, None) == (
        whole.status,
        whole.phase,
        whole.attempt,
        whole.error,
    )


def test_the_question_said_again_resumes_its_run(tmp_path: Path) -> None:
    """A conversation resumes the run that failed, and counts each attempt."""
    model = failing(ConnectionError("down"), ConnectionError("down again"))
    with Conversation.open(tmp_path / "t.db", model=model, judge=scores()) as conversation:
        for _ in range(2):
            with pytest.raises(Exception, match="could not be reached"):
                conversation.say("q")
        (failed,) = registry_of(conversation).runs(status="failed").runs
        conversation.say("q")
        (whole,) = registry_of(conversation).runs().runs

    assert (failed.run_id, 2) == (whole.run_id, failed.attempt)
    assert (failed.error or "").startswith("ModelUnavailableError: The model could not be reached")
    assert [("completed", "completed", 3)] == lines([whole])


def test_another_question_after_a_failure_is_another_run() -> None:
    """The failed run stays failed, and is not the new turn's."""
    graph = make(failing(ValueError("no")))
    with pytest.raises(ValueError, match="no"):
        say(graph, "q1")

    say(graph, "q2")

    assert [("failed", "failed", 1), DONE] == lines(runs(graph.store))


class Mortal(InMemorySaver):
    """A checkpointer whose process dies before anything of a turn but its question is stored."""

    dies = False

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Store a state, unless the process is dead."""
        if self.dies and metadata["source"] == "loop":
            raise SystemExit
        return super().put(config, checkpoint, metadata, new_versions)


def test_runs_of_two_dead_processes_are_closed() -> None:
    """Questions whose processes died before their turns were stored are given up by the next one."""
    saver = Mortal()
    answer = Numbered()

    def ask(messages: list[BaseMessage]) -> AIMessage:
        if saver.dies:
            raise SystemExit
        return answer(messages)

    graph = make(ask, checkpointer=saver)
    saver.dies = True
    for text in ("q1", "q2"):
        with pytest.raises(SystemExit):
            graph.invoke(input_of(text), config())
    saver.dies = False
    say(graph, "q3")

    found_runs = runs(graph.store)
    why = "another message came before it ended"
    assert ["canceled", "canceled", "completed"] == [run.status for run in found_runs]
    assert [why, why, None] == [run.error for run in found_runs]


@FORMS
async def test_an_error_of_a_models_own_reaches_the_caller(
    parts_of_graph: dict[str, Any], form: str
) -> None:
    """An error that says nothing about the model's provider is raised as it is, with no cause."""
    error = KeyError("a bug in the host's model")
    graph = make(failing(error), **parts_of_graph)

    with pytest.raises(KeyError) as raises:
        await run_graph(form, graph, input_of("q1"))

    assert error is raises.value
    assert raises.value.__cause__ is None
    assert [("failed", "failed", 1)] == lines(runs(graph.store))


@FORMS
async def test_a_run_waits_for_a_person(parts_of_graph: dict[str, Any], form: str) -> None:
    """It is paused with LangGraph's interrupt, also after a decision that is none."""
    graph = make(Numbered(), scores(0.1), settings=ASKING, **parts_of_graph)
    seen = []
    for value in (input_of("q"), Command(resume="perhaps")):
        await run_graph(form, graph, value)
        (run,) = runs(graph.store)
        (waiting,) = graph.get_state(config()).interrupts
        assert run.suspension is not None
        assert ("paused", None, 1) == (run.status, run.ended_at, run.attempt)
        assert (waiting.id, {"requests": [waiting.value]}) == (
            run.suspension.suspension_id,
            run.suspension.body,
        )
        seen.append(run.suspension.body["requests"][0]["action_requests"][0]["description"])
    await run_graph(form, graph, Command(resume="approve"))

    (run,) = runs(graph.store)
    assert "'perhaps' is no decision" in seen[1]
    assert (DONE, None) == (*lines([run]), run.suspension)


def test_a_decision_that_fails_is_not_lost_with_the_run(tmp_path: Path) -> None:
    """A person's guidance lets the paused run go on, and its failing attempt pauses it again."""
    judge = scores(0.1, 0.1, 0.9)
    with Conversation.open(tmp_path / "t.db", model=Numbered(), judge=judge, settings=ASKING) as t:
        t.say("q")
        first = registry_of(t).runs(status="paused").runs[0]
        t.resume({"decisions": [{"type": "respond", "message": "Shorter."}]})
        second = registry_of(t).runs(status="paused").runs[0]
        t.resume("approve")
        assert [DONE] == lines(registry_of(t).runs().runs)
    assert first.suspension is not None
    assert second.suspension is not None
    assert first.run_id == second.run_id
    assert first.suspension.suspension_id != second.suspension.suspension_id


async def test_a_run_that_the_host_cancels(tmp_path: Path) -> None:
    """A task cancelled in the middle of the model call leaves its run canceled, to be gone on with."""
    started = asyncio.Event()

    async def slow(_: Any) -> str:
        if started.is_set():
            return GOOD
        started.set()
        await asyncio.Event().wait()
        raise AssertionError("never gets here")

    model = RunnableLambda(lambda _: GOOD, afunc=slow)
    async with AsyncConversation.open(
        tmp_path / "t.db", model=model, judge=scores()
    ) as conversation:
        task = asyncio.create_task(conversation.say("q"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        runs = (await registry_of(conversation).runs()).runs
        reply = await conversation.say("q")
        assert [("completed", "completed", 2)] == lines(
            (await registry_of(conversation).runs()).runs
        )
        assert ["human: q", f"ai: {GOOD}"] == said(await conversation.messages())
    assert [("canceled", "canceled", 1)] == lines(runs)
    assert ("the host stopped it", GOOD) == (runs[0].error, reply.text)


async def test_a_stream_that_is_left_early_is_a_canceled_run(tmp_path: Path) -> None:
    """Once the stream is closed its run has ended, and the thread can be spoken in."""
    waits = [True]

    async def slow(_: Any) -> float:
        if waits.pop() if waits else False:
            await asyncio.Event().wait()
        return 0.9

    judge = RunnableLambda(lambda _: 0.9, afunc=slow)
    chat = ScriptedChat(default=GOOD)
    async with AsyncConversation.open(tmp_path / "t.db", model=chat, judge=judge) as conversation:
        stream = conversation.stream("q")
        async for event in stream:
            if event.kind == "token":
                break
        await stream.aclose()
        waits.clear()
        assert [("canceled", "canceled", 1)] == lines((await registry_of(conversation).runs()).runs)
        assert GOOD == (await conversation.say("q")).text
        assert [("completed", "completed", 2)] == lines(
            (await registry_of(conversation).runs()).runs
        )


@FORMS
async def test_a_run_that_waits_for_a_tools_question(
    parts_of_graph: dict[str, Any], form: str
) -> None:
    """A tool that asks a person pauses the run with its own words; the answer completes it."""

    @tool
    def pay(amount: int) -> str:
        """Pay, if a person lets it."""
        return str(interrupt({"pay": amount}))

    calls = ToolCalls(calls=[{"name": "pay", "args": {"amount": 5}}], then="Paid: {result}.")
    chat = ScriptedChat(replies={"q": calls})
    graph = make(chat, ScriptedJudge(), tools=[pay], **parts_of_graph)
    await run_graph(form, graph, input_of("q"))
    (paused,) = runs(graph.store)
    await run_graph(form, graph, Command(resume="yes"))

    assert paused.suspension is not None
    assert ("paused", {"requests": [{"pay": 5}]}) == (paused.status, paused.suspension.body)
    assert [DONE] == lines(runs(graph.store))
    assert "ai: Paid: yes." == transcript(graph)[-1]


async def test_a_run_canceled_between_model_and_tools() -> None:
    """Also inside the loop of model and tools the run's line says that it was stopped."""
    started = asyncio.Event()

    def script(_: Any) -> Any:
        started.set()
        return Delay(seconds=60, reply=ASK)

    graph = make(ScriptedChat(script=script), ScriptedJudge(), tools=[trains])
    task = asyncio.create_task(graph.ainvoke(input_of("train?"), config(), durability="sync"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert [("canceled", "canceled", 1)] == lines(runs(graph.store))


@pytest.mark.full
@pytest.mark.parametrize(
    ("where", "again"),
    [
        pytest.param("model", "Pay 5.", id="in-the-model-and-said-again"),
        pytest.param("answer", "", id="after-the-tool-and-resumed"),
    ],
)
def test_a_killed_run_stays_running_until_it_goes_on(
    tmp_path: Path, where: str, again: str
) -> None:
    """Signal 9 leaves no chance to write; the next process ends the same run, as an attempt more."""
    child = _child(tmp_path, where, "Pay 5.")
    assert -signal.SIGKILL == child.returncode
    stored_runs = _runs_in(tmp_path)
    assert 0 == _child(tmp_path, "nowhere", again).returncode
    ended = _runs_in(tmp_path)

    assert [("running", 1)] == [(run.status, run.attempt) for run in stored_runs]
    assert [(stored_runs[0].run_id, "completed", 2)] == [
        (r.run_id, r.status, r.attempt) for r in ended
    ]


def _child(folder: Path, where: str, text: str) -> subprocess.CompletedProcess[str]:
    return run_child("tests.promises.crash_child", str(folder), where, text)


def _runs_in(folder: Path) -> tuple[Run, ...]:
    database = open_database(folder / "crash.db")
    found_runs = runs(database.store)
    database.close()
    return found_runs


@FORMS
async def test_a_hosts_run_id_is_the_runs_id(parts_of_graph: dict[str, Any], form: str) -> None:
    """One that is given twice is refused nowhere: the second run's id has its turn added."""
    graph = make(Numbered(), **parts_of_graph)

    for text in ("q1", "q2"):
        await run_graph(form, graph, input_of(text), config={**config(), "run_id": HOST_RUN})

    first, second = runs(graph.store)
    assert [DONE, DONE] == lines((first, second))
    assert str(HOST_RUN) == first.run_id
    assert f"{HOST_RUN}-{second.turn_id}" == second.run_id


@FORMS
async def test_an_ended_thread_takes_no_new_run(parts_of_graph: dict[str, Any], form: str) -> None:
    """A plain invocation is refused before a model or judge is asked; another thread works."""
    model = Numbered()
    judged = []

    def judge(_: Any) -> float:
        judged.append(len(model.inputs))
        return 0.9

    graph = make(model, judge, **parts_of_graph)
    say(graph, "q1", thread="t")
    drive(begin(parts_of_graph["store"], "t", now=NOW))
    drive(end(parts_of_graph["store"], "t", now=NOW))

    with pytest.raises(SessionEndedError, match="'t'"):
        await run_graph(form, graph, {"messages": [("user", "a"), ("ai", "b"), ("user", "c")]})
    say(graph, "q2", thread="other")

    assert [DONE] == lines(runs(graph.store))
    assert (2, [1, 2]) == (len(model.inputs), judged)


def test_an_ended_conversation_is_refused_in_every_form(tmp_path: Path) -> None:
    """New turns are refused in every form; transcript and event log stay readable."""
    with Conversation.open(
        tmp_path / "t.db", thread="t", model=Numbered(), judge=scores()
    ) as conversation:
        conversation.say("q1")
        before = (said(conversation.messages()), len(registry_of(conversation).events()))
        assert "ended" == registry_of(conversation).end().status
        for refused in (
            lambda: conversation.say("q2"),
            lambda: list(conversation.stream("q2")),
            lambda: conversation.graph.invoke(input_of("q2"), config("t")),
        ):
            with pytest.raises(SessionEndedError, match="begin another thread"):
                refused()
        assert [DONE] == lines(registry_of(conversation).runs().runs)
        assert before[0] == said(conversation.messages())[:2]
        assert before[1] <= len(registry_of(conversation).events())


@pytest.mark.parametrize(
    "without",
    [
        pytest.param({"store": None}, id="no-store"),
        pytest.param({"store": None, "checkpointer": None}, id="neither"),
    ],
)
@FORMS
async def test_graphs_without_a_store_work_as_before(without: dict[str, Any], form: str) -> None:
    """No line, no page, no error; failures and rollbacks are what they were."""
    graph = make(Numbered(), scores(0.1, 0.9), **without)

    state = await run_graph(form, graph, input_of("q"), durability=None)

    assert ["human: q", "ai: This is draft 2, about what was asked."] == said(state["messages"])
    assert "event_log" not in state


@FORMS
async def test_a_run_without_a_thread_leaves_nothing_in_the_store(form: str) -> None:
    """A store alone is no place for a run that no thread can name."""
    graph = make(Numbered(), scores(0.1, 0.9), checkpointer=None)

    state = await run_graph(form, graph, input_of("q"), config={}, durability=None)

    assert 2 == len(state["messages"])
    assert graph.store is not None
    assert [] == graph.store.search(("unsay",))


@FORMS
async def test_context_names_the_run_that_started_this_one(form: str) -> None:
    """A host that starts a run for another one says so, and finds it by it."""
    graph = make(Numbered())

    await run_graph(form, graph, input_of("q"), context={"parent_run_id": "above"})

    assert graph.store is not None
    (run,) = drive(children(graph.store, "above"))
    assert ("above", "t") == (run.parent_run_id, run.thread_id)


@FORMS
async def test_an_agent_of_ours_as_the_model_is_a_child_run(form: str) -> None:
    """Its run names the outer one, and is another one, though both answer one question."""
    inner = make(Numbered(), checkpointer=None, store=None)
    graph = make(inner)

    await run_graph(form, graph, input_of("q"), config={**config(), "run_id": HOST_RUN})

    assert graph.store is not None
    (child,) = drive(children(graph.store, str(HOST_RUN)))
    assert [DONE, DONE] == lines(runs(graph.store))
    assert child.run_id != str(HOST_RUN)
    assert ["human: q", "ai: This is draft 1, about what was asked."] == transcript(graph)


@FORMS
async def test_an_agent_of_ours_in_a_tool_is_a_child_run(form: str) -> None:
    """With a separate thread it is found by the run that called the tool."""
    store = InMemoryStore()
    inner = make(Numbered(), store=store)

    @tool
    def ask(text: str) -> str:
        """Ask another agent."""
        return said(inner.invoke(input_of(text), config("inner"))["messages"])[-1]

    calls = ToolCalls(calls=[{"name": "ask", "args": {"text": "why"}}], then="I heard: {result}")
    graph = make(ScriptedChat(replies={"q": calls}), ScriptedJudge(), tools=[ask], store=store)

    await run_graph(form, graph, input_of("q"))

    (outer,) = runs(store)
    (child,) = runs(store, "inner")
    assert (outer.run_id, DONE) == (child.parent_run_id, *lines([child]))
    assert outer.parent_run_id is None
