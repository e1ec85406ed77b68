"""Summaries judged over HTTP, by a judge that answers in a structure or in words."""

from pathlib import Path

import pytest
from llmock.pytest_plugin import LLMock
from llmock.scenarios import Reply

from tests.http.replies import ANSWER, JUDGE, QUESTION, answers, bodies, grades
from unsay import Conversation
from unsay.testing import ScriptedDetector


@pytest.mark.parametrize(
    ("reply", "score", "outcome"),
    [
        pytest.param(grades(0.4, "It lacks the number of legs."), 0.4, "failed", id="structure"),
        pytest.param(Reply(text="Score: 8/10", times=None, match=JUDGE), 0.8, "passed", id="words"),
        pytest.param(
            Reply(text="A summary.", times=None, match=JUDGE), None, "unscored", id="none"
        ),
    ],
)
def test_a_summary_is_judged_by_a_server(
    llmock: LLMock, tmp_path: Path, reply: Reply, score: float | None, outcome: str
) -> None:
    """One request holds the words and the summary, both fenced, and its reply is the verdict."""
    llmock.add(answers(), grades(0.9, times=1), reply)
    detector = ScriptedDetector(shifts={"insect": "new"})
    with Conversation.open(
        tmp_path / "t.db",
        model="answerer",
        detector=detector,
        settings={"judge_model": "judge", "max_rollbacks": 0},
    ) as talk:
        talk.say(QUESTION)
        talk.say("And an insect?")
        before = len(bodies(llmock, "judge"))
        (judged,) = talk.judge_summaries()
    (asked,) = bodies(llmock, "judge")[before:]
    system, user = (message["content"] for message in asked["messages"])
    assert (score, outcome) == (judged.verdict.score, judged.verdict.outcome)
    assert "summary" in system
    assert f"human: {QUESTION}\nai: {ANSWER}" in user
    assert judged.summary.text in user
    assert ["<conversation key=", "<summary key="] == [
        tag for tag in ("<conversation key=", "<summary key=") if user.count(tag) == 1
    ]
