"""Keep as a branch the messages that a host's change removes from the transcript."""

from collections.abc import Collection, Sequence
from typing import Any, cast

from langchain_core.messages import AnyMessage

from unsay.effects import Steps
from unsay.history.branch import Change, Label, replace_tail
from unsay.messages.annotations import spoken
from unsay.operations.offload import load_segments
from unsay.operations.record_events import EMPTY, digest_of, ends_of, write_ahead
from unsay.operations.rollback import live_branch, save_branch, settle, with_step
from unsay.runtime import Scope
from unsay.state import EventLogHead, State, Update, offloaded_of, with_update
from unsay.types import Operation

# Values of the newest state that are kept, whichever state the host continues from.
LASTING = ("branches", "event_log", "forgotten", "spent", "home")
# The steps that led to the newest state: kept unless the host's state has other messages.
STEPS = ("operations", "older_steps", "redo")
# Values that describe messages: kept where the host's state holds the same messages.
DESCRIBING = (
    "checkpoints",
    "checkpoint_metadata",
    "segments",
    "topics",
    "current_topic",
    "quality_score",
    "pins",
)


def keep_left_behind(before: State, after: State, scope: Scope, reason: str) -> Steps[Update]:
    """Store the messages that a host removes as a branch, and write the change to the event log.

    Args:
        before: The newest state of the thread.
        after: The state that the host goes on from, without the messages that it removes.
        scope: The scope of the thread.
        reason: Why the messages are removed, for lists of branches.

    Returns:
        The values that `after` needs, so that the branch can be listed and the step undone; empty
        if no message is removed and both states have the same history.
    """
    remaining = [message.id for message in after.get("messages", [])]
    whole = yield from _loaded(before, remaining, scope)
    live = live_branch(whole)
    left = [message.id for message in live.messages if message.id not in remaining]
    # A state with messages that the newest one lacks goes on with its own steps.
    known = {message.id for message in whole["messages"]}.issuperset(remaining)
    result = before if known else cast("State", {**before, **_only(after, STEPS)})
    if left:
        base = live.id_at(live.index_of(left[0]) - 1)
        start = live.index_of(base) + 1
        keep = [m.id or "" for m in live.messages[start:] if m.id in remaining]
        label = Label(kind="host", reason=reason, created_at=scope.now())
        change = replace_tail(live, base, label=label, keep=keep)
        refs = yield from save_branch(change, scope, before.get("branches", []))
        moved = Update(**{**settle(whole, change, refs), **_step(result, change, base)})
        update = yield from write_ahead(whole, scope, moved)
        result = cast("State", {**result, **update, **_log_head(update, change, remaining)})
    keys = [*LASTING, *STEPS]
    if known and offloaded_of(before) == offloaded_of(after):
        keys += DESCRIBING
    kept = _only(result, keys)
    if not remaining and after.get("offloaded"):
        kept["offloaded"] = None  # the branch has these messages as well
    return cast("Update", {key: kept[key] for key in kept if kept[key] != after.get(key)})


def _only(state: State, keys: Sequence[str]) -> dict[str, Any]:
    return {key: value for key, value in state.items() if key in keys}


def _loaded(before: State, remaining: Sequence[str | None], scope: Scope) -> Steps[State]:
    """Return `before` with the offloaded messages loaded that the host may have removed.

    `remaining` are the ids of the host's messages. Messages are loaded back to the oldest of these,
    or all if there are none. `before` itself is returned if its first message remains.
    """
    messages = before.get("messages", [])
    if messages and messages[0].id in remaining:
        return before
    wanted: Collection[str | None] = set(remaining) or {None}
    return with_update(before, (yield from load_segments(before, scope, wanted)))


def _step(state: State, change: Change, base: str | None) -> Update:
    removed = change.branch["messages"]
    if not spoken(removed):
        return Update()
    step = Operation(kind="rollback", base=base, branches=[change.branch["id"]])
    if change.keep:  # An undo must not remove the messages that stayed behind the base.
        step["ids"] = [message.id or "" for message in removed]
    return with_step(state, step)


def _log_head(update: Update, change: Change, remaining: Collection[str | None]) -> Update:
    """Return the event log's head for the messages that the host's state still has.

    The result is empty if `update` does not write the event log's head.
    """
    held: list[AnyMessage] = [m for m in change.live.messages if m.id in remaining]
    place = update.get("event_log", EMPTY)
    head = EventLogHead(
        page_id=place["page_id"],
        count=place["count"],
        length=len(held),
        digest=digest_of(held),
        ends=ends_of(held),
    )
    return Update(event_log=head) if "event_log" in update else Update()
