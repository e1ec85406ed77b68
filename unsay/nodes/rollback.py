"""rollback: back to the last good point, with the question and the reason kept."""

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.types import interrupt

from unsay.effects import Steps
from unsay.errors import InputError, UnsayError
from unsay.history.branch import Label, take_back
from unsay.interrupts import Decision, person_request, read_decision
from unsay.operations.delivery import as_it_began, deliver_best, keep_rejected
from unsay.operations.dispatch import places_of
from unsay.operations.offload import reach, with_moved
from unsay.operations.record_events import log_note
from unsay.operations.retry import ask_again
from unsay.operations.rollback import (
    counts,
    forward,
    go_back,
    keep_cut,
    line_of,
    note,
    place_name,
    redo_last,
    settle,
    turns_left,
    undo_last,
    with_step,
)
from unsay.operations.targets import landing_of_drafts, landing_of_person
from unsay.runtime import Scope
from unsay.state import Move, NoticeDue, State, Update, merge_messages, offloaded_of
from unsay.types import Operation, Turn

Step = Callable[[State, Scope, Sequence[str], str], Steps[Update]]
"""An undo or a redo: of a state, in a scope, before what is pending, for a reason."""


def rollback(state: State, scope: Scope) -> Steps[Update]:
    """Make the rollback that is due; afterwards none is."""
    move, window = state.get("move"), Update()
    if move is None:
        wanted, turns = places_of(state, None)
        window = yield from reach(state, scope, wanted, turns=turns)
        state = with_moved(state, window)
        move = _order_of_host(state)
    makers = {
        "draft": _draft_rejected,
        "context": _context_rejected,
        "person": _ordered,
        "undo": _undo,
        "redo": _redo,
        "retry": _retry,
        "ask": _ask_person,
        "decline": _decline,
    }
    update = yield from makers[move["kind"]](state, scope, move)
    update["should_rollback"] = False
    update["rollback_checkpoint_id"] = None
    update["move"] = None
    if window:
        update = {**window, **update, "messages": [*window["messages"], *update["messages"]]}
    return update


def _order_of_host(state: State) -> Move:
    """The rollback that a host orders by writing the flag behind the answer.

    Raises:
        UnknownCheckpointError: No checkpoint answers to `rollback_checkpoint_id`.
        AmbiguousCheckpointError: Several do.
    """
    target = state.get("rollback_checkpoint_id")
    pending = () if state["turn"]["done"] else state["turn"]["pending"]
    base = landing_of_person(line_of(state), target, pending)
    return Move(kind="person", to=base, reason=target or "the host's order")


def _draft_rejected(state: State, scope: Scope, move: Move) -> Steps[Update]:
    """Take a failed draft back, and the record with it as far as the failures warrant."""
    turn, line = state["turn"], line_of(state)
    rejected = turn["rejections"][-1]
    base = landing_of_drafts(line, turn["base"], len(turn["rejections"]))
    cause = Label(
        kind="draft",
        reason=move["reason"],
        created_at=scope.now(),
        drafts=tuple(rejected["messages"]),
    )
    change = take_back(line, base, label=cause, keep=turn["pending"])
    refs = yield from keep_cut(change, scope, state.get("cuts", []))
    name = change.cut["id"]
    update = settle(state, change, refs)
    update["turn"] = {
        **turn,
        "base": base,
        "rollbacks": turn["rollbacks"] + 1,
        "cuts": [*turn["cuts"], name],
        "draft_cuts": [*turn["draft_cuts"], name],
    }
    _tell(state, scope, update, base, move)
    update["state_history"] = note(state, scope, "rollback", "draft", rejected["score"])
    return update


def _context_rejected(state: State, scope: Scope, move: Move) -> Steps[Update]:
    """Take back messages that entered the record and failed; a question goes on from there."""
    turn = state["turn"]
    cause = Label(kind="context", reason=move["reason"], created_at=scope.now())
    update = yield from go_back(state, scope, move["to"], cause, turn["pending"])
    name = update["cuts"][-1]["id"]
    update["turn"] = {
        **turn,
        "number": turns_left(_record(state, update), offloaded_of(state)) + 1,
        "base": move["to"],
        "rollbacks": turn["rollbacks"] + 1,
        "cuts": [*turn["cuts"], name],
        "context_reason": move["reason"],
    }
    _tell(state, scope, update, move["to"], move)
    if turn["done"]:
        update["notice"] = _where_it_stands(state, scope, update, move["to"])
        update.update(with_step(state, Operation(kind="rollback", base=move["to"], cuts=[name])))
    update["state_history"] = note(state, scope, "rollback", "context", state.get("quality_score"))
    return update


def _ordered(state: State, scope: Scope, move: Move) -> Steps[Update]:
    """Go where a person wants; a command or a bare order is answered by a notice."""
    turn = state["turn"]
    cause = Label(kind="person", reason=move["reason"], created_at=scope.now())
    update = yield from go_back(state, scope, move["to"], cause, turn["pending"])
    asks = not turn["done"] and not move["reason"].startswith("/")
    number = turns_left(_record(state, update), offloaded_of(state)) + 1
    update["turn"] = {**turn, "number": number, "base": move["to"], "done": not asks}
    if not asks:
        update["notice"] = _where_it_stands(state, scope, update, move["to"])
    _tell(state, scope, update, move["to"], move)
    update["state_history"] = note(state, scope, "rollback", "person", None)
    return update


