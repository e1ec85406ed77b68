"""One writer per thread: a run or an update holds the thread's lock and lease to its end.

What a run writes to a thread that is deleted meanwhile is deleted at its end.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from typing import Any, cast
from uuid import uuid4

from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config as with_defaults
from langgraph._internal._config import ensure_config, recast_checkpoint_ns
from langgraph._internal._constants import (
    CONFIG_KEY_CHECKPOINT_NS,
    CONFIG_KEY_CHECKPOINTER,
    CONFIG_KEY_READ,
    CONFIG_KEY_RUNTIME,
)
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import StateSnapshot, StateUpdate
from langgraph_sdk import get_client
from langgraph_sdk.errors import NotFoundError

from unsay.effects import Call, Steps, adrive, drive
from unsay.errors import ThreadBusyError
from unsay.history.branch import Label
from unsay.history.threads import UnderWay, purge_items, under_way
from unsay.hosts.parent_writer import hold_for_parent
from unsay.hosts.time_travel import END_NODE, Place, due_again, is_orphan, place_of, rejoin
from unsay.moves.reconcile import false_claims, with_messages
from unsay.runtime import Services
from unsay.state import State, Update
from unsay.storage import writer_lock
from unsay.storage.base import LOST_ADVICE, follow_or_refuse
from unsay.storage.leases import LOST, Leases
from unsay.transcript.live import readable_branches
from unsay.transcript.record import message_body, write_ahead
from unsay.turn.runs import keep_beside

TERM = "unsay_term"
"""Where the metadata of a state has the term of the lease under which it was written."""

# States among which those of two writers are looked for. A late writer writes one state, since its
# next check refuses it.
LOOK_BACK = 20
# So many terms after a takeover, late states with older ids are looked for.
LATE_TERMS = 8


def put_right(place: Place, unreleased: int, lost: int | None = None) -> Steps[None]:
    """Make the latest term's state the newest, and keep a late writer's messages as a branch.

    A term is the number of a lease; each new owner gets a higher one. Nothing is written if the
    newest state shows that no late writer can have written. Before a run, if one still may but
    has not, the newest state is copied, so that what it writes too late does not reach the copy.
    A state that waits for a decision is not copied. Raises `DatabaseCorruptError` if what is stored
    is damaged, and the errors of the checkpointer.

    Args:
        place: The thread; the caller holds its lock and lease.
        unreleased: The newest term whose owner did not release it, and so may still write.
        lost: The term that the caller lost during its run; `None` before a run.
    """
    newest_state = yield from place.stored(place.newest())
    if newest_state is None or (lost is None and _term(newest_state) > unreleased + LATE_TERMS):
        return
    follow_or_refuse(newest_state, place.thread_id)
    states = yield from place.history(place.newest(), limit=LOOK_BACK)
    if lost is None and _term(newest_state) > unreleased:
        # A late writer that made its state's id before it was suspended, and then ended.
        if (older := _beside(states, unreleased)) is not None:
            yield from _keep_late(place, older, max(states, key=_term), is_newest=False)
        return
    late = next((each for each in states if lost is None or _term(each) == lost), None)
    latest = max(states, key=_term)
    if late is not None and 0 < _term(late) < _term(latest):
        yield from _keep_late(place, late, latest, is_newest=late is states[0])
    elif lost is None and not states[0].interrupts:
        # A late writer's messages are stored with the state that its run began from, and every
        # state after that one reads them. A copy has no part in them.
        yield from place.write([StateUpdate(None, "__copy__")])


def _beside(states: Sequence[StateSnapshot], unreleased: int) -> StateSnapshot | None:
    """Return a late writer's newest state that the thread's newest state does not build on.

    Only states of the term `unreleased` and earlier ones count. `None` if there is none.
    """
    line: RunnableConfig | None = states[0].config
    for state in states:
        if line is not None and _checkpoint_id(state.config) == _checkpoint_id(line):
            line = state.parent_config
        elif 0 < _term(state) <= unreleased:
            return state
    return None


def _checkpoint_id(config: RunnableConfig) -> str:
    return str(config["configurable"]["checkpoint_id"])


def _term(state: Any) -> int:
    """Return the term in which a state was written; 0 if it does not say."""
    return int((state.metadata or {}).get(TERM, 0))


def _keep_late(
    place: Place, late: StateSnapshot, latest: StateSnapshot, *, is_newest: bool
) -> Steps[None]:
    """Store the messages that only a late state has as a branch, and go on from the latest state.

    `late` is the state of the writer that lost the thread, `latest` that of the latest term. If
    `late` is not the thread's newest state (`is_newest`), and has no messages of its own, nothing
    is written.
    """
    before: list[AnyMessage] = []
    if late.parent_config is not None:
        before = _messages((yield from place.snapshot(late.parent_config)))
    state, scope = cast("State", latest.values), place.scope()
    added = _only_in(_messages(late), before, _messages(latest))
    if added:
        refs = state.get("branches", [])
        branches = yield from readable_branches([ref["id"] for ref in refs], scope, refs)
        branch_bodies = {message_body(each) for branch in branches for each in branch["messages"]}
        added = [message for message in added if message_body(message) not in branch_bodies]
    update = Update()
    if added:
        state = with_messages(state, (yield from false_claims(state, scope)))
        label = Label(kind="host", reason="another writer took over", created_at=scope.now())
        after = _common(_messages(late), before, _messages(latest))
        update = keep_beside(state, scope, added, after=after, label=label)
        update = yield from write_ahead(state, scope, update)
    elif not is_newest:
        return
    there = replace(place, config=_at(place, latest.config))
    yield from there.write([StateUpdate(dict(update), END_NODE), *due_again(latest.next)])


def _messages(state: StateSnapshot) -> list[AnyMessage]:
    return list(state.values.get("messages", []))


def _only_in(
    messages: Sequence[AnyMessage], before: Sequence[AnyMessage], latest: Sequence[AnyMessage]
) -> list[AnyMessage]:
    """Return the messages of a late state that neither the state before nor the latest one has.

    A message whose id the latest state uses for another message gets a new id.
    """
    bodies = {(m.id, message_body(m)) for m in (*before, *latest)}
    ids = {m.id for m in latest}
    return [
        # Two answers to one question may have the same id.
        m.model_copy(update={"id": uuid4().hex}) if m.id in ids else m
        for m in messages
        if (m.id, message_body(m)) not in bodies
    ]


def _common(
    messages: Sequence[AnyMessage], before: Sequence[AnyMessage], latest: Sequence[AnyMessage]
) -> str | None:
    """Return the id of the last message that a late state, `before` and `latest` have in common.

    `before` is the state from which the late run began, `latest` that of the latest term. `None` if
    they have no message in common.
    """
    ids = {m.id for m in latest} & {m.id for m in before}
    return next((m.id for m in reversed(messages) if m.id in ids), None)


def _at(place: Place, config: RunnableConfig) -> RunnableConfig:
    """Return the place's configuration with the checkpoint id that `config` has."""
    checkpoint_field = {"checkpoint_id": config["configurable"]["checkpoint_id"]}
    newest_config = place.newest()
    return {**newest_config, "configurable": {**newest_config["configurable"], **checkpoint_field}}


