"""Recall by meaning: vectors of a user's embeddings, asked for once and compared."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from unsay.effects import PART_SECONDS, adrive, drive
from unsay.errors import ModelReplyError
from unsay.retrieval.selection import recall
from unsay.retrieval.terms import index_of
from unsay.retrieval.vectors import (
    BATCH,
    EMBEDDED_CHARS,
    FunctionEmbeddings,
    Vectors,
    embed,
    fused,
    similarities,
)

SUBJECTS = ({"boat", "harbor", "vessel"}, {"violin", "tune"}, {"rain", "weather"})


class BySubject(Embeddings):
    """Embeddings that know three subjects, and remember what they were asked for."""

    def __init__(self, missing_count: int = 0) -> None:
        self.asked: list[list[str]] = []
        self.lost = missing_count

    def embed_query(self, text: str) -> list[float]:
        """Count the words of each subject."""
        words_of_text = set(text.lower().strip(".?!").split())
        return [float(len(words_of_text & subject)) + 0.1 for subject in SUBJECTS]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Do the same for several texts."""
        self.asked.append(texts)
        return [self.embed_query(text) for text in texts[self.lost :]]


def ten_each(messages: Sequence[AnyMessage]) -> int:
    """Ten tokens a message."""
    return 10 * len(messages)


def transcript_of(*texts: str) -> list[AnyMessage]:
    """A conversation of two in turn."""
    return [
        (AIMessage if number % 2 else HumanMessage)(text, id=f"m{number}")
        for number, text in enumerate(texts)
    ]


TRANSCRIPT = transcript_of("The rain.", "Rain again.", "Our harbor.", "More rain.", "Rain, rain.")


def test_what_means_the_same_comes_back() -> None:
    """A message that shares no word with the question is found by its meaning."""
    vectors = drive(embed(BySubject(), "vessel", TRANSCRIPT, known={}))
    plain = recall("vessel", TRANSCRIPT, budget_tokens=10, count=ten_each)
    recollection = recall("vessel", TRANSCRIPT, budget_tokens=10, count=ten_each, vectors=vectors)
    assert ([], ["m2"]) == ([m.id for m in plain.messages], [m.id for m in recollection.messages])
    assert "meaning" == recollection.reasons[0].why


def test_words_and_meaning_count_together() -> None:
    """With vectors, a message that has the word and the meaning is before those with one of them."""
    messages_summarized = transcript_of(
        "A harbor.",
        *["Rain."] * 5,
        "Rex, in the harbor.",
        *["Rain."] * 5,
        "Rex sleeps on our carpet.",
    )
    vectors = drive(embed(BySubject(), "boat Rex", messages_summarized, known={}))
    recollection = recall(
        "boat Rex", messages_summarized, budget_tokens=10, count=ten_each, vectors=vectors
    )
    assert ["m6"] == [message.id for message in recollection.messages]


def test_each_message_is_embedded_once() -> None:
    """What is known is not asked for again, and a message without words never."""
    embeddings = BySubject()
    first = drive(embed(embeddings, "boat", [*TRANSCRIPT, AIMessage("", id="e")], known={}))
    messages = [*TRANSCRIPT, HumanMessage("A tune.", id="m9")]
    second = drive(embed(embeddings, "tune", messages, known=first.messages))
    assert [[m.text for m in TRANSCRIPT], ["A tune."]] == embeddings.asked
    assert {*first.messages, "m9"} == set(second.messages)


def test_many_messages_are_embedded_in_batches() -> None:
    """One call asks for no more than a batch, and for no more of a text than models read."""
    embeddings = BySubject()
    drive(
        embed(
            embeddings, "boat", transcript_of(*["x" * 2 * EMBEDDED_CHARS] * (BATCH + 1)), known={}
        )
    )
    assert [BATCH, 1] == [len(texts) for texts in embeddings.asked]
    assert {EMBEDDED_CHARS} == {len(text) for texts in embeddings.asked for text in texts}


