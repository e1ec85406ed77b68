"""Operations on sessions and runs, and what cases claim of a session."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, get_args

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.store.base import BaseStore

from tests.cases.observation import Case, Observation, Operation
from tests.cases.world import NotBoundError
from tests.history.run_kit import change_run
from unsay.effects import drive
from unsay.errors import RunConflictError, UnsayError
from unsay.history.runs import Run, advance, list_runs, open_run, suspend
from unsay.history.threads import begin, end, find_session, purge_thread
from unsay.storage.base import Database
from unsay.storage.sqlite import open_database
from unsay.types import RunStatus

SESSION = "session-1"
"""Where a case's runs are when it names no session."""

FIELDS = {
    "id": "run_id",
    "run": "run_id",
    "parent": "parent_run_id",
    "session": "thread_id",
    "session_id": "thread_id",
    "thread": "thread_id",
    "turn": "turn_id",
}
"""Our fields for the words that cases use."""


def _timestamp(second: int) -> str:
    return f"2026-01-01T00:{second // 60:02}:{second % 60:02}.000+00:00"


@contextmanager
def _open_database(folder: Path) -> Iterator[Database]:
    with closing(open_database(folder / "case.db")) as database:
        yield database


def create_twice(case: Case, folder: Path) -> Observation:
    """A session begun twice."""
    inputs = case["given"]
    with _open_database(folder) as database:
        sessions = [
            drive(
                begin(
                    database.store,
                    inputs["id"],
                    now=_timestamp(second),
                    labels=inputs.get("labels"),
                )
            )
            for second in range(2)
        ]
    return Observation(value=sessions)


def create_after_end(case: Case, folder: Path) -> Observation:
    """A session begun again after its end; no run may start in it either."""
    name = case["given"]["id"]
    with _open_database(folder) as database:
        drive(begin(database.store, name, now=_timestamp(0)))
        drive(end(database.store, name, now=_timestamp(1)))
        try:
            drive(open_run(database.store, name, "run", now=_timestamp(2)))
        except UnsayError:
            return Observation(value=drive(begin(database.store, name, now=_timestamp(3))))
    raise AssertionError("a run was opened in a session that was ended")


def purge_twice(case: Case, folder: Path) -> Observation:
    """Sessions with a run, a suspension and a checkpoint each, some of them purged twice."""
    inputs = case["given"]
    purged_ids = [inputs["purge"]] if isinstance(inputs["purge"], str) else inputs["purge"]
    with _open_database(folder) as database:
        for name in inputs["sessions"]:
            _fill(database, name)
        for name in [*purged_ids, *purged_ids]:
            drive(purge_thread(database, name))
        remains = {name: _remains(database, name) for name in [*inputs["sessions"], *purged_ids]}
    return Observation(value=remains)


def _fill(database: Database, name: str) -> None:
    drive(begin(database.store, name, now=_timestamp(0)))
    drive(open_run(database.store, name, "run", now=_timestamp(1)))
    drive(change_run(database.store, name, "run", partial(_suspend, "s", {"of": name})))
    config: Any = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
    database.saver.put(config, empty_checkpoint(), {}, {})


def _suspend(suspension_id: str, body: Any, run: Run) -> Run:
    return suspend(run, suspension_id, body, now=_timestamp(2))


def _remains(database: Database, name: str) -> list[bool]:
    config: Any = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
    return [
        drive(find_session(database.store, name)) is not None,
        bool(drive(list_runs(database.store, thread_id=name)).runs),
        database.saver.get_tuple(config) is not None,
    ]


def run_list(case: Case, folder: Path) -> Observation:
    """The ids of the runs that fit, in pages where the case sets their length."""
    filters = {FIELDS.get(name, name): value for name, value in case["params"].items()}
    if unknown := set(filters) - {*_KNOWN, "limit"}:
        raise NotBoundError(f"params {sorted(unknown)}")
    pages: list[list[str]] = []
    with _open_database(folder) as database:
        for second, spec in enumerate(case["given"]["runs"]):
            _make(database.store, spec, second)
        cursor: str | None = None
        while not pages or cursor is not None:
            page = drive(list_runs(database.store, **filters, cursor=cursor))
            pages.append([run.run_id for run in page.runs])
            cursor = page.cursor
    return Observation(
        value=pages if "limit" in filters else [run for page in pages for run in page]
    )


_KNOWN = {"thread_id", "status", "phase", "labels", "parent_run_id", "since", "until"}


def _make(store: BaseStore, spec: Any, second: int) -> None:
    values = spec if isinstance(spec, dict) else dict(zip(_ORDER, spec, strict=False))
    fields = {FIELDS.get(name, name): value for name, value in values.items()}
    thread = fields.pop("thread_id", SESSION)
    run = fields.pop("run_id")
    status = fields.pop("status", "running")
    phase = fields.pop("phase", None)
    moment = fields.pop("started_at", _timestamp(second))
    first = "pending" if status == "pending" else "running"
    drive(open_run(store, thread, run, now=moment, status=first, **fields))
    drive(change_run(store, thread, run, partial(advance, now=moment, status=status, phase=phase)))


_ORDER = ("run_id", "status", "labels", "thread_id")


def status_values(case: Case, folder: Path) -> Observation:
    """Every status that a run can have."""
    del case, folder
    return Observation(value=list(get_args(RunStatus)))


def suspend_twice(case: Case, folder: Path) -> Observation:
    """One run suspended several times, and how each went."""
    went: list[str] = []
    with _open_database(folder) as database:
        drive(open_run(database.store, SESSION, "run", now=_timestamp(0)))
        for name, body in case["given"]["suspensions"]:
            steps = change_run(database.store, SESSION, "run", partial(_suspend, name, body))
            try:
                drive(steps)
            except RunConflictError:
                went.append("conflict")
            else:
                went.append("ok")
    return Observation(value=went)


SESSION_CLAIMS: dict[str, Callable[[Any, Case], bool]] = {
    "same_session": lambda sessions, claim: all(session == sessions[0] for session in sessions),
    "session_missing": lambda remains, claim: not any(remains[claim["id"]]),
    "session_present": lambda remains, claim: all(remains[claim["id"]]),
}
"""What is claimed of an operation's value."""

OPERATIONS: dict[str, Operation] = {
    "session.create_twice": create_twice,
    "session.create_after_end": create_after_end,
    "session.purge_twice": purge_twice,
    "run.list": run_list,
    "run.status_values": status_values,
    "run.suspend_twice": suspend_twice,
}
