"""A wrong `new` loses nothing: what was left out is recalled when a question needs it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from tests.graph.kit import Numbered, config, make
from unsay.conversation.conversation import Conversation
from unsay.judging.topic_detector import LexicalDetector
from unsay.protocols import TopicMemory, TopicShift

FACTS = {
    "en": [
        (
            "My sister Ayumi keeps a green parrot called Biscuit.",
            "What is the parrot called?",
            "Biscuit",
        ),
        (
            "The ferry to Naoshima leaves from pier seven.",
            "From which pier does the ferry leave?",
            "seven",
        ),
        (
            "Our landlord Mr. Okafor raises the rent to 940 in May.",
            "How high is the rent in May?",
            "940",
        ),
        ("The spare key hangs behind the blue calendar.", "Where is the spare key?", "calendar"),
    ],
    "ja": [
        (
            "妹の鮎美は緑の鸚鵡を飼っていて、名前はビスケットです。",
            "鸚鵡の名前は何ですか?",
            "ビスケット",
        ),
        ("直島行きのフェリーは七番桟橋から出ます。", "フェリーはどの桟橋から出ますか?", "七番"),
        (
            "大家の岡田さんが五月から家賃を9万4千円に上げます。",
            "五月からの家賃はいくらですか?",
            "9万4千円",
        ),
        ("予備の鍵は青いカレンダーの裏に掛けてあります。", "予備の鍵はどこですか?", "カレンダー"),
    ],
}
FILLERS = {
    "en": [
        f"Tell me about {item}." for item in ("bread", "tides", "maps", "violins", "glass", "chess")
    ],
    "ja": [
        f"{item}について教えてください。"
        for item in ("食パン", "潮の満ち引き", "地図", "火山", "硝子", "将棋")
    ],
}


@dataclass
class ForcedNew:
    """The local detector, whose answer is replaced by a wrong `new` in the turns that are drawn."""

    wrong: Sequence[bool]
    inner: LexicalDetector = field(default_factory=LexicalDetector)
    asked: int = 0

    def detect(
        self, question: str, current: TopicMemory, others: Sequence[TopicMemory]
    ) -> TopicShift:
        """Its answer, or the wrong one."""
        self.asked += 1
        if self.wrong[(self.asked - 1) % len(self.wrong)]:
            return TopicShift(kind="new", similarity=0.0)
        return self.inner.detect(question, current, others)


@st.composite
def scripts(draw: st.DrawFn) -> tuple[list[str], list[tuple[str, str]]]:
    """The messages of a conversation with facts in it, and the questions with what answers them."""
    language = draw(st.sampled_from(sorted(FACTS)))
    facts = draw(st.lists(st.sampled_from(FACTS[language]), min_size=1, max_size=3, unique=True))
    others = draw(st.lists(st.sampled_from(FILLERS[language]), max_size=5, unique=True))
    said = draw(st.permutations([*(fact for fact, _, _ in facts), *others]))
    return said, [(question, answer) for _, question, answer in facts]


WRONG = st.lists(st.booleans(), min_size=1, max_size=6).map(lambda wrong: [*wrong, True])
SETTINGS = st.fixed_dictionaries(
    {
        "on_topic_change": st.sampled_from(["summarize", "keep", "delete"]),
        "live_messages": st.sampled_from([4, 200]),
        "summaries": st.just("local"),
        "judging": st.just("off"),
    }
)


@given(script=scripts(), wrong=WRONG, settings=SETTINGS)
def test_a_conversation_finds_what_was_left_out(
    script: tuple[list[str], list[tuple[str, str]]], wrong: list[bool], settings: dict[str, Any]
) -> None:
    """Whatever turns are taken for new topics, the model is sent what the question needs."""
    said, questions = script
    model = Numbered()
    with Conversation.open(
        ":memory:", model=model, detector=ForcedNew(wrong), settings=settings
    ) as conversation:
        for text in said:
            conversation.say(text)
        for question, answer in questions:
            conversation.say(question)
            assert answer in "\n".join(model.texts())
        texts = [str(message.content) for message in conversation.messages()]
    assert [*said, *(question for question, _ in questions)] == texts[::2]


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("has_store", [True, False], ids=["store", "no store"])
@given(script=scripts(), wrong=WRONG, settings=SETTINGS)
def test_a_compiled_graph_finds_what_was_left_out(
    script: tuple[list[str], list[tuple[str, str]]],
    wrong: list[bool],
    settings: dict[str, Any],
    *,
    has_store: bool,
) -> None:
    """The same in a host's graph, also without a store."""
    said, questions = script
    model = Numbered()
    graph = make(
        model,
        detector=ForcedNew(wrong),
        settings=settings,
        checkpointer=InMemorySaver(),
        store=InMemoryStore() if has_store else None,
    )
    for text in said:
        graph.invoke({"messages": [("user", text)]}, config())
    for question, answer in questions:
        graph.invoke({"messages": [("user", question)]}, config())
        assert answer in "\n".join(model.texts())
