"""After any sequence of deeds the checkpoints, their metadata and the history are true."""

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.tools import tool

from tests.graph.kit import config, make
from tests.reading import replayed, state_of
from unsay import risky
from unsay.conversation.conversation import Conversation
from unsay.errors import UnsayError
from unsay.messages.annotations import is_answer, spoken
from unsay.messages.boundaries import safe_indices
from unsay.messages.conformance import validate
from unsay.messages.content import text_of
from unsay.testing import ScriptedChat

pytestmark = pytest.mark.usefixtures("closes_databases")

SETTINGS = {"checkpoint_on": {"score", "task_start", "tool_step", "risky", "error"}}


@tool
def look(thing: str) -> str:
    """Look."""
    return f"{thing} is there"


@risky
@tool
def move(thing: str) -> str:
    """Move."""
    if thing == "wall":
        raise ValueError("too heavy")
    return f"{thing} is moved"


def script(messages: list[AnyMessage]) -> AIMessage:
    """Two calls for some questions, the second of a risky tool, which fails for one of them."""
    text = next(text_of(m) for m in reversed(messages) if m.type == "human")
    call_count = 0
    for message in reversed(messages):
        if message.type == "human":
            break
        call_count += message.type == "tool"
    if "move" in text and call_count < 2:
        furniture = "wall" if "wall" in text else "chair"
        call = {
            "name": ("look", "move")[call_count],
            "args": {"thing": furniture},
            "id": f"call-{call_count}",
        }
        return AIMessage("", tool_calls=[call])
    return AIMessage(f"An answer to what was asked: {text}, in {len(messages)} messages.")


def judge_of(seed: int) -> Callable[[Any], Any]:
    """A judge that fails one draft in five, and then sometimes blames what it was shown."""
    chance = random.Random(seed)  # noqa: S311 - the verdicts of a test

    def judge(request: list[Any]) -> Any:
        if chance.random() > 0.2:
            return chance.choice([0.6, 0.7, 0.85, 0.95])
        ids = [piece.split("]")[0] for piece in text_of(request[-1]).split("[id ")[1:]]
        return {"score": 0.2, "reason": "Wrong.", "blamed": ids[: chance.randint(0, 1)]}

    return judge


QUESTIONS = ["What is a list?", "Please move the chair.", "Please move the wall.", "And a set?"]
DEEDS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.sampled_from(QUESTIONS)),
        st.tuples(
            st.sampled_from(["rollback", "restore", "remove", "edit", "checkpoint", "task"]),
            st.integers(0, 6),
        ),
        st.tuples(st.sampled_from(["undo", "redo", "retry", "pin", "back"]), st.just(0)),
    ),
    min_size=3,
    max_size=14,
)


def check(state: dict[str, Any], messages: list[AnyMessage]) -> None:
    """Metadata, turns and history agree with the transcript."""
    numbers = {None: 0}
    answer_count = 0
    ids = {message.id for message in spoken(messages)}
    for message in messages:
        answer_count += is_answer(message) and message.id in ids
        numbers[message.id] = answer_count
    checkpoints = state.get("checkpoints", [])
    assert [numbers[checkpoint["message_id"]] for checkpoint in checkpoints] == [
        checkpoint["turn"] for checkpoint in checkpoints
    ]
    safe = safe_indices(messages)
    positions = {None: -1, **{message.id: index for index, message in enumerate(messages)}}
    assert all(positions[checkpoint["message_id"]] + 1 in safe for checkpoint in checkpoints)
    metadata = state.get("checkpoint_metadata", {})
    last = max((positions[checkpoint["message_id"]] for checkpoint in checkpoints), default=None)
    newest_checkpoints = [
        checkpoint for checkpoint in checkpoints if positions[checkpoint["message_id"]] == last
    ]
    if not newest_checkpoints:
        assert {} == metadata
    else:
        values = {key: metadata[key] for key in ("checkpoint_id", "name", "quality_score", "topic")}
        descriptions = [
            {
                "checkpoint_id": item["id"],
                "name": item["name"],
                "quality_score": item["score"],
                "topic": item["topic"],
            }
            for item in newest_checkpoints
        ]
        assert values in descriptions
        assert last is not None
        assert last + 1 == metadata["message_count"]
    for note in state.get("state_history", []):
        assert note["description"]
    if history := state.get("state_history", []):
        assert 0 <= history[-1]["turn"] <= answer_count + 1
    validate(messages)


