"""Keep as a branch the messages that a host's change removes from the transcript."""

from collections.abc import Collection, Sequence
from typing import Any, cast

from langchain_core.messages import AnyMessage

from unsay.effects import Steps
from unsay.events.transcript_replay import replay
from unsay.history.branch import Change, Label, replace_tail
from unsay.messages.annotations import spoken
from unsay.messages.content import Text, Thinking, parts_of, text_of
from unsay.operations.offload import load_segments
from unsay.operations.provenance import false_claims, with_messages
from unsay.operations.record_events import EMPTY, digest_of, ends_of, write_ahead
from unsay.operations.rollback import (
    live_branch,
    next_entry_id,
    readable_branches,
    save_branch,
    settle,
    with_step,
)
from unsay.runtime import Scope
from unsay.state import EventLogHead, LeftBehind, State, Update, offloaded_of, with_update
from unsay.storage.event_log import event_chain, read_events
from unsay.types import Operation, StoredBranch

# Values of the newest state that are kept, whichever state the host continues from.
LASTING = (
    "branches",
    "event_log",
    "forgotten",
    "spent",
    "home",
    "left_behind",
    "pending_compensations",
)
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
        after: The state from which the host continues, without the messages that it removes.
        scope: The scope of the thread.
        reason: Why the messages are removed, for lists of branches.

    Returns:
        The values to add to `after`, so that the branch can be listed and the step undone; empty if
        no message is removed and both states have the same history.

    Raises:
        DatabaseCorruptError: The host may have removed offloaded messages, and their segment is
            damaged.
        InputError: A message that the host removes cannot be stored.
    """
    # No run has checked yet what earlier updates of the host added.
    before = with_messages(before, (yield from false_claims(before, scope)))
    remaining = [message.id for message in after.get("messages", [])]
    whole = yield from _loaded(before, remaining, scope)
    live = live_branch(whole)
    words = {message.id: _words(message) for message in after.get("messages", [])}
    # A message that the host replaced under its id leaves, too.
    left = [message.id for message in live.messages if words.get(message.id) != _words(message)]
    # A state with messages that the newest one lacks keeps its own steps.
    known = {message.id for message in whole["messages"]}.issuperset(remaining)
    result = before if known else cast("State", {**before, **_only(after, STEPS)})
    branch_id = None
    if left:
        base = live.id_at(live.index_of(left[0]) - 1)
        start = live.index_of(base) + 1
        keep = [m.id or "" for m in live.messages[start:] if m.id not in left]
        label = Label(kind="host", reason=reason, created_at=scope.now())
        change = replace_tail(live, base, label=label, keep=keep)
        branch_id = change.branch["id"]
        refs = save_branch(change, scope, before.get("branches", []))
        moved = Update(**{**settle(whole, change, refs), **_step(result, change, base)})
        # A replaced message is at the same place as before, so its topic begins there.
        moved["segments"] = [s for s in whole.get("segments", []) if s["start"] in remaining]
        update = yield from write_ahead(whole, scope, moved)
        result = cast("State", {**result, **update, **_log_head(update, change, remaining)})
    returned = [name for name in remaining if name not in {m.id for m in whole["messages"]}]
    if branch_id or returned:
        result = {**result, "left_behind": _left_behind(before, branch_id, returned)}
    keys = [*LASTING, *STEPS]
    if known and offloaded_of(before) == offloaded_of(after):
        keys += DESCRIBING
    kept = _only(result, keys)
    if "own_writes" in before and "own_writes" in after:
        # The proof of calls that were made later: they are undone now, or return with their branch.
        calls = {**after["own_writes"]["calls"], **before["own_writes"]["calls"]}
        kept["own_writes"] = {**after["own_writes"], "calls": calls}
    if not remaining and after.get("offloaded"):
        kept["offloaded"] = None  # the branch has these messages as well
    return cast("Update", {key: kept[key] for key in kept if kept[key] != after.get(key)})


def note_left_behind(state: State, scope: Scope) -> Steps[Update]:
    """Add the messages that a host removed since the last run to the step log.

    `track_run` calls this before each node, and then schedules the undo of their tool calls: the
    host's change itself could not ask a person to confirm it. A damaged branch is skipped; the
    event `segment_lost` reports it. The returned update clears the channel `left_behind`; it is
    empty if no host removed messages. It also changes `entry_id` if branches were made.
    """
    due = state.get("left_behind")
    if not due:
        return Update()
    there = {message.id for message in state["messages"]}
    live = live_branch(state)
    returned = [message for message in live.messages if message.id in due["returned"]]
    refs = state.get("branches", [])
    branches = yield from readable_branches(due["branches"], scope, refs)
    removed = [m for branch in branches for m in branch["messages"] if m.id not in there]
    if branches:
        whole = {**branches[-1], "messages": removed, "drafts": []}
        change = Change(
            live=live,
            writes=returned,
            branch=cast("StoredBranch", whole),
            keep=(),
            restored=(),
            only=None,
        )
        scope.step_log.changes.append(change)
        # The host may send a question again: what the store has of its attempts is over.
        return Update(left_behind=None, entry_id=next_entry_id(state, change))
    return Update(left_behind=None)


def _left_behind(
    before: State, branch_id: str | None, returned: Sequence[str | None]
) -> LeftBehind:
    """Return which branches a host made and which messages it added again, for the next run.

    `branch_id` is the branch of this change, `None` if it removed nothing; `returned` are the ids
    of messages that are in the transcript again. Earlier changes that no run has seen yet are
    included.
    """
    old = before.get("left_behind") or LeftBehind(branches=[], returned=[])
    branches = [*old["branches"], *([branch_id] if branch_id else [])]
    names = [*old["returned"], *(name or "" for name in returned)]
    return LeftBehind(branches=branches, returned=names)


def is_replaced(old: AnyMessage, new: AnyMessage) -> bool:
    """Return whether two messages with the same id say different things.

    Thinking and the form of the content do not count: front ends change them.
    """
    return _words(old) != _words(new)


def _words(message: AnyMessage) -> list[Any]:
    """Return a message's role, text and other parts, for comparing: front ends change its form."""
    parts = [part for part in parts_of(message) if not isinstance(part, Text | Thinking)]
    return [message.type, text_of(message), parts]


