"""The graph as a node of another graph: what it removes is removed from the parent's messages too.

LangGraph gives a parent the messages that a subgraph returns, and a reducer such as `add_messages`
keeps all others. So the messages that were removed, and those that were restored, are written to
the parent's channel directly, together with the node's own writes. A function around the graph,
such as a supervisor's, may therefore return any part of the result. The channel may have any name:
it is the one whose messages the node was given.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from langchain_core.messages import (
    AnyMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    convert_to_messages,
)
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langgraph._internal._constants import (
    CONFIG_KEY_CHECKPOINTER,
    CONFIG_KEY_READ,
    CONFIG_KEY_REPLAY_STATE,
    CONFIG_KEY_RESUMING,
    CONFIG_KEY_RUNTIME,
    CONFIG_KEY_SEND,
    TASKS,
)
from langgraph.channels.base import BaseChannel
from langgraph.channels.binop import BinaryOperatorAggregate
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.constants import START
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import StateSnapshot, StateUpdate

from unsay.effects import Call, Steps
from unsay.errors import ConfigurationError, InputError
from unsay.hosts.parent_writer import loop_around, outermost
from unsay.hosts.time_travel import END_NODE, Place
from unsay.messages.annotations import is_answer, is_notice
from unsay.messages.content import checksum_of, preview, text_of
from unsay.moves.reconcile import prepare_change
from unsay.runtime import Services
from unsay.state import State, Update, offloaded_of, with_update

CHANNEL = "messages"
# Where the config of a run carries its `Watch` to the nodes, as `single_writer.HOLD` does.
WATCH = "__pregel_unsay_watch"
# A channel that only unsay's own graph has.
OWN_CHANNEL = "own_writes"

Graph = CompiledStateGraph[Any, Any, Any, Any]


@dataclass(slots=True)
class Watch:
    """The states before the first node and after the last node of a run inside another graph.

    `enter_parent` makes it, and each node notes its update. Both are `None` before a node ran.
    """

    start: State | None = None
    end: State | None = None

    def note(self, state: State, update: Update) -> None:
        """Keep the state before the first node, and the state after this node's update."""
        self.start = self.start or state
        self.end = with_update(state, update)


