"""Calls of the storage that fail now and then, and a file that another process keeps locked."""

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.graph.kit import Numbered, scores
from tests.reading import replayed, said
from unsay.conversation.conversation import Conversation
from unsay.errors import DatabaseLockedError, StorageError
from unsay.storage.base import Database
from unsay.storage.sqlite import FileStore, open_database
from unsay.storage.sqlite_checkpointer import CheckedSerializer, FileSaver

HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.readline()
"""

TRIES = 8
"""Most attempts at one step; each attempt makes many calls, of which few fail."""


class Faults:
    """Which of the storage's calls fail, counted over all that share it."""

    def __init__(self, fails: Callable[[int], bool]) -> None:
        self.fails = fails
        self.calls = 0

    def next(self) -> None:
        """Note a call; raise where it is one that fails."""
        self.calls += 1
        if self.fails(self.calls):
            raise sqlite3.OperationalError("disk I/O error")


class FailingStore(FileStore):
    """The file's store, some of whose calls fail."""

    faults: Faults

    def batch(self, ops: Any) -> Any:
        """`FileStore.batch`, or a failure."""
        self.faults.next()
        return super().batch(ops)


class FailingSaver(FileSaver):
    """The file's checkpointer, some of whose calls fail."""

    faults: Faults

    def get_tuple(self, config: Any) -> Any:
        """`FileSaver.get_tuple`, or a failure."""
        self.faults.next()
        return super().get_tuple(config)

    def put(self, *args: Any, **options: Any) -> Any:
        """`FileSaver.put`, or a failure."""
        self.faults.next()
        return super().put(*args, **options)

    def put_writes(self, *args: Any, **options: Any) -> None:
        """`FileSaver.put_writes`, or a failure."""
        self.faults.next()
        super().put_writes(*args, **options)


def failing(database: Any, faults: Faults, *, call_index: str) -> Database:
    """The same file, with a store or a checkpointer that fails."""
    if call_index == "store":
        store = FailingStore(database.store.conn)
        store.faults = faults
        store.is_setup = True
        return replace(database, store=store)
    saver = FailingSaver(database.saver.conn, serde=CheckedSerializer())
    saver.faults = faults
    saver.is_setup = True
    return replace(database, saver=saver)


STEPS: dict[str, Callable[[Conversation], Any]] = {
    "say 1": lambda conversation: conversation.say("question 1"),
    "say 2": lambda conversation: conversation.say("question 2"),
    "annotation": lambda conversation: conversation.checkpoint("here"),
    "say 3": lambda conversation: conversation.say("question 3"),
    "back": lambda conversation: conversation.rollback(turns=1),
    "undo": lambda conversation: conversation.undo(),
    "again": lambda conversation: conversation.rollback("here"),
    "say 4": lambda conversation: conversation.say("question 4"),
}


def model(messages: Any) -> str:
    """An answer that depends on the question alone."""
    return f"An answer to {messages[-1].content}, about what was asked."


def view(conversation: Conversation) -> list[str]:
    """The transcript, and behind it the checkpoints that have a name."""
    transcript = said(conversation.messages())
    marks = conversation.checkpoints() if transcript else ()
    return [
        *transcript,
        *(f"checkpoint: {annotation['name']}" for annotation in marks if annotation["name"]),
    ]


def waiting(before: list[str], name: str) -> list[str]:
    """What is seen while a step's question is in the transcript and has no answer."""
    marks = [item for item in before if item.startswith("checkpoint: ")]
    return [*before[: len(before) - len(marks)], f"human: question {name[-1]}", *marks]


def records(file: Path) -> list[list[str]]:
    """What is seen before the first step and after each, where nothing fails."""
    with Conversation.open(file, thread="t", model=model, judge=scores()) as conversation:
        views: list[list[str]] = [[]]
        for step in STEPS.values():
            step(conversation)
            views.append(view(conversation))
    return views


def run(database: Database, sound: Database, right: list[list[str]]) -> list[str]:
    """Every step, again until it is made; what was seen between is never half of one."""
    conversation = Conversation.open(database, thread="t", model=model, judge=scores())
    witness = Conversation.open(sound, thread="t")
    errors: list[str] = []
    for (name, step), before, after in zip(STEPS.items(), right, right[1:], strict=False):
        for _ in range(TRIES):
            try:
                step(conversation)
            except StorageError as error:
                errors.append(str(error))
            current_view = view(witness)
            assert current_view in (before, after, waiting(before, name)), (name, current_view)
            if current_view == after:
                break
        else:
            raise AssertionError(f"{name} was not made in {TRIES} tries: {errors[-1]}")
    return errors


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """The records of a run in which nothing fails."""
    return records(tmp_path_factory.mktemp("right") / "t.db")


