"""Models behind names: where they are configured, and what each of them is asked."""

import asyncio
from pathlib import Path

import pytest
from llmock.pytest_plugin import LLMock
from llmock.scenarios import Fail, Match, Reply

from tests.http.replies import ANSWER, QUESTION, answers, bodies, grades
from tests.http.seed_conversation import ENGLISH
from unsay import AsyncConversation, Conversation
from unsay.errors import MissingModelError
from unsay.history.threads import list_threads
from unsay.storage.sqlite import open_database

JUDGED = {"judge_model": "judge"}
SUMMARIZER = Match(model="summarizer")


def test_models_come_from_the_environment(
    llmock: LLMock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """UNSAY_MODEL answers and UNSAY_JUDGE_MODEL judges where no argument names them."""
    monkeypatch.setenv("UNSAY_MODEL", "answerer")
    monkeypatch.setenv("UNSAY_JUDGE_MODEL", "judge")
    llmock.add(answers(), grades(0.9))
    with Conversation.open(tmp_path / "t.db") as conversation:
        reply = conversation.say(QUESTION)
    assert (ANSWER, 0.9) == (reply.text, reply.score)
    assert ["answerer", "judge"] == [transcript.model for transcript in llmock.requests]


def test_server_of_ones_own_needs_no_key(
    llmock: LLMock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """OPENAI_BASE_URL without OPENAI_API_KEY is enough."""
    monkeypatch.delenv("OPENAI_API_KEY")
    llmock.add(answers(), grades(0.9))
    with Conversation.open(tmp_path / "t.db", model="answerer", settings=JUDGED) as conversation:
        assert ANSWER == conversation.say(QUESTION).text


@pytest.mark.parametrize(
    ("model", "hint"),
    [
        pytest.param("answerer", "OPENAI_API_KEY, or OPENAI_BASE_URL", id="name-without-key"),
        pytest.param(None, "UNSAY_MODEL", id="nothing"),
    ],
)
def test_missing_model_names_what_to_set(tmp_path: Path, model: str | None, hint: str) -> None:
    """Without a key and address the first question says what to set, and nothing else fails."""
    with Conversation.open(tmp_path / "t.db", model=model) as conversation:
        with pytest.raises(MissingModelError, match=hint):
            conversation.say(QUESTION)
        assert [QUESTION] == [message.content for message in conversation.messages()]


def test_missing_model_can_be_configured_later(
    llmock: LLMock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Once the address is set, the same words are answered, once."""
    llmock.add(answers(), grades(0.9))
    address = llmock.base_url()
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.delenv("OPENAI_BASE_URL")
    with Conversation.open(tmp_path / "t.db", model="answerer", settings=JUDGED) as conversation:
        with pytest.raises(MissingModelError):
            conversation.say(QUESTION)
        monkeypatch.setenv("OPENAI_BASE_URL", address)
        conversation.say(QUESTION)
        assert [QUESTION, ANSWER] == [message.content for message in conversation.messages()]


def test_a_named_model_serves_one_event_loop_after_another(llmock: LLMock, tmp_path: Path) -> None:
    """A connection that an ended loop has kept does not fail the next one."""
    llmock.add(answers(), grades(0.9))

    async def turn() -> str:
        path = tmp_path / "t.db"
        async with AsyncConversation.open(path, model="answerer", settings=JUDGED) as conversation:
            return (await conversation.say(QUESTION)).text

    assert [ANSWER, ANSWER, ANSWER] == [asyncio.run(turn()) for _ in range(3)]


def test_a_judge_that_refuses_structure_is_asked_for_it_once(
    llmock: LLMock, tmp_path: Path
) -> None:
    """The refusal is remembered: later verdicts cost one request each."""
    llmock.add(answers(), Fail(status=400, times=1, match=Match(model="judge")), grades(0.9))
    with Conversation.open(tmp_path / "t.db", model="answerer", settings=JUDGED) as conversation:
        scores = [conversation.say(f"{QUESTION} ({n})").score for n in range(3)]

    assert [0.9, 0.9, 0.9] == scores
    assert 4 == len(bodies(llmock, "judge"))


def test_summaries_are_another_models(llmock: LLMock, tmp_path: Path) -> None:
    """`summarizer_model` is asked at a change of subject, and the answerer is shown its words."""
    first, second = ENGLISH.questions[:2]
    llmock.add(answers(ENGLISH.answers[first], times=1), answers(ENGLISH.answers[second]))
    llmock.add(grades(0.9), Reply(text="They met list comprehensions.", match=SUMMARIZER))
    settings = {**JUDGED, "summarizer_model": "summarizer"}
    with Conversation.open(tmp_path / "t.db", model="answerer", settings=settings) as conversation:
        conversation.say(first)
        conversation.say(second)
    assert 1 == len(bodies(llmock, "summarizer"))
    system, question = bodies(llmock, "answerer")[-1]["messages"]
    assert ("They met list comprehensions." in system["content"], second) == (
        True,
        question["content"],
    )


def test_summarizer_that_fails_is_replaced_by_the_local_summary(
    llmock: LLMock, tmp_path: Path
) -> None:
    """The turn continues, and the answerer gets the user's own words instead."""
    first, second = ENGLISH.questions[:2]
    llmock.add(answers(ENGLISH.answers[first], times=1), answers(ENGLISH.answers[second]))
    llmock.add(grades(0.9), Fail(401, times=None, match=SUMMARIZER))
    settings = {**JUDGED, "summarizer_model": "summarizer"}
    with Conversation.open(tmp_path / "t.db", model="answerer", settings=settings) as conversation:
        conversation.say(first)
        assert ENGLISH.answers[second] == conversation.say(second).text
    system = bodies(llmock, "answerer")[-1]["messages"][0]["content"]
    assert first in system


@pytest.mark.parametrize(
    ("title_reply", "title"),
    [
        pytest.param(
            Reply(text="“Legs of spiders”", match=Match(model="titler")),
            "Legs of spiders",
            id="named",
        ),
        pytest.param(Fail(401, match=Match(model="titler")), QUESTION, id="fails"),
    ],
)
def test_titles_are_another_models(
    llmock: LLMock, tmp_path: Path, title_reply: Reply | Fail, title: str
) -> None:
    """`title_model` names the thread once; where it fails the question's words do."""
    llmock.add(answers(), grades(0.9), title_reply)
    settings = {**JUDGED, "title_model": "titler"}
    with Conversation.open(tmp_path / "t.db", model="answerer", settings=settings) as conversation:
        conversation.say(QUESTION)
        conversation.say("And an insect?")
    assert 1 == len(bodies(llmock, "titler"))
    database = open_database(tmp_path / "t.db")
    assert [title] == [entry.title for entry in list_threads(database.store)]
    database.close()


def test_models_of_the_responses_api_answer_and_judge(llmock: LLMock, tmp_path: Path) -> None:
    """A name that langchain-openai sends to `/v1/responses` answers, judges and streams as well."""
    llmock.add(Reply(text=ANSWER, times=None, match=Match(model="codex-answerer")))
    llmock.add(
        Reply(text='{"score": 0.1, "reason": "Thin."}', match=Match(model="codex-judge")),
        Reply(text='{"score": 0.9}', times=None, match=Match(model="codex-judge")),
    )
    settings = {"judge_model": "codex-judge"}
    with Conversation.open(
        tmp_path / "t.db", model="codex-answerer", settings=settings
    ) as conversation:
        events = list(conversation.stream(QUESTION))
    assert {"/v1/responses"} == {transcript.path for transcript in llmock.requests}
    assert ANSWER * 2 == "".join(event.text for event in events if event.kind == "token")
    assert (ANSWER, 1) == (events[-1].text, sum(event.kind == "draft_rejected" for event in events))
