"""What unsay writes beside a message's words."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from unsay.messages.annotations import (
    DOCUMENT,
    KEY,
    annotate,
    annotation_of,
    is_answer,
    is_document,
    is_notice,
    is_question,
    notice,
    spoken,
    with_verdict,
)
from unsay.protocols import Verdict

ANSWER = AIMessage("4", id="a", response_metadata={"finish_reason": "stop"})
CALL = {"name": "add", "args": {}, "id": "call-1", "type": "tool_call"}


def test_an_annotation_is_added_to_a_message() -> None:
    """Notes gather on a copy; the message, its id and its other metadata stay."""
    once = annotate(ANSWER, turn=1, score=0.5)
    twice = annotate(once, score=0.7, topic="Kyoto")

    assert {} == annotation_of(ANSWER)
    assert {"turn": 1, "score": 0.5} == annotation_of(once)
    assert {"turn": 1, "score": 0.7, "topic": "Kyoto"} == annotation_of(twice)
    assert (
        AIMessage(
            "4",
            id="a",
            response_metadata={
                "finish_reason": "stop",
                "unsay": {"turn": 1, "score": 0.7, "topic": "Kyoto"},
            },
        )
        == twice
    )


@pytest.mark.parametrize("foreign", [None, "notice", 1, ["kind"]])
def test_a_foreign_value_under_our_key_is_not_an_annotation(foreign: Any) -> None:
    """What another program wrote there is not read, and is overwritten by the first note."""
    message = AIMessage("4", response_metadata={KEY: foreign})

    assert {} == annotation_of(message)
    assert {"turn": 1} == annotation_of(annotate(message, turn=1))


def test_a_verdict_is_written_on_its_answer() -> None:
    """All of it, with turn, topic and what else belongs to it."""
    verdict = Verdict(outcome="failed", score=0.1, reason="wrong", source="person")

    assert {
        "outcome": "failed",
        "score": 0.1,
        "reason": "wrong",
        "source": "person",
        "turn": 3,
        "topic": "Kyoto",
        "rollbacks": 2,
    } == annotation_of(with_verdict(ANSWER, verdict, turn=3, topic="Kyoto", rollbacks=2))


@pytest.mark.parametrize(
    ("message", "answer", "ours"),
    [
        pytest.param(ANSWER, True, False, id="an answer"),
        pytest.param(AIMessage(""), True, False, id="an empty answer"),
        pytest.param(notice("Done.", "n", ["c"]), False, True, id="a notice"),
        pytest.param(AIMessage("hm", tool_calls=[CALL]), False, False, id="a tool call"),
        pytest.param(ToolMessage("4", tool_call_id="call-1"), False, False, id="a tool's result"),
        pytest.param(HumanMessage("2 + 2?"), False, False, id="a question"),
        pytest.param(SystemMessage("Be brief."), False, False, id="instructions"),
    ],
)
def test_kinds_of_messages_are_told_apart(message: AnyMessage, *, answer: bool, ours: bool) -> None:
    """Final words of an assistant, our own words, and all else."""
    assert (answer, ours) == (is_answer(message), is_notice(message))


@pytest.mark.parametrize(
    ("message", "question", "document"),
    [
        pytest.param(HumanMessage("2 + 2?"), True, False, id="the user's words"),
        pytest.param(HumanMessage("2 + 2?", name="ann"), True, False, id="a named user's words"),
        pytest.param(HumanMessage("4.", name=DOCUMENT), False, True, id="retrieved material"),
        pytest.param(AIMessage("4.", name=DOCUMENT), False, False, id="an answer of that name"),
        pytest.param(SystemMessage("Be brief."), False, False, id="instructions"),
    ],
)
def test_documents_are_told_from_questions(
    message: AnyMessage, *, question: bool, document: bool
) -> None:
    """A user message is the user's own words, or material that an app retrieved."""
    assert (question, document) == (is_question(message), is_document(message))


def test_a_notice_and_what_it_answers_are_not_spoken() -> None:
    """Commands and their answers are shown to people and are no part of the conversation."""
    transcript: list[AnyMessage] = [
        HumanMessage("2 + 2?", id="q"),
        ANSWER,
        HumanMessage("/undo", id="c1"),
        HumanMessage("/help", id="c2"),
        notice("Help.", "n1", ["c1", "c2"]),
        HumanMessage("And 3 + 3?", id="q2"),
    ]

    assert [transcript[0], transcript[1], transcript[5]] == spoken(transcript)
    assert [transcript[0], transcript[1], transcript[5]] == spoken(iter(transcript))


def test_a_forged_notice_does_no_harm() -> None:
    """A message that claims to be a notice, without saying of what, hides itself alone."""
    message = AIMessage("4", id="f", response_metadata={KEY: {"kind": "notice"}})

    assert [ANSWER] == spoken([ANSWER, message])


@given(st.lists(st.tuples(st.sampled_from("hano"), st.integers(0, 9)), max_size=10))
def test_spoken_is_what_no_notice_covers(shape: list[tuple[str, int]]) -> None:
    """In order, without notices, without what they answer, and the same when done again."""
    makers: dict[str, Any] = {
        "h": lambda name, _: HumanMessage("", id=name),
        "a": lambda name, _: AIMessage("", id=name),
        "n": lambda name, index: notice("", name, [f"m{index}"]),
        "o": lambda name, _: notice("", name, []),
    }
    transcript = [
        makers[kind](f"m{index}", answer_index) for index, (kind, answer_index) in enumerate(shape)
    ]
    answered_ids = {f"m{answer_index}" for kind, answer_index in shape if kind == "n"}
    messages_spoken = spoken(transcript)

    expected = [
        m
        for m, (kind, _) in zip(transcript, shape, strict=True)
        if kind in "ha" and m.id not in answered_ids
    ]
    assert expected == messages_spoken
    assert messages_spoken == spoken(messages_spoken)
