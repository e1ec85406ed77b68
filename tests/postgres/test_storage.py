"""What a Postgres database keeps, and what happens when the server goes away."""

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

from tests.graph.kit import Numbered, scores
from tests.postgres.conftest import TABLES, Machine, name_of
from tests.reading import replayed, said
from tests.threads import registry_of
from unsay import AsyncConversation, Conversation
from unsay.effects import drive
from unsay.errors import StorageError, ThreadBusyError
from unsay.graph.builder import build_graph
from unsay.history.threads import list_threads, purge_thread
from unsay.storage.base import Database
from unsay.storage.sqlite import open_database

pytestmark = pytest.mark.full

CONFIG: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
METADATA: Any = {"source": "loop", "step": 0, "parents": {}}
PLACE = ("unsay", "branches", "t")
LONG = "A long answer, said again and again. " * 50
CUT = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database()
AND pid <> pg_backend_pid() AND pid NOT IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory')
"""
"""Ends every connection but this one and those of leases."""

WAITING = "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted"
WORDS = "chrysanthemum"


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    """An open one."""
    postgres_database = open_database(url)
    yield postgres_database
    postgres_database.close()


def saved(database: Database, **values: Any) -> Any:
    """Save a checkpoint with these channels, and say where it lies."""
    channels: Any = dict.fromkeys(values, "1")
    checkpoint: Any = {**empty_checkpoint(), "channel_values": values, "channel_versions": channels}
    return database.saver.put(CONFIG, checkpoint, METADATA, channels)


def test_what_was_stored_is_there_when_opened_again(url: str, database: Database) -> None:
    """Checkpoints, writes and the store's items outlive the connections, for any content."""
    messages = [HumanMessage(LONG, id="a"), AIMessage("🍁\0" + LONG, id="b")]
    config = saved(database, messages=messages, notice="\0\ud800\ufdd0", score=0.5)
    database.saver.put_writes(config, [("messages", messages[1:])], "task")
    item = {"words": "\0 \ud800 \ufdd0 🍁", "\0": [1.5, None]}
    database.store.put(PLACE, "branch-1", item)
    second_database = open_database(url)
    saved_tuple = second_database.saver.get_tuple(CONFIG)
    saved_item = second_database.store.get(PLACE, "branch-1")
    second_database.close()

    assert saved_tuple is not None
    expected = {"messages": messages, "notice": "\0\ud800\ufdd0", "score": 0.5}
    assert expected == saved_tuple.checkpoint["channel_values"]
    assert [("task", "messages", messages[1:])] == saved_tuple.pending_writes
    assert saved_item is not None
    assert item == saved_item.value


def test_values_are_compressed_and_nothing_expires(
    machine: Machine, url: str, database: Database
) -> None:
    """Large values take less room than they are long; items have no end and no vector."""
    saved(database, messages=[HumanMessage(LONG, id="a")])
    database.store.put(PLACE, "a", {"v": 1})

    (row,) = machine.sql("SELECT type, length(blob) FROM checkpoint_blobs", name=name_of(url))
    assert row[0] == "msgpack+z"
    assert row[1] < len(LONG) / 4
    ends = machine.sql("SELECT expires_at, ttl_minutes FROM store", name=name_of(url))
    assert [(None, None)] == ends
    store: Any = database.store
    assert (None, None) == (store.ttl_config, store.index_config)


def test_a_crafted_row_runs_nothing(
    machine: Machine, url: str, database: Database, tmp_path: Path
) -> None:
    """A writer of the database cannot make unsay run a program."""
    trace = tmp_path / "trace"
    call = ormsgpack.packb(
        ormsgpack.Ext(0, ormsgpack.packb(("os", "system", f"touch {trace}")))
    ).hex()
    config = saved(database, v=1)
    database.saver.put_writes(config, [("messages", [1])], "task")
    statement = f"UPDATE checkpoint_writes SET blob = '\\x{call}'"  # noqa: S608 - it is the attack
    machine.sql(statement, name=name_of(url))
    database.saver.get_tuple(CONFIG)

    assert not trace.exists()


