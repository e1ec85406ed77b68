"""One writer per thread: the queue in a process, and the lease against the others."""

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from blockbuster import BlockBuster
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.base import empty_checkpoint

from unsay.effects import adrive, drive
from unsay.errors import ThreadBusyError
from unsay.storage.base import translated
from unsay.storage.items import thread_namespace
from unsay.storage.leases import (
    FileLeases,
    Lease,
    Leases,
    is_gone,
    this_process,
    thread_of_item,
)
from unsay.storage.sqlite import FileDatabase, open_database
from unsay.storage.writer_lock import WriterLock

CONFIG: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
Opens = Callable[[], FileDatabase]

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of other processes")


class Clock:
    """A wall clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        """The time."""
        return self.now


@pytest.fixture
def open_file(tmp_path: Path) -> Iterator[Opens]:
    """Opens the same file again and again, as other processes would."""
    databases: list[FileDatabase] = []

    def opens() -> FileDatabase:
        database = open_database(tmp_path / "talk.db")
        assert isinstance(database, FileDatabase)
        databases.append(database)
        return database

    yield opens
    for database in databases:
        database.close()


@pytest.fixture
def leases_at(tmp_path: Path) -> Iterator[Callable[[Clock], FileLeases]]:
    """Leases of the same file that believe a clock."""
    connections: list[FileLeases] = []

    def make(clock: Clock) -> FileLeases:
        connection = sqlite3.connect(
            tmp_path / "talk.db", isolation_level=None, check_same_thread=False
        )
        connections.append(FileLeases(connection, clock=clock))
        return connections[-1]

    yield make
    for leases in connections:
        leases.close()


def hold(leases: Any, thread: str = "t", wait: float = 0.0, lease: float = 600.0) -> Lease:
    """A lease, which a renewal never reaches unless it is made short."""
    hold: Lease | None = drive(leases.hold(thread, wait_seconds=wait, lease_seconds=lease))
    assert hold is not None
    return hold


def rows(database: FileDatabase) -> list[tuple[Any, ...]]:
    """The table of leases."""
    return database.store.conn.execute("SELECT token, owner FROM leases").fetchall()


def run_out(database: FileDatabase) -> None:
    """Let the time of every lease be over."""
    database.store.conn.execute("UPDATE leases SET expires = 0")


def write(database: FileDatabase) -> None:
    """One checkpoint, one write and one item of the thread."""
    checkpoint = empty_checkpoint()
    with translated(database.path):
        saved_config = database.saver.put(CONFIG, checkpoint, {}, {})
        database.saver.put_writes(saved_config, [("messages", ["words"])], "task")
        database.store.put(thread_namespace("branches", "t"), "cut", {"words": "words"})


def counts(database: FileDatabase) -> list[int]:
    """How much of each kind is stored."""
    tables = ("checkpoints", "writes", "store")
    connection = database.store.conn
    return [connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables]  # noqa: S608 - our own names


def ended_process() -> str:
    """The name of a process that has ended."""
    command = "from unsay.storage.leases import this_process; print(this_process())"
    process = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, check=True
    )
    return process.stdout.strip()


def test_one_process_has_a_thread_at_a_time(open_file: Opens) -> None:
    """A second one is refused, and let in when the first is done; other threads are free."""
    first = open_file()
    second = open_file()
    lease = hold(first.leases)
    with pytest.raises(ThreadBusyError, match=rf"thread 't' is running in process {os.getpid()}"):
        hold(second.leases)
    hold(second.leases, "another").release()
    lease.release()

    hold(second.leases).release()


def test_a_refusal_names_the_wait_in_round_numbers(open_file: Opens) -> None:
    """What is left after a wait for the process's own lock is a little less than the setting."""
    lease = hold(open_file().leases)
    with pytest.raises(ThreadBusyError, match=r"did not end within 0\.1 s: try again"):
        hold(open_file().leases, wait=0.0502)
    lease.release()


