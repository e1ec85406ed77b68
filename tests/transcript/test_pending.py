"""What entered the transcript since the last turn ended."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from unsay.messages.annotations import DOCUMENT, annotate, is_question, notice
from unsay.transcript.pending import (
    Injected,
    PendingInput,
    find_pending,
    unjudged,
    unjudged_documents,
)
from unsay.types import Turn

CALL = {"name": "add", "args": {}, "id": "call-1", "type": "tool_call"}
KINDS = "hdajscrn"


def transcript(shape: str) -> list[AnyMessage]:
    """A transcript from one letter a message.

    h human, d document, a answer, j judged answer, s system, c tool call, r tool result, n notice.
    """
    makers: dict[str, Any] = {
        "h": lambda name: HumanMessage(name, id=name),
        "d": lambda name: HumanMessage(name, id=name, name=DOCUMENT),
        "a": lambda name: AIMessage(name, id=name),
        "j": lambda name: annotate(AIMessage(name, id=name), outcome="unscored"),
        "s": lambda name: SystemMessage(name, id=name),
        "c": lambda name: AIMessage("", id=name, tool_calls=[CALL]),
        "r": lambda name: ToolMessage(name, id=name, tool_call_id="call-1"),
        "n": lambda name: notice(name, name, []),
    }
    return [makers[kind](f"{kind}{index}") for index, kind in enumerate(shape)]


def turn(question_id: str | None, *fields: str, is_done: bool) -> Turn:
    """A turn that asked this question, with the other pending messages."""
    return Turn(
        number=1,
        question_id=question_id,
        pending=[*fields, *([question_id] if question_id else [])],
        base=None,
        done=is_done,
        rejections=[],
        rollbacks=0,
        extra_attempts=0,
        branches=[],
        draft_branches=[],
        context_reason=None,
        guidance=None,
        topic_change=None,
        checkpoints_due=[],
    )


@pytest.mark.parametrize(
    ("shape", "question", "start"),
    [
        pytest.param("", None, 0, id="empty"),
        pytest.param("h", 0, 0, id="first question"),
        pytest.param("hj", None, 2, id="all answered"),
        pytest.param("hjh", 2, 2, id="second question"),
        pytest.param("hjhh", 3, 2, id="two messages in one turn"),
        pytest.param("hjhs", 2, 2, id="instructions behind the question"),
        pytest.param("sh", 1, 1, id="instructions before the question"),
        pytest.param("hjsh", 3, 3, id="instructions between"),
        pytest.param("hshj", None, 4, id="instructions inside"),
        pytest.param("hnh", 2, 2, id="a notice answers"),
        pytest.param("hn", None, 2, id="nothing after a notice"),
        pytest.param("hcr", 0, 0, id="a tool step is no answer"),
        pytest.param("ha", None, 2, id="an injected answer answers"),
        pytest.param("s", None, 1, id="instructions alone"),
        pytest.param("hjddh", 4, 2, id="documents before the question"),
        pytest.param("hjhd", 2, 2, id="a document behind the question"),
        pytest.param("hjd", None, 2, id="a document alone is no question"),
        pytest.param("hjcr", None, 4, id="tools without a question"),
    ],
)
def test_the_pending_question_is_found(shape: str, question: int | None, start: int) -> None:
    """The newest unanswered words of the user, and where the unanswered part begins."""
    messages = transcript(shape)

    question_message = None if question is None else messages[question]
    assert PendingInput(
        question=question_message, start=start, interrupted=range(0)
    ) == find_pending(messages, None)


@pytest.mark.parametrize(
    ("shape", "last", "start", "interrupted_range"),
    [
        pytest.param(
            "hjhh", turn("h2", is_done=False), 3, range(2, 3), id="interrupted, asked anew"
        ),
        pytest.param("hjhcrh", turn("h2", is_done=False), 5, range(2, 5), id="with its tool steps"),
        pytest.param("hjhhh", turn("h3", is_done=False), 4, range(2, 4), id="of two messages"),
        pytest.param("hhsh", turn("h0", is_done=False), 1, range(1), id="two new messages"),
        pytest.param(
            "hjdhh", turn("h3", "d2", is_done=False), 4, range(2, 4), id="with its document"
        ),
        pytest.param(
            "hjhdh", turn("h2", "d3", is_done=False), 4, range(2, 4), id="document behind"
        ),
        pytest.param(
            "hjhdh", turn("h2", is_done=False), 3, range(2, 3), id="the new one's document"
        ),
        pytest.param(
            "hjh", turn("h2", is_done=False), 2, range(0), id="no newer question: goes on"
        ),
        pytest.param("hjhd", turn("h2", is_done=False), 2, range(0), id="only a document: goes on"),
        pytest.param("hjhh", turn("h2", is_done=True), 2, range(0), id="that turn was done"),
        pytest.param("hjhh", turn("gone", is_done=False), 2, range(0), id="that question is gone"),
        pytest.param(
            "hjhh", turn("h0", is_done=False), 2, range(0), id="that question was answered"
        ),
        pytest.param(
            "hjhh", turn(None, is_done=False), 2, range(0), id="that turn had no question"
        ),
        pytest.param("hj", turn("h0", is_done=False), 2, range(0), id="nothing pending"),
    ],
)
def test_an_interrupted_question_is_told_from_the_new_one(
    shape: str, last: Turn, start: int, interrupted_range: range
) -> None:
    """A turn that never ended, and what was asked after it, are two things."""
    messages = transcript(shape)
    pending = find_pending(messages, last)

    assert (start, interrupted_range) == (pending.start, pending.interrupted)
    assert find_pending(messages, None).question is pending.question


@given(
    shape=st.text(KINDS, max_size=10),
    position=st.integers(min_value=0, max_value=9),
    is_done=st.booleans(),
)
def test_a_record_splits_into_settled_interrupted_and_pending(
    shape: str, position: int, *, is_done: bool
) -> None:
    """Pending begins at a question, holds the newest one, and nothing in it is answered."""
    messages = transcript(shape)
    last = turn(messages[position].id, is_done=is_done) if position < len(messages) else None
    pending_turn = find_pending(messages, last)

    pending = messages[pending_turn.start :]
    assert (pending_turn.question in pending) == any(is_question(item) for item in pending)
    assert [] == [m for m in pending if m.id[0] in "ajn"]  # type: ignore[index]
    assert pending_turn.question in (None, *[m for m in pending if is_question(m)][-1:])
    assert ["human"] * bool(pending) == [m.type for m in pending[:1]]
    assert pending_turn.interrupted.stop in (0, pending_turn.start)
    assert not (is_done and pending_turn.interrupted)


@pytest.mark.parametrize(
    ("shape", "end", "answers"),
    [
        pytest.param("", 0, [], id="empty"),
        pytest.param("hj", 2, [], id="judged"),
        pytest.param("ha", 2, [(1, 0)], id="an exchange"),
        pytest.param("a", 1, [(0, 0)], id="an answer to nothing"),
        pytest.param("haha", 4, [(1, 0), (3, 2)], id="two exchanges"),
        pytest.param("hahjha", 6, [(5, 4)], id="back to the newest judged one"),
        pytest.param("hjhah", 4, [(3, 2)], id="before the pending question"),
        pytest.param("haa", 3, [(1, 0), (2, 2)], id="two answers to one question"),
        pytest.param("hna", 3, [(2, 2)], id="a notice took the question"),
        pytest.param("hcra", 4, [(3, 0)], id="tools inside"),
        pytest.param("hhsa", 4, [(3, 1)], id="the nearest question"),
        pytest.param("hahn", 4, [(1, 0)], id="notices are not judged"),
        pytest.param("hjddha", 6, [(5, 2)], id="documents belong to the exchange"),
        pytest.param("hda", 3, [(2, 0)], id="documents inside"),
        pytest.param("da", 2, [(1, 1)], id="a document asks nothing"),
    ],
)
def test_answers_without_a_verdict_are_found(
    shape: str, end: int, answers: list[tuple[int, int]]
) -> None:
    """Oldest first, each with the start of its exchange."""
    expected_answers = [Injected(index=index, start=start) for index, start in answers]

    assert expected_answers == unjudged(transcript(shape), end)


@given(shape=st.text(KINDS, max_size=12), end=st.integers(min_value=0, max_value=12))
def test_every_unjudged_answer_is_found_once(shape: str, end: int) -> None:
    """All plain answers after the newest judged one before the end, and nothing else."""
    messages = transcript(shape)
    upto = min(end, len(messages))
    answers = unjudged(messages, upto)

    last_judged = shape.rfind("j", 0, upto)
    assert [i for i in range(last_judged + 1, upto) if shape[i] == "a"] == [
        e.index for e in answers
    ]
    assert [] == [e for e in answers if e.start > e.index or e.start <= last_judged]


def test_documents_that_wait_with_the_question_are_found() -> None:
    """Only pending ones without a verdict, oldest first."""
    messages = transcript("dhjddhd")
    judged_answer = annotate(messages[4], outcome="passed")
    pending = ["d3", "d4", "h5", "d6"]

    assert [messages[3], messages[6]] == unjudged_documents(
        [*messages[:4], judged_answer, *messages[5:]], pending
    )
    assert [] == unjudged_documents(messages, ["h5"])
