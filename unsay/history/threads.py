"""The list of threads; as a session, a thread is begun, is active, and may be ended."""

import logging
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from threading import Lock
from typing import Any, Literal, get_args

from langchain_core.messages import AnyMessage, BaseMessage
from langgraph.store.base import BaseStore, Item

from unsay.effects import Steps, drive, off_loop
from unsay.errors import DatabaseCorruptError, InputError, SessionEndedError, UnknownThreadError
from unsay.history.unsaved_answers import UNSAVED
from unsay.phrases import Verb
from unsay.retrieval.terms import Entry
from unsay.retrieval.vectors import Vector
from unsay.storage import pagination
from unsay.storage.base import THREADS, Database, Purged
from unsay.storage.items import (
    Kind,
    drop_items,
    get_item,
    put_item,
    thaw_messages,
    thread_namespace,
)
from unsay.storage.pages import RECENT, event_log_namespace
from unsay.storage.segment_index import IndexedSegment
from unsay.types import Printed

# Threads in the cache; the one that was not used for the longest time is dropped first.
CACHED_THREADS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Cached values of a thread, by id of the segment (`pages`) or the message.

    `live` has the entries of the state's messages with hashes of their texts, and `bodies`
    offloaded messages that a search chose. To change a field, make a new memory and `keep` it.
    """

    pages: Mapping[str, IndexedSegment] = field(default_factory=dict)
    live: Mapping[str, tuple[int, Entry]] = field(default_factory=dict)
    bodies: Mapping[str, AnyMessage] = field(default_factory=dict)
    vectors: Mapping[str, Vector] = field(default_factory=dict)


class Memories:
    """The caches of the threads of all stores, at most `most`; safe for several Python threads."""

    def __init__(self, most: int = CACHED_THREADS) -> None:
        self._most, self._lock = most, Lock()
        self._known: OrderedDict[tuple[int, str], tuple[weakref.ref[Any], Memory]] = OrderedDict()

    def get(self, owner: object, thread_id: str) -> Memory:
        """Return a thread's cache, maybe empty; `owner` is its store, or the services without one."""
        key = (id(owner), thread_id)
        with self._lock:
            ref, memory = self._known.get(key, (None, Memory()))
            if ref is None or ref() is not owner:  # Python reuses the ids of deleted objects
                self._known.pop(key, None)
                return Memory()
            self._known.move_to_end(key)
            return memory

    def keep(self, owner: object, thread_id: str, memory: Memory) -> None:
        """Replace a thread's cache; over the limit, drop the least recently used. `owner` is as for `get`."""
        key = (id(owner), thread_id)
        with self._lock:
            # Weak, so that the cache keeps no store alive.
            self._known[key] = (weakref.ref(owner), memory)
            self._known.move_to_end(key)
            for stale in [key for key, (ref, _) in self._known.items() if ref() is None]:
                del self._known[stale]
            while len(self._known) > self._most:
                self._known.popitem(last=False)

    def drop(self, thread_id: str) -> None:
        """Delete the caches of a thread for all stores; a purge calls this."""
        with self._lock:
            for key in [key for key in self._known if key[1] == thread_id]:
                del self._known[key]


MEMORIES = Memories()


LOG = logging.getLogger(__name__)

