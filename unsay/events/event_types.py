"""What happened in a thread, one event each, and the messages in them.

The shapes of `data`, by type of event:

| type | data |
|---|---|
| `thinking` | `{message_id, block}` |
| `user_message`, `assistant_message`, `tool_result` | `{message, holes}`: `envelopes.Pieces` |
| `tool_call` | `{message_id, call}` |
| `verdict` | `{message_id, mark}` |
| `checkpoint` | `{checkpoint}` |
| `rollback` | `{cut_id, kind, base, keep, removed, drafts, reason}`; the lists hold message ids |
| `restore` | the same, and `cut_ids`; with `only`, just these of their messages return |
| `fold` | `{topic_id, label, summary, through}` |
| `unfold` | `{topic_id, label}` |
| `forget`, `remember` | `{forgotten}`: what contexts leave out from now on, or show again |
| `pin`, `unpin` | `{message_id}` |
| `recall` | `{message_ids, for}` |
| `planner_note` | `{text}` |
| `edit` | `{messages}`: whole messages as dicts; with `after`, what is up to that message stays |
| `fork` | the same, and `{source, at, checkpoints}`: from which thread, and its last message |

A message is its thinking, its envelope, its tool calls and its verdict, in this order and with
nothing between. `EventBuilder` writes the parts of messages instead, see `assembly`.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    BaseMessageChunk,
    FunctionMessage,
    ToolMessage,
    message_chunk_to_message,
    message_to_dict,
)

from unsay.events.envelopes import take_apart
from unsay.types import Checkpoint, CutKind, Event, EventType, Forgotten

ENVELOPES = frozenset({"user_message", "assistant_message", "tool_result"})
"""The types of event that hold a message."""

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Where and when events happen."""

    thread_id: str
    at: str
    """ISO 8601, UTC."""

    run_id: str | None = None
    turn_id: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    """Words to find the events by."""

    after: int = 0
    """How many events the log holds already: the same thing on another page is another event."""


def make_event(
    kind: EventType, data: Mapping[str, Any], *, stamp: Stamp, event_id: str | None = None
) -> Event:
    """Return an event; its id follows from what happened where, unless one is given.

    Time, run, turn and labels do not count for the id.
    """
    place = canonical([kind, stamp.thread_id, stamp.after, 0, data])
    return Event(
        id=event_id or f"ev-{hashlib.sha256(place.encode()).hexdigest()[:20]}",
        type=kind,
        thread_id=stamp.thread_id,
        run_id=stamp.run_id,
        turn_id=stamp.turn_id,
        at=stamp.at,
        labels=dict(stamp.labels),
        data=dict(data),
    )


def distinct(events: Iterable[Event], taken: Collection[str] = ()) -> list[Event]:
    """Return the events of one stamp, a repeated or taken id replaced by one of its occurrence."""
    seen, made = set(taken), []
    for event in events:
        occurrence, name = 0, event["id"]
        while name in seen:
            occurrence += 1
            digest = hashlib.sha256(f"{event['id']}\x00{occurrence}".encode("utf-8", "replace"))
            name = f"ev-{digest.hexdigest()[:20]}"
        seen.add(name)
        made.append(Event(**{**event, "id": name}))
    return made


def body_of(event: Event) -> str:
    """Return all of an event but its id and time, as text: a retry differs in these alone."""
    place = [event[key] for key in ("type", "thread_id", "run_id", "turn_id")]
    return canonical(place) + canonical([dict(sorted(event["labels"].items())), event["data"]])


