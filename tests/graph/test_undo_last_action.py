"""Undo takes back the last thing that a person did, and says what; retry and edit ask again."""

import re
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage

from tests.graph.kit import Numbered, last_text, make, say, scores
from tests.reading import replayed, state_of
from tests.threads import open_conversation, registry_of
from unsay import AsyncConversation, Conversation, Registry
from unsay.cli.run import language_of_thread
from unsay.errors import (
    InputError,
    SummarizationError,
    UnknownCheckpointError,
    UnknownTurnError,
)
from unsay.messages.content import text_of
from unsay.testing import ScriptedDetector

pytestmark = pytest.mark.usefixtures("closes_databases")


def open_thread(model: Any = None, **options: Any) -> Conversation:
    """A conversation with two turns."""
    conversation = open_conversation(model=model, **options)
    conversation.say("What is a list?")
    conversation.say("What is a dictionary?")
    return conversation


def labels(conversation: Conversation) -> dict[str, str]:
    """The thread's labels."""
    return dict(registry_of(conversation).label().labels)


def undoable_parts(conversation: Conversation) -> tuple[Any, ...]:
    """All that these verbs change."""
    return (
        conversation.messages(),
        conversation.pins.list(),
        conversation.forgotten(),
        conversation.checkpoints(),
        labels(conversation),
    )


DEEDS = {
    "say": lambda c: c.say("What is a set?"),
    "rollback": lambda c: c.rollback(turns=1),
    "pin": lambda c: c.pins.add(),
    "unpin": lambda c: c.pins.remove(turn=1),
    "forget": lambda c: c.forget(turns=1),
    "checkpoint": lambda c: c.checkpoint("here"),
    "start_task": lambda c: c.checkpoint("the move", task=True),
    "label": lambda c: registry_of(c).label(project="other", owner="me"),
    "retry": lambda c: c.retry(),
    "remove": lambda c: c.remove(1),
    "edit": lambda c: c.edit(1, "What is a tuple?"),
}


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("deed", DEEDS)
def test_undo_and_redo_are_of_the_last_action(deed: str) -> None:
    """Undo brings back exactly what was before a deed, redo exactly what was after it."""
    conversation = open_thread()
    conversation.pins.add(turn=1)
    registry_of(conversation).label(project="one")
    before = undoable_parts(conversation)
    DEEDS[deed](conversation)
    after = undoable_parts(conversation)
    assert before != after
    for _ in range(2):
        conversation.undo()
        assert before == undoable_parts(conversation)
        conversation.redo()
        assert after == undoable_parts(conversation)
    assert conversation.messages() == replayed(conversation).messages


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("deed", DEEDS)
def test_the_metadata_are_of_the_newest_checkpoint(deed: str) -> None:
    """After each deed, its undo and its redo `checkpoint_metadata` describes the newest one."""
    conversation = open_thread()
    conversation.pins.add(turn=1)
    DEEDS[deed](conversation)
    assert_metadata(conversation)
    for step in (conversation.undo, conversation.redo, conversation.undo):
        step()
        assert_metadata(conversation)


def test_the_metadata_are_empty_again_without_a_checkpoint() -> None:
    """An undo of the only checkpoint leaves no description of it, a redo gives it back."""
    conversation = Conversation.open(":memory:", model=Numbered(), judge=scores())
    conversation.checkpoint("the move", task=True)
    assert_metadata(conversation)
    conversation.undo()
    assert {} == stored_state(conversation)["checkpoint_metadata"]
    conversation.redo()
    assert_metadata(conversation)


def stored_state(conversation: Conversation) -> dict[str, Any]:
    """The graph's state."""
    values: dict[str, Any] = state_of(conversation)
    return values


def assert_metadata(conversation: Conversation) -> None:
    """The metadata are those of the checkpoint that is last in the transcript."""
    checkpoints = conversation.checkpoints()
    metadata = stored_state(conversation)["checkpoint_metadata"]
    positions: dict[str | None, int] = {m.id: i for i, m in enumerate(conversation.messages(), 1)}
    last = max(positions.get(checkpoint["message_id"], 0) for checkpoint in checkpoints)
    checkpoint = [
        checkpoint
        for checkpoint in checkpoints
        if positions.get(checkpoint["message_id"], 0) == last
    ][-1]
    assert (checkpoint["id"], checkpoint["name"]) == (metadata["checkpoint_id"], metadata["name"])
    assert (checkpoint["score"], last) == (metadata["quality_score"], metadata["message_count"])


