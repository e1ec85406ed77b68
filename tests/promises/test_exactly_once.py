from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from tests.graph.kit import config, make
from tests.reading import handle_of, replayed, said, state_of, stored_items, transcript
from tests.threads import registry_of
from unsay import AsyncConversation, Conversation
from unsay.conversation.turn_lifecycle import open_turn
from unsay.effects import drive
from unsay.errors import ConflictError, InvalidNameError, ModelUnavailableError
from unsay.history.branch import find_place, put_places
from unsay.results.results import Reply
from unsay.storage.sqlite import open_database
from unsay.testing import Fault, ScriptedChat, ScriptedDetector, ScriptedJudge

Opens = Callable[..., Conversation]


class Paid:
    """A model that numbers its calls."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, messages: list[Any]) -> str:
        """The next answer."""
        self.asked.append(messages[-1].text)
        return f"This answers {messages[-1].text}, as call {len(self.asked)}."


@pytest.fixture
def model() -> Paid:
    """What is paid for."""
    return Paid()


@pytest.fixture
def opens(tmp_path: Path, model: Paid) -> Iterator[Opens]:
    """Opens the thread, each time as a new process would."""
    conversations: list[Conversation] = []

    def conversation(**options: Any) -> Conversation:
        given_options = {"model": model, "judge": ScriptedJudge(), "thread": "t", **options}
        conversations.append(Conversation.open(tmp_path / "talk.db", **given_options))
        return conversations[-1]

    yield conversation
    for item in conversations:
        item.close()


def half_said(conversation: Conversation, text: str, turn_id: str) -> None:
    """Leave a turn as a process leaves it that dies before its first commit."""
    drive(open_turn(handle_of(conversation), text, (), turn_id))


def test_a_turn_that_was_answered_is_answered_from_the_store(opens: Opens, model: Paid) -> None:
    """The same reply, to the last field, in this process and in another; the transcript stays."""
    conversation = opens()
    first = conversation.say("Hello", turn_id="a")
    after = conversation.messages()

    assert first == conversation.say("Hello", turn_id="a")
    assert first == opens().say("Hello", turn_id="a")
    assert after == conversation.messages()
    assert ["Hello"] == model.asked
    assert "a" == first.turn_id == after[0].id


def test_the_same_words_under_another_id_are_another_turn(opens: Opens, model: Paid) -> None:
    """Who means to ask twice can."""
    conversation = opens()

    first, second = (conversation.say("Hello", turn_id=name) for name in "ab")

    assert first.message_id != second.message_id
    assert ["Hello", "Hello"] == model.asked


def test_an_id_of_ours_serves_as_well(opens: Opens, model: Paid) -> None:
    """A reply tells its turn's id, and sent with it the message is not answered again."""
    conversation = opens()
    first = conversation.say("Hello")

    assert first == conversation.say("Hello", turn_id=first.turn_id)
    assert ["Hello"] == model.asked


def test_other_words_under_a_known_id_are_refused(opens: Opens, model: Paid) -> None:
    """Both are named, and nothing is stored."""
    conversation = opens()
    conversation.say("Hello", turn_id="a")
    before = conversation.messages()

    with pytest.raises(ConflictError, match=r"'a' was used for 'Hello'.* 'Goodbye'"):
        conversation.say("Goodbye", turn_id="a")

    assert before == conversation.messages()
    assert ["Hello"] == model.asked


def test_the_id_of_an_answer_is_no_turn_id(opens: Opens) -> None:
    """A message of another kind is not replaced."""
    conversation = opens()
    answer = conversation.say("Hello")

    with pytest.raises(ConflictError, match="was used for 'This answers Hello"):
        conversation.say("Hello", turn_id=answer.message_id)


@pytest.mark.parametrize(
    "turn_id",
    [
        pytest.param("", id="empty"),
        pytest.param(" \t", id="blank"),
        pytest.param("x" * 201, id="too-long"),
        pytest.param("a\nb", id="unprintable"),
    ],
)
def test_what_cannot_be_an_id_is_refused(opens: Opens, turn_id: str) -> None:
    """Nothing is stored under it."""
    conversation = opens()

    with pytest.raises(InvalidNameError, match="cannot name a turn"):
        conversation.say("Hello", turn_id=turn_id)

    assert [] == conversation.messages()


def test_a_turn_that_died_goes_on_in_its_own_run(opens: Opens, model: Paid) -> None:
    """The question is in the transcript once, has one answer, and no run is left active."""
    half_said(opens(), "Hello", "a")
    conversation = opens()

    reply = conversation.say("Hello", turn_id="a")

    assert ["human: Hello", f"ai: {reply.text}"] == said(conversation.messages())
    assert ["completed"] == [run.status for run in registry_of(conversation).runs().runs]
    assert ["Hello"] == model.asked


