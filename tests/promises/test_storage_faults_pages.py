"""Files whose bytes are no longer those that were written: the right words, or a clear error."""

import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import message_to_dict

from tests.graph.kit import Numbered, scores
from tests.threads import registry_of
from unsay.conversation.conversation import Conversation
from unsay.errors import DatabaseCorruptError, StorageError
from unsay.history.threads import list_threads
from unsay.storage.base import Database, translated
from unsay.storage.sqlite import open_database

THREADS = ("a", "b", "日本")
PAGE = 4096

Seen = dict[str, Any]


def fill(file: Path) -> None:
    """Threads with checkpoints, rejected drafts, rollbacks and steps that were undone."""
    for count, thread in enumerate(THREADS, start=2):
        judge = scores(0.9, 0.1, 0.9, 0.1)
        with Conversation.open(file, thread=thread, model=Numbered(), judge=judge) as conversation:
            for number in range(2 * count):
                conversation.say(f"{thread}: question {number}, on something of its own {number}")
            conversation.checkpoint("here")
            conversation.rollback(turns=2)
            conversation.undo()
            conversation.rollback(turns=1)


def views(file: Path) -> Seen:
    """All that can be read of a file, each reading apart: what it gives, or its error."""
    try:
        database = open_database(file)
    except StorageError as error:
        return {"open": error}
    try:
        views_by_name = {"threads": _read_or_error(lambda: _list_all(database))}
        for thread in THREADS:
            conversation = Conversation.open(database, thread=thread)
            for name, reading in READINGS.items():
                views_by_name[f"{thread} {name}"] = _read_or_error(
                    lambda reading=reading, conversation=conversation: reading(conversation)
                )  # type: ignore[misc]
        return views_by_name
    finally:
        database.close()


READINGS: dict[str, Callable[[Conversation], Any]] = {
    "messages": lambda conversation: [
        message_to_dict(message) for message in conversation.messages()
    ],
    "events": lambda conversation: registry_of(conversation).events(),
    "timeline": lambda conversation: conversation.timeline(),
    "branches": lambda conversation: conversation.branches(),
    "runs": lambda conversation: registry_of(conversation).runs(),
}


def _list_all(database: Database) -> Any:
    with translated(database.path):
        return list_threads(database.store)


class Warnings(logging.Handler):
    """Collects the warnings of unsay."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the words of a warning."""
        self.texts.append(record.getMessage())


def _read_or_error(reading: Callable[[], Any]) -> Any:
    """Return what was read, or the storage's error; any other error ends the test.

    A list that leaves out a damaged item says so by a warning in the log, which counts as an error.
    """
    warnings = Warnings()
    logger = logging.getLogger("unsay")
    logger.addHandler(warnings)
    try:
        value = reading()
    except StorageError as error:
        return error
    finally:
        logger.removeHandler(warnings)
    texts = [text for text in warnings.texts if "damaged" in text]
    return DatabaseCorruptError(texts[0]) if texts else value


