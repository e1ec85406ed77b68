"""Retry and edit: a question is asked again, as it was or in other words, and what it replaces is kept."""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import takewhile

from langchain_core.messages import AnyMessage, HumanMessage

from unsay.effects import Steps
from unsay.errors import InputError, NothingToUndoError
from unsay.history.branch import Change, Label, LiveBranch, replace_tail, without_repeats
from unsay.memory.visibility import turns_named
from unsay.messages.annotations import (
    annotation_of,
    answer_of_turn,
    answers_by_turn,
    is_notice,
    is_question,
    spoken,
)
from unsay.messages.boundaries import steps
from unsay.messages.content import text_of, with_text
from unsay.orders.parse import parse_command
from unsay.phrases import Verb
from unsay.runtime import Scope
from unsay.state import State, Update, offloaded_of
from unsay.transcript.live import (
    count_turns,
    live_branch,
    load_branches,
    next_entry_id,
    note_turn_places,
    safe_base,
    save_branch,
    settle,
    with_step,
)
from unsay.transcript.pending import check_message, find_pending, open_turn, with_hand_offs
from unsay.transcript.undo import renumber_and_log
from unsay.types import BranchKind, Operation, Segment, StoredBranch, Turn

# How many earlier answers a retry shows to the model, the newest, and how much of each.
ANSWERS = 4
ANSWER_CHARS = 1_000


def check_retry(state: State, pending: Sequence[str]) -> None:
    """Raise `NothingToUndoError` if there is no question to ask again; also as `check_message`."""
    question_messages = _last_asked(live_branch(state), pending)
    question = next((m for m in reversed(question_messages) if is_question(m)), None)
    if question is None:
        raise NothingToUndoError(code="no_question")
    check_message(question)


def check_edit(state: State, number: str, text: str, pending: Sequence[str]) -> str | None:
    """Return the id of the first user message of the turn that gets a new text.

    `pending` are ids of messages that wait for an answer.

    Raises:
        InputError: The text is empty, or the turn has no question.
        UnknownTurnError: No such answered turn is loaded.
        MessageTooLongError: The text is too long.
    """
    if not text:
        raise InputError(code="edit_empty", turn=number)
    messages = turns_named(state, number, pending)
    human_messages = [message for message in messages if message.type == "human"]
    if not any(is_question(message) for message in human_messages):
        raise InputError(code="edit_without_question", turn=number)
    check_message(HumanMessage(text))
    return human_messages[0].id


def ask_again(
    state: State, scope: Scope, *, reason: str, to: str | None, text: str | None = None
) -> Steps[Update]:
    """Return the update that removes the last turn and the command, and asks its question again.

    What it removes is kept as branches, which an undo restores. The question gets a new id. With a
    `text` (an edit), the turn that begins at the message `to` and all later ones are removed, and
    the question gets the text. Else `to` is the branch of an interrupted turn, or `None`. Raises
    `ConflictError` if that message or branch is no longer there, `DatabaseCorruptError` if the
    branch is damaged.
    """
    live, pending = live_branch(state), scope.keeps  # none for a host's order without a message
    turn = state.get("turn") or open_turn(state, find_pending(state["messages"], None), "")
    first = live.index_of(pending[0]) if pending else len(live.messages)
    before = live.id_at(first - 1)
    # The command leaves first: a branch of its own, which lists leave out because of its kind.
    # A question that waits is not part of it: an edit moves it to the branch of the later turns.
    commands = with_hand_offs(live.messages, pending)
    waiting = [name for name in pending if name not in commands]
    order = Label(kind="order", reason=reason, created_at=scope.now())
    change = replace_tail(live, before, label=order, keep=waiting)
    refs = save_branch(change, scope, state.get("branches", []))
    writes = change.writes
    branches: list[str] = []
    resumed = text is None and to is not None
    if resumed:  # the turn was interrupted, so its question is in a branch already
        (branch,) = yield from load_branches([to or ""], scope, refs)
        question_messages = branch["messages"]
    else:
        question_messages = (
            _last_asked(change.live, ()) if text is None else _asked_at(change.live, to)
        )
        start = change.live.index_of(question_messages[0].id)
        base = safe_base(change.live, change.live.position_before(start))
        kind: BranchKind = "retry" if text is None else "edit"
        label = Label(kind=kind, reason=reason, created_at=order.created_at)
        change = replace_tail(change.live, base, label=label)
        refs = save_branch(change, scope, refs)
        branch, branches, writes = change.branch, [change.branch["id"]], [*writes, *change.writes]
    update, live = settle(state, change, refs), change.live
    new_messages = [_asked_again(message, turn) for message in question_messages]
    update.update(_same_topic(update, branch, question_messages, new_messages[0].id or ""))
    question_id = next(m.id for m in reversed(new_messages) if is_question(m))
    if text is not None:
        new_messages = [m for m in new_messages if m.id == question_id or not is_question(m)]
        new_messages = [with_text(m, text) if m.id == question_id else m for m in new_messages]
    update["messages"] = [*writes, *new_messages]
    update["turn"] = {
        **_with_earlier(turn, branch, scope, edits=text is not None),
        "number": count_turns(live.messages, offloaded_of(state)) + 1,
        "question_id": question_id,
        "pending": [message.id or "" for message in new_messages],
        "base": live.position_before(len(live.messages)),
        "done": False,
        "branches": branches,
    }
    if resumed:
        names = [message.id or "" for message in question_messages if is_question(message)]
        note_turn_places(dict.fromkeys(names, question_id or ""), scope)
    return update


