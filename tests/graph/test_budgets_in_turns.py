"""Budgets in whole turns: refused, warned, asked, resumed, and kept through crashes and reopening."""

import asyncio
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from blockbuster import BlockBuster
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from tests.children import run_child
from tests.graph.back_kit import Opening
from tests.graph.kit import Numbered, config, make, scores, whole_state
from tests.reading import listed_ids, state_of, transcript
from unsay.budget.accounts import UsageAccount
from unsay.conversation.conversation import Conversation
from unsay.effects import drive
from unsay.errors import BudgetExceededError, ConfigurationError
from unsay.hosts.entry import HostGraph, Trusted
from unsay.llm.usage_account import load_usage_account
from unsay.messages.annotations import annotation_of, is_notice
from unsay.results.results import Reply
from unsay.settings.groups import Context
from unsay.testing import ScriptedChat, ScriptedDetector, ScriptedJudge, ToolCalls

USAGE = {"input_tokens": 80, "output_tokens": 20, "total_tokens": 100}
FREE: dict[str, Any] = {"backpressure": (), "judging": "off"}
YES = {"decisions": [{"type": "approve"}]}
NO = {"decisions": [{"type": "reject"}]}


class Metered(Numbered):
    """A model that says of each draft what it cost."""

    def __init__(self, tokens: int = 100) -> None:
        super().__init__()
        self.usage = {"input_tokens": 80, "output_tokens": tokens - 80, "total_tokens": tokens}

    def __call__(self, messages: list[Any]) -> AIMessage:
        """The next draft."""
        return super().__call__(messages).model_copy(update={"usage_metadata": self.usage})


Run = Callable[..., dict[str, Any]]


def run_blocking(graph: HostGraph, value: Any, **options: Any) -> dict[str, Any]:
    """One run of a graph."""
    return whole_state(graph, graph.invoke(_input_of(value), config(), **options))


def run_async(graph: HostGraph, value: Any, **options: Any) -> dict[str, Any]:
    """One run of a graph, on an event loop."""
    return whole_state(graph, asyncio.run(graph.ainvoke(_input_of(value), config(), **options)))


def _input_of(value: Any) -> Any:
    return {"messages": [("user", value)]} if isinstance(value, str) else value


both = pytest.mark.parametrize(
    "run", [pytest.param(run_blocking, id="blocking"), pytest.param(run_async, id="event loop")]
)


def account_of(conversation: Conversation, thread: str = "t") -> UsageAccount:
    """A thread's book, as it is kept."""
    return drive(load_usage_account(conversation.graph.store, thread))


def decision(state: dict[str, Any]) -> str:
    """What a person is asked."""
    (waiting,) = state["__interrupt__"]
    return str(waiting.value["action_requests"][0]["name"])


@both
def test_a_hard_limit_refuses_before_money_is_spent(run: Run) -> None:
    """The question is kept, and answered once a run may spend more."""
    model = Metered()
    saver = InMemorySaver()
    store = InMemoryStore()
    limits = {"session_budget_tokens": 750, "budget_mode": "hard", **FREE}
    graph = make(model, settings=limits, checkpointer=saver, store=store)
    run(graph, "First question, please?")
    run(graph, "Second question, please?")
    with pytest.raises(
        BudgetExceededError, match=r"session budget: 200 used, \d+ for this call, limit 750 tokens"
    ):
        run(graph, "Third question, please?")
    assert 2 == len(model.inputs)

    run(graph, None, context={"session_budget_tokens": 5_000})

    assert "human: Third question, please?" == transcript(graph)[-2]
    assert 3 == len(model.inputs)


@both
def test_a_soft_limit_warns_and_goes_on(run: Run) -> None:
    """Each answer is booked in spite of the limit."""
    model = Metered()
    store = InMemoryStore()
    limits = {"session_budget_tokens": 300, "budget_mode": "soft", **FREE}
    graph = make(model, settings=limits, store=store)
    for text in ("One?", "Two?", "Three?", "Four?"):
        run(graph, text)

    assert 4 == len(model.inputs)
    assert 400 == drive(load_usage_account(store, "t"))["session"]["tokens"]


