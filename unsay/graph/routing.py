"""Where a run goes after each node: pure functions of the state."""

from langgraph.graph import END

from unsay.state import Working


def after_process_message(state: Working) -> str:
    """Return the next node: a due rollback, then due checkpoints and calls to undo, else the end."""
    if state.get("should_rollback"):
        return "rollback"
    if state["turn"]["checkpoints_due"] or state.get("pending_compensations"):
        return "create_checkpoint"
    return END
