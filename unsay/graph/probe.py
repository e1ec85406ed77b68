"""Finding out whether a checkpointer can replay deltas."""

import warnings
from typing import Any
from uuid import uuid4

from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint

CHANNEL = "messages"


def can_replay_deltas(saver: BaseCheckpointSaver[Any]) -> bool:
    """Whether a saver keeps the writes from which a record is rebuilt.

    It is tried on a scratch thread, which is deleted again: a saver that
    forgets old writes would lose messages in silence.

    Args:
        saver: Any checkpointer. One that is bound to an event loop would block
            on it and cannot be tried from here; it is trusted if it stores
            writes at all.
    """
    if not hasattr(saver, "get_delta_channel_history"):
        return False
    if getattr(saver, "loop", None) is not None:
        return _stores_writes(saver)
    thread_id = f"unsay-probe-{uuid4()}"
    try:
        return _history_survives(saver, thread_id)
    except NotImplementedError:
        return _stores_writes(saver)
    finally:
        _forget(saver, thread_id)


def _history_survives(saver: BaseCheckpointSaver[Any], thread_id: str) -> bool:
    config: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
    for step in range(3):
        config = saver.put(
            config, empty_checkpoint(), {"source": "loop", "step": step, "parents": {}}, {}
        )
        saver.put_writes(config, [(CHANNEL, [step])], f"probe-{step}")
    last = saver.put(config, empty_checkpoint(), {"source": "loop", "step": 3, "parents": {}}, {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        history = saver.get_delta_channel_history(config=last, channels=[CHANNEL])
    return [value for _, _, value in history[CHANNEL]["writes"]] == [[0], [1], [2]]


def _stores_writes(saver: BaseCheckpointSaver[Any]) -> bool:
    return type(saver).aput_writes is not BaseCheckpointSaver.aput_writes


def _forget(saver: BaseCheckpointSaver[Any], thread_id: str) -> None:
    try:
        saver.delete_thread(thread_id)
    except NotImplementedError:
        return
