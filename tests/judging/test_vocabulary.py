"""The words that carry a text's subject."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unsay.judging.vocabulary import TEXT_LIMIT, normal, stem, terms, units, vocabulary

TERMS = {
    "english": ("Decorators in Python", ("decorator", "python")),
    "stop words": ("Could you please tell me more about that?", ()),
    "greeting": ("Hello, thanks!", ()),
    "repeated": ("cats and more cats", ("cat", "cat")),
    "possessive": ("the company’s invoices", ("company", "invoic")),
    "signs": ("C++ or C#", ("c++", "c#")),
    "numbers": ("question 3 of 2024", ()),
    "accents": ("Où est l'hôtel Élysée", ("où", "est", "lhôtel", "élysée")),
    "cyrillic": ("Привет мир", ("привет", "мир")),
    "kanji": ("天気", ("天気",)),
    "kanji grams": ("内包表記", ("内包表記", "内包", "包表", "表記", "内包表", "包表記")),
    "katakana": ("リスト", ("リスト", "リス", "スト")),
    "hiragana": ("それはどうしてですか", ()),
    "full width": ("ＰＹＴＨＯＮの天気", ("python", "天気")),
    "half width": ("ﾘｽﾄ", ("リスト", "リス", "スト")),
    "mixed": ("Pythonで請求を処理", ("python", "請求", "処理")),
    "japanese stop runs": ("質問の回答を教えてください", ()),
    "prolonged sound alone": ("ー", ()),
    "empty": ("", ()),
}

STEMS = [
    ("companies", "company"),
    ("planning", "plan"),
    ("interviewing", "interview"),
    ("investments", "invest"),
    ("stress", "stress"),
    ("virus", "virus"),
    ("called", "call"),
    ("bed", "bed"),
    ("élysées", "élysées"),
]


@pytest.mark.parametrize(("text", "expected"), TERMS.values(), ids=TERMS)
def test_terms(text: str, expected: tuple[str, ...]) -> None:
    """A text's terms are its content words and runs, in order."""
    assert expected == terms(text)


@pytest.mark.parametrize(("word", "expected"), STEMS)
def test_stem(word: str, expected: str) -> None:
    """Common English endings go, and what is no ending stays."""
    assert expected == stem(word)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("python", 1.0), ("uk", 0.5), ("q2", 0.5), ("q1234", 0.5), ("本", 0.5**0.5), ("請求", 1.0)],
)
def test_weight(text: str, expected: float) -> None:
    """Short words and numbered letters tell less than words."""
    assert [expected] == [unit.weight for unit in units(text)]


def test_compound_weighs_more_than_its_half() -> None:
    """A longer run tells more, up to twice a word."""
    weights = [units(run)[0].weight for run in ("請求", "請求書発行", "東京特許許可局局長室")]
    assert sorted(weights) == weights
    assert weights[-1] == 2.0


def test_long_text_is_read_at_both_ends() -> None:
    """A pasted file is not read whole, but its first and last words are."""
    text = "alpha " + "filler " * TEXT_LIMIT + "middle " + "filler " * TEXT_LIMIT + "omega"
    assert {"alpha", "omega"} == vocabulary(text) & {"alpha", "omega", "middle"}
    assert len(normal(text)) <= TEXT_LIMIT + 1


@given(st.text())
def test_any_text_has_terms(text: str) -> None:
    """Any text can be read; its terms are not empty strings, and reading twice is the same."""
    assert all(terms(text)) or not terms(text)
    assert set(terms(text)) == vocabulary(text)


@given(st.text(alphabet=st.characters(min_codepoint=0x3041, max_codepoint=0x3096)))
def test_hiragana_is_grammar(text: str) -> None:
    """A run of hiragana never carries a subject."""
    assert terms(text) == ()