def test_every_token_is_new(open_file: Opens) -> None:
    """No token comes back, not even when the table was empty in between."""
    database = open_file()
    tokens = []
    for _ in range(3):
        lease = hold(database.leases)
        tokens += rows(database)
        lease.release()

    assert sorted({token for token, _ in tokens}) == [token for token, _ in tokens]
    assert [] == rows(database)


def test_those_who_wait_come_in_the_order_of_asking(open_file: Opens) -> None:
    """The first to ask writes first, and a repeated writer queues behind the others."""
    holder = open_file()
    lease = hold(holder.leases)
    came: list[int] = []

    def ask(number: int, database: FileDatabase) -> None:
        taken_hold = hold(database.leases, wait=60.0)
        came.append(number)
        taken_hold.release()

    waiting = []
    for number in range(3):
        waiting.append(threading.Thread(target=ask, args=(number, open_file())))
        waiting[-1].start()
        while len(rows(holder)) < number + 2:
            pass
    lease.release()
    ask(3, holder)
    for item in waiting:
        item.join()

    assert [0, 1, 2, 3] == came


@linux
def test_the_lease_of_a_dead_process_is_taken_at_once(open_file: Opens) -> None:
    """Its owner need not have said goodbye, and its time need not be over."""
    first = open_file()
    second = open_file()
    hold(first.leases)
    first.store.conn.execute("UPDATE leases SET owner = ?", (ended_process(),))

    hold(second.leases).release()


@linux
def test_a_process_elsewhere_is_never_gone() -> None:
    """The same number means another process on another machine or in another container."""
    name = ended_process()
    elsewhere = [f"another-boot {name.split(' ', 1)[1]}", name.replace("pid:[", "pid:[9")]

    assert is_gone(name)
    assert not is_gone(this_process())
    assert [False, False] == [is_gone(item) for item in elsewhere]


@linux
def test_a_number_used_again_is_another_process() -> None:
    """A living process with a dead one's number does not keep the lease."""
    machine, process, began = this_process().rsplit(" ", 2)

    assert is_gone(f"{machine} {process} {int(began) - 1}")


@linux
def test_a_process_that_nobody_buried_is_gone() -> None:
    """A child that was killed and not waited for still has a number, and no life."""
    command = "import time; from unsay.storage.leases import this_process as t; print(t(), flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", command], stdout=subprocess.PIPE, text=True) as it:
        assert it.stdout is not None
        name = it.stdout.readline().strip()
        assert not is_gone(name)
        it.kill()
        while it.stdout.read():
            pass
        os.waitid(os.P_PID, it.pid, os.WEXITED | os.WNOWAIT)

        assert is_gone(name)


def test_what_was_not_renewed_is_over(leases_at: Callable[[Clock], FileLeases]) -> None:
    """A lease ends with its time, by the asking process's clock."""
    clock = Clock()
    first = leases_at(Clock())
    second = leases_at(clock)
    hold(first, lease=10.0)
    clock.now += 9.0
    with pytest.raises(ThreadBusyError):
        hold(second)
    clock.now += 1.0
    hold(second)

    assert 0 < (first.token("t") or 0) < (second.token("t") or 0)


class Wait:
    """A wait for a lease, which looks at the queue only on demand."""

    def __init__(self, leases: FileLeases, lease: float = 600.0) -> None:
        self._steps = leases.hold("t", wait_seconds=600.0, lease_seconds=lease)
        self._look = next(self._steps)

    def look(self) -> Lease | None:
        """The lease; `None` while another one is before it."""
        try:
            self._steps.send(self._look.blocking())
            self._look = self._steps.send(None)
        except StopIteration as ended:
            lease: Lease | None = ended.value
            return lease
        return None

    def leave(self) -> None:
        """Break the wait off."""
        self._steps.close()


