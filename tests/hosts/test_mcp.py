"""Tools of a real MCP server, from blocking and from async code."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.graph.kit import config, make
from unsay import AsyncConversation, Conversation
from unsay.testing import ScriptedChat, ScriptedJudge, ToolCalls

client = pytest.importorskip("langchain_mcp_adapters.client", reason="needs langchain-mcp-adapters")

SERVER = Path(__file__).with_name("mcp_server.py")
QUESTION = "How many legs does a spider have?"


def _tools() -> list[Any]:
    connection: Any = {"transport": "stdio", "command": sys.executable, "args": [str(SERVER)]}
    return list(asyncio.run(client.MultiServerMCPClient({"legs": connection}).get_tools()))


@pytest.mark.full
def test_tools_of_an_mcp_server(tmp_path: Path) -> None:
    """The model reads the server's result, whichever way the turn is run."""
    tools = _tools()
    call = ToolCalls(calls=[{"name": "count_legs", "args": {"animal": "クモ"}}], then="It has 8.")
    options: Any = {"model": ScriptedChat(default=call), "judge": ScriptedJudge(), "tools": tools}
    with Conversation.open(tmp_path / "a.db", **options) as conversation:
        conversation.say(QUESTION)
        assert "クモ: 8" in str(conversation.messages()[-2].content)

    async def turns() -> list[str]:
        async with AsyncConversation.open(tmp_path / "b.db", **options) as conversation:
            await conversation.say(QUESTION)
            messages = await conversation.messages()
        graph = make(options["model"], options["judge"], tools=tools)
        state = await graph.ainvoke({"messages": [("user", QUESTION)]}, config())
        return [str(messages[-2].content), str(state["messages"][-2].content)]

    assert all("クモ: 8" in content for content in asyncio.run(turns()))
    graph = make(options["model"], options["judge"], tools=tools)
    state = graph.invoke({"messages": [("user", QUESTION)]}, config())
    assert "クモ: 8" in str(state["messages"][-2].content)
