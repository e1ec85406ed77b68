"""Tools over HTTP: the round trip, calls that are broken, and calls without end."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from langchain_core.messages import AnyMessage
from llmock.pytest_plugin import LLMock

from tests.http.meter import ANSWER, QUESTION, asks_the_meter, read_meter
from tests.http.openai_server import Asked, Calls, OpenAIServer, Said, Script
from tests.http.replies import answers, bodies, calls, grades
from unsay import AsyncConversation, Conversation
from unsay.errors import ModelReplyError, ToolStepsError

JUDGED = {"judge_model": "judge"}


def steps(messages: list[AnyMessage]) -> list[tuple[str, str]]:
    """Who said what."""
    return [(message.type, str(message.content)) for message in messages]


ROUND_TRIP = [("human", QUESTION), ("ai", ""), ("tool", "Paris: 21 degrees"), ("ai", ANSWER)]


def test_tool_call_makes_its_round_trip(llmock: LLMock, tmp_path: Path) -> None:
    """The tool is offered, called with the model's arguments, and its result sent back."""
    llmock.add(calls("read_meter", city="Paris"), answers(ANSWER), grades(0.9))
    with Conversation.open(
        tmp_path / "t.db", model="answerer", tools=[read_meter], settings=JUDGED
    ) as conversation:
        conversation.say(QUESTION)
        assert ROUND_TRIP == steps(conversation.messages())
    first, second = bodies(llmock, "answerer")
    tool_names = [tool["function"]["name"] for tool in first["tools"]]
    assert ["read_meter", "read_tool_result", "recall"] == tool_names
    assert ("tool", "Paris: 21 degrees") == (
        second["messages"][-1]["role"],
        second["messages"][-1]["content"],
    )


async def test_tool_call_in_async_code(
    serve: Callable[[Script], OpenAIServer], tmp_path: Path
) -> None:
    """`AsyncConversation` calls the tool just the same."""
    serve(asks_the_meter)
    async with AsyncConversation.open(
        tmp_path / "t.db", model="answerer", tools=[read_meter], settings=JUDGED
    ) as conversation:
        await conversation.say(QUESTION)
        assert ROUND_TRIP == steps(await conversation.messages())


def test_next_turn_sends_the_tool_steps_along(llmock: LLMock, tmp_path: Path) -> None:
    """A later question of the same subject shows the server a valid order of calls and results."""
    llmock.add(calls("read_meter", city="Paris"), answers(ANSWER, times=1), grades(0.9))
    llmock.add(answers("Yesterday it was 19 degrees warm in Paris, and it rained."))
    with Conversation.open(
        tmp_path / "t.db", model="answerer", tools=[read_meter], settings=JUDGED
    ) as conversation:
        conversation.say(QUESTION)
        conversation.say("And how warm was it in Paris yesterday?")
    last = bodies(llmock, "answerer")[-1]["messages"]
    assert ["user", "assistant", "tool", "assistant", "user"] == [m["role"] for m in last]
    assert last[1]["tool_calls"][0]["id"] == last[2]["tool_call_id"]


def test_failed_draft_is_resumed_after_its_tool_step(llmock: LLMock, tmp_path: Path) -> None:
    """The tool does not run again: the second attempt is sent the call and its result."""
    wrong = "In Paris it is cold today, with a strong wind."
    llmock.add(calls("read_meter", city="Paris"), answers(wrong, times=1), answers(ANSWER))
    llmock.add(grades(0.1, "It was 21 degrees.", times=1), grades(0.9))
    with Conversation.open(
        tmp_path / "t.db", model="answerer", tools=[read_meter], settings=JUDGED
    ) as conversation:
        reply = conversation.say(QUESTION)
        assert ROUND_TRIP == steps(conversation.messages())
    assert 1 == reply.rollbacks
    _, failed, retry = (body["messages"] for body in bodies(llmock, "answerer"))
    assert ["user", "assistant", "tool"] == [m["role"] for m in retry]
    assert "It was 21 degrees." in retry[0]["content"]
    assert failed[-2:] == retry[-2:]
    assert retry[1]["tool_calls"][0]["id"] == retry[2]["tool_call_id"]
    assert wrong not in str(retry)


def test_blamed_tool_step_leaves_with_its_draft(
    serve: Callable[[Script], OpenAIServer], tmp_path: Path
) -> None:
    """A step that the judge blames leaves neither call nor result to the second attempt."""

    def script(request: Asked) -> Said:
        if request.model == "judge":
            blamed = re.findall(r"\[id (\S+)\] read_meter\([^)]*Rome", request.question)
            score = 0.1 if blamed else 0.9
            return {"score": score, "reason": "Paris was asked for.", "blamed": blamed}
        if request.body["messages"][-1]["role"] == "tool":
            return ANSWER
        city = "Paris" if "Paris was asked for." in request.hints else "Rome"
        return Calls(name="read_meter", arguments={"city": city})

    server = serve(script)
    with Conversation.open(
        tmp_path / "t.db", model="answerer", tools=[read_meter], settings=JUDGED
    ) as conversation:
        reply = conversation.say(QUESTION)
        assert ROUND_TRIP == steps(conversation.messages())
    assert 1 == reply.rollbacks
    roles = [
        [m["role"] for m in request.body["messages"]] for request in server.asked_of("answerer")
    ]
    assert [0, 1, 0, 1] == [roles_of_call.count("tool") for roles_of_call in roles]


@pytest.mark.parametrize("kind", ["malformed_arguments", "unknown_tool"])
def test_broken_tool_call_is_survived(llmock: LLMock, tmp_path: Path, kind: str) -> None:
    """Arguments that are no JSON, or a tool that was never offered, do not end the turn."""
    llmock.add(calls("read_meter", city="Paris"), answers(ANSWER), grades(0.9))
    llmock.break_tool_call(kind)
    with Conversation.open(
        tmp_path / "t.db", model="answerer", tools=[read_meter], settings=JUDGED
    ) as conversation:
        assert ANSWER == conversation.say(QUESTION).text


def test_calls_without_end_are_stopped(llmock: LLMock, tmp_path: Path) -> None:
    """After `max_tool_steps` the turn fails, and the question is kept."""
    llmock.add(calls("read_meter", city="Paris", times=None))
    settings = {**JUDGED, "max_tool_steps": 2}
    with Conversation.open(
        tmp_path / "t.db", model="answerer", tools=[read_meter], settings=settings
    ) as conversation:
        with pytest.raises(ToolStepsError, match="raise the setting max_tool_steps"):
            conversation.say(QUESTION)
        assert [("human", QUESTION)] == steps(conversation.messages())


def test_call_of_a_tool_that_nobody_gave(llmock: LLMock, tmp_path: Path) -> None:
    """Without tools a tool call is no answer, and the error names it."""
    llmock.add(calls("read_meter", city="Paris"))
    with Conversation.open(tmp_path / "t.db", model="answerer", settings=JUDGED) as conversation:
        with pytest.raises(ModelReplyError, match="read_meter"):
            conversation.say(QUESTION)
        assert [("human", QUESTION)] == steps(conversation.messages())
