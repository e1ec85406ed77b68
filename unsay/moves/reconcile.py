"""Keep as a branch the messages that a host's change removes from the transcript."""

import hashlib
import logging
from collections.abc import Collection, Iterable, Sequence
from itertools import chain, zip_longest
from typing import Any, Literal, cast

from langchain_core.messages import AnyMessage, RemoveMessage, messages_from_dict
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from unsay.context.compaction import without_spans
from unsay.context.topics import live_topics, without_summary
from unsay.effects import Steps
from unsay.errors import DatabaseCorruptError, UnsayError
from unsay.events.event_types import canonical
from unsay.events.transcript_replay import replay
from unsay.history.branch import Change, Label, as_one, take_out
from unsay.history.compensations import Compensation
from unsay.history.runs import run_named_after
from unsay.log.ranges import positions_of
from unsay.memory.offload import load_differing, load_segments, put_back
from unsay.messages.annotations import KEY, annotation_of, is_document, spoken, with_annotation
from unsay.messages.content import has_sources, sources_of, text_of, words_of
from unsay.orders.parse import parse_command
from unsay.runtime import Scope
from unsay.state import (
    LeftBehind,
    State,
    Update,
    merge_messages,
    offloaded_of,
    with_update,
)
from unsay.storage.event_log import read_events
from unsay.storage.pages import event_chain
from unsay.storage.segments import offloaded_ids, read_back
from unsay.transcript import record
from unsay.transcript.live import (
    live_branch,
    next_entry_id,
    readable_branches,
    save_branch,
    settle,
    with_step,
)
from unsay.transcript.pending import find_pending
from unsay.types import Operation, StoredBranch

LOG = logging.getLogger(__name__)


def load_resent(state: State, scope: Scope) -> Steps[Update]:
    """Return the update that loads offloaded messages which a front end sent again; maybe empty.

    If one of the segments is missing or damaged, nothing is loaded, and the update removes the copies
    that were sent: at the end of the transcript they would be new messages. The event `segment_lost`
    reports it.
    """
    resent = possibly_resent(state, scope)
    if not resent:
        return Update()
    try:
        return (yield from put_back(state, scope, resent))
    except DatabaseCorruptError as error:
        LOG.warning("thread=%r reason=%r resent messages are left out", scope.thread_id, str(error))
        scope.emit("segment_lost", error=str(error))
    assert scope.address is not None  # noqa: S101 - only a store has segments
    newest = state["messages"][-1].id  # the question, whatever its id is
    copies = yield from offloaded_ids(*scope.address, offloaded_of(state), resent - {newest})
    return Update(messages=[RemoveMessage(id=name) for name in copies]) if copies else Update()


def possibly_resent(state: State, scope: Scope) -> set[str | None]:
    """Return the ids of the messages that entered in this step: each may be offloaded already.

    Some front ends send all of their messages with each question. The result is empty if only one
    question entered and it is new: no run for it was completed. It does not depend on a store.
    """
    entered = state["messages"][state.get("event_log", record.EMPTY)["length"] :]
    spoken_now = [message for message in entered if not is_document(message)]
    fresh = {run_named_after(scope.thread_id, message.id) for message in spoken_now}
    if len(spoken_now) <= 1 and (scope.named or scope.run_id in fresh):
        return set()
    return {message.id for message in entered}


# In `own_writes`, instead of a hash: the call is undone.
UNDONE = ""