def test_a_waiter_takes_the_lease_of_an_expired_holder(
    leases_at: Callable[[Clock], FileLeases],
) -> None:
    """A waiting process gets the lease once the holder's time is over, and not before."""
    clock = Clock()
    holder = leases_at(Clock())
    waiter = leases_at(clock)
    hold(holder, lease=10.0)
    wait = Wait(waiter)
    looks = [wait.look(), wait.look()]
    clock.now += 9.0
    looks.append(wait.look())
    clock.now += 1.0
    lease = wait.look()

    assert [None, None, None] == looks
    assert lease is not None
    assert 0 < (holder.token("t") or 0) < (waiter.token("t") or 0)


def test_a_waiter_passes_an_expired_waiter(leases_at: Callable[[Clock], FileLeases]) -> None:
    """A waiter whose time is over does not block the lease that its holder released."""
    clock = Clock()
    holder = leases_at(clock)
    expired_leases = leases_at(Clock())
    waiter = leases_at(clock)
    lease = hold(holder)
    waits = [Wait(expired_leases, lease=10.0), Wait(waiter)]
    looks = [wait.look() for wait in waits]
    lease.release()
    looks.append(waits[1].look())
    clock.now += 10.0
    taken_lease = waits[1].look()
    waits[0].leave()

    assert [None, None, None] == looks
    assert taken_lease is not None
    assert waiter.token("t") is not None


@linux
def test_a_waiter_takes_the_lease_of_a_holder_that_died(open_file: Opens) -> None:
    """A waiting process gets the lease once the holder's process has ended."""
    first = open_file()
    second = open_file()
    hold(first.leases)
    assert isinstance(second.leases, FileLeases)
    wait = Wait(second.leases)
    lease = wait.look()
    before = "UPDATE leases SET owner = ? WHERE token = (SELECT min(token) FROM leases)"
    first.store.conn.execute(before, (ended_process(),))

    assert lease is None
    assert wait.look() is not None


def test_nothing_is_left_of_leases_that_were_given_up(
    leases_at: Callable[[Clock], FileLeases],
) -> None:
    """After many turns and waits the leases remember nothing, in memory or in the file."""
    leases = leases_at(Clock())
    other_leases = leases_at(Clock())
    before = threading.enumerate()
    for _ in range(5):
        lease = hold(leases)
        wait = Wait(other_leases)
        assert wait.look() is None
        lease.release()
        taken_lease = wait.look()
        assert taken_lease is not None
        taken_lease.release()
    for thread in threading.enumerate():
        if thread.name == "unsay-lease" and thread not in before:
            thread.join()

    values_in_memory = [value for item in (leases, other_leases) for value in vars(item).values()]
    assert [] == [
        value for value in values_in_memory if isinstance(value, set | dict | list) and value
    ]
    assert [] == leases._connection.execute("SELECT * FROM leases").fetchall()


def test_a_clock_that_was_set_back_delays_and_no_more(
    leases_at: Callable[[Clock], FileLeases],
) -> None:
    """A lease that is not renewed is over once the clock is past its end again."""
    clock = Clock()
    first = leases_at(Clock())
    second = leases_at(clock)
    hold(first, lease=10.0)
    clock.now -= 3_600.0
    with pytest.raises(ThreadBusyError):
        hold(second)
    clock.now += 3_611.0

    hold(second).release()


def test_a_lease_is_renewed_for_as_long_as_it_is_held(open_file: Opens) -> None:
    """Its owner may take longer than the lease's time."""
    first = open_file()
    second = open_file()
    ends = "SELECT expires FROM leases ORDER BY token LIMIT 1"
    lease = hold(first.leases, lease=2.0)
    begin = first.store.conn.execute(ends).fetchone()[0]
    while first.store.conn.execute(ends).fetchone()[0] < begin + 2.5:
        with pytest.raises(ThreadBusyError):
            hold(second.leases)
    lease.release()

    assert [] == rows(first)


def taken_over(database: FileDatabase, other: FileDatabase) -> None:
    """Let another writer take the thread from one that holds it and does not know."""
    run_out(database)
    hold(other.leases).release()


