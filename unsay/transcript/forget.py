"""Forget: exclude messages or topics from every context, as steps that can be undone and redone.

Forgotten messages stay in the transcript. Summaries that cover them are written again without them;
the summary of a segment that was offloaded in the meantime stays so even after a restore.
"""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from langchain_core.messages import AnyMessage

from unsay.context.compaction import with_partners
from unsay.context.topics import by_topic, cleared_ids, forgotten_ids, forgotten_topics
from unsay.effects import Steps
from unsay.errors import ConflictError, InputError, UnknownBranchError
from unsay.events.event_types import NewEvent
from unsay.history.branch import LiveBranch
from unsay.llm.summarize import summary_of
from unsay.messages.content import sources_of
from unsay.phrases import Verb
from unsay.runtime import Scope
from unsay.state import State, Update
from unsay.types import Forgotten, ForgottenKind, Operation, Pin, Topic

# Most pins of a thread: pinned messages must leave room for the conversation.
PINS = 64


def make_pin(message_id: str, page: str | None) -> Pin:
    """Return a pin on a message; `page` is the id of its offloaded segment, `None` for the state."""
    return Pin(message_id=message_id) if page is None else Pin(message_id=message_id, page=page)


def bounded(pins: list[Pin]) -> list[Pin]:
    """Return the pins unchanged, or raise `ConflictError` if there are more than `PINS`."""
    if len(pins) > PINS:
        raise ConflictError(code="too_many_pins", limit=PINS, count=len(pins))
    return pins


def ids_to_pin(messages: Sequence[AnyMessage], message_ids: Collection[str]) -> list[str]:
    """Return the ids to pin so that contexts include all messages with these ids.

    A tool call and its results need only one pin, which covers them all: that of the first named.
    """
    led: list[str] = []
    covered_indices: set[int] = set()
    for index, message in enumerate(messages):
        if message.id in message_ids and index not in covered_indices:
            led.append(message.id or "")
            covered_indices |= with_partners(messages, {message.id or ""})
    return led


def move_pins(
    pins: Sequence[Pin], page: str | None, message_ids: Collection[str | None] | None = None
) -> list[Pin]:
    """Return all pins, with those of the given messages moved to the offloaded segment `page`.

    `None` as `message_ids` means all pins, and `None` as `page` means the state.
    """
    return [
        make_pin(each["message_id"], page)
        if message_ids is None or each["message_id"] in message_ids
        else each
        for each in pins
    ]


def pinned_pages(state: State) -> list[str]:
    """Return the segment's id of each offloaded pin; some can be equal. Empty without offloaded pins."""
    return [each["page"] for each in state.get("pins", []) if "page" in each]