def _undo(state: State, scope: Scope, move: Move) -> Steps[Update]:
    words = scope.texts(state["messages"]).undone
    return (yield from _stepping(state, scope, move, undo_last, words))


def _redo(state: State, scope: Scope, move: Move) -> Steps[Update]:
    words = scope.texts(state["messages"]).redone
    return (yield from _stepping(state, scope, move, redo_last, words))


def _stepping(state: State, scope: Scope, move: Move, step: Step, words: str) -> Steps[Update]:
    """Go one step back or forth, and answer with where the talk stands."""
    turn = state["turn"]
    try:
        update = yield from step(state, scope, turn["pending"], move["reason"])
    except UnsayError as error:
        refused = scope.texts(state["messages"]).refused.format(reason=error)
        refusal = NoticeDue(text=refused, answers=turn["pending"])
        return Update(notice=refusal, turn={**turn, "done": True})
    removed, restored = counts(state["messages"], update["messages"])
    left = turns_left(_record(state, update), offloaded_of(state))
    said = words.format(turns=left, removed=removed, restored=restored)
    update["notice"] = NoticeDue(text=said, answers=turn["pending"])
    update["turn"] = {**turn, "number": left + 1, "done": True}
    scope.tell("undone" if move["kind"] == "undo" else "redone", removed=removed, restored=restored)
    update["state_history"] = note(state, scope, "rollback", move["kind"], None)
    return update


def _retry(state: State, scope: Scope, move: Move) -> Steps[Update]:
    """Ask the last question again; its old answer is kept, and an undo brings it back."""
    update = yield from ask_again(state, scope, move)
    order, asked = state["turn"]["question_id"], update["turn"]["question_id"]
    yield from forward({order or "": asked or ""}, scope)
    _tell(state, scope, update, update["turn"]["base"], move)
    update["state_history"] = note(state, scope, "rollback", "retry", None)
    return update


def _record(state: State, update: Update) -> list[Any]:
    return merge_messages(state["messages"], [update["messages"]])


def _where_it_stands(state: State, scope: Scope, update: Update, base: str | None) -> NoticeDue:
    texts = scope.texts(state["messages"])
    removed, _ = counts(state["messages"], update["messages"])
    words = texts.rolled_back.format(
        where=place_name(state, base, texts),
        turns=turns_left(_record(state, update), offloaded_of(state)),
        removed=removed,
    )
    return NoticeDue(text=words, answers=state["turn"]["pending"])


def _tell(state: State, scope: Scope, update: Update, base: str | None, move: Move) -> None:
    removed, _ = counts(state["messages"], update["messages"])
    scope.tell(
        "rollback",
        kind=move["kind"],
        to=place_name(state, base, scope.texts(state["messages"])),
        message_id=base,
        removed=removed,
        reason=move["reason"],
    )


def _ask_person(state: State, scope: Scope, move: Move) -> Steps[Update]:
    """Let a person decide about a turn whose drafts all failed."""
    texts = scope.texts(state["messages"])
    decision = _decide(person_request(state, texts))
    scope.tell("decision", decision=decision.kind)
    if decision.kind == "respond":
        log_note(scope, decision.text)
        return _once_more(state, decision)
    if decision.kind == "reject":
        return (yield from _give_up(state, scope, move))
    words = AIMessage(decision.text, id=f"{state['turn']['question_id']}-person")
    return (yield from deliver_best(state, scope, words if decision.kind == "edit" else None))


def _decide(request: dict[str, Any]) -> Decision:
    """A person's decision; an answer that is none is asked again, with the fault."""
    while True:
        try:
            return read_decision(interrupt(request))
        except InputError as error:
            (action,) = request["action_requests"]
            request = {**request, "action_requests": [{**action, "description": str(error)}]}


def _once_more(state: State, decision: Decision) -> Update:
    turn: Turn = {
        **state["turn"],
        "guidance": decision.text,
        "extra_attempts": state["turn"]["extra_attempts"] + 1,
    }
    return Update(turn=turn)


def _decline(state: State, scope: Scope, move: Move) -> Steps[Update]:
    """End a turn on which a person wants nothing more spent; its drafts are kept already."""
    del move
    restored, update = yield from as_it_began(state, scope)
    words = scope.texts(restored["messages"]).declined
    return {**update, **_unanswered(state, restored, words)}


def _give_up(state: State, scope: Scope, move: Move) -> Steps[Update]:
    """Deliver nothing, on the record as the turn began."""
    restored, update = yield from as_it_began(state, scope)
    update["cuts"] = yield from keep_rejected(restored, scope, move["reason"])
    words = scope.texts(restored["messages"]).no_answer
    return {**update, **_unanswered(state, restored, words)}


def _unanswered(state: State, restored: State, words: str) -> Update:
    """What says that a turn ended without an answer, on the record as it began."""
    turn = restored["turn"]
    update = Update(
        notice=NoticeDue(text=words, answers=turn["pending"]),
        turn={**turn, "rejections": []},
    )
    if turn["cuts"]:
        step = Operation(kind="rollback", base=turn["base"], cuts=turn["cuts"])
        update.update(with_step(state, step))
    return update
