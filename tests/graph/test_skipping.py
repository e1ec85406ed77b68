"""Skipping: which answers the judge is not asked about, and how they are counted."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import SimpleChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import tool

from tests.graph.kit import make, say
from unsay import Conversation
from unsay.judging.heuristics import SURE_BELOW, is_plainly_good
from unsay.messages.content import text_of
from unsay.protocols import Exchange, PreVerdict
from unsay.testing import ScriptedChat, ToolCalls

NOTHING = {"judge_share": 0.0, "topics": "off"}
PLAIN = "A list comprehension builds a list from an expression and a loop in one line."
QUESTION = "What is a list comprehension in Python?"


@pytest.fixture
def without_local_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """No local rule doubts an answer, such as one that repeats another."""
    monkeypatch.setattr("unsay.generation.judge.ALL_CHECKS", frozenset())


def answer_first_turns(graph: Any, thread: str = "t") -> None:
    """Have the four turns that are always judged."""
    for number in range(4):
        say(graph, f"What is step {number}?", thread=thread)


class Counting:
    """A judge that counts its calls."""

    def __init__(self, *verdicts: Any) -> None:
        self.calls = 0
        self.verdicts = list(verdicts)

    def __call__(self, messages: list[BaseMessage]) -> Any:
        """The next verdict, then 0.9."""
        self.calls += 1
        return self.verdicts.pop(0) if self.verdicts else 0.9


@pytest.mark.usefixtures("without_local_rules")
def test_a_plainly_good_answer_is_skipped_and_counted(tmp_path: Path) -> None:
    """It is unscored, makes no checkpoint, and the timeline counts it; the first four are judged."""
    judge = Counting()
    chat = ScriptedChat(default=PLAIN)
    path = tmp_path / "t.db"
    settings = {**NOTHING, "checkpoint_on": ["score"]}
    with Conversation.open(path, model=chat, judge=judge, settings=settings) as conversation:
        replies = [conversation.say(f"{QUESTION} ({number})") for number in range(8)]
        timeline = conversation.timeline()

        assert [*["passed"] * 4, *["unscored"] * 3, "passed"] == [r.outcome for r in replies]
        assert (5, 3) == (judge.calls, timeline.skipped)
        assert [*[False] * 4, *[True] * 3, False] == [turn.skipped for turn in timeline.turns]
        assert 5 == len(conversation.checkpoints())


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(f"{PLAIN} " * 4, id="a-loop"),
        pytest.param(
            "A list comprehension builds a list from an expression and a", id="broken-off"
        ),
        pytest.param("I'm sorry, but I can't help with that.", id="a-refusal"),
        pytest.param("", id="empty"),
    ],
)
def test_a_doubted_answer_is_never_skipped(answer: str) -> None:
    """The local checks fail it for certain, or the judge reads it."""
    judge = Counting()
    answers = [f"Step {number} comes next." for number in range(4)]
    settings = {**NOTHING, "on_exhausted": "ask"}
    graph = make(
        lambda _: AIMessage(answers.pop(0) if answers else answer), judge, settings=settings
    )
    answer_first_turns(graph)
    before = judge.calls

    state = say(graph, QUESTION)

    assert state.get("__interrupt__") or judge.calls > before


def test_the_answer_of_a_retry_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A draft after a rejected one is not delivered unread."""
    monkeypatch.setattr("unsay.generation.judge.ALL_CHECKS", frozenset({"refusal"}))
    judge = Counting()
    drafts = [*[PLAIN] * 4, "I'm sorry, but I can't help with that.", PLAIN]
    settings = {**NOTHING}
    graph = make(lambda _: AIMessage(drafts.pop(0)), judge, settings=settings)
    answer_first_turns(graph)

    state = say(graph, QUESTION)

    assert (5, 0.9) == (judge.calls, state["quality_score"])


@pytest.mark.usefixtures("without_local_rules")
def test_a_turn_with_tool_calls_is_judged() -> None:
    """What tools did is nothing that the local checks can see."""

    @tool
    def look(words: str) -> str:
        """Look something up."""
        return words

    judge = Counting()
    calls = ToolCalls(calls=[{"name": "look", "args": {"words": "list"}}], then=PLAIN)
    chat = ScriptedChat(replies={QUESTION: calls}, default=PLAIN)
    settings = {**NOTHING}
    graph = make(chat, judge, tools=[look], settings=settings)
    answer_first_turns(graph)
    say(graph, "What is step 5?")
    assert 4 == judge.calls

    say(graph, QUESTION)

    assert 5 == judge.calls


@pytest.mark.sample(every=2)
@pytest.mark.usefixtures("without_local_rules")
@pytest.mark.parametrize(
    ("share", "read"), [pytest.param(1.0, 24, id="all"), pytest.param(0.0, 7, id="few")]
)
def test_the_share_is_the_limit(share: float, read: int) -> None:
    """With 1 the judge reads each answer, with 0 the first four and each eighth."""
    judge = Counting()
    settings = {"judge_share": share, "topics": "off"}
    graph = make(lambda _: AIMessage(PLAIN), judge, settings=settings)

    for number in range(24):
        say(graph, f"What is list comprehension number {number} in Python?")

    assert read == judge.calls


