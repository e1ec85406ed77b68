"""The list of threads: what each is called and when it was last spoken in."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from langgraph.store.base import BaseStore, Item

from unsay.effects import Call, drive
from unsay.errors import InputError
from unsay.history.items import get_item, put_item
from unsay.history.paging import are_labels, check_word, moment_of, scan

THREADS = ("unsay", "threads")
"""The store's namespace of the catalogue."""

TITLE_CHARS = 50
"""Longest title. Source: leveret, day 07."""

SessionStatus = Literal["active", "ended"]


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

    status: SessionStatus = "active"
    """`ended` for good: it can be read, and no new run may start in it."""

    labels: Mapping[str, str] = field(default_factory=dict)
    """The caller's own words for finding it again."""

    ended_at: str | None = None
    """ISO 8601, UTC; `None` while the session is active."""

    forked_from: str | None = None
    """Id of the thread that it began as a copy of; `None` for one that began empty."""

    forked_at: str | None = None
    """Id of the last message that both had when it began; `None` when they had none."""


_FIELDS = frozenset(each.name for each in fields(ThreadEntry)) - {"thread_id"}


def entry_of(item: Item) -> ThreadEntry | None:
    """An entry from the store; `None` for what is no line of ours.

    Fields that a newer unsay wrote are left out, and those that an older one did not know have
    their defaults.
    """
    known = {name: value for name, value in item.value.items() if name in _FIELDS}
    try:
        entry = ThreadEntry(thread_id=item.key, **known)
        moment_of(entry.created_at)
        check_word("status", entry.status, SessionStatus)
    except (InputError, TypeError, ValueError):
        return None
    texts = (entry.title, entry.updated_at)
    sound = all(isinstance(each, str) for each in texts) and isinstance(entry.turns, int)
    at_home = tuple(item.namespace) == THREADS
    return entry if at_home and sound and are_labels(entry.labels) else None


def get_entry(store: BaseStore, thread_id: str) -> Call:
    """A call that gives a thread's `Item`, `None` when it is not listed."""
    return get_item(store, THREADS, thread_id)


def put_entry(store: BaseStore, thread_id: str, value: Mapping[str, Any]) -> Call:
    """A call that lists a thread, or lists it anew."""
    return put_item(store, THREADS, thread_id, value)


def list_threads(store: BaseStore) -> list[ThreadEntry]:
    """All threads, the one spoken in last first."""
    entries = drive(scan(store, THREADS, entry_of))
    return sorted(entries, key=lambda each: each.updated_at, reverse=True)
