"""One writer per thread among processes: a lease on it.

A lease is a row of the file; its token is a number that no other row ever had. The owner of the
lowest token of a thread may write, and the others wait. A background thread renews the row while
the turn lasts, however slow the model is. A lease ends when its owner releases it, has died, or did
not renew it in time; the next in the queue then deletes it.

Times are of the wall clock, which processes share. If it jumps ahead, a living owner can lose its
lease and is refused at its next write. If it jumps back, the lease of an owner on another machine
that died lasts longer.
"""

import asyncio
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from weakref import WeakValueDictionary

from unsay.effects import Call, Steps, in_thread, off_loop
from unsay.errors import InputError, ThreadBusyError
from unsay.phrases import Phrase
from unsay.storage.items import digest_of


def this_process() -> str:
    """Return a name of this process; on Linux it is unique across machines and containers."""
    process = os.getpid()
    return f"{_PLACE} {process} {_life_of(process)[1]}"


def is_gone(owner: str) -> bool:
    """Return whether the owner of a lease has certainly ended; `False` if this is not certain.

    Only processes of the same machine, boot and container can be checked.
    """
    place, process, began = owner.rsplit(" ", 2)
    if not _PLACE or place != _PLACE:
        return False
    # A process that began at another time only has the same number. Source: Linux, proc(5).
    state, since = _life_of(int(process))
    if state:
        return state in "ZX" or since != began
    try:  # signal 0 also finds processes that `/proc` hides. Source: kill(2)
        os.kill(int(process), 0)
    except OSError as error:
        return isinstance(error, ProcessLookupError)
    return False


def _life_of(process: int) -> tuple[str, str]:
    """Return a process's state and its start in ticks since boot; empty texts if unknown."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "", ""
    # The name before it may have spaces and parentheses itself. Source: Linux, proc(5).
    fields = text.rpartition(") ")[2].split()
    return fields[0], fields[19]


def _place() -> str:
    """Return an id of this machine, boot and container; empty if unknown, as on macOS."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


_PLACE = _place()


# SQLite's message for a write by an owner that lost its lease.
LOST = "the lease on the thread was lost"
# Renewals within the time of a lease: three in a row may fail.
RENEWALS = 4
# Longest time that a blocking release waits until its row is deleted.
RELEASE_SECONDS = 1.0
FIRST_PAUSE_SECONDS = 0.002
# The pause between two looks at the queue doubles up to this.
LAST_PAUSE_SECONDS = 0.05
_FENCE = (
    "CREATE TEMP TRIGGER unsay_{event}_{table} BEFORE {event} ON main.{table} "
    "WHEN {token} NOT NULL "
    "AND NOT EXISTS (SELECT 1 FROM main.leases WHERE token = {token}) "
    "BEGIN SELECT RAISE(ABORT, '{lost}'); END"
)


def busy(thread_id: str, where: Phrase, wait_seconds: float) -> ThreadBusyError:
    """Return the error for a thread that another writer kept for too long."""
    return ThreadBusyError(
        code="thread_busy", thread_id=thread_id, where=where, wait_seconds=wait_seconds
    )


@dataclass(slots=True, eq=False)
class Lease:
    """The right to write to a thread; until it is obtained, a place in the thread's queue.

    `leases` made it. It ends `seconds` after its last renewal. `done` has a result when the database
    has changed after its release; `None` if nothing is to be changed.
    """

    leases: Any
    thread_id: str
    seconds: float
    done: Future[None] | None = None

    def release(self) -> None:
        """Give up the lease, or the place in the queue.

        Outside an event loop, wait until the database has changed, for at most `RELEASE_SECONDS`.
        """
        self.leases.forget(self)
        if self.done is not None and not on_loop():
            wait([self.done], timeout=RELEASE_SECONDS)


