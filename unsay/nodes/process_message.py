"""process_message: plan the view, ask the model, judge what it drafted."""

from dataclasses import asdict

from langchain_core.messages import AnyMessage
from langgraph.errors import GraphBubbleUp

from unsay.context.manifest import with_manifest
from unsay.context.reminders import counted, due
from unsay.context.view import Hints
from unsay.effects import Steps
from unsay.errors import BudgetDeclinedError, BudgetExceededError
from unsay.generation.context_builder import AttemptContext, CallCarryover, attempt_context
from unsay.generation.draft import ask, at_end, fresh, messages_of
from unsay.generation.failed_calls import keep_failed_request
from unsay.generation.judge import exchange_of, judge_exchange
from unsay.generation.tool_loop import ATTEMPT_KEY, carried_of
from unsay.history.compensations import Report
from unsay.llm.provider_errors import explain
from unsay.messages.annotations import notice, with_verdict
from unsay.messages.content import text_of
from unsay.operations.compensate import (
    not_undone,
    report_text,
    run_compensations,
    schedule_draft_compensations,
)
from unsay.operations.delivery import deliver, deliver_best
from unsay.operations.offload import load_opened
from unsay.operations.recall import recall_for_turn
from unsay.operations.record_events import log_checkpoints
from unsay.operations.rollback import note
from unsay.runtime import Scope
from unsay.state import RollbackRequest, State, Update
from unsay.types import Rejection, Turn, Verdict


def process_message(state: State, scope: Scope) -> Steps[Update]:
    """Answer the pending question; nothing is generated when a rollback is due.

    What tools did that was taken off the record is taken back first.
    """
    turn = state["turn"]
    answers = not (state.get("should_rollback") or state.get("notice") or turn["done"])
    if answers:
        yield from schedule_draft_compensations(state, scope)
    report = yield from run_compensations(state, scope)
    update = Update()
    if answers:
        update = yield from _answer(state, scope)
    elif state.get("notice") and not state.get("should_rollback"):
        update = _give_notice(state, scope, report)
    return {"pending_compensations": [], **update} if state.get("pending_compensations") else update


def _answer(state: State, scope: Scope) -> Steps[Update]:
    turn = state["turn"]
    rejected = [message for each in turn["rejections"] for message in each["messages"]]
    left = yield from not_undone(rejected, scope)
    model = yield scope.resolve("answerer")
    earlier = yield from load_opened(state, scope)
    reminders, shown_before = scope.services.reminders, state.get("reminders", {})
    number, run_id = turn["number"], turn["run_id"]
    shown = due(reminders, shown_before, turn=number, run_id=run_id)
    hints, pending = _hints(state, scope, left), turn["pending"]
    found = yield from recall_for_turn(state, scope)
    attempt = yield from attempt_context(
        state, scope, model, earlier, hints, shown, pending=pending, recall_source=found
    )
    try:
        draft, carried = yield from _draft(attempt)
    except BudgetDeclinedError as declined:
        move = RollbackRequest(kind="decline", to=None, reason=str(declined))
        return Update(rollback_request=move, should_rollback=True)
    question = next(m for m in state["messages"] if m.id == turn["question_id"])
    before = [m for m in attempt.start.messages if m.id not in pending]
    exchange = exchange_of(question, draft[-1], before)
    key = f"{turn['question_id']}-{hints.attempt}"
    verdict = yield from judge_exchange(exchange, draft[-1], scope, key=key)
    scope.tell("verdict", of="draft", message_id=draft[-1].id, **asdict(verdict))
    if verdict.outcome == "failed":
        yield from keep_failed_request(
            state, scope, attempt.witness, verdict, answer=text_of(draft[-1])
        )
        update = yield from _take_back(state, scope, draft, verdict)
    else:
        update = yield from deliver(state, scope, draft, verdict, flag=None)
        carried["compaction"] = yield from at_end(attempt, draft, carried)
    learned = Update(compaction=carried["compaction"], calibration=carried["calibration"])
    if counts := counted(reminders, shown_before, shown, turn=number, run_id=run_id):
        learned["reminders"] = counts
    return {**update, **learned}


