"""Keep as a branch the messages that a host's change removes from the transcript."""

from collections.abc import Collection, Sequence
from itertools import zip_longest
from typing import Any, Literal, cast

from langchain_core.messages import AnyMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from unsay.effects import Steps
from unsay.events.transcript_replay import replay
from unsay.history.branch import Change, Label
from unsay.history.parts import as_one, take_out
from unsay.messages.annotations import spoken
from unsay.messages.sources import words_of
from unsay.operations.offload import load_differing, load_segments
from unsay.operations.pending import find_pending
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
from unsay.state import (
    EventLogHead,
    LeftBehind,
    State,
    Update,
    merge_messages,
    offloaded_of,
    with_update,
)
from unsay.storage.event_log import event_chain, read_events
from unsay.storage.segments import offloaded_ids
from unsay.types import Operation, StoredBranch

Door = Literal["update", "run", "parent"]
"""How a host's messages enter: by `add` or `update_state`, in a run's input, or from a parent graph."""

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


def prepare_change(
    newest: State,
    target: State | None,
    writes: Sequence[Sequence[Any]],
    scope: Scope,
    door: Door,
    reason: str = "the host went on from an earlier state",
) -> Steps[Update]:
    """Keep what a host's messages remove, and return the values to write before these messages.

    What leaves the transcript becomes a branch, and is written to the event log. `undo` reverses the
    change together with what the host adds. Offloaded messages that the change concerns are loaded.

    Args:
        newest: The newest state of the thread.
        target: The earlier state from which the host continues; `None` is the newest.
        writes: What the host writes to `messages`.
        scope: The scope of the thread.
        door: How the messages enter.
        reason: Why a host goes to an earlier state, for lists of branches.

    Returns:
        The values to write to `target`; empty if nothing has to be kept.

    Raises:
        DatabaseCorruptError: A segment with offloaded messages that are needed is damaged.
        InputError: A message that the host removes cannot be stored.
    """
    stored = newest if target is None else target
    loaded = Update()
    if offloaded := offloaded_of(stored):
        removes = {each.id for write in writes for each in write if each.type == "remove"}
        # A front end sends messages again with its question: a run loads those that it removes.
        wanted = {each.id for write in writes for each in write if door == "update"} | removes
        if removes and door == "update":
            # A host that removed all messages of the state would empty the thread.
            wanted.add(offloaded["last"])
        if door == "parent":
            wanted = {None} if REMOVE_ALL_MESSAGES in removes else set()
        loaded = yield from load_segments(stored, scope, wanted)
    begun = _with_loaded(stored, loaded)
    messages = begun.get("messages", [])
    known = {message.id for message in messages}
    changed = merge_messages(messages, writes)
    after: State = {**begun, "messages": [m for m in changed if m.id in known]}
    added = yield from _added(begun, changed[len(after["messages"]) :], scope, door)
    if target is None:
        if all(old is new for old, new in zip_longest(messages, after["messages"])):
            end = live_branch(begun).id_at(len(messages) - 1)
            return {**loaded, **_step(newest, [], end, added)} if added else Update()
        is_same = len(messages) == len(after["messages"])
        reason = "the host replaced messages" if is_same else "the host removed messages"
    # No run has checked yet what earlier updates of the host added.
    before = with_messages(newest, (yield from false_claims(newest, scope)))
    whole = _with_loaded(before, loaded if target is None else Update())
    if not after["messages"]:
        after["offloaded"] = loaded["offloaded"] = None  # the offloaded ones leave as well
    ours, theirs = yield from load_differing(whole, after, scope)
    loaded = {**loaded, **theirs}
    whole, after = _with_loaded(whole, ours), _with_loaded(after, theirs)
    kept = yield from _kept(before, whole, after, added, scope, reason)
    current = {**stored, **loaded}
    return cast("Update", {**loaded, **{k: v for k, v in kept.items() if v != current.get(k)}})


def _with_loaded(state: State, loaded: Update) -> State:
    """Return a state with loaded segments, and with the event log's head unchanged."""
    return cast("State", {**with_update(state, loaded), **_only(state, ["event_log"])})