# Where the config of a run carries its `Hold` to the nodes. Only a Python object counts, so the
# JSON of a server's client cannot claim to hold a thread. LangGraph leaves keys that begin like
# this out of its streams.
HOLD = "__pregel_unsay_hold"

# How long one of several parallel runs waits for the others at most.
TURN_SECONDS = 3600.0
_RUNS = Leases()


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
    turn = drive(_turn_in(graph, place))
    own_config, lost = _with_hold(config, hold, place), False
    is_held = is_held or _is_nested(place)
    try:
        with _translated(), under_way(place.get("thread_id")) as run:
            drive(_put_right(graph, own_config, services, hold))
            try:
                yield own_config
            finally:
                drive(drop_deleted(graph, services, own_config, run))
            drive(_verified(hold))
    except ThreadBusyError:
        lost = True
        raise
    finally:
        turn.release()
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
    turn = await adrive(_turn_in(graph, place))
    own_config, lost = _with_hold(config, hold, place), False
    is_held = is_held or _is_nested(place)
    try:
        with _translated(), under_way(place.get("thread_id")) as run:
            await adrive(_put_right(graph, own_config, services, hold))
            run.stopped_early = not is_held
            try:
                yield own_config
                run.stopped_early = False
            finally:
                # Shielded: a server cancels the run whose states it deleted.
                await asyncio.shield(adrive(drop_deleted(graph, services, own_config, run)))
            await adrive(_verified(hold))
    except ThreadBusyError:
        lost = True
        raise
    finally:
        turn.release()
        if hold is not None and not is_held:
            # To its end: the host may close the checkpointer or the loop right afterwards.
            await asyncio.shield(adrive(hold.end()))
        if lost:
            await adrive(_put_right_later(graph, config, services, hold))


