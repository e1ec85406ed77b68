"""Where a run goes after each node: pure functions of the state."""

from collections.abc import Hashable
from typing import Literal

from langgraph.graph import END

from unsay.state import Working

NEXT_NODES: dict[Hashable, str] = {
    "rollback": "rollback",
    "checkpoint": "create_checkpoint",
    "continue": END,
}
"""The node after `process_message`, by the label of its edge."""


def after_process_message(state: Working) -> Literal["rollback", "checkpoint", "continue"]:
    """Return which edge the run takes after `process_message`; `continue` ends the run.

    `rollback` is taken if one is requested; else `checkpoint` if there are checkpoints to save or
    tool calls to undo. Without a turn, which only a host's update causes, it is `continue`.
    """
    if "turn" not in state:  # a host wrote as this node before the thread's first turn
        return "continue"
    if state.get("should_rollback"):
        return "rollback"
    if state["turn"]["checkpoints_due"] or state.get("pending_compensations"):
        return "checkpoint"
    return "continue"
