"""Compensation: take back what tools did when the messages of their calls leave the transcript.

`book` runs before a step's update is committed: it asks a person where one must
be asked, and writes what is to be taken back into the journal. The committed update names these
calls as `pending_compensations`. Only then, in the next step or right after an order, `finish` takes them back. So a
change that was not committed takes nothing back, and one that was committed is always completed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from unsay.effects import Call, Steps
from unsay.errors import ConflictError
from unsay.history.branch import Change
from unsay.history.compensations import (
    Compensation,
    Entry,
    Outcome,
    Report,
    get_entries,
    list_entries,
    pack,
    put_entries,
    unpack,
)
from unsay.interrupts import ask_person, read_approvals, undo_request
from unsay.messages.annotations import annotation_of
from unsay.messages.content import text_of
from unsay.prompts.fields import Texts
from unsay.runtime import Scope, Services
from unsay.state import State, Update
from unsay.tools import Reversal, reversal_of, whole_args
from unsay.types import PendingCompensation

NO_UNDO = "no compensation is registered"
NO_RESULT = "no result of the call is known"
FAILED_CALL = "the call itself failed"
COPIED = "the message was copied here from elsewhere"


def compensations_of(change: Change, services: Services) -> list[Compensation]:
    """Find the calls that a change removes from the transcript, the newest first."""
    return calls_to_undo([*change.branch["messages"], *change.branch["drafts"]], services)


def calls_to_undo(messages: Sequence[AnyMessage], services: Services) -> list[Compensation]:
    """Find the calls that these messages made, the newest first.

    Calls of tools declared to have no consequences are left out; those that cannot be undone are
    included, each with its obstacle.
    """
    results: dict[str, ToolMessage] = {}
    found = []
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            results[message.tool_call_id] = message
        elif isinstance(message, AIMessage):
            for call in reversed(message.tool_calls):
                result = results.pop(call["id"] or "", None)
                found.append(_compensation(message, call, result, services))
    return [each for each in found if each is not None]


def _compensation(
    message: AIMessage, call: Mapping[str, Any], result: ToolMessage | None, services: Services
) -> Compensation | None:
    """One call; `None` if its tool has no consequences."""
    tool = next((each for each in services.tools if each.name == call["name"]), None)
    reversal = reversal_of(tool)
    if reversal is not None and reversal.undo is None:
        return None
    args = dict(call["args"]) if tool is None else whole_args(tool, call["args"])
    said = None if result is None else text_of(result)
    name, shown, obstacle = call["name"], reversal or Reversal(), ""
    if "picked" in annotation_of(message):
        obstacle = COPIED
    elif reversal is None:
        obstacle = NO_UNDO
    elif result is None:
        obstacle = NO_RESULT
    elif result.status == "error":
        obstacle = FAILED_CALL
    return Compensation(
        key=f"{call['id']}@{message.id}",
        tool_call_id=call["id"] or "",
        message_id=message.id or "",
        tool=name,
        args=args,
        result=said,
        description=shown.words(name, args, said),
        confirm=shown.confirm,
        obstacle=obstacle,
    )


def keeps_effects(messages: Sequence[AnyMessage], services: Services) -> bool:
    """Return whether no call of these messages can have been undone."""
    return all(each.obstacle for each in calls_to_undo(messages, services))


def _known_entries(keys: Sequence[str], scope: Scope) -> Steps[dict[str, Entry]]:
    if scope.address is None:
        return {}
    return (yield from get_entries(*scope.address, keys))


def _note_entries(entries: Sequence[Entry], scope: Scope) -> Steps[None]:
    if entries and scope.address is not None:
        yield put_entries(*scope.address, entries)


def _reversal_for(call: Compensation, scope: Scope) -> Reversal | None:
    tools = scope.services.tools
    return reversal_of(next((each for each in tools if each.name == call.tool), None))


def schedule_compensations(state: State, scope: Scope, update: Update) -> Steps[None]:
    """Write the calls that a step must undo into the journal, before the step is committed.

    Raises:
        ConflictError: A person must confirm first, and an order from outside gave no `confirm`.
    """
    made = yield from _never_answered(scope)
    gone, back = _net(scope)
    abandoned = _abandoned(state, update) if scope.store is not None else []
    drafts = {each.key: each for each in calls_to_undo(abandoned, scope.services)}
    # `gone` stays in one piece and in its order, also where the journal knows some of its calls.
    others = {key: call for key, call in {**made, **drafts}.items() if key not in gone}
    yield from _booked({**others, **gone}, back, state, scope, again=set(gone))


def schedule_draft_compensations(state: State, scope: Scope) -> Steps[None]:
    """Write the calls of the turn's rejected drafts into the journal, before the next attempt."""
    rejected = [message for each in state["turn"]["rejections"] for message in each["messages"]]
    booked = {each["key"] for each in state.get("pending_compensations", [])}
    drafts = {c.key: c for c in calls_to_undo(rejected, scope.services) if c.key not in booked}
    if scope.store is not None:
        yield from _booked(drafts, {}, state, scope, again=set())


