"""Pin and forget messages and join topics by a person's order, in the chat or by a call."""

import re
from collections.abc import Collection, Sequence
from unicodedata import normalize

from langchain_core.messages import AnyMessage

from unsay.context.topics import forgotten_ids, irrelevant_ids, pinned_ids
from unsay.effects import Steps
from unsay.errors import ConflictError, InputError, UnknownBranchError, UnknownTurnError
from unsay.messages.annotations import answers_by_turn, in_turns, is_irrelevant, spoken
from unsay.messages.content import same_name
from unsay.phrases import Option, Phrase, Verb
from unsay.runtime import Scope
from unsay.state import State, Update, offloaded_of
from unsay.storage.segments import find_page
from unsay.transcript.forget import Cause, apply, bounded, forget_messages, ids_to_pin, make_pin
from unsay.transcript.live import count_turns, with_step
from unsay.transcript.undo import log_pins, pin_step, same_topic_step, swap_topic
from unsay.types import Operation, Topic

# A turn's number, or a range of numbers.
TURNS = re.compile(r"(\d{1,9})(?:\s*-\s*(\d{1,9}))?")


def turns_needed(state: State, argument: str | None) -> int:
    """Return how many of the newest turns to load for a turn (`3`) or a range of turns (`3-5`).

    Turns are numbered from the first. `None` means the newest turn and gives 1, and so does a
    number over the newest. Any other text gives 0.
    """
    if argument is None:
        return 1
    match = TURNS.fullmatch(argument)
    if match is None:
        return 0
    newest = count_turns(state.get("messages", []), offloaded_of(state))
    return max(1, newest - int(match[1]) + 1)


def turns_named(state: State, argument: str | None, pending: Sequence[str]) -> list[AnyMessage]:
    """Return the messages of a turn (`3`), of a range of turns (`3-5`), or of the newest (`None`).

    Only answered turns count. System messages, notices with their commands, and messages whose
    ids are in `pending` are left out.

    Raises:
        InputError: The argument is neither a number nor a range.
        UnknownTurnError: One of the turns does not exist, or is not loaded (see `turns_needed`).
    """
    match = None if argument is None else TURNS.fullmatch(argument)
    is_range = match is not None and int(match[1]) <= int(match[2] or match[1])
    is_number = argument is not None and argument.removeprefix("-").isdecimal()
    if argument is not None and not (is_range or is_number):
        raise InputError(code="not_turn_or_range", given=argument)
    before = (offloaded_of(state) or {"turns": 0})["turns"]
    messages = [m for m in state["messages"] if m.id not in pending]
    ends = {answers[-1].id for answers in answers_by_turn(messages, goes_on=before > 0)}
    turns: list[list[AnyMessage]] = [[]]
    for message in in_turns(messages):
        if message.type != "system":
            turns[-1].append(message)
        if message.id in ends:
            turns.append([])
    del turns[-1]  # The loop opens a turn after each answer; the last one is not answered.
    last = before + len(turns)
    first, end = (last, last) if match is None else (int(match[1]), int(match[2] or match[1]))
    if argument is not None and match is None:
        raise no_turn(argument, last)
    if not max(1, before + 1) <= first <= end <= last:
        raise no_turn(argument, last)
    return [message for turn in turns[first - before - 1 : end - before] for message in turn]


def no_turn(number: object, last: int) -> UnknownTurnError:
    """Return the error for a turn that does not exist; `last` is the newest turn's number, or 0."""
    if not last:
        return UnknownTurnError(code="no_turns")
    return UnknownTurnError(code="no_turn", turn=number, last=last, timeline=Verb("timeline"))


def _turn_hint(name: str, option: Option) -> Phrase | str:
    """Return the end of an error for a `name` that is a number; empty for any other name."""
    if not name.isdecimal():
        return ""
    return Phrase(code="turn_meant", option=option)


def topic_named(state: State, what: str, *, loose: bool = False) -> Topic:
    """Return the topic with this id; if there is none, the one with this label.

    With `loose` the letter case of the label does not matter, and if no label is equal, one that
    contains `what` is enough. Raises `UnknownBranchError` if none matches, `ConflictError` if
    several labels do.
    """
    topics, folded_name = state.get("topics", []), normalize("NFC", what).casefold()
    matches = [topic for topic in topics if topic["id"] == what]
    matches = matches or [topic for topic in topics if same_name(topic["label"], what)]
    if loose and not matches:
        labels = [(topic, normalize("NFC", topic["label"]).casefold()) for topic in topics]
        equal = [topic for topic, label in labels if label == folded_name]
        matches = equal or [topic for topic, label in labels if folded_name in label]
    if len(matches) > 1:
        ids = ", ".join(f"{topic['id']} ({topic['label']})" for topic in matches)
        raise ConflictError(code="topics_match", name=what, count=len(matches), ids=ids)
    if not matches:
        raise UnknownBranchError(
            code="no_match",
            name=what,
            timeline=Verb("timeline"),
            hint=_turn_hint(what, Option("turns", typed="turn")),
        )
    return matches[0]


def join_topics(state: State, scope: Scope) -> Update:
    """Return the update that joins the newest topic to the one before, and lets `undo` reverse it.

    Raises `ConflictError` if the topic has not changed yet, or if the topic before is forgotten.
    """
    step = same_topic_step(state)
    update: Update = {**swap_topic(state, scope, step, back=False), **with_step(state, step)}
    if (turn := state.get("turn")) and turn.get("judge_labels"):
        # A turn that was stopped goes on later: the judge must not overrule the person.
        update["turn"] = {**turn, "judge_labels": False, "topic_change": None}
    return update


