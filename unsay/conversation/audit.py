"""What a conversation keeps beside its record: events, runs, requests, its session's line."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import ToolMessage

from unsay.conversation.request_replay import Replay, ask_again, choose, of_kept, of_record
from unsay.conversation.thread import Talk
from unsay.conversation.timeline import Timeline
from unsay.effects import Steps
from unsay.errors import InputError, UnknownToolResultError
from unsay.events.event_types import Stamp, planner_note
from unsay.history.failed_requests import KeptRequest, list_requests
from unsay.history.purge import purge_thread
from unsay.history.runs import RunPage, list_runs
from unsay.history.threads import ThreadEntry, end, label
from unsay.messages.content import text_of
from unsay.model_factory import ModelLike
from unsay.operations.record_events import EMPTY, unlogged_events
from unsay.state import Update
from unsay.storage.base import Purged
from unsay.storage.event_log import Head, append, read_events
from unsay.types import Event


def events(talk: Talk) -> Steps[list[Event]]:
    """Everything that happened in the thread, oldest first, verified.

    Raises:
        UnknownThreadError: Nothing was ever said in it.
        LedgerGapError: An event is missing or was changed.
    """
    state = yield from talk.known()
    head = state.get("ledger", EMPTY)
    place = Head(page_id=head["page_id"], count=head["count"])
    stored = yield from read_events(talk.database.store, talk.thread_id, place)
    return [*stored, *unlogged_events(state, talk.scope())]


def note(
    talk: Talk, text: str, event_id: str | None, labels: Mapping[str, str] | None
) -> Steps[bool]:
    """Write a remark of the host's into the ledger; no model is sent it.

    Raises:
        InputError: It has no words.
        EventConflictError: Another event has this id.
        ConflictError: A turn is under way.
    """
    if not text.strip():
        raise InputError("The note is empty; write something to find later")
    state = yield from talk.settled()
    head = state.get("ledger", EMPTY)
    turn = state.get("turn") if event_id is None else None
    stamp = Stamp(
        thread_id=talk.thread_id,
        at=talk.scope().now(),
        turn_id=turn["question_id"] if turn else None,
        labels=labels or {},
        after=head["count"],
    )
    event = planner_note(text, stamp=stamp)
    if event_id is not None:
        event = {**event, "id": event_id}
    place = Head(page_id=head["page_id"], count=head["count"])
    done = yield from append(talk.database.store, talk.thread_id, place, event)
    if done.inserted:
        yield from talk.commit(Update(ledger={**head, **done.head}))
    return done.inserted


def runs(talk: Talk, **asked: Any) -> Steps[RunPage]:
    """The thread's runs; arguments as for `history.runs.list_runs`."""
    return (yield from list_runs(talk.database.store, thread_id=talk.thread_id, **asked))


def end_session(talk: Talk) -> Steps[ThreadEntry]:
    """End the thread for good: it can be read, and no new run may start in it."""
    yield from talk.settled()
    return (yield from end(talk.database.store, talk.thread_id, now=talk.scope().now()))


def label_session(talk: Talk, labels: Mapping[str, str | None]) -> Steps[ThreadEntry]:
    """Set labels of the thread; `None` takes one off."""
    return (yield from label(talk.database.store, talk.thread_id, labels))


def purge(talk: Talk) -> Steps[Purged]:
    """Remove the thread, and its words from the file's bytes."""
    return (yield from purge_thread(talk.database, talk.thread_id))


def tool_result(talk: Talk, tool_call_id: str) -> Steps[str]:
    """The words of a tool's result, whole, also where views leave them out.

    Raises:
        UnknownToolResultError: No tool call of the record has this id.
    """
    state = yield from talk.whole()
    for message in reversed(state["messages"]):
        if isinstance(message, ToolMessage) and message.tool_call_id == tool_call_id:
            return text_of(message)
    raise UnknownToolResultError(
        f"No tool call {tool_call_id!r} is on this thread's record; the ids stand in its messages"
    )


def replay_request(
    talk: Talk,
    *,
    turn: int | None,
    run_id: str | None,
    attempt: int | None,
    model: ModelLike | None,
) -> Steps[Replay]:
    """A request as it was made, or planned anew, and what another model makes of it.

    Raises:
        UnknownRunError: No failed request fits.
        NothingToUndoError: No turn fits.
    """
    state = yield from talk.whole()
    kept = yield from list_requests(talk.database.store, talk.thread_id)
    if turn is not None and run_id is None:
        kept = _of_turn(kept, talk.timeline_now(state), turn)
    chosen = choose(kept, turn, run_id, attempt)
    found = of_kept(chosen) if chosen else (yield from of_record(talk, state, turn))
    if model is None:
        return found
    return replace(found, again=(yield from ask_again(found, model, talk.scope())))


def _of_turn(kept: Sequence[KeptRequest], seen: Timeline, turn: int) -> list[KeptRequest]:
    """The requests of the turn that has this number on the record, else of any that had it."""
    asked = {each.question_id for each in seen.turns if each.number == turn}
    return [each for each in kept if not asked or each.turn_id in asked]
