"""rollback: go back to the last good point; the question stays, with the reason for the next attempt."""

from langchain_core.messages import AIMessage, AnyMessage

from unsay.effects import Steps
from unsay.errors import UnsayError
from unsay.events.event_types import planner_note
from unsay.history.branch import Label, replace_tail
from unsay.interrupts import ask_person, person_request, read_decision
from unsay.operations.command_table import in_terms_of
from unsay.operations.delivery import at_turn_start, deliver_best, keep_rejected
from unsay.operations.dispatch import messages_needed
from unsay.operations.offload import load_segments
from unsay.operations.remove import remove_turn
from unsay.operations.retry import ask_again
from unsay.operations.reversal import change_made, step_notice
from unsay.operations.rollback import (
    add_note,
    count_changes,
    count_turns,
    go_back,
    last_undone,
    live_branch,
    place_name,
    redo_last,
    save_branch,
    settle,
    store_turn_places,
    undo_last,
    with_step,
)
from unsay.operations.targets import target_of, target_of_drafts
from unsay.runtime import Scope
from unsay.state import (
    NoticeDue,
    RollbackRequest,
    State,
    Update,
    merge_messages,
    offloaded_of,
    with_update,
)
from unsay.types import BranchKind, Operation, Turn


def rollback(state: State, scope: Scope) -> Steps[Update]:
    """Make the rollback, undo or retry that was requested, and clear the request.

    Raises:
        UnknownCheckpointError: `rollback_checkpoint_id` names no checkpoint.
        AmbiguousCheckpointError: It names several.
        NothingToUndoError: A host requested it, and there are no messages.
    """
    request, loaded = state.get("rollback_request"), Update()
    if request is None:
        state, loaded, request = yield from _host_request(state, scope)
    handlers = {
        "draft": _reject_draft,
        "context": _go_to_target,
        "person": _go_to_target,
        "retry": _retry,
        "edit": _retry,
        "remove": _remove,
        "undo": _undo_or_redo,
        "redo": _undo_or_redo,
        "ask": _ask_about_drafts,
        "decline": _end_unanswered,
    }
    update = yield from handlers[request["kind"]](state, scope, request)
    if request["kind"] in ("draft", "context", "person", "retry", "edit"):
        _report(state, scope, update, request)
    # Loaded messages come first: the later writes may remove some of them.
    if loaded:
        update = {**loaded, **update, "messages": [*loaded["messages"], *update["messages"]]}
    return {
        **update,
        "should_rollback": False,
        "rollback_checkpoint_id": None,
        "rollback_request": None,
    }


def _host_request(state: State, scope: Scope) -> Steps[tuple[State, Update, RollbackRequest]]:
    """Return a state, an update and a request for a rollback that a host's flag asks for.

    The update loads the offloaded messages that the rollback needs, and is empty if it needs none.
    The state has them. The request goes to `rollback_checkpoint_id`, or without one to the last
    good point. The errors are those of `target_of`.
    """
    message_ids, turns = messages_needed(state, None)
    loaded = yield from load_segments(state, scope, message_ids, turns=turns)
    state = with_update(state, loaded)
    target, turn = state.get("rollback_checkpoint_id") or None, state["turn"]
    pending = () if turn["done"] else turn["pending"]
    base = target_of(live_branch(state), target, pending=pending)
    reason = target or "the host's order"
    return state, loaded, RollbackRequest(kind="person", to=base, reason=reason)


def _reject_draft(state: State, scope: Scope, request: RollbackRequest) -> Steps[Update]:
    """Keep a failed draft as a branch, and go back; a further failure in the turn goes back farther."""
    turn, live = state["turn"], live_branch(state)
    drafts = tuple(turn["rejections"][-1]["messages"])
    base = target_of_drafts(live, turn["base"], len(turn["rejections"]))
    label = Label(kind="draft", reason=request["reason"], created_at=scope.now(), drafts=drafts)
    change = replace_tail(live, base, label=label, keep=turn["pending"])
    refs = yield from save_branch(change, scope, state.get("branches", []))
    update = settle(state, change, refs)
    branch_id = change.branch["id"]
    update["turn"] = {
        **turn,
        "base": base,
        "rollbacks": turn["rollbacks"] + 1,
        "branches": [*turn["branches"], branch_id],
        "draft_branches": [*turn["draft_branches"], branch_id],
    }
    return update


def _go_to_target(state: State, scope: Scope, request: RollbackRequest) -> Steps[Update]:
    """Go to a person's target, or to before the injected messages that failed."""
    turn, is_order = state["turn"], request["kind"] == "person"
    kind: BranchKind = "person" if is_order else "context"
    label = Label(kind=kind, reason=request["reason"], created_at=scope.now())
    update = yield from go_back(state, scope, request["to"], label, turn["pending"])
    after: Turn = {**turn, "number": _turns_after(state, update) + 1, "base": request["to"]}
    if is_order:
        # A typed command is the whole turn; with a host's flag the question is still to be answered.
        after["done"] = turn["done"] or request["reason"].startswith("/")
        return {**update, "turn": after}
    branch_id = update["branches"][-1]["id"]
    after["rollbacks"] += 1
    after["branches"] = [*turn["branches"], branch_id]
    after["context_reason"] = request["reason"]
    if turn["done"]:  # No answer follows, so the rollback itself is the step that an undo reverses.
        step = Operation(kind="rollback", base=request["to"], branches=[branch_id])
        update.update(with_step(state, step))
    return {**update, "turn": after}


