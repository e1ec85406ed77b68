"""Recall: compacted messages that bear on a question come back into one view."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from tests.transcripts import valid_transcripts
from unsay.errors import InputError
from unsay.messages.boundaries import steps
from unsay.retrieval.selection import (
    FILLING,
    MOST_READ,
    PATIENCE,
    STRONGEST,
    Bars,
    Recalled,
    Recollection,
    asked,
    bm25,
    evident,
    kinds_meant,
    ranked,
    rarity,
    recall,
    spread,
    worth_at,
)
from unsay.retrieval.terms import RecallIndex, index_of


def ten_each(messages: Sequence[AnyMessage]) -> int:
    """Ten tokens a message, and three for any sequence."""
    return 10 * len(messages) + 3


def transcript_of(*texts: str, names: tuple[str, str] = ("", "")) -> list[AnyMessage]:
    """A conversation of two in turn."""
    return [
        (AIMessage if number % 2 else HumanMessage)(
            text, id=f"m{number}", name=names[number % 2] or None
        )
        for number, text in enumerate(texts)
    ]


CALL = {"id": "c1", "name": "find_berth", "args": {"town": "Elba"}}
STEP: list[AnyMessage] = [
    HumanMessage("Any room?", id="q"),
    AIMessage("", id="call", tool_calls=[CALL]),
    ToolMessage("Berth 41 is free", tool_call_id="c1", id="result"),
    AIMessage("There is.", id="answer"),
]

SMALL_TALK = ("Lovely weather.", "Yes, quite.", "How nice.", "So it is.") * 6


def ids(recollection: Recalled) -> list[str | None]:
    """Ids of what was recalled."""
    return [message.id for message in recollection.messages]


@pytest.mark.parametrize(
    ("text", "question"),
    [
        pytest.param("We moored the boat at Elba.", "Where is the boat?", id="word"),
        pytest.param("She bought a violin.", "What will she buy?", id="irregular-form"),
        pytest.param("Our terrier is called Rex.", "What is Rex?", id="name"),
        pytest.param("Our dog is brown.", "Which pet was it?", id="kind"),
        pytest.param("I set max_rollbacks to 7.", "maxRollbacks?", id="identifier"),
        pytest.param("箱根の温泉に行きました。", "温泉はどこでしたか?", id="japanese"),
        pytest.param("猫を飼っています。", "猫の話?", id="one-kanji"),
        pytest.param("我们在成都吃火锅。", "火锅好吃吗?", id="chinese"),
    ],
)
def test_what_was_asked_for_comes_back(text: str, question: str) -> None:
    """The one relevant message is recalled among many that are not."""
    messages_summarized = transcript_of(*SMALL_TALK, text, *SMALL_TALK)
    assert [f"m{len(SMALL_TALK)}"] == ids(
        recall(question, messages_summarized, budget_tokens=13, count=ten_each)
    )


def test_an_answer_comes_back_with_its_question() -> None:
    """An answer without a word of the question is next to one with it."""
    messages_summarized = transcript_of(
        *SMALL_TALK, "What colour is the tent?", "Bright orange!", *SMALL_TALK
    )
    recollection = recall("The tent?", messages_summarized, budget_tokens=23, count=ten_each)
    assert ["m24", "m25"] == ids(recollection)
    assert [("words", ("tent",)), ("nearby", ())] == [
        (r.why, r.words) for r in recollection.reasons
    ]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        pytest.param("What instrument does Ada play?", "m24", id="first"),
        pytest.param("What instrument does Ben play?", "m29", id="second"),
    ],
)
def test_who_is_asked_about_is_who_spoke(question: str, expected: str) -> None:
    """Of two messages with the same words, that of the person who is named comes first."""
    messages_summarized = transcript_of(
        *SMALL_TALK,
        "I play the violin.",
        *SMALL_TALK[:4],
        "I play the violin.",
        names=("Ada", "Ben"),
    )
    assert [expected] == ids(
        recall(question, messages_summarized, budget_tokens=13, count=ten_each)
    )


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        pytest.param("What is my boat called?", {"human"}, id="my"),
        pytest.param("What did you suggest?", {"ai"}, id="you"),
        pytest.param("Did you say that I am late?", {"human", "ai"}, id="both"),
        pytest.param("Can you find the harbor?", set(), id="request"),
        pytest.param("私の船の名前は?", {"human"}, id="japanese"),
    ],
)
def test_whose_words_a_question_means(question: str, expected: set[str]) -> None:
    """`I` and `you` tell whose words are meant."""
    assert expected == kinds_meant(question)


def test_what_the_user_said_comes_before_what_was_answered() -> None:
    """Of two messages with the same words, a question about `my` wants the user's."""
    messages_summarized = transcript_of(*SMALL_TALK, "A violin.", *SMALL_TALK[:4], "A violin.")
    questions = ("What is my violin?", "What did you say of violins?")
    assert [["m24"], ["m29"]] == [
        ids(recall(question, messages_summarized, budget_tokens=13, count=ten_each))
        for question in questions
    ]


