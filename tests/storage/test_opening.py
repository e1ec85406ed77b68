"""One SQLite file for a thread's state and for what outlives it."""

import json
import os
import sqlite3
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from unsay.errors import (
    ConfigurationError,
    DatabaseCorruptError,
    DatabaseLockedError,
    DatabaseTooNewError,
    DatabaseTooOldError,
    InputError,
    StorageError,
)
from unsay.storage import sqlite as module
from unsay.storage.base import APPLICATION_ID, LAYOUT_VERSION, Database, translated
from unsay.storage.sqlite import open_database
from unsay.storage.sqlite_checkpointer import COMPRESSED_FROM, CompressedSerializer

CONFIG: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
METADATA: Any = {"source": "loop", "step": 0, "parents": {}}
PLACE = ("unsay", "branches", "t")
LONG = "A long answer, said again and again. " * 50


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a database may lie."""
    return tmp_path / "folder" / "unsay.db"


@pytest.fixture
def open_file(file: Path) -> Iterator[Callable[..., Database]]:
    """Opens databases and closes them when the test is over."""
    databases: list[Database] = []

    def opens(path: Any = file) -> Database:
        databases.append(open_database(path))
        return databases[-1]

    yield opens
    for database in databases:
        database.close()


def sql(file: Path, *statements: str) -> Any:
    """Return the last statement's first row over a separate connection."""
    connection = sqlite3.connect(file, isolation_level=None)
    try:
        rows = [connection.execute(statement).fetchone() for statement in statements]
    finally:
        connection.close()
    return rows[-1]


def saved(database: Database, **values: Any) -> Any:
    """Save a checkpoint with these channels, and say where it lies."""
    checkpoint = {**empty_checkpoint(), "channel_values": values}
    return database.saver.put(CONFIG, checkpoint, METADATA, {})


def newest_channels(database: Database) -> Any:
    """The channels of the newest checkpoint; `None` without one."""
    saved_tuple = database.saver.get_tuple(CONFIG)
    return None if saved_tuple is None else saved_tuple.checkpoint["channel_values"]


def test_a_new_file_is_ours_alone(file: Path, open_file: Callable[..., Database]) -> None:
    """It is readable by its owner only, bears our marks, and keeps a journal as private."""
    open_file().store.put(PLACE, "k", {})

    names = ["unsay.db", "unsay.db-shm", "unsay.db-wal"]
    assert names == sorted(path.name for path in file.parent.iterdir())
    modes = [stat.S_IMODE((file.parent / name).stat().st_mode) for name in names]
    assert [0o600] * 3 == modes
    assert (APPLICATION_ID,) == sql(file, "PRAGMA application_id")
    assert (LAYOUT_VERSION,) == sql(file, "PRAGMA user_version")
    assert ("wal",) == sql(file, "PRAGMA journal_mode")
    assert b"unsy" == file.read_bytes()[68:72]


def test_both_connections_write_safely(open_file: Callable[..., Database]) -> None:
    """Checkpointer and store synchronize at their journal's checkpoints, not at every commit."""
    database = open_file()

    pragmas = [
        item.conn.execute("PRAGMA synchronous").fetchone()
        for item in (database.saver, database.store)
    ]
    assert [(1,), (1,)] == pragmas


@pytest.mark.parametrize("text", ["short", LONG], ids=["short", "compressed"])
def test_what_was_stored_is_there_when_opened_again(
    text: str, file: Path, open_file: Callable[..., Database]
) -> None:
    """Checkpoints, writes and the store's items outlive the connections."""
    messages = [HumanMessage(text, id="a"), AIMessage("🍁" + text, id="b")]
    first = open_database(file)
    saved_config = saved(first, messages=messages)
    first.saver.put_writes(saved_config, [("messages", messages[1:])], "task")
    first.store.put(PLACE, "branch-1", {"words": text})
    first.close()
    second = open_file()
    saved_tuple = second.saver.get_tuple(CONFIG)
    item = second.store.get(PLACE, "branch-1")

    assert saved_tuple is not None
    assert {"messages": messages} == saved_tuple.checkpoint["channel_values"]
    assert [("task", "messages", messages[1:])] == saved_tuple.pending_writes
    assert item is not None
    assert {"words": text} == item.value
    assert (LAYOUT_VERSION,) == sql(file, "PRAGMA user_version")