def watch_of(config: RunnableConfig | None) -> Watch | None:
    """Return the watch of a run inside another graph; `None` if the run is not inside one."""
    watch = (config or {}).get("configurable", {}).get(WATCH)
    return watch if isinstance(watch, Watch) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """The messages of the graph around a run, and the function that writes to them."""

    name: str
    channel: BaseChannel[Any, Any, Any]
    messages: list[Any]
    send: Callable[[Sequence[tuple[str, Any]]], None]
    runs: int
    """How many runs of the node the parent started with `Send` in this step."""

    is_input: bool
    """Whether the messages are those with which the parent's run began: no node has added any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nested:
    """How the graph runs inside another graph; `enter_parent` makes it, and `finish` ends it.

    `parents` have messages to which the run can write: of the graph around it, and of those around
    that one. `given` are the ids of the messages in the node's input.
    """

    graph: Graph
    value: Any
    config: RunnableConfig
    parents: Sequence[Parent]
    given: list[str]
    keeps_state: bool
    watch: Watch = field(default_factory=Watch)

    def finish(self) -> Steps[None]:
        """Remove and restore in the parents' messages what the run removed and restored in its own.

        If no node ran, since the run had ended before its parent was resumed, the stored state is
        compared; without one nothing is written. Raises `ConfigurationError` if a reducer would keep
        what was removed.
        """
        end: Any = self.watch.end
        if self.parents and end is None and self.keeps_state:
            state = yield from Call.of(self.graph.get_state, self.graph.aget_state, self.config)
            end = state.values
        for parent in self.parents if end else ():
            writes = _writes(parent, self.given, self.watch.start or end, end)
            if writes and not _can_remove(parent.channel):
                raise _refusal(parent)
            parent.send([(parent.name, write) for write in writes])


def enter_parent(
    graph: Graph,
    services: Services,
    config: RunnableConfig | None,
    value: Any,
    *,
    strict: bool,
) -> Steps[Nested | None]:
    """Return how the graph runs as a node of another graph; `None` if it is not inside one.

    If the node is given all messages of its parent, which has a checkpointer and did not start
    several runs of the node at once, the node works on the parent's conversation: its working
    state is kept with the parent's thread, so that steps can be undone and redone, and its
    transcript is first made equal to the parent's messages. If the parent goes on from an earlier
    state, so does the node. Otherwise nothing is kept after the run, unless the graph has
    `checkpointer=True` and its parent has a checkpointer.

    Args:
        graph: The graph that will run.
        services: Its models, tools and settings.
        config: The node's configuration.
        value: The node's input.
        strict: Whether to refuse a parent in which an undo or redo would not hold.

    Raises:
        InputError: Another node has answered the newest question, so nothing is left to answer.
        ConfigurationError: The node is given all messages, and the reducer of the parent's messages
            cannot remove one; several runs that the parent starts at once would share the state of
            `checkpointer=True`; or `strict` refuses the parent.
    """
    full = ensure_config(config)
    place = full.get("configurable", {})
    if not callable(place.get(CONFIG_KEY_READ)):
        return None
    messages = value.get(CHANNEL, []) if isinstance(value, Mapping) else []
    parent, watch, is_whole = _parent_of(place, messages), Watch(), False
    full = {**full, "configurable": {**place, WATCH: watch}}
    if parent is not None and _ends_in(parent.messages, messages):
        is_whole = len(messages) == len(parent.messages)
        # A function may pass copies without ids, such as tuples: they are the parent's messages.
        same = zip(parent.messages[-len(messages) :], messages, strict=True)
        messages = [own if own.id and own.id != each.id else each for own, each in same]
        value = {**value, CHANNEL: messages}
    ids = [message.id for message in messages]
    has_saver = isinstance(place.get(CONFIG_KEY_CHECKPOINTER), BaseCheckpointSaver)
    if parent is not None:
        _check(graph, parent, is_whole=is_whole)
        is_newest = bool(messages) and messages[-1:] == parent.messages[-1:]
        if is_newest and not (parent.is_input or value.get("should_rollback")):
            _check_unanswered(messages)
    if strict:
        is_deep = "|" in place.get("checkpoint_ns", "")
        _check_strictly(parent, is_whole=is_whole, has_saver=has_saver, is_deep=is_deep)
    keeps_state = has_saver and graph.checkpointer is True
    if parent is not None and is_whole and has_saver and parent.runs < 2:
        keeps_state = graph.checkpointer is not False
        if keeps_state:
            is_own, store = graph.checkpointer is True, place[CONFIG_KEY_RUNTIME].store
            graph = graph.copy({"checkpointer": True, "store": store or graph.store})
            inside = Place(
                graph=graph,
                services=services,
                saver=place[CONFIG_KEY_CHECKPOINTER],
                config=full,
                thread_id=str(place["thread_id"]),
                named=None,
            )
            value, full = yield from _follow_parent(inside, value, is_own=is_own)
    return Nested(
        graph=graph,
        value=value,
        config=full,
        parents=[each for each in (parent, *_outer_parents(place, messages)) if each is not None],
        given=[name for name in ids if name],
        keeps_state=keeps_state,
        watch=watch,
    )


def _follow_parent(place: Place, value: Any, *, is_own: bool) -> Steps[tuple[Any, RunnableConfig]]:
    """Prepare the stored state of a node for a run; return the run's input and configuration.

    If the parent goes on from an earlier state, so does the node. Unless the node has a transcript of
    its own (`is_own`), it is made equal to the parent's. What leaves it is kept as a branch, and its
    tool calls are undone, as after a host's change of a graph alone.
    """
    options = place.config["configurable"]
    replay = options.get(CONFIG_KEY_REPLAY_STATE)
    # Otherwise LangGraph would start the node from an earlier state, without what happened since.
    names = {CONFIG_KEY_REPLAY_STATE, *([CONFIG_KEY_RESUMING] if replay else [])}
    rest = {name: each for name, each in options.items() if name not in names}
    config: RunnableConfig = {**place.config, "configurable": rest}
    if options.get(CONFIG_KEY_RESUMING) and replay is None:
        return value, config
    newest = yield from place.snapshot(place.config)
    # A node that the parent runs again in the same run goes on from its newest state.
    travels = replay is not None and replay._is_first_visit(options["checkpoint_ns"])
    target = (yield from _state_before(place)) if travels else None
    begun = newest.values if target is None else target.values
    if travels and target is None:
        begun = {CHANNEL: []}
    writes = _newer(begun, value[CHANNEL]) if is_own else _as_parent(begun, value[CHANNEL])
    state_update: dict[str, Any] = {}
    if travels or not is_own:
        earlier: Any = begun if travels else None
        values: Any = newest.values
        state_update = dict(
            (yield from prepare_change(values, earlier, [writes], place.scope(), "parent"))
        )
    if travels:
        state_update["entry_id"] = uuid4().hex
    if travels and target is None:
        state_update[CHANNEL] = [RemoveMessage(id=REMOVE_ALL_MESSAGES)]
    if travels or state_update:
        target_options = {} if target is None else target.config["configurable"]
        at: RunnableConfig = {**place.config, "configurable": {**options, **target_options}}
        yield from replace(place, config=at).write([StateUpdate(state_update, END_NODE)])
    return {**value, CHANNEL: writes}, config


def _state_before(place: Place) -> Steps[StateSnapshot | None]:
    """Return the node's newest state before the state from which its parent goes on, if there is one."""
    began: Any = outermost(place.config["configurable"])._initial_checkpoint_config
    # A copy of an earlier state, or an update of one, is newer than what the node did after it.
    while (snapshot := (yield from place.stored(began))) is not None:
        if snapshot.metadata["source"] not in ("update", "fork") or snapshot.parent_config is None:
            break
        began = snapshot.parent_config
    states = yield from place.history(place.config, before=began, limit=1)
    return states[0] if states else None


