"""Tests of the fitted experts of the local check."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unsay.judging.heuristics import ALL_CHECKS, DOUBTS, prejudge
from unsay.judging.measures import HINT_FROM, TABLES, doubts, measures
from unsay.protocols import Exchange

TEXTS = st.text(max_size=60) | st.sampled_from(
    ["How do bees fly?", "蜂はどう飛びますか？", "```\n1", "A."]
)

STRAYS = {
    "en": (
        "How do plants make food from sunlight?",
        "To bake sourdough bread, mix flour, water and salt, let the dough rise overnight, and bake it in"
        " a hot oven for forty minutes.",
    ),
    "ja": (
        "光合成の仕組みを説明してください。",
        "鎌倉幕府は源頼朝が開いた武家政権で、御家人との主従関係を基盤に全国を支配しました。",
    ),
    "a shared word": (
        "Which river crosses the most countries?",
        "Most people cook rice with too much water, so rinse it twice and let it rest for ten minutes.",
    ),
}


def test_experts_name_their_sources() -> None:
    """Each source of the shipped numbers has a licence that allows shipping them."""
    licences = {source["licence"] for source in TABLES["sources"]}
    assert licences <= {"Apache-2.0", "MIT", "CC BY 4.0"}
    assert TABLES["provenance"]


def test_experts_use_known_measures() -> None:
    """Each expert names only measurements that exist, and its trees only places of its own list."""
    known_measures = measures(Exchange(question="Why?", answer="Because."))
    for expert in TABLES["experts"].values():
        assert set(expert["measures"]) <= known_measures.keys()
        indexes = [index for tree in expert["trees"] for index in _indexes(tree)]
        assert max(indexes) < len(expert["measures"])


def _indexes(tree: object) -> list[int]:
    if not isinstance(tree, list):
        return []
    return [tree[0], *_indexes(tree[2]), *_indexes(tree[3])]


@pytest.mark.parametrize(("question", "answer"), STRAYS.values(), ids=STRAYS)
def test_an_answer_to_another_question_is_doubted(question: str, answer: str) -> None:
    """An answer about something else is a hint, and fails for certain in neither language."""
    verdict = prejudge(Exchange(question=question, answer=answer))
    assert (verdict.decided, verdict.signals) == (False, ("off_topic",))
    assert verdict.hint


def test_a_copied_question_does_not_calm_an_expert() -> None:
    """Words that an answer only copies from its question are not measured."""
    question, answer = STRAYS["en"]
    alone = Exchange(question=question, answer=answer)
    copy = Exchange(question=question, answer=f"{question} {answer}")
    doubts_of_both = [doubts(exchange, {"off_topic"})["off_topic"] for exchange in (alone, copy)]
    assert doubts_of_both[0] == pytest.approx(doubts_of_both[1], abs=0.1)


def test_an_expert_is_heard_beside_a_rule_that_hints_nothing() -> None:
    """A later answer that shares too few words is a hint if the expert doubts it too."""
    question = "What do bees do in winter?"
    earlier = (
        (
            "How do bees fly?",
            "Bees beat their wings about 230 times a second, twisting each wing.",
        ),
        ("Do all insects fly that way?", "No. Dragonflies move their two pairs separately."),
    )
    answer = (
        "Pierre Janssen observed the solar spectrum in 1868 and found a yellow line that belonged to"
        " no known element."
    )
    verdict = prejudge(Exchange(question=question, answer=answer, earlier=earlier))
    assert (("off_topic",), True) == (verdict.signals, verdict.doubt >= HINT_FROM)
    assert verdict.hint == DOUBTS["off_topic"]


def test_a_fitting_answer_is_not_doubted() -> None:
    """An answer in the question's words that ends with a stop raises no doubt."""
    answer = (
        "Plants make food from sunlight by photosynthesis: light turns water and air into sugar."
    )
    verdict = prejudge(Exchange(question=STRAYS["en"][0], answer=answer))
    assert (verdict.doubt < HINT_FROM, verdict.hint) == (True, "")


def test_no_expert_is_asked_about_a_check_that_is_off() -> None:
    """Without its check an expert estimates nothing."""
    exchange = Exchange(question=STRAYS["en"][0], answer=STRAYS["en"][1])
    assert set(doubts(exchange, {"truncation"})) == {"truncation"}
    assert doubts(exchange, {"empty"}) == {}
    assert doubts(Exchange(question="Why?", answer=" "), ALL_CHECKS) == {}


@given(question=TEXTS, answer=TEXTS, earlier=st.lists(st.tuples(TEXTS, TEXTS), max_size=3))
def test_doubts_are_shares(question: str, answer: str, earlier: list[tuple[str, str]]) -> None:
    """Any texts at all give doubts from 0 to 1."""
    exchange = Exchange(question=question, answer=answer, earlier=tuple(earlier))
    assert all(0 <= doubt <= 1 for doubt in doubts(exchange, ALL_CHECKS).values())
