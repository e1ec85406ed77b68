"""Undo and redo have no end but the conversation's own."""

import pytest

from tests.graph.back_kit import Opening
from tests.graph.kit import Numbered, make, say
from tests.reading import namespace_of, questions, stored_items, transcript, undo_depth
from unsay.conversation.conversation import Conversation
from unsay.errors import DatabaseCorruptError, NothingToRedoError, NothingToUndoError
from unsay.transcript.undo import MOST, WITHOUT_STORE

pytestmark = pytest.mark.full

TURNS = 2 * MOST + 5


def long_conversation(open_thread: Opening, *, turns: int = TURNS) -> Conversation:
    """A conversation of many turns."""
    conversation = open_thread()
    for number in range(turns):
        conversation.say(f"Question {number}?")
    return conversation


def undone(conversation: Conversation, times: int) -> None:
    """Undo so often."""
    for _ in range(times):
        conversation.undo()


def test_every_turn_can_be_undone_and_redone(open_thread: Opening) -> None:
    """From the last turn to the first and back, in another process half of the way."""
    conversation = long_conversation(open_thread)
    messages = conversation.messages()
    assert undo_depth(conversation) <= MOST
    undone(conversation, TURNS // 2)
    conversation.close()

    other_conversation = open_thread()
    undone(other_conversation, TURNS - TURNS // 2)
    assert [] == other_conversation.messages()
    with pytest.raises(NothingToUndoError):
        other_conversation.undo()
    for _ in range(TURNS):
        other_conversation.redo()
    assert messages == other_conversation.messages()
    with pytest.raises(NothingToRedoError):
        other_conversation.redo()


def test_an_old_rollback_can_be_undone(open_thread: Opening) -> None:
    """What a rollback took long ago returns when all since is undone, also in the chat."""
    conversation = open_thread()
    for question in ("One?", "Two?", "Three?"):
        conversation.say(question)
    conversation.rollback(turns=2)
    for number in range(TURNS):
        conversation.say(f"Question {number}?")
    for _ in range(TURNS):
        conversation.say("/undo")
    assert questions(conversation)[0] == "One?"
    assert "Two?" not in questions(conversation)

    conversation.say("/undo")

    assert [question for question in questions(conversation) if not question.startswith("/")] == [
        "One?",
        "Two?",
        "Three?",
    ]


def test_steps_that_were_changed_are_refused(open_thread: Opening) -> None:
    """A damaged page of steps is named; other ways back stay."""
    conversation = long_conversation(open_thread)
    store = conversation.graph.store
    assert store is not None
    names = [item.key for item in stored_items(store, "undo steps")]
    for name in names:
        store.put(namespace_of("undo steps"), name, {"before": None, "steps": []}, index=False)
    with pytest.raises(DatabaseCorruptError, match="|".join(names)):
        undone(conversation, TURNS)
    assert conversation.rollback(turns=1).removed == 2


def test_without_a_store_the_newest_can_be_undone() -> None:
    """A graph without a store keeps its newest steps in the state."""
    graph = make(Numbered(), store=None)
    say(graph, *(f"Question {number}?" for number in range(TURNS)))
    assert WITHOUT_STORE <= undo_depth(graph) <= WITHOUT_STORE + 1
    for _ in range(WITHOUT_STORE):
        say(graph, "/undo")
    assert len([line for line in transcript(graph) if "Question" in line]) == TURNS - WITHOUT_STORE
