"""Event types: the shapes of a thread's events, and the functions that make them.

The shapes of `data`, by type of event:

| type | data |
|---|---|
| `thinking` | `{message_id, block}` |
| `user_message`, `assistant_message`, `tool_result` | `{message, holes}`: the dict of the message, with `None` in every `Hole` |
| `tool_call` | `{message_id, call}` |
| `verdict` | `{message_id, annotation}` |
| `checkpoint` | `{checkpoint}` |
| `checkpoint_removed` | `{checkpoint_id}` |
| `rollback` | `{branch_id, kind, base, keep, removed, drafts, reason}`; the lists hold message ids |
| `restore` | the same, and `branch_ids`; with `only`, only these messages of the branches return |
| `compaction` | `{topic_id, label, summary, through}` |
| `expand` | `{topic_id, label}` |
| `forget`, `remember` | `{forgotten}`: the entry that contexts exclude, or include again |
| `pin`, `unpin` | `{message_id}` |
| `recall` | `{message_ids, for}` |
| `planner_note` | `{text}` |
| `edit` | `{messages}`: whole messages as dicts; with `after`, they follow that message |
| `fork` | the same, and `{source, at, checkpoints}`: from which thread, and its last message |

A message is its thinking, its envelope, its tool calls and its verdict, in this order and with
nothing between. `EventBuilder` writes the parts of messages instead, see `assembly`.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import reduce
from operator import getitem
from typing import Any, Literal, NamedTuple

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    BaseMessageChunk,
    FunctionMessage,
    ToolMessage,
    message_chunk_to_message,
    message_to_dict,
)
from typing_extensions import TypedDict

from unsay.messages.annotations import KEY, annotation_of
from unsay.messages.content import is_thinking
from unsay.types import BranchKind, Checkpoint, Event, EventType, Topic

# The types of event that hold a message.
ENVELOPES = frozenset({"user_message", "assistant_message", "tool_result"})

# Keys of `additional_kwargs` that hold a model's thinking. Source: langchain's adapters of
# DeepSeek, Groq and OpenAI.
_ASIDE = ("reasoning_content", "reasoning")

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # of an object; it differs in each process


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Where and when events happened."""

    thread_id: str
    at: str  # time in ISO 8601, UTC
    run_id: str | None = None
    turn_id: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    after: int = 0  # number of earlier events; it makes the ids of equal events different


class NewEvent(NamedTuple):
    """An event before it has an id and a stamp; see `stamped`."""

    kind: EventType
    data: Mapping[str, Any]


def stamped(
    new_events: Iterable[NewEvent], stamp: Stamp, taken: Collection[str] = ()
) -> list[Event]:
    """Return the events with the stamp and with unique ids that are not in `taken`."""
    return distinct((make_event(*new, stamp=stamp) for new in new_events), taken)


def make_event(
    kind: EventType, data: Mapping[str, Any], *, stamp: Stamp, event_id: str | None = None
) -> Event:
    """Return an event; without `event_id`, its id is a hash of kind, thread, position and data.

    `stamp` says where and when it happened.
    """
    if event_id is None:
        place = canonical([kind, stamp.thread_id, stamp.after, 0, data])
        event_id = f"ev-{hashlib.sha256(place.encode()).hexdigest()[:20]}"
    return Event(
        id=event_id,
        type=kind,
        thread_id=stamp.thread_id,
        run_id=stamp.run_id,
        turn_id=stamp.turn_id,
        at=stamp.at,
        labels=dict(stamp.labels),
        data=dict(data),
    )


def distinct(events: Iterable[Event], taken: Collection[str] = ()) -> list[Event]:
    """Return new events with unique ids; a repeated or taken id is replaced by one derived from it.

    No event is left out. The same events get the same ids, also when a step is repeated.
    """
    used_ids, new_events = set(taken), []
    for event in events:
        occurrence, name = 0, event["id"]
        while name in used_ids:
            occurrence += 1
            # Derived, not random: a step that is repeated after a crash must give the same ids.
            digest = hashlib.sha256(f"{event['id']}\x00{occurrence}".encode("utf-8", "replace"))
            name = f"ev-{digest.hexdigest()[:20]}"
        used_ids.add(name)
        new_events.append(event if name == event["id"] else Event(**{**event, "id": name}))
    return new_events


