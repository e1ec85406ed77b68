"""What a person orders: commands, and a host's flag for a rollback."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from unsay.effects import Steps
from unsay.errors import UnknownCheckpointError, UnsayError
from unsay.history.checkpoints import add_checkpoint, check_name, make_checkpoint
from unsay.messages.annotations import is_answer, mark_of, spoken
from unsay.operations import commands as keeping
from unsay.operations.command_table import chat_help
from unsay.operations.commands import (
    TIMELINE_TURNS,
    Kept,
    checkpoints_text,
    places_of_turns,
    timeline_text,
)
from unsay.operations.forget import apply, named_by
from unsay.operations.pending import Entry, check_message, read_entry
from unsay.operations.recall_search import finds_text, ids_of, recalled_by_order
from unsay.operations.retry import retried
from unsay.operations.rollback import last_operation, last_undone, line_of, turns_left, with_step
from unsay.operations.targets import landing_of_order, landing_of_person, landing_places
from unsay.operations.usage_report import totals_at_hand, totals_text
from unsay.prompts.fields import Texts
from unsay.runtime import Scope
from unsay.state import Command, Move, State, Update, offloaded_of
from unsay.types import Checkpoint, Operation, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What a person wants before anything is answered."""

    move: Move | None = None
    """A rollback, an undo, a redo, or another attempt."""

    notice: str | None = None
    """Words that answer the person without a model."""

    checkpoints: list[Checkpoint] = field(default_factory=list)
    """Checkpoints to make by order."""

    kept: Kept | None = None
    """What is pinned or forgotten; `None` where that stays as it is."""

    asked_for: tuple[str, ...] = ()
    """Ids of messages that the next view is to show."""


def read_orders(
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


def places_of(state: State, command: Command | None) -> tuple[set[str | None], int]:
    """The messages that a person's order may lead to, and how many turns it is about.

    An order that leads nowhere has none: `read_orders` says why.
    """
    verb, argument = (command["verb"], command["argument"]) if command else ("", "")
    if verb == "undo":
        return step_places(state.get("operations", [])), 0
    if verb == "redo":
        return step_places(state.get("redo", [])), 0
    if verb == "rollback":
        return landing_places(line_of(state), argument or None)
    if verb in ("pin", "unpin", "forget"):
        return set(), places_of_turns(state, argument)
    if verb in ("checkpoint", "retry"):
        return set(), 1
    if verb == "timeline":
        return set(), TIMELINE_TURNS
    if command is None:
        return landing_places(line_of(state), state.get("rollback_checkpoint_id"), number=False)
    return set(), 0


def step_places(steps: Sequence[Operation]) -> set[str | None]:
    """Where the newest step stands, or what it is about, unless it has neither."""
    if not steps or "topic" in steps[-1]:
        return set()
    if steps[-1]["kind"] == "forget":
        return set(named_by(steps[-1]))
    return {steps[-1]["base"]}


def _left_over(state: State) -> bool:
    """Whether the rollback flag is what an interrupted turn of our own left behind."""
    return state.get("move") is not None and state.get("rollback_checkpoint_id") is None


def _obey(state: State, scope: Scope, turn: Turn, command: Command, texts: Texts) -> Orders:
    verb, argument = command["verb"], command["argument"]
    if verb == "undo":
        last_operation(state.get("operations", []))
        return Orders(move=Move(kind="undo", to=None, reason="/undo"))
    if verb == "redo":
        last_undone(state, turn["pending"])
        return Orders(move=Move(kind="redo", to=None, reason="/redo"))
    if verb == "rollback":
        base = landing_of_order(line_of(state), argument, turn["pending"])
        return Orders(move=Move(kind="person", to=base, reason=f"/rollback {argument}".strip()))
    if verb == "retry":
        again = retried(state, turn["pending"], scope.settings.max_message_chars)
        return Orders(move=Move(kind="retry", to=again, reason="/retry"))
    if verb == "checkpoint":
        mark = checkpoint_by_order(state, scope, argument or None, pending=turn["pending"])
        made = texts.checkpoint_made.format(name=mark["name"] or mark["id"])
        return Orders(notice=made, checkpoints=[mark])
    if verb in keeping.KEEPING_VERBS:
        kept = keeping.obey(state, scope, turn["pending"], command, texts)
        return Orders(notice=kept.notice, kept=kept)
    sealed = offloaded_of(state)
    before = sealed["turns"] if sealed else 0
    marks = keeping.marks_of(state, texts)
    answers: dict[str, Callable[[], str]] = {
        "checkpoints": lambda: checkpoints_text(state.get("checkpoints", []), texts),
        "timeline": lambda: timeline_text(state["messages"], texts, before=before, marks=marks),
        "help": lambda: chat_help(scope.language(state["messages"])),
        "tokens": lambda: "",
        "recall": lambda: "",
    }
    return Orders(notice=answers[verb]())


def looked_up(state: State, scope: Scope, orders: Orders, command: Command | None) -> Steps[Orders]:
    """The orders, with the words of one that is answered out of the store."""
    if command is None or command["verb"] not in ("tokens", "recall"):
        return orders
    texts = scope.texts(state["messages"])
    if command["verb"] == "recall":
        return (yield from _recalled(state, scope, command["argument"], texts))
    return replace(orders, notice=totals_text((yield from totals_at_hand(state, scope)), texts))


def _recalled(state: State, scope: Scope, words: str, texts: Texts) -> Steps[Orders]:
    """What bears on some words, as the person reads it and as the next view shows it."""
    messages = state["messages"]
    before = messages[: read_entry(messages, None).start]
    try:
        found = yield from recalled_by_order({**state, "messages": before}, scope, words)
    except UnsayError as error:
        return Orders(notice=texts.refused.format(reason=error))
    return Orders(notice=finds_text(found, words, texts), asked_for=ids_of(found))


def carried_out(state: State, scope: Scope, orders: Orders) -> Steps[Update]:
    """What becomes of a state when something is pinned, forgotten or recalled by order.

    Args:
        state: As the turn began.
        scope: Of the run.
        orders: As `read_orders` found them.
    """
    if orders.asked_for:
        return Update(asked_for=list(orders.asked_for))
    if orders.kept is None:
        return Update()
    step = orders.kept.step
    if step is None:
        return orders.kept.update
    update = yield from apply(state, scope, step)
    del update["messages"]
    return {**update, **with_step(state, step)}


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
        turn=turns_left(said, offloaded_of(state)),
        score=mark_of(said[-1]).get("score"),
        topic=state.get("current_topic", ""),
        reason="order",
        created_at=scope.now(),
        name=None if name is None else check_name(name),
    )
    add_checkpoint(state.get("checkpoints", []), mark, limit=scope.settings.checkpoint_limit)
    return mark
