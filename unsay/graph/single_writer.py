"""One writer per thread: a run or an update holds the thread's lock and lease to its end."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph._internal._config import ensure_config
from langgraph._internal._constants import CONFIG_KEY_CHECKPOINTER, CONFIG_KEY_READ
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph

from unsay.effects import Steps, adrive, drive, off_loop
from unsay.errors import ThreadBusyError
from unsay.graph.late_writer import TERM, put_right
from unsay.graph.parent_writer import hold_for_parent
from unsay.graph.time_travel import place_of
from unsay.runtime import Services
from unsay.storage.base import LOST_ADVICE
from unsay.storage.leases import LOST
from unsay.storage.saver_leases import SaverLease, leases_of
from unsay.storage.writer_lock import AROUND, Hold, WriterLock, lock_on, take_thread

# Where the config of a run carries its `Hold` to the nodes. Only a Python object counts, so the
# JSON of a server's client cannot claim to hold a thread. LangGraph leaves keys that begin like
# this out of its streams.
HOLD = "__pregel_unsay_hold"


@contextmanager
def one_writer(
    graph: CompiledStateGraph[Any, Any, Any, Any],
    config: RunnableConfig | None,
    services: Services,
    *,
    is_held: bool,
) -> Iterator[RunnableConfig | None]:
    """Hold the thread that a run or an update writes to; yield the configuration to use.

    First it puts right what a late writer left (see `put_right`). It yields `config` with the hold
    in it, which the nodes read. Without a thread id or a checkpointer it holds nothing, and yields
    `config` as it is. Inside another graph the thread is that of the graph around, and stays held
    until the run of that graph ends.

    Args:
        graph: The graph that will run.
        config: As the host gave it.
        services: Of the graph; their settings say how long to wait for other writers.
        is_held: Whether the caller holds the thread already and will release it.

    Raises:
        InputError: The thread's id cannot be used.
        ThreadBusyError: Another writer has the thread, or took it over during the run.
        StorageError: What a late writer left cannot be put right, because it is damaged.
    """
    place = ensure_config(graph.config, config)["configurable"]
    hold = drive(_hold_on(graph, place, services, is_held=is_held))
    own_config, lost = _with_hold(config, hold, place), False
    is_held = is_held or _is_nested(place)
    try:
        with _translated():
            drive(_put_right(graph, own_config, services, hold))
            yield own_config
            drive(_verified(hold))
    except ThreadBusyError:
        lost = True
        raise
    finally:
        if hold is not None and not is_held:
            hold.release()
        if lost:
            drive(_put_right_later(graph, config, services, hold))


@asynccontextmanager
async def one_writer_awaited(
    graph: CompiledStateGraph[Any, Any, Any, Any],
    config: RunnableConfig | None,
    services: Services,
    *,
    is_held: bool,
) -> AsyncIterator[RunnableConfig | None]:
    """Do on an event loop what `one_writer` does, with the same arguments and errors."""
    place = ensure_config(graph.config, config)["configurable"]
    hold = await adrive(_hold_on(graph, place, services, is_held=is_held))
    own_config, lost = _with_hold(config, hold, place), False
    is_held = is_held or _is_nested(place)
    try:
        with _translated():
            await adrive(_put_right(graph, own_config, services, hold))
            yield own_config
            await adrive(_verified(hold))
    except ThreadBusyError:
        lost = True
        raise
    finally:
        if hold is not None and not is_held:
            # To its end: the host may close the checkpointer or the loop right afterwards.
            await asyncio.shield(asyncio.to_thread(hold.release))
        if lost:
            await adrive(_put_right_later(graph, config, services, hold))


@contextmanager
def inside(config: RunnableConfig | None) -> Iterator[Hold]:
    """Yield the hold of a run while one of its nodes works; `verify` it before the node's commit.

    Meanwhile code of the node that wants to write to the same thread gets `ThreadBusyError` at once,
    since it would wait for its own run without end. For a run that holds nothing, `verify` does
    nothing.
    """
    hold = (config or {}).get("configurable", {}).get(HOLD)
    if not isinstance(hold, Hold):
        yield Hold(WriterLock(), lease=None)
        return
    token = AROUND.set((*AROUND.get(), hold))
    try:
        yield hold
    finally:
        AROUND.reset(token)


def _is_nested(place: Mapping[str, Any]) -> bool:
    # Only LangGraph puts a function there, for a graph that is a node of another one.
    return callable(place.get(CONFIG_KEY_READ))


def _hold_on(
    graph: CompiledStateGraph[Any, Any, Any, Any],
    place: Mapping[str, Any],
    services: Services,
    *,
    is_held: bool,
) -> Steps[Hold | None]:
    """Take the thread that a configuration names; `None` without a thread id or a checkpointer.

    With `is_held` it is the hold that the caller has already. `None` also inside another unsay
    graph, whose run has its thread already. Raises `ThreadBusyError` if the thread is not free in
    time; the thread's id is not checked here.
    """
    settings = services.settings
    if _is_nested(place):
        if isinstance(place.get(HOLD), Hold):
            return None
        return (yield from hold_for_parent(place, settings.lease_seconds))
    thread_id, saver = (
        place.get("thread_id"),
        place.get(CONFIG_KEY_CHECKPOINTER, graph.checkpointer),
    )
    if thread_id is None or not isinstance(saver, BaseCheckpointSaver):
        return None
    leases = leases_of(saver)
    if is_held:
        return lock_on(leases, str(thread_id)).hold
    return (
        yield from take_thread(
            leases,
            str(thread_id),
            wait_seconds=settings.thread_wait_seconds,
            lease_seconds=settings.lease_seconds,
        )
    )


def _with_hold(
    config: RunnableConfig | None, hold: Hold | None, place: Mapping[str, Any]
) -> RunnableConfig | None:
    if hold is None:
        return config
    given: RunnableConfig = config or {}
    # All of `place`: a configuration that has a part of it would replace that of the graph around.
    held: RunnableConfig = {**given, "configurable": {**place, HOLD: hold}}
    if not _is_nested(place) and (lease := _lease_of(hold)) is not None:
        held["metadata"] = {**given.get("metadata", {}), TERM: lease.token}
    return held


def _lease_of(hold: Hold | None) -> SaverLease | None:
    """Return the lease of a hold if its checkpointer cannot check it at each write; else `None`."""
    lease = None if hold is None else hold.lease
    return lease if isinstance(lease, SaverLease) and lease.token is not None else None


def _put_right(
    graph: CompiledStateGraph[Any, Any, Any, Any],
    config: RunnableConfig | None,
    services: Services,
    hold: Hold | None,
    lost: int | None = None,
) -> Steps[None]:
    """Call `put_right` if a writer that lost the thread may still have written; else do nothing.

    `lost` is the term that the caller lost during its run; `None` before a run. Raises `InputError`
    if the thread's id cannot be used, and the errors of `put_right`.
    """
    lease, place = _lease_of(hold), place_of(graph, services, config)
    if lease is not None and place is not None and lease.unreleased:
        yield from put_right(place, lease.unreleased, lost)


def _verified(hold: Hold | None) -> Steps[None]:
    """After a run or an update, raise `ThreadBusyError` if another writer took over the thread.

    Without a hold nothing is done, nor if the database checks the lease at each write.
    """
    if hold is not None:
        yield from hold.verify()


def _put_right_later(
    graph: CompiledStateGraph[Any, Any, Any, Any],
    config: RunnableConfig | None,
    services: Services,
    lost: Hold | None,
) -> Steps[None]:
    """Take the thread again after a run lost it, and keep what was written too late as a branch.

    Nothing is raised: if other writers are faster or the checkpointer fails, the next run does it.
    """
    place, lease = ensure_config(graph.config, config)["configurable"], _lease_of(lost)
    if _is_nested(place) or lease is None:
        return
    with suppress(Exception):  # it must not hide why the run is refused
        hold = yield from _hold_on(graph, place, services, is_held=False)
        if hold is None:
            return
        try:
            yield from _put_right(
                graph, _with_hold(config, hold, place), services, hold, lease.token
            )
        finally:
            yield off_loop(hold.release)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        if str(error) != LOST:
            raise
        raise ThreadBusyError(LOST_ADVICE) from error
