"""Time travel by a host: the messages that it removes are kept as a branch.

LangGraph lets a host continue from any earlier state of a thread, and remove messages itself. The
messages that leave the transcript are stored as a branch first. A run's question is stored in one
state before the graph begins; the second state is the end of the turn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import Any
from uuid import UUID, uuid4

from langchain_core.messages import RemoveMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.graph import START
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, StateSnapshot, StateUpdate

from unsay.arguments import check_text
from unsay.effects import Call, Steps
from unsay.errors import InputError, UnknownCheckpointError
from unsay.graph.failed_decisions import drop_failed_decision
from unsay.interrupts import refuse_undecided
from unsay.messages.annotations import is_question
from unsay.messages.content import text_of
from unsay.operations.commands import changes_nothing, parse_command
from unsay.operations.copied_thread import copy_stored
from unsay.operations.host_changes import keep_left_behind, logged_messages
from unsay.runtime import Scope, Services
from unsay.state import State, Update, merge_messages

# After a write in the name of this node, LangGraph runs no other node.
END_NODE = "create_checkpoint"
# For each node, the node after whose update LangGraph runs it.
BEFORE = {
    "evaluate_quality": START,
    "detect_topic_change": "evaluate_quality",
    "process_message": "detect_topic_change",
    "rollback": "process_message",
    "create_checkpoint": "process_message",
}
# LangGraph's key in the configuration of a graph that runs inside of another graph.
TASK = "__pregel_task_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """How a host starts a run: the input, configuration and options that it gives to LangGraph."""

    value: Any
    config: RunnableConfig | None
    options: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The thread and state from which a host starts a run or an update; `place_of` makes it.

    `named` is the checkpoint id that the host gave; `None` is the newest state.
    """

    graph: CompiledStateGraph[Any, Any, Any, Any]
    services: Services
    saver: BaseCheckpointSaver[Any]
    config: RunnableConfig
    thread_id: str
    named: str | None

    def newest(self) -> RunnableConfig:
        """Return the host's configuration without a checkpoint id, for the newest state."""
        place = {**self.config["configurable"], "checkpoint_ns": ""}
        place.pop("checkpoint_id", None)
        return {**self.config, "configurable": place}

    def scope(self) -> Scope:
        """Return the scope for storing messages that the host removes; it has no run."""
        return Scope(
            services=self.services,
            settings=self.services.settings,
            config=self.config,
            store=self.graph.store,
            thread_id=self.thread_id,
            stream_writer=lambda _: None,
        )

    def snapshot(self, config: RunnableConfig) -> Steps[StateSnapshot]:
        """Return the state that a configuration names, or the newest one if it names none.

        If it does not exist, the result has no values. Raises the errors of the checkpointer.
        """
        found: StateSnapshot = yield Call.of(self.graph.get_state, self.graph.aget_state, config)
        return found

    def write(self, updates: Sequence[StateUpdate]) -> Steps[RunnableConfig]:
        """Write one new state after the state that the host named; return its configuration.

        If the host named none, the new state follows the newest one.
        """
        # Not the method of `HostGraph`: it would check the update as a host's, and call this again.
        graph = CompiledStateGraph
        made: RunnableConfig = yield Call.of(
            partial(graph.bulk_update_state, self.graph),
            partial(graph.abulk_update_state, self.graph),
            self.config,
            [updates],
        )
        return made


def place_of(
    graph: CompiledStateGraph[Any, Any, Any, Any],
    services: Services,
    config: RunnableConfig | None,
) -> Place | None:
    """Return the thread and state from which a host starts.

    `None` if there is no thread id or no checkpointer, or if the graph runs inside another graph.
    Raises `InputError` if the id is not a text or number that every checkpointer can store.
    """
    full = ensure_config(config)
    place = full.get("configurable", {})
    saver = place.get(CONFIG_KEY_CHECKPOINTER, graph.checkpointer)
    outside = TASK not in place and not place.get("checkpoint_ns")
    if not isinstance(saver, BaseCheckpointSaver) or "thread_id" not in place or not outside:
        return None
    _check_thread_id(place["thread_id"])
    # LangGraph's update of a named state needs the key, which a host may leave out.
    named_fully: RunnableConfig = {**full, "configurable": {**place, "checkpoint_ns": ""}}
    return Place(
        graph=graph,
        services=services,
        saver=saver,
        config=named_fully,
        thread_id=str(place["thread_id"]),
        named=place.get("checkpoint_id"),
    )


def _check_thread_id(given: object) -> None:
    """Raise `InputError` for an id that several users could share by mistake, or that breaks a saver.

    LangGraph makes a text of any value, so all runs without an id would share the thread "None".
    """
    is_id = isinstance(given, str | int | UUID) and not isinstance(given, bool) and str(given)
    if not is_id or "\0" in str(given):
        raise InputError(
            f"thread_id={given!r} cannot name a thread: put a text of 1 character or more into "
            "config['configurable']. Nothing was stored"
        )
    check_text(str(given), "thread_id")