def test_a_speaker_who_is_named_bears_on_the_question() -> None:
    """A question with no other known word than a speaker's name recalls what that one said."""
    messages_summarized = transcript_of(
        "Hm.", "I repair old clocks in Bergen.", names=("Ada", "Ben")
    )
    assert ["m1"] == ids(
        recall("Ben's livelihood?", messages_summarized, budget_tokens=13, count=ten_each)
    )


def test_a_kind_of_message_is_a_word_like_others() -> None:
    """Messages without names take no word from a question."""
    messages_summarized = [
        *transcript_of(*SMALL_TALK, "A rake is a tool."),
        *STEP,
        *transcript_of("Fine."),
    ]
    assert ["m24"] == ids(
        recall("Which tool?", messages_summarized, budget_tokens=13, count=ten_each)
    )


@pytest.mark.parametrize("question", ["", "Thanks!", "And then?", "xylophone quartz"])
def test_a_question_that_nothing_bears_on_recalls_nothing(question: str) -> None:
    """Where no message has a word that was asked for, the view stays as it is."""
    messages_summarized = transcript_of("We moored the boat at Elba.", *SMALL_TALK)
    assert Recalled() == recall(question, messages_summarized, budget_tokens=1_000, count=ten_each)


def test_nothing_compacted_recalls_nothing() -> None:
    """Without compacted messages there is nothing to recall."""
    assert Recalled() == recall("boat", [], budget_tokens=100, count=ten_each)


def test_the_reasons_say_what_led_there() -> None:
    """Each message comes with its reason, the question's own words and a score."""
    transcript = transcript_of("We moored the boat at Elba.", *SMALL_TALK)
    recollection = recall("Where did the boats moor?", transcript, budget_tokens=13, count=ten_each)
    score = recollection.reasons[0].score
    assert score > 0
    assert (
        Recollection(message=transcript[0], why="words", words=("boats", "moor"), score=score),
    ) == recollection.reasons
    assert "m0" == recollection.reasons[0].message_id
    assert 13 == recollection.tokens


def test_a_tool_result_comes_back_with_its_call() -> None:
    """A tool's result is recalled together with the call, and never half."""
    messages_summarized = [*transcript_of(*SMALL_TALK), *STEP]
    recollection = recall(
        "Which berth was free?", messages_summarized, budget_tokens=23, count=ten_each
    )
    assert ["call", "result"] == ids(recollection)
    assert ["step", "words"] == [reason.why for reason in recollection.reasons]


def test_a_step_that_is_too_large_makes_way() -> None:
    """Where a call and its result do not fit, the next best message that fits is recalled."""
    messages_summarized = [
        *transcript_of("The berth is fine."),
        *transcript_of(*SMALL_TALK)[1:],
        *STEP,
    ]
    assert ["m0"] == ids(
        recall("Which berth?", messages_summarized, budget_tokens=13, count=ten_each)
    )


def test_a_counter_whose_costs_are_not_additive_is_obeyed() -> None:
    """Where messages cost more together than each, fewer are recalled."""
    recollection = recall(
        "boat",
        transcript_of(*["A boat."] * 20),
        budget_tokens=100,
        count=lambda m: len(m) ** 2 + len(m),
    )
    assert (9, 90) == (len(recollection.messages), recollection.tokens)


