"""A book that several callers share: each checks and books in one undivided step."""

from collections.abc import Callable
from threading import Lock
from typing import cast

from langgraph.store.base import BaseStore

from unsay.budget.books import Book, Place, new_book, release, settle
from unsay.budget.budgets import Check, Limits, demand, extend, reserve
from unsay.budget.pricing import Amount
from unsay.effects import Call, Steps
from unsay.history.items import get_item, put_item, thread_namespace

BOOK = "book"
"""Key of a thread's book in its namespace."""


def keep_book(store: BaseStore, thread_id: str, book: Book) -> Call:
    """A call that writes a thread's book; it goes with the thread when that is purged.

    In the store a book outlives what a host does with the thread's checkpoints: in the state it
    would go back with one that forks from an earlier one, and what was spent since with it.
    """
    return put_item(store, thread_namespace("budgets", thread_id), BOOK, book)


def kept_book(store: BaseStore, thread_id: str) -> Steps[Book]:
    """A thread's book, new where it has spent nothing."""
    item = yield get_item(store, thread_namespace("budgets", thread_id), BOOK)
    return new_book() if item is None else cast("Book", item.value)


class SharedBook:
    """The book of one session, while calls of it are under way in threads and tasks.

    No step waits for anything, so that none blocks an event loop.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        book: Book | None = None,
        keep: Callable[[Book], None] | None = None,
    ) -> None:
        """Begin with a book.

        Args:
            limits: Of the run.
            book: As it was kept; `None` is a session that has spent nothing.
            keep: Puts a new book where it lasts, before anybody sees it. When it fails, nothing
                was booked, and the same key may be booked again. It must be quick.
        """
        self.limits = limits
        self._book = book or new_book()
        self._keep = keep
        self._mutex = Lock()

    @property
    def book(self) -> Book:
        """As it is now."""
        return self._book

    def reserve(self, amount: Amount, *, key: str, place: Place) -> Check:
        """Check a call and, if it is granted, hold what it may come to.

        Raises:
            BudgetExceededError: There is no room for it, and the mode is `hard`.
        """
        with self._mutex:
            found = reserve(self._book, self.limits, amount, key=key, place=place)
            self._put(found.book)
        demand(found.check)
        return found.check

    def grant(self, amount: Amount, *, key: str, place: Place) -> Check:
        """Make room for a call that a person has said yes to, and hold it, in one step."""
        with self._mutex:
            wider = extend(self._book, self.limits, amount, place=place)
            found = reserve(wider, self.limits, amount, key=key, place=place)
            self._put(found.book)
        return found.check

    def extend(self, amount: Amount, *, place: Place) -> None:
        """Make room for a call that a person has said yes to."""
        with self._mutex:
            self._put(extend(self._book, self.limits, amount, place=place))

    def settle(self, amount: Amount, *, key: str, place: Place) -> None:
        """Book what a call came to; a second booking under its key changes nothing."""
        with self._mutex:
            self._put(settle(self._book, amount, key=key, place=place))

    def release(self, key: str) -> None:
        """Let go of what is held for a call that was not made."""
        with self._mutex:
            self._put(release(self._book, key))

    def _put(self, book: Book) -> None:
        if book == self._book:
            return
        if self._keep is not None:
            self._keep(book)
        self._book = book
