import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from tests.transcripts import valid_transcripts
from unsay.context.compaction import Compaction, Span, hidden, with_partners
from unsay.context.topics import (
    by_topic,
    cleared_ids,
    compaction_without,
    forgotten_ids,
    forgotten_topics,
    named_ids,
    remaining_topics,
    topic_starts,
    without_forgotten,
)
from unsay.messages.boundaries import steps
from unsay.messages.conformance import DIALECTS, conform, faults
from unsay.prompts.catalogue import Texts
from unsay.types import ExpandedTopic, Forgotten, Segment, Topic

ENGLISH = Texts("en")


def entry(kind: str, *ids: str, topic: str | None = None) -> Forgotten:
    """Something that is forgotten."""
    fields: Any = {"id": f"forgot-{kind}", "kind": kind, "message_ids": list(ids), "reason": ""}
    return Forgotten(**fields, created_at="", **({"topic_id": topic} if topic else {}))


def forgetful_transcript() -> list[AnyMessage]:
    """Two turns; the second calls a tool."""
    call = {"id": "c", "name": "look", "args": {}}
    return [
        HumanMessage("Where?", id="q1"),
        AIMessage("Here.", id="a1"),
        HumanMessage("And?", id="q2"),
        AIMessage("", id="call", tool_calls=[call]),
        ToolMessage("Found it.", id="result", tool_call_id="c"),
        AIMessage("There.", id="a2"),
    ]


SEGMENTS: list[Segment] = [{"topic_id": "A", "start": "q1"}, {"topic_id": "B", "start": "q2"}]


@pytest.mark.parametrize(
    ("forgotten", "expected"),
    [
        pytest.param([], "", id="nothing"),
        pytest.param([entry("message", "a1")], "a1", id="one"),
        pytest.param([entry("message", "result")], "call result", id="a result and its call"),
        pytest.param([entry("span", "q1", "a1")], "q1 a1", id="a span"),
        pytest.param([entry("message", "gone")], "", id="not in the transcript"),
        pytest.param([entry("tool_results", "result")], "", id="results are only cleared"),
        pytest.param([entry("topic", topic="A")], "q1 a1", id="a topic"),
        pytest.param([entry("topic", "cut", topic="B")], "q2 call result a2", id="its end is gone"),
        pytest.param(
            [entry("topic", "q2", topic="B")], "q2", id="what follows a topic's end stays"
        ),
    ],
)
def test_what_is_left_out(forgotten: list[Forgotten], expected: str) -> None:
    """Named messages that exist are left out, with all that must stay together with them."""
    assert set(expected.split()) == forgotten_ids(forgetful_transcript(), SEGMENTS, forgotten)


def test_the_running_question_is_never_left_out() -> None:
    """A forgotten topic or message that waits for an answer is shown."""
    forgotten = [entry("topic", topic="A"), entry("message", "q2")]

    assert {"q1", "a1"} == forgotten_ids(
        forgetful_transcript(), SEGMENTS, forgotten, pending=["q2"]
    )


def test_topics() -> None:
    """A forgotten topic is not mentioned; the others are."""
    plain = Topic(id="A", label="a", summary="s", summarized_through="a1")
    forgotten = [entry("message", "q1"), entry("topic", topic="B")]

    assert {"B"} == forgotten_topics(forgotten)
    assert [plain] == remaining_topics([plain, {**plain, "id": "B"}], forgotten)
    assert {"q1"} == named_ids(forgotten)


@pytest.mark.parametrize("text", ["ok", "long " * 500], ids=["short", "long"])
def test_a_cleared_result_says_nothing(text: str) -> None:
    """Of a forgotten result only the length is shown, however short it is."""
    result = ToolMessage(text, id="r", tool_call_id="c")
    (cleared_result,) = without_forgotten([result], [], [entry("tool_results", "r")], ENGLISH)
    assert isinstance(cleared_result, ToolMessage)

    assert text not in cleared_result.content
    assert str(len(text)) in cleared_result.content
    assert ("r", "c") == (cleared_result.id, cleared_result.tool_call_id)
    assert text == result.content