def test_a_warning_names_the_limits(open_thread: Opening) -> None:
    """From the share that is set on; what they say can be shown to a person."""
    conversation = open_thread(Metered(), settings={"session_budget_tokens": 1_000, **FREE})
    events = [
        event
        for event in conversation.stream("Hello, how are you?")
        if event.kind == "budget_warning"
    ]
    assert [] == events
    conversation.say("And now?")
    (event,) = [
        event for event in conversation.stream("And then?") if event.kind == "budget_warning"
    ]

    assert event.text.startswith("session budget: 200 used, ")
    assert ["session"] == [limit["layer"] for limit in event.data["limits"]]
    assert event.data["usage"] >= 0.8


@both
@pytest.mark.parametrize(
    "word",
    [YES, "approve", [{"type": "accept", "args": None}], {"type": "accept"}],
    ids=["langchain", "name", "inbox list", "inbox"],
)
def test_a_yes_lets_the_call_through(run: Run, word: Any) -> None:
    """The model is asked once, after approval, and the limit is multiplied as needed."""
    model = Metered()
    store = InMemoryStore()
    graph = make(model, settings={"session_budget_tokens": 600, **FREE}, store=store)
    run(graph, "First question, please?")
    asked_graph = run(graph, "Second question, please?")
    (action,) = asked_graph["__interrupt__"][0].value["action_requests"]
    assert "exceed_budget" == action["name"]
    assert "Raise the limit to 1,200 (session_budget_tokens) and allow it?" in action["description"]
    assert [1_200] == [limit["raised"] for limit in action["args"]["limits"]]
    assert (1, []) == (len(model.inputs), drive(load_usage_account(store, "t"))["holds"])

    state = run(graph, Command(resume=word))

    account = drive(load_usage_account(store, "t"))
    assert "__interrupt__" not in state
    assert (2, 200, 2) == (
        len(model.inputs),
        account["session"]["tokens"],
        account["session"]["times"],
    )


@both
def test_a_decision_on_a_budget_is_in_the_language_of_the_question(run: Run) -> None:
    """Also in a thread's first turn, before a context exists."""
    graph = make(Metered(), settings={"session_budget_tokens": 100, **FREE})
    request = run(graph, "京都には何日いればいいですか?")["__interrupt__"][0].value
    description = request["action_requests"][0]["description"]
    assert description.startswith("この呼び出しは予算を超えます。")
    assert re.search(r"上限を[\d,]+00 \(session_budget_tokens\)に引き上げて", description)
    assert "セッションの予算: 使用済み0" in description


@both
def test_a_word_that_is_none_is_asked_for_again(run: Run) -> None:
    """With what is wrong about it."""
    graph = make(Metered(), settings={"session_budget_tokens": 500, **FREE})
    first = run(graph, "First question, please?")
    second_graph = run(graph, Command(resume={"type": "edit", "args": {"answer": "x"}}))

    assert "exceed_budget" == decision(first) == decision(second_graph)
    description = second_graph["__interrupt__"][0].value["action_requests"][0]["description"]
    assert "neither yes nor no" in description
    assert "__interrupt__" not in run(graph, Command(resume=YES))


def test_a_yes_reaches_a_file_that_was_opened_again(open_thread: Opening) -> None:
    """The next call has room as well, as far as the limit was widened."""
    limits = {"session_budget_tokens": 600, **FREE}
    first = open_thread(Metered(), settings=limits)
    first.say("First question, please?")
    assert "decision" == first.say("Second question, please?", turn_id="q2").kind
    first.close()

    model = Metered()
    conversation = open_thread(model, settings=limits)
    reply = conversation.resume("approve")

    assert ("answer", 1) == (reply.kind, len(model.inputs))
    assert "answer" == conversation.say("Third question, please?").kind
    assert (300, [], 2) == (
        account_of(conversation)["session"]["tokens"],
        account_of(conversation)["holds"],
        account_of(conversation)["session"]["times"],
    )


