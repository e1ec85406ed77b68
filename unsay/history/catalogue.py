"""The list of threads: what each is called and when it was last spoken in."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langgraph.store.base import BaseStore, Item

from unsay.effects import Call

THREADS = ("unsay", "threads")
"""The store's namespace of the catalogue."""

PAGE = 200
TITLE_CHARS = 50
"""Longest title. Source: leveret, day 07."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadEntry:
    """One thread of a database."""

    thread_id: str
    """As the caller chose it, or made by us."""

    title: str
    """At most 50 characters."""

    turns: int
    """Answered questions on the current branch."""

    created_at: str
    """ISO 8601, UTC."""

    updated_at: str
    """ISO 8601, UTC; of the last turn or order."""


def entry_of(item: Item) -> ThreadEntry:
    """An entry from the store."""
    return ThreadEntry(thread_id=item.key, **item.value)


def get_entry(store: BaseStore, thread_id: str) -> Call:
    """A call that gives a thread's `Item`, `None` when it is not listed."""
    return Call(
        blocking=lambda: store.get(THREADS, thread_id),
        awaitable=lambda: store.aget(THREADS, thread_id),
    )


def put_entry(store: BaseStore, thread_id: str, value: Mapping[str, Any]) -> Call:
    """A call that lists a thread, or lists it anew."""
    return Call(
        blocking=lambda: store.put(THREADS, thread_id, dict(value), index=False),
        awaitable=lambda: store.aput(THREADS, thread_id, dict(value), index=False),
    )


def list_threads(store: BaseStore) -> list[ThreadEntry]:
    """All threads, the one spoken in last first."""
    entries: list[ThreadEntry] = []
    while page := store.search(THREADS, limit=PAGE, offset=len(entries)):
        entries += [entry_of(item) for item in page]
    return sorted(entries, key=lambda each: each.updated_at, reverse=True)
