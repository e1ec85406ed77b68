"""The compiled graph with checks at its four entry points; each is the thread's only writer.

A host enters the graph through `stream`, `astream`, `bulk_update_state` or `abulk_update_state`;
`invoke`, `ainvoke`, `batch`, `astream_events` and `update_state` call one of these. A check must be
made there: a reducer runs after the saver has stored the write.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import StateUpdate

from unsay.effects import adrive, drive
from unsay.graph.host_input import checked_input, checked_update
from unsay.graph.single_writer import one_writer, one_writer_awaited
from unsay.graph.time_travel import Entry, begin_run, begin_update
from unsay.runtime import Services


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

    def __init__(self, *, services: Services, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.services = services

    def stream(
        self,
        input: Any,  # noqa: A002 - its name
        config: RunnableConfig | None = None,
        **options: Any,
    ) -> Iterator[Any]:
        """Check the input, then run the graph; `invoke` calls this as well."""
        is_ours = isinstance(input, Trusted)
        value = input.value if is_ours else checked_input(input)
        with one_writer(self, config, self.services.settings, is_held=is_ours) as own_config:
            entry = Entry(value=value, config=own_config, options=options)
            if not is_ours:
                entry = drive(begin_run(self, self.services, entry))
            yield from super().stream(entry.value, entry.config, **entry.options)

    async def astream(
        self,
        input: Any,  # noqa: A002 - its name
        config: RunnableConfig | None = None,
        **options: Any,
    ) -> AsyncIterator[Any]:
        """Check the input, then run the graph; `ainvoke` calls this as well."""
        is_ours = isinstance(input, Trusted)
        value = input.value if is_ours else checked_input(input)
        held = one_writer_awaited(self, config, self.services.settings, is_held=is_ours)
        async with held as own_config:
            entry = Entry(value=value, config=own_config, options=options)
            if not is_ours:
                entry = await adrive(begin_run(self, self.services, entry))
            running: Any = super().astream(entry.value, entry.config, **entry.options)
            async with aclosing(running) as chunks:
                async for chunk in chunks:
                    yield chunk

    def bulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Check the updates, then write them; `update_state` calls this as well."""
        values, checked = _checked(supersteps)
        with one_writer(self, config, self.services.settings, is_held=not values):
            start = drive(begin_update(self, self.services, config, values)) if values else config
            return super().bulk_update_state(start, checked)

    async def abulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Check the updates, then write them; `aupdate_state` calls this as well."""
        values, checked = _checked(supersteps)
        start = config
        async with one_writer_awaited(self, config, self.services.settings, is_held=not values):
            if values:
                start = await adrive(begin_update(self, self.services, config, values))
            return await super().abulk_update_state(start, checked)


def _checked(
    supersteps: Sequence[Sequence[StateUpdate]],
) -> tuple[list[Any], list[list[StateUpdate]]]:
    """Return the values that a host gives, and all updates as they are stored."""
    values: list[Any] = []
    checked: list[list[StateUpdate]] = []
    for superstep in supersteps:
        updates = []
        for update in superstep:
            if isinstance(update.values, Trusted):
                updates.append(update._replace(values=update.values.value))
            else:
                updates.append(checked_update(update))
                values.append(updates[-1].values)
        checked.append(updates)
    return values, checked