async def test_awaited_methods_do_what_the_others_do(database: Database) -> None:
    """On an event loop the same is stored and found."""
    saver = database.saver
    store = database.store
    first = await saver.aput(CONFIG, empty_checkpoint(), METADATA, {})
    await saver.aput_writes(first, [("messages", ["a"])], "task-1")
    head = await saver.aput(first, empty_checkpoint(), METADATA, {})
    await store.aput(PLACE, "a", {"v": 1}, index=False)

    assert saver.get_tuple(CONFIG) == await saver.aget_tuple(CONFIG)
    assert list(saver.list(CONFIG)) == [checkpoint async for checkpoint in saver.alist(CONFIG)]
    history = saver.get_delta_channel_history(config=head, channels=["messages"])
    assert history == await saver.aget_delta_channel_history(config=head, channels=["messages"])
    assert [["a"]] == [value for _, _, value in history["messages"]["writes"]]
    assert store.search(PLACE) == await store.asearch(PLACE)
    await saver.adelete_thread("t")
    assert saver.get_tuple(CONFIG) is None


async def test_a_slow_server_keeps_no_event_loop(machine: Machine, url: str) -> None:
    """While a turn waits for the server, other tasks go on: one of them lets it through."""
    name = name_of(url)
    free = threading.Event()

    def locks() -> None:
        psycopg = import_module("psycopg")
        with psycopg.connect(machine.url(name)) as blocker:
            blocker.execute(f"LOCK TABLE {TABLES}")
            is_held.set()
            assert free.wait(20)

    is_held = threading.Event()
    async with AsyncConversation.open(
        url, thread="t", model=Numbered(), judge=scores()
    ) as conversation:
        blocker = asyncio.create_task(asyncio.to_thread(locks))
        await asyncio.to_thread(is_held.wait, 20)
        turn = asyncio.create_task(conversation.say("q1"))
        while machine.sql(WAITING, name=name) != [(True,)]:  # noqa: ASYNC110 - the server says it
            await asyncio.sleep(0.01)
        free.set()
        await asyncio.gather(blocker, turn)

        assert 2 == len(await conversation.messages())


def test_calls_of_many_threads_do_not_wait_for_each_other(database: Database) -> None:
    """A call that is slow keeps no other from being made: each has a connection."""
    server: Any = database
    is_entered = threading.Event()
    leave = threading.Event()

    def slow() -> None:
        with server.saver._cursor():
            is_entered.set()
            leave.wait(20)

    with ThreadPoolExecutor(1) as pool:
        blocker = pool.submit(slow)
        assert is_entered.wait(20)
        assert database.saver.get_tuple(CONFIG) is None
        assert not blocker.done()
        leave.set()


def test_the_server_may_restart_between_turns(machine: Machine, url: str) -> None:
    """Connections that died are replaced unnoticed."""
    with Conversation.open(url, thread="t", model=Numbered(), judge=scores()) as conversation:
        conversation.say("q1")
        machine.stop()
        machine.start()
        conversation.say("q2")

        assert ["human", "ai"] * 2 == [message.type for message in conversation.messages()]


def test_a_restart_in_the_middle_of_a_turn_is_told(machine: Machine, url: str) -> None:
    """The lease went with the connection: the turn is refused, and said again it ends whole."""

    def restarts(_: Any) -> AIMessage:
        if once.pop() if once else False:
            machine.stop()
            machine.start()
        return AIMessage("It is an answer to what was asked.")

    once = [True]
    with Conversation.open(url, thread="t", model=restarts, judge=scores()) as conversation:
        with pytest.raises(ThreadBusyError, match=r"was lost, and another process may be writing"):
            conversation.say("q1")
        conversation.say("q1")

        assert ["human: q1", "ai: It is an answer to what was asked."] == said(
            conversation.messages()
        )


