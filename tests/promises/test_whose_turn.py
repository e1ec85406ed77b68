"""Whose turn it is when a host interferes: a new question, the turn that stopped, or a refusal."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.types import Interrupt, StateSnapshot

from tests.graph.back_kit import Opening
from tests.graph.kit import Numbered, config, scores
from tests.threads import open_conversation, registry_of
from tests.tiers import sampled
from unsay.conversation.conversation import Conversation
from unsay.conversation.turn_lifecycle import Stored, is_turn_open, resumes_turn
from unsay.errors import ConflictError, ModelUnavailableError, NothingToResumeError, UnsayError
from unsay.messages.annotations import DOCUMENT, notice

QUESTION = HumanMessage("same", id="q")
"""The question of the turn under way."""

ANSWER = AIMessage("host", id="host")
OTHER = HumanMessage("host", id="host")
NOTICE = notice("host", "host", [])
FOUND = HumanMessage("host", id="host", name=DOCUMENT)
CALL = AIMessage("", id="host", tool_calls=[{"name": "search", "args": {}, "id": "1"}])

ENDS = {
    "question": [QUESTION],
    "answer": [QUESTION, ANSWER],
    "other question": [QUESTION, OTHER],
    "notice": [QUESTION, NOTICE],
    "document": [QUESTION, FOUND],
    "tool call": [QUESTION, CALL],
    "nothing": [],
}
"""How a transcript may end, by its last message."""

SAYS: dict[str, tuple[str | None, Stored | None]] = {
    "resume": (None, None),
    "same words": ("same", None),
    "host's words": ("host", None),
    "new words": ("new", None),
    "its id": ("same", Stored(name="q")),
    "the same words under another id": ("same", Stored(name="another")),
}
"""What a person may say: the words, and what is stored under their id."""

NEWEST = {"resume", "same words", "its id"}
"""Inputs that resume a turn whose question is the newest one."""


UNDER_WAY = pytest.mark.parametrize(
    "done", [False, True, None], ids=["under way", "done", "no turn"]
)


@pytest.fixture
def open_thread() -> Iterator[Opening]:
    """Opens threads in memory."""
    conversations: list[Conversation] = []

    def open_it(model: Any = None, judge: Any = None, **options: Any) -> Conversation:
        conversations.append(open_conversation(model=model, judge=judge, **options))
        return conversations[-1]

    yield open_it
    for conversation in conversations:
        conversation.close()


def state_of(end: str, *, is_done: bool | None) -> dict[str, Any]:
    """A state whose transcript ends like this; without a turn where `done` is `None`."""
    turn = None if is_done is None else {"done": is_done, "question_id": "q"}
    return {"messages": ENDS[end], "turn": turn}


def snapshot_of(
    values: dict[str, Any], *, is_next: bool = True, is_interrupted: bool = False
) -> StateSnapshot:
    """A snapshot of a thread with or without a next node and a pending decision."""
    return StateSnapshot(
        values=values,
        next=("process_message",) if is_next else (),
        config={},
        metadata=None,
        created_at=None,
        parent_config=None,
        tasks=(),
        interrupts=(Interrupt(value="decide", id="i"),) if is_interrupted else (),
    )


def going_on(snapshot: StateSnapshot) -> set[str]:
    """What a person may say to resume the pending turn of a thread."""
    return {
        name
        for name, (text, stored_text) in SAYS.items()
        if resumes_turn(snapshot, text, stored_text)
    }


@UNDER_WAY
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(
    ("is_next", "is_interrupted"),
    [
        pytest.param(False, False, id="nothing is next"),
        pytest.param(False, True, id="a decision alone"),
        pytest.param(True, True, id="a decision is due"),
    ],
)
def test_nothing_goes_on_without_a_node_that_waits(
    end: str, *, is_next: bool, is_interrupted: bool, done: bool | None
) -> None:
    """For any transcript, a turn resumes only where a node is next and no decision is pending."""
    values = state_of(end, is_done=done)

    assert set() == going_on(snapshot_of(values, is_next=is_next, is_interrupted=is_interrupted))


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        pytest.param("question", NEWEST, id="question"),
        pytest.param("answer", set(), id="a host's answer"),
        pytest.param("other question", {"resume", "host's words"}, id="a host's question"),
        pytest.param("notice", NEWEST, id="a notice"),
        pytest.param("document", NEWEST, id="a document"),
        pytest.param("tool call", NEWEST, id="a tool call"),
        pytest.param("nothing", {"resume"}, id="an emptied record"),
    ],
)
def test_a_turn_under_way_goes_on_with_its_own_words(end: str, outcome: set[str]) -> None:
    """A stopped turn resumes with the newest question, unless it has an answer."""
    assert outcome == going_on(snapshot_of(state_of(end, is_done=False)))


def test_our_own_answer_does_not_end_what_waits() -> None:
    """A turn that stopped after its answer returns it without asking again."""
    assert NEWEST == going_on(snapshot_of(state_of("answer", is_done=True)))


@UNDER_WAY
@pytest.mark.parametrize("end", ENDS)
def test_a_turn_is_open_while_its_question_is_the_newest(end: str, *, done: bool | None) -> None:
    """A turn is open until it is done, a host answers it, or another question comes after its own."""
    outcome = done is False and end not in ("answer", "other question", "nothing")

    assert outcome == is_turn_open(state_of(end, is_done=done))


def stop_in_model(conversation: Conversation) -> None:
    """Stop the turn in the model."""
    with pytest.raises(ModelUnavailableError):
        conversation.say("same")


def finish_turn(conversation: Conversation) -> None:
    """Let the turn come to its end, or to a person's decision on its drafts."""
    conversation.say("same")


