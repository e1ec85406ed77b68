"""The live window: the oldest part of a long transcript is offloaded, with no visible change."""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
)
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from tests.graph.back_kit import SHIFTS, Opening
from tests.graph.kit import Numbered, config, scores
from tests.reading import (
    damage,
    listed_branches,
    namespace_of,
    newest_offloaded_page,
    offloaded_messages,
    questions,
    replayed,
    said,
    state_of,
    stored_items,
)
from tests.threads import registry_of
from tests.tiers import sampled
from unsay import AsyncConversation, Conversation
from unsay.errors import (
    ConflictError,
    DatabaseCorruptError,
    EventLogGapError,
    NothingToUndoError,
    UnsayError,
)
from unsay.hosts.entry import Trusted
from unsay.storage.segments import PLACES
from unsay.testing import ScriptedDetector
from unsay.transcript.record import EMPTY

SMALL = {"live_messages": 4, "summaries": "local"}
"""A window so small that every few turns part of the transcript is offloaded."""

WIDE = {"live_messages": 1_000, "summaries": "local"}

QUESTIONS = [f"Question {number}?" for number in range(1, 13)]


def spoken_to(open_thread: Opening, settings: dict[str, Any], **options: Any) -> Conversation:
    """A conversation of twelve turns, a checkpoint with a name behind the second and the tenth."""
    conversation = open_thread(settings=settings, detector=SHIFTS, **options)
    for number, question in enumerate(QUESTIONS, 1):
        conversation.say(f"NEW: {question}" if number % 3 == 0 else question)
        if number in (2, 10):
            conversation.checkpoint(f"after {number}")
    return conversation


def outline(conversation: Conversation) -> dict[str, Any]:
    """All that a person sees of a thread, without what differs between two that say the same."""
    timeline = conversation.timeline()
    turns = [(t.number, t.question, t.answer, t.score, t.topic) for t in timeline.turns]
    marks = [
        (c["name"], c["turn"], c["score"], c["topic"], c["reason"])
        for c in conversation.checkpoints()
    ]
    usage_spent = conversation.tokens().spent
    return {
        "record": [re.sub("cp-[0-9a-f]+", "cp", line) for line in said(conversation.messages())],
        "turns": turns,
        "marks": marks,
        "topics": [(t.label, t.summarized) for t in timeline.topics],
        "topic": timeline.current_topic,
        "spent": (usage_spent.live, usage_spent.abandoned),
        "branches": [(b.kind, b.turns, b.messages, b.words) for b in conversation.branches()],
    }


def back_to_the_beginning(conversation: Conversation) -> None:
    """Undo until nothing can be undone."""
    for _ in QUESTIONS:
        conversation.undo()


def there_and_back(conversation: Conversation) -> None:
    """A long way back, the same way forth, and on."""
    conversation.rollback(turns=11)
    conversation.undo()
    conversation.redo()
    conversation.undo()
    conversation.say("And now?")


def restored(conversation: Conversation) -> None:
    """What a long way back took returns in a later process."""
    conversation.rollback("after 2")
    branch = next(branch.id for branch in conversation.branches() if branch.kind == "person")
    conversation.say("Somewhere else?")
    conversation.restore(branch)


def pick_old_turn(conversation: Conversation) -> None:
    """An old turn is put at the end."""
    old = [
        message.id or "" for message in conversation.fork(turns=9, thread="other").messages()[:2]
    ]
    conversation.pick(old, "other")


def type_orders(conversation: Conversation) -> None:
    """A person types where to go."""
    for order in ("/rollback after 2", "/undo", "/rollback 9", "/timeline", "/undo", "/redo"):
        conversation.say(order)


def back_by_checkpoints(conversation: Conversation) -> None:
    """One good point after the other, to the beginning, and half of the way forth."""
    for _ in QUESTIONS:
        conversation.rollback()
    with pytest.raises(NothingToUndoError):
        conversation.rollback()
    for _ in QUESTIONS[:6]:
        conversation.undo()


