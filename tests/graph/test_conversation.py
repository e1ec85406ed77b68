import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest
from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableLambda

from tests.graph.kit import GOOD, scores
from tests.reading import said
from tests.threads import open_conversation, registry_of
from unsay import AsyncConversation, Conversation
from unsay.errors import (
    AmbiguousCheckpointError,
    CheckpointExistsError,
    ConflictError,
    DatabaseCorruptError,
    DatabaseLockedError,
    EmptyMessageError,
    InvalidNameError,
    MessageTooLongError,
    NothingToResumeError,
    NothingToUndoError,
    UnknownCheckpointError,
    UnknownThreadError,
)
from unsay.history.threads import list_threads
from unsay.storage import sqlite as database
from unsay.testing import ScriptedChat, ScriptedJudge


def open_thread(path: Path, *verdicts: float, **options: Any) -> Conversation:
    """A conversation in a file, with numbered drafts."""
    return open_conversation(path / "talk.db", **{"judge": scores(*verdicts), **options})


def test_a_conversation_outlives_its_process(tmp_path: Path) -> None:
    """Reopened, the transcript, the checkpoints, the branches and the undo are all there."""
    with open_thread(tmp_path, 0.9, 0.1, 0.9, 0.9) as conversation:
        for text in ("q1", "q2", "q3"):
            conversation.say(text)
        transcript = said(conversation.messages())
        before = conversation.timeline()
        conversation.rollback(conversation.checkpoints()[0]["id"])

    with open_thread(tmp_path) as conversation:
        result = conversation.undo()
        after = conversation.timeline()

        assert transcript == said(conversation.messages())
        assert before.turns == after.turns
        assert before.checkpoints == after.checkpoints
        assert (3, 0, 4) == (result.turns, result.removed, result.restored)
        assert [ref["kind"] for ref in before.branches] == ["draft"]
        assert before.branches == after.branches


def test_the_reply_tells_what_happened(tmp_path: Path) -> None:
    """A reply carries score, topic, rollbacks and the checkpoint that it became."""
    with open_thread(tmp_path, 0.2, 0.85) as conversation:
        reply = conversation.say("q1")

        assert str(reply) == "This is draft 2, about what was asked."
        assert (0.85, "passed", 1, "answer") == (
            reply.score,
            reply.outcome,
            reply.rollbacks,
            reply.kind,
        )
        assert reply.checkpoint_id == conversation.checkpoints()[0]["id"]
        assert reply.topic == conversation.timeline().current_topic


def test_rollback_without_a_target(tmp_path: Path) -> None:
    """It goes to the last checkpoint before the newest answer, else to the turn's start."""
    with open_thread(tmp_path, 0.6, 0.9, 0.6, 0.9) as conversation:
        for text in ("q1", "q2", "q3", "q4"):
            conversation.say(text)

        turns = [conversation.rollback().turns for _ in range(3)]

        assert [2, 1, 0] == turns
        assert [] == conversation.messages()
        with pytest.raises(NothingToUndoError):
            conversation.rollback()


def test_a_move_hands_back_the_question(tmp_path: Path) -> None:
    """What was asked first of what was taken away can be put back into the prompt."""
    with open_thread(tmp_path) as conversation:
        for text in ("q1", "q2", "q3"):
            conversation.say(text)

        result = conversation.rollback(conversation.checkpoints()[0]["id"])

        assert result.question == "q2"
        assert conversation.checkpoints()[0]["id"] in result.at


def test_commands_and_notices_are_not_counted(tmp_path: Path) -> None:
    """An undo restores as many messages as the rollback removed, and a redo removes them again."""
    with open_thread(tmp_path, 0.6, 0.6) as conversation:
        conversation.say("q1")
        conversation.say("/checkpoint kyoto")
        conversation.say("q2")
        conversation.say("/timeline")

        results = [conversation.rollback("kyoto"), conversation.undo(), conversation.redo()]

        assert [(2, 0), (0, 2), (2, 0)] == [(item.removed, item.restored) for item in results]


@pytest.mark.parametrize("forms", [("NFC", "NFD"), ("NFD", "NFC")], ids="-".join)
def test_a_name_in_another_form_is_found(tmp_path: Path, forms: tuple[Any, Any]) -> None:
    """A name may be typed in NFC or NFD, in a call or in a command."""
    stored_name, typed_name = (normalize(form, "がくしゅう") for form in forms)
    with open_thread(tmp_path, 0.6, 0.6, 0.6) as conversation:
        conversation.say("q1")
        conversation.checkpoint(stored_name)
        conversation.say("q2")
        with pytest.raises(CheckpointExistsError):
            conversation.checkpoint(typed_name)
        assert "exists already" in conversation.say(f"/checkpoint {typed_name}").text
        assert 1 == conversation.rollback(typed_name).turns
        conversation.undo()
        assert "Removed 2 messages" in conversation.say(f"/rollback {typed_name}").text
        assert 0 == len(conversation.diff("live", typed_name).b.only)