def body_of(event: Event) -> str:
    """Return an event as text without id and time; a repeated step gives the same text."""
    place = [event[key] for key in ("type", "thread_id", "run_id", "turn_id")]
    return canonical(place) + canonical([dict(sorted(event["labels"].items())), event["data"]])


def canonical(value: Any) -> str:
    """Return a value as text for hashes, the same before and after a store held the value.

    Plain values are meant; any other one becomes its `repr`.
    """
    # A store returns tuples as lists, and lone surrogates as question marks.
    if isinstance(value, str):
        return repr(value.encode("utf-8", "replace"))[1:]
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{canonical(k)}:{canonical(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(canonical(item) for item in value) + "]"
    if isinstance(value, set | frozenset):
        return "<" + ",".join(sorted(canonical(item) for item in value)) + ">"
    return _ADDRESS.sub("", repr(value))


class Hole(TypedDict):
    """A place in a message's dict whose value is in a separate event."""

    piece: Literal["thinking", "call", "args", "annotation"]  # `args`: a copy of a call's
    of: int  # number of the value among those of its kind, from 0; for `args` that of the call
    path: list[str | int]  # keys and indexes that lead to the place


def split_message(message: BaseMessage) -> list[NewEvent]:
    """Return the events of a message, as far as it has them: thinking, message, tool calls, verdict.

    `join_message` makes the message from them.
    """
    if isinstance(message, BaseMessageChunk):
        message = message_chunk_to_message(message)
    tree: Any = message_to_dict(message)
    kind: EventType = "user_message"
    holes: list[Hole] = []
    if isinstance(message, AIMessage):
        kind, holes = "assistant_message", list(_holes(message, tree["data"]))
    elif isinstance(message, ToolMessage | FunctionMessage):
        kind = "tool_result"
    pieces: dict[str, list[Any]] = {"thinking": [], "call": [], "args": [], "annotation": []}
    for hole in holes:
        pieces[hole["piece"]].append(reduce(getitem, hole["path"], tree))
    for hole in holes:
        tree = put(tree, hole["path"], None)
    name = {"message_id": message.id}
    return [
        *(NewEvent("thinking", {**name, "block": block}) for block in pieces["thinking"]),
        NewEvent(kind, {"message": tree, "holes": holes}),
        *(NewEvent("tool_call", {**name, "call": call}) for call in pieces["call"]),
        *(verdict(str(message.id), annotation) for annotation in pieces["annotation"]),
    ]


def join_message(
    envelope: Mapping[str, Any], holes: Sequence[Hole], pieces: Mapping[str, Sequence[Any]]
) -> dict[str, Any]:
    """Return a copy of the dict of a message with its pieces put back; reverses `split_message`.

    `pieces` has the values by kind, and `holes` say where they belong. The caller checks before
    that `pieces` has a value for each hole.
    """
    values = {**pieces, "args": [call["args"] for call in pieces["call"]]}
    tree: dict[str, Any] = deepcopy(dict(envelope))
    for hole in holes:
        tree = put(tree, hole["path"], deepcopy(values[hole["piece"]][hole["of"]]))
    return tree


def put(tree: Any, path: Sequence[str | int], value: Any) -> Any:
    """Return a copy of nested dicts and lists with another value at a path, in the same order.

    Raises `KeyError` or `IndexError` if there is no such path; an empty path gives the value.
    """
    if not path:
        return value
    copy = tree.copy()
    copy[path[0]] = put(copy[path[0]], path[1:], value)
    return copy


def _holes(message: AIMessage, data: Mapping[str, Any]) -> Iterator[Hole]:
    """Yield the places in a message's dict whose values are in other events; `data` is its `data`."""
    content, calls = data["content"], data["tool_calls"]
    blocks = [
        (index, block)
        for index, block in enumerate(content if isinstance(content, list) else [])
        if isinstance(block, dict)
    ]
    paths: list[list[str | int]] = []
    paths += [["additional_kwargs", key] for key in _ASIDE if data["additional_kwargs"].get(key)]
    paths += [["content", index] for index, block in blocks if is_thinking(block)]
    for number, path in enumerate(paths):
        yield Hole(piece="thinking", of=number, path=["data", *path])
    for number in range(len(calls)):
        yield Hole(piece="call", of=number, path=["data", "tool_calls", number])
    numbers = {call["id"]: number for number, call in enumerate(calls)}
    for index, block in blocks:
        repeated = numbers.get(block.get("id")) if block.get("type") == "tool_use" else None
        if repeated is None or "input" not in block:
            continue
        # By text, since 1 == 1.0 == True, and the block must come back as it was.
        if repr(block["input"]) == repr(calls[repeated]["args"]):
            yield Hole(piece="args", of=repeated, path=["data", "content", index, "input"])
    if message.id is not None and "outcome" in annotation_of(message):
        yield Hole(piece="annotation", of=0, path=["data", "response_metadata", KEY])


def verdict(message_id: str, annotation: Mapping[str, Any]) -> NewEvent:
    """Return the event that replaces the annotation of a message: a new verdict, rating or lesson."""
    return NewEvent("verdict", {"message_id": message_id, "annotation": dict(annotation)})


def checkpoint(made: Checkpoint) -> NewEvent:
    """Return the event of a new or changed checkpoint; it replaces one with the same id."""
    return NewEvent("checkpoint", {"checkpoint": dict(made)})


def checkpoint_removed(removed: Checkpoint) -> NewEvent:
    """Return the event that removes a checkpoint, and leaves its message."""
    return NewEvent("checkpoint_removed", {"checkpoint_id": removed["id"]})


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
    """Return the event that moves the messages after `base` to the branch `branch_id`.

    Messages in `keep` stay. `base` `None` is the beginning, and `removed` are the moved messages.
    With `restored`, ids of branches, the event is a restore: the messages of these branches return
    in their place, or only those in `only`. `drafts` are those of the moved messages that do not
    return when the new branch is restored later.
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
    """Return the event of a topic that was left: in contexts its summary replaces its messages."""
    summary = {"summary": topic["summary"], "through": topic["summarized_through"]}
    return NewEvent("compaction", {"topic_id": topic["id"], "label": topic["label"], **summary})


def expand(topic: Topic) -> NewEvent:
    """Return the event that includes the messages of a compacted topic in contexts again."""
    return NewEvent("expand", {"topic_id": topic["id"], "label": topic["label"]})


def recall(message_ids: Sequence[str], question_id: str | None) -> NewEvent:
    """Return the event that adds earlier messages to the context of one question."""
    return NewEvent("recall", {"message_ids": list(message_ids), "for": question_id})


def planner_note(text: str) -> NewEvent:
    """Return the event of a remark that is no message: a note, or a reviewer's advice.

    No model is sent the event; the next attempt is sent the advice itself, as `guidance`.
    """
    return NewEvent("planner_note", {"text": text})


def edit(messages: Iterable[BaseMessage], *, after: str | None = None) -> NewEvent:
    """Return the event of a host's edit: the messages after `after`, or all, are replaced."""
    data: dict[str, Any] = {"messages": [message_to_dict(m) for m in messages]}
    return NewEvent("edit", data if after is None else {"after": after, **data})


def fork(
    messages: Sequence[BaseMessage], checkpoints: Sequence[Checkpoint], *, source: str
) -> NewEvent:
    """Return the event that begins a thread as a copy of the thread `source`."""
    data = {
        "source": source,
        "at": messages[-1].id if messages else None,
        "messages": [message_to_dict(m) for m in messages],
        "checkpoints": [dict(entry) for entry in checkpoints],
    }
    return NewEvent("fork", data)
