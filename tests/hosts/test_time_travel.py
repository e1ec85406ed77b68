"""A host goes on from earlier states and removes messages itself; nothing is lost."""

import asyncio
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import RemoveMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, StateSnapshot

from tests.children import run_child
from tests.graph.kit import Numbered, config, make, say, scores
from tests.reading import (
    branches,
    listed_branches,
    listed_ids,
    offloaded_messages,
    replayed,
    said,
    stored_items,
    transcript,
)
from unsay import Conversation, reversible
from unsay.effects import drive
from unsay.errors import UnknownCheckpointError
from unsay.history.threads import purge_items
from unsay.hosts.entry import HostGraph
from unsay.messages.annotations import spoken
from unsay.storage.sqlite import open_database
from unsay.testing import ScriptedChat, ToolCalls

ASKED: Any = {"messages": [("user", "another")]}
MISSING = "1f000000-0000-6000-8000-000000000000"


def history(graph: HostGraph) -> list[StateSnapshot]:
    """The thread's states, newest first."""
    return list(graph.get_state_history(config()))


def config_at(checkpoint_id: str) -> Any:
    """The configuration of one state of the thread."""
    return {"configurable": {"thread_id": "t", "checkpoint_id": checkpoint_id}}


def end_of(graph: HostGraph, turns: int) -> Any:
    """The configuration of the newest state at the end of a turn."""
    states = (
        state
        for state in history(graph)
        if not state.next and len(state.values.get("messages", [])) == 2 * turns
    )
    return next(states).config


def branch_texts(graph: HostGraph) -> list[list[str]]:
    """The words of each branch that a host's change left behind."""
    return [said(branch.messages) for branch in branches(graph) if branch.kind == "host"]


def turn(number: int, draft: int | None = None) -> list[str]:
    """One turn of the transcript."""
    answer = f"ai: This is draft {draft or number}, about what was asked."
    return [f"human: q{number}", answer]


@pytest.mark.parametrize("turns", [0, 2])
def test_a_state_that_is_not_there_is_refused(
    graph: HostGraph, model: Numbered, turns: int
) -> None:
    """A run, a resume and an update from an unknown id raise, ask no model and change nothing."""
    say(graph, *(f"q{number}" for number in range(turns)))
    before = history(graph)
    call_count = len(model.inputs)
    question = {"messages": [("user", "more")]}
    for value in (question, None):
        with pytest.raises(UnknownCheckpointError, match=MISSING):
            graph.invoke(value, config_at(MISSING))
    with pytest.raises(UnknownCheckpointError, match=MISSING):
        graph.update_state(config_at(MISSING), question, as_node="__start__")
    assert before == history(graph)
    assert call_count == len(model.inputs)


def test_a_state_that_is_not_there_is_refused_on_a_loop() -> None:
    """The same holds for `ainvoke` and `aupdate_state`."""
    graph = make(Numbered())
    say(graph, "q1")
    before = history(graph)

    async def enter() -> None:
        with pytest.raises(UnknownCheckpointError):
            await graph.ainvoke({"messages": [("user", "more")]}, config_at(MISSING))
        with pytest.raises(UnknownCheckpointError):
            await graph.aupdate_state(config_at(MISSING), {"messages": []})

    asyncio.run(enter())
    assert before == history(graph)


def test_going_on_from_an_earlier_turn_keeps_the_later_ones(graph: HostGraph) -> None:
    """The turns left behind are a branch: listed, in the event log, and an undo restores them."""
    say(graph, "q1", "q2", "q3")
    graph.invoke({"messages": [("user", "other")]}, end_of(graph, 1))
    other_turn = ["human: other", "ai: This is draft 4, about what was asked."]
    assert [*turn(1), *other_turn] == transcript(graph)
    assert [[*turn(2), *turn(3)]] == branch_texts(graph)
    assert branches(graph) == listed_branches(graph)
    assert said(replayed(graph).messages) == transcript(graph)
    say(graph, "/undo", "/undo")
    assert [*turn(1), *turn(2), *turn(3)] == [
        line for line in transcript(graph) if line in [*turn(1), *turn(2), *turn(3)]
    ]


