"""A damaged item in a database of unsay: the others are still listed."""

from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from tests.graph.back_kit import Opening
from tests.graph.kit import Numbered, config, last_text, make, say
from tests.reading import stored_items, transcript, undo_depth
from tests.threads import registry_of
from unsay import Conversation, Registry
from unsay.effects import drive
from unsay.errors import DatabaseCorruptError, SessionEndedError
from unsay.history.compensations import Compensation, Entry, list_entries, put_entries
from unsay.history.runs import FailedRequest, keep_request, list_requests
from unsay.storage.segments import PLACES
from unsay.testing import ScriptedChat, ToolCalls
from unsay.transcript.undo import MOST


def look() -> str:
    """Look."""
    return "a fine day"


REQUEST = FailedRequest(
    run_id="r",
    turn_id="a",
    turn=1,
    attempt=1,
    at="2026-01-01T00:00:00.000+00:00",
    messages=[],
    payload={},
    question="Question 0?",
    answer="",
    score=None,
    reason="",
    error="ConnectionError",
)


def damage(conversation: Conversation, prefix: str) -> None:
    """Change one item of a namespace without its checksum."""
    store: Any = conversation.graph.store
    cursor = store.conn.execute(
        "UPDATE store SET value = json_set(value, '$.reason', 'changed') WHERE rowid IN "
        "(SELECT rowid FROM store WHERE prefix = ? ORDER BY rowid LIMIT 1)",
        (prefix,),
    )
    assert cursor.rowcount == 1


@pytest.fixture
def conversation(open_thread: Opening) -> Conversation:
    """A thread with two branches and four runs."""
    conversation = open_thread(model=Numbered())
    for number in range(4):
        conversation.say(f"Question {number}?")
    conversation.rollback(turns=1)
    conversation.rollback(turns=1)
    return conversation


def test_a_damaged_branch_hides_no_other(conversation: Conversation) -> None:
    """The intact branch is listed and can be restored; the damaged one is named by an error."""
    ids = {branch.id for branch in conversation.branches()}
    damage(conversation, "unsay.branches.t")
    remaining_ids = {branch.id for branch in conversation.branches()}
    (message_id,) = ids - remaining_ids

    with pytest.raises(DatabaseCorruptError):
        conversation.restore(message_id)
    (intact,) = remaining_ids - {"live"}
    conversation.restore(intact)


def test_a_damaged_run_hides_no_other(
    conversation: Conversation, caplog: pytest.LogCaptureFixture
) -> None:
    """The three intact runs are listed, a warning names the damage, and the thread can be used."""
    damage(conversation, "unsay.runs.t")
    assert len(registry_of(conversation).runs().runs) == 3
    assert "a damaged item is left out" in caplog.text
    assert conversation.say("Question 4?").text


@pytest.mark.parametrize("kind", ["branches", "runs"])
def test_a_row_that_is_not_json_hides_no_other(conversation: Conversation, kind: str) -> None:
    """The intact items of its kind are listed, and it alone is an error if it is asked for."""
    store: Any = conversation.graph.store
    namespace = ("unsay", kind, "t")
    broken = store.search(namespace)[0].key
    list_size = len(conversation.branches()) + len(registry_of(conversation).runs().runs)
    store.conn.execute("UPDATE store SET value = '{' WHERE key = ?", (broken,))

    assert list_size - 1 == len(conversation.branches()) + len(
        registry_of(conversation).runs().runs
    )
    with pytest.raises(DatabaseCorruptError, match="not a JSON object"):
        store.get(namespace, broken)


def test_a_damaged_request_is_an_error_of_its_readers_only(conversation: Conversation) -> None:
    """Another one can be stored, the list says what is damaged."""
    store: Any = conversation.graph.store
    drive(keep_request(store, "t", REQUEST))
    damage(conversation, "unsay.requests.t")
    with pytest.raises(DatabaseCorruptError, match="A stored request"):
        drive(list_requests(store, "t"))
    drive(keep_request(store, "t", REQUEST))
    assert len(drive(list_requests(store, "t"))) == 1


def test_a_damaged_call_to_undo_is_an_error_of_its_list(
    conversation: Conversation, caplog: pytest.LogCaptureFixture
) -> None:
    """The list of a thread's tool calls says what is damaged; the timeline is shown without it."""
    store: Any = conversation.graph.store
    call = Compensation(
        key="k",
        tool_call_id="c",
        message_id="m",
        tool="book",
        args={},
        result=None,
        description="",
    )
    drive(_write_entry(store, Entry(compensation=call, status="made")))
    damage(conversation, "unsay.compensations.t")
    with pytest.raises(DatabaseCorruptError, match="A stored tool call"):
        drive(list_entries(store, "t"))
    assert 2 == len(conversation.timeline().turns)
    assert "the stored entry of a call is damaged" in caplog.text


