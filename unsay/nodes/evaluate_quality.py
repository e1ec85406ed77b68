"""evaluate_quality: open the turn, read a person's orders, judge what entered without a verdict."""

from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import cast

from langchain_core.messages import AnyMessage

from unsay.context.topics import forgotten_ids, live_segments
from unsay.effects import Steps
from unsay.generation.judge import exchange_of, judge_exchange
from unsay.generation.relevance import judge_documents
from unsay.history.checkpoints import metadata_of, renumbered
from unsay.judging.verdict import unscored
from unsay.memory.offload import drop_offloaded, offload
from unsay.messages.annotations import spoken, with_verdict
from unsay.moves.reconcile import load_resent
from unsay.orders.parse import changes_nothing, command_of
from unsay.protocols import Verdict
from unsay.runtime import Scope
from unsay.state import Command, NoticeDue, RollbackRequest, State, StateDraft, Update, offloaded_of
from unsay.transcript.live import live_branch, target_of_context
from unsay.transcript.pending import (
    MAX_ENTRIES,
    Injected,
    PendingInput,
    find_pending,
    open_turn,
    repair_interrupted,
    unjudged,
    with_hand_offs,
)
from unsay.transcript.record import add_note, log_verdict
from unsay.transcript.undo import archive_steps
from unsay.turn.runs import branch_of_deleted, stopped_questions
from unsay.verbs.carry_out import carry_out_input

# A run's order is carried out once.
NO_ORDER = Update(order=None, rollback_checkpoint_id=None, start_task=None)


def evaluate_quality(state: State, scope: Scope) -> Steps[Update]:
    """Open the turn, then carry out a command, or judge documents and answers that a host injected.

    A failed answer, a command or a host's flag can request a rollback: the update then sets
    `should_rollback`, and the node `rollback` carries it out. A refused command gives a notice, and
    a judge that fails leaves an answer unscored.
    """
    draft = StateDraft(state)
    draft.apply(drop_offloaded(state))  # first: later steps would load what the host removed
    pending = find_pending(draft.state["messages"], state.get("turn"))
    waiting = spoken(draft.state["messages"][pending.start :])
    command = command_of(waiting, pending.question, scope.settings)
    if command is not None and changes_nothing(command):
        return (yield from _show(draft, scope, pending, command))
    stopped = yield from stopped_questions(draft.state, scope, pending)
    yield from _repair(draft, scope, pending, command, stopped)
    is_order = command is not None or bool(draft.state.get("order"))
    if not is_order and not draft.state.get("should_rollback"):
        resent_update = yield from load_resent(draft.state, scope)
        draft.apply(resent_update or (yield from offload(draft.state, scope)))
    # The pending messages may have other indices now, or a stopped question waits with them.
    if "messages" in draft.update or stopped:
        pending = find_pending(draft.state["messages"], None)
    turn = open_turn(draft.state, pending, scope.run_id or "")
    order = yield from carry_out_input(draft.state, scope, turn, pending, command)
    draft.apply(order.update)
    is_answered = order.notice is not None or order.request is not None
    if not is_answered:
        draft.apply((yield from judge_documents(draft.state, scope, turn)))
    turn_update = Update(
        turn=turn,
        rollback_request=order.request,
        notice=None,
        refusal=None,
        **NO_ORDER,
    )
    if order.notice is not None:
        answers = turn["pending"]
        turn_update["notice"] = NoticeDue(text=order.notice, answers=answers, refusal=order.refusal)
    draft.apply(turn_update)
    if not is_answered:
        draft.apply((yield from _judge_injected(draft.state, scope)))
    return {**draft.update, "should_rollback": draft.state["rollback_request"] is not None}


def _show(
    draft: StateDraft, scope: Scope, pending: PendingInput, command: Command
) -> Steps[Update]:
    """Return the update that answers a command which changes nothing, also if it is refused."""
    turn = open_turn(draft.state, pending, scope.run_id or "")
    order = yield from carry_out_input(draft.state, scope, turn, pending, command)
    waiting = spoken(draft.state["messages"][pending.start :])
    answers = with_hand_offs(waiting, [message.id or "" for message in waiting])
    due = NoticeDue(text=order.notice or "", answers=answers, refusal=order.refusal)
    draft.apply(Update(notice=due, refusal=None, **NO_ORDER))
    if draft.state.get("turn") is None:
        draft.apply(Update(turn=turn))
    return {**draft.update, "should_rollback": draft.state.get("rollback_request") is not None}


