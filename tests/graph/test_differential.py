"""After any operation on several threads of one database, each equals a plain list."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis.stateful import run_state_machine_as_test

from tests.graph.machine import MACHINES, Differential
from tests.graph.scripted_parts import in_memory
from unsay.storage.base import Database
from unsay.storage.sqlite import open_database


class InMemory(Differential):
    """In memory, where nothing can be reopened but what holds it."""

    def __init__(self) -> None:
        self.memory = in_memory()
        super().__init__()

    def connect(self) -> Database:
        """See `Differential.connect`."""
        made: Database = replace(self.memory)
        return made

    def disconnect(self, database: Database) -> None:
        """See `Differential.disconnect`."""


class InFile(Differential):
    """In a SQLite file."""

    def __init__(self) -> None:
        self.folder = TemporaryDirectory()
        super().__init__()

    def connect(self) -> Database:
        """See `Differential.connect`."""
        return open_database(Path(self.folder.name) / "talk.db")

    def teardown(self) -> None:
        """See `Differential.teardown`."""
        try:
            super().teardown()
        finally:
            self.folder.cleanup()


def test_threads_in_memory_are_what_plain_lists_say() -> None:
    """Turns, rollbacks, forks, edits and steps back and forth give what they give on lists."""
    run_state_machine_as_test(InMemory, settings=MACHINES)  # type: ignore[no-untyped-call]


def test_threads_in_a_file_are_what_plain_lists_say() -> None:
    """The same holds on SQLite, for two processes and for a new process after each step."""
    run_state_machine_as_test(InFile, settings=MACHINES)  # type: ignore[no-untyped-call]