def test_results_are_cleared_in_their_place() -> None:
    """Results stay where they are, without their words; calls stay whole."""
    forgotten = [entry("tool_results", "result", "q1")]

    assert {"result"} == cleared_ids(forgetful_transcript(), forgotten)
    messages = without_forgotten(forgetful_transcript(), SEGMENTS, forgotten, ENGLISH)
    assert [m.id for m in forgetful_transcript()] == [m.id for m in messages]
    assert ["Found it."] == [
        a.content for a, b in zip(forgetful_transcript(), messages, strict=True) if a != b
    ]


def test_stretches_begin_at_what_is_left() -> None:
    """A topic whose first message is forgotten begins at the next; one that is gone is gone."""
    topics_before: list[ExpandedTopic] = [{"topic_id": "A", "at": "q2"}]
    segments, topics_after = topic_starts(
        forgetful_transcript(), SEGMENTS, topics_before, {"q1", "a1", "q2"}
    )

    assert [Segment(topic_id="B", start="call")] == segments
    assert [ExpandedTopic(topic_id="A", at="call")] == topics_after


def test_stretches_stay_where_they_began() -> None:
    """Where no first message is forgotten nothing moves."""
    assert (SEGMENTS, ()) == topic_starts(forgetful_transcript(), SEGMENTS, (), {"a1"})


def span(first: str, last: str, *kept_ids: str, summary: str | None = None) -> Span:
    """A stretch that is compacted."""
    return Span(first=first, through=last, kept=list(kept_ids), summary=summary, why="x")


@pytest.mark.parametrize(
    ("before", "forgotten", "expected"),
    [
        pytest.param(span("q1", "a1"), "", span("q1", "a1"), id="nothing"),
        pytest.param(span("q1", "q2"), "q1", span("a1", "q2"), id="its beginning"),
        pytest.param(span("q1", "q2"), "q2", span("q1", "a1"), id="its end"),
        pytest.param(span("q1", "a1"), "q1 a1", None, id="all of it"),
        pytest.param(span("q1", "a1", summary="s"), "a1", None, id="its summary tells"),
        pytest.param(span("q1", "a1", summary="s"), "a2", span("q1", "a1", summary="s"), id="else"),
        pytest.param(
            span("q1", "q2", "a1", summary="s"),
            "a1",
            span("q1", "q2", "a1", summary="s"),
            id="it was never summarized",
        ),
        pytest.param(
            span("q1", "gone", summary="s"), "q1", span("q1", "gone", summary="s"), id="off"
        ),
    ],
)
def test_summaries_leave_out_what_is_forgotten(
    before: Span, forgotten: str, expected: Span | None
) -> None:
    """A summary that mentions something forgotten is dropped; a span keeps the rest."""
    compaction = compaction_without(
        forgetful_transcript(),
        SEGMENTS,
        Compaction(spans=[before]),
        forgotten=set(forgotten.split()),
        cleared=(),
    )

    assert ([] if expected is None else [expected]) == compaction["spans"]


def test_compactions_of_topics_and_of_results() -> None:
    """Each topic's compaction covers its own messages; the shortened range ends at the rest."""
    of_b = Compaction(spans=[span("q2", "a2", summary="s")], cleared="result", truncated="q2")
    compaction = Compaction(topics={"A": Compaction(spans=[span("q1", "a1")]), "B": of_b})
    new_compaction = compaction_without(
        forgetful_transcript(), SEGMENTS, compaction, forgotten={"q1", "q2"}, cleared={"result"}
    )

    assert {
        "A": Compaction(spans=[span("a1", "a1")]),
        "B": Compaction(spans=[], cleared="result", truncated=""),
    } == new_compaction["topics"]
    assert Compaction(topics={"A": Compaction(spans=[span("q1", "a1")]), "B": of_b}) == compaction


