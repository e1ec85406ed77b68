"""The record again, from what happened."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What a ledger's events lead to."""

    messages: list[AnyMessage]
    """The record, oldest first."""

    checkpoints: tuple[Checkpoint, ...]
    """Those whose message is on the record, in the order in which they came to stand there.

    The ledger keeps them all; the state lets go of the oldest unnamed ones past its limit.
    """

    cuts: Mapping[str, tuple[AnyMessage, ...]]
    """What each rollback or restore took off the record, by the id of the cut."""


def replay(
    events: Iterable[Event | Mapping[str, Any]],
    *,
    max_tool_result_bytes: int | None = None,
    strict: bool = False,
) -> Replayed:
    """The record that the events tell of, byte for byte.

    An event that is there twice counts once. Parts of messages, as builders write them, are put
    together in their sacred order; whole messages stay as they are.

    Args:
        events: Oldest first; plain ones have a `type` and, beside it, what is in `data`.
        max_tool_result_bytes: A larger tool result becomes a record of what was left out;
            `None` shows all of them whole.
        strict: Whether a whole message may not be the result of a call that is not there.

    Raises:
        LedgerGapError: An event builds on one that is missing.
        EventConflictError: Two events have one id.
        TranscriptError: An event is of no known shape.
    """
    record = Record(strict=strict)
    seen: dict[str, Event] = {}
    for index, event in enumerate(events):
        if not _repeats(event, seen):
            _take(record, _step(event, index))
    record.end()
    shown = [_shown(each, record.previews, max_tool_result_bytes) for each in record.messages()]
    return Replayed(
        messages=shown,
        checkpoints=tuple(record.checkpoints.values()),
        cuts={name: tuple(cut.messages()) for name, cut in record.cuts.items()},
    )


def replay_run(
    events: Sequence[Event], run_id: str, *, max_tool_result_bytes: int | None = None
) -> Replayed:
    """The record as it stood when a run ended.

    Args:
        events: Of the whole thread, oldest first.
        run_id: Whose end.
        max_tool_result_bytes: As in `replay`.

    Raises:
        LedgerGapError: The run left no event that changed the record: its log is lost, and is
            not an empty conversation.
    """
    ends = [
        index
        for index, event in enumerate(events)
        if event["run_id"] == run_id and event["type"] not in ASIDE
    ]
    if not ends:
        raise LedgerGapError(
            f"The ledger has no transcript event of run {run_id!r}: look the run's id up, or put "
            "a backup of the ledger in its place"
        )
    end = ends[-1] + 1
    return replay(events[:end], max_tool_result_bytes=max_tool_result_bytes)


def _repeats(event: Mapping[str, Any], seen: dict[str, Event]) -> bool:
    """Whether an event is there a second time; it is noted otherwise."""
    if not _is_event(event):
        return False
    whole = cast("Event", event)
    if whole["id"] not in seen:
        seen[whole["id"]] = whole
        return False
    first = seen[whole["id"]]
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


def _is_event(event: Mapping[str, Any]) -> bool:
    return "thread_id" in event and isinstance(event.get("data"), Mapping)


def _step(event: Mapping[str, Any], index: int) -> Step:
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