def do(conversation: Conversation, verb: str, value: Any) -> None:
    """Do one thing; what cannot be done now is refused and changes nothing."""
    deeds: dict[str, Callable[[], Any]] = {
        "say": lambda: conversation.say(value),
        "rollback": lambda: conversation.rollback(conversation.checkpoints()[-1 - value]["id"]),
        "back": conversation.rollback,
        "restore": lambda: conversation.restore([b.id for b in conversation.branches()][1:][value]),
        "remove": lambda: conversation.remove(value),
        "edit": lambda: conversation.edit(value, "Please move the chair, edited."),
        "checkpoint": lambda: conversation.checkpoint(f"name {value}"),
        "task": lambda: conversation.checkpoint(f"task {value}", task=True),
        "undo": conversation.undo,
        "redo": conversation.redo,
        "retry": conversation.retry,
        "pin": conversation.pins.add,
    }
    with suppress(UnsayError, IndexError):
        deeds[verb]()


@given(deeds=DEEDS, seed=st.integers(0, 99))
def test_checkpoints_are_true_after_any_deeds(deeds: list[tuple[str, Any]], seed: int) -> None:
    """By the methods of a conversation: also the event log and the timeline agree."""
    conversation = Conversation.open(
        ":memory:",
        model=ScriptedChat(script=script),
        judge=judge_of(seed),
        tools=[look, move],
        settings=SETTINGS,
    )
    for verb, value in [("say", "Hello there."), *deeds]:
        do(conversation, verb, value)
        state = state_of(conversation)
        if not state:
            continue
        check(state, conversation.messages())
        log = replayed(conversation)
        assert [m.id for m in conversation.messages()] == [m.id for m in log.messages]
        turns = conversation.timeline().turns
        numbers = [turn.number for turn in turns if turn.answer is not None]
        assert [*range(1, len(numbers) + 1)] == numbers


@given(deeds=DEEDS, seed=st.integers(0, 99))
def test_checkpoints_are_true_after_any_orders_of_a_host(
    deeds: list[tuple[str, Any]], seed: int
) -> None:
    """The same through the compiled graph: typed orders, the flag for a rollback, started tasks."""
    graph = make(ScriptedChat(script=script), judge_of(seed), tools=[look, move], settings=SETTINGS)
    for verb, value in [("say", "Hello there."), *deeds]:
        state = graph.get_state(config()).values
        given_now: dict[str, Any] = {"messages": [("user", command_line(verb, value))]}
        if verb == "restore":
            given_now = {"should_rollback": True}
            if checkpoints := state.get("checkpoints", []):
                given_now["rollback_checkpoint_id"] = checkpoints[-1 - value % len(checkpoints)][
                    "id"
                ]
        elif verb == "task":
            given_now = {"messages": [("user", "A new task.")], "start_task": f"task {value}"}
        with suppress(UnsayError):
            graph.invoke(given_now, config())
        state = graph.get_state(config()).values
        check(state, state["messages"])


def command_line(verb: str, value: Any) -> str:
    """What a person types."""
    if verb == "say":
        return str(value)
    text = {
        "edit": f"/edit {value} Please move the chair, edited.",
        "rollback": f"/rollback {value}",
        "remove": f"/remove {value}",
        "checkpoint": f"/checkpoint name {value}",
        "back": "/rollback",
    }
    return text.get(verb, f"/{verb}")