def test_a_writer_that_lost_its_lease_writes_nothing(open_file: Opens) -> None:
    """No checkpoint, no write and no item, neither new nor deleted, comes after the loss."""
    slow = open_file()
    quick = open_file()
    hold(slow.leases)
    write(slow)
    before = counts(slow)
    taken_over(slow, quick)
    late: list[Callable[[], Any]] = [
        lambda: slow.saver.put(CONFIG, empty_checkpoint(), {}, {}),
        lambda: slow.saver.put_writes(
            {"configurable": {**CONFIG["configurable"], "checkpoint_id": "1"}}, [("a", 1)], "task"
        ),
        lambda: slow.saver.delete_thread("t"),
        lambda: slow.store.put(thread_namespace("branches", "t"), "cut", {"words": "others"}),
        lambda: slow.store.delete(thread_namespace("branches", "t"), "cut"),
        lambda: slow.store.put(("unsay", "threads"), "t", {"title": "others"}),
    ]
    for item in late:
        with (
            pytest.raises(ThreadBusyError, match="another process took over the thread"),
            translated(slow.path),
        ):
            item()

    assert before == counts(slow)
    assert not slow.saver.conn.in_transaction
    assert not slow.store.conn.in_transaction


def test_only_its_own_thread_is_closed_to_it(open_file: Opens) -> None:
    """Other threads and the host's own items can be written, and its thread once it asks again."""
    slow = open_file()
    quick = open_file()
    lease = hold(slow.leases)
    taken_over(slow, quick)
    slow.store.put(thread_namespace("branches", "another"), "cut", {})
    slow.store.put(("unsay", "threads"), "another", {})
    slow.store.put(("host",), "t", {})
    lease.release()
    hold(slow.leases)
    write(slow)

    assert [1, 1, 4] == counts(slow)


def test_a_lost_lease_can_be_given_up(open_file: Opens) -> None:
    """Giving it up takes nothing from the writer that has the thread now."""
    slow = open_file()
    quick = open_file()
    lease = hold(slow.leases)
    run_out(slow)
    hold(quick.leases)
    lease.release()

    write(quick)
    assert [1, 1, 1] == counts(quick)


@given(st.text(min_size=1))
def test_every_item_of_a_thread_is_known_as_its_own(thread: str) -> None:
    """Thread ids may have any characters that a namespace can hold."""
    thread = thread.encode("utf-8", "ignore").decode()
    text = ".".join(thread_namespace("event_log", thread or "t"))

    assert (thread or "t") == thread_of_item(text, "a-page")
    assert thread == thread_of_item("unsay.threads", thread)
    assert thread_of_item("host.settings.t", thread) is None


def test_the_table_does_not_name_a_thread(open_file: Opens, tmp_path: Path) -> None:
    """A thread's id may be personal: the leases leave it nowhere in the file."""
    database = open_file()
    hold(database.leases, "alice@example.org").release()
    database.close()

    assert b"alice" not in (tmp_path / "talk.db").read_bytes()


def test_a_closed_database_holds_nothing(open_file: Opens) -> None:
    """What was not released is released when the file is closed."""
    first = open_file()
    second = open_file()
    hold(first.leases)
    first.close()

    hold(second.leases).release()


def test_a_lease_is_released_after_its_connection_was_closed(open_file: Opens) -> None:
    """Neither the release nor a renewal fails; the row expires in time."""
    first = open_file()
    lease = hold(first.leases)
    first.leases._connection.close()
    first.leases._renew(lease)
    lease.release()


def test_a_database_in_memory_has_no_leases() -> None:
    """No other process can open it."""
    database = open_database(":memory:")
    database.close()

    assert isinstance(database.leases, Leases)
    assert drive(database.leases.hold("t", wait_seconds=0, lease_seconds=1)) is None


