"""create_checkpoint: save the checkpoints of a turn, and undo tool calls of its rejected drafts."""

from unsay.effects import Steps
from unsay.history.checkpoints import add_checkpoint
from unsay.operations.compensate import run_compensations
from unsay.operations.rollback import note
from unsay.runtime import Scope
from unsay.state import State, Update


def create_checkpoint(state: State, scope: Scope) -> Steps[Update]:
    """Add the checkpoints that are due.

    Tool calls of drafts that were not delivered are undone here: no rollback needs them any more.
    """
    yield from run_compensations(state, scope)
    settled, turn = (
        Update(pending_compensations=[]) if state.get("pending_compensations") else Update(),
        state["turn"],
    )
    if not turn["checkpoints_due"]:
        return settled
    checkpoints = list(state.get("checkpoints", []))
    for annotation in turn["checkpoints_due"]:
        checkpoints = add_checkpoint(checkpoints, annotation, limit=scope.settings.checkpoint_limit)
        scope.tell("checkpoint", **annotation)
    newest = turn["checkpoints_due"][-1]
    return Update(
        **settled,
        checkpoints=checkpoints,
        checkpoint_metadata={
            "checkpoint_id": newest["id"],
            "name": newest["name"],
            "timestamp": newest["created_at"],
            "topic": newest["topic"],
            "quality_score": newest["score"],
            "message_count": len(state["messages"]),
        },
        turn={**turn, "checkpoints_due": []},
        state_history=note(state, scope, "create_checkpoint", "created", newest["score"]),
    )