def marked_again(conversation: Conversation) -> None:
    """Everything in the state is removed; earlier messages get checkpoints and are asked again."""
    for _ in range(4):
        conversation.rollback()
    conversation.checkpoint("here")
    conversation.retry()
    for _ in range(4):
        conversation.say("/rollback")
    conversation.say("/checkpoint there")
    conversation.say("/retry")


WAYS: dict[str, Callable[[Conversation], object]] = {
    "nothing": lambda conversation: None,
    "rollback to a name": lambda conversation: conversation.rollback("after 2"),
    "rollback of many turns": lambda conversation: conversation.rollback(turns=9),
    "rollback to the start": lambda conversation: conversation.rollback(turns=12),
    "rollback": Conversation.rollback,
    "rollback to the beginning": back_by_checkpoints,
    "mark and ask again": marked_again,
    "retry": Conversation.retry,
    "undo to the beginning": back_to_the_beginning,
    "there and back": there_and_back,
    "restore": restored,
    "pick": pick_old_turn,
    "chat": type_orders,
    "fork": lambda conversation: conversation.fork(turns=4, thread="other").say(
        "NEW: Another way?"
    ),
    "fork at a name": lambda conversation: conversation.fork("after 2", thread="other"),
}


@pytest.mark.parametrize("name", sampled(WAYS, every=3))
def test_a_small_window_is_not_noticed(tmp_path: Any, name: str) -> None:
    """After any operation, threads with a small and a wide window have the same transcript."""
    outlines = []
    for settings in (SMALL, WIDE):
        path = tmp_path / f"{settings['live_messages']}.db"

        def opening(path: Any = path, **options: Any) -> Conversation:
            return Conversation.open(path, **{"thread": "t", "judge": lambda _: 0.9, **options})

        with spoken_to(opening, settings, model=Numbered()) as conversation:
            WAYS[name](conversation)
        with opening(settings=settings, model=Numbered(), detector=SHIFTS) as conversation:
            thread_ids = [entry for entry in ("t", "other") if entry == "t" or "fork" in name]
            outline_by_door = {}
            for thread in thread_ids:
                other_conversation = Conversation.open(path, thread=thread, settings=settings)
                outline_by_door[thread] = outline(other_conversation)
                other_conversation.close()
            outlines.append(outline_by_door)
    assert outlines[1] == outlines[0]


def test_the_state_holds_no_more_than_the_window(open_thread: Opening) -> None:
    """What LangGraph keeps of a thread does not grow with it."""
    conversation = spoken_to(open_thread, SMALL)
    state = state_of(conversation)
    assert len(state["messages"]) <= 2 * SMALL["live_messages"] + 2
    assert len(state["messages"]) + offloaded_messages(conversation) == 2 * len(QUESTIONS)
    assert [
        q for q in QUESTIONS if not any(q in question for question in questions(conversation))
    ] == []


