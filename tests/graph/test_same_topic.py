"""`/same` and `same_topic()`: a person says that the topic did not change."""

from pathlib import Path
from typing import Any

import pytest

from tests.graph.kit import Numbered, last_text, make, say
from tests.reading import offloaded_messages, topics
from unsay import AsyncConversation, Conversation
from unsay.errors import ConflictError, UnknownThreadError
from unsay.testing import ScriptedDetector

FERRY = "The ferry to Naoshima."
LUNCH = "Where is lunch?"
WHEN = "When does it leave?"
DETECTOR = ScriptedDetector(shifts={"lunch": "new", "昼食": "new", "Back": "back"})
LOCAL = {"judging": "off", "summaries": "local"}


def open_thread(folder: Path, **settings: Any) -> tuple[Conversation, Numbered]:
    """A conversation in a database of its own, whose detector finds a new topic in `LUNCH`."""
    model = Numbered()
    conversation = Conversation.open(
        folder / "t.db", thread="t", model=model, detector=DETECTOR, settings=LOCAL | settings
    )
    return conversation, model


def test_both_topics_are_in_the_context_again(tmp_path: Path) -> None:
    """The reply says that the topic changed; after `same_topic` the messages before are sent again."""
    with open_thread(tmp_path)[0] as conversation:
        assert conversation.say(FERRY).topic_change is None
        assert ("new", "lunch") == (
            (reply := conversation.say(LUNCH)).topic_change,
            reply.topic,
        )
        assert "ferry to Naoshima" == conversation.same_topic()

    again, model = open_thread(tmp_path)
    with again as conversation:
        conversation.say(WHEN)
        assert [FERRY, LUNCH, WHEN] == model.texts()[::2]
        assert {"ferry to Naoshima"} == {turn.topic for turn in conversation.timeline().turns}


def test_it_is_undone_and_redone_like_a_step(tmp_path: Path) -> None:
    """Undo separates the topics, a second undo takes the turn, and redo brings back both."""
    conversation, model = open_thread(tmp_path)
    with conversation:
        conversation.say(FERRY)
        conversation.say(LUNCH)
        conversation.same_topic()

        assert "topics_apart" == conversation.undo().change.what  # type: ignore[union-attr]
        assert "lunch" == conversation.timeline().current_topic
        assert 1 == conversation.undo().turns
        with pytest.raises(ConflictError, match="only one topic"):
            conversation.same_topic()
        conversation.redo()
        assert "topics_joined" == conversation.redo().change.what  # type: ignore[union-attr]

        conversation.say(WHEN)
        assert [FERRY, LUNCH, WHEN] == model.texts()[::2]


def test_a_question_that_is_asked_again_stays_in_the_topic(tmp_path: Path) -> None:
    """A retry after `same_topic` is answered with the messages before."""
    conversation, model = open_thread(tmp_path)
    with conversation:
        conversation.say(FERRY)
        conversation.say(LUNCH)
        assert FERRY not in model.texts()
        conversation.same_topic()

        conversation.retry()

        assert FERRY in model.texts()


def test_a_return_can_be_wrong_as_well(tmp_path: Path) -> None:
    """After a wrong `back` the conversation goes on with the topic that it had left."""
    conversation, model = open_thread(tmp_path)
    with conversation:
        conversation.say(FERRY)
        conversation.say(LUNCH)
        assert "back" == conversation.say("Back is where I sit.").topic_change

        assert "lunch" == conversation.same_topic()

        conversation.say("And the bill?")
        assert [LUNCH, "Back is where I sit."] == [
            text for text in model.texts() if text in (FERRY, LUNCH, "Back is where I sit.")
        ]


def test_the_topic_before_may_be_offloaded(tmp_path: Path) -> None:
    """Offloaded messages of the topic before are loaded, and undo separates the topics again."""
    conversation, model = open_thread(tmp_path, live_messages=8)
    with conversation:
        for number in range(8):
            conversation.say(f"Ferry {number}.")
        for number in range(4):
            conversation.say(LUNCH if number == 0 else f"Dish {number}.")

        assert offloaded_messages(conversation)
        assert "Ferry" == conversation.same_topic()
        conversation.say("And now?")
        assert "Ferry 7." in model.texts()
        conversation.undo()
        conversation.undo()
        assert "lunch" == conversation.timeline().current_topic


def test_a_forgotten_topic_is_not_joined(tmp_path: Path) -> None:
    """The error names the way out, and nothing changes."""
    with open_thread(tmp_path)[0] as conversation:
        conversation.say(FERRY)
        conversation.say(LUNCH)
        conversation.forget("ferry to Naoshima")

        with pytest.raises(ConflictError, match="restore it first"):
            conversation.same_topic()

        assert "lunch" == conversation.timeline().current_topic


def test_a_new_thread_has_no_topic(tmp_path: Path) -> None:
    """The verb says that the thread is unknown, the command that there is only one topic."""
    with open_thread(tmp_path)[0] as conversation:
        with pytest.raises(UnknownThreadError):
            conversation.same_topic()
        assert "only one topic" in conversation.say("/same").text


async def test_it_is_awaited_too(tmp_path: Path) -> None:
    """The async conversation has the same verb."""
    async with AsyncConversation.open(
        tmp_path / "t.db", model=Numbered(), detector=DETECTOR, settings=LOCAL
    ) as conversation:
        await conversation.say(FERRY)
        await conversation.say(LUNCH)
        assert "ferry to Naoshima" == await conversation.same_topic()


@pytest.mark.parametrize(
    ("first", "second", "notice"),
    [
        pytest.param(FERRY, LUNCH, "Topic “ferry to Naoshima” goes on;", id="en"),
        pytest.param(
            "直島行きの船。", "昼食はどこで?", "話題「直島行きの船」の続きとして", id="ja"
        ),
    ],
)
def test_the_command_works_in_the_bare_graph(first: str, second: str, notice: str) -> None:
    """A host's graph carries it out, says so, and its undo separates the topics."""
    model = Numbered()
    graph = make(model, detector=DETECTOR, settings=LOCAL)
    state = say(graph, first, second)
    assert "new" == state["messages"][-1].response_metadata["unsay"]["topic_change"]

    assert last_text(say(graph, "/same")).startswith(notice)
    say(graph, WHEN)

    assert first in model.texts()
    assert 1 == len(topics(graph))
    say(graph, "/undo", "/undo")
    assert 2 == len(topics(graph))