def test_checkpoints_by_name(tmp_path: Path) -> None:
    """A named point is found by name, by id and by the beginning of its id."""
    with open_thread(tmp_path, 0.6, 0.6, 0.6) as conversation:
        conversation.say("q1")
        annotation = conversation.checkpoint("kyoto")
        conversation.say("q2")
        transcript = said(conversation.messages())
        for reference in ("kyoto", annotation["id"], annotation["id"][:6]):
            assert conversation.rollback(reference).turns == 1
            conversation.undo()

        assert transcript == said(conversation.messages())
        with pytest.raises(CheckpointExistsError):
            conversation.checkpoint("kyoto")


@pytest.mark.parametrize(
    ("reference", "error"),
    [
        pytest.param("nope", UnknownCheckpointError, id="unknown"),
        pytest.param("cp-", AmbiguousCheckpointError, id="ambiguous"),
    ],
)
def test_a_wrong_checkpoint_changes_nothing(
    tmp_path: Path, reference: str, error: type[Exception]
) -> None:
    """An unknown or ambiguous reference is refused, and the conversation continues."""
    with open_thread(tmp_path) as conversation:
        conversation.say("q1")
        conversation.say("q2")
        before = conversation.timeline()

        with pytest.raises(error, match="cp-"):
            conversation.rollback(reference)

        assert before == conversation.timeline()
        assert conversation.say("q3").kind == "answer"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param("", EmptyMessageError, id="empty"),
        pytest.param(" \u3000\n", EmptyMessageError, id="blank"),
        pytest.param("あ" * 1_000_000, MessageTooLongError, id="megabyte"),
    ],
)
def test_a_message_that_cannot_be_answered_stores_nothing(
    tmp_path: Path, text: str, error: type[Exception]
) -> None:
    """The refusal says what to do and leaves no trace."""
    with open_thread(tmp_path) as conversation:
        conversation.say("q1")

        with pytest.raises(error):
            conversation.say(text)

        assert len(conversation.messages()) == 2


@pytest.mark.parametrize(
    "verb",
    [
        pytest.param(lambda conversation: conversation.timeline(), id="timeline"),
        pytest.param(lambda conversation: conversation.checkpoints(), id="checkpoints"),
        pytest.param(lambda conversation: conversation.rollback(), id="rollback"),
        pytest.param(lambda conversation: conversation.undo(), id="undo"),
        pytest.param(lambda conversation: conversation.checkpoint("x"), id="checkpoint"),
    ],
)
def test_a_thread_that_does_not_exist(tmp_path: Path, verb: Any) -> None:
    """Reading or moving an unknown thread says so; it does not come into being."""
    with open_thread(tmp_path, thread="never") as conversation:
        with pytest.raises(UnknownThreadError, match="'never'"):
            verb(conversation)

        assert [] == conversation.messages()
        assert [] == list_threads(conversation.graph.store)


def test_a_thread_that_has_only_labels_can_be_shown(tmp_path: Path) -> None:
    """A host can show a thread that it made for a user, whose commands it limits."""
    with open_thread(tmp_path, thread="new", commands=["undo"]) as conversation:
        registry_of(conversation).label(user="ann")
        assert ((), None) == (conversation.timeline().turns, conversation.timeline().pending)
        assert ((), []) == (conversation.checkpoints(), registry_of(conversation).events())
        with pytest.raises(NothingToUndoError):
            conversation.undo()
        assert {"user": "ann"} == registry_of(conversation).label().labels


@pytest.mark.parametrize("name", ["", "  ", "x" * 201, "a\nb", "a\x00b"])
def test_a_thread_id_that_cannot_be_one(tmp_path: Path, name: str) -> None:
    """A thread needs a printable id."""
    with pytest.raises(InvalidNameError):
        open_thread(tmp_path, thread=name)


def test_a_failed_turn_is_not_doubled_when_said_again(tmp_path: Path) -> None:
    """The same question after a failure resumes the failed turn."""
    replies: list[Any] = [ConnectionError("down"), GOOD]

    def model(_: Any) -> Any:
        reply = replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    with open_thread(tmp_path, model=model) as conversation:
        with pytest.raises(Exception, match="down"):
            conversation.say("q1")
        assert conversation.timeline().turns[0].answer is None

        reply = conversation.say("q1")

        assert (GOOD, ["human: q1", f"ai: {GOOD}"]) == (reply.text, said(conversation.messages()))


