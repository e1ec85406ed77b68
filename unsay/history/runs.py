"""The list of runs: one item in the store for each run."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from functools import lru_cache, partial
from typing import Any, Literal, TypedDict, Unpack

from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict
from langgraph.store.base import BaseStore, Item

from unsay.effects import Call, Steps
from unsay.errors import DatabaseCorruptError, InputError, RunConflictError, UnknownRunError
from unsay.history.threads import find_session, refuse_ended
from unsay.messages.content import preview
from unsay.storage import items, pagination
from unsay.types import Printed, RunPhase, RunStatus

MOST_KEPT = 8

requests_namespace = partial(items.thread_namespace, "requests")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRequest:
    """The last request of an attempt, and how the attempt ended; `keep_failed_request` makes it.

    `payload` is the body of the request to the provider, without its streaming options. For a
    failed call `error` is the class of its error, and there is neither an answer nor a score. For a
    rejected draft `error` is `None`.
    """

    run_id: str
    turn_id: str
    turn: int
    attempt: int
    at: str
    messages: Sequence[BaseMessage]
    payload: dict[str, Any]
    question: str
    answer: str
    score: float | None
    reason: str
    error: str | None


def keep_request(store: BaseStore, thread_id: str, request: FailedRequest) -> Steps[None]:
    """Store a failed request, and delete all but the newest `MOST_KEPT` of the thread.

    An older request of the same turn and attempt is replaced. `replay` reads these requests.
    Raises `InputError` if a part of the request cannot be stored.
    """
    namespace = requests_namespace(thread_id)
    key = f"{request.turn_id}-{request.attempt:03}"  # padded: keys of equal times sort by attempt
    value = {field.name: getattr(request, field.name) for field in fields(request)}
    request_body = {
        "messages": [message_to_dict(message) for message in value.pop("messages")],
        "payload": value.pop("payload"),
    }
    yield from items.put_item(
        store, namespace, key, {**value, "sent": items.freeze(request_body, dense=True)}
    )
    times = yield from pagination.read_items(
        store, namespace, lambda item: (item.value.get("at", ""), item.key)
    )
    # The new one is kept, even if the clock is behind.
    oldest = [old_key for _, old_key in sorted(times) if old_key != key][: 1 - MOST_KEPT]
    if oldest:
        yield from items.drop_items(store, namespace, oldest)


def list_requests(store: BaseStore, thread_id: str) -> Steps[list[FailedRequest]]:
    """Read the stored requests of failed attempts of a thread, oldest first.

    Raises `DatabaseCorruptError` if one is damaged.
    """

    def read(item: Item) -> FailedRequest:
        value = dict(item.value)
        with items.reading("A stored request"):
            request_body = items.thaw(value.pop("sent"))
            messages = messages_from_dict(request_body["messages"])
            return FailedRequest(**value, messages=messages, payload=request_body["payload"])

    requests = yield from pagination.read_items(store, requests_namespace(thread_id), read)
    return sorted(requests, key=lambda request: (request.at, request.attempt))


ERROR_CHARS = 2_000

# Possible next statuses; resuming a turn continues its failed or canceled run. Source: Goa-AI.
NEXT: Mapping[RunStatus, frozenset[RunStatus]] = {
    "pending": frozenset({"running"}),
    "running": frozenset({"completed", "failed", "canceled", "paused"}),
    "paused": frozenset({"running", "canceled", "failed"}),
    "completed": frozenset(),
    "failed": frozenset({"running"}),
    "canceled": frozenset({"running"}),
}
_AT_WORK: tuple[RunPhase, ...] = ("prompted", "planning", "executing_tools", "synthesizing")
# The phases of each status; the first is the default. Source: Goa-AI.
PHASES: Mapping[RunStatus, tuple[RunPhase, ...]] = {
    "pending": ("prompted",),
    "running": _AT_WORK,
    "paused": _AT_WORK,
    "completed": ("completed",),
    "failed": ("failed",),
    "canceled": ("canceled",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspension:
    """What a paused run waits for; `body` is JSON for the caller that resumes it."""

    suspension_id: str
    body: Any
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One invocation of the graph in a thread; times are ISO 8601, UTC.

    `turn_id` is the id of the question that it answers. `parent_run_id` is the run that started it,
    in any thread. `attempt` is 1, and one more each time the turn is resumed.
    """

    run_id: str
    thread_id: str
    turn_id: str | None = None
    parent_run_id: str | None = None
    status: RunStatus = "running"
    phase: RunPhase = "prompted"
    labels: Mapping[str, str] = field(default_factory=dict)
    started_at: str
    updated_at: str
    ended_at: str | None = None
    error: str | None = None
    suspension: Suspension | None = None
    attempt: int = 1

    def __str__(self) -> str:
        error = f"  {self.error}" if self.error else ""
        return f"{self.started_at}  {self.run_id}  {self.status}  {self.phase}{error}"


