"""Content blocks that the provider refuses: refused in a question, left out of what is sent later."""

import logging
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore

from tests.graph.kit import config
from unsay import Conversation, build_graph
from unsay.errors import InputError
from unsay.messages.conformance import faults
from unsay.messages.content import text_of
from unsay.testing import ScriptedChat, ScriptedJudge

DATA = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
BLOCKS: dict[str, dict[str, Any]] = {
    "video": {"type": "video", "base64": DATA, "mime_type": "video/mp4"},
    "image": {"type": "image", "base64": DATA, "mime_type": "image/bmp"},
    "file": {"type": "file", "url": "https://example.com/a.pdf"},
    "unknown": {"type": "hologram", "data": 1},
}
BLOCK = pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)


class OpenAIChat(ScriptedChat):
    """A scripted model of OpenAI, which refuses what OpenAI refuses."""

    @property
    def _llm_type(self) -> str:
        return "openai-chat"


def graph_of(model: ScriptedChat, target: str = "graph") -> Any:
    """A graph, or a parent around it."""
    savers: Any = {"checkpointer": InMemorySaver(), "store": InMemoryStore()}
    if target == "graph":
        return build_graph(model, judge=ScriptedJudge(), **savers)
    node: Any = build_graph(model, judge=ScriptedJudge())
    return (
        StateGraph(MessagesState).add_node("talk", node).add_edge(START, "talk").compile(**savers)
    )


def question(block: dict[str, Any]) -> HumanMessage:
    """A question with a block."""
    return HumanMessage([{"type": "text", "text": "What is this?"}, block], id="with-block")


@BLOCK
async def test_a_question_with_a_refused_block_is_not_stored(block: dict[str, Any]) -> None:
    """The error says what to do, and the thread is as it was; the next question is answered."""
    model = OpenAIChat(default="Fine.")
    graph = graph_of(model)
    graph.invoke({"messages": [("user", "Hello?")]}, config())
    before = graph.get_state(config())

    with pytest.raises(InputError, match=r"remove it|give it by|reads.*Nothing was stored"):
        graph.invoke({"messages": [question(block)]}, config())
    with pytest.raises(InputError, match="Nothing was stored"):
        await graph.ainvoke({"messages": [question(block)]}, config())

    assert before == graph.get_state(config())
    assert "Fine." == graph.invoke({"messages": [("user", "And?")]}, config())["messages"][-1].text


@BLOCK
@pytest.mark.parametrize("target", ["graph", "parent"])
def test_a_refused_block_in_the_state_is_left_out(
    target: str, block: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Later questions are answered; the model gets a line about the block, and the state keeps it."""
    model = OpenAIChat(default="Fine.")
    graph = graph_of(model, target)
    messages: list[AnyMessage] = [question(block), AIMessage("It is a thing.")]
    graph.update_state(config(), {"messages": messages})

    with caplog.at_level(logging.WARNING):
        for text in ("And now?", "And then?"):
            state = graph.invoke({"messages": [("user", text)]}, config())
            assert "Fine." == state["messages"][-1].text
    assert any("left out" in entry.message for entry in caplog.records)
    assert question(block).content == state["messages"][0].content
    request = model.calls[-1]
    assert () == faults(request, "openai")
    assert any("What is this?" in text_of(message) for message in request)


def test_an_image_that_the_provider_refuses_is_not_said() -> None:
    """A conversation refuses it before it stores anything."""
    with Conversation.open(
        ":memory:", model=OpenAIChat(default="Fine."), judge=ScriptedJudge()
    ) as conversation:
        with pytest.raises(InputError):
            conversation.say("What is this?", images=[f"data:image/bmp;base64,{DATA}"])
        assert [] == conversation.messages()
        assert "Fine." == conversation.say("Hello?").text
