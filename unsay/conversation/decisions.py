"""A person's decision, with which a stopped turn continues."""

from collections.abc import Mapping
from typing import Any

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.types import Command, StateSnapshot

from unsay.conversation.thread import ThreadHandle
from unsay.effects import Steps, off_loop
from unsay.errors import InputError, NothingToResumeError

# LangGraph's channel of the answers to interrupts, and the task of an answer that no task took yet.
_ANSWERS = "__resume__"
_NO_TASK = "00000000-0000-0000-0000-000000000000"

# Of a turn and the graphs inside it only the newest checkpoints wait.
_NEWEST = 50


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
    if any(task.error for task in snapshot.tasks):
        yield off_loop(lambda: _drop_answers(thread))
    return Command(resume=decision)


def _drop_answers(thread: ThreadHandle) -> None:
    """Take back the decision with which the turn failed, such as one that an agent cannot read.

    LangGraph keeps the answer to an interrupt and would give it to the node again, before any new
    one: the turn could never continue.
    """
    saver = thread.database.saver
    for stored in list(saver.list(thread.config, limit=_NEWEST)):
        for task_id in _answered(stored):
            saver.put_writes(stored.config, [(_ANSWERS, [])], task_id)


def _answered(stored: CheckpointTuple) -> list[str]:
    writes = stored.pending_writes or ()
    return [task for task, channel, _ in writes if channel == _ANSWERS and task != _NO_TASK]