def _same_topic(
    update: Update, branch: StoredBranch, asked: Sequence[AnyMessage], start: str
) -> Update:
    """Return an update that begins a topic at the message `start` if the removed question began it.

    `asked` are the question's messages as they were, and `branch` now holds them. The update is empty
    if the question began no topic.
    """
    starts = {each["start"]: each["topic_id"] for each in branch["segments"]}
    topic = next((starts[m.id] for m in asked if m.id in starts), None)
    if topic is None:
        return Update()
    labels = {each["id"]: each["label"] for each in update["topics"]}
    segments = [*update["segments"], Segment(topic_id=topic, start=start)]
    return Update(segments=segments, current_topic=labels.get(topic, ""))


def _with_earlier(turn: Turn, branch: StoredBranch, scope: Scope, *, edits: bool) -> Turn:
    """Return the new turn with what it takes over from the removed one.

    These are its answers, from which a retry must differ, and the names of its checkpoints: the new
    answer gets those of the old one, except after an edit. Names that are lost are streamed.
    """
    old = next(map(answer_of_turn, reversed(answers_by_turn(branch["messages"]))), None)
    ids_by_name = {
        each["name"]: each["message_id"] for each in branch["checkpoints"] if each["name"]
    }
    live_names = [name for name, at in ids_by_name.items() if old and not edits and at == old.id]
    dropped = [name for name in ids_by_name if name not in live_names]
    if dropped:
        scope.emit("checkpoints_removed", names=dropped)
    answers: list[str] = []
    if old is not None and not edits:
        answers = [*annotation_of(old).get("earlier_answers", []), text_of(old)[:ANSWER_CHARS]]
    return {
        **turn,
        "earlier_answers": answers[-ANSWERS:],
        "keep_names": live_names,
        "dropped_names": dropped,
    }


def _asked_at(live: LiveBranch, first_id: str | None) -> list[AnyMessage]:
    """Return the user's messages of a turn; `ConflictError` if the transcript lacks the first one."""
    start = live.index_of(first_id)
    return list(takewhile(lambda message: message.type == "human", spoken(live.messages[start:])))


def _asked_again(message: AnyMessage, turn: Turn) -> AnyMessage:
    # A hash and not a random id, so that a node that runs again after a crash adds no second question.
    seed = f"{message.id}\x00{turn['question_id'] or ''}".encode("utf-8", "surrogatepass")
    name = f"again-{hashlib.sha256(seed).hexdigest()[:20]}"
    return message.model_copy(update={"id": name})


def _last_asked(live: LiveBranch, pending: Sequence[str]) -> list[AnyMessage]:
    """Return the last question with its documents; empty without one.

    Commands and `pending` messages do not count.
    """
    question_messages: list[AnyMessage] = []
    skipped: set[str] = set()
    for message in reversed(live.messages):
        if is_notice(message):
            answers = annotation_of(message).get("answers", ())
            answered_messages = [m for m in live.messages if m.id in answers]
            if any(parse_command(text_of(m)) is not None for m in answered_messages):
                skipped.update(answers)
            elif answered_messages and not question_messages:
                return [m for m in answered_messages if m.type == "human"]
        elif message.id in skipped or message.id in pending:
            continue
        if message.type == "human":
            question_messages.append(message)
        elif question_messages:
            break
    return question_messages[::-1]


def removable(state: State, number: str, pending: Sequence[str]) -> list[str]:
    """Return the ids of the messages of a turn that can be removed alone, without system messages.

    `number` is the turn's, as text; `pending` messages do not count. Raises `UnknownTurnError` if
    there is no such answered turn, `InputError` if `number` is no number, or if a message that stays
    needs one of them, as a tool's result needs its call.
    """
    ids = [m.id or "" for m in turns_named(state, number, pending) if m.type != "system"]
    messages = state["messages"]
    for step in steps(messages):
        inside = [messages[index].id in ids for index in step]
        if any(inside) and not all(inside):
            needs = messages[step[inside.index(False)]].id
            raise InputError(
                rollback=Verb("rollback"), code="turn_tied", turn=number, message_id=needs
            )
    return ids


def remove_turn(
    state: State, scope: Scope, number: str, pending: Sequence[str], reason: str
) -> Update:
    """Return the update that removes a turn and keeps it as a branch; `undo` reverses it.

    Summaries that cover the turn apply no more: their other messages are sent in full until the
    next summary. Raises `UnknownTurnError` or `InputError`, as `removable` does.
    """
    ids, live = removable(state, number, pending), live_branch(state)
    first = live.index_of(ids[0])
    base = live.position_before(first)
    keep = [m.id or "" for m in live.messages[first:] if m.id not in ids]
    label = Label(kind="remove", reason=reason, created_at=scope.now())
    leaving = [*ids, *with_hand_offs(live.messages, pending)]
    change = _with_topics(live, replace_tail(live, base, label=label, keep=keep), leaving)
    refs = save_branch(change, scope, state.get("branches", []))
    update = settle(state, change, refs)
    update["entry_id"] = next_entry_id(state, change)
    update["checkpoints"] = renumber_and_log(change.live, offloaded_of(state), scope)
    step = Operation(kind="remove", base=base, branches=[change.branch["id"]], ids=ids)
    update.update(with_step(state, step))
    return update


def _with_topics(live: LiveBranch, change: Change, ids: Collection[str]) -> Change:
    """Return the change in which a segment that began in the removed turn begins after it.

    It begins at a message of the conversation without `ids`, the turn and the commands that wait.
    """
    topics = {each["start"]: each["topic_id"] for each in live.segments}
    segments = [each for each in live.segments if each["start"] not in live.positions()]
    topic = segments[-1]["topic_id"] if segments else None
    for message in spoken(live.messages):
        topic = topics.get(message.id or "", topic)
        if topic is not None and message.id not in ids:
            segments.append(Segment(topic_id=topic, start=message.id or ""))
    return replace(change, live=replace(change.live, segments=tuple(without_repeats(segments))))