class Shop:
    """A model that looks something up and then answers, and what came of it."""

    def __init__(self) -> None:
        self.asked = self.looked = 0

    def script(self, messages: list[Any]) -> Any:
        """Look first; what is found is long."""
        self.asked += 1
        return ToolCalls(calls=[{"name": "look", "args": {}}], then="It is sunny outside.")

    def options(self) -> dict[str, Any]:
        """What a conversation is opened with."""

        @tool
        def look() -> str:
            """Look out of the window."""
            self.looked += 1
            return "sunny " * 2_000

        return {"model": ScriptedChat(script=self.script), "tools": [look]}


@pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "event loop"])
def test_a_question_in_a_later_step_repeats_neither_tool_nor_call(
    tmp_path: Path, *, is_async: bool
) -> None:
    """Also where another process gives the word."""
    shop = Shop()
    limits = {"session_budget_tokens": 1_500, **FREE}

    def turn(value: Any) -> dict[str, Any]:
        path = tmp_path / "t.db"
        with Conversation.open(path, thread="t", settings=limits, **shop.options()) as conversation:
            options: Any = {"durability": "sync"}
            run = run_async if is_async else run_blocking
            return run(conversation.graph, value, **options)

    waiting = turn("How is the weather today?")
    assert ("exceed_budget", 1, 1) == (decision(waiting), shop.asked, shop.looked)

    state = turn(Command(resume=YES))

    assert (2, 1) == (shop.asked, shop.looked)
    assert ["human", "ai", "tool", "ai"] == [message.type for message in state["messages"]]


@both
def test_a_judge_without_room_leaves_the_answer_unscored(run: Run) -> None:
    """It is delivered without a decision, and the reply has the reason."""
    requests: list[Any] = []
    dear = {"input_tokens": 400, "output_tokens": 200, "total_tokens": 600}
    answer = AIMessage("A list comprehension builds a list in one line.", usage_metadata=dear)
    graph = make(
        lambda _: answer,
        lambda request: requests.append(request) or 0.1,
        settings={"session_budget_tokens": 620, "backpressure": ()},
    )
    state = run(graph, "What is a list comprehension?")

    annotation = annotation_of(state["messages"][-1])
    assert ([], None, "unscored") == (requests, state["quality_score"], annotation["outcome"])
    assert annotation["reason"].startswith(
        "the judge was not asked: The model was not asked: session"
    )
    assert "__interrupt__" not in state


@both
def test_a_summary_without_room_is_made_without_a_model(run: Run) -> None:
    """The conversation continues without a decision."""
    requests: list[Any] = []
    graph = make(
        Metered(1_000),
        summarizer=lambda request: requests.append(request) or "They spoke of spiders.",
        detector=ScriptedDetector(shifts={"NEW": "new"}),
        settings={"task_budget_tokens": 1_300, **FREE},
    )
    run(graph, "How many legs does a spider have?")
    state = run(graph, "NEW: how is the weather?")

    assert ([], "ai") == (requests, state["messages"][-1].type)
    assert "spider" in state["topics"][0]["summary"]


def test_tokens_are_counted_by_purpose(open_thread: Opening) -> None:
    """Answers, judges, summaries; it survives a rollback, and a fork begins at zero."""
    message = AIMessage("They spoke of spiders.", usage_metadata=USAGE)
    verdict = AIMessage('{"score": 0.9, "reason": "fine"}', usage_metadata=USAGE)
    conversation = open_thread(
        Metered(),
        judge=lambda _: verdict,
        summarizer=lambda _: message,
        title=lambda _: AIMessage("Spiders", usage_metadata=USAGE),
        detector=ScriptedDetector(shifts={"NEW": "new"}),
        settings={"session_budget_tokens": 100_000},
    )
    conversation.say("How many legs does a spider have?")
    conversation.say("NEW: what of the weather?")
    conversation.rollback(turns=1)
    spent_by_purpose = state_of(conversation)["spent"]

    assert {"answer": 200, "judge": 200, "summary": 100} == {
        name: item["total"] for name, item in spent_by_purpose.items()
    }
    assert 600 == account_of(conversation)["session"]["tokens"]
    fork = conversation.fork(thread="other")
    assert 0 == account_of(fork, "other")["session"]["tokens"]
    assert "spent" not in state_of(fork)


