"""evaluate_quality: judge what entered without a verdict, and read a person's orders."""

from collections.abc import Collection, Sequence
from dataclasses import asdict

from langchain_core.messages import AnyMessage

from unsay.context.exclusions import forgotten_ids
from unsay.context.topics import standing
from unsay.effects import Steps
from unsay.errors import ConflictError
from unsay.generation.judge import exchange_of, judge_documents, judge_exchange
from unsay.history.branch import Change, Label, take_back
from unsay.judging.verdict import unscored
from unsay.messages.annotations import with_verdict
from unsay.messages.content import text_of
from unsay.operations.commands import parse_command
from unsay.operations.dispatch import carried_out, looked_up, places_of, read_orders
from unsay.operations.offload import as_ours, came_again, reach, seal, with_moved, without_sealed
from unsay.operations.pending import Entry, Injected, read_entry, unjudged
from unsay.operations.record_events import log_verdict
from unsay.operations.rollback import (
    OPERATIONS,
    brought_back,
    keep_cut,
    line_of,
    note,
    put_away,
    settle,
    turns_left,
    with_step,
    without_retries,
)
from unsay.operations.targets import landing_of_context
from unsay.runtime import Scope
from unsay.state import Command, Move, NoticeDue, State, Update, merge_messages, offloaded_of
from unsay.types import Operation, Topic, Turn, Verdict


def evaluate_quality(state: State, scope: Scope) -> Steps[Update]:
    """Open the turn: repair what an interruption left, read orders, judge what was injected."""
    forgotten = without_sealed(state)
    state = as_ours({**state, **forgotten})
    found = read_entry(state.get("messages", []), state.get("turn"))
    command = parse_command(text_of(found.question)) if found.question is not None else None
    steps = yield from _steps(state, scope, command)
    state = {**state, **steps}
    repaired = yield from _repair(state, scope, found, command)
    update: Update = {**forgotten, **steps, **repaired}
    after: State = {**state, **update, "messages": _record_after(state, update)}
    update.update(_tidied(after))
    after = {**after, **update, "messages": after["messages"]}
    window = yield from _window(after, scope, command)
    if window:
        after = with_moved(after, window)
        update.update({**window, "messages": [*update.get("messages", []), *window["messages"]]})
    entry = read_entry(after["messages"], None) if "messages" in update else found
    turn = open_turn(after, entry, scope.run_id or "")
    orders = read_orders(after, scope, turn, entry, command)
    orders = yield from looked_up(after, scope, orders, command)
    turn["checkpoints_due"] = orders.checkpoints
    update["turn"], update["move"] = turn, orders.move
    update["notice"] = None
    update.update((yield from carried_out(after, scope, orders)))
    if orders.notice is not None:
        update["notice"] = NoticeDue(text=orders.notice, answers=turn["pending"])
    elif orders.move is None:
        update.update((yield from judge_documents(after, scope, turn, update)))
        after = {**after, **update, "messages": _record_after(state, update)}
        update.update((yield from _judge_injected(after, scope, turn, update)))
    update["should_rollback"] = update["move"] is not None
    update["rollback_checkpoint_id"] = None
    return update


def _steps(state: State, scope: Scope, command: Command | None) -> Steps[Update]:
    """Bring back the steps that an undo needs; else put away those that are too many."""
    if command is not None and command["verb"] == "undo":
        return (yield from brought_back(state, scope))
    return (yield from put_away(state, scope))


def _window(state: State, scope: Scope, command: Command | None) -> Steps[Update]:
    """Take back what an order may lead to, or came in again; else let go of what is too much."""
    if command is not None or state.get("should_rollback"):
        wanted, turns = places_of(state, command)
        return (yield from reach(state, scope, wanted, turns=turns))
    return (yield from came_again(state, scope)) or (yield from seal(state, scope))


def _tidied(state: State) -> Update:
    """What no longer names messages that a host has taken away: stretches, points, summaries."""
    known = {message.id for message in state["messages"]}
    update = Update()
    segments = standing(state["messages"], state.get("segments", []))
    if segments != state.get("segments", []):
        update["segments"] = segments
    marks = [
        each
        for each in state.get("checkpoints", [])
        if each["message_id"] in (None, *known) or each.get("sealed")
    ]
    if marks != state.get("checkpoints", []):
        update["checkpoints"] = marks
    topics = [_tidied_topic(each, known) for each in state.get("topics", [])]
    if topics != state.get("topics", []):
        update["topics"] = topics
    return update


def _tidied_topic(topic: Topic, known: set[str | None]) -> Topic:
    if topic["summarized_through"] in (None, *known):
        return topic
    return {**topic, "summary": None, "summarized_through": None}


def _record_after(state: State, update: Update) -> list[AnyMessage]:
    return merge_messages(state.get("messages", []), [update.get("messages", [])])


