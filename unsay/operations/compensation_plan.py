"""Booking what a step's changes owe the world, before the step is committed.

A call that leaves the record is written into the journal of compensations, and a person is asked where
one must be. See `unsay.operations.compensate`, which takes the calls back once the record is committed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from langchain_core.messages import AnyMessage

from unsay.effects import Steps
from unsay.errors import ConflictError
from unsay.history.branch import Change
from unsay.history.compensations import Compensation, Entry, list_entries, pack, put_entries
from unsay.interrupts import ask_person, read_approvals, undo_request
from unsay.operations.compensate import due, due_of, known_entries, reversal_for
from unsay.runtime import Scope, Services
from unsay.state import State, Update
from unsay.tools import Reversal, reversal_of
from unsay.types import Owed

DECLINED = "a person declined it"


RETURNED = "the call returned to the record first"


def book(state: State, scope: Scope, update: Update) -> Steps[None]:
    """Write down what the step's changes owe the world, before they are committed.

    Args:
        state: As the step began.
        scope: Of the step, with the changes that it made.
        update: What the step returns.

    Raises:
        ConflictError: A person must confirm first, and an order from outside said nothing of it.
    """
    made = yield from _never_answered(scope)
    gone, back = _net(scope)
    abandoned = _abandoned(state, update) if scope.store is not None else []
    drafts = {each.key: each for each in due_of(abandoned, scope.services)}
    others = {key: call for key, call in {**made, **drafts}.items() if key not in gone}
    yield from _booked({**others, **gone}, back, state, scope, again=set(gone))


def book_drafts(state: State, scope: Scope) -> Steps[None]:
    """Write down what the turn's rejected drafts did, before the next attempt; see `book`."""
    rejected = [message for each in state["turn"]["rejections"] for message in each["messages"]]
    booked = {each["key"] for each in state.get("owed", [])}
    drafts = {c.key: c for c in due_of(rejected, scope.services) if c.key not in booked}
    if scope.store is not None:
        yield from _booked(drafts, {}, state, scope, again=set())


def _never_answered(scope: Scope) -> Steps[dict[str, Compensation]]:
    """The calls made for questions that leave the record, of answers that were never written."""
    cuts = [change.cut["messages"] for change in scope.journal.changes]
    asked = {message.id for cut in cuts for message in cut if message.type == "human"}
    known = any(reversal_of(each) for each in scope.services.tools)
    if not asked or not known or scope.store is None or scope.thread_id is None:
        return {}
    entries = yield from list_entries(scope.store, scope.thread_id)
    made = [each for each in entries if each.status == "made" and each.turn_id in asked]
    return {each.compensation.key: each.compensation for each in made}


def _net(scope: Scope) -> tuple[dict[str, Compensation], dict[str, Compensation]]:
    """The calls that a step's changes took off the record, and those that they put back."""
    gone: dict[str, Compensation] = {}
    back: dict[str, Compensation] = {}
    changes, scope.journal.changes = scope.journal.changes, []
    for change in changes:
        left = {each.key: each for each in due(change, scope.services)}
        came = {each.key: each for each in _returning(change, scope.services)}
        gone = {key: each for key, each in {**gone, **left}.items() if key not in came}
        back = {key: each for key, each in {**back, **came}.items() if key not in left}
    return gone, back


def _returning(change: Change, services: Services) -> list[Compensation]:
    brought = [write for write in change.writes if write.type != "remove"]
    return due_of([write for write in brought if write.id not in change.keep], services)


def _abandoned(state: State, update: Update) -> list[AnyMessage]:
    """The rejected drafts that a turn lets go of without putting them on the record."""
    turn, later = state.get("turn"), update.get("turn")
    if turn is None or later is None:
        return []
    waiting = {each["messages"][-1].id for each in later["rejections"]}
    waiting |= {write.id for write in update.get("messages", []) if write.type != "remove"}
    left = (each["messages"] for each in turn["rejections"])
    return [message for draft in left if draft[-1].id not in waiting for message in draft]


