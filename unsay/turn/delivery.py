"""Delivery of an answer: a draft enters the transcript, and the turn makes its checkpoints."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from langchain_core.messages import AIMessage, AnyMessage
from langgraph._internal import _constants as keys
from langgraph.checkpoint.base import empty_checkpoint

from unsay.decisions import Decision, ask_person, person_request, read_decision
from unsay.effects import Call, Steps
from unsay.errors import DatabaseCorruptError, EmptyAnswerError
from unsay.history.branch import Label, as_one, replace_tail
from unsay.history.compensations import AttemptName, Report, find_draft
from unsay.history.unsaved_answers import UNSAVED, UnsavedAnswer, UnsavedAttempt
from unsay.memory.lessons import LESSONS, lessons_of_turn
from unsay.messages.annotations import annotate, notice, spoken, with_verdict
from unsay.messages.content import is_empty, sources_of, text_of
from unsay.moves.compensate import keeps_effects, note_own_calls
from unsay.moves.reconcile import UNDONE, failed_tag
from unsay.protocols import Verdict
from unsay.runtime import Scope, Services
from unsay.state import State, Update, offloaded_of
from unsay.tracing import send_score
from unsay.transcript.automatic import (
    base_of,
    turn_number,
    turn_step,
    without_base,
    without_retries,
)
from unsay.transcript.live import count_changes, live_branch, save_branch, settle, with_step
from unsay.transcript.record import add_note, log_checkpoints, log_rollback
from unsay.turn.checkpoints import checkpoints_due
from unsay.types import BranchRef, Rejection, Turn

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionPlace:
    """Where `UNSAVED` keeps what answers the turn's question; `place_of_question` makes it."""

    owner: object
    thread_id: str
    question_id: str
    text: str


def place_of_question(state: State, scope: Scope) -> QuestionPlace | None:
    """Return the place of the turn's question; `None` without a question or without a thread."""
    question_id = state["turn"]["question_id"]
    question = next((m for m in state["messages"] if m.id == question_id), None)
    if scope.thread_id is None or question_id is None or question is None:
        return None
    return QuestionPlace(
        owner=scope.store or scope.services,
        thread_id=scope.thread_id,
        question_id=question_id,
        text=text_of(question),
    )


def keep_attempt(
    state: State,
    scope: Scope,
    draft: Sequence[AnyMessage],
    values: Mapping[str, Any],
    verdict: Verdict | None = None,
) -> None:
    """Keep the turn's attempt in this process, in case its run cannot be saved.

    Args:
        state: The state in which the attempt began.
        scope: The scope of the run; without a thread nothing is kept.
        draft: The attempt's messages so far, tool steps first; a list that grows is kept as it grows.
        values: What the model's last call left for its next call; see `CallCarryover`.
        verdict: The verdict on the draft; `None` if it is not finished or not judged.
    """
    place = place_of_question(state, scope)
    if place is not None:
        attempt = UnsavedAttempt(
            question=place.text, draft=draft, values=dict(values), verdict=verdict
        )
        UNSAVED.keep(place.owner, place.thread_id, _name(state, place), attempt)


def find_attempt(state: State, scope: Scope) -> Steps[UnsavedAttempt | None]:
    """Return what an earlier run made of the turn's attempt and did not save; else `None`.

    It is one that this process could not save, or one with tools that a crash interrupted. It is
    kept until the current run is saved.
    """
    place = place_of_question(state, scope)
    if place is None:
        return None
    entry_key = (place.owner, place.thread_id, _name(state, place))
    attempt = UNSAVED.find(UnsavedAttempt, *entry_key, place.text)
    stored_attempt = (yield from find_stored(scope, state)) if scope.services.tool_loop else None
    values, verdict = stored_attempt or ({"messages": []}, None)
    draft = values.pop("messages")
    last = draft[-1] if draft else None
    # An empty answer was refused, and is asked for again.
    if isinstance(last, AIMessage) and not last.tool_calls and is_empty(last):
        draft, verdict = draft[:-1], None
    if len(draft) > (len(attempt.draft) if attempt else 0):
        attempt = UnsavedAttempt(question=place.text, draft=draft, values=values, verdict=verdict)
    if attempt is not None:
        UNSAVED.keep(*entry_key, attempt)
    return attempt


