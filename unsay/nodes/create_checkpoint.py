"""create_checkpoint: save the checkpoints of a turn that is over."""

from unsay.effects import Steps
from unsay.history.checkpoints import add_checkpoint, metadata_of
from unsay.moves.compensate import run_compensations
from unsay.runtime import Scope
from unsay.state import State, Update, offloaded_of
from unsay.transcript.record import add_note


def create_checkpoint(state: State, scope: Scope) -> Steps[Update]:
    """Undo the tool calls of rejected drafts, then add the turn's `checkpoints_due`, if any.

    The update is empty if there is nothing to undo and no checkpoint is due. An undo that fails is
    streamed as an event, not raised.
    """
    # Compensations come first: from here on no rollback needs the rejected drafts any more.
    yield from run_compensations(state, scope)
    update = Update(pending_compensations=[]) if state.get("pending_compensations") else Update()
    turn = state["turn"]
    if not turn["checkpoints_due"]:
        return update
    checkpoints = list(state.get("checkpoints", []))
    for checkpoint in turn["checkpoints_due"]:
        checkpoints = add_checkpoint(checkpoints, checkpoint)
        scope.emit("checkpoint", **checkpoint)
    newest = turn["checkpoints_due"][-1]
    return Update(
        **update,
        checkpoints=checkpoints,
        checkpoint_metadata=metadata_of(checkpoints, state["messages"], offloaded_of(state)),
        turn={**turn, "checkpoints_due": []},
        state_history=add_note(
            state, scope, "create_checkpoint", "created", newest["score"], number=newest["turn"]
        ),
    )
