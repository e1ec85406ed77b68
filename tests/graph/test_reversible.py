import json
import signal
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from tests.children import run_child
from tests.graph.kit import GOOD, config, make, say, scores
from tests.reading import branches, calls_to_undo, handle_of, said, transcript
from tests.threads import open_conversation, registry_of
from unsay import AsyncConversation, Conversation, reversible
from unsay.effects import drive
from unsay.errors import (
    ConfirmationNeededError,
    ConflictError,
    EmptyAnswerError,
    ModelUnavailableError,
)
from unsay.history.branch import Label
from unsay.history.compensations import list_entries
from unsay.messages.annotations import is_notice
from unsay.testing import ScriptedChat, ScriptedJudge, ToolCalls, attempt_of, question_of
from unsay.transcript.live import go_back

WORLD: list[str] = []
BROKEN: list[str] = []


@pytest.fixture(autouse=True)
def empty_world() -> None:
    """Each test has a separate world."""
    WORLD.clear()
    BROKEN.clear()


def cancel(to: str, result: str) -> None:
    """Cancel a booking."""
    if to in BROKEN:
        raise OSError(f"no line to {to}")
    assert f"ticket {to}" == result
    WORLD.append(f"-{to}")


async def cancel_later(args: dict[str, Any], result: str) -> None:
    """Cancel a booking, on an event loop."""
    cancel(args["to"], result)


@reversible(undo=cancel, describe="the ticket to {to}")
def book(to: str) -> str:
    """Reserve a ticket."""
    WORLD.append(f"+{to}")
    return f"ticket {to}"


@tool
async def book_later(to: str) -> str:
    """Reserve a ticket, on an event loop."""
    WORLD.append(f"+{to}")
    return f"ticket {to}"


reversible(undo=cancel_later)(book_later)


@reversible(undo=cancel, confirm=True, describe="the dear ticket to {to}")
def book_dear(to: str) -> str:
    """Reserve a dear ticket."""
    WORLD.append(f"+{to}")
    return f"ticket {to}"


@reversible(undo=None)
def look(at: str) -> str:
    """Look something up."""
    return at


def letter(to: str) -> str:
    """Send a letter, which nothing takes back."""
    WORLD.append(f"letter {to}")
    return "sent"


TOOLS = [book, book_later, book_dear, look, letter]


def step(to: str, name: str = "book") -> AIMessage:
    """A model's message that calls a tool; the judges of these tests blame it by its id."""
    call = {"name": name, "args": {"to": to}, "id": f"call-{to}", "type": "tool_call"}
    return AIMessage("", id=f"step-{to}-0123456789abcdef", tool_calls=[call])


def blaming(*scored: tuple[str, float]) -> Any:
    """A judge that scores answers by their words, and blames all tool steps of those that fail."""

    def judge(request: list[Any]) -> Any:
        found = [score for text, score in scored if text in str(request[-1].content)]
        blamed = [f"step-{to}-0123456789abcdef" for to in ("Kyoto", "Nara", "Paris")]
        return {"score": min(found, default=0.9), "reason": "not asked", "blamed": blamed}

    return judge


def drafting(*drafts: Any, trigger: str = "Attempt") -> Any:
    """A model whose attempts are these: a step and the words after it, or only words."""

    def script(messages: list[Any]) -> Any:
        text = "".join(str(m.content) for m in messages)
        number = next((n for n in range(len(drafts), 1, -1) if f"{trigger} {n}" in text), 1)
        draft = drafts[number - 1]
        if isinstance(draft, str):
            return draft
        return draft[1] if messages[-1].type == "tool" else draft[0]

    return ScriptedChat(script=script)


def calls(*names: tuple[str, str], then: Any = "It is done: {result}.") -> ToolCalls:
    """A reply that calls tools."""
    made = [{"name": n, "args": {"at" if n == "look" else "to": to}} for n, to in names]
    return ToolCalls(calls=made, then=then)


REPLIES: dict[str, Any] = {
    "Hello": GOOD,
    "Kyoto": calls(("book", "Kyoto")),
    "Osaka and Nara": calls(("book", "Osaka"), ("look", "map"), ("book", "Nara")),
    "dear": calls(("book_dear", "Paris")),
    "two dear": calls(("book_dear", "Rome"), ("book_dear", "Oslo")),
    "letter": calls(("letter", "Ann")),
    "Thanks": "You are welcome, and have a good journey.",
}


