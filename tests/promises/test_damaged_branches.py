"""A damaged branch or stored tool call is lost, but the thread that needs it goes on."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import RemoveMessage
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from tests.graph.kit import Numbered, config, last_text, make, say, scores
from tests.reading import namespace_of, stored_items, transcript
from unsay import Conversation, reversible
from unsay.errors import DatabaseCorruptError
from unsay.testing import ScriptedChat, ToolCalls
from unsay.turn.runs import KEY


def damage_branches(store: BaseStore) -> None:
    """Make the messages of every stored branch unreadable."""
    items = stored_items(store, "branches")
    assert items
    for item in items:
        store.put(item.namespace, item.key, {**item.value, "messages": "xx"})


def test_a_thread_goes_on_after_a_branch_of_a_host_is_damaged() -> None:
    """A host removes a turn, and its branch is damaged: the next run reports it once, and answers."""
    store = InMemoryStore()
    graph = make(Numbered(), store=store)
    say(graph, "q1", "q2")
    last = graph.get_state(config()).values["messages"][-2:]
    removals = [RemoveMessage(id=message.id) for message in last]
    graph.update_state(config(), {"messages": removals})
    damage_branches(store)

    question = {"messages": [("user", "q3")]}
    events: list[Any] = list(graph.stream(question, config(), stream_mode="custom"))
    say(graph, "q4")

    errors = [event["error"] for event in events if event.get("unsay") == "segment_lost"]
    assert 1 == len(errors)
    assert "damaged" in errors[0]
    assert ["human: q1", "human: q3", "human: q4"] == transcript(graph)[::2]


def test_a_thread_goes_on_after_a_branch_of_an_interrupted_turn_is_damaged() -> None:
    """A second attempt dies, and the first draft is damaged: the next question is answered."""
    store = InMemoryStore()
    drafts = Numbered()
    failures = [ConnectionError("down")]

    def model(messages: Any) -> Any:
        if len(drafts.inputs) == 2 and failures:
            raise failures.pop()
        return drafts(messages)

    graph = make(model, scores(0.9, 0.1, 0.9), store=store)
    say(graph, "q1")
    with pytest.raises(Exception, match="could not be reached"):
        say(graph, "q2")
    damage_branches(store)

    say(graph, "q3")

    assert ["human: q1", "human: q3"] == transcript(graph)[::2]


def test_a_thread_goes_on_after_its_stopped_questions_are_damaged() -> None:
    """What a stopped run stored cannot be read: the next runs are answered, and one reports it."""
    store = InMemoryStore()
    graph = make(Numbered(), store=store)
    say(graph, "q1")
    store.put(namespace_of("unsaved question"), KEY, {"messages": "xx"})

    question = {"messages": [("user", "q2")]}
    events: list[Any] = list(graph.stream(question, config(), stream_mode="custom"))
    second_events: list[Any] = list(graph.stream(question, config(), stream_mode="custom"))

    assert [1, 0] == [
        sum(e.get("unsay") == "segment_lost" for e in stream_events)
        for stream_events in (events, second_events)
    ]
    assert 6 == len(transcript(graph))


def test_a_damaged_branch_is_not_counted_among_the_tokens() -> None:
    """`/tokens` answers with the tokens of the branches that can be read."""
    store = InMemoryStore()
    graph = make(Numbered(), store=store)
    say(graph, "q1", "q2", "/undo")
    damage_branches(store)

    answer = last_text(say(graph, "/tokens"))

    assert "damaged" not in answer
    assert "Used, at least" in answer


def test_a_damaged_branch_hides_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The others are listed and restored; the damaged one says so when it is named."""
    chat = ScriptedChat(default="It is an answer.")
    with Conversation.open(tmp_path / "t.db", thread="t", model=chat) as conversation:
        conversation.say("q1")
        conversation.rollback(turns=1)
        damage_branches(conversation.graph.store)
        branches = conversation.branches()
        conversation.say("q2")
        branch = conversation.rollback(turns=1).branch

        assert ["live"] == [branch.id for branch in branches]
        assert ["live", branch] == [branch.id for branch in conversation.branches()]
        assert "a damaged branch is left out" in caplog.text
        branch_items = stored_items(conversation.graph.store, "branches")
        (name,) = [item.key for item in branch_items if item.key != branch]
        with pytest.raises(DatabaseCorruptError):
            conversation.restore(name)
        conversation.restore(branch)
        assert "q2" == conversation.messages()[0].text


def test_a_timeline_shows_without_the_drafts_of_a_damaged_branch(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The turns, checkpoints and the drafts of other branches are shown; a warning names the lost one."""
    options: Any = {"thread": "t", "model": Numbered(), "judge": scores(0.1, 0.9, 0.1, 0.9)}
    with Conversation.open(tmp_path / "t.db", **options) as conversation:
        conversation.say("q1")
        damage_branches(conversation.graph.store)
        conversation.say("q2")

        timeline = conversation.timeline()

        assert [0, 1] == [len(turn.rejected) for turn in timeline.turns]
        assert "a damaged branch is left out" in caplog.text


def test_a_thread_goes_on_after_a_call_to_undo_is_damaged() -> None:
    """Its effect is unknown now, so it is not undone, and the notice says so; the turn is undone."""
    undone: list[str] = []

    def cancel(to: str) -> None:
        undone.append(to)

    @reversible(undo=cancel)
    def book(to: str) -> str:
        """Reserve a ticket."""
        return f"ticket {to}"

    store = InMemoryStore()
    reply = ToolCalls(calls=[{"name": "book", "args": {"to": "Kyoto"}}], then="Booked.")
    chat = ScriptedChat(replies={"Book a ticket": reply}, default="Hello.")
    graph = make(chat, tools=[book], store=store)
    say(graph, "Book a ticket")
    (item,) = stored_items(store, "compensations")
    store.put(item.namespace, item.key, {"status": "made", "call": "xx"})

    state = say(graph, "/undo")

    assert [] == undone
    assert "the stored entry of the call is damaged" in last_text(state)
    assert ["human: /undo"] == transcript(graph)[:-1], "the turn is undone"
    say(graph, "Hi", "/undo", "Hi again")
    assert "ai: Hello." == transcript(graph)[-1]
