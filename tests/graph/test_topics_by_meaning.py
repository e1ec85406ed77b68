"""The earlier topic to which a question returns, by embeddings."""

import math
import zlib
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings

from tests.graph.kit import Numbered, make, say
from unsay import AsyncConversation
from unsay.testing import ScriptedDetector

LOCAL = {"judging": "off", "summaries": "local", "recall_tokens": 0}
TALKS = {
    "en": (
        "What does photography cost as a hobby?",
        "By the way, how long is sourdough baked?",
        "By the way, why do volcanoes erupt?",
        "Let's go back to photographers.",
    ),
    "ja": (
        "ホテルの予約はいつまでに必要ですか?",
        "ところで、食パンの作り方について教えてください。",
        "ところで、火山の噴火について教えてください。",
        "話を戻しますが、いつまでに必要ですか?",
    ),
}


class Trigrams(Embeddings):
    """Counts of hashed trigrams: texts are near that share parts of words. It records its texts."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector of length 1 for each text."""
        self.texts += texts
        return [self._vector(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Likewise for one text."""
        return self.embed_documents([text])[0]

    def _vector(self, text: str) -> list[float]:
        counts = [0.0] * 512
        padded = f" {text.lower()} "
        for start in range(len(padded) - 2):
            counts[zlib.crc32(padded[start : start + 3].encode()) % 512] += 1.0
        length = math.hypot(*counts)
        return [count / length for count in counts]


@pytest.mark.parametrize("language", TALKS)
def test_the_topic_of_a_return_is_chosen_by_meaning(language: str) -> None:
    """Without embeddings a return that shares no word goes to the topic left last."""
    first, second, third, back = TALKS[language]
    shown: dict[bool, list[str]] = {}
    for has_embeddings in (False, True):
        model = Numbered()
        embeddings = Trigrams()
        given: dict[str, Any] = {"embeddings": embeddings} if has_embeddings else {}
        graph = make(model, settings=LOCAL, **given)
        say(graph, first, second, third)
        assert [] == embeddings.texts

        say(graph, back)

        shown[has_embeddings] = [text for text in (first, second) if text in model.texts()]
        assert has_embeddings == (back in embeddings.texts)

    assert {False: [second], True: [first]} == shown


async def test_embeddings_that_fail_change_nothing() -> None:
    """The choice by words stays, and the reason is on the stream."""

    async def broken(texts: list[str]) -> list[list[float]]:
        raise OSError("no route to the embeddings")

    *questions, back = TALKS["en"]
    async with AsyncConversation.open(
        ":memory:", model=Numbered(), settings=LOCAL, embeddings=broken
    ) as conversation:
        for question in questions:
            await conversation.say(question)
        events = [event async for event in conversation.stream(back)]

    assert ["OSError: no route to the embeddings"] == [
        event.data["error"] for event in events if event.kind == "topic_failed"
    ]
    assert "back" == next(event.data["kind"] for event in events if event.kind == "topic")


def test_a_detector_of_the_host_keeps_its_choice() -> None:
    """The topic that it names is shown, and no embeddings are asked."""
    first, second, third, back = TALKS["en"]
    detector = ScriptedDetector(shifts={second: "new", third: "new", back: "back"})
    model = Numbered()
    embeddings = Trigrams()
    say(
        make(model, settings=LOCAL, detector=detector, embeddings=embeddings),
        first,
        second,
        third,
        back,
    )
    assert second in model.texts()
    assert [] == embeddings.texts
