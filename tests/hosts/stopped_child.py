"""A host that stops a run, deletes its states as a server does, and dies in the next one.

Its arguments: the path of the file, and the node or place in which it dies.
"""

import asyncio
import os
import signal
import sqlite3
import sys
from typing import Any

from tests.graph.kit import Numbered, config, make, say
from unsay.storage.sqlite import open_database


def die(*_: Any) -> Any:
    """End this process at once."""
    os.kill(os.getpid(), signal.SIGKILL)


def main(path: str, point: str) -> None:
    """Stop a run, delete its states, and die."""
    database = open_database(path)
    model_called = asyncio.Event()

    async def ask(messages: Any) -> Any:
        if "stopped" not in messages[-1].text:
            return die() if messages[-1].text == "dies" else Numbered()(messages)
        model_called.set()
        await asyncio.sleep(60)
        return None

    graph = make(ask, checkpointer=database.saver, store=database.store)
    say(graph, "q1")
    with sqlite3.connect(path) as rows:
        (before,) = rows.execute("SELECT max(checkpoint_id) FROM checkpoints").fetchone()

    async def stop() -> None:
        question = {"messages": [("user", "stopped")]}
        run = asyncio.create_task(graph.ainvoke(question, config()))
        await model_called.wait()
        run.cancel()
        await asyncio.wait({run})

    asyncio.run(stop())
    with sqlite3.connect(path) as rows:
        rows.execute("DELETE FROM checkpoints WHERE checkpoint_id > ?", (before,))
        rows.execute("DELETE FROM writes WHERE checkpoint_id >= ?", (before,))
    if point == "end":
        saver: Any = database.saver
        put_checkpoint = saver.put
        saver.put = lambda c, k, m, v: (
            die() if m["source"] == "loop" else put_checkpoint(c, k, m, v)
        )
    say(graph, "dies" if point == "model" else "q2")


if __name__ == "__main__":
    main(*sys.argv[1:])
