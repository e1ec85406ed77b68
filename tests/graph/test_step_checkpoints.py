"""Checkpoints within a turn: after tool steps, before risky tools and after errors; tasks of a host."""

from functools import partial
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.tools import tool

from tests.graph.kit import config, make, say, scores, whole_state
from tests.reading import said, transcript
from tests.threads import open_conversation
from unsay import reversible, risky
from unsay.conversation.conversation import Conversation
from unsay.errors import ConfigurationError, InputError
from unsay.messages.annotations import is_answer
from unsay.messages.boundaries import safe_indices
from unsay.messages.conformance import validate
from unsay.testing import ScriptedChat

pytestmark = pytest.mark.usefixtures("closes_databases")

CALLS = ["find", "check", "delete"]
QUESTION = "Delete the old invoice, please."
ANSWER = "The old invoice is deleted, as you asked."


class Desk:
    """Three tools, of which the last is risky, and a model that calls them in turn."""

    def __init__(self, *, broken: str = "") -> None:
        self.ran: list[str] = []
        self.broken = broken

    def tools(self) -> list[Any]:
        """The tools, which note that they ran."""

        def make_tool(name: str) -> Any:
            def run(invoice: str) -> str:
                """Do it."""
                self.ran.append(name)
                if name == self.broken:
                    raise ValueError("out of order")
                return f"{name}: {invoice}"

            return tool(name)(run)

        return [make_tool("find"), make_tool("check"), risky(make_tool("delete"))]

    def script(self, messages: list[AnyMessage]) -> AIMessage:
        """The next call of the turn, or the answer after all three."""
        done = 0
        for message in reversed(messages):
            if message.type == "human":
                break
            done += message.type == "tool"
        if done == len(CALLS):
            return AIMessage(ANSWER)
        call = {"name": CALLS[done], "args": {"invoice": "7"}, "id": f"call-{len(self.ran)}-{done}"}
        return AIMessage("", tool_calls=[call])


ALL = {"score", "tool_step", "risky", "error"}


def open_thread(desk: Desk, **settings: Any) -> Conversation:
    """A conversation at the desk, which has answered once."""
    conversation = open_conversation(
        model=ScriptedChat(script=desk.script),
        tools=desk.tools(),
        settings={"checkpoint_on": ALL, "topics": "off", **settings},
    )
    conversation.say(QUESTION)
    return conversation


def checkpoint_places(conversation: Conversation) -> list[tuple[str, str]]:
    """The reason of each checkpoint, and the message before it."""
    text = {m.id: said([m])[0] for m in conversation.messages()}
    return [
        (checkpoint["reason"], text[checkpoint["message_id"] or ""])
        for checkpoint in conversation.checkpoints()
    ]


def test_each_finished_step_has_a_checkpoint() -> None:
    """Several strategies work together: steps, the risky tool, and the score of the answer."""
    expected = [
        ("tool_step", "tool: find: 7"),
        ("tool_step", "tool: check: 7"),
        ("tool_step", "tool: delete: 7"),
        ("tool_step", f"ai: {ANSWER}"),
    ]
    assert expected == checkpoint_places(open_thread(Desk()))


@pytest.mark.parametrize("front", ["conversation", "graph"])
def test_a_risky_tool_has_a_checkpoint_before_it_by_default(front: str) -> None:
    """It is at the last message before the call."""
    desk = Desk()
    if front == "conversation":
        conversation = Conversation.open(
            ":memory:", model=ScriptedChat(script=desk.script), judge=scores(), tools=desk.tools()
        )
        conversation.say(QUESTION)
        before = conversation.messages()
        reasons = conversation.checkpoints()
    else:
        state = say(make(ScriptedChat(script=desk.script), tools=desk.tools()), QUESTION)
        before = state["messages"]
        reasons = state["checkpoints"]
    (reason,) = [reason for reason in reasons if reason["reason"] == "risky"]
    assert "tool: check: 7" == said([m for m in before if m.id == reason["message_id"]])[0]


class Files:
    """An object whose method is a tool."""

    def wipe(self) -> str:
        """Delete everything."""
        return "gone"

    def __call__(self) -> str:
        """Delete everything."""
        return "gone"


def test_a_risky_method_has_its_checkpoint() -> None:
    """A method of an object is marked like a function."""
    call = {"name": "wipe", "args": {}, "id": "call"}

    def script(messages: list[AnyMessage]) -> AIMessage:
        done = messages[-1].type == "tool"
        return AIMessage("All is in order now.") if done else AIMessage("", tool_calls=[call])

    tools = [risky(Files().wipe)]
    graph = make(ScriptedChat(script=script), tools=tools)
    reasons = [checkpoint["reason"] for checkpoint in say(graph, "Tidy up.")["checkpoints"]]
    assert "risky" in reasons