def begin_run(
    graph: CompiledStateGraph[Any, Any, Any, Any], services: Services, entry: Entry
) -> Steps[Entry]:
    """Prepare a host's run: store its question as a state, and return how to start the graph.

    Messages that the host's input removes, or that follow the earlier state which it names, are
    stored as a branch first. Without a thread id or a checkpointer, `entry` is returned unchanged.

    Raises:
        InputError: The thread's id cannot be used.
        UnknownCheckpointError: The configuration names a state that the thread does not have.
        ConflictError: The thread waits for a person's decision, and the input is neither the
            decision nor a question.
        StorageError: What is stored of the thread is damaged.
    """
    place = place_of(graph, services, entry.config)
    if place is None:
        return entry
    yield from rejoin(place)
    if not (_decides(entry.value) or _asks(entry.value)):
        yield from _refuse_if_undecided(place)
    if entry.value is not None and _decides(entry.value):
        newest = yield from place.snapshot(place.newest())
        yield from drop_failed_decision(place.saver, newest)
    target = yield from _target(place)
    options, asks = dict(entry.options), isinstance(entry.value, Mapping)
    wanted = options.get("durability")
    # Without a store, only LangGraph's own states keep the tool steps that finished.
    if not services.tools or graph.store is not None:
        options["durability"] = "exit"
    stops = options.get("interrupt_before") or graph.interrupt_before_nodes
    first = asks and not stops and (wanted, options.get("durability")) != ("exit", "exit")
    if target is None and not first and not _writes([entry.value]):
        return replace(entry, options=options)
    kept = dict((yield from _kept(place, target, [entry.value])))
    if target is not None:
        kept["entry_id"] = uuid4().hex
    updates = [StateUpdate(kept, END_NODE)] if kept else []
    if first:
        yield from place.write([StateUpdate(entry.value, START), *updates])
        return Entry(value=None, config=place.newest(), options=options)
    if updates:
        due = () if target is None else target.next
        yield from place.write([*updates, *due_again(due)])
    return Entry(value=entry.value, config=place.newest(), options=options)


def rejoin(place: Place) -> Steps[None]:
    """Go back to the newest intact state if the host deleted the states that the newest builds on.

    A server deletes the states of a run that it rolls back, even while that run still ends and
    writes its last state. The messages of the deleted run are stored as a branch; without an
    intact state none are left. Usually no such state was deleted, and nothing is done. Raises
    `DatabaseCorruptError` or `EventLogGapError` if the deleted messages cannot be read.
    """
    newest = yield Call.of(place.saver.get_tuple, place.saver.aget_tuple, place.newest())
    if newest is None or newest.parent_config is None:
        return
    lost: Any = dict(newest.checkpoint["channel_values"])
    # An update with a full copy may build on a state that our own saver deleted.
    is_whole = "messages" in lost and newest.metadata["source"] != "loop"
    parent = Call.of(place.saver.get_tuple, place.saver.aget_tuple, newest.parent_config)
    if is_whole or (yield parent) is not None:
        return
    scope = place.scope()
    if "messages" in lost:
        lost = (yield from place.snapshot(newest.config)).values
    else:
        lost["messages"] = yield from logged_messages(lost, scope)
    intact = yield from _intact(place, newest.config)
    reason = "its run was deleted"
    if intact is None:
        kept = yield from keep_left_behind(lost, State(messages=[]), scope, reason)
        kept["messages"] = [RemoveMessage(id=REMOVE_ALL_MESSAGES)]
        yield from replace(place, config=place.newest()).write([StateUpdate(dict(kept), END_NODE)])
        return
    found: Any = intact.values
    kept = yield from keep_left_behind(lost, found, scope, reason)
    updates = [StateUpdate(dict(kept), END_NODE), *due_again(intact.next)]
    yield from replace(place, config=intact.config).write(updates)


def rejoin_after(
    graph: CompiledStateGraph[Any, Any, Any, Any],
    services: Services,
    config: RunnableConfig | None,
) -> Steps[None]:
    """Go back to an intact state if a server deleted states of a run that ended early.

    Usually none was deleted, and nothing is done; also without a thread id or a checkpointer.
    `rejoin` explains it, and its errors are raised.
    """
    place = place_of(graph, services, config)
    if place is not None:
        yield from rejoin(place)


def _intact(place: Place, orphan: RunnableConfig) -> Steps[StateSnapshot | None]:
    """Return the newest state before `orphan` that can be read; `None` if there is none.

    It can be read if its parent is still stored, if it needs no parent, or if it has all its
    messages.
    """

    def blocking() -> list[CheckpointTuple]:
        return list(place.saver.list(place.newest(), before=orphan))

    async def awaited() -> list[CheckpointTuple]:
        return [each async for each in place.saver.alist(place.newest(), before=orphan)]

    listed: list[CheckpointTuple] = yield Call(blocking=blocking, awaitable=awaited)
    ids = {each.config["configurable"]["checkpoint_id"] for each in listed}
    for each in listed:
        parent = (each.parent_config or {}).get("configurable", {}).get("checkpoint_id")
        if parent is None or parent in ids or "messages" in each.checkpoint["channel_values"]:
            return (yield from place.snapshot(each.config))
    return None


