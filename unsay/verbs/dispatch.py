"""Dispatch: carry out slash commands, and a host's flag for a rollback."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from unsay.effects import Steps
from unsay.errors import ConflictError, UnsayError
from unsay.history.branch import branches_beside
from unsay.memory import visibility
from unsay.memory.lessons import change_lesson, lesson_named, lessons_in, rate_answer, typed_rating
from unsay.memory.manual_compaction import compact_up_to
from unsay.memory.offload import load_segments
from unsay.memory.recall import finds_text, ids_of, search_command
from unsay.moves.rollback import check_retry, parse_edit, removable
from unsay.orders.orders import NOT_IN_GRAPH, chat_help, check_argument, in_terms_of
from unsay.orders.parse import (
    ALONE,
    REFUSE,
    SUGGEST,
    TIMELINE_TURNS,
    branches_text,
    checkpoints_text,
    forgotten_text,
    lessons_text,
    questions_text,
    timeline_labels,
    timeline_text,
)
from unsay.prompts.catalogue import Texts
from unsay.results.usage import current_usage, usage_text
from unsay.runtime import Scope
from unsay.state import Command, RollbackRequest, State, StateDraft, Update, offloaded_of
from unsay.storage.pages import offloaded_ids
from unsay.transcript.forget import Cause, forget_topic
from unsay.transcript.live import (
    count_turns,
    last_operation,
    last_undone,
    live_branch,
    readable_branches,
    rollback_targets,
    step_places,
    target_of,
    target_of_order,
    turns_typed,
    with_step,
)
from unsay.transcript.pending import (
    PendingInput,
    check_message,
    find_pending,
    questions_waiting,
    unanswered_ids,
)
from unsay.transcript.undo import below_waiting, checkpoint_step, load_archived_steps
from unsay.turn.checkpoints import checkpoint_by_order
from unsay.types import Checkpoint, CheckpointReason, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """The results of a command or a host's flag; all fields are empty for a message to answer.

    `rollback` is left to the node `rollback`, `checkpoints` to `create_checkpoint`. `notice` is the
    reply, `refusal` the kind of `Refusal` that it is, if any, and `update` is applied at once.
    """

    rollback: RollbackRequest | None = None
    notice: str | None = None
    refusal: str = ""
    checkpoints: list[Checkpoint] = field(default_factory=list)
    update: Update = field(default_factory=Update)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """A command and what its function needs; `obey` makes it."""

    state: State
    scope: Scope
    pending: Sequence[str]
    argument: str
    texts: Texts


def read_orders(
    state: State,
    scope: Scope,
    turn: Turn,
    entry: PendingInput,
    command: Command | None,
    lost: UnsayError | None = None,
) -> Steps[Orders]:
    """Carry out a command, or a host's flag if there is none, and return what the turn then does.

    An error of unsay, also for an empty message, becomes a notice. `lost` is the error with which
    reading what the order needs failed; then the order is refused. A task that a host starts is set
    in `turn`, in place.
    """
    texts = scope.texts(state["messages"])
    try:
        if lost is not None:
            raise lost
        if command is not None:
            return (yield from obey(state, scope, turn["pending"], command))
        if entry.question is not None:
            check_message(entry.question)
        # A flag next to a request was left by a turn that a crash interrupted.
        target = state.get("rollback_checkpoint_id") or None
        left_over = state.get("rollback_request") is not None and target is None
        if state.get("should_rollback") and not left_over:
            base = target_of(live_branch(state), target, pending=turn["pending"])
            reason = target or "the host's order"
            return Orders(rollback=RollbackRequest(kind="person", to=base, reason=reason))
        if name := state.get("start_task"):
            return (yield from _start_task(state, scope, turn, name))
    except UnsayError as error:
        text = texts.refusal(in_terms_of("chat", str(error)))
        return Orders(notice=text, refusal=type(error).__name__)
    return Orders()


def _start_task(state: State, scope: Scope, turn: Turn, name: str) -> Steps[Orders]:
    """Start the task that a host names: set it in `turn`, or without a question obey `/task`.

    Raises `InvalidNameError` or `CheckpointExistsError` for the name, `ConflictError` if too many
    checkpoints have names.
    """
    if turn["done"]:
        return (yield from obey(state, scope, turn["pending"], Command(verb="task", argument=name)))
    checkpoint = checkpoint_by_order(
        state, scope, name, pending=turn["pending"], reason="task_start"
    )
    turn["task"] = checkpoint["name"]
    return Orders()


def obey(
    state: State,
    scope: Scope,
    pending: Sequence[str],
    command: Command,
    texts: Texts | None = None,
) -> Steps[Orders]:
    """Return what a command leads to: a rollback to make, an update to write, or a notice.

    The caller commits it; only events are added to the step log. `/compact` and `/forget` may ask a
    model for a summary. `pending` are the ids of messages that wait for an answer. `texts` are those
    of the notice; `None` is those in the language of the transcript. A command that cannot be carried
    out raises an `UnsayError` that says why.
    """
    verb, texts = command["verb"], texts or scope.texts(state["messages"])
    if verb in NOT_IN_GRAPH or verb in _ANSWERS:
        text = texts.say(_ANSWERS.get(verb, "not_in_chat"), verb=verb, command=command["argument"])
        return Orders(notice=text, refusal="CommandRefused")
    check_argument(verb, command["argument"], texts.language)
    order = _Order(
        state=state, scope=scope, pending=pending, argument=command["argument"], texts=texts
    )
    if verb in _ROLLBACKS:
        return Orders(rollback=_rollback_request(order, verb))
    if verb in _TEXTS:
        return Orders(notice=_TEXTS[verb](order))
    return (yield from _CHANGES[verb](order))


def _rollback_request(order: _Order, verb: str) -> RollbackRequest:
    """Return the request for the node `rollback` that carries out a command.

    Raises `NothingToUndoError` or `NothingToRedoError` if there is nothing to undo, redo, retry or
    roll back; `ConflictError` for a retry while a question waits; and what `check_retry`,
    `target_of_order`, `parse_edit` or `removable` raises: an unknown checkpoint or turn, or an
    `InputError`.
    """
    # An undo or redo with nothing to do is refused here, before the node `rollback` runs.
    state, kind, to = order.state, _ROLLBACKS[verb], None
    if kind == "undo":
        last_operation(state.get("operations", []))
    elif kind == "redo":
        last_undone(state, order.pending)
    elif kind == "retry":
        if any(m.id in order.pending for m in questions_waiting(state["messages"])):
            raise ConflictError("A question waits for its answer: send another message first")
        to = check_retry(state, order.pending)
    elif kind == "remove":
        removable(state, order.argument, order.pending)  # for its errors
        to = order.argument
    elif kind == "restore":
        to = order.argument or None
    elif kind == "edit":
        to, text = parse_edit(state, order.argument, order.pending)
        reason = f"/edit {order.argument.split()[0]}"
        return RollbackRequest(kind=kind, to=to, reason=reason, text=text)
    else:
        to = target_of_order(live_branch(state), order.argument, order.pending)
    return RollbackRequest(kind=kind, to=to, reason=f"/{verb} {order.argument}".strip())


def _timeline(order: _Order) -> str:
    state, offloaded = order.state, offloaded_of(order.state)
    before = offloaded["turns"] if offloaded else 0
    labels = timeline_labels(state, order.texts)
    return timeline_text(state["messages"], order.texts, before=before, labels=labels)


def _checkpoint(order: _Order, *, reason: CheckpointReason = "order") -> Steps[Orders]:
    yield from ()  # only a generator is a step
    name = order.argument or (None if reason == "order" else "")
    checkpoint = checkpoint_by_order(
        order.state, order.scope, name, pending=order.pending, reason=reason
    )
    notice = order.texts.say("checkpoint_made", name=checkpoint["name"] or checkpoint["id"])
    step = checkpoint_step(order.state.get("checkpoints", []), checkpoint)
    update = Update() if step is None else with_step(order.state, step)
    return Orders(notice=notice, checkpoints=[checkpoint], update=update)


def _pins(order: _Order, *, remove: bool) -> Steps[Orders]:
    yield from ()  # only a generator is a step
    messages = visibility.turns_named(order.state, order.argument or None, order.pending)
    message_ids = [message.id or "" for message in messages]
    change = visibility.unpin if remove else visibility.pin
    update = change(order.state, order.scope, message_ids)
    words = questions_text(messages)
    notice = order.texts.say("unpinned" if remove else "pinned", words=words)
    return Orders(notice=notice, update=update)


def _forget(order: _Order) -> Steps[Orders]:
    state, argument, pending = order.state, order.argument, order.pending
    cause = Cause(reason=f"/forget {argument}".strip(), created_at=order.scope.now())
    if argument and not visibility.TURNS.fullmatch(argument):
        topic = visibility.topic_named(state, argument, loose=True)
        step, label = forget_topic(state, topic, pending, cause), topic["label"]
    else:
        messages = visibility.turns_named(state, argument or None, pending)
        step = visibility.forget_turns(state, messages, pending, cause)
        label = questions_text(messages)
    update = yield from visibility.take_step(state, order.scope, step)
    del update["messages"]
    return Orders(notice=order.texts.say("forgot", words=label), update=update)


def _same(order: _Order) -> Steps[Orders]:
    yield from ()  # only a generator is a step
    update = visibility.join_topics(order.state, order.scope)
    del update["messages"]
    return Orders(
        notice=order.texts.say("topics_joined", label=update["current_topic"]), update=update
    )


def _compact(order: _Order) -> Steps[Orders]:
    result = yield from compact_up_to(order.state, order.scope, order.argument, order.pending)
    update, left_out = result
    notice = order.texts.say("compacted", count=len(left_out.message_ids))
    return Orders(notice=notice, update=update)


def _rate(order: _Order, *, label: str) -> Steps[Orders]:
    yield from ()  # only a generator is a step
    number, reason = typed_rating(order.argument)
    turn = visibility.turns_named(order.state, number, order.pending)
    update = rate_answer(turn, order.scope, label, reason)
    notice = order.texts.table("rated")[label].format(words=questions_text(turn))
    return Orders(notice=notice, update=update)


def _change_lesson(order: _Order, *, remove: bool) -> Steps[Orders]:
    yield from ()  # only a generator is a step
    number, _, text = order.argument.partition(" ")
    lesson = lesson_named(order.state, number)
    update = change_lesson(order.state, order.scope, lesson, None if remove else text)
    name = "lesson_removed" if remove else "lesson_changed"
    notice = order.texts.say(name, number=number, text=text.strip())
    return Orders(notice=notice, update=update)


def _recall(order: _Order) -> Steps[Orders]:
    messages = order.state["messages"]
    # Without the command itself, whose words would match best.
    before = messages[: find_pending(messages, None).start]
    state: State = {**order.state, "messages": before}
    matches = yield from search_command(state, order.scope, order.argument)
    update = Update(asked_for=list(ids_of(matches))) if matches else Update()
    return Orders(notice=finds_text(matches, order.argument, order.texts), update=update)


def _branches(order: _Order) -> Steps[Orders]:
    refs = order.state.get("branches", [])
    stored_branches = yield from readable_branches([ref["id"] for ref in refs], order.scope, refs)
    offloaded: list[str] = []
    if order.scope.address is not None:
        ids = [m.id for each in stored_branches for m in (*each["messages"], *each["drafts"])]
        offloaded = yield from offloaded_ids(*order.scope.address, offloaded_of(order.state), ids)
    removed = branches_beside(order.state["messages"], stored_branches, offloaded=offloaded)
    return Orders(notice=branches_text(removed, order.texts))


def _tokens(order: _Order) -> Steps[Orders]:
    totals = yield from current_usage(order.state, order.scope)
    return Orders(notice=usage_text(totals, order.texts))


_ROLLBACKS = {
    "undo": "undo",
    "redo": "redo",
    "retry": "retry",
    "edit": "edit",
    "remove": "remove",
    "restore": "restore",
    "rollback": "person",
}


def _help(order: _Order) -> str:
    help_text = chat_help(
        order.texts.language, only=order.argument, allows=order.scope.settings.allows
    )
    return help_text or order.texts.say("not_in_chat", verb=order.argument.removeprefix("/"))


_TEXTS: dict[str, Callable[[_Order], str]] = {
    "checkpoints": lambda o: checkpoints_text(o.state.get("checkpoints", []), o.texts),
    "timeline": _timeline,
    "forgotten": lambda o: forgotten_text(o.state, o.texts),
    "lessons": lambda o: lessons_text(lessons_in(o.state["messages"]), o.texts),
    "help": _help,
}

_ANSWERS = {
    SUGGEST: "command_suggested",
    ALONE: "command_alone",
    REFUSE: "command_refused",
}

_CHANGES: dict[str, Callable[[_Order], Steps[Orders]]] = {
    "checkpoint": _checkpoint,
    "task": partial(_checkpoint, reason="task_start"),
    "pin": partial(_pins, remove=False),
    "unpin": partial(_pins, remove=True),
    "forget": _forget,
    "same": _same,
    "compact": _compact,
    "good": partial(_rate, label="good"),
    "bad": partial(_rate, label="bad"),
    "lesson": partial(_change_lesson, remove=False),
    "unlearn": partial(_change_lesson, remove=True),
    "recall": _recall,
    "tokens": _tokens,
    "branches": _branches,
}

# How many of the newest turns other commands need.
_TURNS_NEEDED = {"checkpoint": 1, "task": 1, "retry": 1, "timeline": TIMELINE_TURNS}

GRAPH_COMMANDS = frozenset((*_ROLLBACKS, *_TEXTS, *_CHANGES))


def messages_needed(state: State, command: Command | None) -> tuple[set[str | None], int]:
    """Return what must be loaded for a command: message ids, and a number of newest turns.

    The id `None` is the transcript's start, the command `None` a rollback that a host requested.
    """
    verb, argument = (command["verb"], command["argument"]) if command else ("", "")
    if verb in ("undo", "redo"):
        undone = below_waiting(state.get("operations", []), unanswered_ids(state))
        return step_places(undone if verb == "undo" else state.get("redo", [])), 0
    if verb == "rollback":
        live = live_branch(state)
        return rollback_targets(live, argument or None, turns_typed(live, argument))
    if verb in ("edit", "remove"):
        # The message before the turn as well, which the rest then follows.
        return set(), visibility.turns_needed(state, argument.partition(" ")[0]) + 1
    if verb in ("pin", "unpin", "forget", "good", "bad"):
        number = typed_rating(argument)[0] if verb in ("good", "bad") else argument
        return set(), visibility.turns_needed(state, number or None)
    if verb == "same" and len(state.get("segments", [])) < 2:
        # The topic before may be offloaded: its last turn is before those that the state has.
        return set(), count_turns(state["messages"]) + 1
    if command is None:
        return rollback_targets(
            live_branch(state), state.get("rollback_checkpoint_id") or None, None
        )
    return set(), _TURNS_NEEDED.get(verb, 0)


def load_needed(state: State, scope: Scope, command: Command | None) -> Steps[Update]:
    """Return the update that loads from the store what a command, or for `None` a host's rollback, needs.

    That is offloaded messages and archived steps. Raises `DatabaseCorruptError` if they are missing or
    damaged.
    """
    draft = StateDraft(state)
    if command is not None and command["verb"] == "undo":
        draft.apply((yield from load_archived_steps(draft.state, scope)))
    message_ids, turns = messages_needed(draft.state, command)
    draft.apply((yield from load_segments(draft.state, scope, message_ids, turns=turns)))
    return draft.update
