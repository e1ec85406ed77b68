"""What a host adds, removes or leaves by time travel is undone by itself, and with its own tool calls."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore

from tests.graph.kit import config
from tests.reading import replayed
from tests.threads import open_conversation
from unsay import Conversation, build_graph, reversible
from unsay.errors import ConflictError, InputError, NotFoundError, UnsayError
from unsay.testing import ScriptedChat, ScriptedJudge, ToolCalls, attempt_of, question_of

SOME: dict[str, list[AnyMessage]] = {
    "exchange": [HumanMessage("From elsewhere?"), AIMessage("It came from elsewhere.")],
    "answer": [AIMessage("An answer alone.")],
    "question": [HumanMessage("A question alone?")],
    "document": [HumanMessage("A page that was found.", name="document")],
    "instruction": [SystemMessage("Speak kindly.")],
    "tools": [
        HumanMessage("Look it up?"),
        AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "call-1"}]),
        ToolMessage("found", tool_call_id="call-1"),
        AIMessage("It was found."),
    ],
    "日本語": [HumanMessage("座席は？"), AIMessage("予約済みです。")],
}


class World:
    """What a tool did: `+4A` is a booking of the seat 4A, `-4A` that it was cancelled."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def services(self) -> dict[str, Any]:
        """A model that books when asked to, and the tool."""

        @reversible(undo=lambda result: self.done.append(f"-{result}"), describe="seat {seat}")
        def book(seat: str) -> str:
            """Book a seat."""
            self.done.append(f"+{seat}")
            return seat

        def chat(messages: Any) -> Any:
            question = question_of(messages)
            if "Book" not in question or attempt_of(messages) > 1:
                return f"This is about {question}"
            seat = question.rpartition("Book ")[2][:2]
            return ToolCalls(calls=[{"name": "book", "args": {"seat": seat}}], then="Booked.")

        return {"model": ScriptedChat(script=chat), "judge": ScriptedJudge(), "tools": [book]}


def open_world(world: World, path: Path | str = ":memory:", **settings: Any) -> Conversation:
    """A conversation with the tool."""
    world_settings = {"summaries": "local", **settings}
    return open_conversation(path, settings=world_settings, **world.services())


def texts(conversation: Conversation) -> list[str]:
    """The words of the transcript."""
    return [message.text for message in conversation.messages()]


def seats(messages: list[AnyMessage]) -> list[str]:
    """The seats whose bookings are in a transcript."""
    return [message.text for message in messages if message.type == "tool"]


def is_sound(conversation: Conversation) -> bool:
    """Whether the event log gives the transcript, as `unsay events --verify` checks it."""
    return replayed(conversation).messages == conversation.messages()


