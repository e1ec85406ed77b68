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
from tests.http.test_http_payloads import DRAFTS, ENGLISH, JAPANESE, opened, posted, replies
from tests.threads import recorded
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
    server = serve(lambda asked: BETTER if asked.model == "other" else replies(asked))
    other = "other" if kind == "name" else ChatOpenAI(model="other")
    with opened(tmp_path, tools=tools) as conversation:
        conversation.say(question)
        before = (
            conversation.messages(),
            recorded(conversation).events(),
            recorded(conversation).runs(),
        )
        found = conversation.replay(model=other)
        assert before == (
            conversation.messages(),
            recorded(conversation).events(),
            recorded(conversation).runs(),
        )

    (asked,) = server.asked_of("other")
    assert but_for_the_model(dict(found.payload)) == but_for_the_model(posted(asked))
    assert found.payload in [posted(each) for each in server.asked_of("answerer")]
    assert found.again is not None
    assert (BETTER, 0.9, None) == (found.again.answer, found.again.score, found.again.error)


async def test_another_model_is_posted_the_same_in_async_code(serve: Serve, tmp_path: Path) -> None:
    """`AsyncConversation.replay` posts the same body."""
    server = serve(lambda asked: BETTER if asked.model == "other" else replies(asked))
    path, settings = tmp_path / "t.db", {"judge_model": "judge"}
    async with AsyncConversation.open(path, model="answerer", settings=settings) as conversation:
        await conversation.say(JAPANESE)
        found = await conversation.replay(model="other")
    (asked,) = server.asked_of("other")
    assert but_for_the_model(dict(found.payload)) == but_for_the_model(posted(asked))
    assert found.again is not None
    assert 0.9 == found.again.score


@pytest.mark.parametrize("status", [401, 404, 500])
def test_an_error_of_the_other_model_is_shown(llmock: LLMock, tmp_path: Path, status: int) -> None:
    """A wrong name, a missing key and a broken server are answers to the comparison."""
    llmock.add(answers("Fish.", times=1), answers(), grades(0.1, times=1), grades(0.9))
    llmock.add(Fail(status, times=None, match=OTHER))
    with opened(tmp_path) as conversation:
        conversation.say(QUESTION)
        found = conversation.replay(model=ChatOpenAI(model="other", max_retries=0))
    assert found.again is not None
    assert found.again.error is not None
    assert ("", None, True) == (
        found.again.answer,
        found.again.score,
        str(status) in found.again.reason,
    )


def test_a_judge_that_fails_leaves_the_other_answer_unscored(
    llmock: LLMock, tmp_path: Path
) -> None:
    """The comparison shows the words, and why there is no score."""
    llmock.add(answers(), grades(0.9, times=1), Reply(text=BETTER, times=None, match=OTHER))
    llmock.add(Fail(500, times=None, match=Match(model="judge")))
    with opened(tmp_path) as conversation:
        conversation.say(QUESTION)
        found = conversation.replay(model="other")
    assert found.again is not None
    assert (BETTER, None, None) == (found.again.answer, found.again.score, found.again.error)
    assert found.again.reason


def test_another_model_without_a_key_is_refused(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name for which there is no address is the caller's mistake, and raised as one."""
    serve(replies)
    with opened(tmp_path) as conversation:
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


def good(asked: Asked) -> Said:
    """A different answer to every question, and a judge that likes them all."""
    if asked.model == "judge":
        return {"score": 0.9}
    return GOOD[asked.question.split("\n")[0]]


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
    with opened(tmp_path, **options) as conversation:
        for question in questions:
            conversation.say(question) if form == "say" else list(conversation.stream(question))
        found = [conversation.replay(turn=number) for number in (1, 2)]

    sent = [posted(asked) for asked in server.asked_of("answerer")]
    assert sent == [each.payload for each in found]
    assert [False, False] == [each.exact for each in found]
    assert questions == [each.question for each in found]


def test_a_succeeded_turn_in_each_language(serve: Serve, tmp_path: Path) -> None:
    """The words of our own in it are in the language of its question, not of the newest one."""
    server = serve(good)
    with opened(tmp_path, reminders=REMINDERS, settings={"topics": "off"}) as conversation:
        for question in (ENGLISH, JAPANESE, THANKS):
            conversation.say(question)
        found = [conversation.replay(turn=number).payload["messages"] for number in (1, 2, 3)]
    assert [asked.body["messages"] for asked in server.asked_of("answerer")] == found


def test_a_succeeded_turn_with_tools(serve: Serve, tmp_path: Path) -> None:
    """Its first request is planned again, with the tools that were offered."""
    server = serve(asks_the_meter)
    with opened(tmp_path, tools=[read_meter]) as conversation:
        conversation.say(QUESTION)
        found = conversation.replay(turn=1)
    assert posted(server.asked_of("answerer")[0]) == found.payload
    assert (ANSWER, False) == (found.recorded.answer, found.exact)
