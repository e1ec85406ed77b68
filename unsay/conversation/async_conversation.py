"""Written by `docs/generate_async.py` from `conversation.py`."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any, Self

from langchain_core.messages import AnyMessage

from unsay.context.plan import Omission
from unsay.conversation import (
    asking_again,
    audit,
    branching,
    memory,
    model_calls,
    navigation,
    timeline,
    turn_lifecycle,
)
from unsay.conversation.async_collections import AsyncLessons, AsyncPins, AsyncRatings
from unsay.conversation.branching import LIVE, Branch, Diff
from unsay.conversation.facade import OnLoop, OpenedThread, checks_arguments
from unsay.conversation.model_calls import Replay, TurnCalls
from unsay.conversation.streaming import astreamed
from unsay.conversation.thread import Confirm, ThreadHandle
from unsay.conversation.timeline import Timeline
from unsay.effects import adrive
from unsay.errors import InputError
from unsay.memory.recall import Find
from unsay.models.factory import ModelLike
from unsay.results.results import Checkpoint, Event, Preview, Reply, RollbackResult, Target, id_of
from unsay.results.usage import Usage
from unsay.types import Forgotten


@checks_arguments
class AsyncConversation(OpenedThread, OnLoop):
    """`Conversation` for async code."""

    async def say(
        self,
        text: str,
        *,
        documents: Sequence[str] = (),
        images: Sequence[str] = (),
        turn_id: str | None = None,
        answer: str | None = None,
    ) -> Reply:
        """As `Conversation.say`."""
        steps = turn_lifecycle.say(
            self._handle, text, documents=documents, images=images, turn_id=turn_id, answer=answer
        )
        return await adrive(self._handle.alone(steps))

    def stream(
        self,
        text: str | None = None,
        *,
        documents: Sequence[str] = (),
        images: Sequence[str] = (),
        turn_id: str | None = None,
        answer: str | None = None,
        decision: Any = None,
    ) -> AsyncGenerator[Event, None]:
        """As `Conversation.stream`."""
        return astreamed(
            self._handle,
            lambda thread: turn_lifecycle.open_stream(
                thread, text, decision, documents, turn_id, answer, images
            ),
            turn_id,
        )

    async def resume(self, decision: Any = None) -> Reply:
        """As `Conversation.resume`."""
        return await adrive(self._handle.alone(turn_lifecycle.resume(self._handle, decision)))

    async def add(self, messages: Iterable[Any]) -> None:
        """As `Conversation.add`."""
        await adrive(self._handle.alone(self._handle.add(messages)))

    async def messages(self) -> list[AnyMessage]:
        """As `Conversation.messages`."""
        return await adrive(self._handle.reading(ThreadHandle.transcript))

    async def checkpoint(self, name: str | None = None, *, task: bool = False) -> Checkpoint:
        """As `Conversation.checkpoint`."""
        make = navigation.start_task if task else navigation.checkpoint
        return await adrive(self._handle.alone(make(self._handle, name)))

    async def checkpoints(
        self, *, limit: int | None = None, start_after: Target | None = None
    ) -> tuple[Checkpoint, ...]:
        """As `Conversation.checkpoints`."""
        after = id_of(start_after)
        return await adrive(
            self._handle.reading(navigation.checkpoints, limit=limit, start_after=after)
        )

    async def rollback(
        self, to: Target | None = None, *, turns: int | None = None, confirm: Confirm | None = None
    ) -> RollbackResult:
        """As `Conversation.rollback`."""
        steps = navigation.rollback(self._handle, id_of(to), turns=turns, confirm=confirm)
        return await adrive(self._handle.alone(steps))

    async def preview(self, to: Target | None = None, *, turns: int | None = None) -> Preview:
        """As `Conversation.preview`."""
        return await adrive(self._handle.reading(navigation.preview, id_of(to), turns=turns))

    async def undo(self, *, confirm: Confirm | None = None) -> RollbackResult:
        """As `Conversation.undo`."""
        return await adrive(self._handle.alone(navigation.undo(self._handle, confirm=confirm)))

    async def redo(self, *, confirm: Confirm | None = None) -> RollbackResult:
        """As `Conversation.redo`."""
        return await adrive(self._handle.alone(navigation.redo(self._handle, confirm=confirm)))

    async def retry(self) -> Reply:
        """As `Conversation.retry`."""
        return await adrive(self._handle.alone(asking_again.retry(self._handle)))

    async def edit(self, turn: int, text: str) -> Reply:
        """As `Conversation.edit`."""
        return await adrive(self._handle.alone(asking_again.edit(self._handle, turn, text)))

    async def remove(self, turn: int, *, confirm: Confirm | None = None) -> RollbackResult:
        """As `Conversation.remove`."""
        return await adrive(
            self._handle.alone(navigation.remove(self._handle, turn, confirm=confirm))
        )

    async def restore(
        self, what: str | None = None, *, confirm: Confirm | None = None
    ) -> RollbackResult:
        """As `Conversation.restore`."""
        return await adrive(
            self._handle.alone(branching.restore(self._handle, what, confirm=confirm))
        )

    async def branches(self) -> tuple[Branch, ...]:
        """As `Conversation.branches`."""
        return await adrive(self._handle.reading(branching.branches))

    async def diff(self, a: Target, b: Target = LIVE) -> Diff:
        """As `Conversation.diff`."""
        return await adrive(self._handle.reading(branching.diff, id_of(a), id_of(b)))

    async def pick(self, message_ids: Sequence[str], from_: str) -> RollbackResult:
        """As `Conversation.pick`."""
        return await adrive(self._handle.alone(branching.pick(self._handle, message_ids, from_)))

    async def fork(
        self, at: Target | None = None, *, turns: int | None = None, thread: str | None = None
    ) -> Self:
        """As `Conversation.fork`."""
        return self._of(
            await adrive(branching.fork(self._handle, id_of(at), turns=turns, thread=thread))
        )

    @property
    def pins(self) -> AsyncPins:
        """As `Conversation.pins`."""
        return AsyncPins(self._handle)

    @property
    def lessons(self) -> AsyncLessons:
        """As `Conversation.lessons`."""
        return AsyncLessons(self._handle)

    @property
    def ratings(self) -> AsyncRatings:
        """As `Conversation.ratings`."""
        return AsyncRatings(self._handle)

    async def forget(
        self,
        what: str | None = None,
        through: str | None = None,
        *,
        turns: str | int | None = None,
        tool_results_below: float | None = None,
        question: str | None = None,
        reason: str = "",
    ) -> Forgotten:
        """As `Conversation.forget`."""
        if tool_results_below is None:
            steps = memory.forget(self._handle, what, through, turns=turns, reason=reason)
        elif what is None and turns is None:
            steps = memory.forget_tool_results(
                self._handle, tool_results_below, question=question, reason=reason
            )
        else:
            raise InputError("forget: tool_results_below=… goes without a message, topic or turns")
        return await adrive(self._handle.alone(steps))

    async def forgotten(self) -> tuple[Forgotten, ...]:
        """As `Conversation.forgotten`."""
        return await adrive(self._handle.reading(memory.forgotten))

    async def compact(self, up_to: int | Target | None = None) -> Omission:
        """As `Conversation.compact`."""
        return await adrive(self._handle.alone(memory.compact(self._handle, id_of(up_to))))

    async def recall(self, words: str) -> tuple[Find, ...]:
        """As `Conversation.recall`."""
        return await adrive(self._handle.alone(memory.recall(self._handle, words)))

    async def same_topic(self) -> str:
        """As `Conversation.same_topic`."""
        return await adrive(self._handle.alone(memory.same_topic(self._handle)))

    async def timeline(self) -> Timeline:
        """As `Conversation.timeline`."""
        return await adrive(self._handle.reading(timeline.timeline))

    async def context(self, turn: int | None = None, *, attempt: int | None = None) -> TurnCalls:
        """As `Conversation.context`."""
        return await adrive(self._handle.reading(model_calls.context, turn, attempt=attempt))

    async def replay(
        self,
        *,
        turn: int | None = None,
        run_id: str | None = None,
        attempt: int | None = None,
        model: ModelLike | None = None,
    ) -> Replay:
        """As `Conversation.replay`."""
        steps = self._handle.reading(
            model_calls.replay, turn=turn, run_id=run_id, attempt=attempt, model=model
        )
        return await adrive(steps)

    async def tool_result(self, tool_call_id: str) -> str:
        """As `Conversation.tool_result`."""
        return await adrive(self._handle.reading(audit.tool_result, tool_call_id))

    async def tokens(self, *, spent: bool = True) -> Usage:
        """As `Conversation.tokens`."""
        return await adrive(self._handle.reading(audit.tokens, spent=spent))
