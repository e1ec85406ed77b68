from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import interrupt

from unsay.conversation.conversation import Conversation
from unsay.conversation.turn_lifecycle import is_turn_open
from unsay.errors import ModelError, UnknownThreadError
from unsay.graph.builder import build_graph
from unsay.storage.sqlite import open_database
from unsay.testing import Fault, ScriptedChat, ScriptedJudge

QUESTION = "How many legs does a spider have?"
GOOD = "A spider has eight legs, two more than an insect."
JUDGE = ScriptedJudge(scores={"Buy a car": 0.1})
ASKS: dict[str, Any] = {"on_exhausted": "ask", "max_rollbacks": 0}


def test_a_question_that_waits_for_a_decision(tmp_path: Path) -> None:
    """A page that is loaded again shows the question, the rejected draft and what can be decided."""
    model = ScriptedChat(replies={QUESTION: ["Buy a car.", GOOD]})
    with Conversation.open(
        tmp_path / "a.db", thread="t", model=model, judge=JUDGE, settings=ASKS
    ) as conversation:
        reply = conversation.say(QUESTION)
    with Conversation.open(tmp_path / "a.db", thread="t") as other_conversation:
        pending = other_conversation.timeline().pending
        assert pending is not None
        assert (QUESTION, reply.request) == (pending.question, pending.request)
        assert [("Buy a car.", 0.1)] == [(draft.text, draft.score) for draft in pending.rejected]
        assert QUESTION == other_conversation.timeline().to_dict()["pending"]["question"]
        other_conversation.close()


def test_drafts_that_a_person_was_shown_are_found_again(tmp_path: Path) -> None:
    """Each draft is kept that a person answered with instructions, and not only the last one."""
    drafts = ["Buy a car.", "Buy a car, or two.", "Buy a car at once.", GOOD]
    model = ScriptedChat(replies={QUESTION: drafts})
    path = tmp_path / "a.db"
    shorter = {"decisions": [{"type": "respond", "message": "Shorter."}]}
    with Conversation.open(
        path, thread="t", model=model, judge=JUDGE, settings=ASKS
    ) as conversation:
        replies = [conversation.say(QUESTION), *(conversation.resume(shorter) for _ in range(3))]
        assert ["decision"] * 3 + ["answer"] == [reply.kind for reply in replies]
    with Conversation.open(path, thread="t") as other_conversation:
        (turn,) = other_conversation.timeline().turns
        assert drafts == [*(draft.text for draft in turn.rejected), turn.answer]


def test_the_calls_of_a_question_that_waits_are_found_again(tmp_path: Path) -> None:
    """A finished call with its result, and the one whose tool asks a person."""

    def legs(animal: str) -> str:
        """Count the legs of an animal."""
        return "8"

    def book(seat: str) -> str:
        """Book a seat, if a person agrees."""
        return str(interrupt({"value": f"Book {seat}?"}))

    steps: list[tuple[str, dict[str, Any]]] = [
        ("legs", {"animal": "spider"}),
        ("book", {"seat": "4A"}),
    ]
    calls = [
        AIMessage("", tool_calls=[{"name": name, "args": args, "id": name}]) for name, args in steps
    ]
    model = ScriptedChat(script=lambda question: calls[question[-1].type == "tool"])
    with Conversation.open(
        tmp_path / "a.db", thread="t", model=model, judge=JUDGE, tools=[legs, book]
    ) as conversation:
        assert "decision" == conversation.say(QUESTION).kind
    with Conversation.open(tmp_path / "a.db", thread="t") as other_conversation:
        pending = other_conversation.timeline().pending
        assert pending is not None
        found = [(call.name, call.args, call.status, call.text) for call in pending.calls]
        assert [(*steps[0], "success", "8"), (*steps[1], None, None)] == found


def test_a_draft_that_waited_for_a_decision_outlives_its_turn(tmp_path: Path) -> None:
    """A host sends another question instead of a decision: the draft is a branch, as the question is."""
    model = ScriptedChat(replies={QUESTION: "Buy a car.", "thanks": GOOD})
    with closing(open_database(tmp_path / "a.db")) as database:
        parts_of_graph = {"checkpointer": database.saver, "store": database.store}
        graph = build_graph(model, judge=JUDGE, settings=ASKS, **parts_of_graph)
        config: RunnableConfig = {"configurable": {"thread_id": "t"}}
        for text in (QUESTION, "No, thanks."):
            graph.invoke({"messages": [("user", text)]}, config)
        conversation = Conversation.open(database, thread="t")
        words_by_kind = {branch.kind: branch.words for branch in conversation.branches()}
        assert {
            "live": "No, thanks.",
            "draft": "Buy a car.",
            "interrupted": QUESTION,
        } == words_by_kind


def test_a_question_while_its_turn_runs(tmp_path: Path) -> None:
    """Another reader sees the first question of a thread before it has an answer, and none after it."""
    database = open_database(tmp_path / "a.db")
    model = ScriptedChat(default=GOOD)
    writer = Conversation.open(database, thread="t", model=model, judge=JUDGE)
    reader = Conversation.open(database, thread="t")
    with pytest.raises(UnknownThreadError):
        reader.timeline()
    events = writer.stream(QUESTION)
    next(events)
    pending = reader.timeline().pending
    assert pending is not None
    assert (QUESTION, None, ()) == (pending.question, pending.request, pending.rejected)
    list(events)
    assert reader.timeline().pending is None
    database.close()


def test_an_added_answer_ends_the_wait(tmp_path: Path) -> None:
    """A host answers a question whose model failed: the chat no longer says that it waits."""
    model = ScriptedChat(replies={QUESTION: Fault(error=ConnectionError("down"))}, default=GOOD)
    with Conversation.open(tmp_path / "a.db", thread="t", model=model, judge=JUDGE) as conversation:
        with pytest.raises(ModelError):
            conversation.say(QUESTION)
        config: RunnableConfig = {"configurable": {"thread_id": "t"}}
        assert is_turn_open(conversation.graph.get_state(config).values)
        conversation.add([AIMessage(GOOD)])
        assert not is_turn_open(conversation.graph.get_state(config).values)
        assert GOOD == conversation.say("And an insect?").text
