"""The model gateway in a graph of one node: what is held, asked, booked and released."""

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import httpx
import openai
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from unsay.budget.accounts import UsageAccount
from unsay.effects import Steps, adrive, drive
from unsay.errors import BudgetDeclinedError, BudgetExceededError, ConfigurationError
from unsay.graph.builder import make_services
from unsay.llm.call import ModelRequest, Purpose, ask_model, with_room
from unsay.llm.usage_account import Accounts, load_usage_account
from unsay.runtime import Scope
from unsay.settings.settings import Context
from unsay.state import State, Update

REPLY = AIMessage(
    "words",
    usage_metadata={
        "input_tokens": 80,
        "output_tokens": 20,
        "total_tokens": 100,
        "input_token_details": {"cache_read": 60},
    },
)
CONFIG: Any = {"configurable": {"thread_id": "t"}}
SENT = 80
LIMIT = 700
YES = Command(resume="approve")
NO = Command(resume="reject")
Node = Callable[[State, Scope], Steps[Update]]


class Bench:
    """A graph of one node, and the model that it asks."""

    def __init__(self, *, store: BaseStore | None = None, **settings: Any) -> None:
        self.calls = 0
        self.fault: BaseException | None = None
        self.store = store or InMemoryStore()
        self.model = RunnableLambda(self._answer, afunc=self._aanswer)
        self.services = make_services(
            self.model, settings={"backpressure": (), "session_budget_tokens": LIMIT, **settings}
        )

    def _answer(self, _: Any) -> AIMessage:
        self.calls += 1
        if self.fault is not None:
            raise self.fault
        return REPLY

    async def _aanswer(self, value: Any) -> AIMessage:
        return self._answer(value)

    def asking(self, scope: Scope, key: str = "k", purpose: Purpose = "answer") -> Steps[Any]:
        """One call through the door."""
        return (yield from ask_model(self.request(scope, key, purpose)))

    def request(
        self, scope: Scope, key: str, purpose: Purpose = "answer", tokens: int = SENT
    ) -> ModelRequest:
        """One call, before it is made."""
        return ModelRequest(
            scope=scope,
            model=self.model,
            value=[HumanMessage("Hello there?")],
            purpose=purpose,
            key=key,
            tokens=lambda: tokens,
        )

    def graph(self, node: Node | None = None) -> Any:
        """The node, compiled; by default it asks once, under the newest message's words."""

        def plain(state: State, scope: Scope) -> Steps[Update]:
            yield from self.asking(scope, state["messages"][-1].text)
            return Update()

        steps = node or plain

        def work(state: State, config: RunnableConfig) -> Update:
            return drive(steps(state, Scope.of(self.services, config)))

        async def awork(state: State, config: RunnableConfig) -> Update:
            return await adrive(steps(state, Scope.of(self.services, config)))

        builder = StateGraph(State, context_schema=Context)
        builder.add_node("work", RunnableLambda(work, afunc=awork))
        builder.add_edge(START, "work")
        builder.add_edge("work", END)
        strict = JsonPlusSerializer(allowed_msgpack_modules=None)
        return builder.compile(checkpointer=InMemorySaver(serde=strict), store=self.store)

    @property
    def account(self) -> UsageAccount:
        """As it is kept."""
        return drive(load_usage_account(self.store, "t"))

    @property
    def usage(self) -> list[int]:
        """What is spent, and what is held."""
        account = self.account
        return [account["session"]["tokens"], sum(hold["tokens"] for hold in account["holds"])]


Run = Callable[[Any, Any], Any]


def blocking(graph: Any, value: Any) -> Any:
    """One run."""
    return graph.invoke(_turn_input(value), CONFIG)


def on_a_loop(graph: Any, value: Any) -> Any:
    """One run on an event loop."""
    return asyncio.run(graph.ainvoke(_turn_input(value), CONFIG))


def _turn_input(value: Any) -> Any:
    return {"messages": [HumanMessage(value)]} if isinstance(value, str) else value