@pytest.mark.parametrize(
    ("order", "undone"),
    [
        ("/pin", "Removed the pin. /redo restores it."),
        ("/forget 1", "The messages are sent to the model again. /redo reverses this."),
        ("/checkpoint here", "The checkpoint is as it was before. /redo reverses this."),
        ("/rollback 1", "Restored 1 turn. /redo reverses this."),
        ("/edit 1 What is a tuple?", "Removed 1 turn. Restored 2 turns. /redo reverses this."),
        ("What is a set?", "Removed 1 turn. /redo restores it."),
    ],
)
def test_a_compiled_graph_says_what_it_undid(order: str, undone: str) -> None:
    """Typed in a host's chat, an undo takes back the last order and says so."""
    graph = make(Numbered())
    say(graph, "What is a list?", "What is a dictionary?")
    before = say(graph, "/timeline")
    state = say(graph, order, "/undo")
    assert undone == last_text(state)
    for key in ("pins", "forgotten", "checkpoints"):
        assert before.get(key, []) == state.get(key, [])


def test_a_retry_asks_for_another_answer() -> None:
    """No request of a retry equals an earlier one: it has the earlier answers."""
    model = Numbered()
    conversation = open_thread(model)
    conversation.retry()
    conversation.retry()
    texts = [model.texts(call)[-1] for call in range(1, 4)]
    assert 3 == len(set(texts))
    assert "This is draft 2" in texts[1]
    assert "This is draft 3" in texts[2]


def test_a_retry_keeps_the_names_of_checkpoints() -> None:
    """The new answer has the old one's named checkpoints, also several; undo gives them back."""
    conversation = open_thread()
    conversation.checkpoint("one")
    conversation.checkpoint("two")
    conversation.retry()
    newest = conversation.messages()[-1].id
    named = {
        checkpoint["name"]: checkpoint["message_id"] for checkpoint in conversation.checkpoints()
    }
    assert named["one"] == named["two"] == newest


def test_an_edit_keeps_the_old_messages_as_a_branch() -> None:
    """The turn's question is replaced and answered; all that followed is one branch."""
    conversation = open_thread()
    old = conversation.messages()
    reply = conversation.edit(1, "What is a tuple?\nIn two lines.")
    assert ["What is a tuple?\nIn two lines.", reply.text] == texts(conversation.messages())
    branch = conversation.branches()[1]
    assert ("edit", 2) == (branch.kind, branch.turns)
    conversation.restore(branch.id)
    assert old == conversation.messages()


def test_a_removed_turn_leaves_the_later_ones() -> None:
    """One turn goes to a branch; the checkpoints of the others have the numbers of their turns."""
    conversation = open_thread()
    conversation.say("What is a set?")
    first, second, third = turns(conversation)
    conversation.remove(2)
    assert [first, third] == turns(conversation)
    assert [1, 2] == [checkpoint["turn"] for checkpoint in conversation.checkpoints()]
    branch = conversation.branches()[1]
    assert ("remove", 1) == (branch.kind, branch.turns)
    conversation.restore(branch.id)
    assert [first, second, third] == turns(conversation)
    conversation.undo()
    conversation.undo()
    assert [first, second, third] == turns(conversation)
    assert [1, 2, 3] == [checkpoint["turn"] for checkpoint in conversation.checkpoints()]


def test_a_turn_is_removed_by_an_order() -> None:
    """A typed command removes it, says so, and is undone like the method."""
    graph = make(Numbered())
    state = say(graph, "What is a list?", "What is a dictionary?", "/remove 1")
    assert "Removed turn 1. /undo restores it." == last_text(state)
    assert "What is a list?" not in texts(state["messages"])
    state = say(graph, "/undo")
    assert "Restored 1 turn. /redo reverses this." == last_text(state)
    assert "What is a list?" == texts(state["messages"])[0]


