"""rollback: go back to the last good point; the question stays, with the reason for the next attempt."""

from langchain_core.messages import AIMessage

from unsay.effects import Steps
from unsay.errors import UnsayError
from unsay.events.event_types import planner_note
from unsay.orders.order import Rollback
from unsay.runtime import Scope
from unsay.state import NoticeDue, RollbackRequest, State, Update
from unsay.transcript.automatic import (
    automatic_rollback,
    confirmed,
    ids_to_remove,
    keep_draft,
    keep_newest_draft,
    turn_step,
    without_base,
)
from unsay.transcript.live import count_changes, place_name, with_step
from unsay.transcript.pending import refused
from unsay.transcript.record import add_note
from unsay.turn import delivery
from unsay.types import Turn
from unsay.verbs.carry_out import carry_out_request, request_of


def rollback(state: State, scope: Scope) -> Steps[Update]:
    """Carry out what was requested, and clear the request.

    That is an order of a person or a host that moves in the transcript; the rollback of a failed
    draft or of what a host added; a question to a person about failed drafts; or the end of a turn
    whose budget was declined. A refused order gives a notice.

    Raises:
        UnsayError: A host set only the flag `should_rollback`, and its rollback is refused.
        EmptyAnswerError: The best draft is to be delivered, and it is empty.
        ConflictError: A branch that a turn's rollbacks removed is not kept, or its place is gone.
        DatabaseCorruptError: A branch or an offloaded message that is needed is damaged.
    """
    request = state.get("rollback_request")
    if request is None:
        order = Rollback(to=state.get("rollback_checkpoint_id") or None)
        update = yield from carry_out_request(state, scope, request_of(order))
    elif request["kind"] == "context":
        update = _reject_context(state, scope, request)
    else:
        handlers = {
            "order": _order,
            "draft": _reject_draft,
            "ask": _ask_about_drafts,
            "decline": _end_unanswered,
        }
        update = yield from handlers[request["kind"]](state, scope, request)
    # A person who declines an automatic rollback leaves nothing to report.
    if request and update.get("turn", {}).get("rollbacks", 0) > state["turn"]["rollbacks"]:
        _report(state, scope, update, request)
    return {
        **update,
        "should_rollback": False,
        "rollback_checkpoint_id": None,
        "rollback_request": None,
    }


def _order(state: State, scope: Scope, request: RollbackRequest) -> Steps[Update]:
    """Carry out an order; one that is refused changes nothing, and a notice says why."""
    try:
        return (yield from carry_out_request(state, scope, request))
    except UnsayError as error:
        return refused(state, scope.texts(state["messages"]), error)


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


def _report(state: State, scope: Scope, update: Update, request: RollbackRequest) -> None:
    """Stream an automatic rollback, and add it to `update`: its history, and a notice if it ends the turn."""
    texts, turn = scope.texts(state["messages"]), update["turn"]
    removed, _ = count_changes(state["messages"], update["messages"])
    place_text = place_name(state, turn["base"], texts)
    removals = turn.get("removed", [])[len(state["turn"].get("removed", [])) :]
    if turn["done"]:
        text = f"{texts.removal_text(removals)} {texts.say('undo_hint')}"
        update["notice"] = NoticeDue(text=text, answers=state["turn"]["pending"])
    kind, parts = request["kind"], list(map(without_base, removals))
    data = {"to": place_text, "message_id": turn["base"], "removed": removed, "removals": parts}
    scope.emit("rollback", kind=kind, reason=request["reason"], **data)
    # A rollback after which nothing is answered is about the turn that is now the last one.
    number = turn["number"] - turn["done"]
    update["state_history"] = add_note(
        state, scope, "rollback", kind, state.get("quality_score"), number=number
    )


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