def begin_update(
    graph: CompiledStateGraph[Any, Any, Any, Any],
    services: Services,
    config: RunnableConfig,
    values: Sequence[Any],
) -> Steps[RunnableConfig]:
    """Store as a branch the messages that a host's update removes; return the config to update.

    `values` are the host's updates of the state. If `config` names an earlier state, the messages
    that came after it are stored too. Without a thread id or a checkpointer, or if nothing has to be
    stored, the given `config` is returned.

    Raises:
        InputError: The thread's id cannot be used.
        UnknownCheckpointError: The configuration names a state that the thread does not have.
        ConflictError: The thread waits for a person's decision, and no earlier state is named.
        StorageError: What is stored of the thread is damaged.
    """
    place = place_of(graph, services, config)
    if place is None:
        return config
    yield from rejoin(place)
    yield from _refuse_if_undecided(place)
    target = yield from _target(place)
    if target is None and not _writes(values):
        return config
    kept = yield from _kept(place, target, values)
    if not kept:
        return config
    due = target.next if target is not None else (yield from place.snapshot(place.newest())).next
    return (yield from place.write([StateUpdate(dict(kept), END_NODE), *due_again(due)]))


def _decides(value: Any) -> bool:
    """Return whether an input continues the turn that waits: `None`, or a command with `resume`."""
    return value is None or (isinstance(value, Command) and value.resume is not None)


def _asks(value: Any) -> bool:
    """Return whether an input has a question: it may come while the thread waits for a decision.

    It is answered in place of the waiting turn, which is given up. A slash command that changes
    nothing counts too: it gets its notice, the turn still waits, and the decision is asked for
    again. All other commands do not count.
    """
    given = value.update if isinstance(value, Command) else value
    messages = given.get("messages", []) if isinstance(given, Mapping) else []
    commands = [parse_command(text_of(message)) for message in messages if is_question(message)]
    return any(command is None or changes_nothing(command) for command in commands)


def _refuse_if_undecided(place: Place) -> Steps[None]:
    """Raise `ConflictError` if the state that a host changes waits for a person's decision.

    It does not raise if the host names an earlier state: that state does not wait for the decision.
    """
    newest = yield from place.snapshot(place.newest())
    if place.named in (None, newest.config["configurable"].get("checkpoint_id")):
        refuse_undecided(newest)


def _target(place: Place) -> Steps[StateSnapshot | None]:
    """Return the earlier state that the host named; `None` if it named none, or the newest.

    Raises `UnknownCheckpointError` if the thread has no state with that id.
    """
    if place.named is None:
        return None
    get = Call.of(place.saver.get_tuple, place.saver.aget_tuple, place.config)
    if (yield get) is None:
        raise UnknownCheckpointError(
            f"Thread {place.thread_id!r} has no state with the checkpoint_id {place.named!r}: it was "
            "pruned, or never existed. Take an id from get_state_history; nothing was changed"
        )
    newest = yield Call.of(place.saver.get_tuple, place.saver.aget_tuple, place.newest())
    if newest.config["configurable"]["checkpoint_id"] == place.named:
        return None
    return (yield from place.snapshot(place.config))


def _kept(place: Place, target: StateSnapshot | None, values: Sequence[Any]) -> Steps[Update]:
    """Store as a branch the messages that a host's input removes; return the values for its state.

    `target` is the earlier state that the host named; `None` is the newest. The result is empty if
    the host continues from the newest state and neither removes nor replaces messages. Raises
    `DatabaseCorruptError` if what is stored is damaged.
    """
    newest: Any = (yield from place.snapshot(place.newest())).values
    yield from copy_stored(newest, place.scope())
    begun: Any = newest if target is None else target.values
    messages = begun.get("messages", [])
    known = {message.id for message in messages}
    changed = merge_messages(messages, _writes(values))
    after: Any = {**begun, "messages": [m for m in changed if m.id in known]}
    reason = "the host removed messages"
    if target is not None:
        reason = "the host went on from an earlier state"
    elif all(old is new for old, new in zip_longest(messages, after["messages"])):
        return Update()
    elif len(after["messages"]) == len(messages):
        reason = "the host replaced messages"
    return (yield from keep_left_behind(newest, after, place.scope(), reason))


def _writes(values: Sequence[Any]) -> list[Any]:
    """Return the non-empty values for `messages` among a host's inputs or updates."""
    updates = [value.update if isinstance(value, Command) else value for value in values]
    given = [each.get("messages") for each in updates if isinstance(each, Mapping)]
    return [each for each in given if each]


def due_again(due: Sequence[str]) -> list[StateUpdate]:
    """Return updates after which LangGraph runs the nodes in `due` next.

    A state written without them would drop these nodes. Empty if none is due.
    """
    return [StateUpdate({}, BEFORE[name]) for name in due if name in BEFORE]