# Length limit of a title. Source: leveret, day 07.
TITLE_CHARS = 50
SessionStatus = Literal["active", "ended"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadInfo:
    """One thread of a store: its entry in the list of threads; times are ISO 8601, UTC.

    `turns` counts answered turns. For a fork, `forked_from` is the id of the original thread, and
    `forked_at` that of the last message that both share, `None` if they share none.
    """

    thread_id: str
    title: str
    turns: int
    created_at: str
    updated_at: str
    status: SessionStatus = "active"
    labels: Mapping[str, str] = field(default_factory=dict)
    ended_at: str | None = None
    forked_from: str | None = None
    forked_at: str | None = None

    def __str__(self) -> str:
        state = f"{self.status}  turns: {self.turns}"
        return f"{self.updated_at}  {self.thread_id}  {state}  {self.title}"


_FIELDS = frozenset(each.name for each in fields(ThreadInfo)) - {"thread_id"}


def entry_of(item: Item) -> ThreadInfo | None:
    """Return the entry in an item, without unknown fields; `None` if it is no entry or is damaged."""
    known_fields = {name: value for name, value in item.value.items() if name in _FIELDS}
    try:
        entry = ThreadInfo(thread_id=item.key, **known_fields)
        pagination.moment_of(entry.created_at)
        pagination.check_word("status", entry.status, SessionStatus)
    except (InputError, TypeError, ValueError):
        return None
    texts = (entry.title, entry.updated_at)
    is_valid = all(isinstance(text, str) for text in texts) and isinstance(entry.turns, int)
    in_own_namespace = tuple(item.namespace) == THREADS
    return entry if in_own_namespace and is_valid and pagination.are_labels(entry.labels) else None


def list_threads(store: BaseStore) -> list[ThreadInfo]:
    """Return all threads, the last changed first; for the command line, which runs blocking.

    Damaged items, and those that are not entries, are skipped.
    """
    entries = drive(pagination.scan(store, THREADS, entry_of))
    return sorted(entries, key=lambda entry: entry.updated_at, reverse=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPage(Printed):
    """One page of sessions; `cursor` is for the next page, `None` on the last."""

    sessions: tuple[ThreadInfo, ...]
    cursor: str | None

    def __str__(self) -> str:
        return pagination.page_text(self.sessions, self.cursor)


def find_session(store: BaseStore, thread_id: str) -> Steps[ThreadInfo | None]:
    """Return a thread's session; `None` if it was never begun, or its item is not an entry.

    It is also `None` for a damaged item, which is logged as a warning. But an ended session stays
    ended, as far as that can be read; then its title and labels are empty.
    """
    item = yield from _read_item(store, thread_id)
    return None if item is None else entry_of(item)


def _read_item(store: BaseStore, thread_id: str) -> Steps[Item | None]:
    """Return the item with a thread's entry, as `find_session`; `None` if there is none.

    A thread can go on without its entry, which only lists it: the next turn writes it again.
    """
    try:
        item = yield from get_item(store, THREADS, thread_id)
    except DatabaseCorruptError as error:
        LOG.warning(
            "thread=%r reason=%r the entry of the thread is damaged: its title, labels and waiting input "
            "are lost",
            thread_id,
            str(error),
        )
        # A filter compares the fields without their checksum.
        ended = yield from pagination.scan(
            store,
            THREADS,
            lambda it: it if it.key == thread_id else None,
            equal={"status": "ended"},
        )
        return _ended_item(ended[0]) if ended else None
    return item


def _ended_item(damaged: Item) -> Item:
    """Return a sound item for the damaged one of an ended session; its times are the last write's."""
    at = (damaged.updated_at or datetime.fromtimestamp(0, UTC)).isoformat()
    times = {"created_at": at, "updated_at": at, "ended_at": at}
    damaged.value = {"title": "", "turns": 0, "status": "ended", **times}
    return damaged


def get_session(store: BaseStore, thread_id: str) -> Steps[ThreadInfo]:
    """Return a thread's session.

    Raises:
        UnknownThreadError: It was never begun, or its item is not an entry.
        DatabaseCorruptError: The item is damaged.
    """
    session = yield from find_session(store, thread_id)
    if session is None:
        yield from get_item(store, THREADS, thread_id)  # raises the error of a damaged item
        raise UnknownThreadError(
            threads=Verb("threads", python="Registry.sessions()"),
            code="no_thread",
            thread_id=thread_id,
        )
    return session


def begin(
    store: BaseStore, thread_id: str, *, now: str, labels: Mapping[str, str] | None = None
) -> Steps[ThreadInfo]:
    """Return a thread's session as it is, or begin one with these `labels` if it has none.

    The caller must hold the thread's lock. Raises `InputError` if the thread's id is empty or a
    label cannot be stored, `SessionEndedError` if the session was ended.
    """
    if not thread_id:
        raise InputError(f"thread_id={thread_id!r} is not an id: use 1 character or more")
    checked_labels = pagination.check_labels(labels)
    session = yield from find_session(store, thread_id)
    if session is not None:
        refuse_ended(session)
        return session
    return (yield from revise(store, thread_id, now=now, labels=checked_labels))


def end(store: BaseStore, thread_id: str, *, now: str) -> Steps[ThreadInfo]:
    """End a session until its thread is purged; an ended session is returned as it is.

    A damaged entry is replaced. The caller must hold the thread's lock. Raises `UnknownThreadError`
    if the session was never begun.
    """
    with suppress(DatabaseCorruptError):
        session = yield from get_session(store, thread_id)
        if session.status == "ended":
            return session
    return (yield from revise(store, thread_id, now=now, status="ended", ended_at=now))


def label(
    store: BaseStore, thread_id: str, labels: Mapping[str, str | None], *, now: str
) -> Steps[ThreadInfo]:
    """Set some labels of a session, also an ended one; `None` removes a label, and others stay.

    A session that was never begun begins at `now`. Raises `InputError` if a label cannot be stored,
    `UnknownThreadError` if there is neither a session nor a label to set. The caller must hold the
    thread's lock.
    """
    added = pagination.check_labels(
        {name: value for name, value in labels.items() if value is not None}
    )
    find = find_session if added else get_session
    session = yield from find(store, thread_id)
    before = session.labels if session else {}
    kept_labels = {name: value for name, value in before.items() if name not in labels}
    # A label does not count as activity: the order of `list_threads` stays.
    at = session.updated_at if session else now
    return (yield from revise(store, thread_id, now=at, labels={**kept_labels, **added}))


def revise(store: BaseStore, thread_id: str, *, now: str, **changes: Any) -> Steps[ThreadInfo]:
    """Write some fields of a thread's entry, or begin the entry with them; return the entry.

    `changes` are values by field name, unchecked, and perhaps of fields that `ThreadInfo` does not
    have; other fields stay, but `updated_at` becomes `now`. If the item is damaged or not an entry,
    it is replaced; `find_session` says what stays. The caller must hold the thread's lock.
    """
    item = yield from _read_item(store, thread_id)
    new = ThreadInfo(thread_id=thread_id, title="", turns=0, created_at=now, updated_at=now)
    blank = {name: value for name, value in asdict(new).items() if name != "thread_id"}
    # Fields that `ThreadInfo` does not have, such as `pending_input`, stay.
    stored_fields = {} if item is None or entry_of(item) is None else item.value
    value = {**blank, **stored_fields, "updated_at": now, **changes}
    yield from put_item(store, THREADS, thread_id, value)
    return ThreadInfo(thread_id=thread_id, **{name: value[name] for name in blank})


def load_pending_input(store: BaseStore, thread_id: str) -> Steps[list[BaseMessage]]:
    """Return the input that was stored before its turn began, documents first; it may be empty.

    It is cleared when the turn ends or waits for a decision, or by a later verb that finds it in
    the transcript. So the transcript alone may have an unanswered question: look there too.
    Input that is damaged is left out, and logged as a warning.
    """
    item = yield from _read_item(store, thread_id)
    frozen_messages = None if item is None else item.value.get("pending_input")
    try:
        return thaw_messages(frozen_messages) if isinstance(frozen_messages, str) else []
    except DatabaseCorruptError as error:
        LOG.warning("thread=%r reason=%r the pending input is damaged", thread_id, str(error))
        return []


@dataclass(slots=True, eq=False)
class UnderWay:
    """A run under way in this process; `is_purged` says that its thread was purged meanwhile."""

    thread_id: str
    is_purged: bool = False
    stopped_early: bool = False


_UNDER_WAY: set[UnderWay] = set()


@contextmanager
def under_way(thread_id: object) -> Iterator[UnderWay]:
    """Return a context manager for a run on a thread; what it yields says whether that was purged."""
    run = UnderWay(str(thread_id or ""))
    _UNDER_WAY.add(run)
    try:
        yield run
    finally:
        _UNDER_WAY.discard(run)


def forget(thread_id: str) -> None:
    """Drop what this process has in memory of a thread, and tell its runs that it is purged."""
    MEMORIES.drop(thread_id)
    UNSAVED.forget(thread_id)
    RECENT.pop(event_log_namespace(thread_id), None)
    for run in list(_UNDER_WAY):
        run.is_purged = run.is_purged or run.thread_id == thread_id


def purge_thread(database: Database, thread_id: str) -> Steps[Purged]:
    """Delete a thread from a database, and return what was deleted; a file loses the bytes as well.

    A purge that was interrupted can be repeated. Copies elsewhere, such as backups, stay; for
    Postgres see `PostgresDatabase.scrub`. The caller must hold the thread's lock. Raises
    `DatabaseLockedError` if another process uses the file: purge again, to delete the bytes too.
    """
    forget(thread_id)
    purged = yield from off_loop(lambda: database.erase(thread_id))
    yield from off_loop(database.scrub)
    return purged


def purge_items(store: BaseStore, thread_id: str) -> Steps[Purged]:
    """Delete what unsay stored for a thread in a host's store, and return how many items it was.

    The host deletes the checkpoints. A purge that was interrupted can be repeated. Nobody holds the
    thread's lock: what a run of this process still writes is deleted when it ends, and the host must
    see that no run of another process writes.
    """
    forget(thread_id)
    items = 0
    for kind in get_args(Kind):
        namespace = thread_namespace(kind, thread_id)
        keys = yield from pagination.read_items(store, namespace, lambda item: item.key)
        if keys:
            yield from drop_items(store, namespace, keys)
        items += len(keys)
    # The entry in the list of threads comes last: after a crash it still names the thread.
    try:
        is_listed = (yield from get_item(store, THREADS, thread_id)) is not None
    except DatabaseCorruptError:
        is_listed = True
    if is_listed:
        yield from drop_items(store, THREADS, [thread_id])
        items += 1
    return Purged(checkpoints=0, writes=0, items=items)


def refuse_ended(session: ThreadInfo | None) -> None:
    """Raise `SessionEndedError` for an ended session; `None` passes."""
    if session is not None and session.status == "ended":
        raise SessionEndedError(
            fork=Verb("fork"),
            code="thread_ended",
            thread_id=session.thread_id,
            time=session.ended_at,
        )


def search_sessions(
    store: BaseStore,
    *,
    status: SessionStatus | None = None,
    labels: Mapping[str, str] | None = None,
    since: str | datetime | None = None,
    until: str | datetime | None = None,
    cursor: str | None = None,
    limit: int = 50,
) -> Steps[SessionPage]:
    """Return one page of sessions, the last begun first; damaged entries are skipped.

    Every session that exists when the first page is read comes once, also while others write.

    Args:
        store: The store of the threads.
        status: `None` means any.
        labels: All of them must match.
        since: Earliest beginning of a session, included; a `datetime` or ISO 8601, with a zone.
        until: Latest beginning of a session, excluded, in the same forms.
        cursor: The cursor of the page before; `None` for the first page.
        limit: 1 to 1,000.

    Raises:
        InputError: An argument is invalid.
    """
    if status is not None:
        pagination.check_word("status", status, SessionStatus)
    session_window = pagination.window(
        "sessions", labels=labels, since=since, until=until, cursor=cursor, limit=limit
    )
    equal = None if status != "ended" else {"status": status}
    entries = yield from pagination.scan(store, THREADS, entry_of, equal=equal)
    matching = (
        entry
        for entry in entries
        if status in (None, entry.status) and session_window.holds(_place(entry)[0], entry.labels)
    )
    page = session_window.page(matching, _place, newest_first=True)
    return SessionPage(sessions=page.items, cursor=page.cursor)


def _place(entry: ThreadInfo) -> tuple[datetime, str, str]:
    return pagination.moment_of(entry.created_at), entry.thread_id, ""