class Leases:
    """The leases of a database; this base class is for a database that no other process can open.

    It gives no leases: `hold` returns `None`.
    """

    kind: type[Any] | None = None
    """The class of its leases; `None` without any."""

    def __init__(self) -> None:
        self._held: dict[str, Any] = {}
        # The locks of this process on the threads; each exists while somebody uses it.
        self.locks: WeakValueDictionary[str, Any] = WeakValueDictionary()

    def hold(
        self, thread_id: str, *, wait_seconds: float, lease_seconds: float
    ) -> Steps[Lease | None]:
        """Wait for the lease of a thread and return it; `None` if no other process can write.

        With `wait_seconds=0` it is requested once. It ends `lease_seconds` after the last renewal.
        An error of the database is raised as it is.

        Raises:
            ThreadBusyError: Another process kept the lease for longer than `wait_seconds`.
        """
        if self.kind is None:
            return None
        lease: Lease = self.kind(self, thread_id, lease_seconds)
        # Not of the wall clock: a jump of it must not end the wait.
        deadline, pause = time.monotonic() + wait_seconds, FIRST_PAUSE_SECONDS
        try:
            while location := (yield from self._request(lease, waits=wait_seconds > 0)):
                seconds_left = deadline - time.monotonic()
                if seconds_left <= 0:
                    # Rounded, since waiting for the process's own lock took a part of the time.
                    raise busy(
                        thread_id, Phrase(location, code="elsewhere"), round(wait_seconds, 1)
                    )
                nap = min(pause, seconds_left)
                yield from Call(
                    blocking=partial(time.sleep, nap), awaitable=partial(asyncio.sleep, nap)
                )
                pause = min(2 * pause, LAST_PAUSE_SECONDS)
        except BaseException:  # also when cancelled: a row that stays would block the queue
            lease.release()
            raise
        self._held[thread_id] = lease
        return lease

    def forget(self, lease: Any) -> None:
        """Remove a lease from those that this process holds; do nothing if it is not among them.

        Only the lease's `release` calls this.
        """
        thread_id = lease.thread_id
        if self._held.get(thread_id) is lease:
            del self._held[thread_id]

    def verify(self, lease: Any) -> Steps[None]:
        """Raise `ThreadBusyError` if a lease was lost; only `SaverLeases` checks this.

        Here nothing is done: databases of unsay check the lease in each transaction that writes.
        """
        del lease
        yield from ()

    def close(self) -> None:
        """Give up all leases; nothing is done here, because this base class gives none."""

    def _request(self, lease: Any, *, waits: bool) -> Steps[str]:
        """Request a lease once; return "" if it was obtained, else a text about where its owner is.

        With `waits` the request keeps its place in the queue until the next one, if this kind of
        lease has a queue.
        """
        return (yield from off_loop(partial(self._ask, lease, waits=waits)))

    def _ask(self, lease: Any, *, waits: bool) -> str:
        """Do what `_request` does, with blocking calls."""
        raise NotImplementedError


@dataclass(slots=True, eq=False)
class KeptLease(Lease):
    """A lease that a background thread renews until it is released.

    `token` is its number, `None` before it has one. `ended` is set when the lease is released; the
    background thread then removes it from the database.
    """

    token: int | None = None
    ended: threading.Event = field(default_factory=threading.Event)


class KeptLeases(Leases):
    """Leases that end unless they are renewed in time."""

    kind = KeptLease

    def forget(self, lease: Any) -> None:
        """Remove a lease from those held, and end its background thread."""
        super().forget(lease)
        lease.ended.set()

    def _keep(self, lease: Any) -> None:
        """Start a lease's background thread, which renews it until it is released and then ends it.

        If the thread runs already, do nothing.
        """

        def keep() -> None:
            while not lease.ended.wait(lease.seconds / RENEWALS):
                self._renew(lease)
            self._end(lease)

        if lease.done is None:
            # Without the caller's context, which would keep a run alive that its host left.
            lease.done = Context().run(in_thread, keep)

    def _renew(self, lease: Any) -> None:
        """Make a lease last its whole time again from now on; one that was taken away stays lost.

        The background thread calls this. An error of the database is ignored.
        """
        raise NotImplementedError

    def _end(self, lease: Any) -> None:
        """Delete a released lease or mark it as released, so that the next writer can have it.

        The background thread calls this at its end. An error of the database is ignored: the lease then expires in time.
        """
        raise NotImplementedError