def canonical(value: Any) -> str:
    """Return text that is the same for the same plain value, before a store and after.

    Tuples count as lists, and half surrogates as the question marks that a checkpoint makes of
    them.
    """
    if isinstance(value, str):
        return repr(value.encode("utf-8", "replace"))[1:]
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{canonical(k)}:{canonical(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(canonical(each) for each in value) + "]"
    if isinstance(value, set | frozenset):
        return "<" + ",".join(sorted(canonical(each) for each in value)) + ">"
    return _ADDRESS.sub("", repr(value))


def events_of(message: BaseMessage, *, stamp: Stamp) -> list[Event]:
    """Return a message as events: thinking, the message, its tool calls, its verdict.

    Nothing is lost and nothing occurs in two events. A chunk counts as the message that a
    transcript makes of it.
    """
    if isinstance(message, BaseMessageChunk):
        message = message_chunk_to_message(message)
    kind: EventType = "user_message"
    if isinstance(message, AIMessage):
        kind = "assistant_message"
    elif isinstance(message, ToolMessage | FunctionMessage):
        kind = "tool_result"
    pieces, name = take_apart(message), {"message_id": message.id}
    found: list[tuple[EventType, dict[str, Any]]] = [
        *(("thinking", {**name, "block": block}) for block in pieces.thinking),
        (kind, {"message": pieces.envelope, "holes": pieces.holes}),
        *(("tool_call", {**name, "call": call}) for call in pieces.calls),
    ]
    if pieces.mark is not None:
        found.append(("verdict", {**name, "mark": pieces.mark}))
    return distinct(make_event(each, data, stamp=stamp) for each, data in found)


def verdict(message_id: str, mark: Mapping[str, Any], *, stamp: Stamp) -> Event:
    """Return the event that replaces unsay's notes on a message of the transcript."""
    return make_event("verdict", {"message_id": message_id, "mark": dict(mark)}, stamp=stamp)


def checkpoint(made: Checkpoint, *, stamp: Stamp) -> Event:
    """Return the event of a good point in the transcript."""
    return make_event("checkpoint", {"checkpoint": dict(made)}, stamp=stamp)


def rollback(
    cut_id: str,
    kind: CutKind,
    base: str | None,
    *,
    removed: Sequence[str],
    reason: str,
    stamp: Stamp,
    keep: Sequence[str] = (),
    drafts: Sequence[str] = (),
    restored: Sequence[str] = (),
    only: Sequence[str] | None = None,
) -> Event:
    """Return the event that removes the messages after `base`, or replaces them by earlier ones.

    All but `restored` are ids of messages, oldest first. Without a base nothing before stays; `keep`
    stays behind what is restored, and a restore does not put `drafts` back. With `restored`, the ids
    of the cuts whose messages return, in that order, the event is a `restore`; it puts back `only`
    some of them, or for `None` all.
    """
    data = {
        "cut_id": cut_id,
        "kind": kind,
        "base": base,
        "keep": list(keep),
        "removed": list(removed),
        "drafts": list(drafts),
        "reason": reason,
    }
    if not restored:
        return make_event("rollback", data, stamp=stamp)
    part = {} if only is None else {"only": list(only)}
    return make_event("restore", {"cut_ids": list(restored), **data, **part}, stamp=stamp)


def fold(
    topic_id: str, label: str, summary: str | None, through: str | None, *, stamp: Stamp
) -> Event:
    """Return the event of a topic that contexts leave out, with its summary up to a message."""
    data = {"topic_id": topic_id, "label": label, "summary": summary, "through": through}
    return make_event("fold", data, stamp=stamp)


def unfold(topic_id: str, label: str, *, stamp: Stamp) -> Event:
    """Return the event of a compacted topic that contexts show again."""
    return make_event("unfold", {"topic_id": topic_id, "label": label}, stamp=stamp)


def forget(entry: Forgotten, *, stamp: Stamp, again: bool = False) -> Event:
    """Return the event of what contexts leave out for a person, or show `again`."""
    return make_event("remember" if again else "forget", {"forgotten": dict(entry)}, stamp=stamp)


def pin(message_id: str, *, stamp: Stamp, pinned: bool = True) -> Event:
    """Return the event of a message that every context includes, or that is unpinned."""
    return make_event("pin" if pinned else "unpin", {"message_id": message_id}, stamp=stamp)


def recall(message_ids: Sequence[str], question_id: str | None, *, stamp: Stamp) -> Event:
    """Return the event of earlier messages that one context shows for a question."""
    data = {"message_ids": list(message_ids), "for": question_id}
    return make_event("recall", data, stamp=stamp)


def planner_note(text: str, *, stamp: Stamp) -> Event:
    """Return the event of a remark that no model is sent."""
    return make_event("planner_note", {"text": text}, stamp=stamp)


def edit(messages: Iterable[BaseMessage], *, stamp: Stamp, after: str | None = None) -> Event:
    """Return the event of a host's own change: the transcript is exactly these messages now.

    With `after`, they follow the message with this id, and what is before it stays.
    """
    data: dict[str, Any] = {"messages": [message_to_dict(m) for m in messages]}
    return make_event("edit", data if after is None else {"after": after, **data}, stamp=stamp)


def fork(
    messages: Sequence[BaseMessage],
    checkpoints: Sequence[Checkpoint],
    *,
    source: str,
    stamp: Stamp,
) -> Event:
    """Return the event of a thread that begins as a copy of the thread `source`."""
    data = {
        "source": source,
        "at": messages[-1].id if messages else None,
        "messages": [message_to_dict(m) for m in messages],
        "checkpoints": [dict(each) for each in checkpoints],
    }
    return make_event("fork", data, stamp=stamp)