def graph(replies: dict[str, Any] | None = None, judge: Any = None, **options: Any) -> Any:
    """A graph with tools that have consequences."""
    chat = ScriptedChat(replies={**REPLIES, **(replies or {})})
    settings = {"topics": "off", **options.pop("settings", {})}
    return make(chat, judge or ScriptedJudge(), tools=TOOLS, settings=settings, **options)


def open_thread(folder: Path, **options: Any) -> Conversation:
    """A conversation on disk."""
    options = {"model": ScriptedChat(replies=REPLIES), "judge": ScriptedJudge(), **options}
    return open_conversation(folder / "a.db", tools=TOOLS, **options)


def step_log(conversation: Conversation) -> list[tuple[str, str]]:
    """Each call's tool and how far its compensation is."""
    entries = drive(list_entries(conversation.graph.store, "t"))
    return sorted((entry.compensation.tool, entry.status) for entry in entries)


def stream_outcomes(made: Any, text: str) -> list[tuple[str, str]]:
    """Return the compensations in the custom stream while a text is answered."""
    stream = made.stream({"messages": [("user", text)]}, config(), stream_mode="custom")
    compensations = [event for event in stream if event["unsay"] == "compensation"]
    return [(event["description"], event["result"]) for event in compensations]


def test_an_order_takes_back_what_tools_did(tmp_path: Path) -> None:
    """The newest call first, each with its own arguments and result, each once."""
    with open_thread(tmp_path) as conversation:
        conversation.say("Hello")
        conversation.say("Kyoto")
        conversation.say("Osaka and Nara")
        conversation.rollback(conversation.checkpoints()[0]["id"])

        assert ["+Kyoto", "+Osaka", "+Nara", "-Nara", "-Osaka", "-Kyoto"] == WORLD
        assert [("book", "done")] * 3 == step_log(conversation)
        assert 2 == len(conversation.messages())


@pytest.mark.parametrize("undone", [False, True], ids=["restore", "undo"])
def test_a_question_that_a_host_rewrites_leaves_its_calls_alone(
    tmp_path: Path, *, undone: bool
) -> None:
    """The call is in the transcript before and after, so putting the old words back undoes nothing."""
    with open_thread(tmp_path) as conversation:
        conversation.say("Kyoto")
        question = conversation.messages()[0]
        rewritten = HumanMessage("A ticket, please", id=question.id)
        conversation.graph.invoke({"messages": [rewritten]}, config())

        branch = next(branch.id for branch in conversation.branches() if branch.id != "live")
        conversation.restore(branch)
        if undone:
            conversation.undo()

        assert ["+Kyoto"] == WORLD


def test_a_redo_makes_no_call_again(tmp_path: Path) -> None:
    """Restored messages were compensated and stay so; removed again, nothing runs twice."""
    with open_thread(tmp_path) as conversation:
        conversation.say("Hello")
        conversation.say("Kyoto")
        conversation.undo()
        conversation.redo()
        after = said(conversation.messages())
        conversation.undo()

        assert "tool: ticket Kyoto" in after
        assert ["+Kyoto", "-Kyoto"] == WORLD


def test_a_return_is_reported_where_the_graph_moves() -> None:
    """The notice says that the words are back and the deed is not."""
    new_graph = graph()
    say(new_graph, "Hello", "Kyoto", "/undo")
    undone = transcript(new_graph)[-1]
    state = say(new_graph, "/redo")

    assert undone.endswith("Undone: the ticket to Kyoto.")
    assert transcript(new_graph)[-1].endswith(
        "Restored in the conversation, but already undone and not run again: the ticket to Kyoto."
    )
    assert ["+Kyoto", "-Kyoto"] == WORLD
    assert [] == state["pending_compensations"]