def _never_answered(scope: Scope) -> Steps[dict[str, Compensation]]:
    """The calls made for questions that leave the transcript, of answers that were never written."""
    branches = [change.branch["messages"] for change in scope.step_log.changes]
    asked = {message.id for branch in branches for message in branch if message.type == "human"}
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
    changes, scope.step_log.changes = scope.step_log.changes, []
    for change in changes:
        writes = [w for w in change.writes if w.type != "remove" and w.id not in change.keep]
        removed = {each.key: each for each in compensations_of(change, scope.services)}
        restored = {each.key: each for each in calls_to_undo(writes, scope.services)}
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
    """Write entries for calls that left the transcript or returned, and name them as owed.

    `again` has the keys of calls that are undone even if an earlier attempt failed.
    """
    if not gone and not back:
        return
    known = yield from _known_entries([*gone, *back], scope)
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
    yield from _note_entries([*entries, *stopped], scope)
    undone = [entry for entry in returned if entry.status in ("done", "running")]
    named = {each["key"] for each in scope.step_log.pending_compensations}
    for entry in (*entries, *undone):
        pending_compensations = PendingCompensation(
            key=entry.compensation.key, returned=entry in undone
        )
        if pending_compensations["key"] not in named:
            stored = scope.store is not None
            scope.step_log.pending_compensations.append(
                pending_compensations if stored else {**pending_compensations, "body": pack(entry)}
            )


def _decided(
    calls: Sequence[Compensation], known: Mapping[str, Entry], state: State, scope: Scope
) -> list[Entry]:
    # What failed or may have run already is not run again, unless its tool says that this is safe.
    open_ = [
        each
        for each in calls
        if each.key not in known
        or known[each.key].status in ("made", "pending", "skipped")
        or _is_idempotent(_reversal_for(each, scope))
    ]
    asking = [each for each in open_ if each.confirm and not each.obstacle]
    agreed = _agreed(asking, state, scope) if asking else []
    declined = [call for call, yes in zip(asking, agreed, strict=True) if not yes]
    entries = []
    for each in calls:
        entry = Entry(compensation=each, status="pending")
        if each not in open_:
            entry = known[each.key]
        elif each.obstacle:
            entry = entry.to("skipped", each.obstacle)
        elif each in declined:
            entry = entry.to("skipped", "a person declined it")
        entries.append(entry)
    return entries


def _is_idempotent(reversal: Reversal | None) -> bool:
    return reversal is not None and reversal.idempotent


def _agreed(calls: Sequence[Compensation], state: State, scope: Scope) -> list[bool]:
    """Ask a person about each call that must be confirmed."""
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
    """Note that the calls of copied messages are undone in the thread `origin` alone."""
    reason = f"it was made in thread {origin!r}"
    entries = [
        Entry(compensation=replace(each, obstacle=reason), status="skipped", error=reason)
        for each in calls_to_undo(messages, scope.services)
        if not each.obstacle
    ]
    yield from _note_entries(entries, scope)