def stop_before(conversation: Conversation, *, before: str = "process_message") -> None:
    """Stop the turn before a node."""
    message = HumanMessage("same", id="q")
    conversation.graph.invoke({"messages": [message]}, config(), interrupt_before=[before])


def stop_after_answer(conversation: Conversation) -> None:
    """Stop the turn behind its answer, before it is made a checkpoint."""
    stop_before(conversation, before="create_checkpoint")


BEGINNINGS: dict[str, Callable[[Conversation], None]] = {
    "stopped": stop_in_model,
    "halted": stop_before,
    "answered": finish_turn,
    "unmarked": stop_after_answer,
    "undecided": finish_turn,
}
"""How far the turn has come before the host interferes."""

MESSAGES: dict[str, AnyMessage] = {
    "answer": ANSWER,
    "question": OTHER,
    "notice": NOTICE,
    "document": FOUND,
}
"""What the host writes."""

CONFLICT = ConflictError
NOTHING = NothingToResumeError
"""What a person's words are refused with."""

Outcome = str | type[UnsayError]

ORDERS = ("same", "new", "resume")
"""A person's action: the same words, new ones, or resuming."""

# How far the turn came, how the host wrote, what it wrote; for each order the transcript after it.
CASES: list[tuple[str, str, str, Outcome, Outcome, Outcome]] = [
    ("stopped", "", "", "same one", "new one", "same one"),
    ("stopped", "update", "answer", "same host same one", "same host new one", NOTHING),
    ("stopped", "update", "question", "host same one", "host new one", "same host one"),
    ("stopped", "update", "notice", "same host same one", "same host new one", NOTHING),
    ("stopped", "update", "document", "same host one", "host new one", "same host one"),
    ("stopped", "input", "answer", "same host same one", "same host new one", NOTHING),
    ("stopped", "input", "question", "host same one", "host new one", "host one"),
    ("stopped", "add", "answer", "same host same one", "same host new one", NOTHING),
    ("stopped", "add", "question", "host same one", "host new one", NOTHING),
    ("stopped", "add", "notice", "same host same one", "same host new one", NOTHING),
    ("halted", "", "", "same one", "new one", "same one"),
    ("halted", "update", "answer", "same host same one", "same host new one", NOTHING),
    ("halted", "add", "answer", "same host same one", "same host new one", NOTHING),
    ("answered", "", "", "same one same two", "same one new two", NOTHING),
    ("answered", "update", "answer", "same one host same two", "same one host new two", NOTHING),
    ("answered", "add", "question", "same one host same two", "same one host new two", NOTHING),
    (
        "answered",
        "input",
        "question",
        "same one host same two",
        "same one host new two",
        "same one host two",
    ),
    ("unmarked", "", "", "same one", "same one new two", "same one"),
    ("unmarked", "add", "answer", "same one host same two", "same one host new two", NOTHING),
    ("undecided", "", "", CONFLICT, CONFLICT, CONFLICT),
]
"""Whose turn it is, by all that a host and a person may have done before."""