def test_the_notice_and_the_event_tell_of_what_was_and_was_not_taken_back() -> None:
    """What failed and what nothing takes back is named with its reason."""
    BROKEN.append("Kyoto")
    new_graph = graph()
    say(new_graph, "Hello", "Kyoto", "letter", "Osaka and Nara")
    first = new_graph.get_state(config()).values["checkpoints"][0]["id"]

    events = stream_outcomes(new_graph, f"/rollback {first}")

    assert [
        ("the ticket to Nara", "undone"),
        ("the ticket to Osaka", "undone"),
        ("letter(to='Ann')", "skipped"),
        ("the ticket to Kyoto", "failed"),
    ] == events
    assert transcript(new_graph)[-1].endswith(
        "Undone: the ticket to Nara, the ticket to Osaka. Not undone, still in effect: "
        "letter(to='Ann') (no compensation is registered), "
        "the ticket to Kyoto (OSError: no line to Kyoto)."
    )


async def test_asynchronous_tools_and_undos_work_on_an_event_loop(tmp_path: Path) -> None:
    """Under `ainvoke` and from an order alike."""
    chat = ScriptedChat(replies={"Rome": calls(("book_later", "Rome")), "Kyoto": REPLIES["Kyoto"]})
    async with AsyncConversation.open(
        tmp_path / "a.db", model=chat, judge=ScriptedJudge(), tools=TOOLS
    ) as conversation:
        await conversation.say("Rome")
        await conversation.say("Kyoto")
        await conversation.say("/undo")
        await conversation.undo()

    assert ["+Rome", "+Kyoto", "-Kyoto", "-Rome"] == WORLD


def test_a_rejected_drafts_deeds_stay_and_are_not_done_again() -> None:
    """The next attempt begins with the result of the finished step."""
    graph = make(
        drafting((step("Kyoto"), "Fish."), GOOD), ScriptedJudge(scores={"Fish": 0.1}), tools=TOOLS
    )

    state = say(graph, "A ticket to Kyoto, please.")

    assert ["+Kyoto"] == WORLD
    assert ["human", "ai", "tool", "ai"] == [m.type for m in state["messages"]]


def test_blamed_deeds_are_taken_back_before_the_next_attempt() -> None:
    """The next attempt finds the world as the question did, if the judge blames the step."""
    found: list[list[str]] = []

    def script(messages: list[Any]) -> Any:
        found.append([*WORLD])
        again = any("Attempt" in str(m.content) for m in messages)
        if again:
            return GOOD
        return "Fish." if messages[-1].type == "tool" else step("Kyoto")

    graph = make(ScriptedChat(script=script), blaming(("Fish", 0.1)), tools=TOOLS)
    state = say(graph, "A ticket to Kyoto, please.")

    assert [[], ["+Kyoto"], ["+Kyoto", "-Kyoto"]] == found
    assert ["+Kyoto", "-Kyoto"] == WORLD
    assert f"ai: {GOOD}" == said(state["messages"])[-1]
    assert [] == state["pending_compensations"]


def test_the_next_attempt_is_told_of_what_could_not_be_taken_back() -> None:
    """So that it does not book a second time."""
    BROKEN.append("Kyoto")
    chat = drafting((step("Kyoto"), "Fish."), GOOD)
    graph = make(chat, blaming(("Fish", 0.1)), tools=TOOLS)

    say(graph, "Kyoto")

    assert "still in effect: the ticket to Kyoto" in "".join(str(m.content) for m in chat.calls[-1])


def test_a_call_that_failed_is_not_said_to_be_in_effect() -> None:
    """Neither the next attempt nor the person who rolls back is told that it stands."""

    @reversible(undo=cancel, describe="the ticket to {to}")
    def ticket(to: str) -> str:
        """Buy a ticket."""
        raise OSError(f"no seat to {to}")

    chat = drafting((step("Kyoto", "ticket"), "Fish."), GOOD)
    graph = make(chat, blaming(("Fish", 0.1)), tools=[ticket])

    say(graph, "Kyoto")

    assert 3 == len(chat.calls)
    assert "in effect" not in "".join(str(m.content) for m in chat.calls[-1])