def test_resume_ends_a_failed_turn_and_undo_takes_it_away(tmp_path: Path) -> None:
    """A person may resume a failed turn or roll back its question."""
    replies: list[Any] = [ConnectionError("down"), GOOD, ConnectionError("down")]

    def model(_: Any) -> Any:
        reply = replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    with open_thread(tmp_path, model=model) as conversation:
        with pytest.raises(Exception, match="down"):
            conversation.say("q1")
        assert conversation.resume().text == GOOD
        with pytest.raises(NothingToResumeError):
            conversation.resume()
        with pytest.raises(Exception, match="down"):
            conversation.say("q2")

        result = conversation.undo()

        assert (1, "q2") == (result.turns, result.question)
        assert ["human: q1", f"ai: {GOOD}"] == said(conversation.messages())


def test_a_decision_is_due_before_anything_else_is_said(tmp_path: Path) -> None:
    """A thread that waits for a person says so, and takes the decision."""
    settings = {"on_exhausted": "ask", "max_rollbacks": 0}
    with open_thread(tmp_path, 0.1, settings=settings) as conversation:
        reply = conversation.say("q1")
        with pytest.raises(ConflictError, match="decision"):
            conversation.say("q2")

        ended_reply = conversation.resume("approve")

        assert ("decision", 0.1) == (reply.kind, reply.score)
        assert reply.request is not None
        assert ("answer", "low_quality") == (ended_reply.kind, ended_reply.flag)


def test_the_stream_of_a_turn(tmp_path: Path) -> None:
    """Events come in the order in which things happen, the reply last."""
    chat = ScriptedChat(replies={"q": ["Nonsense about fish.", GOOD]})
    judge = ScriptedJudge(scores={"fish": 0.1})
    with open_thread(tmp_path, model=chat, judge=judge) as conversation:
        events = list(conversation.stream("q"))

    kinds = [event.kind for event in events]
    order = [kind for i, kind in enumerate(kinds) if i == 0 or kinds[i - 1] != kind]
    assert order == [
        "topic",
        "phase",
        "token",
        "judging",
        "verdict",
        "draft_rejected",
        "rollback",
        "phase",
        "token",
        "judging",
        "verdict",
        "checkpoint",
        "reply",
    ]
    assert events[-1].reply is not None
    assert events[-1].reply.text == GOOD


async def test_the_async_form_does_the_same(tmp_path: Path) -> None:
    """Every verb of the async form leads where the blocking one leads."""
    chat = ScriptedChat(replies={"q": ["Nonsense about fish.", GOOD]}, default="Another answer.")
    judge = ScriptedJudge(scores={"fish": 0.1})
    path = tmp_path / "talk.db"
    async with AsyncConversation.open(path, thread="t", model=chat, judge=judge) as conversation:
        kinds = {event.kind async for event in conversation.stream("q")}
        await conversation.checkpoint("here")
        await conversation.say("more")
        result = await conversation.rollback("here")
        restored_result = await conversation.undo()
        await conversation.add([("user", "pushed"), ("ai", "An answer that an app wrote.")])
        timeline = await conversation.timeline()
        marks = await conversation.checkpoints()
        messages = await conversation.messages()

    assert {"token", "draft_rejected", "reply"} <= kinds
    assert (1, 2) == (result.turns, restored_result.turns)
    assert ["q", "more", "pushed"] == [turn.question for turn in timeline.turns]
    assert "here" in [annotation["name"] for annotation in marks]
    assert len(messages) == 6
    async with AsyncConversation.open(path, thread="t", model=chat, judge=judge) as conversation:
        with pytest.raises(NothingToUndoError):
            await conversation.resume()


async def test_two_tasks_on_one_thread_take_turns(tmp_path: Path) -> None:
    """Turns said at once on one loop land whole, one after the other."""
    chat = ScriptedChat(default="An answer with some words.")
    path = tmp_path / "talk.db"
    async with AsyncConversation.open(
        path, thread="t", model=chat, judge=ScriptedJudge()
    ) as conversation:
        await asyncio.gather(*(conversation.say(f"question {n}") for n in range(6)))
        messages = await conversation.messages()

    assert ["human", "ai"] * 6 == [m.type for m in messages]


def test_two_processors_of_one_thread_take_turns(tmp_path: Path) -> None:
    """Turns said at once by threads of one process land whole."""
    with (
        open_thread(tmp_path, model=ScriptedChat(default="An answer.")) as one,
        open_thread(tmp_path, model=ScriptedChat(default="An answer.")) as two,
        ThreadPoolExecutor(4) as pool,
    ):
        list(pool.map(lambda n: (one, two)[n % 2].say(f"question {n}"), range(8)))

        assert ["human", "ai"] * 8 == [m.type for m in one.messages()]