def _repair(state: State, scope: Scope, found: Entry, command: Command | None) -> Steps[Update]:
    """Set aside the question of a turn that never ended; an undo does that by itself."""
    if not found.interrupted:
        return Update()
    turn, operations = state["turn"], state.get("operations", [])
    base = line_of(state).id_at(found.interrupted.start - 1)
    if command is not None and command["verb"] == "undo":
        step = Operation(kind="turn", base=base, cuts=turn["cuts"])
        return Update(operations=[*operations, step][-OPERATIONS:])
    kept = [m.id or "" for m in state["messages"][found.start :]]
    cause = Label(kind="interrupted", reason="the turn never ended", created_at=scope.now())
    change = yield from _restored(state, scope, base, cause, kept)
    refs = yield from keep_cut(change, scope, state.get("cuts", []))
    update = settle(state, change, refs)
    scope.tell("set_aside", reason=cause.reason)
    rejected = [name for name in turn["cuts"] if name not in turn["draft_cuts"]]
    if rejected:
        end = change.line.id_at(len(change.line.messages) - len(kept) - 1)
        step = Operation(kind="rollback", base=end, cuts=rejected)
        update.update(with_step(state, step))
    return update


def _restored(
    state: State, scope: Scope, base: str | None, cause: Label, kept: Sequence[str]
) -> Steps[Change]:
    """The record as the interrupted turn began, as far as what it cut is still kept."""
    try:
        return (yield from without_retries(state, scope, base, cause, kept))
    except ConflictError:
        return take_back(line_of(state), base, label=cause, keep=kept)


def open_turn(state: State, entry: Entry, run_id: str) -> Turn:
    """The turn of what waits at the end of a record."""
    messages = state["messages"]
    return Turn(
        number=turns_left(messages, offloaded_of(state)) + 1,
        run_id=run_id,
        question_id=None if entry.question is None else entry.question.id,
        pending=[m.id or "" for m in messages[entry.start :]],
        base=line_of(state).id_at(entry.start - 1),
        done=entry.question is None,
        rejections=[],
        rollbacks=0,
        extra_attempts=0,
        cuts=[],
        draft_cuts=[],
        context_reason=None,
        guidance=None,
        new_topic=False,
        checkpoints_due=[],
    )


def _judge_injected(state: State, scope: Scope, turn: Turn, update: Update) -> Steps[Update]:
    """Judge the answers that entered without a verdict; a failed one makes a rollback due."""
    messages = state["messages"]
    entered = unjudged(messages, len(messages) - len(turn["pending"]))
    if not entered or scope.settings.judging == "off":
        return Update()
    judged = entered[-scope.settings.max_judged_entries :]
    verdicts: list[tuple[Injected, Verdict]] = [
        (each, unscored("it entered together with many others")) for each in entered[: -len(judged)]
    ]
    forgotten = forgotten_ids(messages, state.get("segments", []), state.get("forgotten", []))
    for each in judged:
        verdict = yield from _judge_one(messages, each, scope, forgotten)
        verdicts.append((each, verdict))
    return _consequences(state, scope, turn, update, verdicts)


def _judge_one(
    messages: Sequence[AnyMessage], each: Injected, scope: Scope, forgotten: Collection[str]
) -> Steps[Verdict]:
    """A verdict on an answer by what is not forgotten; one that is forgotten is shown to nobody."""
    answer = messages[each.index]
    if answer.id in forgotten:
        return unscored("it is forgotten")
    asked = messages[each.start] if each.start < each.index else None
    question = None if asked is None or asked.id in forgotten else asked
    before = [m for m in messages[: each.start] if m.id not in forgotten]
    return (yield from judge_exchange(exchange_of(question, answer, before), answer, scope))


def _consequences(
    state: State,
    scope: Scope,
    turn: Turn,
    update: Update,
    verdicts: Sequence[tuple[Injected, Verdict]],
) -> Update:
    messages, topic = state["messages"], state.get("current_topic", "")
    first = turn["number"] - len(verdicts)
    stamped = [
        with_verdict(messages[each.index], verdict, turn=first + i, topic=topic)
        for i, (each, verdict) in enumerate(verdicts)
    ]
    for answer in stamped:
        log_verdict(scope, answer)
    scores = [v.score for _, v in verdicts if v.score is not None]
    lowest = min(scores, default=None)
    result = Update(messages=[*update.get("messages", []), *stamped])
    if lowest is not None:
        result["quality_score"] = lowest
    result["state_history"] = note(state, scope, "evaluate_quality", "judged", lowest)
    failed = next(((e, v) for e, v in verdicts if v.outcome == "failed"), None)
    for each, verdict in verdicts:
        scope.tell("verdict", of="context", message_id=messages[each.index].id, **asdict(verdict))
    if failed is not None:
        landing = landing_of_context(line_of(state), failed[0].start)
        result["move"] = Move(kind="context", to=landing, reason=failed[1].reason)
    return result