def test_a_search_for_room_ends() -> None:
    """Where nothing fits any more, not every compacted message is counted."""
    counts: list[int] = []

    def count(messages: Sequence[AnyMessage]) -> int:
        counts.append(len(messages))
        return 1_000 * len(messages)

    assert Recalled() == recall(
        "boat", transcript_of(*["A boat."] * 999), budget_tokens=100, count=count
    )
    assert [1] * PATIENCE == counts


def test_instructions_are_not_recalled() -> None:
    """A system message is no part of the conversation that could come back."""
    messages_summarized: list[AnyMessage] = [
        SystemMessage("Boat!", id="s"),
        *transcript_of("A boat.", "Fine."),
    ]
    recollection = recall("boat", messages_summarized, budget_tokens=1_000, count=ten_each)
    assert ["m0", "m1"] == ids(recollection)


def test_a_floor_keeps_out_what_hardly_bears() -> None:
    """With a floor, room that is left stays empty."""
    messages_summarized = transcript_of("We moored the boat at Elba.", *SMALL_TALK)
    recollection = recall(
        "boat at Elba",
        messages_summarized,
        budget_tokens=1_000,
        count=ten_each,
        bars=Bars(floor=0.9),
    )
    assert ["m0"] == ids(recollection)


def test_an_index_of_the_whole_transcript_serves() -> None:
    """What is shown or hidden does not come back, though the index knows it as well."""
    transcript = transcript_of("A boat.", "Aye.", *SMALL_TALK, "My boat!", "Oh.")
    index = index_of(transcript)
    for omission in ("shown", "hidden"):
        newer = {omission: {message.id for message in transcript[2:]}}
        recollection = recall(
            "boat", transcript, budget_tokens=13, count=ten_each, index=index, **newer
        )
        assert ["m0"] == ids(recollection)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        pytest.param({"budget_tokens": -1}, "budget_tokens -1", id="budget"),
        pytest.param({"index": RecallIndex()}, "index has 0 messages", id="empty-index"),
        pytest.param(
            {"index": index_of([HumanMessage("A boat.", id="x")])},
            "index has 1 messages and the transcript 1 others",
            id="another-index",
        ),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, object], problem: str) -> None:
    """Impossible arguments are refused with their value and the way out."""
    arguments = {"budget_tokens": 100, "count": ten_each, **changes}
    with pytest.raises(InputError, match=problem):
        recall("boat", transcript_of("A boat."), **arguments)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        pytest.param({"floor": 1.5}, "floor 1.5", id="floor"),
        pytest.param({"bar": -0.1}, "bar -0.1", id="bar"),
        pytest.param({"gain": -1.0}, "gain -1.0", id="gain"),
    ],
)
def test_bars_that_cannot_be_are_refused(changes: dict[str, float], problem: str) -> None:
    """A share outside 0 to 1, or a gain under 0, is refused with its value."""
    with pytest.raises(InputError, match=problem):
        Bars(**changes)


CONVERSATIONS = {
    "en": ("We keep a parrot called Biscuit.", "Parrots eat seeds.", "How is the weather today?"),
    "ja": ("鸚鵡の名前はビスケットです。", "鸚鵡の名前は色々あります。", "今日の天気はどうですか?"),
}
ASKED = {"en": "What is the parrot called?", "ja": "鸚鵡の名前は何ですか?"}
CHAT = {
    "en": ("Lovely, how was the day?", "It was fine today, and how are you?") * 12,
    "ja": ("今日はどうですか?", "はい、とても良いですね。そちらはどうですか?") * 12,
}