def pin(state: State, scope: Scope, message_ids: Sequence[str], page: str | None = None) -> Update:
    """Return the update that pins messages of the state, or of an offloaded segment.

    `page` is the segment's id; `None` is the state. The caller checks that the messages are there. A
    tool call and its results get one pin, and an irrelevant document gets none. Raises
    `ConflictError` if all are pinned already, one is forgotten, or there are too many pins.
    """
    messages, pins, current_ids = state["messages"], state.get("pins", []), pinned_ids(state)
    # An irrelevant document is in no context, so its pin could not lead to its question.
    useless = irrelevant_ids(messages)
    candidates = [message for message in messages if message.id not in useless]
    names = list(
        dict.fromkeys(ids_to_pin(candidates, message_ids) if page is None else message_ids)
    )
    new = [name for name in names if name not in current_ids]
    if not new:
        raise ConflictError(code="pinned_already", message_id=names[0])
    forgotten = forgotten_ids(messages, state.get("segments", []), state.get("forgotten", []))
    if hidden := [name for name in new if name in forgotten]:
        raise ConflictError(code="message_forgotten", message_id=hidden[0])
    added = [make_pin(name, page) for name in new]
    new_pins = bounded([*pins, *added])
    log_pins(scope, added, [])
    return Update(pins=new_pins, **with_step(state, pin_step(added, [])))


def page_with(state: State, scope: Scope, message_id: str) -> Steps[str | None]:
    """Return the id of the offloaded segment with a message to pin; `None` if the state has it.

    Raises `UnknownBranchError` if neither has it, `InputError` for a command or notice,
    `ConflictError` for an irrelevant document or a forgotten message of a segment (`pin` refuses
    those of the state), `DatabaseCorruptError` for a damaged segment.
    """
    if any(message.id == message_id for message in state["messages"]):
        _check_sent(state["messages"], message_id)
        return None
    page = None
    if scope.address is not None:
        page = yield from find_page(*scope.address, offloaded_of(state), message_id)
    if page is None:
        raise UnknownBranchError(
            code="no_message",
            message_id=message_id,
            timeline=Verb("timeline"),
            hint=_turn_hint(message_id, Option("turn")),
        )
    _check_sent(page.messages, message_id)
    if message_id in forgotten_ids(page.messages, page.segments, state.get("forgotten", [])):
        raise ConflictError(code="message_forgotten", message_id=message_id)
    return page.id


def _check_sent(messages: Sequence[AnyMessage], message_id: str) -> None:
    if message_id not in {message.id for message in spoken(messages)}:
        raise InputError(code="pin_command", message_id=message_id)
    if any(message.id == message_id and is_irrelevant(message) for message in messages):
        raise ConflictError(code="pin_irrelevant", message_id=message_id)


def unpin(state: State, scope: Scope, message_ids: Collection[str]) -> Update:
    """Return the update that removes the pins of these messages; ids without a pin are ignored.

    Raises `UnknownBranchError` if none of them has a pin.
    """
    pins = state.get("pins", [])
    removed = [pin for pin in pins if pin["message_id"] in message_ids]
    if not removed:
        raise UnknownBranchError(
            code="not_pinned",
            ids=", ".join(map(repr, sorted(set(message_ids)))),
            count=len(pins),
            timeline=Verb("timeline", python="pins.list()"),
        )
    log_pins(scope, [], removed)
    kept_pins = [pin for pin in pins if pin not in removed]
    return Update(pins=kept_pins, **with_step(state, pin_step([], removed)))


def forget_turns(
    state: State, messages: Sequence[AnyMessage], pending: Sequence[str], cause: Cause
) -> Operation:
    """Return the step that forgets the messages of turns.

    Raises `InputError` or `ConflictError`, as `forget_messages` does.
    """
    names = [message.id or "" for message in messages]
    return forget_messages(state, names, pending, cause, span=len(answers_by_turn(messages)) > 1)


def forget_span(
    state: State, what: str, through: str | None, pending: Sequence[str], cause: Cause
) -> Operation:
    """Return the step that forgets the message `what`, or all messages from `what` up to `through`.

    The two can be in either order. Raises `UnknownBranchError` if the state lacks one; `InputError`
    or `ConflictError`, as `forget_messages` does.
    """
    messages = state["messages"]
    places = {message.id: index for index, message in enumerate(messages)}
    ends = {what, through or what}
    if unknown := sorted(ends - places.keys()):
        raise UnknownBranchError(
            code="no_message", message_id=unknown[0], timeline=Verb("timeline"), hint=""
        )
    first, *_, last = sorted(places[name] for name in (what, through or what))
    conversation_ids = {message.id for message in spoken(messages)}
    inside = messages[first : last + 1]
    names = [m.id or "" for m in inside if m.id in conversation_ids and m.type != "system"]
    names = names or [messages[first].id or ""]
    return forget_messages(state, names, pending, cause, span=through is not None)


def take_step(state: State, scope: Scope, step: Operation) -> Steps[Update]:
    """Return the update that forgets or restores what `step` says; `undo` can then reverse it.

    Raises `ConflictError` if too much would be forgotten.
    """
    update = yield from apply(state, scope, step)
    return {**update, **with_step(state, step)}
