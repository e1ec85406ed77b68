"""Summaries over HTTP: how they are requested, and how a judge grades them."""

from pathlib import Path
from typing import Any

import pytest
from langchain_openai import ChatOpenAI
from llmock.pytest_plugin import LLMock
from llmock.scenarios import Fail, Match, Reply

from tests.http.replies import ANSWER, JUDGE, QUESTION, answers, bodies, grades
from unsay import Conversation, evaluation
from unsay.context import ThreeStage
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
    """A request holds the words and the summary, both fenced, and its reply is the verdict."""
    llmock.add(answers(), grades(0.9, times=1), reply)
    detector = ScriptedDetector(shifts={"insect": "new"})
    with Conversation.open(
        tmp_path / "t.db",
        model="answerer",
        detector=detector,
        settings={"judge_model": "judge", "max_rollbacks": 0},
    ) as conversation:
        conversation.say(QUESTION)
        conversation.say("And an insect?")
        before = len(bodies(llmock, "judge"))
        (judgement,) = evaluation.judge_summaries(conversation)
    request = bodies(llmock, "judge")[before]
    system, user = (message["content"] for message in request["messages"])
    assert (score, outcome) == (judgement.verdict.score, judgement.verdict.outcome)
    assert "summary" in system
    assert f'human: "{QUESTION}"\nai: "{ANSWER}"' in user
    assert judgement.summary.text in user
    assert ["<conversation key=", "<summary key="] == [
        tag for tag in ("<conversation key=", "<summary key=") if user.count(tag) == 1
    ]


SHIFT = ScriptedDetector(shifts={"insect": "new", "fish": "new"})
ALONE = {"judge_model": "judge", "judging": "off"}


def summary_requests(llmock: LLMock, model: str = "answerer") -> list[Any]:
    """The requests for a summary, oldest first: those whose instructions are to summarize."""
    requests = bodies(llmock, model)
    return [body for body in requests if body["messages"][0]["content"].startswith("You summarize")]


def limits_of(body: Any) -> tuple[Any, Any]:
    """The length and the temperature that a request asks for; `None` where it names none."""
    return body.get("max_completion_tokens", body.get("max_tokens")), body.get("temperature")


@pytest.mark.parametrize(
    ("settings", "limits"),
    [
        pytest.param({}, (400, 0.2), id="as in the article"),
        pytest.param({"summary_tokens": 150, "summary_temperature": 0.7}, (150, 0.7), id="set"),
        pytest.param({"summary_temperature": None}, (400, None), id="no temperature"),
    ],
)
def test_the_answering_model_summarizes_short_and_cool(
    llmock: LLMock, tmp_path: Path, settings: dict[str, Any], limits: tuple[Any, Any]
) -> None:
    """With `model=` alone a summary is requested of it, and no answer is so limited."""
    llmock.add(answers())
    with Conversation.open(
        tmp_path / "t.db", model="answerer", detector=SHIFT, settings={**ALONE, **settings}
    ) as conversation:
        conversation.say(QUESTION)
        conversation.say("And an insect?")
    (request,) = summary_requests(llmock)
    assert limits == limits_of(request)
    other_requests = [body for body in bodies(llmock, "answerer") if body != request]
    assert [(None, None)] * 2 == [limits_of(body) for body in other_requests]


def test_a_strategys_summary_is_as_long_as_it_says(llmock: LLMock, tmp_path: Path) -> None:
    """The limit in the request is the one in its words."""
    llmock.add(answers("word " * 300))
    strategy = ThreeStage(primers=0, recents=2, summary_tokens=90)
    with Conversation.open(
        tmp_path / "t.db",
        model="answerer",
        strategy=strategy,
        settings={**ALONE, "topics": "off", "context_window_tokens": 2_000, "recall_tokens": 0},
    ) as conversation:
        for number in range(6):
            conversation.say(f"Question {number}?")
    request = summary_requests(llmock)[0]
    assert (90, 0.2) == limits_of(request)
    assert "at most 90 tokens" in request["messages"][-1]["content"]