@pytest.mark.parametrize("language", CONVERSATIONS)
@pytest.mark.parametrize(
    ("bars", "about_weather"),
    [
        pytest.param(FILLING, 1, id="filling"),
        pytest.param(Bars(bar=0.5, floor=0.25), 0, id="bar"),
    ],
)
def test_a_bar_keeps_out_what_shares_only_grammar(
    language: str, bars: Bars, about_weather: int
) -> None:
    """With a bar a question that shares no telling word with anything recalls nothing."""
    fact, _, weather = CONVERSATIONS[language]
    transcript = transcript_of(*CHAT[language], fact, *CHAT[language])
    recollections = [
        recall(question, transcript, budget_tokens=1_000, count=ten_each, bars=bars)
        for question in (ASKED[language], weather)
    ]
    assert f"m{len(CHAT[language])}" in ids(recollections[0])
    assert about_weather == min(1, len(recollections[1].messages))


def test_a_bar_is_for_the_question_and_a_floor_for_each_message() -> None:
    """A message below the bar is recalled if another one reaches it, but not without the question's words."""
    transcript = transcript_of(
        *CHAT["en"],
        "We keep a parrot called Biscuit.",
        *CHAT["en"],
        "That parrot is loud.",
        *CHAT["en"],
        "Ferries leave from Otaru and Hakodate every summer morning.",
        *CHAT["en"],
    )
    strong, weak, third = (f"m{24 * number + number - 1}" for number in (1, 2, 3))
    high = Bars(bar=1.0, floor=0.2)

    def ids_for(question: str) -> list[str]:
        return ids(recall(question, transcript, budget_tokens=1_000, count=ten_each, bars=high))

    ids_of_both = ids_for("Is the parrot called Biscuit?")

    assert {strong, weak} <= {*ids_of_both}
    assert third not in ids_of_both
    assert [] == ids_for("Is the parrot well?")


@pytest.mark.parametrize("language", CONVERSATIONS)
@pytest.mark.parametrize(("gain", "expected"), [(0.0, 1), (0.25, 1), (1.5, 0)])
def test_a_gain_keeps_out_what_is_no_better_than_what_is_shown(
    language: str, gain: float, expected: int
) -> None:
    """Where a message that is shown has the question's words, one with fewer is not recalled."""
    fact, other_fact, _ = CONVERSATIONS[language]
    transcript = transcript_of(*CHAT[language], other_fact, *CHAT[language], fact)
    recollection = recall(
        ASKED[language],
        transcript,
        budget_tokens=1_000,
        count=ten_each,
        shown={transcript[-1].id or ""},
        bars=Bars(gain=gain, bar=0.25),
    )
    assert expected == ids(recollection).count(f"m{len(CHAT[language])}")


def test_a_gain_compares_with_a_shown_message_far_away() -> None:
    """Also in a long transcript, of which only the messages near a candidate are scored."""
    texts = [f"Filler number {number} says nothing of note." for number in range(200)]
    texts[10] = "The ferry is slow."
    texts[186] = "The ferry to Naxos leaves pier seven at dawn."
    transcript = transcript_of(*texts)
    shown_ids = {message.id or "" for message in transcript[170:]}

    def ids_with(gain: float) -> list[str]:
        bars = Bars(gain=gain, bar=0.1)
        question = "Which pier does the ferry to Naxos leave from at dawn?"
        recollection = recall(
            question, transcript, budget_tokens=1_000, count=ten_each, shown=shown_ids, bars=bars
        )
        return ids(recollection)

    assert ids_with(0.0)
    assert [] == ids_with(1.0)


def test_what_is_hidden_is_no_rival() -> None:
    """A message that a person wants left out keeps no other one out."""
    transcript = transcript_of(
        *SMALL_TALK, "Parrots eat seeds.", *SMALL_TALK, "Our parrot is called Biscuit."
    )
    id_lists = [
        ids(
            recall(
                ASKED["en"],
                transcript,
                budget_tokens=1_000,
                count=ten_each,
                bars=Bars(gain=1.5, bar=0.25),
                **{omission: {transcript[-1].id or ""}},
            )
        )
        for omission in ("shown", "hidden")
    ]
    assert [False, True] == ["m24" in id_list for id_list in id_lists]


RARE = ("boat", "harbor", "violin", "lantern", "温泉")