def _parent_of(place: Mapping[str, Any], given: Sequence[AnyMessage]) -> Parent | None:
    """Return the channel of the graph around a run whose messages it was given; else its `messages`.

    `place` is the `configurable` part of the configuration of a node, never of a graph alone. `None`
    if there is no such channel, if a write replaces its value, as without a reducer, or if the graph
    around is unsay's own.
    """
    # LangGraph's reader is a `partial`; its arguments are the only way to the parent's channels.
    _, channels, _, task = place[CONFIG_KEY_READ].args
    lists = {name: _messages_of(channel) for name, channel in channels.items()}
    ids = {message.id for message in given}

    def fit(name: str) -> tuple[bool, bool, bool]:
        messages = lists[name]
        is_part = _ends_in(messages, given) or any(m.id in ids for m in messages)
        return is_part and len(messages) == len(given), is_part, name == CHANNEL

    name = max(channels, key=fit)
    if not any(fit(name)) or OWN_CHANNEL in channels or _replaces(channels[name]):
        return None
    loop = loop_around(place)
    versions = loop.checkpoint["channel_versions"] if loop else {}
    sends = channels[TASKS].get() if TASKS in channels and channels[TASKS].is_available() else []
    return Parent(
        name=name,
        channel=channels[name],
        messages=lists[name],
        send=place[CONFIG_KEY_SEND],
        runs=sum(each.node == task.name for each in sends),
        is_input=versions.get(name, 0) <= versions.get(START, versions.get(name, 0)),
    )


def _outer_parents(
    place: Mapping[str, Any], given: Sequence[AnyMessage]
) -> Iterator[Parent | None]:
    """Yield the same of the graphs around the graph around a run, the nearest first."""
    while (loop := loop_around(place)) is not None:
        outer = loop.config.get("configurable", {})
        if outer is place or not callable(outer.get(CONFIG_KEY_READ)):
            return
        place = outer
        yield _parent_of(place, given)


