"""Record events: a step's events are written to the event log before its update is committed.

After a crash between the two, the state's head does not reach the new page, so the event log and the
transcript always agree.
"""

import zlib
from collections.abc import Collection, Sequence
from itertools import chain

from langchain_core.messages import AnyMessage

from unsay.effects import Steps
from unsay.events.event_types import (
    NewEvent,
    Stamp,
    checkpoint,
    edit,
    rollback,
    split_message,
    stamped,
)
from unsay.history.branch import Change
from unsay.history.checkpoints import add_checkpoint
from unsay.runtime import Scope
from unsay.state import EventLogHead, State, Update, merge_messages, offloaded_of
from unsay.storage.event_log import Head, head_of, make_page, put_page
from unsay.storage.items import packed
from unsay.types import Checkpoint, Event

# The head while the event log has no page.
EMPTY = EventLogHead(page_id=None, count=0, length=0, digest=0)


def log_rollback(scope: Scope, change: Change) -> None:
    """Add a change and its events to the step log, unless it removes and restores nothing."""
    branch = change.branch
    if not branch["messages"] and not branch["drafts"] and not change.restored:
        return
    drafts = [message.id or "" for message in branch["drafts"]]
    event = rollback(
        branch["id"],
        branch["kind"],
        branch["base"],
        removed=[*(message.id or "" for message in branch["messages"]), *drafts],
        reason=branch["reason"],
        keep=change.keep,
        drafts=() if change.restored else drafts,
        restored=change.restored,
        only=change.only,
    )
    scope.step_log.changes.append(change)
    scope.step_log.new_events += [*chain.from_iterable(map(split_message, branch["drafts"])), event]
    written = {write.id for write in change.writes if write.type != "remove"}
    scope.step_log.returned |= written - set(change.keep)


def log_checkpoints(state: State, scope: Scope, due: Sequence[Checkpoint]) -> None:
    """Add checkpoints to the step log as they will be stored: merged with those of the same message."""
    kept = list(state.get("checkpoints", []))
    for new in due:
        kept = add_checkpoint(kept, new, limit=scope.settings.checkpoint_limit)
    ids = {new["id"] for new in due}
    scope.step_log.later_events += [checkpoint(each) for each in kept if each["id"] in ids]


def write_ahead(state: State, scope: Scope, update: Update) -> Steps[Update]:
    """Write a step's events, if there is a store, and return its update with the log's new head."""
    step_log = scope.step_log
    if step_log.pending_compensations:
        known_calls = update.get("pending_compensations", state.get("pending_compensations", []))
        pending_compensations = [*known_calls, *step_log.pending_compensations]
        update = {**update, "pending_compensations": pending_compensations}
    if scope.address is None:
        return update
    if state.get("offloaded") and offloaded_of(state) is None:
        update = {"offloaded": None, **update}
    writes = update.get("messages", [])
    if not writes and not step_log.new_events and not step_log.later_events:
        return update
    known = {message.id for message in state.get("messages", [])} | step_log.returned
    new = [each for each in writes if each.type != "remove" and each.id not in known]
    head = state.get("event_log", EMPTY)
    entered, digest = _entered(state, step_log.returned)
    new_events: list[NewEvent] = [
        *entered,
        *step_log.new_events,
        *chain.from_iterable(map(split_message, new)),
        *step_log.later_events,
    ]
    events = _events(new_events, state, scope, update)
    place = Head(page_id=head["page_id"], count=head["count"])
    if events:
        page = make_page(head, events)
        yield put_page(*scope.address, page)
        place = head_of(page)
    transcript = state.get("messages", [])
    if len(new) == len(writes):  # Nothing was replaced or removed, so the digest can be continued.
        transcript, digest = [*transcript, *new], digest_of(new, digest)
    else:
        transcript = merge_messages(transcript, [writes])
        digest = digest_of(transcript)
    event_log = EventLogHead(**place, length=len(transcript), digest=digest, ends=_ends(transcript))
    return {**update, "event_log": event_log}


def _events(
    new_events: Sequence[NewEvent], state: State, scope: Scope, update: Update
) -> list[Event]:
    turn = update.get("turn") or state.get("turn")
    stamp = Stamp(
        thread_id=scope.thread_id or "",
        at=scope.now(),
        run_id=scope.run_id,
        turn_id=turn["question_id"] if turn else None,
        labels=scope.labels,
        after=state.get("event_log", EMPTY)["count"],
    )
    return stamped(new_events, stamp)


def _ends(transcript: Sequence[AnyMessage]) -> list[str]:
    """Return ids of the first message and of those 1, 2, 4, 8 … places before the end."""
    # If a host removes the end of the transcript, one of these ids is left in the rest, unless the
    # rest is shorter than what was removed.
    places = [len(transcript) - 2**power for power in range(len(transcript).bit_length())]
    return [transcript[each].id or "" for each in dict.fromkeys((*places, 0)) if transcript]


def _entered(state: State, logged: Collection[str]) -> tuple[list[NewEvent], int]:
    """Return the events of a host's changes, except of `logged` ids, and the transcript's checksum."""
    head, transcript = state.get("event_log", EMPTY), state.get("messages", [])
    if not edited_by_host(state):
        entered = transcript[head["length"] :]
        new_events = [each for m in entered if m.id not in logged for each in split_message(m)]
        return new_events, digest_of(entered, head["digest"])
    offloaded = offloaded_of(state)
    after = offloaded["last"] if offloaded else None
    return [edit(transcript, after=after)], digest_of(transcript)


def edited_by_host(state: State) -> bool:
    """Return whether a host changed or removed messages that have events; new messages do not count."""
    head = state.get("event_log", EMPTY)
    known = state.get("messages", [])[: head["length"]]
    return len(known) != head["length"] or digest_of(known) != head["digest"]


def digest_of(transcript: Sequence[AnyMessage], start: int = 0) -> int:
    """Return the checksum of messages with ids, continued from `start`, that of earlier messages."""
    several = packed([[each.type, *vars(each).values()] for each in transcript])
    # MessagePack begins a list with its length, in 1, 3 or 5 bytes ("array format family"): without
    # them the checksum of a list continues that of its beginning.
    header = 1 if len(transcript) < 2**4 else 3 if len(transcript) < 2**16 else 5
    return zlib.crc32(several[header:], start)


def unlogged_events(state: State, scope: Scope) -> list[Event]:
    """Return the events of messages that a host added since the last page, for readers of the log."""
    entered, _ = _entered(state, scope.step_log.returned)
    return _events(entered, state, scope, Update())
