"""Asking a person about rejected drafts."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from unsay.decisions import Decision, person_request, read_decision
from unsay.errors import InputError
from unsay.graph.builder import make_services
from unsay.prompts.catalogue import Texts
from unsay.turn.delivery import best_rejection
from unsay.types import Rejection


def rejection(text: str, score: float | None, reason: str) -> Rejection:
    """A draft with a tool step before its words."""
    step = AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "1"}])
    return Rejection(messages=[step, AIMessage(text)], score=score, reason=reason)


def best(drafts: list[Rejection]) -> Rejection:
    """The draft of these that a turn delivers."""
    turn: Any = {"rejections": drafts}
    return best_rejection(turn, make_services())


def test_a_person_is_shown_the_best_draft() -> None:
    """The request is LangChain's, with the arguments under both names that front ends read."""
    drafts = [
        rejection("one", 0.1, "wrong"),
        rejection("two", 0.4, "{rude}"),
        rejection("three", None, "late"),
    ]
    proposal = {"answer": "two", "score": 0.4}

    assert {
        "action_requests": [
            {
                "name": "deliver_answer",
                "args": proposal,
                "arguments": proposal,
                "description": "No draft passed. Deliver the best one, edit it, "
                "try again, or reject it? Reasons: wrong / {rude} / late",
            }
        ],
        "review_configs": [
            {
                "action_name": "deliver_answer",
                "allowed_decisions": ["approve", "edit", "reject", "respond"],
            }
        ],
    } == person_request(drafts, best(drafts), Texts("en"))


def test_drafts_without_a_score_count_as_worst() -> None:
    """Of unscored drafts, the first is shown."""
    drafts = [rejection("one", None, "a"), rejection("two", None, "b")]
    (action,) = person_request(drafts, best(drafts), Texts("ja"))["action_requests"]

    assert {"answer": "one", "score": None} == action["args"]


def test_an_empty_draft_is_not_the_best() -> None:
    """A draft with words is better than an empty one, also if a judge gave it 0."""
    drafts = [rejection("", 0.0, "empty"), rejection("two", 0.0, "wrong")]

    assert "two" == best(drafts)["messages"][-1].content


def langchain(**decision: Any) -> dict[str, Any]:
    """An answer as LangChain's middleware expects it."""
    return {"decisions": [decision]}


APPROVED = Decision(kind="approve")
REJECTED = Decision(kind="reject")
EDITED = Decision(kind="edit", text="Canberra")
RESPONDED = Decision(kind="respond", text="Canberra")
ACTION = {"name": "deliver_answer", "args": {"answer": "Canberra", "score": 0.1}}