def find_stored(scope: Scope, state: State) -> Steps[tuple[dict[str, Any], Verdict | None] | None]:
    """Return the stored draft of the turn's attempt and its verdict, as `find_draft` does.

    `None` also without a store, and for a damaged one, which is logged.
    """
    if scope.address is None:
        return None
    try:
        return (yield from find_draft(*scope.address, attempt_name(state)))
    except DatabaseCorruptError as error:  # else no turn of the thread could be answered any more
        LOG.warning("thread=%r reason=%r the tool steps are damaged", scope.thread_id, str(error))
        return None


def keep_undone(state: State, scope: Scope, report: Report) -> None:
    """Keep until the run is saved which calls were undone, or failed to be, in a thread without a store.

    With a store nothing is done: it has an entry of each call.
    """
    place = place_of_question(state, scope)
    if place is not None and scope.store is None and report.outcomes:
        calls = {**undone_calls(state, scope)}
        calls |= {each.compensation.key: UNDONE for each in report.undone}
        for each in report.of("failed"):
            calls[each.compensation.key] = failed_tag(each.compensation, each.reason)
        attempt = UnsavedAttempt(question=place.text, draft=(), values=calls)
        UNSAVED.keep(place.owner, place.thread_id, f"{place.question_id} undone", attempt)


def undone_calls(state: State, scope: Scope) -> Mapping[str, str]:
    """Return the calls whose undo an earlier run reported but could not save; as in `StepLog.calls`."""
    place = place_of_question(state, scope)
    if place is None:
        return {}
    entry_key = (place.owner, place.thread_id, f"{place.question_id} undone")
    attempt = UNSAVED.find(UnsavedAttempt, *entry_key, place.text)
    return {} if attempt is None else attempt.values


def without_undone(state: State, scope: Scope) -> State:
    """Return the state without those calls to undo that `undone_calls` returns."""
    undone = undone_calls(state, scope)
    waiting = [e for e in state.get("pending_compensations", []) if e["key"] not in undone]
    return {**state, "pending_compensations": waiting} if undone else state


def attempt_name(state: State) -> AttemptName:
    """Return the name under which the store has the turn's attempt; each attempt has its own."""
    turn = state["turn"]
    rejected = len(turn["rejections"])
    numbers = (rejected, turn["extra_attempts"])
    name = f"{turn['question_id']} {numbers} {state.get('entry_id', '')}"
    return AttemptName(key=f"attempt-{rejected}", name=name)


def at_steps(state: State, scope: Scope) -> Scope:
    """Return a scope whose graphs go on after the steps that they finished in the turn's attempt.

    The checkpointer has the steps of such a graph in a place of their own, in every durability mode,
    so that a run finds them which begins the turn again. After a change of what the context is made
    of they are not found.
    """
    config = scope.config.get("configurable", {})
    outer, _, node = config.get("checkpoint_ns", "").rpartition("|")
    texts = [(message.id, text_of(message)) for message in state["messages"]]
    facts = (attempt_name(state).name, texts, state.get("forgotten"), state.get("compaction"))
    own = f"{node.partition(':')[0]}:{uuid5(NAMESPACE_OID, repr(facts))}"
    place = {"checkpoint_ns": f"{outer}|{own}" if outer else own, keys.CONFIG_KEY_RESUMING: True}
    if node and config.get(keys.CONFIG_KEY_CHECKPOINTER):
        config = {**config, **place, keys.CONFIG_KEY_DURABILITY: "sync"}
    return replace(scope, config={**scope.config, "configurable": config})


def forget_steps(state: State, scope: Scope) -> Steps[None]:
    """Drop the steps that `at_steps` finds, since they ended in an answer that cannot be used."""
    config = at_steps(state, scope).config
    if saver := config["configurable"].get(keys.CONFIG_KEY_CHECKPOINTER):
        metadata = {"source": "update", "step": -1, "parents": {}}
        yield from Call.of(saver.put, saver.aput, config, empty_checkpoint(), metadata, {})


def _name(state: State, place: QuestionPlace) -> str:
    turn = state["turn"]
    return f"{place.question_id} {len(turn['rejections'])} {turn['extra_attempts']}"


