"""process_message: plan the view, ask the model, judge what it drafted."""

from collections.abc import Sequence
from dataclasses import asdict

from langchain_core.messages import AnyMessage

from unsay.context.view import Hints, View, plan_view
from unsay.effects import Steps
from unsay.errors import EmptyAnswerError
from unsay.history.checkpoints import make_checkpoint
from unsay.history.line import Label, take_back
from unsay.nodes.faults import explain
from unsay.nodes.judge import exchange_of, judge_exchange
from unsay.nodes.moves import OPERATIONS, keep_cut, line_of, note, settle, without_retries
from unsay.nodes.replies import messages_of, with_fresh_ids
from unsay.nodes.tool_loop import ATTEMPT_KEY, Attempt
from unsay.services import Scope
from unsay.state import Move, State, Update
from unsay.transcript.marks import notice, with_mark, with_verdict
from unsay.transcript.text import has_other_content, text_of
from unsay.types import Checkpoint, CutRef, Operation, Rejection, Turn, Verdict


def process_message(state: State, scope: Scope) -> Steps[Update]:
    """Answer the pending question; nothing is generated when a rollback is due."""
    turn = state["turn"]
    if state.get("should_rollback"):
        return Update()
    if state.get("notice"):
        return _give_notice(state, scope)
    if turn["done"]:
        return Update()
    view = _plan(state, scope)
    draft = yield from _draft(state, scope, view)
    question = next(m for m in state["messages"] if m.id == turn["question_id"])
    before = [m for m in state["messages"] if m.id not in turn["pending"]]
    verdict = yield from judge_exchange(exchange_of(question, draft[-1], before), draft[-1], scope)
    scope.tell("verdict", of="draft", message_id=draft[-1].id, **asdict(verdict))
    if verdict.outcome == "failed":
        return (yield from _take_back(state, scope, draft, verdict))
    return _deliver(state, scope, draft, verdict, flag=None)


def _give_notice(state: State, scope: Scope) -> Update:
    turn, due = state["turn"], state["notice"]
    assert due is not None  # noqa: S101 - the caller has just seen it
    last = state["messages"][-1].id if state["messages"] else ""
    said = notice(
        due["text"], f"notice-{turn['question_id'] or last}-{turn['number']}", due["answers"]
    )
    scope.tell("notice", text=due["text"], message_id=said.id)
    return Update(messages=[said], notice=None, turn={**turn, "done": True})


def _plan(state: State, scope: Scope) -> View:
    turn = state["turn"]
    hints = Hints(
        attempt=len(turn["rejections"]) + 1,
        rejections=tuple(each["reason"] for each in turn["rejections"]),
        context_reason=turn["context_reason"],
        guidance=turn["guidance"],
    )
    return plan_view(
        state["messages"],
        state.get("segments", []),
        state.get("topics", []),
        system_prompt=scope.settings.system_prompt,
        texts=scope.texts(state["messages"]),
        hints=hints,
    )


def _draft(state: State, scope: Scope, view: View) -> Steps[list[AnyMessage]]:
    """One draft: the messages of its tool steps, then the final words.

    Raises:
        ModelError: The model failed, in one of the ways that have a name.
    """
    quiet = scope.settings.stream == "held"
    loop = scope.services.tool_loop
    try:
        if loop is not None:
            attempt = {ATTEMPT_KEY: Attempt(view=view, scope=scope, quiet=quiet)}
            reply = yield scope.ask(loop, {"messages": []}, quiet=quiet, configurable=attempt)
        else:
            model = yield scope.resolve("answerer")
            sent = list(view.messages)
            value = {"messages": sent} if scope.services.is_graph else sent
            reply = yield scope.ask(model, value, quiet=quiet)
    except Exception as error:  # any client may raise anything; what has no name goes on as it is
        explained = explain(error)
        if explained is None or explained is error:
            raise
        raise explained from error
    turn = state["turn"]
    known = {message.id for message in state["messages"]}
    stem = f"{turn['question_id']}-{len(turn['rejections']) + 1}"
    return with_fresh_ids(messages_of(reply, known), known, stem)


