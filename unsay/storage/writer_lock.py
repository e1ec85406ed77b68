"""One writer per thread: a lock in this process, and the lease against all others."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver

from unsay.effects import Call, Steps
from unsay.errors import ThreadBusyError
from unsay.phrases import Phrase
from unsay.storage.leases import (
    RELEASE_SECONDS,
    KeptLease,
    KeptLeases,
    Lease,
    Leases,
    busy,
    is_gone,
    on_loop,
    this_process,
)

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
        future = None if self.lease is None else self.lease.done
        if future is not None:  # else, as outside of an event loop, `release` has waited
            yield from Call(
                blocking=future.done,
                awaitable=lambda: asyncio.wait(
                    [asyncio.wrap_future(future)], timeout=RELEASE_SECONDS
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
    reader = (hold, _task())
    _READ.set((*_READ.get(), reader))
    try:
        yield
    finally:  # without a token: a generator may be closed in another context
        _READ.set(tuple(each for each in _READ.get() if each is not reader))


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
            seconds_left = max(0.0, deadline - time.monotonic())
            lease = yield from leases.hold(
                thread_id, wait_seconds=seconds_left, lease_seconds=LEASE_SECONDS
            )
        except TimeoutError as error:
            self._leave(place)
            raise busy(thread_id, Phrase(code="here"), wait_seconds) from error
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


NAMESPACE = "unsay-lease"
# The fixed task id of all claims; ids are UUIDs, because some databases store no others.
CLAIM = str(UUID(int=0))
# A renewal replaces the one before: checkpointers do this for LangGraph's own channels alone.
# Source: langgraph-checkpoint, WRITES_IDX_MAP.
RENEWED = "__scheduled__"
# When the claim of a released term expires.
RELEASED = 0.0
_ATTRIBUTE = "unsay_leases"


def leases_of(saver: BaseCheckpointSaver[Any]) -> Leases:
    """Return the leases on a checkpointer's threads; every caller gets the same object.

    They are those of `set_leases`. If there are none, the first call makes them: for an
    `InMemorySaver`, leases of this process alone, for any other, leases among its checkpoints.
    """
    current_leases: Leases | None = getattr(saver, _ATTRIBUTE, None)
    if current_leases is not None:
        return current_leases
    in_memory = isinstance(saver, InMemorySaver)
    new_leases: Leases = Leases() if in_memory else SaverLeases(saver)
    shared: Leases = vars(saver).setdefault(_ATTRIBUTE, new_leases)
    return shared


def set_leases(saver: BaseCheckpointSaver[Any], leases: Leases) -> None:
    """Set the leases that `leases_of` returns for a checkpointer, when unsay opens a database."""
    setattr(saver, _ATTRIBUTE, leases)


@dataclass(slots=True, eq=False)
class SaverLease(KeptLease):
    """A lease among a checkpointer's checkpoints; `claim_id` tells its claims from all others.

    `unreleased` is the newest earlier term whose owner did not release it, and so may still write;
    0 if there is none. `loop` is the event loop on which the checkpointer is awaited, if it is.
    """

    claim_id: str = field(default_factory=lambda: str(uuid4()))
    unreleased: int = 0
    loop: asyncio.AbstractEventLoop | None = None


class SaverLeases(KeptLeases):
    """The leases on the threads of a checkpointer that other processes may use as well.

    A checkpointer whose blocking methods are missing has no leases in blocking code: there the lock
    in this process is the only protection.
    """

    kind = SaverLease

    def __init__(
        self, saver: BaseCheckpointSaver[Any], *, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__()
        self._saver = saver
        self._clock = clock

    def verify(self, lease: SaverLease) -> Steps[None]:
        """Raise `ThreadBusyError` if another writer took over the lease.

        Nothing is done for a checkpointer without leases, or if the lease's rows were deleted.
        """
        if lease.token is None:
            return
        term, _ = yield from self._newest(lease.thread_id)
        # 0: the rows were deleted, by a retention job for example, and no term was claimed since.
        if term not in (0, lease.token):
            raise ThreadBusyError(
                f"This process did not renew its lease on the thread {lease.thread_id!r} for "
                f"{lease.seconds:g} s, and another one took over the thread: read its messages, "
                "then repeat this. What it was doing is not in the transcript"
            )

    def _request(self, lease: SaverLease, *, waits: bool) -> Steps[str]:
        del waits  # terms keep no queue
        saver = self._saver
        try:
            term, holder = yield from self._newest(lease.thread_id)
        except NotImplementedError:
            return ""
        if holder is not None and not self._is_over(holder):
            return _where(holder)
        lease.unreleased = _unreleased(term, holder)
        # A term whose claim is missing is claimed again: its owner may have died before the claim.
        if holder is not None or term == 0:
            term += 1
        place = _place(lease.thread_id, term)
        checkpoint = empty_checkpoint()
        checkpoint["id"] = place["configurable"]["checkpoint_id"]
        metadata: Any = {"source": "update", "step": -1}
        anywhere = _place(lease.thread_id)
        yield from Call.of(saver.put, saver.aput, anywhere, checkpoint, metadata, {})
        claim = [("claim", self._claim(lease))]
        yield from Call.of(saver.put_writes, saver.aput_writes, place, claim, CLAIM)
        newest, holder = yield from self._newest(lease.thread_id)
        if newest != term or holder is None or holder["id"] != lease.claim_id:
            return _where(holder)
        lease.token = term
        lease.loop = yield from Call(
            blocking=lambda: None,
            awaitable=lambda: asyncio.sleep(0, asyncio.get_running_loop()),
        )
        self._keep(lease)
        return ""

    def _claim(self, lease: SaverLease) -> dict[str, Any]:
        claim = {"id": lease.claim_id, "owner": this_process(), "unreleased": lease.unreleased}
        return {**claim, "expires": self._clock() + lease.seconds}

    def _newest(self, thread_id: str) -> Steps[tuple[int, dict[str, Any] | None]]:
        """Return the number (the term) of a thread's newest lease, and the claim of its owner.

        Without a lease they are 0 and `None`. The claim is as last renewed; it is `None` if the
        writer ended before it claimed the lease.
        """
        saver = self._saver
        checkpoint_tuple = yield from Call.of(saver.get_tuple, saver.aget_tuple, _place(thread_id))
        if checkpoint_tuple is None:
            return 0, None
        writes = {task: value for task, _, value in checkpoint_tuple.pending_writes or ()}
        claim = writes.get(CLAIM)
        return UUID(checkpoint_tuple.checkpoint["id"]).int, claim and writes.get(claim["id"], claim)

    def _is_over(self, claim: dict[str, Any]) -> bool:
        return bool(claim["expires"] <= self._clock() or is_gone(claim["owner"]))

    def _renew(self, lease: SaverLease) -> None:
        self._write(lease, self._claim(lease))

    def _end(self, lease: SaverLease) -> None:
        self._write(lease, {**self._claim(lease), "expires": RELEASED})

    def _write(self, lease: SaverLease, claim: dict[str, Any]) -> None:
        # If this fails, the lease expires in time.
        with suppress(Exception):
            place = _place(lease.thread_id, lease.token or 0)
            saver, write = self._saver, (place, [(RENEWED, claim)], lease.claim_id)
            if lease.loop is None:
                saver.put_writes(*write)
            elif not lease.loop.is_closed():
                asyncio.run_coroutine_threadsafe(saver.aput_writes(*write), lease.loop).result()


def _place(thread_id: str, term: int | None = None) -> RunnableConfig:
    """Return the config of the checkpoint that holds a lease.

    `term` is the lease's number; `None` means the newest lease.
    """
    term_options = {} if term is None else {"checkpoint_id": str(UUID(int=term))}
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": NAMESPACE, **term_options}}


def _unreleased(term: int, claim: dict[str, Any] | None) -> int:
    """Return the number of the newest lease whose owner may still write; 0 if there is none.

    `term` is the newest lease's number, `claim` what its owner stored; if that is missing, the
    lease before counts. An owner that released its lease, or has ended, writes no more.
    """
    if claim is None:
        return max(0, term - 1)  # its claim was deleted, so the term before may be unreleased
    is_released = claim["expires"] == RELEASED or is_gone(claim["owner"])
    return int(claim.get("unreleased", 0)) if is_released else term


def _where(claim: dict[str, Any] | None) -> str:
    return f" in process {claim['owner'].rsplit(' ', 2)[1]}" if claim else " in another process"
