"""Sessions: threads with a life of their own. Each begins, is active, and may be ended for good.

A session is its thread's line in the catalogue; there is no second list.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any, Literal

from langchain_core.messages import BaseMessage
from langgraph.store.base import BaseStore, Item

from unsay.effects import Steps, drive, off_loop
from unsay.errors import InputError, SessionEndedError, UnknownThreadError
from unsay.history.recall_cache import MEMORIES
from unsay.storage.base import THREADS, Database, Purged
from unsay.storage.items import get_item, put_item, thaw_messages
from unsay.storage.pagination import (
    are_labels,
    check_labels,
    check_word,
    has_labels,
    moment_of,
    scan,
    window,
)

TITLE_CHARS = 50
"""Longest title. Source: leveret, day 07."""

SessionStatus = Literal["active", "ended"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadEntry:
    """One thread of a database; times are ISO 8601, UTC."""

    thread_id: str
    title: str
    turns: int
    created_at: str
    updated_at: str
    status: SessionStatus = "active"
    """`ended` for good: it can be read, and no new run may start in it."""

    labels: Mapping[str, str] = field(default_factory=dict)
    ended_at: str | None = None
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


def list_threads(store: BaseStore) -> list[ThreadEntry]:
    """All threads, the one spoken in last first."""
    entries = drive(scan(store, THREADS, entry_of))
    return sorted(entries, key=lambda each: each.updated_at, reverse=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPage:
    """Some sessions of a search."""

    sessions: tuple[ThreadEntry, ...]
    cursor: str | None


def find_session(store: BaseStore, thread_id: str) -> Steps[ThreadEntry | None]:
    """A thread's session, `None` when nobody ever began it."""
    item = yield get_item(store, THREADS, thread_id)
    return None if item is None else entry_of(item)


def get_session(store: BaseStore, thread_id: str) -> Steps[ThreadEntry]:
    """A thread's session.

    Raises:
        UnknownThreadError: Nobody ever began it.
    """
    found = yield from find_session(store, thread_id)
    if found is None:
        raise UnknownThreadError(
            f"There is no thread {thread_id!r} in this store; `unsay threads` and `search_sessions` "
            "list those there are, and the first words of a thread begin one"
        )
    return found


def begin(
    store: BaseStore,
    thread_id: str,
    *,
    now: str,
    labels: Mapping[str, str] | None = None,
) -> Steps[ThreadEntry]:
    """A thread's session, begun if there is none; its first words will name it.

    One that is active comes back as it is, whatever the labels: `label` changes those.

    Raises:
        SessionEndedError: It was ended.
        InputError: The thread has no name, or a label cannot be kept.
    """
    if not thread_id:
        raise InputError(f"thread_id={thread_id!r} cannot name a session: use 1 character or more")
    kept = check_labels(labels)
    found = yield from find_session(store, thread_id)
    if found is not None:
        refuse_ended(found)
        return found
    return (yield from revise(store, thread_id, now=now, labels=kept))


def end(store: BaseStore, thread_id: str, *, now: str) -> Steps[ThreadEntry]:
    """End a session for good; one that was ended before stays as it is.

    Its words stay readable. Nothing begins it again but a purge of the whole thread.

    Raises:
        UnknownThreadError: Nobody ever began it.
    """
    found = yield from get_session(store, thread_id)
    if found.status == "ended":
        return found
    return (yield from revise(store, thread_id, now=now, status="ended", ended_at=now))


def label(store: BaseStore, thread_id: str, labels: Mapping[str, str | None]) -> Steps[ThreadEntry]:
    """Set some labels of a session, active or ended; `None` takes one off.

    The others stay, and the session does not count as spoken in.

    Raises:
        UnknownThreadError: Nobody ever began it.
        InputError: A label cannot be kept.
    """
    given = check_labels({name: value for name, value in labels.items() if value is not None})
    found = yield from get_session(store, thread_id)
    kept = {name: value for name, value in found.labels.items() if name not in labels}
    return (yield from revise(store, thread_id, now=found.updated_at, labels={**kept, **given}))


