"""What a call of a model may come to, who pays for it, and what it came to.

What the call may come to is held before it is made, and kept where the thread is kept, so that a
crash forgets nothing that is held or spent; afterwards the hold makes way for what the model
reported. A call that is made again after a crash finds its own hold.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from itertools import count
from typing import Any, TypeVar

from langchain_core.runnables import Runnable
from langgraph.store.base import BaseStore
from langgraph.types import interrupt

from unsay.budget.accounts import LAYERS, Book, Place
from unsay.budget.limits import Check, Limits, delay_ms, limits_of
from unsay.effects import Steps
from unsay.errors import BudgetDeclinedError, InputError
from unsay.interrupts import read_permission, spending_request
from unsay.llm.budget_accounts import OpenBook, OpenBooks, SharedBook
from unsay.llm.gateway import pause
from unsay.llm.usage import (
    Purpose,
    answered_by,
    longest_reply,
    messages_in,
    name_of,
    prompt_tokens,
    replies_in,
    used_by,
)
from unsay.prompts.fields import Texts
from unsay.runtime import Scope
from unsay.storage.items import get_item, put_item, thread_namespace
from unsay.tokens.pricing import Amount, Tally, Usage, amount_of, merged, prices_for, tally_of

T = TypeVar("T")


AGENT = "agent"
"""The label of a run that names the agent on whose budget its calls go."""


_OUTSIDE = "outside"
"""Key of what was spent outside of runs, beside the book."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What a call may come to, and who pays."""

    scope: Scope
    """Of the step."""

    purpose: Purpose
    """What for."""

    key: str
    """Of the call."""

    models: Mapping[str, Runnable[Any, Any]]
    """That may answer, by the names of their circuits, the fallback last."""

    value: Any
    """What they are given."""

    sent: Callable[[], int] | None
    """Counts the tokens of that; `None` where the caller does not count."""

    @property
    def is_limited(self) -> bool:
        """Whether a budget stands. Who only reads a thread has none: it could not be booked."""
        limits = limits_of(self.scope.settings)
        each = (limits.of(layer) for layer in LAYERS)
        return not self.scope.is_reader and any(limit.tokens or limit.micros for limit in each)

    @property
    def limits(self) -> Limits:
        """What binds the call: only an answer of a thread can wait for a person."""
        limits = limits_of(self.scope.settings)
        can_wait = self.scope.in_graph and self.scope.thread_id and self.purpose == "answer"
        return limits if can_wait or limits.mode != "ask" else replace(limits, mode="hard")

    @property
    def place(self) -> Place:
        """On whose account it goes."""
        return Place(task_id=self.scope.task_id, agent_id=self.scope.labels.get(AGENT, AGENT))

    @property
    def prompt(self) -> int:
        """What the prompt costs."""
        return prompt_tokens(self.value) if self.sent is None else self.sent()

    def texts(self) -> Texts:
        """The catalogue in the language of what is asked."""
        return self.scope.texts(list(messages_in(self.value)))

    def most(self) -> Amount:
        """What the call may come to, with the dearest model that may answer."""
        prices, limits, prompt = self.scope.settings.prices, self.limits, self.prompt
        needed = any(limits.of(layer).micros is not None for layer in LAYERS)
        found = [
            amount_of(
                Usage(input=prompt, output=longest_reply(model, self.purpose)),
                prices_for(name_of(model), prices, needed=needed),
            )
            for model in self.models.values()
        ]
        return max(found, key=lambda each: (each.micros, each.tokens))

    def spent(self, reply: Any) -> Tally:
        """What the call came to."""
        replies = replies_in(reply, self.value)
        usage, table = used_by(replies, self.prompt), self.scope.settings.prices
        first = name_of(next(iter(self.models.values())))
        prices = prices_for(answered_by(replies), table) or prices_for(first, table)
        return tally_of(usage, amount_of(usage, prices))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grant:
    """A call that may be made."""

    key: str
    """Under which it is held."""

    check: Check
    """What the budgets said."""


def within_budgets(bill: Bill, make: Callable[[], Steps[Any]]) -> Steps[Any]:
    """The reply to a call that is held until it is known what it came to."""
    limits = bill.limits
    with _book_of(bill) as book:
        grant = yield from _granted(bill, book)
        yield from _pressed(bill.scope, grant.check)
        try:
            reply = yield from make()
        except TimeoutError:  # the request was sent, and is being paid for
            yield from _settled(book, bill, grant.key, bill.most())
            raise
        except Exception:  # whatever the client raises
            yield from book.change(limits, lambda shared: shared.release(grant.key))
            raise
        spent = bill.spent(reply)
        came_to = Amount(tokens=spent["total"], micros=spent["micros"])
        yield from _settled(book, bill, grant.key, came_to)
    return reply


