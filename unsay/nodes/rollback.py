"""rollback: go back to the last good point; the question stays, with the reason for the next attempt."""

from langchain_core.messages import AIMessage

from unsay.effects import Steps
from unsay.errors import UnsayError
from unsay.events.event_types import planner_note
from unsay.history.branch import Label
from unsay.memory.offload import load_segments
from unsay.moves.restore import restore_ordered
from unsay.moves.rollback import ask_again, remove_turn
from unsay.runtime import Scope
from unsay.state import NoticeDue, RollbackRequest, State, Update, with_update
from unsay.transcript.automatic import (
    automatic_rollback,
    confirmed,
    ids_to_remove,
    keep_draft,
    keep_newest_draft,
    turn_step,
    turns_after,
    without_base,
)
from unsay.transcript.live import (
    count_changes,
    end_change,
    go_back,
    last_undone,
    live_branch,
    note_turn_places,
    place_name,
    redo_last,
    target_of,
    undo_last,
    with_step,
)
from unsay.transcript.pending import refused, turn_left_open
from unsay.transcript.record import add_note
from unsay.transcript.undo import below_waiting, change_made, step_notice
from unsay.turn import delivery
from unsay.types import Turn
from unsay.verbs.dispatch import messages_needed


def rollback(state: State, scope: Scope) -> Steps[Update]:
    """Carry out what was requested, and clear the request.

    That is a rollback, retry, edit, removal, restore, undo or redo; a question to a person about
    failed drafts; or the end of a turn whose budget was declined. A refused restore, undo or redo
    gives a notice.

    Raises:
        UnknownCheckpointError: A host's `rollback_checkpoint_id` names no checkpoint.
        AmbiguousCheckpointError: Several ids begin with it.
        NothingToUndoError: A host set only the flag, and there are no messages.
        EmptyAnswerError: The best draft is to be delivered, and it is empty.
        ConflictError: A branch to put back or to ask again is not kept, or its place is gone.
        DatabaseCorruptError: A branch or an offloaded message that is needed is damaged.
    """
    request, segment_update = state.get("rollback_request"), Update()
    if request is None:
        state, segment_update, request = yield from _host_request(state, scope)
    plain = {"context": _reject_context, "person": _go_to_target, "remove": _remove}
    handlers = {
        "draft": _reject_draft,
        "retry": _retry,
        "edit": _retry,
        "restore": restore_ordered,
        "undo": _undo_or_redo,
        "redo": _undo_or_redo,
        "ask": _ask_about_drafts,
        "decline": _end_unanswered,
    }
    if (kind := request["kind"]) in plain:
        update = plain[kind](state, scope, request)
    else:
        update = yield from handlers[kind](state, scope, request)
    is_order, new_turn = kind in ("person", "retry", "edit"), update.get("turn", {})
    # A person who declines an automatic rollback leaves nothing to report.
    if is_order or new_turn.get("rollbacks", 0) > state["turn"]["rollbacks"]:
        _report(state, scope, update, request)
    # Loaded messages come first: the later writes may remove some of them.
    if segment_update:
        update = {
            **segment_update,
            **update,
            "messages": [*segment_update["messages"], *update["messages"]],
        }
    return {
        **update,
        "should_rollback": False,
        "rollback_checkpoint_id": None,
        "rollback_request": None,
    }


def _host_request(state: State, scope: Scope) -> Steps[tuple[State, Update, RollbackRequest]]:
    """Return a state, an update and a request for a rollback that a host's flag asks for.

    The update (already in the state) loads the offloaded messages that it needs; it may be empty.
    The request goes to `rollback_checkpoint_id`, or else to the last good point. The errors
    are those of `rollback`, except `EmptyAnswerError`.
    """
    message_ids, turns = messages_needed(state, None)
    segment_update = yield from load_segments(state, scope, message_ids, turns=turns)
    state = with_update(state, segment_update)
    target, turn = state.get("rollback_checkpoint_id") or None, state["turn"]
    pending = () if turn["done"] else turn["pending"]
    base = target_of(live_branch(state), target, pending=pending)
    reason = target or "the host's order"
    return state, segment_update, RollbackRequest(kind="person", to=base, reason=reason)


