"""Remove: take one turn out of the transcript and keep the later ones."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from unsay.errors import InputError
from unsay.history.branch import Change, Label, LiveBranch, replace_tail
from unsay.history.parts import without_repeats
from unsay.messages.annotations import spoken
from unsay.messages.boundaries import steps
from unsay.operations.pending import with_hand_offs
from unsay.operations.reversal import renumber_and_log
from unsay.operations.rollback import (
    live_branch,
    next_entry_id,
    save_branch,
    settle,
    with_step,
)
from unsay.operations.visibility import turns_named
from unsay.runtime import Scope
from unsay.state import State, Update, offloaded_of
from unsay.types import Operation, Segment


def turn_number(text: str) -> int:
    """Return the number of a turn that a person typed; raise `InputError` for another text."""
    if not text.removeprefix("-").isdecimal():
        raise InputError(f"{text!r} is not a turn: write a turn number N")
    return int(text)


def removable(state: State, number: str, pending: Sequence[str]) -> list[str]:
    """Return the ids of the messages of a turn that can be removed alone, without system messages.

    `number` is the turn's, as text; `pending` messages do not count. Raises `UnknownTurnError` if
    there is no such answered turn, `InputError` if `number` is no number, or if a message that stays
    needs one of them, as a tool's result needs its call.
    """
    turn_number(number)  # for its error
    ids = [m.id or "" for m in turns_named(state, number, pending) if m.type != "system"]
    messages = state["messages"]
    for step in steps(messages):
        inside = [messages[index].id in ids for index in step]
        if any(inside) and not all(inside):
            needs = messages[step[inside.index(False)]].id
            raise InputError(
                f"Turn {number} cannot be removed alone: message {needs!r} belongs to a tool call or "
                "a question in it; roll back to before the turn instead"
            )
    return ids


def remove_turn(
    state: State, scope: Scope, number: str, pending: Sequence[str], reason: str
) -> Update:
    """Return the update that removes a turn and keeps it as a branch; `undo` reverses it.

    Summaries that cover the turn apply no more: their other messages are sent in full until the
    next summary. Raises `UnknownTurnError` or `InputError`, as `removable` does.
    """
    ids, live = removable(state, number, pending), live_branch(state)
    first = live.index_of(ids[0])
    base = live.position_before(first)
    keep = [m.id or "" for m in live.messages[first:] if m.id not in ids]
    label = Label(kind="remove", reason=reason, created_at=scope.now())
    leaving = [*ids, *with_hand_offs(live.messages, pending)]
    change = _with_topics(live, replace_tail(live, base, label=label, keep=keep), leaving)
    refs = save_branch(change, scope, state.get("branches", []))
    update = settle(state, change, refs)
    update["entry_id"] = next_entry_id(state, change)
    update["checkpoints"] = renumber_and_log(change.live, offloaded_of(state), scope)
    step = Operation(kind="remove", base=base, branches=[change.branch["id"]], ids=ids)
    update.update(with_step(state, step))
    return update


def _with_topics(live: LiveBranch, change: Change, ids: Collection[str]) -> Change:
    """Return the change in which a segment that began in the removed turn begins after it.

    It begins at a message of the conversation without `ids`, the turn and the commands that wait.
    """
    topics = {each["start"]: each["topic_id"] for each in live.segments}
    segments = [each for each in live.segments if each["start"] not in live.positions()]
    topic = segments[-1]["topic_id"] if segments else None
    for message in spoken(live.messages):
        topic = topics.get(message.id or "", topic)
        if topic is not None and message.id not in ids:
            segments.append(Segment(topic_id=topic, start=message.id or ""))
    return replace(change, live=replace(change.live, segments=tuple(without_repeats(segments))))
