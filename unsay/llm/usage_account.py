"""The usage account of a thread, kept in the store: every change is one locked read-modify-write.

A thread has one writer among all processes, which its lease ensures, so that one lock in this
process is enough.
"""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Self, TypeVar, cast
from weakref import WeakValueDictionary

from langgraph.store.base import BaseStore

from unsay.budget.accounts import Book, Place, new_book, release, settle, unpaid_key
from unsay.budget.limits import Check, Limits, demand, extend, reserve
from unsay.budget.queue import Line
from unsay.effects import Call, Steps
from unsay.llm.gateway import FairSemaphore
from unsay.runtime import Scope
from unsay.settings import Settings
from unsay.storage.items import get_item, put_item, thread_namespace
from unsay.tokens.pricing import Amount, Tally, merged

T = TypeVar("T")

BOOK = "book"
_OUTSIDE = "outside"
"""Key, beside the account, of what was spent outside of runs."""

HOLDS = 16
"""How many calls that a crash cut off stay held for their return; older ones count as spent."""

WITHOUT_STORE = 1_000
"""How many threads' accounts are kept in the process where there is no store, the newest."""


def keep_book(store: BaseStore, thread_id: str, book: Book) -> Call:
    """A call that writes a thread's account; it goes with the thread when that is purged.

    It is no part of the state: a fork from an earlier checkpoint would reset what was spent since.
    """
    return put_item(store, thread_namespace("budgets", thread_id), BOOK, book)


def kept_book(store: BaseStore, thread_id: str) -> Steps[Book]:
    """A thread's account, new where it has spent nothing."""
    item = yield get_item(store, thread_namespace("budgets", thread_id), BOOK)
    return new_book() if item is None else cast("Book", item.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The answer to a reservation."""

    key: str
    """Under which the call is held, if it was granted."""

    check: Check


class ThreadAccount:
    """The usage account of one thread."""

    def __init__(self, store: BaseStore | None, thread_id: str, *, wait_seconds: float) -> None:
        """Open an account without reading it; without a store this object keeps it."""
        self._store = store
        self._thread_id = thread_id
        self._unstored = new_book()
        self._lock = FairSemaphore(Line(places=1, most_waiting=None), wait_seconds=wait_seconds)

    def reserve(
        self, limits: Limits, amount: Amount, *, key: str, place: Place, may_exceed: bool = False
    ) -> Steps[Grant]:
        """Check a call and, if it is granted, hold what it may come to.

        If a call was paid for under its key, a crash lost the reply: this one gets a key of its own.
        `may_exceed` extends the limits, as a person allowed.

        Raises:
            BudgetExceededError: There is no room for it, and the mode is `hard`.
        """

        def make(book: Book) -> tuple[Book, Grant]:
            book = extend(book, limits, amount, place=place) if may_exceed else book
            unpaid = unpaid_key(book, key)
            found = reserve(book, limits, amount, key=unpaid, place=place)
            demand(found.check)
            return found.book, Grant(key=unpaid, check=found.check)

        return (yield from self._change(make))

    def settle(self, amount: Amount, *, key: str, place: Place) -> Steps[None]:
        """Book what a call came to; a second booking under its key changes nothing."""
        yield from self._change(lambda book: (settle(book, amount, key=key, place=place), None))

    def release(self, key: str) -> Steps[None]:
        """Drop the hold of a call that was not made."""
        yield from self._change(lambda book: (release(book, key), None))

    def read(self) -> Steps[Book]:
        """The account, once the changes under way are stored."""
        return (yield from self._change(lambda book: (book, book)))

    def _change(self, make: Callable[[Book], tuple[Book, T]]) -> Steps[T]:
        return (yield from self._lock.through(lambda: self._changed(make)))

    def _changed(self, make: Callable[[Book], tuple[Book, T]]) -> Steps[T]:
        if self._store is None:
            self._unstored, result = make(self._unstored)
            return result
        before = yield from kept_book(self._store, self._thread_id)
        for held in before["holds"][:-HOLDS]:
            amount = Amount(tokens=held["tokens"], micros=held["micros"])
            place = Place(task_id=held["task_id"], agent_id=held["agent_id"])
            before = settle(before, amount, key=held["key"], place=place)
        after, result = make(before)
        if after != before:
            yield keep_book(self._store, self._thread_id, after)
        return result


class Accounts:
    """The usage accounts of one graph's threads."""

    def __init__(self, *, wait_seconds: float) -> None:
        """Begin with none; `wait_seconds` is how long a change waits for those before it."""
        self._wait_seconds = wait_seconds
        self._mutex = Lock()
        self._open: WeakValueDictionary[tuple[int, str], ThreadAccount] = WeakValueDictionary()
        self._unstored: dict[str, ThreadAccount] = {}

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Those of a graph with these settings."""
        return cls(wait_seconds=settings.call_wait_seconds)

    def opened(self, store: BaseStore | None, thread_id: str) -> ThreadAccount:
        """A thread's account, the same for all callers at one time; without a store the process keeps it."""
        name = (id(store), thread_id)
        with self._mutex:
            account = self._open.get(name)
            if account is None:
                account = ThreadAccount(store, thread_id, wait_seconds=self._wait_seconds)
                self._open[name] = account
            if store is None:
                self._unstored.pop(thread_id, None)
                self._unstored[thread_id] = account
                for oldest in list(self._unstored)[:-WITHOUT_STORE]:
                    del self._unstored[oldest]
            return account


def account_of_thread(scope: Scope) -> ThreadAccount:
    """The account of the scope's thread; a run without a thread has one of its own."""
    thread = scope.thread_id or f"run {scope.run_id}"
    return scope.services.sole(Accounts).opened(scope.store, thread)


def note_spent(scope: Scope, tally: dict[str, Tally]) -> Steps[None]:
    """Add to what calls beside the answer came to, by purpose: with the step, outside a run at once.

    When a thread is named its turn is over, and may wait for a person: no state is written then.
    """
    if scope.in_graph:
        scope.journal.spent = merged(scope.journal.spent, tally)
    elif not scope.is_reader and scope.store is not None and scope.thread_id is not None:
        before = yield from spent_outside(scope.store, scope.thread_id)
        namespace = thread_namespace("budgets", scope.thread_id)
        yield put_item(scope.store, namespace, _OUTSIDE, merged(before, tally))


def spent_outside(store: BaseStore, thread_id: str) -> Steps[dict[str, Tally]]:
    """What a thread's calls outside of runs came to, by purpose."""
    item = yield get_item(store, thread_namespace("budgets", thread_id), _OUTSIDE)
    return {} if item is None else dict(item.value)