FROM_AN_ID: dict[str, Any] = {
    "invoke": lambda graph, run_config: graph.invoke(ASKED, run_config),
    "stream": lambda graph, run_config: list(graph.stream(ASKED, run_config)),
    "update": lambda graph, run_config: graph.update_state(run_config, ASKED),
}


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("door", FROM_AN_ID)
def test_an_id_alone_names_a_state(graph: HostGraph, door: str) -> None:
    """A host may leave out the empty namespace, as LangGraph's documentation does."""
    for number in range(3):
        say(graph, f"q{number}")
    checkpoint_id = end_of(graph, 1)["configurable"]["checkpoint_id"]

    FROM_AN_ID[door](graph, config_at(checkpoint_id))

    said_now = [m.text for m in graph.get_state(config()).values["messages"] if m.type == "human"]
    assert ["q0", "another"] == said_now
    assert 1 == len(branch_texts(graph)), "the later turns are a branch"


def test_a_regenerated_answer_keeps_the_old_one(graph: HostGraph) -> None:
    """A run without input from the state before an answer answers the question again."""
    say(graph, "q1", "q2")
    first = next(s for s in reversed(history(graph)) if len(s.values.get("messages", [])) == 4)
    assert first.parent_config is not None
    graph.invoke(None, first.parent_config)
    assert [*turn(1), *turn(2, draft=3)] == transcript(graph)
    assert [turn(2)[1:]] == branch_texts(graph)


def test_an_update_of_an_earlier_state_keeps_the_later_turns(graph: HostGraph) -> None:
    """`update_state` with an earlier id makes a branch, with and without values."""
    say(graph, "q1", "q2", "q3")
    graph.update_state(end_of(graph, 2), None, as_node="__end__")
    assert [*turn(1), *turn(2)] == transcript(graph)
    graph.update_state(end_of(graph, 1), {"messages": [("user", "more")]}, as_node="__start__")
    assert [*turn(1), "human: more"] == transcript(graph)
    assert [turn(3), turn(2)] == branch_texts(graph)
    graph.invoke(None, config())
    assert said(replayed(graph).messages) == transcript(graph)


def test_going_back_and_forth_between_states(graph: HostGraph) -> None:
    """A state that was left behind can be gone on from again, and what was newest is kept then."""
    say(graph, "q1", "q2")
    end = end_of(graph, 2)
    graph.invoke({"messages": [("user", "other")]}, end_of(graph, 1))
    graph.invoke({"messages": [("user", "q4")]}, end)
    assert [*turn(1), *turn(2), *turn(4)] == transcript(graph)
    assert [
        turn(2),
        ["human: other", "ai: This is draft 3, about what was asked."],
    ] == branch_texts(graph)
    assert said(replayed(graph).messages) == transcript(graph)


REMOVALS = {
    "last": (slice(4, 6), [*turn(1), *turn(2)], [turn(3)]),
    "middle": (slice(2, 4), [*turn(1), *turn(3)], [turn(2)]),
    "first": (slice(0, 2), [*turn(2), *turn(3)], [turn(1)]),
}


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("enter", ["update", "input"])
@pytest.mark.parametrize("case", REMOVALS)
def test_messages_that_a_host_removes_are_a_branch(graph: HostGraph, case: str, enter: str) -> None:
    """A `RemoveMessage` in an update or in an input keeps the messages, and `/undo` restores them."""
    span, expected, removed = REMOVALS[case]
    state = say(graph, "q1", "q2", "q3")
    removals = [RemoveMessage(id=message.id) for message in state["messages"][span]]
    if enter == "update":
        graph.update_state(config(), {"messages": removals}, as_node="create_checkpoint")
        assert expected == transcript(graph)
        say(graph, "q4")
    else:
        graph.invoke({"messages": [*removals, ("user", "q4")]}, config())
    assert [*expected, *turn(4)] == transcript(graph)
    assert removed == branch_texts(graph)
    assert said(replayed(graph).messages) == transcript(graph)
    say(graph, "/undo", "/undo")
    turns = [line for line in transcript(graph) if "/undo" not in line and "q" in line]
    assert [*turn(1), *turn(2), *turn(3)] == [
        line for line in transcript(graph) if line in [*turn(1), *turn(2), *turn(3)]
    ], turns