def false_claims(state: State, scope: Scope) -> Steps[list[AnyMessage]]:
    """Return corrected copies of the messages whose annotations (verdicts, …) unsay did not write.

    The result is empty if there are none. An annotation that unsay wrote and a host dropped from an
    otherwise equal message is put back.
    """
    messages, head = state.get("messages", []), record.known_part(state, scope)
    own: dict[tuple[str | None, str], AnyMessage] = {}
    left_behind = state.get("left_behind") if scope.address is not None else None
    # Messages to which a host went back are not new, although they come after the logged ones.
    if record.edited_since(head, messages) or (left_behind and left_behind["returned"]):
        own = yield from _own_messages(state, scope)
        entered: Sequence[AnyMessage] = messages
    else:
        entered = messages[head["length"] :]
        own = yield from _own_offloaded(state, scope)
    place = scope.config.get("configurable", {})
    is_alone = "|" not in place.get("checkpoint_ns", "") and place.get(CONFIG_KEY_CHECKPOINTER)
    is_logged = head["length"] or is_alone or not scope.in_graph
    corrected = []
    for message in entered:
        own_message = own.get((message.id, record.message_body(message))) if own else None
        allowed = annotation_of(own_message) if own_message else {}
        if not is_logged and own_message is None:
            allowed = _harmless(message, messages)
        if allowed != message.response_metadata.get(KEY, {}):
            corrected.append(with_annotation(message, allowed))
    return corrected


def trusted(state: State, scope: Scope) -> Steps[State]:
    """Return a stored state as readers may believe it.

    It has only annotations that unsay wrote, and no summary of a message that was removed.
    """
    return without_stale(with_messages(state, (yield from false_claims(state, scope))))


def without_stale(state: State) -> State:
    """Return the state without summaries of messages that somebody removed or rewrote.

    A host can change messages between any two nodes, and so can the graph around this one. What an
    earlier version summarized names no sources, and is summarized again.
    """
    messages, topics = state.get("messages", []), state.get("topics", [])
    compaction = state.get("compaction")
    if not compaction and not any(each["summary"] for each in topics):
        return state
    sources = set(sources_of(messages, offloaded_of(state)))
    sourced_topics = [each if "sources" in each else without_summary(each) for each in topics]
    fresh: State = {**state, "topics": live_topics(messages, sourced_topics, sources)}
    if compaction:
        fresh["compaction"] = without_spans(
            compaction,
            lambda span: "sources" not in span or not has_sources(span, sources),
            later=True,
        )
    return fresh


def with_messages(state: State, corrected: Sequence[AnyMessage]) -> State:
    """Return a state in which corrected messages replace those with the same ids."""
    if not corrected:
        return state
    return {**state, "messages": merge_messages(state["messages"], [list(corrected)])}


def preceded_by(corrected: Sequence[AnyMessage], update: Update) -> Update:
    """Return an update that writes corrected messages, if there are any, before its own."""
    if not corrected:
        return update
    return {**update, "messages": [*corrected, *update.get("messages", [])]}


def _own_messages(state: State, scope: Scope) -> Steps[dict[tuple[str | None, str], AnyMessage]]:
    """Return by id and body the messages that the thread had before a host edited it.

    They come from the event log, with those of branches, to which a host can go back; without a
    store they are those that `own_writes` proves to be unchanged. Empty if the event log cannot be
    read.
    """
    log = state.get("event_log")
    if scope.address is not None and log is not None:
        try:
            replay_result = replay((yield from read_events(*scope.address, log)))
            return _by_body(
                [*chain.from_iterable(replay_result.branches.values()), *replay_result.messages]
            )
        except UnsayError:  # A log that cannot be read proves nothing.
            return {}
    tags = state.get("own_writes", record.NOTHING)["annotated"]
    messages = state.get("messages", [])
    return _by_body(
        [m for m in messages if m.id in tags and tags[m.id] == record.annotation_tag(m)]
    )


def _by_body(messages: Iterable[AnyMessage]) -> dict[tuple[str | None, str], AnyMessage]:
    return {(message.id, record.message_body(message)): message for message in messages}


def _own_offloaded(state: State, scope: Scope) -> Steps[dict[tuple[str | None, str], AnyMessage]]:
    """Return by id and body the messages of offloaded segments that hold a message of the input.

    Empty without a store, if no message of the input can be offloaded, and if one of these segments
    is missing or damaged.
    """
    if scope.address is None or offloaded_of(state) is None:
        return {}
    resent = possibly_resent(state, scope)
    if not resent:
        return {}
    try:
        segments = yield from read_back(*scope.address, offloaded_of(state), resent)
    except DatabaseCorruptError:  # `load_resent` reports it
        return {}
    return _by_body(message for segment in segments for message in segment.messages)


