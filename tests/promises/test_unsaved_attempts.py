"""Wherever a write fails, the same turn repeats no call of the model, the judge, a tool or an undo."""

import json
import re
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from tests.graph.kit import config
from tests.promises.test_unsaved_answers import Fault, failing
from unsay.conversation.conversation import Conversation
from unsay.errors import StorageError
from unsay.graph import build_graph
from unsay.tools import reversible

GOOD = "The key is red, and it hangs at the door."


class FaultAt(Fault):
    """A disk that fails from one write on, counted from the beginning of a run."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0
        self.last: int | None = None

    def check(self) -> None:
        """Count one write, or fail."""
        if self.last is not None and self.writes >= self.last and not self.mended:
            raise sqlite3.OperationalError("disk I/O error")
        self.writes += 1


class Memory(InMemorySaver):
    """A host's own checkpointer that fails."""

    fault = FaultAt()

    def put(self, *args: Any, **options: Any) -> Any:
        """Write, if the disk works."""
        self.fault.check()
        return super().put(*args, **options)

    def put_writes(self, *args: Any, **options: Any) -> Any:
        """Write, if the disk works."""
        self.fault.check()
        return super().put_writes(*args, **options)


class Replying(BaseChatModel):
    """A model that looks once, is too short without the judge's advice, and records its calls."""

    asked: list[str]

    @property
    def _llm_type(self) -> str:
        return "replying"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        """Return the model with the tools."""
        return self.bind(tools=tools)

    def _generate(self, messages: list[BaseMessage], *_: Any, **options: Any) -> ChatResult:
        has_result = any(isinstance(message, ToolMessage) for message in messages)
        is_second = "too short" in str(messages)
        self.asked.append(f"answer {has_result} {is_second}")
        text = GOOD if is_second else "Red."
        call = {"name": "look", "args": {"what": "key"}, "id": f"call-{len(self.asked)}"}
        reply = AIMessage(text) if has_result else AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=reply)])


class Judging(Replying):
    """A judge that rejects the short answer and, if it `blames`, the tool call before it."""

    blames: bool = False

    def _generate(self, messages: list[BaseMessage], *_: Any, **options: Any) -> ChatResult:
        text = messages[-1].text
        good = "hangs at" in text
        self.asked.append(f"judge {good}")
        verdict: dict[str, Any] = {"score": 0.9 if good else 0.1, "reason": "too short"}
        if self.blames and not good:
            verdict["blamed"] = re.findall(r"\[id ([^]]+)\]", text)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(json.dumps(verdict)))])


class Play:
    """One turn with a rejected draft, and a record of what it did."""

    def __init__(self, *, blames: bool = False) -> None:
        self.fault = FaultAt()
        self.did = list[str]()
        self.model, self.judge = Replying(asked=self.did), Judging(asked=self.did, blames=blames)

        def put_back(what: str) -> None:
            self.did.append("undo")

        @reversible(undo=put_back)
        def look(what: str) -> str:
            """Look at something."""
            self.did.append("look")
            return "red"

        self.tools = [look]


def play_conversation(path: Path, last: int | None, settings: dict[str, Any]) -> tuple[Play, Any]:
    """Play a turn in a file whose writes fail from `last` on, then the same turn with a good disk."""
    play = Play()
    database = failing(path, play.fault)
    conversation = Conversation.open(
        database,
        thread="t",
        model=play.model,
        judge=play.judge,
        tools=play.tools,
        settings=settings,
    )
    play.fault.writes = 0
    play.fault.last = last
    with suppress(StorageError):
        conversation.say("Which key?", turn_id="a")
    play.fault.mended = True
    reply = conversation.say("Which key?", turn_id="a")
    conversation.close()
    database.close()
    return play, reply


@pytest.mark.full
@pytest.mark.parametrize("settings", [{}, {"session_budget_tokens": 100_000}], ids=str)
def test_a_turn_with_tools_and_a_rejected_draft_is_paid_for_once(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    """Every call is made once and in order, and the reply names the rejected draft."""
    whole_play, whole_outcome = play_conversation(tmp_path / "whole.db", None, settings)
    assert (GOOD, 1) == (whole_outcome.text, whole_outcome.rollbacks)

    for last in range(whole_play.fault.writes):
        play, reply = play_conversation(tmp_path / f"{last}.db", last, settings)

        # A judge whose cost cannot be reserved is not asked, which leaves its draft unscored.
        if reply.outcome != "unscored":
            assert (last, whole_play.did) == (last, play.did)
            assert (last, whole_outcome.text, 1) == (last, reply.text, reply.rollbacks)
        assert (last, len(set(play.did))) == (last, len(play.did))


@pytest.mark.full
@pytest.mark.parametrize("durability", ["exit", "sync"])
@pytest.mark.parametrize("store", [False, True], ids=["no store", "store"])
@pytest.mark.parametrize("blames", [False, True], ids=["kept steps", "blamed steps"])
def test_a_host_pays_once(
    durability: Literal["exit", "sync"], *, store: bool, blames: bool
) -> None:
    """The same in a compiled graph, also where the judge has a tool call undone."""

    def played(last: int | None) -> tuple[Play, dict[str, Any]]:
        play = Play(blames=blames)
        saver = Memory()
        saver.fault = play.fault
        graph = build_graph(
            play.model,
            judge=play.judge,
            tools=play.tools,
            checkpointer=saver,
            store=InMemoryStore() if store else None,
        )
        play.fault.writes = 0
        play.fault.last = last
        value = {"messages": [HumanMessage("Which key?", id="q1")]}
        with suppress(sqlite3.OperationalError):
            graph.invoke(value, config("t"), durability=durability)
        play.fault.mended = True
        return play, graph.invoke(value, config("t"), durability=durability)

    whole_play, _ = played(None)
    assert blames == ("undo" in whole_play.did)
    for last in range(whole_play.fault.writes):
        play, state = played(last)
        assert (last, whole_play.did) == (last, play.did)
        assert GOOD == state["messages"][-1].text
