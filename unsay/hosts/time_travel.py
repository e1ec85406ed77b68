"""Time travel by a host: the messages that it removes are kept as a branch.

LangGraph lets a host continue from any earlier state of a thread, and remove messages itself. The
messages that leave the transcript are stored as a branch first. A run's question is stored in one
state before the graph begins; the second state is the end of the turn.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from typing import Any
from uuid import uuid4

from langchain_core.messages import AnyMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.graph import START
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, StateSnapshot, StateUpdate

from unsay.decisions import refuse_undecided
from unsay.effects import Call, Steps
from unsay.errors import UnknownCheckpointError
from unsay.hosts.input import check_thread_id
from unsay.messages.annotations import is_question
from unsay.messages.content import text_of
from unsay.moves.reconcile import Door, logged_messages, prepare_change
from unsay.orders.parse import changes_nothing, parse_command
from unsay.runtime import Scope, Services
from unsay.state import State, Update
from unsay.storage.base import follow_or_refuse
from unsay.transcript.pending import check_blocks
from unsay.turn.runs import copy_stored

# LangGraph's channels of a task's answers to its interrupts, and of its error.
_ANSWERS, _ERROR = "__resume__", "__error__"


def drop_failed_decision(saver: BaseCheckpointSaver[Any], snapshot: StateSnapshot) -> Steps[None]:
    """Take back the decision with which the turn of the state `snapshot` failed.

    LangGraph keeps the answer to an interrupt and would give it to the node again, before a new one:
    the turn could never continue. Answers to earlier questions of the same task stay. If no task
    failed, nothing is done.
    """
    if not any(task.error for task in snapshot.tasks):
        return
    # An agent's states have their own names, so they are listed too. Without a limit: LangGraph's saver
    # in memory lists all states of the graph before them.
    thread_id = snapshot.config["configurable"]["thread_id"]
    thread: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    checkpoints = yield from Call.listing(saver.list, saver.alist, thread)
    for checkpoint in checkpoints:
        for task_id, answers in _failed(checkpoint):
            # Without the error the task's next answer would not count as failed.
            writes = [(_ANSWERS, answers[:-1]), (_ERROR, None)]
            yield from Call.of(
                saver.put_writes, saver.aput_writes, checkpoint.config, writes, task_id
            )


def _failed(stored: CheckpointTuple) -> Iterator[tuple[str, list[Any]]]:
    """Yield the id of each task of a state that failed after an answer, with its answers."""
    writes = stored.pending_writes or []
    failed = {task for task, channel, error in writes if channel == _ERROR and error is not None}
    for task_id, channel, answers in writes:
        if channel == _ANSWERS and task_id in failed and answers:
            yield task_id, answers


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
        place = dict(self.config["configurable"])
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

    def stored(self, config: RunnableConfig) -> Call[CheckpointTuple | None]:
        """Return a call whose result is the `CheckpointTuple` that a configuration names, or `None`."""
        return Call.of(self.saver.get_tuple, self.saver.aget_tuple, config)

    def snapshot(self, config: RunnableConfig) -> Steps[StateSnapshot]:
        """Return the state that a configuration names, or the newest one if it names none.

        If it does not exist, the result has no values. Raises the errors of the checkpointer.
        """
        return (yield from Call.of(self.graph.get_state, self.graph.aget_state, config))

    def history(self, config: RunnableConfig, **options: Any) -> Steps[list[StateSnapshot]]:
        """Return the states of the thread of a configuration, newest first.

        `options` are those of LangGraph's `get_state_history`, such as `limit`.
        """
        sync_getter, awaited = self.graph.get_state_history, self.graph.aget_state_history
        return (yield from Call.listing(sync_getter, awaited, config, **options))

    def write(self, updates: Sequence[StateUpdate]) -> Steps[RunnableConfig]:
        """Write one new state after the state that the host named; return its configuration.

        If the host named none, the new state follows the newest one.
        """
        # Not the method of `HostGraph`: it would check the update as a host's, and call this again.
        graph = CompiledStateGraph
        new_config = yield from Call.of(
            partial(graph.bulk_update_state, self.graph),
            partial(graph.abulk_update_state, self.graph),
            self.config,
            [updates],
        )
        return new_config


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
    check_thread_id(place["thread_id"])
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


def begin_run(
    graph: CompiledStateGraph[Any, Any, Any, Any], services: Services, entry: Entry
) -> Steps[Entry]:
    """Prepare a host's run: store its question as a state, and return how to start the graph.

    Messages that the host's input removes, or that follow the earlier state which it names, are
    stored as a branch first. Without a thread id or a checkpointer, `entry` is returned unchanged.

    Raises:
        InputError: The thread's id cannot be used, or the provider refuses a block of the question.
        UnknownCheckpointError: The configuration names a state that the thread does not have.
        ConflictError: The thread waits for a person's decision, and the input is neither the
            decision nor a question.
        StorageError: What is stored of the thread is damaged.
    """
    place = place_of(graph, services, entry.config)
    if place is None:
        return entry
    check_blocks(takewhile(is_question, reversed(_messages_in(entry.value))), services)
    yield from rejoin(place)
    if not (_decides(entry.value) or _asks(entry.value)):
        yield from _refuse_if_undecided(place)
    if entry.value is not None and _decides(entry.value):
        newest = yield from place.snapshot(place.newest())
        yield from drop_failed_decision(place.saver, newest)
    target = yield from _target(place)
    options, asks = dict(entry.options), isinstance(entry.value, Mapping)
    durability = options.get("durability")
    # Without a store, only LangGraph's own states keep the tool steps that finished.
    if not services.tools or graph.store is not None:
        options["durability"] = "exit"
    stops = options.get("interrupt_before") or graph.interrupt_before_nodes
    first = asks and not stops and (durability, options.get("durability")) != ("exit", "exit")
    if target is None and not first and not _writes([entry.value]):
        return replace(entry, options=options)
    state_update = dict((yield from _kept(place, target, [entry.value], "run")))
    if target is not None:
        state_update["entry_id"] = uuid4().hex
    updates = [StateUpdate(state_update, END_NODE)] if state_update else []
    if first and "messages" in state_update:  # what is loaded comes before the question
        yield from place.write(updates)
        place, updates = replace(place, config=place.newest()), []
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
    `DatabaseCorruptError` or `EventLogGapError` if the deleted messages cannot be read,
    `ConflictError` if the clock is so far behind that a new state would be lost.
    """
    newest = yield from place.stored(place.newest())
    follow_or_refuse(newest, place.thread_id)
    if newest is None or not (yield from is_orphan(place, newest)):
        return
    lost: Any = dict(newest.checkpoint["channel_values"])
    scope = place.scope()
    if "messages" in lost:
        lost = (yield from place.snapshot(newest.config)).values
    else:
        lost["messages"] = yield from logged_messages(lost, scope)
    intact = yield from _intact(place, newest.config)
    intact_state: Any = State(messages=[]) if intact is None else intact.values
    state_update = yield from prepare_change(
        lost, intact_state, [], scope, "run", "its run was deleted"
    )
    if intact is None:
        state_update["messages"] = [RemoveMessage(id=REMOVE_ALL_MESSAGES)]
    updates = [StateUpdate(dict(state_update), END_NODE), *due_again(intact.next if intact else ())]
    config = intact.config if intact else place.newest()
    yield from replace(place, config=config).write(updates)


