"""The index of messages: a value that grows."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from unsay.retrieval import terms as index_module
from unsay.retrieval.terms import SPARE, RecallIndex, key_of, speaker_of, stem

WORDS = ("harbor", "violin", "gravel", "温泉", "lantern", "max_rollbacks")

text_lists = st.lists(st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join), max_size=12)


def messages(texts: Sequence[str], first: int = 0) -> list[AnyMessage]:
    """Messages with ids, questions and answers in turn."""
    return [
        (AIMessage if number % 2 else HumanMessage)(text, id=f"m{number}")
        for number, text in enumerate(texts, first)
    ]


def contents(index: RecallIndex) -> tuple[object, ...]:
    """All that an index knows, however it grew."""
    matches = {term: match for term in index.table.postings if (match := index.matches(term))}
    return index.entries, matches


@given(texts=text_lists, branches=st.lists(st.integers(0, 12), max_size=4))
def test_growing_in_steps_or_at_once_is_the_same(texts: list[str], branches: list[int]) -> None:
    """An index does not depend on when its messages were added."""
    transcript = messages(texts)
    grown = RecallIndex()
    for branch in [*sorted(min(branch, len(transcript)) for branch in branches), len(transcript)]:
        grown = grown.covering(transcript[:branch])
    assert contents(RecallIndex().covering(transcript)) == contents(grown)


@given(texts=text_lists, kept_count=st.integers(0, 12), other_texts=text_lists)
def test_a_transcript_that_went_another_way(
    texts: list[str], kept_count: int, other_texts: list[str]
) -> None:
    """After a rollback and other messages, the index matches the current transcript."""
    transcript = messages(texts)
    kept_count = min(kept_count, len(transcript))
    branch = [*transcript[:kept_count], *messages(other_texts, first=100)]
    before = RecallIndex().covering(transcript)
    assert contents(RecallIndex().covering(branch)) == contents(before.covering(branch))


def test_an_index_is_not_changed_by_growing() -> None:
    """What was indexed before stays as it was."""
    transcript = messages(["harbor", "violin", "harbor"])
    before = RecallIndex().covering(transcript[:2])
    after = before.covering(transcript)
    assert ([(0, 1)], [(0, 1), (2, 1)]) == (
        before.matches(stem("harbor")),
        after.matches(stem("harbor")),
    )


def test_growing_touches_few_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message is read once, however often the index grows, and the table stays bounded."""
    ids_read: list[str] = []
    monkeypatch.setattr(
        index_module, "terms_of", lambda message: ids_read.append(message.id) or ["harbor"]
    )
    transcript = messages(["harbor violin"] * (3 * SPARE))
    index = RecallIndex()
    for size in range(0, len(transcript), 41):
        index = index.covering(transcript[max(0, size - 100) : size + 1])
        assert len(index.table.entries) <= 2 * len(index) + SPARE + 41
    assert len(set(ids_read)) == len(ids_read)


def test_a_term_that_is_said_without_end_is_counted_to_a_limit() -> None:
    """A message of one word over and over does not spoil its entry."""
    index = RecallIndex().covering(messages(["harbor", "violin " * 5_000]))
    assert [(1, 255)] == index.matches("violin")


def test_who_speaks() -> None:
    """A name identifies its speaker; a document or a message without one, its kind."""
    assert ["caro", "ai", "human", "human"] == [
        speaker_of(prefix)
        for prefix in (
            HumanMessage("a", name="Caro"),
            AIMessage("b"),
            HumanMessage("c"),
            HumanMessage("d", name="document"),
        )
    ]


def test_messages_without_ids_are_known_by_their_words() -> None:
    """A message without an id is known again by what it says."""
    one = HumanMessage("a")
    same = HumanMessage("a")
    answer = AIMessage("a")
    assert key_of(one) == key_of(same) != key_of(answer)


@given(texts=text_lists, older=text_lists, gone_count=st.integers(0, 6))
def test_what_comes_before_does_not_matter(
    texts: list[str], older: list[str], gone_count: int
) -> None:
    """An index that grows at its beginning, or loses it, is that of the messages as they stand."""
    recent = messages(texts, first=100)
    before = messages(older)
    grown = RecallIndex().covering(recent).covering([*before, *recent])
    assert contents(RecallIndex().covering([*before, *recent])) == contents(grown)
    messages_left = [*before, *recent][gone_count:]
    assert contents(RecallIndex().covering(messages_left)) == contents(
        grown.covering(messages_left)
    )


def test_older_messages_leave_the_newer_ones_alone() -> None:
    """Messages that are read later but come before are indexed separately."""
    recent = messages(["harbor violin"] * 90, first=500)
    before = messages(["lantern"] * 70)
    index = RecallIndex().covering(recent)
    grown = index.covering([*before, *recent])
    assert index.entries == grown.entries[-90:]
    assert [(70, 1), (71, 1)] == grown.matches(stem("violin"))[:2]


def test_a_message_that_was_edited_is_read_again() -> None:
    """A forgotten message is not found by its old words, and none is lost."""
    transcript = messages(["harbor", "violin"])
    index = RecallIndex().covering(transcript)
    index.forget({"m1"})
    branch = [transcript[0], *messages(["lantern"], first=1)]
    assert contents(RecallIndex().covering(branch)) == contents(index.covering(branch))
