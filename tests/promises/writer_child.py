"""A process that takes turns in a thread which others write to as well."""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from unsay import AsyncConversation, Conversation
from unsay.errors import ThreadBusyError
from unsay.storage import writer_lock
from unsay.testing import ScriptedChat, ScriptedJudge

FOLDER = Path(sys.argv[1])
ASKED = json.loads(sys.argv[2])
"""`name`, `turns`, `seconds` for one model call, `form`, `settings`, and maybe `lease` in seconds."""

writer_lock.LEASE_SECONDS = ASKED.get("lease", writer_lock.LEASE_SECONDS)


def script(messages: list[Any]) -> str:
    """Say that the model was reached, take time, and repeat the question."""
    (FOLDER / f"{ASKED['name']}.reached").touch()
    time.sleep(ASKED["seconds"])
    return f"This answers {messages[-1].text}"


def options() -> dict[str, Any]:
    """What both forms are opened with."""
    return {
        "thread": "t",
        "model": ScriptedChat(script=script),
        "judge": ScriptedJudge(),
        "settings": ASKED["settings"],
    }


def print_outcome(number: int, outcome: str) -> None:
    """Print what became of a turn."""
    print(json.dumps([f"{ASKED['name']}-{number}", outcome]), flush=True)


def blocking() -> None:
    """Every turn, one after the other."""
    with Conversation.open(FOLDER / "talk.db", **options()) as conversation:
        for number in range(ASKED["turns"]):
            try:
                reply = conversation.say(f"{ASKED['name']}-{number}")
            except ThreadBusyError:
                print_outcome(number, "busy")
            else:
                print_outcome(number, reply.text)


async def run_on_loop() -> None:
    """The same on an event loop."""
    async with AsyncConversation.open(FOLDER / "talk.db", **options()) as conversation:
        for number in range(ASKED["turns"]):
            try:
                reply = await conversation.say(f"{ASKED['name']}-{number}")
            except ThreadBusyError:
                print_outcome(number, "busy")
            else:
                print_outcome(number, reply.text)


if __name__ == "__main__":
    asyncio.run(run_on_loop()) if ASKED["form"] == "awaited" else blocking()
