"""Where a turn goes after process_message: a pure function of the state."""

from typing import Literal

from langgraph.graph import END

from unsay.state import Working

Next = Literal["rollback", "create_checkpoint", "__end__"]


def after_process_message(state: Working) -> Next:
    """Back when a rollback is due, on when a checkpoint was earned or a call is owed, else the end."""
    if state.get("should_rollback"):
        return "rollback"
    if state["turn"]["checkpoints_due"] or state.get("owed"):
        return "create_checkpoint"
    return END  # type: ignore[return-value]
