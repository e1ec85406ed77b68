"""The one place where an order is carried out, whichever door it came through.

The graph's door is here, too: typed commands, a host's order and its flags, which reach it as input.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from unsay.effects import Steps
from unsay.errors import UnsayError
from unsay.orders import order as orders
from unsay.orders.orders import NOT_IN_GRAPH, check_argument
from unsay.orders.parse import ALONE, REFUSE, SUGGEST
from unsay.prompts.catalogue import Texts
from unsay.runtime import Scope
from unsay.state import Command, NoticeDue, RollbackRequest, State, StateDraft, Update, with_update
from unsay.transcript.pending import PendingInput, check_message, turn_left_open
from unsay.turn.checkpoints import checkpoint_by_order
from unsay.types import Turn
from unsay.verbs import memory, moves, records
from unsay.verbs.outcome import Outcome

T = TypeVar("T")

VERBS: dict[type[orders.Order[Any]], Callable[[Any, StateDraft, Scope], Steps[Outcome[Any]]]] = {
    orders.SaveCheckpoint: moves.checkpoint,
    orders.Rollback: moves.rollback,
    orders.Undo: moves.undo,
    orders.Redo: moves.redo,
    orders.Remove: moves.remove,
    orders.Restore: moves.restore,
    orders.Pick: moves.pick,
    orders.Retry: moves.retry,
    orders.Edit: moves.edit,
    orders.AddPins: memory.add_pins,
    orders.RemovePins: memory.remove_pins,
    orders.Forget: memory.forget,
    orders.ForgetToolResults: memory.forget_tool_results,
    orders.Compact: memory.compact,
    orders.JoinTopics: memory.join_topics,
    orders.Recall: memory.recall,
    orders.Rate: memory.rate,
    orders.ChangeLesson: memory.change_lesson,
    orders.Show: records.show,
}
"""The function of each verb: it applies what it changes to the draft, and returns the outcome."""


def carry_out(order: orders.Order[T], state: State, scope: Scope) -> Steps[Outcome[T]]:
    """Return what an order leads to, with the update of the state that the caller commits.

    Nothing is stored, but tokens may be spent: a summary is written by a model. The scope's `keeps`
    are the unanswered messages that a move leaves in the transcript. Events of the change are in
    the scope's log. Raises the `UnsayError` that refuses the order.
    """
    draft = StateDraft(state)
    outcome = yield from VERBS[type(order)](order, draft, scope)
    return outcome if order.reads else replace(outcome, update=draft.update)


_ANSWERS = {SUGGEST: "command_suggested", ALONE: "command_alone", REFUSE: "command_refused"}


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOrder:
    """What an order in a run's input leads to; all fields are empty for a message to answer.

    `request` is left to the node `rollback`. `notice` is the reply, `refusal` the kind of `Refusal`
    that it is, if any, and `update` is applied at once.
    """

    request: RollbackRequest | None = None
    notice: str | None = None
    refusal: str = ""
    update: Update = field(default_factory=Update)


def not_an_order(command: Command, texts: Texts) -> str | None:
    """Return the notice about a text that only resembles a command; `None` for a real command."""
    verb = command["verb"]
    if verb not in NOT_IN_GRAPH and verb not in _ANSWERS:
        return None
    return texts.say(_ANSWERS.get(verb, "not_in_chat"), verb=verb, command=command["argument"])


def order_typed(command: Command, texts: Texts) -> orders.Order[Any]:
    """Return the order of a typed command; `InputError` for a missing or unreadable argument."""
    check_argument(command["verb"], command["argument"], texts.language)
    return orders.typed_order(command["verb"], command["argument"])


def carry_out_input(
    state: State, scope: Scope, turn: Turn, entry: PendingInput, command: Command | None
) -> Steps[InputOrder]:
    """Carry out the order in a run's input, but one that rewrites the transcript only in the node `rollback`.

    An error of unsay, also for an empty message, becomes a notice. A task that a host starts with a
    question is set in `turn`, in place.
    """
    texts = scope.texts(state["messages"])
    try:
        if command is not None and (text := not_an_order(command, texts)) is not None:
            return InputOrder(notice=text, refusal="CommandRefused")
        order = _order_of(state, turn, entry, command, texts)
        if (
            isinstance(order, orders.SaveCheckpoint)
            and order.task
            and not turn["done"]
            and not command
        ):
            # The question is answered in the same run: its checkpoint is made with the answer.
            checkpoint = checkpoint_by_order(state, scope, order.name, reason="task_start")
            turn["task"] = checkpoint["name"]
            order = None
        if order is None:
            return InputOrder()
        if order.rewrites:
            request, last_turn = request_of(order), state.get("turn")
            stopped = None if last_turn is None or last_turn["done"] else last_turn
            if (
                isinstance(order, orders.Undo)
                and stopped
                and stopped["question_id"] in turn["pending"]
            ):
                # A stopped turn is the newest step: its question leaves, and so does what it removed.
                request["ids"] = stopped["pending"]
                turn["branches"] = stopped["branches"]
            return InputOrder(request=request)
        keeping = replace(scope, keeps=turn["pending"])
        outcome = yield from carry_out(order, state, keeping)
    except UnsayError as error:
        text = texts.refusal(error)
        return InputOrder(notice=text, refusal=type(error).__name__)
    is_answered_by_model = command is None and not turn["done"]
    notice = None if is_answered_by_model else outcome.notice(texts)
    return InputOrder(notice=notice, update=outcome.update)


def _order_of(
    state: State, turn: Turn, entry: PendingInput, command: Command | None, texts: Texts
) -> orders.Order[Any] | None:
    """Return the order that a run's input gives; `None` for a message to answer."""
    values = state.get("order")
    if command is None and entry.question is not None:
        check_message(entry.question)
    if command is not None or values is not None:
        order = orders.read_order(values or {}) if command is None else order_typed(command, texts)
        return (
            replace(order, branch=_stopped_branch(state))
            if isinstance(order, orders.Retry)
            else order
        )
    # A flag next to a request was left by a turn that a crash interrupted.
    target = state.get("rollback_checkpoint_id") or None
    left_over = state.get("rollback_request") is not None and target is None
    if state.get("should_rollback") and not left_over:
        return orders.Rollback(to=target)
    if name := state.get("start_task"):
        return orders.SaveCheckpoint(name=name, task=True)
    return None


