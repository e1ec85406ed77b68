"""Purging: no row and no byte of a thread stays."""

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.store.base import BaseStore, ListNamespacesOp, Op, Result, SearchOp
from langgraph.store.memory import InMemoryStore

from tests.conftest import Do
from tests.reading import namespace_of
from unsay.effects import drive
from unsay.errors import DatabaseLockedError, StorageError
from unsay.history.runs import list_runs, open_run
from unsay.history.threads import begin, list_threads, purge_thread, revise
from unsay.storage.base import THREADS, Database, Purged
from unsay.storage.sqlite import open_database

NOW = "2026-01-01T00:00:00.000+00:00"
WORDS = "the-heron-flies-at-midnight"
"""Words that stand in everything of the thread that is purged."""

NEIGHBOURS = {
    "t": ["t1", "T", "t.t", "t%", "t_", "t*", "tt"],
    "a.b": ["a", "b", "a_b", "a%2Eb", "A.B", "a.b.c", "axb"],
    "a_b": ["axb", "a%b", "a.b", "A_B"],
    "%": ["a", "%%", "_", "%25"],
    "*": ["t", "a", "**", "?"],
    "[a]": ["a", "b", "[b]"],
    "branches": ["runs", "threads", "cut"],
    "threads": ["branches", "thread"],
    "unsay": ["branches"],
    "京都": ["京", "京都 駅", "東京都", "kyoto"],
    "'; DROP TABLE store; --": ["t", "'"],
}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A new file."""
    database = open_database(tmp_path / "t.db")
    yield database
    database.close()


def fill_store(store: BaseStore, thread_id: str, text: str) -> int:
    """Put something of every kind into a thread, and say how many items there are."""
    drive(begin(store, thread_id, now=NOW, labels={"words": text}))
    drive(revise(store, thread_id, now=NOW, title=text))
    for number in range(3):
        run = f"{text}-{number}"
        drive(open_run(store, thread_id, run, now=NOW, labels={"words": text}))
        store.put(namespace_of("branches", thread_id), f"branch-{number}", {"reason": text})
    event_log = namespace_of("events", thread_id)
    store.put(event_log, "1", {"text": text})
    store.put((*event_log, "run", "deeper"), "1", {"text": text})
    return 1 + 3 + 3 + 2


def fill(database: Database, thread_id: str, text: str) -> Purged:
    """Put something of every kind into a thread of a file, and say how much there is."""
    for checkpoint_ns in ("", "process_message:1", "process_message:1|tools:2"):
        config: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": checkpoint_ns}}
        for _ in range(2):
            messages = [HumanMessage(text, id="q"), AIMessage(f"{text} " * 200, id="a")]
            values = {"topic": text, "messages": messages}
            checkpoint: Any = {**empty_checkpoint(), "channel_values": values}
            metadata: Any = {"source": "loop", "step": 0, "parents": {}, "words": text}
            saved_config = database.saver.put(config, checkpoint, metadata, {})
            database.saver.put_writes(saved_config, [("topic", text), ("messages", messages)], text)
    return Purged(checkpoints=6, writes=12, items=fill_store(database.store, thread_id, text))


def dump(database: Database) -> list[str]:
    """Every row of a file but the store's clock."""
    connection = sqlite3.connect(database.path)
    try:
        return sorted(connection.iterdump())
    finally:
        connection.close()


def files(database: Database) -> dict[str, bytes]:
    """The bytes of a file and of its companions."""
    folder = Path(database.path).parent
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def traces(database: Database, *text: str) -> list[tuple[str, str]]:
    """Where any of these words stand in the bytes."""
    return [
        (name, word)
        for name, data in files(database).items()
        for word in text
        if word.encode() in data
    ]


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("thread_id", NEIGHBOURS)
async def test_a_thread_goes_and_its_neighbours_stay(
    thread_id: str, database: Database, do: Do
) -> None:
    """For any names, exactly the thread's rows are deleted, and a second time changes nothing."""
    for name in NEIGHBOURS[thread_id]:
        fill(database, name, f"words of {name}")
    foreign = ("memories", *namespace_of("branches", thread_id)[1:])
    database.store.put(foreign, "1", {"of": "another program"})
    before = dump(database)
    amount = fill(database, thread_id, WORDS)

    purged = await do(purge_thread(database, thread_id))
    after = dump(database)
    second_purge = await do(purge_thread(database, thread_id))

    assert amount == purged
    assert Purged(checkpoints=0, writes=0, items=0) == second_purge
    assert before == after == dump(database)
    assert set(NEIGHBOURS[thread_id]) == {
        thread.thread_id for thread in list_threads(database.store)
    }


@pytest.mark.parametrize("thread_id", ["a-thread-of-its-own", "京都の話 1.0%"])
async def test_no_byte_stays(thread_id: str, database: Database, do: Do) -> None:
    """Neither words nor names stand in the file or its journal, nor what was deleted before."""
    for item in (database.saver, database.store):
        item.conn.execute("PRAGMA secure_delete = OFF")
    fill(database, "other", "words of another")
    fill(database, thread_id, WORDS)
    escaped_id = quote(thread_id, safe="").replace(".", "%2E")
    assert {("t.db-wal", WORDS), ("t.db-wal", thread_id)} <= set(traces(database, WORDS, thread_id))
    database.store.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for number in range(50):
        database.store.put(namespace_of("branches", thread_id), f"x{number}", {"text": WORDS * 500})
    for number in range(50):
        database.store.delete(namespace_of("branches", thread_id), f"x{number}")

    await do(purge_thread(database, thread_id))

    assert [] == traces(database, WORDS, WORDS[4:], thread_id, escaped_id)
    assert b"" == files(database)["t.db-wal"]
    assert ("t.db", "words of another") in traces(database, "words of another")


