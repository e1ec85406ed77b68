"""A process that runs the graph on a thread which others write to as well."""

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from langgraph.graph import START, MessagesState, StateGraph

from tests.hosts.savers import WAYS, ainvoke, answer, answering, open_savers, opened_awaited
from unsay.errors import ConflictError
from unsay.storage import writer_lock

FOLDER = Path(sys.argv[1])
ASKED = json.loads(sys.argv[2])
"""`name`, `turns`, `seconds` of a model call, `way`, `kind` of checkpointer, and `settings`.

`wait_at`, if any, is where its checkpointer waits once: see `waiting`. With `dies` the process is
killed as soon as the state of its answer is stored. With `parent` the graph is a node of another.
`lease`, if any, is the time of a lease in seconds.
"""

writer_lock.LEASE_SECONDS = ASKED.get("lease", writer_lock.LEASE_SECONDS)


def model(messages: list[Any]) -> str:
    """Say that the model was reached, take time, and answer."""
    (FOLDER / f"{ASKED['name']}.reached").touch()
    time.sleep(ASKED["seconds"])
    return answer(messages)


HERE, GO, REACHED = (FOLDER / f"{ASKED['name']}.{end}" for end in ("waits", "goes", "reached"))


def is_due(config: Any, point: str) -> bool:
    """Whether the checkpointer comes to the place where it waits, for the first time."""
    configurable = config["configurable"]
    is_state = configurable["thread_id"] == "t" and not configurable.get("checkpoint_ns")
    due = ("answer" if REACHED.exists() else "question") + point
    if HERE.exists() or not is_state or ASKED.get("wait_at") != due:
        return False
    HERE.touch()
    return True


def stop(config: Any, point: str) -> None:
    """Wait there, until the test wakes the process up."""
    if is_due(config, point):
        while not GO.exists():
            time.sleep(0.01)


async def stop_awaited(config: Any, point: str) -> None:
    """The same on an event loop, which renews the lease meanwhile."""
    if is_due(config, point):
        while not GO.exists():  # noqa: ASYNC110 - another process makes the file
            await asyncio.sleep(0.01)


def die() -> None:
    """End the process, if it was woken up to do so."""
    if GO.exists() and ASKED.get("dies"):
        os.kill(os.getpid(), signal.SIGKILL)


def waiting(saver: Any) -> None:
    """Let a checkpointer wait in the middle of a commit.

    It waits before it names the versions of the "question" or the "answer", before it stores the
    "answer's writes", or before it puts the "question's state" or the "answer's state".
    """
    kind = type(saver)
    anywhere = {"configurable": {"thread_id": "t"}}

    class Waiting(kind):  # type: ignore[misc, valid-type]
        def get_next_version(self, current: Any, channel: None) -> Any:
            stop(anywhere, "")
            return super().get_next_version(current, channel)

        def put(self, config: Any, *args: Any) -> Any:
            stop(config, "'s state")
            new_config = super().put(config, *args)
            die()
            return new_config

        def put_writes(self, config: Any, *args: Any) -> None:
            stop(config, "'s writes")
            super().put_writes(config, *args)

        async def aput(self, config: Any, *args: Any) -> Any:
            await stop_awaited(config, "'s state")
            return await super().aput(config, *args)

        async def aput_writes(self, config: Any, *args: Any) -> None:
            await stop_awaited(config, "'s writes")
            await super().aput_writes(config, *args)

    if "wait_at" in ASKED:
        saver.__class__ = Waiting


def built(savers: Any) -> Any:
    """The graph, or one around it."""
    options = {"model": model, "settings": ASKED["settings"]}
    if not ASKED.get("parent"):
        return answering(**options, **savers)
    builder: Any = StateGraph(MessagesState)
    builder.add_node("talk", answering(**options))
    builder.add_edge(START, "talk")
    return builder.compile(**savers)


def tell(number: int, outcome: str) -> None:
    """Print what became of a turn."""
    print(json.dumps([f"{ASKED['name']}-{number}", outcome]), flush=True)


def blocking() -> None:
    """Every turn, one after the other."""
    with open_savers(ASKED["kind"], FOLDER) as savers:
        waiting(savers["checkpointer"])
        graph = built(savers)
        for number in range(ASKED["turns"]):
            try:
                tell(number, WAYS[ASKED["way"]](graph, f"{ASKED['name']}-{number}"))
            except ConflictError:
                tell(number, "refused")


async def run_async() -> None:
    """The same on one event loop."""
    async with opened_awaited(ASKED["kind"], FOLDER) as savers:
        waiting(savers["checkpointer"])
        graph = built(savers)
        for number in range(ASKED["turns"]):
            try:
                tell(number, await ainvoke(graph, f"{ASKED['name']}-{number}"))
            except ConflictError:
                tell(number, "refused")


if __name__ == "__main__":
    asyncio.run(run_async()) if ASKED["way"] == "ainvoke" else blocking()
