"""Run lifecycle: a run's status, changed around the work of every node."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from langchain_core.messages import AnyMessage
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.store.base import GetOp, Item

from unsay.context.topics import current_topic_id
from unsay.effects import Call, Steps
from unsay.errors import DatabaseCorruptError, RunConflictError
from unsay.events.event_types import split_message
from unsay.history.branch import Change, Label, holder_of, replace_tail
from unsay.history.runs import (
    Run,
    advance,
    checked_run,
    find_run,
    open_run,
    plain,
    put_run,
    resume,
    run_named_after,
    runs_namespace,
    suspend,
)
from unsay.history.threads import entry_of, find_session, refuse_ended
from unsay.messages.annotations import is_question
from unsay.moves.compensate import schedule_compensations
from unsay.moves.reconcile import (
    false_claims,
    note_left_behind,
    preceded_by,
    with_messages,
    without_stale,
)
from unsay.runtime import Scope
from unsay.state import State, Update, stored_salt
from unsay.storage.base import THREADS
from unsay.storage.items import (
    Kind,
    drop_items,
    freeze_messages,
    get_item,
    put_item,
    put_items,
    thaw_messages,
    thread_namespace,
)
from unsay.storage.pagination import read_items
from unsay.tokens.pricing import merged
from unsay.transcript.live import live_branch, readable_branches, save_branch
from unsay.transcript.pending import PendingInput, find_pending, is_beside_turn
from unsay.transcript.record import write_ahead
from unsay.types import RunPhase, RunStatus, StoredBranch

# The one item of a thread.
KEY = "newest"


def keep_stopped(state: State, scope: Scope) -> Steps[None]:
    """Store the questions that wait in the state of a run that the host stops.

    Nothing is stored if every question was answered, or without a store. Raises `InputError` if a
    message cannot be stored.
    """
    messages, turn = state.get("messages", []), state.get("turn")
    waiting = messages[find_pending(messages, turn).start :]
    if scope.address is None or not waiting:
        return
    store, thread_id = scope.address
    # An earlier question is kept until the state shows what became of it.
    earlier = yield from _stored(scope)
    ids = {message.id for message in waiting}
    questions = [*(each for each in earlier if each.id not in ids), *waiting]
    value = {"messages": freeze_messages(questions)}
    yield from put_item(store, thread_namespace("stopped", thread_id), KEY, value)


def stopped_questions(state: State, scope: Scope, pending: PendingInput) -> Steps[list[AnyMessage]]:
    """Return the questions of stopped runs that still wait, or that the host deleted.

    The item in the store is dropped only when the committed state shows that each of its questions
    was answered or is in a branch: a process may die after any step. A damaged item is dropped; the
    event `segment_lost` reports it.
    """
    stopped = yield from _stored(scope)
    if scope.address is None or not stopped:
        return []
    transcript_ids = {message.id for message in state["messages"]}
    start = pending.interrupted.start if pending.interrupted else pending.start
    waiting = {message.id for message in state["messages"][start:]}
    branches: list[StoredBranch] = []
    if any(each.id not in transcript_ids for each in stopped):
        refs = state.get("branches", [])
        branches = yield from readable_branches([ref["id"] for ref in refs], scope, refs)
    questions = [
        each
        for each in stopped
        if each.id in waiting
        or (each.id not in transcript_ids and holder_of(branches, each.id) is None)
    ]
    if not questions:
        store, thread_id = scope.address
        yield from drop_items(store, thread_namespace("stopped", thread_id), [KEY])
    return questions


def _stored(scope: Scope) -> Steps[list[AnyMessage]]:
    if scope.address is None:
        return []
    store, thread_id = scope.address
    namespace = thread_namespace("stopped", thread_id)
    try:
        item = yield from get_item(store, namespace, KEY)
        return (
            [] if item is None else cast("list[AnyMessage]", thaw_messages(item.value["messages"]))
        )
    except DatabaseCorruptError as error:  # The thread must not stay unusable because of it.
        scope.emit("segment_lost", error=str(error))
        yield from drop_items(store, namespace, [KEY])
        return []


def branch_of_deleted(state: State, scope: Scope, stopped: list[AnyMessage]) -> Update:
    """Keep as a branch the `stopped` questions that the host deleted; they are in no branch yet.

    The update is empty if there are none.
    """
    transcript_ids = {message.id for message in state["messages"]}
    deleted = [message for message in stopped if message.id not in transcript_ids]
    if not deleted:
        return Update()
    live = live_branch(state)
    start = find_pending(live.messages, state.get("turn")).start
    label = Label(kind="interrupted", reason="its run was deleted", created_at=scope.now())
    return keep_beside(state, scope, deleted, after=live.id_at(start - 1), label=label)


def keep_beside(
    state: State,
    scope: Scope,
    messages: Sequence[AnyMessage],
    *,
    after: str | None,
    label: Label,
) -> Update:
    """Keep as a branch messages that the transcript lacks; return the update that lists the branch.

    `after` is the id of the message that they would follow; `None` is the place before the first.
    Raises `ConflictError` if the state does not have that message. `label` describes the branch.
    """
    live = live_branch(state)
    base = live.before if after is None else after
    stays = [message.id or "" for message in live.messages[live.index_of(base) + 1 :]]
    # The event log has the messages as if they had come at the end, and then left.
    there = replace_tail(
        replace(live, messages=(*live.messages, *messages)), base, label=label, keep=stays
    )
    change = Change(
        live=live, writes=[], branch=there.branch, keep=tuple(stays), restored=(), only=None
    )
    for message in messages:
        scope.step_log.new_events += split_message(message)
    return Update(branches=save_branch(change, scope, state.get("branches", [])))


# What the states refer to. Runs, requests, usage and compensations stay with the original.
COPIED: tuple[Kind, ...] = ("branches", "event_log", "offloaded", "steps", "turns")


def copy_stored(state: State, scope: Scope) -> Steps[None]:
    """Copy the original's items in the store if a server copied this thread; else do nothing.

    The channel `home` of the state names the original. A damaged item is copied with an empty value:
    its readers find it damaged too.
    """
    original = state.get("home")
    if scope.address is None or original in (None, scope.thread_id):
        return
    store, thread_id = scope.address
    for kind in COPIED:
        source = thread_namespace(kind, str(original))
        items = yield from read_items(store, source, lambda item: (item.key, item.value))
        if items:
            yield from put_items(store, thread_namespace(kind, thread_id), dict(items))


def at_home(state: State, scope: Scope) -> Update:
    """Return the update that writes the thread's id to `home`; empty if it is there, or without an id."""
    if scope.thread_id is None or state.get("home") == scope.thread_id:
        return Update()
    return Update(home=scope.thread_id)


