"""One run of the graph as a value, and how its status changes."""

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from unsay.errors import InputError, RunConflictError
from unsay.messages.content import preview
from unsay.storage.pagination import check_word
from unsay.types import RunPhase, RunStatus

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
    """Return a run with a new status or phase; repeating the change has no effect.

    `None` keeps the status, and keeps the phase if it is one of the status.

    Raises:
        RunConflictError: The status cannot follow, or the phase is not one of the status.
        InputError: The status or phase is unknown, or an error is given for a status without one.
    """
    wanted = run.status if status is None else status
    check_word("status", wanted, RunStatus)
    if wanted != run.status and wanted not in NEXT[run.status]:
        raise RunConflictError(
            f"Run {run.run_id!r} is {run.status!r} and cannot become {wanted!r}: "
            f"{_choices(NEXT[run.status])}"
        )
    fitting = _fitting_phase(run, wanted, phase)
    if error is not None and wanted not in ("failed", "canceled"):
        raise InputError(f"error={error!r} needs status='failed' or 'canceled', got {wanted!r}")
    if (wanted, fitting) == (run.status, run.phase):
        return run
    if error is not None:  # a store's JSON cannot hold a lone surrogate
        error = preview(error.encode("utf-8", "replace").decode("utf-8"), ERROR_CHARS)
    again = run.status in ("failed", "canceled")
    over = wanted in ("completed", "failed", "canceled")
    return replace(
        run,
        status=wanted,
        phase=fitting,
        updated_at=now,
        ended_at=now if over else None,
        error=error,
        suspension=run.suspension if wanted == "paused" else None,
        attempt=run.attempt + again,
    )


def resume(run: Run, *, now: str) -> Run:
    """Return a run that continues, also one that a crashed process left running.

    This counts as another attempt unless the run was paused or pending.

    Raises:
        RunConflictError: The run is completed.
    """
    if run.status != "running":
        return advance(run, now=now, status="running")
    return replace(run, attempt=run.attempt + 1, updated_at=now)


def suspend(run: Run, suspension_id: str, body: Any, *, now: str) -> Run:
    """Return a paused run; repeating the same suspension has no effect.

    Raises:
        RunConflictError: The run waits for something else, or is not running.
        InputError: The body is not JSON.
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
    """Return a value as JSON text, the same text for equal values.

    Raises:
        InputError: The value is not JSON.
    """
    try:
        return json.dumps(value, sort_keys=True, allow_nan=False)
    except (RecursionError, TypeError, ValueError) as error:
        raise InputError(
            f"{preview(repr(value))} cannot be stored ({error}): give JSON, that is text, numbers, "
            "true, false, null, lists, and dicts with text as keys"
        ) from error


def _fitting_phase(run: Run, status: RunStatus, phase: RunPhase | None) -> RunPhase:
    if phase is None:
        return run.phase if run.phase in PHASES[status] else PHASES[status][0]
    check_word("phase", phase, RunPhase)
    if phase not in PHASES[status]:
        raise RunConflictError(
            f"Run {run.run_id!r} is {run.status!r} and cannot be {status!r} in the phase {phase!r}: "
            f"{_choices(PHASES[status])}"
        )
    return phase


def _choices(words: Collection[str]) -> str:
    return f"use {' or '.join(map(repr, sorted(words)))}" if words else "start another run"


def run_named_after(thread_id: str | None, origin: str | None) -> str:
    """Return the id of the run that a question or a LangGraph checkpoint (`origin`) started."""
    seed = f"{thread_id}\x00{origin}"
    return f"run-{hashlib.sha256(seed.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