@contextmanager
def open_thread(file: Path, **options: Any) -> Iterator[Database]:
    """A database, closed in the end."""
    database = open_database(file, **options)
    try:
        yield database
    finally:
        database.close()


def check_event_log(sound: Database) -> None:
    """The event log is whole, and leads to the transcript."""
    conversation = Conversation.open(sound, thread="t")
    assert said(conversation.messages()) == said(replayed(conversation).messages)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("call_index", ["store", "saver"])
@pytest.mark.parametrize("every", [7, 11, 19])
def test_a_thread_outlives_storage_of_which_every_nth_call_fails(
    every: int, call_index: str, right: list[list[str]], tmp_path: Path
) -> None:
    """Each failure is reported; each step is complete or absent, and completes when repeated."""
    with open_thread(tmp_path / "t.db") as sound:
        faults = Faults(lambda call: call % every == 0)
        errors = run(failing(sound, faults, call_index=call_index), sound, right)

        assert errors
        assert all("disk I/O error" in error and "t.db'" in error for error in errors)
        check_event_log(sound)


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("call_index", ["store", "saver"])
def test_a_thread_outlives_each_single_call_that_fails(
    call_index: str, right: list[list[str]], tmp_path: Path
) -> None:
    """Whichever call of a whole conversation fails, the conversation comes to the same end."""
    met = True
    position = 0
    while met:
        position += 5
        with open_thread(tmp_path / f"{position}.db") as sound:
            faults = Faults(lambda call, position=position: call == position)  # type: ignore[misc]
            errors = run(failing(sound, faults, call_index=call_index), sound, right)
            check_event_log(sound)
        met = faults.calls >= position
        assert (1 if met else 0) >= len(errors)
    assert position > 25


@contextmanager
def hold_file(file: Path) -> Iterator[Callable[[], None]]:
    """Another process that locks the file until the block ends or it gets a signal."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert "locked\n" == holder.stdout.readline()

    def let_go() -> None:
        with suppress(ValueError):
            holder.communicate("\n")

    try:
        yield let_go
    finally:
        let_go()


@pytest.mark.parametrize("moment", ["before", "in-the-model"])
def test_a_thread_outlives_a_file_that_another_keeps_locked(moment: str, tmp_path: Path) -> None:
    """After its wait the turn is refused, before it or in its middle; afterwards it is made once."""
    locks: list[Any] = []
    drafts = Numbered()

    def answer(messages: Any) -> Any:
        if moment == "in-the-model" and len(drafts.inputs) == 1 and not locks:
            locks.append(hold_file(tmp_path / "t.db"))
            locks[-1].__enter__()
        return drafts(messages)

    with open_thread(tmp_path / "t.db", busy_seconds=0.2) as database:
        conversation = Conversation.open(database, thread="t", model=answer, judge=scores())
        conversation.say("question 1")
        before = said(conversation.messages())
        if moment == "before":
            locks.append(hold_file(tmp_path / "t.db"))
            locks[-1].__enter__()
        with pytest.raises(DatabaseLockedError, match=r"locked by another process for 0\.2 s: try"):
            conversation.say("question 2")
        during = said(conversation.messages())
        locks[-1].__exit__(None, None, None)
        conversation.say("question 2")

        assert before == during
        after = said(conversation.messages())
        assert [*before, "human: question 2"] == after[:-1]
        check_event_log(database)


def test_a_lock_that_is_let_go_in_time_is_waited_out(tmp_path: Path) -> None:
    """A turn waits for another process's writing, and then it is made."""
    with open_thread(tmp_path / "t.db") as database:
        conversation = Conversation.open(database, thread="t", model=Numbered(), judge=scores())
        conversation.say("question 1")
        with hold_file(tmp_path / "t.db") as let_go:
            letting = threading.Timer(0.3, let_go)
            letting.start()
            conversation.say("question 2")
            letting.join()

        assert 4 == len(conversation.messages())
