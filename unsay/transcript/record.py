"""Record events: a step's events are written to the event log before its update is committed.

After a crash between the two, the state's head does not reach the new page, so the event log and the
transcript always agree.
"""

import hashlib
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

from langchain_core.messages import AIMessage, AnyMessage

from unsay.effects import Steps
from unsay.errors import EventLogGapError
from unsay.events.bodies import Body, bodies_and_rest
from unsay.events.event_types import (
    NewEvent,
    Stamp,
    canonical,
    checkpoint,
    edit,
    rollback,
    split_message,
    stamped,
    verdict,
)
from unsay.history.branch import Change, put_branches, put_places
from unsay.history.checkpoints import add_checkpoint
from unsay.log.ranges import positions_of, ranges_of
from unsay.messages.annotations import annotation_of
from unsay.runtime import Scope, StepLog
from unsay.state import EventLogHead, OwnWrites, State, Update, merge_messages, offloaded_of
from unsay.storage.event_log import make_pages, put_pages
from unsay.storage.items import packed
from unsay.storage.pages import LOOSE, Head, event_chain
from unsay.storage.segments import put_positions
from unsay.types import Checkpoint, Event, Note

# Most entries of `state_history`.
HISTORY_LIMIT = 20


def add_note(
    state: State,
    scope: Scope,
    node: str,
    event: str,
    score: float | None,
    *,
    number: int | None = None,
) -> list[Note]:
    """Return `state_history` with one more entry, cut to the newest `HISTORY_LIMIT` entries.

    `event` is what the node did, and `number` the turn that the entry is about; `None` is the one
    under way.
    """
    turn, texts = state.get("turn"), scope.texts(state.get("messages", []))
    if number is None:
        number = turn["number"] if turn else 0
    described = "first" if event == "new" and not state.get("segments") else event
    added = Note(
        node=node,
        event=event,
        description=texts.table("history").get(described, event),
        turn=number,
        score=score,
        topic=state.get("current_topic", ""),
        at=scope.now(),
    )
    return [*state.get("state_history", []), added][-HISTORY_LIMIT:]


# The head while the event log has no page.
EMPTY = EventLogHead(page_id=None, count=0, next=0, packed=0, loose=0, length=0, digest=0, live=())
NOTHING = OwnWrites(length=0, digest=0, annotated={}, calls={})
# Seven bytes, so that MessagePack and every JSON of a 64-bit reader hold the number.
DIGEST_BYTES = 7
# How many annotated messages and tool calls are recorded in the state of a thread without a store.
OWN_ANNOTATED = 64
OWN_CALLS = 100
# The transcripts that were compared last, since each step of a run compares the same one.
_unedited: deque[tuple[int, Sequence[AnyMessage]]] = deque(maxlen=4)


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
    scope.step_log.restored.setdefault(branch["id"], {}).update(change.positions)
    scope.step_log.new_events += [*chain.from_iterable(map(split_message, branch["drafts"])), event]
    new_ids = {write.id for write in change.writes if write.type != "remove"}
    scope.step_log.returned |= new_ids - set(change.keep)


def log_checkpoints(state: State, scope: Scope, due: Sequence[Checkpoint]) -> None:
    """Add the events of checkpoints to the step log.

    Each is merged with the state's checkpoint at the same message, if there is one.
    """
    checkpoints = list(state.get("checkpoints", []))
    for new in due:
        checkpoints = add_checkpoint(checkpoints, new)
    ids = {new["id"] for new in due}
    scope.step_log.later_events += [checkpoint(each) for each in checkpoints if each["id"] in ids]


def log_verdict(message: AnyMessage, scope: Scope) -> None:
    """Log the annotations of a message that was judged or rated."""
    scope.step_log.new_events.append(verdict(message.id or "", annotation_of(message)))


