"""Compensation: take back what tools did when the messages of their calls leave the transcript.

`compensation_plan.book` runs before a step's update is committed: it asks a person where one must
be asked, and writes what is to be taken back into the journal. The committed update names these
calls as `owed`. Only then, in the next step or right after an order, `finish` takes them back. So a
change that was not committed takes nothing back, and one that was committed is always completed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from unsay.effects import Call, Steps
from unsay.history.branch import Change
from unsay.history.compensations import (
    Compensation,
    Entry,
    Outcome,
    Report,
    get_entries,
    put_entries,
    unpack,
)
from unsay.messages.annotations import mark_of
from unsay.messages.content import text_of
from unsay.prompts.fields import Texts
from unsay.runtime import Scope, Services
from unsay.state import State
from unsay.tools import Reversal, reversal_of, whole_args

NO_UNDO = "no compensation is registered"
NO_RESULT = "no result of the call is known"
FAILED_CALL = "the call itself failed"
COPIED = "the message was copied here from elsewhere"


def due(change: Change, services: Services) -> list[Compensation]:
    """The calls that a change takes off the record, the newest first.

    Calls of tools that said they have no consequences are left out; those that cannot be taken
    back are there, each with its obstacle.
    """
    return due_of([*change.cut["messages"], *change.cut["drafts"]], services)


def due_of(messages: Sequence[AnyMessage], services: Services) -> list[Compensation]:
    """The calls that these messages made, the newest first."""
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
    """One call; `None` when its tool has no consequences."""
    tool = next((each for each in services.tools if each.name == call["name"]), None)
    reversal = reversal_of(tool)
    if reversal is not None and reversal.undo is None:
        return None
    args = dict(call["args"]) if tool is None else whole_args(tool, call["args"])
    said = None if result is None else text_of(result)
    name, shown = call["name"], reversal or Reversal(undo=None)
    return Compensation(
        key=f"{call['id']}@{message.id}",
        tool_call_id=call["id"] or "",
        message_id=message.id or "",
        tool=name,
        args=args,
        result=said,
        description=shown.words(name, args, said),
        confirm=shown.confirm,
        obstacle=_obstacle(message, reversal, result),
    )


def _obstacle(message: AIMessage, reversal: Reversal | None, result: ToolMessage | None) -> str:
    """Why a call cannot be taken back; empty when it can."""
    if "picked" in mark_of(message):
        return COPIED
    if reversal is None:
        return NO_UNDO
    if result is None:
        return NO_RESULT
    return FAILED_CALL if result.status == "error" else ""


def stands(messages: Sequence[AnyMessage], services: Services) -> bool:
    """Whether nothing that these messages did can have been taken back."""
    return all(each.obstacle for each in due_of(messages, services))


def known_entries(keys: Sequence[str], scope: Scope) -> Steps[dict[str, Entry]]:
    """The journal's entries that there are, by their keys; none without a store."""
    if scope.address is None:
        return {}
    return (yield from get_entries(*scope.address, keys))


def note_entries(entries: Sequence[Entry], scope: Scope) -> Steps[None]:
    """Write entries into the journal; nothing without a store."""
    if entries and scope.address is not None:
        yield put_entries(*scope.address, entries)


def reversal_for(call: Compensation, scope: Scope) -> Reversal | None:
    """How a call's tool takes it back, as the graph knows the tool now."""
    tools = scope.services.tools
    return reversal_of(next((each for each in tools if each.name == call.tool), None))


def finish(state: State, scope: Scope) -> Steps[Report]:
    """Take back what the committed record owes, each call once, and say what became of it.

    What a crash left half done is reported and, unless its tool is idempotent, left as it is. The
    caller commits `owed` as empty.
    """
    owed, scope.journal.owed = [*state.get("owed", []), *scope.journal.owed], []
    calls = list({(each["key"], each["returned"]): each for each in owed}.values())
    known = yield from known_entries([each["key"] for each in calls if "body" not in each], scope)
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
    reversal = reversal_for(call, scope)
    if entry.status == "running" and (reversal is None or not reversal.idempotent):
        return Outcome(compensation=call, result="unknown", reason="it was interrupted")
    if entry.status in ("pending", "running"):
        entry = yield from _taken_back(entry, reversal, scope)
    if entry.status == "done":
        return Outcome(compensation=call, result="undone")
    result = "failed" if entry.status == "failed" else "skipped"
    return Outcome(compensation=call, result=result, reason=entry.error)  # type: ignore[arg-type]


def _taken_back(entry: Entry, reversal: Reversal | None, scope: Scope) -> Steps[Entry]:
    """Take one call back, with the journal written before and after."""
    call = entry.compensation
    if reversal is None or reversal.undo is None:
        ended = entry.to("skipped", NO_UNDO)
        yield from note_entries([ended], scope)
        return ended
    # After a crash this entry says that the call may have been taken back.
    yield from note_entries([entry.to("running")], scope)
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
    yield from note_entries([ended], scope)
    return ended


def note_made(messages: Sequence[AnyMessage], turn_id: str, scope: Scope) -> Steps[None]:
    """Note the calls of an unfinished draft, so that they are known if its turn never ends."""
    calls = [each for each in due_of(messages, scope.services) if not each.obstacle]
    known = yield from known_entries([each.key for each in calls], scope)
    new = [
        Entry(compensation=each, status="made", turn_id=turn_id)
        for each in calls
        if each.key not in known
    ]
    yield from note_entries(new, scope)


def left_of(messages: Sequence[AnyMessage], scope: Scope) -> Steps[Report]:
    """What rejected drafts did that was to be taken back and was not."""
    calls = [each for each in due_of(messages, scope.services) if each.obstacle != NO_UNDO]
    known = yield from known_entries([each.key for each in calls], scope)
    left = [
        Outcome(compensation=each, result="skipped", reason=known[each.key].error)
        for each in calls
        if each.key in known and known[each.key].status != "done"
    ]
    return Report(outcomes=tuple(left))


def report_text(report: Report, texts: Texts) -> str:
    """What a person reads of a report; empty when there is nothing to tell."""
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
