"""Operations on sessions and runs, and what cases claim of a session."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, get_args

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.store.base import BaseStore

from tests.cases.seen import Case, Operation, Seen
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


def _at(second: int) -> str:
    return f"2026-01-01T00:{second // 60:02}:{second % 60:02}.000+00:00"


@contextmanager
def _opened(folder: Path) -> Iterator[Database]:
    with closing(open_database(folder / "case.db")) as database:
        yield database


def create_twice(case: Case, folder: Path) -> Seen:
    """A session begun twice."""
    given = case["given"]
    with _opened(folder) as database:
        sessions = [
            drive(begin(database.store, given["id"], now=_at(second), labels=given.get("labels")))
            for second in range(2)
        ]
    return Seen(value=sessions)


def create_after_end(case: Case, folder: Path) -> Seen:
    """A session begun again after its end; no run may start in it either."""
    name = case["given"]["id"]
    with _opened(folder) as database:
        drive(begin(database.store, name, now=_at(0)))
        drive(end(database.store, name, now=_at(1)))
        try:
            drive(open_run(database.store, name, "run", now=_at(2)))
        except UnsayError:
            return Seen(value=drive(begin(database.store, name, now=_at(3))))
    raise AssertionError("a run was opened in a session that was ended")


def purge_twice(case: Case, folder: Path) -> Seen:
    """Sessions with a run, a suspension and a checkpoint each, some of them purged twice."""
    given = case["given"]
    doomed = [given["purge"]] if isinstance(given["purge"], str) else given["purge"]
    with _opened(folder) as database:
        for name in given["sessions"]:
            _fill(database, name)
        for name in [*doomed, *doomed]:
            drive(purge_thread(database, name))
        left = {name: _left(database, name) for name in [*given["sessions"], *doomed]}
    return Seen(value=left)


def _fill(database: Database, name: str) -> None:
    drive(begin(database.store, name, now=_at(0)))
    drive(open_run(database.store, name, "run", now=_at(1)))
    drive(change_run(database.store, name, "run", partial(_suspended, "s", {"of": name})))
    config: Any = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
    database.saver.put(config, empty_checkpoint(), {}, {})


def _suspended(suspension_id: str, body: Any, run: Run) -> Run:
    return suspend(run, suspension_id, body, now=_at(2))


def _left(database: Database, name: str) -> list[bool]:
    config: Any = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
    return [
        drive(find_session(database.store, name)) is not None,
        bool(drive(list_runs(database.store, thread_id=name)).runs),
        database.saver.get_tuple(config) is not None,
    ]


def run_list(case: Case, folder: Path) -> Seen:
    """The ids of the runs that fit, in pages where the case sets their length."""
    asked = {FIELDS.get(name, name): value for name, value in case["params"].items()}
    if unknown := set(asked) - {*_KNOWN, "limit"}:
        raise NotBoundError(f"params {sorted(unknown)}")
    pages: list[list[str]] = []
    with _opened(folder) as database:
        for second, described in enumerate(case["given"]["runs"]):
            _make(database.store, described, second)
        cursor: str | None = None
        while not pages or cursor is not None:
            page = drive(list_runs(database.store, **asked, cursor=cursor))
            pages.append([run.run_id for run in page.runs])
            cursor = page.cursor
    return Seen(value=pages if "limit" in asked else [each for page in pages for each in page])


_KNOWN = {"thread_id", "status", "phase", "labels", "parent_run_id", "since", "until"}


def _make(store: BaseStore, described: Any, second: int) -> None:
    named = described if isinstance(described, dict) else dict(zip(_ORDER, described, strict=False))
    fields = {FIELDS.get(name, name): value for name, value in named.items()}
    thread, run = fields.pop("thread_id", SESSION), fields.pop("run_id")
    status, phase = fields.pop("status", "running"), fields.pop("phase", None)
    now = fields.pop("started_at", _at(second))
    first = "pending" if status == "pending" else "running"
    drive(open_run(store, thread, run, now=now, status=first, **fields))
    drive(change_run(store, thread, run, partial(advance, now=now, status=status, phase=phase)))


_ORDER = ("run_id", "status", "labels", "thread_id")


def status_values(case: Case, folder: Path) -> Seen:
    """Every status that a run can have."""
    del case, folder
    return Seen(value=list(get_args(RunStatus)))


def suspend_twice(case: Case, folder: Path) -> Seen:
    """One run suspended several times, and how each went."""
    went: list[str] = []
    with _opened(folder) as database:
        drive(open_run(database.store, SESSION, "run", now=_at(0)))
        for name, body in case["given"]["suspensions"]:
            steps = change_run(database.store, SESSION, "run", partial(_suspended, name, body))
            try:
                drive(steps)
            except RunConflictError:
                went.append("conflict")
            else:
                went.append("ok")
    return Seen(value=went)


SESSION_CLAIMS: dict[str, Callable[[Any, Case], bool]] = {
    "same_session": lambda sessions, claim: all(each == sessions[0] for each in sessions),
    "session_missing": lambda left, claim: not any(left[claim["id"]]),
    "session_present": lambda left, claim: all(left[claim["id"]]),
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