def test_a_range_of_turns_is_not_removed() -> None:
    """One turn is removed at a time, from any front end."""
    graph = make(Numbered())
    state = say(graph, "What is a list?", "What is a dictionary?", "/remove 1-2")
    assert "'1-2' is not a turn: write a turn number N" in last_text(state)
    conversation = Conversation.open(":memory:", thread="t", model=Numbered(), judge=scores())
    conversation.say("What is a list?")
    conversation.say("What is a dictionary?")
    assert "'1-2' is not a turn: write a turn number N" in conversation.say("/remove 1-2").text
    assert 2 == len(turns(conversation))


def test_the_first_task_starts_at_the_beginning() -> None:
    """A thread without an answer can go back to the start of its first task."""
    conversation = Conversation.open(":memory:", thread="t", model=Numbered(), judge=scores())
    checkpoint = conversation.checkpoint("one", task=True)
    assert (None, 0, "task_start") == (
        checkpoint["message_id"],
        checkpoint["turn"],
        checkpoint["reason"],
    )
    conversation.say("What is a list?")
    conversation.checkpoint("two", task=True)
    conversation.say("What is a dictionary?")
    conversation.rollback("two")
    assert 1 == len(turns(conversation))
    conversation.rollback("one")
    assert [] == conversation.messages()
    conversation.undo()
    assert 1 == len(turns(conversation))
    assert conversation.messages() == replayed(conversation).messages


def test_a_task_is_started_by_an_order() -> None:
    """A typed command names the task's start, and a rollback goes there."""
    graph = make(Numbered())
    state = say(graph, "What is a list?", "/task two", "What is a dictionary?", "/rollback two")
    assert "What is a dictionary?" not in texts(state["messages"])


def turns(conversation: Conversation) -> list[str]:
    """The answers."""
    return texts(conversation.messages())[1::2]


def test_an_edit_of_no_turn_changes_nothing() -> None:
    """A turn that does not exist and an empty text are refused."""
    conversation = open_thread()
    old = conversation.messages()
    with pytest.raises(UnknownTurnError):
        conversation.edit(3, "What is a tuple?")
    with pytest.raises(InputError):
        conversation.edit(1, " ")
    assert old == conversation.messages()


def texts(messages: list[AnyMessage]) -> list[str]:
    """Their texts."""
    return [text_of(message) for message in messages]


SET = "A set has each element once."
SUMMARY = "They asked what a list and a dictionary are."


def long(end: str) -> str:
    """A long answer without repetitions, with its own last word."""
    return (
        " ".join(f"{end}{position} precedes {end}{position * 7 + 100}" for position in range(60))
        + f" {end}."
    )


class Lines:
    """A model that gives these replies in order, and the last one again, and keeps its requests."""

    def __init__(self, *replies: str) -> None:
        self.replies = replies
        self.requests = list[str]()

    def __call__(self, messages: list[AnyMessage]) -> AIMessage:
        """The next reply."""
        self.requests.append("\n".join(map(text_of, messages)))
        return AIMessage(self.replies[min(len(self.requests), len(self.replies)) - 1])


def compact_conversation(summary: str = SUMMARY) -> tuple[Conversation, Lines, Lines]:
    """Two turns of one topic with long answers, the model, and the summarizer."""
    model = Lines(long("One"), long("Two"), SET)
    summarizer = Lines(summary)
    conversation = Conversation.open(
        ":memory:",
        model=model,
        judge=scores(),
        summarizer=summarizer,
        detector=ScriptedDetector(),
    )
    conversation.say("What is a list?")
    conversation.checkpoint("first")
    conversation.say("What is a dictionary?")
    return conversation, model, summarizer