def test_the_event_log_has_everything(
    open_thread: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event log gives the whole transcript, byte for byte, from packed pages as well."""
    monkeypatch.setattr("unsay.transcript.record.LOOSE", 16)
    conversation = open_thread(settings=SMALL, detector=SHIFTS)
    for number in range(30):
        conversation.say(f"Question {number}?")
    assert replayed(conversation).messages == conversation.messages()
    items = stored_items(conversation.graph.store, "events")
    assert any("pages" in item.value for item in items)


def test_a_thread_without_topics_is_held_whole(open_thread: Opening) -> None:
    """Where contexts show the whole transcript, nothing is offloaded."""
    conversation = spoken_to(open_thread, {**SMALL, "topics": "off"})
    assert len(state_of(conversation)["messages"]) == 2 * len(QUESTIONS)


def test_a_topic_comes_back_with_its_words(open_thread: Opening) -> None:
    """The context shows the topic's messages, offloaded ones as well."""
    detector = ScriptedDetector(shifts={"NEW": "new", "BACK": "back"})
    model = Numbered()
    conversation = open_thread(model=model, settings=SMALL, detector=detector)
    for message_texts in (
        "The wedding costs 5,000.",
        "And the flowers?",
        "NEW: cats",
        "a",
        "b",
        "c",
        "d",
    ):
        conversation.say(message_texts)
    assert "offloaded" in state_of(conversation)
    assert "The wedding costs 5,000." not in model.texts()
    assert "The wedding costs 5,000." in model.texts()[0]

    conversation.say("BACK to the wedding")

    assert "The wedding costs 5,000." in model.texts()


def test_the_topic_under_way_is_told_of(open_thread: Opening) -> None:
    """Of a topic that is longer than the window, the summary tells what came before."""
    model = Numbered()
    conversation = open_thread(model=model, settings=SMALL, detector=SHIFTS)
    for number in range(12):
        conversation.say(f"Question {number}?")
    assert len(model.inputs[-1]) <= 2 * SMALL["live_messages"] + 2
    assert "Question 0?" in model.texts()[0]


def test_system_messages_stay_in_every_context(open_thread: Opening) -> None:
    """The host's instructions are sent however long ago they were given."""
    model = Numbered()
    conversation = open_thread(model=model, settings=SMALL, detector=SHIFTS)
    conversation.add([SystemMessage("Speak like a pirate.")])
    for number in range(12):
        conversation.say(f"Question {number}?")
    assert all(m.type != "system" for m in state_of(conversation)["messages"])
    assert "Speak like a pirate." in model.texts()[0]


def test_what_comes_in_again_is_not_there_twice(open_thread: Opening) -> None:
    """A front end may send all that it shows with each question."""
    conversation = spoken_to(open_thread, SMALL)
    before = conversation.messages()
    message = HumanMessage("What else?", id="what-else-was-asked")
    conversation.graph.invoke({"messages": [*before, message]}, config())
    assert [m.id for m in before] == [m.id for m in conversation.messages()][: len(before)]
    assert len(conversation.messages()) == len(before) + 2


def test_an_old_message_can_be_replaced_and_removed(open_thread: Opening) -> None:
    """A host changes offloaded messages like any others."""
    conversation = spoken_to(open_thread, SMALL)
    first, second, *messages_left = conversation.messages()
    conversation.add([first.model_copy(update={"content": "In other words?"})])
    conversation.add([RemoveMessage(id=second.id or "")])
    assert ["human: In other words?", *said(messages_left)] == said(conversation.messages())
    assert replayed(conversation).messages == conversation.messages()


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("through_the_graph", [False, True])
def test_a_host_empties_the_record(open_thread: Opening, *, through_the_graph: bool) -> None:
    """Removing all messages removes offloaded ones too."""
    conversation = spoken_to(open_thread, SMALL)
    if through_the_graph:
        conversation.graph.update_state(
            config(), {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES)]}
        )
    else:
        conversation.add([RemoveMessage(id=REMOVE_ALL_MESSAGES)])
    assert [] == conversation.messages()
    assert conversation.say("And now?").text
    assert ["And now?"] == questions(conversation)
    assert replayed(conversation).messages == conversation.messages()


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("event_log", ["kept", "lost"])
def test_an_emptied_record_names_no_segment(open_thread: Opening, event_log: str) -> None:
    """The stored state has nothing of what a host removed, with or without an event log."""
    conversation = spoken_to(open_thread, SMALL)
    if event_log == "lost":
        empty_log: Any = Trusted({"event_log": EMPTY})
        conversation.graph.update_state(config(), empty_log)
    before = offloaded_messages(conversation)
    conversation.add([RemoveMessage(id=REMOVE_ALL_MESSAGES)])
    assert before > 0
    assert 0 == offloaded_messages(conversation)
    assert [] == conversation.messages()