def _stopped_branch(state: State) -> str | None:
    """Return the id of the branch with the question of a turn that never ended; `None` for none."""
    refs, turn = state.get("branches", []), state.get("turn")
    is_stopped = turn is not None and not turn["done"]
    return refs[-1]["id"] if is_stopped and refs and refs[-1]["kind"] == "interrupted" else None


def request_of(order: orders.Order[Any]) -> RollbackRequest:
    """Return the request with which the node `rollback` carries out an order."""
    return RollbackRequest(kind="order", to=None, reason="", order=orders.order_values(order))


def carry_out_request(state: State, scope: Scope, request: RollbackRequest) -> Steps[Update]:
    """Carry out an order that rewrites the transcript, and return the update; a notice says what it did.

    A host's rollback leaves the question beside it to be answered, and no notice. Raises the
    `UnsayError` that refuses the order.
    """
    turn, order = state["turn"], orders.read_order(request.get("order", {}))
    keeps = [name for name in turn["pending"] if name not in request.get("ids", ())]
    outcome = yield from carry_out(order, state, replace(scope, keeps=keeps))
    update = outcome.update
    if order.asks:
        return update
    after = update["turn"]
    if not order.typed:
        # With a host's order the question beside it is still to be answered.
        after = {**after, "done": turn["done"] or not keeps}
        if turn["done"] and isinstance(order, orders.Rollback):
            after = turn_left_open(with_update(state, update), after)
    update["turn"] = after
    if after["done"]:
        texts = scope.texts(state["messages"])
        update["notice"] = NoticeDue(text=outcome.notice(texts), answers=turn["pending"])
    return update