def logged_messages(state: State, scope: Scope) -> Steps[list[AnyMessage]]:
    """Return the messages that a state had, as the event log has them, without offloaded ones.

    It is for a state whose messages cannot be read. Empty without a store or an event log. Raises
    `EventLogGapError` if a part of the event log is missing or was changed.
    """
    log = state.get("event_log")
    if scope.address is None or log is None:
        return []
    messages = replay((yield from read_events(*scope.address, log))).messages
    offloaded = state.get("offloaded")
    if not offloaded:
        return messages
    ids = [message.id for message in messages]
    if offloaded["last"] not in ids:
        raise event_chain(*scope.address).damaged(log["page_id"])
    return messages[ids.index(offloaded["last"]) + 1 :]


def _only(state: State, keys: Sequence[str]) -> dict[str, Any]:
    return {key: value for key, value in state.items() if key in keys}


def _loaded(before: State, remaining: Sequence[str | None], scope: Scope) -> Steps[State]:
    """Return `before` with the offloaded messages loaded that the host may have removed.

    `remaining` are the ids of the host's messages. Messages are loaded back to the oldest of these,
    or all if there are none. `before` itself is returned if its first message remains. Raises
    `DatabaseCorruptError` if a segment is missing or damaged.
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
    """Return an update with only the event log's head, made to fit the host's state.

    It is the head in `update`, with the length and digest of the messages that the host kept:
    those of `change.live` with an id in `remaining`. Empty if `update` does not write the head.
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