Node = Callable[[State, Scope], Steps[Update]]

# Turns after a failed summary in which no summarizer is asked.
PAUSE_TURNS = 10

ERROR_CHARS = 500

TAKEN_BACK = "its turn was undone before it ended"
DIED = "its process ended, and a command is not repeated"


def track_run(name: str, node: Node) -> Node:
    """Return a node that also writes its events, schedules calls to undo, and keeps its run's status.

    `evaluate_quality`, the first node, also opens the run. An error of a node ends the run as failed
    and is raised. An interrupt pauses the run and goes on to LangGraph.

    The returned node also raises `SessionEndedError` if the thread was ended, `DatabaseCorruptError`
    if the stored run is damaged, and what `false_claims` and `write_ahead` raise.
    """

    def around(state: State, scope: Scope) -> Steps[Update]:
        # The first node opens the run; the others find its id in the turn.
        corrected: list[AnyMessage] = []
        if name == "evaluate_quality":
            yield from copy_stored(state, scope)
            scope = yield from _with_run(state, scope)
            corrected = yield from false_claims(state, scope)
            state = with_messages(state, corrected)
        else:
            scope = replace(scope, run_id=state["turn"].get("run_id") or scope.run_id)
        if name not in ("rollback", "create_checkpoint"):
            state = without_stale(state)
        scope = replace(scope, task_id=current_topic_id(state.get("segments", [])) or scope.task_id)
        is_order = state.get("should_rollback") or state.get("notice")
        scope.step_log.summaries_paused = _summaries_paused(state, scope)
        if name == "process_message" and not is_order and not state["turn"]["done"]:
            yield from advance_run(scope, phase="planning")
        try:
            undo_update = yield from _undo_left_behind(name, state, scope)
            update: Update = {**undo_update, **(yield from node({**state, **undo_update}, scope))}
            # Inside the `try`, because a question to a person about an undo interrupts the run too.
            yield from schedule_compensations(state, scope, update)
        except GraphInterrupt as waiting:
            yield from _pause(scope, waiting)
            raise
        except GraphBubbleUp:
            raise
        except Exception as error:
            # Any error that ends the turn is stored with its run, then raised.
            yield from end_run(scope, "failed", f"{type(error).__name__}: {error}")
            raise
        if name == "evaluate_quality":
            scope, update = yield from _open(state, scope, update)
            update.update(at_home(state, scope))
        update = _with_side_calls(state, scope, update)
        # First the events: no completed run may lack its answer in the event log.
        update = yield from write_ahead(state, scope, update)
        update = preceded_by(corrected, update)
        if name in ("process_message", "create_checkpoint") and _is_over(state, update):
            yield from end_run(scope, "completed")
        return update

    return around