def test_a_file_whose_creation_was_cut_short_opens(
    file: Path, open_file: Callable[..., Database]
) -> None:
    """A process that died between the layout's version and its completion left a usable file."""
    file.parent.mkdir(exist_ok=True)
    sql(file, f"PRAGMA user_version = {LAYOUT_VERSION}")
    open_file().store.put(PLACE, "k", {})

    assert (APPLICATION_ID,) == sql(file, "PRAGMA application_id")
    assert (LAYOUT_VERSION,) == sql(file, "PRAGMA user_version")


def test_a_closed_database_is_closed(file: Path) -> None:
    """After closing neither half can be used, and no lock is left."""
    database = open_database(file)
    database.close()

    for connection in (database.saver.conn, database.store.conn):
        with pytest.raises(InputError, match="was closed: open it again"):
            connection.execute("SELECT 1")
    assert ["unsay.db"] == [path.name for path in file.parent.iterdir()]


@pytest.mark.parametrize(
    "spelling",
    [
        pytest.param(lambda file: file, id="path"),
        pytest.param(str, id="text"),
        pytest.param(lambda file: f"sqlite:///{file}", id="url"),
        pytest.param(os.path.relpath, id="relative"),
        pytest.param(lambda file: f"sqlite:///{os.path.relpath(file)}", id="relative url"),
    ],
)
def test_a_file_has_many_names(
    spelling: Callable[[Path], Any], file: Path, open_file: Callable[..., Database]
) -> None:
    """A path and a URL open the same file."""
    open_file().store.put(PLACE, "k", {"v": 1})

    item = open_file(spelling(file)).store.get(PLACE, "k")

    assert item is not None
    assert {"v": 1} == item.value


