"""What an agent's middleware makes of a message, such as without an address, is what unsay keeps."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.agents.middleware import PIIMiddleware
from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore

from tests.graph.kit import config
from tests.reading import replayed, said, transcript
from unsay import Conversation
from unsay.graph import build_graph
from unsay.testing import ScriptedChat, ScriptedJudge, ToolCalls

ADDRESSES = ("ann@example.com", "bob@example.org", "cy@example.net")


class Judge:
    """A judge that rejects its first draft, and keeps what it was shown."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def __call__(self, messages: list[AnyMessage]) -> float:
        """A low score first."""
        self.shown.append(said(messages)[-1])
        return 0.1 if len(self.shown) == 1 else 0.9


def look(name: str) -> str:
    """Look an address up."""
    return f"{name} has {ADDRESSES[1]}"


def agent(strategy: Any = "redact") -> tuple[ScriptedChat, Any]:
    """A model that repeats addresses, and an agent that removes them everywhere."""
    call = ToolCalls(calls=[{"name": "look", "args": {"name": "Bob"}}], then=f"Ask {ADDRESSES[2]}.")
    model = ScriptedChat(default=[call, call])
    middleware: Any = PIIMiddleware(
        "email",
        strategy=strategy,
        apply_to_input=True,
        apply_to_output=True,
        apply_to_tool_results=True,
    )
    return model, create_agent(model, [look], middleware=[middleware])


def leaks(*texts: Any) -> list[str]:
    """The addresses that are in the texts."""
    return [address for address in ADDRESSES if any(address in str(text) for text in texts)]


QUESTION = f"My address is {ADDRESSES[0]}. Where does Bob get his mail?"
QUESTIONS = (QUESTION, f"I am still {ADDRESSES[0]}. And now?", "/undo", "/undo", "/redo", "/redo")


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("strategy", ["redact", "mask", "hash"])
@pytest.mark.parametrize("form", ["invoke", "ainvoke"])
async def test_the_transcript_and_the_judge_get_the_rewritten_text(
    form: str, strategy: Any
) -> None:
    """Also after a rejected draft, an undo and a redo; the event log leads to the same transcript."""
    judge = Judge()
    store = InMemoryStore()
    model, inner = agent(strategy)
    graph = build_graph(inner, judge=judge, checkpointer=InMemorySaver(), store=store)
    for text in QUESTIONS:
        value: Any = {"messages": [("user", text)]}
        if form == "invoke":
            graph.invoke(value, config())
        else:
            await graph.ainvoke(value, config())
        values = graph.get_state(config()).values
        assert [] == leaks(values["messages"], values["topics"], values["checkpoints"])
        assert values["messages"] == replayed(graph).messages

    assert len(judge.shown) > 2
    assert [] == leaks(judge.shown, model.calls)
    assert 3 == len([line for line in transcript(graph) if line.startswith("human")])


def test_a_conversation_keeps_the_rewritten_text(tmp_path: Any) -> None:
    """The title, what is recalled, and the transcript after it is opened again."""
    for text in (QUESTION, "Which address did I give?"):
        model, inner = agent()
        with Conversation.open(
            tmp_path / "a.db", thread="t", model=inner, judge=ScriptedJudge()
        ) as conversation:
            conversation.say(text)
            state = conversation.graph.get_state(config()).values
            assert [] == leaks(state["messages"], conversation.timeline(), model.calls)


@pytest.mark.parametrize("form", ["node", "last"])
def test_a_parent_keeps_the_rewritten_text(form: str) -> None:
    """Also if a function around the graph returns its last message alone."""
    graph = build_graph(agent()[1], judge=Judge())

    def last(state: Any) -> Any:
        return {"messages": graph.invoke({"messages": state["messages"]})["messages"][-1:]}

    builder: Any = StateGraph(MessagesState).add_node("talk", graph if form == "node" else last)
    parent = builder.add_edge(START, "talk").compile(checkpointer=InMemorySaver())
    for _ in range(2):
        state = parent.invoke({"messages": [("user", QUESTION)]}, config())

    assert [] == leaks(state["messages"])


def test_a_question_that_the_agent_blocks_is_sent_to_no_model() -> None:
    """It fails; the next question takes its place."""
    model = ScriptedChat(default="Two days are enough.")
    middleware: Any = PIIMiddleware("email", strategy="block", apply_to_input=True)
    inner = create_agent(model, [], middleware=[middleware])
    judge = Judge()
    graph = build_graph(inner, judge=judge, checkpointer=InMemorySaver())
    with pytest.raises(Exception, match="Detected 1 instance"):
        graph.invoke({"messages": [("user", QUESTION)]}, config())
    state = graph.invoke({"messages": [("user", "How long in Kyoto?")]}, config())

    assert ["human: How long in Kyoto?"] == said(state["messages"])[:1]
    assert [] == leaks(judge.shown, model.calls)


WORDS = st.lists(st.sampled_from(["one", "two", *ADDRESSES, "\n", "  "]), min_size=1).map(" ".join)


@given(texts=st.lists(WORDS.filter(str.strip), min_size=1, max_size=3))
def test_every_question_of_a_turn_is_rewritten(texts: list[str]) -> None:
    """A context joins the questions into one message; each is rewritten in the transcript."""
    graph = build_graph(agent()[1], judge=Judge(), checkpointer=InMemorySaver())
    state = graph.invoke({"messages": [HumanMessage(text) for text in texts]}, config())
    expected = [re.sub(r"\S+@\S+", "[REDACTED_EMAIL]", text) for text in texts]

    assert expected == [message.text for message in state["messages"] if message.type == "human"]
