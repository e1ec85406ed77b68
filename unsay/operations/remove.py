"""Remove: take one turn out of the transcript and keep the later ones."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from langchain_core.messages import AnyMessage

from unsay.context.compaction import Compaction, Span, without_spans
from unsay.errors import InputError
from unsay.history.branch import Change, Label, LiveBranch, replace_tail
from unsay.messages.boundaries import steps
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
from unsay.types import Operation, Segment, Topic


def removable(state: State, number: str, pending: Sequence[str]) -> list[str]:
    """Return the ids of the messages of a turn that can be removed alone, without system messages.

    `number` is the turn's, as text; `pending` messages do not count. Raises `UnknownTurnError` if
    there is no such answered turn, `InputError` if `number` is no number, or if a message that stays
    needs one of them, as a tool's result needs its call.
    """
    if not number.removeprefix("-").isdecimal():
        raise InputError(f"{number!r} is not a turn: write a turn number N")
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

    Summaries that cover the turn are dropped: their other messages are sent in full until the
    next summary. Raises `UnknownTurnError` or `InputError`, as `removable` does.
    """
    ids, live = removable(state, number, pending), live_branch(state)
    first = live.index_of(ids[0])
    base, after = live.id_at(first - 1), live.messages[first:]
    keep = [m.id or "" for m in after if m.id not in ids]
    label = Label(kind="remove", reason=reason, created_at=scope.now())
    change = _without_summaries(live, replace_tail(live, base, label=label, keep=keep), ids)
    refs = save_branch(change, scope, state.get("branches", []))
    update = settle(state, change, refs)
    update["entry_id"] = next_entry_id(state, change)
    update["checkpoints"] = renumber_and_log(change.live, offloaded_of(state), scope)
    step = Operation(kind="remove", base=base, branches=[change.branch["id"]], ids=ids)
    before = state.get("compaction", Compaction())
    compaction = without_spans(before, lambda span: _covers_any(span, live.messages, ids))
    if compaction != before:
        step["old_compaction"], step["compaction"] = before, compaction
        update["compaction"] = compaction
    update.update(with_step(state, step))
    return update


def _without_summaries(live: LiveBranch, change: Change, ids: Collection[str]) -> Change:
    """Return the change without the topic summaries that cover messages of the removed turn (`ids`).

    A segment that began in the turn begins at its first remaining message. Two segments of one topic
    that are next to each other become one.
    """
    present = live.positions()
    segments: list[Segment] = [each for each in live.segments if each["start"] not in present]
    covered: set[str] = set()
    topic = last = segments[-1]["topic_id"] if segments else None
    starts = {each["start"]: each["topic_id"] for each in live.segments}
    for message in live.messages:
        topic = starts.get(message.id or "", topic)
        if topic is not None and message.id in ids:
            covered.add(topic)
        elif topic is not None and topic != last:
            segments.append(Segment(topic_id=topic, start=message.id or ""))
            last = topic
    dropped = [t for t in live.topics if t["id"] in covered and t["summary"] is not None]
    topics = tuple(_unsummarized(t) if t in dropped else t for t in change.live.topics)
    branch = change.branch
    if dropped:
        branch = {**branch, "topics": dropped}
    after = replace(change.live, segments=tuple(segments), topics=topics)
    return replace(change, live=after, branch=branch)


def _unsummarized(topic: Topic) -> Topic:
    return {**topic, "summary": None, "summarized_through": None}


def _covers_any(span: Span, messages: Sequence[AnyMessage], ids: Collection[str]) -> bool:
    """Return whether a span covers one of the messages `ids`, which are in `messages`.

    A span whose first message is missing begins with `messages`, and one whose last message is
    missing ends with `messages`.
    """
    # Offloading removes the beginning of a span. A rollback removes its end, and the restored end
    # makes the span apply again.
    places = {message.id: index for index, message in enumerate(messages)}
    first = places.get(span["first"], 0)
    last = places.get(span["through"], len(messages) - 1)
    return any(first <= places[name] <= last for name in ids)
