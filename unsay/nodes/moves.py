"""Going back: one implementation for the graph's node and for orders from outside."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AnyMessage

from unsay.effects import Steps
from unsay.errors import ConflictError, NothingToUndoError
from unsay.history.checkpoints import by_age, find_checkpoint
from unsay.history.cuts import add_reference, reference
from unsay.history.line import Change, Label, Line, put_back, take_back
from unsay.nodes.commands import answered_turns
from unsay.prompts.texts import Texts
from unsay.services import Scope
from unsay.state import State, Update
from unsay.transcript.marks import is_question, spoken
from unsay.transcript.text import preview, text_of
from unsay.types import Cut, CutRef, Note, Operation, Topic

OPERATIONS = 32
"""How many of the newest steps can be undone."""


def line_of(state: State) -> Line:
    """The part of a state that a rollback moves."""
    return Line(
        messages=tuple(state.get("messages", ())),
        checkpoints=tuple(state.get("checkpoints", ())),
        segments=tuple(state.get("segments", ())),
    )


def note(state: State, scope: Scope, node: str, event: str, score: float | None) -> list[Note]:
    """`state_history` with one more line, bounded."""
    turn = state.get("turn")
    line = Note(
        node=node,
        event=event,
        turn=turn["number"] if turn else 0,
        score=score,
        topic=state.get("current_topic", ""),
        at=scope.now(),
    )
    limit = scope.settings.history_limit
    return [*state.get("state_history", []), line][-limit:] if limit else []


def landing_of_drafts(line: Line, base: str | None, failures: int) -> str | None:
    """Where a failed draft takes the record back to.

    The first failure of a turn goes to the last checkpoint, each further one
    to an older checkpoint, as far as there are any. Without one it is the start
    of the turn.

    Args:
        line: The record as it is.
        base: The last message before the turn.
        failures: Of this turn so far, from 1.
    """
    positions = line.positions()
    last = positions.get(base, -1) - (failures > 1)
    marks = by_age(line.checkpoints, positions, before=last)
    return marks[0]["message_id"] if marks else base


def landing_of_context(line: Line, start: int) -> str | None:
    """Where a rejected exchange takes the record back to: the last checkpoint before it.

    Args:
        line: The record as it is.
        start: Index at which the rejected exchange begins.
    """
    marks = by_age(line.checkpoints, line.positions(), before=start - 1)
    return marks[0]["message_id"] if marks else line.id_at(start - 1)


def landing_of_person(line: Line, target: str | None, pending: Sequence[str]) -> str | None:
    """Where a person's order takes the record back to.

    Args:
        line: The record as it is.
        target: A checkpoint's name, id or the beginning of its id; `None` is
            the last checkpoint before the newest answer, without one the
            beginning of the last turn.
        pending: Ids of messages that wait for an answer.

    Raises:
        UnknownCheckpointError: No checkpoint answers to the target.
        AmbiguousCheckpointError: Several do.
        NothingToUndoError: Nothing stands before the pending question.
    """
    if target:
        return find_checkpoint(line.checkpoints, target)["message_id"]
    said = [m for m in spoken(line.messages) if m.id not in pending]
    if not said:
        raise NothingToUndoError("This conversation has nothing to go back from yet")
    positions = line.positions()
    marks = by_age(line.checkpoints, positions, before=positions[said[-1].id] - 1)
    if marks:
        return marks[0]["message_id"]
    return line.id_at(positions[said[_last_turn(said)].id] - 1)


def _last_turn(said: Sequence[AnyMessage]) -> int:
    """Index of the last turn's first message: a question may be several, with documents before it."""
    start = next((i for i in range(len(said) - 1, -1, -1) if is_question(said[i])), 0)
    while start > 0 and said[start - 1].type == "human":
        start -= 1
    return start


def last_operation(operations: Sequence[Operation]) -> Operation:
    """The step that an undo takes back.

    Raises:
        NothingToUndoError: There is none.
    """
    if not operations:
        raise NothingToUndoError("There is no step left to undo in this conversation")
    return operations[-1]


def keep_cut(change: Change, scope: Scope, refs: Sequence[CutRef]) -> Steps[list[CutRef]]:
    """Keep what was taken off, and return the state's references with it."""
    cut = change.cut
    if not cut["messages"] and not cut["drafts"]:
        return list(refs)
    call = scope.keep_cut(cut)
    if call is not None:
        yield call
    return add_reference(refs, reference(cut, inline=call is None))


