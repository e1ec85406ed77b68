"""What happened in a thread, one event each, and the messages in them.

The shapes of `data`, by type of event:

| type | data |
|---|---|
| `thinking` | `{message_id, block}` |
| `user_message`, `assistant_message`, `tool_result` | `{message, holes}`: `pieces.Pieces` |
| `tool_call` | `{message_id, call}` |
| `verdict` | `{message_id, mark}` |
| `checkpoint` | `{checkpoint}` |
| `rollback` | `{cut_id, kind, base, keep, removed, drafts, reason}`; the lists hold message ids |
| `restore` | the same, and `cut_ids`; with `only`, those of their messages alone return |
| `fold` | `{topic_id, label, summary, through}` |
| `unfold` | `{topic_id, label}` |
| `forget`, `remember` | `{forgotten}`: what views leave out from now on, or show again |
| `pin`, `unpin` | `{message_id}` |
| `recall` | `{message_ids, for}` |
| `planner_note` | `{text}` |
| `edit` | `{messages}`: whole messages as dicts; with `after`, what is up to that message stays |
| `fork` | the same, and `{source, at, checkpoints}`: from which thread, and its last message |

A message is its thinking, its envelope, its tool calls and its verdict, in this order and
with nothing between. Builders may write the parts of messages instead, see `parts`.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    BaseMessageChunk,
    FunctionMessage,
    ToolMessage,
    message_chunk_to_message,
    message_to_dict,
    messages_from_dict,
)

from unsay.errors import LedgerGapError
from unsay.events.envelopes import put_together, take_apart
from unsay.types import Checkpoint, CutKind, Event, EventType, Forgotten

ENVELOPES = frozenset({"user_message", "assistant_message", "tool_result"})
"""The types of event that hold a message."""


_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Where and when events happen."""

    thread_id: str
    """The thread that they belong to."""

    at: str
    """ISO 8601, UTC."""

    run_id: str | None = None
    """The run under way; `None` outside of one."""

    turn_id: str | None = None
    """The turn under way; `None` outside of one."""

    labels: Mapping[str, str] = field(default_factory=dict)
    """Words to find the events by."""

    after: int = 0
    """How many events the ledger holds already: the same thing on another page is another event."""


def make_event(
    kind: EventType, data: Mapping[str, Any], *, stamp: Stamp, event_id: str | None = None
) -> Event:
    """An event; its id follows from what happened where, unless one is given."""
    return Event(
        id=event_id or derived_id(kind, data, stamp=stamp),
        type=kind,
        thread_id=stamp.thread_id,
        run_id=stamp.run_id,
        turn_id=stamp.turn_id,
        at=stamp.at,
        labels=dict(stamp.labels),
        data=dict(data),
    )


def derived_id(
    kind: EventType, data: Mapping[str, Any], *, stamp: Stamp, occurrence: int = 0
) -> str:
    """The id of an event, the same for the same thing in the same place.

    Args:
        kind: Type of the event.
        data: What happened.
        stamp: Its time, run, turn and labels do not count.
        occurrence: Tells the same thing twice apart; 0 for the first.
    """
    place = [kind, stamp.thread_id, stamp.after, occurrence, data]
    return f"ev-{hashlib.sha256(canonical(place).encode()).hexdigest()[:20]}"


def distinct(events: Iterable[Event], taken: Collection[str] = ()) -> list[Event]:
    """The events, those whose id was there before with the id of a further occurrence.

    Args:
        events: Of one stamp, in order.
        taken: Ids that are in use already.
    """
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
    """All of an event but its id and time, as text: a retry says the same at another time."""
    return canonical([event[key] for key in ("type", "thread_id", "run_id", "turn_id")]) + (
        canonical([dict(sorted(event["labels"].items())), event["data"]])
    )


