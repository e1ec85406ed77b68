"""Events of a step, written to the event log before the step's update is committed.

A page that a crash left behind is not reachable from the head in the state, so that the
event log and the transcript always agree.
"""

import zlib
from collections.abc import Collection, Sequence
from itertools import chain

from langchain_core.messages import AnyMessage

from unsay.effects import Steps
from unsay.events.envelopes import take_apart
from unsay.events.event_types import Happening, Stamp, checkpoint, edit, rollback, stamped
from unsay.history.branch import Change
from unsay.history.checkpoints import add_checkpoint
from unsay.runtime import Scope
from unsay.state import LedgerHead, State, Update, merge_messages, offloaded_of
from unsay.storage.event_log import Head, head_of, make_page, put_page
from unsay.storage.items import packed
from unsay.types import Checkpoint, Event

EMPTY = LedgerHead(page_id=None, count=0, length=0, digest=0)
"""The head while the event log has no page."""


def log_move(scope: Scope, change: Change) -> None:
    """Note a change of the transcript, and the drafts that its branch keeps."""
    cut = change.cut
    if not cut["messages"] and not cut["drafts"] and not change.restored:
        return
    drafts = [message.id or "" for message in cut["drafts"]]
    move = rollback(
        cut["id"],
        cut["kind"],
        cut["base"],
        removed=[*(message.id or "" for message in cut["messages"]), *drafts],
        reason=cut["reason"],
        keep=change.keep,
        drafts=() if change.restored else drafts,
        restored=change.restored,
        only=change.only,
    )
    scope.journal.changes.append(change)
    scope.journal.happenings += [*chain.from_iterable(map(take_apart, cut["drafts"])), move]
    brought = {write.id for write in change.writes if write.type != "remove"}
    scope.journal.returned |= brought - set(change.keep)


def log_checkpoints(state: State, scope: Scope, due: Sequence[Checkpoint]) -> None:
    """Note checkpoints as they will be kept, after the step's own messages."""
    kept = list(state.get("checkpoints", []))
    for mark in due:
        kept = add_checkpoint(kept, mark, limit=scope.settings.checkpoint_limit)
    names = {mark["id"] for mark in due}
    scope.journal.afterwards += [checkpoint(mark) for mark in kept if mark["id"] in names]


def write_ahead(state: State, scope: Scope, update: Update) -> Steps[Update]:
    """Write a step's events to the store, and return its update with the event log's new head.

    If nothing happened, or without a store, only the calls to undo are added.
    """
    journal = scope.journal
    if journal.owed:
        owed = [*update.get("owed", state.get("owed", [])), *journal.owed]
        update = {**update, "owed": owed}
    if scope.address is None:
        return update
    if state.get("sealed") and offloaded_of(state) is None:
        update = {"sealed": None, **update}
    writes = update.get("messages", [])
    if not writes and not journal.happenings and not journal.afterwards:
        return update
    known = {message.id for message in state.get("messages", [])} | journal.returned
    new = [each for each in writes if each.type != "remove" and each.id not in known]
    head = state.get("ledger", EMPTY)
    entered, digest = _entered(state, journal.returned)
    happenings: list[Happening] = [
        *entered,
        *journal.happenings,
        *chain.from_iterable(map(take_apart, new)),
        *journal.afterwards,
    ]
    events = _events(happenings, state, scope, update)
    place = Head(page_id=head["page_id"], count=head["count"])
    if events:
        page = make_page(head, events)
        yield put_page(*scope.address, page)
        place = head_of(page)
    record = state.get("messages", [])
    if len(new) == len(writes):  # nothing was replaced or removed: the digest is continued
        record, digest = [*record, *new], digest_of(new, digest)
    else:
        record = merge_messages(record, [writes])
        digest = digest_of(record)
    ledger = LedgerHead(**place, length=len(record), digest=digest, ends=_ends(record))
    return {**update, "ledger": ledger}


def _events(
    happenings: Sequence[Happening], state: State, scope: Scope, update: Update
) -> list[Event]:
    turn = update.get("turn") or state.get("turn")
    stamp = Stamp(
        thread_id=scope.thread_id or "",
        at=scope.now(),
        run_id=scope.run_id,
        turn_id=turn["question_id"] if turn else None,
        labels=scope.labels,
        after=state.get("ledger", EMPTY)["count"],
    )
    return stamped(happenings, stamp)


def _ends(record: Sequence[AnyMessage]) -> list[str]:
    """Ids of the first message, and of ever fewer the farther from the last.

    Of any stretch that a host leaves, one id is among them unless more was removed after it than it
    is long.
    """
    places = [len(record) - 2**power for power in range(len(record).bit_length())]
    return [record[each].id or "" for each in dict.fromkeys((*places, 0)) if record]


def _entered(state: State, logged: Collection[str]) -> tuple[list[Happening], int]:
    """What a host did since the last step, unless the event log has it, and the messages' digest."""
    head, record = state.get("ledger", EMPTY), state.get("messages", [])
    if not edited_by_host(state):
        entered = record[head["length"] :]
        happenings = [each for m in entered if m.id not in logged for each in take_apart(m)]
        return happenings, digest_of(entered, head["digest"])
    offloaded = offloaded_of(state)
    after = offloaded["last"] if offloaded else None
    return [edit(record, after=after)], digest_of(record)


def edited_by_host(state: State) -> bool:
    """Return whether the transcript no longer begins as the event log says."""
    head = state.get("ledger", EMPTY)
    known = state.get("messages", [])[: head["length"]]
    return len(known) != head["length"] or digest_of(known) != head["digest"]


def digest_of(record: Sequence[AnyMessage], start: int = 0) -> int:
    """Compute the checksum of messages with ids; `start` is that of the messages before them."""
    several = packed([[each.type, *vars(each).values()] for each in record])
    # MessagePack begins a list with its length, in 1, 3 or 5 bytes ("array format family"): without
    # them the checksum of a list continues that of its beginning.
    header = 1 if len(record) < 2**4 else 3 if len(record) < 2**16 else 5
    return zlib.crc32(several[header:], start)


def unlogged_events(state: State, scope: Scope) -> list[Event]:
    """Return the events of what entered since the last page, with which the next one begins."""
    entered, _ = _entered(state, scope.journal.returned)
    return _events(entered, state, scope, Update())