def test_the_best_draft_tells_of_deeds_that_stand() -> None:
    """A draft whose deeds were taken back is not delivered, though it scored more."""
    drafts = [(step(to), f"Booked {to}, as asked.") for to in ("Kyoto", "Nara")]
    judge = blaming(("Kyoto, as", 0.4), ("Nara, as", 0.2))
    graph = make(drafting(*drafts), judge, tools=TOOLS, settings={"max_rollbacks": 1})

    state = say(graph, "UsageAccount me a trip.")

    assert ["+Kyoto", "-Kyoto", "+Nara"] == WORLD
    assert "ai: Booked Nara, as asked." == said(state["messages"])[-1]


@pytest.mark.parametrize("store", [None, InMemoryStore()], ids=["no store", "store"])
def test_deeds_that_drafts_have_in_common_stand(store: InMemoryStore | None) -> None:
    """The last draft began with the finished step of the draft that is delivered."""
    graph = make(
        drafting((step("Kyoto"), "Booked Kyoto, as asked."), "I am not sure about this trip."),
        ScriptedJudge(scores={"as asked": 0.4, "not sure": 0.2}),
        tools=TOOLS,
        settings={"max_rollbacks": 1},
        store=store,
    )

    state = say(graph, "UsageAccount me a trip.")

    assert ["human", "ai", "tool", "ai"] == [m.type for m in state["messages"]]
    assert "ai: Booked Kyoto, as asked." == said(state["messages"])[-1]
    assert ["+Kyoto"] == WORLD
    say(graph, "/undo")
    assert ["+Kyoto", "-Kyoto"] == WORLD


def test_the_last_drafts_deeds_are_taken_back_when_another_is_delivered() -> None:
    """The turn's end settles what its last draft did."""
    drafts = ["I am not sure about this trip.", calls(("book", "Nara"), then="Booked, as asked.")]
    store = InMemoryStore()
    graph = make(
        ScriptedChat(replies={"trip": drafts}),
        scores(0.4, 0.2),
        tools=TOOLS,
        settings={"max_rollbacks": 1},
        store=store,
    )

    state = say(graph, "UsageAccount me a trip.")

    assert ["+Nara", "-Nara"] == WORLD
    assert "ai: I am not sure about this trip." == said(state["messages"])[-1]
    assert [] == state["pending_compensations"]


@pytest.mark.parametrize(
    ("answer", "world"),
    [
        pytest.param({"decisions": [{"type": "approve"}]}, ["+Paris", "-Paris"], id="approved"),
        pytest.param("approve", ["+Paris", "-Paris"], id="one-word"),
        pytest.param([{"type": "ignore"}], ["+Paris"], id="declined-in-an-inbox"),
        pytest.param({"decisions": [{"type": "reject"}]}, ["+Paris"], id="declined"),
    ],
)
def test_a_person_is_asked_before_the_record_changes(answer: Any, world: list[str]) -> None:
    """In LangChain's request; with a yes the call is taken back, without it is named."""
    new_graph = graph()
    say(new_graph, "Hello", "dear")
    before = transcript(new_graph)
    state = say(new_graph, "/rollback")
    (interrupt,) = state["__interrupt__"]

    assert ["+Paris"] == WORLD
    assert [*before, "human: /rollback"] == transcript(new_graph)
    (action,) = interrupt.value["action_requests"]
    assert ("undo_book_dear", {"to": "Paris"}) == (action["name"], action["args"]["args"])
    assert action["args"] == action["arguments"]
    assert "the dear ticket to Paris" in action["description"]
    assert [
        {"action_name": "undo_book_dear", "allowed_decisions": ["approve", "reject"]}
    ] == interrupt.value["review_configs"]

    new_graph.invoke(Command(resume=answer), config())

    assert world == WORLD
    assert ("a person declined it" in transcript(new_graph)[-1]) == (len(world) == 1)
    assert "tool: ticket Paris" not in transcript(new_graph)


def test_each_call_is_decided_about_and_a_wrong_answer_is_asked_again() -> None:
    """Decisions stand in the order of the actions; too few are refused with the reason."""
    new_graph = graph()
    say(new_graph, "Hello", "two dear", "/rollback")
    state = new_graph.invoke(Command(resume=[{"type": "approve"}]), config())
    (interrupt,) = state["__interrupt__"]

    assert "give 2, one an action" in interrupt.value["action_requests"][0]["description"]

    new_graph.invoke(Command(resume=[{"type": "reject"}, {"type": "approve"}]), config())

    assert ["+Oslo", "+Rome"] == sorted(WORLD[:2])
    assert ["-Rome"] == WORLD[2:]


