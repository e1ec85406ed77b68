"""Replay over HTTP: the same body to another model, and a successful turn's body planned again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_openai import ChatOpenAI
from llmock.pytest_plugin import LLMock
from llmock.scenarios import Fail, Match, Reply

from tests.http.meter import ANSWER, QUESTION, asks_the_meter, read_meter
from tests.http.openai_server import Asked, OpenAIServer, Said, Script
from tests.http.replies import answers, grades
from tests.http.test_http_payloads import (
    DRAFTS,
    ENGLISH,
    JAPANESE,
    open_with_judge_model,
    payload_of,
    replies,
)
from tests.threads import registry_of
from unsay import AsyncConversation
from unsay.context.view import Reminder
from unsay.errors import MissingModelError

Serve = Callable[[Script], OpenAIServer]
OTHER = Match(model="other")
BETTER = "The other one says: it is 21 degrees, and dry."


def but_for_the_model(body: dict[str, Any]) -> dict[str, Any]:
    """A body without the name of the model."""
    return {key: value for key, value in body.items() if key != "model"}


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("kind", ["name", "object"])
@pytest.mark.parametrize("tools", [(), (read_meter,)], ids=["no-tools", "tools"])
@pytest.mark.parametrize("question", [ENGLISH, JAPANESE], ids=["en", "ja"])
def test_another_model_is_posted_the_same(
    serve: Serve, tmp_path: Path, kind: str, tools: Any, question: str
) -> None:
    """All but the model's name is the same to the letter, and its draft is judged."""
    server = serve(lambda request: BETTER if request.model == "other" else replies(request))
    other_model = "other" if kind == "name" else ChatOpenAI(model="other")
    with open_with_judge_model(tmp_path, tools=tools) as conversation:
        conversation.say(question)
        before = (
            conversation.messages(),
            registry_of(conversation).events(),
            registry_of(conversation).runs(),
        )
        replay = conversation.replay(model=other_model)
        assert before == (
            conversation.messages(),
            registry_of(conversation).events(),
            registry_of(conversation).runs(),
        )

    (request,) = server.asked_of("other")
    assert but_for_the_model(dict(replay.payload)) == but_for_the_model(payload_of(request))
    assert replay.payload in [payload_of(request) for request in server.asked_of("answerer")]
    assert replay.again is not None
    assert (BETTER, 0.9, None) == (replay.again.answer, replay.again.score, replay.again.error)


async def test_another_model_is_posted_the_same_in_async_code(serve: Serve, tmp_path: Path) -> None:
    """`AsyncConversation.replay` posts the same body."""
    server = serve(lambda request: BETTER if request.model == "other" else replies(request))
    path = tmp_path / "t.db"
    settings = {"judge_model": "judge"}
    async with AsyncConversation.open(path, model="answerer", settings=settings) as conversation:
        await conversation.say(JAPANESE)
        replay = await conversation.replay(model="other")
    (request,) = server.asked_of("other")
    assert but_for_the_model(dict(replay.payload)) == but_for_the_model(payload_of(request))
    assert replay.again is not None
    assert 0.9 == replay.again.score


@pytest.mark.parametrize("status", [401, 404, 500])
def test_an_error_of_the_other_model_is_shown(llmock: LLMock, tmp_path: Path, status: int) -> None:
    """A wrong name, a missing key and a broken server are answers to the comparison."""
    llmock.add(answers("Fish.", times=1), answers(), grades(0.1, times=1), grades(0.9))
    llmock.add(Fail(status, times=None, match=OTHER))
    with open_with_judge_model(tmp_path) as conversation:
        conversation.say(QUESTION)
        replay = conversation.replay(model=ChatOpenAI(model="other", max_retries=0))
    assert replay.again is not None
    assert replay.again.error is not None
    assert ("", None, True) == (
        replay.again.answer,
        replay.again.score,
        str(status) in replay.again.reason,
    )