def _give_notice(state: State, scope: Scope, report: Report) -> Update:
    turn, due = state["turn"], state["notice"]
    assert due is not None  # noqa: S101 - the caller has just seen it
    last = state["messages"][-1].id if state["messages"] else ""
    text = f"{due['text']} {report_text(report, scope.texts(state['messages']))}".strip()
    said = notice(text, f"notice-{turn['question_id'] or last}-{turn['number']}", due["answers"])
    scope.tell("notice", text=text, message_id=said.id)
    log_checkpoints(state, scope, turn["checkpoints_due"])
    return Update(messages=[said], notice=None, turn={**turn, "done": True})


def _hints(state: State, scope: Scope, left: Report) -> Hints:
    turn, stays = state["turn"], report_text(left, scope.texts(state["messages"]))
    reasons = [each["reason"] for each in turn["rejections"]]
    return Hints(
        attempt=len(turn["rejections"]) + 1,
        rejections=(*reasons, *([stays] if stays else [])),
        context_reason=turn["context_reason"],
        guidance=turn["guidance"],
    )


def _draft(attempt: AttemptContext) -> Steps[tuple[list[AnyMessage], CallCarryover]]:
    """One draft: the messages of its tool steps, then the final words; and what they leave."""
    state, scope, witness = attempt.state, attempt.scope, attempt.witness
    loop, notes = scope.services.tool_loop, {}
    before = CallCarryover(compaction=attempt.start.compaction)
    if "calibration" in state:
        before["calibration"] = state["calibration"]
    try:
        if loop is None:
            reply, carried = yield from ask(attempt, [], before)
            draft = messages_of(reply, {message.id for message in witness.view})
        else:
            begun = {"messages": [], **before}
            more = {ATTEMPT_KEY: attempt}
            quiet = scope.settings.stream == "held"
            reply = yield scope.ask(loop, begun, quiet=quiet, configurable=more)
            carried, notes = carried_of(reply), reply.get("manifests", {})
            draft = messages_of(reply, ())
    except (GraphBubbleUp, BudgetExceededError):
        raise
    except Exception as error:  # any client may raise anything; an unknown error is raised as it is
        yield from keep_failed_request(state, scope, witness, error)
        explained = explain(error)
        if explained is None or explained is error:
            raise
        raise explained from error
    said = [
        with_manifest(each, notes[each.id]) if each.id in notes else each
        for each in fresh(draft, state)
    ]
    if not notes:
        said[-1] = with_manifest(said[-1], carried["manifest"])
    return said, carried


def _take_back(
    state: State, scope: Scope, draft: list[AnyMessage], verdict: Verdict
) -> Steps[Update]:
    """Reject a draft: another attempt, or the turn's end when there were enough."""
    turn, topic = state["turn"], state.get("current_topic", "")
    stamped = with_verdict(draft[-1], verdict, turn=turn["number"], topic=topic)
    rejection = Rejection(
        messages=[*draft[:-1], stamped],
        score=verdict.score,
        reason=verdict.reason,
        source=verdict.source,
    )
    rejected: Turn = {**turn, "rejections": [*turn["rejections"], rejection]}
    attempt = len(rejected["rejections"])
    scope.tell(
        "draft_rejected",
        message_id=draft[-1].id,
        attempt=attempt,
        score=verdict.score,
        reason=verdict.reason,
    )
    history = note(state, scope, "process_message", "draft_rejected", verdict.score)
    after: State = {**state, "turn": rejected, "state_history": history}
    if attempt > scope.settings.max_rollbacks + turn["extra_attempts"]:
        if scope.settings.on_exhausted == "deliver":
            return (yield from deliver_best(after, scope))
        move = RollbackRequest(kind="ask", to=None, reason=verdict.reason)
    else:
        move = RollbackRequest(kind="draft", to=None, reason=verdict.reason)
    return Update(
        turn=rejected,
        rollback_request=move,
        should_rollback=True,
        quality_score=verdict.score,
        state_history=history,
    )
