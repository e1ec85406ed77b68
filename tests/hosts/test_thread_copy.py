"""A thread that `langgraph dev` copies has the messages that its store offloaded."""

from typing import Any

import pytest
from llmock.pytest_plugin import LLMock

from tests.hosts.test_langgraph_dev import (  # noqa: F401 - fixtures
    Thread,
    clean_log,
    client,
    thread,
    transcript,
)
from tests.http.replies import answers, grades

pytestmark = pytest.mark.full

TURNS = 14


@pytest.fixture(scope="module")
def server_settings() -> dict[str, str]:
    """The state holds few messages; the others are in the store."""
    return {"UNSAY_LIVE_MESSAGES": "4", "UNSAY_SUMMARIES": "local"}


def questions_of(state: Any) -> list[str]:
    """The questions among the messages that the state holds."""
    return [text for role, text in transcript(state) if role == "human" and text[0] != "/"]


async def test_a_copy_far_back_has_all_messages(thread: Thread, llmock: LLMock) -> None:  # noqa: F811
    """A rollback in the copy reaches offloaded turns; undo brings all back; the original stays."""
    for number in range(TURNS):
        llmock.add(answers(f"Answer {number} is about ants, bees and wasps.", times=1))
    llmock.add(answers("Spiders are no insects."), grades(0.9))
    questions = [f"Question {number} about insects?" for number in range(TURNS)]
    for question in questions:
        await thread.say(question)
    before = await thread.state()
    assert len(questions_of(before)) < TURNS
    response = await thread.client.threads.copy(thread.thread_id)
    copy = Thread(thread.client, response["thread_id"])

    state = await copy.say(f"/rollback {TURNS - 2}")
    assert questions[:2] == questions_of(state)
    restored = await copy.say("/undo")
    assert questions == questions_of(restored)
    await copy.say("And spiders?")
    await thread.client.threads.delete(thread.thread_id)
    state = await copy.say(f"/rollback {TURNS}")
    assert questions[:1] == questions_of(state)
    assert [*questions, "And spiders?"] == questions_of(await copy.say("/undo"))


async def test_a_copy_leaves_the_original_alone(thread: Thread, llmock: LLMock) -> None:  # noqa: F811
    """What the copy rolls back, and what its deletion purges, the original still has."""
    for number in range(TURNS):
        llmock.add(answers(f"Answer {number} is about ants, bees and wasps.", times=1))
    llmock.add(answers("Spiders are no insects."), grades(0.9))
    questions = [f"Question {number} about insects?" for number in range(TURNS)]
    for question in questions:
        await thread.say(question)
    response = await thread.client.threads.copy(thread.thread_id)
    copy = Thread(thread.client, response["thread_id"])
    await copy.say(f"/rollback {TURNS - 1}")
    await thread.client.threads.delete(copy.thread_id)

    assert questions[:3] == questions_of(await thread.say(f"/rollback {TURNS - 3}"))
    assert questions == questions_of(await thread.say("/undo"))