def deliver(
    state: State, scope: Scope, draft: Sequence[AnyMessage], verdict: Verdict, *, flag: str | None
) -> Steps[Update]:
    """Return the update that ends a turn with a draft; it has the checkpoints that the turn earned.

    The answer gets the verdict and, unless it is `None`, the `flag`, such as `low_quality`. Until
    the turn is saved, the answer is also kept in this process. Its score is sent to LangSmith if
    that traces the run; a failure there is only logged. Raises what `checkpoints_due` raises.
    """
    turn, topic = state["turn"], state.get("current_topic", "")
    if (place := place_of_question(state, scope)) is not None:  # so that it is paid for once
        unsaved = UnsavedAnswer(question=place.text, draft=tuple(draft), verdict=verdict, flag=flag)
        UNSAVED.keep(place.owner, place.thread_id, place.question_id, unsaved)
    send_score(scope.config, verdict.score, of_graph=True)
    removed = turn.get("removed", [])
    removals = {"removed": [without_base(each) for each in removed]} if removed else {}
    answer = with_verdict(
        draft[-1],
        verdict,
        turn=turn["number"],
        topic=topic,
        rollbacks=turn["rollbacks"],
        **removals,
    )
    if lessons := lessons_of_turn(turn, answer.id or ""):
        questions = (m for m in spoken(state["messages"]) if m.id in turn["pending"])
        answer = annotate(answer, **{LESSONS: lessons}, sources=sources_of(questions))
    if flag is not None:
        answer = annotate(answer, flag=flag)
    if turn.get("topic_change"):
        similarity = state.get("topic_similarity")
        answer = annotate(answer, topic_change=turn.get("topic_change"), similarity=similarity)
    if turn.get("earlier_answers"):
        answer = annotate(answer, earlier_answers=turn["earlier_answers"])
    if turn.get("dropped_names"):
        answer = annotate(answer, dropped_checkpoints=turn["dropped_names"])
    messages = [*removal_notice(state, scope), *draft[:-1], answer]
    added = [*turn["pending"], *(message.id or "" for message in messages)]
    step = turn_step(state, turn["branches"], added)
    due = yield from checkpoints_due(state, scope, [*draft[:-1], answer], verdict)
    log_checkpoints(state, scope, due)
    checkpoint_ids = {each["id"] for each in state.get("checkpoints", [])}
    if before := [
        e for e in due if e["message_id"] == turn["base"] and e["id"] not in checkpoint_ids
    ]:
        step["made"] = before  # so that an undo of the turn takes them back as well
    recall_update = Update(asked_for=[]) if state.get("asked_for") else Update()
    return Update(
        **recall_update,
        messages=messages,
        turn={**turn, "done": True, "rejections": [], "steps": [], "checkpoints_due": due},
        quality_score=verdict.score,
        should_rollback=False,
        rollback_request=None,
        state_history=add_note(state, scope, "process_message", verdict.outcome, verdict.score),
        **with_step(state, step),
    )


def deliver_unsaved(state: State, scope: Scope) -> Steps[Update | None]:
    """Return the update that ends a turn with the answer that an earlier run could not save.

    `None` if no answer is kept. For a flagged answer (see `deliver_best`) the update first puts
    back what the turn's rollbacks removed; then the errors are also those of `at_turn_start`.
    Raises what `deliver` raises.
    """
    place = place_of_question(state, scope)
    if place is None:
        return None
    entry_key = (place.owner, place.thread_id, place.question_id)
    answer = UNSAVED.find(UnsavedAnswer, *entry_key, place.text)
    if answer is None:
        return None
    note_own_calls(answer.draft, scope)
    update = Update()
    if answer.flag is not None:
        state, update = yield from at_turn_start(state, scope)
    end = yield from deliver(state, scope, answer.draft, answer.verdict, flag=answer.flag)
    return {**update, **end, "messages": [*update.get("messages", []), *end["messages"]]}


def deliver_best(state: State, scope: Scope, own_answer: AnyMessage | None = None) -> Steps[Update]:
    """Return the update that ends a turn of failed drafts with the best one, or with `own_answer`.

    What the turn's rollbacks removed is put back first. The answer is flagged: `low_quality`, or
    `by_person` for `own_answer`, which a person wrote. Raises `EmptyAnswerError` if there is no
    `own_answer` and the best draft is empty; what `at_turn_start` raises if a removed part cannot
    be put back.
    """
    turn = state["turn"]
    newest, best = turn["rejections"][-1], best_rejection(turn, scope.services)
    if own_answer is None and is_empty(best["messages"][-1]):
        raise EmptyAnswerError(code="answer_empty", attempts=len(turn["rejections"]))
    restored, update = yield from at_turn_start(state, scope)
    refs = list(restored.get("branches", []))
    if own_answer is None:
        verdict = Verdict(
            outcome="failed", score=best["score"], reason=best["reason"], source=best["source"]
        )
        draft, flag = best["messages"], "low_quality"
    else:
        reason = scope.texts(state["messages"]).say("unjudged.by_person")
        verdict = Verdict(outcome="unscored", score=None, reason=reason, source="person")
        draft, flag = [own_answer], "by_person"
    if newest["messages"] != draft:
        refs = keep_rejected(restored, scope, draft)
    end = yield from deliver({**restored, "branches": refs}, scope, draft, verdict, flag=flag)
    messages = [*update.get("messages", []), *end["messages"]]
    return {**update, **end, "messages": messages, "branches": refs}


