"""evaluate_quality: judge what entered without a verdict, and read a person's orders."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from langchain_core.messages import AnyMessage

from unsay.effects import Steps
from unsay.errors import (
    ConflictError,
    EmptyMessageError,
    MessageTooLongError,
    UnknownCheckpointError,
    UnsayError,
)
from unsay.history.checkpoints import add_checkpoint, check_name, make_checkpoint
from unsay.history.line import Change, Label, take_back
from unsay.judging.verdicts import unscored
from unsay.nodes.commands import checkpoints_text, parse_command, timeline_text
from unsay.nodes.documents import judge_documents
from unsay.nodes.entry import Entry, Injected, read_entry, unjudged
from unsay.nodes.judge import exchange_of, judge_exchange
from unsay.nodes.moves import (
    OPERATIONS,
    keep_cut,
    landing_of_context,
    landing_of_person,
    last_operation,
    line_of,
    note,
    settle,
    turns_left,
    without_retries,
)
from unsay.prompts.texts import Texts
from unsay.services import Scope
from unsay.state import Command, Move, NoticeDue, State, Update, merge_messages
from unsay.transcript.marks import is_answer, mark_of, spoken, with_verdict
from unsay.transcript.text import has_other_content, text_of
from unsay.types import Checkpoint, Operation, Turn, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What a person wants before anything is answered."""

    move: Move | None = None
    """A rollback or undo."""

    notice: str | None = None
    """Words that answer the person without a model."""

    checkpoints: list[Checkpoint] = field(default_factory=list)
    """Checkpoints to make by order."""


def evaluate_quality(state: State, scope: Scope) -> Steps[Update]:
    """Open the turn: repair what an interruption left, read orders, judge what was injected."""
    found = read_entry(state.get("messages", []), state.get("turn"))
    command = parse_command(text_of(found.question)) if found.question is not None else None
    update = yield from _repair(state, scope, found, command)
    after: State = {**state, **update, "messages": _record_after(state, update)}
    entry = read_entry(after["messages"], None) if "messages" in update else found
    turn = _open_turn(after["messages"], entry)
    orders = _orders(after, scope, turn, entry, command)
    turn["checkpoints_due"] = orders.checkpoints
    update["turn"], update["move"] = turn, orders.move
    update["notice"] = None
    if orders.notice is not None:
        update["notice"] = NoticeDue(text=orders.notice, answers=turn["pending"])
    elif orders.move is None:
        update.update((yield from judge_documents(after, scope, turn, update)))
        after = {**after, **update, "messages": _record_after(state, update)}
        update.update((yield from _judge_injected(after, scope, turn, update)))
    update["should_rollback"] = update["move"] is not None
    update["rollback_checkpoint_id"] = None
    return update


def _record_after(state: State, update: Update) -> list[AnyMessage]:
    return merge_messages(state.get("messages", []), [update.get("messages", [])])


def _repair(state: State, scope: Scope, found: Entry, command: Command | None) -> Steps[Update]:
    """Set aside the question of a turn that never ended; an undo does that by itself."""
    if not found.interrupted:
        return Update()
    turn, operations = state["turn"], state.get("operations", [])
    base = line_of(state).id_at(found.interrupted.start - 1)
    if command is not None and command["verb"] == "undo":
        step = Operation(kind="turn", base=base, cuts=turn["cuts"])
        return Update(operations=[*operations, step][-OPERATIONS:])
    kept = [m.id or "" for m in state["messages"][found.start :]]
    cause = Label(kind="interrupted", reason="the turn never ended", created_at=scope.now())
    change = yield from _restored(state, scope, base, cause, kept)
    refs = yield from keep_cut(change, scope, state.get("cuts", []))
    update = settle(state, change, refs)
    scope.tell("set_aside", reason=cause.reason)
    rejected = [name for name in turn["cuts"] if name not in turn["draft_cuts"]]
    if rejected:
        end = change.line.id_at(len(change.line.messages) - len(kept) - 1)
        step = Operation(kind="rollback", base=end, cuts=rejected)
        update["operations"] = [*operations, step][-OPERATIONS:]
    return update


def _restored(
    state: State, scope: Scope, base: str | None, cause: Label, kept: Sequence[str]
) -> Steps[Change]:
    """The record as the interrupted turn began, as far as what it cut is still kept."""
    try:
        return (yield from without_retries(state, scope, base, cause, kept))
    except ConflictError:
        return take_back(line_of(state), base, label=cause, keep=kept)


def _open_turn(messages: Sequence[AnyMessage], entry: Entry) -> Turn:
    return Turn(
        number=turns_left(messages) + 1,
        question_id=None if entry.question is None else entry.question.id,
        pending=[m.id or "" for m in messages[entry.start :]],
        base=messages[entry.start - 1].id if entry.start else None,
        done=entry.question is None,
        rejections=[],
        rollbacks=0,
        extra_attempts=0,
        cuts=[],
        draft_cuts=[],
        context_reason=None,
        guidance=None,
        new_topic=False,
        checkpoints_due=[],
    )


