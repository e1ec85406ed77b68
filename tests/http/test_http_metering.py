"""The door to the models over HTTP: the line, circuits, fallbacks, and what calls came to."""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from llmock.pytest_plugin import LLMock
from llmock.scenarios import Fail, Match, Reply, StreamFault

from tests.http.meter import ANSWER as READING
from tests.http.meter import QUESTION as ASKED
from tests.http.meter import read_meter
from tests.http.openai_server import Asked, Calls, OpenAIServer, Said, Script
from tests.http.replies import ANSWER, ANSWERER, QUESTION, answers, bodies, grades
from tests.reading import state_of
from unsay import AsyncConversation, Conversation
from unsay.budget.limits import CircuitPolicy
from unsay.effects import drive
from unsay.errors import CircuitOpenError, ModelUnavailableError
from unsay.graph.builder import build_graph
from unsay.llm.usage_account import load_usage_account

JUDGED = {"judge_model": "judge"}
SPARE = Match(model="spare")


@pytest.fixture
def two_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that fails twice in a row gets no more calls."""
    monkeypatch.setattr("unsay.llm.gateway.POLICY", CircuitPolicy(failures=2))


def answerer() -> ChatOpenAI:
    """The answerer, without the client's own retries."""
    return ChatOpenAI(model="answerer", max_retries=0)


@pytest.mark.usefixtures("two_failures")
def test_a_failing_server_opens_the_circuit_and_the_fallback_answers(
    llmock: LLMock, tmp_path: Path
) -> None:
    """It is asked twice and then skipped; the judge has a separate circuit."""
    llmock.add(grades(0.9, times=None), Reply(text=ANSWER, times=None, match=SPARE))
    llmock.add(Fail(503, times=None, match=ANSWERER))
    settings = {**JUDGED, "fallback_model": "spare"}
    with Conversation.open(tmp_path / "t.db", model=answerer(), settings=settings) as conversation:
        outcomes = [conversation.say(f"{QUESTION} {number}").outcome for number in range(3)]

    assert (["passed"] * 3, 2, 3) == (
        outcomes,
        len(bodies(llmock, "answerer")),
        len(bodies(llmock, "spare")),
    )


@pytest.mark.usefixtures("two_failures")
async def test_without_a_fallback_an_open_circuit_refuses(llmock: LLMock, tmp_path: Path) -> None:
    """The server is spared, and the question is kept."""
    llmock.add(Fail(503, times=None, match=ANSWERER))
    path = tmp_path / "t.db"
    async with AsyncConversation.open(path, model=answerer(), settings=JUDGED) as conversation:
        for _ in range(2):
            with pytest.raises(ModelUnavailableError):
                await conversation.say(QUESTION)
        with pytest.raises(CircuitOpenError, match="fallback_model"):
            await conversation.say(QUESTION)
        assert [("human", QUESTION)] == [(m.type, m.content) for m in await conversation.messages()]
    assert 2 == len(bodies(llmock, "answerer"))


def test_words_of_a_stream_that_broke_are_taken_back(llmock: LLMock, tmp_path: Path) -> None:
    """The user has seen them; the fallback starts over."""
    llmock.add(grades(0.9), Reply(text=ANSWER, match=SPARE))
    llmock.add(answers(), StreamFault("disconnect", after_chunks=3))
    settings = {**JUDGED, "fallback_model": "spare"}
    with Conversation.open(tmp_path / "t.db", model=answerer(), settings=settings) as conversation:
        events = list(conversation.stream(QUESTION))
        transcript = [(message.type, message.content) for message in conversation.messages()]

    (void,) = [event for event in events if event.kind == "draft_rejected"]
    assert {"attempt": 0, "score": None} == {key: void.data[key] for key in ("attempt", "score")}
    by_id = {event.message_id: "" for event in events if event.kind == "token"}
    for event in events:
        if event.kind == "token":
            by_id[event.message_id] += event.text
    struck = by_id.pop(void.message_id)
    assert ANSWER.startswith(struck)
    assert struck
    assert [ANSWER] == list(by_id.values())
    assert [("human", QUESTION), ("ai", ANSWER)] == transcript


def test_the_fallback_knows_the_tools(llmock: LLMock, tmp_path: Path) -> None:
    """It is offered what the answerer is."""
    llmock.add(grades(0.9), Reply(text=READING, match=SPARE), Fail(503, match=ANSWERER))
    settings = {**JUDGED, "fallback_model": "spare"}
    path = tmp_path / "t.db"
    with Conversation.open(
        path, model=answerer(), tools=[read_meter], settings=settings
    ) as conversation:
        assert READING == conversation.say(ASKED).text
    (body,) = bodies(llmock, "spare")
    assert "read_meter" in [tool["function"]["name"] for tool in body["tools"]]


class Crowd:
    """A script that notes how many requests are under way at once."""

    def __init__(self) -> None:
        self.inside = self.most = 0
        self._mutex = threading.Lock()

    def __call__(self, request: Asked) -> Said:
        """An answer, or a verdict, after a moment."""
        with self._mutex:
            self.inside += 1
            self.most = max(self.most, self.inside)
        time.sleep(0.005)
        with self._mutex:
            self.inside -= 1
        return {"score": 0.9, "reason": "It answers."} if request.model == "judge" else ANSWER


@pytest.mark.full
async def test_fifty_turns_stand_in_one_line(serve: Callable[[Script], OpenAIServer]) -> None:
    """Two calls are made at once, across threads; all are answered."""
    crowd = Crowd()
    server = serve(crowd)
    store = InMemoryStore()
    settings = {**JUDGED, "parallel_calls": 2, "session_budget_tokens": 50_000}
    graph = build_graph("answerer", settings=settings, store=store, checkpointer=InMemorySaver())

    async def turn(number: int) -> str:
        state = await graph.ainvoke(
            {"messages": [("user", f"{QUESTION} {number}")]},
            {"configurable": {"thread_id": f"t{number}"}},
        )
        return str(state["messages"][-1].content)

    answers = await asyncio.gather(*(turn(number) for number in range(50)))

    assert [ANSWER] * 50 == answers
    assert (2, 100) == (crowd.most, len(server.asked))
    assert {24} == {
        drive(load_usage_account(store, f"t{n}"))["session"]["tokens"] for n in range(50)
    }


def test_what_servers_report_is_counted_and_priced(
    serve: Callable[[Script], OpenAIServer], tmp_path: Path
) -> None:
    """Each tool step and each verdict, by its own model's price."""

    def script(request: Asked) -> Said:
        if request.model == "judge":
            return {"score": 0.9, "reason": "It answers."}
        is_first = request.body["messages"][-1]["role"] == "user"
        return Calls(name="read_meter", arguments={"city": "Paris"}) if is_first else READING

    serve(script)
    prices = {"answerer": {"input": 1.0, "output": 10.0}, "judge": {"input": 100.0, "output": 0.0}}
    settings = {**JUDGED, "prices": prices, "session_budget_cost": 1.0}
    with Conversation.open(
        tmp_path / "t.db", thread="t", model="answerer", tools=[read_meter], settings=settings
    ) as conversation:
        conversation.say(ASKED)
        account = drive(load_usage_account(conversation.graph.store, "t"))
        usage = state_of(conversation)["spent"]

    assert {"answer", "judge"} == usage.keys()
    assert {"input": 7, "output": 5, "total": 12, "micros": 700} == usage["judge"]
    assert {"input": 14, "output": 10, "total": 24, "micros": 114} == usage["answer"]
    assert (36, 2 * 57 + 700) == (account["session"]["tokens"], account["session"]["micros"])
    assert [] == account["holds"]