@pytest.mark.parametrize("mark", [risky, reversible(undo=None)], ids=["risky", "reversible"])
@pytest.mark.parametrize(
    "target",
    [Files(), Files, object(), partial(Files().wipe), len, "wipe", None],
    ids=["object with a call", "class", "object", "partial", "builtin", "name", "nothing"],
)
def test_what_is_no_tool_is_not_marked(mark: Any, target: Any) -> None:
    """It would never be called as a tool, so marking it has no effect that anybody could see."""
    with pytest.raises(ConfigurationError, match="is not a tool: decorate a function"):
        mark(target)


def test_a_risky_first_step_has_its_checkpoint_at_the_question() -> None:
    """From there the question is asked again, and nothing that it did is left."""
    ran: list[str] = []

    @risky
    @tool
    def wipe() -> str:
        """Delete everything."""
        ran.append("wipe")
        return "gone"

    def script(messages: list[AnyMessage]) -> AIMessage:
        if messages[-1].type == "tool" or ran:
            return AIMessage("Nothing else is to be done here, all is in order.")
        return AIMessage("", tool_calls=[{"name": "wipe", "args": {}, "id": "call"}])

    conversation = Conversation.open(
        ":memory:", model=ScriptedChat(script=script), judge=scores(), tools=[wipe]
    )
    conversation.say("Tidy up, please.")
    (checkpoint,) = [
        checkpoint for checkpoint in conversation.checkpoints() if checkpoint["reason"] == "risky"
    ]
    conversation.rollback(checkpoint["id"])
    assert ["human: Tidy up, please."] == said(conversation.messages())

    conversation.retry()

    assert ["human", "ai"] == [m.type for m in conversation.messages()]
    assert ["wipe"] == ran


def test_a_failed_tool_has_a_checkpoint_after_its_error() -> None:
    """The step is no finished one: its reason is the error."""
    conversation = open_thread(Desk(broken="check"))
    (_, after, *_) = checkpoint_places(conversation)
    assert "error" == after[0]
    assert after[1].startswith("tool: Error: ValueError('out of order')")


@pytest.mark.parametrize("step", [0, 1, 2])
def test_a_person_rolls_back_to_a_step_and_goes_on_from_there(step: int) -> None:
    """The question waits with its finished steps; a retry runs only what was after them."""
    desk = Desk()
    conversation = open_thread(desk)
    whole_talk = conversation.messages()
    checkpoint = conversation.checkpoints()[step]

    conversation.rollback(checkpoint["id"])
    messages = conversation.messages()
    assert said(whole_talk)[: 3 + 2 * step] == said(messages)
    assert len(messages) in safe_indices(messages)
    assert "[waits for an answer]" in str(conversation.timeline())
    desk.ran.clear()
    conversation.retry()

    assert said(whole_talk) == said(conversation.messages())
    assert CALLS[step + 1 :] == desk.ran
    validate(conversation.messages())


def test_undo_and_redo_go_through_a_rollback_to_a_step() -> None:
    """Each undo takes back one deed: what was asked then, then the rollback."""
    conversation = open_thread(Desk())
    first = conversation.messages()
    conversation.rollback(conversation.checkpoints()[0]["id"])
    second = conversation.messages()
    conversation.say("Go on, please.")
    third = conversation.messages()

    conversation.undo()
    assert second == conversation.messages()
    conversation.undo()
    assert first == conversation.messages()
    conversation.redo()
    conversation.redo()
    assert [m.id for m in third] == [m.id for m in conversation.messages()]


def test_a_host_rolls_back_to_a_step_and_the_turn_goes_on() -> None:
    """With the flag and the id, the graph answers the question from the step on."""
    desk = Desk()
    graph = make(
        ScriptedChat(script=desk.script), tools=desk.tools(), settings={"checkpoint_on": ALL}
    )
    state = say(graph, QUESTION)
    before = said(state["messages"])
    (step, *_) = state["checkpoints"]
    desk.ran.clear()

    given = {"should_rollback": True, "rollback_checkpoint_id": step["id"]}
    graph.invoke(given, config())

    assert before == transcript(graph)
    assert ["check", "delete"] == desk.ran


def test_a_rollback_without_a_target_stays_out_of_turns() -> None:
    """A checkpoint at a step is a place for those who name it."""
    conversation = open_thread(Desk())
    conversation.say("Thanks")
    conversation.rollback()
    assert f"ai: {ANSWER}" == said(conversation.messages())[-1]
    conversation.rollback()
    assert [] == conversation.messages()


def test_the_timeline_shows_steps_at_their_turn() -> None:
    """A hollow mark, before the one of the answer; the turn knows the messages of its steps."""
    conversation = open_thread(Desk())
    timeline = conversation.timeline()
    (turn,) = timeline.turns
    steps = [checkpoint["id"] for checkpoint in conversation.checkpoints()[:3]]
    assert [m.id for m in conversation.messages()[1:-1]] == list(turn.step_ids)
    assert all(f"◇ {name}" in str(timeline) for name in steps)
    assert f"◆ {conversation.checkpoints()[3]['id']}" in str(timeline)
    assert "◇" in timeline._repr_mimebundle_()["image/svg+xml"]


