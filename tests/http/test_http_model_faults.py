"""A model that fails over HTTP: the person's message, and that nothing is lost or doubled."""

import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from httpx import AsyncClient
from langchain.agents import create_agent
from langchain_core.exceptions import ContextOverflowError as LangChainContextOverflowError
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from llmock.pytest_plugin import LLMock
from llmock.scenarios import Delay, Fail, Reply, StreamFault

from tests.http.replies import ANSWER, ANSWERER, QUESTION, answers, bodies, grades
from unsay import AsyncConversation, Conversation
from unsay.errors import (
    ContextOverflowError,
    EmptyAnswerError,
    ModelError,
    ModelRefusedError,
    ModelReplyError,
    ModelUnavailableError,
)
from unsay.graph.builder import build_graph

JUDGED = {"judge_model": "judge"}
OVERFLOW = "context_length_exceeded"
FAULTS = [
    pytest.param(Fail(408, match=ANSWERER), ModelUnavailableError, id="408"),
    pytest.param(Fail(429, match=ANSWERER), ModelUnavailableError, id="429"),
    pytest.param(Fail(500, match=ANSWERER), ModelUnavailableError, id="500"),
    pytest.param(Fail(503, match=ANSWERER), ModelUnavailableError, id="503"),
    pytest.param(Fail(400, match=ANSWERER), ModelRefusedError, id="400"),
    pytest.param(Fail(401, match=ANSWERER), ModelRefusedError, id="401"),
    pytest.param(Fail(403, match=ANSWERER), ModelRefusedError, id="403"),
    pytest.param(Fail(404, match=ANSWERER), ModelRefusedError, id="404"),
    pytest.param(Fail(400, code=OVERFLOW, match=ANSWERER), ContextOverflowError, id="overflow"),
    pytest.param(
        Fail(400, message="the request exceeds the available context size", match=ANSWERER),
        ContextOverflowError,
        id="llama.cpp-overflow",
    ),
]


def model(**options: object) -> ChatOpenAI:
    """The answerer, without the client's own retries where they are not the point."""
    return ChatOpenAI(model="answerer", **{"max_retries": 0, **options})


def transcript(conversation: Conversation) -> list[tuple[str, str]]:
    """Who said what."""
    return [(message.type, str(message.content)) for message in conversation.messages()]


@pytest.mark.sample(every=2)
@pytest.mark.parametrize(("fault", "error_type"), FAULTS)
def test_fault_has_its_error_and_the_question_is_kept(
    llmock: LLMock, tmp_path: Path, fault: Fail, error_type: type[ModelError]
) -> None:
    """The error says who must act, and the same words said again give one question, one answer."""
    llmock.add(answers(), grades(0.9), fault)
    with Conversation.open(tmp_path / "t.db", model=model(), settings=JUDGED) as conversation:
        with pytest.raises(error_type):
            conversation.say(QUESTION)
        assert [("human", QUESTION)] == transcript(conversation)
        reply = conversation.say(QUESTION)
        assert [("human", QUESTION), ("ai", ANSWER)] == transcript(conversation)
    assert (ANSWER, 0.9) == (reply.text, reply.score)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize(("fault", "error_type"), FAULTS)
async def test_fault_in_async_code_is_survived_by_a_restart(
    llmock: LLMock, tmp_path: Path, fault: Fail, error_type: type[ModelError]
) -> None:
    """After `AsyncConversation` failed, the file opened again still has the question once."""
    llmock.add(answers(), grades(0.9), fault)
    async with (
        AsyncClient() as client,
        AsyncConversation.open(
            tmp_path / "t.db",
            thread="t",
            model=model(http_async_client=client),
            settings=JUDGED,
        ) as first,
    ):
        with pytest.raises(error_type):
            await first.say(QUESTION)
    with Conversation.open(
        tmp_path / "t.db", thread="t", model=model(), settings=JUDGED
    ) as conversation:
        conversation.say(QUESTION)
        assert [("human", QUESTION), ("ai", ANSWER)] == transcript(conversation)


def test_other_words_after_a_fault_set_the_question_aside(llmock: LLMock, tmp_path: Path) -> None:
    """Something else said after an error is answered alone, and an undo finds no answer twice."""
    llmock.add(answers(), grades(0.9), Fail(503, match=ANSWERER))
    other_question = "How many legs does an insect have?"
    with Conversation.open(tmp_path / "t.db", model=model(), settings=JUDGED) as conversation:
        with pytest.raises(ModelUnavailableError):
            conversation.say(QUESTION)
        conversation.say(other_question)
        assert [("human", other_question), ("ai", ANSWER)] == transcript(conversation)


