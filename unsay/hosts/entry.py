"""The compiled graph with checks at its four entry points; each is the thread's only writer.

A host enters the graph through `stream`, `astream`, `bulk_update_state` or `abulk_update_state`;
`invoke`, `ainvoke`, `batch`, `astream_events` and `update_state` call one of these. A check must be
made there: a reducer runs after the saver has stored the write.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import BaseTool
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import StateUpdate
from pydantic import BaseModel

from unsay.effects import Call, Steps, adrive, drive
from unsay.history.unsaved_answers import UNSAVED
from unsay.hosts.input import HostInput, ToolInput, read_input, read_update, refusal_of
from unsay.hosts.parent_graph import Nested, enter_parent
from unsay.hosts.single_writer import one_writer, one_writer_awaited
from unsay.hosts.time_travel import Entry, begin_run, begin_update
from unsay.messages.content import text_of
from unsay.models.agents import input_names
from unsay.runtime import Services
from unsay.state import State

PASSED_ON_STATES = 5
"""How many of the newest states a host may have read and passed on. AG-UI makes two states first."""


@dataclass(frozen=True, slots=True)
class Trusted:
    """An input or an update that unsay made itself: it may write every channel.

    `Conversation` wraps its inputs and updates in it, and holds the thread's lock meanwhile. It is
    a Python type, so a client of a server, who sends JSON, cannot make one.
    """

    value: Any


class HostGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """The graph that `build_graph` returns: what a host passes is checked before it is stored.

    Servers copy it with other attributes (`copy`), so its own attributes are arguments as well.
    """

    def __init__(self, *, services: Services, is_node: bool = False, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.services = services
        self.is_node = is_node

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the class of the input, from which `as_tool` makes the tool's arguments."""
        del config
        return ToolInput

    def as_tool(self, args_schema: type[BaseModel] | None = None, **options: Any) -> BaseTool:
        """Return the graph as a tool of an agent: its result is the text of the answer alone.

        The arguments are those of LangChain's `Runnable.as_tool`.
        """
        answers = self | RunnableLambda(_answer_of)
        return answers.as_tool(args_schema, **{"name": self.get_name(), **options})

    def stream(
        self,
        input: Any,  # noqa: A002 - its name
        config: RunnableConfig | None = None,
        **options: Any,
    ) -> Iterator[Any]:
        """Check the input, then run the graph; `invoke` calls this as well.

        Errors are raised when the first chunk is read, or later.

        Raises:
            InputError: The graph cannot take the input.
            UnknownCheckpointError: The configuration names a state that the thread does not have.
            ConflictError: The input would drop a pending decision.
            ThreadBusyError: Another writer has the thread.
            ConfigurationError: In the graph around this one no rollback would hold; see
                `enter_parent`.
            StorageError: What is stored of the thread is damaged.
            Exception: The run failed, such as with `ModelUnavailableError`; the question is kept.
        """
        is_ours = isinstance(input, Trusted)
        host_input = HostInput(value=input.value) if is_ours else read_input(input)
        with one_writer(self, config, self.services, is_held=is_ours) as own_config:
            entry, nested = drive(self._begin(host_input, own_config, options, is_ours=is_ours))
            with self._saving(own_config):
                if nested is None:
                    yield from super().stream(entry.value, entry.config, **entry.options)
                    return
                run = CompiledStateGraph.stream
                yield from run(nested.graph, nested.value, nested.config, **entry.options)
            drive(nested.finish())

    async def astream(
        self,
        input: Any,  # noqa: A002 - its name
        config: RunnableConfig | None = None,
        **options: Any,
    ) -> AsyncIterator[Any]:
        """Check the input, then run the graph; `ainvoke` calls this as well.

        The errors are those of `stream`.
        """
        is_ours = isinstance(input, Trusted)
        host_input = HostInput(value=input.value) if is_ours else read_input(input)
        writer = one_writer_awaited(self, config, self.services, is_held=is_ours)
        async with writer as own_config:
            begun = self._begin(host_input, own_config, options, is_ours=is_ours)
            entry, nested = await adrive(begun)
            running: Any = super().astream(entry.value, entry.config, **entry.options)
            if nested is not None:
                run = CompiledStateGraph.astream
                running = run(nested.graph, nested.value, nested.config, **entry.options)
            with self._saving(own_config):
                async with aclosing(running) as chunks:
                    async for chunk in chunks:
                        yield chunk
            if nested is not None:
                await adrive(nested.finish())

    def bulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Check the updates, write them, and return the new state's configuration.

        `update_state` calls this as well.

        Raises:
            InputError: The graph cannot take an update.
            UnknownCheckpointError: The configuration names a state that the thread does not have.
            ConflictError: The thread waits for a decision, which the update would drop.
            ThreadBusyError: Another writer has the thread.
            StorageError: What is stored of the thread is damaged.
        """
        host_input, values = _read_updates(supersteps)
        with one_writer(self, config, self.services, is_held=not values) as own:
            drive(self._refuse_others(host_input.others, config))
            start = own or config
            if values:
                start = drive(begin_update(self, self.services, start, values))
            return super().bulk_update_state(start, host_input.value)

    async def abulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Do on an event loop what `bulk_update_state` does; `aupdate_state` calls this as well.

        The result and the errors are the same.
        """
        host_input, values = _read_updates(supersteps)
        writer = one_writer_awaited(self, config, self.services, is_held=not values)
        async with writer as own:
            await adrive(self._refuse_others(host_input.others, config))
            start = own or config
            if values:
                start = await adrive(begin_update(self, self.services, start, values))
            return await super().abulk_update_state(start, host_input.value)

    def _begin(
        self,
        host_input: HostInput,
        config: RunnableConfig | None,
        options: dict[str, Any],
        *,
        is_ours: bool,
    ) -> Steps[tuple[Entry, Nested | None]]:
        """Return what to run, and the same inside of another graph; the errors are those of `stream`.

        The option `output_keys` has the streamed channels, by default those of `Output`.
        """
        yield from self._refuse_others(host_input.others, config)
        if options.get("output_keys") is None:
            options = {**options, "output_keys": self.output_channels}
        entry = Entry(value=host_input.value, config=config, options=options)
        if not is_ours:
            entry = yield from begin_run(self, self.services, entry)
        nested = yield from enter_parent(
            self, self.services, entry.config, entry.value, strict=self.is_node
        )
        return entry, nested

    def _saving(self, config: RunnableConfig | None) -> AbstractContextManager[None]:
        """Return a context manager for a run: if saving fails, it keeps the run's answer in memory.

        The error is raised on, with the answer in it.
        """
        configurable = (config or {}).get("configurable", {})
        name = None if configurable.get("thread_id") is None else str(configurable["thread_id"])
        # As in a scope: a run without a checkpointer has no store.
        saver = configurable.get(CONFIG_KEY_CHECKPOINTER, self.checkpointer)
        return UNSAVED.run((saver and self.store) or self.services, name)

    def _refuse_others(
        self, others: Mapping[str, Any], config: RunnableConfig | None
    ) -> Steps[None]:
        """Raise `InputError` if a host would change channels that it may not write.

        These are the graph's own and those of an agent's input; `others` are the values that it
        passed, and other names are ignored. Values that are the same as in one of the newest states
        are accepted: some hosts pass on all that they read. In a graph that is a node of another
        graph they are ignored.
        """
        private = {*State.__annotations__, *input_names(self.services.model_like)}
        others = {name: each for name, each in others.items() if name in private}
        # As a node the graph gets its parent's state, which may use the same names for other things.
        configurable = (config or {}).get("configurable", {})
        if not others or configurable.get("checkpoint_ns"):
            return
        # A host that passes on what it read, as AG-UI does, changes nothing. Its own update may have
        # added newer states since.
        place = config if self.checkpointer and configurable.get("thread_id") else None
        for _ in range(PASSED_ON_STATES):
            if place is None:
                break
            snapshot = yield from Call.of(self.get_state, self.aget_state, place)
            snapshot_values = {
                name: snapshot.values[name] for name in others if name in snapshot.values
            }
            if others == snapshot_values:
                return
            place = snapshot.parent_config
        raise refusal_of(others)