def run_compensations(state: State, scope: Scope) -> Steps[Report]:
    """Undo the calls that the committed state owes, each once, and report the results.

    A call that a crash interrupted is only reported, unless its tool is idempotent. The caller
    commits `pending_compensations` as empty.
    """
    pending_compensations, scope.step_log.pending_compensations = (
        [*state.get("pending_compensations", []), *scope.step_log.pending_compensations],
        [],
    )
    calls = list({(each["key"], each["returned"]): each for each in pending_compensations}.values())
    known = yield from _known_entries([each["key"] for each in calls if "body" not in each], scope)
    outcomes: list[Outcome] = []
    for each in calls:
        entry = unpack(each["body"]) if "body" in each else known.get(each["key"])
        if entry is not None:
            outcomes.append((yield from _outcome(entry, scope, returned=each["returned"])))
    for outcome in outcomes:
        call = asdict(outcome.compensation)
        told = {key: call[key] for key in ("tool", "tool_call_id", "description")}
        scope.tell("compensation", result=outcome.result, reason=outcome.reason, **told)
    return Report(outcomes=tuple(outcomes))


def _outcome(entry: Entry, scope: Scope, *, returned: bool) -> Steps[Outcome]:
    call = entry.compensation
    if returned:
        return Outcome(compensation=call, result="returned", reason="it was taken back before")
    reversal = _reversal_for(call, scope)
    if entry.status == "running" and not _is_idempotent(reversal):
        return Outcome(compensation=call, result="unknown", reason="it was interrupted")
    if entry.status in ("pending", "running"):
        entry = yield from _taken_back(entry, reversal, scope)
    if entry.status == "done":
        return Outcome(compensation=call, result="undone")
    result = "failed" if entry.status == "failed" else "skipped"
    return Outcome(compensation=call, result=result, reason=entry.error)  # type: ignore[arg-type]


def _taken_back(entry: Entry, reversal: Reversal | None, scope: Scope) -> Steps[Entry]:
    call = entry.compensation
    if reversal is None or reversal.undo is None:
        ended = entry.to("skipped", NO_UNDO)
        yield from _note_entries([ended], scope)
        return ended
    # After a crash this entry says that the call may have been taken back.
    yield from _note_entries([entry.to("running")], scope)
    said = call.result or ""
    undo = Call(
        blocking=lambda: reversal.blocking(call.args, said),
        awaitable=lambda: reversal.awaiting(call.args, said),
    )
    try:
        yield undo
        ended = entry.to("done")
    except Exception as error:  # noqa: BLE001 - a tool's own code may raise anything; it is reported
        ended = entry.to("failed", f"{type(error).__name__}: {error}")
    yield from _note_entries([ended], scope)
    return ended


def note_calls_made(messages: Sequence[AnyMessage], turn_id: str, scope: Scope) -> Steps[None]:
    """Note the calls of an unfinished draft, in case its turn never ends."""
    calls = [each for each in calls_to_undo(messages, scope.services) if not each.obstacle]
    known = yield from _known_entries([each.key for each in calls], scope)
    new = [each for each in calls if each.key not in known]
    entries = [Entry(compensation=each, status="made", turn_id=turn_id) for each in new]
    yield from _note_entries(entries, scope)


def not_undone(messages: Sequence[AnyMessage], scope: Scope) -> Steps[Report]:
    """Report the calls of rejected drafts that were to be undone and were not."""
    calls = [each for each in calls_to_undo(messages, scope.services) if each.obstacle != NO_UNDO]
    known = yield from _known_entries([each.key for each in calls], scope)
    left = [
        Outcome(compensation=each, result="skipped", reason=known[each.key].error)
        for each in calls
        if each.key in known and known[each.key].status != "done"
    ]
    return Report(outcomes=tuple(left))


def report_text(report: Report, texts: Texts) -> str:
    """Describe a report to a person; empty if there is nothing to report."""
    parts = (
        (texts.effects_undone, report.undone),
        (texts.effects_left, report.of("failed", "skipped")),
        (texts.effects_unknown, report.of("unknown")),
        (texts.effects_returned, report.of("returned")),
    )
    return " ".join(
        words.format(calls=", ".join(_told(each, texts) for each in outcomes))
        for words, outcomes in parts
        if outcomes
    )


def _told(outcome: Outcome, texts: Texts) -> str:
    words, reason = outcome.compensation.description, outcome.reason
    if not reason or outcome.result in ("unknown", "returned"):
        return words
    return f"{words} ({texts.rules.get(reason, reason)})"
