"""Several tool calls in one message of the model: each is made once, whatever stops the others."""

import json
import signal
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt

from tests.children import run_child
from tests.graph.kit import config, make, say
from unsay import Conversation
from unsay.errors import EmptyAnswerError
from unsay.testing import ScriptedChat, ScriptedJudge, ToolCalls
from unsay.testing.scripts import attempt_of
from unsay.tools import reversible

PAID: list[int] = []
TEXTS = ["Pay all.", "", "paid 5", "paid 6", "paid 7", "All is paid, as you asked."]


@pytest.fixture(autouse=True)
def _nothing_paid() -> None:
    PAID.clear()


def payer(*asking: int) -> Any:
    """A tool that pays; for these amounts it asks a person first."""

    @tool
    def pay(amount: int) -> str:
        """Pay an amount."""
        if amount in asking and interrupt({"pay": amount}) != "yes":
            return "not paid"
        PAID.append(amount)
        return f"paid {amount}"

    return pay


def model(*amounts: int) -> ScriptedChat:
    """A model that pays all amounts in one message."""
    calls = [{"name": "pay", "args": {"amount": amount}} for amount in amounts]
    paying = ToolCalls(calls=calls, then="All is paid, as you asked.")
    return ScriptedChat(replies={"Pay": paying}, default="You are welcome, any time.")


def graph_of(door: str, chat: ScriptedChat, pay: Any) -> Any:
    """A graph that a host can run: our own, without a store, with an agent, or as a node."""
    if door == "agent":
        agents = pytest.importorskip("langchain.agents", reason="needs langchain")
        return make(agents.create_agent(chat, [pay]), ScriptedJudge())
    store = None if door == "no store" else InMemoryStore()
    if door != "node":
        return make(chat, ScriptedJudge(), tools=[pay], store=store)
    builder = StateGraph(MessagesState)
    node = make(chat, ScriptedJudge(), tools=[pay], checkpointer=None, store=None)
    builder.add_node("unsay", node)
    builder.add_edge(START, "unsay")
    return builder.compile(checkpointer=InMemorySaver())


DOORS = pytest.mark.parametrize("door", ["store", "no store", "node", "agent"])
ASKING = pytest.mark.parametrize(
    "asking", [(5, 6, 7), (6,), (5,), (5, 7)], ids=["all", "second", "first", "first-and-third"]
)


def texts(state: Any) -> list[str]:
    """The texts of a state's messages."""
    return [message.text for message in state["messages"]]


@pytest.mark.sample(every=4)
@DOORS
@ASKING
@pytest.mark.parametrize("at_once", [True, False], ids=["at-once", "one-by-one"])
def test_each_call_is_made_once_when_calls_ask(
    door: str, asking: tuple[int, ...], *, at_once: bool
) -> None:
    """All ask at once, in the order of the calls; what was paid is not paid again."""
    graph = graph_of(door, model(5, 6, 7), payer(*asking))
    state = graph.invoke({"messages": [("user", "Pay all.")]}, config())
    pays = [interrupt.value["pay"] for interrupt in state["__interrupt__"]]
    assert list(asking) == (sorted(pays) if door == "agent" else pays)
    while waiting := state.get("__interrupt__"):
        answers = {item.id: "yes" for item in (waiting if at_once else waiting[:1])}
        state = graph.invoke(Command(resume=answers), config())

    assert [5, 6, 7] == sorted(PAID)
    assert TEXTS == texts(state)


@DOORS
async def test_each_call_is_made_once_on_an_event_loop(door: str) -> None:
    """The first two ask."""
    graph = graph_of(door, model(5, 6, 7), payer(5, 6))
    state = await graph.ainvoke({"messages": [("user", "Pay all.")]}, config())
    while waiting := state.get("__interrupt__"):
        state = await graph.ainvoke(Command(resume={waiting[0].id: "yes"}), config())

    assert [5, 6, 7] == sorted(PAID)
    assert TEXTS == texts(state)