@contextmanager
def inside(config: RunnableConfig | None) -> Iterator[writer_lock.Hold]:
    """Yield the hold of a run while one of its nodes works; `verify` it before the node's commit.

    Meanwhile code of the node that wants to write to the same thread gets `ThreadBusyError` at once,
    since it would wait for its own run without end. For a run that holds nothing, `verify` does
    nothing.
    """
    hold = (config or {}).get("configurable", {}).get(HOLD)
    if not isinstance(hold, writer_lock.Hold):
        yield writer_lock.Hold(writer_lock.WriterLock(), lease=None)
        return
    token = writer_lock.AROUND.set((*writer_lock.AROUND.get(), hold))
    try:
        yield hold
    finally:
        writer_lock.AROUND.reset(token)


def _is_nested(place: Mapping[str, Any]) -> bool:
    # Only LangGraph puts a function there, for a graph that is a node of another one.
    return callable(place.get(CONFIG_KEY_READ))


def _turn_in(
    graph: CompiledStateGraph[Any, Any, Any, Any], place: Mapping[str, Any]
) -> Steps[writer_lock.Hold]:
    """Wait until no other run has the state that a graph with `checkpointer=True` keeps in a parent.

    An agent's parallel tool calls are such runs. Only they wait; the caller releases the result.
    """
    state: Any = object()
    if graph.checkpointer is True and _is_nested(place):
        namespace = recast_checkpoint_ns(place.get(CONFIG_KEY_CHECKPOINT_NS, ""))
        state = (place.get("thread_id"), namespace, id(place.get(CONFIG_KEY_CHECKPOINTER)))
    return (yield from writer_lock.take_thread(_RUNS, str(state), wait_seconds=TURN_SECONDS))


def _hold_on(
    graph: CompiledStateGraph[Any, Any, Any, Any],
    place: Mapping[str, Any],
    services: Services,
    *,
    is_held: bool,
) -> Steps[writer_lock.Hold | None]:
    """Take the thread that a configuration names; `None` without a thread id or a checkpointer.

    With `is_held` it is the hold that the caller has already. `None` also inside another unsay
    graph, whose run has its thread already. Raises `ThreadBusyError` if the thread is not free in
    time; the thread's id is not checked here.
    """
    if _is_nested(place):
        if isinstance(place.get(HOLD), writer_lock.Hold):
            return None
        return (yield from hold_for_parent(place))
    thread_id = place.get("thread_id")
    saver = place.get(CONFIG_KEY_CHECKPOINTER, graph.checkpointer)
    if thread_id is None or not isinstance(saver, BaseCheckpointSaver):
        return None
    leases = writer_lock.leases_of(saver)
    if is_held:
        return writer_lock.lock_on(leases, str(thread_id)).hold
    wait = services.settings.thread_wait_seconds
    return (yield from writer_lock.take_thread(leases, str(thread_id), wait_seconds=wait))