def _booked(
    gone: Mapping[str, Compensation],
    back: Mapping[str, Compensation],
    state: State,
    scope: Scope,
    *,
    again: set[str],
) -> Steps[None]:
    """Write the journal's entries, and name them in the step's own.

    Args:
        gone: Calls that left the record, or were never on it, by their keys.
        back: Calls that returned.
        state: As the step began.
        scope: Of the step.
        again: Keys of calls that are to be taken back even if that did not come about before.
    """
    if not gone and not back:
        return
    known = yield from known_entries([*gone, *back], scope)
    named = {each["key"] for each in scope.journal.owed}
    fresh = [each for each in gone.values() if _is_due(known.get(each.key), each.key in again)]
    entries = _decided(
        [_as_known(each, known.get(each.key)) for each in fresh], known, state, scope
    )
    stopped = [
        entry.to("skipped", RETURNED)
        for key, entry in known.items()
        if key in back and entry.status == "pending"
    ]
    if scope.store is not None and scope.thread_id is not None and (entries or stopped):
        yield put_entries(scope.store, scope.thread_id, [*entries, *stopped])
    undone = [entry for key, entry in known.items() if key in back and _was_run(entry)]
    scope.journal.owed += [
        _owed(each, scope, returned=each in undone)
        for each in [*entries, *undone]
        if each.compensation.key not in named
    ]


def _is_due(entry: Entry | None, again: bool) -> bool:  # noqa: FBT001 - a predicate's second half
    if entry is None or entry.status in ("made", "pending"):
        return True
    return again and entry.status != "done"


def _was_run(entry: Entry) -> bool:
    return entry.status in ("done", "running")


def _as_known(call: Compensation, entry: Entry | None) -> Compensation:
    """The call with the obstacle that the journal knows of, such as another thread's claim."""
    known = "" if entry is None else entry.compensation.obstacle
    return replace(call, obstacle=call.obstacle or known)


def _decided(
    calls: Sequence[Compensation], known: Mapping[str, Entry], state: State, scope: Scope
) -> list[Entry]:
    """An entry for each call: to be taken back, or not, and why."""
    open_ = [each for each in calls if _runs(known.get(each.key), reversal_for(each, scope))]
    asking = [each for each in open_ if each.confirm and not each.obstacle]
    agreed = dict(zip((each.key for each in asking), _agreed(asking, state, scope), strict=True))
    entries = []
    for each in calls:
        entry = Entry(compensation=each, status="pending")
        if each not in open_:
            entry = known[each.key]
        elif each.obstacle:
            entry = entry.to("skipped", each.obstacle)
        elif not agreed.get(each.key, True):
            entry = entry.to("skipped", DECLINED)
        entries.append(entry)
    return entries


def _runs(entry: Entry | None, reversal: Reversal | None) -> bool:
    """Whether a call may be taken back now: what failed or may have run is not run a second time."""
    if entry is None or entry.status in ("made", "pending", "skipped"):
        return True
    return reversal is not None and reversal.idempotent


def _agreed(calls: Sequence[Compensation], state: State, scope: Scope) -> list[bool]:
    """What a person says to each call that must be confirmed.

    Raises:
        ConflictError: Nobody can be asked.
    """
    if not calls:
        return []
    if scope.confirm is not None:
        return [scope.confirm(each) for each in calls]
    if not scope.in_graph:
        names = ", ".join(each.description for each in calls)
        raise ConflictError(
            f"This takes back what a person must confirm: {names}. Nothing was changed; give "
            "confirm=…, a function that says yes or no to each"
        )
    request = undo_request(calls, scope.texts(state.get("messages", [])))
    return ask_person(request, lambda answer: read_approvals(answer, len(calls)))


def _owed(entry: Entry, scope: Scope, *, returned: bool) -> Owed:
    owed = Owed(key=entry.compensation.key, returned=returned)
    return owed if scope.store is not None else {**owed, "body": pack(entry)}


def disown(messages: Sequence[AnyMessage], scope: Scope, origin: str) -> Steps[None]:
    """Note that what a copied record did is another thread's to take back.

    Args:
        messages: Those that were copied.
        scope: Of an order in the new thread.
        origin: Id of the thread whose calls they are.
    """
    reason = f"it was made in thread {origin!r}"
    entries = [
        Entry(compensation=replace(each, obstacle=reason), status="skipped", error=reason)
        for each in due_of(messages, scope.services)
        if not each.obstacle
    ]
    if entries and scope.store is not None and scope.thread_id is not None:
        yield put_entries(scope.store, scope.thread_id, entries)
