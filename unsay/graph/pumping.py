"""A stream that can be left early."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, TypeVar

T = TypeVar("T")

_END: Any = object()


async def pumped(source: AsyncIterator[T]) -> AsyncGenerator[T, None]:
    """What the source gives, read by a task of its own.

    Closing an async generator of LangGraph's waits for the step that is running, which a slow
    model or judge can draw out; cancelling the task that reads it stops the step.

    Args:
        source: Read to its end, or cancelled when the reader leaves.
    """
    ready: asyncio.Queue[T] = asyncio.Queue()

    async def read() -> None:
        try:
            async for each in source:
                ready.put_nowait(each)
        finally:
            ready.put_nowait(_END)

    reader = asyncio.create_task(read())
    try:
        while (item := await ready.get()) is not _END:
            yield item
        await reader
    finally:
        reader.cancel()
        await asyncio.wait([reader])