def _retry(state: State, scope: Scope, request: RollbackRequest) -> Steps[Update]:
    """Ask a question again, or an edited one; what it replaces is a branch, which an undo restores."""
    update = yield from ask_again(state, scope, request)
    command, question = state["turn"]["question_id"], update["turn"]["question_id"]
    yield from store_turn_places({command or "": question or ""}, scope)
    return update


def _remove(state: State, scope: Scope, request: RollbackRequest) -> Steps[Update]:
    """Take one turn out; the later ones stay."""
    turn, number = state["turn"], request["to"] or ""
    update = yield from remove_turn(state, scope, number, turn["pending"], request["reason"])
    text = scope.texts(state["messages"]).removed_turn.format(turn=number)
    update["notice"] = NoticeDue(text=text, answers=turn["pending"])
    update["turn"] = {**turn, "number": _turns_after(state, update) + 1, "done": True}
    update["state_history"] = add_note(state, scope, "rollback", "remove", None)
    return update


def _report(state: State, scope: Scope, update: Update, request: RollbackRequest) -> None:
    """Stream a rollback and add it to the history of `update`; without a question add a notice."""
    texts, base = scope.texts(state["messages"]), update["turn"]["base"]
    removed, _ = count_changes(state["messages"], update["messages"])
    where = place_name(state, base, texts)
    if update["turn"]["done"]:
        turns = _turns_after(state, update)
        changes = texts.changes(turns=turns, removed=removed)
        text = texts.rolled_back.format(where=where, changes=changes)
        update["notice"] = NoticeDue(text=text, answers=state["turn"]["pending"])
    kind, reason = request["kind"], request["reason"]
    scope.emit("rollback", kind=kind, to=where, message_id=base, removed=removed, reason=reason)
    score = state.get("quality_score") if kind in ("draft", "context") else None
    update["state_history"] = add_note(state, scope, "rollback", kind, score)


def _undo_or_redo(state: State, scope: Scope, request: RollbackRequest) -> Steps[Update]:
    """Undo or redo one step; the notice says how many turns are left, or why nothing changed."""
    turn, texts = state["turn"], scope.texts(state["messages"])
    undoes = request["kind"] == "undo"
    step = undo_last if undoes else redo_last
    try:
        update = yield from step(state, scope, turn["pending"], request["reason"])
    except UnsayError as error:
        refusal = NoticeDue(
            text=texts.refusal(in_terms_of("chat", str(error))),
            answers=turn["pending"],
        )
        return Update(notice=refusal, turn={**turn, "done": True})
    done = state["operations"][-1] if undoes else last_undone(state, turn["pending"])
    change = change_made(state["messages"], update, done, undone=undoes)
    left = _turns_after(state, update)
    text = step_notice(texts, change, undone=undoes)
    update["notice"] = NoticeDue(text=text, answers=turn["pending"])
    update["turn"] = {**turn, "number": left + 1, "done": True}
    counts = {"removed": change.removed, "restored": change.restored}
    scope.emit("undone" if undoes else "redone", **counts)
    update["state_history"] = add_note(state, scope, "rollback", request["kind"], None)
    return update


def _ask_about_drafts(state: State, scope: Scope, request: RollbackRequest) -> Steps[Update]:
    """Ask a person what to do when no draft passed: accept, edit, reject, or try once more.

    Raises `EmptyAnswerError` if the person accepts and the best draft is empty.
    """
    turn = state["turn"]
    # The interrupt comes before any effect: LangGraph runs the node again with the answer.
    question = person_request(state, scope.texts(state["messages"]))
    decision = ask_person(question, read_decision)
    scope.emit("decision", decision=decision.kind)
    if decision.kind == "reject":
        return (yield from _end_unanswered(state, scope, request))
    if decision.kind == "respond":
        scope.step_log.later_events.append(planner_note(decision.text))
        extra = turn["extra_attempts"] + 1
        return Update(turn={**turn, "guidance": decision.text, "extra_attempts": extra})
    own_answer: AnyMessage | None = None
    if decision.kind == "edit":
        own_answer = AIMessage(decision.text, id=f"{turn['question_id']}-person")
    return (yield from deliver_best(state, scope, own_answer))


def _end_unanswered(state: State, scope: Scope, request: RollbackRequest) -> Steps[Update]:
    """End a turn without an answer: a person rejected its drafts, or declined to spend more."""
    restored, update = yield from at_turn_start(state, scope)
    turn, texts = restored["turn"], scope.texts(restored["messages"])
    text = texts.declined
    if request["kind"] == "ask":
        text = texts.no_answer
        update["branches"] = yield from keep_rejected(restored, scope, request["reason"])
    update["notice"] = NoticeDue(text=text, answers=turn["pending"])
    update["turn"] = {**turn, "rejections": []}
    if turn["branches"]:
        step = Operation(kind="rollback", base=turn["base"], branches=turn["branches"])
        update.update(with_step(state, step))
    return update


def _turns_after(state: State, update: Update) -> int:
    """Return how many answered turns the transcript has after an update."""
    messages = merge_messages(state["messages"], [update["messages"]])
    return count_turns(messages, offloaded_of(state))
