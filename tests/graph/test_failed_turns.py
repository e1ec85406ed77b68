"""A turn whose attempts all fail, with whatever blame, leaves the transcript as it was."""

from collections.abc import Callable
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.graph.kit import Numbered, config, make, say
from unsay.conversation.conversation import Conversation
from unsay.messages.annotations import annotation_of, is_notice
from unsay.messages.content import text_of

pytestmark = pytest.mark.usefixtures("closes_databases")

EARLIER = st.lists(st.sampled_from([0.9, 0.7]), min_size=1, max_size=5)
BLAMES = st.lists(st.sets(st.integers(0, 3), max_size=3), min_size=4, max_size=4)
PLACES = st.sampled_from(["turn", "checkpoint"])


def judging(earlier: list[float], blames: list[set[int]]) -> Callable[[Any], Any]:
    """A judge that passes the earlier answers, then fails all, and blames some that it is shown."""
    scores = list(earlier)
    remaining_blames = list(blames)

    def judge(request: list[Any]) -> Any:
        if scores:
            return scores.pop(0)
        ids = [part.split("]")[0] for part in text_of(request[-1]).split("[id ")[1:]]
        blamed = remaining_blames.pop(0) if remaining_blames else set()
        return {"score": 0.1, "reason": "no", "blamed": [ids[i] for i in blamed if i < len(ids)]}

    return judge


@given(earlier=EARLIER, blames=BLAMES, to=PLACES, rollbacks=st.integers(0, 3))
def test_a_turn_without_a_passing_attempt_removes_nothing(
    earlier: list[float],
    blames: list[set[int]],
    to: Literal["turn", "checkpoint"],
    rollbacks: int,
) -> None:
    """The best draft is delivered and flagged behind the old transcript; an undo removes it alone."""
    conversation = Conversation.open(
        ":memory:",
        model=Numbered(),
        judge=judging(earlier, blames),
        settings={"rollback_to": to, "max_rollbacks": rollbacks},
    )
    for number in range(len(earlier)):
        conversation.say(f"q{number}")
    before = conversation.messages()
    checkpoints = conversation.checkpoints()

    reply = conversation.say("the last one")

    assert before == conversation.messages()[:-2]
    assert ("low_quality", (), rollbacks) == (reply.flag, reply.removed, reply.rollbacks)
    assert checkpoints == conversation.checkpoints()[: len(checkpoints)]
    conversation.undo()
    assert before == conversation.messages()
    assert checkpoints == conversation.checkpoints()


@pytest.mark.full
@given(earlier=EARLIER, blames=BLAMES, to=PLACES)
def test_a_host_keeps_its_transcript_when_no_attempt_passes(
    earlier: list[float], blames: list[set[int]], to: str
) -> None:
    """The same through the compiled graph, with the place chosen for this run alone."""
    graph = make(Numbered(), judging(earlier, blames))
    before = say(graph, *(f"q{number}" for number in range(len(earlier))))["messages"]

    state = graph.invoke(
        {"messages": [("user", "the last one")]}, config(), context={"rollback_to": to}
    )

    assert before == state["messages"][:-2]
    assert "low_quality" == annotation_of(state["messages"][-1])["flag"]
    assert not any(map(is_notice, state["messages"]))
