"""The conversation for async code."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Self, TypeVar

from langchain_core.messages import AnyMessage

from unsay.conversation.audit import (
    end_session,
    events,
    label_session,
    note,
    purge,
    replay_request,
    runs,
    tool_result,
)
from unsay.conversation.request_replay import Replay
from unsay.conversation.results import Event as StreamEvent
from unsay.conversation.results import Reply, event_of
from unsay.conversation.thread import Talk
from unsay.conversation.timeline import Timeline
from unsay.conversation.turn_lifecycle import answer, close_turn, open_turn
from unsay.conversation.verbs import AsyncMoving
from unsay.effects import adrive
from unsay.history.runs import RunPage
from unsay.history.threads import ThreadEntry
from unsay.model_factory import ModelLike
from unsay.storage.base import Purged, translated
from unsay.types import Event

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


class AsyncConversation(AsyncMoving):
    """The same conversation for async code; every verb means what it means there.

    Example:
        >>> import asyncio
        >>> from unsay.testing import ScriptedChat, ScriptedJudge
        >>> async def main() -> str:
        ...     model = ScriptedChat(default="Hello!")
        ...     async with AsyncConversation.open(
        ...         ":memory:", model=model, judge=ScriptedJudge()
        ...     ) as talk:
        ...         return (await talk.say("Hi there")).text
        >>> asyncio.run(main())
        'Hello!'
    """

    async def say(
        self, text: str, *, documents: Sequence[str] = (), turn_id: str | None = None
    ) -> Reply:
        """See `Conversation.say`."""
        talk = self._talk
        return await adrive(talk.alone(answer(talk, text, documents=documents, turn_id=turn_id)))

    async def resume(self, decision: Any = None) -> Reply:
        """See `Conversation.resume`."""
        return await adrive(self._talk.alone(answer(self._talk, None, decision=decision)))

    async def stream(
        self, text: str, *, documents: Sequence[str] = (), turn_id: str | None = None
    ) -> AsyncGenerator[StreamEvent, None]:
        """See `Conversation.stream`."""
        talk = self._talk
        await talk.waiting().awaitable()
        try:
            with translated(talk.database.path):
                opening = await adrive(open_turn(talk, text, documents, turn_id))
                reply = opening.reply
                if reply is None:
                    chunks: Any = talk.graph.astream(opening.value, talk.config, **talk.streaming())
                    async with aclosing(
                        pumped(chunks)
                    ) as read:  # left early, the graph stops before the lock is free
                        async for mode, chunk in read:
                            if (event := event_of(mode, chunk)) is not None:
                                yield event
                    reply = await adrive(close_turn(talk, turn_id))
        finally:
            talk.lock.release()
        yield StreamEvent(kind="reply", text=reply.text, message_id=reply.message_id, reply=reply)

    async def add(self, messages: Iterable[Any]) -> None:
        """See `Conversation.add`."""
        await adrive(self._talk.alone(self._talk.add(messages)))

    async def timeline(self) -> Timeline:
        """See `Conversation.timeline`."""
        return await adrive(self._talk.reading(Talk.timeline))

    async def messages(self) -> list[AnyMessage]:
        """See `Conversation.messages`."""
        return await adrive(self._talk.reading(Talk.record))

    async def events(self) -> list[Event]:
        """See `Conversation.events`."""
        return await adrive(self._talk.reading(events))

    async def note(
        self, text: str, *, event_id: str | None = None, labels: Mapping[str, str] | None = None
    ) -> bool:
        """See `Conversation.note`."""
        return await adrive(self._talk.alone(note(self._talk, text, event_id, labels)))

    async def runs(self, **asked: Any) -> RunPage:
        """See `Conversation.runs`."""
        return await adrive(self._talk.reading(lambda talk: runs(talk, **asked)))

    async def end(self) -> ThreadEntry:
        """See `Conversation.end`."""
        return await adrive(self._talk.alone(end_session(self._talk)))

    async def label(self, /, **labels: str | None) -> ThreadEntry:
        """See `Conversation.label`."""
        return await adrive(self._talk.alone(label_session(self._talk, labels)))

    async def purge(self) -> Purged:
        """See `Conversation.purge`."""
        return await adrive(self._talk.alone(purge(self._talk)))

    async def tool_result(self, tool_call_id: str) -> str:
        """See `Conversation.tool_result`."""
        return await adrive(self._talk.reading(lambda talk: tool_result(talk, tool_call_id)))

    async def replay(
        self,
        *,
        turn: int | None = None,
        run_id: str | None = None,
        attempt: int | None = None,
        model: ModelLike | None = None,
    ) -> Replay:
        """See `Conversation.replay`."""
        return await adrive(
            self._talk.reading(
                lambda talk: replay_request(
                    talk, turn=turn, run_id=run_id, attempt=attempt, model=model
                )
            )
        )

    async def close(self) -> None:
        """See `Conversation.close`."""
        self._talk.database.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()
