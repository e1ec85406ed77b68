"""Moves in a conversation: checkpoints, rollback, undo and redo."""

from collections.abc import Sequence
from dataclasses import asdict, replace

from unsay.context.manifest import tokens_of
from unsay.conversation.thread import Confirm, ThreadHandle
from unsay.decisions import refuse_undecided
from unsay.effects import Steps
from unsay.errors import InputError
from unsay.history.branch import Label, replace_tail
from unsay.history.checkpoints import add_checkpoint, find_checkpoint, metadata_of
from unsay.messages.annotations import first_questions, is_question, spoken
from unsay.messages.content import calls_of, text_of
from unsay.moves.compensate import compensations_of
from unsay.moves.rollback import remove_turn
from unsay.orders.parse import answered_turns
from unsay.results.results import Checkpoint, Preview, RollbackResult, Rows
from unsay.runtime import Scope
from unsay.state import Command, State, Update, merge_messages, offloaded_of
from unsay.transcript.automatic import turn_step
from unsay.transcript.live import (
    end_change,
    go_back,
    last_undone,
    live_branch,
    place_name,
    redo_last,
    rollback_targets,
    step_places,
    target_of,
    undo_last,
    with_step,
)
from unsay.transcript.pending import find_pending
from unsay.transcript.record import add_note, log_checkpoints
from unsay.transcript.undo import below_waiting, change_made, checkpoint_step, load_archived_steps
from unsay.turn.checkpoints import checkpoint_by_order
from unsay.turn.runs import TAKEN_BACK, give_up_run
from unsay.types import CheckpointReason
from unsay.verbs.dispatch import messages_needed


def checkpoint(thread: ThreadHandle, name: str | None = None) -> Steps[Checkpoint]:
    """Make a checkpoint at the newest answer and return it; `undo` takes it back."""
    state = yield from thread.reached((yield from thread.decided()), (), 1)
    return (yield from _add(thread, state, name, "order"))


def start_task(thread: ThreadHandle, name: str | None) -> Steps[Checkpoint]:
    """Make a checkpoint before the first question of a task, and return it; `undo` takes it back."""
    if name is None:
        raise InputError(
            "checkpoint: a task needs a name, such as checkpoint('booking', task=True)"
        )
    snapshot = yield from thread.snapshot()
    refuse_undecided(snapshot)
    state = State(messages=[])
    if snapshot.values:
        state = yield from thread.reached((yield from thread.known()), (), 1)
    return (yield from _add(thread, state, name, "task_start"))


def _add(
    thread: ThreadHandle, state: State, name: str | None, reason: CheckpointReason
) -> Steps[Checkpoint]:
    """Add a person's checkpoint to the thread, as a step to undo, and return it.

    Raises `UnknownCheckpointError` without an answer (not with the reason `task_start`),
    `InvalidNameError` or `CheckpointExistsError` for its name, `ConflictError` if too many have names.
    """
    scope = thread.scope()
    new = checkpoint_by_order(state, scope, name, reason=reason)
    before = state.get("checkpoints", [])
    all_checkpoints, step = add_checkpoint(before, new), checkpoint_step(before, new)
    if step is not None:
        log_checkpoints(state, scope, [new])
        metadata = metadata_of(all_checkpoints, state["messages"], offloaded_of(state))
        state_update = Update(
            checkpoints=all_checkpoints, checkpoint_metadata=metadata, **with_step(state, step)
        )
        node, score, number = "create_checkpoint", new["score"], new["turn"]
        state_update["state_history"] = add_note(
            state, scope, node, "created", score, number=number
        )
        yield from thread.write(state, scope, state_update)
    return Checkpoint.of(new)


def checkpoints(
    thread: ThreadHandle, *, limit: int | None = None, start_after: str | None = None
) -> Steps[tuple[Checkpoint, ...]]:
    """List the checkpoints of the current branch, oldest first."""
    if limit is not None and limit < 0:
        raise InputError(f"limit={limit!r}: write 0 or more, or none for all")
    all_checkpoints = (yield from thread.known()).get("checkpoints", [])
    start = 0
    if start_after is not None:
        start = all_checkpoints.index(find_checkpoint(all_checkpoints, start_after)) + 1
    chosen = all_checkpoints[start:] if limit is None else all_checkpoints[start : start + limit]
    return Rows(map(Checkpoint.of, chosen))


def rollback(
    thread: ThreadHandle,
    to: str | None = None,
    *,
    turns: int | None = None,
    confirm: Confirm | None = None,
) -> Steps[RollbackResult]:
    """Roll back to a checkpoint or by N turns; what is removed is kept, and `undo` restores it."""
    state = yield from thread.decided()
    scope = thread.scope(confirm)
    target_ids, least = rollback_targets(live_branch(state), to, turns)
    state = yield from thread.reached(state, target_ids, least)
    waiting = _kept(thread, state)
    base = target_of(live_branch(state), to, turns, waiting)
    cause = Label(kind="person", reason=to or "rollback", created_at=scope.now())
    update = go_back(state, scope, base, cause, waiting)
    return (yield from settle(thread, state, scope, update, waiting, event="person"))


def _kept(thread: ThreadHandle, state: State) -> tuple[str, ...]:
    """Return the ids of messages without an answer that a rollback, an undo or a redo keeps.

    A slash command keeps those of `_waiting`; a method such as `rollback`, none.
    """
    return () if thread.order is None else _waiting(state)


def _waiting(state: State) -> tuple[str, ...]:
    """Return the ids of messages without an answer, except the question of a stopped turn."""
    messages, turn = state["messages"], state.get("turn")
    stopped = turn["pending"] if turn is not None and not turn["done"] else []
    waiting = messages[find_pending(messages, turn).start :]
    return tuple(message.id or "" for message in waiting if message.id not in stopped)


