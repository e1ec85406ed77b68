"""What every node keeps beside its work: the run's line, and the ledger's page."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from langgraph.errors import GraphBubbleUp, GraphInterrupt

from unsay.context.topics import current_topic_id
from unsay.effects import Steps
from unsay.errors import RunConflictError
from unsay.history.run import Run, advance, plain, resume, run_named_after, suspend
from unsay.history.runs import find_run, open_run, put_run
from unsay.history.threads import find_session, refuse_ended
from unsay.messages.annotations import is_question
from unsay.operations.compensation_plan import book
from unsay.operations.pending import read_entry
from unsay.operations.record_events import write_ahead
from unsay.runtime import Scope
from unsay.state import State, Update
from unsay.tokens.pricing import merged
from unsay.types import RunPhase, RunStatus, Turn

Node = Callable[[State, Scope], Steps[Update]]


ERROR_CHARS = 500
"""How much of an error a run's line holds."""


SET_ASIDE = "another message was said before it ended"


TAKEN_BACK = "its turn was taken back before it ended"


DIED = "its process ended, and a command is not obeyed later"
"""Why a run that nobody stopped was given up."""


def kept(name: str, node: Node) -> Node:
    """A node whose run can be found, and whose doings can be replayed.

    Args:
        name: Of the node; `evaluate_quality` opens the run.
        node: Does the work.

    Raises:
        SessionEndedError: The thread was ended; raised before any work.
    """

    def around(state: State, scope: Scope) -> Steps[Update]:
        if name == "evaluate_quality":
            yield from _refuse_ended(scope)
            scope = yield from _named(state, scope)
        else:
            scope = replace(scope, run_id=state["turn"].get("run_id") or scope.run_id)
        scope = replace(scope, task_id=current_topic_id(state.get("segments", [])) or scope.task_id)
        if name == "process_message" and _is_to_answer(state):
            yield from advance_run(scope, phase="planning")
        try:
            update = yield from node(state, scope)
            yield from book(state, scope, update)
        except GraphInterrupt as waiting:
            yield from _pause(scope, waiting)
            raise
        except GraphBubbleUp:
            raise
        except Exception as error:  # whatever ends the turn is noted with its run, and raised on
            yield from end_run(scope, "failed", f"{type(error).__name__}: {error}")
            raise
        if name == "evaluate_quality":
            scope, update = yield from _open(scope, update)
            yield from _end_dead(state, scope)
        if scope.journal.spent:
            update["spent"] = merged(state.get("spent", {}), scope.journal.spent)
        update = yield from write_ahead(state, scope, update)
        if name in ("process_message", "create_checkpoint") and _is_over({**state, **update}):
            yield from end_run(scope, "completed")
        return update

    return around


def _is_to_answer(state: State) -> bool:
    return not (state.get("should_rollback") or state.get("notice") or state["turn"]["done"])


def _is_over(state: State) -> bool:
    waits = state["turn"]["checkpoints_due"] or state.get("owed")
    return not state.get("should_rollback") and not waits


def _refuse_ended(scope: Scope) -> Steps[None]:
    if scope.store is not None and scope.thread_id is not None:
        refuse_ended((yield from find_session(scope.store, scope.thread_id)))


def _named(state: State, scope: Scope) -> Steps[Scope]:
    """The scope with the question's run: a process that goes on where one died makes no other."""
    question = read_entry(state.get("messages", []), state.get("turn")).question
    if scope.named or question is None or scope.store is None or scope.thread_id is None:
        return scope
    run_id = run_named_after(scope.thread_id, question.id)
    known = yield from find_run(scope.store, scope.thread_id, run_id)
    if known is not None and known.status == "completed":
        return scope
    if known is not None and known.status == "running":
        yield put_run(scope.store, resume(known, now=scope.now()))
    return replace(scope, run_id=run_id)


def _end_dead(state: State, scope: Scope) -> Steps[None]:
    """Note that runs whose process died, or that waited, will not go on: another message came."""
    messages, turn = state.get("messages", []), state.get("turn")
    waiting = messages[read_entry(messages, turn).start :]
    names = [run_named_after(scope.thread_id, each.id) for each in waiting if is_question(each)]
    if turn is not None and not turn["done"]:
        names.append(turn.get("run_id") or "")
    for name in dict.fromkeys(names):
        if name != scope.run_id:
            yield from give_up_run(replace(scope, run_id=name), SET_ASIDE)


