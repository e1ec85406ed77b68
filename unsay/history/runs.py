"""The list of runs: one item in the store for each run."""

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from functools import lru_cache, partial
from typing import Literal

from langgraph.store.base import BaseStore, Item

from unsay.effects import Call, Steps
from unsay.errors import DatabaseCorruptError, InputError, RunConflictError, UnknownRunError
from unsay.history.run import PHASES, Run, Suspension, plain
from unsay.history.threads import find_session, refuse_ended
from unsay.storage.items import get_item, put_item, thread_namespace
from unsay.storage.pagination import (
    are_labels,
    check_labels,
    check_word,
    moment_of,
    page_text,
    scan,
    window,
)
from unsay.types import RunPhase, RunStatus

RUNS = ("unsay", "runs")

runs_namespace = lru_cache(maxsize=1_024)(partial(thread_namespace, RUNS[1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """One page of a list of runs, and the cursor of the next."""

    runs: tuple[Run, ...]
    cursor: str | None

    def __str__(self) -> str:
        return page_text(self.runs, self.cursor)


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
    """Store and return a new run, or return the run that already has this id.

    Raises:
        SessionEndedError: The thread was ended.
        RunConflictError: A run of another turn or parent has this id.
        InputError: An id is empty, the run is its own parent, or the status or a label is invalid.
    """
    if not thread_id or not run_id:
        raise InputError(
            f"thread_id={thread_id!r}, run_id={run_id!r}: both need 1 character or more"
        )
    if run_id == parent_run_id:
        raise InputError(f"Run {run_id!r} cannot be its own parent: give None or another run's id")
    if status not in ("pending", "running"):
        raise InputError(f"status={status!r} cannot be the first: use 'pending' or 'running'")
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
            f"not for {turn_id!r} under {parent_run_id!r}: give the new run a different id"
        )
    refuse_ended((yield from find_session(store, thread_id)))
    yield put_run(store, new)
    return new


def put_run(store: BaseStore, run: Run) -> Call:
    """Make a call that writes a run as plain JSON, without empty fields."""
    given = {name: getattr(run, name) for name in sorted(_FIELDS)}
    value = {name: each for name, each in given.items() if each is not None and each != {}}
    if run.suspension is not None:  # as ASCII text, since a store's JSON refuses some characters
        value["suspension"] = {**asdict(run.suspension), "body": plain(run.suspension.body)}
    return put_item(store, runs_namespace(run.thread_id), run.run_id, value)


def find_run(store: BaseStore, thread_id: str, run_id: str) -> Steps[Run | None]:
    """Return a run; `None` if it does not exist.

    Raises:
        DatabaseCorruptError: The item with this id is not a run.
    """
    item = yield get_item(store, runs_namespace(thread_id), run_id)
    if item is None:
        return None
    run = run_of(item)
    if run is None:
        raise DatabaseCorruptError(
            f"The item of run {run_id!r} of thread {thread_id!r} is not a run: give the new run "
            "another id, or restore a backup of the database"
        )
    return run


def get_run(store: BaseStore, thread_id: str, run_id: str) -> Steps[Run]:
    """Return a run.

    Raises:
        UnknownRunError: It does not exist.
        DatabaseCorruptError: The item with this id is not a run.
    """
    found = yield from find_run(store, thread_id, run_id)
    if found is None:
        raise UnknownRunError(
            f"Thread {thread_id!r} has no run {run_id!r}: list its runs to see their ids"
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
    """Return one page of runs, in the order in which they were opened.

    Every run that exists when the first page is read comes once, also while others write; newer runs
    come at the end.

    Args:
        store: The store of the threads.
        thread_id: `None` means all threads.
        status: One status, or several of which any matches; `None` means any.
        phase: `None` means any.
        labels: All of them must match.
        parent_run_id: Only runs that this run started; `None` means all.
        since: Earliest start of a run, included. ISO 8601 with a zone.
        until: Latest start of a run, excluded. ISO 8601 with a zone.
        cursor: The cursor of the page before; `None` for the first page.
        limit: 1 to 1,000.

    Raises:
        InputError: An argument is invalid.
    """
    # 20 microseconds for each run that is read. Filters in the store (one status, a phase, a parent)
    # are ten times as fast. Source: own measurement.
    asked = window("runs", labels=labels, since=since, until=until, cursor=cursor, limit=limit)
    statuses = {status} if isinstance(status, str) else set(status or ())
    for each in statuses:
        check_word("status", each, RunStatus)
    if phase is not None:
        check_word("phase", phase, RunPhase)
    equal: dict[str, str | None] = {"phase": phase, "parent_run_id": parent_run_id}
    if len(statuses) == 1:
        equal["status"] = next(iter(statuses))
    given = {name: value for name, value in equal.items() if value is not None}
    fitting = (
        run
        for run in (yield from _runs_with(store, thread_id, given))
        if (status is None or run.status in statuses)
        and asked.holds(moment_of(run.started_at), run.labels)
    )
    page = asked.page(fitting, _place, newest_first=False)
    return RunPage(runs=page.items, cursor=page.cursor)


def children(store: BaseStore, run_id: str, *, thread_id: str | None = None) -> Steps[list[Run]]:
    """Return all runs that a run started, in one thread or in all, oldest first."""
    found = yield from _runs_with(store, thread_id, {"parent_run_id": run_id})
    return sorted(found, key=_place)


def _runs_with(
    store: BaseStore, thread_id: str | None, equal: Mapping[str, str]
) -> Steps[list[Run]]:
    place = RUNS if thread_id is None else runs_namespace(thread_id)
    runs = yield from scan(store, place, run_of, equal=equal)
    return [run for run in runs if thread_id in (None, run.thread_id)]


def run_of(item: Item) -> Run | None:
    """Return the run in an item, without unknown fields; `None` if the item is not a run."""
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
