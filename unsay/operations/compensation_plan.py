"""Compensation plan: which tool calls a step must take back, written before the step is committed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from langchain_core.messages import AnyMessage

from unsay.effects import Steps
from unsay.errors import ConflictError
from unsay.history.compensations import Compensation, Entry, list_entries, pack
from unsay.interrupts import ask_person, read_approvals, undo_request
from unsay.operations.compensate import due, due_of, known_entries, note_entries, reversal_for
from unsay.runtime import Scope
from unsay.state import State, Update
from unsay.tools import reversal_of
from unsay.types import Owed


def book(state: State, scope: Scope, update: Update) -> Steps[None]:
    """Write the calls that a step must take back into the journal, before the step is committed.

    Args:
        state: As the step began.
        scope: Of the step, with the changes that it made.
        update: What the step returns.

    Raises:
        ConflictError: A person must confirm first, and an order from outside gave no `confirm`.
    """
    made = yield from _never_answered(scope)
    gone, back = _net(scope)
    abandoned = _abandoned(state, update) if scope.store is not None else []
    drafts = {each.key: each for each in due_of(abandoned, scope.services)}
    others = {key: call for key, call in {**made, **drafts}.items() if key not in gone}
    yield from _booked({**others, **gone}, back, state, scope, again=set(gone))


def book_drafts(state: State, scope: Scope) -> Steps[None]:
    """Write what the turn's rejected drafts did into the journal, before the next attempt."""
    rejected = [message for each in state["turn"]["rejections"] for message in each["messages"]]
    booked = {each["key"] for each in state.get("owed", [])}
    drafts = {c.key: c for c in due_of(rejected, scope.services) if c.key not in booked}
    if scope.store is not None:
        yield from _booked(drafts, {}, state, scope, again=set())


def _never_answered(scope: Scope) -> Steps[dict[str, Compensation]]:
    """The calls made for questions that leave the transcript, of answers that were never written."""
    cuts = [change.cut["messages"] for change in scope.journal.changes]
    asked = {message.id for cut in cuts for message in cut if message.type == "human"}
    known = any(reversal_of(each) for each in scope.services.tools)
    if not asked or not known or scope.address is None:
        return {}
    entries = yield from list_entries(*scope.address)
    made = [each for each in entries if each.status == "made" and each.turn_id in asked]
    return {each.compensation.key: each.compensation for each in made}


def _net(scope: Scope) -> tuple[dict[str, Compensation], dict[str, Compensation]]:
    """The calls that a step's changes removed from the transcript, and those that they restored."""
    gone: dict[str, Compensation] = {}
    back: dict[str, Compensation] = {}
    changes, scope.journal.changes = scope.journal.changes, []
    for change in changes:
        writes = [w for w in change.writes if w.type != "remove" and w.id not in change.keep]
        removed = {each.key: each for each in due(change, scope.services)}
        restored = {each.key: each for each in due_of(writes, scope.services)}
        gone = {key: each for key, each in {**gone, **removed}.items() if key not in restored}
        back = {key: each for key, each in {**back, **restored}.items() if key not in removed}
    return gone, back


def _abandoned(state: State, update: Update) -> list[AnyMessage]:
    """The rejected drafts that a turn drops without delivering one of them."""
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
    """Write the journal's entries, and name their calls as owed.

    Args:
        gone: Calls that left the transcript, or never entered it, by their keys.
        back: Calls that returned.
        state: As the step began.
        scope: Of the step.
        again: Keys of calls that are to be taken back even if an earlier attempt failed.
    """
    if not gone and not back:
        return
    known = yield from known_entries([*gone, *back], scope)
    fresh = []
    for key, call in gone.items():
        entry = known.get(key)
        if entry is None:
            fresh.append(call)
        elif entry.status in ("made", "pending") or (key in again and entry.status != "done"):
            # The journal may know an obstacle, such as that another thread made the call.
            obstacle = call.obstacle or entry.compensation.obstacle
            fresh.append(replace(call, obstacle=obstacle))
    entries = _decided(fresh, known, state, scope)
    returned = [entry for key, entry in known.items() if key in back]
    stopped = [
        entry.to("skipped", "the call returned to the record first")
        for entry in returned
        if entry.status == "pending"
    ]
    yield from note_entries([*entries, *stopped], scope)
    undone = [entry for entry in returned if entry.status in ("done", "running")]
    named = {each["key"] for each in scope.journal.owed}
    for entry in (*entries, *undone):
        owed = Owed(key=entry.compensation.key, returned=entry in undone)
        if owed["key"] not in named:
            stored = scope.store is not None
            scope.journal.owed.append(owed if stored else {**owed, "body": pack(entry)})


def _decided(
    calls: Sequence[Compensation], known: Mapping[str, Entry], state: State, scope: Scope
) -> list[Entry]:
    """An entry for each call: to be taken back, or not, and why."""
    open_ = [each for each in calls if _may_run(each, known.get(each.key), scope)]
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
            entry = entry.to("skipped", "a person declined it")
        entries.append(entry)
    return entries


def _may_run(call: Compensation, entry: Entry | None, scope: Scope) -> bool:
    """Whether a call may be taken back: what failed or may have run is not run a second time."""
    if entry is None or entry.status in ("made", "pending", "skipped"):
        return True
    reversal = reversal_for(call, scope)
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
    yield from note_entries(entries, scope)