WAYS: dict[str, Callable[[Conversation, list[AnyMessage]], Any]] = {
    "add": lambda conversation, messages: conversation.add(messages),
    "update_state": lambda conversation, messages: conversation.graph.update_state(
        config(), {"messages": messages}
    ),
}


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("go_back", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("messages", SOME.values(), ids=SOME)
def test_an_undo_takes_back_only_what_a_host_added(
    messages: list[AnyMessage], go_back: Any
) -> None:
    """The turn before stays with its booking, and a redo adds the messages again."""
    world = World()
    with open_world(world) as conversation:
        conversation.say("Hello?")
        conversation.say("Book 4A")
        before = texts(conversation)
        go_back(conversation, messages)
        after = texts(conversation)
        conversation.undo()
        assert (before, ["+4A"]) == (texts(conversation), world.done)
        conversation.redo()
        assert (after, ["+4A"]) == (texts(conversation), world.done)
        conversation.undo()
        conversation.undo()
        assert (before[:2], ["+4A", "-4A"]) == (texts(conversation), world.done)
        assert is_sound(conversation)


@pytest.mark.sample(every=4)
@pytest.mark.parametrize(
    ("messages", "is_typed"),
    [
        pytest.param(messages, is_typed, id=f"{name}-{'command' if is_typed else 'method'}")
        for name, messages in SOME.items()
        for is_typed in (False, True)
        # A command keeps messages that wait, and is about the steps before them.
        if not (is_typed and name in ("question", "document"))
    ],
)
def test_each_addition_and_each_turn_is_one_step(
    messages: list[AnyMessage], *, is_typed: bool
) -> None:
    """Two additions and a turn are undone one by one, and made again in their order."""
    world = World()
    with open_world(world) as conversation:
        transcripts = []
        second: list[AnyMessage] = [HumanMessage("More?"), AIMessage("No more than this.")]
        for deed in (
            lambda: conversation.say("Book 4A"),
            lambda: conversation.add(second),
            lambda: conversation.add(messages),
            lambda: conversation.say("Book 5B"),
        ):
            transcripts.append(texts(conversation))
            deed()
        transcripts.append(texts(conversation))
        for expected in transcripts[3:0:-1]:
            conversation.say("/undo") if is_typed else conversation.undo()
            assert expected == spoken_texts(conversation)
        assert ["+4A", "+5B", "-5B"] == world.done
        for expected in transcripts[2:]:
            conversation.say("/redo") if is_typed else conversation.redo()
            assert expected == spoken_texts(conversation)
        assert is_sound(conversation)


def spoken_texts(conversation: Conversation) -> list[str]:
    """The words of the transcript without commands and notices."""
    return [
        message.text
        for message in conversation.messages()
        if not message.text.startswith("/")
        and message.response_metadata.get("unsay", {}).get("kind") != "notice"
    ]


def test_an_addition_ends_what_could_be_redone() -> None:
    """Also one that waits for an answer."""
    with open_world(World()) as conversation:
        conversation.say("Hello?")
        conversation.undo()
        conversation.add(SOME["question"])
        with pytest.raises(UnsayError, match="nothing to redo"):
            conversation.redo()


@pytest.mark.parametrize("go_back", WAYS.values(), ids=WAYS)
def test_an_undo_of_a_hosts_edit_gives_the_words_back(go_back: Any) -> None:
    """One change that replaces, removes and adds is one step, and every message returns to its place."""
    world = World()
    with open_world(world) as conversation:
        for question in ("One?", "Book 4A", "Three?"):
            conversation.say(question)
        before = texts(conversation)
        messages = conversation.messages()
        go_back(
            conversation,
            [
                HumanMessage("Other words?", id=messages[0].id),
                RemoveMessage(id=messages[-1].id or ""),
                HumanMessage("Added?"),
                AIMessage("This was added."),
            ],
        )
        after = texts(conversation)
        conversation.undo()
        assert before == texts(conversation)
        conversation.redo()
        assert after == texts(conversation)
        assert ["+4A"] == world.done
        assert is_sound(conversation)


def test_an_exchange_in_a_runs_input_is_a_step() -> None:
    """It is not undone with the turn before it."""
    world = World()
    with open_world(world) as conversation:
        conversation.say("Book 4A")
        before = texts(conversation)
        conversation.graph.invoke({"messages": [*SOME["exchange"], ("user", "And?")]}, config())
        conversation.undo()
        assert [*before, *(m.text for m in SOME["exchange"])] == texts(conversation)
        conversation.undo()
        assert (before, ["+4A"]) == (texts(conversation), world.done)


def test_a_question_that_an_update_asks_is_one_step_with_its_answer() -> None:
    """A front end may write the question first, and then run the graph without an input."""
    with open_world(World()) as conversation:
        conversation.say("One?")
        conversation.graph.update_state(config(), {"messages": [("user", "Two?")]}, "__start__")
        conversation.graph.invoke(None, config())
        assert ["One?", "Two?"] == texts(conversation)[::2]
        conversation.undo()
        assert ["One?"] == texts(conversation)[::2]
        conversation.redo()
        assert ["One?", "Two?"] == texts(conversation)[::2]


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("change", ["replaced", "removed"])
@pytest.mark.parametrize("span", [slice(1), slice(1, 3)], ids=["question", "call"])
@pytest.mark.parametrize("live_messages", [4, 200])
def test_a_call_whose_message_is_offloaded_stays(
    live_messages: int, span: slice, change: str
) -> None:
    """A host changes a message of the turn, which is offloaded before the next answer."""
    world = World()
    with open_world(world, live_messages=live_messages) as conversation:
        conversation.say("Book 4A")
        for question in ("Two?", "Three?", "Four?"):
            conversation.add([HumanMessage(question), AIMessage("This was answered.")])
        changes: list[Any] = [
            RemoveMessage(message.id or "")
            if change == "removed"
            else message.model_copy(update={"content": f"{message.text} again"})
            for message in conversation.messages()[span]
        ]
        conversation.add(changes)
        conversation.say("And on?")
        booked_seats = seats(conversation.messages())
        assert [deed for deed in ["+4A", "-4A"] if deed == "+4A" or not booked_seats] == world.done
        assert is_sound(conversation)


LOADS: dict[str, Callable[[Conversation], Any]] = {
    "pin": lambda conversation: conversation.pins.add(turn=1),
    "forget": lambda conversation: conversation.forget(turns=1),
    "remove": lambda conversation: conversation.remove(3),
    "rollback": lambda conversation: conversation.rollback(turns=6),
    "edit": lambda conversation: conversation.edit(5, "In other words?"),
}


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("undone", [False, True], ids=["", "undone"])
@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS)
def test_a_travel_behind_offloaded_turns_leaves_their_calls(load: Any, *, undone: bool) -> None:
    """An offloaded segment that was loaded between the two states is still a part of the transcript."""
    world = World()
    with open_world(world, live_messages=4) as conversation:
        for question in ("One?", "Book 4A", *(f"Number {n}?" for n in range(3, 9))):
            conversation.say(question)
        before = conversation.messages()
        run_config = conversation.graph.get_state(config()).config
        load(conversation)
        if undone:
            conversation.undo()
        conversation.graph.invoke({"messages": [("user", "Travelled?")]}, run_config)
        assert ["+4A"] == world.done
        assert before == conversation.messages()[:-2]
        assert is_sound(conversation)
        conversation.undo()
        assert before == conversation.messages()
        assert (["+4A"], True) == (world.done, is_sound(conversation))