def _messages_of(channel: BaseChannel[Any, Any, Any]) -> list[Any]:
    """Return the messages in a channel, also of tuples and dicts; empty if it has something else."""
    value = channel.get() if channel.is_available() else None
    if isinstance(value, list) and not any(isinstance(each, str) for each in value):
        with suppress(Exception):  # LangChain raises many kinds
            return convert_to_messages(value)
    return []


def _ends_in(messages: Sequence[BaseMessage], given: Sequence[BaseMessage]) -> bool:
    """Return whether the newest messages are the given ones, by their ids or as copies."""
    newest = messages[-len(given) :]
    return 0 < len(given) == len(newest) and all(
        own.id == each.id or (own.type, own.content) == (each.type, each.content)
        for own, each in zip(newest, given, strict=True)
    )


def _check(graph: Graph, parent: Parent, *, is_whole: bool) -> None:
    """Raise `ConfigurationError` if a rollback would not hold in the parent, or runs share a state.

    If the node is given all messages of its parent (`is_whole`), their reducer must be able to
    remove one. With `checkpointer=True`, the parent must not send several runs of it at once.
    """
    if is_whole and not _can_remove(parent.channel):
        raise _refusal(parent)
    if is_whole and graph.checkpointer is True and parent.runs > 1:
        raise ConfigurationError(
            f"{parent.runs} runs of this node were sent at once, and with checkpointer=True they "
            "would share one state: build the graph without a checkpointer"
        )


def _check_unanswered(given: Sequence[AnyMessage]) -> None:
    """Raise `InputError` if an answer is newer than all user messages; notices do not count."""
    newest = next((m for m in reversed(given) if is_answer(m) or m.type == "human"), None)
    if newest is not None and is_answer(newest):
        raise InputError(
            f"Another node answered the question already ({preview(text_of(newest), 40)!r}), so this "
            "node has none: before it, add a user message, such as what to do with that answer, with a "
            "node of your own or the hand-off"
        )


def _refusal(parent: Parent) -> ConfigurationError:
    return ConfigurationError(
        "The reducer of the parent's messages ignores RemoveMessage, so a rollback would not "
        f"hold: declare {parent.name}: Annotated[list[AnyMessage], add_messages]"
    )


def _check_strictly(
    parent: Parent | None, *, is_whole: bool, has_saver: bool, is_deep: bool
) -> None:
    """Raise `ConfigurationError` if a rollback, undo or redo would not hold in the parent.

    Args:
        parent: The parent; `None` if it has no messages with a reducer.
        is_whole: Whether the node is given all messages of its parent.
        has_saver: Whether the parent has a checkpointer.
        is_deep: Whether the parent is a node of another graph itself.
    """
    if parent is None:
        reason = "its parent has no messages with a reducer such as add_messages"
    elif parent.runs > 1:
        reason = (
            f"{parent.runs} runs of this node were sent at once, and they would share one state"
        )
    elif not is_whole:
        reason = "it is not given the messages of its parent: pass state['messages'] as they are"
    elif not has_saver:
        reason = "its parent has no checkpointer to keep what can be undone"
    elif is_deep:
        reason = (
            "its parent is a node itself, and the graph around it keeps them after an interrupt"
        )
    else:
        return
    raise ConfigurationError(f"as_node: an undo would not hold, because {reason}")


def _probed(channel: BaseChannel[Any, Any, Any], *write: BaseMessage) -> list[Any]:
    """Return what a channel has after a write, without changing it; the write if its reducer raises."""
    tried = channel.copy()
    with suppress(Exception):  # a reducer is anyone's code
        tried.update([[*write]])
        return list(tried.get())
    return [*write]


