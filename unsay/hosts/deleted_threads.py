"""Threads that are deleted while a run goes on: what the run still writes is deleted at its end."""

from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langgraph._internal._constants import CONFIG_KEY_RUNTIME
from langgraph.graph.state import CompiledStateGraph
from langgraph_sdk import get_client
from langgraph_sdk.errors import NotFoundError

from unsay.effects import Call, Steps
from unsay.history.threads import UnderWay, purge_items
from unsay.hosts.time_travel import is_orphan, place_of, rejoin
from unsay.runtime import Services

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
    full = ensure_config(config)
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