async def test_a_wait_does_not_block_the_loop(open_file: Opens) -> None:
    """Asking, waiting and giving up happen beside the loop."""
    first = open_file()
    second = open_file()
    guard = BlockBuster()
    guard.activate()
    try:
        lease = await adrive(first.leases.hold("t", wait_seconds=0, lease_seconds=600))
        waiting = asyncio.create_task(
            adrive(second.leases.hold("t", wait_seconds=60, lease_seconds=600))
        )
        await asyncio.sleep(0.05)
        assert lease is not None
        lease.release()
        taken_waiting = await waiting
        assert taken_waiting is not None
        taken_waiting.release()
    finally:
        guard.deactivate()


async def test_a_wait_that_is_cancelled_leaves_nothing(open_file: Opens) -> None:
    """The queue is empty afterwards, at any point of the interruption."""
    first = open_file()
    second = open_file()
    lease = hold(first.leases)
    for pauses in range(6):
        waiting = asyncio.create_task(
            adrive(second.leases.hold("t", wait_seconds=60, lease_seconds=600))
        )
        for _ in range(pauses):
            await asyncio.sleep(0.001)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    lease.release()
    while rows(first):  # noqa: ASYNC110 - a thread empties it
        await asyncio.sleep(0.001)

    assert first.leases.token("t") is second.leases.token("t") is None  # type: ignore[attr-defined]


def take(lock: WriterLock, wait: float = 60.0, leases: Any = None) -> Any:
    """The steps of taking a lock that no other process wants."""
    return lock.take(leases or Leases(), "t", wait_seconds=wait)


def test_a_lock_is_refused_when_the_wait_is_over() -> None:
    """It works in one process as among several, and for later callers."""
    lock = WriterLock()
    drive(take(lock))
    for wait in (0.0, 0.01):
        with pytest.raises(ThreadBusyError, match="running here and did not end"):
            drive(take(lock, wait))
    lock.release()
    drive(take(lock, 0.0))
    lock.release()


async def test_threads_and_tasks_share_one_queue() -> None:
    """A caller that asks repeatedly does not block the others."""
    lock = WriterLock()
    came: list[str] = []

    async def task(name: str) -> None:
        for _ in range(3):
            await adrive(take(lock))
            came.append(name)
            await asyncio.sleep(0)
            lock.release()

    def thread(name: str) -> None:
        for _ in range(3):
            drive(take(lock))
            came.append(name)
            lock.release()

    await adrive(take(lock))
    work = [asyncio.create_task(task(name)) for name in "ab"]
    await asyncio.sleep(0)
    work.append(asyncio.create_task(asyncio.to_thread(thread, "c")))
    while len(lock._queue) < 4:  # noqa: ASYNC110 - a thread joins it
        await asyncio.sleep(0.001)
    lock.release()
    await asyncio.gather(*work)

    assert ["a", "b", "c"] == came[:3]
    assert ["a", "a", "a", "b", "b", "b", "c", "c", "c"] == sorted(came)


async def test_a_cancelled_task_does_not_keep_the_lock() -> None:
    """Neither while it waits nor at the instant at which the lock becomes its own."""
    lock = WriterLock()
    for release_first in (True, False):
        await adrive(take(lock))
        waiting = asyncio.create_task(adrive(take(lock)))
        await asyncio.sleep(0.01)
        if release_first:
            lock.release()
            waiting.cancel()
        else:
            waiting.cancel()
            lock.release()
        await asyncio.gather(waiting, return_exceptions=True)
        if not waiting.cancelled():
            lock.release()
        await adrive(take(lock, 0.0))
        lock.release()


def test_a_lock_is_free_when_the_lease_is_refused(open_file: Opens) -> None:
    """Another process's turn leaves nothing locked in this one."""
    first = open_file()
    second = open_file()
    lease = hold(first.leases)
    lock = WriterLock()
    with pytest.raises(ThreadBusyError):
        drive(take(lock, 0.0, second.leases))
    lease.release()
    drive(take(lock, 0.0, second.leases))
    lock.release()

    assert [] == rows(first)
