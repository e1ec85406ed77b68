"""Lessons: what was rejected reaches later turns, can be changed, and leaves with its turn."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from tests.graph.kit import Numbered
from tests.reading import replayed
from tests.threads import open_conversation
from unsay import Conversation
from unsay.errors import NotFoundError
from unsay.messages.annotations import annotation_of
from unsay.messages.content import text_of
from unsay.testing import ScriptedDetector

REASON = "It names no source."
BAD: dict[str, Any] = {"score": 0.1, "consistency": 1.0, "reason": "No source.", "advice": REASON}


class Rejecting:
    """A judge that rejects the first draft of the conversation, and accepts all others."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, messages: list[BaseMessage]) -> Any:
        """A verdict."""
        self.calls += 1
        return BAD if self.calls == 1 else 0.9


def open_thread(path: Path, model: Numbered, **options: Any) -> Conversation:
    """The conversation `t` of a database."""
    options = {"judge": Rejecting(), "detector": ScriptedDetector(default="same"), **options}
    return open_conversation(path / "t.db", model=model, **options)


def test_a_lesson_reaches_the_next_attempt_and_later_turns(tmp_path: Path) -> None:
    """The advice is sent with the retry, and with the next question on the topic."""
    model = Numbered()
    with open_thread(tmp_path, model) as conversation:
        conversation.say("What is a list?")
        conversation.say("And a tuple?")
        (lesson,) = conversation.lessons.list()

    assert REASON in model.texts(1)[-1]
    assert "Earlier answers in this conversation were rejected" in model.texts(2)[-1]
    assert REASON in model.texts(2)[-1]
    assert [REASON, "This is draft 1, about what was asked."] == [
        lesson["text"],
        lesson["rejected"],
    ]


def test_a_lesson_is_kept_over_a_restart(tmp_path: Path) -> None:
    """Another process that opens the thread sends it as well."""
    with open_thread(tmp_path, Numbered()) as conversation:
        conversation.say("What is a list?")

    model = Numbered()
    with open_thread(tmp_path, model, judge=lambda _: 0.9) as second_conversation:
        second_conversation.say("And a tuple?")
        assert [REASON] == [lesson["text"] for lesson in second_conversation.lessons.list()]
    assert REASON in model.texts()[-1]


def test_a_lesson_leaves_with_its_turn_and_returns_with_it(tmp_path: Path) -> None:
    """An undo removes it, a redo brings it back."""
    model = Numbered()
    with open_thread(tmp_path, model) as conversation:
        conversation.say("What is a list?")
        conversation.undo()
        messages = conversation.messages()
        conversation.redo()
        lessons = conversation.lessons.list()
        conversation.undo()
        conversation.say("And a tuple?")

        assert [] == messages
        assert [REASON] == [lesson["text"] for lesson in lessons]
        assert REASON not in model.texts()[-1]


def test_a_lesson_applies_to_its_topic(tmp_path: Path) -> None:
    """A question on another topic is not sent it; back on the topic it is again."""
    model = Numbered()
    detector = ScriptedDetector(shifts={"weather": "new"}, default="same")
    with open_thread(tmp_path, model, detector=detector) as conversation:
        conversation.say("What is a list?")
        conversation.say("How is the weather?")

        assert REASON not in model.texts()[-1]


def test_a_lesson_can_be_changed_and_removed(tmp_path: Path) -> None:
    """Its new text is what later turns are sent; the event log has both changes."""
    model = Numbered()
    with open_thread(tmp_path, model) as conversation:
        conversation.say("What is a list?")
        conversation.lessons.change(1, "Name a source.")
        conversation.say("And a tuple?")
        text = model.texts()[-1]
        conversation.lessons.remove(conversation.lessons.list()[0]["id"])
        conversation.say("And a set?")
        annotations = [annotation_of(m) for m in conversation.messages()]
        second_annotations = [annotation_of(m) for m in replayed(conversation).messages]

        assert "Name a source." in text
        assert REASON not in text
        assert "Name a source." not in model.texts()[-1]
        assert () == tuple(conversation.lessons.list())
        assert annotations == second_annotations
        with pytest.raises(NotFoundError, match="no lesson '1'"):
            conversation.lessons.remove(1)


def test_a_lesson_of_a_copied_answer_is_changed_in_the_copy(tmp_path: Path) -> None:
    """A pick copies an answer with its lesson; the answer that it came from may be elsewhere."""
    with open_thread(tmp_path, Numbered()) as conversation:
        conversation.say("What is a list?")
        ids = [message.id or "" for message in conversation.messages()]
        with conversation.fork(thread="other") as fork:
            fork.pick(ids, "t")
            fork.remove(1)
            fork.lessons.change(1, "Name a source.")

            assert ["Name a source."] == [lesson["text"] for lesson in fork.lessons.list()]


def test_lessons_in_the_chat(tmp_path: Path) -> None:
    """`/lessons`, `/lesson N TEXT` and `/unlearn N` do the same."""
    with open_thread(tmp_path, Numbered()) as conversation:
        conversation.say("What is a list?")
        text = conversation.say("/lessons").text
        conversation.say("/lesson 1 Name a source.")
        renamed = conversation.say("/lessons").text
        removed = conversation.say("/unlearn 1").text

        assert f"1. {REASON}" in text
        assert "1. Name a source." in renamed
        assert "Removed lesson 1." == removed
        assert () == tuple(conversation.lessons.list())
        assert 1 == len(conversation.timeline().turns)


def test_a_bad_rating_with_a_reason_is_a_lesson(tmp_path: Path) -> None:
    """What a person said about an answer reaches the later ones; a new rating replaces it."""
    model = Numbered()
    with open_thread(tmp_path, model, judge=lambda _: 0.9) as conversation:
        conversation.say("What is a list?")
        conversation.say("/bad 1 too long")
        conversation.say("And a tuple?")
        text = model.texts()[-1]
        conversation.ratings.add(1, "good")

        assert "too long" in text
        assert () == tuple(conversation.lessons.list())
        (rating,) = conversation.ratings.list()
        assert ("good", 1) == (rating["label"], rating["turn"])


def test_a_turn_is_sent_the_newest_lessons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `MAX_LESSONS` 0 no later turn is sent any."""
    monkeypatch.setattr("unsay.memory.lessons.MAX_LESSONS", 0)
    model = Numbered()
    with open_thread(tmp_path, model) as conversation:
        conversation.say("What is a list?")
        conversation.say("And a tuple?")

        assert REASON not in text_of(model.inputs[-1][-1])  # type: ignore[arg-type]
