"""Waiting in line, for threads and event loops that stand in the same one."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from threading import Lock
from typing import TypeVar

from unsay.budget.waiting import Line
from unsay.effects import Call, Steps
from unsay.errors import WaitingLineFullError

T = TypeVar("T")


class Turnstile:
    """Lets so many in at once, and the others in the order of their coming."""

    def __init__(self, line: Line, *, wait_seconds: float) -> None:
        """Begin with an empty line.

        Args:
            line: Without anybody in it.
            wait_seconds: How long one waits in line before it is refused.
        """
        self._line = line
        self._wait_seconds = wait_seconds
        self._mutex = Lock()
        self._tickets = count(1)
        self._turns: dict[int, Future[None]] = {}

    @property
    def line(self) -> Line:
        """Who is inside and who waits."""
        return self._line

    def through(self, steps: Callable[[], Steps[T]]) -> Steps[T]:
        """Wait in line, then make some steps inside.

        Raises:
            WaitingLineFullError: Too many wait, or the line did not move in time.
        """
        ticket, turn = self._join()
        try:
            if not turn.done():
                yield from self._wait(turn)
            return (yield from steps())
        finally:
            self._leave(ticket)

    def _join(self) -> tuple[int, Future[None]]:
        turn: Future[None] = Future()
        turn.set_running_or_notify_cancel()
        with self._mutex:
            ticket = next(self._tickets)
            self._line = self._line.joined(ticket)
            reception = self._line.reception(ticket)
            if reception == "refused":
                raise WaitingLineFullError(
                    f"{self._line.places!r} calls stand before the models and "
                    f"{self._line.most_waiting!r} wait: ask again later, or raise parallel_calls "
                    "or waiting_calls"
                )
            self._turns[ticket] = turn
            if reception == "inside":
                turn.set_result(None)
        return ticket, turn

    def _leave(self, ticket: int) -> None:
        with self._mutex:
            before = self._line.inside
            self._line = self._line.left(ticket)
            del self._turns[ticket]
            for next_one in self._line.inside - before:
                self._turns[next_one].set_result(None)

    def _wait(self, turn: Future[None]) -> Steps[None]:
        seconds = self._wait_seconds
        try:
            yield Call(
                blocking=lambda: turn.result(timeout=seconds),
                awaitable=lambda: asyncio.wait_for(asyncio.wrap_future(turn), timeout=seconds),
            )
        except TimeoutError as error:
            raise WaitingLineFullError(
                f"The line before the models did not move for {seconds:g} s: ask again later, or "
                "raise parallel_calls or call_wait_seconds"
            ) from error