def test_rate_limit_is_waited_out_by_the_client(llmock: LLMock, tmp_path: Path) -> None:
    """A 429 with Retry-After costs one more request, and the answer arrives."""
    llmock.add(answers(), grades(0.9), Fail(429, retry_after=0.05, match=ANSWERER))
    with Conversation.open(tmp_path / "t.db", model="answerer", settings=JUDGED) as conversation:
        assert ANSWER == conversation.say(QUESTION).text
    assert 2 == len(bodies(llmock, "answerer"))
    llmock.assert_resilient()


@pytest.mark.parametrize("streams", [False, True], ids=["said", "streamed"])
def test_exhausted_quota_is_not_asked_again(
    llmock: LLMock, tmp_path: Path, *, streams: bool
) -> None:
    """One request, although the client retries other 429s, and the error names the quota."""
    fault = Fail(429, code="insufficient_quota", retry_after=9, times=None, match=ANSWERER)
    llmock.add(fault)
    with Conversation.open(tmp_path / "t.db", model="answerer", settings=JUDGED) as conversation:
        with pytest.raises(ModelUnavailableError, match="insufficient_quota"):
            _ = list(conversation.stream(QUESTION)) if streams else conversation.say(QUESTION)
        assert [("human", QUESTION)] == transcript(conversation)
    assert 1 == len(bodies(llmock, "answerer"))


async def test_exhausted_quota_is_not_asked_again_on_an_event_loop(
    llmock: LLMock, tmp_path: Path
) -> None:
    """The awaiting client has the same rule."""
    llmock.add(Fail(429, code="insufficient_quota", retry_after=9, times=None, match=ANSWERER))
    async with AsyncConversation.open(tmp_path / "t.db", model="answerer") as conversation:
        with pytest.raises(ModelUnavailableError, match="insufficient_quota"):
            await conversation.say(QUESTION)
    assert 1 == len(bodies(llmock, "answerer"))


def test_server_that_fails_for_ever_is_given_up(llmock: LLMock, tmp_path: Path) -> None:
    """The client's own retries end, and the person learns that the question is kept."""
    llmock.add(Fail(500, times=None, match=ANSWERER))
    with Conversation.open(tmp_path / "t.db", model="answerer", settings=JUDGED) as conversation:
        with pytest.raises(ModelUnavailableError, match="The question is kept"):
            conversation.say(QUESTION)
        assert 3 == len(bodies(llmock, "answerer"))
        llmock.reset().add(answers(), grades(0.9))
        conversation.say(QUESTION)
        assert [("human", QUESTION), ("ai", ANSWER)] == transcript(conversation)


def test_silent_model_is_given_up_in_time(llmock: LLMock, tmp_path: Path) -> None:
    """`model_timeout_seconds` bounds each request of a model that unsay made from a name."""
    llmock.add(Delay(3.0, times=3, match=ANSWERER), answers(), grades(0.9))
    settings = {**JUDGED, "model_timeout_seconds": 0.2}
    with Conversation.open(tmp_path / "t.db", model="answerer", settings=settings) as conversation:
        with pytest.raises(ModelUnavailableError, match="imeout"):
            conversation.say(QUESTION)
        conversation.say(QUESTION)
        assert [("human", QUESTION), ("ai", ANSWER)] == transcript(conversation)


def test_nobody_listens_there(llmock: LLMock, tmp_path: Path) -> None:
    """A refused connection is a model that could not be reached."""
    del llmock
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    silent = model(base_url=f"http://127.0.0.1:{port}/v1")
    with Conversation.open(tmp_path / "t.db", model=silent, judge="judge") as conversation:
        with pytest.raises(ModelUnavailableError):
            conversation.say(QUESTION)
        assert [("human", QUESTION)] == transcript(conversation)


PAGES = [
    pytest.param("text/html", b"<html>A page for people</html>", id="a page"),
    pytest.param("application/json", b'{"status": "ok"}', id="another interface"),
]


