"""One writer per thread for a graph around unsay: its run holds the thread until the run ends.

The graph around unsay reads and writes its states without a lock. So its run takes the thread when it
reaches unsay, and is refused there if the thread has a turn that the run does not build on. States
that a run writes while it has the thread are marked in their metadata.

LangGraph does not tell a node about the run around it. It does give a node the function that
schedules further tasks, which belongs to the run.
"""

import asyncio
import inspect
import sqlite3
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any, cast
from weakref import WeakKeyDictionary, finalize

from langchain_core.runnables import RunnableConfig
from langgraph._internal._constants import CONFIG_KEY_CALL, CONFIG_KEY_CHECKPOINTER
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    empty_checkpoint,
)
from langgraph.pregel._loop import AsyncPregelLoop

from unsay.effects import Call, Steps, adrive, drive
from unsay.errors import ThreadBusyError
from unsay.storage.base import LOST_ADVICE, follow_or_refuse
from unsay.storage.leases import LOST, on_loop
from unsay.storage.writer_lock import Hold, leases_of, take_thread

HELD = "unsay_held"
"""Where the metadata of a state has the term of the lease of the run that wrote it; 0 without a lease."""

# The metadata of each state that has a term, for a checkpointer to look for: it compares values alone.
HAS_TERM = {"unsay_has_term": True}

REFUSED = (
    "Another run wrote to the thread {thread_id!r} after this run of the graph around unsay began, or "
    "is still running: read its messages, then send this again. Unsay called no model"
)
# States that are read at first to look for those of others, usually enough; four times as many then.
FIRST_LOOK = 2
# States that are read at most if none of the thread has a term, unless more are newer than the one
# that the run began from.
LAST_LOOK = 32
# How long a refused run waits for the thread, so that it can put the turn of the other run on top.
PUT_BACK_SECONDS = 0.1

_HOLDS: WeakKeyDictionary[Any, Future[Hold]] = WeakKeyDictionary()
_MUTEX = Lock()


def hold_for_parent(place: Mapping[str, Any]) -> Steps[Hold | None]:
    """Take the thread of the graph around a node until its run ends; all nodes of a run share it.

    Args:
        place: The `configurable` part of the node's configuration.

    Returns:
        The right to write; `None` if no checkpointer keeps the thread, or LangGraph does not tell
        which run it is.

    Raises:
        ThreadBusyError: Another run has the thread, or wrote to it after this one began.
    """
    saver, thread_id = place.get(CONFIG_KEY_CHECKPOINTER), place.get("thread_id")
    loop = outermost(place)
    if loop is None or thread_id is None or not isinstance(saver, BaseCheckpointSaver):
        return None
    with _MUTEX:
        hold_future = _HOLDS.get(loop)
        shared = _HOLDS.setdefault(loop, Future())
    if hold_future is not None:
        theirs = yield from Call(
            blocking=hold_future.result,
            awaitable=lambda: asyncio.shield(asyncio.wrap_future(hold_future)),
        )
        return theirs
    run = Run(loop=loop, saver=saver, thread_id=str(thread_id))
    try:
        hold = yield from run.take()
    except BaseException as error:
        with _MUTEX:
            del _HOLDS[loop]  # the parent may try its node again
        shared.set_exception(error)
        raise
    shared.set_result(hold)
    return hold


def outermost(place: Mapping[str, Any]) -> Any:
    """Return LangGraph's loop, the object of a run, of the outermost graph; `None` if not found.

    `place` is the `configurable` part of the node's configuration.
    """
    loop = None
    while place.get(CONFIG_KEY_CALL) is not None:
        outer = loop_around(place)
        if outer is None or outer is loop:
            return None
        loop, place = outer, outer.config.get("configurable", {})
    return loop