async def test_embedding_runs_on_an_event_loop() -> None:
    """The same step awaits the embeddings' own coroutines."""
    vectors = await adrive(embed(BySubject(), "boat", TRANSCRIPT, known={}))
    assert drive(embed(BySubject(), "boat", TRANSCRIPT, known={})) == vectors


def test_a_vector_too_few_is_told() -> None:
    """Embeddings that lose a text are refused: no message gets another's vector."""
    with pytest.raises(ModelReplyError, match=r"'BySubject' gave 4 vectors for 5 texts"):
        drive(embed(BySubject(missing_count=1), "boat", TRANSCRIPT, known={}))


@pytest.mark.parametrize(
    ("vectors", "problem"),
    [
        pytest.param([[0.1, math.nan]], "not finite", id="nan"),
        pytest.param([[0.1, math.inf]], "not finite", id="inf"),
        pytest.param([[]], "without numbers", id="empty"),
        pytest.param([0.1], "no lists of numbers", id="one vector"),
        pytest.param([["0.1"]], "no lists of numbers", id="texts"),
        pytest.param(None, "no lists of numbers", id="nothing"),
        pytest.param([], "0 vectors for 1 texts", id="too few"),
        pytest.param([[0.1], [0.2]], "2 vectors for 1 texts", id="too many"),
    ],
)
@pytest.mark.parametrize("texts", [[], transcript_of("Rain.")], ids=["question", "message"])
def test_vectors_that_cannot_be_compared_are_refused(
    vectors: Any, problem: str, texts: list[AnyMessage]
) -> None:
    """Recall by words alone is better than an order that such a vector makes."""
    embeddings = FunctionEmbeddings(lambda _: vectors)
    with pytest.raises(ModelReplyError, match=problem):
        drive(embed(embeddings, "boat", texts, known={}))


def test_vectors_of_two_models_are_told() -> None:
    """Vectors of different lengths are not compared."""
    vectors = Vectors(question=[1.0, 0.0], messages={"m0": [1.0, 0.0, 0.0]})
    with pytest.raises(ModelReplyError, match=r"has 3 numbers and the question's 2"):
        similarities(vectors, index_of(TRANSCRIPT))


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param({}, id="none-known"),
        pytest.param({"m0": [0.0, 0.0]}, id="a-vector-of-zeros"),
        pytest.param({f"m{n}": [1.0, 1.0] for n in range(5)}, id="all-alike"),
    ],
)
def test_vectors_that_tell_nothing_change_nothing(messages: dict[str, list[float]]) -> None:
    """Missing, empty and equal vectors put no message before another."""
    vectors = Vectors(question=[1.0, 0.0], messages=messages)
    assert [0.0] * 5 == similarities(vectors, index_of(TRANSCRIPT))


def test_nearness_reaches_the_neighbours() -> None:
    """A message after a near one is nearer than one before it."""
    vectors = drive(embed(BySubject(), "harbor", TRANSCRIPT, known={}))
    near = similarities(vectors, index_of(TRANSCRIPT))
    assert ["m2", "m3", "m1"] == [
        TRANSCRIPT[number].id for number in sorted(range(5), key=lambda i: -near[i])[:3]
    ]


@pytest.mark.parametrize(
    ("rankings", "best"),
    [
        pytest.param([[3.0, 2.0, 1.0], [0.0, 9.0, 8.0]], 1, id="second-and-first"),
        pytest.param([[1.0, 2.0, 3.0]], 2, id="one-ranking"),
        pytest.param([[1e9, 1.0, 0.0], [0.1, 0.3, 0.2]], 1, id="scales-do-not-matter"),
    ],
)
def test_rankings_are_fused_by_rank(rankings: list[list[float]], best: int) -> None:
    """A message high in every ranking wins, however large the scores of one are."""
    ranking = fused(rankings)
    assert best == ranking.index(max(ranking))


def test_embedding_has_its_time() -> None:
    """Each call carries the timeout of a user's part."""
    step: Any = embed(BySubject(), "boat", TRANSCRIPT, known={})
    assert PART_SECONDS == next(step).timeout_seconds