def test_what_a_travel_left_returns_in_its_order() -> None:
    """An edited message in the middle and the turns after it come back to their own places."""
    with open_world(World()) as conversation:
        for question in ("One?", "Two?"):
            conversation.say(question)
        run_config = conversation.graph.get_state(config()).config
        second = conversation.messages()[2]
        conversation.add([HumanMessage("Edited?", id=second.id)])
        conversation.say("Three?")
        before = texts(conversation)
        conversation.graph.invoke({"messages": [("user", "Travelled?")]}, run_config)
        assert ["One?", "Two?", "Travelled?"] == texts(conversation)[::2]
        conversation.undo()
        conversation.undo()
        assert (before, True) == (texts(conversation), is_sound(conversation))


def test_an_undo_in_the_run_of_a_travel_keeps_the_call() -> None:
    """The command brings the turn back before its call would be undone."""
    world = World()
    with open_world(world) as conversation:
        conversation.say("One?")
        run_config = conversation.graph.get_state(config()).config
        conversation.say("Book 4A")
        conversation.graph.invoke({"messages": [("user", "/undo")]}, run_config)
        assert (["4A"], ["+4A"]) == (seats(conversation.messages()), world.done)


@pytest.mark.parametrize("store", [True, False], ids=["store", "no store"])
def test_a_verdict_of_our_own_is_not_given_again(*, store: bool) -> None:
    """A flagged answer to which a host goes back stays, with its question and its verdict."""
    exchanges: list[str] = []

    def judge(messages: Any) -> float:
        exchanges.append(messages[-1].text)
        return 0.1 if "\nPoor.\n</answer" in exchanges[-1] else 0.9

    graph = build_graph(
        ScriptedChat(replies={"Poor": "Poor."}, default="This is fine."),
        judge=judge,
        checkpointer=InMemorySaver(),
        store=InMemoryStore() if store else None,
    )
    for question in ("One?", "Poor?"):
        graph.invoke({"messages": [("user", question)]}, config())
    state_before = graph.get_state(config())
    graph.invoke({"messages": [("user", "/rollback 1")]}, config())
    exchanges.clear()
    state = graph.invoke({"messages": [("user", "Three?")]}, state_before.config)
    assert state_before.values["messages"] == state["messages"][:4]
    assert 1 == len(exchanges)