def test_an_order_that_must_be_confirmed_is_refused_without_a_word_of_it(tmp_path: Path) -> None:
    """The error names what must be confirmed, and nothing changes."""
    with open_thread(tmp_path) as conversation:
        conversation.say("Hello")
        conversation.say("dear")
        before = conversation.messages()
        events = registry_of(conversation).events()
        with pytest.raises(ConflictError, match="the dear ticket to Paris"):
            conversation.rollback()

        assert before == conversation.messages()
        assert events == registry_of(conversation).events()
        assert ["+Paris"] == WORLD
        assert [("book_dear", "made")] == step_log(conversation)


@pytest.mark.parametrize("command", ["/undo", "/rollback 1"])
def test_a_command_that_must_be_confirmed_asks_and_leaves_no_trace(
    tmp_path: Path, command: str
) -> None:
    """The chat asks a person, and the transcript holds neither the command nor its notice."""
    with open_thread(tmp_path) as conversation:
        conversation.say("Hello")
        conversation.say("dear")

        assert "decision" == conversation.say(command).kind
        assert "notice" == conversation.resume("approve").kind

        assert ["+Paris", "-Paris"] == WORLD
        assert ["Hello"] == [m.text for m in conversation.messages() if m.type == "human"]
        assert not any(is_notice(message) for message in conversation.messages())
        assert 2 == (conversation.redo if command == "/undo" else conversation.undo)().turns


@pytest.mark.parametrize("yes", [True, False])
def test_an_order_may_bring_its_confirmation(tmp_path: Path, *, yes: bool) -> None:
    """A function says yes or no to each call."""
    with open_thread(tmp_path) as conversation:
        conversation.say("Hello")
        conversation.say("dear")
        inner = handle_of(conversation)
        state = drive(inner.load_state())
        scope = inner.scope(lambda call: yes and "Paris" == call.args["to"])
        cause = Label(kind="person", reason="r", created_at=scope.now())
        update = go_back(state, scope, state["messages"][1].id, cause, ())
        report = drive(inner.alone(inner.write(state, scope, update)))

        assert (["+Paris", "-Paris"] if yes else ["+Paris"]) == WORLD
        assert ["undone" if yes else "skipped"] == [outcome.result for outcome in report.outcomes]
        assert 2 == len(conversation.messages())
        assert [] == calls_to_undo(conversation)


def test_a_draft_whose_action_must_be_confirmed_asks_before_the_next_attempt() -> None:
    """A judge alone cannot have it taken back."""
    chat = drafting((step("Paris", "book_dear"), "Fish."), GOOD)
    graph = make(chat, blaming(("Fish", 0.1)), tools=TOOLS)

    state = say(graph, "dear")
    asked = len(chat.calls)
    graph.invoke(Command(resume="approve"), config())

    assert "__interrupt__" in state
    assert asked + 1 == len(chat.calls)
    assert ["+Paris", "-Paris"] == WORLD
    assert f"ai: {GOOD}" == transcript(graph)[-1]


def test_the_last_drafts_costly_action_is_asked_about_before_another_is_delivered() -> None:
    """The turn stops without an answer; after resuming, no tool is called a second time."""
    drafts = [
        "I am not sure about this trip.",
        calls(("book_dear", "Paris"), then="Booked, as asked."),
    ]
    chat = ScriptedChat(replies={"trip": drafts})
    judge = ScriptedJudge(scores={"not sure": 0.4, "Booked": 0.2})
    graph = make(chat, judge, tools=TOOLS, settings={"max_rollbacks": 1})
    state = say(graph, "UsageAccount me a trip.")
    asked = len(chat.calls)
    graph.invoke(Command(resume="approve"), config())

    assert "__interrupt__" in state
    assert ["+Paris", "-Paris"] == WORLD
    assert asked == len(chat.calls)
    assert ["human: UsageAccount me a trip.", "ai: I am not sure about this trip."] == transcript(
        graph
    )


