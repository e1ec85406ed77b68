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

from tests.hosts.savers import WAYS, ainvoke, answer, answering, opened, opened_awaited
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


def is_due(config: Any, part: str) -> bool:
    """Whether the checkpointer comes to the place where it waits, for the first time."""
    place = config["configurable"]
    is_state = place["thread_id"] == "t" and not place.get("checkpoint_ns")
    due = ("answer" if REACHED.exists() else "question") + part
    if HERE.exists() or not is_state or ASKED.get("wait_at") != due:
        return False
    HERE.touch()
    return True


def stop(config: Any, part: str) -> None:
    """Wait there, until the test wakes the process up."""
    if is_due(config, part):
        while not GO.exists():
            time.sleep(0.01)


async def stop_awaited(config: Any, part: str) -> None:
    """The same on an event loop, which renews the lease meanwhile."""
    if is_due(config, part):
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
    kind, anywhere = type(saver), {"configurable": {"thread_id": "t"}}

    class Waiting(kind):  # type: ignore[misc, valid-type]
        def get_next_version(self, current: Any, channel: None) -> Any:
            stop(anywhere, "")
            return super().get_next_version(current, channel)

        def put(self, config: Any, *rest: Any) -> Any:
            stop(config, "'s state")
            stored = super().put(config, *rest)
            die()
            return stored

        def put_writes(self, config: Any, *rest: Any) -> None:
            stop(config, "'s writes")
            super().put_writes(config, *rest)

        async def aput(self, config: Any, *rest: Any) -> Any:
            await stop_awaited(config, "'s state")
            return await super().aput(config, *rest)

        async def aput_writes(self, config: Any, *rest: Any) -> None:
            await stop_awaited(config, "'s writes")
            await super().aput_writes(config, *rest)

    if "wait_at" in ASKED:
        saver.__class__ = Waiting


def built(savers: Any) -> Any:
    """The graph, or one around it."""
    given = {"model": model, "settings": ASKED["settings"]}
    if not ASKED.get("parent"):
        return answering(**given, **savers)
    builder: Any = StateGraph(MessagesState)
    builder.add_node("talk", answering(**given))
    builder.add_edge(START, "talk")
    return builder.compile(**savers)


def told(number: int, outcome: str) -> None:
    """Print what became of a turn."""
    print(json.dumps([f"{ASKED['name']}-{number}", outcome]), flush=True)


def blocking() -> None:
    """Every turn, one after the other."""
    with opened(ASKED["kind"], FOLDER) as savers:
        waiting(savers["checkpointer"])
        graph = built(savers)
        for number in range(ASKED["turns"]):
            try:
                told(number, WAYS[ASKED["way"]](graph, f"{ASKED['name']}-{number}"))
            except ConflictError:
                told(number, "refused")


async def awaited() -> None:
    """The same on one event loop."""
    async with opened_awaited(ASKED["kind"], FOLDER) as savers:
        waiting(savers["checkpointer"])
        graph = built(savers)
        for number in range(ASKED["turns"]):
            try:
                told(number, await ainvoke(graph, f"{ASKED['name']}-{number}"))
            except ConflictError:
                told(number, "refused")


if __name__ == "__main__":
    asyncio.run(awaited()) if ASKED["way"] == "ainvoke" else blocking()
