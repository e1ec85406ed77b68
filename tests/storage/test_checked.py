"""A checkpointer and a store that refuse what is no longer as it was written."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.store.base import PutOp

from unsay.errors import DatabaseCorruptError, InputError
from unsay.storage.items import SUM, freeze, put_item
from unsay.storage.sqlite import FileDatabase, open_database
from unsay.storage.sqlite_checkpointer import CheckedSerializer

CONFIG: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
METADATA: Any = {"source": "loop", "step": 0, "parents": {}}
PLACE = ("unsay", "branches", "t")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[FileDatabase]:
    """A file with two checkpoints, a write on each, and an item."""
    database = open_database(tmp_path / "t.db")
    assert isinstance(database, FileDatabase)
    config = CONFIG
    for number in range(2):
        checkpoint = {**empty_checkpoint(), "channel_values": {"n": number}}
        config = database.saver.put(config, checkpoint, METADATA, {})
        database.saver.put_writes(config, [("messages", [number])], "task", "~path, 1")
    database.store.put(PLACE, "k", {"words": "none", "n": 1.5})
    yield database
    database.close()


def change(database: FileDatabase, statement: str) -> None:
    """Change the file as something else might."""
    connection = sqlite3.connect(database.path, isolation_level=None)
    assert connection.execute(statement).rowcount
    connection.close()


def read_newest(database: FileDatabase) -> Any:
    """The newest checkpoint, and what rebuilds its transcript."""
    saved_tuple = database.saver.get_tuple(CONFIG)
    assert saved_tuple is not None
    history = database.saver.get_delta_channel_history(
        config=saved_tuple.config, channels=["messages"]
    )
    return saved_tuple.checkpoint["channel_values"], history["messages"]["writes"]


def test_what_was_written_is_read(database: FileDatabase) -> None:
    """Values, writes and items come back as they were, and no checksum is seen."""
    assert ({"n": 1}, [("task", "messages", [0])]) == read_newest(database)
    item = database.store.get(PLACE, "k")
    assert item is not None
    assert {"words": "none", "n": 1.5} == item.value
    assert [item.value] == [item.value for item in database.store.search(PLACE)]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE checkpoints SET checkpoint = zeroblob(99)",
        "UPDATE checkpoints SET type = 'msgpack+k'",
        "UPDATE checkpoints SET checkpoint_id = checkpoint_id || 'x'",
        "UPDATE checkpoints SET parent_checkpoint_id = 'gone' WHERE parent_checkpoint_id NOT NULL",
        "UPDATE checkpoints SET metadata = 'x'",
        "UPDATE checkpoints SET metadata = x'ff'",
        "UPDATE writes SET value = CAST(substr(value, 2) AS BLOB)",
        "UPDATE writes SET channel = 'massages'",
        "UPDATE writes SET task_path = '~path, 2'",
    ],
    ids=lambda statement: statement[7:50],
)
def test_a_changed_row_is_no_record(statement: str, database: FileDatabase) -> None:
    """Whichever column was changed, the transcript is refused, and the message says what to do."""
    change(database, statement)

    with pytest.raises(DatabaseCorruptError, match="restore a backup of the database"):
        read_newest(database)


def test_a_damaged_checkpoint_is_named(database: FileDatabase) -> None:
    """The error names the checkpoint that was asked for; without an id it is the newest."""
    older = [saved_tuple.config for saved_tuple in database.saver.list(CONFIG)][-1]
    name = older["configurable"]["checkpoint_id"]
    change(database, "UPDATE checkpoints SET metadata = x'ff'")

    with pytest.raises(DatabaseCorruptError, match=f"^Checkpoint '{name}' of 't' is damaged"):
        database.saver.get_tuple(older)
    with pytest.raises(DatabaseCorruptError, match=r"^The newest checkpoint of 't' is damaged"):
        database.saver.get_tuple(CONFIG)


def test_damaged_metadata_is_told_wherever_it_is_read(database: FileDatabase) -> None:
    """Listing and storing read what older checkpoints say of themselves, too."""
    change(database, "UPDATE checkpoints SET metadata = x'ff'")
    checkpoint = {**empty_checkpoint(), "channel_values": {"messages": []}}

    with pytest.raises(DatabaseCorruptError, match="A checkpoint is damaged"):
        list(database.saver.list(CONFIG))
    with pytest.raises(DatabaseCorruptError, match="A checkpoint is damaged"):
        database.saver.put(CONFIG, checkpoint, METADATA, {})


def test_a_purged_thread_is_not_a_damaged_one(database: FileDatabase) -> None:
    """A reader that comes between finds nothing, as in a thread that never was."""
    saved_tuple = database.saver.get_tuple(CONFIG)
    assert saved_tuple is not None
    database.saver.delete_thread("t")

    history = database.saver.get_delta_channel_history(
        config=saved_tuple.config, channels=["messages"]
    )
    assert {"messages": {"writes": []}} == history


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE store SET value = json_set(value, '$.words', 'nine')",
        "UPDATE store SET key = 'other'",
        "UPDATE store SET prefix = 'unsay.branches.u'",
        "UPDATE store SET value = 'x'",
        "UPDATE store SET value = '[]'",
    ],
    ids=lambda statement: statement[7:50],
)
def test_a_changed_item_is_refused(statement: str, database: FileDatabase) -> None:
    """Its value is returned under no name; a search has it without one, for the sake of the others."""
    change(database, statement)

    (item,) = database.store.search(("unsay", "branches"))
    assert {} == item.value
    with pytest.raises(DatabaseCorruptError, match="restore a backup of the database"):
        database.store.get(item.namespace, item.key)


def test_an_item_without_a_time_is_read(database: FileDatabase) -> None:
    """Its value is as it was written, and the time is unknown."""
    (whole_item,) = database.store.search(("unsay", "branches"))
    change(database, "UPDATE store SET created_at = 'x'")

    (item,) = database.store.search(("unsay", "branches"))
    assert (whole_item.value, None) == (item.value, item.created_at)
    assert database.store.get(item.namespace, item.key).value == whole_item.value


def test_a_hosts_damaged_item_is_refused(database: FileDatabase) -> None:
    """A search does not return it with another value."""
    database.store.put(("host",), "k", {"v": 1})
    change(database, "UPDATE store SET value = '{' WHERE prefix = 'host'")

    with pytest.raises(DatabaseCorruptError, match="restore a backup of the database"):
        database.store.search(("host",))


def test_a_hosts_own_items_are_left_as_they_are(database: FileDatabase) -> None:
    """Other namespaces of the same store have no checksums, on disk neither."""
    database.store.put(("host",), "k", {"v": 1})
    connection = sqlite3.connect(database.path)
    rows = dict(connection.execute("SELECT prefix, value FROM store"))
    connection.close()

    assert b'{"v":1}' == bytes(rows["host"])
    assert SUM.encode() in bytes(rows["unsay.branches.t"])


@pytest.mark.parametrize(
    "options", [{"filter": {"a b": 1}}, {"filter": {"a": {"$no": 1}}}], ids=["key", "operator"]
)
def test_a_callers_mistake_stays_its_own(options: Any, database: FileDatabase) -> None:
    """A filter that cannot be is no damage."""
    with pytest.raises(ValueError, match=r"Invalid filter key|Unsupported operator"):
        database.store.search(PLACE, **options)


def test_a_batch_that_fails_changes_nothing(database: FileDatabase) -> None:
    """Of several writes none is made when one cannot be."""
    ops = [PutOp(("host",), "a", {"v": 1}), PutOp(("host",), "b", {"v": object()})]
    with pytest.raises(TypeError):
        database.store.batch(ops)

    assert database.store.get(("host",), "a") is None


def test_a_closed_file_is_told_by_its_own_error(database: FileDatabase) -> None:
    """The original error is found inside LangGraph's wrapping."""
    database.store.conn.execute("DROP TABLE store")

    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        database.store.get(PLACE, "k")


@pytest.mark.parametrize("write", [CheckedSerializer().dumps_typed, freeze], ids=["state", "store"])
def test_what_cannot_be_stored_is_the_callers_to_change(write: Any) -> None:
    """A message that holds a live object is refused with words, not with a serializer's error."""
    with pytest.raises(InputError, match="cannot be stored"):
        write(AIMessage("An answer.", additional_kwargs={"made": object()}))


def test_half_a_character_is_stored_as_in_a_checkpoint(database: FileDatabase) -> None:
    """Text that no JSON in UTF-8 can hold does not keep an item from being written."""
    value = {"title": "a\ud83db", "deep": {"k\udc00": ["🙈\ud83d", 1, None]}}
    put_item(database.store, PLACE, "half", value).blocking()
    item = database.store.get(PLACE, "half")

    assert item is not None
    assert {"title": "a?b", "deep": {"k?": ["🙈?", 1, None]}} == item.value
