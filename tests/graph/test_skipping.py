"""Skipping: which answers the judge is not asked about, and how they are counted."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import tool

from tests.graph.kit import make, say
from unsay import Conversation
from unsay.testing import ScriptedChat, ToolCalls

EVERY = {"judge_every": 100}
PLAIN = "A list comprehension builds a list from an expression and a loop in one line."
QUESTION = "What is a list comprehension in Python?"


class Counting:
    """A judge that counts its calls."""

    def __init__(self, *verdicts: Any) -> None:
        self.calls, self.verdicts = 0, list(verdicts)

    def __call__(self, messages: list[BaseMessage]) -> Any:
        """The next verdict, then 0.9."""
        self.calls += 1
        return self.verdicts.pop(0) if self.verdicts else 0.9


def test_a_plainly_good_answer_is_skipped_and_counted(tmp_path: Path) -> None:
    """It is unscored, makes no checkpoint, and the timeline counts it."""
    judge = Counting()
    chat = ScriptedChat(default=PLAIN)
    path = tmp_path / "t.db"
    with Conversation.open(path, model=chat, judge=judge, settings=EVERY) as conversation:
        reply = conversation.say(QUESTION)
        seen = conversation.timeline()

        assert (0, "unscored", None) == (judge.calls, reply.outcome, reply.score)
        assert (1, [True]) == (seen.skipped, [turn.skipped for turn in seen.turns])
        assert not conversation.checkpoints()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(f"{PLAIN} " * 4, id="a-loop"),
        pytest.param(
            "A list comprehension builds a list from an expression and a", id="broken-off"
        ),
        pytest.param("I'm sorry, but I can't help with that.", id="a-refusal"),
        pytest.param("", id="empty"),
    ],
)
def test_a_doubted_answer_is_never_skipped(answer: str) -> None:
    """The local checks fail it for certain, or the judge reads it."""
    judge = Counting(0.1)
    graph = make(lambda _: AIMessage(answer), judge, settings={**EVERY, "on_exhausted": "ask"})

    state = say(graph, QUESTION)

    assert state.get("__interrupt__") or judge.calls


def test_the_answer_of_a_retry_is_judged() -> None:
    """A draft after a rejected one is not delivered unread."""
    judge, drafts = Counting(), ["I'm sorry, but I can't help with that.", PLAIN]
    graph = make(lambda _: AIMessage(drafts.pop(0)), judge, settings=EVERY)

    state = say(graph, QUESTION)

    assert (1, 0.9) == (judge.calls, state["quality_score"])


def test_a_turn_with_tool_calls_is_judged() -> None:
    """What tools did is nothing that the local checks can see."""

    @tool
    def look(words: str) -> str:
        """Look something up."""
        return words

    judge = Counting()
    calls = ToolCalls(calls=[{"name": "look", "args": {"words": "list"}}], then=PLAIN)
    graph = make(ScriptedChat(default=calls), judge, tools=[look], settings=EVERY)

    say(graph, QUESTION)

    assert 1 == judge.calls


def test_one_of_n_is_read() -> None:
    """About a quarter of the good answers, drawn by the question's id, whatever the process."""
    judge = Counting()
    numbers = iter(range(1_000))
    graph = make(
        lambda _: AIMessage(f"{PLAIN} This one has the number {next(numbers)} and its own words."),
        judge,
        settings={"judge_every": 4, "topics": "off"},
    )

    for number in range(40):
        say(graph, f"What is list comprehension number {number} in Python?", thread=f"t{number}")

    assert 3 <= judge.calls <= 18
