"""One writer per thread: a lock in this process, and the lease against all others."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from unsay.effects import Call, Steps
from unsay.errors import ThreadBusyError
from unsay.storage.leases import BUSY, RELEASE_SECONDS, Lease, Leases, on_loop

# A writer that does not renew its lease for this time loses its thread. It is shorter than the default
# of `thread_wait_seconds`: a turn can wait for the lease of a process that died elsewhere.
LEASE_SECONDS = 20.0

INSIDE = (
    "The thread {thread_id!r} runs a turn, and a model or a tool of this turn asked to write to the "
    "same thread: give it another thread. Nothing was stored"
)

READING = (
    "The thread {thread_id!r} runs a turn whose stream is not read to its end, and the code that reads "
    "it asked to write to the same thread: read the stream to its end or close it, and then write. "
    "Nothing was stored"
)


@dataclass(frozen=True, slots=True, eq=False)
class Hold:
    """The right of one run or verb to write to a thread; `take_thread` returns it.

    `lock` keeps out others in this process, and `lease` other processes; `None` if no other process
    can write.
    """

    lock: "WriterLock"
    lease: Lease | None

    def release(self) -> None:
        """Give up the lock and the lease, so that the next writer gets them; a second call does nothing."""
        if self.lock.hold is self:
            self.lock.release()

    def end(self) -> Steps[None]:
        """Give up the lock and the lease as `release` does; on an event loop no worker waits for it."""
        self.release()
        done = None if self.lease is None else self.lease.done
        if done is not None:  # else, as outside of an event loop, `release` has waited
            yield from Call(
                blocking=done.done,
                awaitable=lambda: asyncio.wait(
                    [asyncio.wrap_future(done)], timeout=RELEASE_SECONDS
                ),
            )

    def verify(self) -> Steps[None]:
        """Raise `ThreadBusyError` if another writer took over the thread.

        Without a lease, or if the database checks it at each write, nothing is done.
        """
        if self.lease is not None:
            yield from self.lease.leases.verify(self.lease)


AROUND: ContextVar[tuple[Hold, ...]] = ContextVar("unsay_holds", default=())
"""The threads of the runs in whose nodes the current code is: it must not wait for these."""


# The turns whose blocking streams the current code reads, each with the task in which it does: what is
# called between two events must not wait for their end. Another task that began in the loop may.
_READ: ContextVar[tuple[tuple[Hold, object], ...]] = ContextVar("unsay_streams", default=())


def _task() -> object:
    """Return the running task; `None` outside of an event loop."""
    return asyncio.current_task() if on_loop() else None


@contextmanager
def reading(hold: Hold) -> Iterator[None]:
    """Let `take` refuse the code that reads a blocking stream of the turn that has the `hold`.

    Not for an async stream: Python closes it some time after a `break`, and the next call waits for that.
    """
    read = (hold, _task())
    _READ.set((*_READ.get(), read))
    try:
        yield
    finally:  # without a token: a generator may be closed in another context
        _READ.set(tuple(each for each in _READ.get() if each is not read))


class WriterLock:
    """The lock of this process on one thread; its users get it in the order of their requests.

    `hold` is the current user's right to write; `None` while the lock is free.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._queue: deque[Future[None]] = deque()
        self.hold: Hold | None = None

    def take(self, leases: Leases, thread_id: str, *, wait_seconds: float) -> Steps[Hold]:
        """Wait for the right to write, in this process and then among processes, and return it.

        Raises `ThreadBusyError` after `wait_seconds`, or if the caller is part of the turn that has
        it, or reads its stream. A background thread renews the lease; without that it ends after
        `LEASE_SECONDS`.
        """
        if self.hold is not None and self.hold in AROUND.get():
            raise ThreadBusyError(INSIDE.format(thread_id=thread_id))
        if (self.hold, _task()) in _READ.get():
            raise ThreadBusyError(READING.format(thread_id=thread_id))
        deadline = time.monotonic() + wait_seconds
        place: Future[None] = Future()
        place.set_running_or_notify_cancel()  # else a timeout on an event loop would cancel it
        with self._mutex:
            self._queue.append(place)
            if len(self._queue) == 1:
                place.set_result(None)
        try:
            if not place.done():
                yield from Call(
                    blocking=lambda: place.result(timeout=wait_seconds),
                    awaitable=lambda: asyncio.wait_for(
                        asyncio.wrap_future(place), timeout=wait_seconds
                    ),
                )
            left = max(0.0, deadline - time.monotonic())
            lease = yield from leases.hold(
                thread_id, wait_seconds=left, lease_seconds=LEASE_SECONDS
            )
        except TimeoutError as error:
            self._leave(place)
            raise ThreadBusyError(
                BUSY.format(thread_id=thread_id, where=" here", wait_seconds=wait_seconds)
            ) from error
        except BaseException:  # also when cancelled: a place that stays would block the queue
            self._leave(place)
            raise
        self.hold = Hold(self, lease)
        return self.hold

    def release(self) -> None:
        """Give up the lock and its lease; the next user in the queue gets it."""
        hold, self.hold = self.hold, None
        try:
            if hold is not None and hold.lease is not None:
                hold.lease.release()
        finally:
            self._leave(self._queue[0])

    def _leave(self, place: Future[None]) -> None:
        """Remove a place from the queue; if it was the first, the next place gets the lock."""
        with self._mutex:
            was_first = self._queue[0] is place
            self._queue.remove(place)
            if was_first and self._queue:
                self._queue[0].set_result(None)


_MUTEX = threading.Lock()


def lock_on(leases: Leases, thread_id: str) -> WriterLock:
    """Return this process's lock on a thread; nothing is locked yet.

    Every caller gets the same object, as long as one of them keeps it: it is held by a weak
    reference.
    """
    with _MUTEX:
        lock: WriterLock = leases.locks.setdefault(thread_id, WriterLock())
    return lock


def take_thread(leases: Leases, thread_id: str, *, wait_seconds: float) -> Steps[Hold]:
    """Wait for the right to write to a thread and return it; the caller releases it.

    An error of the database is raised as it is.

    Raises:
        ThreadBusyError: Another writer had the thread for longer than `wait_seconds`, or the caller
            is a part of the turn that has it, or reads its stream.
    """
    lock = lock_on(leases, thread_id)
    return (yield from lock.take(leases, thread_id, wait_seconds=wait_seconds))