def test_a_host_that_removes_all_messages_keeps_them(graph: HostGraph) -> None:
    """`REMOVE_ALL_MESSAGES` makes one branch of the whole transcript."""
    say(graph, "q1", "q2")
    graph.update_state(config(), {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES)]})
    assert [[*turn(1), *turn(2)]] == branch_texts(graph)
    say(graph, "q3")
    assert turn(3) == transcript(graph)


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("durability", ["sync", "async", None])
def test_a_turn_makes_two_states(graph: HostGraph, durability: Any) -> None:
    """The newest 10 states hold the parents of the newest four questions and answers."""
    for number in range(5):
        question = {"messages": [("user", f"q{number}")]}
        graph.invoke(question, config(), durability=durability)
    states = history(graph)
    assert 2 * 5 == len(states)
    ids = {state.config["configurable"]["checkpoint_id"] for state in states[:10]}
    for message in states[0].values["messages"][2:]:
        first = [s for s in states if message in s.values.get("messages", [])][-1]
        assert first.parent_config is not None
        assert first.parent_config["configurable"]["checkpoint_id"] in ids


def test_a_question_is_stored_before_the_model_is_called(backend: dict[str, Any]) -> None:
    """While the model answers, the newest stored state holds the question."""
    transcripts: list[list[str]] = []

    def ask(messages: Any) -> Any:
        transcripts.append(transcript(graph))
        return Numbered()(messages)

    graph = make(ask, **backend)
    say(graph, "q1", "q2")
    assert [["human: q1"], [*turn(1), "human: q2"]] == transcripts


