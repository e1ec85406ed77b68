"""A user's own judge, detector, strategy and embeddings: sync or async, and failing in any way."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from tests.graph.kit import config
from unsay import Conversation
from unsay.context.plan import Plan, PlanContext
from unsay.context.strategy import Strategy
from unsay.errors import ConfigurationError
from unsay.graph.builder import build_graph
from unsay.protocols import TopicShift

QUICK = {"judge_timeout_seconds": 0.2}
END = [threading.Event()]
"""Set when the test is over; each test has its own."""

CALLER: ContextVar[str] = ContextVar("caller", default="nobody")


@pytest.fixture(autouse=True)
def parts_end(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What still hangs ends with its test."""
    monkeypatch.setattr("unsay.memory.recall.FLOOR", 0.0)
    monkeypatch.setattr("unsay.effects.PART_SECONDS", 0.2)
    END[0] = threading.Event()
    yield
    END[0].set()
    for thread in threading.enumerate():
        if thread.name == "unsay-call":
            thread.join(5)


def raises(*_: Any) -> Any:
    """Fail at once."""
    raise RuntimeError("out of order")


def blocks(*_: Any) -> Any:
    """Block the thread that calls it."""
    END[0].wait(60)


async def raises_later(*_: Any) -> Any:
    """Fail after a while."""
    await asyncio.sleep(0)
    raise RuntimeError("out of order")


async def hangs(*_: Any) -> Any:
    """Go on for a while after it was cancelled."""
    end = END[0]
    with suppress(asyncio.CancelledError):
        # Another thread sets the event: an `asyncio.Event` would not notice.
        while not end.is_set():  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.02)
        return
    await asyncio.sleep(2)


def nonsense(*_: Any) -> Any:
    """Return what no part may return."""
    return {"what": object()}


FAILURES: dict[str, Callable[..., Any]] = {
    "raises": raises,
    "blocks": blocks,
    "raises later": raises_later,
    "hangs": hangs,
    "nonsense": nonsense,
}
REASONS = {
    "raises": "out of order",
    "blocks": "silent for 0.2 s",
    "raises later": "out of order",
    "hangs": "silent for 0.2 s",
    "nonsense": "",
}


class Detector:
    """A detector made of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def detect(self, question: str, current: Any, others: Any) -> Any:
        """Call the function."""
        return self.function(question, current, others)


class OwnStrategy(Strategy):
    """A strategy made of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def plan(self, ctx: PlanContext) -> Any:
        """Call the function."""
        return self.function(ctx)


class OwnEmbeddings(Embeddings):
    """Embeddings made of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def embed_documents(self, texts: list[str]) -> Any:
        """Call the function."""
        return self.function(texts)

    def embed_query(self, text: str) -> Any:
        """Call the function."""
        return self.function([text])


class AsyncEmbeddings(OwnEmbeddings):
    """Embeddings that have only the async form."""

    def embed_documents(self, texts: list[str]) -> Any:
        """Refuse."""
        raise NotImplementedError

    def embed_query(self, text: str) -> Any:
        """Refuse."""
        raise NotImplementedError

    async def aembed_documents(self, texts: list[str]) -> Any:
        """Call the function."""
        return await self.function(texts)

    async def aembed_query(self, text: str) -> Any:
        """Call the function."""
        return (await self.function([text]))[0]


def _call(function: Callable[..., Any], argument: Any) -> Any:
    return function(argument)


MAKE: dict[str, Callable[[Callable[..., Any]], Any]] = {
    "judge": lambda function: partial(_call, function),
    "detector": Detector,
    "strategy": OwnStrategy,
    "embeddings": lambda function: partial(_call, function),
}
EVENTS = {
    "judge": "judge_failed",
    "detector": "topic_failed",
    "strategy": "context_problem",
    "embeddings": "recall_failed",
}


def own_part(part_name: str, function: Callable[..., Any]) -> Any:
    """Make a part of a function; a coroutine function stays one where the part is a function."""
    if part_name in ("judge", "embeddings") and asyncio.iscoroutinefunction(function):
        return function
    return MAKE[part_name](function)


def graph_of(**parts: Any) -> Any:
    """Build a graph with some own parts, and others that work."""
    options = {"judge": lambda _: 0.9, "settings": QUICK, **parts}
    return build_graph(
        lambda messages: AIMessage(f"About {messages[-1].text[:9]}"),
        checkpointer=InMemorySaver(),
        store=InMemoryStore(),
        **options,
    )


QUESTIONS = (
    "Tell me about gardens.",
    "Which roses grow in gardens?",
    "バラの世話を教えてください。",
)


def input_of(text: str) -> dict[str, Any]:
    """The input of a question."""
    return {"messages": [HumanMessage(text)]}


def check_failure(events: list[dict[str, Any]], part_name: str, failure: str, text: str) -> None:
    """Check that a part's failure was streamed and logged, with its reason."""
    errors = [event["error"] for event in events if event["unsay"] == EVENTS[part_name]]
    if part_name == "judge" and failure == "nonsense":
        errors = [
            e["reason"] for e in events if e["unsay"] == "verdict" and e["outcome"] == "unscored"
        ]
    else:
        assert f"event={EVENTS[part_name]}" in text
        assert REASONS[failure] in text
    if failure == "raises":
        assert f"at='{__file__}:" in text
    assert errors
    assert REASONS[failure] in errors[0]


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("part_name", EVENTS)
def test_a_part_that_fails_leaves_its_decision_out(
    part_name: str, failure: str, caplog: pytest.LogCaptureFixture
) -> None:
    """In blocking code: every question is answered, and the reason is streamed and logged."""
    function = FAILURES[failure]
    graph = graph_of(**{part_name: own_part(part_name, function)})
    events: list[dict[str, Any]] = []
    with caplog.at_level(logging.WARNING):
        for question in QUESTIONS:
            events += graph.stream(input_of(question), config(), stream_mode="custom")

    state = graph.get_state(config()).values
    assert 3 == sum(m.type == "ai" for m in state["messages"])
    check_failure(events, part_name, failure, caplog.text)
    if part_name == "judge":
        assert state["quality_score"] is None
    if part_name == "detector":
        assert 1 == len(state["topics"])


