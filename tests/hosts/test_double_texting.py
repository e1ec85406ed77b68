"""A user sends a second message while the first is answered, under `langgraph dev`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from llmock.pytest_plugin import LLMock
from llmock.scenarios import Delay

from tests.hosts.test_langgraph_dev import (  # noqa: F401 - fixtures
    GOOD,
    OTHER,
    OTHER_ANSWER,
    QUESTION,
    Thread,
    clean_log,
    client,
    items,
    thread,
    transcript,
)
from tests.http.replies import ANSWERER, answers, grades
from tests.reading import RemovedBranch, branches_in, listed_ids

pytestmark = pytest.mark.full

TURNS = [("human", QUESTION), ("ai", GOOD), ("human", OTHER), ("ai", OTHER_ANSWER)]


@asynccontextmanager
async def first_run(thread: Thread, *, is_read: bool = True) -> AsyncIterator[str]:  # noqa: F811
    """The run of the first question, which is under way, and perhaps read; gives its id."""
    value = {"messages": [{"role": "user", "content": QUESTION}]}
    run = await thread.client.runs.create(
        thread.thread_id, "unsay", input=value, stream_mode="custom", stream_resumable=True
    )
    heard = thread.client.runs.join_stream(thread.thread_id, run["run_id"], stream_mode="custom")
    while (await anext(heard)).event != "custom":
        """Until it plans."""
    await asyncio.sleep(0.3)  # until the model is asked, which no event tells
    if not is_read:
        await heard.aclose()
        await asyncio.sleep(0.3)  # until the server notices
    yield run["run_id"]
    await heard.aclose()


async def branches(thread: Thread) -> list[RemovedBranch]:  # noqa: F811
    """The thread's stored branches."""
    stored = [*await items(thread, "branches"), *await items(thread, "event_log")]
    return branches_in(stored, thread.thread_id)


async def text_again(thread: Thread, strategy: Any) -> dict[str, Any]:  # noqa: F811
    """Send the second message with a strategy, and return the state after it."""
    return await thread.say(OTHER, multitask_strategy=strategy)


async def test_enqueued_message_is_answered_second(thread: Thread, llmock: LLMock) -> None:  # noqa: F811
    """With `enqueue` both questions are answered, in their order."""
    llmock.add(Delay(2.0, match=ANSWERER, times=1))
    llmock.add(answers(GOOD, times=1), answers(OTHER_ANSWER, times=1), grades(0.9))
    async with first_run(thread):
        assert TURNS == transcript(await text_again(thread, "enqueue"))


async def test_rejected_message_leaves_the_first_alone(thread: Thread, llmock: LLMock) -> None:  # noqa: F811
    """With `reject` the second message is refused, and the first question is answered."""
    llmock.add(Delay(2.0, match=ANSWERER, times=1))
    llmock.add(answers(GOOD, times=1), answers(OTHER_ANSWER, times=1), grades(0.9))
    async with first_run(thread) as run_id:
        with pytest.raises(httpx.HTTPStatusError, match="409"):
            await text_again(thread, "reject")
        await thread.client.runs.join(thread.thread_id, run_id)
    assert TURNS[:2] == transcript(await thread.state())


async def test_interrupted_question_stays_in_the_transcript(
    thread: Thread,  # noqa: F811
    llmock: LLMock,
) -> None:
    """With `interrupt` the first question stays, and the model is sent both."""
    llmock.add(Delay(4.0, match=ANSWERER, times=1))
    llmock.add(answers(OTHER_ANSWER), grades(0.9))
    async with first_run(thread):
        state = await text_again(thread, "interrupt")
    assert [TURNS[0], *TURNS[2:]] == transcript(state)
    assert [TURNS[0], *TURNS[2:]] == transcript(await thread.state())
    assert [] == listed_ids(state)


@pytest.mark.parametrize("earlier", ["", "And a spider?"], ids=["first turn", "later turn"])
@pytest.mark.parametrize("reader", ["", "read"], ids=["nobody reads", "read"])
async def test_question_that_langgraph_deletes_is_a_branch(
    thread: Thread,  # noqa: F811
    llmock: LLMock,
    reader: str,
    earlier: str,
) -> None:
    """With `rollback` the first question leaves the transcript, and is kept as a branch.

    If nobody reads its run, the server deletes the run's states before it stops the run.
    """
    before: list[tuple[str, str]] = []
    if earlier:
        llmock.add(answers(GOOD, times=1), grades(0.9, times=1))
        before = transcript(await thread.say(earlier))
    llmock.add(Delay(4.0, match=ANSWERER, times=1))
    llmock.add(answers(OTHER_ANSWER), grades(0.9))
    async with first_run(thread, is_read=bool(reader)):
        state = await text_again(thread, "rollback")
    assert [*before, *TURNS[2:]] == transcript(state)
    assert [*before, *TURNS[2:]] == transcript(await thread.state())
    (branch,) = await branches(thread)
    assert [QUESTION] == [message.content for message in branch.messages]