@pytest.mark.parametrize(
    ("message", "limits"),
    [
        pytest.param(
            "Unsupported value: 'temperature' does not support 0.2 with this model.",
            (400, None),
            id="temperature",
        ),
        pytest.param(
            "Unsupported parameter: 'max_completion_tokens' is not supported with this model.",
            (None, 0.2),
            id="max_tokens",
        ),
        pytest.param("Invalid request.", (None, None), id="no name"),
    ],
)
def test_what_a_model_refuses_is_left_out(
    llmock: LLMock, tmp_path: Path, message: str, limits: tuple[Any, Any]
) -> None:
    """The summary is requested again without it, and later ones never name it again."""
    llmock.add(answers(times=1))
    settings = {**ALONE, "summarizer_model": "small"}
    with Conversation.open(
        tmp_path / "t.db", model="answerer", detector=SHIFT, settings=settings
    ) as conversation:
        llmock.add(answers())
        llmock.add(Fail(400, message=message, match=Match(model="small")))
        llmock.add(Reply(text="Spiders.", times=None, match=Match(model="small")))
        conversation.say(QUESTION)
        conversation.say("And an insect?")
        conversation.say("And a fish?")
    assert [(400, 0.2), limits, limits] == [limits_of(b) for b in bodies(llmock, "small")]
    assert "Spiders." in bodies(llmock, "answerer")[-1]["messages"][0]["content"]


def test_a_request_that_is_refused_without_options_too(
    llmock: LLMock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The options were not the reason, so the next summary is requested with them."""
    monkeypatch.setattr("unsay.turn.runs.PAUSE_TURNS", 0)
    small = Match(model="small")
    llmock.add(answers(), Fail(400, message="Blocked.", times=2, match=small))
    llmock.add(Reply(text="Spiders.", times=None, match=small))
    settings = {**ALONE, "summarizer_model": "small"}
    with Conversation.open(
        tmp_path / "t.db", model="answerer", detector=SHIFT, settings=settings
    ) as conversation:
        for question in (QUESTION, "And an insect?", "And a fish?"):
            conversation.say(question)
    limits = [limits_of(body) for body in bodies(llmock, "small")]
    assert [(400, 0.2), (None, None), (400, 0.2)] == limits[:3]


def test_a_summarizer_of_ones_own_keeps_its_values(llmock: LLMock, tmp_path: Path) -> None:
    """What it was made with is not overwritten, and what it was made without is added."""
    llmock.add(answers(), Reply(text="Spiders.", times=None, match=Match(model="small")))
    small = ChatOpenAI(model="small", base_url=llmock.base_url(), api_key="k", max_tokens=1_000)
    with Conversation.open(
        tmp_path / "t.db", model="answerer", summarizer=small, detector=SHIFT, settings=ALONE
    ) as conversation:
        conversation.say(QUESTION)
        conversation.say("And an insect?")
    assert [(1_000, 0.2)] == [limits_of(body) for body in bodies(llmock, "small")]
    assert [] == summary_requests(llmock)


def test_a_reasoning_model_that_used_up_its_length_is_asked_without_a_limit(
    llmock: LLMock, tmp_path: Path
) -> None:
    """An empty reply that ended at its length is no summary, and no reason to pause."""
    small = Match(model="small")
    llmock.add(answers(), Reply(text="", finish_reason="length", match=small))
    llmock.add(Reply(text="Spiders.", times=None, match=small))
    with Conversation.open(
        tmp_path / "t.db",
        model="answerer",
        detector=SHIFT,
        settings={**ALONE, "summarizer_model": "small"},
    ) as conversation:
        conversation.say(QUESTION)
        conversation.say("And an insect?")
    assert [(400, 0.2), (None, 0.2)] == [limits_of(body) for body in bodies(llmock, "small")]