def _harmless(message: AnyMessage, messages: Sequence[AnyMessage]) -> dict[str, Any]:
    """Return what is kept of an annotation where no log is: that a notice answers commands.

    Empty for other messages. A host without a checkpointer sends notices back with every input.
    Without the annotation a model would be sent the commands and their notices.
    """
    annotation = annotation_of(message)
    names = annotation.get("answers") if annotation.get("kind") == "notice" else []
    commands = [m.id for m in messages if m.type == "human" and parse_command(text_of(m))]
    answers = [name for name in names if name in commands] if isinstance(names, list) else []
    return {"kind": "notice", "answers": answers} if answers and message.type == "ai" else {}


def call_tag(call: Compensation) -> str:
    """Return a hash of a call's tool, arguments and result; `is_own_call` finds it in `own_writes`."""
    text = canonical([call.tool, call.args, call.result])
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def is_own_call(call: Compensation, state: State, scope: Scope) -> bool:
    """Return whether `own_writes` shows that this thread's tool loop made the call.

    It is always `False` with a store, which has the entries of the calls.
    """
    if scope.address is not None:
        return False
    return _recorded(state, scope).get(call.key, "").partition(" ")[0] == call_tag(call)


def failed_tag(call: Compensation, error: str) -> str:
    """Return what `own_writes` has for a call whose undo failed: its hash, then the error."""
    return f"{call_tag(call)} {error}"


def error_of_undo(call: Compensation, state: State, scope: Scope) -> str:
    """Return why the call's undo failed before, as `own_writes` has it; empty if it did not fail.

    It is also empty if a host changed the call, and with a store.
    """
    if not is_own_call(call, state, scope):
        return ""
    return _recorded(state, scope)[call.key].partition(" ")[2]


def was_undone(call: Compensation, state: State, scope: Scope) -> bool:
    """Return whether the call's undo was scheduled before and did not fail; `False` with a store.

    `own_writes` and the log of the step say so. Such a call is not scheduled again.
    """
    return _recorded(state, scope).get(call.key) == UNDONE


