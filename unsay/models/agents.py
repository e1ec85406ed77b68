"""The own state of an agent that answers, such as todos and files.

It is stored with the turn's answer, in its annotation, so that rollback, redo and forks carry it
along; the next call gets the state of the newest answer in the transcript.
"""

import copy
import logging
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeVar

from langchain_core.messages import AnyMessage, BaseMessage
from langchain_core.runnables import Runnable, RunnableLambda
from langgraph.channels import EphemeralValue, UntrackedValue
from langgraph.graph import START
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode
from pydantic import PydanticUserError, TypeAdapter
from typing_extensions import TypedDict, get_type_hints

from unsay.messages.annotations import annotate, annotation_of, without
from unsay.models.factory import change_inner, inner_of, is_chat_model, is_graph
from unsay.tools import also_blocking

LOG = logging.getLogger(__name__)

NAME = "agent_state"
"""Name of the annotation."""

STRUCTURED = "structured_response"
"""Channel of an agent with a `response_format`; the next call must not find it, or it would end."""


def with_own_state(model: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """Return a model whose agents both take and return all channels of their input and output.

    Without this, a channel of the output alone, such as `todos`, could not be given back to the
    agent. Its async tools can then be called from blocking code too. A chat model as fallback of
    an agent, or an agent as fallback of a chat model, gets its input in its own form. The given
    agent is not changed; a model without agents is returned as it is.
    """
    adapted = []

    def adapt(each: Runnable[Any, Any]) -> Runnable[Any, Any]:
        result = _with_channels(each) if _is_agent(each) else each
        if is_graph(model) and is_chat_model(each):
            result = RunnableLambda(itemgetter("messages")) | result
        elif not is_graph(model) and is_graph(each):
            result = RunnableLambda(_as_input) | result
        if result is not each:
            adapted.append(each)
        return result

    adapted_model = change_inner(model, adapt)
    # Of a configurable model only the default is known before it is called.
    return adapted_model if adapted or _is_agent(inner_of(model)) else model


def _as_input(messages: Sequence[AnyMessage]) -> dict[str, Any]:
    return {"messages": messages}


def _is_agent(runnable: object) -> bool:
    # A graph of another class, such as one of `build_graph`, has its own rules for its input.
    return type(runnable) is CompiledStateGraph


def _with_channels(graph: Any) -> Any:
    builder = copy.copy(graph.builder)
    input_schema, returned = _schemas(graph)
    # Both schemas in one; a class made here, since each agent has its own.
    counters = _counters(graph)
    types = {**counters, **_hints(returned), **_hints(input_schema)}
    both: Any = TypedDict("AgentChannels", types)  # type: ignore[misc]
    channels = {name: builder.channels[name] for name in counters}
    channels |= {**builder.schemas[returned], **builder.schemas[input_schema]}
    builder.input_schema, builder.schemas = both, {**builder.schemas, both: channels}
    graph_fields = {
        "builder": builder,
        "nodes": _with_blocking_tools(graph.nodes),
        "output_channels": [name for name in channels if name in graph.channels],
    }
    agent = graph.copy(graph_fields)
    # The new start node writes the new input; the other writers of the old one are its edges.
    agent.attach_node(START, None)
    agent.nodes[START].writers.extend(graph.nodes[START].writers[1:])
    return agent


def _with_blocking_tools(nodes: Mapping[str, Any]) -> dict[str, Any]:
    """Return an agent's nodes by name; their async tools can be called from blocking code too.

    This is also true of agents inside of the nodes. A node without tools is returned unchanged.
    """
    return {name: _with_blocking_tools_in(node) for name, node in nodes.items()}


def _with_blocking_tools_in(node: Any) -> Any:
    if _is_agent(node.bound):
        inner = node.bound.copy({"nodes": _with_blocking_tools(node.bound.nodes)})
        return node.copy({"bound": inner})
    if not isinstance(node.bound, ToolNode):
        return node
    tools = {name: also_blocking(each) for name, each in node.bound.tools_by_name.items()}
    bound: Any = copy.copy(node.bound)
    bound._tools_by_name = tools  # the host's own node is not changed
    bound.func, bound.afunc = bound._func, bound._afunc  # those of the copy
    return node.copy({"bound": bound})


def _schemas(graph: Any) -> tuple[type[Any], type[Any]]:
    return graph.builder.input_schema, graph.builder.output_schema


def input_names(model: object) -> set[str]:
    """Return the names of an agent's input channels, without `messages`; empty if it is no agent."""
    graph: Any = inner_of(model) if isinstance(model, Runnable) else model
    return set(_hints(graph.builder.input_schema)) - {"messages"} if _is_agent(graph) else set()


def _kept(graph: Any) -> dict[str, Any]:
    """Return the types, by name, of the agent's channels that are stored with an answer.

    They are those of its input and output, and its counters, without `messages`, ephemeral and
    untracked ones.
    """
    schemas = (_hints(schema) for schema in _schemas(graph))
    types = {name: each for hints in (_counters(graph), *schemas) for name, each in hints.items()}
    passing = (EphemeralValue, UntrackedValue)
    return {
        name: types[name]
        for name in types
        if name != "messages" and not isinstance(graph.channels.get(name, passing), passing)
        if name in graph.channels
    }


def _counters(graph: Any) -> dict[str, Any]:
    """Return the types, by name, of the agent's channels for numbers, such as those of limits by thread.

    Other private channels may refer to messages by their places, which differ in each context.
    """
    hints = _hints(graph.builder.state_schema)
    numbers = (int, float, dict[str, int], dict[str, float])
    return {name: kind for name, kind in hints.items() if kind in numbers}


def _hints(schema: Any) -> dict[str, Any]:
    try:
        return get_type_hints(schema)
    except (NameError, TypeError):  # a type that was named in a function
        return dict.fromkeys(getattr(schema, "__annotations__", {}), Any)


def _adapter(kind: Any) -> TypeAdapter[Any]:
    """Return the pydantic adapter that writes and reads values of a type.

    Raises `PydanticUserError` if pydantic has none.
    """
    try:
        return TypeAdapter(Any if isinstance(kind, TypeVar) else kind)
    except PydanticUserError as error:
        if error.code != "typed-dict-version":
            raise
        return TypeAdapter(Any)  # a dict of plain values is one also without its type


def report_unkept(model: object, name: str) -> None:
    """Log a warning for each channel of an agent that is not kept from turn to turn.

    `name` is the argument with which the model was given. A model that is not an agent is skipped.
    Called when the graph is built.
    """
    graph: Any = inner_of(model) if isinstance(model, Runnable) else model
    if not _is_agent(graph):
        return
    channel_types = _kept(graph)
    own = [
        name
        for name, channel in graph.builder.channels.items()
        if name not in ("messages", *channel_types) and not isinstance(channel, EphemeralValue)
    ]
    lost = dict.fromkeys(own, "it is in neither the input nor the output schema, or never stored")
    for channel, kind in channel_types.items():
        try:
            _adapter(kind)
        except PydanticUserError:
            lost[channel] = f"a value of type {kind!r} cannot be stored"
    for channel, reason in lost.items():
        LOG.warning(
            "%s: the agent's channel %r is not kept from turn to turn: %s", name, channel, reason
        )


def state_before(model: Runnable[Any, Any], messages: Sequence[AnyMessage]) -> dict[str, Any]:
    """Return the channels to give to an agent: those stored with the newest answer that has any.

    Empty without such an answer, or if the model is not an agent. A value that the agent can no
    longer read is left out.
    """
    stored_channels = next(
        (state for each in reversed(messages) if (state := agent_state(each))), {}
    )
    graph = inner_of(model)
    if not stored_channels or not _is_agent(graph):
        return {}
    types, channels = _kept(graph), {}
    for name in stored_channels.keys() & types.keys() - {STRUCTURED}:
        try:
            channels[name] = _adapter(types[name]).validate_python(stored_channels[name])
        except (PydanticUserError, ValueError) as error:  # the agent was changed since
            LOG.warning("the agent's channel %r is not restored: %s", name, type(error).__name__)
    return channels


def agent_state(message: BaseMessage) -> dict[str, Any]:
    """Return the agent's state that was stored with an answer, as JSON values; empty without one."""
    return dict(annotation_of(message).get(NAME) or {})


def with_agent_state(messages: Sequence[AnyMessage], state: Mapping[str, Any]) -> list[AnyMessage]:
    """Return the messages; a copy of the last one has an agent's state in its annotation.

    Without messages or with an empty state nothing is added.
    """
    if not messages or not state:
        return list(messages)
    return [*messages[:-1], annotate(messages[-1], **{NAME: dict(state)})]


def state_after(model: Runnable[Any, Any], reply: Any) -> Iterator[tuple[str, Any]]:
    """Yield the name and JSON value of each channel of an agent's reply, for `state_before`.

    Channels without a value are skipped. For a channel that cannot be kept, its error is yielded
    instead. Nothing is yielded for a model that is not an agent, or a reply that is not a mapping.
    """
    graph = inner_of(model)
    if not isinstance(reply, Mapping) or not _is_agent(graph):
        return
    for name, kind in _kept(graph).items():
        if reply.get(name) is not None:
            try:
                yield name, _plain(name, reply[name], kind)
            except (PydanticUserError, TypeError, ValueError) as error:
                yield name, error


def _plain(name: str, value: Any, kind: Any) -> Any:
    if name == STRUCTURED:
        return structured_value(value)
    adapter = _adapter(kind)
    plain = adapter.dump_python(value, mode="json", warnings=False)
    if adapter.validate_python(plain) != value:
        raise TypeError(f"a value of type {type(value).__name__} would come back changed")
    return plain


def structured_value(value: Any) -> Any:
    """Return an agent's structured reply, such as a pydantic object, as JSON values.

    Raises `ValueError` if JSON cannot hold it.
    """
    return TypeAdapter(Any).dump_python(value, mode="json")


def without_state(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return the messages without the stored states; an agent is sent them in this form."""
    return [without(each, NAME) for each in messages]
