from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import pytest
from langgraph.types import Command, interrupt

from tests.graph.conftest import KINDS, fault_of
from tests.graph.kit import config
from unsay import Conversation, Event, build_graph, judged_parts, open_database, reversible
from unsay.errors import ThreadBusyError
from unsay.results.results import EventKind
from unsay.testing import ScriptedChat, ScriptedJudge, ToolCalls

CALENDAR: dict[str, str] = {}


def remove_entry(day: str) -> None:
    """Remove an entry."""
    del CALENDAR[day]


@reversible(undo=remove_entry)
def add_entry(day: str) -> str:
    """Add an entry to the calendar."""
    CALENDAR[day] = "busy"
    return "added"


@reversible(undo=None, retrieval=True)
def library(query: str) -> str:
    """Search the library."""
    return "Canberra is the capital of Australia." if "capital" in query else "Whisk three eggs."


def judge(messages: Any) -> Any:
    """A judge of drafts and documents that fails once."""
    parts = judged_parts(messages)
    if "judge fails" in parts["question"]:
        raise RuntimeError("The judge is ill")
    if "Whisk" in parts.get("document", ""):
        return {"score": 0.1, "reason": "irrelevant", "query": "capital Australia"}
    bad = "Buy a car" in parts.get("answer", "")
    return {"score": 0.1 if bad else 0.9, "reason": "It is about cars." if bad else ""}


QUESTIONS = {
    "How long should I stay in Kyoto?": ["Buy a car.", "Stay two days in Kyoto."],
    "Put Kyoto into my calendar.": ToolCalls(
        calls=[{"name": "add_entry", "args": {"day": "Monday"}}], then="Kyoto is on Monday."
    ),
    "Something else: how do I sort a list in Python?": "Use the function sorted.",
    "What is the main town of Australia?": ToolCalls(
        calls=[{"name": "library", "args": {"query": "main town"}}], then="It is Canberra."
    ),
    "What if the judge fails?": "The answer is not scored.",
    "Which car?": "Buy a car now.",
}


def test_every_kind_is_an_event_of_conversations() -> None:
    """`Conversation.stream` has two kinds more."""
    assert {"token", "reply", *KINDS} == set(get_args(EventKind))


def test_the_events_of_a_whole_conversation_fit(tmp_path: Path) -> None:
    """Tools, searches, rollbacks, topics, summaries, budgets, checkpoints, commands, decisions."""
    CALENDAR.clear()
    with closing(open_database(tmp_path / "t.db")) as database:
        graph = build_graph(
            ScriptedChat(replies=QUESTIONS),
            judge=judge,
            tools=[add_entry, library],
            checkpointer=database.saver,
            store=database.store,
            settings={
                "on_exhausted": "ask",
                "max_rollbacks": 1,
                "judge_share": 1.0,
                "session_budget_tokens": 20_000,
                "budget_mode": "soft",
                "budget_warning": 0.01,
                "backpressure": [[0.01, 1]],
            },
        )
        kyoto, calendar, python, town, failing, car = QUESTIONS
        steps = [
            *(kyoto, calendar, python),
            *("/checkpoint good", "/rollback 2", "/undo", "/redo", "/undo"),
            *(town, "/checkpoint last", f"/edit 4 {town} Please."),
            *(car, Command(resume="reject"), failing),
        ]
        events: list[dict[str, Any]] = []
        for step in steps:
            given_step = step if isinstance(step, Command) else {"messages": [("user", step)]}
            events += list(graph.stream(given_step, config(), stream_mode="custom"))

    assert [] == [fault for fault in map(fault_of, events) if fault]
    rare = {
        "messages_removed",
        "restored",
        "context_warning",
        "topic_failed",
        "recall_failed",
        "summary_failed",
        "context_problem",
        "agent_state_problem",
        "segment_lost",
    }
    assert KINDS.keys() - rare == {event["unsay"] for event in events} - rare


def test_a_result_that_a_rejected_draft_left_is_streamed_once() -> None:
    """The next attempt continues from the finished tool step, which the page shows already."""
    call = {"name": "add_entry", "args": {"day": "Monday"}}
    model = ScriptedChat(
        default=[
            ToolCalls(calls=[call], then="Buy a car."),
            ToolCalls(calls=[call], then="It is done."),
        ]
    )
    scores = ScriptedJudge(scores={"Buy a car": 0.1})
    with Conversation.open(
        ":memory:", model=model, judge=scores, tools=[add_entry]
    ) as conversation:
        events = [event.kind for event in conversation.stream("Put it on Monday.")]
    names = ("tool_call", "tool_result", "draft_rejected", "reply")
    assert [*names] == [kind for kind in events if kind in names]


def test_a_stopped_turn_streams_the_call_that_runs_again() -> None:
    """The model is not asked again, and a page still says which tool runs."""

    def seat(number: str) -> str:
        """Book a seat, if a person agrees."""
        return str(interrupt({"value": f"Book seat {number}?"}))

    call = {"name": "seat", "args": {"number": "4A"}}
    model = ScriptedChat(default=ToolCalls(calls=[call], then="Seat 4A is yours."))
    with Conversation.open(
        ":memory:", model=model, judge=ScriptedJudge(), tools=[seat]
    ) as conversation:
        first_data = [
            event.data for event in conversation.stream("4A, please.") if names_tool(event)
        ]
        resumed = [event.data for event in conversation.stream(decision="yes") if names_tool(event)]
    assert [("seat", {"number": "4A"})] == [
        (message["name"], message["args"]) for message in first_data
    ]
    assert first_data == resumed


def names_tool(event: Event) -> bool:
    """Whether an event names a tool that is run."""
    return event.kind == "tool_call"


def test_the_loop_over_a_stream_cannot_write_to_its_thread() -> None:
    """It is refused at once: it would wait for itself. Other Python threads wait for the turn."""
    model = ScriptedChat(default="Certainly.")
    with (
        Conversation.open(":memory:", model=model, judge=ScriptedJudge()) as conversation,
        ThreadPoolExecutor() as pool,
    ):
        events = conversation.stream("Can you help me?")
        assert "topic" == next(events).kind
        with pytest.raises(ThreadBusyError, match="read the stream to its end or close it"):
            conversation.say("And now?")
        answer = pool.submit(conversation.say, "And now?")
        assert "reply" == [event.kind for event in events][-1]
        assert "Certainly." == answer.result().text
        assert "Certainly." == conversation.say("And then?").text
        abandoned = conversation.stream("Hello?")
        next(abandoned)
        abandoned.close()
        assert "Certainly." == conversation.say("Thank you.").text