@both
def test_an_agent_that_fails_has_spent_what_its_calls_cost(run: Run) -> None:
    """The calls before its error count against the budget; an agent without a call costs nothing."""
    paid = ScriptedChat(script=lambda _: AIMessage("Hm.", usage_metadata=USAGE))
    for calls in (0, 2):

        def work(state: MessagesState, calls: int = calls) -> dict[str, Any]:
            for _ in range(calls):
                paid.invoke(state["messages"])
            raise ValueError("The agent failed.")

        builder = StateGraph(MessagesState)
        builder.add_node("work", work)
        builder.add_edge(START, "work")
        store = InMemoryStore()
        settings = {**FREE, "session_budget_tokens": 100_000}
        graph = make(builder.compile(), store=store, settings=settings)
        with pytest.raises(ValueError, match="The agent failed"):
            run(graph, "q1")
        assert calls * 100 == drive(load_usage_account(store, "t"))["session"]["tokens"]


def test_a_task_begins_with_a_budget_of_its_own(open_thread: Opening) -> None:
    """A topic that is left keeps its account for when the conversation returns."""
    conversation = open_thread(
        Metered(1_000),
        detector=ScriptedDetector(shifts={"NEW": "new"}),
        settings={"task_budget_tokens": 1_300, "budget_mode": "hard", **FREE},
    )
    conversation.say("How many legs does a spider have?")
    with pytest.raises(
        BudgetExceededError, match=r"task budget: 1,000 used, \d+ for this call, limit 1,300 tokens"
    ):
        conversation.say("And how many has a fly?")
    conversation.say("NEW: how is the weather?")

    assert [("topic-1", 1_000), ("topic-2", 1_000)] == [
        (task["account_id"], task["tokens"]) for task in account_of(conversation)["tasks"]
    ]


PRICES = {
    "scripted": {"input": 100.0, "output": 1_000.0},
    "other": {"input": 200.0, "output": 4_000.0},
}


def answer_within_budget(model: Any, judge: Any, **settings: Any) -> tuple[Reply, int]:
    """The reply to a first question under a cost budget, and the millionths that it cost."""
    options: Any = {"model": model, "judge": judge, "settings": {"prices": PRICES, **settings}}
    with Conversation.open(":memory:", **options) as conversation:
        reply = conversation.say("How long should I stay?")
        (gauge,) = conversation.tokens().gauges
        return reply, gauge.used


def test_a_judge_that_is_a_function_needs_no_price() -> None:
    """It costs nothing, and its score counts."""
    model = ScriptedChat(default="Two days.")
    reply, cost = answer_within_budget(model, lambda _: 0.7, session_budget_cost=2)
    assert 0.7 == reply.score
    usage = model.invoke("How long should I stay?").usage_metadata
    assert usage is not None
    assert cost == 100 * usage["input_tokens"] + 1_000 * usage["output_tokens"]


def test_an_agent_has_a_cost_budget() -> None:
    """A call is held at the highest price, and paid at that of the model that its reply names."""
    model = ScriptedChat(default="Two days.")
    agent = create_agent(model, tools=[])
    _, cost = answer_within_budget(model, lambda _: 0.7, session_budget_cost=3)
    assert cost == answer_within_budget(agent, lambda _: 0.7, session_budget_cost=3)[1] > 0
    with pytest.raises(BudgetExceededError):
        answer_within_budget(agent, lambda _: 0.7, session_budget_cost=1.9, budget_mode="hard")


def test_a_function_that_answers_needs_a_name_for_its_price() -> None:
    """Without one it could spend without bound."""

    def answer(_: Any) -> str:
        return "Two days."

    with pytest.raises(ConfigurationError, match=r"no name and thus no price.*`model_name`"):
        answer_within_budget(answer, lambda _: 0.7, session_budget_cost=3)
    answer.model_name = "scripted"  # type: ignore[attr-defined]
    assert 0 < answer_within_budget(answer, lambda _: 0.7, session_budget_cost=3)[1]


