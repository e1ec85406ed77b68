"""Pin, unpin, forget and remember by a person's order, in the chat or by a call."""

import re
from collections.abc import Collection, Sequence

from langchain_core.messages import AnyMessage

from unsay.context.exclusions import forgotten_ids
from unsay.effects import Steps
from unsay.errors import ConflictError, InputError, UnknownBranchError
from unsay.events import event_types
from unsay.messages.annotations import is_answer, spoken
from unsay.operations.forget import Cause, apply, forget_messages
from unsay.operations.pin import bounded, leading, make_pin, pinned_ids
from unsay.operations.rollback import turns_left, with_step
from unsay.runtime import Scope
from unsay.state import State, Update, offloaded_of
from unsay.storage.segments import find_page
from unsay.types import Operation, Topic

TURNS = re.compile(r"(\d{1,9})(?:\s*-\s*(\d{1,9}))?", re.ASCII)
"""A turn's number, or a range of numbers."""


def turns_needed(state: State, argument: str) -> int:
    """Return how many of the newest turns the state must hold for an order that names some."""
    found = TURNS.fullmatch(argument)
    if found is None:
        return 0 if argument else 1
    newest = turns_left(state.get("messages", []), offloaded_of(state))
    return max(1, newest - int(found[1]) + 1)


def turns_named(state: State, argument: str, pending: Sequence[str]) -> list[AnyMessage]:
    """Return the messages of a turn (`3`), of a range of turns (`3-5`), or of the newest."""
    before = (offloaded_of(state) or {"turns": 0})["turns"]
    turns: list[list[AnyMessage]] = [[]]
    for message in spoken([m for m in state["messages"] if m.id not in pending]):
        if message.type != "system":
            turns[-1].append(message)
        if is_answer(message):
            turns.append([])
    del turns[-1]  # it has no answer
    last = before + len(turns)
    found = TURNS.fullmatch(argument)
    first, end = (last, last) if found is None else (int(found[1]), int(found[2] or found[1]))
    if not max(1, before + 1) <= first <= end <= last:
        raise InputError(
            f"There are no turns {argument or last!r}: the conversation has {last!r}, and "
            "/timeline lists them"
        )
    return [message for turn in turns[first - before - 1 : end - before] for message in turn]


def topic_named(state: State, what: str, *, loose: bool = False) -> Topic:
    """Return the topic with this id or label; `loose` accepts a part of a label, in any case."""
    topics = state.get("topics", [])
    found = [each for each in topics if each["id"] == what]
    found = found or [each for each in topics if each["label"] == what]
    if loose and not found:
        found = [each for each in topics if what.casefold() in each["label"].casefold()]
    if len(found) > 1:
        ids = ", ".join(each["id"] for each in found)
        raise ConflictError(f"{what!r} names several topics: give one's id: {ids}")
    if not found:
        raise UnknownBranchError(
            f"No message or topic of this thread is called {what!r}; timeline() lists them"
        )
    return found[0]


def pin(state: State, scope: Scope, message_ids: Sequence[str], page: str | None = None) -> Update:
    """Pin messages; `page` is the offloaded segment that holds them, `None` if the state does."""
    messages, pins, known = state["messages"], state.get("pins", []), pinned_ids(state)
    names = leading(messages, message_ids) if page is None else message_ids
    new = [name for name in dict.fromkeys(names) if name not in known]
    if not new:
        raise ConflictError(f"Message {names[0]!r} is pinned already")
    forgotten = forgotten_ids(messages, state.get("segments", []), state.get("forgotten", []))
    if lost := [name for name in new if name in forgotten]:
        raise ConflictError(f"Message {lost[0]!r} is forgotten: restore it first, then pin it")
    made = bounded([*pins, *(make_pin(name, page) for name in new)])
    scope.step_log.later_events += [event_types.pin(name) for name in new]
    return Update(pins=made)


def page_with(state: State, scope: Scope, message_id: str) -> Steps[str | None]:
    """Return the id of the offloaded segment with a message to pin; `None` if the state has it."""
    if any(message.id == message_id for message in state["messages"]):
        _check_spoken(state["messages"], message_id)
        return None
    page = None
    if scope.address is not None:
        page = yield from find_page(*scope.address, offloaded_of(state), message_id)
    if page is None:
        raise UnknownBranchError(
            f"Message {message_id!r} is not on the record; timeline() lists what is"
        )
    _check_spoken(page.messages, message_id)
    if message_id in forgotten_ids(page.messages, page.segments, state.get("forgotten", [])):
        raise ConflictError(f"Message {message_id!r} is forgotten: restore it first, then pin it")
    return page.id


def _check_spoken(messages: Sequence[AnyMessage], message_id: str) -> None:
    if message_id not in {message.id for message in spoken(messages)}:
        raise InputError(
            f"Message {message_id!r} is an order or a notice, which no model is shown: pin a "
            "question or an answer"
        )


def unpin(state: State, scope: Scope, message_ids: Collection[str]) -> Update:
    """Remove the pins of messages."""
    pins = state.get("pins", [])
    off = [each["message_id"] for each in pins if each["message_id"] in message_ids]
    if not off:
        raise UnknownBranchError(
            f"Nothing of {sorted(set(message_ids))!r} is pinned; pins() lists the {len(pins)!r} "
            "pins there are"
        )
    scope.step_log.later_events += [event_types.pin(name, pinned=False) for name in off]
    return Update(pins=[each for each in pins if each["message_id"] not in off])


def forget_turns(
    state: State, said: Sequence[AnyMessage], pending: Sequence[str], cause: Cause
) -> Operation:
    """Return the step that forgets the messages of some turns."""
    names = [message.id or "" for message in said]
    return forget_messages(state, names, pending, cause, span=sum(map(is_answer, said)) > 1)


def forget_span(
    state: State, what: str, through: str | None, pending: Sequence[str], cause: Cause
) -> Operation:
    """Return the step that forgets a message, or a span of messages."""
    messages = state["messages"]
    places = {message.id: index for index, message in enumerate(messages)}
    ends = {what, through or what}
    if lost := sorted(ends - places.keys()):
        raise UnknownBranchError(f"Message {lost[0]!r} is not on the record; timeline() lists it")
    first, *_, last = sorted(places[name] for name in (what, through or what))
    said = {message.id for message in spoken(messages)}
    inside = messages[first : last + 1]
    names = [m.id or "" for m in inside if m.id in said and m.type != "system"]
    names = names or [messages[first].id or ""]
    return forget_messages(state, names, pending, cause, span=through is not None)


def take_step(state: State, scope: Scope, step: Operation) -> Steps[Update]:
    """Carry out a step that forgets or remembers; it can be undone."""
    update = yield from apply(state, scope, step)
    return {**update, **with_step(state, step)}
