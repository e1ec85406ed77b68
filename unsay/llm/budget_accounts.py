"""A book that several callers share: each checks and books in one undivided step."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Self, TypeVar, cast

from langgraph.store.base import BaseStore

from unsay.budget.accounts import Book, Place, new_book, release, settle
from unsay.budget.limits import Check, Limits, demand, extend, reserve
from unsay.budget.queue import Line
from unsay.effects import Call, Steps
from unsay.llm.gateway import Turnstile
from unsay.settings import Settings
from unsay.storage.items import get_item, put_item, thread_namespace
from unsay.tokens.pricing import Amount

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