class FileLeases(KeptLeases):
    """The leases of one SQLite file."""

    def __init__(
        self, connection: sqlite3.Connection, *, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__()
        self._connection = connection
        self._clock = clock
        self._mutex = threading.Lock()
        self._queued: set[KeptLease] = set()
        self._leaving: set[int | None] = set()
        # AUTOINCREMENT: a token is never given twice, even after its row was deleted.
        connection.execute(
            "CREATE TABLE IF NOT EXISTS leases (token INTEGER PRIMARY KEY AUTOINCREMENT, "
            "thread TEXT NOT NULL, owner TEXT NOT NULL, expires REAL NOT NULL)"
        )

    def token(self, thread_id: str | None) -> int | None:
        """Return the token of this process's lease on a thread; `None` if it holds none."""
        lease: KeptLease | None = self._held.get(thread_id or "")
        return None if lease is None else lease.token

    def forget(self, lease: KeptLease) -> None:
        """Remove a lease from those held; its background thread deletes the row."""
        self._leaving.add(lease.token)  # so the next in this process need not wait for that
        super().forget(lease)

    def close(self) -> None:
        """Release every lease and every place in a queue, then close the connection.

        It waits for each row to be deleted. One that cannot be deleted expires in time, without an
        error. A second call changes nothing.
        """
        for lease in list(self._queued):
            lease.release()
            if lease.done is not None:
                wait([lease.done])  # its row is deleted over this connection
        with self._mutex:
            self._connection.close()

    def guard(
        self,
        connection: sqlite3.Connection,
        table: str,
        columns: tuple[str, ...],
        thread_of: Callable[..., str | None],
    ) -> None:
        """Make inserts and deletes of a table's rows fail if this process lost the lease on the thread.

        They raise `sqlite3.IntegrityError` with the text `LOST`; updates are not checked.
        `thread_of` gets a row's values of `columns` and returns the thread's id. For `None`, and for a
        thread on which this process has taken no lease, the write is accepted.

        Source:
            Kleppmann 2016, "How to do distributed locking": fencing tokens. SQLite, CREATE
            TRIGGER: RAISE(ABORT) undoes the statement.
        """
        # The check is a trigger, so that it is part of the statement that writes: between a
        # separate check and the write, another process could take over the lease.
        # SQLite: a connection must have read a new table before a trigger of it can name the table.
        connection.execute("SELECT 1 FROM leases").fetchall()
        name = f"unsay_token_of_{table}"
        connection.create_function(name, len(columns), lambda *row: self.token(thread_of(*row)))
        for event, row in (("INSERT", "NEW"), ("DELETE", "OLD")):
            values = ", ".join(f"{row}.{column}" for column in columns)
            connection.execute(
                _FENCE.format(lost=LOST, event=event, table=table, token=f"{name}({values})")
            )

    def _ask(self, lease: KeptLease, *, waits: bool) -> str:
        # Hashed, since an id may be personal and no purge cleans this table.
        thread = digest_of(lease.thread_id)
        with self._mutex:
            if lease.token is not None:
                rows = self._rows(thread)
                before = [row for row in rows if row[0] < lease.token and not self._is_over(row)]
                if before:  # most looks end here, with a read and without a lock on the file
                    return _where(before)
            self._connection.execute("BEGIN IMMEDIATE")
            with self._connection:
                rows = self._rows(thread)
                over = [row for row in rows if self._is_over(row) and row[0] != lease.token]
                doomed = [(token,) for token, *_ in over]
                self._connection.executemany("DELETE FROM leases WHERE token = ?", doomed)
                waiting = [row for row in rows if row not in over]
                if lease.token not in [token for token, *_ in waiting]:
                    if lease.ended.is_set() or (waiting and not waits):
                        return _where(waiting) or " here"
                    inserted: Any = self._connection.execute(
                        "INSERT INTO leases (thread, owner, expires) VALUES (?, ?, ?) RETURNING token",
                        (thread, this_process(), self._clock() + lease.seconds),
                    ).fetchone()
                    lease.token = int(inserted[0])
                before = [row for row in waiting if row[0] < lease.token]
        self._queued.add(lease)
        self._keep(lease)
        return _where(before)

    def _rows(self, thread: str) -> list[tuple[int, str, float]]:
        return self._connection.execute(
            "SELECT token, owner, expires FROM leases WHERE thread = ? ORDER BY token", (thread,)
        ).fetchall()

    def _is_over(self, row: tuple[int, str, float]) -> bool:
        """Return whether a lease expired, is being released here, or its owner has ended."""
        token, owner, expires = row
        return expires <= self._clock() or token in self._leaving or is_gone(owner)

    def _renew(self, lease: KeptLease) -> None:
        # An update, never an insert: a lease that was taken away must not come back.
        expires = self._clock() + lease.seconds
        self._write("UPDATE leases SET expires = ? WHERE token = ?", expires, lease.token)

    def _end(self, lease: KeptLease) -> None:
        if self._write("DELETE FROM leases WHERE token = ?", lease.token):
            self._leaving.discard(lease.token)
        self._queued.discard(lease)

    def _write(self, statement: str, *values: object) -> bool:
        """Execute a statement; return `False` if that failed, and then the row expires in time.

        It also fails after the database was closed.
        """
        with self._mutex, suppress(sqlite3.Error, InputError):
            self._connection.execute(statement, values)
            return True
        return False


def thread_of_item(prefix: str, key: str) -> str | None:
    """Return the id of the thread that a store's item belongs to; `None` for other items.

    `prefix` is the item's namespace, its labels joined by dots.
    """
    kind, _, rest = prefix.removeprefix("unsay.").partition(".")
    if not prefix.startswith("unsay."):
        return None
    return unquote(rest) if rest else key if kind == "threads" else None


def _where(rows: list[tuple[int, str, float]]) -> str:
    return f" in process {rows[0][1].rsplit(' ', 2)[1]}" if rows else ""


def on_loop() -> bool:
    """Return whether this Python thread runs an event loop, which must not be blocked."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