def preview(
    thread: ThreadHandle, to: str | None = None, *, turns: int | None = None
) -> Steps[Preview]:
    """Return what `rollback` with the same arguments would remove; nothing is written."""
    state = yield from thread.whole()
    live = live_branch(state)
    base = target_of(live, to, turns)
    label = Label(kind="person", reason="preview", created_at="")
    change = replace_tail(live, base, label=label)
    removed = change.branch["messages"]
    messages = spoken(removed)
    return Preview(
        at=place_name(state, base, thread.scope().texts(state["messages"])).strip(),
        turns=len(answered_turns(removed)),
        questions=tuple(text_of(m) for m in messages if is_question(m)),
        message_ids=tuple(m.id or "" for m in messages),
        checkpoints=tuple(map(Checkpoint.of, change.branch["checkpoints"])),
        tool_calls=tuple(call.name for m in messages for call in calls_of(m)),
        compensations=tuple(compensations_of(change, thread.services)),
        tokens=tokens_of(removed),
    )


def undo(thread: ThreadHandle, *, confirm: Confirm | None = None) -> Steps[RollbackResult]:
    """Undo the newest step: remove a turn, restore what a rollback removed, or reverse a change."""
    state = yield from thread.decided()
    archived = yield from load_archived_steps(state, thread.scope())
    state = {**state, **archived}
    turn, operations = state.get("turn"), state.get("operations", [])
    if turn is not None and not turn["done"]:  # an interrupted turn is the newest step
        step = turn_step(state, turn["branches"], turn["pending"])
        operations = with_step(state, step)["operations"]
    operations = below_waiting(operations, _kept(thread, state))
    reached = yield from thread.reached(state, step_places(operations))
    state = {**reached, "operations": operations}
    scope = thread.scope(confirm)
    waiting = _kept(thread, state)
    if operations and operations[-1]["kind"] == "rollback":
        # A question that waits behind a rollback was there before it, or came after it.
        live = live_branch(state)
        start = live.index_of(operations[-1]["base"]) + 1
        behind = {message.id for message in live.messages[start:]}
        waiting = tuple(name for name in _waiting(state) if name in behind)
    update: Update = {**archived, **(yield from undo_last(state, scope, waiting, "undo"))}
    change = change_made(state["messages"], update, operations[-1], undone=True)
    result = yield from settle(thread, state, scope, update, waiting, event="undo")
    return replace(result, change=change)


def redo(thread: ThreadHandle, *, confirm: Confirm | None = None) -> Steps[RollbackResult]:
    """Redo the step that was undone last; the same messages return, but no tool call is made again."""
    state = yield from thread.decided()
    state = yield from thread.reached(state, step_places(state.get("redo", [])))
    scope = thread.scope(confirm)
    waiting = _kept(thread, state)
    update = yield from redo_last(state, scope, waiting, "redo")
    change = change_made(state["messages"], update, last_undone(state, waiting), undone=False)
    result = yield from settle(thread, state, scope, update, waiting, event="redo")
    return replace(result, change=change)


def remove(
    thread: ThreadHandle, turn: int, *, confirm: Confirm | None = None
) -> Steps[RollbackResult]:
    """Take one turn out, undo its tool calls, and keep the later turns; `undo` puts the turn back."""
    state = yield from thread.settled()
    command = Command(verb="remove", argument=str(turn))
    state = yield from thread.reached(state, *messages_needed(state, command))
    scope = thread.scope(confirm)
    pending = find_pending(state["messages"], state.get("turn"))
    waiting = [message.id or "" for message in state["messages"][pending.start :]]
    update = remove_turn(state, scope, str(turn), waiting, f"/remove {turn}")
    return (yield from settle(thread, state, scope, update, event="remove"))


def settle(
    thread: ThreadHandle,
    state: State,
    scope: Scope,
    update: Update,
    waiting: Sequence[str] = (),
    *,
    event: str | None = None,
) -> Steps[RollbackResult]:
    """Commit the update of an operation, end an open turn, and return what was changed.

    Keys are added to `update` in place. `waiting` are the ids of unanswered messages that stay, which
    the result's place leaves out. `event` is the entry for `state_history`; `None` adds none. The
    thread's entry in the list of threads is updated too. Raises `ConfirmationNeededError` if a person
    must confirm that a tool call is undone, and nobody can be asked; nothing is changed.
    """
    update["should_rollback"], update["rollback_request"], update["notice"] = False, None, None
    moved, turn = end_change(state, scope, update, waiting, event=event), state.get("turn")
    report = yield from thread.write(state, scope, update)
    if turn and not turn["done"]:
        yield from give_up_run(thread.scope(run_id=turn.get("run_id")), TAKEN_BACK)
    after = merge_messages(state["messages"], [update["messages"]])
    yield from thread.list_thread({**state, **update, "messages": after})
    live_ids, old_ids = {m.id for m in after}, {m.id for m in state["messages"]}
    new_texts = {text_of(m) for m in after if m.id not in old_ids}
    gone = (m for m in spoken(state["messages"]) if m.id not in live_ids)
    questions = map(text_of, first_questions(gone))
    old_branch_ids = {branch["id"] for branch in state.get("branches", [])}
    new_branch_ids = [b["id"] for b in update.get("branches", []) if b["id"] not in old_branch_ids]
    return RollbackResult(
        **asdict(moved),
        question="\n".join(text for text in questions if text not in new_texts),
        report=report,
        branch=new_branch_ids[-1] if new_branch_ids else None,
    )