async def test_an_unknown_thread_changes_nothing(database: Database, do: Do) -> None:
    """Its purge is no error, and every row stays."""
    fill(database, "t", "words")
    before = dump(database)

    purged = await do(purge_thread(database, "unknown"))

    assert Purged(checkpoints=0, writes=0, items=0) == purged
    assert before == dump(database)


async def test_a_thread_can_begin_again(database: Database, do: Do) -> None:
    """After its purge the name is free, and nothing of before comes back."""
    fill(database, "t", WORDS)
    await do(purge_thread(database, "t"))

    session = await do(begin(database.store, "t", now=NOW))

    assert ("active", "", {}) == (session.status, session.title, session.labels)
    assert () == (await do(list_runs(database.store, thread_id="t"))).runs
    config: Any = {"configurable": {"thread_id": "t"}}
    assert database.saver.get_tuple(config) is None


async def test_a_damaged_item_goes_as_well(database: Database, do: Do) -> None:
    """What cannot be read can be purged."""
    amount = fill(database, "t", WORDS)
    database.store.conn.execute("UPDATE store SET value = '{' || value")

    assert amount == await do(purge_thread(database, "t"))
    assert [] == traces(database, WORDS)


async def test_a_database_in_memory_is_purged(do: Do) -> None:
    """Its checkpoints and its store lie apart, and both lose the thread."""
    database = open_database(":memory:")
    amount = fill(database, "t", WORDS)

    assert amount == await do(purge_thread(database, "t"))
    assert Purged(checkpoints=0, writes=0, items=0) == await do(purge_thread(database, "t"))
    database.close()


async def test_a_reader_is_told_of_and_the_purge_made_again(database: Database, do: Do) -> None:
    """While another program reads the journal, bytes stay there: the purge says so."""
    fill(database, "t", WORDS)
    database.store.conn.execute("PRAGMA busy_timeout = 50")
    reader = sqlite3.connect(database.path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM store").fetchone()
    try:
        with pytest.raises(DatabaseLockedError, match="Purge it again"):
            await do(purge_thread(database, "t"))
    finally:
        reader.close()
    assert [] != traces(database, WORDS)

    assert Purged(checkpoints=0, writes=0, items=0) == await do(purge_thread(database, "t"))
    assert [] == traces(database, WORDS)


async def test_a_purge_that_fails_midway_takes_no_half_of_the_store(
    database: Database, do: Do
) -> None:
    """The store's part goes whole or not at all, and the line goes with it."""
    fill(database, "t", WORDS)
    database.store.conn.execute(
        "CREATE TEMP TRIGGER no BEFORE DELETE ON main.store WHEN old.prefix = 'unsay.threads' "
        "BEGIN SELECT raise(ABORT, 'no'); END"
    )
    with pytest.raises(StorageError, match="no"):
        await do(purge_thread(database, "t"))
    assert 3 == len((await do(list_runs(database.store, thread_id="t"))).runs)
    database.store.conn.execute("DROP TRIGGER no")

    assert 9 == (await do(purge_thread(database, "t"))).items


class LooseStore(InMemoryStore):
    """A store that finds by the beginning of a namespace's text, as a LIKE does."""

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Search every kind and thread of unsay."""
        return super().batch([_without_strictness(op) for op in ops])

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """The same."""
        return self.batch(ops)


def _without_strictness(op: Op) -> Op:
    if isinstance(op, SearchOp):
        return op._replace(namespace_prefix=op.namespace_prefix[:1])
    return op._replace(match_conditions=None) if isinstance(op, ListNamespacesOp) else op


async def test_a_store_that_finds_too_much_is_checked(do: Do) -> None:
    """Only what bears the thread's very name is listed."""
    store = LooseStore()
    fill_store(store, "t1", "words")
    fill_store(store, "t", WORDS)

    runs = (await do(list_runs(store, thread_id="t"))).runs
    assert {"t"} == {run.thread_id for run in runs}
    assert {"t", "t1"} == {thread.thread_id for thread in list_threads(store)}


def contents(store: BaseStore) -> list[tuple[Any, ...]]:
    """Everything in a store."""
    items = [item for root in ("unsay", "memories") for item in store.search((root,), limit=1_000)]
    return sorted((item.namespace, item.key, repr(item.value)) for item in items)


NAMES = st.text(st.sampled_from("aA.%_*?[]-~/ \\'\"京2E"), min_size=1, max_size=4)


@given(names=st.lists(NAMES, unique=True, min_size=2, max_size=4))
def test_no_name_reaches_another_thread(names: list[str]) -> None:
    """Names that look like patterns, or like other names quoted, are only themselves."""
    database = open_database(":memory:")
    try:
        for name in names:
            fill_store(database.store, name, "words")
        drive(purge_thread(database, names[0]))

        thread_ids = {item.key for item in database.store.search(THREADS, limit=100)}
        assert set(names[1:]) == thread_ids
        assert 9 * len(thread_ids) == len(contents(database.store))
    finally:
        database.close()
