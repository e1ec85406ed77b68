"""What a step did, written to the ledger before the step's update is committed.

A page that a crash left behind is not reachable from the head in the state, so the
ledger and the record always say the same.
"""

import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from langchain_core.messages import AnyMessage

from unsay.effects import Steps
from unsay.events.event_types import (
    Stamp,
    checkpoint,
    distinct,
    edit,
    events_of,
    fold,
    forget,
    pin,
    planner_note,
    recall,
    rollback,
    unfold,
    verdict,
)
from unsay.history.branch import Change
from unsay.history.checkpoints import add_checkpoint
from unsay.messages.annotations import mark_of
from unsay.runtime import Happening, Scope
from unsay.state import LedgerHead, State, Update, merge_messages, offloaded_of
from unsay.storage.event_log import Head, head_of, make_page, put_page
from unsay.storage.items import packed
from unsay.types import Checkpoint, Event, Forgotten, Topic

EMPTY = LedgerHead(page_id=None, count=0, length=0, digest=0)
"""Of a thread whose ledger has no page yet."""


def log_verdict(scope: Scope, stamped: AnyMessage) -> None:
    """Note what a judge said about a message that is on the record already."""
    name, mark = stamped.id or "", mark_of(stamped)
    scope.journal.happenings.append(lambda stamp: [verdict(name, mark, stamp=stamp)])


def log_move(scope: Scope, change: Change) -> None:
    """Note a change of the record, and the draft that its cut keeps."""
    cut = change.cut
    if not cut["messages"] and not cut["drafts"] and not change.restored:
        return
    scope.journal.changes.append(change)
    scope.journal.happenings += [partial(_message, draft) for draft in cut["drafts"]]
    scope.journal.happenings.append(partial(_move, change))
    brought = {write.id for write in change.writes if write.type != "remove"}
    scope.journal.returned |= brought - set(change.keep)


def _message(message: AnyMessage, stamp: Stamp) -> list[Event]:
    return events_of(message, stamp=stamp)


def _move(change: Change, stamp: Stamp) -> list[Event]:
    cut = change.cut
    drafts = [message.id or "" for message in cut["drafts"]]
    removed = [*(message.id or "" for message in cut["messages"]), *drafts]
    return [
        rollback(
            cut["id"],
            cut["kind"],
            cut["base"],
            removed=removed,
            reason=cut["reason"],
            keep=change.keep,
            drafts=() if change.restored else drafts,
            restored=change.restored,
            only=change.only,
            stamp=stamp,
        )
    ]


def log_checkpoints(state: State, scope: Scope, due: Sequence[Checkpoint]) -> None:
    """Note good points of the record, the step's own messages among it, as they will be kept."""
    kept = list(state.get("checkpoints", []))
    for mark in due:
        kept = add_checkpoint(kept, mark, limit=scope.settings.checkpoint_limit)
    names = {mark["id"] for mark in due}
    made = [mark for mark in kept if mark["id"] in names]
    scope.journal.afterwards += [partial(_checkpoint, mark) for mark in made]


def _checkpoint(mark: Checkpoint, stamp: Stamp) -> list[Event]:
    return [checkpoint(mark, stamp=stamp)]


def log_fold(scope: Scope, topic: Topic) -> None:
    """Note that views leave a topic out from now on."""
    found = (topic["id"], topic["label"], topic["summary"], topic["summarized_through"])
    scope.journal.afterwards.append(lambda stamp: [fold(*found, stamp=stamp)])


def log_unfold(scope: Scope, topic: Topic) -> None:
    """Note that views show a topic's words again."""
    name, words = topic["id"], topic["label"]
    scope.journal.afterwards.append(lambda stamp: [unfold(name, words, stamp=stamp)])


def log_forgetting(scope: Scope, entry: Forgotten, *, again: bool) -> None:
    """Note what views leave out from now on, or show again."""
    scope.journal.afterwards.append(lambda stamp: [forget(entry, stamp=stamp, again=again)])


def log_pin(scope: Scope, message_id: str, *, pinned: bool) -> None:
    """Note a pin that was set or taken off."""
    scope.journal.afterwards.append(lambda stamp: [pin(message_id, stamp=stamp, pinned=pinned)])


def log_recall(scope: Scope, names: Sequence[str], question_id: str | None) -> None:
    """Note the ids of what is shown again because somebody asked for it."""
    scope.journal.afterwards.append(lambda stamp: [recall(names, question_id, stamp=stamp)])


def log_note(scope: Scope, text: str) -> None:
    """Note what a person asked of the model beside the conversation."""
    scope.journal.afterwards.append(lambda stamp: [planner_note(text, stamp=stamp)])


