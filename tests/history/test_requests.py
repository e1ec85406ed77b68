"""Requests as they are noted, made into a body, kept and read again."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_openai import ChatOpenAI
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from tests.events.events_kit import SAMPLES, as_stored, messages
from unsay.effects import adrive, drive
from unsay.generation.context_builder import UNKEPT, RequestRecorder, payload_of
from unsay.history.runs import (
    MOST_KEPT,
    FailedRequest,
    keep_request,
    list_requests,
    requests_namespace,
)
from unsay.storage.sqlite import open_database
from unsay.testing import ScriptedChat
from unsay.tracing import ASIDE

SENT = [SystemMessage("Be brief."), HumanMessage("How warm is it in 京都?", id="q1")]
BODY = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "How warm is it in 京都?"},
]
KEPT = FailedRequest(
    run_id="r1",
    turn_id="q1",
    turn=1,
    attempt=1,
    at="2026-01-01T00:00:00.000+00:00",
    messages=SENT,
    payload={"model": "m", "messages": BODY},
    question="How warm is it in 京都?",
    answer="Nine.",
    score=0.1,
    reason="Thin.",
    error=None,
)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseStore]:
    """Each kind of store."""
    if request.param == "memory":
        yield InMemoryStore()
        return
    database = open_database(tmp_path / "t.db")
    yield database.store
    database.close()


def keep(store: BaseStore, *requests: FailedRequest, thread: str = "t") -> None:
    """Keep some requests."""
    for item in requests:
        drive(keep_request(store, thread, item))


def change_request(**changes: Any) -> FailedRequest:
    """The request with some fields of another one."""
    names = FailedRequest.__dataclass_fields__
    return FailedRequest(**{**{name: getattr(KEPT, name) for name in names}, **changes})


def test_a_kept_request_comes_back_whole(store: BaseStore) -> None:
    """Every field, kind of message and half surrogate pair is unchanged."""
    requests = change_request(messages=SAMPLES, payload={"a": [1, 2.5, None, {"b": "花\ud800"}]})
    keep(store, requests)

    (request,) = drive(list_requests(store, "t"))

    assert as_stored(SAMPLES) == as_stored(request.messages)
    assert [type(sample) for sample in SAMPLES] == [type(message) for message in request.messages]
    assert change_request(messages=()) == FailedRequest(
        **{
            name: getattr(request, name)
            for name in FailedRequest.__dataclass_fields__
            if name not in ("messages", "payload")
        },
        messages=(),
        payload=KEPT.payload,
    )


@given(st.lists(messages(), max_size=4))
def test_any_messages_come_back(sent: list[BaseMessage]) -> None:
    """Every request is stored byte for byte."""
    store = InMemoryStore()
    keep(store, change_request(messages=sent))
    assert as_stored(sent) == as_stored(drive(list_requests(store, "t"))[0].messages)


async def test_they_are_kept_and_read_on_an_event_loop(store: BaseStore) -> None:
    """The other form of each call does the same."""
    await adrive(keep_request(store, "t", KEPT))
    assert drive(list_requests(store, "t")) == await adrive(list_requests(store, "t"))


def test_requests_are_listed_oldest_first(store: BaseStore) -> None:
    """By time, then by attempt, for any keys."""
    next_day = "2026-01-02T00:00:00.000+00:00"
    keep(
        store,
        change_request(turn_id="a", at=next_day, attempt=2),
        change_request(turn_id="a", at=next_day),
    )
    keep(store, change_request(turn_id="z"))

    requests = drive(list_requests(store, "t"))

    assert [("z", 1), ("a", 1), ("a", 2)] == [
        (request.turn_id, request.attempt) for request in requests
    ]


def test_the_same_attempt_replaces_its_own(store: BaseStore) -> None:
    """An attempt that failed twice is one line, the newer one."""
    keep(store, change_request(error="ConnectionError"), change_request(answer="Ten."))
    assert ["Ten."] == [request.answer for request in drive(list_requests(store, "t"))]


def test_only_the_newest_are_kept(store: BaseStore) -> None:
    """A thread does not fill up with what failed long ago."""
    moments = [f"2026-11-21T10:{number:02}:00+00:00" for number in range(MOST_KEPT + 4)]
    keep(store, *(change_request(turn_id=f"q{n}", at=number) for n, number in enumerate(moments)))
    assert moments[4:] == [request.at for request in drive(list_requests(store, "t"))]


def test_a_request_of_a_slow_clock_is_kept(store: BaseStore) -> None:
    """The newest is kept, even if the clock was ahead when the others failed."""
    moments = [f"2026-11-21T10:{number:02}:00+00:00" for number in range(MOST_KEPT)]
    keep(store, *(change_request(turn_id=f"q{n}", at=number) for n, number in enumerate(moments)))
    keep(store, change_request(turn_id="new", at="2026-11-21T09:00:00+00:00"))
    requests = drive(list_requests(store, "t"))
    assert ["new", *(f"q{n}" for n in range(1, MOST_KEPT))] == [
        request.turn_id for request in requests
    ]


@pytest.mark.parametrize("other_id", ["t2", "t.t", "t%", "T", "t/"])
def test_threads_do_not_mix(store: BaseStore, other_id: str) -> None:
    """A thread whose id begins with, or looks like, another's sees its own requests alone."""
    keep(store, KEPT)
    assert requests_namespace("t") != requests_namespace(other_id)
    assert [] == drive(list_requests(store, other_id))