TIMES = "UPDATE store SET created_at = 'x', updated_at = 'y'"


@pytest.mark.parametrize("field", ["", " WHERE prefix LIKE '%.runs.t'"])
def test_a_row_with_unreadable_times_is_read(field: str, conversation: Conversation) -> None:
    """Its value has a checksum, and its times are not used: nothing is left out, the thread goes on."""
    store: Any = conversation.graph.store
    before = (conversation.branches(), registry_of(conversation).runs(), conversation.timeline())
    store.conn.execute(TIMES + field)

    assert before == (
        conversation.branches(),
        registry_of(conversation).runs(),
        conversation.timeline(),
    )
    assert conversation.say("Question 4?").text


def test_a_filtered_list_goes_on_over_a_row_that_is_not_json(
    conversation: Conversation, open_thread: Opening
) -> None:
    """The ended sessions are listed, also if the line of another thread cannot be read."""
    store: Any = conversation.graph.store
    registry = Registry.open(store)
    registry_of(conversation).end()
    open_thread(thread="u").say("Question 0?")
    store.conn.execute("UPDATE store SET value = '{' WHERE prefix = 'unsay.threads' AND key = 'u'")

    assert ["t"] == [session.thread_id for session in registry.sessions(status="ended").sessions]
    assert ["t"] == [session.thread_id for session in registry.sessions().sessions]


ENTRY = "UPDATE store SET value = {} WHERE prefix = 'unsay.threads'"


@pytest.mark.parametrize("value", ["json_set(value, '$.title', 'x')", "'{'"], ids=["sum", "json"])
def test_a_thread_goes_on_without_its_entry(
    value: str, conversation: Conversation, caplog: pytest.LogCaptureFixture
) -> None:
    """The entry only lists the thread: all verbs go on with a warning, and a turn writes it again."""
    store: Any = conversation.graph.store
    registry = Registry.open(store)
    before = registry.session("t")
    store.conn.execute(ENTRY.format(value))

    with pytest.raises(DatabaseCorruptError):
        registry.session("t")
    assert 2 == len(conversation.timeline().turns)
    assert 3 == len(conversation.branches())
    assert "the entry of the thread is damaged" in caplog.text
    assert 3 == conversation.undo().turns
    assert 3 == registry.session("t").turns
    store.conn.execute(ENTRY.format(value))
    assert conversation.say("Question 4?").text
    store.conn.execute(ENTRY.format(value))
    say(conversation.graph, "Question 5?")
    conversation.rollback(turns=1)

    after = registry.session("t")
    assert (before.title, 4, "active") == (after.title, after.turns, after.status)
    assert ["t"] == [session.thread_id for session in registry.sessions().sessions]


def test_a_damaged_entry_does_not_open_an_ended_thread(conversation: Conversation) -> None:
    """What can be read of it still says so; a change keeps it ended, and a purge deletes it."""
    store: Any = conversation.graph.store
    registry_of(conversation).end()
    store.conn.execute(ENTRY.format("json_set(value, '$.title', 'x')"))

    with pytest.raises(SessionEndedError):
        conversation.say("Question 4?")
    with pytest.raises(SessionEndedError):
        say(conversation.graph, "Question 4?")
    conversation.undo()
    assert "ended" == Registry.open(store).session("t").status
    with pytest.raises(SessionEndedError):
        conversation.say("Question 4?")
    store.conn.execute(ENTRY.format("'{'"))
    registry_of(conversation).purge()
    assert () == Registry.open(store).sessions().sessions


def test_a_thread_with_a_damaged_entry_can_be_ended(conversation: Conversation) -> None:
    """The entry is written anew, without title and labels."""
    store: Any = conversation.graph.store
    store.conn.execute(ENTRY.format("json_set(value, '$.title', 'x')"))

    assert "ended" == registry_of(conversation).end().status
    assert "ended" == Registry.open(store).session("t").status
    with pytest.raises(SessionEndedError):
        conversation.say("Question 4?")


def test_a_damaged_pending_input_is_left_out(conversation: Conversation) -> None:
    """A question that a dead process stored cannot be read: the thread goes on without it."""
    store: Any = conversation.graph.store
    item = store.get(("unsay", "threads"), "t")
    store.put(item.namespace, item.key, {**item.value, "pending_input": "xx"})

    assert 2 == len(conversation.timeline().turns)
    assert conversation.say("Question 4?").text


