"""Compensate: undo tool calls whose messages leave the transcript.

`schedule_compensations` runs before a step's update is committed. It asks a person where that is
required, stores an entry for each call to undo, and names the calls in the update as
`pending_compensations`. `run_compensations` undoes them after the commit. So an uncommitted change
undoes nothing, and a committed one is always completed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.tools import BaseTool

from unsay.decisions import ask_person, read_approvals, undo_request
from unsay.effects import Call, Steps
from unsay.errors import ConfirmationNeededError
from unsay.history.branch import Change
from unsay.history.compensations import (
    Compensation,
    Entry,
    Outcome,
    Report,
    Result,
    find_entries,
    list_entries,
    pack,
    put_entries,
    unpack,
)
from unsay.messages.annotations import annotation_of
from unsay.messages.content import text_of
from unsay.moves.reconcile import (
    UNDONE,
    call_tag,
    error_of_undo,
    failed_tag,
    is_own_call,
    was_undone,
)
from unsay.prompts.catalogue import ENGLISH, Texts
from unsay.runtime import Scope, Services
from unsay.state import State, Update, with_update
from unsay.tools import Reversal, is_hand_off, reversal_of, whole_args
from unsay.transcript.automatic import rejected_messages
from unsay.types import PendingCompensation

# Rows of the texts' `undo_reasons` that are told apart.
NO_UNDO = "no_undo"
FAILED_CALL = "failed_call"


def compensations_of(change: Change, services: Services) -> list[Compensation]:
    """Return the calls that a change removes, drafts included; see `calls_to_undo`."""
    return calls_to_undo([*change.branch["messages"], *change.branch["drafts"]], services)


def calls_to_undo(messages: Sequence[AnyMessage], services: Services) -> list[Compensation]:
    """Return the tool calls of messages, newest first; `obstacle` says why one cannot be undone.

    Nothing is undone here. Hand-offs and calls of tools declared to have no consequences are left out.
    """
    results: dict[str, ToolMessage] = {}
    calls = []
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            results[message.tool_call_id] = message
        elif isinstance(message, AIMessage):
            for call in reversed(message.tool_calls):
                result = results.pop(call["id"] or "", None)
                calls.append(_compensation(message, call, result, services))
    return [each for each in calls if each is not None]


def _compensation(
    message: AIMessage, call: Mapping[str, Any], result: ToolMessage | None, services: Services
) -> Compensation | None:
    """Return a tool call as it can be undone; `None` if its tool has no consequences, or hands over."""
    tool = tool_of(call["name"], services)
    reversal = reversal_of(tool)
    if (tool is None and is_hand_off(call)) or (reversal is not None and reversal.undo is None):
        return None
    args = dict(call["args"]) if tool is None else whole_args(tool, call["args"])
    text = None if result is None else text_of(result)
    name, effective_reversal, obstacle_code = call["name"], reversal or Reversal(), ""
    if "picked" in annotation_of(message):
        obstacle_code = "copied"
    elif result is not None and result.status == "error":
        obstacle_code = FAILED_CALL
    elif reversal is None:
        obstacle_code = NO_UNDO
    elif result is None:
        obstacle_code = "no_result"
    return Compensation(
        key=f"{call['id']}@{message.id}",
        tool_call_id=call["id"] or "",
        message_id=message.id or "",
        tool=name,
        args=args,
        result=text,
        description=effective_reversal.describe_call(name, args, text),
        confirm=effective_reversal.confirm,
        obstacle=_reason(obstacle_code) if obstacle_code else "",
        obstacle_code=obstacle_code,
    )


def _reason(code: str) -> str:
    return ENGLISH.table("undo_reasons")[code]


def keeps_effects(messages: Sequence[AnyMessage], services: Services) -> bool:
    """Return whether no call of these messages can have been undone; `True` if there are no calls."""
    return all(each.obstacle for each in calls_to_undo(messages, services))


def tool_of(name: str, services: Services) -> BaseTool | None:
    """Return the graph's tool of this name; `None` if it has none."""
    return next((each for each in services.tools if each.name == name), None)


