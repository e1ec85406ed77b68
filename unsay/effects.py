"""Code that is written once and runs both blocking and on an event loop.

A step is a generator (`Steps`). It makes a `Call` for everything outside, such as a database or a
model, and gets its result with `yield from`. `drive` makes the calls in place, `adrive` awaits them.
"""

import asyncio
import contextvars
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar, cast

# Time that a cancelled call gets to clean up; one that swallows its cancellation is then left.
CLEANUP_SECONDS = 1.0

# Time after which a detector, a strategy or embeddings of the user count as failed.
PART_SECONDS = 30.0

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """A call to the outside world, in both forms; `yield from` gives a step its result, a `T`."""

    blocking: Callable[[], T]
    awaitable: Callable[[], Awaitable[T]]
    timeout_seconds: float | None = None
    """After it the step receives a `TimeoutError`; `None` sets no limit."""

    @classmethod
    def of(
        cls,
        blocking: Callable[P, T],
        awaitable: Callable[P, Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> "Call[T]":
        """Return a call of a function and its async twin, both with the given arguments."""
        return cls(
            blocking=partial(blocking, *args, **kwargs),
            awaitable=partial(awaitable, *args, **kwargs),
        )

    @staticmethod
    def listing(
        blocking: Callable[P, Iterator[T]],
        awaitable: Callable[P, AsyncIterator[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> "Call[list[T]]":
        """Return a call that lists what a generator and its async twin yield for the given arguments."""

        async def awaited() -> list[T]:
            return [each async for each in awaitable(*args, **kwargs)]

        return Call(blocking=lambda: list(blocking(*args, **kwargs)), awaitable=awaited)

    def __iter__(self) -> "Generator[Call[T], T, T]":
        """Yield the call to the step's driver, and return the result that the driver sends back."""
        return (yield self)


def off_loop(work: Callable[[], T]) -> Call[T]:
    """Return a `Call` of blocking work; on an event loop the work runs in a Python thread."""
    return Call(blocking=work, awaitable=lambda: asyncio.to_thread(work))


def user_call(function: Callable[..., T | Awaitable[T]], *args: Any) -> Call[T]:
    """Return a `Call` of a user's function, sync or async, that never blocks an event loop.

    On an event loop a sync function runs in a Python thread; in blocking code an async function
    runs on an event loop of its own. Both see the caller's context variables. It may
    take `PART_SECONDS`. Unsay's own strategies and detectors are called directly, without a timeout:
    they neither block nor hang, and a thread for each call cost a tenth of a turn.
    """
    work = partial(function, *args)
    if is_own(function):
        return Call(blocking=work, awaitable=lambda: _direct(work))

    def blocking() -> Any:
        result = work()
        return run_on_own_loop(result) if inspect.isawaitable(result) else result

    async def awaitable() -> Any:
        result = work() if is_async(function) else await asyncio.wrap_future(in_thread(work))
        return await result if inspect.isawaitable(result) else result

    return Call(blocking=blocking, awaitable=awaitable, timeout_seconds=PART_SECONDS)


async def _direct(work: Callable[[], Any]) -> Any:
    """Call a function in the event loop's own thread and return its result; it must not block."""
    return work()


def is_own(function: Callable[..., Any]) -> bool:
    """Return whether a function is a method of unsay's own strategies or detectors, which are pure.

    `False` for a user's subclass of one, and for a plain function.
    """
    owner = type(getattr(function, "__self__", None)).__module__
    return owner.startswith(("unsay.context.", "unsay.judging."))


def is_async(function: Callable[..., Any]) -> bool:
    """Return whether a function or a callable object is declared with `async def`."""
    call = getattr(function, "__call__", None)  # noqa: B004 - its kind is asked for
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def run_on_own_loop(awaited: Awaitable[T]) -> T:
    """Wait for an awaitable and return its result; a new event loop in another thread runs it.

    It is for blocking code, and works also in an event loop's thread, which it blocks. Errors of
    the awaitable are raised.
    """

    async def wait() -> T:
        return await awaited

    return in_thread(lambda: asyncio.run(wait())).result()


Steps = Generator[Call[Any], Any, T]
"""A generator of calls that ends in a `T`."""


def utc_now() -> datetime:
    """Return the system's time in UTC; the default `clock` of a graph."""
    return datetime.now(UTC)


def drive(steps: Steps[T]) -> T:
    """Run a step to its end with blocking calls; return its result, or raise the step's error.

    An error of a call is raised inside the step, at its `yield from`. So is what stops the process, such as Ctrl-C:
    the calls with which the step cleans up are still made.
    """
    go_on: Callable[[], Call[Any]] = partial(next, steps)
    try:
        while True:
            call = go_on()
            # Only the call is guarded: an error of the step itself must leave this function.
            try:
                go_on = partial(steps.send, _bounded(call))
            except BaseException as raised:  # noqa: BLE001 - handed to the step, which decides
                go_on = partial(steps.throw, raised)
    except StopIteration as stop:
        return cast("T", stop.value)
    finally:
        steps.close()  # runs the cleanup of a step that was stopped between two calls


async def adrive(steps: Steps[T]) -> T:
    """Run a step to its end on the running event loop; return its result, or raise its error.

    An error of a call is raised inside the step, at its `yield from`. So is a cancellation:
    the calls with which the step cleans up are still made.
    """
    go_on: Callable[[], Call[Any]] = partial(next, steps)
    try:
        while True:
            call = go_on()
            try:
                go_on = partial(steps.send, await _awaited(call))
            except (Exception, asyncio.CancelledError) as raised:  # noqa: BLE001 - handed to the step, which decides
                go_on = partial(steps.throw, raised)
    except StopIteration as stop:
        return cast("T", stop.value)
    finally:
        steps.close()


def _bounded(call: Call[T]) -> T:
    """Return the call's result; raise `TimeoutError` after `timeout_seconds`, if it is not `None`.

    A call that hangs is left in its thread. Errors of the call are raised as they are.
    """
    if call.timeout_seconds is None:
        return call.blocking()
    future = in_thread(call.blocking)
    try:
        return future.result(timeout=call.timeout_seconds)
    except TimeoutError:
        if future.done():  # the call itself raised it
            raise
        raise _silent(call.timeout_seconds) from None


async def _awaited(call: Call[T]) -> T:
    """Return the result of a call on the event loop.

    Raises `TimeoutError` after `timeout_seconds`, if it is not `None`; a call that ignores its
    cancellation is left running. Errors of the call are raised as they are.
    """
    if call.timeout_seconds is None:
        return await call.awaitable()
    task = asyncio.ensure_future(call.awaitable())
    # Marks the error of a call that is left as seen; asyncio would print it.
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    try:
        await asyncio.wait({task}, timeout=call.timeout_seconds)
        if task.done():
            return task.result()
        raise _silent(call.timeout_seconds)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=CLEANUP_SECONDS)


def _silent(seconds: float) -> TimeoutError:
    return TimeoutError(f"silent for {seconds:g} s")


def in_thread(work: Callable[[], T]) -> Future[T]:
    """Start work in a new Python thread, with the caller's context variables; return its future."""
    future: Future[T] = Future()
    # A running future cannot be cancelled: otherwise a task that stops waiting would cancel it.
    future.set_running_or_notify_cancel()
    # LangGraph finds the running node through a context variable.
    context = contextvars.copy_context()

    def run() -> None:
        try:
            future.set_result(context.run(work))
        except SystemExit as ended:  # of a part of the user's; it must not end the process
            future.set_exception(RuntimeError(f"it called sys.exit({ended})"))
        except BaseException as raised:  # noqa: BLE001 - carried over to the waiting thread
            future.set_exception(raised)

    # A daemon thread, because Python would otherwise wait for a hanging call at exit.
    threading.Thread(target=run, daemon=True, name="unsay-call").start()
    return future