def test_a_host_that_empties_the_record_is_not_told_of_it_again(open_thread: Opening) -> None:
    """Neither summaries nor checkpoints speak of what was removed."""
    model = Numbered()
    conversation = spoken_to(open_thread, SMALL, model=model)
    conversation.add([RemoveMessage(id=REMOVE_ALL_MESSAGES)])
    conversation.say("And now?")
    assert [text for text in model.texts() if "Question" in text] == []
    assert ["And now?"] == questions(conversation)
    assert {1} == {checkpoint["turn"] for checkpoint in conversation.checkpoints()}


@pytest.mark.sample(every=3)
@pytest.mark.parametrize(
    "order",
    [
        pytest.param(lambda conversation: conversation.checkpoint("x"), id="checkpoint"),
        pytest.param(lambda conversation: conversation.rollback("x"), id="rollback"),
        pytest.param(lambda conversation: conversation.say("/timeline"), id="timeline"),
        pytest.param(lambda conversation: conversation.add([("user", "More")]), id="add"),
    ],
)
def test_what_a_host_removed_does_not_return(
    open_thread: Opening, order: Callable[[Conversation], object]
) -> None:
    """An order after the transcript was emptied knows of nothing before."""
    conversation = spoken_to(open_thread, SMALL)
    new = [HumanMessage("New?", id="n1"), AIMessage("New.", id="n2")]
    removal = {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *new]}
    conversation.graph.update_state(config(), removal)
    with suppress(UnsayError):
        order(conversation)
    conversation.say("And now?")
    assert [question for question in questions(conversation) if "Question" in question] == []
    assert replayed(conversation).messages == conversation.messages()


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("through_the_graph", [False, True])
@pytest.mark.parametrize("first", range(0, 22, 2))
def test_a_host_trims_both_ends(
    open_thread: Opening, first: int, *, through_the_graph: bool
) -> None:
    """After any removal by a host, the rest of the transcript stays."""
    conversation = spoken_to(open_thread, SMALL)
    before = conversation.messages()
    removed_messages = [before[first], before[-1]]
    ids = {message.id for message in state_of(conversation)["messages"]}
    if through_the_graph and not {item.id for item in removed_messages} <= ids:
        pytest.skip("the state no longer has the message")
    removed = [RemoveMessage(id=item.id or "") for item in removed_messages]
    if through_the_graph:
        conversation.graph.update_state(config(), {"messages": removed})
    else:
        conversation.add(removed)
    assert [item for item in before if item not in removed_messages] == conversation.messages()


def test_the_same_words_again_are_a_new_question(open_thread: Opening) -> None:
    """A host that gives messages no ids may ask the same question repeatedly."""
    conversation = open_thread(settings=SMALL, detector=SHIFTS)
    for _ in range(20):
        conversation.graph.invoke({"messages": [("user", "Go on")]}, config())
    assert ["Go on"] * 20 == questions(conversation)
    assert 40 == len({message.id for message in conversation.messages()})
    assert 20 == len(conversation.timeline().turns)


def test_what_comes_in_again_is_not_logged_again(open_thread: Opening) -> None:
    """The event log has the words of a front end that sends everything but once."""
    grown = []
    for settings in (SMALL, WIDE):
        conversation = spoken_to(open_thread, settings, thread=f"of {settings['live_messages']}")
        before = len(registry_of(conversation).events())
        message = HumanMessage("What else?", id="what-else-was-asked")
        value = {"messages": [*conversation.messages(), message]}
        conversation.graph.invoke(value, config(conversation.thread_id))
        grown.append(len(registry_of(conversation).events()) - before)
        assert replayed(conversation).messages == conversation.messages()
    assert grown[1] == grown[0]