LEFT = {
    ("stopped", ""): (("process_message",), 0, False),
    ("stopped", "update"): (("process_message",), 0, False),
    ("stopped", "input"): (("evaluate_quality",), 0, False),
    ("stopped", "add"): ((), 0, False),
    ("halted", ""): (("process_message",), 0, False),
    ("halted", "update"): (("process_message",), 0, False),
    ("halted", "add"): ((), 0, False),
    ("answered", ""): ((), 0, True),
    ("answered", "update"): ((), 0, True),
    ("answered", "add"): ((), 0, True),
    ("answered", "input"): (("evaluate_quality",), 0, True),
    ("unmarked", ""): (("create_checkpoint",), 0, True),
    ("unmarked", "add"): ((), 0, True),
    ("undecided", ""): (("rollback",), 1, False),
}
"""The nodes that are next, the decisions that are due, and whether the turn is done."""


def conversation_with_host_write(
    open_thread: Opening, beginning: str, door: str, host_write: str
) -> Conversation:
    """A conversation in which the turn came so far, and the host wrote something then."""
    drafts = Numbered()
    faults = [ConnectionError("down")] if beginning == "stopped" else []

    def model(messages: list[Any]) -> AIMessage:
        if faults:
            raise faults.pop()
        draft = drafts(messages)
        return draft.model_copy(update={"content": ("one", "two")[len(drafts.inputs) - 1]})

    judge = scores(0.1) if beginning == "undecided" else scores()
    conversation = open_thread(model, judge, settings={"on_exhausted": "ask", "max_rollbacks": 0})
    BEGINNINGS[beginning](conversation)
    interfere(conversation, door, host_write)
    return conversation


def interfere(conversation: Conversation, door: str, host_write: str) -> None:
    """Let the host write a message in one of its ways; none with an empty `way`."""
    if door == "add":
        conversation.add([MESSAGES[host_write]])
    elif door:
        node = "__start__" if door == "input" else None
        conversation.graph.update_state(
            config(), {"messages": [MESSAGES[host_write]]}, as_node=node
        )


def say(conversation: Conversation, order: str) -> Outcome:
    """The words of the transcript after a person's order, or the error that the order met."""
    try:
        conversation.resume() if order == "resume" else conversation.say(order)
    except UnsayError as error:
        return type(error)
    return " ".join(message.text for message in conversation.messages())


@pytest.mark.sample(every=4)
@pytest.mark.parametrize(
    ("beginning", "door", "host_write", "order", "outcome"),
    [
        pytest.param(*case[:3], order, outcome, id="-".join(filter(None, [*case[:3], order])))
        for case in CASES
        for order, outcome in zip(ORDERS, case[3:], strict=True)
    ],
)
def test_whose_turn_it_is_when_a_host_interferes(
    open_thread: Opening, beginning: str, door: str, host_write: str, order: str, outcome: Outcome
) -> None:
    """A person's words resume the pending turn, begin another, or are refused."""
    conversation = conversation_with_host_write(open_thread, beginning, door, host_write)
    snapshot = conversation.graph.get_state(config())
    situation_left = (snapshot.next, len(snapshot.interrupts), snapshot.values["turn"]["done"])

    assert LEFT[beginning, door] == situation_left
    assert outcome == say(conversation, order)