def steps_damaged(graph: Any) -> None:
    """Make more steps than the state holds, damage those in the store, and undo all others."""
    say(graph, *(f"Question {number}?" for number in range(MOST + 2)))
    for item in stored_items(graph.store, "undo steps"):
        graph.store.put(item.namespace, item.key, {**item.value, "body": "xx"})
    say(graph, *(["/undo"] * undo_depth(graph)))


@pytest.mark.full
def test_an_undo_of_a_damaged_step_is_refused_by_a_notice() -> None:
    """In any graph it changes nothing, and the next question is answered; a rollback goes on."""
    graph = make(Numbered())
    steps_damaged(graph)
    before = transcript(graph)

    assert "or go back to a checkpoint or by a number of turns" in last_text(say(graph, "/undo"))
    assert before == transcript(graph)[: len(before)]
    assert last_text(say(graph, "Next?")).startswith("This is draft")
    assert "missing or was changed" in last_text(say(graph, "/undo", "/undo"))
    assert last_text(say(graph, "/rollback 2")).startswith("Rolled back")
    assert last_text(say(graph, "Next?")).startswith("This is draft")


@pytest.mark.full
def test_an_undo_of_a_damaged_step_is_an_error_of_the_verb(open_thread: Opening) -> None:
    """`undo` and `/undo` raise; the next question is answered."""
    conversation = open_thread()
    steps_damaged(conversation.graph)

    for undo in (conversation.undo, lambda: conversation.say("/undo")):
        with pytest.raises(DatabaseCorruptError, match="by a number of turns"):
            undo()
        assert conversation.say("Next?").text.startswith("This is draft")
        conversation.undo()


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("order", ["/rollback 9", "/edit 2 New?", "/timeline", "/pin 2", "flag"])
def test_an_order_over_damaged_messages_is_refused_by_a_notice(order: str) -> None:
    """A command, also one that only shows, or a host's flag: the next question is answered."""
    graph = make(Numbered(), settings={"live_messages": 4, "summaries": "local"})
    say(graph, *(f"Question {number}?" for number in range(12)))
    for item in stored_items(graph.store, "offloaded messages"):
        graph.store.put(item.namespace, item.key, {**item.value, "body": "xx"})
    flag: Any = {}
    if order == "flag":
        first = graph.get_state(config()).values["checkpoints"][0]["id"]
        flag = {"should_rollback": True, "rollback_checkpoint_id": first}

    state = graph.invoke({"messages": [("user", order)], **flag}, config())

    assert "restore a backup" in last_text(state)
    assert last_text(say(graph, "Next?")).startswith("This is draft")


def _write_entry(store: Any, entry: Entry) -> Any:
    return (yield from put_entries(store, "t", [entry]))


def test_damaged_tool_steps_do_not_stop_the_thread(
    open_thread: Opening, caplog: pytest.LogCaptureFixture
) -> None:
    """They are only for a turn that a crash interrupted; the next turn is answered."""
    call = {"name": "look", "args": {}}
    model = ScriptedChat(replies={"first": ToolCalls(calls=[call], then="Seen.")}, default="Fine.")
    conversation = open_thread(model=model, tools=[look])
    conversation.say("first")
    damage(conversation, "unsay.tool_steps.t")

    assert "Fine." == conversation.say("second").text
    assert "the tool steps are damaged" in caplog.text


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("damaged_part", ["words", "page"])
def test_damaged_messages_that_a_page_sends_again_do_not_stop_the_thread(damaged_part: str) -> None:
    """The new question is answered; copies of lost messages are not added at the end of the transcript."""
    graph = make(Numbered(), settings={"live_messages": 4, "summaries": "local"})
    messages: list[Any] = []
    for number in range(12):
        messages.append(HumanMessage(f"Question {number}?", id=f"q{number}"))
        messages.append(graph.invoke({"messages": [messages[-1]]}, config())["messages"][-1])
    for item in stored_items(graph.store, "offloaded messages"):
        if item.key.endswith(PLACES) == (damaged_part == "words"):
            graph.store.put(item.namespace, item.key, {"x": 1})

    state = graph.invoke({"messages": [*messages, ("user", "Next?")]}, config())

    assert last_text(state).startswith("This is draft")
    if damaged_part == "words":
        asked_transcript = [
            text for text in transcript(graph) if text.startswith("human: Question")
        ]
        assert asked_transcript == [
            f"human: Question {12 - position}?" for position in range(len(asked_transcript), 0, -1)
        ]
    assert last_text(say(graph, "Once more?")).startswith("This is draft")
