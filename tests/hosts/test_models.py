"""Models as hosts give them: names with a provider, and LangChain's wrappers around a model."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult
from langchain_core.runnables import ConfigurableField, Runnable
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from tests.graph.kit import config, make
from tests.http.conftest import serve  # noqa: F401 - a fixture
from tests.http.openai_server import Asked, OpenAIServer
from unsay import AsyncConversation, Conversation
from unsay.errors import ConfigurationError, MissingModelError
from unsay.graph.builder import build_graph
from unsay.models.factory import resolve_model
from unsay.settings.settings import load_settings
from unsay.testing import ScriptedChat, ScriptedJudge, ToolCalls

Serve = Callable[[Callable[[Asked], Any]], OpenAIServer]
SPIDER = {"name": "count_legs", "args": {"animal": "spider"}}
ASK = {"messages": [("user", "How many legs does a spider have?")]}


def count_legs(animal: str) -> str:
    """Count the legs of an animal."""
    return f"{animal}: 8"


class Fails(ScriptedChat):
    """A model that is down."""

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        raise ConnectionError("down")


def with_retry(model: Any) -> Runnable[Any, Any]:
    """A model that is asked again after an error."""
    runnable: Runnable[Any, Any] = model.with_retry(stop_after_attempt=2)
    return runnable


def with_fallbacks(model: Any) -> Runnable[Any, Any]:
    """A model that answers where another fails."""
    runnable: Runnable[Any, Any] = Fails().with_fallbacks([model])
    return runnable


def with_config(model: Any) -> Runnable[Any, Any]:
    """A model with a tag for traces."""
    runnable: Runnable[Any, Any] = model.with_config(tags=["mine"])
    return runnable


def with_arguments(model: Any) -> Runnable[Any, Any]:
    """A model with an argument of each request."""
    runnable: Runnable[Any, Any] = model.bind(stop=["\n\n\n"])
    return runnable


def with_alternatives(model: Any) -> Runnable[Any, Any]:
    """A model that a run's configuration may replace."""
    runnable: Runnable[Any, Any] = model.configurable_alternatives(
        ConfigurableField(id="llm"), down=Fails()
    )
    return runnable


def with_fields(model: Any) -> Runnable[Any, Any]:
    """A model of which a run's configuration may change a field."""
    runnable: Runnable[Any, Any] = model.configurable_fields(name=ConfigurableField(id="called"))
    return runnable


def with_all(model: Any) -> Runnable[Any, Any]:
    """A model in several wrappers."""
    return with_config(with_retry(with_fallbacks(with_config(model))))


WRAPPERS = [
    with_retry,
    with_fallbacks,
    with_config,
    with_arguments,
    with_alternatives,
    with_fields,
    with_all,
]


@pytest.mark.parametrize("wrap", WRAPPERS, ids=lambda wrap: wrap.__name__)
async def test_a_wrapped_model_calls_tools_and_judges(wrap: Callable[[Any], Any]) -> None:
    """Tools are bound to the model inside the wrapper, and the wrapped judge gives its score."""
    call = ToolCalls(calls=[SPIDER], then="It has 8 legs.")
    for is_async in (False, True):
        model = wrap(ScriptedChat(default=call))
        graph = make(model, judge=wrap(ScriptedJudge(default=0.7)), tools=[count_legs])
        run = config()
        state = await graph.ainvoke(ASK, run) if is_async else graph.invoke(ASK, run)
        expected = ["human", "ai", "tool", "ai"], "It has 8 legs.", 0.7
        types = [message.type for message in state["messages"]]
        assert expected == (types, state["messages"][-1].content, state["quality_score"])


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("wrap", WRAPPERS, ids=lambda wrap: wrap.__name__)
async def test_a_wrapped_model_answers_a_conversation(wrap: Callable[[Any], Any]) -> None:
    """The same through `Conversation` and `AsyncConversation`."""
    call = ToolCalls(calls=[SPIDER], then="It has 8 legs.")

    def options() -> dict[str, Any]:
        judge = wrap(ScriptedJudge(default=0.7))
        model = wrap(ScriptedChat(default=call))
        return {"thread": "t", "model": model, "judge": judge, "tools": [count_legs]}

    with Conversation.open(":memory:", **options()) as conversation:
        reply = conversation.say("How many legs does a spider have?")
    async with AsyncConversation.open(":memory:", **options()) as async_conversation:
        async_reply = await async_conversation.say("How many legs does a spider have?")
    for result in (reply, async_reply):
        assert ("It has 8 legs.", 0.7) == (result.text, result.score)


