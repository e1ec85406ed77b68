"""Consistency beside quality, rubrics, and several judgements of one answer."""

from typing import Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage

from tests.graph.kit import Numbered, config, make, say
from unsay.generation.judge import CONSISTENCY
from unsay.messages.annotations import annotation_of
from unsay.messages.content import text_of
from unsay.models.factory import resolve_model

Said = dict[str, Any]


class Recorder:
    """A judge that gives these verdicts in order, the last one again, and records its requests."""

    def __init__(self, *verdicts: Said) -> None:
        self.verdicts = list(verdicts)
        self.requests: list[list[BaseMessage]] = []

    def __call__(self, messages: list[BaseMessage]) -> Said:
        """The next verdict."""
        self.requests.append(messages)
        return self.verdicts.pop(0) if len(self.verdicts) > 1 else self.verdicts[0]


@pytest.fixture(autouse=True)
def judges(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Judges by the names that a panel may have."""
    judges_by_name: dict[str, Any] = {}
    monkeypatch.setattr(
        "unsay.runtime.resolve_model",
        lambda name, settings: resolve_model(judges_by_name.get(name, name), settings),
    )
    return judges_by_name


def panel(judge: Any, judges: dict[str, Any], *, size: int, **settings: Any) -> dict[str, Any]:
    """Options of a graph that asks one judge `size` times."""
    judges["again"] = judge
    return {"judge": judge, "settings": {"judge_panel": ["again"] * (size - 1), **settings}}


GOOD: Said = {"score": 0.9, "consistency": 1.0, "reason": "Good."}
DRIFTED: Said = {
    "score": 0.9,
    "consistency": 0.1,
    "reason": "It says 10:15, and said 9:40 before.",
    "advice": "Keep the time 9:40.",
}


def test_an_inconsistent_answer_fails_in_the_same_call() -> None:
    """A good score does not save it; one call gives both numbers."""
    judge = Recorder(DRIFTED, GOOD)
    model = Numbered()

    state = say(make(model, judge), "When does the train leave?")

    assert 2 == len(judge.requests), "one call for each draft"
    assert 2 == len(model.inputs)
    assert "This is draft 2, about what was asked." == text_of(state["messages"][-1])
    assert 1.0 == annotation_of(state["messages"][-1])["consistency"]


@pytest.mark.parametrize(
    ("question", "said"),
    [
        pytest.param("When?", "consistency 0.10 failed. It says 10:15", id="English"),
        pytest.param("何時ですか?", "一貫性 0.10 で不合格。It says 10:15", id="Japanese"),
    ],
)
@pytest.mark.parametrize("samples", [1, 3])
def test_the_reason_names_the_consistency_that_failed(
    question: str, said: str, samples: int, judges: dict[str, Any]
) -> None:
    """A rejection with the score 0.90 would otherwise be a riddle."""
    graph = make(Numbered(), **panel(Recorder(DRIFTED), judges, size=samples))
    value: Any = {"messages": [HumanMessage(question)]}

    reasons = [
        event["reason"]
        for event in graph.stream(value, config(), stream_mode="custom")
        if event["unsay"] == "draft_rejected"
    ]

    assert reasons
    assert all(reason.startswith(said) for reason in reasons)


def test_an_answer_as_consistent_as_the_threshold_passes() -> None:
    """Only a lower consistency fails it."""
    judge = Recorder({**DRIFTED, "consistency": CONSISTENCY})

    state = say(make(Numbered(), judge), "When?")

    assert (1, 0.9) == (len(judge.requests), state["quality_score"])


def test_the_next_attempt_gets_the_advice_and_the_user_the_reason() -> None:
    """Two texts for two readers."""
    judge = Recorder(DRIFTED, GOOD)
    model = Numbered()
    graph = make(model, judge)

    events = [
        event
        for event in graph.stream(
            {"messages": [HumanMessage("When?")]}, config(), stream_mode="custom"
        )
        if event.get("unsay") == "draft_rejected"
    ]

    text = model.texts(1)[-1]
    assert "Keep the time 9:40." in text
    assert DRIFTED["reason"] in text
    assert [f"consistency 0.10 failed. {DRIFTED['reason']}"] == [
        event["reason"] for event in events
    ]


def test_an_answer_that_changes_a_number_is_pointed_out_to_the_judge() -> None:
    """The local check adds a hint to the judge's request, and decides nothing."""
    answers = ["The train to Kyoto leaves at 9:40.", "The train to Kyoto leaves at 10:15."]
    judge = Recorder(GOOD)
    graph = make(lambda _: answers.pop(0), judge)

    state = say(graph, "When does the train leave?", "When, again?")

    request = text_of(judge.requests[-1][-1])
    assert "another number, name or date than an earlier answer" in request
    assert 0.9 == state["quality_score"]


def test_rubrics_of_the_users_own_reach_the_judge() -> None:
    """They stand in the instructions, not between the data."""
    judge = Recorder(GOOD)
    graph = make(Numbered(), judge, settings={"judge_rubric": ("Every answer names a source.",)})

    say(graph, "When?")

    system, request = map(text_of, judge.requests[0])
    assert "- Every answer names a source." in system
    assert "names a source" not in request


@pytest.mark.parametrize(
    ("verdicts", "outcome", "score", "agreement"),
    [
        pytest.param([0.9, 0.8, 0.1], "passed", 0.8, 2 / 3, id="most-pass"),
        pytest.param([0.1, 0.2, 0.9], "failed", 0.2, 2 / 3, id="most-fail"),
        pytest.param([0.9, 0.9, 0.9], "passed", 0.9, 1.0, id="all"),
        pytest.param([0.9, 0.1, "no score"], "unscored", None, 1 / 3, id="no-majority"),
    ],
)
def test_a_panel_decides_by_majority(
    verdicts: list[Any],
    outcome: str,
    score: float | None,
    agreement: float,
    judges: dict[str, Any],
) -> None:
    """The median counts, with the share that agrees; without a majority nothing changes."""
    judge = Recorder(*[{"score": item, "reason": "r"} for item in verdicts])
    graph = make(Numbered(), **panel(judge, judges, size=3, max_rollbacks=0))

    state = say(graph, "When?")

    annotation = annotation_of(state["messages"][-1])
    assert (outcome, score) == (annotation["outcome"], annotation["score"])
    assert pytest.approx(agreement) == annotation["agreement"]


def test_a_panel_reads_question_and_answer_in_both_orders(judges: dict[str, Any]) -> None:
    """What comes first is favoured, so every second judgement begins with the answer."""
    judge = Recorder(GOOD)

    say(make(Numbered(), **panel(judge, judges, size=4)), "When?")

    texts = [text_of(request[-1]) for request in judge.requests]
    order = [text.index("<question") < text.index("<answer") for text in texts]
    assert [True, False, True, False] == order
    assert all("Length is no merit" in text_of(request[0]) for request in judge.requests)


def test_a_panel_that_fails_says_why(judges: dict[str, Any]) -> None:
    """The judges agree that they gave no score: the reason is that of the first."""

    def judge(_: Any) -> Any:
        raise ConnectionError("down")

    state = say(make(Numbered(), **panel(judge, judges, size=3)), "When?")

    annotation = annotation_of(state["messages"][-1])
    assert ("unscored", 1.0) == (annotation["outcome"], annotation["agreement"])
    assert "ConnectionError: down" in annotation["reason"]