def _reject_draft(state: State, scope: Scope, request: RollbackRequest) -> Steps[Update]:
    """Keep a failed draft as a branch, and prepare the next attempt.

    Delivered answers in `ids_to_remove` go too. If a person declines, the best draft is delivered;
    raises what `deliver_best` raises, such as `EmptyAnswerError`.
    """
    turn, removed_ids = state["turn"], ids_to_remove(state, scope, request)
    best = delivery.best_rejection(turn, scope.services)
    if not confirmed(state, scope, request, removed_ids, best):
        return (yield from delivery.deliver_best(state, scope))
    draft = turn["rejections"][-1]["messages"]
    update, removed = automatic_rollback(state, scope, "draft", request, removed_ids)
    return keep_draft(state, scope, update, request, removed, draft)


def _reject_context(state: State, scope: Scope, request: RollbackRequest) -> Update:
    """Remove the injected exchanges that failed; an empty update if a person declines this."""
    turn, removed_ids = state["turn"], ids_to_remove(state, scope, request)
    if not confirmed(state, scope, request, removed_ids):
        return Update()
    update, removed = automatic_rollback(state, scope, "context", request, removed_ids)
    branches = [*turn["branches"], *(each["branch"] for each in removed)]
    after: Turn = {**update["turn"], "branches": branches, "context_reason": request["reason"]}
    if turn["done"]:  # No answer follows, so the rollback itself is the step that an undo reverses.
        update.update(with_step(state, turn_step({**state, **update, "turn": after}, branches, ())))
    return {**update, "turn": after}


def _go_to_target(state: State, scope: Scope, request: RollbackRequest) -> Update:
    """Roll back to the message `to`; a typed command then ends the turn, a host's flag does not."""
    turn, reason = state["turn"], request["reason"]
    label = Label(kind="person", reason=reason, created_at=scope.now())
    update = go_back(state, scope, request["to"], label, turn["pending"])
    # A typed command is the whole turn; with a host's flag the question is still to be answered.
    is_command = request["reason"].startswith("/")
    after: Turn = {**turn, "base": request["to"], "done": turn["done"] or is_command}
    if turn["done"] and not is_command:
        after = turn_left_open(with_update(state, update), after)
    return {**update, "turn": {**after, "number": turns_after(state, update) + 1}}


def _retry(state: State, scope: Scope, request: RollbackRequest) -> Steps[Update]:
    """Ask a question again, or an edited one, as `ask_again` does and with its errors."""
    update = yield from ask_again(state, scope, request)
    command, question = state["turn"]["question_id"], update["turn"]["question_id"]
    note_turn_places({command or "": question or ""}, scope)
    return update


def _remove(state: State, scope: Scope, request: RollbackRequest) -> Update:
    """Remove the turn with the number `request["to"]`, with `remove_turn`'s errors; add a notice."""
    turn, number = state["turn"], request["to"] or ""
    update = remove_turn(state, scope, number, turn["pending"], request["reason"])
    text = scope.texts(state["messages"]).say("removed_turn", turn=number)
    update["notice"] = NoticeDue(text=text, answers=turn["pending"])
    end_change(state, scope, update, turn["pending"], event="remove")
    return update