def write_ahead(state: State, scope: Scope, update: Update) -> Steps[Update]:
    """The update with the ledger's new head; its page is in the store by then.

    Args:
        state: As the step began.
        scope: Of the step, with its journal.
        update: What the step returns.

    Returns:
        The update, with the calls that are owed, where nothing else happened or nowhere keeps a
        ledger.
    """
    if scope.journal.owed:
        update = {
            **update,
            "owed": [*update.get("owed", state.get("owed", [])), *scope.journal.owed],
        }
    if scope.store is None or scope.thread_id is None:
        return update
    if state.get("sealed") and offloaded_of(state) is None:
        update = {"sealed": None, **update}
    writes = update.get("messages", [])
    known = {message.id for message in state.get("messages", [])} | scope.journal.returned
    new = [each for each in writes if each.type != "remove" and each.id not in known]
    journal = scope.journal
    if not writes and not journal.happenings and not journal.afterwards:
        return update
    head, seen = state.get("ledger", EMPTY), _read(state, journal.returned)
    stamp = _stamp(state, scope, update, head)
    happenings: list[Happening] = [
        *seen.unlogged,
        *journal.happenings,
        *(partial(_message, each) for each in new),
        *journal.afterwards,
    ]
    events = distinct(event for each in happenings for event in each(stamp))
    place = Head(page_id=head["page_id"], count=head["count"])
    if events:
        page = make_page(head, events)
        yield put_page(scope.store, scope.thread_id, page)
        place = head_of(page)
    return {**update, "ledger": _head_at(place, seen, writes, new)}


def _head_at(
    place: Head, seen: "_Seen", writes: Sequence[Any], new: Sequence[AnyMessage]
) -> LedgerHead:
    """The ledger's end, and the record that it leads to once the writes are on it."""
    if len(new) == len(writes):
        record, digest = [*seen.record, *new], digest_of(new, seen.digest)
    else:
        record = merge_messages(seen.record, [writes])
        digest = digest_of(record)
    return LedgerHead(**place, length=len(record), digest=digest, ends=_ends(record))


def _ends(record: Sequence[AnyMessage]) -> list[str]:
    """Ids of the first message, and of ever fewer the farther from the last.

    Of any stretch that a host leaves standing, one is among them where no more is gone behind it.
    """
    places = [len(record) - 2**power for power in range(len(record).bit_length())]
    return [record[each].id or "" for each in dict.fromkeys((*places, 0)) if record]


def _stamp(state: State, scope: Scope, update: Update, head: LedgerHead) -> Stamp:
    turn = update.get("turn") or state.get("turn")
    return Stamp(
        thread_id=scope.thread_id or "",
        at=scope.now(),
        run_id=scope.run_id,
        turn_id=turn["question_id"] if turn else None,
        labels=scope.labels,
        after=head["count"],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A record, and what of it the ledger does not tell yet."""

    record: Sequence[AnyMessage]
    """As far as the state holds it."""

    digest: int
    """Of that."""

    unlogged: Sequence[Happening]
    """What entered without a step of ours: at its end, or the host changed it."""


def _read(state: State, told: Collection[str]) -> _Seen:
    """What entered, but for messages that the ledger has told of already."""
    head, record = state.get("ledger", EMPTY), state.get("messages", [])
    entered = record[head["length"] :]
    if not edited_by_host(state):
        return _Seen(
            record=record,
            digest=digest_of(entered, head["digest"]),
            unlogged=[partial(_message, each) for each in entered if each.id not in told],
        )
    sealed = offloaded_of(state)
    after = sealed["last"] if sealed else None
    return _Seen(
        record=record,
        digest=digest_of(record),
        unlogged=[lambda stamp: [edit(record, after=after, stamp=stamp)]],
    )


def edited_by_host(state: State) -> bool:
    """Whether what the ledger leads to is no longer how the record begins."""
    head = state.get("ledger", EMPTY)
    known = state.get("messages", [])[: head["length"]]
    return len(known) != head["length"] or digest_of(known) != head["digest"]


def digest_of(record: Sequence[AnyMessage], start: int = 0) -> int:
    """A number that changes when messages come, go, move or are other than they were.

    Args:
        record: Messages with ids.
        start: The digest of those before them.
    """
    several = packed([[each.type, *vars(each).values()] for each in record])
    return zlib.crc32(several[_header_bytes(len(record)) :], start)


def _header_bytes(length: int) -> int:
    """How many bytes say that a list begins, and its length.

    Source:
        MessagePack specification, "array format family".
    """
    return 1 if length < 2**4 else 3 if length < 2**16 else 5


def unlogged_events(state: State, scope: Scope) -> list[Event]:
    """The events that the next page will begin with: what entered since the last."""
    stamp = _stamp(state, scope, Update(), state.get("ledger", EMPTY))
    seen = _read(state, scope.journal.returned)
    return distinct(event for each in seen.unlogged for event in each(stamp))
