"""A process that runs scripted turns of many threads at once, and stores nothing."""

import asyncio
import json
import sys
from typing import Any

from unsay import AsyncConversation
from unsay.storage.base import Database
from unsay.storage.sqlite import open_database
from unsay.testing import ScriptedChat, ScriptedJudge


def answer(messages: list[Any]) -> str:
    """Name what was asked, and how many messages were seen."""
    return f"This answers {messages[-1].text} fully."


async def turn(database: Database, thread: str, text: str) -> str:
    """One turn, on a conversation that is opened for it alone."""
    model = ScriptedChat(script=answer)
    conversation = AsyncConversation.open(
        database, thread=thread, model=model, judge=ScriptedJudge()
    )
    return (await conversation.say(text)).text


async def main() -> None:
    """For every line of `[[thread, text], …]`, the answers as a line."""
    database = open_database(sys.argv[1])
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        turns = [turn(database, thread, text) for thread, text in json.loads(line)]
        print(json.dumps(await asyncio.gather(*turns)), flush=True)
    database.close()


if __name__ == "__main__":
    asyncio.run(main())
