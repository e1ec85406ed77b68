"""The graph behind AG-UI's adapter, as CopilotKit runs it."""

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from tests.hosts.savers import answering

adapter = pytest.importorskip("ag_ui_langgraph")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Page:
    """A chat page: sends the whole conversation and the last state with each message."""

    def __init__(self) -> None:
        graph = answering(checkpointer=InMemorySaver(), store=InMemoryStore())
        self.agent: Any = adapter.LangGraphAgent(name="unsay", graph=graph)
        self.messages: list[Any] = []
        self.state: dict[str, Any] = {}
        self.snapshots: list[dict[str, Any]] = []
        self.runs = 0

    async def say(self, text: str) -> list[str]:
        """Send a message; the words that the page shows afterwards."""
        self.runs += 1
        self.messages.append({"id": f"user-{self.runs}", "role": "user", "content": text})
        return await self.send()

    async def send(self) -> list[str]:
        """Send the page as it is."""
        core = pytest.importorskip("ag_ui.core")
        run_input = core.RunAgentInput(
            thread_id="t",
            run_id=f"run-{self.runs}",
            state=self.state,
            messages=self.messages,
            tools=[],
            context=[],
            forwarded_props={},
        )
        types = []
        async for event in self.agent.run(run_input):
            types.append(event.type.value)
            if event.type.value == "STATE_SNAPSHOT":
                self.state = event.snapshot
                self.snapshots.append(event.snapshot)
            if event.type.value == "MESSAGES_SNAPSHOT":
                self.messages = [message.model_dump() for message in event.messages]
        assert "RUN_ERROR" not in types
        assert "RUN_FINISHED" == types[-1]
        return [message["content"] for message in self.messages]


async def test_four_turns_with_an_undo() -> None:
    """The page shows the transcript, and sees nothing of the working state."""
    page = Page()
    await page.say("One?")
    assert ["One?", "This answers One?", "Two?", "This answers Two?"] == await page.say("Two?")
    undone = await page.say("/undo")
    assert ["One?", "This answers One?"] == undone[:2]
    assert not any("Two?" in text for text in undone)
    texts = await page.say("Three?")

    assert ["Three?", "This answers Three?"] == texts[-2:]
    channels = {name for snapshot in page.snapshots for name in snapshot}
    assert not channels & {"turn", "branches", "event_log", "operations", "topics"}


async def test_an_edited_message_is_answered_again() -> None:
    """The adapter writes the whole earlier state back, and goes on from there."""
    page = Page()
    await page.say("One?")
    await page.say("Two?")
    page.messages[2]["content"] = "Three?"
    texts = await page.send()

    assert ["One?", "This answers One?", "Three?", "This answers Three?"] == texts
