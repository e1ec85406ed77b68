"""The lock on a thread: a queue in this process, then the lease against the others."""

import asyncio
import threading
import time
from collections import deque
from concurrent.futures import Future

from unsay.effects import Call, Steps
from unsay.errors import ThreadBusyError
from unsay.storage.leases import BUSY, Lease, Leases


class WriterLock:
    """The lock on one thread: handed on in the order of asking, to threads and to tasks alike."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._queue: deque[Future[None]] = deque()
        self._lease: Lease | None = None

    def take(
        self, leases: Leases, thread_id: str, *, wait_seconds: float, lease_seconds: float
    ) -> Steps[None]:
        """Wait for the others of this process, then for the other processes.

        Raises:
            ThreadBusyError: They were not done in time.
        """
        deadline = time.monotonic() + wait_seconds
        place = self._join()
        try:
            if not place.done():
                yield _waiting_for(place, wait_seconds)
            left = max(0.0, deadline - time.monotonic())
            self._lease = yield from leases.hold(
                thread_id, wait_seconds=left, lease_seconds=lease_seconds
            )
        except TimeoutError as error:
            self._leave(place)
            raise ThreadBusyError(
                BUSY.format(thread_id=thread_id, where=" here", wait_seconds=wait_seconds)
            ) from error
        except BaseException:  # a wait that is broken off leaves no place behind
            self._leave(place)
            raise

    def release(self) -> None:
        """Let the next one in."""
        lease, self._lease = self._lease, None
        try:
            if lease is not None:
                lease.release()
        finally:
            self._leave(self._queue[0])

    def _join(self) -> Future[None]:
        place: Future[None] = Future()
        place.set_running_or_notify_cancel()
        with self._mutex:
            self._queue.append(place)
            if len(self._queue) == 1:
                place.set_result(None)
        return place

    def _leave(self, place: Future[None]) -> None:
        with self._mutex:
            was_first = self._queue[0] is place
            self._queue.remove(place)
            if was_first and self._queue:
                self._queue[0].set_result(None)


def _waiting_for(place: Future[None], seconds: float) -> Call:
    return Call(
        blocking=lambda: place.result(timeout=seconds),
        awaitable=lambda: asyncio.wait_for(asyncio.wrap_future(place), timeout=seconds),
    )
