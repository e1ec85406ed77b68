"""The seed article's conversation, end to end: `ChatOpenAI`, a judge over HTTP, one file."""

from collections.abc import Callable
from pathlib import Path

import pytest
from langchain_core.messages import AnyMessage

from tests.http.openai_server import OpenAIServer, Script
from tests.http.seed_conversation import SeedConversation, judged_answer
from unsay import AsyncConversation, Conversation
from unsay.messages.annotations import spoken
from unsay.results.results import Reply

Serve = Callable[[Script], OpenAIServer]

pytestmark = pytest.mark.full


def play(path: Path, seed_conversation: SeedConversation) -> list[Reply]:
    """All four questions, with the bad exchange put in before the last."""
    with open_seed_conversation(path) as conversation:
        replies = [conversation.say(question) for question in seed_conversation.questions[:3]]
        conversation.add(seed_conversation.pushed_in)
        return [*replies, conversation.say(seed_conversation.questions[3])]


def open_seed_conversation(path: Path) -> Conversation:
    """The conversation, answered and judged by two models of the server."""
    settings = {"judge_model": "judge"}
    return Conversation.open(path, thread="seed", model="answerer", settings=settings)


def speeches(messages: list[AnyMessage]) -> list[tuple[str, str]]:
    """Who said what."""
    return [(message.type, str(message.content)) for message in messages]


def test_poisoned_answer_never_reaches_the_user(
    serve: Serve, seed_conversation: SeedConversation, tmp_path: Path
) -> None:
    """Each question gets its good answer; the two bad ones cost one rollback each."""
    serve(seed_conversation.script)
    replies = play(tmp_path / "talk.db", seed_conversation)
    assert [
        (seed_conversation.answers[seed_conversation.questions[0]], 0.9, 0),
        (seed_conversation.answers[seed_conversation.questions[1]], 0.9, 0),
        (seed_conversation.answers[seed_conversation.questions[2]], 0.9, 1),
        (seed_conversation.answers[seed_conversation.questions[3]], 0.9, 1),
    ] == [(reply.text, reply.score, reply.rollbacks) for reply in replies]


def test_retry_is_told_the_reason_and_not_the_bad_answer(
    serve: Serve, seed_conversation: SeedConversation, tmp_path: Path
) -> None:
    """The second request for the third question holds question and reason, not the answer."""
    server = serve(seed_conversation.script)
    play(tmp_path / "talk.db", seed_conversation)
    third = seed_conversation.questions[2]
    first, retry = (a for a in server.asked_of("answerer") if a.question == third)
    reason = seed_conversation.reasons[seed_conversation.poisoned]
    assert (False, True) == (reason in first.hints, reason in retry.hints)
    assert not [
        request for request in (first, retry) if seed_conversation.poisoned[:30] in request.text
    ]


def test_exchange_that_was_put_in_is_judged_and_not_sent_on(
    serve: Serve, seed_conversation: SeedConversation, tmp_path: Path
) -> None:
    """The judge sees the bad exchange; the answerer gets the reason, not its text."""
    server = serve(seed_conversation.script)
    play(tmp_path / "talk.db", seed_conversation)
    (_, _), (_, bad) = seed_conversation.pushed_in
    last = server.asked_of("answerer")[-1]
    assert bad in [judged_answer(request) for request in server.asked_of("judge")]
    assert (seed_conversation.questions[3], True, False) == (
        last.question,
        seed_conversation.reasons[bad] in last.hints,
        bad[:30] in last.text,
    )


def test_judge_is_asked_for_a_structure(
    serve: Serve, seed_conversation: SeedConversation, tmp_path: Path
) -> None:
    """Every request for the judge carries the verdict's schema; the answerer's carry none."""
    server = serve(seed_conversation.script)
    play(tmp_path / "talk.db", seed_conversation)
    schemas = [
        request.body["response_format"]["json_schema"]["schema"]["required"]
        for request in server.asked_of("judge")
    ]
    assert [["score", "consistency", "reason", "advice", "query", "blamed"]] * 6 == schemas
    assert not [a for a in server.asked_of("answerer") if "response_format" in a.body]


def test_weather_is_left_out_when_python_is_asked_about_again(
    serve: Serve, seed_conversation: SeedConversation, tmp_path: Path
) -> None:
    """Back at Python, the request has the list comprehensions, and of the weather a summary."""
    server = serve(seed_conversation.script)
    play(tmp_path / "talk.db", seed_conversation)
    lists, weather, decorators, _ = seed_conversation.questions
    third = next(a for a in server.asked_of("answerer") if a.question == decorators)
    *texts, last = [message["content"] for message in third.body["messages"]]
    summary, question_text = last.split('</summary key="')
    assert [lists, seed_conversation.answers[lists]] == texts
    assert (True, True) == (weather in summary, question_text.endswith(f"\n\n{decorators}"))
    assert seed_conversation.answers[weather] not in last


def test_transcript_survives_a_restart(
    serve: Serve, seed_conversation: SeedConversation, tmp_path: Path
) -> None:
    """Reopened, the thread has the good answers alone, and both bad ones among its branches."""
    serve(seed_conversation.script)
    play(tmp_path / "talk.db", seed_conversation)
    with open_seed_conversation(tmp_path / "talk.db") as conversation:
        messages = conversation.messages()
        timeline = conversation.timeline()
    expected = [
        speech
        for question in seed_conversation.questions
        for speech in (("human", question), ("ai", seed_conversation.answers[question]))
    ]
    assert expected == speeches(spoken(messages))
    assert ["draft", "context"] == [branch["kind"] for branch in timeline.branches]


def test_rollback_by_hand_after_a_restart(
    serve: Serve, seed_conversation: SeedConversation, tmp_path: Path
) -> None:
    """A rollback takes the last turn off, an undo brings it back, word for word."""
    serve(seed_conversation.script)
    play(tmp_path / "talk.db", seed_conversation)
    with open_seed_conversation(tmp_path / "talk.db") as conversation:
        before = speeches(conversation.messages())
        change = conversation.rollback()
        after = speeches(conversation.messages())
        conversation.undo()
        restored = speeches(conversation.messages())
    assert (3, seed_conversation.questions[3]) == (change.turns, change.question)
    assert (before[:6], before) == (after, restored)


async def test_same_conversation_in_async_code(
    serve: Serve, seed_conversation: SeedConversation, tmp_path: Path
) -> None:
    """`AsyncConversation` leaves the same transcript as `Conversation`."""
    serve(seed_conversation.script)
    play(tmp_path / "blocking.db", seed_conversation)
    path = tmp_path / "async.db"
    settings = {"judge_model": "judge"}
    async with AsyncConversation.open(path, model="answerer", settings=settings) as conversation:
        for question in seed_conversation.questions[:3]:
            await conversation.say(question)
        await conversation.add(seed_conversation.pushed_in)
        await conversation.say(seed_conversation.questions[3])
        speeches_async = speeches(spoken(await conversation.messages()))
    with open_seed_conversation(tmp_path / "blocking.db") as conversation:
        assert speeches(spoken(conversation.messages())) == speeches_async
