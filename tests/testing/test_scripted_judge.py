from typing import Any, TypedDict

import pytest
from langchain_core.exceptions import OutputParserException
from langchain_core.messages import (
    BaseMessage,
    HumanMessage,
    SystemMessage,
)
from pydantic import BaseModel

from unsay.errors import ConfigurationError
from unsay.prompts.catalogue import Texts
from unsay.prompts.fence import Fence
from unsay.protocols import TopicMemory, TopicShift
from unsay.testing import Delay, ScriptedDetector, ScriptedJudge
from unsay.testing.scripts import Fault

KYOTO = TopicMemory(topic_id="kyoto", texts=("Kyoto?",))
NARA = TopicMemory(topic_id="nara", texts=("Nara?",))
OSAKA = TopicMemory(topic_id="osaka", texts=("Osaka?",))


class Grade(BaseModel):
    """The grade of an answer."""

    score: float
    reason: str


class GradeDict(TypedDict):
    """The grade of an answer."""

    score: float
    reason: str


GRADE_SCHEMA = {
    "title": "grade",
    "description": "The grade of an answer.",
    "type": "object",
    "properties": {"score": {"type": "number"}, "reason": {"type": "string"}},
    "required": ["score", "reason"],
}


def judge_messages(answer: str) -> list[BaseMessage]:
    """Unsay's own judge prompt over one answer."""
    fence = Fence.around("How?", answer)
    material = f"{fence.wrap('question', 'How?')}\n{fence.wrap('answer', answer)}"
    return [
        SystemMessage(Texts("en").say("judge_system")),
        HumanMessage(Texts("en").say("judge_request", material=material)),
    ]


@pytest.mark.parametrize(
    ("answer", "reply"),
    [
        pytest.param(
            "Buy a car.",
            '{"score": 0.1, "reason": "scripted for \'Buy a car\'"}',
            id="a part of the answer",
        ),
        pytest.param(
            "Buy a carpet.",
            '{"score": 0.4, "reason": "scripted for \'Buy a carpet\'"}',
            id="the longest part of it",
        ),
        pytest.param("Two days.", '{"score": 0.9, "reason": "scripted by default"}', id="default"),
        pytest.param(
            "How?", '{"score": 0.9, "reason": "scripted by default"}', id="not the question"
        ),
        pytest.param("void", "nan", id="raw text"),
        pytest.param(
            "</answer key='k'><answer> 4 < 5",
            '{"score": 0.2, "reason": "scripted for \' 4 < 5\'"}',
            id="an answer with tags of its own",
        ),
    ],
)
def test_judge_scores_by_the_answer(answer: str, reply: str) -> None:
    """The judge of unsay's own prompt scores the fenced answer, and nothing around it."""
    judge = ScriptedJudge(
        scores={"Buy a car": 0.1, "Buy a carpet": 0.4, "void": "nan", " 4 < 5": 0.2, "Grade": 0.0}
    )

    assert reply == judge.invoke(judge_messages(answer)).content


@pytest.mark.parametrize(
    ("messages", "answer"),
    [
        pytest.param([HumanMessage("good")], "good", id="no fence"),
        pytest.param([HumanMessage("<answer id='1'>bad</answer>\n<answer>good</answer>")], "good"),
        pytest.param([SystemMessage("<answer>good</answer>"), HumanMessage("Grade.")], "good"),
        pytest.param(
            [HumanMessage("<answer>good</answer>"), SystemMessage("<answer>bad</answer>")], "good"
        ),
        pytest.param([HumanMessage('<answer id="x">a &lt; b, good</answer id="x">')], "a < b"),
    ],
)
def test_judged_answer_is_found_in_any_prompt(messages: list[BaseMessage], answer: str) -> None:
    """The last fenced answer counts, unescaped; without a fence, the newest human message."""
    judge = ScriptedJudge(scores={answer: 0.3, "bad": 0.0})

    reply = judge.invoke(messages).content
    assert f'{{"score": 0.3, "reason": "scripted for {answer!r}"}}' == reply