def _recorded(state: State, scope: Scope) -> dict[str, str]:
    return {**state.get("own_writes", record.NOTHING)["calls"], **scope.step_log.calls}


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
    base_state = newest if target is None else target
    segment_update = Update()
    if offloaded := offloaded_of(base_state):
        removes = {each.id for write in writes for each in write if each.type == "remove"}
        # A front end sends messages again with its question: a run loads those that it removes.
        target_ids = {each.id for write in writes for each in write if door == "update"} | removes
        if removes and door == "update":
            # A host that removed all messages of the state would empty the thread.
            target_ids.add(offloaded["last"])
        if door == "parent":
            target_ids = {None} if REMOVE_ALL_MESSAGES in removes else set()
        segment_update = yield from load_segments(base_state, scope, target_ids)
    begun = _with_loaded(base_state, segment_update)
    messages = begun.get("messages", [])
    message_ids = {message.id for message in messages}
    merged_messages = merge_messages(messages, writes)
    after: State = {**begun, "messages": [m for m in merged_messages if m.id in message_ids]}
    added = yield from _added(begun, merged_messages[len(after["messages"]) :], scope, door)
    if target is None:
        if all(old is new for old, new in zip_longest(messages, after["messages"])):
            end = live_branch(begun).id_at(len(messages) - 1)
            return {**segment_update, **_step(newest, [], end, added)} if added else Update()
        is_same = len(messages) == len(after["messages"])
        reason = "the host replaced messages" if is_same else "the host removed messages"
    # No run has checked yet what earlier updates of the host added.
    before = with_messages(newest, (yield from false_claims(newest, scope)))
    whole = _with_loaded(before, segment_update if target is None else Update())
    if not after["messages"]:
        after["offloaded"] = segment_update["offloaded"] = None  # the offloaded ones leave as well
    ours, theirs = yield from load_differing(whole, after, scope)
    segment_update = {**segment_update, **theirs}
    whole, after = _with_loaded(whole, ours), _with_loaded(after, theirs)
    state_update = yield from _kept(before, whole, after, added, scope, reason)
    current = {**base_state, **segment_update}
    return cast(
        "Update",
        {**segment_update, **{k: v for k, v in state_update.items() if v != current.get(k)}},
    )


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
    old_ids: list[str] = []
    if scope.address is not None:
        ids = [message.id for message in new]
        old_ids = yield from offloaded_ids(*scope.address, offloaded_of(state), ids)
    return [message for message in new if message.id not in old_ids]


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
    leaving_ids = [
        message.id for message in live.messages if words.get(message.id) != words_of(message)
    ]
    # A state with messages that the newest one lacks keeps its own steps.
    has_all_messages = {message.id for message in live.messages}.issuperset(remaining)
    result = whole if has_all_messages else cast("State", {**whole, **_only(after, STEPS)})
    base = live_branch(after).id_at(len(remaining) - 1)
    # A branch for each run of adjacent messages, so that each returns to its own place.
    label = Label(kind="host", reason=reason, created_at=scope.now())
    changes = take_out(live, leaving_ids, label)
    if changes:
        base, refs = changes[-1].branch["base"], whole.get("branches", [])
        for each in changes:
            refs = save_branch(each, scope, refs)
        change = as_one(live, changes, label)
        branch_update = settle(whole, change, refs)
        # A replaced message is at the same place as before, so its topic begins there.
        branch_update["segments"] = [
            s for s in whole.get("segments", []) if s["start"] in remaining
        ]
        update = yield from record.write_ahead(before, scope, branch_update)
        head = _log_head(update, change, remaining, scope)
        result = cast("State", {**result, **update, **head})
    result = cast("State", {**result, **_step(result, changes, base, added)})
    returned = [name for name in remaining if name not in live.positions()]
    if changes or returned:
        # Earlier changes of a host that no run has seen yet are included.
        old = before.get("left_behind") or LeftBehind(branches=[], returned=[])
        branches = [*old["branches"], *(each.branch["id"] for each in changes)]
        names = [*old["returned"], *(name or "" for name in returned)]
        result = {**result, "left_behind": LeftBehind(branches=branches, returned=names)}
    state_values = _only(result, [*LASTING, *STEPS, *(DESCRIBING if has_all_messages else ())])
    if "own_writes" in before and "own_writes" in after:
        # The proof of calls that were made later: they are undone now, or return with their branch.
        calls = {**after["own_writes"]["calls"], **before["own_writes"]["calls"]}
        state_values["own_writes"] = {**after["own_writes"], "calls": calls}
    return cast("Update", state_values)


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


def logged_messages(state: State, scope: Scope) -> Steps[list[AnyMessage]]:
    """Return the messages that a state had, as the event log has them, without offloaded ones.

    It is for a state whose messages cannot be read. Empty without a store or an event log. Raises
    `EventLogGapError` if a part of the event log with these messages is missing or was changed.
    """
    log = state.get("event_log")
    if scope.address is None or log is None:
        return []
    places = positions_of(log["live"])
    trees = yield from event_chain(*scope.address).read_bodies(log, places)
    return cast("list[AnyMessage]", messages_from_dict([trees[place] for place in places]))


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


def _log_head(
    update: Update, change: Change, remaining: Collection[str | None], scope: Scope
) -> Update:
    """Return an update with only the event log's head, made to fit the host's state.

    It is the head in `update`, for the messages that the host kept: those of `change.live` with an id
    in `remaining`. Empty if `update` does not write the head.
    """
    if "event_log" not in update:
        return Update()
    kept: list[AnyMessage] = [m for m in change.live.messages if m.id in remaining]
    digest, positions = record.digest_of(kept), scope.step_log.positions
    return Update(event_log=record.log_head(update["event_log"], kept, digest, positions))