def advance(
    run: Run,
    *,
    now: str,
    status: RunStatus | None = None,
    phase: RunPhase | None = None,
    error: str | None = None,
) -> Run:
    """Return a copy of a run with a new status or phase; repeating the change has no effect.

    `None` keeps the status, and keeps the phase if the status has it, else takes a default. An
    earlier error is dropped. A failed or canceled run that goes on is another attempt.

    Raises:
        RunConflictError: The status cannot follow, or the phase is not one of the status.
        InputError: The status or phase is unknown, or an error is given although the status is
            neither `failed` nor `canceled`.
    """
    new_status = run.status if status is None else status
    pagination.check_word("status", new_status, RunStatus)
    if new_status != run.status and new_status not in NEXT[run.status]:
        raise RunConflictError(
            f"Run {run.run_id!r} is {run.status!r} and cannot become {new_status!r}: "
            f"{_choices(NEXT[run.status])}"
        )
    fitting = _fitting_phase(run, new_status, phase)
    if error is not None and new_status not in ("failed", "canceled"):
        raise InputError(f"error={error!r} needs status='failed' or 'canceled', got {new_status!r}")
    if (new_status, fitting) == (run.status, run.phase):
        return run
    if error is not None:  # a store's JSON cannot hold a lone surrogate
        error = preview(error.encode("utf-8", "replace").decode("utf-8"), ERROR_CHARS)
    is_retry = run.status in ("failed", "canceled")
    over = new_status in ("completed", "failed", "canceled")
    return replace(
        run,
        status=new_status,
        phase=fitting,
        updated_at=now,
        ended_at=now if over else None,
        error=error,
        suspension=run.suspension if new_status == "paused" else None,
        attempt=run.attempt + is_retry,
    )


def resume(run: Run, *, now: str) -> Run:
    """Return a copy of a run that continues, also of one that a crashed process left running.

    Its `attempt` is 1 more unless it was paused or pending. `RunConflictError` if completed.
    """
    if run.status != "running":
        return advance(run, now=now, status="running")
    return replace(run, attempt=run.attempt + 1, updated_at=now)


def suspend(run: Run, suspension_id: str, body: Any, *, now: str) -> Run:
    """Return a copy of a run, paused for `suspension_id`; repeating the suspension has no effect.

    Raises `RunConflictError` if the run waits for something else or is not running, `InputError` if
    the body is not JSON.
    """
    new = Suspension(suspension_id=suspension_id, body=json.loads(plain(body)), at=now)
    old = run.suspension
    if old is not None:
        if (old.suspension_id, plain(old.body)) == (suspension_id, plain(new.body)):
            return run
        raise RunConflictError(
            f"Run {run.run_id!r} already waits for {old.suspension_id!r}, not for {suspension_id!r}: "
            "resume the run first"
        )
    return replace(advance(run, now=now, status="paused"), suspension=new, updated_at=now)


def plain(value: Any) -> str:
    """Return a value as JSON text with sorted keys; `InputError` if it is not JSON."""
    try:
        return json.dumps(value, sort_keys=True, allow_nan=False)
    except (RecursionError, TypeError, ValueError) as error:
        raise InputError(
            f"{preview(repr(value))} cannot be stored ({error}): give JSON, that is text, numbers, "
            "true, false, null, lists, and dicts with text as keys"
        ) from error