@given(
    texts=st.lists(st.lists(st.sampled_from(RARE), max_size=3).map(" ".join), max_size=120),
    question=st.lists(st.sampled_from(RARE), min_size=1, max_size=3).map(" ".join),
    message_index=st.integers(0, 119),
)
def test_one_message_is_ranked_as_among_all(
    texts: list[str], question: str, message_index: int
) -> None:
    """A few messages that are ranked by themselves have the scores that all of them give."""
    index = index_of(transcript_of(*texts))
    query = asked(question, index)
    everything = ranked(query, index, range(len(index)))
    for number in [number for number in (message_index, message_index // 2) if number < len(index)]:
        alone = ranked(query, index, [number])
        assert everything.words[number] == pytest.approx(alone.words[number], abs=1e-9)
        assert everything.total[number] == pytest.approx(alone.total[number], abs=1e-9)


@given(
    texts=st.lists(st.lists(st.sampled_from(RARE), max_size=3).map(" ".join), max_size=60),
    question=st.lists(st.sampled_from(RARE), min_size=1, max_size=3).map(" ".join),
    least=st.floats(0.1, 6),
)
def test_what_is_evident_is_what_has_the_words(
    texts: list[str], question: str, least: float
) -> None:
    """Those are found that have content words worth enough, and the two to either side of each."""
    index = index_of(transcript_of(*texts))
    query = asked(question, index).query
    own_terms = {term for term, weight in query.weights.items() if weight == 1}
    worths = [
        sum(
            rarity(len(index.matches(term)), len(index))
            for term in own_terms
            if index.has(number, term)
        )
        for number in range(len(index))
    ]
    # whether a sum reaches a bar that it meets to the last bit is nobody's business
    if any(abs(worth - least) < 1e-6 for worth in worths):
        return
    strong = [number for number, worth in enumerate(worths) if worth >= least]
    expected = {number + away for number in strong for away in range(-2, 3)}
    assert expected & set(range(len(index))) == evident(query, index, least)


def test_a_pasted_file_is_not_looked_for_word_by_word() -> None:
    """A question of many common words reads a bounded part of the index, the rarest words first."""
    common = [f"w{number}x" for number in range(40)]
    texts = [" ".join(common)] * (MOST_READ // 4)
    index = index_of(transcript_of(*texts, "A berth at Elba.", *texts))
    query = asked(f"Elba {' '.join(common)}", index).query
    assert {len(texts)} == bm25(query, index).keys()
    assert len(evident(query, index, 0.0)) <= 5 * STRONGEST


@given(
    messages_summarized=valid_transcripts(),
    question=st.sampled_from(["boat", "What did you find?", "a b c d e", "検索"]),
    budget=st.integers(0, 400),
)
def test_whatever_is_recalled_fits_and_is_whole(
    messages_summarized: list[AnyMessage], question: str, budget: int
) -> None:
    """Recalled messages are within the budget, in the transcript's order, in whole steps."""
    recollection = recall(question, messages_summarized, budget_tokens=budget, count=ten_each)
    ids_back = {id(message) for message in recollection.messages}
    step_ids = [
        {id(messages_summarized[number]) for number in step} for step in steps(messages_summarized)
    ]
    assert [m for m in messages_summarized if id(m) in ids_back] == list(recollection.messages)
    assert all(step <= ids_back or not step & ids_back for step in step_ids)
    assert recollection.tokens <= budget


def test_scores_spread_to_both_sides() -> None:
    """What follows a good message gains more from it than what precedes it, and both gain some."""
    spread_scores = spread([0.0] * 20 + [1.0] + [0.0] * 20)
    assert (
        spread_scores[20]
        > spread_scores[21]
        > spread_scores[19]
        > spread_scores[25]
        > 0
        == spread_scores[0]
        == spread_scores[40]
    )


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=1, max_size=30))
def test_the_score_of_one_place_is_that_of_all(scores: list[float]) -> None:
    """Words around a message count the same whether one message or the whole list is scored."""
    own_scores = {number: score for number, score in enumerate(scores) if score}
    for number, score in enumerate(spread(scores)):
        assert score == pytest.approx(worth_at(own_scores, number))
