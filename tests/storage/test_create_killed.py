import random
import signal
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from shutil import copytree

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.sqlite import SqliteStore

from tests.children import run_child
from unsay.conversation.conversation import Conversation
from unsay.storage.base import APPLICATION_ID, LAYOUT_VERSION
from unsay.testing import ScriptedChat, ScriptedJudge

CHILD = "tests.storage.create_child"
NAME = "t.db"

Before = Callable[[sqlite3.Connection], None]


def tables(connection: sqlite3.Connection) -> None:
    """The checkpointer's tables, in a file of unsay."""
    SqliteSaver(connection).setup()
    connection.execute(f"PRAGMA user_version = {LAYOUT_VERSION}")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def with_migrations(count: int, *, versions: int | None = None) -> Before:
    """A store of an older LangGraph with some migrations, of which a killed process noted fewer."""

    def make(connection: sqlite3.Connection) -> None:
        tables(connection)
        store = SqliteStore(connection)
        store.MIGRATIONS = store.MIGRATIONS[:count]
        store.setup()
        if versions is not None:
            connection.execute("DELETE FROM store_migrations WHERE v >= ?", (versions,))

    return make


def without_task_path(connection: sqlite3.Connection) -> None:
    """The checkpointer of langgraph-checkpoint-sqlite before the column `task_path`."""
    tables(connection)
    connection.execute("ALTER TABLE writes DROP COLUMN task_path")


BEFORE: list[tuple[str, Before | None]] = [
    ("nothing", None),
    ("store 1", with_migrations(1)),
    ("store 2", with_migrations(2)),
    ("store 4", with_migrations(4)),
    ("half of 3", with_migrations(3, versions=2)),
    ("half of 4", with_migrations(4, versions=3)),
    ("no task_path", without_task_path),
]


@pytest.fixture(params=[pytest.param(make, id=name) for name, make in BEFORE])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with a file of an older LangGraph, or without a file."""
    prepared_folder = tmp_path / "before"
    prepared_folder.mkdir()
    if request.param is not None:
        with closing(sqlite3.connect(prepared_folder / NAME, isolation_level=None)) as connection:
            request.param(connection)
        (prepared_folder / NAME).chmod(0o600)
    return prepared_folder


def opens_and_answers(path: Path) -> None:
    """A database that opens, keeps a turn, and is whole."""
    model = ScriptedChat(default="A list is a row of values, in order.")
    with Conversation.open(path, thread="t", model=model, judge=ScriptedJudge()) as conversation:
        conversation.say("What is a list?")
    with closing(sqlite3.connect(path)) as connection:
        assert [("ok",)] == connection.execute("PRAGMA integrity_check").fetchall()
        versions = connection.execute("SELECT v FROM store_migrations ORDER BY v").fetchall()
        assert [(number,) for number in range(len(SqliteStore.MIGRATIONS))] == versions
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)


def copies(folder: Path) -> Iterator[Path]:
    """Fresh copies of a folder, without end."""
    number = 0
    while True:
        number += 1
        yield copytree(folder, folder.parent / str(number), "0") / NAME


def test_a_migration_that_a_killed_process_did_not_note_is_repaired(folder: Path) -> None:
    """Each older file opens, also one that LangGraph's own `setup` left half done."""
    opens_and_answers(folder / NAME)


@pytest.mark.full
def test_a_kill_before_any_statement_leaves_a_file_that_opens(folder: Path) -> None:
    """A process that creates or migrates a file may be killed before each SQL statement."""
    file_copies = copies(folder)
    child = run_child(CHILD, str(next(file_copies)), "0", "0")
    *statements, _ = child.stdout.splitlines()
    assert (0, True) == (child.returncode, len(statements) > 20), child.stderr

    for number in range(1, len(statements) + 1):
        path = next(file_copies)
        killed_child = run_child(CHILD, str(path), str(number), "0")

        assert -signal.SIGKILL == killed_child.returncode, killed_child.stderr
        try:
            opens_and_answers(path)
        except Exception as error:
            raise AssertionError(f"killed before {statements[number - 1]!r}") from error


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_a_kill_at_any_instant_leaves_a_file_that_opens(tmp_path: Path) -> None:
    """500 processes are killed at random instants while they create or migrate a file."""
    seed = random.randrange(2**32)  # noqa: S311 - not a secret
    chance = random.Random(seed)  # noqa: S311 - not a secret
    folders = []
    for name, make in BEFORE:
        folders.append(tmp_path / name / "before")
        folders[-1].mkdir(parents=True)
        if make is not None:
            with closing(sqlite3.connect(folders[-1] / NAME, isolation_level=None)) as connection:
                make(connection)
            (folders[-1] / NAME).chmod(0o600)
    copies_by_folder = [copies(folder) for folder in folders]
    runs = [run_child(CHILD, str(next(copies_by_folder[0])), "0", "0") for _ in range(5)]
    usual = sorted(float(run.stdout.splitlines()[-1]) for run in runs)[2]
    kill_count = 0

    while kill_count < 500:
        path = next(chance.choice(copies_by_folder))
        child = run_child(CHILD, str(path), "0", str(chance.uniform(1e-5, usual)))
        kill_count += child.returncode == -signal.SIGALRM
        try:
            opens_and_answers(path)
        except Exception as error:
            raise AssertionError(f"seed {seed}, {path}") from error