def test_a_person_is_shown_the_draft_that_is_delivered() -> None:
    """The first draft has the better score, but its booking was taken back."""
    chat = drafting((step("Nara"), "Fish, which is booked."), "Nobody knows this trip.")
    judge = blaming(("Fish", 0.4), ("Nobody", 0.2))
    options = {"max_rollbacks": 1, "on_exhausted": "ask"}
    graph = make(chat, judge, tools=TOOLS, settings=options)

    (interrupt,) = say(graph, "UsageAccount me a trip.")["__interrupt__"]
    args = interrupt.value["action_requests"][0]["args"]
    graph.invoke(Command(resume="approve"), config())

    assert ["+Nara", "-Nara"] == WORLD
    assert {"answer": "Nobody knows this trip.", "score": 0.2} == args
    assert "ai: Nobody knows this trip." == transcript(graph)[-1]


def test_a_person_who_asks_for_another_draft_has_the_old_ones_deeds_taken_back() -> None:
    """Once, before the model is asked again."""
    chat = ScriptedChat(replies={"trip": [calls(("book", "Nara"), then="Booked, so it is."), GOOD]})
    graph = make(
        chat, scores(0.2), tools=TOOLS, settings={"max_rollbacks": 0, "on_exhausted": "ask"}
    )
    say(graph, "UsageAccount me a trip.")
    answer = {"decisions": [{"type": "respond", "args": "Do not book."}]}

    graph.invoke(Command(resume=answer), config())

    assert ["+Nara", "-Nara"] == WORLD
    assert f"ai: {GOOD}" == transcript(graph)[-1]


def test_an_abandoned_turns_deeds_are_taken_back() -> None:
    """Asking something else instead of deciding discards the drafts."""
    chat = ScriptedChat(
        replies={"trip": calls(("book", "Nara"), then="Booked, so it is."), "Thanks": GOOD}
    )
    graph = make(
        chat, scores(0.2), tools=TOOLS, settings={"max_rollbacks": 0, "on_exhausted": "ask"}
    )

    say(graph, "UsageAccount me a trip.", "Thanks")

    assert ["+Nara", "-Nara"] == WORLD
    assert ["human: Thanks", f"ai: {GOOD}"] == transcript(graph)


def test_without_a_store_calls_are_taken_back_all_the_same() -> None:
    """The state then carries what is owed."""
    new_graph = graph(store=None)
    state = say(new_graph, "Hello", "Kyoto", "/undo")

    assert ["+Kyoto", "-Kyoto"] == WORLD
    assert [] == state["pending_compensations"]


def test_an_agents_own_tools_are_named() -> None:
    """What an agent did with its own tools cannot be compensated, which is reported."""

    def agent(messages: list[Any]) -> Any:
        call = {"name": "dig", "args": {"deep": 3}, "id": "1"}
        return [
            AIMessage("", tool_calls=[call]),
            {"role": "tool", "content": "dug", "tool_call_id": "1"},
            AIMessage("Dug, as you asked me to do."),
        ]

    graph = make(agent)
    say(graph, "Dig.", "/undo")

    assert "dig(deep=3) (no compensation is registered)" in transcript(graph)[-1]


def test_a_turn_that_fails_afterwards_takes_nothing_back_twice() -> None:
    """The next attempt's model is down; the resumed turn finds the stored call."""
    down = [True]

    def script(messages: list[Any]) -> Any:
        if not any("Attempt" in str(m.content) for m in messages):
            return "Fish." if messages[-1].type == "tool" else step("Kyoto")
        if down:
            down.pop()
            raise ConnectionError("down")
        return GOOD

    graph = make(
        ScriptedChat(script=script),
        blaming(("Fish", 0.1)),
        tools=TOOLS,
        checkpointer=InMemorySaver(),
    )
    with pytest.raises(Exception, match="down"):
        graph.invoke({"messages": [("user", "Kyoto")]}, config(), durability="sync")
    graph.invoke(None, config(), durability="sync")

    assert ["+Kyoto", "-Kyoto"] == WORLD
    assert f"ai: {GOOD}" == transcript(graph)[-1]


