"""Numbers, names and dates that changed between turns, in English and Japanese."""

import pytest

from unsay.judging.heuristics import CHANGED, changed_facts
from unsay.protocols import Exchange

ROWS = [
    pytest.param("When?", "The train leaves Kyoto at 10:15.", "The train leaves Kyoto at 9:40.", True, id="time"),
    pytest.param("Who?", "The capital of the country is Sydney.", "The capital of the country is Canberra.", True, id="name"),
    pytest.param("いつ?", "会議は10月5日に開催されます。", "会議は10月3日に開催されます。", True, id="japanese-date"),
    pytest.param("首都は?", "その国の首都はシドニーです。", "その国の首都はキャンベラです。", True, id="japanese-name"),
    pytest.param("Again?", "The train leaves Kyoto at 9:40.", "The train leaves Kyoto at 9:40.", False, id="the-same"),
    pytest.param("It is 10:15 now. When?", "The train leaves Kyoto at 10:15.", "The train leaves Kyoto at 9:40.", False, id="corrected-by-the-user"),
    pytest.param("And the bus?", "The bus stops at 10:15 near the harbour.", "The train leaves Kyoto at 9:40.", False, id="another-thing"),
    pytest.param("How many?", "Two fit.", "Three are red.", False, id="no-values"),
]  # fmt: skip


@pytest.mark.parametrize(("question", "answer", "earlier", "is_changed"), ROWS)
def test_a_value_that_changed_is_noticed(
    question: str, answer: str, earlier: str, *, is_changed: bool
) -> None:
    """A sentence about the same thing with another value is noticed, unless the user gave it."""
    exchange = Exchange(question=question, answer=answer, earlier=(("First?", earlier),))

    assert (CHANGED if is_changed else "") == changed_facts(exchange)