def test_a_run_chooses_the_alternative() -> None:
    """The configuration of a run reaches a configurable model that has tools."""
    other_model = ScriptedChat(default="I am the other model.")
    model = ScriptedChat(default="I am the first model.").configurable_alternatives(
        ConfigurableField(id="llm"), other=other_model
    )
    graph = make(model, judge=ScriptedJudge(), tools=[count_legs])
    run_config = {"configurable": {"thread_id": "t", "llm": "other"}}
    assert "I am the other model." == graph.invoke(ASK, run_config)["messages"][-1].content
    assert "I am the first model." == graph.invoke(ASK, config("u"))["messages"][-1].content


ASKED_AT: list[tuple[float | None, bool]] = []


class Warm(ScriptedJudge):
    """A judge with a temperature, which records it and whether structure was asked for."""

    temperature: float | None = None

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        ASKED_AT.append((self.temperature, "tools" in kwargs))
        return super()._generate(messages, *args, **kwargs)


def test_a_configurable_judge_is_asked_for_structure_at_temperature_0() -> None:
    """A temperature of the host's choice stays, in the object or in the configuration of a run."""
    field = ConfigurableField(id="warmth")
    for judge, configurable, expected in (
        (Warm().configurable_fields(temperature=field), {}, 0.0),
        (Warm().configurable_fields(temperature=field), {"warmth": 0.5}, 0.5),
        (Warm().configurable_alternatives(field, other=Warm()), {}, 0.0),
        (Warm().with_fallbacks([Warm(temperature=0.3)]), {}, 0.0),
        (Warm(temperature=0.3).configurable_fields(temperature=field), {}, 0.3),
    ):
        ASKED_AT.clear()
        graph = make(ScriptedChat(default="It has 8 legs."), judge=judge)
        graph.invoke(ASK, {"configurable": {"thread_id": "t", **configurable}})
        assert [(expected, True)] == ASKED_AT


def _grades(request: Asked) -> str:
    return json.dumps({"score": 0.6, "reason": "fine", "passed": True})


@pytest.mark.parametrize("wrap", WRAPPERS[:4], ids=lambda wrap: wrap.__name__)
def test_a_wrapped_client_is_its_own_judge(wrap: Callable[[Any], Any], serve: Serve) -> None:  # noqa: F811
    """A real client in a wrapper also judges, with a schema for its reply, and its arguments are sent."""

    def script(request: Asked) -> str:
        return _grades(request) if "response_format" in request.body else "A spider has eight legs."

    server = serve(script)
    graph = make_with_own_judge(wrap(ChatOpenAI(model="m")))
    state = graph.invoke(ASK, config())
    assert ("A spider has eight legs.", 0.6) == (
        state["messages"][-1].content,
        state["quality_score"],
    )
    if wrap is with_arguments:
        assert [["\n\n\n"]] * 2 == [request.body.get("stop") for request in server.asked]


def make_with_own_judge(model: Any, **options: Any) -> Any:
    """A graph without another judge."""
    return build_graph(model, checkpointer=InMemorySaver(), **options)


def test_an_openai_name_is_sent_without_its_provider(
    serve: Serve,  # noqa: F811
    tmp_path: Path,
) -> None:
    """`openai:` selects the provider; the rest is the model's name, and other colons belong to it."""
    server = serve(lambda _: "A spider has eight legs.")
    for name in ("openai:gpt-4.1-mini", "llama3.2:3b", "openai:ft:gpt-4.1:me"):
        with Conversation.open(
            tmp_path / "t.db", thread=name, model=name, settings={"judging": "off"}
        ) as conversation:
            conversation.say("How many legs does a spider have?")
    models = [request.model for request in server.asked]
    assert ["gpt-4.1-mini", "llama3.2:3b", "ft:gpt-4.1:me"] == list(dict.fromkeys(models))


