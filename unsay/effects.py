"""Code that is written once and runs both blocking and on an event loop.

A step is a generator (`Steps`). It yields a `Call` for everything outside, such as a database or a
model, and receives the call's result. `drive` makes the calls in place, `adrive` awaits them.
"""

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call to the outside world, in both forms; a step yields it and gets its result."""

    blocking: Callable[[], Any]
    awaitable: Callable[[], Awaitable[Any]]
    timeout_seconds: float | None = None
    """After it the step receives a `TimeoutError`; `None` sets no limit."""

    @classmethod
    def of(
        cls,
        blocking: Callable[P, Any],
        awaitable: Callable[P, Awaitable[Any]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> "Call":
        """Return a call of a function and its async twin, both with the given arguments."""
        return cls(
            blocking=partial(blocking, *args, **kwargs),
            awaitable=partial(awaitable, *args, **kwargs),
        )


def off_loop(work: Callable[[], Any]) -> Call:
    """Make a call of blocking work; on an event loop the work runs in a thread."""
    return Call(blocking=work, awaitable=lambda: asyncio.to_thread(work))


Steps = Generator[Call, Any, T]
"""A generator of calls that ends in a `T`."""


def utc_now() -> datetime:
    """Return the system's time in UTC; the default of every `clock` argument."""
    return datetime.now(UTC)


def drive(steps: Steps[T]) -> T:
    """Run a step to its end with blocking calls; return its result, or raise the step's error."""
    result: Any = None
    error: Exception | None = None
    try:
        while True:
            call = steps.send(result) if error is None else steps.throw(error)
            result, error = None, None
            # Only the call is guarded: an error of the step itself must leave this function.
            try:
                result = _bounded(call)
            except Exception as raised:  # noqa: BLE001 - handed to the step, which decides
                error = raised
    except StopIteration as stop:
        value: T = stop.value
        return value
    finally:
        steps.close()  # runs the cleanup of a step that was stopped between two calls


async def adrive(steps: Steps[T]) -> T:
    """Run a step to its end on the running event loop; return its result, or raise its error."""
    result: Any = None
    error: Exception | None = None
    try:
        while True:
            call = steps.send(result) if error is None else steps.throw(error)
            result, error = None, None
            try:
                async with asyncio.timeout(call.timeout_seconds):
                    result = await call.awaitable()
            except Exception as raised:  # noqa: BLE001 - handed to the step, which decides
                error = raised
    except StopIteration as stop:
        value: T = stop.value
        return value
    finally:
        steps.close()


def _bounded(call: Call) -> Any:
    """Return the call's result, or raise `TimeoutError`; a call that hangs is left in its thread."""
    if call.timeout_seconds is None:
        return call.blocking()
    future: Future[Any] = Future()
    # LangGraph finds the running node through a context variable.
    context = contextvars.copy_context()

    def work() -> None:
        try:
            future.set_result(context.run(call.blocking))
        except BaseException as raised:  # noqa: BLE001 - carried over to the waiting thread
            future.set_exception(raised)

    # A daemon thread, because Python would otherwise wait for a hanging call at exit.
    threading.Thread(target=work, daemon=True, name="unsay-call").start()
    return future.result(timeout=call.timeout_seconds)
