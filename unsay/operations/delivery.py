"""Delivery of an answer: a judged draft or the best rejected one enters the transcript."""

from collections.abc import Sequence

from langchain_core.messages import AnyMessage

from unsay.effects import Steps
from unsay.errors import EmptyAnswerError
from unsay.history.branch import Label, take_back
from unsay.messages.annotations import with_mark, with_verdict
from unsay.messages.content import has_other_content, text_of
from unsay.operations.checkpoint_rules import checkpoints_due
from unsay.operations.compensate import stands
from unsay.operations.record_events import log_checkpoints, log_move
from unsay.operations.rollback import keep_cut, line_of, note, settle, with_step, without_retries
from unsay.runtime import Scope
from unsay.state import State, Update
from unsay.types import CutRef, Operation, Turn, Verdict


def deliver(
    state: State, scope: Scope, draft: Sequence[AnyMessage], verdict: Verdict, *, flag: str | None
) -> Steps[Update]:
    """Put an answer on the record, with its verdict and what it makes a checkpoint of."""
    turn, topic = state["turn"], state.get("current_topic", "")
    answer = with_verdict(
        draft[-1], verdict, turn=turn["number"], topic=topic, rollbacks=turn["rollbacks"]
    )
    if flag is not None:
        answer = with_mark(answer, flag=flag)
    step = Operation(kind="turn", base=turn["base"], cuts=turn["cuts"])
    due = yield from checkpoints_due(state, scope, [*draft[:-1], answer], verdict)
    log_checkpoints(state, scope, due)
    shown = Update(asked_for=[]) if state.get("asked_for") else Update()
    return Update(
        **shown,
        messages=[*draft[:-1], answer],
        turn={**turn, "done": True, "rejections": [], "checkpoints_due": due},
        quality_score=verdict.score,
        should_rollback=False,
        move=None,
        state_history=note(state, scope, "process_message", verdict.outcome, verdict.score),
        **with_step(state, step),
    )


def deliver_best(state: State, scope: Scope, words: AnyMessage | None = None) -> Steps[Update]:
    """End a turn whose drafts all failed: deliver the best one, flagged, on the turn's first state.

    A draft whose tool effects were taken back reports what is no longer true: it does not count.

    Args:
        state: With the turn's rejections.
        scope: Of the run.
        words: A person's own answer in place of the best draft.

    Raises:
        EmptyAnswerError: Every draft was empty.
        ConflictError: What the turn's rollbacks cut is no longer kept.
    """
    turn = state["turn"]
    newest = turn["rejections"][-1]
    earlier = [e for e in turn["rejections"][:-1] if stands(e["messages"], scope.services)]
    best = max([*earlier, newest], key=lambda each: each["score"] or 0.0)
    answer = best["messages"][-1]
    if words is None and not text_of(answer).strip() and not has_other_content(answer):
        raise EmptyAnswerError(
            f"The model returned nothing in {len(turn['rejections'])} attempts. Say it again, "
            "in other words perhaps, or choose another model"
        )
    restored, update = yield from as_it_began(state, scope)
    refs = list(restored.get("cuts", []))
    if words is not None or newest is not best:
        refs = yield from keep_rejected(restored, scope, newest["reason"])
    if words is None:
        verdict = Verdict(
            outcome="failed", score=best["score"], reason=best["reason"], source=best["source"]
        )
        draft, flag = best["messages"], "low_quality"
    else:
        verdict = Verdict(
            outcome="unscored", score=None, reason="a person wrote it", source="person"
        )
        draft, flag = [words], "by_person"
    end = yield from deliver({**restored, "cuts": refs}, scope, draft, verdict, flag=flag)
    messages = [*update.get("messages", []), *end["messages"]]
    return {**update, **end, "messages": messages, "cuts": refs}


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
    log_move(scope, change)
    update = settle(state, change, list(state.get("cuts", [])))
    place = len(change.line.messages) - len(turn["pending"]) - 1
    remaining = [each for each in turn["cuts"] if each not in turn["draft_cuts"]]
    restored: Turn = {**turn, "base": change.line.id_at(place), "cuts": remaining}
    after: State = {**state, **update, "messages": list(change.line.messages), "turn": restored}
    return after, update


def keep_rejected(state: State, scope: Scope, reason: str) -> Steps[list[CutRef]]:
    """Keep the turn's newest rejected draft as a branch, and return the references to all branches."""
    drafts = tuple(state["turn"]["rejections"][-1]["messages"])
    cause = Label(kind="rejected", reason=reason, created_at=scope.now(), drafts=drafts)
    change = take_back(line_of(state), state["messages"][-1].id, label=cause)
    return (yield from keep_cut(change, scope, state.get("cuts", [])))