def _report(state: State, scope: Scope, update: Update, request: RollbackRequest) -> None:
    """Stream a rollback and add it to `update`: its history, and a notice if the turn is over."""
    texts, turn = scope.texts(state["messages"]), update["turn"]
    removed, _ = count_changes(state["messages"], update["messages"])
    place_text = place_name(state, turn["base"], texts)
    removals = turn.get("removed", [])[len(state["turn"].get("removed", [])) :]
    if turn["done"]:
        changes = texts.changes(turns=turns_after(state, update), removed=removed)
        name = "rolled_back" if removed else "already_there"
        text = texts.say(name, where=place_text, changes=changes)
        text = f"{texts.removal_text(removals)} {texts.say('undo_hint')}" if removals else text
        update["notice"] = NoticeDue(text=text, answers=state["turn"]["pending"])
    kind, parts = request["kind"], list(map(without_base, removals))
    data = {"to": place_text, "message_id": turn["base"], "removed": removed, "removals": parts}
    scope.emit("rollback", kind=kind, reason=request["reason"], **data)
    score = state.get("quality_score") if kind in ("draft", "context") else None
    # A rollback after which nothing is answered is about the turn that is now the last one.
    number = turn["number"] - turn["done"]
    update["state_history"] = add_note(state, scope, "rollback", kind, score, number=number)


def _undo_or_redo(state: State, scope: Scope, request: RollbackRequest) -> Steps[Update]:
    """Undo or redo one step; the notice says how many turns are left, or why nothing changed."""
    turn, undoes = state["turn"], request["kind"] == "undo"
    texts, steps = scope.texts(state["messages"]), state.get("operations", [])
    state = {**state, "operations": below_waiting(steps, turn["pending"])}
    step = undo_last if undoes else redo_last
    try:
        update = yield from step(state, scope, turn["pending"], request["reason"])
    except UnsayError as error:
        return refused(state, texts, error)
    operation = state["operations"][-1] if undoes else last_undone(state, turn["pending"])
    change = change_made(state["messages"], update, operation, undone=undoes)
    text = step_notice(texts, change, undone=undoes)
    update["notice"] = NoticeDue(text=text, answers=turn["pending"])
    scope.emit("undone" if undoes else "redone", removed=change.removed, restored=change.restored)
    end_change(state, scope, update, turn["pending"], event=request["kind"])
    return update


def _ask_about_drafts(state: State, scope: Scope, request: RollbackRequest) -> Steps[Update]:
    """Ask a person what to do when no draft passed: accept, edit, reject, or try once more.

    This interrupts the run until then. Raises what `deliver_best` raises, such as `EmptyAnswerError`.
    """
    turn = state["turn"]
    # The interrupt comes before any effect: LangGraph runs the node again with the answer.
    decision = delivery.ask_about_drafts(state, scope)
    scope.emit("decision", decision=decision.kind)
    if decision.kind == "reject":
        return (yield from _end_unanswered(state, scope, request))
    if decision.kind == "respond":
        scope.step_log.later_events.append(planner_note(decision.text))
        extra = turn["extra_attempts"] + 1
        after: Turn = {**turn, "guidance": decision.text, "extra_attempts": extra}
        return Update(branches=keep_newest_draft(state, scope), turn=after)
    answer_id, edits = f"{turn['question_id']}-person", decision.kind == "edit"
    own_answer = AIMessage(decision.text, id=answer_id) if edits else None
    return (yield from delivery.deliver_best(state, scope, own_answer))


def _end_unanswered(state: State, scope: Scope, request: RollbackRequest) -> Steps[Update]:
    """End a turn without an answer: a person rejected its drafts, or declined to spend more.

    Messages that rejected drafts removed from the transcript return, and a notice says why. Raises
    what `at_turn_start` raises if they cannot return.
    """
    restored, update = yield from delivery.at_turn_start(state, scope)
    turn, texts = restored["turn"], scope.texts(restored["messages"])
    text = texts.say("declined", settings=request["reason"])
    if request["kind"] == "ask":
        text = texts.say("no_answer")
        update["branches"] = delivery.keep_rejected(restored, scope, ())
    update["notice"] = NoticeDue(text=text, answers=turn["pending"])
    update["turn"] = {**turn, "rejections": [], "steps": []}
    if turn["branches"]:
        update.update(with_step(state, turn_step(restored, turn["branches"], ())))
    return update
