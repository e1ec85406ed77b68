"""The index of messages, made of parts."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from unsay.retrieval.terms import (
    RecallIndex,
    entry_of,
    filter_of,
    index_of,
    key_of,
    may_have,
    part_of,
    speaker_of,
    terms,
)

WORDS = ("harbor", "violin", "gravel", "温泉", "lantern", "max_rollbacks")

text_lists = st.lists(st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join), max_size=12)


def messages(texts: Sequence[str], first: int = 0) -> list[AnyMessage]:
    """Messages with ids, questions and answers in turn."""
    return [
        (AIMessage if number % 2 else HumanMessage)(text, id=f"m{number}")
        for number, text in enumerate(texts, first)
    ]


@given(texts=text_lists, older=text_lists)
def test_an_index_in_parts_is_that_of_the_whole(texts: list[str], older: list[str]) -> None:
    """Parts that were made apart find what one part finds."""
    recent, before = messages(texts, first=100), messages(older)
    whole = index_of([*before, *recent])
    in_parts = RecallIndex(*(part_of(list(map(entry_of, each))) for each in (before, recent)))
    assert [each.key for each in whole.entries] == [each.key for each in in_parts.entries]
    for term in {term for word in WORDS for term in terms(word)}:
        assert whole.matches(term) == in_parts.matches(term)


@given(word_lists=st.lists(st.sampled_from(WORDS), unique=True))
def test_a_filter_misses_no_term(word_lists: list[str]) -> None:
    """A filter may name a term that is missing, never the other way round."""
    bits = filter_of(word_lists)
    assert all(may_have(bits, word) for word in word_lists)


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