class SelfJudging(SimpleChatModel):
    """A chat model that also judges its answers."""

    answer: str
    answers: int = 0
    verdicts: int = 0

    @property
    def _llm_type(self) -> str:
        return "self-judging"

    def _call(self, messages: list[BaseMessage], *_: Any, **__: Any) -> str:
        if "score" in text_of(messages[0]):
            self.verdicts += 1
            return '{"score": 0.9, "reason": "It answers the question."}'
        self.answers += 1
        return self.answer.format(self.answers)


ASKED = {"en": "What is the price of ticket {}?", "ja": "切符の{}番の値段はいくらですか?"}
ANSWERS = {
    "en": "Ticket {} for the city tour costs thirty euros at the counter.",
    "ja": "市内観光の切符の{}番は、窓口で30ユーロです。",
}


@pytest.mark.sample(every=2)
@pytest.mark.usefixtures("without_local_rules")
@pytest.mark.parametrize("language", ["en", "ja"])
def test_a_model_that_judges_itself_spends_a_fifth_on_it(language: str) -> None:
    """After 50 short turns judging used at most 20 % of the tokens of the answers, and most of them."""
    chat = SelfJudging(answer=ANSWERS[language])
    settings = {"topics": "off", "judge_share": 0.2}
    with Conversation.open(":memory:", model=chat, settings=settings) as conversation:
        for number in range(1, 51):
            conversation.say(ASKED[language].format(number))
        spent = conversation.graph.get_state(
            {"configurable": {"thread_id": conversation.thread_id}}
        ).values["spent"]

    assert 0.15 < spent["judge"]["total"] / spent["answer"]["total"] <= 0.2
    assert chat.verdicts < 50


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("language", ["en", "ja"])
def test_each_answer_is_judged_by_default(language: str) -> None:
    """Also a good short answer late in a thread, by a judge of one's own and by the model itself."""
    chat = SelfJudging(answer=ANSWERS[language])
    judge = Counting()
    for own in ({"judge": judge}, {}):
        with Conversation.open(":memory:", model=chat, **own) as conversation:
            for number in range(1, 21):
                conversation.say(ASKED[language].format(number))
            assert 0 == conversation.timeline().skipped
    assert (20, 20) == (judge.calls, chat.verdicts)


def test_a_bad_answer_is_rejected_each_time() -> None:
    """The text that the judge rejected in one turn is rejected again in each later one."""

    def judge(request: list[BaseMessage]) -> float:
        return 0.1 if "turtles" in text_of(request[-1]).rpartition("<answer")[2] else 0.9

    texts = [f"What is temple number {number} in Kyoto famous for?" for number in range(1, 17)]
    fine = "Temple {} in Kyoto is famous for its garden of moss and for the bell at its gate."
    replies = {
        question: ["I like turtles.", fine.format(number)]
        if number % 4 == 0
        else fine.format(number)
        for number, question in enumerate(texts, 1)
    }
    with Conversation.open(
        ":memory:", model=ScriptedChat(replies=replies), judge=judge
    ) as conversation:
        rollbacks = [conversation.say(question).rollbacks for question in texts]

    assert [number % 4 == 0 for number in range(1, 17)] == [count == 1 for count in rollbacks]


def test_a_doubt_below_a_hint_is_read_too() -> None:
    """An answer that the experts doubt a little gives the judge no hint, and is not skipped."""
    verdict = PreVerdict(score=0.9, decided=False, reason="", doubt=SURE_BELOW["en"])
    exchange = Exchange(question=QUESTION, answer=PLAIN)

    assert not is_plainly_good(exchange, verdict)
    assert is_plainly_good(exchange, replace(verdict, doubt=SURE_BELOW["en"] - 0.01))
    assert not is_plainly_good(exchange, replace(verdict, doubt=0.0, signals=("off_topic",)))
    assert not is_plainly_good(replace(exchange, found_nothing=True), replace(verdict, doubt=0.0))


@pytest.mark.parametrize(
    ("question", "elsewhere", "fitting"),
    [
        pytest.param(
            "Book the hotel for four nights.",
            "Which movie would you like?",
            "How many rooms would you like?",
            id="en",
        ),
        pytest.param(
            "ホテルを四泊予約してください。", "どの映画にしますか?", "何部屋必要ですか?", id="ja"
        ),
    ],
)
def test_a_short_answer_about_another_service_is_read(
    question: str, elsewhere: str, fitting: str
) -> None:
    """So is one that only repeats the question; another short answer may be skipped."""
    verdict = PreVerdict(score=0.9, decided=False, reason="", doubt=0.0)

    def skips(answer: str) -> bool:
        return is_plainly_good(Exchange(question=question, answer=answer), verdict)

    assert [True, False, False] == [skips(answer) for answer in (fitting, elsewhere, question)]
