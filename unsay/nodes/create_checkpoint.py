"""create_checkpoint: save the good points of a turn, and take back what it must not leave behind."""

from unsay.effects import Steps
from unsay.history.checkpoints import add_checkpoint
from unsay.operations.compensate import finish
from unsay.operations.rollback import note
from unsay.runtime import Scope
from unsay.state import State, Update


def create_checkpoint(state: State, scope: Scope) -> Steps[Update]:
    """Add the checkpoints that are due.

    Effects of drafts that were not delivered are taken back here: no rollback needs them any more.
    """
    yield from finish(state, scope)
    settled = Update(owed=[]) if state.get("owed") else Update()
    return {**settled, **_marked(state, scope)} if state["turn"]["checkpoints_due"] else settled


def _marked(state: State, scope: Scope) -> Update:
    turn = state["turn"]
    checkpoints = list(state.get("checkpoints", []))
    for mark in turn["checkpoints_due"]:
        checkpoints = add_checkpoint(checkpoints, mark, limit=scope.settings.checkpoint_limit)
        scope.tell("checkpoint", **mark)
    newest = turn["checkpoints_due"][-1]
    return Update(
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
