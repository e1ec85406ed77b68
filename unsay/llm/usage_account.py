"""The usage account of a thread in the store; every change reads and writes it under a lock.

A lease makes this process the only writer of the thread, so a lock within the process is enough.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TypeVar, cast
from weakref import WeakValueDictionary

from langgraph.store.base import BaseStore

from unsay.budget.accounts import (
    AccountKey,
    UsageAccount,
    new_usage_account,
    release,
    settle,
    unpaid_key,
)
from unsay.budget.limits import Check, Limits, WaitQueue, demand, extend, reserve
from unsay.effects import Call, Steps
from unsay.llm.gateway import CALL_WAIT_SECONDS, FairSemaphore
from unsay.runtime import Scope
from unsay.settings.settings import Settings
from unsay.storage.items import get_item, put_item, thread_namespace
from unsay.tokens.pricing import Amount, Tally, merged

T = TypeVar("T")

ACCOUNT = "account"
# Key of the tokens used outside of runs, such as those for a title.
_OUTSIDE = "outside"
HOLDS = 16  # reserved calls that are kept; crashes leave some behind, and older ones count as spent
WITHOUT_STORE = 1_000  # accounts that the process keeps if there is no store
_namespace = partial(thread_namespace, "budgets")


def save_usage_account(store: BaseStore, thread_id: str, account: UsageAccount) -> Call[None]:
    """Return a call that writes a thread's account to the store."""
    # Not in the state: a fork from an earlier checkpoint would undo what was spent since then.
    return put_item(store, _namespace(thread_id), ACCOUNT, account)


