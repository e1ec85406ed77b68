"""A process whose model calls two tools in one message, and that is killed in the second."""

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.types import Command, interrupt

from tests.graph.kit import config
from tests.hosts.savers import open_savers, opened_awaited
from unsay import Conversation, build_graph
from unsay.messages.content import text_of
from unsay.testing import ScriptedChat, ToolCalls
from unsay.tools import reversible

# Imported by doctest's collector, too.
ARGUMENTS = sys.argv[1:] if __name__ == "__main__" else [""] * 5
FOLDER = Path(ARGUMENTS[0])
KIND, SAVER, DURABILITY, WHERE, *SAID = ARGUMENTS[1:]
BOTH = [{"name": "pay", "args": {"amount": amount}} for amount in (5, 6)]


def write(line: str) -> None:
    """Add a line to the file of effects."""
    with (FOLDER / "effects.txt").open("a") as effects:
        effects.write(f"{line}\n")


def effects() -> list[str]:
    """What was done so far."""
    path = FOLDER / "effects.txt"
    return path.read_text().splitlines() if path.exists() else []


def refund(amount: int) -> None:
    """Take a payment back."""
    write(f"-{amount}")


@tool
def pay(amount: int) -> str:
    """Pay an amount."""
    if KIND == "asking tools":
        interrupt({"pay": amount})
    if amount == 6 and WHERE == "tool":
        while "+5" not in effects():
            time.sleep(0.01)
        time.sleep(0.5)  # the result of the first call is stored meanwhile
        os.kill(os.getpid(), signal.SIGKILL)
    write(f"+{amount}")
    return f"paid {amount}"


def judge(_: Any) -> float:
    """The judge, at which the process may end."""
    if WHERE == "judge":
        os.kill(os.getpid(), signal.SIGKILL)
    return 0.9


def script(messages: list[Any]) -> Any:
    """Pay twice at once, then say so."""
    text = [text_of(message) for message in messages if message.type == "human"][-1]
    if "Pay" not in text:
        return "You are welcome, any time."
    return ToolCalls(calls=BOTH, then="Both are paid, as you asked.")


def options() -> dict[str, Any]:
    """The model, the judge and the tools."""
    chat = ScriptedChat(script=script)
    paying = reversible(undo=refund, describe="the payment of {amount}")(pay)
    if KIND != "agent":
        return {"model": chat, "judge": judge, "tools": [paying]}
    from langchain.agents import create_agent  # noqa: PLC0415 - an extra

    return {"model": create_agent(chat, [pay]), "judge": judge}


def main() -> None:
    """Say each text; print the transcript."""
    if SAVER == "conversation":
        with Conversation.open(FOLDER / "talk.db", thread="t", **options()) as conversation:
            for text in SAID:
                conversation.say(text, turn_id=f"id of {text}")
            messages = conversation.messages()
    elif SAVER.startswith("async "):
        messages = asyncio.run(run_on_loop(SAVER.removeprefix("async ")))
    else:
        with open_savers(SAVER, FOLDER) as saved:
            graph = build_graph(**options(), **saved)
            for text in SAID:
                value = question(text)
                if text == "yes":
                    waiting = graph.get_state(config()).interrupts
                    value = Command(resume={item.id: "yes" for item in waiting})
                state = graph.invoke(value, config(), durability=DURABILITY)
            messages = state["messages"]
    print(json.dumps([text_of(message) for message in messages]))


async def run_on_loop(saver: str) -> list[Any]:
    """Do it on an event loop."""
    async with opened_awaited(saver, FOLDER) as saved:
        graph = build_graph(**options(), **saved)
        for text in SAID:
            state = await graph.ainvoke(question(text), config(), durability=DURABILITY)
        messages: list[Any] = state["messages"]
        return messages


def question(text: str) -> Any:
    """The input."""
    return {"messages": [HumanMessage(text, id=f"id of {text}")]}


if __name__ == "__main__":
    main()
