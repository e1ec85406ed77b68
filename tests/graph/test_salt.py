"""The secret of a thread in the keys of fences: kept, and shown to nobody."""

import re
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from unsay import build_graph
from unsay.testing import ScriptedChat, ScriptedJudge

MODES: Any = ("values", "updates", "debug", "tasks", "checkpoints", "custom", "messages")


def config(thread_id: str) -> RunnableConfig:
    """The configuration of a thread."""
    return {"configurable": {"thread_id": thread_id}}


def salt_of(saver: InMemorySaver, thread_id: str) -> str:
    """The secret that the saver has."""
    saved_tuple = saver.get_tuple(config(thread_id))
    assert saved_tuple is not None
    return str(saved_tuple.checkpoint["channel_values"]["salt"])


@pytest.mark.parametrize("store", [None, InMemoryStore()], ids=["no store", "store"])
def test_the_secret_is_kept_and_shown_to_nobody(store: InMemoryStore | None) -> None:
    """Two processes send the same bytes for one thread; two threads have other keys."""
    sent: list[list[str]] = []

    def reply(messages: list[Any]) -> str:
        sent.append([str(message.content) for message in messages])
        return "Paris."

    saver = InMemorySaver()
    document = "Paris is a capital."

    def ask(thread_id: str, text: str) -> list[Any]:
        graph = build_graph(
            ScriptedChat(default=reply), judge=ScriptedJudge(), checkpointer=saver, store=store
        )
        messages = [HumanMessage(document, name="document"), HumanMessage(text)]
        given = {"messages": messages, "salt": "known"}
        events = list(graph.stream(given, config(thread_id), stream_mode=MODES))
        return [*events, graph.get_state(config(thread_id)).values]

    shown = ask("t1", "Which capital is it?")
    salt = salt_of(saver, "t1")
    shown += ask("t1", "And which country's?")
    ask("t2", "Which capital is it?")
    keys = [re.findall(r'document key="(\w+)"', "".join(context)) for context in sent]

    assert salt == salt_of(saver, "t1") != salt_of(saver, "t2")
    assert not any(salt in str(item) or "salt" in str(item) for item in shown)
    assert sent[1][: len(sent[0])] == sent[0]
    assert not set(keys[0]) & set(keys[2])
    assert "known" != salt