def _undo_left_behind(name: str, state: State, scope: Scope) -> Steps[Update]:
    """Schedule the undo of calls that a host left behind, and return the update about them.

    Before the node, since a model may repeat such a call; but not before an order is carried out,
    which may bring the call back.
    """
    if name == "evaluate_quality" or state.get("should_rollback"):
        return Update()
    undo_update = yield from note_left_behind(state, scope)
    yield from schedule_compensations(state, scope, undo_update)
    return undo_update


def _summaries_paused(state: State, scope: Scope) -> bool:
    """Return whether a summary failed in this turn or in the `PAUSE_TURNS` before it."""
    failed, turn = state.get("summary_failed_turn"), state.get("turn")
    if failed is None or turn is None:
        return False
    # A rollback gives turns their earlier numbers again, so the distance counts in both directions.
    return abs(turn["number"] - failed) <= PAUSE_TURNS


def _with_side_calls(state: State, scope: Scope, update: Update) -> Update:
    """Return the update with the tokens of the step's calls, the turn of a failed summary, and a new salt."""
    if scope.step_log.summary_failed:
        update = {**update, "summary_failed_turn": (update.get("turn") or state["turn"])["number"]}
    if scope.step_log.spent:
        update = {**update, "spent": merged(state.get("spent", {}), scope.step_log.spent)}
    if stored_salt(scope.config) is None:
        update = {**update, "salt": scope.salt}  # type: ignore[typeddict-unknown-key]
    return update


def _is_over(before: State, update: Update) -> bool:
    """Return whether the turn, and with it the run, is over after an update.

    It is not over while a rollback, a checkpoint or a call to undo waits. After a command beside an
    open turn the result is `False`, too.
    """
    if is_beside_turn(before):
        return False
    state: State = {**before, **update}
    waits = state["turn"]["checkpoints_due"] or state.get("pending_compensations")
    return not state.get("should_rollback") and not waits


def _with_run(state: State, scope: Scope) -> Steps[Scope]:
    """Return the scope with the id of the question's run; a run that a crash stopped is resumed.

    The scope is returned unchanged without a store, without a question, if the host named the run,
    and if the run is completed. Raises `SessionEndedError` if the thread was ended,
    `DatabaseCorruptError` if the stored run is damaged.
    """
    if scope.address is None:
        return scope
    store, thread_id = scope.address
    question = find_pending(state.get("messages", []), state.get("turn")).question
    if scope.named or question is None:
        refuse_ended((yield from find_session(store, thread_id)))
        return scope
    run_id = run_named_after(thread_id, question.id)
    # One call for both: a store may be on another machine.
    keys = [(THREADS, thread_id), (runs_namespace(thread_id), run_id)]
    reads = [GetOp(namespace=namespace, key=key) for namespace, key in keys]
    try:
        results = yield from Call.of(store.batch, store.abatch, reads)
        entry, item = cast("list[Item | None]", results)
        session = entry_of(entry) if entry else None
    except DatabaseCorruptError:  # read apart: a run goes on without the thread's entry
        session = yield from find_session(store, thread_id)
        item = yield from get_item(store, runs_namespace(thread_id), run_id)
    refuse_ended(session)
    stored_run = checked_run(item, thread_id, run_id)
    if stored_run is not None and stored_run.status == "completed":
        return scope
    if stored_run is not None and stored_run.status == "running":
        yield from put_run(store, resume(stored_run, now=scope.now()))
    return replace(scope, run_id=run_id)


def _end_dead(state: State, scope: Scope) -> Steps[None]:
    """Cancel the open runs of earlier questions: another message came after a crash or a pause.

    Raises `DatabaseCorruptError` if one of these runs is damaged in the store.
    """
    messages, turn = state.get("messages", []), state.get("turn")
    waiting = messages[find_pending(messages, turn).start :]
    names = [run_named_after(scope.thread_id, each.id) for each in waiting if is_question(each)]
    if turn is not None and not turn["done"]:
        names.append(turn.get("run_id") or "")
    for name in dict.fromkeys(names):
        if name != scope.run_id:
            reason = "another message came before it ended"
            yield from give_up_run(replace(scope, run_id=name), reason)


def give_up_run(scope: Scope, why: str) -> Steps[None]:
    """Cancel a run that is running or paused, with the reason `why`.

    Any other or missing run is left as it is. Raises `DatabaseCorruptError` if the run is damaged.
    """

    def change(run: Run, now: str) -> Run:
        at_work = run.status in ("running", "paused")
        return advance(run, now=now, status="canceled", error=why) if at_work else run

    yield from _change(scope, change)


