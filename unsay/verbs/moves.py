"""The verbs that add checkpoints, or change which messages are in the transcript."""

from collections.abc import Sequence
from dataclasses import asdict, replace

from langchain_core.messages import AnyMessage

from unsay.effects import Steps
from unsay.errors import ConflictError, InputError
from unsay.history.branch import Label, list_stored_branches
from unsay.history.checkpoints import add_checkpoint, metadata_of
from unsay.memory import visibility
from unsay.messages.annotations import first_questions, spoken
from unsay.messages.content import text_of
from unsay.moves import restore as restoring
from unsay.moves.restore import BRANCH_PREFIX, find_removed, find_stored_branch
from unsay.moves.rollback import ask_again, check_edit, check_retry, remove_turn
from unsay.orders import order as orders
from unsay.prompts.catalogue import Texts
from unsay.results.results import Checkpoint, RollbackResult
from unsay.runtime import Scope
from unsay.state import State, StateDraft, Update, offloaded_of
from unsay.transcript import live
from unsay.transcript.automatic import turn_step
from unsay.transcript.forget import left_out, restore_step
from unsay.transcript.pending import find_pending, questions_waiting, unanswered_ids
from unsay.transcript.record import add_note, log_checkpoints
from unsay.transcript.undo import (
    below_waiting,
    change_made,
    checkpoint_step,
    load_archived_steps,
    step_notice,
)
from unsay.turn.checkpoints import checkpoint_by_order
from unsay.types import Checkpoint as StoredCheckpoint
from unsay.types import CheckpointReason, Operation
from unsay.verbs.outcome import Outcome, load


def checkpoint(
    order: orders.SaveCheckpoint, draft: StateDraft, scope: Scope
) -> Steps[Outcome[Checkpoint]]:
    """Save a checkpoint at the newest answer, as a step to undo; one that is there gets the name."""
    if order.task and order.name is None:
        raise InputError(
            "checkpoint: a task needs a name, such as checkpoint('booking', task=True)"
        )
    yield from load(draft, scope, turns=1)

    state = draft.state
    reason: CheckpointReason = "task_start" if order.task else "order"
    new = checkpoint_by_order(state, scope, order.name, reason=reason)
    before = state.get("checkpoints", [])
    step = checkpoint_step(before, new)
    if step is not None:
        log_checkpoints(state, scope, [new])
        scope.emit("checkpoint", **new)
        draft.apply(_with_checkpoint(state, scope, add_checkpoint(before, new), step))

    def notice(texts: Texts) -> str:
        return texts.say("checkpoint_made", name=new["name"] or new["id"])

    return Outcome(result=Checkpoint.of(new), notice=notice)


def _with_checkpoint(
    state: State, scope: Scope, checkpoints: list[StoredCheckpoint], step: Operation
) -> Update:
    new = step["made"][-1]
    history = add_note(
        state, scope, "create_checkpoint", "created", new["score"], number=new["turn"]
    )
    return Update(
        checkpoints=checkpoints,
        checkpoint_metadata=metadata_of(checkpoints, state["messages"], offloaded_of(state)),
        state_history=history,
        **live.with_step(state, step),
    )


def rollback(
    order: orders.Rollback, draft: StateDraft, scope: Scope
) -> Steps[Outcome[RollbackResult]]:
    """Roll back to a checkpoint or by N turns; what is removed is kept as a branch."""
    to, turns = order.to, order.turns
    if (
        order.typed
        and (turns := live.turns_typed(live.live_branch(draft.state), to or "")) is not None
    ):
        to = None
    message_ids, turn_count = live.rollback_targets(live.live_branch(draft.state), to, turns)
    yield from load(draft, scope, message_ids, turn_count)

    state = draft.state
    base = live.target_of(live.live_branch(state), to, turns, scope.keeps)
    reason = order.typed or order.to or "rollback"
    label = Label(kind="person", reason=reason, created_at=scope.now())
    update = live.go_back(state, scope, base, label, scope.keeps)
    if turn := state.get("turn"):
        update["turn"] = {**turn, "base": base}

    result = _end(draft, scope, update, scope.keeps, event="person")
    scope.emit(
        "rollback",
        kind="person",
        reason=reason,
        to=result.at,
        message_id=base,
        removed=result.removed,
        removals=[],
    )
    name = "rolled_back" if result.removed else "already_there"
    return Outcome(result=result, notice=lambda texts: _moved_text(texts, name, result))


