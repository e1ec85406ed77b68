"""Ratings, scores of an old thread, and the turn from which a thread went wrong."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from tests.graph.kit import Numbered
from unsay import Conversation, evaluation
from unsay.errors import InputError, UnknownTurnError
from unsay.messages.content import text_of


class Reader:
    """A judge that fails the answers of some turns, by the number in the question."""

    def __init__(self, bad: Collection[int] = ()) -> None:
        self.bad = bad
        self.asked = 0

    def __call__(self, messages: list[BaseMessage]) -> Any:
        """A verdict on the newest question."""
        self.asked += 1
        question = text_of(messages[-1]).partition("<question")[2].partition("</question")[0]  # type: ignore[arg-type]
        turn = int(question.split()[-1].rstrip("?"))
        return {"score": 0.1 if turn in self.bad else 0.9, "reason": f"about turn {turn}"}


def long_talk(path: Path, turns: int = 12) -> None:
    """A thread of numbered questions, judged by nobody."""
    settings = {"judging": "off"}
    with Conversation.open(path, thread="t", model=Numbered(), settings=settings) as conversation:
        for number in range(1, turns + 1):
            conversation.say(f"Question number {number}?")


@pytest.mark.sample(every=3)
@pytest.mark.parametrize(
    ("bad", "turn", "most"),
    [
        pytest.param(range(5, 13), 5, 7, id="from-the-middle"),
        pytest.param(range(1, 13), 1, 7, id="from-the-start"),
        pytest.param([12], 12, 7, id="the-last"),
        pytest.param([4, 6, 7, 8, 9, 10, 11, 12], 4, 8, id="a-good-answer-between"),
        pytest.param([], None, 1, id="nothing"),
    ],
)
def test_bisect_finds_the_turn(
    tmp_path: Path, bad: Collection[int], turn: int | None, most: int
) -> None:
    """Few judgements find the first turn that fails; the thread is as it was."""
    long_talk(tmp_path / "t.db")
    judge = Reader(bad)
    with Conversation.open(
        tmp_path / "t.db", thread="t", model=Numbered(), judge=judge
    ) as conversation:
        before = conversation.messages()
        bisection = evaluation.bisect(conversation)

        assert turn == bisection.turn
        assert judge.asked == bisection.judgements <= most
        assert before == conversation.messages()
        assert (0 if turn is None else 13 - turn) == bisection.to_roll_back
        if bisection.to_roll_back:
            conversation.rollback(turns=bisection.to_roll_back)
            assert turn - 1 == len(conversation.timeline().turns)  # type: ignore[operator]


def test_nothing_passes_that_no_judge_has_read(tmp_path: Path) -> None:
    """Without a judge it is not said that no turn fails: the reason is told."""
    long_talk(tmp_path / "t.db", 2)
    with Conversation.open(tmp_path / "t.db", thread="t") as conversation:
        bisection = evaluation.bisect(conversation)

        assert (None, False, 0) == (bisection.turn, bisection.confirmed, bisection.to_roll_back)
        assert "no model" in bisection.reason
        assert "could not be judged" in str(bisection)


def test_an_old_thread_is_scored(tmp_path: Path) -> None:
    """Every answer gets a verdict of now, and the transcript does not change."""
    long_talk(tmp_path / "t.db", 3)
    with Conversation.open(
        tmp_path / "t.db", thread="t", model=Numbered(), judge=Reader([2])
    ) as conversation:
        before = conversation.messages()
        judgement = evaluation.judge(conversation)

        assert [0.9, 0.1, 0.9] == [item.verdict.score for item in judgement]
        assert before == conversation.messages()
        assert [2] == [item.turn for item in evaluation.judge(conversation, turn=2)]
        with pytest.raises(UnknownTurnError):
            evaluation.judge(conversation, turn=9)


def test_ratings_are_exported_and_imported(tmp_path: Path) -> None:
    """The lines of one thread give a copy of it the same ratings."""
    long_talk(tmp_path / "t.db", 3)
    with Conversation.open(
        tmp_path / "t.db", thread="t", model=Numbered(), judge=Reader()
    ) as conversation:
        copy = conversation.fork()
        conversation.ratings.add(1, "good")
        conversation.ratings.add(3, "bad", note="It is wrong.")
        lines = conversation.ratings.list()

        assert [("good", 1), ("bad", 3)] == [(line["label"], line["turn"]) for line in lines]
        assert 2 == evaluation.import_ratings(copy, lines)
        given = [
            (rating["label"], rating["turn"], rating["note"]) for rating in copy.ratings.list()
        ]
        assert [("good", 1, ""), ("bad", 3, "It is wrong.")] == given
        with pytest.raises(InputError, match="'fine' is not a rating"):
            conversation.ratings.add(1, "fine")


def test_thumbs_in_the_chat(tmp_path: Path) -> None:
    """`/good` and `/bad` rate a turn and are no part of the conversation."""
    long_talk(tmp_path / "t.db", 2)
    with Conversation.open(
        tmp_path / "t.db", thread="t", model=Numbered(), judge=Reader()
    ) as conversation:
        assert "Rated as good: “Question number 1?”." == conversation.say("/good 1").text
        conversation.say("/bad")
        labels = [(rating["turn"], rating["label"]) for rating in conversation.ratings.list()]
        assert [(1, "good"), (2, "bad")] == labels
        assert 2 == len(conversation.timeline().turns)


@pytest.mark.parametrize("number", [-1, 0, 9])
def test_no_verb_takes_a_turn_that_does_not_exist(tmp_path: Path, number: int) -> None:
    """Numbers below the first turn are refused as those after the last."""
    long_talk(tmp_path / "t.db", turns=2)
    with Conversation.open(tmp_path / "t.db", thread="t", model=Numbered()) as conversation:
        for verb in (
            lambda: conversation.remove(number),
            lambda: conversation.ratings.add(number, "good"),
            lambda: conversation.edit(number, "Question?"),
            lambda: evaluation.judge(conversation, turn=number),
            lambda: conversation.compact(number),
        ):
            with pytest.raises(UnknownTurnError, match=f"There is no turn {number}: "):
                verb()
        assert f"no turn {number}:" in conversation.say(f"/remove {number}").text
