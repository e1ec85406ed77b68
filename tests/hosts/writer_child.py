"""A process that runs the graph on a thread which others write to as well."""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from tests.hosts.savers import WAYS, ainvoke, answer, answering, opened, opened_awaited
from unsay.errors import ConflictError

FOLDER = Path(sys.argv[1])
ASKED = json.loads(sys.argv[2])
"""`name`, `turns`, `seconds` of a model call, `way`, `kind` of checkpointer, and `settings`."""


def model(messages: list[Any]) -> str:
    """Say that the model was reached, take time, and answer."""
    (FOLDER / f"{ASKED['name']}.reached").touch()
    time.sleep(ASKED["seconds"])
    return answer(messages)


def told(number: int, outcome: str) -> None:
    """Print what became of a turn."""
    print(json.dumps([f"{ASKED['name']}-{number}", outcome]), flush=True)


def blocking() -> None:
    """Every turn, one after the other."""
    with opened(ASKED["kind"], FOLDER) as savers:
        graph = answering(model=model, settings=ASKED["settings"], **savers)
        for number in range(ASKED["turns"]):
            try:
                told(number, WAYS[ASKED["way"]](graph, f"{ASKED['name']}-{number}"))
            except ConflictError:
                told(number, "refused")


async def awaited() -> None:
    """The same on one event loop."""
    async with opened_awaited(ASKED["kind"], FOLDER) as savers:
        graph = answering(model=model, settings=ASKED["settings"], **savers)
        for number in range(ASKED["turns"]):
            try:
                told(number, await ainvoke(graph, f"{ASKED['name']}-{number}"))
            except ConflictError:
                told(number, "refused")


if __name__ == "__main__":
    asyncio.run(awaited()) if ASKED["way"] == "ainvoke" else blocking()
