"""The classes for async code, written by `docs/generate_async.py` from those for scripts."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Self, Unpack

from langchain_core.messages import AnyMessage

from unsay.context.plan import Omission
from unsay.conversation import branching, model_calls, records, timeline, turn_lifecycle
from unsay.conversation.branching import LIVE
from unsay.conversation.facade import (
    OnLoop,
    OpenedStore,
    OpenedThread,
    Part,
    astreamed,
    checks_arguments,
)
from unsay.conversation.model_calls import Replay, TurnCalls
from unsay.conversation.thread import Confirm, ThreadHandle
from unsay.conversation.timeline import Timeline
from unsay.effects import adrive
from unsay.errors import InputError
from unsay.history import runs, threads
from unsay.history.runs import Run, RunFilters, RunPage
from unsay.history.threads import SessionPage, SessionStatus, ThreadInfo
from unsay.memory.lessons import Lesson, Rating
from unsay.memory.recall import Find
from unsay.models.factory import ModelLike
from unsay.orders import order as orders
from unsay.results.lists import Branch, Diff
from unsay.results.results import Checkpoint, Event, Preview, Reply, RollbackResult, Target, id_of
from unsay.results.usage import Usage
from unsay.storage.base import Purged
from unsay.types import Event as LoggedEvent
from unsay.types import Forgotten, Pin


@checks_arguments
class AsyncPins(Part):
    """`Pins` for async code."""

    async def add(
        self, message_id: str | None = None, *, turn: int | None = None
    ) -> tuple[Pin, ...]:
        """As `Pins.add`."""
        return await adrive(
            self._handle.result_of(orders.AddPins(message_id=message_id, turn=turn))
        )

    async def remove(
        self, message_id: str | None = None, *, turn: int | None = None
    ) -> tuple[Pin, ...]:
        """As `Pins.remove`."""
        return await adrive(
            self._handle.result_of(orders.RemovePins(message_id=message_id, turn=turn))
        )

    async def list(self) -> tuple[Pin, ...]:
        """As `Pins.list`."""
        return await adrive(self._handle.reading(records.pins))


@checks_arguments
class AsyncLessons(Part):
    """`Lessons` for async code."""

    async def list(self) -> tuple[Lesson, ...]:
        """As `Lessons.list`."""
        return await adrive(self._handle.reading(records.lessons))

    async def change(self, lesson: str | int, text: str) -> Lesson:
        """As `Lessons.change`."""
        return await adrive(
            self._handle.result_of(orders.ChangeLesson(lesson=str(lesson), text=text))
        )

    async def remove(self, lesson: str | int) -> Lesson:
        """As `Lessons.remove`."""
        return await adrive(self._handle.result_of(orders.ChangeLesson(lesson=str(lesson))))


@checks_arguments
class AsyncRatings(Part):
    """`Ratings` for async code."""

    async def add(self, turn: int, label: str, *, note: str = "") -> Rating:
        """As `Ratings.add`."""
        return await adrive(self._handle.result_of(orders.Rate(turn=turn, label=label, note=note)))

    async def list(self) -> tuple[Mapping[str, Any], ...]:
        """As `Ratings.list`."""
        return await adrive(self._handle.reading(records.ratings))


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
        return await adrive(self._handle.result_of(orders.SaveCheckpoint(name=name, task=task)))

    async def checkpoints(
        self, *, limit: int | None = None, start_after: Target | None = None
    ) -> tuple[Checkpoint, ...]:
        """As `Conversation.checkpoints`."""
        after = id_of(start_after)
        return await adrive(
            self._handle.reading(records.checkpoints, limit=limit, start_after=after)
        )

    async def rollback(
        self, to: Target | None = None, *, turns: int | None = None, confirm: Confirm | None = None
    ) -> RollbackResult:
        """As `Conversation.rollback`."""
        order = orders.Rollback(to=id_of(to), turns=turns)
        return await adrive(self._handle.result_of(order, confirm=confirm))

    async def preview(self, to: Target | None = None, *, turns: int | None = None) -> Preview:
        """As `Conversation.preview`."""
        return await adrive(self._handle.reading(records.preview, id_of(to), turns=turns))

    async def undo(self, *, confirm: Confirm | None = None) -> RollbackResult:
        """As `Conversation.undo`."""
        return await adrive(self._handle.result_of(orders.Undo(), confirm=confirm))

    async def redo(self, *, confirm: Confirm | None = None) -> RollbackResult:
        """As `Conversation.redo`."""
        return await adrive(self._handle.result_of(orders.Redo(), confirm=confirm))

    async def retry(self) -> Reply:
        """As `Conversation.retry`."""
        return await adrive(self._handle.alone(turn_lifecycle.retry(self._handle)))

    async def edit(self, turn: int, text: str) -> Reply:
        """As `Conversation.edit`."""
        return await adrive(self._handle.alone(turn_lifecycle.edit(self._handle, turn, text)))

    async def remove(self, turn: int, *, confirm: Confirm | None = None) -> RollbackResult:
        """As `Conversation.remove`."""
        return await adrive(self._handle.result_of(orders.Remove(turn=turn), confirm=confirm))

    async def restore(
        self, what: str | None = None, *, confirm: Confirm | None = None
    ) -> RollbackResult:
        """As `Conversation.restore`."""
        return await adrive(self._handle.result_of(orders.Restore(what=what), confirm=confirm))

    async def branches(self) -> tuple[Branch, ...]:
        """As `Conversation.branches`."""
        return await adrive(self._handle.reading(branching.branches))

    async def diff(self, a: Target, b: Target = LIVE) -> Diff:
        """As `Conversation.diff`."""
        return await adrive(self._handle.reading(branching.diff, id_of(a), id_of(b)))

    async def pick(self, message_ids: Sequence[str], from_: str) -> RollbackResult:
        """As `Conversation.pick`."""
        return await adrive(
            self._handle.result_of(orders.Pick(message_ids=message_ids, source=from_))
        )

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
            order = orders.Forget(what=what, through=through, turns=turns, reason=reason)
            return await adrive(self._handle.result_of(order))
        if what is not None or turns is not None:
            raise InputError("forget: tool_results_below=… goes without a message, topic or turns")
        below = orders.ForgetToolResults(below=tool_results_below, question=question, reason=reason)
        return await adrive(self._handle.result_of(below))

    async def forgotten(self) -> tuple[Forgotten, ...]:
        """As `Conversation.forgotten`."""
        return await adrive(self._handle.reading(records.forgotten))

    async def compact(self, up_to: int | Target | None = None) -> Omission:
        """As `Conversation.compact`."""
        return await adrive(self._handle.result_of(orders.Compact(up_to=id_of(up_to))))

    async def recall(self, words: str) -> tuple[Find, ...]:
        """As `Conversation.recall`."""
        return await adrive(self._handle.result_of(orders.Recall(words=words)))

    async def same_topic(self) -> str:
        """As `Conversation.same_topic`."""
        return await adrive(self._handle.result_of(orders.JoinTopics()))

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
        return await adrive(self._handle.reading(records.tool_result, tool_call_id))

    async def tokens(self, *, spent: bool = True) -> Usage:
        """As `Conversation.tokens`."""
        return await adrive(self._handle.reading(records.tokens, spent=spent))


@checks_arguments
class AsyncRegistry(OpenedStore, OnLoop):
    """`Registry` for async code."""

    async def sessions(
        self,
        *,
        status: SessionStatus | None = None,
        labels: Mapping[str, str] | None = None,
        since: str | datetime | None = None,
        until: str | datetime | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> SessionPage:
        """As `Registry.sessions`."""
        page = threads.search_sessions(
            self._store,
            status=status,
            labels=labels,
            since=since,
            until=until,
            cursor=cursor,
            limit=limit,
        )
        return await adrive(self._listed(page))

    async def session(self, thread_id: str) -> ThreadInfo:
        """As `Registry.session`."""
        return await adrive(self._listed(threads.get_session(self._store, thread_id)))

    async def runs(self, thread_id: str | None = None, **filters: Unpack[RunFilters]) -> RunPage:
        """As `Registry.runs`."""
        return await adrive(
            self._listed(runs.list_runs(self._store, thread_id=thread_id, **filters))
        )

    async def run(self, thread_id: str, run_id: str) -> Run:
        """As `Registry.run`."""
        return await adrive(self._listed(runs.get_run(self._store, thread_id, run_id)))

    async def children(self, run_id: str, *, thread_id: str | None = None) -> list[Run]:
        """As `Registry.children`."""
        return await adrive(self._listed(runs.children(self._store, run_id, thread_id=thread_id)))

    async def events(self, thread_id: str) -> list[LoggedEvent]:
        """As `Registry.events`."""
        return await adrive(self._thread(thread_id).reading(records.events))

    async def note(
        self,
        thread_id: str,
        text: str,
        *,
        event_id: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> bool:
        """As `Registry.note`."""
        thread = self._thread(thread_id)
        return await adrive(
            thread.alone(records.note(thread, text, event_id=event_id, labels=labels))
        )

    async def label(self, thread_id: str, /, **labels: str | None) -> ThreadInfo:
        """As `Registry.label`."""
        thread = self._thread(thread_id)
        return await adrive(thread.alone(records.label(thread, **labels)))

    async def end(self, thread_id: str) -> ThreadInfo:
        """As `Registry.end`."""
        thread = self._thread(thread_id)
        return await adrive(thread.alone(records.end(thread)))

    async def purge(self, thread_id: str) -> Purged:
        """As `Registry.purge`."""
        return await adrive(self._listed(records.purge_in(self._place, thread_id)))
