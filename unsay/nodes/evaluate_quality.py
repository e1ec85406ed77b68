"""evaluate_quality: judge messages that entered without a verdict, and read a person's orders."""

from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import cast

from langchain_core.messages import AnyMessage

from unsay.context.exclusions import forgotten_ids
from unsay.context.topics import live_segments
from unsay.effects import Steps
from unsay.events import event_types
from unsay.generation.judge import exchange_of, judge_documents, judge_exchange
from unsay.judging.verdict import unscored
from unsay.messages.annotations import annotation_of, with_verdict
from unsay.messages.content import text_of
from unsay.operations.commands import parse_command
from unsay.operations.dispatch import messages_needed, read_orders
from unsay.operations.offload import drop_offloaded, load_resent, load_segments, offload
from unsay.operations.pending import Injected, find_pending, open_turn, repair_interrupted, unjudged
from unsay.operations.rollback import archive_steps, live_branch, load_archived_steps, note
from unsay.operations.targets import target_of_context
from unsay.runtime import Scope
from unsay.state import NoticeDue, RollbackRequest, State, StateDraft, Update
from unsay.types import Topic, Verdict


def evaluate_quality(state: State, scope: Scope) -> Steps[Update]:
    """Open the turn: repair what an interruption left, read a command, judge what was injected."""
    draft = StateDraft(state)
    draft.apply(drop_offloaded(state))
    pending = find_pending(draft.state["messages"], state.get("turn"))
    command = parse_command(text_of(pending.question)) if pending.question is not None else None
    undone = command is not None and command["verb"] == "undo"
    draft.apply((yield from (load_archived_steps if undone else archive_steps)(draft.state, scope)))
    draft.apply((yield from repair_interrupted(draft.state, scope, pending, undone=undone)))
    draft.apply(_without_removed(draft.state))
    if command is not None or draft.state.get("should_rollback"):
        wanted, turns = messages_needed(draft.state, command)
        draft.apply((yield from load_segments(draft.state, scope, wanted, turns=turns)))
    else:
        update = yield from load_resent(draft.state, scope)
        draft.apply(update or (yield from offload(draft.state, scope)))
    if "messages" in draft.update:
        pending = find_pending(draft.state["messages"], None)
    turn = open_turn(draft.state, pending, scope.run_id or "")
    orders = yield from read_orders(draft.state, scope, turn, pending, command)
    draft.apply(orders.update)
    turn["checkpoints_due"] = orders.checkpoints
    has_order = orders.notice is not None or orders.rollback is not None
    if not has_order:
        draft.apply((yield from judge_documents(draft.state, scope, turn)))
    due = Update(
        turn=turn, rollback_request=orders.rollback, notice=None, rollback_checkpoint_id=None
    )
    if orders.notice is not None:
        due["notice"] = NoticeDue(text=orders.notice, answers=turn["pending"])
    draft.apply(due)
    if not has_order:
        draft.apply((yield from _judge_injected(draft.state, scope)))
    return {**draft.update, "should_rollback": draft.state["rollback_request"] is not None}


def _without_removed(state: State) -> Update:
    """Drop segments, checkpoints and summaries of messages that a host removed."""
    known = {None, *(message.id for message in state["messages"])}
    marks = state.get("checkpoints", [])
    checkpoints = [each for each in marks if each["message_id"] in known or each.get("offloaded")]
    topics: list[Topic] = [
        each
        if each["summarized_through"] in known
        else {**each, "summary": None, "summarized_through": None}
        for each in state.get("topics", [])
    ]
    segments = live_segments(state["messages"], state.get("segments", []))
    found = Update(segments=segments, checkpoints=checkpoints, topics=topics)
    return cast("Update", {k: v for k, v in found.items() if v != state.get(k, [])})


def _judge_injected(state: State, scope: Scope) -> Steps[Update]:
    """Judge the answers that entered without a verdict; a failed one makes a rollback due."""
    messages = state["messages"]
    entered = unjudged(messages, len(messages) - len(state["turn"]["pending"]))
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
    return _consequences(state, scope, verdicts)


def _judge_one(
    messages: Sequence[AnyMessage], each: Injected, scope: Scope, forgotten: Collection[str]
) -> Steps[Verdict]:
    """Judge an answer without forgotten messages; a forgotten answer is sent to no judge."""
    answer = messages[each.index]
    if answer.id in forgotten:
        return unscored("it is forgotten")
    asked = messages[each.start] if each.start < each.index else None
    question = None if asked is None or asked.id in forgotten else asked
    before = [m for m in messages[: each.start] if m.id not in forgotten]
    return (yield from judge_exchange(exchange_of(question, answer, before), answer, scope))


def _consequences(
    state: State, scope: Scope, verdicts: Sequence[tuple[Injected, Verdict]]
) -> Update:
    """Write the verdicts onto their messages; go back before the first answer that failed."""
    messages, topic = state["messages"], state.get("current_topic", "")
    stamped = []
    first = state["turn"]["number"] - len(verdicts)
    for turn_number, (each, verdict) in enumerate(verdicts, start=first):
        answer = with_verdict(messages[each.index], verdict, turn=turn_number, topic=topic)
        stamped.append(answer)
        scope.step_log.new_events.append(
            event_types.verdict(answer.id or "", annotation_of(answer))
        )
        scope.tell("verdict", of="context", message_id=answer.id, **asdict(verdict))
    scores = [verdict.score for _, verdict in verdicts if verdict.score is not None]
    lowest = min(scores, default=None)
    history = note(state, scope, "evaluate_quality", "judged", lowest)
    update = Update(messages=stamped, state_history=history)
    if lowest is not None:
        update["quality_score"] = lowest
    failed = next(((e, v) for e, v in verdicts if v.outcome == "failed"), None)
    if failed is not None:
        target = target_of_context(live_branch(state), failed[0].start)
        update["rollback_request"] = RollbackRequest(
            kind="context", to=target, reason=failed[1].reason
        )
    return update