def _open(state: State, scope: Scope, update: Update) -> Steps[tuple[Scope, Update]]:
    """Open the run, end those of earlier questions, and return the scope and update with its id.

    If another turn has the same run id, the id of this turn is added to it. A command that opens no
    turn has no run: then both are returned as they are. Raises `SessionEndedError` if the thread was
    ended, `DatabaseCorruptError` if a stored run is damaged.
    """
    if "turn" not in update:  # A command that changes nothing opens no turn, and has no run.
        return scope, update
    turn, run_id, parent = update["turn"], scope.run_id, scope.parent_run_id
    if scope.address is not None and run_id is not None:
        run_opener = partial(
            open_run,
            *scope.address,
            now=scope.now(),
            turn_id=turn["question_id"],
            labels=scope.labels,
        )
        try:
            yield from run_opener(run_id, parent_run_id=None if parent == run_id else parent)
        except RunConflictError:
            run_id = f"{run_id}-{turn['question_id'] or turn['number']}"
            yield from run_opener(run_id, parent_run_id=None if parent == run_id else parent)
        scope = replace(scope, run_id=run_id)
        update = {**update, "turn": {**turn, "run_id": run_id}}
    yield from _end_dead(state, scope)
    return scope, update


def advance_run(scope: Scope, *, phase: RunPhase) -> Steps[None]:
    """Change the phase of a run and stream the new phase; a stopped run is running again.

    A completed or missing run is left as it is; the phase is streamed all the same. Raises
    `DatabaseCorruptError` if the stored run is damaged.
    """
    scope.emit("phase", phase=phase)
    yield from _change(scope, lambda run, now: advance(_going(run, now), now=now, phase=phase))


def end_run(scope: Scope, status: RunStatus, error: str | None = None) -> Steps[None]:
    """Set the final status of a run, with the reason `error` for `failed` or `canceled`.

    A completed or missing run is left as it is. Raises `DatabaseCorruptError` if the run is damaged.
    """
    reason = None if error is None else error[:ERROR_CHARS]
    yield from _change(
        scope, lambda run, now: advance(_going(run, now), now=now, status=status, error=reason)
    )


def resume_run(scope: Scope) -> Steps[None]:
    """Continue a run that a crash or an error stopped, as another attempt.

    A completed or missing run is left as it is. Raises `DatabaseCorruptError` if the run is damaged.
    """
    yield from _change(scope, lambda run, now: resume(run, now=now))


def canceled(state: State, scope: Scope) -> Steps[None]:
    """Store the waiting questions, and cancel the run whose task a host cancelled.

    Raises `InputError` if a question cannot be stored, `DatabaseCorruptError` for a damaged run.
    """
    turn = state.get("turn")
    if turn and not turn["done"]:
        scope = replace(scope, run_id=turn.get("run_id") or scope.run_id)
    yield from keep_stopped(state, scope)
    yield from end_run(scope, "canceled", "the host stopped it")


def _going(run: Run, now: str) -> Run:
    return run if run.status == "running" else advance(run, now=now, status="running")


def _pause(scope: Scope, waiting: GraphInterrupt) -> Steps[None]:
    """Store that the run waits for a person; a repeated interrupt changes nothing.

    A completed or missing run is left as it is. Raises `DatabaseCorruptError` if the run is damaged.
    """
    interrupts = waiting.args[0] if waiting.args else ()
    if not interrupts:
        return
    name = str(interrupts[0].id)
    body = {"requests": [_json(each.value) for each in interrupts]}

    def change(run: Run, now: str) -> Run:
        old = run.suspension
        same = old is not None and (old.suspension_id, plain(old.body)) == (name, plain(body))
        return run if same else suspend(_going(run, now), name, body, now=now)

    yield from _change(scope, change)


def _json(value: Any) -> Any:
    try:
        plain({"value": value})
    except Exception:  # noqa: BLE001 - an agent inside may wait with a value that is not JSON
        return repr(value)
    return value


def _change(scope: Scope, change: Callable[[Run, str], Run]) -> Steps[None]:
    """Store a changed run; a completed or missing run is left as it is.

    Raises `DatabaseCorruptError` if the stored run is damaged.
    """
    if scope.address is None or not scope.run_id:
        return
    run = yield from find_run(*scope.address, scope.run_id)
    if run is None or run.status == "completed":
        return
    new_run = change(run, scope.now())
    if new_run != run:
        yield from put_run(scope.address[0], new_run)