def _orders(
    state: State, scope: Scope, turn: Turn, entry: Entry, command: Command | None
) -> Orders:
    """What a person wants; an order that cannot be carried out becomes a notice."""
    texts = scope.texts(state["messages"])
    try:
        if command is not None:
            return _obey(state, scope, turn, command, texts)
        if entry.question is not None:
            check_message(entry.question, scope.settings.max_message_chars)
        if state.get("should_rollback") and not _left_over(state):
            target = state.get("rollback_checkpoint_id")
            base = landing_of_person(line_of(state), target, turn["pending"])
            return Orders(move=Move(kind="person", to=base, reason=target or "the host's order"))
    except UnsayError as error:
        return Orders(notice=texts.refused.format(reason=error))
    return Orders()


def check_message(message: AnyMessage, limit: int) -> None:
    """Refuse a message that cannot be answered.

    Raises:
        EmptyMessageError: It has neither words nor anything else.
        MessageTooLongError: It is longer than the limit, in characters.
    """
    text = text_of(message)
    if not text.strip() and not has_other_content(message):
        raise EmptyMessageError("The message is empty; write something to answer")
    if len(text) > limit:
        raise MessageTooLongError(
            f"The message has {len(text)} characters, the limit is {limit}: shorten it, "
            "or raise max_message_chars"
        )


def _left_over(state: State) -> bool:
    """Whether the rollback flag is what an interrupted turn of our own left behind."""
    return state.get("move") is not None and state.get("rollback_checkpoint_id") is None


def _obey(state: State, scope: Scope, turn: Turn, command: Command, texts: Texts) -> Orders:
    verb, argument = command["verb"], command["argument"]
    if verb == "undo":
        last_operation(state.get("operations", []))
        return Orders(move=Move(kind="undo", to=None, reason="/undo"))
    if verb == "rollback":
        base = landing_of_person(line_of(state), argument or None, turn["pending"])
        return Orders(move=Move(kind="person", to=base, reason=f"/rollback {argument}".strip()))
    if verb == "checkpoint":
        mark = checkpoint_by_order(state, scope, argument or None, pending=turn["pending"])
        made = texts.checkpoint_made.format(name=mark["name"] or mark["id"])
        return Orders(notice=made, checkpoints=[mark])
    answers = {
        "checkpoints": lambda: checkpoints_text(state.get("checkpoints", []), texts),
        "timeline": lambda: timeline_text(state["messages"], texts),
        "help": lambda: texts.help,
    }
    return Orders(notice=answers[verb]())


def checkpoint_by_order(
    state: State, scope: Scope, name: str | None, *, pending: Sequence[str] = ()
) -> Checkpoint:
    """A checkpoint at the newest answer.

    Raises:
        InvalidNameError: The name cannot be used.
        CheckpointExistsError: Another checkpoint has it.
        UnknownCheckpointError: Nothing has been answered.
    """
    said = [m for m in spoken(state.get("messages", [])) if m.id not in pending]
    while said and not is_answer(said[-1]):
        said.pop()
    if not said:
        raise UnknownCheckpointError("Nothing has been answered yet, so there is no point to mark")
    mark = make_checkpoint(
        message_id=said[-1].id or "",
        turn=turns_left(said),
        score=mark_of(said[-1]).get("score"),
        topic=state.get("current_topic", ""),
        reason="order",
        created_at=scope.now(),
        name=None if name is None else check_name(name),
    )
    add_checkpoint(state.get("checkpoints", []), mark, limit=scope.settings.checkpoint_limit)
    return mark


def _judge_injected(state: State, scope: Scope, turn: Turn, update: Update) -> Steps[Update]:
    """Judge the answers that entered without a verdict; a failed one makes a rollback due."""
    messages = state["messages"]
    entered = unjudged(messages, len(messages) - len(turn["pending"]))
    if not entered or scope.settings.judging == "off":
        return Update()
    judged = entered[-scope.settings.max_judged_entries :]
    verdicts: list[tuple[Injected, Verdict]] = [
        (each, unscored("it entered together with many others")) for each in entered[: -len(judged)]
    ]
    for each in judged:
        verdict = yield from _judge_one(messages, each, scope)
        verdicts.append((each, verdict))
    return _consequences(state, scope, turn, update, verdicts)


def _judge_one(messages: Sequence[AnyMessage], each: Injected, scope: Scope) -> Steps[Verdict]:
    answer = messages[each.index]
    question = messages[each.start] if each.start < each.index else None
    exchange = exchange_of(question, answer, messages[: each.start])
    return (yield from judge_exchange(exchange, answer, scope))


def _consequences(
    state: State,
    scope: Scope,
    turn: Turn,
    update: Update,
    verdicts: Sequence[tuple[Injected, Verdict]],
) -> Update:
    messages, topic = state["messages"], state.get("current_topic", "")
    first = turn["number"] - len(verdicts)
    stamped = [
        with_verdict(messages[each.index], verdict, turn=first + i, topic=topic)
        for i, (each, verdict) in enumerate(verdicts)
    ]
    scores = [v.score for _, v in verdicts if v.score is not None]
    lowest = min(scores, default=None)
    result = Update(messages=[*update.get("messages", []), *stamped])
    if lowest is not None:
        result["quality_score"] = lowest
    result["state_history"] = note(state, scope, "evaluate_quality", "judged", lowest)
    failed = next(((e, v) for e, v in verdicts if v.outcome == "failed"), None)
    for each, verdict in verdicts:
        scope.tell("verdict", of="context", message_id=messages[each.index].id, **asdict(verdict))
    if failed is not None:
        landing = landing_of_context(line_of(state), failed[0].start)
        result["move"] = Move(kind="context", to=landing, reason=failed[1].reason)
    return result
