"""Decisions with which a turn failed, such as one that an agent cannot read: they are taken again."""

from collections.abc import Iterator
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.types import StateSnapshot

from unsay.effects import Call, Steps

# LangGraph's channels of a task's answers to its interrupts, and of its error.
_ANSWERS, _ERROR = "__resume__", "__error__"


def drop_failed_decision(saver: BaseCheckpointSaver[Any], snapshot: StateSnapshot) -> Steps[None]:
    """Take back the decision with which the turn of the state `snapshot` failed.

    LangGraph keeps the answer to an interrupt and would give it to the node again, before a new one:
    the turn could never continue. Answers to earlier questions of the same task stay. If no task
    failed, nothing is done.
    """
    if not any(task.error for task in snapshot.tasks):
        return
    # An agent's states have their own names, so they are listed too. Without a limit: LangGraph's saver
    # in memory lists all states of the graph before them.
    thread_id = snapshot.config["configurable"]["thread_id"]
    thread: RunnableConfig = {"configurable": {"thread_id": thread_id}}

    def blocking() -> list[CheckpointTuple]:
        return list(saver.list(thread))

    async def awaited() -> list[CheckpointTuple]:
        return [each async for each in saver.alist(thread)]

    listed: list[CheckpointTuple] = yield Call(blocking=blocking, awaitable=awaited)
    for stored in listed:
        for task_id, answers in _failed(stored):
            # Without the error the task's next answer would not count as failed.
            writes = [(_ANSWERS, answers[:-1]), (_ERROR, None)]
            yield Call.of(saver.put_writes, saver.aput_writes, stored.config, writes, task_id)


def _failed(stored: CheckpointTuple) -> Iterator[tuple[str, list[Any]]]:
    """Yield the id of each task of a state that failed after an answer, with its answers."""
    writes = stored.pending_writes or []
    failed = {task for task, channel, error in writes if channel == _ERROR and error is not None}
    for task_id, channel, answers in writes:
        if channel == _ANSWERS and task_id in failed and answers:
            yield task_id, answers