def undo(order: orders.Undo, draft: StateDraft, scope: Scope) -> Steps[Outcome[RollbackResult]]:
    """Undo the newest step: remove a turn, restore what a rollback removed, or reverse a change."""
    draft.apply((yield from load_archived_steps(draft.state, scope)))
    turn = draft.state.get("turn")
    if turn is not None and not turn["done"] and turn["question_id"] not in scope.keeps:
        # A stopped turn is the newest step.
        step = turn_step(draft.state, turn["branches"], turn["pending"])
        draft.apply(Update(operations=live.with_step(draft.state, step)["operations"]))
    operations = below_waiting(draft.state.get("operations", []), scope.keeps)
    draft.apply(Update(operations=operations))
    yield from load(draft, scope, live.step_places(operations))

    state, keeps = draft.state, scope.keeps
    if operations and operations[-1]["kind"] == "rollback":
        # A question that waits behind a rollback was there before it, or came after it.
        branch = live.live_branch(state)
        start = branch.index_of(operations[-1]["base"]) + 1
        later_ids = {message.id for message in branch.messages[start:]}
        keeps = [name for name in (*waiting_ids(state), *scope.keeps) if name in later_ids]
    update = yield from live.undo_last(state, scope, keeps, order.typed or "undo")
    change = change_made(state["messages"], update, operations[-1], undone=True)
    scope.emit("undone", removed=change.removed, restored=change.restored)
    result = replace(_end(draft, scope, update, keeps, event="undo"), change=change)
    return Outcome(result=result, notice=lambda texts: step_notice(texts, change, undone=True))


def redo(order: orders.Redo, draft: StateDraft, scope: Scope) -> Steps[Outcome[RollbackResult]]:
    """Redo the step that was undone last; the same messages return."""
    keeps = scope.keeps
    draft.apply(Update(operations=below_waiting(draft.state.get("operations", []), keeps)))
    yield from load(draft, scope, live.step_places(draft.state.get("redo", [])))

    state = draft.state
    update = yield from live.redo_last(state, scope, keeps, order.typed or "redo")
    step = live.last_undone(state, keeps)
    change = change_made(state["messages"], update, step, undone=False)
    scope.emit("redone", removed=change.removed, restored=change.restored)
    result = replace(_end(draft, scope, update, keeps, event="redo"), change=change)
    return Outcome(result=result, notice=lambda texts: step_notice(texts, change, undone=False))


def remove(order: orders.Remove, draft: StateDraft, scope: Scope) -> Steps[Outcome[RollbackResult]]:
    """Take one turn out, and keep the later ones; questions that wait stay too."""
    number = str(order.turn)
    # The message before the turn as well, which the rest then follows.
    yield from load(draft, scope, turns=visibility.turns_needed(draft.state, number) + 1)

    state = draft.state
    keeps = unanswered_ids(state)
    update = remove_turn(state, scope, number, keeps, order.typed or f"/remove {number}")
    result = _end(draft, scope, update, keeps, event="remove")
    return Outcome(
        result=result, notice=lambda texts: _moved_text(texts, "removed_turn", result, turn=number)
    )


def restore(
    order: orders.Restore, draft: StateDraft, scope: Scope
) -> Steps[Outcome[RollbackResult]]:
    """Restore a branch, a message, a summarized topic or what was forgotten."""
    target = yield from find_removed(draft.state, scope, order.what)
    yield from load(draft, scope, target.needed)

    state, visible_count = draft.state, 0
    if target.entry is None:
        update = yield from restoring.restore(
            state, scope, target.what, target.branches, scope.keeps
        )
    else:
        step = restore_step(state, target.entry, target.what)
        update = yield from visibility.take_step(state, scope, step)
        hidden_ids = left_out(state, state.get("forgotten", []))
        visible_count = len(hidden_ids - left_out(state, update["forgotten"]))
    result = _end(draft, scope, update, scope.keeps, event="restore")
    result = replace(result, restored=result.restored or visible_count)
    return Outcome(result=result, notice=lambda texts: _moved_text(texts, "restored", result))


