"""One writer per thread among all who hold a Postgres database open."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.graph.kit import Numbered, scores
from tests.postgres.conftest import Machine, name_of
from tests.reading import said
from unsay.conversation.conversation import Conversation
from unsay.effects import adrive, drive
from unsay.errors import ThreadBusyError
from unsay.storage.base import Database
from unsay.storage.sqlite import open_database

pytestmark = pytest.mark.full

LOCKS = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted"
PLACE = ("unsay", "branches", "t")


@pytest.fixture
def two(url: str) -> Iterator[tuple[Database, Database]]:
    """The database opened twice, as two processes would; their locks on threads differ."""
    databases = open_database(url), open_database(url)
    yield databases
    for database in databases:
        database.close()


def hold(database: Database, thread: str = "t", wait: float = 0.0) -> Any:
    """A thread's lease."""
    return drive(database.leases.hold(thread, wait_seconds=wait, lease_seconds=5.0))


def end_leases(machine: Machine, url: str) -> None:
    """Cut every connection that holds a lease, as a network or an operator would."""
    machine.sql(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory'",
        name=name_of(url),
    )


def test_a_lease_keeps_the_other_out(two: tuple[Database, Database]) -> None:
    """Who asks once is refused, who waits long enough has it, and other threads are free."""
    one, second_database = two
    lease = hold(one)
    with pytest.raises(ThreadBusyError, match="'t' is running in another process"):
        hold(second_database)
    with pytest.raises(ThreadBusyError, match=r"did not end within 0\.1 s"):
        hold(second_database, wait=0.1)
    hold(second_database, "t2").release()
    lease.release()
    hold(second_database).release()


def test_nothing_is_left_locked(machine: Machine, two: tuple[Database, Database]) -> None:
    """Neither a lease that was given up nor one that was refused leaves a lock behind."""
    one, second_database = two
    lease = hold(one)
    with pytest.raises(ThreadBusyError):
        hold(second_database)
    lease.release()

    assert [(0,)] == machine.sql(LOCKS)


def test_a_closed_database_frees_its_threads(url: str) -> None:
    """A process that ended without releasing its leases blocks no other."""
    one = open_database(url)
    second_database = open_database(url)
    hold(one)
    one.close()
    hold(second_database, wait=10.0).release()
    second_database.close()


def test_who_lost_the_connection_may_not_write(
    machine: Machine, url: str, two: tuple[Database, Database]
) -> None:
    """Checkpoints, writes, items and purges are refused; nothing of them is stored."""
    one, second_database = two
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    saver: Any = one.saver
    lease = hold(one)
    one.store.put(PLACE, "before", {})
    end_leases(machine, url)

    with pytest.raises(ThreadBusyError, match="was lost, and another process may be writing"):
        saver.put(config, {"id": "1", "channel_values": {}, "v": 4}, {}, {})
    write_config = {"configurable": {**config["configurable"], "checkpoint_id": "1"}}
    with pytest.raises(ThreadBusyError):
        saver.put_writes(write_config, [("messages", 1)], "task")
    with pytest.raises(ThreadBusyError):
        one.store.put(PLACE, "after", {})
    with pytest.raises(ThreadBusyError):
        one.erase("t")
    assert ["before"] == [item.key for item in second_database.store.search(PLACE)]
    assert second_database.saver.get_tuple(config) is None
    one.store.put(("unsay", "branches", "t2"), "another thread", {})
    lease.release()
    hold(one).release()


def test_a_turn_whose_lease_was_taken_over_changes_nothing(
    machine: Machine, url: str, two: tuple[Database, Database]
) -> None:
    """While one thinks, its connection is cut and the other answers: only the other's turn lands."""
    one, second_database = two

    def overtaken(_: Any) -> str:
        end_leases(machine, url)
        lease = hold(second_database)
        graph_of_other.invoke(
            {"messages": [("user", "theirs")]}, {"configurable": {"thread_id": "t"}}
        )
        lease.release()
        return "This answer comes too late."

    second = Conversation.open(second_database, thread="t", model=Numbered(), judge=scores())
    graph_of_other: Any = second.graph
    conversation = Conversation.open(one, thread="t", model=overtaken, judge=scores())
    with pytest.raises(ThreadBusyError):
        conversation.say("ours")

    transcript = said(second.messages())
    assert "ai: This answer comes too late." not in transcript
    assert "human: theirs" in transcript


async def test_a_wait_that_is_cancelled_leaves_no_lock(
    machine: Machine, two: tuple[Database, Database]
) -> None:
    """A task that gives up waiting does not have the lease afterwards."""
    one, second_database = two
    lease = hold_awaited(one, 0.0)
    held_lease = await lease
    waiting = asyncio.create_task(hold_awaited(second_database, 30.0))
    await asyncio.sleep(0.2)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    held_lease.release()
    for _ in range(200):
        if machine.sql(LOCKS) == [(0,)]:
            break
        await asyncio.sleep(0.01)

    assert [(0,)] == machine.sql(LOCKS)


async def hold_awaited(database: Database, wait: float) -> Any:
    """A thread's lease, on an event loop."""
    return await adrive(database.leases.hold("t", wait_seconds=wait, lease_seconds=5.0))
