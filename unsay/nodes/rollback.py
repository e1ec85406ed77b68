"""rollback: go back to the last good point, with the question and the reason kept."""

from langchain_core.messages import AIMessage, AnyMessage

from unsay.effects import Steps
from unsay.errors import UnsayError
from unsay.events.event_types import planner_note
from unsay.history.branch import Label, replace_tail
from unsay.interrupts import ask_person, person_request, read_decision
from unsay.operations.delivery import at_turn_start, deliver_best, keep_rejected
from unsay.operations.dispatch import messages_needed
from unsay.operations.offload import load_segments
from unsay.operations.retry import ask_again
from unsay.operations.rollback import (
    counts,
    forward,
    go_back,
    live_branch,
    note,
    place_name,
    redo_last,
    save_branch,
    settle,
    turns_left,
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
    """Make the rollback that a node or a host asked for, and clear the request.

    Raises:
        UnknownCheckpointError: `rollback_checkpoint_id` names no checkpoint.
        AmbiguousCheckpointError: It names several.
    """
    move, loaded = state.get("rollback_request"), Update()
    if move is None:
        wanted, turns = messages_needed(state, None)
        loaded = yield from load_segments(state, scope, wanted, turns=turns)
        state = with_update(state, loaded)
        target, turn = state.get("rollback_checkpoint_id"), state["turn"]
        pending = () if turn["done"] else turn["pending"]
        base = target_of(live_branch(state), target, pending=pending)
        move = RollbackRequest(kind="person", to=base, reason=target or "the host's order")
    operations = {
        "draft": _reject_draft,
        "context": _go_to_target,
        "person": _go_to_target,
        "retry": _retry,
        "undo": _undo_or_redo,
        "redo": _undo_or_redo,
        "ask": _ask_about_drafts,
        "decline": _end_unanswered,
    }
    update = yield from operations[move["kind"]](state, scope, move)
    if move["kind"] in ("draft", "context", "person", "retry"):
        _report(state, scope, update, move)
    if loaded:
        update = {**loaded, **update, "messages": [*loaded["messages"], *update["messages"]]}
    return {
        **update,
        "should_rollback": False,
        "rollback_checkpoint_id": None,
        "rollback_request": None,
    }


def _reject_draft(state: State, scope: Scope, move: RollbackRequest) -> Steps[Update]:
    """Keep a failed draft as a branch, and go back the farther the more drafts failed."""
    turn, live = state["turn"], live_branch(state)
    drafts = tuple(turn["rejections"][-1]["messages"])
    base = target_of_drafts(live, turn["base"], len(turn["rejections"]))
    cause = Label(kind="draft", reason=move["reason"], created_at=scope.now(), drafts=drafts)
    change = replace_tail(live, base, label=cause, keep=turn["pending"])
    refs = yield from save_branch(change, scope, state.get("branches", []))
    update = settle(state, change, refs)
    name = change.branch["id"]
    update["turn"] = {
        **turn,
        "base": base,
        "rollbacks": turn["rollbacks"] + 1,
        "branches": [*turn["branches"], name],
        "draft_branches": [*turn["draft_branches"], name],
    }
    return update


def _go_to_target(state: State, scope: Scope, move: RollbackRequest) -> Steps[Update]:
    """Go to a person's target, or before messages that entered and failed; then answer from there."""
    turn, is_order = state["turn"], move["kind"] == "person"
    kind: BranchKind = "person" if is_order else "context"
    cause = Label(kind=kind, reason=move["reason"], created_at=scope.now())
    update = yield from go_back(state, scope, move["to"], cause, turn["pending"])
    moved: Turn = {**turn, "number": _turns_after(state, update) + 1, "base": move["to"]}
    if is_order:
        moved["done"] = turn["done"] or move["reason"].startswith("/")
        return {**update, "turn": moved}
    name = update["branches"][-1]["id"]
    moved["rollbacks"] += 1
    moved["branches"] = [*turn["branches"], name]
    moved["context_reason"] = move["reason"]
    if turn["done"]:
        update.update(
            with_step(state, Operation(kind="rollback", base=move["to"], branches=[name]))
        )
    return {**update, "turn": moved}


def _retry(state: State, scope: Scope, move: RollbackRequest) -> Steps[Update]:
    """Ask the last question again; its old answer is kept, and an undo brings it back."""
    update = yield from ask_again(state, scope, move)
    order, asked = state["turn"]["question_id"], update["turn"]["question_id"]
    yield from forward({order or "": asked or ""}, scope)
    return update


def _report(state: State, scope: Scope, update: Update, move: RollbackRequest) -> None:
    """Announce a rollback and note it; a notice answers an order that no question came with."""
    texts, base = scope.texts(state["messages"]), update["turn"]["base"]
    removed, _ = counts(state["messages"], update["messages"])
    where = place_name(state, base, texts)
    if update["turn"]["done"]:
        turns = _turns_after(state, update)
        words = texts.rolled_back.format(where=where, turns=turns, removed=removed)
        update["notice"] = NoticeDue(text=words, answers=state["turn"]["pending"])
    kind, reason = move["kind"], move["reason"]
    scope.tell("rollback", kind=kind, to=where, message_id=base, removed=removed, reason=reason)
    score = state.get("quality_score") if kind in ("draft", "context") else None
    update["state_history"] = note(state, scope, "rollback", kind, score)


def _undo_or_redo(state: State, scope: Scope, move: RollbackRequest) -> Steps[Update]:
    """Go one step back or forth, and answer with the number of turns that are left."""
    turn, texts = state["turn"], scope.texts(state["messages"])
    undoes = move["kind"] == "undo"
    step = undo_last if undoes else redo_last
    try:
        update = yield from step(state, scope, turn["pending"], move["reason"])
    except UnsayError as error:
        refusal = NoticeDue(text=texts.refused.format(reason=error), answers=turn["pending"])
        return Update(notice=refusal, turn={**turn, "done": True})
    removed, restored = counts(state["messages"], update["messages"])
    left = _turns_after(state, update)
    words = texts.undone if undoes else texts.redone
    text = words.format(turns=left, removed=removed, restored=restored)
    update["notice"] = NoticeDue(text=text, answers=turn["pending"])
    update["turn"] = {**turn, "number": left + 1, "done": True}
    scope.tell("undone" if undoes else "redone", removed=removed, restored=restored)
    update["state_history"] = note(state, scope, "rollback", move["kind"], None)
    return update


def _ask_about_drafts(state: State, scope: Scope, move: RollbackRequest) -> Steps[Update]:
    turn = state["turn"]
    request = person_request(state, scope.texts(state["messages"]))
    decision = ask_person(request, read_decision)
    scope.tell("decision", decision=decision.kind)
    if decision.kind == "reject":
        return (yield from _end_unanswered(state, scope, move))
    if decision.kind == "respond":
        scope.step_log.later_events.append(planner_note(decision.text))
        extra = turn["extra_attempts"] + 1
        return Update(turn={**turn, "guidance": decision.text, "extra_attempts": extra})
    words: AnyMessage | None = None
    if decision.kind == "edit":
        words = AIMessage(decision.text, id=f"{turn['question_id']}-person")
    return (yield from deliver_best(state, scope, words))


def _end_unanswered(state: State, scope: Scope, move: RollbackRequest) -> Steps[Update]:
    """End a turn without an answer: a person rejected its drafts, or wants nothing more spent."""
    restored, update = yield from at_turn_start(state, scope)
    turn, texts = restored["turn"], scope.texts(restored["messages"])
    words = texts.declined
    if move["kind"] == "ask":
        words = texts.no_answer
        update["branches"] = yield from keep_rejected(restored, scope, move["reason"])
    update["notice"] = NoticeDue(text=words, answers=turn["pending"])
    update["turn"] = {**turn, "rejections": []}
    if turn["branches"]:
        step = Operation(kind="rollback", base=turn["base"], branches=turn["branches"])
        update.update(with_step(state, step))
    return update


def _turns_after(state: State, update: Update) -> int:
    messages = merge_messages(state["messages"], [update["messages"]])
    return turns_left(messages, offloaded_of(state))