@pytest.fixture(params=[blocking, on_a_loop], ids=["blocking", "event loop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a graph in both forms."""
    run_form: Run = request.param
    return run_form


def test_what_a_call_may_come_to_is_kept_before_it_is_made(run: Run) -> None:
    """And what it came to afterwards, the cache's tokens with the others."""
    bench = Bench()
    usages = list[list[int]]()
    bench.model = RunnableLambda(lambda _: usages.append(bench.usage) or REPLY)
    run(bench.graph(), "one")

    assert ([[0, 580]], [100, 0]) == (usages, bench.usage)


def test_a_call_that_is_not_answered_is_let_go_of(run: Run) -> None:
    """It may be made again under its key."""
    bench = Bench(budget_mode="hard")
    bench.fault = ConnectionError("no route")
    for _ in range(3):
        with pytest.raises(ConnectionError):
            run(bench.graph(), "one")
    assert ([0, 0], 3) == (bench.usage, bench.calls)


POST = httpx.Request("POST", "http://127.0.0.1/v1")
LOST = {
    "unsay's limit": TimeoutError(),
    "the client's": openai.APITimeoutError(request=POST),
    "HTTP": httpx.ReadTimeout("slow"),
    "a broken reply": httpx.RemoteProtocolError("peer closed connection"),
}


@pytest.mark.parametrize("fault", LOST.values(), ids=LOST)
def test_a_call_without_an_end_is_paid_for(run: Run, fault: Exception) -> None:
    """Its request was sent at an unknown cost, so the reserved cost is counted."""
    bench = Bench()
    bench.fault = fault
    with pytest.raises(type(fault)):
        run(bench.graph(), "one")
    assert [580, 0] == bench.usage


def test_a_request_that_was_never_sent_costs_nothing(run: Run) -> None:
    """A client that finds no server in time has sent no request."""
    bench = Bench()
    timeout_error = openai.APITimeoutError(request=POST)
    timeout_error.__cause__ = httpx.ConnectTimeout("no server")
    for fault in (httpx.ConnectTimeout("no server"), timeout_error):
        bench.fault = fault
        with pytest.raises(type(fault)):
            run(bench.graph(), "one")
    assert [0, 0] == bench.usage


@pytest.mark.parametrize(
    ("first", "second", "tokens"),
    [
        pytest.param(TimeoutError(), None, 680, id="the fallback answers"),
        pytest.param(TimeoutError(), ConnectionError("down"), 580, id="the fallback is down"),
        pytest.param(ConnectionError("down"), TimeoutError(), 580, id="the fallback is silent"),
        pytest.param(TimeoutError(), httpx.ReadTimeout("slow"), 1_160, id="both are silent"),
        pytest.param(ConnectionError("down"), ConnectionError("too"), 0, id="both are down"),
    ],
)
def test_each_call_of_a_fallback_counts(
    run: Run, monkeypatch: pytest.MonkeyPatch, first: Any, second: Any, tokens: int
) -> None:
    """A first model that did not reply in time may have cost its estimate, whatever follows."""
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
    bench = Bench(fallback_model="spare")
    spare = Bench()
    bench.fault = first
    spare.fault = second

    def node(state: State, scope: Scope) -> Steps[Update]:
        del state
        request = replace(bench.request(scope, "k"), fallback=lambda _: spare.model)
        yield from ask_model(request)
        return Update()

    with nullcontext() if second is None else pytest.raises(type(second)):
        run(bench.graph(node), "one")
    assert [tokens, 0] == bench.usage


def test_a_call_whose_reply_was_lost_counts_again(run: Run) -> None:
    """It is made, and paid for, a second time."""
    bench = Bench()
    for _ in range(2):
        run(bench.graph(), "one")
    assert ([200, 0], ["one-answer", "one-answer~2"]) == (bench.usage, bench.account["keys"])


def test_a_no_ends_the_call_without_money(run: Run) -> None:
    """And the next call is asked about again."""
    bench = Bench(session_budget_tokens=100)
    graph = bench.graph()
    assert "__interrupt__" in run(graph, "one")
    with pytest.raises(
        BudgetDeclinedError, match=r"session budget: 0 used, 580 for this call, limit 100 tokens"
    ):
        run(graph, NO)
    assert ([0, 0], 0) == (bench.usage, bench.calls)
    assert "__interrupt__" in run(graph, "two")


@pytest.mark.parametrize("purpose", ["judge", "summary", "title"])
def test_what_stands_beside_an_answer_never_interrupts(run: Run, purpose: Purpose) -> None:
    """It is refused as by a hard limit."""
    bench = Bench(session_budget_tokens=50)

    def node(state: State, scope: Scope) -> Steps[Update]:
        del state
        with pytest.raises(BudgetExceededError, match="The model was not asked"):
            yield from bench.asking(scope, purpose=purpose)
        return Update()

    assert "__interrupt__" not in run(bench.graph(node), "one")
    assert 0 == bench.calls


def test_what_leads_up_to_a_call_waits_for_its_room(run: Run) -> None:
    """A person is asked before a summary is paid for, so that it is paid for once."""
    bench = Bench()

    def node(state: State, scope: Scope) -> Steps[Update]:
        del state

        def steps() -> Steps[Any]:
            yield from bench.asking(scope, "plan", "summary")
            return (yield from bench.asking(scope, "say"))

        yield from with_room(bench.request(scope, "say", tokens=2 * SENT), steps)
        return Update()

    for question in ("one", "two"):
        run(bench.graph(), question)
    graph = bench.graph(node)
    assert ("__interrupt__" in run(graph, "three"), 2) == (True, bench.calls)

    assert "__interrupt__" not in run(graph, YES)

    assert ([400, 0], 4) == (bench.usage, bench.calls)


def test_steps_that_fail_hold_nothing(run: Run) -> None:
    """The call that they led up to was not made."""
    bench = Bench(session_budget_tokens=5_000)

    def node(state: State, scope: Scope) -> Steps[Update]:
        del state

        def steps() -> Steps[Any]:
            yield from bench.asking(scope, "plan", "summary")
            raise ValueError("no plan")

        yield from with_room(bench.request(scope, "say", tokens=1), steps)
        return Update()

    with pytest.raises(ValueError, match="no plan"):
        run(bench.graph(node), "one")
    assert [100, 0] == bench.usage


def test_threads_of_one_graph_share_no_usage_account() -> None:
    """Nor does any hold remain when no call is under way."""
    bench = Bench()
    graph = bench.graph()
    for thread in ("a", "b"):
        graph.invoke(_turn_input("one"), {"configurable": {"thread_id": thread}})

    assert [100, 100] == [
        drive(load_usage_account(bench.store, thread_id))["session"]["tokens"]
        for thread_id in ("a", "b")
    ]
    assert {} == dict(bench.services.sole(Accounts)._open)


async def test_calls_of_one_thread_share_its_usage_account() -> None:
    """At one time they are granted no more than there is; every one is kept."""
    bench = Bench(session_budget_tokens=2_000, budget_mode="hard")
    inside = 0
    peak = 0

    async def slow(_: Any) -> AIMessage:
        nonlocal inside, peak
        inside += 1
        peak = max(peak, inside)
        await asyncio.sleep(0)
        inside -= 1
        return REPLY

    bench.model = RunnableLambda(lambda _: REPLY, afunc=slow)

    def node(state: State, scope: Scope) -> Steps[Update]:
        yield from bench.asking(scope, state["messages"][-1].text)
        return Update()

    graph = bench.graph(node)
    questions = [f"call {number}" for number in range(12)]
    results = await asyncio.gather(
        *(graph.ainvoke(_turn_input(question), CONFIG) for question in questions),
        return_exceptions=True,
    )

    refusals = [result for result in results if isinstance(result, BudgetExceededError)]
    answer_count = len(questions) - len(refusals)
    assert 0 < peak <= 3
    assert [100 * answer_count, 0] == bench.usage
    assert answer_count == len(bench.account["keys"])
    assert len(refusals) == len([result for result in results if isinstance(result, Exception)])


class Broken(InMemoryStore):
    """A store that fails on demand."""

    fails = False

    def batch(self, ops: Any) -> Any:
        """As the store does it, unless it fails."""
        if self.fails:
            raise OSError("the disk is full")
        return super().batch(ops)

    async def abatch(self, ops: Any) -> Any:
        """As the store does it, unless it fails."""
        if self.fails:
            raise OSError("the disk is full")
        return await super().abatch(ops)


def test_a_call_that_cannot_be_kept_is_not_made(run: Run) -> None:
    """And is made, once, when it can."""
    store = Broken()
    bench = Bench(store=store)
    store.fails = True
    with pytest.raises(OSError, match="full"):
        run(bench.graph(), "one")
    assert 0 == bench.calls
    store.fails = False
    run(bench.graph(), "one")

    assert ([100, 0], 1) == (bench.usage, bench.calls)


def test_a_cost_budget_wants_the_model_s_price(run: Run) -> None:
    """A model that names none could spend without bound."""
    bench = Bench(session_budget_cost=1.0, prices={"other": {"input": 1.0, "output": 1.0}})
    with pytest.raises(ConfigurationError, match="no price"):
        run(bench.graph(), "one")
    assert 0 == bench.calls