def best_rejection(turn: Turn, services: Services) -> Rejection:
    """Return the rejected draft that is delivered, and shown to a person, if no attempt passes.

    The turn must have one. It has the best score; an unscored draft counts as 0, and an empty one
    is the last choice. An earlier draft whose tool calls may have been undone is left out.
    """
    newest = turn["rejections"][-1]
    # A draft whose tool calls were undone reports effects that no longer exist, so it is left out.
    earlier = [
        rejection
        for rejection in turn["rejections"][:-1]
        if keeps_effects(_beside(rejection, newest["messages"]), services)
    ]
    return max(
        [*earlier, newest],
        key=lambda each: (not is_empty(each["messages"][-1]), each["score"] or 0.0),
    )


def ask_about_drafts(state: State, scope: Scope) -> Decision:
    """Return a person's decision about the turn's rejected drafts; an interrupt asks for it."""
    rejections, texts = state["turn"]["rejections"], scope.texts(state["messages"])
    best = best_rejection(state["turn"], scope.services)
    return ask_person(person_request(rejections, best, texts), read_decision, texts)


def at_turn_start(state: State, scope: Scope) -> Steps[tuple[State, Update]]:
    """Return the state with what the rollbacks of rejected drafts removed, and the update to it.

    Without a rollback in this turn these are the same state and an empty update. Raises
    `ConflictError` if a branch is not kept, or the message that it followed is gone;
    `DatabaseCorruptError` if a branch is damaged.
    """
    turn = state["turn"]
    if not turn["draft_branches"]:
        if turn["rejections"]:  # a call that a budget refused leaves no draft to speak of
            scope.emit("restored", messages=0)
        return state, Update()
    label = Label(kind="rejected", reason="no attempt passed", created_at=scope.now())
    changes = yield from without_retries(state, scope, label)
    for each in changes:
        log_rollback(scope, each)
    change = as_one(live_branch(state), changes, label)
    update = settle(state, change, list(state.get("branches", [])))
    _, returned = count_changes(state["messages"], update["messages"])
    scope.emit("restored", messages=returned)
    remaining = [each for each in turn["branches"] if each not in turn["draft_branches"]]
    restored: Turn = {
        **turn,
        # Restored messages may be before the pending ones, so that the turn starts after them.
        "base": base_of(change.live, turn["pending"]),
        "number": turn_number(change.live, turn["pending"], offloaded_of(state)),
        "branches": remaining,
        "removed": [each for each in turn.get("removed", []) if each["branch"] in remaining],
    }
    after: State = {**state, **update, "messages": list(change.live.messages), "turn": restored}
    return after, update


def removal_notice(state: State, scope: Scope) -> list[AnyMessage]:
    """Return a notice about what the turn's automatic rollbacks removed; an empty list without any.

    The notice is streamed as well.
    """
    turn, texts = state["turn"], scope.texts(state["messages"])
    removed = turn.get("removed", [])
    if not removed:
        return []
    text = texts.removal_text(removed)
    message = notice(text, f"removed-{turn['question_id']}", ())
    scope.emit("notice", text=text, message_id=message.id)
    return [message]


def _beside(rejection: Rejection, others: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return the messages of a draft without those of another one: it took over tool steps."""
    taken_over = {message.id for message in others}
    return [message for message in rejection["messages"] if message.id not in taken_over]


def keep_rejected(state: State, scope: Scope, delivered: Sequence[AnyMessage]) -> list[BranchRef]:
    """Keep the turn's newest rejected draft as a branch, and return all references to branches.

    The turn must have a rejected draft. Tool steps that it has in common with the `delivered` draft
    are left out: they stay in the transcript, and their calls are not undone.
    """
    newest = state["turn"]["rejections"][-1]
    drafts = tuple(_beside(newest, delivered))
    label = Label(kind="rejected", reason=newest["reason"], created_at=scope.now(), drafts=drafts)
    change = replace_tail(live_branch(state), state["messages"][-1].id, label=label)
    return save_branch(change, scope, state.get("branches", []))