def test_what_came_in_before_any_topic_is_shown(open_thread: Opening) -> None:
    """A transcript that a host imports is in the first context, for it has no summary yet."""
    model = Numbered()
    conversation = open_thread(model=model, settings=SMALL, detector=SHIFTS)
    brought = [(HumanMessage(f"Old {n}?"), AIMessage(f"An old answer {n}.")) for n in range(20)]
    conversation.add([message for pair in brought for message in pair])
    conversation.say("And now?")
    assert {"Old 0?", "Old 19?"} <= {*model.texts()}
    conversation.say("And then?")
    assert len(state_of(conversation)["messages"]) < len(QUESTIONS)
    assert "Old 0?" in model.texts()[0]
    assert 44 == len(conversation.messages())


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("index", [0, -1], ids=["offloaded", "held"])
def test_what_stands_on_the_record_cannot_come_back(open_thread: Opening, index: int) -> None:
    """The error says that the message is in the transcript, offloaded or not."""
    conversation = spoken_to(open_thread, SMALL)
    name = conversation.messages()[index].id or ""
    with pytest.raises(ConflictError, match="in the transcript already"):
        conversation.restore(name)


def test_an_exchange_that_entered_is_judged_before_it_is_let_go_of(open_thread: Opening) -> None:
    """What a host adds has its verdict, however small the window is."""
    conversation = spoken_to(open_thread, SMALL)
    conversation.add([HumanMessage("Brought?"), AIMessage("It was brought here.")])
    conversation.graph.update_state(
        config(), {"messages": [("user", "More?"), ("ai", "More of it.")]}
    )
    conversation.say("And now?")
    scores_by_question = {turn.question: turn.score for turn in conversation.timeline().turns}
    assert (0.9, 0.9) == (scores_by_question["Brought?"], scores_by_question["More?"])


def test_a_host_goes_on_from_an_older_state(open_thread: Opening) -> None:
    """The event log contains the branch that left an older LangGraph checkpoint, and no other."""
    conversation = open_thread(settings=SMALL, detector=SHIFTS)
    for number in range(29):
        conversation.say(f"Question {number}?")
    older = conversation.graph.get_state(config()).config
    for number in range(30):
        conversation.say(f"Not {number}?")
    configs = [state.config for state in conversation.graph.get_state_history(config())]
    older = older if older in configs else configs[-1]
    conversation.graph.update_state(older, None, as_node="__end__")
    before = conversation.messages()
    for number in range(30):
        conversation.say(f"Instead {number}?")
    assert before == conversation.messages()[: len(before)]
    assert replayed(conversation).messages == conversation.messages()


def _change(conversation: Conversation, key: str, **changes: Any) -> None:
    store = conversation.graph.store
    assert store is not None
    (item,) = (item for item in stored_items(store, "offloaded messages") if item.key == key)
    store.put(item.namespace, key, {**item.value, **changes}, index=False)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize(
    ("suffix", "changes"),
    [
        pytest.param(PLACES, {"positions": [[0, 1]]}, id="positions"),
        pytest.param("", {"turns": 99}, id="line"),
        pytest.param("", {"before": None}, id="chain"),
    ],
)
def test_a_page_that_was_changed_is_refused(
    open_thread: Opening, suffix: str, changes: dict[str, Any]
) -> None:
    """A damaged page is named, and what is newer can still be talked about."""
    conversation = spoken_to(open_thread, SMALL)
    page_id = newest_offloaded_page(conversation)
    _change(conversation, f"{page_id}{suffix}", **changes)
    with pytest.raises(DatabaseCorruptError, match=page_id):
        conversation.messages()
    assert conversation.say("Go on").text
    assert conversation.undo().removed == 2


async def test_async_conversations_have_the_same_window(tmp_path: Any) -> None:
    """The same holds on an event loop."""
    conversation = AsyncConversation.open(
        tmp_path / "t.db", thread="t", model=Numbered(), judge=lambda _: 0.9, settings=SMALL
    )
    for question in QUESTIONS:
        await conversation.say(question)
    assert (await conversation.rollback(turns=10)).turns == len(QUESTIONS) - 10
    assert (await conversation.undo()).turns == len(QUESTIONS)
    transcript: list[AnyMessage] = await conversation.messages()
    assert QUESTIONS == [m.text for m in transcript if m.type == "human"]
    await conversation.close()


