"""A process that is killed with signal 9 while a model or a judge is being asked."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from unsay.conversation.conversation import Conversation

FOLDER = Path(sys.argv[1])
WHERE = sys.argv[2]

ANSWER = "A spider has eight legs, two more than an insect has."


def model(_: Any) -> str:
    """Answer, unless this is where the process ends."""
    return _note_call("model", ANSWER)


def judge(_: Any) -> float:
    """Be content, unless this is where the process ends."""
    return float(_note_call("judge", "0.9"))


def _note_call(position: str, reply: str) -> str:
    with (FOLDER / "asked.txt").open("a") as lines:
        lines.write(f"{position}\n")
    if position == WHERE:
        os.kill(os.getpid(), signal.SIGKILL)
    return reply


if __name__ == "__main__":
    with Conversation.open(
        FOLDER / "t.db",
        thread="t",
        model=model,
        judge=judge,
        settings={"session_budget_tokens": 5_000},
    ) as conversation:
        conversation.say("How many legs does a spider have?", turn_id="q1")
