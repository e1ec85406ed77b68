"""Threads that were ended for good."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from unsay.conversation.conversation import Conversation
from unsay.effects import drive
from unsay.errors import SessionEndedError
from unsay.history.threads import end, get_session, label

NOW = "2026-01-01T00:00:00.000+00:00"


def test_no_words_are_said_in_a_thread_that_was_ended(tmp_path: Path) -> None:
    """The question is refused before anything is stored, and the transcript stays readable."""
    path = tmp_path / "t.db"
    with Conversation.open(
        path, thread="t", model=lambda _: "An answer.", judge=lambda _: 0.9
    ) as conversation:
        conversation.say("Is it late?")
        store: Any = conversation.graph.store
        drive(label(store, "t", {"tenant": "a"}, now="2026-01-01T00:00:00+00:00"))
        conversation.say("Is it later?")
        ended_session = drive(end(store, "t", now=NOW))
        transcript = conversation.messages()
        with pytest.raises(SessionEndedError, match="'t'"):
            conversation.say("And now?")
        with pytest.raises(SessionEndedError, match="takes no new messages"):
            conversation.add([AIMessage("One more.")])
        conversation.rollback()
        session = drive(get_session(store, "t"))
        restored = conversation.messages()

    assert ("Is it late?", 2, {"tenant": "a"}) == (
        ended_session.title,
        ended_session.turns,
        ended_session.labels,
    )
    assert 4 == len(transcript)
    assert 2 == len(restored)
    assert ("ended", NOW, 1, {"tenant": "a"}) == (
        session.status,
        session.ended_at,
        session.turns,
        session.labels,
    )