def pick(order: orders.Pick, draft: StateDraft, scope: Scope) -> Steps[Outcome[RollbackResult]]:
    """Copy messages of a branch or a thread to the end of the transcript."""
    source = order.source
    messages: list[AnyMessage] = []
    if order.message_ids and source.startswith(BRANCH_PREFIX) and scope.address is not None:
        branches = yield from list_stored_branches(*scope.address, named=source)
        branch = find_stored_branch(branches, source)
        messages = [*branch["messages"], *branch["drafts"]]
    elif order.message_ids and scope.read_thread is not None:
        messages = yield from scope.read_thread(source)
    elif order.message_ids:
        raise InputError("This graph reads no other threads: pick the messages with a conversation")
    update = restoring.pick(draft.state, messages, order.message_ids, source)
    result = _end(draft, scope, update, scope.keeps, event="pick")
    return Outcome(result=result, notice=lambda texts: _moved_text(texts, "restored", result))


def retry(order: orders.Retry, draft: StateDraft, scope: Scope) -> Steps[Outcome[None]]:
    """Ask the last question again, or that of a turn which was stopped just now."""
    yield from load(draft, scope, turns=1)

    state = draft.state
    if order.branch is None:
        if any(m.id in scope.keeps for m in questions_waiting(state["messages"])):
            raise ConflictError(code="question_waits")
        check_retry(state, scope.keeps)
    reason = order.typed or "/retry"
    update = yield from ask_again(state, scope, reason=reason, to=order.branch)
    return _asked(draft, scope, update, kind="retry", reason=reason)


def edit(order: orders.Edit, draft: StateDraft, scope: Scope) -> Steps[Outcome[None]]:
    """Ask the question of a turn again with another text, without the later turns."""
    number = str(order.turn)
    yield from load(draft, scope, turns=visibility.turns_needed(draft.state, number) + 1)

    state, text = draft.state, order.text.strip()
    first_id = check_edit(state, number, text, scope.keeps)
    reason = f"/edit {number}"
    update = yield from ask_again(state, scope, reason=reason, to=first_id, text=text)
    return _asked(draft, scope, update, kind="edit", reason=reason)


def _asked(
    draft: StateDraft, scope: Scope, update: Update, *, kind: str, reason: str
) -> Outcome[None]:
    """Return the outcome of a question that is asked again; the model answers it, so no notice does."""
    state, turn = draft.state, update["turn"]
    command_id = (state.get("turn") or turn)["question_id"]
    if command_id in scope.keeps:
        live.note_turn_places({command_id or "": turn["question_id"] or ""}, scope)
    removed, _ = live.count_changes(state["messages"], update["messages"])
    scope.emit(
        "rollback",
        kind=kind,
        reason=reason,
        to=live.place_name(state, turn["base"], scope.texts(state["messages"])),
        message_id=turn["base"],
        removed=removed,
        removals=[],
    )
    update["state_history"] = add_note(state, scope, "rollback", kind, None, number=turn["number"])
    draft.apply(update)
    return Outcome(result=None, notice=lambda _: "")


def waiting_ids(state: State) -> list[str]:
    """Return the ids of messages without an answer, except the question of a stopped turn."""
    messages, turn = state["messages"], state.get("turn")
    stopped_ids = turn["pending"] if turn is not None and not turn["done"] else []
    waiting = messages[find_pending(messages, turn).start :]
    return [message.id or "" for message in waiting if message.id not in stopped_ids]


def _end(
    draft: StateDraft, scope: Scope, update: Update, keeps: Sequence[str], *, event: str
) -> RollbackResult:
    """Apply the update of a move to the draft, end the turn, and return what was changed."""
    before = draft.state
    moved = live.end_change(before, scope, update, keeps, event=event)
    draft.apply(update)

    live_ids = {m.id for m in draft.state["messages"]}
    old_ids = {m.id for m in before["messages"]}
    new_texts = {text_of(m) for m in draft.state["messages"] if m.id not in old_ids}
    removed_messages = (m for m in spoken(before["messages"]) if m.id not in live_ids)
    questions = [text_of(m) for m in first_questions(removed_messages)]
    old_branch_ids = {branch["id"] for branch in before.get("branches", [])}
    branch_ids = [each["id"] for each in draft.state.get("branches", [])]
    return RollbackResult(
        **asdict(moved),
        question="\n".join(text for text in questions if text not in new_texts),
        branch=next((name for name in branch_ids[::-1] if name not in old_branch_ids), None),
    )


def _moved_text(texts: Texts, name: str, result: RollbackResult, **values: str) -> str:
    changes = texts.changes(turns=result.turns, removed=result.removed, restored=result.restored)
    return texts.say(name, where=result.at, changes=changes, **values)