def test_a_judge_that_fails_leaves_the_other_answer_unscored(
    llmock: LLMock, tmp_path: Path
) -> None:
    """The comparison shows the words, and why there is no score."""
    llmock.add(answers(), grades(0.9, times=1), Reply(text=BETTER, times=None, match=OTHER))
    llmock.add(Fail(500, times=None, match=Match(model="judge")))
    with open_with_judge_model(tmp_path) as conversation:
        conversation.say(QUESTION)
        replay = conversation.replay(model="other")
    assert replay.again is not None
    assert (BETTER, None, None) == (replay.again.answer, replay.again.score, replay.again.error)
    assert replay.again.reason


def test_another_model_without_a_key_is_refused(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name for which there is no address is the caller's mistake, and raised as one."""
    serve(replies)
    with open_with_judge_model(tmp_path) as conversation:
        conversation.say(ENGLISH)
        monkeypatch.delenv("OPENAI_API_KEY")
        monkeypatch.delenv("OPENAI_BASE_URL")
        with pytest.raises(MissingModelError, match="'other'"):
            conversation.replay(model="other")


THEN = "And how warm was it in Paris yesterday?"
THANKS = "Thank you. It was warm."
GOOD = {
    QUESTION: ANSWER,
    THEN: "Nineteen degrees at noon, after a cold and foggy morning.",
    THANKS: "You are welcome; enjoy the trip!",
    **{question: better for question, (_, better) in DRAFTS.items()},
}


def good(request: Asked) -> Said:
    """A different answer to every question, and a judge that likes them all."""
    if request.model == "judge":
        return {"score": 0.9}
    return GOOD[request.question.split("\n")[0]]


PROMPT = {"system_prompt": "短く答えてください。"}
REMINDERS = [
    Reminder(reminder_id="a", text="Never name prices."),
    Reminder(reminder_id="b", text="Be kind.", attach="run_start"),
]


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("form", ["say", "stream"])
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="plain"),
        pytest.param({"settings": PROMPT}, id="system-prompt"),
        pytest.param({"reminders": REMINDERS}, id="reminders"),
    ],
)
def test_a_succeeded_turn_planned_again_is_what_was_posted(
    serve: Serve, tmp_path: Path, form: str, options: Any
) -> None:
    """With unchanged settings and no folds each turn's payload is its body, and is not exact."""
    server = serve(good)
    questions = [QUESTION, THEN]
    with open_with_judge_model(tmp_path, **options) as conversation:
        for question in questions:
            conversation.say(question) if form == "say" else list(conversation.stream(question))
        replays = [conversation.replay(turn=number) for number in (1, 2)]

    payloads = [payload_of(request) for request in server.asked_of("answerer")]
    assert payloads == [replay.payload for replay in replays]
    assert [False, False] == [replay.exact for replay in replays]
    assert questions == [replay.question for replay in replays]


def test_a_succeeded_turn_in_each_language(serve: Serve, tmp_path: Path) -> None:
    """The words of our own in it are in the language of its question, not of the newest one."""
    server = serve(good)
    with open_with_judge_model(
        tmp_path, reminders=REMINDERS, settings={"topics": "off"}
    ) as conversation:
        for question in (ENGLISH, JAPANESE, THANKS):
            conversation.say(question)
        bodies = [conversation.replay(turn=number).payload["messages"] for number in (1, 2, 3)]
    assert [request.body["messages"] for request in server.asked_of("answerer")] == bodies


def test_a_succeeded_turn_with_tools(serve: Serve, tmp_path: Path) -> None:
    """Its first request is planned again, with the tools that were offered."""
    server = serve(asks_the_meter)
    with open_with_judge_model(tmp_path, tools=[read_meter]) as conversation:
        conversation.say(QUESTION)
        replay = conversation.replay(turn=1)
    assert payload_of(server.asked_of("answerer")[0]) == replay.payload
    assert (ANSWER, False) == (replay.recorded.answer, replay.exact)