def _fitting_phase(run: Run, status: RunStatus, phase: RunPhase | None) -> RunPhase:
    """Return the phase, for `None` the run's or a default; `RunConflictError` if it does not fit."""
    if phase is None:
        return run.phase if run.phase in PHASES[status] else PHASES[status][0]
    pagination.check_word("phase", phase, RunPhase)
    if phase not in PHASES[status]:
        raise RunConflictError(
            f"Run {run.run_id!r} is {run.status!r} and cannot be {status!r} in the phase {phase!r}: "
            f"{_choices(PHASES[status])}"
        )
    return phase


def _choices(words: Collection[str]) -> str:
    return f"use {' or '.join(map(repr, sorted(words)))}" if words else "start another run"


def run_named_after(thread_id: str | None, origin: str | None) -> str:
    """Return the id, a hash, of the run that `origin` starts: a question or a LangGraph checkpoint."""
    seed = f"{thread_id}\x00{origin}"
    return f"run-{items.digest_of(seed)[:16]}"


RUNS = ("unsay", "runs")

# Cached, since `run_of` needs it for every item of a list.
runs_namespace = lru_cache(maxsize=1_024)(partial(items.thread_namespace, "runs"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage(Printed):
    """One page of a list of runs; `cursor` is for the next page, `None` on the last."""

    runs: tuple[Run, ...]
    cursor: str | None

    def __str__(self) -> str:
        return pagination.page_text(self.runs, self.cursor)


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
    """Store and return a new run, or return the run that already has this id, as it is.

    Raises:
        RunConflictError: A run of another turn or parent has this id.
        SessionEndedError: The run is new, and the thread was ended.
        InputError: An id is empty, the run is its own parent, or the status or a label is wrong.
        DatabaseCorruptError: The item with this id is not a run, or the thread's is damaged.
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
        labels=pagination.check_labels(labels),
        started_at=now,
        updated_at=now,
    )
    existing = yield from find_run(store, thread_id, run_id)
    if existing is not None:
        if (existing.turn_id, existing.parent_run_id) == (turn_id, parent_run_id):
            return existing
        raise RunConflictError(
            f"Run {run_id!r} was opened for turn {existing.turn_id!r} under {existing.parent_run_id!r}, "
            f"not for {turn_id!r} under {parent_run_id!r}: give the new run a different id"
        )
    refuse_ended((yield from find_session(store, thread_id)))
    yield from put_run(store, new)
    return new


def put_run(store: BaseStore, run: Run) -> Call[None]:
    """Return a call that writes or replaces a run, as plain JSON without empty fields."""
    field_values = {name: getattr(run, name) for name in sorted(_FIELDS)}
    value = {name: item for name, item in field_values.items() if item is not None and item != {}}
    if run.suspension is not None:  # as ASCII text, since a store's JSON refuses some characters
        value["suspension"] = {**asdict(run.suspension), "body": plain(run.suspension.body)}
    return items.put_item(store, runs_namespace(run.thread_id), run.run_id, value)


def find_run(store: BaseStore, thread_id: str, run_id: str) -> Steps[Run | None]:
    """Return a run; `None` if it does not exist. `DatabaseCorruptError` if its item is no run."""
    item = yield from items.get_item(store, runs_namespace(thread_id), run_id)
    return checked_run(item, thread_id, run_id)


def checked_run(item: Item | None, thread_id: str, run_id: str) -> Run | None:
    """Return the run in an item; `None` without one, `DatabaseCorruptError` if it is not a run."""
    if item is None:
        return None
    if (run := run_of(item)) is not None:
        return run
    raise DatabaseCorruptError(
        f"The item of run {run_id!r} of thread {thread_id!r} is not a run: give the new run "
        "another id, or restore a backup of the database"
    )


def get_run(store: BaseStore, thread_id: str, run_id: str) -> Steps[Run]:
    """Return a run; raise `UnknownRunError` if it does not exist, and the error of `find_run`."""
    run = yield from find_run(store, thread_id, run_id)
    if run is None:
        raise UnknownRunError(
            f"Thread {thread_id!r} has no run {run_id!r}: list its runs to see their ids"
        )
    return run


_BOUNDS = ("labels", "since", "until", "cursor", "limit")


class RunFilters(TypedDict, total=False):
    """The filters of a list of runs, and the page that is wanted; `list_runs` explains them."""

    status: RunStatus | Collection[RunStatus] | None
    phase: RunPhase | None
    labels: Mapping[str, str] | None
    parent_run_id: str | None
    since: str | datetime | None
    until: str | datetime | None
    cursor: str | None
    limit: int


def list_runs(
    store: BaseStore, *, thread_id: str | None = None, **filters: Unpack[RunFilters]
) -> Steps[RunPage]:
    """Return one page of runs, in the order in which they were opened.

    Every run that exists when the first page is read comes once, also while others write; newer
    runs come at the end. Damaged items, and those that are not runs, are skipped.

    Args:
        store: The store of the threads.
        thread_id: `None` means all threads.
        **filters: `status`: one, or several of which any matches. `phase`. `labels`: all of them must
            match. `parent_run_id`: only runs that this run started. `since` (included) and `until`
            (excluded): when a run started, a `datetime` or ISO 8601, with a zone. `cursor`: that of the page before.
            `limit`: 1 to 1,000, by default 50. `None` sets no filter.

    Raises:
        InputError: An argument is invalid.
    """
    # 20 microseconds for each run that is read. Filters in the store (one status, a phase, a parent)
    # are ten times as fast. Source: own measurement.
    bounds: Any = {name: each for name, each in filters.items() if name in _BOUNDS}
    page_window = pagination.window("runs", **bounds)
    status, phase = filters.get("status"), filters.get("phase")
    statuses = {status} if isinstance(status, str) else set(status or ())
    for word in statuses:
        pagination.check_word("status", word, RunStatus)
    if phase is not None:
        pagination.check_word("phase", phase, RunPhase)
    equal: dict[str, str | None] = {"phase": phase, "parent_run_id": filters.get("parent_run_id")}
    if len(statuses) == 1:
        equal["status"] = next(iter(statuses))
    filters_in_store = {name: value for name, value in equal.items() if value is not None}
    matching = (
        run
        for run in (yield from _runs_with(store, thread_id, filters_in_store))
        if (status is None or run.status in statuses)
        and page_window.holds(pagination.moment_of(run.started_at), run.labels)
    )
    page = page_window.page(matching, _place, newest_first=False)
    return RunPage(runs=page.items, cursor=page.cursor)


def children(store: BaseStore, run_id: str, *, thread_id: str | None = None) -> Steps[list[Run]]:
    """Return all runs that a run started, in one thread or in all, oldest first; maybe none."""
    runs = yield from _runs_with(store, thread_id, {"parent_run_id": run_id})
    return sorted(runs, key=_place)


def _runs_with(
    store: BaseStore, thread_id: str | None, equal: Mapping[str, str]
) -> Steps[list[Run]]:
    """Read the runs of one thread or, for `None`, of all, that have these values, in any order."""
    place = RUNS if thread_id is None else runs_namespace(thread_id)
    runs = yield from pagination.scan(store, place, run_of, equal=equal)
    return [run for run in runs if thread_id in (None, run.thread_id)]


def run_of(item: Item) -> Run | None:
    """Return the run in an item, without unknown fields; `None` if the item is not a run."""
    field_values = {name: value for name, value in item.value.items() if name in _FIELDS}
    try:
        suspension = field_values.get("suspension")
        if suspension is not None:
            field_values["suspension"] = Suspension(
                **{**suspension, "body": json.loads(suspension["body"])}
            )
        run = Run(run_id=item.key, **field_values)
        in_own_namespace = tuple(item.namespace) == runs_namespace(run.thread_id)
        pagination.moment_of(run.started_at)
        is_valid = pagination.are_labels(run.labels) and isinstance(run.attempt, int)
        return run if in_own_namespace and is_valid and run.phase in PHASES[run.status] else None
    except (KeyError, TypeError, ValueError):
        return None


_FIELDS = frozenset(each.name for each in fields(Run)) - {"run_id"}


def _place(run: Run) -> tuple[datetime, str, str]:
    return pagination.moment_of(run.started_at), run.thread_id, run.run_id
