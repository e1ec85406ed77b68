"""A process that is killed with signal 9 while what a tool did is being taken back."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from langgraph.store.base import PutOp

from unsay.conversation.conversation import Conversation
from unsay.testing import ScriptedChat, ScriptedJudge, ToolCalls
from unsay.tools import reversible

FOLDER = Path(sys.argv[1])
WHERE = sys.argv[2]
IDEMPOTENT = (FOLDER / "idempotent").exists()


def refund(amount: int, result: str) -> None:
    """Pay back; every refund is a line in a file."""
    with (FOLDER / "refunded.txt").open("a") as refunded:
        refunded.write(f"{amount} {result}\n")


@reversible(undo=refund, idempotent=IDEMPOTENT, describe="the payment of {amount}")
def pay(amount: int) -> str:
    """Pay an amount."""
    with (FOLDER / "paid.txt").open("a") as paid:
        paid.write(f"{amount}\n")
    return f"receipt {amount}"


def die_at(place: str) -> None:
    """End here, at once, if this is the chosen place."""
    if place == WHERE:
        os.kill(os.getpid(), signal.SIGKILL)


def watched(store: Any) -> None:
    """Let the process end right before or after the journal says something."""
    whole = store.batch

    def batch(operations: Any) -> Any:
        asked = list(operations)
        said = [o.value["status"] for o in asked if isinstance(o, PutOp) and _is_entry(o)]
        for status in said:
            die_at(f"before {status}")
        done = whole(asked)
        for status in said:
            die_at(f"after {status}")
        return done

    store.batch = batch


def _is_entry(operation: PutOp) -> bool:
    return operation.namespace[1] == "compensations" and operation.value is not None


def main() -> None:
    """Do what the arguments say, and print the transcript and each one's reports as JSON."""
    paying = ToolCalls(calls=[{"name": "pay", "args": {"amount": 5}}], then="Paid: {result}.")
    chat = ScriptedChat(
        replies={"Hello": "Hello, how can I help?", "Pay": paying, "Bye": "So long."}
    )
    found: dict[str, Any] = {"events": []}
    with Conversation.open(
        FOLDER / "crash.db", thread="t", model=chat, judge=ScriptedJudge(), tools=[pay]
    ) as conversation:
        watched(conversation.graph.store)
        for order in sys.argv[3:]:
            if order == "rollback":
                conversation.rollback()
                continue
            events = [each for each in conversation.stream(order) if each.kind == "compensation"]
            found["events"].append([event.data["result"] for event in events])
        found["record"] = [f"{message.type}: {message.text}" for message in conversation.messages()]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