def _take_back(
    state: State, scope: Scope, draft: list[AnyMessage], verdict: Verdict
) -> Steps[Update]:
    """Reject a draft: another attempt, or the turn's end when there were enough."""
    turn = state["turn"]
    rejection = Rejection(
        messages=draft, score=verdict.score, reason=verdict.reason, source=verdict.source
    )
    rejected: Turn = {**turn, "rejections": [*turn["rejections"], rejection]}
    attempt = len(rejected["rejections"])
    scope.tell(
        "taken_back",
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
        move = Move(kind="ask", to=None, reason=verdict.reason)
    else:
        move = Move(kind="draft", to=None, reason=verdict.reason)
    return Update(
        turn=rejected,
        move=move,
        should_rollback=True,
        quality_score=verdict.score,
        state_history=history,
    )


def deliver_best(state: State, scope: Scope, words: AnyMessage | None = None) -> Steps[Update]:
    """End a turn whose drafts all failed: the best one, flagged, on the record as it began.

    Args:
        state: With the turn's rejections.
        scope: Of the run.
        words: A person's own answer in place of the best draft.

    Raises:
        EmptyAnswerError: Every draft was empty.
        ConflictError: What the turn's rollbacks cut is no longer kept.
    """
    turn = state["turn"]
    best = max(turn["rejections"], key=lambda each: each["score"] or 0.0)
    if words is None and not _has_content(best["messages"][-1]):
        raise EmptyAnswerError(
            f"The model returned nothing in {len(turn['rejections'])} attempts. Say it again, "
            "in other words perhaps, or choose another model"
        )
    restored, update = yield from as_it_began(state, scope)
    others = [each for each in turn["rejections"][-1:] if words is not None or each is not best]
    refs = yield from _keep_rejected(restored, scope, others)
    verdict = Verdict(
        outcome="failed", score=best["score"], reason=best["reason"], source=best["source"]
    )
    draft = [words] if words is not None else best["messages"]
    if words is not None:
        verdict = Verdict(
            outcome="unscored", score=None, reason="a person wrote it", source="person"
        )
    flag = "low_quality" if words is None else "by_person"
    end = _deliver({**restored, "cuts": refs}, scope, draft, verdict, flag=flag)
    return {
        **update,
        **end,
        "messages": [*update.get("messages", []), *end["messages"]],
        "cuts": refs,
    }


def _has_content(message: AnyMessage) -> bool:
    return bool(text_of(message).strip()) or has_other_content(message)


def as_it_began(state: State, scope: Scope) -> Steps[tuple[State, Update]]:
    """The state as the turn began, its question pending, and the update that leads there.

    Raises:
        ConflictError: What the turn's rollbacks cut is no longer kept.
    """
    turn = state["turn"]
    if not turn["draft_cuts"]:
        return state, Update()
    cause = Label(kind="rejected", reason="no attempt passed", created_at=scope.now())
    change = yield from without_retries(state, scope, turn["base"], cause, turn["pending"])
    update = settle(state, change, list(state.get("cuts", [])))
    place = len(change.line.messages) - len(turn["pending"]) - 1
    remaining = [each for each in turn["cuts"] if each not in turn["draft_cuts"]]
    restored: Turn = {**turn, "base": change.line.id_at(place), "cuts": remaining}
    after: State = {**state, **update, "messages": list(change.line.messages), "turn": restored}
    return after, update


def _keep_rejected(state: State, scope: Scope, drafts: Sequence[Rejection]) -> Steps[list[CutRef]]:
    refs = list(state.get("cuts", []))
    for each in drafts:
        cause = Label(
            kind="rejected",
            reason=each["reason"],
            created_at=scope.now(),
            drafts=tuple(each["messages"]),
        )
        end = state["messages"][-1].id
        change = take_back(line_of(state), end, label=cause)
        refs = yield from keep_cut(change, scope, refs)
    return refs


def _deliver(
    state: State, scope: Scope, draft: Sequence[AnyMessage], verdict: Verdict, *, flag: str | None
) -> Update:
    """Put an answer on the record, with its verdict and what it makes a checkpoint of."""
    turn, topic = state["turn"], state.get("current_topic", "")
    answer = with_verdict(
        draft[-1], verdict, turn=turn["number"], topic=topic, rollbacks=turn["rollbacks"]
    )
    if flag is not None:
        answer = with_mark(answer, flag=flag)
    step = Operation(kind="turn", base=turn["base"], cuts=turn["cuts"])
    due = _checkpoints_due(state, scope, answer, verdict)
    return Update(
        messages=[*draft[:-1], answer],
        turn={**turn, "done": True, "rejections": [], "checkpoints_due": due},
        quality_score=verdict.score,
        should_rollback=False,
        move=None,
        operations=[*state.get("operations", []), step][-OPERATIONS:],
        state_history=note(state, scope, "process_message", verdict.outcome, verdict.score),
    )


def _checkpoints_due(
    state: State, scope: Scope, answer: AnyMessage, verdict: Verdict
) -> list[Checkpoint]:
    turn, settings = state["turn"], scope.settings
    due = []
    if turn["new_topic"] and turn["base"] and "task_start" in settings.checkpoint_on:
        due.append(_checkpoint(state, scope, turn["base"], turn["number"] - 1, None))
    good = verdict.outcome == "passed" and (verdict.score or 0.0) >= settings.checkpoint_threshold
    if good and "score" in settings.checkpoint_on:
        due.append(_checkpoint(state, scope, answer.id or "", turn["number"], verdict.score))
    return due


def _checkpoint(
    state: State, scope: Scope, message_id: str, turn: int, score: float | None
) -> Checkpoint:
    return make_checkpoint(
        message_id=message_id,
        turn=turn,
        score=score,
        topic=state.get("current_topic", ""),
        reason="task_start" if score is None else "score",
        created_at=scope.now(),
    )