class Mortal(InMemorySaver):
    """A saver that stores no end of a run while its process is dead."""

    dead = False

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Store a state, unless the process is dead."""
        if self.dead and metadata["source"] == "loop":
            raise SystemExit
        return super().put(config, checkpoint, metadata, new_versions)


def test_a_finished_tool_does_not_run_again_after_a_crash() -> None:
    """Two states a turn with tools too; the steps between them are taken from the store."""
    ran: list[str] = []
    saver = Mortal()

    @tool
    def look_up(word: str) -> str:
        """Look up a word."""
        ran.append(word)
        return f"{word} is a word."

    def judge(_: Any) -> float:
        if saver.dead:
            raise SystemExit
        return 0.9

    look = ToolCalls(calls=[{"name": "look_up", "args": {"word": "list"}}], then="Yes: {result}")
    chat = ScriptedChat(default=look)
    graph = make(chat, judge, checkpointer=saver, tools=[look_up])
    saver.dead = True
    with pytest.raises(SystemExit):
        say(graph, "What is a list?")
    assert ["human: What is a list?"] == transcript(graph)
    saver.dead = False
    graph.invoke(None, config())
    assert (["list"], 2) == (ran, len(chat.calls))
    assert 4 == len(graph.get_state(config()).values["messages"])
    states = history(graph)
    assert 2 == len(states)
    graph.invoke(None, states[-1].config)
    assert ["list", "list"] == ran
    assert [["ai", "tool", "ai"]] == [
        [m.type for m in branch.messages] for branch in branches(graph)
    ]


def test_a_copied_thread_works_far_back() -> None:
    """A copy of a long thread goes back into offloaded turns, also once the original is purged."""
    saver = InMemorySaver()
    store = InMemoryStore()
    graph = make(Numbered(), checkpointer=saver, store=store, settings={"live_messages": 8})
    say(graph, *(f"q{number}" for number in range(1, 21)))
    assert offloaded_messages(graph)
    # As `langgraph dev` copies a thread: its states, and nothing of the store.
    for kept_by_thread in (saver.storage, saver.writes, saver.blobs):
        for key in list(kept_by_thread):
            path = key if isinstance(key, tuple) else (key,)
            if path[0] == "t":
                new: Any = ("copy", *path[1:]) if isinstance(key, tuple) else "copy"
                kept_by_thread[new] = deepcopy(kept_by_thread[key])
    say(graph, "q21", thread="copy")
    drive(purge_items(store, "t"))
    say(graph, "/rollback 19", thread="copy")
    assert [*turn(1), *turn(2)] == transcript(graph, "copy")[:4]
    assert transcript(graph, "copy") == said(replayed(graph, "copy").messages)
    (branch,) = branches(graph, "copy")
    assert 2 * 19 == len(branch.messages)


@pytest.mark.parametrize("turns", [0, 2])
def test_a_run_that_is_deleted_while_it_ends_loses_no_turn(turns: int) -> None:
    """A server that rolls a run back deletes its states, then cancels it: earlier turns stay."""
    saver = InMemorySaver()
    model_called = asyncio.Event()

    async def ask(messages: Any) -> Any:
        if "slow" in messages[-1].text:
            model_called.set()
            await asyncio.sleep(30)
        return Numbered()(messages)

    graph = make(ask, checkpointer=saver)

    async def travel() -> None:
        for number in range(turns):
            await graph.ainvoke({"messages": [("user", f"q{number}")]}, config())
        before = set(saver.storage["t"][""])
        run = asyncio.create_task(graph.ainvoke({"messages": [("user", "slow")]}, config()))
        await model_called.wait()
        for name in set(saver.storage["t"][""]) - before:
            del saver.storage["t"][""][name]
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(travel())
    assert 2 * turns == len(transcript(graph))
    say(graph, "other")
    assert "human: slow" not in transcript(graph)
    assert 2 * turns + 2 == len(transcript(graph))
    assert [["human: slow"]] == [said(branch.messages) for branch in branches(graph)]
    assert said(replayed(graph).messages) == transcript(graph)


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("enter", ["update", "input"])
@pytest.mark.parametrize("index", [0, 1, 3, 5], ids=["first", "answer", "middle", "last"])
def test_a_message_that_a_host_replaces_is_a_branch(
    graph: HostGraph, index: int, enter: str
) -> None:
    """A message under a known id takes the place of the old one, which an undo restores."""
    old = say(graph, "q1", "q2", "q3")["messages"]
    new = old[index].model_copy(update={"content": "edited"})
    if enter == "update":
        graph.update_state(config(), {"messages": [new]}, as_node="create_checkpoint")
        say(graph, "q4")
    else:
        graph.invoke({"messages": [new, ("user", "q4")]}, config())
    texts = [*said(old)]
    texts[index] = f"{new.type}: edited"
    assert [*texts, *turn(4)] == transcript(graph)
    assert [said([old[index]])] == branch_texts(graph)
    assert said(replayed(graph).messages) == transcript(graph)
    state = say(graph, "/undo", "/undo")
    assert said(old) == said(spoken(state["messages"]))
    assert said(replayed(graph).messages) == said(state["messages"])


def test_a_message_in_another_form_is_not_replaced(graph: HostGraph) -> None:
    """A front end that sends the history back as content blocks, without metadata, changes nothing."""
    old = say(graph, "q1", "q2")["messages"]
    copies = [type(m)([{"type": "text", "text": m.text}], id=m.id) for m in old]
    graph.invoke({"messages": [*copies, ("user", "q3")]}, config())
    assert [*turn(1), *turn(2), *turn(3)] == transcript(graph)
    assert [] == branch_texts(graph)


PAID_BACK: list[tuple[str, str]] = []


def paying(*, confirm: bool = False, **backend: Any) -> HostGraph:
    """A graph whose model pays when it is asked to; payments are paid back when they are undone."""
    PAID_BACK.clear()

    @reversible(
        undo=lambda account, result: PAID_BACK.append((account, result)),
        describe="the payment by {account}",
        confirm=confirm,
    )
    def pay(account: str) -> str:
        """Take money from an account."""
        return f"paid by {account}"

    call = ToolCalls(calls=[{"name": "pay", "args": {"account": "mine"}}], then="Done: {result}.")
    chat = ScriptedChat(replies={"pay": call}, default="This is about what was asked.")
    return make(chat, tools=[pay], **backend)


MINE = [("mine", "paid by mine")]


@pytest.fixture(params=["store", "no store"])
def storage(request: pytest.FixtureRequest, backend: dict[str, Any]) -> dict[str, Any]:
    """The backend, and the same without its store."""
    return backend if request.param == "store" else {**backend, "store": None}


@pytest.mark.sample(every=3)
def test_calls_that_a_host_leaves_behind_are_undone(storage: dict[str, Any]) -> None:
    """Once, before the model is asked again; going on from the state with the call says so."""
    graph = paying(**storage)
    say(graph, "q1")
    before = graph.get_state(config()).config
    say(graph, "pay", "q3")
    after = graph.get_state(config()).config
    graph.invoke({"messages": [("user", "other")]}, before)
    assert MINE == PAID_BACK
    graph.invoke({"messages": [("user", "again")]}, after)
    graph.invoke({"messages": [("user", "other")]}, before)
    assert MINE == PAID_BACK
    assert not graph.get_state(config()).values.get("left_behind")


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("enter", ["update", "remove", "regenerate"])
def test_an_update_leaves_the_undoing_to_the_next_run(storage: dict[str, Any], enter: str) -> None:
    """`update_state`, `RemoveMessage` and a run without input undo the calls in their next run."""
    graph = paying(**storage)
    state = say(graph, "q1")
    before = graph.get_state(config()).config
    state = say(graph, "pay")
    if enter == "update":
        graph.update_state(before, None, as_node="__end__")
    elif enter == "remove":
        removals = [RemoveMessage(id=message.id) for message in state["messages"][2:]]
        graph.update_state(config(), {"messages": removals}, as_node="create_checkpoint")
    else:
        question = next(s for s in history(graph) if s.next == ("evaluate_quality",))
        graph.invoke(None, question.config)
        assert MINE == PAID_BACK
        return
    assert [] == PAID_BACK
    say(graph, "q3")
    assert MINE == PAID_BACK


@pytest.mark.sample(every=2)
def test_a_call_that_returns_before_the_next_run_is_not_undone(storage: dict[str, Any]) -> None:
    """A host that goes back and returns has changed nothing."""
    graph = paying(**storage)
    say(graph, "q1")
    before = graph.get_state(config()).config
    say(graph, "pay")
    after = graph.get_state(config()).config
    graph.update_state(before, None, as_node="__end__")
    graph.update_state(after, None, as_node="__end__")
    say(graph, "q3")
    assert [] == PAID_BACK


@pytest.mark.sample(every=3)
@pytest.mark.parametrize(("decision", "paid"), [("approve", MINE), ("reject", [])])
def test_a_person_confirms_the_undoing_as_for_a_rollback(
    storage: dict[str, Any], decision: str, paid: list[Any]
) -> None:
    """A tool that asks first interrupts the host's run before anything is undone."""
    graph = paying(confirm=True, **storage)
    say(graph, "q1")
    before = graph.get_state(config()).config
    say(graph, "pay")
    graph.invoke({"messages": [("user", "other")]}, before)
    (waiting,) = graph.get_state(config()).interrupts
    assert "the payment by mine" in str(waiting.value)
    assert [] == PAID_BACK
    graph.invoke(Command(resume={"decisions": [{"type": decision}]}), config())
    assert paid == PAID_BACK
    assert "human: other" in transcript(graph)
    assert "human: pay" not in transcript(graph)