@pytest.mark.parametrize(
    ("name", "package", "kind"),
    [
        ("anthropic:claude-sonnet-4-5", "langchain_anthropic", "ChatAnthropic"),
        ("ollama:llama3.2:3b", "langchain_ollama", "ChatOllama"),
        ("google_genai:gemini-2.5-flash", "langchain_google_genai", "ChatGoogleGenerativeAI"),
    ],
)
def test_a_name_with_a_provider_makes_its_client(
    name: str, package: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name's first part selects LangChain's client, with the time limit of the settings."""
    pytest.importorskip("langchain", reason="needs the extra providers: langchain")
    pytest.importorskip(package, reason=f"needs the extra providers: {package}")
    for key in ("ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(key, "not-a-key")
    model: Any = resolve_model(name, load_settings({"model_timeout_seconds": 7}))
    assert kind == type(model).__name__
    assert model.model.endswith(name.partition(":")[2])
    limit = (getattr(model, "client_kwargs", None) or {}).get("timeout")
    limits = (limit, getattr(model, "timeout", None), getattr(model, "default_request_timeout", 0))
    assert 7 in limits


def test_a_client_of_ollama_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each client opens its own connections."""
    pytest.importorskip("langchain", reason="needs the extra providers: langchain")
    ollama = pytest.importorskip("langchain_ollama", reason="needs the extra providers")
    calls = []
    begin = ollama.ChatOllama.__init__

    def count_calls(self: Any, *args: Any, **kwargs: Any) -> None:
        calls.append(kwargs)
        begin(self, *args, **kwargs)

    monkeypatch.setattr(ollama.ChatOllama, "__init__", count_calls)
    resolve_model("ollama:llama3.2:3b", load_settings())
    assert 1 == len(calls)


def test_a_missing_package_and_a_missing_key_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says which package to install, or which key is missing."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(ConfigurationError, match=r"xai:grok-4.*install.*langchain-xai"):
        resolve_model("xai:grok-4", load_settings())
    pytest.importorskip("langchain", reason="needs the extra providers: langchain")
    pytest.importorskip("langchain_google_genai", reason="needs the extra providers")
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    with pytest.raises(MissingModelError, match=r"google_genai:gemini(.|\n)*GOOGLE_API_KEY"):
        resolve_model("google_genai:gemini-2.5-flash", load_settings())


async def test_a_configurable_model_of_init_chat_model(serve: Serve) -> None:  # noqa: F811
    """A model whose name is chosen by each run calls tools, and judges."""
    chat_models = pytest.importorskip("langchain.chat_models", reason="needs langchain")

    def script(request: Asked) -> Any:
        if "response_format" in request.body:
            return _grades(request)
        tools = [tool["function"]["name"] for tool in request.body["tools"]]
        return f"{request.model} was asked, and may call {tools[0]}."

    serve(script)
    model = chat_models.init_chat_model(
        "first", model_provider="openai", configurable_fields=("model",)
    )
    graph = make_with_own_judge(model, tools=[count_legs])
    run = {"configurable": {"thread_id": "t", "model": "second"}}
    states = [graph.invoke(ASK, config("u")), await graph.ainvoke(ASK, run)]
    answers = [state["messages"][-1].content for state in states]
    assert [
        "first was asked, and may call count_legs.",
        "second was asked, and may call count_legs.",
    ] == answers
    assert [0.6, 0.6] == [state["quality_score"] for state in states]


def test_a_model_from_a_name_uses_the_systems_proxy(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Blocking calls too, and LangChain has nothing to warn of."""
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    # LangChain keeps one client for each address: that of another test has no proxy.
    monkeypatch.setenv("OPENAI_BASE_URL", "https://proxied.example/v1")
    monkeypatch.delenv("LANGCHAIN_OPENAI_TCP_KEEPALIVE", raising=False)
    model = resolve_model("gpt-4.1-mini", load_settings({}))
    assert isinstance(model, ChatOpenAI)
    pools = [mount for mount in model.root_client._client._mounts.values() if mount is not None]
    assert ["127.0.0.1"] == [pool._pool._proxy_url.host.decode() for pool in pools]
    assert "proxy" not in caplog.text
