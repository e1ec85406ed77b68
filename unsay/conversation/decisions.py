"""A person's decision, with which a stopped turn continues."""

from collections.abc import Mapping
from typing import Any

from langgraph.types import Command, StateSnapshot

from unsay.conversation.thread import ThreadHandle
from unsay.effects import Steps
from unsay.errors import InputError, NothingToResumeError
from unsay.graph.failed_decisions import drop_failed_decision


def check_decision(decision: Any) -> None:
    """Raise `InputError` if a decision is a mapping with a key that is not text."""
    # LangGraph searches such keys for the ids of interrupts.
    if isinstance(decision, Mapping) and not all(isinstance(key, str) for key in decision):
        raise InputError(f"resume: the keys of the decision must be text, got {decision!r}")


def decided(thread: ThreadHandle, snapshot: StateSnapshot, decision: Any) -> Steps[Command[Any]]:
    """Return the graph's input that continues a waiting turn with a decision.

    Raises `NothingToResumeError` if the thread waits for none.
    """
    if not snapshot.interrupts:
        raise NothingToResumeError("This thread waits for no decision; send a new message")
    yield from drop_failed_decision(thread.database.saver, snapshot)
    return Command(resume=decision)
