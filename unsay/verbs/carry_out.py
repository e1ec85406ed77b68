"""The one place where an order is carried out, whichever door it came through."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from unsay.effects import Steps
from unsay.orders import order as orders
from unsay.orders.order import Order
from unsay.runtime import Scope
from unsay.state import State, StateDraft
from unsay.verbs import memory, moves, records
from unsay.verbs.outcome import Outcome

T = TypeVar("T")

VERBS: dict[type[Order[Any]], Callable[[Any, StateDraft, Scope], Steps[Outcome[Any]]]] = {
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


def carry_out(order: Order[T], state: State, scope: Scope) -> Steps[Outcome[T]]:
    """Return what an order leads to, with the update of the state that the caller commits.

    Nothing is stored, but tokens may be spent: a summary is written by a model. The scope's `keeps`
    are the unanswered messages that a move leaves in the transcript. Events of the change are in
    the scope's log. Raises the `UnsayError` that refuses the order.
    """
    draft = StateDraft(state)
    outcome = yield from VERBS[type(order)](order, draft, scope)
    return outcome if order.reads else replace(outcome, update=draft.update)
