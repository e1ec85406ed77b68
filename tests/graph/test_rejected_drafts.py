"""What the next attempt is sent of a rejected draft."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage

from tests.graph.kit import config, make
from unsay import Conversation
from unsay.messages.content import text_of
from unsay.testing import ScriptedJudge

LANGUAGES = {
    "en": (
        "How many legs does a spider have?",
        "A spider has six legs, I believe.",
        "It has eight.",
    ),
    "ja": ("クモの足は何本ですか?", "クモの足は六本だと思います。", "八本です。"),
}


class Recording:
    """A model with the given drafts that keeps its requests."""

    def __init__(self, *drafts: str) -> None:
        self.requests: list[list[str]] = []
        self.drafts = list(drafts)

    def __call__(self, messages: list[BaseMessage]) -> AIMessage:
        """Return the next draft."""
        self.requests.append([text_of(message) for message in messages])
        return AIMessage(self.drafts.pop(0))


@pytest.mark.parametrize(("question", "bad", "good"), LANGUAGES.values(), ids=LANGUAGES)
def test_the_next_attempt_sees_what_was_rejected(question: str, bad: str, good: str) -> None:
    """The draft stands fenced behind the question; neither transcript nor later contexts have it."""
    model = Recording(good, bad, good, good)
    judge = ScriptedJudge(scores={bad: 0.1})
    settings = {"topics": "off", "max_lessons": 0, "local_checks": []}
    with Conversation.open(":memory:", model=model, judge=judge, settings=settings) as talk:
        for text in ("One?", question, "Three?"):
            talk.say(text)
        kept = [text_of(message) for message in talk.messages()]
    _, first, second, later = model.requests

    assert first[:-1] == second[:-1]  # the prefix that a provider caches
    assert second[-1].startswith(first[-1] + "\n\n")
    assert f'">\n{bad}\n</answer key="' in second[-1]
    assert not any(bad in text for text in (*kept, *later))


def test_a_long_draft_is_shortened() -> None:
    """Both ends, 400 characters together; a draft without text has no excerpt."""
    long = "Legs. " + "and more legs " * 500 + "The end."
    drafts: list[Any] = [long, "", "It has eight."]
    model = Recording(*drafts)
    graph = make(model, ScriptedJudge(scores={long: 0.1}), settings={"local_checks": ["empty"]})

    graph.invoke({"messages": [("user", "How many legs?")]}, config())
    hint = model.requests[2][-1]

    assert 1 == hint.count("<answer key=")
    assert "Legs. and more" in hint
    assert "The end.\n</answer" in hint
    assert 410 > hint.index("</answer key=") - hint.index("Legs. and") > 390