def load_usage_account(store: BaseStore, thread_id: str) -> Steps[UsageAccount]:
    """Return a thread's account from the store; an empty one if nothing was spent.

    Raises `DatabaseCorruptError` if its item is damaged.
    """
    item = yield from get_item(store, _namespace(thread_id), ACCOUNT)
    return new_usage_account() if item is None else cast("UsageAccount", item.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The result of `ThreadAccount.reserve`: the check, and the key under which to settle the call."""

    key: str
    check: Check


class ThreadAccount:
    """The usage account of one thread; without a store, this object holds it.

    `Accounts` makes it. Callers take turns: each method raises `QueueFullError` after
    `wait_seconds`.
    """

    def __init__(self, store: BaseStore | None, thread_id: str, *, wait_seconds: float) -> None:
        self._store = store
        self._thread_id = thread_id
        self._unstored = new_usage_account()
        self._lock = FairSemaphore(WaitQueue(places=1, max_waiting=None), wait_seconds=wait_seconds)

    def reserve(
        self,
        limits: Limits,
        amount: Amount,
        *,
        key: str,
        place: AccountKey,
        at: str | None = None,
        may_exceed: bool = False,
    ) -> Steps[Grant]:
        """Check a call against the limits, and reserve its cost if it is granted.

        If the outcome of the grant's `check` is `ask`, nothing is reserved. With `may_exceed`,
        which a person decided, the limits are extended first. `key` identifies the call, `place`
        has its task and agent, and `at` is the time. Raises `BudgetExceededError` if the check
        refuses the call, and what `read` raises.
        """

        def make(account: UsageAccount) -> tuple[UsageAccount, Grant]:
            account = extend(account, limits, amount, place=place) if may_exceed else account
            # If this key is paid for, a crash lost the reply: the call is made again, under another key.
            unpaid = unpaid_key(account, key)
            reservation = reserve(account, limits, amount, key=unpaid, place=place, at=at)
            demand(reservation.check)
            return reservation.account, Grant(key=unpaid, check=reservation.check)

        return (yield from self._change(make))

    def settle(self, amount: Amount, *, key: str, place: AccountKey) -> Steps[None]:
        """Replace the reserved cost of a call with the actual cost; repeating this has no effect.

        Raises what `read` raises.
        """
        yield from self._change(
            lambda account: (settle(account, amount, key=key, place=place), None)
        )

    def release(self, key: str) -> Steps[None]:
        """Free the reserved cost of a call that was not made; an unknown key changes nothing.

        Raises what `read` raises.
        """
        yield from self._change(lambda account: (release(account, key), None))

    def read(self) -> Steps[UsageAccount]:
        """Return the account once all pending changes are done.

        Raises `QueueFullError` if these take too long, `DatabaseCorruptError` if the stored account
        is damaged.
        """
        return (yield from self._change(lambda account: (account, account)))

    def _change(self, make: Callable[[UsageAccount], tuple[UsageAccount, T]]) -> Steps[T]:
        """Apply `make` to the account and store the result; callers take turns.

        Raises what `read` and `make` raise; then nothing is stored.
        """
        return (yield from self._lock.through(lambda: self._changed(make)))

    def _changed(self, make: Callable[[UsageAccount], tuple[UsageAccount, T]]) -> Steps[T]:
        if self._store is None:
            self._unstored, result = make(self._unstored)
            return result
        before = yield from load_usage_account(self._store, self._thread_id)
        for old_hold in before["holds"][:-HOLDS]:
            amount = Amount(tokens=old_hold["tokens"], micros=old_hold["micros"])
            place = AccountKey(task_id=old_hold["task_id"], agent_id=old_hold["agent_id"])
            before = settle(before, amount, key=old_hold["key"], place=place)
        after, result = make(before)
        if after != before:
            yield from save_usage_account(self._store, self._thread_id, after)
        return result


class Accounts:
    """The usage accounts of one graph's threads."""

    def __init__(self, _: Settings) -> None:
        self._mutex = Lock()
        # Weak references: an account and its lock are needed only while a call uses them.
        self._open: WeakValueDictionary[tuple[int, str], ThreadAccount] = WeakValueDictionary()
        self._unstored: dict[str, ThreadAccount] = {}  # kept alive: no store has a copy

    def opened(self, store: BaseStore | None, thread_id: str) -> ThreadAccount:
        """Return the account of a thread, which reads and writes the `store` if there is one.

        All who use it at the same time get one object, and so share its lock. Without a store the
        accounts of the newest `WITHOUT_STORE` threads are kept; others begin again with nothing.
        """
        name = (id(store), thread_id)
        with self._mutex:
            account = self._open.get(name)
            if account is None:
                account = ThreadAccount(store, thread_id, wait_seconds=CALL_WAIT_SECONDS)
                self._open[name] = account
            if store is None:
                self._unstored.pop(thread_id, None)
                self._unstored[thread_id] = account
                for oldest in list(self._unstored)[:-WITHOUT_STORE]:
                    del self._unstored[oldest]
            return account


def account_of_thread(scope: Scope) -> ThreadAccount:
    """Return the account of the scope's thread; a run without a thread has a separate one."""
    thread = scope.thread_id or f"run {scope.run_id}"
    return scope.services.sole(Accounts).opened(scope.store, thread)


def note_spent(scope: Scope, tally: dict[str, Tally]) -> Steps[None]:
    """Record the tokens of calls, by purpose.

    In a run they are added to the step log, outside of it to the store. Outside of a run nothing is
    recorded without a store or by a reader, which cannot write. Raises what `spent_outside` raises.
    """
    # In a run they are committed with the step. A title is made after the turn, which may be waiting
    # for a person: writing the state then would end the wait, so these go to the store.
    if scope.in_graph:
        scope.step_log.spent = merged(scope.step_log.spent, tally)
    elif not scope.is_reader and scope.store is not None and scope.thread_id is not None:
        total = merged((yield from spent_outside(scope.store, scope.thread_id)), tally)
        yield from put_item(scope.store, _namespace(scope.thread_id), _OUTSIDE, total)


def spent_outside(store: BaseStore, thread_id: str) -> Steps[dict[str, Tally]]:
    """Return the tokens that a thread used outside of runs, by purpose; empty if there are none.

    With a budget its account counts them as well. Raises `DatabaseCorruptError` if the item with
    them is damaged.
    """
    item = yield from get_item(store, _namespace(thread_id), _OUTSIDE)
    return {} if item is None else dict(item.value)
