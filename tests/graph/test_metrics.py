"""Metrics of other libraries as judges."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from tests.graph.kit import GOOD, Numbered, make, say
from unsay import metric_judge
from unsay.errors import ConfigurationError
from unsay.messages.annotations import annotation_of
from unsay.testing import ScriptedChat


def openevals_evaluator(
    *, inputs: str, outputs: str, reference_outputs: str | None = None, **_: Any
) -> dict[str, Any]:
    """What `openevals.llm.create_llm_as_judge` returns has this signature and this result."""
    assert (inputs, reference_outputs) == ("What is a list?", None)
    return {
        "key": "correctness",
        "score": "draft 2" in outputs,
        "comment": "Judged.",
        "metadata": None,
    }


@dataclass
class DeepevalMetric:
    """A metric of deepeval: it measures a test case and keeps score and reason."""

    score: float = 0.0
    reason: str = ""

    def measure(self, test_case: SimpleNamespace) -> float:
        """Score the case."""
        self.score = float("draft 2" in test_case.actual_output)
        self.reason = "Measured."
        return self.score


class RagasMetric:
    """A metric of ragas: it returns the score of a sample."""

    def single_turn_score(self, sample: SimpleNamespace) -> float:
        """Score the sample."""
        return 0.95 if "draft 2" in sample.response else 0.05


def by_deepeval(inputs: str, outputs: str) -> DeepevalMetric:
    """As the documentation shows it, with a case of the same fields."""
    metric = DeepevalMetric()
    metric.measure(SimpleNamespace(input=inputs, actual_output=outputs))
    return metric


def by_ragas(inputs: str, outputs: str) -> float:
    """As the documentation shows it, with a sample of the same fields."""
    sample = SimpleNamespace(user_input=inputs, response=outputs)
    return RagasMetric().single_turn_score(sample)


@pytest.mark.parametrize(
    ("metric", "score", "reason"),
    [
        pytest.param(openevals_evaluator, 1.0, "Judged.", id="openevals"),
        pytest.param(by_deepeval, 1.0, "Measured.", id="deepeval"),
        pytest.param(by_ragas, 0.95, "", id="ragas"),
    ],
)
def test_a_metric_judges_the_drafts(metric: Any, score: float, reason: str) -> None:
    """The first draft is rejected by it, the second delivered with its score and reason."""
    state = say(make(Numbered(), metric_judge(metric)), "What is a list?")

    annotation = annotation_of(state["messages"][-1])
    assert ("passed", score, reason) == (
        annotation["outcome"],
        annotation["score"],
        annotation["reason"],
    )
    assert "draft 2" in state["messages"][-1].content


def test_a_metric_sees_the_earlier_conversation() -> None:
    """`context` has it, and a metric without that parameter is not given it."""
    seen: list[str] = []

    def metric(outputs: str, context: str) -> float:
        seen.append(context)
        return 0.9

    say(make(Numbered(), metric_judge(metric)), "What is a list?", "And a tuple?")

    assert ["", True] == [seen[0], "What is a list?" in seen[1]]


def test_a_metric_leaves_documents_unscored() -> None:
    """It scores answers; a document stays in the context."""
    chat = ScriptedChat(default=GOOD)
    graph = make(chat, metric_judge(lambda outputs: 0.9))

    message = HumanMessage("A list comprehension builds a list.", name="document")
    graph.invoke(
        {"messages": [message, HumanMessage("What is a list?")]},
        {"configurable": {"thread_id": "t"}},
    )

    assert "builds a list" in str(chat.calls[-1][0].content)


async def lenient(question: str, answer: str) -> float:
    """A judge of two texts that is awaited."""
    return 0.9 if (question, answer) == ("What is a list?", GOOD) else 0.1


@pytest.mark.parametrize(
    "judge",
    [
        pytest.param(
            lambda question, answer: 0.9 if "list" in question + answer else 0.1, id="two"
        ),
        pytest.param(lambda q, a: {"score": 0.9, "reason": f"{q} {a}"}, id="any names"),
        pytest.param(lenient, id="async"),
        pytest.param(metric_judge(lambda question, answer: 0.9 * (GOOD in answer)), id="metric"),
    ],
)
async def test_a_judge_may_take_question_and_answer(judge: Any) -> None:
    """A function of two texts scores as one of messages does, also in async code."""
    graph = make(lambda _: GOOD, judge)
    given: Any = {"messages": [HumanMessage("What is a list?")]}

    assert 0.9 == say(graph, "What is a list?")["quality_score"]
    state = await graph.ainvoke(given, {"configurable": {"thread_id": "other"}})
    assert 0.9 == state["quality_score"]


@pytest.mark.parametrize("judge", [lenient, lambda question, answer: 0.9])
def test_a_judge_of_question_and_answer_leaves_documents_unscored(judge: Any) -> None:
    """It scores answers; a document stays in the context."""
    chat = ScriptedChat(default=GOOD)
    message = HumanMessage("A list comprehension builds a list.", name="document")

    make(chat, judge).invoke(
        {"messages": [message, HumanMessage("What is a list?")]},
        {"configurable": {"thread_id": "t"}},
    )

    assert "builds a list" in str(chat.calls[-1][0].content)


def test_a_judge_of_three_texts_is_refused() -> None:
    """The error says what a judge is called with."""
    with pytest.raises(ConfigurationError, match="the messages, or with two, question and answer"):
        make(lambda _: GOOD, lambda question, answer, context: 0.9)


async def awaitable_metric(outputs: str) -> float:
    """A metric that must be awaited."""
    return float(len(outputs))


def by_position(outputs: str, /) -> float:
    """A metric that takes no names."""
    return float(len(outputs))


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        pytest.param(lambda reference: reference, "needs the argument 'reference'", id="argument"),
        pytest.param(by_position, "needs the argument 'outputs'", id="position"),
        pytest.param(awaitable_metric, "awaitable_metric is async", id="async"),
        pytest.param(int, "no signature found", id="signature"),
        pytest.param(3, "metric must be Callable", id="number"),
    ],
)
def test_a_metric_that_cannot_be_called_is_refused(metric: Any, said: str) -> None:
    """At once: otherwise every answer would be unscored."""
    with pytest.raises(ConfigurationError, match=said):
        metric_judge(metric)


def test_an_evaluator_of_openevals_itself() -> None:
    """The library's own evaluator plugs in without a wrapper; it asks a scripted model."""
    llm = pytest.importorskip("openevals.llm", reason="openevals is not installed")
    chat = ScriptedChat(default={"reasoning": "Right.", "score": True})
    evaluator = llm.create_llm_as_judge(prompt="Is {outputs} right for {inputs}?", judge=chat)

    state = say(make(lambda _: GOOD, metric_judge(evaluator)), "What is a list?")

    assert 1.0 == state["quality_score"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_metric_of_deepeval_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's own metric and test case, as the documentation shows them."""
    monkeypatch.setenv("DEEPEVAL_TELEMETRY_OPT_OUT", "YES")
    metrics = pytest.importorskip("deepeval.metrics", reason="deepeval is not installed")
    cases = pytest.importorskip("deepeval.test_case", reason="deepeval is not installed")

    def second_draft(inputs: str, outputs: str) -> Any:
        metric = metrics.PatternMatchMetric(pattern=r"(?s).*draft 2.*")
        metric.measure(cases.LLMTestCase(input=inputs, actual_output=outputs))
        return metric

    state = say(make(Numbered(), metric_judge(second_draft)), "What is a list?")

    annotation = annotation_of(state["messages"][-1])
    assert ("passed", 1.0) == (annotation["outcome"], annotation["score"])
    assert "pattern" in annotation["reason"]
    assert "draft 2" in state["messages"][-1].content


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_metric_of_ragas_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's own metric and sample, as the documentation shows them."""
    monkeypatch.setenv("RAGAS_DO_NOT_TRACK", "true")
    needs = "needs ragas and langchain-community 0.4"
    ragas = pytest.importorskip("ragas", reason=needs, exc_type=ImportError)
    metrics = pytest.importorskip("ragas.metrics", reason=needs, exc_type=ImportError)

    def second_draft(inputs: str, outputs: str) -> float:
        sample = ragas.SingleTurnSample(user_input=inputs, response=outputs, reference="draft 2")
        return float(metrics.StringPresence().single_turn_score(sample))

    state = say(make(Numbered(), metric_judge(second_draft)), "What is a list?")

    assert 1.0 == state["quality_score"]
    assert "draft 2" in state["messages"][-1].content