@pytest.mark.parametrize(("kind", "body"), PAGES)
def test_a_wrong_address_is_no_bug_of_the_caller(tmp_path: Path, kind: str, body: bytes) -> None:
    """A server that answers 200 with something else: the error names OPENAI_BASE_URL."""

    class Page(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        page = model(base_url=address, api_key="x")
        with Conversation.open(tmp_path / "t.db", model=page, judge="judge") as conversation:
            with pytest.raises(ModelReplyError, match="Check that OPENAI_BASE_URL is the address"):
                conversation.say(QUESTION)
            assert [("human", QUESTION)] == transcript(conversation)
        server.shutdown()


BREAKS = [
    pytest.param("disconnect", ModelUnavailableError, id="disconnect"),
    pytest.param("truncate", ModelUnavailableError, id="no end, which no client reports"),
    pytest.param("malformed", ModelReplyError, id="malformed"),
]


@pytest.mark.parametrize(("kind", "error_type"), BREAKS)
def test_broken_stream_loses_nothing(
    llmock: LLMock, tmp_path: Path, kind: str, error_type: type[ModelError]
) -> None:
    """Half an answer never enters the transcript; the same words said again are answered whole."""
    fault = StreamFault(kind, after_chunks=3)  # type: ignore[arg-type]
    llmock.add(answers(), grades(0.9), fault)
    with Conversation.open(tmp_path / "t.db", model=model(), settings=JUDGED) as conversation:
        with pytest.raises(error_type):
            list(conversation.stream(QUESTION))
        assert [("human", QUESTION)] == transcript(conversation)
        assert ANSWER == list(conversation.stream(QUESTION))[-1].text
        assert [("human", QUESTION), ("ai", ANSWER)] == transcript(conversation)


@pytest.mark.parametrize("kind", ["model", "agent"])
def test_broken_stream_of_a_host_s_run_is_no_answer(llmock: LLMock, kind: str) -> None:
    """The run of a compiled graph fails, also with an agent as its model; the next run answers."""
    llmock.add(answers(), grades(0.9), StreamFault("truncate", after_chunks=5))
    answerer: Any = model() if kind == "model" else create_agent(model())
    graph = build_graph(answerer, settings=JUDGED, checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "t"}}
    turn_input = {"messages": [HumanMessage(QUESTION, id="q")]}
    with pytest.raises(ModelUnavailableError, match="broke off"):
        list(graph.stream(turn_input, thread, stream_mode="messages"))
    assert ["human"] == [m.type for m in graph.get_state(thread).values["messages"]]
    assert ANSWER == graph.invoke(turn_input, thread)["messages"][-1].content


def test_answer_at_its_length_limit_is_taken_back(llmock: LLMock, tmp_path: Path) -> None:
    """What the provider cut off is not delivered while another draft is whole."""
    branch = Reply(text="A spider has eight legs, and", finish_reason="length", match=ANSWERER)
    llmock.add(branch, answers(), grades(0.9))
    with Conversation.open(tmp_path / "t.db", model=model(), settings=JUDGED) as conversation:
        reply = conversation.say(QUESTION)
    assert (ANSWER, 1) == (reply.text, reply.rollbacks)


def test_empty_answers_are_no_answer(llmock: LLMock, tmp_path: Path) -> None:
    """A model that returns nothing three times ends the turn, and the question is kept."""
    llmock.add(answers("", times=3), answers(), grades(0.9))
    with Conversation.open(tmp_path / "t.db", model=model(), settings=JUDGED) as conversation:
        with pytest.raises(EmptyAnswerError, match="3 attempts"):
            conversation.say(QUESTION)
        conversation.say(QUESTION)
        assert [("human", QUESTION), ("ai", ANSWER)] == transcript(conversation)


def test_window_of_the_server_is_respected(llmock: LLMock, tmp_path: Path) -> None:
    """A conversation that outgrows a real window fails as overflow, and a new topic still fits."""
    llmock.limits(context_window=200).add(answers(), grades(0.9))
    long = QUESTION + " Consider this page of a zoology book." * 40
    with Conversation.open(tmp_path / "t.db", model=model(), settings=JUDGED) as conversation:
        with pytest.raises(ContextOverflowError, match="start a new thread"):
            conversation.say(long)
        conversation.say(QUESTION)
        assert [("human", QUESTION), ("ai", ANSWER)] == transcript(conversation)


def test_langchain_does_not_recognize_the_overflow_by_its_code(llmock: LLMock) -> None:
    """Why we look at the code: LangChain's own class does not catch `context_length_exceeded`."""
    llmock.add(Fail(400, code=OVERFLOW, match=ANSWERER))
    with pytest.raises(Exception, match="400") as caught:
        model().invoke(QUESTION)
    assert OVERFLOW == getattr(caught.value, "code", None)
    assert not isinstance(caught.value, LangChainContextOverflowError)