@pytest.mark.parametrize("order", ["Thanks", "/undo", None], ids=["next", "command", "order"])
def test_what_a_turn_did_that_never_ended_is_taken_back(tmp_path: Path, order: str | None) -> None:
    """The model is down once the ticket is booked, and the question is set aside."""

    def script(messages: list[Any]) -> Any:
        if messages[-1].type == "tool":
            raise ConnectionError("down")
        return calls(("book", "Kyoto")) if "Kyoto" in str(messages[-1].content) else GOOD

    with open_thread(tmp_path, model=ScriptedChat(script=script)) as conversation:
        conversation.say("Hello")
        with pytest.raises(ModelUnavailableError):
            conversation.say("Kyoto")
        assert [("book", "made")] == step_log(conversation)
        conversation.undo() if order is None else conversation.say(order)

        assert ["+Kyoto", "-Kyoto"] == WORLD
        assert [("book", "done")] == step_log(conversation)
        assert "human: Kyoto" not in said(conversation.messages())


def run(folder: Path, where: str, *orders: str) -> Any:
    """What a process did; `None` when it was killed on the way."""
    child = run_child("tests.graph.reversible_child", str(folder), where, *orders)
    if child.returncode == -signal.SIGKILL:
        return None
    assert child.returncode == 0, child.stderr
    return json.loads(child.stdout)


def refunds(folder: Path) -> list[str]:
    """The refunds so far."""
    file = folder / "refunded.txt"
    return file.read_text().splitlines() if file.exists() else []


PAID = "tool: receipt 5"


@pytest.mark.full
@pytest.mark.parametrize("order", ["rollback", "/rollback"], ids=["order", "command"])
@pytest.mark.parametrize(
    ("where", "times"),
    [
        pytest.param("before pending", 1, id="before-the-journal"),
        pytest.param("after pending", 1, id="between-journal-and-record"),
        pytest.param("before running", 1, id="between-record-and-undo"),
        pytest.param("after running", 0, id="between-journal-and-undo"),
        pytest.param("before done", 1, id="between-undo-and-journal"),
        pytest.param("after done", 1, id="after-the-journal"),
    ],
)
def test_signal_9_leaves_no_half_rollback_and_no_second_refund(
    tmp_path: Path, order: str, where: str, times: int
) -> None:
    """After a kill, the next process finishes; a possible run is reported, not repeated."""
    assert run(tmp_path, where, "Hello", "Pay 5.", order) is None

    committed = where not in ("before pending", "after pending")
    again = ["Bye"] if committed else [order]
    after = run(tmp_path, "nowhere", *again, "Bye")

    assert ["5 receipt 5"] * times == refunds(tmp_path)
    assert PAID not in after["record"]
    assert after["record"][0] == "human: Hello"
    assert [] == after["events"][-1]
    if where in ("after running", "before done"):
        assert ["unknown"] == after["events"][0]


def test_an_idempotent_undo_is_made_again_after_signal_9(tmp_path: Path) -> None:
    """Its tool says that a second time does no harm, so the rollback comes to its end."""
    (tmp_path / "idempotent").touch()
    run(tmp_path, "after running", "Hello", "Pay 5.", "rollback")

    after = run(tmp_path, "nowhere", "Bye")

    assert [["undone"]] == after["events"]
    assert ["5 receipt 5"] == refunds(tmp_path)


@pytest.mark.parametrize("verb", ["rollback", "remove", "undo", "redo", "restore"])
def test_a_refused_verb_leaves_no_branch(tmp_path: Path, verb: str) -> None:
    """A verb that needs a confirmation stores nothing before it has one."""

    def act(conversation: Conversation) -> None:
        if verb == "remove":
            conversation.remove(2)
        elif verb == "restore":
            conversation.restore(swapped)
        elif verb == "rollback":
            conversation.rollback(turns=2)
        else:
            getattr(conversation, verb)()

    with open_thread(tmp_path) as conversation:
        conversation.say("Hello")
        swapped = ""
        if verb == "restore":  # it swaps the answers of the question that was asked again
            conversation.say("Hello you")
            conversation.edit(2, "dear")
            swapped = next(b.id for b in conversation.branches() if b.kind == "edit")
        else:
            conversation.say("dear")
        if verb == "redo":
            conversation.rollback(turns=1, confirm=lambda _: False)
            conversation.undo()
        before = stored_branches(conversation)
        with pytest.raises(ConfirmationNeededError):
            act(conversation)

        assert before == stored_branches(conversation)