def canonical(value: Any) -> str:
    """Text that is the same for the same plain value, before a store and after.

    Tuples count as lists, and half surrogates as the question marks that a checkpoint
    makes of them.
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
    """A message as events: thinking, the message, its tool calls, its verdict.

    Nothing is lost and nothing stands in two events. A chunk counts as the message that a
    record makes of it.
    """
    if isinstance(message, BaseMessageChunk):
        message = message_chunk_to_message(message)
    pieces, name = take_apart(message), message.id
    thinking = [("thinking", {"message_id": name, "block": each}) for each in pieces.thinking]
    calls = [("tool_call", {"message_id": name, "call": each}) for each in pieces.calls]
    marks = [] if pieces.mark is None else [("verdict", {"message_id": name, "mark": pieces.mark})]
    envelope = {"message": pieces.envelope, "holes": pieces.holes}
    found: list[tuple[Any, dict[str, Any]]] = [
        *thinking,
        (_type_of(message), envelope),
        *calls,
        *marks,
    ]
    return distinct(make_event(kind, data, stamp=stamp) for kind, data in found)


def _type_of(message: BaseMessage) -> EventType:
    if isinstance(message, AIMessage):
        return "assistant_message"
    if isinstance(message, ToolMessage | FunctionMessage):
        return "tool_result"
    return "user_message"


def message_from(events: Sequence[Event]) -> AnyMessage:
    """The message whose events these are.

    Raises:
        LedgerGapError: They are not all of one message.
    """
    return cast("AnyMessage", messages_from_dict([tree_from(events)])[0])


def tree_from(events: Sequence[Event]) -> dict[str, Any]:
    """The message whose events these are, as `message_to_dict` gives it.

    Raises:
        LedgerGapError: They are not all of one message.
    """
    envelopes = [each for each in events if each["type"] in ENVELOPES]
    if len(envelopes) != 1:
        raise LedgerGapError(
            f"{len(envelopes)} of the events {[each['id'] for each in events]!r} hold a message "
            "and one must: hand in the events of one message"
        )
    data = envelopes[0]["data"]
    try:
        return put_together(
            data["message"],
            data["holes"],
            thinking=[e["data"]["block"] for e in events if e["type"] == "thinking"],
            calls=[e["data"]["call"] for e in events if e["type"] == "tool_call"],
            mark=next((e["data"]["mark"] for e in events if e["type"] == "verdict"), None),
        )
    except LookupError as error:
        raise LedgerGapError(
            f"Event {envelopes[0]['id']!r} lacks a piece of its message ({error}): "
            "a thinking, tool_call or verdict event beside it is missing"
        ) from error


def verdict(message_id: str, mark: Mapping[str, Any], *, stamp: Stamp) -> Event:
    """What unsay notes on a message of the record, in place of what it had noted."""
    return make_event("verdict", {"message_id": message_id, "mark": dict(mark)}, stamp=stamp)


def checkpoint(made: Checkpoint, *, stamp: Stamp) -> Event:
    """A good point on the record."""
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
) -> Event:
    """The messages after `base` leave the record, except what must stay.

    Args:
        cut_id: By which they can be put back.
        kind: Who or what made the cut.
        base: Id of the last message to keep; `None` keeps nothing before.
        removed: Ids of what leaves, oldest first.
        reason: In words.
        stamp: Of the event.
        keep: Ids after the base that stay.
        drafts: Those of the removed that were a draft: a restore does not put them back.
    """
    data = _cut(cut_id, kind, base, (keep, removed, drafts), reason)
    return make_event("rollback", data, stamp=stamp)


def restore(
    cut_ids: Sequence[str],
    cut_id: str,
    kind: CutKind,
    base: str | None,
    *,
    removed: Sequence[str],
    reason: str,
    stamp: Stamp,
    keep: Sequence[str] = (),
    drafts: Sequence[str] = (),
    only: Sequence[str] | None = None,
) -> Event:
    """What earlier cuts took replaces the messages after `base`; what stays moves behind it.

    Args:
        cut_ids: The cuts, in the order in which their messages stood on the record.
        cut_id: By which what is replaced can be put back.
        kind: Who or what made the new cut.
        base: Id of the last message to keep; `None` keeps nothing before.
        removed: Ids of what is replaced, oldest first.
        reason: In words.
        stamp: Of the event.
        keep: Ids after the base that stay.
        drafts: Those of the removed that were a draft: a restore does not put them back.
        only: Ids of what returns; `None` is all that the cuts hold.
    """
    taken = _cut(cut_id, kind, base, (keep, removed, drafts), reason)
    part = {} if only is None else {"only": list(only)}
    return make_event("restore", {"cut_ids": list(cut_ids), **taken, **part}, stamp=stamp)


def _cut(
    cut_id: str,
    kind: CutKind,
    base: str | None,
    ids: tuple[Sequence[str], Sequence[str], Sequence[str]],
    reason: str,
) -> dict[str, Any]:
    keep, removed, drafts = (list(each) for each in ids)
    return {
        "cut_id": cut_id,
        "kind": kind,
        "base": base,
        "keep": keep,
        "removed": removed,
        "drafts": drafts,
        "reason": reason,
    }


def fold(
    topic_id: str, label: str, summary: str | None, through: str | None, *, stamp: Stamp
) -> Event:
    """A topic that views leave out from now on, with its summary up to a message."""
    data = {"topic_id": topic_id, "label": label, "summary": summary, "through": through}
    return make_event("fold", data, stamp=stamp)


def unfold(topic_id: str, label: str, *, stamp: Stamp) -> Event:
    """A folded topic whose words views show again."""
    return make_event("unfold", {"topic_id": topic_id, "label": label}, stamp=stamp)


def forget(entry: Forgotten, *, stamp: Stamp, again: bool = False) -> Event:
    """What views leave out from now on because a person wants it, or show again."""
    return make_event("remember" if again else "forget", {"forgotten": dict(entry)}, stamp=stamp)


def pin(message_id: str, *, stamp: Stamp, pinned: bool = True) -> Event:
    """A message that no view leaves out from now on, or that views may leave out again."""
    return make_event("pin" if pinned else "unpin", {"message_id": message_id}, stamp=stamp)


def recall(message_ids: Sequence[str], question_id: str | None, *, stamp: Stamp) -> Event:
    """Folded messages that one view shows because a question needs them."""
    data = {"message_ids": list(message_ids), "for": question_id}
    return make_event("recall", data, stamp=stamp)


def planner_note(text: str, *, stamp: Stamp) -> Event:
    """A remark that no model is sent."""
    return make_event("planner_note", {"text": text}, stamp=stamp)


def edit(messages: Iterable[BaseMessage], *, stamp: Stamp, after: str | None = None) -> Event:
    """The host changed the record in a way of its own: it is exactly these messages now.

    Args:
        messages: All of them, oldest first.
        stamp: Of the event.
        after: Id of the message behind which they stand; what is before it stays. `None` where
            they are the whole record.
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
    """The thread begins as another one was.

    Args:
        messages: The record that it begins with.
        checkpoints: Of that record.
        source: Id of the other thread.
        stamp: Of the event.
    """
    data = {
        "source": source,
        "at": messages[-1].id if messages else None,
        "messages": [message_to_dict(m) for m in messages],
        "checkpoints": [dict(each) for each in checkpoints],
    }
    return make_event("fork", data, stamp=stamp)