@pytest.mark.parametrize("strategy", ["rollback", "interrupt", "cancel", "delete"])
async def test_question_of_a_queued_run_is_a_branch(
    thread: Thread,  # noqa: F811
    llmock: LLMock,
    strategy: str,
) -> None:
    """A run that the server stops or deletes before it began leaves its question as a branch."""
    llmock.add(Delay(3.0, match=ANSWERER, times=1))
    llmock.add(answers(OTHER_ANSWER), grades(0.9))
    value = {"messages": [{"role": "user", "content": "And in the queue?"}]}
    runs = thread.client.runs
    name = thread.thread_id
    async with first_run(thread) as first:
        queued_run = await runs.create(name, "unsay", input=value, multitask_strategy="enqueue")
        if strategy == "cancel":
            await runs.cancel(name, queued_run["run_id"], action="rollback")
        elif strategy == "delete":
            await runs.delete(name, queued_run["run_id"])
        if strategy in ("cancel", "delete"):
            await runs.join(name, first)
            state = await thread.say(OTHER)
        else:
            state = await text_again(thread, strategy)
    assert "And in the queue?" not in [text for _, text in transcript(state)]
    texts = [m.content for branch in await branches(thread) for m in branch.messages]
    assert "And in the queue?" in texts


async def test_question_that_stays_in_the_queue_is_answered_only(
    thread: Thread,  # noqa: F811
    llmock: LLMock,
) -> None:
    """Deleting another queued run leaves it alone, and no branch has it."""
    llmock.add(Delay(3.0, match=ANSWERER, times=1))
    llmock.add(answers(OTHER_ANSWER), grades(0.9))
    runs = thread.client.runs
    name = thread.thread_id
    async with first_run(thread):
        runs_created = [
            await runs.create(
                name, "unsay", input={"messages": [{"role": "user", "content": text}]}
            )
            for text in ("Deleted?", "Answered?")
        ]
        await runs.delete(name, runs_created[0]["run_id"])
        await runs.join(name, runs_created[1]["run_id"])
    assert "Answered?" in [text for _, text in transcript(await thread.state())]
    texts = [m.content for branch in await branches(thread) for m in branch.messages]
    assert ["Deleted?"] == texts


async def test_a_turn_makes_two_states_on_a_server(thread: Thread, llmock: LLMock) -> None:  # noqa: F811
    """The newest 10 states hold the parents of the newest four turns; an edit from there works."""
    llmock.add(answers(GOOD), grades(0.9))
    for number in range(5):
        await thread.say(f"{QUESTION} ({number})")
    states = await thread.client.threads.get_history(thread.thread_id, limit=100)
    assert 10 == len(states)
    history = await thread.client.threads.get_history(thread.thread_id, limit=10)
    ids = {state["checkpoint"]["checkpoint_id"] for state in history}
    first = [s for s in states if f"{QUESTION} (1)" in str(s["values"])][-1]
    assert first["parent_checkpoint"]["checkpoint_id"] in ids
    state = await thread.say("How many has an ant?", checkpoint=first["parent_checkpoint"])
    assert [QUESTION + " (0)", "How many has an ant?"] == [
        text for role, text in transcript(state) if role == "human"
    ]
    (branch,) = [branch for branch in await branches(thread) if branch.kind == "host"]
    assert 8 == len(branch.messages)


async def test_a_regenerated_answer_on_a_server(thread: Thread, llmock: LLMock) -> None:  # noqa: F811
    """A run without input from the state before an answer answers the question again."""
    llmock.add(answers(GOOD, times=1), answers(OTHER_ANSWER), grades(0.9))
    await thread.say(QUESTION)
    states = await thread.client.threads.get_history(thread.thread_id)
    state = await thread.run(None, checkpoint=states[0]["parent_checkpoint"])
    assert [("human", QUESTION), ("ai", OTHER_ANSWER)] == transcript(state)
    (branch,) = await branches(thread)
    assert [GOOD] == [message.content for message in branch.messages]