def report_text(report: Report, texts: Texts) -> str:
    """Return a report as text for a person or a model; empty if there is nothing to report.

    Calls that failed themselves are left out: they did nothing that could still be in effect.
    """
    left = [each for each in report.of("failed", "skipped") if not _did_nothing(each.compensation)]
    parts = (
        ("effects_undone", report.undone),
        ("effects_left", left),
        ("effects_unknown", report.of("unknown")),
        ("effects_returned", report.of("returned")),
    )
    return texts.sentences(
        texts.say(name, calls=texts.listed(_outcome_text(each, texts) for each in outcomes))
        for name, outcomes in parts
        if outcomes
    )


def stays_in_effect(call: Compensation) -> bool:
    """Return whether a rollback cannot undo what a call did; `False` also if the call itself failed."""
    return bool(call.obstacle) and not _did_nothing(call)


def _did_nothing(call: Compensation) -> bool:
    return call.obstacle_code == FAILED_CALL


def _outcome_text(outcome: Outcome, texts: Texts) -> str:
    description, reason = outcome.compensation.description, outcome.reason
    if not reason or outcome.result in ("unknown", "returned"):
        return description
    if outcome.reason_code:
        reason = texts.table("undo_reasons")[outcome.reason_code]
    gap = "" if texts.language == "ja" else " "
    return f"{description}{gap}({reason})"


def _known_entries(keys: Sequence[str], scope: Scope) -> Steps[dict[str, Entry | None]]:
    if scope.address is None:
        return {}
    return (yield from find_entries(*scope.address, keys))


def _intact(entries: Mapping[str, Entry | None]) -> dict[str, Entry]:
    return {key: entry for key, entry in entries.items() if entry is not None}


def _note_entries(entries: Sequence[Entry], scope: Scope) -> Steps[None]:
    if entries and scope.address is not None:
        yield from put_entries(*scope.address, entries)


def _reversal_for(call: Compensation, scope: Scope) -> Reversal:
    return reversal_of(tool_of(call.tool, scope.services)) or Reversal()


def schedule_compensations(state: State, scope: Scope, update: Update) -> Steps[None]:
    """Store entries for the calls that a step must undo, before its update is committed.

    If a tool asks first, `scope.confirm` answers, or in a run an interrupt asks a person; raises
    `ConfirmationNeededError` if there is neither. A call that was declined, or whose stored entry
    is damaged, is not undone; its new entry says why.
    """
    unanswered_calls = yield from _never_answered(state, scope, update)
    removed, restored = _net(scope)
    abandoned = _abandoned(state, update) if scope.store is not None else []
    drafts = {call.key: call for call in calls_to_undo(abandoned, scope.services)}
    # Removed calls keep their order, newest first, because later calls may build on earlier ones.
    others = {
        key: call for key, call in {**unanswered_calls, **drafts}.items() if key not in removed
    }
    yield from _schedule({**others, **removed}, restored, state, scope, again=set(removed))


def schedule_draft_compensations(state: State, scope: Scope) -> Steps[None]:
    """Store entries to undo the calls of rejected drafts; without a store nothing is done.

    Only a node calls this: an interrupt may ask a person first.
    """
    if scope.store is not None:
        scheduled = {each["key"] for each in state.get("pending_compensations", [])}
        calls = calls_to_undo(rejected_messages(state["turn"]), scope.services)
        drafts = {call.key: call for call in calls if call.key not in scheduled}
        yield from _schedule(drafts, {}, state, scope, again=set())


def _never_answered(state: State, scope: Scope, update: Update) -> Steps[dict[str, Compensation]]:
    """Return by key the stored calls of turns whose question the step removes or replaces, if any.

    Calls that are in the transcript after the step are left out: a host can replace the question of
    an answered turn, whose calls keep the status `made`. Damaged entries are left out too.
    """
    removed_messages = (m for change in scope.step_log.changes for m in change.branch["messages"])
    question_ids = {message.id for message in removed_messages if message.type == "human"}
    # Without a tool that can be reversed nothing need be read.
    has_reversals = any(reversal_of(each) for each in scope.services.tools)
    if not question_ids or not has_reversals or scope.address is None:
        return {}
    live_ids = {message.id for message in with_update(state, update)["messages"]}
    # One that is damaged must not keep the thread from every later rollback.
    entries = yield from list_entries(*scope.address, skip_damaged=True)
    compensations = [
        e.compensation for e in entries if e.status == "made" and e.turn_id in question_ids
    ]
    return {call.key: call for call in compensations if call.message_id not in live_ids}


