"""The terms by which messages are recalled."""

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from unsay.retrieval.terms import (
    ANSWER_WEIGHT,
    KIN_WEIGHT,
    TEXT_LIMIT,
    query_of,
    stem,
    terms,
    terms_of,
)


@pytest.mark.parametrize(
    "forms",
    [
        pytest.param(("paint", "paints", "painted", "painting", "painter"), id="regular"),
        pytest.param(("buy", "bought", "buys", "buying"), id="irregular"),
        pytest.param(("die", "died", "dies", "dying"), id="short"),
        pytest.param(("day", "days"), id="short-plural"),
        pytest.param(("city", "cities"), id="y"),
        pytest.param(("bake", "baked", "baking"), id="silent-e"),
        pytest.param(("plan", "planned", "planning"), id="doubled"),
        pytest.param(("child", "children"), id="plural"),
    ],
)
def test_forms_of_a_word_are_one_term(forms: tuple[str, ...]) -> None:
    """A question's word is found in every form in the answer."""
    assert {stem(forms[0])} == {stem(form) for form in forms}


@pytest.mark.parametrize("word", ["bus", "class", "is", "été", "7"])
def test_a_word_without_an_ending_stays(word: str) -> None:
    """What only looks like an ending is left alone."""
    assert word == stem(word)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", [], id="empty"),
        pytest.param("the of and?!", [], id="only-stop-words"),
        pytest.param("max_rollbacks", ["maxrollback", "max", "rollback"], id="snake"),
        pytest.param("getUserName", ["getusernam", "get", "user", "nam"], id="camel"),
        pytest.param("温泉が好き", ["温泉", "泉が", "が好", "好き", "好"], id="japanese"),
        pytest.param("猫", ["猫"], id="one-character"),
        pytest.param("Café Zürich", ["café", "zürich"], id="accents"),
        pytest.param("ＡＢＣ　ﾎﾃﾙ", ["abc", "ホテ", "テル"], id="full-and-half-width"),
        pytest.param("서울의 봄", ["서울", "울의", "봄"], id="korean"),
        pytest.param("Redisのキー", ["redis", "のキ", "キー"], id="mixed"),
        pytest.param("I don’t", [], id="contraction"),
    ],
)
def test_terms_of_a_text(text: str, expected: list[str]) -> None:
    """Words are stemmed, identifiers also taken whole, running scripts cut into pairs."""
    assert expected == terms(text)


def test_only_the_ends_of_a_huge_text_are_read() -> None:
    """Both ends of a pasted file are indexed and its middle is not."""
    text = f"alpha {'x ' * TEXT_LIMIT} middle {'x ' * TEXT_LIMIT} omega"
    assert {"alpha": True, "middl": False, "omega": True} == {
        term: term in terms(text) for term in ("alpha", "middl", "omega")
    }


CALL = {"id": "c1", "name": "find_hotel", "args": {"town": "Otaru"}}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param(HumanMessage("Otaru"), "otaru", id="words"),
        pytest.param(AIMessage("", tool_calls=[CALL]), "otaru", id="arguments"),
        pytest.param(AIMessage("", tool_calls=[CALL]), "findhotel", id="tool"),
        pytest.param(ToolMessage("Grand Park", tool_call_id="c1"), "park", id="result"),
        pytest.param(AIMessage([{"type": "text", "text": "canal"}]), "canal", id="blocks"),
    ],
)
def test_terms_of_a_message(message: AnyMessage, expected: str) -> None:
    """A message is found by its words, and by the tools it calls and what they returned."""
    assert expected in terms_of(message)


def test_a_question_looks_for_what_goes_with_its_words() -> None:
    """Words related to the question's count less than its own, and are listed."""
    query = query_of("When did the pet die?")
    assert (1.0, KIN_WEIGHT, KIN_WEIGHT, ANSWER_WEIGHT) == tuple(
        query.weights[term] for term in ("pet", "dog", "funer", "januari")
    )
    assert {"dog": "pet", "januari": "When"} == {
        term: query.words[term] for term in ("dog", "januari")
    }


def test_a_speaker_is_no_word_to_look_for() -> None:
    """Names of the speakers are left out of the query."""
    assert {"boat": 1.0} == query_of("Mara's boat?", names=frozenset({"mara"})).weights


def test_a_question_word_looks_for_what_answers_it() -> None:
    """Words that often answer `when` count a little, however the question writes it."""
    for question in ("When?", "WHEN?"):
        assert ANSWER_WEIGHT == query_of(question).weights[stem("yesterday")]


def test_related_words_count_less_than_the_word_itself() -> None:
    """The order is: the word of the question, a word related to it, a word that often answers."""
    weights = query_of("When did she see the color?").weights
    assert weights[stem("color")] > weights[stem("red")] > weights[stem("yesterday")] > 0