@pytest.mark.parametrize(
    "second_text",
    [
        pytest.param("a", id="by-its-id"),
        pytest.param(None, id="by-its-words"),
    ],
)
def test_a_turn_whose_process_died_in_the_model_goes_on(
    opens: Opens, model: Paid, second_text: str | None
) -> None:
    """The run that was opened is the one that ends; it tells that it set out twice."""

    class Died(BaseException):
        """An exception that our code does not catch."""

    def dies(_: Any) -> str:
        raise Died

    with pytest.raises(Died):
        opens(model=dies).say("Hello", turn_id="a")
    conversation = opens()
    conversation.say("Hello", turn_id=second_text)

    (run,) = registry_of(conversation).runs().runs
    assert ("completed", 2, "a") == (run.status, run.attempt, run.turn_id)
    assert ["Hello"] == model.asked


def test_a_run_whose_turn_is_set_aside_is_given_up(opens: Opens) -> None:
    """Another message ends the run of the one that died."""

    class Died(BaseException):
        """An exception that our code does not catch."""

    def dies(_: Any) -> str:
        raise Died

    with pytest.raises(Died):
        opens(model=dies).say("Hello", turn_id="a")
    conversation = opens()
    conversation.say("Something else", turn_id="b")

    outcomes_by_turn = {
        run.turn_id: (run.status, run.error) for run in registry_of(conversation).runs().runs
    }
    assert ("canceled", "another message came before it ended") == outcomes_by_turn["a"]
    assert ("completed", None) == outcomes_by_turn["b"]


def test_a_turn_that_failed_goes_on(opens: Opens) -> None:
    """A model that was away is asked again; the question is not doubled."""
    down = ScriptedChat(replies={"Hello": Fault(error=ModelUnavailableError("away"))})
    with pytest.raises(ModelUnavailableError):
        opens(model=down).say("Hello", turn_id="a")
    conversation = opens()

    reply = conversation.say("Hello", turn_id="a")

    assert ["human: Hello", f"ai: {reply.text}"] == said(conversation.messages())
    assert reply == conversation.say("Hello", turn_id="a")


def test_the_words_of_a_turn_that_died_under_another_id_are_another_turn(
    opens: Opens, model: Paid
) -> None:
    """It is answered, and the one that died is when it is sent again."""
    half_said(opens(), "Hello", "a")
    conversation = opens()

    second = conversation.say("Hello", turn_id="b")
    first = conversation.say("Hello", turn_id="a")

    assert ["b", "a"] == [second.turn_id, first.turn_id]
    assert ["b", "a"] == [
        message.id for message in conversation.messages() if message.type == "human"
    ]
    assert 2 == len(model.asked)


@pytest.mark.parametrize(
    "removed",
    [
        pytest.param(lambda conversation: conversation.rollback(turns=1), id="rolled-back"),
        pytest.param(lambda conversation: conversation.undo(), id="undone"),
        pytest.param(lambda conversation: conversation.say("/undo"), id="undone-by-command"),
        pytest.param(lambda conversation: conversation.retry(), id="asked-anew"),
        pytest.param(
            lambda conversation: (conversation.undo(), conversation.say("Other")), id="long-gone"
        ),
    ],
)
def test_a_turn_that_was_taken_back_has_its_first_answer(
    opens: Opens, model: Paid, removed: Callable[[Conversation], Any]
) -> None:
    """What was paid for is given back from the branch; the transcript is left as it is."""
    conversation = opens()
    conversation.say("Before", turn_id="a")
    first = conversation.say("Hello", turn_id="b")
    removed(conversation)
    before = conversation.messages()
    paid = len(model.asked)

    assert first == opens().say("Hello", turn_id="b")
    assert (before, paid) == (conversation.messages(), len(model.asked))
    with pytest.raises(ConflictError):
        conversation.say("Goodbye", turn_id="b")


def test_a_turn_that_returned_is_found_on_the_record(opens: Opens) -> None:
    """Undo, redo, undo: the reply is the same wherever the turn is."""
    conversation = opens()
    first = conversation.say("Hello", turn_id="a")
    replies = []
    for move in (conversation.undo, conversation.redo, conversation.undo):
        move()
        replies.append(conversation.say("Hello", turn_id="a"))

    assert [first.message_id] * 3 == [reply.message_id for reply in replies]
    assert [first.text] * 3 == [reply.text for reply in replies]


def test_a_question_that_was_set_aside_unanswered_is_answered(opens: Opens, model: Paid) -> None:
    """Nothing was paid for it yet, so it is said as new, with its event log whole."""
    down = ScriptedChat(replies={"Hello": Fault(error=ModelUnavailableError("away"))})
    with pytest.raises(ModelUnavailableError):
        opens(model=down).say("Hello", turn_id="a")
    conversation = opens()
    conversation.say("Other", turn_id="b")

    reply = conversation.say("Hello", turn_id="a")

    assert ["Other", "Hello"] == model.asked
    assert reply == conversation.say("Hello", turn_id="a")
    assert conversation.messages() == replayed(conversation).messages