@pytest.mark.parametrize("spelling", [":memory:", "sqlite:///:memory:"])
def test_memory_leaves_no_file(
    spelling: str,
    tmp_path: Path,
    open_file: Callable[..., Database],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A database in memory works, is empty each time, and writes nothing."""
    monkeypatch.chdir(tmp_path)
    first = open_file(spelling)
    second = open_file(spelling)
    first.store.put(PLACE, "k", {"v": 1})
    saved(first, v=1)

    assert ":memory:" == first.path
    assert ({"v": 1}, None) == (newest_channels(first), newest_channels(second))
    assert second.store.get(PLACE, "k") is None
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "url", ["mysql://user:sesame@host/db", "sqlite://file.db", "https://example.org/unsay.db"]
)
def test_another_database_is_refused(url: str) -> None:
    """Only SQLite and Postgres are opened; the message says what to do for others."""
    with pytest.raises(
        ConfigurationError, match=r"^(?!.*sesame).*is not a supported database: give a path"
    ):
        open_database(url)


def _file_data(file: Path) -> bytes:
    database = open_database(file)
    for index in range(20):
        database.store.put(PLACE, str(index), {"words": LONG})
    database.close()
    return file.read_bytes()


DAMAGE = {
    "text": lambda raw: b"Dear diary,\n" * 100,
    "two bytes": lambda raw: b"hm",
    "a header alone": lambda raw: raw[:100],
    "one page": lambda raw: raw[:4096],
    "the first half": lambda raw: raw[: len(raw) // 2],
    "other pages": lambda raw: raw[:100] + b"\xff" * (len(raw) - 100),
    "another header": lambda raw: b"SQLite format 4\x00" + raw[16:],
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_is_refused_and_left_alone(
    damage: Callable[[bytes], bytes], file: Path
) -> None:
    """What cannot be a whole database is reported, and not a byte of it changes."""
    damaged_data = damage(_file_data(file))
    file.write_bytes(damaged_data)

    with pytest.raises(
        DatabaseCorruptError, match=r"is damaged, or it is not a SQLite file .* backup"
    ):
        open_database(file)

    assert damaged_data == file.read_bytes()


@pytest.mark.parametrize(
    ("statements", "error", "message"),
    [
        pytest.param(
            ["CREATE TABLE bookmarks (url TEXT)"],
            DatabaseCorruptError,
            "a database of another program: give another path",
            id="foreign tables",
        ),
        pytest.param(
            ["PRAGMA application_id = 252006675"],
            DatabaseCorruptError,
            "a database of another program",
            id="foreign mark",
        ),
        pytest.param(
            [f"PRAGMA application_id = {APPLICATION_ID}", "PRAGMA user_version = 5"],
            DatabaseTooNewError,
            r"written by a newer version of unsay \(layout 5, this version reads 4\): upgrade",
            id="newer layout",
        ),
        pytest.param(
            [f"PRAGMA application_id = {APPLICATION_ID}", "PRAGMA user_version = 3"],
            DatabaseTooOldError,
            r"written by an older version of unsay \(layout 3, this version reads 4\): give another path",
            id="older layout",
        ),
    ],
)
def test_a_file_of_others_is_refused_and_left_alone(
    statements: list[str], error: type[StorageError], message: str, file: Path
) -> None:
    """Neither another program's file nor a newer unsay's is touched."""
    file.parent.mkdir()
    sql(file, *statements)
    before = file.read_bytes()

    with pytest.raises(error, match=message):
        open_database(file)

    assert before == file.read_bytes()
    assert ["unsay.db"] == [path.name for path in file.parent.iterdir()]


def test_a_file_of_langgraph_is_taken_over(file: Path, open_file: Callable[..., Database]) -> None:
    """A thread of LangGraph's own saver is read and continued."""
    file.parent.mkdir()
    with SqliteSaver.from_conn_string(str(file)) as theirs:
        theirs.put(CONFIG, {**empty_checkpoint(), "channel_values": {"v": 1}}, METADATA, {})

    assert {"v": 1} == newest_channels(open_file())
    assert (APPLICATION_ID,) == sql(file, "PRAGMA application_id")


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("file/unsay.db", id="under a file"),
        pytest.param("/proc/unsay/unsay.db", id="a folder that cannot be made"),
        pytest.param("/proc/unsay.db", id="a file that cannot be made"),
        pytest.param(".", id="a folder"),
        pytest.param("x" * 300, id="too long a name"),
        pytest.param("a\0b", id="an impossible name"),
        pytest.param("sqlite:///", id="no name"),
    ],
)
def test_an_unwritable_place_is_refused(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the place and how to choose another."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()

    with pytest.raises(
        StorageError, match=r"cannot be written .*: choose another path, .*UNSAY_HOME"
    ) as raises:
        open_database(path)

    assert StorageError is type(raises.value)
    assert ["file"] == [path.name for path in tmp_path.iterdir()]


@pytest.fixture
def lock_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Locks the file as another process would; connections wait only briefly."""
    monkeypatch.setattr(module, "BUSY_SECONDS", 0.05)
    connections: list[sqlite3.Connection] = []

    def lock(lock_kind: str) -> None:
        connections.append(sqlite3.connect(file, isolation_level=None))
        connections[-1].execute(
            "PRAGMA locking_mode = EXCLUSIVE" if lock_kind == "all" else "SELECT 1"
        )
        connections[-1].execute("BEGIN IMMEDIATE")
        connections[-1].execute("PRAGMA user_version = 1")

    yield lock
    for connection in connections:
        connection.close()


def test_a_file_locked_by_another_is_reported(
    file: Path, lock_file: Callable[[str], None], open_file: Callable[..., Database]
) -> None:
    """After its wait a connection says who is in the way; later everything works again."""
    open_file().close()
    lock_file("all")
    with pytest.raises(DatabaseLockedError, match=r"was locked by another process for 0\.05 s"):
        open_database(file)


def test_a_file_being_written_can_be_opened(
    file: Path, lock_file: Callable[[str], None], open_file: Callable[..., Database]
) -> None:
    """Another's write does not block a reader, and a second writer gets an error."""
    saved(open_file(), v=1)
    lock_file("write")
    database = open_file()

    assert {"v": 1} == newest_channels(database)
    with pytest.raises(DatabaseLockedError), translated("x"):
        saved(database, v=2)
    with pytest.raises(DatabaseLockedError), translated("x"):
        database.store.put(PLACE, "k", {})
    assert {"v": 1} == newest_channels(database)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        pytest.param(sqlite3.SQLITE_BUSY, DatabaseLockedError, id="busy"),
        pytest.param(sqlite3.SQLITE_BUSY_SNAPSHOT, DatabaseLockedError, id="busy, extended"),
        pytest.param(sqlite3.SQLITE_LOCKED, DatabaseLockedError, id="locked"),
        pytest.param(sqlite3.SQLITE_CORRUPT, DatabaseCorruptError, id="corrupt"),
        pytest.param(sqlite3.SQLITE_CORRUPT_INDEX, DatabaseCorruptError, id="corrupt, extended"),
        pytest.param(sqlite3.SQLITE_NOTADB, DatabaseCorruptError, id="no database"),
        pytest.param(sqlite3.SQLITE_FULL, StorageError, id="disk full"),
        pytest.param(sqlite3.SQLITE_READONLY, StorageError, id="read only"),
        pytest.param(None, StorageError, id="no code"),
    ],
)
def test_sqlite_errors_are_explained(error: int | None, message: type[StorageError]) -> None:
    """Each code of SQLite, extended or not, has the error that says what to do."""
    cause = sqlite3.OperationalError("why")
    if error is not None:
        cause.sqlite_errorcode = error

    with pytest.raises(StorageError) as raises, translated("talk.db"):
        raise cause

    assert message is type(raises.value)
    assert cause is raises.value.__cause__
    assert "'talk.db'" in str(raises.value)