def revise(store: BaseStore, thread_id: str, *, now: str, **changes: Any) -> Steps[ThreadEntry]:
    """Write some fields of a session's line, read afresh; the others stay as they are.

    The caller holds the thread's lock: no other writer comes between the reading and the writing.
    """
    item = yield get_item(store, THREADS, thread_id)
    new = ThreadEntry(thread_id=thread_id, title="", turns=0, created_at=now, updated_at=now)
    blank = {name: value for name, value in asdict(new).items() if name != "thread_id"}
    found = item is not None and entry_of(item) is not None
    value = {**blank, **(item.value if found else {}), "updated_at": now, **changes}
    yield put_item(store, THREADS, thread_id, value)
    return ThreadEntry(thread_id=thread_id, **{name: value[name] for name in blank})


def read_journal(store: BaseStore, thread_id: str) -> Steps[list[BaseMessage]]:
    """What was about to be said in a turn that has not ended; empty where none is under way."""
    item = yield get_item(store, THREADS, thread_id)
    kept = None if item is None else item.value.get("journal")
    return thaw_messages(kept) if isinstance(kept, str) else []


def purge_thread(database: Database, thread_id: str) -> Steps[Purged]:
    """Remove a thread from a database, and its words from a file's bytes.

    What is stored goes first, its line in the catalogue last; a purge that was cut short can be
    made again, and the file is cleaned every time. Copies elsewhere, such as backups, are the
    operator's to clean, and so are the bytes that a Postgres server has not yet written over:
    see `PostgresDatabase.scrub`. The caller holds the thread's lock.

    Raises:
        StorageError: The file cannot be read or written.
        DatabaseLockedError: Another process kept the file from being cleaned.
    """
    MEMORIES.drop(database.store, thread_id)
    purged: Purged = yield off_loop(lambda: database.erase(thread_id))
    yield off_loop(database.scrub)
    return purged


def refuse_ended(session: ThreadEntry | None) -> None:
    """Let nothing new start in a session that was ended.

    Raises:
        SessionEndedError: It was.
    """
    if session is not None and session.status == "ended":
        raise SessionEndedError(
            f"The thread {session.thread_id!r} was ended at {session.ended_at}: it can be read; "
            "to go on, begin another thread"
        )


def search_sessions(
    store: BaseStore,
    *,
    status: SessionStatus | None = None,
    labels: Mapping[str, str] | None = None,
    since: str | None = None,
    until: str | None = None,
    cursor: str | None = None,
    limit: int = 50,
) -> Steps[SessionPage]:
    """Sessions of a store, the one begun last first.

    Their order never changes, so pages fit together while others write: what was there when the
    first page was read comes once, and what begins later comes before the first page.

    Args:
        store: Where they are.
        status: `None` takes any.
        labels: All of them must match.
        since: Begun at this moment or after it. ISO 8601 with a zone.
        until: Begun before this moment. ISO 8601 with a zone.
        cursor: Of the page before; `None` for the first.
        limit: 1 to 1,000.

    Raises:
        InputError: One of these cannot be used.
    """
    if status is not None:
        check_word("status", status, SessionStatus)
    wanted = check_labels(labels)
    asked = window("sessions", since=since, until=until, cursor=cursor, limit=limit)
    equal = None if status != "ended" else {"status": status}
    entries = yield from scan(store, THREADS, entry_of, equal=equal)
    fitting = (
        each
        for each in entries
        if status in (None, each.status)
        and has_labels(each.labels, wanted)
        and asked.holds(_place(each)[0])
    )
    page = asked.cut(fitting, _place, newest_first=True)
    return SessionPage(sessions=page.lines, cursor=page.cursor)


def _place(entry: ThreadEntry) -> tuple[datetime, str, str]:
    return moment_of(entry.created_at), entry.thread_id, ""
