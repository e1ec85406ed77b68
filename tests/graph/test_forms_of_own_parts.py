"""A user's part works in every form that Python has for a function, or is refused at once."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings

from tests.graph.kit import config
from tests.graph.test_own_parts import QUESTIONS, AsyncDetector, AsyncStrategy, graph_of, input_of
from unsay import AsyncConversation, Conversation
from unsay.context import Strategy
from unsay.errors import ConfigurationError
from unsay.graph import build_graph


async def score(messages: Any, value: float = 0.8) -> float:
    """Return a score, later."""
    await asyncio.sleep(0)
    return value


def scores(messages: Any) -> Iterator[float]:
    """Yield a score in two parts."""
    yield 0.5
    yield 0.3


async def later_scores(messages: Any, second: float = 0.3) -> AsyncIterator[float]:
    """Yield a score in two parts, later."""
    yield 0.5
    await asyncio.sleep(0)
    yield second


class Returning:
    """An object that returns a coroutine."""

    def __call__(self, messages: Any) -> Any:
        """Return a coroutine."""
        return score(messages)


class Awaited:
    """An object whose call is a coroutine function."""

    async def __call__(self, messages: Any) -> float:
        """Return a score."""
        return await score(messages)


def verdicts(messages: Any) -> Iterator[dict[str, float]]:
    """Yield two verdicts, which cannot be added: the last one counts."""
    yield {"score": 0.1}
    yield {"score": 0.8}


async def later_verdicts(messages: Any) -> AsyncIterator[dict[str, float]]:
    """Yield the same, later."""
    for verdict in verdicts(messages):
        yield verdict


class Yielding:
    """An object whose call is a generator."""

    def __call__(self, messages: Any) -> Iterator[float]:
        """Yield a score in two parts."""
        yield from scores(messages)


class YieldingLater:
    """An object whose call is an async generator."""

    async def __call__(self, messages: Any) -> AsyncIterator[float]:
        """Yield a score in two parts."""
        async for score in later_scores(messages):
            yield score


JUDGES = {
    "coroutine function": score,
    "lambda": lambda messages: score(messages, value=0.8),
    "partial": partial(score, value=0.8),
    "returns a coroutine": Returning(),
    "async call": Awaited(),
    "partial of an object": partial(Awaited()),
    "generator": scores,
    "async generator": later_scores,
    "partial of an async generator": partial(later_scores, second=0.3),
    "generator object": Yielding(),
    "async generator object": YieldingLater(),
    "generator of verdicts": verdicts,
    "async generator of verdicts": later_verdicts,
}


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("judge", JUDGES.values(), ids=JUDGES)
async def test_a_judge_may_have_any_form(judge: Any) -> None:
    """The score is the same in blocking and in async code, and so is a model in the same form."""
    options: Any = {"model": lambda _: "The key hangs at the door.", "judge": judge}
    with Conversation.open(":memory:", thread="t", **options) as conversation:
        assert 0.8 == conversation.say("Where is the key?").score
    async with AsyncConversation.open(":memory:", thread="t", **options) as later_conversation:
        assert 0.8 == (await later_conversation.say("Where is the key?")).score
    graph = build_graph(**options)
    assert 0.8 == graph.invoke(input_of("Where?"))["quality_score"]
    assert 0.8 == (await graph.ainvoke(input_of("Where?")))["quality_score"]


async def test_an_async_generator_answers_blocking_code() -> None:
    """Its parts are joined, and an event loop streams them."""

    async def model(messages: Any) -> AsyncIterator[str]:
        yield "鍵は"
        yield "ドアにあります。"

    graph = build_graph(model, judge=lambda _: 0.8)
    assert "鍵はドアにあります。" == graph.invoke(input_of("鍵は？"))["messages"][-1].text
    state = await graph.ainvoke(input_of("鍵は？"))
    assert "鍵はドアにあります。" == state["messages"][-1].text


class Vectors(Embeddings):
    """Embeddings whose methods for blocking code are async."""

    calls = 0

    async def embed_documents(self, texts: list[str]) -> Any:  # type: ignore[override]
        """Return the vectors."""
        self.calls += 1
        return [[float("rose" in text), 1.0] for text in texts]

    async def embed_query(self, text: str) -> Any:  # type: ignore[override]
        """Return the vector."""
        return [float("rose" in text), 1.0]


@pytest.mark.parametrize("is_awaited", [False, True], ids=["invoke", "ainvoke"])
async def test_async_embeddings_work_everywhere(
    caplog: pytest.LogCaptureFixture, *, is_awaited: bool
) -> None:
    """Their methods are called and awaited, and none of the calls fails."""
    embeddings = Vectors()
    graph = graph_of(embeddings=embeddings)
    for question in QUESTIONS:
        if is_awaited:
            await graph.ainvoke(input_of(question), config())
        else:
            graph.invoke(input_of(question), config())
    assert embeddings.calls > 0
    assert "failed" not in caplog.text


class Misfit(AsyncDetector, AsyncStrategy):
    """Methods of a detector and a strategy that yield."""

    async def detect(self, *_: Any) -> Any:
        """Yield."""
        yield 1

    async def plan(self, ctx: Any) -> Any:
        """Yield."""
        yield ctx.keep()


class Reducing(AsyncStrategy):
    """A strategy without an argument of one method."""

    def reduce(self) -> Any:  # type: ignore[override]
        """Take none."""


class ShortVectors(Vectors):
    """Embeddings without an argument of one method."""

    async def embed_query(self) -> Any:  # type: ignore[override]
        """Take none."""


@pytest.mark.parametrize(
    ("part", "value", "reason"),
    [
        pytest.param("judge", partial(score, 1, 2), "the messages", id="partial judge"),
        pytest.param("judge", partial(Awaited(), 1), "the messages", id="partial object"),
        pytest.param("judge", lambda: later_scores(1), "the messages", id="judge of none"),
        pytest.param("detector", Misfit(), "use return", id="detector"),
        pytest.param("strategy", Misfit(), "use return", id="strategy"),
        pytest.param("strategy", Reducing(), "strategy.reduce is called with", id="reduce"),
        pytest.param("embeddings", scores, "use return", id="generator"),
        pytest.param("embeddings", later_scores, "use return", id="async generator"),
        pytest.param("embeddings", YieldingLater(), "use return", id="async generator object"),
        pytest.param("embeddings", partial(score, 1, 2), "a list of texts", id="partial"),
        pytest.param("embeddings", ShortVectors(), "embed_query is called with a text", id="query"),
    ],
)
def test_a_form_that_cannot_work_is_refused(part: str, value: Any, reason: str) -> None:
    """The error of `build_graph` names the part and what to do."""
    with pytest.raises(ConfigurationError, match=reason):
        build_graph(**{part: value})


def test_a_strategy_may_be_a_generator_of_calls() -> None:
    """That form is the one of unsay's own strategies."""

    class Steps(Strategy):
        def plan(self, ctx: Any) -> Any:
            yield from ()
            return ctx.keep()

    state = build_graph(lambda _: "Fine.", judge=lambda _: 0.8, strategy=Steps()).invoke(
        input_of("How are you?")
    )
    assert "Fine." == state["messages"][-1].text
