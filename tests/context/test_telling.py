"""Where a context describes the topics that it does not show."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from unsay.context.topics import SummaryPlacement, place_summaries
from unsay.types import Segment, Topic


def transcript(turns: int) -> list[AnyMessage]:
    """N questions and answers, `q0`, `a0`, `q1` and so on."""
    return [
        message
        for turn in range(turns)
        for message in (HumanMessage("?", id=f"q{turn}"), AIMessage("!", id=f"a{turn}"))
    ]


def topical_transcript(*topics: str) -> tuple[list[AnyMessage], list[Segment], list[Topic]]:
    """A turn on each of these topics, and a summary of each that names its last turn."""
    messages = transcript(len(topics))
    segments = [Segment(topic_id=name, start=f"q{turn}") for turn, name in enumerate(topics)]
    last = {name: turn for turn, name in enumerate(topics)}
    topic_states = [
        Topic(id=name, label=name, summary=f"{name}{turn}", summarized_through=f"a{turn}")
        for name, turn in last.items()
    ]
    return messages, segments, topic_states


@pytest.mark.parametrize(
    ("topics", "head", "before"),
    [
        pytest.param("a", (), {}, id="one-topic"),
        pytest.param("ab", ("a0",), {}, id="a-new-topic"),
        pytest.param("abcd", ("a0", "b1", "c2"), {}, id="the-one-left-first-comes-first"),
        pytest.param("aba", (), {"q2": ("b1",)}, id="back"),
        pytest.param("abcb", ("a0",), {"q3": ("c2",)}, id="back-to-the-second"),
        pytest.param("abacad", ("b1", "c3", "a4"), {}, id="each-once-where-it-was-left-last"),
        pytest.param("abaca", (), {"q2": ("b1",), "q4": ("c3",)}, id="back-twice"),
    ],
)
def test_each_summary_stands_where_its_topic_was_left(
    topics: str, head: tuple[str, ...], before: dict[str, tuple[str, ...]]
) -> None:
    """What was left before the topic began is at the head, the rest where the conversation returned."""
    messages, segments, topic_states = topical_transcript(*topics)
    assert SummaryPlacement(head=head, before=before) == place_summaries(
        messages, segments, topic_states, {topics[-1]}
    )


def test_what_the_state_let_go_of_stands_first() -> None:
    """An offloaded summary is included even for a shown topic, before all others."""
    messages, segments, topic_states = topical_transcript("a", "b")
    topic_states[1]["offloaded"] = "older words of b"
    expected = SummaryPlacement(head=("older words of b", "a0"), before={})
    assert expected == place_summaries(messages, segments, topic_states, {"b"})


def test_without_topics_nothing_is_told() -> None:
    """Before the first question, and where topics are off, there is nothing to tell."""
    assert SummaryPlacement(head=(), before={}) == place_summaries(transcript(2), [], [], set())


@given(topics=st.lists(st.sampled_from("abcd"), min_size=1, max_size=14))
def test_every_other_topic_is_told_once(topics: list[str]) -> None:
    """However often the topic changes, each hidden topic is described in one place."""
    messages, segments, topic_states = topical_transcript(*topics)
    placement = place_summaries(messages, segments, topic_states, {topics[-1]})
    texts = [*placement.head, *(text for group in placement.before.values() for text in group)]
    assert sorted(t["summary"] or "" for t in topic_states if t["id"] != topics[-1]) == sorted(
        texts
    )


@given(topics=st.lists(st.sampled_from("abcd"), min_size=2, max_size=14))
def test_a_return_adds_only_at_the_end(topics: list[str]) -> None:
    """The description of a topic stays the same, except for topics that continued."""
    *earlier, current = topics
    assume(current in earlier)
    last = len(earlier) - earlier[::-1].index(current)
    messages, segments, topic_states = topical_transcript(*topics)
    before = place_summaries(*topical_transcript(*topics[:last]), {current})
    after = place_summaries(messages, segments, topic_states, {current})
    gone_on = set(topics[last:])
    expected_head = tuple(text for text in before.head if text[0] not in gone_on)
    assert expected_head == after.head
    for message_id, texts in before.before.items():
        expected_texts = tuple(text for text in texts if text[0] not in gone_on)
        assert expected_texts == after.before.get(message_id, ())