@st.composite
def forgettings(draw: st.DrawFn) -> tuple[list[AnyMessage], list[Segment], list[Forgotten]]:
    """A transcript with topics, and what of it is forgotten."""
    messages = draw(valid_transcripts(pending=True, notices=True))
    groups = steps(messages)
    starts = draw(st.lists(st.sampled_from(groups), unique=True, max_size=4)) if groups else []
    segments = [
        Segment(topic_id=draw(st.sampled_from("ABC")), start=messages[segment.start].id or "")
        for segment in sorted(starts, key=lambda segment: segment.start)
    ]
    ids = [message.id or "" for message in messages] or ["none"]
    id_lists = st.lists(st.sampled_from(ids), max_size=4)
    entries = st.one_of(
        id_lists.map(lambda names: entry("message", *names)),
        id_lists.map(lambda names: entry("tool_results", *names)),
        st.tuples(id_lists, st.sampled_from("ABC")).map(
            lambda x: entry("topic", *x[0], topic=x[1])
        ),
    )
    return messages, segments, draw(st.lists(entries, max_size=3))


@given(forgettings())
def test_what_is_left_can_be_sent(
    case: tuple[list[AnyMessage], list[Segment], list[Forgotten]],
) -> None:
    """After forgetting anything, the rest is valid for every provider, in order, and unchanged."""
    messages, segments, forgotten = case
    before = json.dumps([m.model_dump() for m in messages], default=str)
    waiting = [messages[index].id or "" for index in steps(messages)[-1]]
    excluded_ids = forgotten_ids(messages, segments, forgotten, pending=waiting)
    messages_left = without_forgotten(messages, segments, forgotten, ENGLISH, pending=waiting)

    assert [m.id for m in messages if m.id not in excluded_ids] == [m.id for m in messages_left]
    assert excluded_ids == {messages[i].id for i in with_partners(messages, excluded_ids)}
    for provider in DIALECTS:
        request = conform(messages_left, opening=ENGLISH.say("opening"), provider=provider)
        assert [] == list(faults(request, provider))
    assert before == json.dumps([m.model_dump() for m in messages], default=str)


@given(forgettings())
def test_topics_keep_their_words(
    case: tuple[list[AnyMessage], list[Segment], list[Forgotten]],
) -> None:
    """What is left belongs to the topic that it belonged to, but for what came before any."""
    messages, segments, forgotten = case
    excluded_ids = forgotten_ids(messages, segments, forgotten)
    messages_left = [message for message in messages if message.id not in excluded_ids]
    new_segments, _ = topic_starts(messages, segments, (), excluded_ids)
    first = (
        next((i for i, m in enumerate(messages) if m.id == segments[0]["start"]), 0)
        if segments
        else 0
    )
    early_ids = {m.id for m in messages[:first]}

    was = _topics_of(messages, segments, early_ids)
    assert {k: v for k, v in was.items() if k not in excluded_ids} == _topics_of(
        messages_left, new_segments, early_ids
    )


def _topics_of(
    messages: Sequence[AnyMessage], segments: Sequence[Segment], early_ids: set[str | None]
) -> dict[str | None, str]:
    groups = by_topic(messages, segments)
    return {m.id: topic for topic, group in groups.items() for m in group if m.id not in early_ids}


@given(forgettings(), st.data())
def test_compactions_still_hide_what_they_hid(
    case: tuple[list[AnyMessage], list[Segment], list[Forgotten]], data: st.DataObject
) -> None:
    """A span without a summary hides of what is left what it hid before."""
    messages, segments, forgotten = case
    groups = [group for group in steps(messages) if messages[group.start].type != "system"]
    if not groups:
        return
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(groups) - 1)] * 2)))
    ends = messages[groups[first].start].id or "", messages[groups[last].stop - 1].id or ""
    compaction = Compaction(spans=[span(*ends)])
    excluded_ids = forgotten_ids(messages, segments, forgotten)
    result_ids = cleared_ids(messages, forgotten)
    messages_left = [message for message in messages if message.id not in excluded_ids]

    before = {messages[index].id for index in hidden(messages, compaction)} - excluded_ids
    new_compaction = compaction_without(
        messages, segments, compaction, forgotten=excluded_ids, cleared=result_ids
    )
    assert before == {messages_left[index].id for index in hidden(messages_left, new_compaction)}