def stored_branches(conversation: Conversation) -> list[tuple[str, str]]:
    """Each branch of the store: its kind and its id."""
    return [(branch.kind, branch.id) for branch in branches(conversation)]


@pytest.mark.sample(every=2)
@pytest.mark.parametrize(
    "command", ["/rollback 2", "/remove 2", "/undo", "/retry", "/edit 2 Hello"]
)
def test_a_command_stores_no_branch_before_the_decision(tmp_path: Path, command: str) -> None:
    """While a person is asked about a command's effects, no branch of it is listed."""
    with open_thread(tmp_path) as conversation:
        conversation.say("Hello")
        conversation.say("dear")
        before = stored_branches(conversation)
        assert "decision" == conversation.say(command).kind
        assert before == stored_branches(conversation)

        conversation.resume("approve")
        assert 1 <= len(stored_branches(conversation)) - len(before)


def booked_by(messages: list[Any]) -> Any:
    """A model that books once for each question, with the same ids each time."""
    if messages[-1].type == "tool":
        return AIMessage("Booked.", id="answer-0123456789abcdef")
    return step("Kyoto")


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("way", ["/undo", "/remove 1", "removed", "all removed"])
@pytest.mark.parametrize("store", [None, InMemoryStore()], ids=["no store", "store"])
def test_a_question_with_ids_from_before_is_done_and_undone_again(
    store: InMemoryStore | None, way: str
) -> None:
    """A host sends its question's id again, and the model gives the same ids, after it was removed."""
    graph = make(ScriptedChat(script=booked_by), ScriptedJudge(), tools=TOOLS, store=store)
    for number in range(3):
        message = HumanMessage("Book Kyoto.", id="q")
        messages = graph.invoke({"messages": [message]}, config(thread=way))["messages"]
        if way.startswith("/"):
            graph.invoke({"messages": [HumanMessage(way, id=f"{number}")]}, config(thread=way))
            continue
        ids = [REMOVE_ALL_MESSAGES] if way == "all removed" else [m.id for m in messages]
        update = {"messages": [RemoveMessage(id=message_id) for message_id in ids]}
        graph.update_state(config(thread=way), update)
    say(graph, "And now?", thread=way)

    assert ["+Kyoto", "-Kyoto"] * 3 == WORLD[:6]


def test_an_interrupted_question_that_is_sent_again_is_done_again() -> None:
    """Its tool call, of a second attempt, was undone when another question took its place."""
    failing = [True]

    def script(messages: list[Any]) -> Any:
        if "Kyoto" not in question_of(messages):
            return GOOD
        if attempt_of(messages) == 1:
            return "Fish."
        if messages[-1].type != "tool":
            return step("Kyoto")
        if failing and failing.pop():
            raise ConnectionError("unreachable")
        return "Booked."

    judge = ScriptedJudge(scores={"Fish": 0.1})
    graph = make(ScriptedChat(script=script), judge, tools=TOOLS, store=InMemoryStore())
    asked = {"messages": [HumanMessage("Book Kyoto.", id="q")]}
    with pytest.raises(ModelUnavailableError):
        graph.invoke(asked, config())
    say(graph, "Hello?")
    assert ["+Kyoto", "-Kyoto"] == WORLD
    graph.invoke(asked, config())

    assert ["+Kyoto", "-Kyoto", "+Kyoto"] == WORLD


def test_an_empty_answer_is_asked_for_again(tmp_path: Path) -> None:
    """A graph with tools stores its drafts; one that was refused as empty is not used again."""
    answers = iter(["", "", "", GOOD])
    model = ScriptedChat(script=lambda _: next(answers))
    with Conversation.open(
        tmp_path / "t.db", thread="t", model=model, judge=ScriptedJudge(), tools=TOOLS
    ) as conversation:
        with pytest.raises(EmptyAnswerError):
            conversation.say("Hello")
        assert GOOD == conversation.say("Hello").text