def test_a_purged_thread_knows_no_ids(opens: Opens, model: Paid) -> None:
    """After a purge the same id is a new turn, even with other words."""
    conversation = opens()
    conversation.say("Hello", turn_id="a")
    conversation.undo()
    registry_of(conversation).purge()

    conversation.say("Goodbye", turn_id="a")

    assert ["Hello", "Goodbye"] == model.asked


def test_an_ended_thread_still_gives_its_answers(opens: Opens) -> None:
    """It can be read, and this is reading."""
    conversation = opens()
    first = conversation.say("Hello", turn_id="a")
    registry_of(conversation).end()

    assert first == conversation.say("Hello", turn_id="a")


def test_ids_belong_to_their_thread(opens: Opens, model: Paid) -> None:
    """Two threads may use the same id."""
    opens(thread="one").say("Hello", turn_id="a")
    opens(thread="two").say("Goodbye", turn_id="a")

    assert ["Hello", "Goodbye"] == model.asked


@pytest.mark.parametrize("command", ["/undo", "/rollback", "/checkpoint home", "/retry"])
def test_a_command_is_obeyed_once(opens: Opens, model: Paid, command: str) -> None:
    """Sent again, at once and later, it is answered as before and moves nothing."""
    conversation = opens()
    conversation.say("Before", turn_id="a")
    conversation.say("Hello", turn_id="b")
    first = conversation.say(command, turn_id="c")
    after = conversation.messages()
    paid = len(model.asked)

    assert first == opens().say(command, turn_id="c")
    assert (after, paid) == (conversation.messages(), len(model.asked))
    conversation.say("More", turn_id="d")
    assert first == conversation.say(command, turn_id="c")
    with pytest.raises(ConflictError, match="'c' was used for"):
        conversation.say("/timeline", turn_id="c")


@pytest.mark.parametrize("has_notice", [True, False], ids=["after the notice", "before the notice"])
def test_a_command_whose_process_died_is_not_repeated(opens: Opens, *, has_notice: bool) -> None:
    """It was carried out, and is not carried out again; nothing of it is in the transcript."""
    conversation = opens()
    conversation.say("Hello", turn_id="a")
    conversation.say("More", turn_id="b")
    conversation.say("Again", turn_id="c")
    half_said(opens(), "/undo", "d")
    if not has_notice:
        store = conversation.graph.store
        for item in stored_items(store, "places of turns", conversation.thread_id):
            store.delete(item.namespace, item.key)

    first = opens().say("/undo", turn_id="d")
    reply = opens().say("/undo", turn_id="d")

    assert first == reply
    assert ("/undo was carried out already." == first.text) is not has_notice
    assert ["a", "b"] == [m.id for m in conversation.messages() if m.type == "human"]
    assert {"running"}.isdisjoint(run.status for run in registry_of(conversation).runs().runs)


@pytest.mark.parametrize(
    "move",
    [
        pytest.param(lambda conversation: conversation.undo(), id="undo"),
        pytest.param(lambda conversation: conversation.say("/undo"), id="undo-command"),
    ],
)
def test_undo_after_a_crash_takes_the_question_that_died(
    opens: Opens, model: Paid, move: Callable[[Conversation], Any]
) -> None:
    """And not the turn before it, which was answered; sent again it is answered behind that."""
    conversation = opens()
    conversation.say("Hello", turn_id="a")
    half_said(opens(), "More", "b")
    move(conversation)

    assert "More" not in [message.text for message in conversation.messages()]
    reply = conversation.say("More", turn_id="b")
    assert "This answers More, as call 2." == reply.text
    assert ["Hello", "More"] == model.asked


@pytest.mark.parametrize(
    "second_text",
    [
        pytest.param(lambda conversation: conversation.retry(), id="retry"),
        pytest.param(lambda conversation: conversation.say("/retry"), id="retry-command"),
    ],
)
def test_a_question_that_died_and_was_retried_is_not_paid_for_twice(
    opens: Opens, model: Paid, second_text: Callable[[Conversation], Reply]
) -> None:
    """A caller that sends it again gets the answer of the retry."""
    conversation = opens()
    conversation.say("Hello", turn_id="a")
    half_said(opens(), "More", "b")
    brought = second_text(conversation)

    assert brought.message_id == conversation.say("More", turn_id="b").message_id
    assert ["Hello", "More"] == model.asked