@pytest.mark.parametrize("beginning", ["stopped", "halted", "unmarked"])
def test_the_same_words_set_no_question_aside(open_thread: Opening, beginning: str) -> None:
    """The question that waits is answered itself when a person repeats its words."""
    conversation = conversation_with_host_write(open_thread, beginning, "", "")
    before = [m.id for m in conversation.messages() if m.type == "human"]

    conversation.say("same")

    assert before == [m.id for m in conversation.messages() if m.type == "human"]
    assert [] == [
        branch.kind for branch in conversation.branches() if branch.id.startswith("branch-")
    ]


@pytest.mark.parametrize(
    ("beginning", "outcome"),
    [
        pytest.param("stopped", "host one", id="stopped"),
        pytest.param("answered", "same one host two", id="answered"),
    ],
)
def test_a_hosts_question_is_not_asked_twice(
    open_thread: Opening, beginning: str, outcome: str
) -> None:
    """A person who says the words that a host has asked already gets the answer to them."""
    assert outcome == say(
        conversation_with_host_write(open_thread, beginning, "input", "question"), "host"
    )


@pytest.mark.parametrize(("beginning", "door"), LEFT)
def test_an_order_waits_until_no_node_is_next(
    open_thread: Opening, beginning: str, door: str
) -> None:
    """A host's note is taken where the thread rests, and refused while a turn waits to go on."""
    host_write = next(case[2] for case in CASES if case[:2] == (beginning, door))
    conversation = conversation_with_host_write(open_thread, beginning, door, host_write)
    waits = bool(LEFT[beginning, door][0])

    with pytest.raises(ConflictError, match=r"was stopped|decision") if waits else nullcontext():
        registry_of(conversation).note("A remark")


@pytest.mark.parametrize("host_write", MESSAGES)
@pytest.mark.parametrize("door", ["update", "input", "add"])
def test_no_host_takes_a_pending_decision_away(
    open_thread: Opening, door: str, host_write: str
) -> None:
    """What a host writes beside drafts that wait is refused, and the decision is still taken."""
    conversation = conversation_with_host_write(open_thread, "undecided", "", "")

    with pytest.raises(ConflictError, match="decision"):
        interfere(conversation, door, host_write)

    assert ["same"] == [message.text for message in conversation.messages()]
    assert "one" == conversation.resume("approve").text


@pytest.mark.parametrize("host_write", MESSAGES)
@pytest.mark.parametrize("door", ["", "update", "input", "add"])
@pytest.mark.parametrize(
    "beginning", sampled([name for name in BEGINNINGS if name != "undecided"], every=2)
)
@pytest.mark.parametrize("order", ["same", "new"])
def test_no_words_are_swallowed(
    open_thread: Opening, beginning: str, door: str, host_write: str, order: str
) -> None:
    """A person gets the model's answer, also if a host wrote something in between."""
    conversation = conversation_with_host_write(open_thread, beginning, door, host_write)

    reply = conversation.say(order)

    assert "answer" == reply.kind
    assert reply.text in ("one", "two")
    assert reply.text == conversation.messages()[-1].text


def test_the_same_words_after_a_hosts_answer_are_a_new_question(open_thread: Opening) -> None:
    """Words that a host has answered are asked and answered again when a person repeats them."""
    conversation = conversation_with_host_write(open_thread, "stopped", "update", "answer")

    reply = conversation.say("same")

    assert "one" == reply.text
    assert ["same", "host", "same", "one"] == [m.text for m in conversation.messages()]
    assert 2 == len({m.id for m in conversation.messages() if m.type == "human"})


@pytest.mark.parametrize("host_write", ["answer", "notice"])
def test_a_turn_id_never_returns_another_answer(open_thread: Opening, host_write: str) -> None:
    """A turn that failed is refused once a host, or a later turn, wrote behind its question."""
    faults = [ConnectionError("down")]

    def model(messages: list[Any]) -> AIMessage:
        if faults:
            raise faults.pop()
        return AIMessage(f"To {messages[-1].text}")

    conversation = open_thread(model, scores())
    with pytest.raises(ModelUnavailableError):
        conversation.say("same", turn_id="a")
    conversation.add([MESSAGES[host_write]])
    for _ in range(2):
        with pytest.raises(ConflictError, match="new id"):
            conversation.say("same", turn_id="a")
        assert conversation.say("new", turn_id="b").text.endswith("new")