def parent_of(world: World, kind: str, *, store: bool, **settings: Any) -> Any:
    """A parent whose only node is the graph."""
    checkpointer = True if kind == "True" else None
    world_settings = {"summaries": "local", **settings}
    node = build_graph(checkpointer=checkpointer, settings=world_settings, **world.services())
    builder: Any = StateGraph(MessagesState)
    builder.add_node("talk", node)
    builder.add_edge(START, "talk")
    parent_store = InMemoryStore() if store else None
    return builder.compile(checkpointer=InMemorySaver(), store=parent_store)


@pytest.fixture(params=["None", "True"])
def kind(request: pytest.FixtureRequest) -> str:
    """With which checkpointer the node is built."""
    return str(request.param)


def ask(parent: Any, text: str, run_config: Any = None) -> list[AnyMessage]:
    """Send a text to the parent; its messages afterwards."""
    messages: list[AnyMessage] = parent.invoke(
        {"messages": [("user", text)]}, run_config or config()
    )["messages"]
    return messages


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("store", [True, False], ids=["store", "no store"])
@pytest.mark.parametrize("live_messages", [4, 200])
def test_a_parents_travel_is_one_of_the_node(kind: str, live_messages: int, *, store: bool) -> None:
    """The left turn is a branch, its call is undone once, and undo brings the turn back."""
    world = World()
    parent = parent_of(world, kind, store=store, live_messages=live_messages)
    for number in range(4):
        before = ask(parent, f"Number {number}?")
    run_config = parent.get_state(config()).config
    messages_left = ask(parent, "Book 4A")
    messages_travelled = ask(parent, "Travelled?", run_config)
    assert before == messages_travelled[:-2]
    assert ["+4A", "-4A"] == world.done
    assert "Book 4A" in ask(parent, "/branches")[-1].text
    ask(parent, "/undo")
    messages_back = ask(parent, "/undo")
    assert [m.text for m in messages_left] == [m.text for m in messages_back[:-2]]
    assert ["+4A", "-4A"] == world.done


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("store", [True, False], ids=["store", "no store"])
def test_a_parent_asks_a_question_again(kind: str, *, store: bool) -> None:
    """The first call is undone and a second one made, also for the first question of a thread."""
    world = World()
    parent = parent_of(world, kind, store=store, live_messages=4)
    for question in ("Book 4A", "Two?", "Three?"):
        ask(parent, question)
    first = [state for state in parent.get_state_history(config()) if state.next == ("talk",)][-1]
    for _ in range(2):
        messages = parent.invoke(None, first.config)["messages"]
        assert ["Book 4A", "", "4A", "Booked."] == [message.text for message in messages]
    assert ["+4A", "-4A", "+4A", "-4A", "+4A"] == world.done


async def test_a_parents_travel_on_an_event_loop(kind: str) -> None:
    """It leaves and undoes the same."""
    world = World()
    parent = parent_of(world, kind, store=True)
    await parent.ainvoke({"messages": [("user", "One?")]}, config())
    run_config = (await parent.aget_state(config())).config
    await parent.ainvoke({"messages": [("user", "Book 4A")]}, config())
    state = await parent.ainvoke({"messages": [("user", "Two?")]}, run_config)
    assert ["One?", "Two?"] == [m.text for m in state["messages"]][::2]
    assert ["+4A", "-4A"] == world.done


