"""Pending input: the messages that no turn has answered, and the turn that will."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AnyMessage

from unsay.effects import Steps
from unsay.errors import (
    ConflictError,
    DatabaseCorruptError,
    EmptyMessageError,
    InputError,
    MessageTooLongError,
    UnsayError,
)
from unsay.history.branch import Label, as_one, take_out
from unsay.messages.annotations import (
    annotation_of,
    exchange_start,
    is_answer,
    is_document,
    is_notice,
    is_question,
    spoken,
)
from unsay.messages.conformance import faults
from unsay.messages.content import is_empty, preview, text_of
from unsay.orders.parse import is_command
from unsay.prompts.catalogue import Texts
from unsay.runtime import Scope, Services
from unsay.state import NoticeDue, State, Update, offloaded_of, with_update
from unsay.transcript.automatic import keep_newest_draft, turn_step, without_retries
from unsay.transcript.live import (
    count_turns,
    live_branch,
    next_entry_id,
    save_branch,
    settle,
    with_step,
)
from unsay.types import Turn

# A notice is at most this many messages after the command that it answers.
NEAR = 50
# Most injected answers that one turn judges, the newest; older ones stay unscored.
MAX_ENTRIES = 3
# Longest accepted message.
MESSAGE_CHARS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingInput:
    """The unanswered end of a transcript: messages from the index `start` on.

    `question` is the user's newest message, `None` if there is none. `interrupted` are the indices
    of the messages of an interrupted turn before it; the range is empty if there is none.
    """

    question: AnyMessage | None
    start: int
    interrupted: range


@dataclass(frozen=True, slots=True, kw_only=True)
class Injected:
    """An answer without a verdict, and where its exchange starts, as indices; `unjudged` makes it."""

    index: int
    start: int


def unanswered_ids(state: Mapping[str, Any]) -> list[str]:
    """Return the ids of the messages at the end of the transcript that wait for an answer; maybe none."""
    messages = state.get("messages", [])
    return [message.id or "" for message in messages[find_pending(messages, None).start :]]


def find_pending(messages: Sequence[AnyMessage], turn: Turn | None) -> PendingInput:
    """Return the unanswered end of a transcript: the question with its documents.

    `turn` is the state's last turn; if it was interrupted, `interrupted` has the places of its
    messages. Commands that were answered and their notices do not count. Nothing is pending if the
    rest ends in an answer or a notice: then `start` is the transcript's length.
    """
    start = len(messages)
    question: AnyMessage | None = None
    commands: set[str | None] = set()
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        # A command and its notice are beside the conversation: a question before them still waits.
        if is_notice(message) and (command_ids := commands_answered(messages, index)):
            commands |= command_ids
            continue
        if is_answer(message) or is_notice(message):
            break
        if message.id in commands:
            continue
        if message.type == "human":
            start = index  # also of a document: it belongs to the question
        if question is None and is_question(message):
            question = message
    old_end = _end_of_interrupted(messages, turn, start, commands)
    if question is None or old_end is None:
        return PendingInput(question=question, start=start, interrupted=range(0))
    return PendingInput(question=question, start=old_end, interrupted=range(start, old_end))


def commands_answered(messages: Sequence[AnyMessage], index: int) -> set[str | None]:
    """Return the ids of the messages that the notice at `index` answers, if one is a command.

    The set is empty for a notice about a question, and for one that answers nothing.
    """
    names: set[str | None] = set(_named(messages[index]))
    near = messages[max(0, index - NEAR) : index]
    return names if any(m.id in names and is_command(m) for m in near) else set()


def with_hand_offs(messages: Sequence[AnyMessage], waiting: Collection[str]) -> list[str]:
    """Return the ids of the `waiting` commands, and of the hand-offs by which they came.

    A supervisor calls a tool to hand a command over. That call and its result belong to the
    command. Empty if no waiting message is a command.
    """
    order_ids, is_order = [], False
    for message in messages:
        if message.type == "human":
            is_order = is_command(message)
        if is_order and message.id in waiting:
            order_ids.append(message.id or "")
    return order_ids


def _named(notice: AnyMessage) -> list[str]:
    names = annotation_of(notice).get("answers")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def is_beside_turn(state: State) -> bool:
    """Return whether the notice to be sent answers a command, while the turn's question still waits."""
    due, question_id = state.get("notice"), state["turn"]["question_id"]
    return bool(due and question_id and question_id not in due["answers"])


