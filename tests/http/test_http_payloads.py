"""What is kept of a request, against what a server of the OpenAI protocol was really posted."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda
from langchain_openai import ChatOpenAI

from tests.http.meter import read_meter
from tests.http.openai_server import Asked, Calls, OpenAIServer, Said, Script
from tests.threads import registry_of
from unsay import AsyncConversation, Conversation
from unsay.effects import drive
from unsay.history.runs import FailedRequest, list_requests

Serve = Callable[[Script], OpenAIServer]
ENGLISH = "How warm is it in Paris, and is it raining there?"
JAPANESE = "京都は今どのくらい暖かいですか？ 🙈"
DRAFTS = {
    ENGLISH: ["Fish, mostly.", "It is 21 degrees in Paris, and it is not raining."],
    JAPANESE: ["魚です。", "京都は二十一度で、雨は降っていません。"],
}


def replies(request: Asked) -> Said:
    """A bad draft and then a good one, after a call where a tool is offered; a strict judge."""
    if request.model == "judge":
        return {
            "score": 0.1 if "Fish" in request.text or "魚" in request.text else 0.9,
            "reason": "魚？",
        }
    if request.body.get("tools") and request.body["messages"][-1]["role"] != "tool":
        return Calls(name="read_meter", arguments={"city": "京都"})
    bad, good = DRAFTS[request.question]
    return good if "魚？" in request.hints else bad


def payload_of(request: Asked) -> dict[str, Any]:
    """A posted body, without how it was streamed."""
    return {k: v for k, v in request.body.items() if k not in ("stream", "stream_options")}


def failed_requests(conversation: Conversation | AsyncConversation) -> list[FailedRequest]:
    """The failed requests that the thread keeps."""
    store = conversation.graph.store
    assert store is not None
    return drive(list_requests(store, conversation.thread_id))


def open_with_judge_model(path: Path, model: Any = "answerer", **options: Any) -> Conversation:
    """A conversation whose judge is a model of the server."""
    settings = {"judge_model": "judge", **options.pop("settings", {})}
    return Conversation.open(path / "t.db", model=model, settings=settings, **options)


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("question", [ENGLISH, JAPANESE], ids=["en", "ja"])
@pytest.mark.parametrize("tools", [(), (read_meter,)], ids=["no-tools", "tools"])
@pytest.mark.parametrize("form", ["say", "stream"])
def test_the_payload_of_a_failed_draft(
    serve: Serve, tmp_path: Path, question: str, tools: Any, form: str
) -> None:
    """It is the last body of the draft, tool steps among it, and so are its messages."""
    server = serve(replies)
    with open_with_judge_model(
        tmp_path, tools=tools, settings={"system_prompt": "短く。"}
    ) as conversation:
        conversation.say(question) if form == "say" else list(conversation.stream(question))
        (request_kept,) = failed_requests(conversation)
        run = registry_of(conversation).runs().runs[0]

    bodies = [payload_of(request) for request in server.asked_of("answerer")]
    # The second attempt is the last body: it begins after the finished tool step of the draft.
    failed, retry = bodies[-2:]
    assert failed == request_kept.payload
    assert (3 if tools else 2) == len(bodies)
    question_and_hint = retry["messages"][1]
    assert "user" == question_and_hint["role"]
    assert "魚？" in question_and_hint["content"]
    assert failed["messages"][2:] == retry["messages"][2:]
    assert ["system", "human", *(["ai", "tool"] if tools else [])] == [
        m.type for m in request_kept.messages
    ]
    assert (question, DRAFTS[question][0], 0.1, "魚？", None) == (
        request_kept.question,
        request_kept.answer,
        request_kept.score,
        request_kept.reason,
        request_kept.error,
    )
    assert (run.run_id, run.turn_id, 1, 1) == (
        request_kept.run_id,
        request_kept.turn_id,
        request_kept.turn,
        request_kept.attempt,
    )


@pytest.mark.parametrize("form", ["say", "stream"])
async def test_the_payload_in_async_code(serve: Serve, tmp_path: Path, form: str) -> None:
    """`AsyncConversation` keeps the same."""
    server = serve(replies)
    async with AsyncConversation.open(
        tmp_path / "t.db",
        model="answerer",
        tools=[read_meter],
        settings={"judge_model": "judge"},
    ) as conversation:
        if form == "say":
            await conversation.say(JAPANESE)
        else:
            [event async for event in conversation.stream(JAPANESE)]
        (request_kept,) = failed_requests(conversation)
    assert payload_of(server.asked_of("answerer")[1]) == request_kept.payload


def test_each_failed_attempt_is_kept_with_its_hints(serve: Serve, tmp_path: Path) -> None:
    """A retry's body has the reasons of the drafts before it, and is kept as it was posted."""
    server = serve(
        lambda request: (
            {"score": 0.1, "reason": "No, 違う."}
            if request.model == "judge"
            else f"Draft {len(request.hints)}, which says enough."
        )
    )
    with open_with_judge_model(tmp_path) as conversation:
        conversation.say(ENGLISH)
        requests_kept = failed_requests(conversation)

    assert [1, 2, 3] == [entry.attempt for entry in requests_kept]
    assert [payload_of(request) for request in server.asked_of("answerer")] == [
        e.payload for e in requests_kept
    ]
    assert [0, 1, 2] == [
        json.dumps(e.payload, ensure_ascii=False).count("違う") for e in requests_kept
    ]