def test_messages_that_a_host_removes_in_a_parent_are_a_branch() -> None:
    """Their call is undone by the node's next run."""
    world = World()
    parent = parent_of(world, "None", store=True)
    ask(parent, "One?")
    messages = ask(parent, "Book 4A")
    removals = [RemoveMessage(id=message.id or "") for message in messages[2:]]
    parent.update_state(config(), {"messages": removals})
    ask(parent, "Three?")
    assert ["+4A", "-4A"] == world.done
    assert "Book 4A" in ask(parent, "/branches")[-1].text


def test_an_order_to_a_node_with_a_transcript_of_its_own_keeps_offloaded_turns() -> None:
    """What the parent passes again is no new message at the end of the node's transcript."""
    world = World()
    parent = parent_of(world, "True", store=True, live_messages=4)
    for question in ("Book 4A", *(f"Number {n}?" for n in range(6))):
        messages = ask(parent, question)
    messages_left = ask(parent, "/rollback 1")
    assert [m.text for m in messages[:-2]] == [m.text for m in messages_left[:-2]]
    assert ["+4A"] == world.done


DEEDS = ("say", "book", "add", "update", "edit", "undo", "redo", "rollback", "travel", "fork")


@pytest.mark.full
@settings(
    max_examples=min(30, settings().max_examples)
)  # each example holds a conversation with tools
@given(
    deeds=st.lists(
        st.tuples(st.sampled_from(DEEDS), st.integers(0, 9), st.sampled_from([*SOME])),
        min_size=3,
        max_size=7,
    ),
    live_messages=st.sampled_from([4, 200]),
)
def test_only_calls_of_turns_that_left_are_undone(deeds: list[Any], live_messages: int) -> None:
    """After any sequence the undone calls are those that are not there, and the event log is sound."""
    world = World()
    with open_world(world, live_messages=live_messages) as conversation:
        conversation.say("Hello.")
        for number, (deed, index, addition) in enumerate((*deeds, ("say", 0, "answer"))):
            count = len(world.done)
            for step in carry_out(conversation, deed, index, addition, number):
                step()
            booked_seats = seats(conversation.messages())
            assert [] == [
                booking
                for booking in world.done[count:]
                if booking[0] == "-" and booking[1:] in booked_seats
            ]
            assert len(world.done) == len(set(world.done))
            assert is_sound(conversation)
        open_bookings = {booking[1:] for booking in world.done if booking[0] == "+"} - {
            *booked_seats
        }
        assert open_bookings <= {booking[1:] for booking in world.done if booking[0] == "-"}


def carry_out(
    conversation: Conversation, deed: str, index: int, addition: str, number: int
) -> Iterator[Callable[[], Any]]:
    """What somebody does, unless it is refused."""
    states = [s for s in conversation.graph.get_state_history(config()) if not s.next]
    run_config = states[index % len(states)].config if states else config()
    messages = [m.model_copy(update={"id": f"{number}-{i}"}) for i, m in enumerate(SOME[addition])]
    humans = [m for m in conversation.messages() if m.type == "human"]
    edits: list[AnyMessage] = [
        HumanMessage("Edited?", id=m.id) for m in humans[index % 3 : index % 3 + 1]
    ]
    question = {"messages": [("user", f"Book {number}Z" if index > 5 else "And then?")]}
    deeds: dict[str, Callable[[], Any]] = {
        "say": lambda: conversation.say("And on?"),
        "book": lambda: conversation.say(f"Book {number}A"),
        "add": lambda: conversation.add(messages),
        "update": lambda: conversation.graph.update_state(config(), {"messages": messages}),
        "edit": lambda: conversation.add([*edits, *messages]),
        "undo": conversation.undo,
        "redo": conversation.redo,
        "rollback": lambda: conversation.rollback(turns=index % 3 + 1),
        "travel": lambda: conversation.graph.invoke(question, run_config),
        "fork": lambda: conversation.graph.update_state(
            run_config, {"messages": messages}, "create_checkpoint"
        ),
    }

    def try_deed() -> None:
        with suppress(ConflictError, NotFoundError, InputError):
            deeds[deed]()

    yield try_deed
