"""Who uses the window, what was spent, and how much of the budgets is left."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from langchain_core.messages import AnyMessage

from unsay.budget.books import LAYERS, Place
from unsay.budget.budgets import Gauge, check, limits_of
from unsay.budget.pricing import Amount
from unsay.budget.tally import Tally, merged
from unsay.context.call_view import CallView, read_manifest
from unsay.context.manifest import manifest_in
from unsay.context.topics import current_topic_id
from unsay.effects import Steps
from unsay.errors import ConflictError
from unsay.history.cuts import CUT_REFS
from unsay.history.tokens import Spent, key_of, tokens_in, tokens_of
from unsay.nodes.bills import AGENT, spent_outside
from unsay.nodes.moves import fetch_cuts
from unsay.nodes.open_books import OpenBooks
from unsay.services import Scope
from unsay.state import State, sealed_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """A conversation's tokens at one moment."""

    window: CallView | None
    """The newest call on the record, which says who uses the window; `None` where none tells."""

    spent: Spent
    """On what."""

    gauges: tuple[Gauge, ...]
    """Each budget that is set, the session's before the task's before the agent's."""


def totals_at_hand(state: State, scope: Scope) -> Steps[Totals]:
    """The totals as far as the state tells of them: a bounded number of reads.

    What is sealed is not read, nor are cuts that the state no longer names; what a fork began
    with counts here.
    """
    record, refs = state.get("messages", []), state.get("cuts", [])
    cuts = []
    for ref in refs:
        try:
            cuts += yield from fetch_cuts([ref["id"]], scope, refs)
        except ConflictError:
            continue
    gone = [m for cut in cuts for m in (*cut["messages"], *cut["drafts"])]
    spent = yield from spent_on(state, scope, record, gone)
    is_whole = sealed_of(state) is None and len(refs) < CUT_REFS and len(cuts) == len(refs)
    gauges = yield from gauges_of(state, scope)
    return Totals(
        window=newest_call(record), spent=replace(spent, is_whole=is_whole), gauges=gauges
    )


def spent_on(
    state: State, scope: Scope, live: Sequence[AnyMessage], gone: Sequence[AnyMessage]
) -> Steps[Spent]:
    """What was spent.

    Args:
        state: Holds what calls beside the answers came to.
        scope: Of the thread.
        live: The messages that stand and were paid for in this thread.
        gone: Those that were taken off; what has returned among them does not count.
    """
    prices, model = scope.settings.prices, scope.settings.model
    standing, turn = {key_of(m) for m in live}, state.get("turn")
    rejections = turn["rejections"] if turn else []
    gone = [*gone, *(m for each in rejections for m in each["messages"])]
    booked: dict[str, Tally] = state.get("spent", {})
    if scope.store is not None and scope.thread_id is not None:
        booked = merged(booked, (yield from spent_outside(scope.store, scope.thread_id)))
    return Spent(
        live=tokens_of(live, prices, model),
        abandoned=tokens_of([m for m in gone if key_of(m) not in standing], prices, model),
        judging=tokens_in(booked, "judge"),
        summaries=tokens_in(booked, "summary"),
        titles=tokens_in(booked, "title"),
    )


def newest_call(record: Sequence[AnyMessage]) -> CallView | None:
    """The newest call of which the record tells what it was sent."""
    for message in reversed(record):
        manifest = manifest_in(message)
        if manifest is not None:
            return read_manifest(message, manifest, record)
    return None


def gauges_of(state: State, scope: Scope) -> Steps[tuple[Gauge, ...]]:
    """Where each budget that is set stands."""
    limits = limits_of(scope.settings)
    each = (limits.of(layer) for layer in LAYERS)
    if not any(limit.tokens or limit.micros for limit in each):
        return ()
    thread = scope.thread_id or f"run {scope.run_id}"
    with scope.services.sole(OpenBooks).opened(scope.store, thread) as book:
        kept = yield from book.change(limits, lambda shared: shared.book)
    topic = current_topic_id(state.get("segments", []))
    place = Place(task_id=topic or scope.task_id, agent_id=scope.labels.get(AGENT, AGENT))
    return check(kept, limits, Amount(), place=place).gauges