@pytest.mark.parametrize("earlier", [(), ("What is a list?",)])
def test_a_host_starts_a_task_by_a_field(earlier: tuple[str, ...]) -> None:
    """The checkpoint is before the message; a rollback by its name goes there, undo takes it back."""
    graph = make(lambda _: "An answer about what was asked, long enough.")
    before = say(graph, *earlier)["messages"] if earlier else []

    state = say_task(graph, "Plan the move.", "the move")

    (checkpoint,) = [
        checkpoint for checkpoint in state["checkpoints"] if checkpoint["name"] == "the move"
    ]
    assert (len(earlier), "task_start") == (checkpoint["turn"], checkpoint["reason"])
    assert state["start_task"] is None
    undone = say(graph, "/undo")
    assert "the move" not in [checkpoint["name"] for checkpoint in undone["checkpoints"]]
    say(graph, "/redo", "And the boxes?", "/rollback the move")
    assert said(before) == [row for row in transcript(graph) if "/" not in row]


def say_task(graph: Any, text: str, task: str) -> dict[str, Any]:
    """Say a text that starts a task."""
    return whole_state(
        graph, graph.invoke({"messages": [("user", text)], "start_task": task}, config()), "t"
    )


def test_a_task_without_a_message_is_started_at_once() -> None:
    """It says so like the command."""
    graph = make(lambda _: "An answer about what was asked, long enough.")
    say(graph, "What is a list?")
    graph.invoke({"start_task": "two"}, config())
    assert "ai: Created checkpoint two." == transcript(graph)[-1]
    state = graph.get_state(config()).values
    assert "two" in [checkpoint["name"] for checkpoint in state["checkpoints"]]


def test_a_task_with_an_impossible_name_is_refused() -> None:
    """A name in use changes nothing; another type is no input."""
    graph = make(lambda _: "An answer about what was asked, long enough.")
    say_task(graph, "Plan the move.", "the move")
    state = say_task(graph, "Plan another move.", "the move")
    assert "exists already" in said(state["messages"])[-1]
    with pytest.raises(InputError, match="start_task"):
        graph.invoke({"messages": [("user", "Hello")], "start_task": 3}, config())


def test_the_first_task_has_a_checkpoint_where_a_host_asks_for_it() -> None:
    """With `checkpoint_on` set, the beginning is a task's start; a rollback to it empties the thread."""
    conversation = Conversation.open(
        ":memory:",
        model=lambda _: "An answer about what was asked, long enough.",
        judge=scores(),
        settings={"checkpoint_on": {"task_start"}},
    )
    conversation.say("Plan the move.")
    (checkpoint,) = conversation.checkpoints()
    assert (None, 0, "task_start") == (
        checkpoint["message_id"],
        checkpoint["turn"],
        checkpoint["reason"],
    )
    assert f"start ◆ {checkpoint['id']}" in str(conversation.timeline())
    conversation.rollback(checkpoint["id"])
    assert [] == conversation.messages()
    conversation.undo()
    assert 2 == len(conversation.messages())


TASK_STARTS = {
    "by default a good score only": ({}, "score", [1, 2, 3]),
    "the first task too": ({"checkpoint_on": ["task_start"]}, "task_start", [0]),
}


@pytest.mark.parametrize(("settings", "reason", "turns"), TASK_STARTS.values(), ids=TASK_STARTS)
@pytest.mark.parametrize("front", ["conversation", "graph"])
def test_a_start_is_no_target_of_a_bare_rollback(
    front: str, settings: dict[str, Any], reason: str, turns: list[int]
) -> None:
    """Each bare rollback takes back one turn of three, also where the only checkpoint is the start."""

    def model(_: list[AnyMessage]) -> str:
        return "An answer about what was asked, long enough."

    texts = [f"Tell me about the move, part {number}." for number in range(3)]
    if front == "graph":
        graph = make(model, settings=settings)
        made = say(graph, *texts)["checkpoints"]
        left = [len(answers(say(graph, "/rollback")["messages"])) for _ in texts]
    else:
        conversation = Conversation.open(":memory:", model=model, judge=scores(), settings=settings)
        for text in texts:
            conversation.say(text)
        made = conversation.checkpoints()
        left = []
        for _ in texts:
            conversation.rollback()
            left.append(len(answers(conversation.messages())))
    assert [(reason, turn) for turn in turns] == [(item["reason"], item["turn"]) for item in made]
    assert [2, 1, 0] == left


def answers(messages: list[AnyMessage]) -> list[AnyMessage]:
    """The answers of a model, without replies to commands."""
    return [message for message in messages if is_answer(message)]