@pytest.fixture(scope="module")
def sound_file() -> Iterator[tuple[Path, Seen]]:
    """A sound file, and all that can be read of it."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "whole.db"
        fill(file)
        seen_views = views(file)
        assert not [view for view in seen_views.values() if isinstance(view, Exception)]
        yield file, seen_views


def check(sound_file: tuple[Path, Seen], change: Callable[[bytearray], Any]) -> Seen:
    """What can be read of a changed copy: nothing else than of the sound file, or errors."""
    file, right = sound_file
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.db"
        data = bytearray(file.read_bytes())
        change(data)
        copy.write_bytes(data)
        seen_views = views(copy)
    wrong = {
        name: value
        for name, value in seen_views.items()
        if not isinstance(value, StorageError) and value != right[name]
    }
    assert {} == wrong
    return seen_views


@given(
    position=st.floats(0, 1, exclude_max=True),
    pattern=st.one_of(
        st.sampled_from([bytes([1 << bit]) for bit in range(8)]), st.binary(min_size=1, max_size=64)
    ),
)
def test_flipped_bytes_are_told_or_change_nothing(
    sound_file: tuple[Path, Seen], position: float, pattern: bytes
) -> None:
    """Wherever bytes of the file change, no thread shows other words than were said in it."""

    def flip(data: bytearray) -> None:
        start = int(position * len(data))
        for offset, bits in enumerate(pattern[: len(data) - start]):
            data[start + offset] ^= bits

    check(sound_file, flip)


@pytest.mark.sample(every=4)
@pytest.mark.parametrize(
    "column", ["~__pregel", "messages", "msgpack+z", "msgpack+c", "unsay_holds", "unsay_sum"]
)
def test_one_letter_of_a_row_is_told_or_changes_nothing(
    column: str, sound_file: tuple[Path, Seen]
) -> None:
    """A changed letter in what a row says of itself never moves or drops its words in silence."""
    raw = sound_file[0].read_bytes()
    numbers = [offset for offset in range(len(raw)) if raw.startswith(column.encode(), offset)]
    assert numbers

    def flip(position: int) -> Callable[[bytearray], Any]:
        return lambda data: data.__setitem__(position, data[position] ^ 2)

    for position in numbers[:: max(1, len(numbers) // 12)]:
        check(sound_file, flip(position + len(column) // 2))


@pytest.mark.parametrize("lost_bytes", [PAGE, PAGE + 1, 3 * PAGE, 0.1, 0.3, 0.6, 0.9])
def test_a_truncated_file_is_refused(lost_bytes: float, sound_file: tuple[Path, Seen]) -> None:
    """A file that lost its end is refused when it is opened, however much it lost."""
    size = sound_file[0].stat().st_size
    keep = size - (int(size * lost_bytes) if lost_bytes < 1 else int(lost_bytes))

    outcome = check(sound_file, lambda data: data.__delitem__(slice(keep, None)))

    assert ["open"] == list(outcome)
    assert isinstance(outcome["open"], DatabaseCorruptError)
    assert "restore a backup" in str(outcome["open"])


def test_overwritten_pages_are_refused(sound_file: tuple[Path, Seen]) -> None:
    """A stretch of zeros, as a disk gives for a sector it lost, is found when the file is opened."""
    pages = sound_file[0].stat().st_size // PAGE
    for page in range(1, pages, max(1, pages // 10)):
        zeros = slice(page * PAGE, page * PAGE + 512)
        outcome = check(sound_file, lambda data, zeros=zeros: data.__setitem__(zeros, bytes(512)))  # type: ignore[misc]
        assert outcome


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("keep", [0.0, 0.2, 0.5, 0.8, 0.99, 1.0])
@pytest.mark.parametrize("damage", ["cut", "flip"])
def test_a_damaged_wal_file_takes_whole_turns_and_the_thread_goes_on(
    damage: str, keep: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without proof in the journal nothing was committed: the transcript is an earlier one."""
    monkeypatch.setattr("unsay.storage.writer_lock.LEASE_SECONDS", 0.5)
    file = tmp_path / "t.db"
    copy = tmp_path / "copy.db"
    options: dict[str, Any] = {"thread": "t", "judge": scores()}
    with Conversation.open(file, model=Numbered(), **options) as conversation:
        moments = [[]]
        for number in range(3):
            conversation.say(f"question {number}")
            moments.append([message.content for message in conversation.messages()])
        shutil.copy(file, copy)
        step_log = bytearray(file.with_name("t.db-wal").read_bytes())
    position = min(int(keep * len(step_log)), len(step_log) - 1)
    if damage == "cut":
        del step_log[position:]
    else:
        step_log[position] ^= 255
    copy.with_name("copy.db-wal").write_bytes(step_log)

    with Conversation.open(copy, model=Numbered(), **options) as conversation:
        contents = [message.content for message in conversation.messages()]
        conversation.say("and on")
        after = [message.content for message in conversation.messages()]
        events = registry_of(conversation).events()

    assert contents in moments
    assert contents == after[: len(contents)]
    assert "and on" == after[-2]
    assert events


def test_a_large_file_is_looked_through_when_asked(
    sound_file: tuple[Path, Seen], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that an index lost is not seen by reading; `check` finds it, and a small file is checked."""
    copy = tmp_path / "copy.db"
    data = bytearray(sound_file[0].read_bytes())
    key = b"threadsa"  # in an index the key follows its prefix at once
    position = next(
        offset for offset in range(len(data)) if data.startswith(b"unsay." + key, offset)
    )
    data[position + len(b"unsay." + key) - 1] ^= 2
    copy.write_bytes(data)

    with pytest.raises(DatabaseCorruptError, match="restore a backup"):
        open_database(copy)
    monkeypatch.setattr("unsay.storage.sqlite.LOOK_BYTES", 0)
    database = open_database(copy)
    try:
        with pytest.raises(DatabaseCorruptError, match="restore a backup"):
            database.check()
    finally:
        database.close()
    sound = open_database(sound_file[0])
    sound.check()
    sound.close()