def is_orphan(place: Place, newest: CheckpointTuple | None) -> Steps[bool]:
    """Return whether the host deleted the checkpoint that the newest one builds on."""
    if newest is None or newest.parent_config is None:
        return False
    # An update with a full copy may build on a state that our own saver deleted.
    is_whole = "messages" in newest.checkpoint["channel_values"]
    is_copy = is_whole and newest.metadata["source"] != "loop"
    return not is_copy and (yield from place.stored(newest.parent_config)) is None


def _intact(place: Place, orphan: RunnableConfig) -> Steps[StateSnapshot | None]:
    """Return the newest state before `orphan` that can be read; `None` if there is none.

    It can be read if its parent is still stored, if it needs no parent, or if it has all its
    messages.
    """
    listing = Call.listing(place.saver.list, place.saver.alist, place.newest(), before=orphan)
    checkpoints = yield from listing
    ids = {each.config["configurable"]["checkpoint_id"] for each in checkpoints}
    for each in checkpoints:
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
    state_update = yield from _kept(place, target, values, "update")
    if not state_update:
        return config
    due = target.next if target is not None else (yield from place.snapshot(place.newest())).next
    return (yield from place.write([StateUpdate(dict(state_update), END_NODE), *due_again(due)]))


def _decides(value: Any) -> bool:
    """Return whether an input continues the turn that waits: `None`, or a command with `resume`."""
    return value is None or (isinstance(value, Command) and value.resume is not None)


def _messages_in(value: Any) -> Sequence[AnyMessage]:
    update = value.update if isinstance(value, Command) else value
    return update.get("messages", []) if isinstance(update, Mapping) else []


def _asks(value: Any) -> bool:
    """Return whether an input has a question: it may come while the thread waits for a decision.

    It is answered in place of the waiting turn, which is given up. A slash command that changes
    nothing counts too: it gets its notice, the turn still waits, and the decision is asked for
    again. All other commands do not count.
    """
    questions = filter(is_question, _messages_in(value))
    commands = [parse_command(text_of(message)) for message in questions]
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
    if (yield from place.stored(place.config)) is None:
        raise UnknownCheckpointError(
            f"Thread {place.thread_id!r} has no state with the checkpoint_id {place.named!r}: it was "
            "pruned, or never existed. Take an id from get_state_history; nothing was changed"
        )
    newest = yield from place.stored(place.newest())
    if newest and newest.config["configurable"]["checkpoint_id"] == place.named:
        return None
    return (yield from place.snapshot(place.config))


def _kept(
    place: Place, target: StateSnapshot | None, values: Sequence[Any], door: Door
) -> Steps[Update]:
    """Return what `prepare_change` returns for a host's inputs or updates, with its errors.

    `target` is the earlier state that the host named; `None` is the newest.
    """
    newest: Any = (yield from place.snapshot(place.newest())).values
    yield from copy_stored(newest, place.scope())
    begun: Any = None if target is None else target.values
    return (yield from prepare_change(newest, begun, _writes(values), place.scope(), door))


def _writes(values: Sequence[Any]) -> list[Any]:
    """Return the non-empty values for `messages` among a host's inputs or updates."""
    updates = [value.update if isinstance(value, Command) else value for value in values]
    message_values = [each.get("messages") for each in updates if isinstance(each, Mapping)]
    return [each for each in message_values if each]


def due_again(due: Sequence[str]) -> list[StateUpdate]:
    """Return updates after which LangGraph runs the nodes in `due` next.

    A state written without them would drop these nodes. Empty if none is due.
    """
    return [StateUpdate({}, BEFORE[name]) for name in due if name in BEFORE]