@pytest.mark.parametrize("schema", [Grade, GradeDict, GRADE_SCHEMA])
def test_judge_answers_in_a_structure(schema: Any) -> None:
    """A judge that is asked for a schema fills it in."""
    judge = ScriptedJudge(scores={"car": 0.1}).with_structured_output(schema)

    grade = judge.invoke(judge_messages("Buy a car."))

    grade_fields = grade.model_dump() if isinstance(grade, Grade) else grade
    assert {"score": 0.1, "reason": "scripted for 'car'"} == grade_fields


def test_judge_can_fail_and_talk_nonsense() -> None:
    """Faults and raw texts make the judge one that gives no verdict."""
    judge = ScriptedJudge(scores={"car": Fault(error=OSError("down")), "boat": "nan"})

    with pytest.raises(OSError, match="down"):
        judge.invoke(judge_messages("Buy a car."))
    with pytest.raises(OutputParserException):
        judge.with_structured_output(Grade).invoke(judge_messages("Buy a boat."))
    judge.assert_all_used()


def test_judge_reports_scores_left_over() -> None:
    """A score whose answer was never judged is named at the end."""
    judge = ScriptedJudge(scores={"car": 0.1, "boat": 0.2})
    judge.invoke(judge_messages("Buy a car."))

    with pytest.raises(AssertionError, match="never asked for: 'boat'"):
        judge.assert_all_used()


@pytest.mark.parametrize(
    ("question", "shift"),
    [
        pytest.param("How long?", TopicShift(kind="same", similarity=1.0), id="default"),
        pytest.param("And Nara?", TopicShift(kind="new", similarity=0.0), id="new"),
        pytest.param(
            "Back.", TopicShift(kind="back", similarity=1.0, topic_id="osaka"), id="topic left last"
        ),
        pytest.param(
            "Back to Osaka.",
            TopicShift(kind="back", similarity=0.7, topic_id="osaka"),
            id="as it stands, by the longest part",
        ),
    ],
)
def test_detector_follows_its_script(question: str, shift: TopicShift) -> None:
    """A question's shift is found by its longest scripted part, else it is the default."""
    osaka = TopicShift(kind="back", similarity=0.7, topic_id="osaka")
    detector = ScriptedDetector(shifts={"Nara": "new", "Back": "back", "Back to Osaka": osaka})

    assert shift == detector.detect(question, KYOTO, [OSAKA, NARA])


@pytest.mark.parametrize("script", [{"shifts": {"Nara": "nwe"}}, {"default": "nwe"}])
def test_a_misspelt_shift_is_refused(script: Any) -> None:
    """When the detector is made: in a turn the error would only be logged."""
    with pytest.raises(ConfigurationError, match=r"'nwe' is no shift \(did you mean 'new'\?\)"):
        ScriptedDetector(**script)


def test_a_late_score_is_a_score() -> None:
    """Also for the answers that the script does not have."""
    late = Delay(seconds=0, reply=Delay(seconds=0, reply=0.4))
    judge = ScriptedJudge(scores={"car": late}, default=late)
    assert '{"score": 0.4, "reason": "scripted for \'car\'"}' == judge.invoke("A car.").content
    assert '{"score": 0.4, "reason": "scripted by default"}' == judge.invoke("A boat.").content


@pytest.mark.parametrize(
    ("answer", "memories"),
    [("back", []), (TopicShift(kind="back", similarity=1.0, topic_id="kobe"), [OSAKA])],
)
def test_detector_cannot_go_back_to_nowhere(answer: Any, memories: list[TopicMemory]) -> None:
    """A script that goes back to a topic that is not there is an error."""
    with pytest.raises(AssertionError, match="'Back' goes back to"):
        ScriptedDetector(default=answer).detect("Back", KYOTO, memories)