@pytest.mark.sample(every=2)
@ASKING
@pytest.mark.parametrize("kind", ["tools", "agent"])
def test_a_conversation_asks_one_after_the_other(kind: str, asking: tuple[int, ...]) -> None:
    """A decision answers the call that the reply shows; an undo then takes each call back once."""
    answers: list[int] = []
    pay = reversible(undo=lambda args: answers.append(args["amount"]))(payer(*asking))
    options: dict[str, Any] = {"model": model(5, 6, 7), "tools": [pay]}
    if kind == "agent":
        agents = pytest.importorskip("langchain.agents", reason="needs langchain")
        options = {"model": agents.create_agent(model(5, 6, 7), [pay])}
    with Conversation.open(":memory:", judge=ScriptedJudge(), **options) as conversation:
        reply = conversation.say("Pay all.")
        questions = []
        while reply.kind == "decision":
            assert reply.request is not None
            questions.append(reply.request["pay"])
            reply = conversation.resume("yes" if questions[-1] != 7 else "no")
        paid = [amount for amount in (5, 6, 7) if amount != 7 or 7 not in asking]
        assert list(asking) == (sorted(questions) if kind == "agent" else questions)
        assert paid == sorted(PAID)
        conversation.undo()
        conversation.say("Thanks.")
    assert ([] if kind == "agent" else [7, 6, 5]) == answers


def test_a_conversation_takes_several_decisions_by_their_ids() -> None:
    """The ids are those of the interrupts of the thread's state."""
    with Conversation.open(
        ":memory:", model=model(5, 6), judge=ScriptedJudge(), tools=[payer(5, 6)]
    ) as conversation:
        conversation.say("Pay all.")
        waiting = conversation.graph.get_state(config(conversation.thread_id)).interrupts
        assert "answer" == conversation.resume({item.id: "yes" for item in waiting}).kind
    assert [5, 6] == sorted(PAID)


@pytest.mark.parametrize("store", [InMemoryStore(), None], ids=["store", "no-store"])
def test_results_keep_the_order_of_the_calls(store: Any) -> None:
    """The calls run at the same time, and the first ends last."""
    event = Event()

    @tool
    def pay(amount: int) -> str:
        """Pay an amount."""
        assert amount != 5 or event.wait(20)
        PAID.append(amount)
        if amount == 7:
            event.set()
        return f"paid {amount}"

    graph = make(model(5, 6, 7), ScriptedJudge(), tools=[pay], store=store)
    assert TEXTS == texts(say(graph, "Pay all."))


def test_the_attempt_after_a_rejected_draft_makes_calls_of_its_own() -> None:
    """Calls of other tools and arguments or of the same ones, with other ids, are other calls."""

    def script(messages: list[Any]) -> Any:
        if attempt_of(messages) == 1:
            return ToolCalls(calls=calls, then="Fish.")
        steps = sum(bool(getattr(message, "tool_calls", None)) for message in messages)
        options = [{**call, "id": f"again-{position}"} for position, call in enumerate(calls)]
        return AIMessage("", tool_calls=options) if steps == 1 else "All is paid, as you asked."

    calls = [{"name": "pay", "args": {"amount": amount}} for amount in (5, 6)]
    judge = ScriptedJudge(scores={"Fish": 0.1})
    state = say(make(ScriptedChat(script=script), judge, tools=[payer()]), "Pay all.")
    assert "All is paid, as you asked." == texts(state)[-1]
    assert [5, 5, 6, 6] == sorted(PAID)


@DOORS
@pytest.mark.parametrize("second_text", ["same message", "resume"])
def test_calls_that_ended_before_an_error_are_not_made_again(door: str, second_text: str) -> None:
    """A model fails after the calls, or a tool of an agent raises beside them."""
    failing = [True]

    def script(messages: list[Any]) -> Any:
        if messages[-1].type == "tool" and door != "agent" and failing and failing.pop():
            raise ConnectionError("unreachable")
        return model(5, 6, 7).replies["Pay"]

    event = Event()

    @tool
    def pay(amount: int) -> str:
        """Pay an amount."""
        if amount == 7 and door == "agent" and failing:
            assert event.wait(20)
            failing.pop()
            raise RuntimeError("no money left")
        PAID.append(amount)
        if len(PAID) == 2:
            event.set()
        return f"paid {amount}"

    graph = graph_of(door, ScriptedChat(script=script), pay)
    value: Any = {"messages": [HumanMessage("Pay all.", id="q")]}
    with pytest.raises(Exception, match=r"unreachable|no money left"):
        graph.invoke(value, config())
    if door == "node" and second_text == "same message":
        pytest.skip("a parent graph begins a new run of its nodes")
    state = graph.invoke(value if second_text == "same message" else None, config())

    assert [5, 6, 7] == sorted(PAID)
    assert TEXTS == texts(state)


