"""Agents that judge, summarize and name threads, in LangChain's wrappers."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver

from tests.graph.kit import config
from unsay import Conversation, Summarizing
from unsay.graph import build_graph
from unsay.history.threads import list_threads
from unsay.testing import Fault, ScriptedChat, ScriptedJudge

FAILING = ScriptedChat(default=Fault(error=ValueError("It failed.")))
WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda agent: agent,
    "config": lambda agent: agent.with_config(tags=["mine"]),
    "retry": lambda agent: agent.with_retry(stop_after_attempt=1),
    "sequence": lambda agent: RunnableLambda(lambda messages: {"messages": messages}) | agent,
    "fallback of an agent": lambda agent: create_agent(FAILING, []).with_fallbacks([agent]),
    "fallback of a chat model": lambda agent: FAILING.with_fallbacks([agent]),
    "with a fallback": lambda agent: agent.with_fallbacks([FAILING]),
}


def long_answer(messages: list[AnyMessage]) -> str:
    """An answer that fills the window."""
    return f"Answer {len(messages)}: " + " ".join(f"w{len(messages)}x{i}" for i in range(200))


@pytest.mark.sample(every=2)
@pytest.mark.parametrize(
    ("wrap", "role"),
    [(WRAPPERS["plain"], "strategy"), *((wrap, "graph") for wrap in WRAPPERS.values())],
    ids=["strategy", *WRAPPERS],
)
def test_an_agent_summarizes(wrap: Any, role: str) -> None:
    """Its last message is the summary that the model is sent."""
    agent = wrap(create_agent(ScriptedChat(default="They talked about trains."), []))
    chat = ScriptedChat(default=long_answer)
    options: Any = {"summarizer": agent}
    if role == "strategy":
        options = {"strategy": Summarizing(summarizer=agent)}
    settings = {
        "topics": "off",
        "judging": "off",
        "recall_tokens": 0,
        "context_window_tokens": 2000,
    }
    with Conversation.open(
        ":memory:", model=chat, judge=ScriptedJudge(), settings=settings, **options
    ) as conversation:
        for number in range(10):
            conversation.say(f"question {number}")

    assert any("about trains" in message.text for messages in chat.calls for message in messages)


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
async def test_an_agent_judges_and_names_a_thread(wrap: Any) -> None:
    """Its verdict counts, blocking and on an event loop, and its title is the thread's."""
    judge = wrap(create_agent(ScriptedChat(default='{"score": 0.7, "reason": "fine"}'), []))
    chat = ScriptedChat(default="Two days are enough.")
    graph = build_graph(chat, judge=judge, checkpointer=InMemorySaver())
    question = {"messages": [("user", "How long in Kyoto?")]}

    assert 0.7 == graph.invoke(question, config())["quality_score"]
    assert 0.7 == (await graph.ainvoke(question, config("awaited")))["quality_score"]
    namer = wrap(create_agent(ScriptedChat(default="Kyoto trip"), []))
    with Conversation.open(
        ":memory:", model=chat, judge=ScriptedJudge(), title=namer
    ) as conversation:
        conversation.say("How long in Kyoto?")
        assert ["Kyoto trip"] == [entry.title for entry in list_threads(conversation.graph.store)]