def test_a_question_that_died_is_set_aside_by_another(opens: Opens, model: Paid) -> None:
    """The next question is answered by itself; the first one is kept in a branch."""
    half_said(opens(), "Hello", "a")
    conversation = opens()

    reply = conversation.say("Other", turn_id="b")

    assert ["human: Other", f"ai: {reply.text}"] == said(conversation.messages())
    assert ["interrupted"] == [
        e.kind for e in conversation.branches() if e.id.startswith("branch-")
    ]
    assert ["Other"] == model.asked


def test_a_decision_that_is_due_is_told_again(opens: Opens) -> None:
    """The turn waits for a person; sent again it says so once more, and then has its answer."""
    conversation = opens(
        judge=ScriptedJudge(default=0.1), settings={"on_exhausted": "ask", "max_rollbacks": 0}
    )
    first = conversation.say("Hello", turn_id="a")

    assert ("decision", first) == (first.kind, conversation.say("Hello", turn_id="a"))
    with pytest.raises(ConflictError, match="decision"):
        conversation.say("Other", turn_id="b")
    reply = conversation.resume("approve")
    assert reply == conversation.say("Hello", turn_id="a")


def test_a_stream_of_a_known_turn_is_its_reply(opens: Opens, model: Paid) -> None:
    """No token comes a second time."""
    conversation = opens()
    first = [event.reply for event in conversation.stream("Hello", turn_id="a")][-1]

    (event,) = conversation.stream("Hello", turn_id="a")

    assert ("reply", first) == (event.kind, event.reply)
    assert ["Hello"] == model.asked


async def test_async_code_gets_the_same(tmp_path: Path, model: Paid) -> None:
    """Both verbs, in both forms, are one turn."""
    options = {"model": model, "judge": ScriptedJudge(), "thread": "t"}
    async with AsyncConversation.open(tmp_path / "talk.db", **options) as conversation:
        first = await conversation.say("Hello", turn_id="a")
        events = [event async for event in conversation.stream("Hello", turn_id="a")]

        assert first == await conversation.say("Hello", turn_id="a")
        assert [first] == [event.reply for event in events]
        with pytest.raises(ConflictError):
            await conversation.say("Goodbye", turn_id="a")
    assert ["Hello"] == model.asked


@pytest.mark.full
def test_a_turn_that_was_offloaded_is_found_by_its_run(opens: Opens, model: Paid) -> None:
    """Messages that were offloaded long ago are found in the store."""
    shifts = {f"Topic {n}": "new" for n in range(20)}
    conversation = opens(
        detector=ScriptedDetector(shifts=shifts),  # type: ignore[arg-type]
        settings={"live_messages": 8},
    )
    first = [conversation.say(f"Topic {n}?", turn_id=f"turn-{n}") for n in range(20)]
    live = state_of(conversation)["messages"]
    assert "turn-0" not in [message.id for message in live]
    paid = len(model.asked)
    messages = conversation.messages()

    replies = [opens().say(f"Topic {n}?", turn_id=f"turn-{n}") for n in range(20)]

    assert [_fields_of(item) for item in first] == [_fields_of(reply) for reply in replies]
    assert (paid, messages) == (len(model.asked), conversation.messages())
    with pytest.raises(ConflictError):
        conversation.say("Other", turn_id="turn-0")


def _fields_of(reply: Reply) -> tuple[Any, ...]:
    return reply.turn_id, reply.kind, reply.text, reply.message_id, reply.score, reply.outcome


def test_a_host_that_sends_a_message_again_gets_no_second_answer(model: Paid) -> None:
    """In a graph without the conversation the message's own id is the turn's."""
    graph = make(model)
    value = {"messages": [HumanMessage("Hello", id="a")]}
    first = graph.invoke(value, config())
    graph.invoke({"messages": [HumanMessage("More", id="b")]}, config())
    before = transcript(graph)

    state = graph.invoke(value, config())

    assert before == transcript(graph) == said(state["messages"])
    assert first["messages"] == state["messages"][:2]
    assert ["Hello", "More"] == model.asked


def test_places_of_many_turns_are_all_found(tmp_path: Path) -> None:
    """Turns share items without disturbing each other; a later place counts."""
    database = open_database(tmp_path / "places.db")
    names = [f"turn-{n}" for n in range(500)]
    for start in range(0, 500, 100):
        branches_by_name = {name: f"branch-of-{name}" for name in names[start : start + 100]}
        drive(put_places(database.store, "t", branches_by_name))
    drive(put_places(database.store, "t", {"turn-7": "elsewhere"}))

    places_found = {name: drive(find_place(database.store, "t", name)) for name in names}

    assert {**{name: f"branch-of-{name}" for name in names}, "turn-7": "elsewhere"} == places_found
    assert drive(find_place(database.store, "t", "turn-500")) is None
    assert drive(find_place(database.store, "other", "turn-1")) is None
    database.close()