def _added(
    state: State, new: Sequence[AnyMessage], scope: Scope, door: Door
) -> Steps[list[AnyMessage]]:
    """Return the `new` messages of a host that are a step of their own; `state` lacks them.

    They are not the question of a run, nor what other nodes of a parent wrote: these belong to turns.
    Nor are they messages that a front end sent again, although they are offloaded.
    """
    if door == "run":
        new = new[: find_pending(new, None).start]
    if door == "parent" or not new:
        return []
    known: list[str] = []
    if scope.address is not None:
        ids = [message.id for message in new]
        known = yield from offloaded_ids(*scope.address, offloaded_of(state), ids)
    return [message for message in new if message.id not in known]


def _kept(
    before: State,
    whole: State,
    after: State,
    added: Sequence[AnyMessage],
    scope: Scope,
    reason: str,
) -> Steps[Update]:
    """Store what a host removes as a branch; return the values for the state of the host.

    `before` is the newest state, and `whole` the same with its messages loaded, so that it has as
    much offloaded as `after`, the state from which the host continues.
    """
    remaining = [message.id for message in after.get("messages", [])]
    live = live_branch(whole)
    words = {message.id: words_of(message) for message in after.get("messages", [])}
    # A message that the host replaced under its id leaves, too.
    left = [message.id for message in live.messages if words.get(message.id) != words_of(message)]
    # A state with messages that the newest one lacks keeps its own steps.
    known = {message.id for message in live.messages}.issuperset(remaining)
    result = whole if known else cast("State", {**whole, **_only(after, STEPS)})
    base = live_branch(after).id_at(len(remaining) - 1)
    # A branch for each run of adjacent messages, so that each returns to its own place.
    label = Label(kind="host", reason=reason, created_at=scope.now())
    changes = take_out(live, left, label)
    if changes:
        base, refs = changes[-1].branch["base"], whole.get("branches", [])
        for each in changes:
            refs = save_branch(each, scope, refs)
        change = as_one(live, changes, label)
        moved = settle(whole, change, refs)
        # A replaced message is at the same place as before, so its topic begins there.
        moved["segments"] = [s for s in whole.get("segments", []) if s["start"] in remaining]
        update = yield from write_ahead(before, scope, moved)
        result = cast("State", {**result, **update, **_log_head(update, change, remaining)})
    result = cast("State", {**result, **_step(result, changes, base, added)})
    returned = [name for name in remaining if name not in live.positions()]
    if changes or returned:
        result = {**result, "left_behind": _left_behind(before, changes, returned)}
    kept = _only(result, [*LASTING, *STEPS, *(DESCRIBING if known else ())])
    if "own_writes" in before and "own_writes" in after:
        # The proof of calls that were made later: they are undone now, or return with their branch.
        calls = {**after["own_writes"]["calls"], **before["own_writes"]["calls"]}
        kept["own_writes"] = {**after["own_writes"], "calls": calls}
    return cast("Update", kept)


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
    if scope.address is not None:
        # A message that the host replaced may be offloaded by now.
        ids = [message.id for message in removed]
        offloaded = yield from offloaded_ids(*scope.address, offloaded_of(state), ids)
        removed = [message for message in removed if message.id not in offloaded]
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
    before: State, changes: Sequence[Change], returned: Sequence[str | None]
) -> LeftBehind:
    """Return which branches a host made and which messages it added again, for the next run.

    `changes` made the branches, and `returned` are the ids of messages that are in the transcript
    again. Earlier changes that no run has seen yet are included.
    """
    old = before.get("left_behind") or LeftBehind(branches=[], returned=[])
    branches = [*old["branches"], *(each.branch["id"] for each in changes)]
    names = [*old["returned"], *(name or "" for name in returned)]
    return LeftBehind(branches=branches, returned=names)


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


def _step(
    state: State, changes: Sequence[Change], base: str | None, added: Sequence[AnyMessage]
) -> Update:
    """Return the update with the step of a host's change; empty if there is nothing to undo.

    The `changes` removed messages after `base`, and `added` are new.
    """
    removed = [message for each in changes for message in each.branch["messages"]]
    if not spoken(removed) and not added:
        return Update()
    branches = [each.branch["id"] for each in changes]
    step = Operation(kind="rollback" if changes else "add", base=base, branches=branches)
    # An undo must not remove the messages that stayed behind the base.
    if added or any(each.keep for each in changes):
        step["ids"] = [message.id or "" for message in (*removed, *added)]
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
