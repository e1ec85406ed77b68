"""Attempts that are not saved yet: no call of the model or a tool is repeated if saving fails.

After a crash, no tool step and no rejected draft of a graph with tools is made again.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from langchain_core.messages import AIMessage, AnyMessage
from langgraph._internal import _constants as keys
from langgraph.checkpoint.base import empty_checkpoint

from unsay.effects import Call, Steps
from unsay.errors import DatabaseCorruptError
from unsay.history.compensations import Report
from unsay.history.tool_steps import AttemptName, find_draft, put_draft
from unsay.history.unsaved_answers import UNSAVED, UnsavedAttempt
from unsay.messages.content import is_empty, text_of
from unsay.operations.provenance import UNDONE, failed_tag
from unsay.runtime import Scope
from unsay.state import State
from unsay.verdicts import Verdict

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
        kept = UnsavedAttempt(
            question=place.text, draft=draft, values=dict(values), verdict=verdict
        )
        UNSAVED.keep(place.owner, place.thread_id, _name(state, place), kept)


def store_rejected(
    state: State,
    scope: Scope,
    draft: Sequence[AnyMessage],
    values: Mapping[str, Any],
    verdict: Verdict,
) -> Steps[None]:
    """Store a rejected draft, so that after a crash the attempts go on with the next one.

    The tools of later attempts are then not run again either. Nothing is done without tools, or
    without a store. The parameters are those of `keep_attempt`.
    """
    if scope.services.tool_loop is not None and scope.address is not None:
        values = {**values, "messages": draft}
        yield from put_draft(*scope.address, attempt_name(state), values, verdict=verdict)


def find_attempt(state: State, scope: Scope) -> Steps[UnsavedAttempt | None]:
    """Return what an earlier run made of the turn's attempt and did not save; else `None`.

    It is one that this process could not save, or one with tools that a crash interrupted. It is
    kept until the current run is saved.
    """
    place = place_of_question(state, scope)
    if place is None:
        return None
    where = (place.owner, place.thread_id, _name(state, place))
    kept = UNSAVED.find(UnsavedAttempt, *where, place.text)
    found = (yield from find_stored(scope, state)) if scope.services.tool_loop else None
    values, verdict = found or ({"messages": []}, None)
    draft = values.pop("messages")
    last = draft[-1] if draft else None
    # An empty answer was refused, and is asked for again.
    if isinstance(last, AIMessage) and not last.tool_calls and is_empty(last):
        draft, verdict = draft[:-1], None
    if len(draft) > (len(kept.draft) if kept else 0):
        kept = UnsavedAttempt(question=place.text, draft=draft, values=values, verdict=verdict)
    if kept is not None:
        UNSAVED.keep(*where, kept)
    return kept


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
        kept = UnsavedAttempt(question=place.text, draft=(), values=calls)
        UNSAVED.keep(place.owner, place.thread_id, f"{place.question_id} undone", kept)


def undone_calls(state: State, scope: Scope) -> Mapping[str, str]:
    """Return the calls whose undo an earlier run reported but could not save; as in `StepLog.calls`."""
    place = place_of_question(state, scope)
    if place is None:
        return {}
    where = (place.owner, place.thread_id, f"{place.question_id} undone")
    kept = UNSAVED.find(UnsavedAttempt, *where, place.text)
    return {} if kept is None else kept.values


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