def write_ahead(state: State, scope: Scope, update: Update) -> Steps[Update]:
    """Write a step's branches and events, if there is a store; return its update with the log's head.

    The update also gets the pending compensations of the step log. Without a store it gets the
    record `own_writes` instead of a head. Raises `InputError` if a message cannot be stored, and any
    error of the store.
    """
    step_log = scope.step_log
    if step_log.pending_compensations:
        known_calls = update.get("pending_compensations", state.get("pending_compensations", []))
        pending_compensations = [*known_calls, *step_log.pending_compensations]
        update = {**update, "pending_compensations": pending_compensations}
    if scope.address is None:
        return _with_own_writes(state, scope, update)
    if state.get("offloaded") and offloaded_of(state) is None:
        # A host removed every message, and with them the offloaded ones.
        update = {"offloaded": None, **update}
    writes = update.get("messages", [])
    yield from put_places(*scope.address, step_log.turn_places)
    if not writes and not step_log.new_events and not step_log.later_events:
        return update
    old_ids = {message.id for message in state.get("messages", [])} | step_log.returned
    new = [each for each in writes if each.type != "remove" and each.id not in old_ids]
    # What the step removes came before it, also where an older message returns under the same id.
    removed = {name for event in step_log.new_events for name in event.data.get("removed", ())}
    entered, digest = _entered(state, step_log.returned - removed)
    new_events: list[NewEvent] = [
        *entered,
        *step_log.new_events,
        *chain.from_iterable(map(split_message, new)),
        *step_log.later_events,
    ]
    head = state.get("event_log", EMPTY)
    numbered = _numbered(state, step_log, new_events)
    place = yield from _append(scope, head, _events(new_events, state, scope, update), numbered)
    # Before the commit: a crash then leaves an unused branch, never a reference to nothing.
    positions = numbered.positions
    step_log.positions |= positions
    branches = step_log.branches.values()
    yield from put_branches(*scope.address, branches, numbered.of_branches, place)
    yield from put_positions(*scope.address, step_log.offloaded, positions, place)
    transcript, digest = _continued(state.get("messages", []), digest, writes, new)
    return {**update, "event_log": log_head(place, transcript, digest, positions)}


