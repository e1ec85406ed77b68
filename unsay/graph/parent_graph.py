"""The graph as a node of another graph: what it removes is removed from the parent's messages too.

LangGraph gives a parent the messages that a subgraph returns, and a reducer such as `add_messages`
keeps all others. So the messages that were removed, and those that were restored, are written to
the parent's channel directly, together with the node's own writes. A function around the graph,
such as a supervisor's, may therefore return any part of the result.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langgraph._internal._constants import (
    CONFIG_KEY_CHECKPOINTER,
    CONFIG_KEY_READ,
    CONFIG_KEY_RESUMING,
    CONFIG_KEY_SEND,
    TASKS,
)
from langgraph.channels.base import BaseChannel
from langgraph.channels.binop import BinaryOperatorAggregate
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import StateSnapshot

from unsay.effects import Call, Steps
from unsay.errors import ConfigurationError
from unsay.messages.annotations import is_notice
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
    found = (config or {}).get("configurable", {}).get(WATCH)
    return found if isinstance(found, Watch) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """The messages of the graph around a run, and the function that writes to them."""

    channel: BaseChannel[Any, Any, Any]
    messages: list[AnyMessage]
    send: Callable[[Sequence[tuple[str, Any]]], None]
    runs: int
    """How many runs of the node the parent started with `Send` in this step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nested:
    """How the graph runs inside another graph; `enter_parent` makes it, and `finish` ends it.

    `parent` is `None` if the graph around it has no messages to which the run could write. `given`
    are the ids of the messages in the node's input.
    """

    graph: Graph
    value: Any
    config: RunnableConfig
    parent: Parent | None
    given: list[str]
    keeps_state: bool
    watch: Watch = field(default_factory=Watch)

    def finish(self) -> Steps[None]:
        """Remove and restore in the parent's messages what the run removed and restored in its own.

        Nothing is written without a `parent`. If no node ran, since the run had ended before its
        parent was resumed, the stored state is compared; without one nothing is written.
        """
        if self.parent is None:
            return
        end: Any = self.watch.end
        if end is None and self.keeps_state:  # the run had ended before its parent was resumed
            end = (yield from _stored(self.graph, self.config)).values
        if end:
            writes = _writes(self.parent, self.given, self.watch.start or end, end)
            self.parent.send([(CHANNEL, write) for write in writes])


def enter_parent(
    graph: Graph, config: RunnableConfig | None, value: Any, *, strict: bool
) -> Steps[Nested | None]:
    """Return how the graph runs as a node of another graph; `None` if it is not inside one.

    If the node is given all messages of its parent, which has a checkpointer and did not start
    several runs of the node at once, the node works on the parent's conversation: its working
    state is kept with the parent's thread, so that steps can be undone and redone, and its
    transcript is first made equal to the parent's messages. Otherwise nothing is kept after the run, unless the
    graph has `checkpointer=True` and its parent has a checkpointer.

    Args:
        graph: The graph that will run.
        config: The node's configuration.
        value: The node's input.
        strict: Whether to refuse a parent in which an undo or redo would not hold.

    Raises:
        ConfigurationError: The node is given all messages, and the reducer of the parent's messages
            cannot remove one; several runs that the parent starts at once would share the state of
            `checkpointer=True`; or `strict` refuses the parent.
    """
    full = ensure_config(config)
    place = full.get("configurable", {})
    if not callable(place.get(CONFIG_KEY_READ)):
        return None
    parent, watch = _parent_of(place), Watch()
    full = {**full, "configurable": {**place, WATCH: watch}}
    given = value.get(CHANNEL, []) if isinstance(value, Mapping) else []
    ids = [message.id for message in given]
    is_whole = parent is not None and bool(ids) and ids == [m.id for m in parent.messages]
    has_saver = isinstance(place.get(CONFIG_KEY_CHECKPOINTER), BaseCheckpointSaver)
    if parent is not None:
        _check(graph, parent, is_whole=is_whole)
    if strict:
        is_deep = "|" in place.get("checkpoint_ns", "")
        _check_strictly(parent, is_whole=is_whole, has_saver=has_saver, is_deep=is_deep)
    keeps_state = has_saver and graph.checkpointer is True
    if parent is not None and is_whole and has_saver and parent.runs < 2:
        keeps_state = graph.checkpointer is not False
        if keeps_state and graph.checkpointer is not True:
            graph = graph.copy({"checkpointer": True})
            if not place.get(CONFIG_KEY_RESUMING):
                stored = yield from _stored(graph, full)
                value = {**value, CHANNEL: _as_parent(stored.values, given)}
    return Nested(
        graph=graph,
        value=value,
        config=full,
        parent=parent,
        given=[name for name in ids if name],
        keeps_state=keeps_state,
        watch=watch,
    )