def _net(scope: Scope) -> tuple[dict[str, Compensation], dict[str, Compensation]]:
    """Return the calls that the step removed from the transcript, and those it returned, by key.

    The last change of a call decides, and a call that one change removes and returns is in neither.
    The changes are taken out of the step's log, so that a second call returns nothing.
    """
    all_removed: dict[str, Compensation] = {}
    all_restored: dict[str, Compensation] = {}
    changes, scope.step_log.changes = scope.step_log.changes, []
    for change in changes:
        writes = [w for w in change.writes if w.type != "remove" and w.id not in change.keep]
        removed = {each.key: each for each in compensations_of(change, scope.services)}
        restored = {each.key: each for each in calls_to_undo(writes, scope.services)}
        all_removed = {k: v for k, v in {**all_removed, **removed}.items() if k not in restored}
        all_restored = {k: v for k, v in {**all_restored, **restored}.items() if k not in removed}
    return all_removed, all_restored


def _abandoned(state: State, update: Update) -> list[AnyMessage]:
    """Return the messages of rejected drafts that `update` neither delivers nor keeps, if any."""
    if not (turn := state.get("turn")) or not (new_turn := update.get("turn")):
        return []
    live_messages = [
        *new_turn.get("steps", []),
        *(each["messages"][-1] for each in new_turn["rejections"]),
    ]
    live_messages += [write for write in update.get("messages", []) if write.type != "remove"]
    waiting = {message.id for message in live_messages}
    drafts = [e["messages"] for e in turn["rejections"] if e["messages"][-1].id not in waiting]
    return [message for draft in drafts for message in draft if message.id not in waiting]


def _schedule(
    removed: Mapping[str, Compensation],
    restored: Mapping[str, Compensation],
    state: State,
    scope: Scope,
    *,
    again: set[str],
) -> Steps[None]:
    """Store entries for calls that left or returned, by key; a call that returned is not undone.

    A call whose undo failed or was skipped is only undone again if its key is in `again`, and one
    whose entry is damaged never. The errors are those of `schedule_compensations`.
    """
    if not removed and not restored:
        return
    stored_entries = yield from _known_entries([*removed, *restored], scope)
    # Of a thread without a store.
    failed = {
        key: Entry(compensation=call, status="failed", error=error)
        for key, call in removed.items()
        if (error := error_of_undo(call, state, scope))
    }
    entries_by_key, due = {**_intact(stored_entries), **failed}, []
    removed = {key: call for key, call in removed.items() if not was_undone(call, state, scope)}
    for key, call in removed.items():
        entry = entries_by_key.get(key)
        if entry is None and key in stored_entries:  # whether it was undone already is unknown
            due.append(_with_obstacle(call, "damaged"))
        elif entry is None:
            is_own = is_own_call(call, state, scope)
            due.append(call if is_own else _with_obstacle(call, "not_ours"))
        elif entry.status in ("made", "pending") or (key in again and entry.status != "done"):
            # The stored call is undone, with its obstacle: a host can replace the message by its id.
            cause = call if call.obstacle else entry.compensation
            code = cause.obstacle_code
            due.append(replace(entry.compensation, obstacle=cause.obstacle, obstacle_code=code))
    # A person is asked before anything is stored: an interrupt runs this step again.
    entries = _decided(due, entries_by_key, state, scope)
    returned = [entry for key, entry in entries_by_key.items() if key in restored]
    stopped = [_skip(entry, "returned") for entry in returned if entry.status == "pending"]
    yield from _note_entries([*entries, *stopped], scope)
    undone = [entry for entry in returned if entry.status in ("done", "running")]
    pending_keys = {each["key"] for each in scope.step_log.pending_compensations}
    for entry in (*entries, *undone):
        pending = PendingCompensation(key=entry.compensation.key, returned=entry in undone)
        if scope.store is None:
            pending["body"] = pack(entry)
            if entry.status == "pending":
                scope.step_log.calls[entry.compensation.key] = UNDONE
        if pending["key"] not in pending_keys:
            scope.step_log.pending_compensations.append(pending)