def _answer_of(state: Mapping[str, Any]) -> str:
    replies = [message for message in state.get("messages", []) if message.type == "ai"]
    return text_of(replies[-1]) if replies else ""


def _read_updates(supersteps: Sequence[Sequence[StateUpdate]]) -> tuple[HostInput, list[Any]]:
    """Return all updates as LangGraph stores them, and the values of those that a host made.

    `others` of the first result has what the host passed for channels that it may not write.
    Raises `InputError` if the graph cannot take an update of a host.
    """
    values: list[Any] = []
    others: dict[str, Any] = {}
    checked: list[list[StateUpdate]] = []
    for superstep in supersteps:
        checked.append([])
        for update in superstep:
            if isinstance(update.values, Trusted):
                checked[-1].append(update._replace(values=update.values.value))
                continue
            host_input = read_update(update)
            checked[-1].append(host_input.value)
            values.append(host_input.value.values)
            others.update(host_input.others)
    return HostInput(value=checked, others=others), values


def as_node(graph: HostGraph) -> HostGraph:
    """Return a copy of the graph that, as a node, refuses a parent where an undo would not hold.

    It raises `ConfigurationError`, with the reason, before a model is asked: if the parent keeps
    no state for it, is a node itself, or has no `messages` with a reducer. A graph of
    `build_graph` can be a node as it is: it mostly runs there too, but an undo may not hold.
    """
    return graph.copy({"checkpointer": None, "is_node": True})