@pytest.mark.parametrize("up_to", [1, "1", "first"])
def test_a_compaction_by_hand_reaches_up_to_its_place(up_to: int | str) -> None:
    """A summary of the configured summarizer replaces the first turn; the second is sent in full."""
    conversation, model, summarizer = compact_conversation()
    before = conversation.messages()
    omission = conversation.compact(up_to)
    assert [m.id for m in before[:2]] == list(omission.message_ids)
    assert SUMMARY == omission.summary
    assert "One." in summarizer.requests[0]
    assert "Two." not in summarizer.requests[0]
    assert before == conversation.messages()
    conversation.say("What is a set?")
    assert SUMMARY in model.requests[-1]
    assert "One." not in model.requests[-1]
    assert "Two." in model.requests[-1]


def test_without_a_place_all_is_summarized_but_pins() -> None:
    """The newest answer is the default; a pinned turn is still sent in full."""
    conversation, model, _ = compact_conversation()
    conversation.pins.add(turn=1)
    omission = conversation.compact()
    assert [m.id for m in conversation.messages()[2:]] == list(omission.message_ids)
    conversation.say("What is a set?")
    assert "One." in model.requests[-1]
    assert "Two." not in model.requests[-1]


def test_a_summary_of_a_removed_turn_does_not_return_with_a_rolled_back_branch() -> None:
    """The removal drops the summary although a rollback had removed the summary's last messages."""
    conversation, model, _ = compact_conversation()
    conversation.say("What is a set?")
    conversation.compact()
    conversation.rollback(turns=1)
    rolled_back = conversation.branches()[1].id
    conversation.remove(1)
    conversation.restore(rolled_back)

    conversation.say("What is a tuple?")

    assert SUMMARY not in model.requests[-1]
    assert "Two." in model.requests[-1]


async def test_async_code_compacts_by_hand() -> None:
    """The verb exists for async code."""
    conversation = AsyncConversation.open(
        ":memory:", model=Lines(long("One")), judge=scores(), summarizer=Lines(SUMMARY)
    )
    await conversation.say("What is a list?")
    omission = await conversation.compact()
    assert (2, SUMMARY) == (len(omission.message_ids), omission.summary)
    await conversation.close()


def test_undo_of_a_compaction_by_hand_sends_the_messages_again() -> None:
    """Undo says what it undid and gives the messages back to the context; redo replaces them."""
    conversation, model, _ = compact_conversation()
    conversation.compact()
    undone = "The messages are sent to the model again. /redo reverses this."
    redone = "A summary replaces the messages in the context. /undo reverses this."
    assert undone == said_by(conversation, "/undo")
    assert redone == said_by(conversation, "/redo")
    conversation.undo()
    conversation.say("What is a set?")
    assert "One." in model.requests[-1]
    assert SUMMARY not in model.requests[-1]


def said_by(conversation: Conversation, order: str) -> str:
    """The notice of a command."""
    return conversation.say(order).text


def test_a_compaction_by_hand_is_refused_where_nothing_is_left() -> None:
    """A second one up to the same turn, an unknown turn and an unknown checkpoint say why."""
    conversation, _, _ = compact_conversation()
    conversation.compact(1)
    with pytest.raises(InputError, match="no message up to there"):
        conversation.compact(1)
    with pytest.raises(UnknownTurnError):
        conversation.compact(9)
    with pytest.raises(UnknownCheckpointError):
        conversation.compact("nowhere")


def test_a_compaction_up_to_an_offloaded_turn_is_refused() -> None:
    """The turn exists, and contexts have a summary of it already."""
    conversation = Conversation.open(
        ":memory:",
        model=Lines("A list is a sequence."),
        judge=scores(),
        detector=ScriptedDetector(),
        settings={"live_messages": 16},
    )
    for number in range(24):
        conversation.say(f"What is list {number}?")
    with pytest.raises(InputError, match="no message up to there"):
        conversation.compact(1)


def test_a_failed_summary_by_hand_changes_nothing() -> None:
    """The person asked for it, so the error is raised; there is nothing new to undo."""
    conversation, _, _ = compact_conversation(long("Three") * 9)
    before = stored_state(conversation)
    with pytest.raises(SummarizationError):
        conversation.compact()
    assert before == stored_state(conversation)