def _with_obstacle(call: Compensation, code: str) -> Compensation:
    """Return a call that cannot be undone for this reason, or for the one that it has already."""
    if call.obstacle:
        return call
    return replace(call, obstacle=_reason(code), obstacle_code=code)


def _skip(entry: Entry, code: str) -> Entry:
    return entry.to("skipped", _reason(code), code)


def _decided(
    calls: Sequence[Compensation], known: Mapping[str, Entry], state: State, scope: Scope
) -> list[Entry]:
    """Return an entry for each call: pending if its undo may run, else skipped or as in `known`.

    If a tool asks first, `_agreed` is called, with its errors.
    """
    # A call whose undo failed or may have run is not undone again unless its tool is idempotent.
    undecided = [
        each
        for each in calls
        if each.key not in known
        or known[each.key].status in ("made", "pending", "skipped")
        or _reversal_for(each, scope).idempotent
    ]
    asking = [each for each in undecided if each.confirm and not each.obstacle]
    agreed = _agreed(asking, state, scope) if asking else []
    declined = [call for call, yes in zip(asking, agreed, strict=True) if not yes]
    entries = []
    for each in calls:
        entry = Entry(compensation=each, status="pending")
        if each not in undecided:
            entry = known[each.key]
        elif each.obstacle:
            if each.obstacle_code == NO_UNDO and each.key in known:
                # The tool may be there when the call is removed again.
                entry = replace(entry, compensation=known[each.key].compensation)
            entry = entry.to("skipped", each.obstacle, each.obstacle_code)
        elif each in declined:
            entry = _skip(entry, "declined")
        entries.append(entry)
    return entries


def _agreed(calls: Sequence[Compensation], state: State, scope: Scope) -> list[bool]:
    """Ask for a yes or no to each call; `ConfirmationNeededError` without `confirm` and a run."""
    if scope.confirm is not None:
        return [scope.confirm(each) for each in calls]
    if not scope.in_graph:
        names = ", ".join(each.description for each in calls)
        raise ConfirmationNeededError(
            code="unconfirmed",
            calls=names,
            typed="A person must confirm that these calls are undone: {calls}. Nothing was changed: "
            "run the command on a terminal, where it asks about each of them",
        )
    texts = scope.texts(state.get("messages", []))
    return ask_person(
        undo_request(calls, texts), lambda answer: read_approvals(answer, len(calls)), texts
    )


def disown(messages: Sequence[AnyMessage], scope: Scope, origin: str) -> Steps[None]:
    """Store, if there is a store, that only the thread `origin` can undo a fork's copied calls."""
    reason = f"it was made in thread {origin!r}"
    entries = [
        Entry(compensation=replace(each, obstacle=reason), status="skipped", error=reason)
        for each in calls_to_undo(messages, scope.services)
        if not each.obstacle
    ]
    yield from _note_entries(entries, scope)


def run_compensations(state: State, scope: Scope) -> Steps[Report]:
    """Undo the pending calls of the committed state, each once, and report what became of each.

    Only reported are calls that were skipped (declined, say, or of a tool without an undo), that
    returned to the transcript, or whose undo a crash interrupted, unless the tool is idempotent.
    An undo that fails is reported, not raised. A call whose stored entry is damaged is neither
    undone nor reported. The caller commits `pending_compensations` as empty.
    """
    pending = [*state.get("pending_compensations", []), *scope.step_log.pending_compensations]
    scope.step_log.pending_compensations = []
    # A call can be both in the state and in the log of this step.
    calls = list({(due["key"], due["returned"]): due for due in pending}.values())
    entries_by_key = yield from _known_entries(
        [due["key"] for due in calls if "body" not in due], scope
    )
    outcomes: list[Outcome] = []
    for due in calls:
        entry = unpack(due["body"]) if "body" in due else entries_by_key.get(due["key"])
        if entry is not None:
            outcomes.append((yield from _outcome(entry, scope, returned=due["returned"])))
    for outcome in outcomes:
        call = asdict(outcome.compensation)
        about = {key: call[key] for key in ("tool", "tool_call_id", "description")}
        scope.emit("compensation", result=outcome.result, reason=outcome.reason, **about)
    return Report(outcomes=tuple(outcomes))