def give_up_run(scope: Scope, why: str) -> Steps[None]:
    """Note that a run which is at work, or waits, will not go on."""

    def change(run: Run, now: str) -> Run:
        at_work = run.status in ("running", "paused")
        return advance(run, now=now, status="canceled", error=why) if at_work else run

    yield from _change(scope, change)


def _open(scope: Scope, update: Update) -> Steps[tuple[Scope, Update]]:
    """Open the run's line; a name that another turn's run has gets the turn added."""
    turn = update["turn"]
    if scope.store is None or scope.thread_id is None or scope.run_id is None:
        return scope, update
    try:
        yield from _opened(scope, turn, scope.run_id)
    except RunConflictError:
        scope = replace(scope, run_id=f"{scope.run_id}-{turn['question_id'] or turn['number']}")
        yield from _opened(scope, turn, scope.run_id or "")
    return scope, {**update, "turn": {**turn, "run_id": scope.run_id or ""}}


def _opened(scope: Scope, turn: Turn, run_id: str) -> Steps[Run]:
    assert scope.store is not None and scope.thread_id is not None  # noqa: S101, PT018 - just seen
    return (
        yield from open_run(
            scope.store,
            scope.thread_id,
            run_id,
            now=scope.now(),
            turn_id=turn["question_id"],
            parent_run_id=scope.parent_run_id if scope.parent_run_id != run_id else None,
            labels=scope.labels,
        )
    )


def advance_run(scope: Scope, *, phase: RunPhase) -> Steps[None]:
    """Note what the run is at; one that had stopped goes on."""
    scope.tell("phase", phase=phase)
    yield from _change(scope, lambda run, now: advance(_going(run, now), now=now, phase=phase))


def end_run(scope: Scope, status: RunStatus, error: str | None = None) -> Steps[None]:
    """Note how the run ended."""
    why = None if error is None else error[:ERROR_CHARS]
    yield from _change(
        scope, lambda run, now: advance(_going(run, now), now=now, status=status, error=why)
    )


def resume_run(scope: Scope) -> Steps[None]:
    """Note that a run which a crash or an error stopped sets out again."""
    yield from _change(scope, lambda run, now: resume(run, now=now))


def canceled(state: State, scope: Scope) -> Steps[None]:
    """Note that the host stopped a step of the run."""
    turn = state.get("turn")
    name = turn.get("run_id") if turn and not turn["done"] else None
    yield from end_run(
        replace(scope, run_id=name or scope.run_id), "canceled", "the host stopped it"
    )


def _going(run: Run, now: str) -> Run:
    return run if run.status == "running" else advance(run, now=now, status="running")


def _pause(scope: Scope, waiting: GraphInterrupt) -> Steps[None]:
    """Note what the run waits for."""
    interrupts = waiting.args[0] if waiting.args else ()
    if not interrupts:
        return
    name = str(interrupts[0].id)
    body = {"requests": [_json(each.value) for each in interrupts]}

    def change(run: Run, now: str) -> Run:
        waits = run.suspension
        same = waits is not None and (waits.suspension_id, plain(waits.body)) == (name, plain(body))
        return run if same else suspend(_going(run, now), name, body, now=now)

    yield from _change(scope, change)


def _json(value: Any) -> Any:
    """The request as JSON; an agent inside may wait with anything."""
    try:
        plain({"value": value})
    except Exception:  # noqa: BLE001 - whatever cannot be written is shown as it prints
        return repr(value)
    return value


def _change(scope: Scope, change: Callable[[Run, str], Run]) -> Steps[None]:
    """Change the run's line where one is kept; a run that completed stays so."""
    if scope.store is None or scope.thread_id is None or not scope.run_id:
        return
    run = yield from find_run(scope.store, scope.thread_id, scope.run_id)
    if run is None or run.status == "completed":
        return
    changed = change(run, scope.now())
    if changed != run:
        yield put_run(scope.store, changed)
