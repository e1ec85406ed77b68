"""Short names for topics."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unsay.judging.topic_detector import LABEL_CHARS, label_of


@pytest.mark.parametrize(
    ("question", "label"),
    [
        pytest.param("What is a decorator in Python?", "decorator in Python", id="english"),
        pytest.param("Hello! How do I bake bread?", "bake bread", id="a greeting first"),
        pytest.param("C++ or C#?", "C++ or C#", id="signs"),
        pytest.param("京都の桜はいつ咲きますか?", "京都の桜", id="japanese"),
        pytest.param("二日で足りますか。", "二日", id="a verb at the end"),
        pytest.param("京都には何日必要ですか?", "京都", id="a question word at the end"),
        pytest.param("何色ですか?", "何色", id="only a question word"),
        pytest.param("100円玉は何枚まで使える?", "100円玉", id="a number before the word"),
        pytest.param("「吾輩は猫である」の作者は誰?", "「吾輩は猫である」の作者", id="in brackets"),
        pytest.param(
            "小説(全3巻)の感想を「簡潔」に",
            "小説(全3巻)の感想を「簡潔」",
            id="a bracket at the end",
        ),
        pytest.param("ところで雨」を英語で", "雨」を英語", id="half a pair of brackets"),
        pytest.param("食べたい。", "食べたい", id="only a verb"),
        pytest.param(
            "京都で美味しい店を予約して", "京都で美味しい店を予約", id="a noun that is done"
        ),
        pytest.param("Pythonのリスト内包表記とは何ですか", "Pythonのリスト内包表記", id="mixed"),
        pytest.param("How are you?", "How are you?", id="no telling word: all of it"),
        pytest.param("", "", id="nothing"),
        pytest.param("???\n\n!!", "??? !!", id="signs alone"),
        pytest.param(
            "invoice " * 10, "invoice invoice invoice invoice invoice…", id="cut at forty"
        ),
        pytest.param("x. " * 700 + "bread", "x. x. x. x. x. x. x. x. x. x. x. x. x.…", id="late"),
    ],
)
def test_a_question_names_its_topic(question: str, label: str) -> None:
    """From the first telling word of the first sentence that has one to its last."""
    assert label == label_of(question)


@given(st.text())
def test_a_label_is_a_short_line(question: str) -> None:
    """For any question, its label is one line of at most forty characters."""
    label = label_of(question)

    assert len(label) <= LABEL_CHARS
    assert " ".join(label.split()) == label
    assert bool(question.split()) == bool(label)