def test_a_topic_whose_page_is_lost_can_still_be_talked_about(open_thread: Opening) -> None:
    """Where a returning topic's messages are damaged, its summary replaces them."""
    detector = ScriptedDetector(shifts={"NEW": "new", "BACK": "back"})
    model = Numbered()
    conversation = open_thread(model=model, settings=SMALL, detector=detector)
    for question in (
        "The wedding costs 5,000.",
        "And the flowers?",
        "NEW: cats",
        "a",
        "b",
        "c",
        "d",
    ):
        conversation.say(question)
    for topic in state_of(conversation)["topics"]:
        for page_id in topic.get("pages", []):
            _change(conversation, f"{page_id}{PLACES}", positions=[[0, 1]])

    events = list(conversation.stream("BACK to the wedding"))

    assert events[-1].text
    assert "segment_lost" in {event.kind for event in events}
    assert "The wedding costs 5,000." not in model.texts()
    assert "The wedding costs 5,000." in model.texts()[0]


# The words of offloaded messages are in the event log alone.
LOST = {
    "events": EventLogGapError,
    **dict.fromkeys(("messages", "branches", "timeline"), DatabaseCorruptError),
}


def test_a_gap_in_the_event_log_does_not_end_the_conversation(open_thread: Opening) -> None:
    """A thread whose event log lost a page works; a reader of the log gets an error."""
    conversation = open_thread(settings=SMALL, detector=SHIFTS)
    conversation.say("Question 0?")
    store = conversation.graph.store
    assert store is not None
    item = stored_items(store, "events")[0]
    store.delete(item.namespace, item.key)
    for number in range(1, 20):
        assert conversation.say(f"Question {number}?").text
    assert LOST == damage(conversation)


def test_a_damaged_page_of_the_event_log_does_not_end_the_conversation(
    open_thread: Opening,
) -> None:
    """The same is true of a page with a wrong checksum in a database of unsay."""
    conversation = open_thread(settings=SMALL, detector=SHIFTS)
    conversation.say("Question 0?")
    store: Any = conversation.graph.store
    store.conn.execute(
        "UPDATE store SET value = json_set(value, '$.count', 7) WHERE prefix = ?",
        [".".join(namespace_of("events"))],
    )
    for number in range(1, 20):
        assert conversation.say(f"Question {number}?").text
    assert LOST == damage(conversation)


def test_a_branch_of_offloaded_messages_returns_after_a_rejected_draft(
    open_thread: Opening,
) -> None:
    """In any graph `/restore` loads the place of the branch that it restores, not that of a draft."""
    judge = scores(*[0.9] * 8, 0.1)
    conversation = open_thread(settings=SMALL, detector=SHIFTS, judge=judge)
    for number in range(3):
        conversation.say(f"Early {number}?")
    conversation.rollback(turns=1)
    for question in ("Question 0?", "NEW: 1?", "Question 2?", "NEW: 3?", "Question 4?", "Last?"):
        conversation.say(question)
    kinds = [branch.kind for branch in listed_branches(conversation)]
    assert ["person", "draft"] == kinds
    assert "Early 2?" not in questions(conversation)

    conversation.graph.invoke({"messages": [HumanMessage("/restore")]}, config("t"))

    assert "Early 2?" in questions(conversation)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("target", ["question", "answer", "branch", "beginning", "forgotten"])
