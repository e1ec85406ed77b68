"""process_message: build the context, ask the model, judge its draft, deliver or reject it."""

from langchain_core.messages import AIMessage, AnyMessage

from unsay.context.view import Hints, counted, due
from unsay.effects import Steps, off_loop
from unsay.errors import BudgetDeclinedError, EmptyAnswerError, ModelReplyError
from unsay.events.event_types import split_message
from unsay.generation.attempt import REWRITTEN, confirm_blame, judge_draft, make_draft, rewritten_in
from unsay.generation.context_builder import AttemptContext, attempt_context, keep_failed_request
from unsay.generation.draft import at_end
from unsay.generation.judge import label_topic
from unsay.generation.relevance import nothing_relevant
from unsay.history.compensations import Report, put_draft
from unsay.history.unsaved_answers import UnsavedAttempt
from unsay.memory.lessons import applying
from unsay.memory.offload import load_opened
from unsay.memory.recall import recall_for_turn
from unsay.messages.annotations import notice, with_verdict, without
from unsay.messages.content import text_of
from unsay.moves.compensate import (
    not_undone,
    report_text,
    run_compensations,
    schedule_draft_compensations,
)
from unsay.moves.reconcile import preceded_by, with_messages
from unsay.protocols import Verdict
from unsay.runtime import Scope
from unsay.state import Refusal, RollbackRequest, State, Update, with_update
from unsay.transcript.automatic import reasons_of, rejected_messages
from unsay.transcript.pending import is_beside_turn, with_hand_offs, with_waiting
from unsay.transcript.record import add_note, log_checkpoints
from unsay.turn import delivery
from unsay.types import Rejection, Turn


def process_message(state: State, scope: Scope) -> Steps[Update]:
    """Undo the tool calls of removed messages, then answer the pending question, or give a notice.

    A draft that fails is not delivered: the update requests a rollback, for another attempt or a
    person's decision. With `on_exhausted="deliver"` the best draft is delivered in the end.
    Nothing is generated while a rollback is requested, or when the turn is over. A command or a
    host's order is answered by its notice.

    Raises:
        MissingModelError: There is no model, or its name or key cannot be used.
        ConfigurationError: The model cannot take the tools, its package is missing, or a cost
            budget needs its price.
        ModelError: The model failed, or the best of the failed drafts is empty.
        BudgetExceededError: A call would exceed a budget. If a person is asked first, as
            configured, and declines, the turn ends without an answer instead.
        TranscriptError: The provider would refuse the context, for example an image in it.
        ConflictError: What a rollback of the turn removed cannot be put back.
        DatabaseCorruptError: An item that the turn needs is damaged.
        Exception: The client of the model raised an error that `explain` does not know.
    """
    generates = not (state.get("should_rollback") or state.get("notice") or state["turn"]["done"])
    attempt = (yield from delivery.find_attempt(state, scope)) if generates else None
    # A draft that an earlier run has judged is delivered or rejected again, in the order of attempts.
    is_judged = attempt is not None and attempt.verdict is not None
    unsaved = (
        (yield from delivery.deliver_unsaved(state, scope)) if generates and not is_judged else None
    )
    # Tool calls of removed messages are undone before the model is asked: it may repeat them.
    if generates and unsaved is None:
        yield from schedule_draft_compensations(state, scope)
    report = yield from run_compensations(delivery.without_undone(state, scope), scope)
    delivery.keep_undone(state, scope, report)
    update = unsaved or Update()
    if generates and unsaved is None:
        try:
            update = yield from _answer(state, scope, attempt)
        except (EmptyAnswerError, ModelReplyError):
            yield from delivery.forget_steps(state, scope)
            raise
    elif not generates and state.get("notice"):
        update = _give_notice(state, scope, report)
    due = state.get("notice")
    kind = due.get("refusal") if due else None
    update["refusal"] = Refusal(kind=kind, message=due["text"]) if due and kind else None
    return {"pending_compensations": [], **update} if state.get("pending_compensations") else update


def _answer(state: State, scope: Scope, kept: UnsavedAttempt | None) -> Steps[Update]:
    """Draft and judge an answer, and deliver it; request a rollback if it fails.

    A rollback is also requested if a person declined to exceed a budget: it ends the turn. `kept`
    is what an earlier run made of this attempt and could not save; `None` if it left nothing. The
    errors are those of `process_message`.
    """
    attempt = yield from _begin_attempt(state, scope)
    try:
        draft, carried = yield from make_draft(attempt, kept)
    except BudgetDeclinedError as declined:
        names = ", ".join(declined.settings)
        request = RollbackRequest(kind="decline", to=None, reason=names)
        return Update(rollback_request=request, should_rollback=True)
    rewritten, original_draft, original_state = rewritten_in(draft, state), draft, state
    if rewritten:
        draft = [*draft[:-1], without(draft[-1], REWRITTEN)]
        state = with_messages(state, rewritten)
        attempt = attempt.with_state(state)
        scope.step_log.new_events += [e for each in rewritten for e in split_message(each)]
    verdict = kept.verdict if kept else None
    if verdict is None:
        verdict = yield from judge_draft(attempt, draft)
        delivery.keep_attempt(original_state, scope, original_draft, carried, verdict)
        if verdict.outcome == "failed":
            yield from keep_failed_request(
                state, scope, attempt.recorder, verdict, answer=text_of(draft[-1])
            )
            # After a crash the attempts go on with the next one, and no tool of this one runs again.
            if scope.services.tool_loop is not None and scope.address is not None:
                name = delivery.attempt_name(state)
                values = {**carried, "messages": draft}
                yield from put_draft(*scope.address, name, values, verdict=verdict)
    scope.step_log.calls.update(delivery.undone_calls(state, scope))
    labelled = yield from label_topic(state, scope, verdict)
    state = with_update(state, labelled)
    if verdict.outcome == "failed":
        update = yield from _reject(state, scope, draft, verdict)
    else:
        update = yield from delivery.deliver(state, scope, draft, verdict, flag=None)
        carried["compaction"] = yield from at_end(attempt, draft, carried)
    carried_update = Update(compaction=carried["compaction"], calibration=carried["calibration"])
    reminders, before = scope.services.reminders, state.get("reminders", {})
    number, run_id = state["turn"]["number"], state["turn"]["run_id"]
    if counts := counted(reminders, before, attempt.reminders, turn=number, run_id=run_id):
        carried_update["reminders"] = counts
    return preceded_by(rewritten, {**labelled, **update, **carried_update})