def with_room(bill: Bill, steps: Callable[[], Steps[T]]) -> Steps[T]:
    """Make steps that lead up to a call, once it is held: what they cost is not paid in vain."""
    with _book_of(bill) as book:
        grant = yield from _granted(bill, book)
        try:
            return (yield from steps())
        except Exception:  # whatever they raise; a call that was made has settled its hold
            yield from book.change(bill.limits, lambda shared: shared.release(grant.key))
            raise


def _book_of(bill: Bill) -> AbstractContextManager[OpenBook]:
    scope = bill.scope
    thread = scope.thread_id or f"run {scope.run_id}"
    return scope.services.sole(OpenBooks).opened(scope.store, thread)


def _settled(book: OpenBook, bill: Bill, key: str, amount: Amount) -> Steps[None]:
    yield from book.change(
        bill.limits, lambda shared: shared.settle(amount, key=key, place=bill.place)
    )


def _granted(bill: Bill, book: OpenBook) -> Steps[_Grant]:
    """Hold what a call may come to; where there is no room and a person may be asked, ask."""
    amount, limits = bill.most(), bill.limits

    def reserve(shared: SharedBook) -> _Grant:
        key = _unpaid(shared.book, bill.key)
        return _Grant(key=key, check=shared.reserve(amount, key=key, place=bill.place))

    def extend(shared: SharedBook) -> _Grant:
        key = _unpaid(shared.book, bill.key)
        return _Grant(key=key, check=shared.grant(amount, key=key, place=bill.place))

    found = yield from book.change(limits, reserve)
    if found.check.outcome == "granted":
        return found
    _ask_person(bill, found.check)
    return (yield from book.change(limits, extend))


def _unpaid(book: Book, key: str) -> str:
    """The call's key. If one was paid for under it, a crash lost the reply and this is another."""
    others = (f"{key}~{number}" for number in count(2))
    return key if key not in book["keys"] else next(o for o in others if o not in book["keys"])


def _ask_person(bill: Bill, over: Check) -> None:
    """Wait for a person's word; an answer that is none is asked again, with the fault.

    Raises:
        BudgetDeclinedError: It was no.
    """
    request = spending_request(over, bill.texts())
    while True:
        try:
            is_allowed = read_permission(interrupt(request))
            break
        except InputError as error:
            (action,) = request["action_requests"]
            request = {**request, "action_requests": [{**action, "description": str(error)}]}
    bill.scope.tell("decision", decision="approve" if is_allowed else "reject")
    if not is_allowed:
        raise BudgetDeclinedError(
            f"The model was not asked: {'; '.join(map(str, over.exceeded))}, and a person said no. "
            "The question is kept: say it again, or raise the budget"
        )


def _pressed(scope: Scope, check: Check) -> Steps[None]:
    """Warn of a budget that comes to its end, and wait the longer the closer it is."""
    if check.warnings:
        limits = [asdict(gauge) for gauge in check.warnings]
        told = "; ".join(map(str, check.warnings))
        scope.tell("budget_warning", text=told, usage=check.usage, limits=limits)
    delay = delay_ms(check.usage, scope.settings.backpressure)
    if delay:
        scope.tell("backpressure", delay_ms=delay, usage=check.usage)
        yield pause(delay)


def note_spent(bill: Bill, reply: Any) -> Steps[None]:
    """Book a call beside the answer under its purpose: with the step, outside a run at once.

    When a thread is named its turn is over, and may wait for a person: no state is written then.
    """
    scope = bill.scope
    tally: dict[str, Tally] = {bill.purpose: bill.spent(reply)}
    if scope.in_graph:
        scope.journal.spent = merged(scope.journal.spent, tally)
    elif not scope.is_reader and scope.store is not None and scope.thread_id is not None:
        before = yield from spent_outside(scope.store, scope.thread_id)
        place = thread_namespace("budgets", scope.thread_id)
        yield put_item(scope.store, place, _OUTSIDE, merged(before, tally))


def spent_outside(store: BaseStore, thread_id: str) -> Steps[dict[str, Tally]]:
    """What a thread's calls outside of runs came to, by purpose."""
    item = yield get_item(store, thread_namespace("budgets", thread_id), _OUTSIDE)
    return {} if item is None else dict(item.value)