def log_head(
    place: Head, transcript: Sequence[AnyMessage], digest: int, positions: Mapping[str, int]
) -> EventLogHead:
    """Return the head that the state keeps, for a transcript whose messages have these positions."""
    live = ranges_of([positions[message.id or ""] for message in transcript])
    return EventLogHead(
        page_id=place["page_id"],
        count=place["count"],
        next=place["next"],
        packed=place["packed"],
        loose=place["loose"],
        length=len(transcript),
        digest=digest,
        live=live,
        ends=ends_of(transcript),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbered:
    """Where the messages are after a step's events: all by id, and those of each branch at its event.

    `end` is the next position. `copies` has, by position, the earlier position of a message whose
    annotation alone is new.
    """

    end: int

    positions: dict[str, int]
    of_branches: dict[str, dict[str, int]]
    copies: dict[int, int]


def _numbered(state: State, step_log: StepLog, new_events: Sequence[NewEvent]) -> Numbered:
    head = state.get("event_log", EMPTY)
    logged = state.get("messages", [])[: head["length"]]
    live = zip(logged, positions_of(head["live"]), strict=False)
    positions = {**step_log.positions, **{m.id or "": place for m, place in live}}
    of_branches: dict[str, dict[str, int]] = {}
    copies: dict[int, int] = {}
    end = head["next"]
    for each in bodies_and_rest(new_events):
        if isinstance(each, Body):
            if each.envelope is None:
                copies[end] = positions[each.message_id]
            positions[each.message_id] = end
            end += 1
            continue
        _, data = each
        if "branch_id" in data:
            ids = (*data["removed"], *data["drafts"])
            of_branches[data["branch_id"]] = {name: positions[name] for name in ids}
            positions |= step_log.restored.get(data["branch_id"], {})
    return Numbered(end=end, positions=positions, of_branches=of_branches, copies=copies)


def _append(
    scope: Scope, head: EventLogHead, events: Sequence[Event], numbered: Numbered
) -> Steps[Head]:
    """Write events as a page behind the head of the event log, and return its new head."""
    assert scope.address is not None  # noqa: S101 - checked by the caller
    if not events:
        return head
    pages, place = make_pages(head, events, numbered.end, numbered.copies)
    yield from put_pages(*scope.address, pages)
    if place["loose"] < LOOSE:
        return place
    # A gap is reported to readers of the log; it must not end a turn.
    with suppress(EventLogGapError):
        yield from event_chain(*scope.address).pack(place)
        place["packed"] = place["next"]
    place["loose"] = 0
    return place


def _continued(
    transcript: Sequence[AnyMessage],
    digest: int,
    writes: Sequence[AnyMessage],
    new: Sequence[AnyMessage],
) -> tuple[list[AnyMessage], int]:
    """Return a transcript and its digest after `writes`; `new` are those writes that append a message."""
    if len(new) == len(writes):  # Nothing was replaced or removed, so the digest can be continued.
        return [*transcript, *new], digest_of(new, digest)
    merged = merge_messages(transcript, [writes])
    return merged, digest_of(merged)


def _with_own_writes(state: State, scope: Scope, update: Update) -> Update:
    """Return an update that records, for a thread without a store, what unsay writes with it."""
    writes, calls = update.get("messages", []), scope.step_log.calls
    if not writes and not calls:
        return update
    own = state.get("own_writes", NOTHING)
    transcript = state.get("messages", [])
    old_ids = {message.id for message in transcript}
    new = [each for each in writes if each.type != "remove" and each.id not in old_ids]
    start = own["length"] if not edited_since(own, transcript) else 0
    digest = digest_of(transcript[start:], own["digest"] if start else 0)
    transcript, digest = _continued(transcript, digest, writes, new)
    tags = {each.id or "": annotation_tag(each) for each in writes if annotation_of(each)}
    after = OwnWrites(
        length=len(transcript),
        digest=digest,
        annotated=_newest({**own["annotated"], **tags}, OWN_ANNOTATED),
        calls=_newest({**own["calls"], **calls}, OWN_CALLS),
    )
    return {**update, "own_writes": after}


def _newest(values: Mapping[str, str], limit: int) -> dict[str, str]:
    return dict(list(values.items())[-limit:])


def annotation_tag(message: AnyMessage) -> str:
    """Return a hash of a message's body together with its annotation."""
    text = message_body(message) + canonical(annotation_of(message))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def message_body(message: AnyMessage) -> str:
    """Return a message's role, name, content and tool calls as text, for comparing two messages."""
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return canonical([message.type, message.name, message.content, calls])


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


def ends_of(transcript: Sequence[AnyMessage]) -> list[str]:
    """Return ids of the first message and of those 1, 2, 4, 8 … places before the end.

    `offloaded_of` needs them to notice that a host removed all messages.
    """
    # If a host removes the end of the transcript, one of these ids is left in the rest, unless the
    # rest is shorter than what was removed.
    places = [len(transcript) - 2**power for power in range(len(transcript).bit_length())]
    return [transcript[each].id or "" for each in dict.fromkeys((*places, 0)) if transcript]


def _entered(state: State, logged: Collection[str]) -> tuple[list[NewEvent], int]:
    """Return the events of what a host added or edited, and the digest of the transcript.

    Added messages whose ids are in `logged` have their events already and get none.
    """
    head, transcript = state.get("event_log", EMPTY), state.get("messages", [])
    if not edited_since(head, transcript):
        entered = transcript[head["length"] :]
        new_events = [each for m in entered if m.id not in logged for each in split_message(m)]
        return new_events, digest_of(entered, head["digest"])
    offloaded = offloaded_of(state)
    after = offloaded["last"] if offloaded else None
    return [edit(transcript, after=after)], digest_of(transcript)


def edited_since(head: EventLogHead | OwnWrites, transcript: Sequence[AnyMessage]) -> bool:
    """Return whether a transcript begins differently than `head` recorded; new ends do not count."""
    log_prefix = transcript[: head["length"]]
    if (head["digest"], log_prefix) in tuple(_unedited):  # Lists of the same messages compare fast.
        return False
    if len(log_prefix) != head["length"] or digest_of(log_prefix) != head["digest"]:
        return True
    _unedited.append((head["digest"], log_prefix))
    return False


def known_part(state: State, scope: Scope) -> EventLogHead | OwnWrites:
    """Return the record of the transcript, with its length and digest; `EMPTY` if nothing is recorded.

    With a store it is the event log's head, without one `own_writes`. If that one is missing,
    the other is returned, since a host may have added or removed the store.
    """
    log, own = state.get("event_log"), state.get("own_writes")
    return (own or log or EMPTY) if scope.address is None else (log or own or EMPTY)


def digest_of(transcript: Sequence[AnyMessage], start: int = 0) -> int:
    """Return the digest of messages and their ids; `start` is the digest of the messages before them.

    An edit by accident changes it. It has 56 bits only: someone who chooses the old and the new
    message can find two with the same digest, in about 2**28 attempts.
    """
    digest = start.to_bytes(DIGEST_BYTES)
    for message in transcript:
        body = packed([message.type, *vars(message).values()])
        digest = hashlib.blake2b(digest + body, digest_size=DIGEST_BYTES).digest()
    return int.from_bytes(digest)


def unlogged_events(state: State, scope: Scope) -> list[Event]:
    """Return the events of what a host added, edited or removed since the last page; none is stored.

    It is for readers of the event log.
    """
    return _events(_entered(state, scope.step_log.returned)[0], state, scope, Update())