def test_a_conversation_shows_the_budget_of_its_agent() -> None:
    """`tokens` and `status` count the calls of the agent that the context names."""
    options: Any = {"judge": ScriptedJudge(), "settings": {"agent_budget_tokens": 5_000}}
    labels = Context(labels={"agent": "writer"})
    with Conversation.open(
        ":memory:", model=ScriptedChat(default="Yes."), context=labels, **options
    ) as conversation:
        conversation.say("Speak, writer?")
        (gauge,) = conversation.tokens().gauges
        assert (gauge.used, (gauge,)) == (
            conversation.tokens().spent.total.total,
            conversation.tokens(spent=False).gauges,
        )
        assert gauge.used > 0


def test_a_run_may_name_its_agent(open_thread: Opening) -> None:
    """Each has a separate budget."""
    conversation = open_thread(Metered(), settings={"agent_budget_tokens": 5_000, **FREE})
    for agent in ("writer", "reader"):
        conversation.graph.invoke(
            {"messages": [("user", f"Speak, {agent}?")]},
            config(),
            context={"labels": {"agent": agent}},
        )
    assert ["writer", "reader"] == [
        agent["account_id"] for agent in account_of(conversation)["tasks"][0]["agents"]
    ]


def test_without_a_store_a_budget_lives_as_long_as_its_process() -> None:
    """It binds all runs of the thread there."""
    limits = {"session_budget_tokens": 650, "budget_mode": "hard", **FREE}
    graph = make(Metered(), settings=limits, store=None)
    run_blocking(graph, "First question, please?")
    with pytest.raises(BudgetExceededError, match=r"session budget: 100 used"):
        run_blocking(graph, f"Second question, please? {'Really. ' * 40}")


def test_backpressure_leaves_the_event_loop_alone() -> None:
    """Other tasks go on while a call waits, and nothing blocks."""
    limits = {"session_budget_tokens": 100_000, "backpressure": ((0.0, 50),), "judging": "off"}
    graph = make(Metered(), settings=limits)
    ticks = list[int]()

    async def tick() -> None:
        while True:
            ticks.append(len(ticks))
            await asyncio.sleep(0)

    async def main() -> dict[str, Any]:
        ticking = asyncio.create_task(tick())
        state = await graph.ainvoke({"messages": [("user", "Hello?")]}, config())
        ticking.cancel()
        return state

    asyncio.run(main())
    calm = len(ticks)
    ticks[:] = []
    assert calm > 100

    watch = BlockBuster()
    watch.activate()
    try:
        asyncio.run(main())
    finally:
        watch.deactivate()


def child(folder: Path, when: str) -> int:
    """A turn in a process that is killed at a place; its exit code."""
    folder.mkdir(exist_ok=True)
    return run_child("tests.graph.budget_child", str(folder), when).returncode


def kept_in(folder: Path) -> UsageAccount:
    """The book that a process left."""
    with Conversation.open(folder / "t.db", thread="t") as conversation:
        return account_of(conversation)


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> UsageAccount:
    """The usage account of a process that was not killed."""
    folder = tmp_path_factory.mktemp("calm")
    assert 0 == child(folder, "nowhere")
    return kept_in(folder)


@pytest.mark.full
@pytest.mark.parametrize(
    ("point", "calls"),
    [
        pytest.param("model", ["model", "model", "judge"], id="model"),
        pytest.param("judge", ["model", "judge", "model", "judge"], id="judge"),
    ],
)
def test_a_hold_outlives_a_kill_and_is_not_doubled(
    tmp_path: Path, calm: UsageAccount, point: str, calls: list[str]
) -> None:
    """The same call finds it; an answer that was paid for and lost counts twice, as it was paid."""
    assert -signal.SIGKILL == child(tmp_path, point)
    (hold,) = kept_in(tmp_path)["holds"]
    purpose = "answer" if point == "model" else "judge"
    assert hold["key"].endswith(f"-{purpose}")

    assert 0 == child(tmp_path, "nowhere")

    account = kept_in(tmp_path)
    lost_calls = calls.count("model") - 1 - (point == "model")
    (answer,) = [key for key in calm["keys"] if key.endswith("-answer")]
    assert calls == (tmp_path / "asked.txt").read_text().split()
    assert [] == account["holds"]
    assert lost_calls == len([key for key in account["keys"] if key == f"{answer}~2"])
    counts = [{k: item["session"][k] for k in ("tokens", "micros")} for item in (account, calm)]
    assert (counts[0] == counts[1]) is (lost_calls == 0)
    assert account["session"]["tokens"] < 2 * calm["session"]["tokens"]