@pytest.mark.full
@pytest.mark.parametrize("point", ["model", "end"])
def test_a_kill_loses_no_question_that_a_host_deleted(tmp_path: Path, point: str) -> None:
    """The process dies after it has read the stopped question, and before the turn is stored."""
    path = tmp_path / "unsay.db"
    assert -9 == run_child("tests.hosts.stopped_child", str(path), point).returncode
    database = open_database(path)
    graph = make(Numbered(), checkpointer=database.saver, store=database.store)
    say(graph, "q3")
    (branch,) = [b for b in branches(graph) if "human: stopped" in said(b.messages)]
    state = say(graph, "q4")
    assert "human: stopped" not in said(state["messages"])
    assert 1 == listed_ids(state).count(branch.id)
    assert [] == stored_items(database.store, "unsaved question")
    assert said(replayed(graph).messages) == transcript(graph)
    database.close()


def test_branches_of_a_host_are_compared_restored_and_undone() -> None:
    """What a host leaves behind, removes or replaces is a branch for every verb."""
    database = open_database(":memory:")
    graph = make(Numbered(), checkpointer=database.saver, store=database.store)
    say(graph, "q1", "q2", "q3")
    graph.invoke({"messages": [("user", "other")]}, end_of(graph, 2))
    old = graph.get_state(config()).values["messages"]
    for text in ("edited", "edited again"):
        new = old[1].model_copy(update={"content": text})
        graph.update_state(config(), {"messages": [new]}, as_node="create_checkpoint")
    with Conversation.open(database, thread="t", model=Numbered(), judge=scores()) as conversation:
        host_branches = [branch for branch in conversation.branches() if branch.kind == "host"]
        assert ["edited", turn(1)[1][4:], "q3"] == [branch.words for branch in host_branches]
        assert [1, 1, 4] == [conversation.diff(branch.id).common for branch in host_branches]
        conversation.restore(host_branches[1].id)
        texts = [m.text for m in conversation.messages()]
        assert [m.text for m in old] == texts
        conversation.undo()
        assert ["q1", "edited again", *texts[2:]] == [m.text for m in conversation.messages()]
        conversation.undo()
        conversation.undo()
        assert texts == [m.text for m in conversation.messages()]
        conversation.undo()
        conversation.undo()
        assert [*turn(1), *turn(2), *turn(3)] == said(conversation.messages())
        assert said(replayed(graph).messages) == transcript(graph)