def test_a_recorder_that_saw_nothing_has_the_context() -> None:
    """For a function in place of a model the request is the view."""
    recorder = RequestRecorder()
    recorder.begin(SENT)
    assert (SENT, SENT, {}) == (recorder.context, recorder.sent, recorder.params)


def test_a_witness_sees_the_newest_request_inside_a_chain() -> None:
    """What an agent puts around the view is noted as it leaves."""
    recorder = RequestRecorder()
    recorder.begin(SENT)
    chat = ScriptedChat(default="Nine.")
    chain = RunnableLambda(lambda messages: [SystemMessage("Think."), *messages]) | chat

    chain.invoke(SENT[1:], {"callbacks": [recorder]})
    chain.invoke([HumanMessage("Warm?")], {"callbacks": [recorder]})

    assert ["Think.", "Warm?"] == [message.text for message in recorder.sent]
    assert chat.calls[-1] == list(recorder.sent)
    assert SENT == recorder.context


async def test_a_witness_hears_on_an_event_loop() -> None:
    """Awaited and streamed calls are noted too, before the call returns."""
    recorder = RequestRecorder()
    async for _ in ScriptedChat(default="Nine.").astream(SENT, {"callbacks": [recorder]}):
        assert SENT == list(recorder.sent)


def test_a_witness_does_not_hear_what_is_asked_aside() -> None:
    """Judges, summaries and titles below the call are no request of the answer."""
    recorder = RequestRecorder()
    recorder.begin(SENT)
    aside: Any = {"callbacks": [recorder], "tags": [ASIDE]}
    ScriptedChat(default="0.9").invoke("Grade this.", aside)
    assert SENT == list(recorder.sent)


@pytest.mark.parametrize("name", sorted(UNKEPT))
def test_parameters_that_may_hold_a_secret_are_not_noted(name: str) -> None:
    """Keys, headers and clients never leave the call."""
    recorder = RequestRecorder()
    recorder.on_chat_model_start(
        {}, [SENT], invocation_params={name: "SECRET", "temperature": 0.5, "client": object()}
    )
    assert {"temperature": 0.5} == recorder.params
    assert {"temperature": 0.5, "messages": BODY} == payload_of(None, SENT, recorder.params)


def openai(**options: Any) -> ChatOpenAI:
    """A client that is never called."""
    return ChatOpenAI(model="m", api_key="sk-SECRET", base_url="http://127.0.0.1:9", **options)


TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


@pytest.mark.parametrize(
    ("model", "options"),
    [
        pytest.param(openai(), {}, id="plain"),
        pytest.param(
            openai(temperature=0.5, max_tokens=9),
            {"temperature": 0.5, "max_completion_tokens": 9},
            id="options",
        ),
        pytest.param(openai(streaming=True, stream_usage=True), {}, id="streaming"),
        pytest.param(openai().bind(stop=["."]), {"stop": ["."]}, id="bound"),
        pytest.param(openai().bind_tools([TOOL]), {"tools": [TOOL]}, id="tools"),
        pytest.param(openai(extra_body={"top_k": 4}), {"top_k": 4}, id="extra-body"),
        pytest.param(openai(default_headers={"x": "SECRET"}), {}, id="default-headers"),
        pytest.param(openai().bind(extra_headers={"x": "SECRET"}), {}, id="bound-headers"),
        pytest.param(openai(model_kwargs={"extra_headers": {"x": "SECRET"}}), {}, id="headers"),
        pytest.param(openai(model_kwargs={"extra_query": {"x": "SECRET"}}), {}, id="query"),
        pytest.param(openai().with_config(tags=["a"]), {}, id="configured"),
    ],
)
def test_the_body_of_an_openai_model(model: Any, options: dict[str, Any]) -> None:
    """It is what the client would post, without how it is streamed, and holds no secret."""
    body = payload_of(model, SENT, {})
    assert {"model": "m", "messages": BODY, **options} == body
    assert "SECRET" not in json.dumps(body)


def test_the_body_of_another_model_is_written_in_the_same_form() -> None:
    """Calls and results of tools stand in it as the OpenAI protocol has them."""
    steps = [
        AIMessage("", tool_calls=[{"name": "look", "args": {"city": "京都"}, "id": "c1"}]),
        ToolMessage("9", tool_call_id="c1"),
    ]
    body = payload_of(ScriptedChat(), [*SENT, *steps], {"model_name": "scripted", "_type": "x"})
    call, result = body["messages"][2:]
    assert ("scripted", BODY) == (body["model_name"], body["messages"][:2])
    assert {"city": "京都"} == json.loads(call["tool_calls"][0]["function"]["arguments"])
    assert ("tool", "c1", "9") == (result["role"], result["tool_call_id"], result["content"])
