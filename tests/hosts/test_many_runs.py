"""Many runs that begin at once on one event loop, over each checkpointer."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langgraph.graph import START, MessagesState, StateGraph

from tests.hosts.savers import answering, opened_awaited, question_input

RUNS = 50


@pytest.fixture
def tasks_of_the_host() -> Callable[[], Any]:
    """Gives the loop one worker for `asyncio.to_thread`, and uses it as a host does."""

    async def ask() -> int:
        return await asyncio.to_thread(lambda: 1)

    def start() -> Any:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(max_workers=1))
        return ask

    return start


async def all_runs_end(kind: str, folder: Path, start: Callable[[], Any]) -> None:
    """Run turns in 50 threads at once, of the graph and one around it, and use the host's worker."""
    ask = start()
    async with opened_awaited(kind, folder) as savers:
        if kind == "postgres":
            await savers["checkpointer"].setup()
        around: Any = StateGraph(MessagesState)
        around.add_node("talk", answering())
        around.add_edge(START, "talk")
        for name, graph in [("own", answering(**savers)), ("around", around.compile(**savers))]:
            configs: Any = [{"configurable": {"thread_id": f"{name} {n}"}} for n in range(RUNS)]
            coroutines = [graph.ainvoke(question_input("Question"), config) for config in configs]
            runs = [asyncio.create_task(run) for run in coroutines]
            while not all(run.done() for run in runs):
                assert 1 == await ask()
                await asyncio.sleep(0.01)
            answers = [run.result()["messages"][-1].text for run in runs]
            assert ["This answers Question"] * RUNS == answers


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "kind",
    ["memory", *(pytest.param(kind, marks=pytest.mark.full) for kind in ["ours", "sqlite"])],
)
async def test_all_runs_that_begin_at_once_end(
    tmp_path: Path, kind: str, tasks_of_the_host: Callable[[], Any]
) -> None:
    """No run keeps a worker of the loop while it waits: with one worker all runs end."""
    await all_runs_end(kind, tmp_path, tasks_of_the_host)
