"""The books of the threads that have calls under way, each opened once in a process.

A thread has one writer at a time, in all processes: whoever calls models for it holds its lease.
So a book that is read when the first call comes and written with every change is the truth, and
no two processes ever write the same one.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Self, TypeVar

from langgraph.store.base import BaseStore

from unsay.budget.books import Book, Place, settle
from unsay.budget.budgets import Limits
from unsay.budget.pricing import Amount
from unsay.budget.waiting import Line
from unsay.effects import Steps
from unsay.nodes.account import SharedBook, keep_book, kept_book
from unsay.nodes.turnstile import Turnstile
from unsay.settings import Settings

T = TypeVar("T")

HOLDS = 16
"""So many calls that a crash cut off are held for their return; older ones are booked as spent."""

WITHOUT_STORE = 1_000
"""So many threads' books are kept in the process where there is no store, the newest."""

_NOBODY_WAITS_IN_VAIN = 1_000_000


class OpenBook:
    """A thread's book. One change is made and kept before the next begins."""

    def __init__(self, store: BaseStore | None, thread_id: str, *, wait_seconds: float) -> None:
        """Begin without having read it.

        Args:
            store: Where it lies; `None` keeps it in the process.
            thread_id: Whose it is.
            wait_seconds: How long a change waits for those before it.
        """
        self.callers = 0
        self._store = store
        self._thread_id = thread_id
        self._shared: SharedBook | None = None
        self._turnstile = Turnstile(
            Line(places=1, most_waiting=_NOBODY_WAITS_IN_VAIN), wait_seconds=wait_seconds
        )

    def change(self, limits: Limits, make: Callable[[SharedBook], T]) -> Steps[T]:
        """Change the book and keep it; nobody acts on a change that is not kept.

        Args:
            limits: Of the run.
            make: Changes it, and may refuse to.

        Raises:
            BudgetExceededError: As `make` raises it.
        """
        return (yield from self._turnstile.through(lambda: self._changed(limits, make)))

    def _changed(self, limits: Limits, make: Callable[[SharedBook], T]) -> Steps[T]:
        if self._shared is None:
            self._shared = SharedBook(limits, book=(yield from self._read()))
        before = self._shared.book
        self._shared.limits = limits
        made = make(self._shared)
        if self._store is None or self._shared.book == before:
            return made
        try:
            yield keep_book(self._store, self._thread_id, self._shared.book)
        except BaseException:
            self._shared = SharedBook(limits, book=before)
            raise
        return made

    def _read(self) -> Steps[Book | None]:
        if self._store is None:
            return None
        book = yield from kept_book(self._store, self._thread_id)
        for held in book["holds"][:-HOLDS]:
            amount = Amount(tokens=held["tokens"], micros=held["micros"])
            book = settle(book, amount, key=held["key"], place=Place(task_id=held["task_id"]))
        return book


class OpenBooks:
    """The open books of one graph."""

    def __init__(self, *, wait_seconds: float) -> None:
        """Begin with none.

        Args:
            wait_seconds: How long a change waits for those before it.
        """
        self._wait_seconds = wait_seconds
        self._mutex = Lock()
        self._open: dict[tuple[int, str], OpenBook] = {}

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Those of a graph with these settings."""
        return cls(wait_seconds=settings.call_wait_seconds)

    @contextmanager
    def opened(self, store: BaseStore | None, thread_id: str) -> Iterator[OpenBook]:
        """A thread's book, the same for all who use it at one time.

        Args:
            store: Where it lies. Without one it is kept in this process, as long as that lives.
            thread_id: Whose it is.
        """
        name = (id(store), thread_id)
        with self._mutex:
            book = self._open.pop(name, None) or OpenBook(
                store, thread_id, wait_seconds=self._wait_seconds
            )
            self._open[name] = book
            book.callers += 1
        try:
            yield book
        finally:
            with self._mutex:
                book.callers -= 1
                self._let_go(name, book, is_kept=store is not None)

    def _let_go(self, name: tuple[int, str], book: OpenBook, *, is_kept: bool) -> None:
        if is_kept and not book.callers:
            del self._open[name]
        idle = [each for each, open_ in self._open.items() if not open_.callers]
        for each in idle[:-WITHOUT_STORE]:
            del self._open[each]