@pytest.mark.full
@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("part_name", EVENTS)
async def test_a_part_that_fails_blocks_no_event_loop(
    part_name: str, failure: str, caplog: pytest.LogCaptureFixture
) -> None:
    """On an event loop: other tasks go on meanwhile, and the reason is streamed and logged."""
    function = FAILURES[failure]
    graph = graph_of(**{part_name: own_part(part_name, function)})
    longest = 0.0

    async def ticks() -> None:
        nonlocal longest
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.01)
            longest = max(longest, time.monotonic() - began)

    ticking = asyncio.create_task(ticks())
    events: list[dict[str, Any]] = []
    with caplog.at_level(logging.WARNING):
        for question in QUESTIONS:
            stream = graph.astream(input_of(question), config(), stream_mode="custom")
            events += [event async for event in stream]
    ticking.cancel()

    state = (await graph.aget_state(config())).values
    assert 3 == sum(m.type == "ai" for m in state["messages"])
    check_failure(events, part_name, failure, caplog.text)
    assert longest < 10.0  # a blocked loop would wait for 60 s


def test_a_process_does_not_wait_for_a_part_that_hangs() -> None:
    """`asyncio.run` ends although a judge still blocks its thread."""
    graph = graph_of(judge=lambda _: blocks(), embeddings=lambda _: blocks())

    began = time.monotonic()
    state = asyncio.run(graph.ainvoke(input_of(QUESTIONS[0]), config()))

    assert state["quality_score"] is None
    assert time.monotonic() - began < 30


class AsyncDetector:
    """A detector that is a coroutine function."""

    async def detect(self, question: str, current: Any, others: Any) -> TopicShift:
        """Begin a topic with each question."""
        await asyncio.sleep(0)
        return TopicShift(kind="new", similarity=0.0)


class AsyncStrategy(Strategy):
    """A strategy that is a coroutine function."""

    async def plan(self, ctx: PlanContext) -> Plan:
        """Leave out all answers."""
        await asyncio.sleep(0)
        return ctx.leave_out([m for m in ctx.shown if m.type == "ai"], why="answers")


async def _judge(messages: Any) -> float:
    await asyncio.sleep(0)
    return 0.7


async def _vectors(texts: list[str]) -> list[list[float]]:
    await asyncio.sleep(0)
    return [[float("rose" in text.lower()), 1.0] for text in texts]


@pytest.mark.parametrize("is_awaited", [False, True], ids=["invoke", "ainvoke"])
async def test_parts_may_be_async(*, is_awaited: bool) -> None:
    """Every part may be a coroutine function, in blocking and in async code."""
    model_calls: list[list[str]] = []

    async def model(messages: list[Any]) -> AIMessage:
        model_calls.append([m.text for m in messages])
        return AIMessage(f"Answer {len(model_calls)}.")

    for embeddings in (_vectors, AsyncEmbeddings(_vectors)):
        model_calls.clear()
        graph = build_graph(
            model,
            judge=_judge,
            detector=AsyncDetector(),  # type: ignore[arg-type]
            strategy=AsyncStrategy(),
            embeddings=embeddings,
            checkpointer=InMemorySaver(),
        )
        state: Any = {}
        for question in QUESTIONS[:2]:
            if is_awaited:
                state = await graph.ainvoke(input_of(question), config())
            else:
                state = graph.invoke(input_of(question), config())

        assert 0.7 == state["quality_score"]
        assert 2 == len(graph.get_state(config()).values["topics"])