def _replaces(channel: BaseChannel[Any, Any, Any]) -> bool:
    """Return whether a write replaces the channel's messages: then the node's result is all of them."""
    if not isinstance(channel, BinaryOperatorAggregate | DeltaChannel):
        return True
    write = [HumanMessage("", id=f"unsay-probe-{number}") for number in range(2)]
    return bool(_messages_of(channel)) and _probed(channel, *write) == write


def _can_remove(channel: BaseChannel[Any, Any, Any]) -> bool:
    """Return whether a channel's reducer adds a message and removes it again.

    `False` also if the reducer raises.
    """
    probe = HumanMessage("", id="unsay-probe")
    messages = _probed(channel, probe, RemoveMessage(id="unsay-probe"))
    return not any(getattr(each, "id", None) == probe.id for each in messages)


def _as_parent(stored: Mapping[str, Any], given: Sequence[AnyMessage]) -> list[BaseMessage]:
    """Return the messages to write so that the stored transcript becomes equal to the parent's.

    `stored` are the values of the node's stored state, `given` the parent's messages. Only the
    differences are written if the order of the common messages is the same; else all are replaced.
    Empty if they are equal. All are replaced, too, if offloaded ones have other words in the parent.
    """
    stored_by_id = {message.id: message for message in stored.get(CHANNEL, [])}
    ids = {message.id for message in given}
    rest = _newer(stored, given)
    common_ids = [name for name in stored_by_id if name in ids]
    offloaded = stored.get("offloaded") or {}
    is_same = offloaded.get("checksum") in (None, checksum_of(given[: len(given) - len(rest)]))
    if not is_same or common_ids != [message.id for message in rest[: len(common_ids)]]:
        return [RemoveMessage(id=REMOVE_ALL_MESSAGES), *given] if stored_by_id else list(given)
    removed: list[BaseMessage] = [
        RemoveMessage(id=name or "") for name in stored_by_id if name not in ids
    ]
    return [*removed, *(m for m in rest if stored_by_id.get(m.id) != m)]


def _newer(stored: Mapping[str, Any], given: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
    """Return the parent's messages without those that the node has offloaded."""
    stored_ids = {message.id for message in stored.get(CHANNEL, [])}
    place = next((i for i, message in enumerate(given) if message.id in stored_ids), 0)
    return given[place:] if stored.get("offloaded") else given


def _writes(
    parent: Parent, given: Sequence[str], start: State, end: State
) -> list[list[BaseMessage]]:
    """Return the writes that remove and restore in the parent what a run removed and restored.

    The first write removes, the second one restores, the third one changes what an agent inside
    rewrote; one that has nothing to do is left out. `given` are the ids of the node's input; `start` and `end` are the states before and after the
    run.
    """
    before = [message.id or "" for message in parent.messages]
    after = {message.id or "": message for message in end["messages"]}
    known_ids = {*given, *(message.id or "" for message in start["messages"])}
    offloaded = offloaded_of(end)
    first = before.index(offloaded["last"]) + 1 if offloaded and offloaded["last"] in before else 0
    removed_ids = {name for name in before[first:] if name in known_ids and name not in after}
    out: list[BaseMessage] = []
    back: list[BaseMessage] = []
    if after and is_notice(end["messages"][-1]):  # an order; an answer is the node's own to return
        names = list(after)[:-1]
        restored = [name for name in names if name not in known_ids and name not in before]
        if restored:
            names = names[names.index(restored[0]) :]
            back = [after[name] for name in names if name in before or name in restored]
            removed_ids.update(name for name in names if name in before)
    # Each with its message, because `add_messages` refuses to remove an id that is not there, such
    # as one that another run of the same step removed.
    for message in parent.messages:
        if message.id in removed_ids:
            out += [message, RemoveMessage(id=message.id)]
    start_contents = {message.id: message.content for message in start["messages"]}
    edited_messages: list[BaseMessage] = [
        after[name]
        for name in before
        if name in after and start_contents.get(name, after[name].content) != after[name].content
    ]
    return [write for write in (out, back, edited_messages) if write]