def test_a_graph_loads_the_offloaded_place_of_what_it_restores(
    open_thread: Opening, target: str
) -> None:
    """`/restore ID` finds the place of a message, of a branch, and of what was forgotten."""
    conversation = open_thread(settings=SMALL, detector=SHIFTS)
    for number in range(3):
        conversation.say(f"Early {number}?")
    entry = conversation.forget(turns="2")
    *_, question, answer = conversation.messages()
    branch = conversation.rollback(turns=1).branch or ""
    for number in range(6):
        conversation.say(f"NEW: {number}?" if number % 2 else f"Question {number}?")
    names = {
        "question": question.id,
        "answer": answer.id,
        "branch": branch,
        "beginning": branch[:-3],
        "forgotten": entry["id"],
    }

    graph = conversation.graph
    graph.invoke({"messages": [HumanMessage(f"/restore {names[target]}")]}, config("t"))

    if target == "forgotten":
        assert () == conversation.forgotten()
    else:
        ids = {message.id for message in conversation.messages()}
        assert (answer if target == "answer" else question).id in ids


def test_an_unknown_name_to_restore_is_refused_by_a_notice(open_thread: Opening) -> None:
    """Nothing is loaded for it."""
    conversation = open_thread(settings=SMALL, detector=SHIFTS)
    for number in range(6):
        conversation.say(f"Question {number}?")
    conversation.rollback(turns=1)
    before = len(state_of(conversation)["messages"])

    for name in ("branch-none", "branch-", "nobody"):
        order = {"messages": [HumanMessage(f"/restore {name}")]}
        assert (
            "Nothing was changed"
            in conversation.graph.invoke(order, config("t"))["messages"][-1].text
        )

    assert before + 6 == len(state_of(conversation)["messages"])


def test_an_order_goes_back_to_an_offloaded_checkpoint(open_thread: Opening) -> None:
    """Also where the state has only the checkpoint at the start of the thread."""
    settings = {**SMALL, "checkpoint_threshold": 0.95}
    conversation = open_thread(settings=settings, detector=SHIFTS, judge=scores(*[0.8] * 12))
    conversation.checkpoint("trip", task=True)
    for number, question in enumerate(QUESTIONS, 1):
        conversation.say(question)
        if number == 2:
            conversation.checkpoint("good")

    assert "checkpoint good" in conversation.say("/rollback").text
    assert 4 == len(conversation.messages())


@pytest.mark.sample(every=3)
@pytest.mark.parametrize(
    ("earlier", "refused_order"),
    [
        ("", lambda c: c.say("/edit 1")),
        ("", lambda c: c.edit(1, " ")),
        ("/pin 1", lambda c: c.say("/pin 1")),
        ("/forget 1", lambda c: c.say("/forget 1")),
    ],
    ids=["edit-command", "edit", "pin", "forget"],
)
def test_a_refused_order_about_offloaded_turns_stores_nothing(
    open_thread: Opening, earlier: str, refused_order: Any
) -> None:
    """What it had to read stays offloaded, and LangGraph has no new state."""
    conversation = open_thread(settings=SMALL, detector=SHIFTS)
    conversation.say("NEW: the first")
    if earlier:
        conversation.say(earlier)
    for question in QUESTIONS:
        conversation.say(f"NEW: {question}")
    assert offloaded_messages(conversation)
    before = conversation.graph.get_state(config(conversation.thread_id))
    with suppress(UnsayError):
        refused_order(conversation)
    assert before == conversation.graph.get_state(config(conversation.thread_id))


def test_a_command_about_offloaded_turns_loads_and_changes_at_once(open_thread: Opening) -> None:
    """What it loads and what it changes are one state; the event log agrees with the transcript."""
    conversation = spoken_to(open_thread, SMALL)
    before = conversation.messages()
    conversation.say("/pin 1")
    assert before == conversation.messages()
    assert {before[0].id, before[1].id} == {pin["message_id"] for pin in conversation.pins.list()}
    conversation.say("/forget 1")
    assert before == conversation.messages() == replayed(conversation).messages
    conversation.say("next")
    assert before == conversation.messages()[: len(before)]
