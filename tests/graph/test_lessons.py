"""Lessons: what was rejected reaches later turns, can be changed, and leaves with its turn."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from tests.graph.kit import Numbered
from tests.reading import replayed
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


def opened(path: Path, model: Numbered, **options: Any) -> Conversation:
    """The conversation `t` of a database."""
    options = {"judge": Rejecting(), "detector": ScriptedDetector(default="same"), **options}
    return Conversation.open(path / "t.db", thread="t", model=model, **options)


def test_a_lesson_reaches_the_next_attempt_and_later_turns(tmp_path: Path) -> None:
    """The advice is sent with the retry, and with the next question on the topic."""
    model = Numbered()
    with opened(tmp_path, model) as conversation:
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
    with opened(tmp_path, Numbered()) as conversation:
        conversation.say("What is a list?")

    model = Numbered()
    with opened(tmp_path, model, judge=lambda _: 0.9) as again:
        again.say("And a tuple?")
        assert [REASON] == [lesson["text"] for lesson in again.lessons.list()]
    assert REASON in model.texts()[-1]


def test_a_lesson_leaves_with_its_turn_and_returns_with_it(tmp_path: Path) -> None:
    """An undo removes it, a redo brings it back."""
    model = Numbered()
    with opened(tmp_path, model) as conversation:
        conversation.say("What is a list?")
        conversation.undo()
        gone = conversation.messages()
        conversation.redo()
        back = conversation.lessons.list()
        conversation.undo()
        conversation.say("And a tuple?")

        assert [] == gone
        assert [REASON] == [lesson["text"] for lesson in back]
        assert REASON not in model.texts()[-1]


def test_a_lesson_applies_to_its_topic(tmp_path: Path) -> None:
    """A question on another topic is not sent it; back on the topic it is again."""
    model = Numbered()
    detector = ScriptedDetector(shifts={"weather": "new"}, default="same")
    with opened(tmp_path, model, detector=detector) as conversation:
        conversation.say("What is a list?")
        conversation.say("How is the weather?")

        assert REASON not in model.texts()[-1]


def test_a_lesson_can_be_changed_and_removed(tmp_path: Path) -> None:
    """Its new text is what later turns are sent; the event log has both changes."""
    model = Numbered()
    with opened(tmp_path, model) as conversation:
        conversation.say("What is a list?")
        conversation.lessons.change(1, "Name a source.")
        conversation.say("And a tuple?")
        changed = model.texts()[-1]
        conversation.lessons.remove(conversation.lessons.list()[0]["id"])
        conversation.say("And a set?")
        stored = [annotation_of(m) for m in conversation.messages()]
        again = [annotation_of(m) for m in replayed(conversation).messages]

        assert "Name a source." in changed
        assert REASON not in changed
        assert "Name a source." not in model.texts()[-1]
        assert () == tuple(conversation.lessons.list())
        assert stored == again
        with pytest.raises(NotFoundError, match="no lesson '1'"):
            conversation.lessons.remove(1)


def test_a_lesson_of_a_copied_answer_is_changed_in_the_copy(tmp_path: Path) -> None:
    """A pick copies an answer with its lesson; the answer that it came from may be elsewhere."""
    with opened(tmp_path, Numbered()) as conversation:
        conversation.say("What is a list?")
        picked = [message.id or "" for message in conversation.messages()]
        with conversation.fork(thread="other") as other:
            other.pick(picked, "t")
            other.remove(1)
            other.lessons.change(1, "Name a source.")

            assert ["Name a source."] == [lesson["text"] for lesson in other.lessons.list()]


def test_lessons_in_the_chat(tmp_path: Path) -> None:
    """`/lessons`, `/lesson N TEXT` and `/unlearn N` do the same."""
    with opened(tmp_path, Numbered()) as conversation:
        conversation.say("What is a list?")
        shown = conversation.say("/lessons").text
        conversation.say("/lesson 1 Name a source.")
        renamed = conversation.say("/lessons").text
        removed = conversation.say("/unlearn 1").text

        assert f"1. {REASON}" in shown
        assert "1. Name a source." in renamed
        assert "Removed lesson 1." == removed
        assert () == tuple(conversation.lessons.list())
        assert 1 == len(conversation.timeline().turns)


def test_a_bad_rating_with_a_reason_is_a_lesson(tmp_path: Path) -> None:
    """What a person said about an answer reaches the later ones; a new rating replaces it."""
    model = Numbered()
    with opened(tmp_path, model, judge=lambda _: 0.9) as conversation:
        conversation.say("What is a list?")
        conversation.say("/bad 1 too long")
        conversation.say("And a tuple?")
        sent = model.texts()[-1]
        conversation.ratings.add(1, "good")

        assert "too long" in sent
        assert () == tuple(conversation.lessons.list())
        (rated,) = conversation.ratings.list()
        assert ("good", 1) == (rated["label"], rated["turn"])


def test_a_turn_is_sent_the_newest_lessons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `MAX_LESSONS` 0 no later turn is sent any."""
    monkeypatch.setattr("unsay.memory.lessons.MAX_LESSONS", 0)
    model = Numbered()
    with opened(tmp_path, model) as conversation:
        conversation.say("What is a list?")
        conversation.say("And a tuple?")

        assert REASON not in text_of(model.inputs[-1][-1])  # type: ignore[arg-type]