def _begin_attempt(state: State, scope: Scope) -> Steps[AttemptContext]:
    """Return what one attempt needs: its context, its model, reminders, hints, and recall.

    Raises `MissingModelError` without a model, `ConfigurationError` if the model cannot take the
    tools. If recall fails, the attempt has none.
    """
    turn = state["turn"]
    report = yield from not_undone(rejected_messages(turn), scope)
    model = yield from off_loop(lambda: scope.services.answerer)
    earlier = yield from load_opened(state, scope)
    counts = state.get("reminders", {})
    reminders = due(scope.services.reminders, counts, turn=turn["number"], run_id=turn["run_id"])
    hints, pending = _hints(state, scope, report), turn["pending"]
    source = yield from recall_for_turn(state, scope)
    return (
        yield from attempt_context(
            state, scope, model, earlier, hints, reminders, pending=pending, recall_source=source
        )
    )


def _hints(state: State, scope: Scope, report: Report) -> Hints:
    """Return hints for the model: why attempts failed, and which effects of tools remain."""
    turn, effects = state["turn"], report_text(report, scope.texts(state["messages"]))
    reasons = [" ".join(reasons_of(rejection)) for rejection in turn["rejections"]]
    return Hints(
        attempt=len(turn["rejections"]) + 1,
        rejections=(*reasons, *([effects] if effects else [])),
        context_reason=turn["context_reason"],
        guidance=turn["guidance"],
        earlier_answers=tuple(turn.get("earlier_answers", ())),
        found_nothing=nothing_relevant(state),
        lessons=tuple(applying(state, scope)),
    )


def _reject(state: State, scope: Scope, draft: list[AnyMessage], verdict: Verdict) -> Steps[Update]:
    """Reject a draft by its verdict: request another attempt, or after the last one end the turn.

    With `on_exhausted="deliver"` the turn ends with the best draft; raises what `deliver_best`
    raises, such as `EmptyAnswerError`. Otherwise the update makes the node `rollback` ask a person.
    """
    turn, topic = state["turn"], state.get("current_topic", "")
    stamped = with_verdict(draft[-1], verdict, turn=turn["number"], topic=topic)
    rejection = Rejection(
        messages=[*draft[:-1], stamped],
        score=verdict.score,
        reason=verdict.reason,
        source=verdict.source,
        advice=verdict.advice,
    )
    rejected: Turn = {**turn, "rejections": [*turn["rejections"], rejection]}
    attempt = len(rejected["rejections"])
    details = {"score": verdict.score, "reason": verdict.reason}
    scope.emit("draft_rejected", message_id=draft[-1].id, attempt=attempt, **details)
    history = add_note(state, scope, "process_message", "draft_rejected", verdict.score)
    after: State = {**state, "turn": rejected, "state_history": history}
    if attempt > scope.settings.max_rollbacks + turn["extra_attempts"]:
        if scope.settings.on_exhausted == "deliver":
            return (yield from delivery.deliver_best(after, scope))
        request = RollbackRequest(kind="ask", to=None, reason=verdict.reason)
    else:
        ids = yield from confirm_blame(state, scope, verdict)
        request = RollbackRequest(kind="draft", to=None, reason=verdict.reason, ids=ids)
    return Update(
        turn=rejected,
        rollback_request=request,
        should_rollback=True,
        quality_score=verdict.score,
        state_history=history,
    )


def _give_notice(state: State, scope: Scope, report: Report) -> Update:
    """Answer the turn's input with the notice that is due in the state, and end the turn.

    The input is a command, a host's order, or a question that is refused or gets no answer. The
    text also says what was undone (`report`). If a command is answered while the turn's question
    still waits, the turn stays open.
    """
    turn, due_notice, messages = state["turn"], state["notice"], state["messages"]
    assert due_notice is not None  # noqa: S101 - the caller has just seen it
    # The question may be gone, and the notice is in its language.
    texts = scope.texts([*messages, AIMessage(due_notice["text"])])
    answers = due_notice["answers"]
    text = texts.sentences([due_notice["text"], report_text(report, texts)])
    if commands := with_hand_offs(messages, answers):
        answers = commands
        text = with_waiting(text, state, texts)
    # The id follows from the turn: a step that runs again after a crash replaces its own notice.
    last = messages[-1].id if messages else ""
    # The newest command: beside a waiting question earlier ones have their notices already.
    name = commands[-1] if commands else turn["question_id"] or last
    message = notice(text, f"notice-{name}-{turn['number']}", answers)
    scope.emit("notice", text=text, message_id=message.id)
    if is_beside_turn(state):
        return Update(messages=[message], notice=None)
    log_checkpoints(state, scope, turn["checkpoints_due"])
    return Update(messages=[message], notice=None, turn={**turn, "done": True})
