"""Turns of computers whose clocks differ: each lands, whatever the clocks say."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base import id as ids
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph

from tests.hosts.savers import CONFIG, answer, answering, invoke, question_input
from tests.reading import replayed
from unsay.conversation.conversation import Conversation
from unsay.errors import ConflictError
from unsay.storage.items import freeze_messages
from unsay.storage.sqlite import open_database
from unsay.testing import ScriptedChat, ScriptedJudge

KINDS = ["ours", "memory", "sqlite"]
HOUR = 3_600
# The greatest id with a time.
LAST_ID = "ffffffff-ffff-6fff-bfff-ffffffffffff"


@contextmanager
def computer(seconds: float) -> Iterator[None]:
    """Act as a process that began on a computer whose clock is ahead by so many seconds."""
    with pytest.MonkeyPatch.context() as patch:
        ahead = SimpleNamespace(time_ns=lambda: time.time_ns() + int(seconds * 1e9))
        patch.setattr(ids, "time", ahead)
        patch.setattr(ids, "_last_v6_timestamp", None)
        yield


@contextmanager
def saver_of(kind: str) -> Iterator[dict[str, Any]]:
    """A checkpointer in memory, with a store if it is ours."""
    with ExitStack() as stack:
        if kind == "ours":
            database = open_database(":memory:")
            stack.callback(database.close)
            yield {"checkpointer": database.saver, "store": database.store}
        elif kind == "memory":
            yield {"checkpointer": InMemorySaver()}
        else:
            yield {"checkpointer": stack.enter_context(SqliteSaver.from_conn_string(":memory:"))}


def parent_of(node: Any, **savers: Any) -> Any:
    """A graph around the node."""
    builder: Any = StateGraph(MessagesState)
    builder.add_node("talk", node)
    builder.add_edge(START, "talk")
    return builder.compile(**savers)


def speeches(state: Any) -> list[str]:
    """The questions of a state; each has its answer."""
    messages = state.values.get("messages", [])
    texts = [
        message.text for message in messages if message.type == "human" and message.text[0] != "/"
    ]
    assert {f"This answers {message}" for message in texts} <= {
        message.text for message in messages
    }
    return texts


def of_newest(states: list[Any]) -> list[str]:
    """The ids of the states, newest first; no state comes before one that builds on it."""
    names = [state.config["configurable"]["checkpoint_id"] for state in states]
    parents = [
        (state.parent_config or CONFIG)["configurable"].get("checkpoint_id") for state in states
    ]
    assert all(names.index(name) > index for index, name in enumerate(parents) if name in names)
    return names


CLOCKS = st.sampled_from([-HOUR, -1.0, 0.0, 0.05, 9 * HOUR, 40 * 365 * 24 * HOUR])
STEPS = st.lists(
    st.tuples(CLOCKS, st.sampled_from(["ask", "update", "travel", "undo"])), max_size=4
)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("kind", KINDS)
@given(steps=STEPS)
def test_no_turn_is_lost_to_a_clock(kind: str, steps: list[tuple[float, str]]) -> None:
    """Turns, updates, time travel and undo of processes with different clocks all count."""
    with saver_of(kind) as savers:
        expected: list[str] = []
        for number, (seconds, step) in enumerate([(9 * HOUR, "ask"), *steps]):
            question = f"Question {number}"
            with computer(seconds):
                graph = answering(**savers)
                states = list(graph.get_state_history(CONFIG))
                if step == "ask":
                    invoke(graph, question)
                    expected = [*expected, question]
                elif step == "update":
                    answer = ("ai", f"This answers {question}")
                    graph.update_state(CONFIG, {"messages": [("user", question), answer]})
                    expected = [*expected, question]
                elif step == "travel":
                    earlier = [state for state in states if not state.next][-1]
                    graph.invoke(question_input(question), earlier.config)
                    expected = [*speeches(earlier), question]
                else:
                    assert "Removed" in invoke(graph, "/rollback 1") or not expected
                    expected = expected[:-1]
                state = graph.get_state(CONFIG)
                assert expected == speeches(state)
                names = of_newest(list(graph.get_state_history(CONFIG)))
                assert names[0] == state.config["configurable"]["checkpoint_id"]


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("kind", KINDS)
@given(clocks=st.lists(CLOCKS, max_size=3))
def test_no_turn_of_a_graph_around_is_lost(kind: str, clocks: list[float]) -> None:
    """A graph around unsay reads its newest state itself, before unsay can see the clock."""
    with saver_of(kind) as savers:
        for number, seconds in enumerate([HOUR, *clocks]):
            with computer(seconds):
                parent = parent_of(answering(), **savers)
                parent.invoke(question_input(f"Question {number}"), CONFIG)
                state = parent.get_state(CONFIG)
                assert [f"Question {index}" for index in range(number + 1)] == speeches(state)


@given(clocks=st.lists(CLOCKS, max_size=4))
def test_no_state_of_another_graph_is_lost(clocks: list[float]) -> None:
    """Over our saver a graph without unsay goes on from its newest state, and updates an old one."""
    with saver_of("ours") as savers:
        plain = parent_of(lambda state: {"messages": [("ai", answer(state["messages"]))]}, **savers)
        expected: list[str] = []
        for number, seconds in enumerate([HOUR, *clocks]):
            with computer(seconds):
                plain.invoke(question_input(f"Question {number}"), CONFIG)
                expected.append(f"Question {number}")
                assert expected == speeches(plain.get_state(CONFIG))
        first = list(plain.get_state_history(CONFIG))[-1].config
        with computer(0):
            update = plain.update_state(first, {"messages": [("ai", "Hello")]}, as_node="talk")
            assert update == plain.get_state(CONFIG).config


def test_a_reply_is_that_of_its_own_question(tmp_path: Path) -> None:
    """After a clock that was ahead each reply is new, and the event log has every turn."""
    model = ScriptedChat(script=answer)
    for number, seconds in enumerate([600, 0, -HOUR]):
        with computer(seconds):
            options = {"thread": "t", "model": model, "judge": ScriptedJudge()}
            with Conversation.open(tmp_path / "talk.db", **options) as conversation:
                assert (
                    f"This answers Question {number}" == conversation.say(f"Question {number}").text
                )
                assert 2 * (number + 1) == len(conversation.messages())
                assert freeze_messages(replayed(conversation).messages) == freeze_messages(
                    conversation.messages()
                )


def test_a_copy_goes_on_from_its_newest_state() -> None:
    """A copy that has the states in the order of their ids, as a server makes it, has every turn."""
    with saver_of("ours") as savers:
        saver = savers["checkpointer"]
        for number, seconds in enumerate([HOUR, 0]):
            with computer(seconds):
                invoke(answering(**savers), f"Question {number}")
        states = sorted(saver.list(CONFIG), key=lambda state: state.checkpoint["id"])
        for state in states:
            parent = (state.parent_config or CONFIG)["configurable"].get("checkpoint_id")
            target = {"thread_id": "copy", "checkpoint_ns": "", "checkpoint_id": parent}
            versions = state.checkpoint["channel_versions"]
            new_config = saver.put(
                {"configurable": target}, state.checkpoint, state.metadata, versions
            )
            for task, channel, value in state.pending_writes:
                saver.put_writes(new_config, [(channel, value)], task)
        copy: Any = {"configurable": {"thread_id": "copy"}}
        with computer(-HOUR):
            graph = answering(**savers)
            assert ["Question 0", "Question 1"] == speeches(graph.get_state(copy))
            graph.invoke(question_input("Question 2"), copy)
            assert ["Question 0", "Question 1", "Question 2"] == speeches(graph.get_state(copy))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("around", [False, True])
def test_a_turn_that_cannot_land_is_refused(*, kind: str, around: bool) -> None:
    """If no later id is possible, the error says how far the clock is behind; no model is called."""
    with saver_of(kind) as savers:
        saver = savers["checkpointer"]
        model = ScriptedChat(script=answer)
        target: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        saver.put(
            target, {**empty_checkpoint(), "id": LAST_ID}, {"source": "update", "step": 0}, {}
        )
        graph = (
            parent_of(answering(model=model), **savers)
            if around
            else answering(model=model, **savers)
        )
        with pytest.raises(
            ConflictError, match=r"is from 5236-03-31 21:21:00 UTC, .* days, .* behind"
        ):
            graph.invoke(question_input("Question"), CONFIG)
        assert 0 == len(model.calls)
        with computer(0):  # no other thread gets ids of that time
            assert "This answers Question" == invoke(answering(), "Question")


def test_checkpoints_return_in_the_order_of_their_turns() -> None:
    """An undo puts checkpoints of a clock that was ahead back behind those of earlier turns."""
    with saver_of("ours") as savers:
        noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
        for number, hours in enumerate([2, 1, 0]):
            clock = partial(noon.replace, hour=12 + hours)
            invoke(answering(clock=clock, **savers), f"Question {number} about birds")
        graph = answering(clock=lambda: noon, **savers)
        checkpoints = graph.get_state(CONFIG).values["checkpoints"]
        assert [1, 2, 3] == [checkpoint["turn"] for checkpoint in checkpoints]
        invoke(graph, "/rollback 2")
        invoke(graph, "/undo")
        assert checkpoints == graph.get_state(CONFIG).values["checkpoints"]


@pytest.mark.full
def test_two_processes_with_different_clocks_take_turns(tmp_path: Path) -> None:
    """All turns are in their order, and each process gets the answer of its own question."""
    path = tmp_path / "t.db"
    expected = list[str]()
    command = [sys.executable, "-m", "tests.hosts.clock_child", str(path), "600"]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process: Any = subprocess.Popen(command, **pipes)
    with process as ahead, closing(open_database(path)) as database:
        graph = answering(checkpointer=database.saver, store=database.store)
        for number in range(6):
            question = f"Question {number}"
            if number % 2:
                reply = invoke(graph, question)
            else:
                ahead.stdin.write(f"{question}\n")
                ahead.stdin.flush()
                reply = ahead.stdout.readline().strip()
            expected.append(question)
            assert f"This answers {question}" == reply
            assert expected == speeches(graph.get_state(CONFIG))
        ahead.stdin.close()
    assert 0 == ahead.returncode
