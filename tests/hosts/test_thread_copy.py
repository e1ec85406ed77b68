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


def asked(state: Any) -> list[str]:
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
    assert len(asked(before)) < TURNS
    copied = await thread.client.threads.copy(thread.thread_id)
    copy = Thread(thread.client, copied["thread_id"])

    rolled = await copy.say(f"/rollback {TURNS - 2}")
    assert questions[:2] == asked(rolled)
    restored = await copy.say("/undo")
    assert questions == asked(restored)
    await copy.say("And spiders?")
    await thread.client.threads.delete(thread.thread_id)
    rolled = await copy.say(f"/rollback {TURNS}")
    assert questions[:1] == asked(rolled)
    assert [*questions, "And spiders?"] == asked(await copy.say("/undo"))


async def test_a_copy_leaves_the_original_alone(thread: Thread, llmock: LLMock) -> None:  # noqa: F811
    """What the copy rolls back, and what its deletion purges, the original still has."""
    for number in range(TURNS):
        llmock.add(answers(f"Answer {number} is about ants, bees and wasps.", times=1))
    llmock.add(answers("Spiders are no insects."), grades(0.9))
    questions = [f"Question {number} about insects?" for number in range(TURNS)]
    for question in questions:
        await thread.say(question)
    copied = await thread.client.threads.copy(thread.thread_id)
    copy = Thread(thread.client, copied["thread_id"])
    await copy.say(f"/rollback {TURNS - 1}")
    await thread.client.threads.delete(copy.thread_id)

    assert questions[:3] == asked(await thread.say(f"/rollback {TURNS - 3}"))
    assert questions == asked(await thread.say("/undo"))