def test_other_errors_are_not_translated() -> None:
    """A bug stays a bug."""
    with pytest.raises(KeyError), translated("x"):
        raise KeyError("bug")


def test_no_connection_is_left_when_opening_fails(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the store cannot be set up, both connections are closed again."""
    connections: list[sqlite3.Connection] = []

    def broken(store: Any) -> None:
        connections.append(store.conn)
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(module.FileStore, "setup", broken)
    with pytest.raises(StorageError, match="disk I/O error"):
        open_database(file)

    with pytest.raises(InputError, match="was closed: open it again"):
        connections[0].execute("SELECT 1")
    assert ["unsay.db"] == [path.name for path in file.parent.iterdir()]


async def test_awaited_methods_do_what_the_others_do(open_file: Callable[..., Database]) -> None:
    """On an event loop the same is stored and found, with arguments by place or by name."""
    database = open_file()
    saver = database.saver
    first = await saver.aput(CONFIG, empty_checkpoint(), METADATA, {})
    await saver.aput_writes(first, [("messages", ["a"])], "task-1")
    await saver.aput_writes(config=first, writes=[("messages", ["b"])], task_id="task-2")
    head = await saver.aput(
        config=first, checkpoint=empty_checkpoint(), metadata=METADATA, new_versions={}
    )

    assert saver.get_tuple(CONFIG) == await saver.aget_tuple(CONFIG)
    assert saver.get_tuple(first) == await saver.aget_tuple(first)
    assert head == (await saver.aget_tuple(CONFIG)).config
    for options in ({}, {"limit": 1}, {"before": head}, {"filter": {"source": "loop"}}):
        saved_tuples = list(saver.list(CONFIG, **options))
        assert saved_tuples == [saved_tuple async for saved_tuple in saver.alist(CONFIG, **options)]
    history = saver.get_delta_channel_history(config=head, channels=["messages"])
    assert history == await saver.aget_delta_channel_history(config=head, channels=["messages"])
    assert [["a"], ["b"]] == [value for _, _, value in history["messages"]["writes"]]
    await saver.adelete_thread("t")
    assert saver.get_tuple(CONFIG) is None


async def test_awaited_store_does_what_the_other_does(open_file: Callable[..., Database]) -> None:
    """On an event loop the same items are put, found, searched and deleted."""
    store = open_file().store
    await store.aput(PLACE, "a", {"v": 1}, index=False)
    store.put(PLACE, "b", {"v": 2}, index=False)

    assert store.get(PLACE, "a") == await store.aget(PLACE, "a")
    assert {"v": 2} == (await store.aget(PLACE, "b")).value  # type: ignore[union-attr]
    assert store.search(PLACE) == await store.asearch(PLACE)
    assert store.list_namespaces() == await store.alist_namespaces()
    await store.adelete(PLACE, "a")
    assert store.get(PLACE, "a") is None


THREADS = [
    "t1",
    "t10",
    "a.b",
    "a_b",
    "a%b",
    "aXb",
    "a/b",
    "a'b",
    'a"b',
    "a;--",
    "A",
    "a",
    "日本",
    " ",
]


def test_threads_are_kept_apart(open_file: Callable[..., Database]) -> None:
    """Ids that a careless query would confuse have separate states."""
    database = open_file()
    for thread in THREADS:
        config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
        checkpoint = {**empty_checkpoint(), "channel_values": {"mine": thread}}
        database.saver.put(config, checkpoint, METADATA, {})
        database.saver.put_writes(
            config
            | {"configurable": {**config["configurable"], "checkpoint_id": checkpoint["id"]}},
            [("mine", thread)],
            "task",
        )

    def owners() -> dict[str, Any]:
        owner_by_thread = {}
        for thread in THREADS:
            config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
            saved_tuple = database.saver.get_tuple(config)
            if saved_tuple is not None:
                writes = [value for _, _, value in saved_tuple.pending_writes or []]
                owner_by_thread[thread] = (
                    saved_tuple.checkpoint["channel_values"]["mine"],
                    *writes,
                )
        return owner_by_thread

    assert {thread: (thread, thread) for thread in THREADS} == owners()
    for count, thread in enumerate(THREADS, start=1):
        database.saver.delete_thread(thread)
        assert {thread: (thread, thread) for thread in THREADS[count:]} == owners()


PLAIN = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.text(st.characters(exclude_categories=["Cs"])),
        st.binary(),
    ),
    lambda inner: st.one_of(
        st.lists(inner), st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
)


@given(value=PLAIN, times=st.sampled_from([1, 1, 200]))
def test_values_survive_compression(value: Any, times: int) -> None:
    """Short or long, a value comes back as it was, and the long ones are smaller."""
    serializer = CompressedSerializer()
    given_value = [value] * times
    kind, data = serializer.dumps_typed(given_value)

    assert given_value == serializer.loads_typed((kind, data))
    packed_plainly = JsonPlusSerializer().dumps_typed(given_value)
    assert given_value == serializer.loads_typed(packed_plainly)
    assert kind.endswith("+z") == (len(packed_plainly[1]) >= COMPRESSED_FROM)


def _calls(kind: int, *, name: tuple[Any, ...]) -> tuple[str, bytes]:
    return "msgpack", ormsgpack.packb(ormsgpack.Ext(kind, ormsgpack.packb(name)))


HOSTILE: dict[str, Callable[[str], tuple[str, bytes]]] = {
    "constructor, one argument": lambda do: _calls(0, name=("os", "system", do)),
    "constructor, arguments": lambda do: _calls(1, name=("os", "system", [do])),
    "constructor, keywords": lambda do: _calls(2, name=("os", "system", {"command": do})),
    "method": lambda do: _calls(
        3, name=("subprocess", "Popen", {"args": do, "shell": True}, "poll")
    ),
    "pydantic v1": lambda do: _calls(4, name=("os", "system", {"command": do}, "construct")),
    "pydantic v2": lambda do: _calls(5, name=("os", "system", {"command": do}, "model_construct")),
    "json constructor": lambda do: (
        "json",
        json.dumps({"lc": 2, "type": "constructor", "id": ["os", "system"], "args": [do]}).encode(),
    ),
    "json constructor of langchain": lambda do: (
        "json",
        json.dumps(
            {"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": do}}
        ).encode(),
    ),
    "pickle": lambda do: ("pickle", f"cos\nsystem\n(V{do}\ntR.".encode()),
}


@pytest.mark.filterwarnings("ignore::langgraph.warnings.LangGraphDeprecationWarning")
@pytest.mark.parametrize("is_compressed", [False, True], ids=["plain", "compressed"])
@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_a_crafted_row_runs_nothing(
    hostile: Callable[[str], tuple[str, bytes]],
    is_compressed: bool,  # noqa: FBT001 - a parameter of the table
    tmp_path: Path,
    open_file: Callable[..., Database],
) -> None:
    """A writer of the file cannot make unsay run a program."""
    database = open_file()
    saved_config = saved(database, v=1)
    trace = tmp_path / "trace"
    kind, data = hostile(f"touch {trace}")
    if is_compressed:
        kind = f"{kind}+z"
        data = zlib.compress(data)
    database.saver.put_writes(saved_config, [("messages", [])], "task")
    database.saver.conn.execute("UPDATE writes SET type = ?, value = ?", (kind, data))
    database.saver.conn.commit()

    try:
        saved_tuple = database.saver.get_tuple(CONFIG)
    except DatabaseCorruptError:
        saved_tuple = None

    assert not trace.exists()
    assert saved_tuple is None or "messages" == saved_tuple.pending_writes[0][1]  # type: ignore[index]


def test_the_crafted_row_is_dangerous_elsewhere(tmp_path: Path) -> None:
    """The attack is a real one: LangGraph's default serializer does run it."""
    trace = tmp_path / "trace"
    JsonPlusSerializer().loads_typed(HOSTILE["constructor, one argument"](f"touch {trace}"))

    assert trace.exists()


@pytest.mark.parametrize("location", ["unsay.db", ":memory:", "postgresql://localhost/unsay"])
def test_windows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, location: str) -> None:
    """Where a database would be opened, Windows gets the platforms named, and nothing is made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "platform", "win32")

    with pytest.raises(ConfigurationError, match="Linux and macOS, not on Windows"):
        open_database(location)

    assert [] == list(tmp_path.iterdir())