def _outcome(entry: Entry, scope: Scope, *, returned: bool) -> Steps[Outcome]:
    """Undo a call that is still to be undone; return the outcome, `failed` if the undo raised.

    Nothing runs if the call is in the transcript again (`returned`), or was skipped. Nothing runs
    either if a crash interrupted its undo, unless its tool is idempotent; this outcome is
    `unknown`.
    """
    call = entry.compensation
    if returned:
        return Outcome(compensation=call, result="returned", reason="it was taken back before")
    reversal = _reversal_for(call, scope)
    if entry.status == "running" and not reversal.idempotent:
        return Outcome(compensation=call, result="unknown", reason="it was interrupted")
    if entry.status in ("pending", "running"):
        entry = yield from _undo(entry, reversal, scope)
    if entry.status == "done":
        return Outcome(compensation=call, result="undone")
    result: Result = "failed" if entry.status == "failed" else "skipped"
    return _not_done(entry, result)


def _not_done(entry: Entry, result: Result) -> Outcome:
    call, code = entry.compensation, entry.error_code
    return Outcome(compensation=call, result=result, reason=entry.error, reason_code=code)


def _undo(entry: Entry, reversal: Reversal, scope: Scope) -> Steps[Entry]:
    """Run a tool's undo once and store how it ended; the tool's error makes the entry `failed`."""
    call = entry.compensation
    if reversal.undo is None:
        ended = _skip(entry, NO_UNDO)
        yield from _note_entries([ended], scope)
        return ended
    # Written before the undo: after a crash the entry says that the undo may have run.
    yield from _note_entries([entry.to("running")], scope)
    result = call.result or ""
    undo = Call(
        blocking=lambda: reversal.undo_sync(call.args, result),
        awaitable=lambda: reversal.undo_async(call.args, result),
    )
    try:
        yield from undo
        ended = entry.to("done")
    except Exception as error:  # noqa: BLE001 - a tool's own code may raise anything; it is reported
        ended = entry.to("failed", f"{type(error).__name__}: {error}")
        if scope.store is None:
            scope.step_log.calls[call.key] = failed_tag(call, ended.error)
    yield from _note_entries([ended], scope)
    return ended


def note_own_calls(messages: Sequence[AnyMessage], scope: Scope) -> None:
    """Record the calls of unsay's own draft that can be undone, for `is_own_call`; not with a store."""
    if scope.address is None:
        calls = (call for call in calls_to_undo(messages, scope.services) if not call.obstacle)
        scope.step_log.calls.update({call.key: call_tag(call) for call in calls})


def entries_of_calls(
    messages: Sequence[AnyMessage], state: State, scope: Scope
) -> Steps[list[Entry]]:
    """Return entries of an unfinished draft's calls that have none yet, in case its turn never ends.

    They are `made`, and the caller stores them. Empty without a store.
    """
    calls = [each for each in calls_to_undo(messages, scope.services) if not each.obstacle]
    entries_by_key = _intact((yield from _known_entries([each.key for each in calls], scope)))
    # A model can give its ids again: the call of an earlier turn that was undone is another one.
    old = {key for key, entry in entries_by_key.items() if entry.status != "done"}
    new = [each for each in calls if each.key not in old]
    turn_id = state["turn"]["question_id"] or ""
    return [Entry(compensation=each, status="made", turn_id=turn_id) for each in new]


def not_undone(messages: Sequence[AnyMessage], scope: Scope) -> Steps[Report]:
    """Return which calls of rejected drafts were not undone, to tell the model in the next attempt.

    Only calls of tools with an undo are included. Empty without a store. Damaged entries are left
    out.
    """
    calls = [
        each for each in calls_to_undo(messages, scope.services) if each.obstacle_code != NO_UNDO
    ]
    entries_by_key = _intact((yield from _known_entries([each.key for each in calls], scope)))
    outcomes = [
        replace(_not_done(entries_by_key[each.key], "skipped"), compensation=each)
        for each in calls
        if each.key in entries_by_key and entries_by_key[each.key].status != "done"
    ]
    return Report(outcomes=tuple(outcomes))