@pytest.mark.parametrize("tools", [(), (read_meter,)], ids=["no-tools", "tools"])
def test_the_payload_of_a_failed_call(serve: Serve, tmp_path: Path, tools: Any) -> None:
    """A model that failed, also after its tools, leaves the body that it failed on."""

    def breaks(request: Asked) -> Said:
        if tools and request.body["messages"][-1]["role"] != "tool":
            return Calls(name="read_meter", arguments={"city": "京都"})
        raise ConnectionResetError("the server falls over")

    server = serve(breaks)
    server._server.handle_error = lambda *_: None  # type: ignore[method-assign]
    model = ChatOpenAI(model="answerer", max_retries=0)
    with open_with_judge_model(tmp_path, model, tools=tools) as conversation:
        with pytest.raises(Exception, match="could not be reached"):
            conversation.say(JAPANESE)
        (request_kept,) = failed_requests(conversation)

    assert payload_of(server.asked_of("answerer")[-1]) == request_kept.payload
    assert ("OpenAIConnectionError", "", None) == (
        request_kept.error,
        request_kept.answer,
        request_kept.score,
    )
    assert "onnection" in request_kept.reason


KEY = "sk-never-to-be-kept"
HEADERS = {"Authorization": f"Bearer {KEY}", "x-api-key": KEY}


@pytest.mark.sample(every=2)
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: "answerer", id="name"),
        pytest.param(lambda: ChatOpenAI(model="m", api_key=KEY), id="key"),
        pytest.param(lambda: ChatOpenAI(model="m", default_headers=HEADERS), id="default-headers"),
        pytest.param(lambda: ChatOpenAI(model="m").bind(extra_headers=HEADERS), id="bound"),
        pytest.param(
            lambda: ChatOpenAI(model="m", model_kwargs={"extra_headers": HEADERS}), id="kwargs"
        ),
        pytest.param(lambda: ChatOpenAI(model="m", default_query={"key": KEY}), id="default-query"),
        pytest.param(
            lambda: RunnableLambda(lambda m: m) | ChatOpenAI(model="m").bind(extra_headers=HEADERS),
            id="in-a-chain",
        ),
        pytest.param(
            lambda: ChatOpenAI(model="m", model_kwargs={"extra_headers": HEADERS}).with_retry(),
            id="with-retry",
        ),
    ],
)
def test_no_secret_is_kept(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[], Any]
) -> None:
    """Neither a key nor a header is in the kept request, or anywhere in the file."""
    serve(replies)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with open_with_judge_model(tmp_path, make()) as conversation:
        conversation.say(JAPANESE)
        (request_kept,) = failed_requests(conversation)
        events = registry_of(conversation).events()
    assert KEY not in json.dumps([request_kept.payload, str(request_kept.messages), str(events)])


@pytest.mark.parametrize(
    ("wrap", "options"),
    [
        pytest.param(lambda m: m, {"temperature": 0.3, "max_tokens": 50}, id="options"),
        pytest.param(lambda m: m.bind(stop=["@@"]), {}, id="bound"),
        pytest.param(lambda m: m.with_config(tags=["a"]), {}, id="configured"),
        pytest.param(lambda m: m, {"extra_body": {"top_k": 4}}, id="extra-body"),
        pytest.param(lambda m: m, {"streaming": True}, id="streaming"),
    ],
)
def test_the_payload_of_a_model_of_the_callers(
    serve: Serve, tmp_path: Path, wrap: Callable[[Any], Any], options: Mapping[str, Any]
) -> None:
    """Its own parameters are in the payload as they were posted."""
    server = serve(replies)
    with open_with_judge_model(
        tmp_path, wrap(ChatOpenAI(model="answerer", **options))
    ) as conversation:
        conversation.say(JAPANESE)
        (request_kept,) = failed_requests(conversation)
    assert payload_of(server.asked_of("answerer")[0]) == request_kept.payload


def test_the_messages_of_a_model_inside_an_agent(serve: Serve, tmp_path: Path) -> None:
    """What an agent puts around the view is in the kept request as it was posted."""
    server = serve(replies)
    agent = RunnableLambda(lambda view: [("system", "Think first."), *view]) | ChatOpenAI(
        model="answerer"
    )
    with open_with_judge_model(tmp_path, agent) as conversation:
        conversation.say(ENGLISH)
        (request_kept,) = failed_requests(conversation)
    first = payload_of(server.asked_of("answerer")[0])
    assert first["messages"] == request_kept.payload["messages"]
    assert (first["model"], "Think first.") == (
        request_kept.payload["model"],
        request_kept.messages[0].text,
    )