def loop_around(place: Mapping[str, Any]) -> Any:
    """Return LangGraph's loop of the graph around a node; `None` if it is not found."""
    call = place.get(CONFIG_KEY_CALL)
    if inspect.isfunction(call):  # of a node with a timeout
        call = inspect.getclosurevars(call).nonlocals.get("call")
    schedule = getattr(call, "keywords", {}).get("schedule_task")
    return getattr(schedule, "__self__", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run of the graph around unsay: LangGraph's loop, and the thread that it writes.

    `hold_for_parent` makes it for the first node that reaches unsay.
    """

    loop: Any
    saver: BaseCheckpointSaver[Any]
    thread_id: str

    def take(self) -> Steps[Hold]:
        """Take the thread until the run ends, and return the right to write.

        Raises `ThreadBusyError` if another run has the thread, or wrote to it after this one began.
        """
        try:
            # Waiting would not help: what the other writes is not among the messages of this run.
            hold = yield from self._thread(wait_seconds=0)
        except ThreadBusyError as error:
            self._at_end(None)
            raise ThreadBusyError(REFUSED.format(thread_id=self.thread_id)) from error
        try:
            for newest in (yield from self._newest(1)):
                follow_or_refuse(newest, self.thread_id)
            is_stored = yield from self._all_stored()
            if is_stored and (yield from self._newest_of_others()) is not None:
                raise ThreadBusyError(REFUSED.format(thread_id=self.thread_id))
        except BaseException:
            yield from hold.end()
            self._at_end(None)
            raise
        loop = self.loop
        marked = {**loop.checkpoint_config.get("metadata", {}), HELD: _term(hold), **HAS_TERM}
        loop.checkpoint_config = {**loop.checkpoint_config, "metadata": marked}
        self._at_end(hold)
        return hold

    def _thread(self, *, wait_seconds: float) -> Steps[Hold]:
        leases = leases_of(self.saver)
        return (yield from take_thread(leases, self.thread_id, wait_seconds=wait_seconds))

    def _at_end(self, hold: Hold | None) -> None:
        """Have LangGraph call `_end` when it has written the last state of the run.

        `_end` releases the thread or, with `None` for a refused run, calls `_put_back`.
        """
        if hold is not None:  # at the latest when the loop is deleted
            finalize(self.loop, hold.release)

        async def awaited(_: object, error: BaseException | None, *__: object) -> None:
            await adrive(self._end(hold, error))

        def blocking(_: object, error: BaseException | None, *__: object) -> None:
            drive(self._end(hold, error))

        # The first entry of the stack is the last that its end calls.
        is_awaited = isinstance(self.loop, AsyncPregelLoop)
        entry = (not is_awaited, awaited if is_awaited else blocking)
        self.loop.stack._exit_callbacks.appendleft(entry)

    def _end(self, hold: Hold | None, error: BaseException | None) -> Steps[None]:
        if hold is None:
            yield from self._put_back()
            return
        try:
            yield from hold.verify()
        except ThreadBusyError:
            yield from hold.end()
            yield from self._put_back()
            raise
        finally:
            yield from hold.end()
        if isinstance(error, sqlite3.Error) and str(error) == LOST:
            raise ThreadBusyError(LOST_ADVICE) from error

    def _put_back(self) -> Steps[None]:
        """Copy the newest state of other writers on top, unless the newest state builds on it.

        If the thread is taken or the checkpointer fails, nothing is done and nothing is raised: the
        next run is refused, too, and then does it.
        """
        with suppress(Exception):  # it must not hide why the run is refused
            hold = yield from self._thread(wait_seconds=PUT_BACK_SECONDS)
            try:
                theirs = yield from self._newest_of_others()
                states = yield from self._newest(LAST_LOOK)
                if theirs is not None and not _builds_on(states, theirs):
                    follow_or_refuse(states[0], self.thread_id)
                    yield from self._copy(theirs, _term(hold))
            finally:
                yield from hold.end()

    def _copy(self, state: CheckpointTuple, term: int) -> Call[RunnableConfig]:
        new = empty_checkpoint()
        copied = cast("Checkpoint", {**state.checkpoint, "id": new["id"], "ts": new["ts"]})
        copy_metadata = {**state.metadata, "source": "fork", HELD: term, **HAS_TERM}
        metadata = cast("CheckpointMetadata", copy_metadata)
        return Call.of(self.saver.put, self.saver.aput, state.config, copied, metadata, {})

    def _all_stored(self) -> Steps[bool]:
        """Wait until the states of the run are stored, or could not be stored, and return `True`.

        Returns `False` at once if the wait would block the event loop that stores them.
        """
        put_future = getattr(self.loop, "_put_checkpoint_fut", None)

        def blocking() -> bool:
            # A task of an event loop cannot end while the caller blocks the loop.
            while not (put_future is None or put_future.done()):
                if on_loop() and not isinstance(put_future, Future):
                    return False
                time.sleep(0.001)
            return True

        async def awaited() -> bool:
            while not (put_future is None or put_future.done()):  # noqa: ASYNC110 - perhaps of another loop
                await asyncio.sleep(0.001)
            return True

        return (yield from Call(blocking=blocking, awaitable=awaited))

    def _newest_of_others(self) -> Steps[CheckpointTuple | None]:
        """Return the newest state with a turn on which this run does not build; `None` without one.

        `None` also for a run that began from an earlier state, which a host does on purpose.
        """
        loop = self.loop
        place, began = loop.checkpoint_config["configurable"], loop._initial_checkpoint_config
        is_earlier = loop._has_persisted_parent and not loop._loaded_latest
        if is_earlier or str(place.get("thread_id")) != self.thread_id:
            return None
        base = began["configurable"].get("checkpoint_id") if loop._has_persisted_parent else None
        limit = FIRST_LOOK
        while True:
            states = yield from self._newest(limit)
            theirs, is_sure = _outside(states, place.get("checkpoint_id"), base or "")
            if is_sure or len(states) < limit:
                return theirs
            is_enough = limit >= LAST_LOOK and _id(states[-1]) <= (base or "")
            # Runs that never reached unsay may have written any number of states on top of a turn.
            if is_enough and (theirs is not None or not (yield from self._newest(1, HAS_TERM))):
                return theirs
            limit *= 4

    def _newest(
        self, limit: int, metadata: dict[str, Any] | None = None
    ) -> Steps[list[CheckpointTuple]]:
        """Return up to `limit` states of the thread, newest first, if given those with `metadata`.

        Empty if the checkpointer has no method to list them; its other errors are raised.
        """
        ns = self.loop.checkpoint_config["configurable"].get("checkpoint_ns", "")
        configurable = {"thread_id": self.thread_id, "checkpoint_ns": ns}
        config: RunnableConfig = {"configurable": configurable}
        listing = Call.listing(
            self.saver.list, self.saver.alist, config, filter=metadata, limit=limit
        )
        checkpoints: list[CheckpointTuple] = []
        with suppress(NotImplementedError):
            checkpoints = yield from listing
        return checkpoints


def _outside(
    states: Sequence[CheckpointTuple], own: str | None, base: str
) -> tuple[CheckpointTuple | None, bool]:
    """Return the newest of `states` that others wrote and the run does not build on; else `None`.

    The run builds on `own` and its parents, and on states with the same term as the newest of
    these that has one, or an earlier term. A state without a term counts only if a host wrote it
    after `base`. The second result is whether older states need not be read.

    Args:
        states: The newest of the thread, newest first.
        own: Id of the newest state of the run; its parents are looked for among `states`.
        base: Id of the state from which the run began.
    """
    theirs, line, built_on = None, own, None
    for state in states:
        metadata: Any = state.metadata
        name, term = _id(state), metadata.get(HELD)
        is_host = metadata.get("source") in ("update", "fork")
        # The state `base` is in the run's line, also before `own` if the clock is behind.
        if name in (line, base) and built_on is None:
            # What a host wrote, it wrote on purpose, whatever it left behind.
            built_on = float("inf") if term is None and is_host else term
            line = _parent_id(state)
        elif term is not None:
            # A later term than that of the run's own line: a writer that lost the thread still wrote.
            if theirs is None and (built_on is None or term > built_on):
                theirs = state
        elif is_host and name > base and theirs is None:
            theirs = state
    return theirs, built_on is not None


def _builds_on(states: Sequence[CheckpointTuple], earlier: CheckpointTuple) -> bool:
    """Return whether the newest of the states is or follows the state `earlier`.

    `states` are 1 or more, newest first.
    """
    line: str | None = _id(states[0])
    for state in states:
        if _id(state) == line == _id(earlier):
            return True
        if _id(state) == line:
            line = _parent_id(state)
    return False


def _term(hold: Hold) -> int:
    return getattr(hold.lease, "token", None) or 0


def _id(state: CheckpointTuple) -> str:
    return str(state.config["configurable"]["checkpoint_id"])


def _parent_id(state: CheckpointTuple) -> str | None:
    parent: str | None = (state.parent_config or {}).get("configurable", {}).get("checkpoint_id")
    return parent