@pytest.mark.parametrize("part_name", ["judge", "detector", "strategy", "embeddings"])
@pytest.mark.parametrize("is_awaited", [False, True], ids=["invoke", "ainvoke"])
async def test_a_part_sees_the_callers_context(part_name: str, *, is_awaited: bool) -> None:
    """Context variables of the caller are set in every part, in whatever thread it runs."""
    contexts: set[str] = set()

    def function(*arguments: Any) -> Any:
        contexts.add(CALLER.get())
        if part_name == "judge":
            return 0.9
        if part_name == "detector":
            return TopicShift(kind="same", similarity=1.0)
        return arguments[0].keep() if part_name == "strategy" else [[1.0] for _ in arguments[0]]

    graph = graph_of(**{part_name: MAKE[part_name](function)})
    token = CALLER.set("ann")
    try:
        for question in QUESTIONS:
            if is_awaited:
                await graph.ainvoke(input_of(question), config())
            else:
                graph.invoke(input_of(question), config())
    finally:
        CALLER.reset(token)

    assert contexts <= {"ann"}
    assert contexts or part_name == "embeddings"


class Short:
    """Methods without the arguments that they are called with."""

    def detect(self, question: str) -> None:
        """Take too few."""

    def plan(self) -> None:
        """Take none."""

    reduce = plan


@pytest.mark.parametrize(
    ("part_name", "value", "reason"),
    [
        pytest.param("judge", lambda: 0.9, "judge is called with one argument", id="judge"),
        pytest.param("judge", lambda a, b, c: 0.9, "the messages", id="judge of three"),
        pytest.param("judge", 5, "judge must be", id="no judge"),
        pytest.param("judge", OwnStrategy, "is a class", id="a class as a judge"),
        pytest.param("model", lambda: "x", "model is called with", id="model"),
        pytest.param("summarizer", lambda: "x", "summarizer is called with", id="summarizer"),
        pytest.param("detector", Short(), "the other topics", id="detector"),
        pytest.param("detector", lambda *_: None, "no topic detector", id="no detector"),
        pytest.param("detector", AsyncDetector, "no topic detector", id="a class as a detector"),
        pytest.param("strategy", Short(), "the PlanContext", id="strategy"),
        pytest.param("strategy", object(), "not a strategy", id="no strategy"),
        pytest.param("strategy", OwnStrategy, "not a strategy", id="a class as a strategy"),
        pytest.param("embeddings", lambda: [[0.1]], "a list of texts", id="embeddings"),
        pytest.param("embeddings", 5, "embeddings must be", id="no embeddings"),
        pytest.param("embeddings", OwnEmbeddings, "is a class", id="a class as embeddings"),
    ],
)
def test_a_wrong_part_is_refused_when_the_graph_is_built(
    part_name: str, value: Any, reason: str
) -> None:
    """The error names the part, what it is called with, and what was given."""
    with pytest.raises(ConfigurationError, match=reason):
        build_graph(**{part_name: value})


def test_functions_with_more_parameters_are_accepted() -> None:
    """Defaults, LangChain's `config`, and any number of arguments fit."""

    class Callable:
        def __call__(self, messages: Any) -> float:
            return 0.9

    for judge in (
        lambda messages, scale=1: 0.9,
        lambda messages, config: 0.9,
        lambda *messages: 0.9,
        lambda messages, **options: 0.9,
        Callable(),
    ):
        state = build_graph(lambda _: "Fine.", judge=judge).invoke(input_of("How are you?"))
        assert 0.9 == state["quality_score"]


@pytest.mark.parametrize("part_name", ["model", "judge"])
def test_an_async_runnable_works_in_blocking_code(part_name: str) -> None:
    """LangChain's `RunnableLambda` of an async function can only be awaited."""

    async def replies(_: Any) -> Any:
        return {"judge": 0.9, "model": "Two days."}[part_name]

    options = {
        "model": lambda _: "Two days.",
        "judge": lambda _: 0.9,
        part_name: RunnableLambda(replies),
    }
    with Conversation.open(":memory:", **options) as conversation:
        reply = conversation.say("How long in Kyoto?")
    assert ("Two days.", 0.9) == (reply.text, reply.score)


def test_a_strategy_without_a_plan_is_named_by_its_method() -> None:
    """The reason has no address in memory."""
    options: dict[str, Any] = {"model": lambda _: "Two days.", "judge": lambda _: 0.9}
    with Conversation.open(
        ":memory:", strategy=OwnStrategy(lambda _: None), **options
    ) as conversation:
        events = [
            event for event in conversation.stream("Hello") if event.kind == "context_problem"
        ]
    (reason,) = {event.data["error"] for event in events}
    assert "strategy.plan returned None instead of a plan: return ctx.keep() or" in reason