def questions_waiting(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return the questions at the end of a transcript that wait for an answer, without commands."""
    waiting = spoken(messages[find_pending(messages, None).start :])
    return [message for message in waiting if is_question(message) and not is_command(message)]


def refused(state: State, texts: Texts, error: UnsayError) -> Update:
    """Return the update that changes nothing, with a notice that says why."""
    text = texts.refusal(error)
    due = NoticeDue(text=text, answers=state["turn"]["pending"], refusal=type(error).__name__)
    return Update(notice=due, turn={**state["turn"], "done": True})


def with_waiting(text: str, state: State, texts: Texts, *, decides: bool = False) -> str:
    """Return a command's notice with a line that names the questions that still wait, if any do.

    With `decides`, they wait for a person's decision, and not for another message.
    """
    waiting = questions_waiting(state.get("messages", []))
    if not waiting:
        return text
    turn = state.get("turn")
    stopped = turn and not turn["done"] and turn["question_id"] in {each.id for each in waiting}
    name = "stopped_question_waits" if stopped else "question_waits"
    name = "decision_waits" if decides else name
    words = " / ".join(preview(text_of(question), 40) for question in waiting)
    return f"{text}\n{texts.say(name, words=words)}"


def _end_of_interrupted(
    messages: Sequence[AnyMessage], turn: Turn | None, start: int, commands: Collection[str | None]
) -> int | None:
    """Return the index at which the messages after an interrupted turn begin.

    `None` if `turn` is `None` or done, if its question does not wait, or if no newer question waits:
    then the turn goes on. `start` is the index at which the pending messages begin, and `commands`
    are the ids of commands that were answered.
    """
    if turn is None or turn["done"]:
        return None
    ids = [message.id for message in messages[start:]]
    if turn["question_id"] not in ids:
        return None
    old = {*turn["pending"], turn["question_id"]}
    after = start + max(index for index, name in enumerate(ids) if name in old) + 1
    if not any(is_question(m) and m.id not in commands for m in messages[after:]):
        return None
    return next(i for i in range(after, len(messages)) if messages[i].type == "human")


def open_turn(state: State, entry: PendingInput, run_id: str) -> Turn:
    """Return the turn that answers the pending messages; without a question it is done at once."""
    messages = state["messages"]
    return Turn(
        number=count_turns(messages, offloaded_of(state)) + 1,
        run_id=run_id,
        question_id=None if entry.question is None else entry.question.id,
        pending=[m.id or "" for m in messages[entry.start :]],
        base=live_branch(state).position_before(entry.start),
        done=entry.question is None,
        rejections=[],
        rollbacks=0,
        extra_attempts=0,
        branches=[],
        draft_branches=[],
        removed=[],
        steps=[],
        context_reason=None,
        guidance=None,
        topic_change=None,
        checkpoints_due=[],
    )


def turn_left_open(state: State, turn: Turn) -> Turn:
    """Return `turn`, or a new open turn if a rollback removed the answer but not its question.

    Then the question at the end of the transcript waits again. That is so if `turn["base"]` is this
    question, or a tool step after it.
    """
    entry = find_pending(state["messages"], None)
    waiting = [message.id for message in state["messages"][entry.start :]]
    return open_turn(state, entry, turn["run_id"]) if turn["base"] in waiting else turn


def repair_interrupted(
    state: State, scope: Scope, entry: PendingInput, *, undone: bool, stopped: bool
) -> Steps[Update]:
    """Keep the question of a turn that never ended as a branch; return the update that removes it.

    The turn's rollbacks become a step to undo. With `undone`, the pending input is an undo: then the
    update only adds the turn as a step, which that undo removes. With `stopped`, the host stopped the
    turn, and its question stays. Without an interrupted turn the update is empty.
    """
    if not entry.interrupted:
        return Update()
    turn = state["turn"]
    # Nobody decided about the newest draft.
    if turn["rejections"] and state.get("rollback_request"):
        state = {**state, "branches": keep_newest_draft(state, scope)}
    if undone:
        question_ids = [state["messages"][index].id or "" for index in entry.interrupted]
        base = live_branch(state).position_before(entry.interrupted.start)
        open_state: State = {**state, "turn": {**turn, "base": base}}
        step = turn_step(open_state, turn["branches"], question_ids)
        operations = with_step(state, step)["operations"]
        return Update(operations=operations, branches=state.get("branches", []))
    removed = [] if stopped else [state["messages"][index].id for index in entry.interrupted]
    label = Label(kind="interrupted", reason="the turn never ended", created_at=scope.now())
    try:
        changes = yield from without_retries(state, scope, label)
    except ConflictError:  # Branches of the turn's rollbacks are no longer kept without a store.
        changes = []
    except DatabaseCorruptError as error:  # The thread must not stay unusable because of it.
        scope.emit("segment_lost", error=str(error))
        changes = []
    live = changes[-1].live if changes else live_branch(state)
    changes += take_out(live, removed, label)
    refs = list(state.get("branches", []))
    for each in changes:
        refs = save_branch(each, scope, refs)
    change = as_one(live, changes, label)
    update = settle(state, change, refs)
    if removed:
        # A host may send the question again: what the store has of its attempts is over.
        update["entry_id"] = next_entry_id(state, change)
        scope.emit("messages_removed", reason=label.reason)
    rejected = [name for name in turn["branches"] if name not in turn["draft_branches"]]
    if rejected:
        after = with_update(state, update)
        update.update(with_step(state, turn_step(after, rejected, ())))
    return update


# Rules about single content blocks.
_BLOCK_RULES = ("known_blocks", "media_sources", "mime_types", "file_names")


def check_blocks(questions: Iterable[AnyMessage], services: Services) -> None:
    """Raise `InputError` if the provider would refuse a content block of a new question.

    Blocks that are stored already are left out of what is sent.
    """
    rich = [message for message in questions if isinstance(message.content, list)]
    for fault in faults(rich, services.provider) if rich else ():
        if fault.rule in _BLOCK_RULES:
            raise InputError(f"{fault.problem} Nothing was stored")


def check_message(message: AnyMessage) -> None:
    """Raise `EmptyMessageError` for a message without text and other content, such as an image.

    Raises `MessageTooLongError` if the text has more than `MESSAGE_CHARS` characters.
    """
    text = text_of(message)
    if is_empty(message):
        raise EmptyMessageError(code="message_empty")
    if len(text) > MESSAGE_CHARS:
        raise MessageTooLongError(code="message_too_long", count=len(text), limit=MESSAGE_CHARS)


def unjudged(messages: Sequence[AnyMessage], end: int) -> list[Injected]:
    """Return the answers before index `end` that entered after the newest verdict, oldest first.

    They are those that a host added.
    """
    entries: list[Injected] = []
    for index in range(end - 1, -1, -1):
        message = messages[index]
        if not is_answer(message):
            continue
        if "outcome" in annotation_of(message):
            break
        entries.append(Injected(index=index, start=exchange_start(messages, index)))
    return entries[::-1]


def unjudged_documents(
    messages: Sequence[AnyMessage], pending: Collection[str]
) -> list[AnyMessage]:
    """Return the retrieved documents of the pending input that have no verdict, oldest first."""
    waiting = (m for m in messages if m.id in pending and is_document(m))
    return [message for message in waiting if "outcome" not in annotation_of(message)]
