"""create_checkpoint: save the checkpoints of a turn that is over."""

from typing import cast

from unsay.effects import Steps
from unsay.history.checkpoints import add_checkpoint, metadata_of
from unsay.moves.compensate import run_compensations
from unsay.runtime import Scope
from unsay.state import State, Update, offloaded_of
from unsay.transcript.record import add_note
from unsay.types import Operation


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
    kept_ids = {each["id"] for each in checkpoints}
    thinned = [each for each in state.get("checkpoints", []) if each["id"] not in kept_ids]
    steps = state.get("operations", [])
    if thinned and steps:  # an undo of the turn brings them back
        changed = {"made": [], **steps[-1], "replaced": [*steps[-1].get("replaced", []), *thinned]}
        update["operations"] = [*steps[:-1], cast("Operation", changed)]
    return Update(
        **update,
        checkpoints=checkpoints,
        checkpoint_metadata=metadata_of(checkpoints, state["messages"], offloaded_of(state)),
        turn={**turn, "checkpoints_due": []},
        state_history=add_note(
            state, scope, "create_checkpoint", "created", newest["score"], number=newest["turn"]
        ),
    )