@pytest.mark.parametrize(
    ("answer", "decision"),
    [
        pytest.param(langchain(type="approve"), APPROVED, id="approve"),
        pytest.param(langchain(type="edit", edited_action=ACTION), EDITED, id="edit"),
        pytest.param(langchain(type="reject"), REJECTED, id="reject"),
        pytest.param(
            langchain(type="reject", message="Canberra"),
            Decision(kind="reject", text="Canberra"),
            id="reject, with words",
        ),
        pytest.param(langchain(type="respond", message="Canberra"), RESPONDED, id="respond"),
        pytest.param([{"type": "accept", "args": None}], APPROVED, id="inbox accept"),
        pytest.param(
            [{"type": "edit", "args": {"action": "deliver_answer", "args": ACTION["args"]}}],
            EDITED,
            id="inbox edit",
        ),
        pytest.param([{"type": "ignore", "args": None}], REJECTED, id="inbox ignore"),
        pytest.param([{"type": "response", "args": "Canberra"}], RESPONDED, id="inbox response"),
        pytest.param({"type": "ignore"}, REJECTED, id="a single answer"),
        pytest.param({"decisions": {"type": "approve"}}, APPROVED, id="a single decision"),
        pytest.param("approve", APPROVED, id="a name"),
        pytest.param("APPROVE", APPROVED, id="another case"),
        *(pytest.param(word, APPROVED, id=word) for word in ("yes", "y", "Yes.", "はい", "はい。")),
        *(pytest.param(word, REJECTED, id=word) for word in ("no", "N", "いいえ")),
        pytest.param("accept", APPROVED, id="an inbox name"),
        pytest.param("reject", REJECTED, id="reject by name"),
        pytest.param("ignore", REJECTED, id="ignore by name"),
        pytest.param({"type": "edit", "args": "Canberra"}, EDITED, id="bare words"),
        pytest.param({"type": "edit", "answer": "Canberra"}, EDITED, id="words as the answer"),
        pytest.param({"type": "edit", "arguments": {"answer": "Canberra"}}, EDITED, id="arguments"),
        pytest.param(
            {"type": "respond", "args": {"message": "Canberra"}}, RESPONDED, id="message inside"
        ),
        pytest.param(
            {"decisions": [{"type": "approve"}, {"type": "reject"}]},
            APPROVED,
            id="the first counts",
        ),
    ],
)
def test_a_decision_is_read(answer: Any, decision: Decision) -> None:
    """All four decisions, in the forms of LangChain, the Agent Inbox, and by name."""
    assert decision == read_decision(answer)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(None, id="nothing"),
        pytest.param("", id="an empty name"),
        pytest.param("perhaps", id="an unknown name"),
        pytest.param(True, id="a truth"),
        pytest.param([], id="no answers"),
        pytest.param({}, id="an empty answer"),
        pytest.param({"decisions": []}, id="no decisions"),
        pytest.param({"decisions": None}, id="none for decisions"),
        pytest.param({"decisions": "approve"}, id="a name for decisions"),
        pytest.param({"decisions": ["approve"]}, id="a list of names"),
        pytest.param({"type": None}, id="no type"),
        pytest.param({"type": ["approve"]}, id="a list for a type"),
        pytest.param([[{"type": "approve"}]], id="a list in a list"),
        pytest.param({"kind": "approve"}, id="another key"),
    ],
)
def test_what_is_no_decision_is_refused(answer: Any) -> None:
    """The message says what would be one; the interrupt stays open."""
    with pytest.raises(InputError, match=r"is no decision: resume with \{\"decisions\""):
        read_decision(answer)


@pytest.mark.parametrize("kind", ["edit", "respond"])
@pytest.mark.parametrize(
    "text",
    [
        pytest.param({}, id="none"),
        pytest.param({"args": None}, id="null"),
        pytest.param({"args": ""}, id="empty"),
        pytest.param({"args": " \n"}, id="blank"),
        pytest.param({"args": {}}, id="no keys"),
        pytest.param({"args": {"answer": ""}}, id="an empty answer"),
        pytest.param({"args": {"score": 1}}, id="other keys"),
        pytest.param({"edited_action": None}, id="no action"),
        pytest.param({"edited_action": {"name": "deliver_answer", "args": {}}}, id="no arguments"),
        pytest.param({"message": None}, id="a null message"),
    ],
)
def test_a_decision_that_needs_words_needs_words(kind: str, text: dict[str, Any]) -> None:
    """To edit or to respond without words is refused, wherever they are missing."""
    with pytest.raises(InputError, match=f"A decision to {kind} needs the text, as in"):
        read_decision({"type": kind, **text})


JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.text(max_size=5),
        st.sampled_from(["edit", "approve"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["type", "args", "decisions", "answer", "message", "edited_action"]),
            inner,
            max_size=4,
        ),
    ),
)


@given(JSON)
def test_any_answer_is_a_decision_or_refused(answer: Any) -> None:
    """For any input of a front end, there is no third outcome."""
    try:
        decision = read_decision(answer)
    except InputError:
        return
    assert decision.kind in ("approve", "edit", "reject", "respond")
    assert decision.text.strip() or decision.kind in ("approve", "reject")
