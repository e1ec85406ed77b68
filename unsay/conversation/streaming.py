"""A turn's events while it runs, for scripts and for async code."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from contextlib import aclosing, closing
from typing import Any, TypeVar

from unsay.conversation.thread import ThreadHandle
from unsay.conversation.turn_lifecycle import close_turn
from unsay.effects import Steps, adrive, drive
from unsay.hosts.entry import Trusted
from unsay.results.results import Event, Reply, event_of, reply_event
from unsay.storage.base import translated
from unsay.storage.writer_lock import reading

T = TypeVar("T")


def streamed(
    handle: ThreadHandle, begin: Callable[[ThreadHandle], Steps[Any]], turn_id: str | None = None
) -> Generator[Event, None, None]:
    """Yield the events of the turn that `begin` opens; the thread is locked while it runs."""
    hold = drive(handle.take())
    try:
        with translated(handle.database.path), reading(hold):
            opened = drive(begin(handle))
            if isinstance(opened, Reply):
                reply = opened
            else:
                chunks: Any = handle.graph.stream(
                    Trusted(opened), handle.config, **handle.streaming()
                )
                # A reader that leaves early stops the graph before the lock is released.
                with closing(chunks):
                    for mode, chunk in chunks:
                        if (event := event_of(mode, chunk)) is not None:
                            yield event
                reply = drive(close_turn(handle, turn_id))
    finally:
        hold.release()
    # After the release: a reader that stops at the reply must not keep the thread locked.
    yield reply_event(reply)


async def astreamed(
    handle: ThreadHandle, begin: Callable[[ThreadHandle], Steps[Any]], turn_id: str | None = None
) -> AsyncGenerator[Event, None]:
    """As `streamed`, on an event loop."""
    hold = await adrive(handle.take())
    try:
        with translated(handle.database.path):
            opened = await adrive(begin(handle))
            if isinstance(opened, Reply):
                reply = opened
            else:
                chunks: Any = handle.graph.astream(
                    Trusted(opened), handle.config, **handle.streaming()
                )
                # A reader that leaves early stops the graph before the lock is released.
                async with aclosing(pumped(chunks)) as read:
                    async for mode, chunk in read:
                        if (event := event_of(mode, chunk)) is not None:
                            yield event
                reply = await adrive(close_turn(handle, turn_id))
    finally:
        hold.release()
    yield reply_event(reply)


_END: Any = object()


async def pumped(source: AsyncIterator[T]) -> AsyncGenerator[T, None]:
    """Yield the items of a source that a separate task reads; its errors are raised here.

    Closing an async generator of LangGraph waits for the running step, and a slow model or judge
    can hold that up for long. Cancelling the task that reads it stops the step at once.
    """
    ready: asyncio.Queue[T] = asyncio.Queue()

    async def read() -> None:
        try:
            async for item in source:
                ready.put_nowait(item)
        finally:
            ready.put_nowait(_END)  # also after an error, which `await reader` raises

    reader = asyncio.create_task(read())
    try:
        while (item := await ready.get()) is not _END:
            yield item
        await reader
    finally:
        reader.cancel()
        await asyncio.wait([reader])  # does not raise what the task raised
