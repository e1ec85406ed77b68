"""Operations on event logs and on the logs of runs."""

from collections.abc import Iterator, Sequence
from itertools import count, groupby
from pathlib import Path
from typing import Any

from langchain_core.messages import convert_to_messages
from langgraph.store.memory import InMemoryStore

from tests.cases.observation import Case, Observation, Operation
from tests.cases.world import NotBoundError
from unsay.effects import drive
from unsay.events.event_builder import EventBuilder
from unsay.events.event_types import Stamp, distinct, edit, make_event, split_message, stamped
from unsay.events.transcript_replay import replay
from unsay.storage.event_log import append, read_events, select
from unsay.storage.pages import EMPTY
from unsay.types import Event

AT = "2026-01-01T00:00:00+00:00"
RUN = "run-1"


def _params(case: Case, *known_names: str) -> dict[str, Any]:
    if unknown := set(case["params"]) - set(known_names):
        raise NotBoundError(f"params {sorted(unknown)}")
    return dict(case["params"])


def transcript(case: Case, folder: Path) -> Observation:
    """Record events one by one, and results that follow each other in one call."""
    del folder
    _params(case)
    numbers = count(1)
    event_log = EventBuilder(thread_id="case", now=lambda: AT, new_id=lambda: f"m{next(numbers)}")
    events = case["given"]["events"]
    for kind, group in groupby(events, key=lambda event: event["type"]):
        if kind == "tool_result":
            event_log.results([{k: v for k, v in event.items() if k != "type"} for event in group])
        else:
            for event in group:
                _tell(event_log, event)
    return Observation(messages=event_log.messages())


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


def replay_log(case: Case, folder: Path) -> Observation:
    """The messages that some events lead to."""
    del folder
    limit = _params(case, "max_tool_result_bytes").get("max_tool_result_bytes")
    return Observation(
        messages=replay(case["given"]["events"], max_tool_result_bytes=limit).messages
    )


def replayed_deltas(case: Case, folder: Path) -> Observation:
    """The messages of a run that was logged as lists of messages."""
    del folder
    _params(case)
    events = distinct(event for delta in case["given"]["deltas"] for event in _of_delta(delta))
    return Observation(messages=replay(events, run_id=RUN).messages)


def _of_delta(delta: Case) -> Iterator[Event]:
    stamp = Stamp(thread_id="case", at=AT, run_id=RUN)
    messages = convert_to_messages(delta.get("messages") or [])
    if "messages" in delta and not messages:
        yield make_event(*edit([]), stamp=stamp)
    for message in messages:
        yield from stamped(split_message(message), stamp)


def _event(inputs: Case) -> Event:
    run = inputs.get("run_id", RUN)
    return make_event(
        "planner_note",
        inputs.get("payload", {}),
        stamp=Stamp(thread_id="case", at=AT, run_id=run),
        event_id=f"{run}/{inputs['event_key']}",
    )


def _append(events: Sequence[Event]) -> tuple[list[bool], list[Event]]:
    """Whether each event was new, and the log afterwards."""
    store = InMemoryStore()
    head = EMPTY
    insertions = []
    for event in events:
        result = drive(append(store, "case", head, event))
        head = result.head
        insertions.append(result.inserted)
    return insertions, drive(read_events(store, "case", head))


def append_twice_same(case: Case, folder: Path) -> Observation:
    """One event, appended twice."""
    del folder
    _params(case)
    insertions, log = _append([_event(case["given"]["event"])] * 2)
    return Observation(state={"inserted": insertions, "events": len(log)})


def append_events(case: Case, folder: Path) -> Observation:
    """Events, appended in turn."""
    del folder
    _params(case)
    insertions, log = _append([_event(event) for event in case["given"]["events"]])
    return Observation(state={"inserted": insertions, "events": len(log)})


def page(case: Case, folder: Path) -> Observation:
    """A log of numbered events, read page by page."""
    del folder
    limit = _params(case, "limit")["limit"]
    numbers = range(1, case["given"]["events"] + 1)
    _, log = _append([_event({"event_key": f"e{n}", "payload": {"number": n}}) for n in numbers])
    pages = []
    cursor = None
    while True:
        page = select(log, limit=limit, cursor=cursor)
        pages.append([event["data"]["number"] for event in page.items])
        cursor = page.cursor
        if cursor is None:
            return Observation(value=pages)


def list_session(case: Case, folder: Path) -> Observation:
    """The runs of a thread's events, in the order of the log."""
    del folder
    limit = _params(case, "limit")["limit"]
    runs = enumerate(case["given"]["appends"])
    _, log = _append([_event({"run_id": run, "event_key": f"e{n}"}) for n, run in runs])
    return Observation(value=[event["run_id"] for event in select(log, limit=limit).items])


OPERATIONS: dict[str, Operation] = {
    "ledger.record": transcript,
    "ledger.replay": replay_log,
    "ledger.replay_deltas": replayed_deltas,
    "runlog.append_twice_same": append_twice_same,
    "runlog.append_conflict": append_events,
    "runlog.page": page,
    "runlog.list_session": list_session,
}