def fetch_cuts(ids: Sequence[str], scope: Scope, refs: Sequence[CutRef]) -> Steps[list[Cut]]:
    """The cuts with these ids, in this order.

    Raises:
        ConflictError: One is no longer kept; nothing was changed.
    """
    inline = {ref["id"]: ref["body"] for ref in refs if "body" in ref}
    cuts: list[Cut] = []
    for name in ids:
        call = None if name in inline else scope.fetch_cut(name)
        cut = inline.get(name) if call is None else (yield call)
        if cut is None:
            raise ConflictError(
                f"Cut {name!r} is no longer kept: without a store only the newest cuts are; "
                "compile the graph with a store to keep them all"
            )
        cuts.append(cut)
    return cuts


def settle(state: State, change: Change, refs: list[CutRef]) -> Update:
    """The state update that follows from a change of the line."""
    line = change.line
    known = {message.id for message in line.messages}
    topics = [
        each if each["summarized_through"] in known else _without_summary(each)
        for each in state.get("topics", [])
    ]
    labels = {each["id"]: each["label"] for each in topics}
    marks = by_age(line.checkpoints, line.positions(), before=len(line.messages))
    return Update(
        messages=change.writes,
        checkpoints=list(line.checkpoints),
        segments=list(line.segments),
        topics=topics,
        current_topic=labels.get(line.segments[-1]["topic_id"], "") if line.segments else "",
        quality_score=marks[0]["score"] if marks else None,
        cuts=refs,
    )


def _without_summary(topic: Topic) -> Topic:
    """A topic whose summary may tell of messages that were taken back."""
    return {**topic, "summary": None, "summarized_through": None}


def go_back(
    state: State, scope: Scope, base: str | None, cause: Label, pending: Sequence[str]
) -> Steps[Update]:
    """Take the record back to a message, and keep what was cut.

    Args:
        state: As it is.
        scope: Of the run or of the order.
        base: Id of the last message to keep.
        cause: Why.
        pending: Ids that stay behind the base.

    Returns:
        The update, with one more operation when a person ordered it.
    """
    change = take_back(line_of(state), base, label=cause, keep=pending)
    refs = yield from keep_cut(change, scope, state.get("cuts", []))
    update = settle(state, change, refs)
    if cause.kind == "person" and spoken(change.cut["messages"]):
        step = Operation(kind="rollback", base=base, cuts=[change.cut["id"]])
        update["operations"] = [*state.get("operations", []), step][-OPERATIONS:]
    return update


def without_retries(
    state: State, scope: Scope, base: str | None, cause: Label, keep: Sequence[str]
) -> Steps[Change]:
    """The record as its turn began: what the turn's rejected drafts had cut is back.

    Args:
        state: With the turn under way.
        scope: Of the run.
        base: Id of the last message before the turn.
        cause: Why.
        keep: Ids after the base that stay.

    Raises:
        ConflictError: What was cut is no longer kept.
    """
    names = state["turn"]["draft_cuts"][::-1]
    cuts = yield from fetch_cuts(names, scope, state.get("cuts", []))
    return put_back(line_of(state), base, cuts, label=cause, keep=keep)


def undo_last(state: State, scope: Scope, pending: Sequence[str], reason: str) -> Steps[Update]:
    """Take back the newest step: a turn goes, what a rollback cut returns.

    Raises:
        NothingToUndoError: No step is left.
        ConflictError: What the step had cut is no longer kept.
    """
    operations = state.get("operations", [])
    step = last_operation(operations)
    cuts = yield from fetch_cuts(step["cuts"][::-1], scope, state.get("cuts", []))
    cause = Label(kind="undo", reason=reason, created_at=scope.now())
    change = put_back(line_of(state), step["base"], cuts, label=cause, keep=pending)
    back = {cut["id"] for cut in cuts if not cut["drafts"]}
    still_cut = [ref for ref in state.get("cuts", []) if ref["id"] not in back]
    refs = yield from keep_cut(change, scope, still_cut)
    update = settle(state, change, refs)
    update["operations"] = list(operations[:-1])
    return update


def place_name(state: State, base: str | None, texts: Texts) -> str:
    """What a person calls the place after a message."""
    if base is None:
        return texts.at_start
    for each in state.get("checkpoints", []):
        if each["message_id"] == base:
            return texts.at_checkpoint.format(name=each["name"] or each["id"])
    words = next((text_of(m) for m in state["messages"] if m.id == base), "")
    return texts.at_message.format(words=preview(words, 40))


def counts(before: Sequence[AnyMessage], writes: Sequence[Any]) -> tuple[int, int]:
    """How many of the conversation's messages an update takes away and brings."""
    known = {m.id for m in spoken(before)}
    gone = {w.id for w in writes if w.type == "remove"}
    brought = {w.id for w in writes if w.type != "remove"}
    return len((gone - brought) & known), len(brought - {m.id for m in before})


def turns_left(messages: Sequence[AnyMessage]) -> int:
    """How many answered turns a record has."""
    return len(answered_turns(messages))
