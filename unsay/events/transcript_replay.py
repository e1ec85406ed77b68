"""The transcript again, from its events."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast, get_args

from langchain_core.messages import AnyMessage, ToolMessage

from unsay.errors import EventConflictError, LedgerGapError, TranscriptError
from unsay.events.assembly import Step
from unsay.events.event_types import body_of
from unsay.events.projection import ASIDE, Record
from unsay.messages.truncation import present
from unsay.types import Checkpoint, Event, EventType

_Given = Event | Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What an event log leads to."""

    messages: list[AnyMessage]
    """The transcript, oldest first."""

    checkpoints: tuple[Checkpoint, ...]
    """Those whose message is in the transcript, in the order in which they entered it.

    The event log keeps them all; the state drops the oldest unnamed ones past its limit.
    """

    cuts: Mapping[str, tuple[AnyMessage, ...]]
    """What each rollback or restore removed from the transcript, by the id of the cut."""


def replay(
    events: Iterable[_Given], *, run_id: str | None = None, max_tool_result_bytes: int | None = None
) -> Replayed:
    """Return the transcript that the events lead to, byte for byte.

    An event that occurs twice counts once. Parts of messages, as `EventBuilder` writes them, are put
    together in their fixed order; whole messages stay as they are.

    Args:
        events: Oldest first; plain ones have a `type` and, beside it, what is in `data`.
        run_id: Replays the events of the whole thread up to the end of this run; `None` replays
            all of them.
        max_tool_result_bytes: A larger tool result becomes a record of what was left out; `None`
            shows all of them whole.

    Raises:
        LedgerGapError: An event builds on one that is missing, or the run left no event that
            changed the transcript: its log is lost, and is not an empty conversation.
        EventConflictError: Two events have one id.
        TranscriptError: An event is of no known shape.
    """
    record = Record()
    seen: dict[str, Event] = {}
    for index, event in enumerate(events if run_id is None else _until_end(list(events), run_id)):
        if not _repeats(event, seen):
            _take(record, _step(event, index))
    record.end()
    shown = [_shown(each, record.previews, max_tool_result_bytes) for each in record.messages()]
    return Replayed(
        messages=shown,
        checkpoints=tuple(record.checkpoints.values()),
        cuts={name: tuple(cut.messages()) for name, cut in record.cuts.items()},
    )


def _until_end(events: Sequence[_Given], run_id: str) -> Sequence[_Given]:
    own = (event.get("run_id") == run_id and event["type"] not in ASIDE for event in events)
    ends = [index for index, is_own in enumerate(own, start=1) if is_own]
    if not ends:
        raise LedgerGapError(
            f"The ledger has no transcript event of run {run_id!r}: look the run's id up, or put "
            "a backup of the ledger in its place"
        )
    return events[: ends[-1]]


def _is_event(event: _Given) -> bool:
    return "thread_id" in event and isinstance(event.get("data"), Mapping)


def _repeats(event: _Given, seen: dict[str, Event]) -> bool:
    """Whether an event occurs a second time; it is noted otherwise."""
    if not _is_event(event):
        return False
    whole = cast("Event", event)
    first = seen.get(whole["id"])
    if first is None:
        seen[whole["id"]] = whole
        return False
    if first is not whole and body_of(first) != body_of(whole):
        raise EventConflictError(
            f"Two events have the id {whole['id']!r} and say different things: "
            "give each event an id of its own"
        )
    return True


def _take(record: Record, step: Step) -> None:
    try:
        record.take(step)
    except KeyError as error:
        raise TranscriptError(
            f"{step.name} has no {error.args[0]!r}: its type asks for it, see the table of shapes "
            "in unsay.events.event_types"
        ) from error


def _step(event: _Given, index: int) -> Step:
    kind = cast("EventType", event.get("type"))
    if kind not in get_args(EventType):
        raise TranscriptError(
            f"Event {index} has type={kind!r}; use one of {', '.join(get_args(EventType))}"
        )
    if _is_event(event):
        return Step(kind=kind, data=event["data"], name=f"Event {event['id']!r} ({kind})")
    return Step(kind=kind, data=event, name=f"Event {index} ({kind})")


def _shown(
    message: AnyMessage, previews: Mapping[str, Mapping[str, Any]], limit: int | None
) -> AnyMessage:
    if limit is None or not isinstance(message, ToolMessage):
        return message
    told = previews.get(message.tool_call_id, {})
    return present(message, limit, preview=told.get("preview"), bounds=told.get("bounds"))