def _parent_of(place: Mapping[str, Any]) -> Parent | None:
    """Return the messages channel of the graph around a run, with the task that may write to it.

    `place` is the `configurable` part of the configuration of a node, never of a graph alone. `None`
    if there is no such channel, if it has no reducer, or if the graph around is unsay's own.
    """
    # LangGraph's reader is a `partial`; its arguments are the only way to the parent's channels.
    _, channels, _, task = place[CONFIG_KEY_READ].args
    channel = channels.get(CHANNEL)
    if not isinstance(channel, BinaryOperatorAggregate | DeltaChannel) or OWN_CHANNEL in channels:
        return None
    messages = channel.get() if channel.is_available() else []
    sent = channels[TASKS].get() if TASKS in channels and channels[TASKS].is_available() else []
    return Parent(
        channel=channel,
        messages=messages if isinstance(messages, list) else [],
        send=place[CONFIG_KEY_SEND],
        runs=sum(each.node == task.name for each in sent),
    )


def _check(graph: Graph, parent: Parent, *, is_whole: bool) -> None:
    """Raise `ConfigurationError` if a rollback would not hold in the parent, or runs share a state.

    If the node is given all messages of its parent (`is_whole`), their reducer must be able to
    remove one. With `checkpointer=True`, the parent must not send several runs of it at once.
    """
    if is_whole and not _can_remove(parent.channel):
        raise ConfigurationError(
            "The reducer of the parent's messages ignores RemoveMessage, so a rollback would not "
            "hold: declare messages: Annotated[list[AnyMessage], add_messages]"
        )
    if graph.checkpointer is True and parent.runs > 1:
        raise ConfigurationError(
            f"{parent.runs} runs of this node were sent at once, and with checkpointer=True they "
            "would share one state: build the graph without a checkpointer"
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
        why = "its parent has no channel 'messages' with a reducer such as add_messages"
    elif parent.runs > 1:
        why = f"{parent.runs} runs of this node were sent at once, and they would share one state"
    elif not is_whole:
        why = "it is not given the messages of its parent: pass state['messages'] as they are"
    elif not has_saver:
        why = "its parent has no checkpointer to keep what can be undone"
    elif is_deep:
        why = "its parent is a node itself, and the graph around it keeps the removed messages"
    else:
        return
    raise ConfigurationError(f"as_node: an undo would not hold, because {why}")


def _can_remove(channel: BaseChannel[Any, Any, Any]) -> bool:
    """Return whether a channel's reducer adds a message and removes it again.

    `False` also if the reducer raises.
    """
    probe, tried = HumanMessage("", id="unsay-probe"), channel.copy()
    try:
        tried.update([[probe, RemoveMessage(id="unsay-probe")]])
        left = tried.get()
    except Exception:  # noqa: BLE001 - a reducer is anyone's code
        return False
    return not any(getattr(each, "id", None) == probe.id for each in left)


def _stored(graph: Graph, config: RunnableConfig) -> Steps[StateSnapshot]:
    found: StateSnapshot = yield Call.of(graph.get_state, graph.aget_state, config)
    return found


def _as_parent(stored: Mapping[str, Any], given: Sequence[AnyMessage]) -> list[BaseMessage]:
    """Return the messages to write so that the stored transcript becomes equal to the parent's.

    `stored` are the values of the node's stored state, `given` the parent's messages. Only the
    differences are written if the order of the common messages is the same; else all are replaced.
    Empty if they are equal.
    """
    known = {message.id: message for message in stored.get(CHANNEL, [])}
    ids = {message.id for message in given}
    place = next((i for i, message in enumerate(given) if message.id in known), 0)
    # Offloaded messages are part of the transcript; the state does not hold them.
    rest = given[place:] if stored.get("offloaded") else given
    kept = [name for name in known if name in ids]
    if kept != [message.id for message in rest[: len(kept)]]:
        return [RemoveMessage(id=REMOVE_ALL_MESSAGES), *given] if known else list(given)
    removed: list[BaseMessage] = [RemoveMessage(id=name or "") for name in known if name not in ids]
    return [*removed, *(m for m in rest if known.get(m.id) != m)]


def _writes(
    parent: Parent, given: Sequence[str], start: State, end: State
) -> list[list[BaseMessage]]:
    """Return the writes that remove and restore in the parent what a run removed and restored.

    The first write removes, the second one restores; one that has nothing to do is left out.
    `given` are the ids of the node's input; `start` and `end` are the states before and after the
    run.
    """
    before = [message.id or "" for message in parent.messages]
    after = {message.id or "": message for message in end["messages"]}
    known = {*given, *(message.id or "" for message in start["messages"])}
    offloaded = offloaded_of(end)
    first = before.index(offloaded["last"]) + 1 if offloaded and offloaded["last"] in before else 0
    left = {name for name in before[first:] if name in known and name not in after}
    out: list[BaseMessage] = []
    back: list[BaseMessage] = []
    if after and is_notice(end["messages"][-1]):  # an order; an answer is the node's own to return
        names = list(after)[:-1]
        restored = [name for name in names if name not in known and name not in before]
        if restored:
            names = names[names.index(restored[0]) :]
            back = [after[name] for name in names if name in before or name in restored]
            left.update(name for name in names if name in before)
    # Each with its message, because `add_messages` refuses to remove an id that is not there, such
    # as one that another run of the same step removed.
    for message in parent.messages:
        if message.id in left:
            out += [message, RemoveMessage(id=message.id)]
    return [write for write in (out, back) if write]