@pytest.mark.parametrize("kind", ["agent", "no store"])
def test_an_unusable_answer_is_asked_for_again(kind: str) -> None:
    """The steps before it are dropped with it, so that the thread does not fail each time."""
    answers = iter(["", "", "", "You are welcome, any time."])
    graph = graph_of(kind, ScriptedChat(script=lambda _: next(answers)), payer())
    value: Any = {"messages": [HumanMessage("Hello", id="q")]}
    with pytest.raises(EmptyAnswerError):
        graph.invoke(value, config())
    assert ["Hello", "You are welcome, any time."] == texts(graph.invoke(None, config()))


WAYS = [
    ("tools", "ours", "async"),
    ("tools", "ours", "exit"),
    ("tools", "sqlite and store", "sync"),
    ("tools", "sqlite", "async"),
    ("tools", "sqlite", "sync"),
    ("tools", "sqlite", "exit"),
    ("tools", "async sqlite", "async"),
    ("tools", "async ours", "exit"),
    ("tools", "conversation", "async"),
    ("agent", "ours", "async"),
    ("agent", "ours", "exit"),
    ("agent", "sqlite", "sync"),
    ("agent", "async sqlite", "async"),
    ("agent", "conversation", "async"),
]


@pytest.mark.full
@pytest.mark.parametrize("point", ["tool", "judge"])
@pytest.mark.parametrize(("kind", "saver", "mode"), WAYS)
def test_a_call_that_ended_before_signal_9_is_not_made_again(
    tmp_path: Path, kind: str, saver: str, mode: str, point: str
) -> None:
    """The process dies in the second call, or when the answer is judged."""
    if kind == "agent":
        pytest.importorskip("langchain.agents", reason="needs langchain")
    child = "tests.graph.parallel_child"
    arguments = (str(tmp_path), kind, saver, mode)
    killed_child = run_child(child, *arguments, point, "Pay both.")
    assert -signal.SIGKILL == killed_child.returncode, killed_child.stderr

    ended_child = run_child(child, *arguments, "nowhere", "Pay both.")

    assert ended_child.returncode == 0, ended_child.stderr
    expected = ["Pay both.", "", "paid 5", "paid 6", "Both are paid, as you asked."]
    assert expected == json.loads(ended_child.stdout)
    effects = (tmp_path / "effects.txt").read_text().splitlines()
    assert ["+5", "+6"] == sorted(effects)


@pytest.mark.full
@pytest.mark.parametrize("saver", ["ours", "sqlite"])
def test_a_decided_call_that_ended_before_signal_9_is_not_made_again(
    tmp_path: Path, saver: str
) -> None:
    """The thread waits for both decisions again, and the first call does not ask again."""
    child = "tests.graph.parallel_child"
    arguments = (str(tmp_path), "asking tools", saver, "async")
    killed_child = run_child(child, *arguments, "tool", "Pay both.", "yes")
    assert -signal.SIGKILL == killed_child.returncode, killed_child.stderr

    ended_child = run_child(child, *arguments, "nowhere", "yes")

    assert ended_child.returncode == 0, ended_child.stderr
    assert ["+5", "+6"] == sorted((tmp_path / "effects.txt").read_text().splitlines())


@pytest.mark.full
def test_a_call_that_ended_before_signal_9_is_taken_back_once(tmp_path: Path) -> None:
    """Another question takes the place of its turn; the call that did not end is not taken back."""
    child = "tests.graph.parallel_child"
    arguments = (str(tmp_path), "tools", "conversation", "async")
    run_child(child, *arguments, "tool", "Pay both.")
    for text in ("Thanks.", "Bye."):
        assert run_child(child, *arguments, "nowhere", text).returncode == 0
    assert ["+5", "-5"] == (tmp_path / "effects.txt").read_text().splitlines()
