"""The compiled graph with checks at its four entry points.

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

from unsay.graph.host_input import checked_input, checked_update
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
        if isinstance(input, Trusted):
            yield from super().stream(input.value, config, **options)
            return
        value = checked_input(input)
        yield from super().stream(value, config, **options)

    async def astream(
        self,
        input: Any,  # noqa: A002 - its name
        config: RunnableConfig | None = None,
        **options: Any,
    ) -> AsyncIterator[Any]:
        """Check the input, then run the graph; `ainvoke` calls this as well."""
        value = input.value if isinstance(input, Trusted) else checked_input(input)
        running: Any = super().astream(value, config, **options)
        async with aclosing(running) as chunks:
            async for chunk in chunks:
                yield chunk

    def bulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Check the updates, then write them; `update_state` calls this as well."""
        return super().bulk_update_state(config, _checked(supersteps))

    async def abulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Check the updates, then write them; `aupdate_state` calls this as well."""
        return await super().abulk_update_state(config, _checked(supersteps))


def _checked(supersteps: Sequence[Sequence[StateUpdate]]) -> list[list[StateUpdate]]:
    return [
        [
            update._replace(values=update.values.value)
            if isinstance(update.values, Trusted)
            else checked_update(update)
            for update in superstep
        ]
        for superstep in supersteps
    ]
