"""The conversation for async code."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Self

from langchain_core.messages import AnyMessage

from unsay.effects import adrive
from unsay.graph.pumping import pumped
from unsay.graph.records import (
    end_session,
    events,
    label_session,
    note,
    purge,
    replay_request,
    runs,
    tool_result,
)
from unsay.graph.replay import Replay
from unsay.graph.reply import Event as StreamEvent
from unsay.graph.reply import Reply, event_of
from unsay.graph.talk import Talk
from unsay.graph.timeline import Timeline
from unsay.graph.verbs import AsyncMoving
from unsay.history.catalogue import ThreadEntry
from unsay.history.database import translated
from unsay.history.purge import Purged
from unsay.history.runs import RunPage
from unsay.models import ModelLike
from unsay.types import Event


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
        return await adrive(talk.alone(talk.answer(text, documents=documents, turn_id=turn_id)))

    async def resume(self, decision: Any = None) -> Reply:
        """See `Conversation.resume`."""
        return await adrive(self._talk.alone(self._talk.answer(None, decision=decision)))

    async def stream(
        self, text: str, *, documents: Sequence[str] = (), turn_id: str | None = None
    ) -> AsyncGenerator[StreamEvent, None]:
        """See `Conversation.stream`."""
        talk = self._talk
        await talk.waiting().awaitable()
        try:
            with translated(talk.database.path):
                opening = await adrive(talk.opening(text, documents, turn_id))
                reply = opening.reply
                if reply is None:
                    chunks: Any = talk.graph.astream(opening.value, talk.config, **talk.streaming())
                    async with aclosing(
                        pumped(chunks)
                    ) as read:  # left early, the graph stops before the lock is free
                        async for mode, chunk in read:
                            if (event := event_of(mode, chunk)) is not None:
                                yield event
                    reply = await adrive(talk.closing(turn_id))
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