async def test_a_cancelled_turn_leaves_the_thread_usable(tmp_path: Path) -> None:
    """A task that is cancelled while the model writes gives the thread free again."""
    has_started = asyncio.Event()

    async def slow(_: Any) -> str:
        has_started.set()
        await asyncio.sleep(30)
        return "late"

    model = RunnableLambda(lambda _: GOOD, afunc=slow)
    path = tmp_path / "talk.db"
    async with AsyncConversation.open(
        path, thread="t", model=model, judge=scores()
    ) as conversation:
        task = asyncio.create_task(conversation.say("q1"))
        await has_started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    with Conversation.open(path, thread="t", model=model, judge=scores()) as second_conversation:
        assert second_conversation.say("q1").text == GOOD
        assert ["human: q1", f"ai: {GOOD}"] == said(second_conversation.messages())


async def test_a_cancelled_question_is_not_said_to_be_removed() -> None:
    """It stays, and is answered together with the next message: nothing left the transcript."""
    has_started = asyncio.Event()

    async def slow_once(messages: list[AnyMessage]) -> str:
        if not has_started.is_set():
            has_started.set()
            await asyncio.sleep(30)
        return messages[-1].text

    model = RunnableLambda(lambda _: GOOD, afunc=slow_once)
    async with AsyncConversation.open(":memory:", model=model, judge=scores()) as conversation:
        task = asyncio.create_task(conversation.say("q1"))
        await has_started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        events = [event async for event in conversation.stream("q2")]
    assert events[-1].text == "q1\n\nq2"
    assert "messages_removed" not in {event.kind for event in events}


def test_a_locked_file_is_a_clear_error_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another process locks the file nothing is written; afterwards the thread works."""
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.2)
    with open_thread(tmp_path) as conversation:
        conversation.say("q1")
        connection = sqlite3.connect(tmp_path / "talk.db", isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")

        with pytest.raises(DatabaseLockedError, match="locked by another process"):
            conversation.say("q2")
        connection.execute("ROLLBACK")
        connection.close()

        assert conversation.say("q2").kind == "answer"
        assert ["q1", "q2"] == [turn.question for turn in conversation.timeline().turns]


def test_threads_are_listed_by_the_last_word(tmp_path: Path) -> None:
    """The registry names each thread by its first question, at most 50 characters."""
    with open_thread(tmp_path, thread="a") as conversation:
        conversation.say("リスト内包表記について、" + "とても" * 30 + "詳しく教えてください。")
        conversation.say("q2")
    with open_thread(tmp_path, thread="b", title=lambda _: "「A good title」") as conversation:
        conversation.say("q1")
        entries = {entry.thread_id: entry for entry in list_threads(conversation.graph.store)}

    assert {"a", "b"} == set(entries)
    assert entries["a"].turns == 2
    assert len(entries["a"].title) == 50
    assert entries["b"].title == "A good title"


def test_a_thread_whose_first_turn_fails_is_listed(tmp_path: Path) -> None:
    """A thread can be found again even if nothing in it was ever answered."""

    def broken(_: Any) -> Any:
        raise ConnectionError("down")

    with open_thread(tmp_path, model=broken) as conversation:
        with pytest.raises(Exception, match="down"):
            conversation.say("q1")

        (entry,) = list_threads(conversation.graph.store)
        assert ("t", "q1", 0) == (entry.thread_id, entry.title, entry.turns)


def test_a_broken_title_model_costs_no_turn(tmp_path: Path) -> None:
    """The question's own words name the thread instead."""
    with open_thread(tmp_path, title=lambda _: 1 / 0) as conversation:
        assert conversation.say("q1").kind == "answer"
        assert ["q1"] == [entry.title for entry in list_threads(conversation.graph.store)]


def test_a_new_conversation_gets_a_thread_of_its_own(tmp_path: Path) -> None:
    """Without an id each conversation is a new thread."""
    path = tmp_path / "x.db"
    with Conversation.open(path) as one, Conversation.open(path) as two:
        assert one.thread_id != two.thread_id


def test_a_notebook_shows_a_conversation(tmp_path: Path) -> None:
    """The rich display holds a picture and text, for new threads too."""
    with open_thread(tmp_path) as conversation:
        assert "image/svg+xml" in conversation._repr_mimebundle_()
        conversation.say("q1")

        bundle = conversation._repr_mimebundle_()

    assert "q1" in bundle["text/plain"]
    assert bundle["image/svg+xml"].startswith("<svg")


def test_a_damaged_value_is_a_clear_error(tmp_path: Path) -> None:
    """A stored value that cannot be unpacked says that the file is damaged."""
    with open_thread(tmp_path) as conversation:
        for number in range(3):
            conversation.say(f"question {number}, with enough words to be worth compressing")
    connection = sqlite3.connect(tmp_path / "talk.db")
    connection.execute("UPDATE checkpoints SET checkpoint = x'00' WHERE type LIKE '%+z'")
    connection.commit()
    connection.close()

    with open_thread(tmp_path) as conversation, pytest.raises(DatabaseCorruptError, match="backup"):
        conversation.timeline()
