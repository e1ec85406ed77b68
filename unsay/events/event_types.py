"""What happened in a thread, one event each, and the messages in them.

The shapes of `data`, by type of event:

| type | data |
|---|---|
| `thinking` | `{message_id, block}` |
| `user_message`, `assistant_message`, `tool_result` | `{message, holes}`: the dict of the message, with `None` in every `envelopes.Hole` |
| `tool_call` | `{message_id, call}` |
| `verdict` | `{message_id, mark}` |
| `checkpoint` | `{checkpoint}` |
| `rollback` | `{branch_id, kind, base, keep, removed, drafts, reason}`; the lists hold message ids |
| `restore` | the same, and `branch_ids`; with `only`, just these of their messages return |
| `compaction` | `{topic_id, label, summary, through}` |
| `expand` | `{topic_id, label}` |
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
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage, message_to_dict

from unsay.types import BranchKind, Checkpoint, Event, EventType, Forgotten, Topic

# The types of event that hold a message.
ENVELOPES = frozenset({"user_message", "assistant_message", "tool_result"})

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
    after: int = 0
    """How many events the log holds already: the same thing on another page is another event."""


class NewEvent(NamedTuple):
    """What happened, before it has its place in the event log."""

    kind: EventType
    data: Mapping[str, Any]


def stamped(
    new_events: Iterable[NewEvent], stamp: Stamp, taken: Collection[str] = ()
) -> list[Event]:
    """Return the events of what happened; no two have one id, and none has a taken one."""
    return distinct((make_event(*each, stamp=stamp) for each in new_events), taken)


def make_event(
    kind: EventType, data: Mapping[str, Any], *, stamp: Stamp, event_id: str | None = None
) -> Event:
    """Return an event; its id follows from what happened where, unless one is given.

    Time, run, turn and labels do not count for the id.
    """
    place = canonical([kind, stamp.thread_id, stamp.after, 0, data])
    return Event(
        id=f"ev-{hashlib.sha256(place.encode()).hexdigest()[:20]}"
        if event_id is None
        else event_id,
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


def verdict(message_id: str, annotation: Mapping[str, Any]) -> NewEvent:
    """Replace unsay's notes on a message of the transcript."""
    return NewEvent("verdict", {"message_id": message_id, "annotation": dict(annotation)})


def checkpoint(made: Checkpoint) -> NewEvent:
    """Mark a good point in the transcript."""
    return NewEvent("checkpoint", {"checkpoint": dict(made)})


def rollback(
    branch_id: str,
    kind: BranchKind,
    base: str | None,
    *,
    removed: Sequence[str],
    reason: str,
    keep: Sequence[str] = (),
    drafts: Sequence[str] = (),
    restored: Sequence[str] = (),
    only: Sequence[str] | None = None,
) -> NewEvent:
    """Remove the messages after `base`, or replace them by earlier ones.

    All but `restored` are ids of messages, oldest first. Without a base nothing before stays; `keep`
    stays behind what is restored, and a restore does not put `drafts` back. With `restored`, the ids
    of the cuts whose messages return, in that order, the event is a `restore`; it puts back `only`
    some of them, or for `None` all.
    """
    data = {
        "branch_id": branch_id,
        "kind": kind,
        "base": base,
        "keep": list(keep),
        "removed": list(removed),
        "drafts": list(drafts),
        "reason": reason,
    }
    if not restored:
        return NewEvent("rollback", data)
    part = {} if only is None else {"only": list(only)}
    return NewEvent("restore", {"branch_ids": list(restored), **data, **part})


def compaction(topic: Topic) -> NewEvent:
    """Leave a topic out of contexts from now on, with its summary in its place."""
    told = {"summary": topic["summary"], "through": topic["summarized_through"]}
    return NewEvent("compaction", {"topic_id": topic["id"], "label": topic["label"], **told})


def expand(topic: Topic) -> NewEvent:
    """Show a compacted topic in contexts again."""
    return NewEvent("expand", {"topic_id": topic["id"], "label": topic["label"]})


def forget(entry: Forgotten, *, again: bool = False) -> NewEvent:
    """Leave something out of contexts for a person, or show it `again`."""
    return NewEvent("remember" if again else "forget", {"forgotten": dict(entry)})


def pin(message_id: str, *, pinned: bool = True) -> NewEvent:
    """Include a message in every context, or no longer."""
    return NewEvent("pin" if pinned else "unpin", {"message_id": message_id})


def recall(message_ids: Sequence[str], question_id: str | None) -> NewEvent:
    """Show earlier messages in one context, for a question."""
    return NewEvent("recall", {"message_ids": list(message_ids), "for": question_id})


def planner_note(text: str) -> NewEvent:
    """Note a remark that no model is sent."""
    return NewEvent("planner_note", {"text": text})


def edit(messages: Iterable[BaseMessage], *, after: str | None = None) -> NewEvent:
    """Note a host's own change: the transcript is exactly these messages now.

    With `after`, they follow the message with this id, and what is before it stays.
    """
    data: dict[str, Any] = {"messages": [message_to_dict(m) for m in messages]}
    return NewEvent("edit", data if after is None else {"after": after, **data})


def fork(
    messages: Sequence[BaseMessage], checkpoints: Sequence[Checkpoint], *, source: str
) -> NewEvent:
    """Begin a thread as a copy of the thread `source`."""
    data = {
        "source": source,
        "at": messages[-1].id if messages else None,
        "messages": [message_to_dict(m) for m in messages],
        "checkpoints": [dict(each) for each in checkpoints],
    }
    return NewEvent("fork", data)
