from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unsay.tokens.estimate import CHUNK, PACKED, WIDE, Vocabulary, estimate

ENGLISH = (
    "Could you help me plan a birthday dinner for my sister? She doesn't eat meat, and two of the "
    "guests are allergic to nuts. I was thinking of something simple: a tomato soup, fresh bread, "
    "and maybe a lemon cake afterwards. We will be nine people, so it should be easy to prepare in "
    "advance."
)
JAPANESE = (
    "来月の社員旅行について相談させてください。参加者は二十名ほどで、箱根か熱海の温泉旅館を考えています。"
    "予算は一人あたり三万円以内、できれば宴会場のある宿を希望します。バスの手配も必要になると思いますので、"
    "おすすめの旅行会社があれば教えていただけますか。"
)
CHINESE = (
    "我最近在学习做面包，可是每次发酵都不太成功。面团放了两个小时还是没有变大，烤出来又硬又干。"
    "请问是酵母放少了，还是水的温度不对？另外，家里的烤箱比较小，时间应该怎么调整呢？"
)
KOREAN = (
    "요즘 집에서 커피를 직접 내려 마시고 있는데 맛이 자꾸 달라져요. 어떤 날은 너무 쓰고 어떤 날은 신맛만 "
    "납니다. 원두의 양과 물의 온도를 어떻게 맞추면 좋을까요? 그리고 초보자에게 맞는 그라인더도 추천해 주세요."
)
CODE = '''def merge(left: list[int], right: list[int]) -> list[int]:
    """Give both lists as one, in order."""
    merged: list[int] = []
    while left and right:
        source = left if left[0] <= right[0] else right
        merged.append(source.pop(0))
    return merged + left + right


class Queue:
    def __init__(self, capacity: int = 16) -> None:
        self.capacity = capacity
        self._waiting: list[str] = []

    def push(self, item: str) -> bool:
        if len(self._waiting) >= self.capacity:
            return False
        self._waiting.append(item)
        return True
'''
JSON = (
    '{"order_id": "A-20391", "customer": {"name": "Ines Duarte", "email": "ines@example.org", '
    '"since": "2021-04-17"}, "items": [{"sku": "KT-4410", "quantity": 2, "price": 18.95, '
    '"in_stock": true}, {"sku": "BX-0072", "quantity": 1, "price": 240.0, "in_stock": false}], '
    '"total": 277.9, "currency": "EUR", "notes": null}'
)
VOCABULARIES = get_args(Vocabulary)


@pytest.mark.parametrize(
    ("text", "vocabulary", "truth"),
    [
        pytest.param(ENGLISH, "o200k", 64, id="English, o200k"),
        pytest.param(ENGLISH, "cl100k", 65, id="English, cl100k"),
        pytest.param(JAPANESE, "o200k", 85, id="Japanese, o200k"),
        pytest.param(JAPANESE, "cl100k", 134, id="Japanese, cl100k"),
        pytest.param(CHINESE, "o200k", 72, id="Chinese, o200k"),
        pytest.param(CHINESE, "cl100k", 103, id="Chinese, cl100k"),
        pytest.param(KOREAN, "o200k", 69, id="Korean, o200k"),
        pytest.param(KOREAN, "cl100k", 127, id="Korean, cl100k"),
        pytest.param(CODE, "o200k", 148, id="code, o200k"),
        pytest.param(CODE, "cl100k", 148, id="code, cl100k"),
        pytest.param(JSON, "o200k", 120, id="JSON, o200k"),
        pytest.param(JSON, "cl100k", 121, id="JSON, cl100k"),
    ],
)
def test_estimates_are_near_the_truth(text: str, vocabulary: Vocabulary, truth: int) -> None:
    """An estimate of a short text is within a tenth of what the real vocabulary counts."""
    assert estimate(text, vocabulary) == pytest.approx(truth, rel=0.1)


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_every_vocabulary_has_all_its_tables(vocabulary: Vocabulary) -> None:
    """What is kept of a vocabulary is enough to estimate text of all scripts."""
    assert vocabulary in PACKED
    for text in (ENGLISH, JAPANESE, CHINESE, KOREAN, CODE, JSON):
        assert 0.1 < estimate(text, vocabulary) / len(text) < 1.6


def test_no_text_has_no_tokens() -> None:
    """An empty text counts nothing."""
    assert estimate("") == 0.0


def test_a_run_of_spaces_is_about_one_token() -> None:
    """However far a line is indented, the indent costs little more than a short one."""
    short = "if x:\n    return y\n" * 50
    long = f"if x:\n{' ' * 120}return y\n" * 50

    assert estimate(long) == pytest.approx(estimate(short), rel=0.25)


@pytest.mark.parametrize(
    ("word", "least"),
    [("a" * 400, 100), ("acgt" * 100, 180), ("qhzwkxjvbnmplkty" * 25, 180)],
    ids=["one letter", "a sequence", "a key"],
)
def test_a_long_word_without_a_break_is_not_counted_as_a_word(word: str, least: int) -> None:
    """A key or a sequence of letters costs far more than prose of its length."""
    assert least - 1 <= estimate(f"See {word}.") < 300


def test_a_question_mark_costs_no_more_than_another_sign() -> None:
    """The sign that replaces what is not ASCII is not mistaken for it in a text that has it."""
    assert estimate("Why? How? When? " * 20) == pytest.approx(
        estimate("Why! How! When! " * 20), rel=0.01
    )


def test_a_text_longer_than_a_chunk_counts_as_its_parts() -> None:
    """Where a long text is parted for speed, next to nothing is lost or counted twice."""
    text = (ENGLISH + JAPANESE) * (3 * CHUNK // len(ENGLISH + JAPANESE))

    assert estimate(text) == pytest.approx(
        estimate(ENGLISH + JAPANESE) * (len(text) / len(ENGLISH + JAPANESE)), rel=0.01
    )


@pytest.mark.parametrize(
    "text", ["\ud83d", "🎉👩‍👩‍👧", chr(WIDE - 2), chr(WIDE), "\0\n\t?", chr(0xFFFD)], ids=ascii
)
def test_no_character_is_too_strange(text: str) -> None:
    """Half a pair, emoji, controls and what no table knows cost something, and not too much."""
    assert 0 <= estimate(text) <= 4 * len(text) + 1


@given(st.text(alphabet=st.characters(), max_size=300), st.sampled_from(VOCABULARIES))
def test_any_text_has_a_sane_count(text: str, vocabulary: Vocabulary) -> None:
    """No text has fewer tokens than none, or more than bytes."""
    size = len(text.encode("utf-8", "surrogatepass"))

    assert 0 <= estimate(text, vocabulary) <= size


@given(st.lists(st.text(max_size=80), max_size=6))
def test_lines_count_about_as_one_text(lines: list[str]) -> None:
    """Texts that are joined line by line count what they count alone, and their line breaks."""
    total = estimate("\n".join(lines))

    assert total == pytest.approx(sum(map(estimate, lines)), abs=3 * len(lines) + 1, rel=0.2)
