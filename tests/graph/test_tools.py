from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from tests.graph.kit import GOOD, Numbered, config, make, say
from tests.graph.test_hosts import stream_parts, tokens
from tests.reading import listed_branches, said
from unsay.errors import ConfigurationError, ToolStepsError
from unsay.testing import ScriptedChat, ScriptedJudge, ToolCalls

CALLS: list[str] = []


@tool
def trains(to: str) -> str:
    """Tell when the next train leaves."""
    CALLS.append(to)
    return "10:15"


def broken(to: str) -> str:
    """Tell nothing."""
    raise ValueError(f"no trains to {to}")


ASK = ToolCalls(calls=[{"name": "trains", "args": {"to": "Kyoto"}}], then="It leaves at {result}.")


@pytest.fixture(autouse=True)
def no_calls() -> None:
    """Each test counts its own tool calls."""
    CALLS.clear()


def test_a_tool_is_called_and_its_steps_enter_the_record() -> None:
    """The transcript has the call, its result and the answer, in order."""
    chat = ScriptedChat(replies={"train": ASK})
    graph = make(chat, ScriptedJudge(), tools=[trains])

    state = say(graph, "When is the train?")

    assert said(state["messages"])[1:] == ["ai: ", "tool: 10:15", "ai: It leaves at 10:15."]
    assert ["Kyoto"] == CALLS
    assert state["messages"][1].tool_calls[0]["id"] == state["messages"][2].tool_call_id


async def test_tools_run_on_an_event_loop() -> None:
    """The same loop of model and tools runs under `ainvoke`."""
    graph = make(ScriptedChat(replies={"train": ASK}), ScriptedJudge(), tools=[trains])

    state = await graph.ainvoke({"messages": [("user", "When is the train?")]}, config())

    assert said(state["messages"])[-1] == "ai: It leaves at 10:15."


def test_the_next_turn_sees_what_the_tool_found() -> None:
    """A view holds the earlier turn's tool steps whole."""
    chat = ScriptedChat(replies={"train": ASK, "Thanks": GOOD})
    graph = make(chat, ScriptedJudge(), tools=[trains])

    say(graph, "When is the train?", "Thanks")

    assert [m.type for m in chat.calls[-1]] == ["human", "ai", "tool", "ai", "human"]


def test_the_answers_tokens_stream_with_tools() -> None:
    """A host that streams messages sees the answer's pieces, subgraphs or not."""
    graph = make(ScriptedChat(replies={"train": ASK}), ScriptedJudge(), tools=[trains])

    pieces = tokens(stream_parts(graph, "When is the train?"))

    assert len(pieces) > 2
    assert "".join(text for _, text in pieces) == "It leaves at 10:15."


def test_held_streaming_holds_with_tools_too() -> None:
    """A rejected draft that used a tool streams nothing."""
    chat = ScriptedChat(replies={"train": [ToolCalls(calls=ASK.calls, then="Fish."), ASK]})
    judge = ScriptedJudge(scores={"Fish": 0.1})
    graph = make(chat, judge, tools=[trains], settings={"stream": "held"})

    pieces = tokens(stream_parts(graph, "When is the train?"))

    assert ["It leaves at 10:15."] == [text for _, text in pieces]


def test_a_rejected_draft_is_resumed_at_its_last_finished_tool_step() -> None:
    """The tool does not run again: the next attempt gets its result, and only the answer goes."""
    CALLS.clear()
    chat = ScriptedChat(replies={"train": [ToolCalls(calls=ASK.calls, then="Fish."), GOOD]})
    graph = make(chat, ScriptedJudge(scores={"Fish": 0.1}), tools=[trains], store=None)

    state = say(graph, "When is the train?")

    assert ["human", "ai", "tool", "ai"] == [m.type for m in state["messages"]]
    assert f"ai: {GOOD}" == said(state["messages"])[-1]
    assert ["Fish."] == [draft.content for draft in listed_branches(graph)[0].drafts]
    assert 1 == len(CALLS)
    assert state["messages"][2].content in [m.content for m in chat.calls[-1] if m.type == "tool"]
    assert [] == state["checkpoints"][:-1]


def test_a_tool_that_raises_tells_the_model() -> None:
    """An error in a tool becomes its result, and the turn continues."""
    fails = ToolCalls(calls=[{"name": "broken", "args": {"to": "Mars"}}], then=GOOD)
    graph = make(ScriptedChat(replies={"train": fails}), ScriptedJudge(), tools=[broken])

    state = say(graph, "When is the train?")

    assert "no trains to Mars" in said(state["messages"])[2]
    assert state["messages"][2].status == "error"


def test_the_loop_of_tools_is_bounded() -> None:
    """A model that never stops calling tools is stopped, and the thread works."""
    forever = ToolCalls(calls=ASK.calls, then=None)
    chat = ScriptedChat(replies={"train": forever, "Thanks": GOOD})
    graph = make(chat, ScriptedJudge(), tools=[trains], settings={"max_tool_steps": 3})

    with pytest.raises(ToolStepsError, match="in 3 steps"):
        say(graph, "When is the train?")
    state = say(graph, "Thanks")

    assert len(CALLS) == 3
    assert said(state["messages"]) == ["human: Thanks", f"ai: {GOOD}"]


def test_a_finished_tool_is_not_called_again_when_a_turn_is_resumed() -> None:
    """After a failure between the tool and the answer, the turn resumes after the tool."""
    failing = [True]

    def script(messages: list[Any]) -> Any:
        if messages[-1].type == "tool" and failing.pop(0) if failing else False:
            raise ConnectionError("the provider is down")
        return ASK

    saver = InMemorySaver()
    graph = make(ScriptedChat(script=script), ScriptedJudge(), tools=[trains], checkpointer=saver)
    with pytest.raises(Exception, match="provider is down"):
        graph.invoke({"messages": [("user", "train?")]}, config(), durability="sync")

    state = graph.invoke(None, config(), durability="sync")

    assert said(state["messages"])[-1] == "ai: It leaves at 10:15."
    assert ["Kyoto"] == CALLS


def test_tools_need_a_chat_model() -> None:
    """An agent brings its own tools; giving it more is refused with the way out."""
    with pytest.raises(ConfigurationError, match="bind_tools"):
        say(make(Numbered(), tools=[trains]), "q")


def test_an_agents_own_tool_steps_enter_the_record() -> None:
    """A Runnable that returns its steps has them kept in order."""
    steps = [
        AIMessage("", tool_calls=[{"name": "x", "args": {}, "id": "1"}]),
        {"role": "tool", "content": "found", "tool_call_id": "1"},
        AIMessage("Found it, as you asked."),
    ]
    state = say(make(lambda _: steps), "q")

    assert [m.type for m in state["messages"]] == ["human", "ai", "tool", "ai"]
