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
    with (FOLDER / "refunded.txt").open("a") as conversation:
        conversation.write(f"{amount} {result}\n")


@reversible(undo=refund, idempotent=IDEMPOTENT, describe="the payment of {amount}")
def pay(amount: int) -> str:
    """Pay an amount."""
    with (FOLDER / "paid.txt").open("a") as paid:
        paid.write(f"{amount}\n")
    return f"receipt {amount}"


def die_at(position: str) -> None:
    """End here, at once, if this is the chosen place."""
    if position == WHERE:
        os.kill(os.getpid(), signal.SIGKILL)


def watch_store(store: Any) -> None:
    """Let the process end right before or after the store notes a call."""
    write_batch = store.batch

    def batch(operations: Any) -> Any:
        batch_operations = list(operations)
        statuses = [
            o.value["status"] for o in batch_operations if isinstance(o, PutOp) and _is_entry(o)
        ]
        for status in statuses:
            die_at(f"before {status}")
        results = write_batch(batch_operations)
        for status in statuses:
            die_at(f"after {status}")
        return results

    store.batch = batch


def _is_entry(operation: PutOp) -> bool:
    return operation.namespace[1] == "compensations" and operation.value is not None


def main() -> None:
    """Do what the arguments say, and print the transcript and each one's reports as JSON."""
    paying = ToolCalls(calls=[{"name": "pay", "args": {"amount": 5}}], then="Paid: {result}.")
    chat = ScriptedChat(
        replies={"Hello": "Hello, how can I help?", "Pay": paying, "Bye": "So long."}
    )
    seen_events: dict[str, Any] = {"events": []}
    with Conversation.open(
        FOLDER / "crash.db", thread="t", model=chat, judge=ScriptedJudge(), tools=[pay]
    ) as conversation:
        watch_store(conversation.graph.store)
        for order in sys.argv[3:]:
            if order == "rollback":
                conversation.rollback()
                continue
            events = [event for event in conversation.stream(order) if event.kind == "compensation"]
            seen_events["events"].append([event.data["result"] for event in events])
        seen_events["record"] = [
            f"{message.type}: {message.text}" for message in conversation.messages()
        ]
    print(json.dumps(seen_events))


if __name__ == "__main__":
    main()