def _with_hold(
    config: RunnableConfig | None, hold: writer_lock.Hold | None, place: Mapping[str, Any]
) -> RunnableConfig | None:
    if hold is None:
        return config
    base_config: RunnableConfig = config or {}
    # All of `place`: a configuration that has a part of it would replace that of the graph around.
    hold_config: RunnableConfig = {**base_config, "configurable": {**place, HOLD: hold}}
    if not _is_nested(place) and (lease := _lease_of(hold)) is not None:
        hold_config["metadata"] = {**base_config.get("metadata", {}), TERM: lease.token}
    return hold_config


def _lease_of(hold: writer_lock.Hold | None) -> writer_lock.SaverLease | None:
    """Return the lease of a hold if its checkpointer cannot check it at each write; else `None`."""
    lease = None if hold is None else hold.lease
    return lease if isinstance(lease, writer_lock.SaverLease) and lease.token is not None else None


def _put_right(
    graph: CompiledStateGraph[Any, Any, Any, Any],
    config: RunnableConfig | None,
    services: Services,
    hold: writer_lock.Hold | None,
    lost: int | None = None,
) -> Steps[None]:
    """Call `put_right` if a writer that lost the thread may still have written; else do nothing.

    `lost` is the term that the caller lost during its run; `None` before a run. Raises `InputError`
    if the thread's id cannot be used, and the errors of `put_right`.
    """
    lease, place = _lease_of(hold), place_of(graph, services, config)
    if lease is not None and place is not None and lease.unreleased:
        yield from put_right(place, lease.unreleased, lost)


def _verified(hold: writer_lock.Hold | None) -> Steps[None]:
    """After a run or an update, raise `ThreadBusyError` if another writer took over the thread.

    Without a hold nothing is done, nor if the database checks the lease at each write.
    """
    if hold is not None:
        yield from hold.verify()


def _put_right_later(
    graph: CompiledStateGraph[Any, Any, Any, Any],
    config: RunnableConfig | None,
    services: Services,
    lost: writer_lock.Hold | None,
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
            yield from hold.end()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        if str(error) != LOST:
            raise
        raise ThreadBusyError(LOST_ADVICE) from error


# What a LangGraph server adds to the metadata of its runs.
_ON_SERVER = "langgraph_api_version"


async def is_gone(thread_id: str) -> bool:
    """Return whether the LangGraph server that this code runs in has no such thread."""
    try:
        await get_client().threads.get(thread_id)
    except NotFoundError:
        return True
    except Exception:  # noqa: BLE001 - of any server: a run must not fail because of it
        return False
    return False


def drop_deleted(
    graph: CompiledStateGraph[Any, Any, Any, Any],
    services: Services,
    config: RunnableConfig | None,
    run: UnderWay,
) -> Steps[None]:
    """At the end of a run, delete what it wrote if its thread was purged or deleted meanwhile.

    The items of unsay leave the store. If the server has no such thread, or the state before the
    run was deleted, the states leave the checkpointer. If only states of the run were deleted, and it
    ended early, go back to an intact state, as `rejoin` does.
    """
    full = with_defaults(config)
    configurable, metadata = full["configurable"], full["metadata"]
    # A node may run a graph on a thread of its own, which no server knows.
    is_served = _ON_SERVER in metadata and metadata.get("thread_id", run.thread_id) == run.thread_id
    ask = Call(blocking=lambda: False, awaitable=lambda: is_gone(run.thread_id))
    gone = is_served and "run_id" in configurable and (yield from ask)
    place = place_of(graph, services, config)
    if not gone and not run.is_purged:
        if place is not None and run.stopped_early:
            yield from rejoin(place)
        return
    store = graph.store or getattr(configurable.get(CONFIG_KEY_RUNTIME), "store", None)
    if store is not None:
        yield from purge_items(store, run.thread_id)
    if place is None:
        return
    newest = None if gone else (yield from place.stored(place.newest()))
    if gone or (yield from is_orphan(place, newest)):
        yield from Call.of(place.saver.delete_thread, place.saver.adelete_thread, run.thread_id)