def _repair(
    draft: StateDraft,
    scope: Scope,
    pending: PendingInput,
    command: Command | None,
    stopped: list[AnyMessage],
) -> Steps[None]:
    """Apply to the draft what an interrupted turn or a host left undone.

    The question of an interrupted turn moves to a branch, unless it is in `stopped` (a host stopped
    its run) or the `command` is an undo, which removes it itself. References to messages that a
    host removed are dropped. The oldest steps move to the store, but not before an undo.
    """
    is_undo = command is not None and command["verb"] == "undo"
    if not is_undo:
        draft.apply((yield from archive_steps(draft.state, scope)))
    turn = draft.state.get("turn")
    names = {message.id for message in stopped}
    stays = bool(turn and turn["question_id"] in names)
    draft.apply(branch_of_deleted(draft.state, scope, stopped))
    draft.apply(
        (yield from repair_interrupted(draft.state, scope, pending, undone=is_undo, stopped=stays))
    )
    draft.apply(_without_removed(draft.state))


def _without_removed(state: State) -> Update:
    """Return the update that drops segments and checkpoints of removed messages.

    It is empty if none were removed.
    """
    message_ids = {None, *(message.id for message in state["messages"])}
    update = Update(
        segments=live_segments(state["messages"], state.get("segments", [])),
        checkpoints=[
            checkpoint
            for checkpoint in state.get("checkpoints", [])
            if checkpoint["message_id"] in message_ids or checkpoint.get("offloaded")
        ],
    )
    if update["checkpoints"] != state.get("checkpoints", []):
        checkpoints, offloaded = update["checkpoints"], offloaded_of(state)
        update["checkpoints"] = renumbered(checkpoints, state["messages"], offloaded)
        update["checkpoint_metadata"] = metadata_of(checkpoints, state["messages"], offloaded)
    return cast("Update", {k: v for k, v in update.items() if v != state.get(k, [])})


def _judge_injected(state: State, scope: Scope) -> Steps[Update]:
    """Judge the newest answers that a host injected, up to `MAX_ENTRIES`.

    Older ones are `unscored`. The update is that of `_consequences`; it is empty without these
    answers, and with `judging="off"`.
    """
    messages = state["messages"]
    entered = unjudged(messages, len(messages) - len(state["turn"]["pending"]))
    if not entered or scope.settings.judging == "off":
        return Update()
    newest_entries = entered[-MAX_ENTRIES:]
    verdicts: list[tuple[Injected, Verdict]] = [
        (entry, unscored(scope.texts(messages).say("unjudged.many")))
        for entry in entered[: -len(newest_entries)]
    ]
    forgotten = forgotten_ids(messages, state.get("segments", []), state.get("forgotten", []))
    for entry in newest_entries:
        verdict = yield from _judge_one(messages, entry, scope, forgotten)
        verdicts.append((entry, verdict))
    return _consequences(state, scope, verdicts)


def _judge_one(
    messages: Sequence[AnyMessage], entry: Injected, scope: Scope, forgotten: Collection[str]
) -> Steps[Verdict]:
    """Return a verdict on an injected answer, judged without the `forgotten` messages.

    It is `unscored` if the answer is forgotten itself.
    """
    answer = messages[entry.index]
    if answer.id in forgotten:
        return unscored(scope.texts(list(messages)).say("unjudged.forgotten"))
    question_message = messages[entry.start] if entry.start < entry.index else None
    question = (
        None if question_message is None or question_message.id in forgotten else question_message
    )
    before = [m for m in messages[: entry.start] if m.id not in forgotten]
    steps = [m for m in messages[entry.start : entry.index] if m.id not in forgotten]
    return (yield from judge_exchange(exchange_of(question, answer, before, steps), answer, scope))


def _consequences(
    state: State, scope: Scope, verdicts: Sequence[tuple[Injected, Verdict]]
) -> Update:
    """Return the update with the verdicts, and the lowest score if one has a score.

    If answers failed, the update requests a rollback that removes only these with their questions.
    Each verdict is logged and streamed.
    """
    messages, topic = state["messages"], state.get("current_topic", "")
    answers = []
    # Injected answers make the turns directly before the pending one.
    first = state["turn"]["number"] - len(verdicts)
    for turn_number, (entry, verdict) in enumerate(verdicts, start=first):
        answer = with_verdict(messages[entry.index], verdict, turn=turn_number, topic=topic)
        answers.append(answer)
        log_verdict(answer, scope)
        scope.emit("verdict", of="context", message_id=answer.id, **asdict(verdict))
    scores = [verdict.score for _, verdict in verdicts if verdict.score is not None]
    lowest = min(scores, default=None)
    history = add_note(state, scope, "evaluate_quality", "judged", lowest)
    update = Update(messages=answers, state_history=history)
    if lowest is not None:
        update["quality_score"] = lowest
    failed = [(entry, verdict) for entry, verdict in verdicts if verdict.outcome == "failed"]
    if failed:
        # Only the failed exchanges: a good one after them stays.
        places = [index for entry, _ in failed for index in range(entry.start, entry.index + 1)]
        update["rollback_request"] = RollbackRequest(
            kind="context",
            to=target_of_context(live_branch(state), failed[0][0].start),
            reason=" / ".join(dict.fromkeys(verdict.reason for _, verdict in failed)),
            ids=[messages[index].id or "" for index in places],
        )
    return update
