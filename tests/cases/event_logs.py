"""Operations on event logs and on the logs of runs."""

from collections.abc import Iterator, Sequence
from itertools import count, groupby
from pathlib import Path
from typing import Any

from langchain_core.messages import convert_to_messages
from langgraph.store.memory import InMemoryStore

from tests.cases.seen import Case, Operation, Seen
from tests.cases.world import NotBoundError
from unsay.effects import drive
from unsay.events.event_builder import EventBuilder
from unsay.events.event_types import Stamp, distinct, edit, make_event, split_message, stamped
from unsay.events.transcript_replay import replay
from unsay.storage.event_log import EMPTY, append, read_events, select
from unsay.types import Event

AT = "2026-01-01T00:00:00+00:00"
RUN = "run-1"


def _params(case: Case, *known: str) -> dict[str, Any]:
    if unknown := set(case["params"]) - set(known):
        raise NotBoundError(f"params {sorted(unknown)}")
    return dict(case["params"])


def transcript(case: Case, folder: Path) -> Seen:
    """Record events one by one, and results that follow each other in one call."""
    del folder
    _params(case)
    numbers = count(1)
    event_log = EventBuilder(thread_id="case", now=lambda: AT, new_id=lambda: f"m{next(numbers)}")
    events = case["given"]["events"]
    for kind, group in groupby(events, key=lambda each: each["type"]):
        if kind == "tool_result":
            event_log.results([{k: v for k, v in each.items() if k != "type"} for each in group])
        else:
            for event in group:
                _tell(event_log, event)
    return Seen(messages=event_log.messages())


def _tell(event_log: EventBuilder, event: Case) -> None:
    text = event.get("text", event.get("content", ""))
    match event["type"]:
        case "thinking":
            event_log.thinking(text, event.get("signature"), event.get("redacted"))
        case "assistant_message":
            event_log.text(text)
        case "tool_call":
            event_log.tool_use(event["id"], event["name"], event.get("args", {}))
        case "user_message":
            event_log.user(text)
        case "planner_note":
            event_log.note(text)
        case "flush":
            event_log.flush()
        case kind:
            raise NotBoundError(f"event {kind!r}")


def replayed(case: Case, folder: Path) -> Seen:
    """The messages that some events lead to."""
    del folder
    limit = _params(case, "max_tool_result_bytes").get("max_tool_result_bytes")
    return Seen(messages=replay(case["given"]["events"], max_tool_result_bytes=limit).messages)


def replayed_deltas(case: Case, folder: Path) -> Seen:
    """The messages of a run that was logged as lists of messages."""
    del folder
    _params(case)
    events = distinct(each for delta in case["given"]["deltas"] for each in _of_delta(delta))
    return Seen(messages=replay(events, run_id=RUN).messages)


def _of_delta(delta: Case) -> Iterator[Event]:
    stamp = Stamp(thread_id="case", at=AT, run_id=RUN)
    messages = convert_to_messages(delta.get("messages") or [])
    if "messages" in delta and not messages:
        yield make_event(*edit([]), stamp=stamp)
    for message in messages:
        yield from stamped(split_message(message), stamp)


def _event(given: Case) -> Event:
    run = given.get("run_id", RUN)
    return make_event(
        "planner_note",
        given.get("payload", {}),
        stamp=Stamp(thread_id="case", at=AT, run_id=run),
        event_id=f"{run}/{given['event_key']}",
    )


def _append(events: Sequence[Event]) -> tuple[list[bool], list[Event]]:
    """Whether each event was new, and the log afterwards."""
    store, head, inserted = InMemoryStore(), EMPTY, []
    for event in events:
        appended = drive(append(store, "case", head, event))
        head = appended.head
        inserted.append(appended.inserted)
    return inserted, drive(read_events(store, "case", head))


def append_twice_same(case: Case, folder: Path) -> Seen:
    """One event, appended twice."""
    del folder
    _params(case)
    inserted, log = _append([_event(case["given"]["event"])] * 2)
    return Seen(state={"inserted": inserted, "events": len(log)})


def append_events(case: Case, folder: Path) -> Seen:
    """Events, appended in turn."""
    del folder
    _params(case)
    inserted, log = _append([_event(each) for each in case["given"]["events"]])
    return Seen(state={"inserted": inserted, "events": len(log)})


def page(case: Case, folder: Path) -> Seen:
    """A log of numbered events, read page by page."""
    del folder
    limit = _params(case, "limit")["limit"]
    numbers = range(1, case["given"]["events"] + 1)
    _, log = _append([_event({"event_key": f"e{n}", "payload": {"number": n}}) for n in numbers])
    pages, cursor = [], None
    while True:
        found = select(log, limit=limit, cursor=cursor)
        pages.append([event["data"]["number"] for event in found.items])
        cursor = found.cursor
        if cursor is None:
            return Seen(value=pages)


def list_session(case: Case, folder: Path) -> Seen:
    """The runs of a thread's events, in the order of the log."""
    del folder
    limit = _params(case, "limit")["limit"]
    runs = enumerate(case["given"]["appends"])
    _, log = _append([_event({"run_id": run, "event_key": f"e{n}"}) for n, run in runs])
    return Seen(value=[event["run_id"] for event in select(log, limit=limit).items])


OPERATIONS: dict[str, Operation] = {
    "ledger.record": transcript,
    "ledger.replay": replayed,
    "ledger.replay_deltas": replayed_deltas,
    "runlog.append_twice_same": append_twice_same,
    "runlog.append_conflict": append_events,
    "runlog.page": page,
    "runlog.list_session": list_session,
}
