"""A turn is a question with everything that answers it, also what other agents and hosts add."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from unsay import Conversation, evaluation
from unsay.messages.annotations import answers_by_turn, notice, turn_numbers
from unsay.testing import ScriptedChat, ScriptedJudge


def transcript(letters: str) -> list[AnyMessage]:
    """Q question, A answer, C command, N notice to the last command, T tool call with its result."""
    messages: list[AnyMessage] = []
    for index, letter in enumerate(letters):
        name = f"{letter}{index}"
        if letter == "T":
            call = {"name": "t", "args": {}, "id": name}
            messages += [
                AIMessage("", id=name, tool_calls=[call]),
                ToolMessage("", tool_call_id=name),
            ]
        elif letter == "N":
            command = next(m.id for m in reversed(messages) if str(m.id).startswith("C"))
            messages.append(notice("done", name, [command or ""]))
        else:
            kind = HumanMessage if letter in "QC" else AIMessage
            messages.append(kind("words", id=name))
    return messages


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        ("", []),
        ("Q", []),
        ("QA", [["A1"]]),
        ("QTATA", [["A2", "A4"]]),
        ("QAQA", [["A1"], ["A3"]]),
        ("AQA", [["A0"], ["A2"]]),
        ("AAQA", [["A0", "A1"], ["A3"]]),
        ("QACTNTA", [["A1"]]),
        ("QCNA", [["A3"]]),
        ("CNAQA", [["A4"]]),
        ("NA", []),
    ],
)
def test_answers_of_each_turn(letters: str, expected: list[list[str]]) -> None:
    """Answers up to the next question are of one turn; what follows a notice is of no turn."""
    messages = transcript("CNA")[1:] if letters == "NA" else transcript(letters)
    answer_lists = answers_by_turn(messages)

    assert expected == [[message.id for message in answers] for answers in answer_lists]


def test_answers_that_go_on_are_of_the_turn_before() -> None:
    """An answer at the beginning of loaded messages belongs to the turn that is not loaded."""
    messages = transcript("AQA")

    assert [["A2"]] == [
        [m.id for m in answers] for answers in answers_by_turn(messages, goes_on=True)
    ]
    assert {"A0": 3, "Q1": 3, "A2": 4} == turn_numbers(messages, 3)


def test_a_host_s_second_answer_makes_no_second_turn(tmp_path: Path) -> None:
    """Timeline, numbers and a rollback by turns agree in a conversation, too."""
    chat = ScriptedChat(default="Two days are enough.")
    with Conversation.open(tmp_path / "a.db", model=chat, judge=ScriptedJudge()) as conversation:
        conversation.say("How long in Kyoto?")
        config: Any = {"configurable": {"thread_id": conversation.thread_id}}
        update = {"messages": [AIMessage("And one more for Nara.")]}
        conversation.graph.update_state(config, update, as_node="process_message")
        conversation.say("And in Osaka?")

        assert [1, 2] == [turn.number for turn in conversation.timeline().turns]
        assert ["Two days are enough."] * 2 == [
            turn.answer for turn in conversation.timeline().turns
        ]
        assert 1 == conversation.preview(turns=1).turns
        assert 1 == conversation.rollback(turns=1).turns
        assert ["How long in Kyoto?"] == [turn.question for turn in conversation.timeline().turns]
        assert 0 == conversation.rollback(turns=1).turns
        assert [] == conversation.messages()


def test_a_rating_is_of_the_answer_that_the_timeline_shows(tmp_path: Path) -> None:
    """Ratings, later judgements and bisection number the turns as the timeline does."""
    chat = ScriptedChat(default="Two days are enough.")
    with Conversation.open(tmp_path / "a.db", model=chat, judge=ScriptedJudge()) as conversation:
        conversation.say("How long in Kyoto?")
        config: Any = {"configurable": {"thread_id": conversation.thread_id}}
        update = {"messages": [AIMessage("And one more for Nara.")]}
        conversation.graph.update_state(config, update, as_node="process_message")
        conversation.say("And in Osaka?")

        for turn in (1, 2):
            conversation.ratings.add(turn, "good")
        rows = conversation.ratings.list()
        assert [1, 2] == [row["turn"] for row in rows]
        assert ["Two days are enough."] * 2 == [row["answer"] for row in rows]
        assert [0.9, 0.9] == [row["score"] for row in rows]
        assert 2 == evaluation.import_ratings(conversation, rows)
        assert ["How long in Kyoto?", "And in Osaka?"] == [
            turn.question for turn in evaluation.judge(conversation)
        ]
        assert 2 == evaluation.bisect(conversation).turns
