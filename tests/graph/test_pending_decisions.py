"""A decision that is pending is dropped by no verb, no command and no update."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt

from tests.graph.kit import Numbered, config, scores
from tests.threads import registry_of
from unsay import AsyncConversation, Conversation, evaluation
from unsay.conversation.collections import Lessons, Pins, Ratings
from unsay.errors import ConflictError
from unsay.graph import build_graph
from unsay.messages.annotations import DOCUMENT

ASKING = {"on_exhausted": "ask", "max_rollbacks": 0}

VERBS: dict[str, Callable[[Any], Any]] = {
    "say": lambda conversation: conversation.say("another"),
    "say-documents": lambda conversation: conversation.say("another", documents=["A page."]),
    "command": lambda conversation: conversation.say("/pin"),
    "add": lambda conversation: conversation.add([("ai", "Added.")]),
    "checkpoint": lambda conversation: conversation.checkpoint("here"),
    "task": lambda conversation: conversation.checkpoint("a task", task=True),
    "edit": lambda conversation: conversation.edit(1, "another"),
    "remove": lambda conversation: conversation.remove(1),
    "compact": lambda conversation: conversation.compact(),
    "ratings.add": lambda conversation: conversation.ratings.add(1, "good"),
    "lessons.change": lambda conversation: conversation.lessons.change("a", "b"),
    "lessons.remove": lambda conversation: conversation.lessons.remove("a"),
    "rollback": lambda conversation: conversation.rollback(),
    "undo": lambda conversation: conversation.undo(),
    "redo": lambda conversation: conversation.redo(),
    "retry": lambda conversation: conversation.retry(),
    "restore": lambda conversation: conversation.restore("topic-1"),
    "pick": lambda conversation: conversation.pick(["x"], "branch-1"),
    "pins.add": lambda conversation: conversation.pins.add(),
    "pins.remove": lambda conversation: conversation.pins.remove(),
    "forget": lambda conversation: conversation.forget(turns=1),
    "forget results": lambda conversation: conversation.forget(tool_results_below=0.3),
    "same_topic": lambda conversation: conversation.same_topic(),
    "recall": lambda conversation: conversation.recall("first"),
    "note": lambda conversation: registry_of(conversation).note("A remark."),
    "end": lambda conversation: registry_of(conversation).end(),
    "resume": lambda conversation: conversation.resume(),
}


# Verbs that write beside the transcript.
BESIDE: dict[str, Callable[[Any], Any]] = {
    "label": lambda conversation: registry_of(conversation).label(customer="7"),
    "judge": evaluation.judge,
    "bisect": evaluation.bisect,
    "import_ratings": lambda conversation: evaluation.import_ratings(conversation, []),
    "judge_summaries": evaluation.judge_summaries,
    "fork": lambda conversation: conversation.fork(),
}


def conversation_with_decision(folder: Path, kind: Any = Conversation) -> Any:
    """Return a conversation with one answered turn, and one that waits for a decision."""
    judge = scores(0.9, 0.1)
    return kind.open(folder / "t.db", thread="t", model=Numbered(), judge=judge, settings=ASKING)


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_refused(tmp_path: Path, verb: str) -> None:
    """It names the decision, changes nothing, and the decision is still taken."""
    with conversation_with_decision(tmp_path) as conversation:
        conversation.say("first")
        waiting = conversation.say("second")
        before = conversation.messages()

        with pytest.raises(ConflictError, match="decision"):
            VERBS[verb](conversation)

        assert ("decision", before) == (waiting.kind, conversation.messages())
        assert waiting.text == conversation.resume("approve").text


@pytest.mark.parametrize("verb", BESIDE)
def test_a_verb_beside_the_transcript_leaves_the_decision(tmp_path: Path, verb: str) -> None:
    """It is carried out, and the decision is still taken."""
    with conversation_with_decision(tmp_path) as conversation:
        conversation.say("first")
        waiting = conversation.say("second")
        before = conversation.messages()
        BESIDE[verb](conversation)

        assert before == conversation.messages()
        assert waiting.text == conversation.resume("approve").text


def test_every_verb_that_writes_is_one_of_these() -> None:
    """A new verb joins a list above."""
    parts = {"": Conversation, "pins.": Pins, "lessons.": Lessons, "ratings.": Ratings}
    writing = {
        f"{part}{name}"
        for part, cls in parts.items()
        for name, method in inspect.getmembers(cls, inspect.isfunction)
        if not name.startswith("_") and ".reading(" not in inspect.getsource(method)
    }
    assert {"close", "stream"} == writing - set(VERBS) - set(BESIDE)


async def test_a_verb_of_async_code_is_refused(tmp_path: Path) -> None:
    """The async form refuses the same verbs."""
    async with conversation_with_decision(tmp_path, AsyncConversation) as conversation:
        await conversation.say("first")
        waiting = await conversation.say("second")

        for verb in VERBS.values():
            with pytest.raises(ConflictError, match="decision"):
                await verb(conversation)

        assert waiting.text == (await conversation.resume("approve")).text


@pytest.mark.sample(every=2)
@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"messages": [HumanMessage("/pin")]}, id="command"),
        pytest.param(
            {"messages": [HumanMessage("／元に戻す"), HumanMessage("/undo")]}, id="question"
        ),
        pytest.param({"messages": [HumanMessage("/undo")]}, id="undo"),
        pytest.param({"messages": [AIMessage("An answer.")]}, id="answer"),
        pytest.param({"messages": [HumanMessage("A page.", name=DOCUMENT)]}, id="document"),
        pytest.param({"messages": [RemoveMessage("x")]}, id="removal"),
        pytest.param({"should_rollback": True}, id="flag"),
        pytest.param({}, id="nothing"),
    ],
)
def test_a_hosts_input_without_a_question_is_refused(tmp_path: Path, value: dict[str, Any]) -> None:
    """The compiled graph refuses a run or an update that would drop the decision."""
    with conversation_with_decision(tmp_path) as conversation:
        conversation.say("first")
        waiting = conversation.say("second")

        for node in (None, "__start__", "create_checkpoint"):
            with pytest.raises(ConflictError, match="decision"):
                conversation.graph.update_state(config(), value, as_node=node)
        newest_config = conversation.graph.get_state(config()).config
        with pytest.raises(ConflictError, match="decision"):
            conversation.graph.update_state(newest_config, value)
        if len(value.get("messages", [])) < 2:
            with pytest.raises(ConflictError, match="decision"):
                conversation.graph.invoke(value, config())

        assert waiting.text == conversation.resume("approve").text


def test_a_hosts_question_abandons_what_waits(tmp_path: Path) -> None:
    """LangGraph runs a new question instead; the drafts are kept in a branch."""
    with conversation_with_decision(tmp_path) as conversation:
        conversation.say("first")
        conversation.say("second")

        state = conversation.graph.invoke({"messages": [HumanMessage("third")]}, config())

        assert ["first", "third"] == [m.text for m in state["messages"] if m.type == "human"]
        assert "interrupted" in [branch.kind for branch in conversation.branches()]


def test_what_drops_nothing_is_allowed(tmp_path: Path) -> None:
    """Reading, labels and a fork work while a decision is pending."""
    with conversation_with_decision(tmp_path) as conversation:
        conversation.say("first")
        waiting = conversation.say("second")

        registry_of(conversation).label(project="garden")
        evaluation.judge_summaries(conversation)
        conversation.preview()
        conversation.fork()
        assert conversation.pins.list() == conversation.forgotten() == ()

        assert waiting.text == conversation.resume("approve").text


# A decision that the agent cannot read


def asking_agent() -> Any:
    """An agent that asks a person twice, and fails with an answer that is no mapping."""

    def ask(_: MessagesState) -> dict[str, Any]:
        first = interrupt("first?")["say"]
        second = interrupt("second?")["say"]
        return {"messages": [AIMessage(f"{first}, then {second}.")]}

    return StateGraph(MessagesState).add_node("ask", ask).add_edge(START, "ask").compile()


# The decisions, of which the agent can read all but "?".
DECISIONS = {
    "first wrong": ["?", "A", "B"],
    "second wrong": ["A", "?", "B"],
    "both wrong": ["?", "A", "?", "?", "B"],
}


@pytest.mark.parametrize("texts", DECISIONS.values(), ids=DECISIONS)
def test_each_question_of_an_agent_gets_its_own_decision(tmp_path: Path, texts: list[str]) -> None:
    """A decision with which the agent failed is dropped, and those before it stay."""
    with Conversation.open(tmp_path / "a.db", thread="t", model=asking_agent()) as conversation:
        conversation.say("Send it.")

        for text in texts[:-1]:
            if text == "?":
                with pytest.raises(TypeError):
                    conversation.resume(text)
            else:
                assert {"value": "second?"} == conversation.resume({"say": text}).request

        assert "A, then B." == conversation.resume({"say": "B"}).text


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("texts", DECISIONS.values(), ids=DECISIONS)
@pytest.mark.parametrize("turns", [0, 30])
def test_each_question_gets_its_own_decision_in_a_hosts_graph(turns: int, texts: list[str]) -> None:
    """A thread with many states is no exception."""
    thread_config: Any = {"configurable": {"thread_id": "t"}}
    options: Any = {"checkpointer": InMemorySaver(), "store": InMemoryStore()}
    numbered = build_graph(Numbered(), settings={"judging": "off"}, **options)
    for turn in range(turns):
        numbered.invoke({"messages": [("user", f"q{turn}")]}, thread_config)
    graph = build_graph(asking_agent(), settings={"judging": "off"}, **options)
    graph.invoke({"messages": [("user", "Send it.")]}, thread_config)

    for text in texts[:-1]:
        if text == "?":
            with pytest.raises(TypeError):
                graph.invoke(Command(resume=text), thread_config)
        else:
            state = graph.invoke(Command(resume={"say": text}), thread_config)
            assert ["second?"] == [interrupt.value for interrupt in state["__interrupt__"]]

    ended_state = graph.invoke(Command(resume={"say": "B"}), thread_config)
    assert "A, then B." == ended_state["messages"][-1].text


async def test_each_question_gets_its_own_decision_on_an_event_loop() -> None:
    """The same with `ainvoke`."""
    thread_config: Any = {"configurable": {"thread_id": "t"}}
    options: Any = {"checkpointer": InMemorySaver(), "store": InMemoryStore()}
    graph = build_graph(asking_agent(), settings={"judging": "off"}, **options)
    await graph.ainvoke({"messages": [("user", "Send it.")]}, thread_config)
    await graph.ainvoke(Command(resume={"say": "A"}), thread_config)

    with pytest.raises(TypeError):
        await graph.ainvoke(Command(resume="?"), thread_config)

    state = await graph.ainvoke(Command(resume={"say": "B"}), thread_config)
    assert "A, then B." == state["messages"][-1].text