def test_a_connection_lost_in_the_middle_of_a_turn_is_made_again(
    machine: Machine, url: str
) -> None:
    """As long as the lease's connection lives, the turn continues over another."""

    def branches(_: Any) -> AIMessage:
        machine.sql(CUT, name=name_of(url))
        return AIMessage("It is an answer to what was asked.")

    with Conversation.open(url, thread="t", model=branches, judge=scores()) as conversation:
        conversation.say("q1")
        conversation.say("q2")

        assert ["human", "ai"] * 2 == [message.type for message in conversation.messages()]


def test_a_server_that_is_gone_is_told(
    machine: Machine, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the server is away the error says so; when it is back, everything is there."""
    monkeypatch.setattr("unsay.storage.postgres.WAIT_SECONDS", 0.5)
    database = open_database(url)
    with Conversation.open(database, thread="t", model=Numbered(), judge=scores()) as conversation:
        conversation.say("q1")
        machine.stop()
        try:
            with pytest.raises(
                StorageError, match=r"cannot be opened .* check that the server runs"
            ):
                conversation.say("q2")
            with pytest.raises(StorageError, match=r"gave no connection within 0\.5 s"):
                database.store.get(PLACE, "a")
        finally:
            machine.start()
        conversation.say("q2")

        assert 4 == len(conversation.messages())
    database.close()


def test_a_purge_takes_one_thread_and_no_other(machine: Machine, url: str) -> None:
    """Neither a row nor a reachable byte of the thread is left, and its neighbours are whole."""
    database = open_database(url)
    for name in ("t", "t.1", "t%", "T"):
        model = Numbered()
        conversation = Conversation.open(database, thread=name, model=model, judge=scores())
        conversation.say(f"{WORDS if name == 't' else 'roses'}, please")
        conversation.say("and more")
        conversation.rollback()
    before = {name: _rows(machine, url, name) for name in ("t", "t.1", "t%", "T")}
    purge = drive(purge_thread(database, "t"))

    assert min(purge.checkpoints, purge.writes, purge.items) > 0
    assert 0 == _rows(machine, url, "t")
    assert {"t.1", "t%", "T"} == {thread.thread_id for thread in list_threads(database.store)}
    assert all(before[name] == _rows(machine, url, name) for name in ("t.1", "t%", "T"))
    second_purge = drive(purge_thread(database, "t"))
    assert (0, 0, 0) == (second_purge.checkpoints, second_purge.writes, second_purge.items)
    database.close()


def _rows(machine: Machine, url: str, thread: str) -> int:
    """Return how many rows of a thread are in the checkpointer's tables."""
    tables = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
    rows = machine.sql(
        " UNION ALL ".join(f"SELECT thread_id FROM {table}" for table in tables),  # noqa: S608 - ours
        name=name_of(url),
    )
    return rows.count((thread,))


def test_the_event_log_gives_the_same_transcript_byte_for_byte(url: str) -> None:
    """After turns, a rollback and an undo, another process replays the same transcript."""
    with Conversation.open(
        url, thread="t", model=Numbered(), judge=scores(0.9, 0.1, 0.9)
    ) as conversation:
        for text in ("q1", "q2", "🍁\0 q3"):
            conversation.say(text)
        conversation.rollback()
        conversation.undo()
    with Conversation.open(url, thread="t") as conversation:
        transcript = conversation.messages()
        events = registry_of(conversation).events()

    messages_replayed = replayed(events).messages
    assert [_bytes(message) for message in transcript] == [
        _bytes(message) for message in messages_replayed
    ]


def _bytes(message: Any) -> str:
    return json.dumps(message.model_dump(), sort_keys=True, default=str)


@pytest.mark.parametrize("ask", ["invoke", "update"])
def test_a_graph_of_the_hosts_own(database: Database, ask: str) -> None:
    """`build_graph` over the same checkpointer and store works, without any lease."""
    graph = build_graph(
        Numbered(), judge=scores(), checkpointer=database.saver, store=database.store
    )
    config: Any = {"configurable": {"thread_id": "own"}}
    graph.invoke({"messages": [("user", "q1")]}, config)
    if ask == "update":
        graph.update_state(config, {"messages": [("user", "by hand")]}, as_node="__start__")

    transcript = said(graph.get_state(config).values["messages"])
    assert "human: q1" == transcript[0]
