"""A turn that is sent again: what is stored of it, found by its id."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import AnyMessage
from langgraph.store.base import BaseStore, Item
from langgraph.types import StateSnapshot

from unsay.conversation.results import Reply, reply_of, reply_to
from unsay.effects import Steps
from unsay.errors import ConflictError, InvalidNameError
from unsay.history.branch import cuts_namespace, unpack
from unsay.history.run import run_named_after
from unsay.history.runs import find_run
from unsay.history.turns import answers_in, find_place
from unsay.messages.annotations import is_question
from unsay.messages.content import preview, text_of
from unsay.operations.commands import parse_command
from unsay.operations.restore import CUT
from unsay.state import offloaded_of
from unsay.storage.items import get_item
from unsay.storage.segments import read_back
from unsay.types import Checkpoint

TURN_CHARS = 200
"""Longest turn id."""


SHOWN_CHARS = 60
"""How much of a message an error shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What is stored of a turn."""

    name: str
    """Id of the message that is answered: the turn's id, or after `/retry` the question's new one."""

    reply: Reply | None = None
    """What the turn ended in; `None` while it has not ended, or was never heard of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """The messages among which a turn's own stands."""

    name: str
    messages: Sequence[AnyMessage]
    checkpoints: Sequence[Checkpoint]


def check_turn_id(turn_id: str) -> str:
    """Return a turn's id, or raise `InvalidNameError` if it is not allowed."""
    if not turn_id.strip() or len(turn_id) > TURN_CHARS or not turn_id.isprintable():
        raise InvalidNameError(
            f"{turn_id!r} cannot name a turn: use 1 to {TURN_CHARS} printable characters, such as "
            "a UUID"
        )
    return turn_id


def stored_turn(
    store: BaseStore, thread_id: str, snapshot: StateSnapshot, message: AnyMessage
) -> Steps[Stored]:
    """Return what is stored of the turn that a message would start.

    Raises:
        ConflictError: The message's id was used for other words.
    """
    turn_id = message.id or ""
    place = yield from _find(store, thread_id, snapshot.values, turn_id)
    if place is None:
        return Stored(name=turn_id)
    _check_words(place, message)
    turn = snapshot.values.get("turn") or {}
    if snapshot.interrupts and turn.get("question_id") == place.name:
        reply = reply_of(snapshot.values, snapshot.interrupts)
    else:
        answer = answers_in(place.messages).get(place.name)
        if answer is None:
            return Stored(name=place.name)
        reply = reply_to(answer, place.checkpoints)
    return Stored(name=place.name, reply=replace(reply, turn_id=turn_id))


def _find(
    store: BaseStore, thread_id: str, state: Mapping[str, Any], turn_id: str
) -> Steps[_Place | None]:
    """Where a turn's message stands: on the record, else in what was cut."""
    record: Sequence[AnyMessage] = state.get("messages", ())
    name: str | None = turn_id
    while name is not None and not name.startswith(CUT):
        if any(each.id == name for each in record):
            return _Place(name=name, messages=record, checkpoints=state.get("checkpoints", ()))
        turn_id, name = name, (yield from find_place(store, thread_id, name))
    if name is None:
        return (yield from _sealed(store, thread_id, state, turn_id))
    item: Item | None = yield get_item(store, cuts_namespace(thread_id), name)
    if item is None:
        return None
    cut = unpack(item.value)
    return _Place(name=turn_id, messages=cut["messages"], checkpoints=cut["checkpoints"])


def _sealed(
    store: BaseStore, thread_id: str, state: Mapping[str, Any], turn_id: str
) -> Steps[_Place | None]:
    """A turn in the part of the record that the state let go of: a run tells that it was there."""
    head, checkpoints = offloaded_of(state), state.get("checkpoints", ())
    if head is None:
        return None
    if (yield from find_run(store, thread_id, run_named_after(thread_id, turn_id))) is None:
        return None
    pages = yield from read_back(store, thread_id, head, {turn_id})
    messages = [message for page in reversed(pages) for message in page.messages]
    if all(each.id != turn_id for each in messages):
        return None
    return _Place(name=turn_id, messages=messages, checkpoints=checkpoints)


def _check_words(place: _Place, message: AnyMessage) -> None:
    """Raise `ConflictError` if the id was used for other words."""
    known = next((each for each in place.messages if each.id == place.name), None)
    was = "" if known is None else text_of(known)
    same = known is not None and is_question(known) and was == text_of(message)
    command = parse_command(text_of(message))
    if place.name != message.id and command is not None:
        same = command["verb"] == "retry"
    if not same:
        new = preview(text_of(message), SHOWN_CHARS)
        raise ConflictError(
            f"The turn id {message.id!r} was used for {preview(was, SHOWN_CHARS)!r}, so it cannot "
            f"be used for {new!r}: send the same words to get their answer, or give the new ones an "
            "id of their own. Nothing was stored"
        )
