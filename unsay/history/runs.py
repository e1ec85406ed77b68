"""The list of runs: one line for each invocation of a thread's graph."""

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from functools import lru_cache
from typing import Literal

from langgraph.store.base import BaseStore, Item

from unsay.effects import Call, Steps
from unsay.errors import DatabaseCorruptError, InputError, RunConflictError, UnknownRunError
from unsay.history.run import PHASES, Run, Suspension, plain
from unsay.history.threads import find_session, refuse_ended
from unsay.storage.items import get_item, put_item, thread_namespace
from unsay.storage.pagination import (
    MOST,
    are_labels,
    check_labels,
    check_word,
    has_labels,
    moment_of,
    scan,
    window,
)
from unsay.types import RunPhase, RunStatus

RUNS = ("unsay", "runs")
"""The store's namespaces of runs begin with it; one thread's lies under its quoted id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """Some runs of a list."""

    runs: tuple[Run, ...]
    cursor: str | None


def open_run(
    store: BaseStore,
    thread_id: str,
    run_id: str,
    *,
    now: str,
    turn_id: str | None = None,
    parent_run_id: str | None = None,
    status: Literal["pending", "running"] = "running",
    labels: Mapping[str, str] | None = None,
) -> Steps[Run]:
    """A run of a thread; one that was opened before comes back as it is by now.

    Raises:
        SessionEndedError: The thread was ended, and this run was not there yet.
        RunConflictError: Another turn's run, or another parent's, has this id.
        InputError: An id is empty, the run its own parent, the status none to begin with, or a
            label cannot be kept.
    """
    if not thread_id or not run_id:
        raise InputError(
            f"thread_id={thread_id!r}, run_id={run_id!r}: both need 1 character or more"
        )
    if run_id == parent_run_id:
        raise InputError(f"Run {run_id!r} cannot be its own parent: give None or another run's id")
    if status not in ("pending", "running"):
        raise InputError(f"status={status!r} is none to begin with: use 'pending' or 'running'")
    new = Run(
        run_id=run_id,
        thread_id=thread_id,
        turn_id=turn_id,
        parent_run_id=parent_run_id,
        status=status,
        labels=check_labels(labels),
        started_at=now,
        updated_at=now,
    )
    found = yield from find_run(store, thread_id, run_id)
    if found is not None:
        if (found.turn_id, found.parent_run_id) == (turn_id, parent_run_id):
            return found
        raise RunConflictError(
            f"Run {run_id!r} was opened for turn {found.turn_id!r} under {found.parent_run_id!r}, "
            f"not for {turn_id!r} under {parent_run_id!r}: give the new run an id of its own"
        )
    refuse_ended((yield from find_session(store, thread_id)))
    yield put_run(store, new)
    return new


def put_run(store: BaseStore, run: Run) -> Call:
    """A call that writes a run as plain JSON, without what is empty."""
    given = {name: getattr(run, name) for name in sorted(_FIELDS)}
    value = {name: each for name, each in given.items() if each is not None and each != {}}
    if run.suspension is not None:  # its body as text, which holds what no store's JSON would
        value["suspension"] = {**asdict(run.suspension), "body": plain(run.suspension.body)}
    return put_item(store, runs_namespace(run.thread_id), run.run_id, value)


def find_run(store: BaseStore, thread_id: str, run_id: str) -> Steps[Run | None]:
    """A run, `None` where there is none.

    Raises:
        DatabaseCorruptError: What is stored under its id is no run.
    """
    item = yield get_item(store, runs_namespace(thread_id), run_id)
    if item is None:
        return None
    run = run_of(item)
    if run is None:
        raise DatabaseCorruptError(
            f"What is stored as run {run_id!r} of thread {thread_id!r} cannot be read as a run: "
            "give the new run another id, or put a backup of the store in place"
        )
    return run


def get_run(store: BaseStore, thread_id: str, run_id: str) -> Steps[Run]:
    """A run.

    Raises:
        UnknownRunError: There is no such run.
        DatabaseCorruptError: What is stored under its id is no run.
    """
    found = yield from find_run(store, thread_id, run_id)
    if found is None:
        raise UnknownRunError(
            f"There is no run {run_id!r} in thread {thread_id!r}: "
            f"`list_runs(store, thread_id={thread_id!r})` lists those there are"
        )
    return found


def list_runs(
    store: BaseStore,
    *,
    thread_id: str | None = None,
    status: RunStatus | Collection[RunStatus] | None = None,
    phase: RunPhase | None = None,
    labels: Mapping[str, str] | None = None,
    parent_run_id: str | None = None,
    since: str | None = None,
    until: str | None = None,
    cursor: str | None = None,
    limit: int = 50,
) -> Steps[RunPage]:
    """Runs, the one opened first first.

    Their order never changes, so pages fit together while others write: what was there when the
    first page was read comes once, and what is opened later comes at the end.

    Each page is one reading of the thread's runs, or of all runs without a thread: some 20
    microseconds for each that is there. One status, a phase and a parent are looked for by the
    store itself, ten times as fast.

    Args:
        store: Where they are.
        thread_id: `None` takes those of all threads.
        status: One, or some of which any will do; `None` takes any.
        phase: `None` takes any.
        labels: All of them must match.
        parent_run_id: Only runs that this one started.
        since: Opened at this moment or after it. ISO 8601 with a zone.
        until: Opened before this moment. ISO 8601 with a zone.
        cursor: Of the page before; `None` for the first.
        limit: 1 to 1,000.

    Raises:
        InputError: One of these cannot be used.
    """
    asked = window("runs", since=since, until=until, cursor=cursor, limit=limit)
    statuses = {status} if isinstance(status, str) else set(status or ())
    for each in statuses:
        check_word("status", each, RunStatus)
    if phase is not None:
        check_word("phase", phase, RunPhase)
    wanted = check_labels(labels)
    equal: dict[str, str | None] = {"phase": phase, "parent_run_id": parent_run_id}
    if len(statuses) == 1:
        equal["status"] = next(iter(statuses))
    place = RUNS if thread_id is None else runs_namespace(thread_id)
    given = {name: value for name, value in equal.items() if value is not None}
    runs = yield from scan(store, place, run_of, equal=given)
    fitting = (
        run
        for run in runs
        if thread_id in (None, run.thread_id)
        and (status is None or run.status in statuses)
        and has_labels(run.labels, wanted)
        and asked.holds(moment_of(run.started_at))
    )
    page = asked.cut(fitting, _place, newest_first=False)
    return RunPage(runs=page.lines, cursor=page.cursor)


def children(store: BaseStore, run_id: str, *, thread_id: str | None = None) -> Steps[list[Run]]:
    """All runs that a run started, in one thread or in all, the one opened first first."""
    found: list[Run] = []
    cursor: str | None = None
    while True:
        page = yield from list_runs(
            store, thread_id=thread_id, parent_run_id=run_id, cursor=cursor, limit=MOST
        )
        found += page.runs
        cursor = page.cursor
        if cursor is None:
            return found


@lru_cache(maxsize=1_024)
def runs_namespace(thread_id: str) -> tuple[str, ...]:
    """The store's namespace of a thread's runs."""
    return thread_namespace(RUNS[1], thread_id)


def run_of(item: Item) -> Run | None:
    """A run from the store; `None` for what is no line of ours.

    Fields that a newer unsay wrote are left out.
    """
    known = {name: value for name, value in item.value.items() if name in _FIELDS}
    try:
        waits = known.get("suspension")
        if waits is not None:
            known["suspension"] = Suspension(**{**waits, "body": json.loads(waits["body"])})
        run = Run(run_id=item.key, **known)
        at_home = tuple(item.namespace) == runs_namespace(run.thread_id)
        moment_of(run.started_at)
        sound = are_labels(run.labels) and isinstance(run.attempt, int)
        return run if at_home and sound and run.phase in PHASES[run.status] else None
    except (KeyError, TypeError, ValueError):
        return None


_FIELDS = frozenset(each.name for each in fields(Run)) - {"run_id"}


def _place(run: Run) -> tuple[datetime, str, str]:
    return moment_of(run.started_at), run.thread_id, run.run_id