@both
@pytest.mark.parametrize(
    "word", [NO, "reject", [{"type": "ignore", "args": None}]], ids=["langchain", "name", "inbox"]
)
def test_a_no_is_answered_by_a_notice_that_says_why(run: Run, word: Any) -> None:
    """Nothing is asked or held, the question stays, and said again it is asked about again."""
    model = Metered()
    store = InMemoryStore()
    graph = make(model, settings={"session_budget_tokens": 100, **FREE}, store=store)
    assert "exceed_budget" == decision(run(graph, "First question, please?"))
    state = run(graph, Command(resume=word))

    question, notice = state["messages"]
    assert ("First question, please?", True) == (question.content, is_notice(notice))
    assert notice.content.startswith("No answer was given: the call would exceed the budget")
    assert "raise the budget (session_budget_tokens)" in notice.content
    assert ([], []) == (model.inputs, drive(load_usage_account(store, "t"))["holds"])
    assert "exceed_budget" == decision(run(graph, "First question, please?"))


@both
@pytest.mark.parametrize("drafts", [0, 1], ids=["first draft", "second draft"])
def test_a_turn_that_is_declined_ends_in_a_notice(run: Run, drafts: int) -> None:
    """The question and the drafts are kept, and the conversation continues."""
    model = Metered()
    limits = {**FREE, "judging": "model", "max_rollbacks": 2, "budget_mode": "ask"}
    graph = make(
        model, scores(*[0.1] * drafts), settings={"session_budget_tokens": 5_000, **limits}
    )
    context = {"session_budget_tokens": 700 if drafts else 100}
    assert "exceed_budget" == decision(run(graph, f"Why? {'Really. ' * 80}", context=context))
    move = {"kind": "decline", "to": None, "reason": "no"}
    declined_input: Any = Trusted({"rollback_request": move, "should_rollback": True})
    graph.update_state(config(), declined_input, as_node="process_message")
    state = run(graph, None, context=context)

    assert ["human", "ai"] == [message.type for message in state["messages"]]
    assert is_notice(state["messages"][-1])
    assert (drafts, drafts) == (len(model.inputs), len(listed_ids(state)))
    run(graph, "Who?", context={"session_budget_tokens": 5_000})
    assert transcript(graph)[-1].startswith("ai: This is draft")


def test_a_budget_that_is_added_later_says_what_it_counts(tmp_path: Path) -> None:
    """The calls from then on, also after a restart; a second budget counts from its own first call."""
    prices = {"scripted": {"input": 2.5, "output": 10.0}}

    def open_within(**settings: Any) -> Conversation:
        return Conversation.open(
            tmp_path / "t.db",
            thread="t",
            model=ScriptedChat(default="Two days are enough."),
            settings={"judging": "off", **settings},
        )

    with open_within() as before:
        before.say("How long should I stay in Kyoto?")
    with open_within(session_budget_tokens=50_000) as later_conversation:
        assert "0 of 50,000 (0 %), counts from the next call" in str(later_conversation.tokens())
        later_conversation.say("And in Nara?")
        (first,) = later_conversation.tokens().gauges
        assert first.since is not None
        moment = first.since[:16].replace("T", " ")
        assert f"calls with a budget since {moment}" in str(later_conversation.tokens())
    limits = {"session_budget_tokens": 50_000, "session_budget_cost": 3.0, "prices": prices}
    with open_within(**limits) as second:
        tokens, cost = second.tokens().gauges
        assert (first, None, 0) == (tokens, cost.since, cost.used)
        second.say("神戸には何泊しますか?")
        tokens, cost = second.tokens(spent=False).gauges
        assert first.since == tokens.since < (cost.since or "")
        for text in (str(second.tokens()), second.say("/tokens").text):
            assert f"{moment}以降に予算付きで行った呼び出し" in text