@pytest.mark.parametrize(
    ("first", "notice"),
    [
        (
            "What is a list?",
            "Summarized 2 messages of the context. /undo sends them in full again.",
        ),
        (
            "リストとは何ですか。",
            "コンテキストのメッセージ2件を要約しました。/undo で全文の送信に戻せます。",
        ),
    ],
)
def test_a_compiled_graph_compacts_by_an_order(first: str, notice: str) -> None:
    """Typed in a host's chat, the command summarizes and says so; undo takes it back."""
    summarizer = Lines("They asked what a list is.")
    graph = make(Lines(long("One")), summarizer=summarizer)
    before = say(graph, first)
    state = say(graph, "/compact 1")
    assert notice == last_text(state)
    assert before.get("compaction", {}) != state["compaction"]
    state = say(graph, "/undo")
    assert before.get("compaction", {}) == state["compaction"]


def test_a_refused_compaction_speaks_japanese() -> None:
    """What cannot be summarized is said in the language of the conversation."""
    conversation = Conversation.open(
        ":memory:", model=Lines(long("One")), judge=scores(), summarizer=Lines(SUMMARY)
    )
    conversation.say("リストとは何ですか。")
    said_by(conversation, "/compact")
    refused = "その地点までに、要約で置き換えられるメッセージはありません。何も変更していません。"
    assert refused == said_by(conversation, "/compact")


def test_a_range_is_no_place_of_a_compaction() -> None:
    """It is refused as what it is, in both languages, and not looked up as a name."""
    conversation, _, _ = compact_conversation()
    with pytest.raises(InputError, match=re.escape("'1-2' is a range: write only its last turn")):
        conversation.compact("1-2")
    japanese = Conversation.open(":memory:", model=Lines(long("One")), judge=scores())
    japanese.say("リストとは何ですか。")
    assert "範囲です" in said_by(japanese, "/compact 1-2")


def test_a_compaction_by_hand_is_in_the_event_log() -> None:
    """So are its undo and its redo."""
    conversation, _, _ = compact_conversation()
    before = len(registry_of(conversation).events())
    conversation.compact(1)
    conversation.undo()
    conversation.redo()
    logged = [
        (event["type"], event["data"].get("summary"))
        for event in registry_of(conversation).events()[before:]
    ]
    assert [("compaction", SUMMARY), ("expand", None), ("compaction", SUMMARY)] == logged


def test_a_reply_names_the_checkpoints_that_an_edit_removed() -> None:
    """The named checkpoint of the old answer is gone, and the reply says so."""
    conversation = open_thread()
    conversation.checkpoint("good")
    reply = conversation.edit(1, "What is a tuple?")
    assert ("good",) == reply.checkpoints_removed
    assert () == conversation.say("What is a set?").checkpoints_removed


def test_a_thread_has_labels_before_its_first_message(tmp_path: Path) -> None:
    """They are listed, undone and redone, and the first message keeps them."""
    with Conversation.open(tmp_path / "t.db", thread="t", model=lambda _: "Yes.") as conversation:
        assert {"project": "one"} == registry_of(conversation).label(project="one").labels
        assert "Changed the labels back." in conversation.say("/undo").text
        with Registry.open(tmp_path / "t.db") as registry:
            assert {} == registry.session("t").labels
        assert "Changed the labels again." in conversation.say("/redo").text
        conversation.say("Is it red?")
        assert {"project": "one"} == labels(conversation)
        with Registry.open(tmp_path / "t.db") as registry:
            sessions = registry.sessions(labels={"project": "one"}).sessions
            assert ["t"] == [session.thread_id for session in sessions]


def test_an_emptied_conversation_keeps_its_language(tmp_path: Path) -> None:
    """`/help` is in the language of the messages that a rollback removed, in each front end."""
    with Conversation.open(
        tmp_path / "t.db", thread="t", model=lambda _: "鍵は赤いです。", judge=lambda _: 0.9
    ) as conversation:
        conversation.say("鍵はどこですか。")
        conversation.rollback(turns=1)
        assert [] == conversation.messages()
        assert "直前の操作を元に戻す" in conversation.say("/help").text
        assert "ja" == language_of_thread(conversation)
        assert "1ターンを復元しました" in conversation.say("/undo").text