# Most entries that a thread may have at a time.
FORGOTTEN = 64
# Most message ids in all entries together: the state carries them in every turn.
FORGOTTEN_MESSAGES = 1_000
# Number of a forgotten topic's newest message ids that its entry stores, to find where it ended.
TOPIC_ENDS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why something is forgotten, and when (ISO 8601), for lists and the event log."""

    reason: str
    created_at: str


def forget_messages(
    state: State,
    message_ids: Collection[str],
    pending: Collection[str],
    cause: Cause,
    *,
    span: bool,
) -> Operation:
    """Return the step that forgets messages, with the other messages of their tool calls.

    Nothing is changed yet: `apply` does that. `cause` says why and when; a `span` is listed as one.

    Raises:
        InputError: A message is `pending` (it waits for its answer), or all are system messages.
        ConflictError: All are forgotten already, or there would be too many forgotten messages.
    """
    messages = state["messages"]
    group = [messages[index] for index in sorted(with_partners(messages, message_ids))]
    if waiting := [m.id for m in group if m.id in pending]:
        raise InputError(code="forget_waiting", message_id=waiting[0], undo=Verb("undo"))
    ids = [m.id or "" for m in group if m.type != "system"]
    if not ids:
        raise InputError(code="forget_system", ids=sorted(message_ids))
    hidden = _hidden_ids(state, state.get("forgotten", []))
    new = [message_id for message_id in ids if message_id not in hidden]
    if not new:
        raise ConflictError(code="message_forgotten_already", message_id=ids[0])
    return forget_step(state, make_entry("span" if span else "message", new, cause))


def forget_topic(state: State, topic: Topic, pending: Collection[str], cause: Cause) -> Operation:
    """Return the step that forgets a topic's messages so far, except `pending` ones.

    Raises `UnknownBranchError` if all its messages were removed, `InputError` if only `pending` ones
    are left, `ConflictError` if the topic is forgotten already or too much would be forgotten.
    """
    if topic["id"] in forgotten_topics(state.get("forgotten", [])):
        raise ConflictError(code="topic_forgotten_already", topic_id=topic["id"])
    messages = by_topic(state["messages"], state.get("segments", [])).get(topic["id"], [])
    if not messages and not topic.get("offloaded"):  # a rollback removed all of them
        raise UnknownBranchError(
            code="no_match", name=topic["label"], timeline=Verb("timeline"), hint=""
        )
    ids = [m.id or "" for m in messages if m.id not in pending]
    if not ids and not topic.get("offloaded"):
        raise InputError(code="forget_waiting_topic", undo=Verb("undo"), topic_id=topic["id"])
    entry = make_entry("topic", ids[-TOPIC_ENDS:], cause, topic["id"])
    return forget_step(state, {**entry, "topic_id": topic["id"]})


def make_entry(
    kind: ForgottenKind, message_ids: Sequence[str], cause: Cause, seed: str = ""
) -> Forgotten:
    """Return the entry of forgotten messages; its id is a hash of all but the `cause`.

    `kind` is what was forgotten, `cause` why and when. For a topic `seed` is its id, because the
    entry has only the topic's last messages.
    """
    # A hash and not a random id, so that a node that runs again after a crash makes the same entry.
    parts = "\x00".join((kind, seed, *message_ids)).encode("utf-8", "surrogatepass")
    return Forgotten(
        id=f"forgot-{hashlib.sha256(parts).hexdigest()[:16]}",
        kind=kind,
        message_ids=list(message_ids),
        reason=cause.reason,
        created_at=cause.created_at,
    )


def forget_step(state: State, entry: Forgotten) -> Operation:
    """Return the step that adds an entry of forgotten messages and removes their pins.

    Raises `ConflictError` if the entries or their messages would be too many.
    """
    _within([*state.get("forgotten", []), entry])
    hidden = _hidden_ids(state, [entry])
    unpinned = [each for each in state.get("pins", []) if each["message_id"] in hidden]
    return Operation(kind="forget", base=None, branches=[], forgotten=[entry], unpinned=unpinned)


def restore_step(state: State, entry: Forgotten, what: str) -> Operation:
    """Return the step that restores an entry; if `what` is one of its messages, only that message.

    The message's tool call and results are restored with it. A topic is always restored whole.
    """
    step = Operation(kind="forget", base=None, branches=[], remembered=[entry])
    if what in (entry["id"], entry.get("topic_id")) or "topic_id" in entry:
        return step
    messages = state["messages"]
    restored = {what, *(messages[index].id for index in with_partners(messages, {what}))}
    remaining = [name for name in entry["message_ids"] if name not in restored]
    return {**step, "forgotten": [{**entry, "message_ids": remaining}]} if remaining else step


def step_message_ids(step: Operation) -> list[str]:
    """Return the ids of the messages that a step forgets or restores."""
    entries = (*step.get("forgotten", []), *step.get("remembered", []))
    return [name for each in entries for name in each["message_ids"]]


def apply(state: State, scope: Scope, step: Operation, *, back: bool = False) -> Steps[Update]:
    """Return the update that forgets or restores what a step says, or with `back` undoes it.

    Summaries that cover these messages are written again, without a model if there is none or it
    fails. Raises `ConflictError` if too much would be forgotten, or with `back` too much pinned.
    """
    added, removed = step.get("forgotten", []), step.get("remembered", [])
    if back:
        added, removed = removed, added
    names = {each["id"] for each in (*added, *removed)}
    kept_entries = [each for each in state.get("forgotten", []) if each["id"] not in names]
    entries = _within([*kept_entries, *added])
    removed_pins = step.get("unpinned", [])
    unpinned = {each["message_id"] for each in removed_pins}
    pins = [each for each in state.get("pins", []) if each["message_id"] not in unpinned]
    if back:
        pins = bounded([*pins, *move_pins(removed_pins, None)])
    scope.step_log.later_events += [
        NewEvent("remember", {"forgotten": dict(each)}) for each in removed
    ]
    scope.step_log.later_events += [NewEvent("forget", {"forgotten": dict(each)}) for each in added]
    update = Update(messages=[], forgotten=entries, pins=pins)
    if state.get("asked_for") and any(each["kind"] == "topic" for each in added):
        # The entry of a topic does not name all its messages, and one of them may be asked for.
        update["asked_for"] = []
    topics = yield from _with_new_summaries(state, entries, scope)
    return {**update, "topics": topics} if topics != state.get("topics", []) else update


def _within(entries: list[Forgotten]) -> list[Forgotten]:
    """Return the entries, or raise `ConflictError` if they or their messages are too many."""
    count = sum(len(each["message_ids"]) for each in entries)
    if len(entries) > FORGOTTEN or count > FORGOTTEN_MESSAGES:
        raise ConflictError(
            code="too_much_forgotten",
            entries=len(entries),
            messages=count,
            most_entries=FORGOTTEN,
            most_messages=FORGOTTEN_MESSAGES,
        )
    return entries


def _with_new_summaries(
    state: State, entries: Sequence[Forgotten], scope: Scope
) -> Steps[list[Topic]]:
    """Return the topics; a summary that covers a message to forget or restore is written again.

    If there is no model, or it fails, the summary is made without one.
    """
    # Messages that become forgotten, and those that come back.
    changed_ids = left_out(state, state.get("forgotten", [])) ^ left_out(state, entries)
    live = LiveBranch(messages=tuple(state["messages"]), segments=tuple(state.get("segments", [])))
    grouped = by_topic(live.messages, live.segments)
    topics: list[Topic] = []
    for topic in state.get("topics", []):
        ids = [message.id or "" for message in grouped.get(topic["id"], [])]
        through = topic["summarized_through"]
        covered = set(ids[: ids.index(through) + 1] if through in ids else ())
        if changed_ids.isdisjoint(covered):
            topics.append(topic)
            continue
        messages = [message for message in grouped[topic["id"]] if message.id in covered]
        earlier = topic.get("offloaded")
        summary = yield from summary_of(messages, live, entries, scope, earlier=earlier)
        sources = sources_of(messages, earlier)
        topics.append({**topic, "summary": summary, "sources": sources})
    return topics


def _hidden_ids(state: State, entries: Sequence[Forgotten]) -> frozenset[str]:
    return forgotten_ids(state["messages"], state.get("segments", []), entries)


def left_out(state: State, entries: Sequence[Forgotten]) -> frozenset[str]:
    """Return the ids of the state's messages that contexts omit or shorten because of entries.

    Offloaded messages are not included.
    """
    return _hidden_ids(state, entries) | cleared_ids(state["messages"], entries)
