"""Which messages belong to which topic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from unsay.context.topics import (
    MEMORY_TEXTS,
    MEMORY_TOPICS,
    TEXT_CHARS,
    by_topic,
    current_topic_id,
    memories,
    opened_topics,
)
from unsay.messages.annotations import notice, spoken
from unsay.protocols import TopicMemory
from unsay.types import ExpandedTopic, Segment

CALL = {"name": "f", "args": {}, "id": "call-1", "type": "tool_call"}
TRANSCRIPT: list[AnyMessage] = [
    SystemMessage("Be brief.", id="s"),
    HumanMessage("Kyoto?", id="k1"),
    AIMessage("", id="k2", tool_calls=[CALL]),
    ToolMessage("raw", id="k3", tool_call_id="call-1"),
    AIMessage("Temples.", id="k4"),
    HumanMessage("Bread?", id="b1"),
    AIMessage("Flour.", id="b2"),
    HumanMessage("/help", id="c"),
    notice("Help.", "n", ["c"]),
    HumanMessage("Kyoto again?", id="k5"),
]
SEGMENTS = [
    Segment(topic_id="kyoto", start="k1"),
    Segment(topic_id="bread", start="b1"),
    Segment(topic_id="kyoto", start="k5"),
]


def test_messages_are_grouped_by_their_segments() -> None:
    """A topic that was returned to has both its stretches; commands and notices have none."""
    names = {
        topic: [m.id for m in group] for topic, group in by_topic(TRANSCRIPT, SEGMENTS).items()
    }

    assert {"kyoto": ["s", "k1", "k2", "k3", "k4", "k5"], "bread": ["b1", "b2"]} == names


def test_a_thread_without_segments_is_one_topic() -> None:
    """Before the first topic all belongs to a nameless one."""
    assert {"": spoken(TRANSCRIPT)} == by_topic(TRANSCRIPT, [])
    assert {} == by_topic([], SEGMENTS)
    assert (None, "kyoto") == (current_topic_id([]), current_topic_id(SEGMENTS))


def test_a_detector_may_know_each_topics_words() -> None:
    """The current topic first, then the one left last; words alone, no tools, no instructions."""
    assert [
        TopicMemory(topic_id="kyoto", texts=("Kyoto?", "Temples.", "Kyoto again?")),
        TopicMemory(topic_id="bread", texts=("Bread?", "Flour.")),
    ] == memories(TRANSCRIPT, SEGMENTS)
    assert [] == memories(TRANSCRIPT, [])


def test_a_topic_whose_messages_are_gone_is_remembered_empty() -> None:
    """A segment whose start is not in the transcript has no texts."""
    segments = [*SEGMENTS[:1], Segment(topic_id="gone", start="nowhere")]

    assert TopicMemory(topic_id="gone", texts=()) == memories(TRANSCRIPT, segments)[0]


def test_memories_are_bounded() -> None:
    """Few topics, few texts of each, and of a long text its beginning."""
    count = MEMORY_TOPICS + 2
    segments = [Segment(topic_id=f"t{i}", start=f"m{i}-0") for i in range(count)]
    transcript = [
        HumanMessage(f"{j} " + "x" * TEXT_CHARS, id=f"m{i}-{j}")
        for i in range(count)
        for j in range(MEMORY_TEXTS + 1)
    ]
    newest_memories = memories(transcript, segments)

    assert [f"t{i}" for i in range(count - 1, 1, -1)] == [
        memory.topic_id for memory in newest_memories
    ]
    assert {MEMORY_TEXTS} == {len(memory.texts) for memory in newest_memories}
    assert {TEXT_CHARS} == {len(text) for memory in newest_memories for text in memory.texts}
    assert newest_memories[0].texts[0].startswith("1 ")
    assert newest_memories[0].texts[-1].startswith(f"{MEMORY_TEXTS} ")


@pytest.mark.parametrize("blank", ["", " \n"])
def test_wordless_messages_teach_nothing(blank: str) -> None:
    """An image or an empty answer is no text."""
    transcript: list[AnyMessage] = [HumanMessage("Hi", id="a"), AIMessage(blank, id="b")]
    (memory,) = memories(transcript, [Segment(topic_id="t", start="a")])

    assert ("Hi",) == memory.texts


@given(
    size=st.integers(min_value=0, max_value=10),
    starts=st.lists(st.tuples(st.integers(0, 11), st.sampled_from("xyz")), max_size=5),
)
def test_every_message_belongs_to_one_topic(size: int, starts: list[tuple[int, str]]) -> None:
    """For any segments, each spoken message is in exactly one group, in order."""
    transcript = [HumanMessage(str(i), id=f"m{i}") for i in range(size)]
    segments = [Segment(topic_id=name, start=f"m{i}") for i, name in sorted(dict(starts).items())]
    groups = by_topic(transcript, segments)

    together = [message for group in groups.values() for message in group]
    assert sorted(f"m{i}" for i in range(size)) == sorted(m.id for m in together)  # type: ignore[type-var]
    for group in groups.values():
        numbers = [int(str(message.content)) for message in group]
        assert sorted(numbers) == numbers
    for segment in segments:
        if int(segment["start"][1:]) < size:
            assert segment["start"] in {m.id for m in groups[segment["topic_id"]]}


def test_a_topic_is_open_while_its_segment_lasts() -> None:
    """Beside the current topic those are open that were expanded in the current segment."""
    current = ExpandedTopic(topic_id="bread", at="k5")
    before = ExpandedTopic(topic_id="tea", at="k1")

    assert {"kyoto", "bread"} == opened_topics(SEGMENTS, [current, before])
    assert {"kyoto"} == opened_topics(SEGMENTS, [before])
    assert set() == opened_topics([], [current])
