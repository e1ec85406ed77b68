"""A process that is killed with signal 9 at a chosen instant of a turn."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from langchain_core.tools import tool

from unsay.conversation.conversation import Conversation
from unsay.testing import ScriptedChat, ScriptedJudge, ToolCalls

FOLDER = Path(sys.argv[1])
WHERE = sys.argv[2]


def die_at(position: str) -> None:
    """End here, at once, if this is the chosen place."""
    if position == WHERE:
        os.kill(os.getpid(), signal.SIGKILL)


@tool
def pay(amount: int) -> str:
    """Pay an amount; every payment is a line in a file."""
    die_at("tool")
    with (FOLDER / "paid.txt").open("a") as paid:
        paid.write(f"{amount}\n")
    return "paid"


def script(messages: list[Any]) -> Any:
    """Pay once, then say so."""
    if messages[-1].type == "tool":
        die_at("answer")
    else:
        die_at("model")
    return ToolCalls(calls=[{"name": "pay", "args": {"amount": 5}}], then="It is {result}.")


class Judge(ScriptedJudge):
    """A judge at which the process may end."""

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        die_at("judge")
        return super()._generate(*args, **kwargs)


def main() -> None:
    """Say the message, or what `argv[3]` says, and print the transcript."""
    text = sys.argv[3]
    with Conversation.open(
        FOLDER / "crash.db",
        thread="t",
        model=ScriptedChat(script=script),
        judge=Judge(),
        tools=[pay],
    ) as conversation:
        conversation.say(text) if text else conversation.resume()
        for message in conversation.messages():
            print(f"{message.type}: {message.content}")


if __name__ == "__main__":
    main()
