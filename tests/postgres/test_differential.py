"""After any operation on several threads of a Postgres server, each equals a plain list."""

from contextlib import ExitStack
from functools import partial

import pytest
from hypothesis.stateful import run_state_machine_as_test

from tests.graph.machine import MACHINES, Differential
from tests.postgres.conftest import Machine
from unsay.storage.base import Database
from unsay.storage.sqlite import open_database

pytestmark = pytest.mark.full


class OnPostgres(Differential):
    """In a database of the server's own."""

    def __init__(self, server: Machine) -> None:
        self.lent = ExitStack()
        self.url = self.lent.enter_context(server.database())
        super().__init__()

    def connect(self) -> Database:
        """See `Differential.connect`."""
        return open_database(self.url)

    def teardown(self) -> None:
        """See `Differential.teardown`."""
        try:
            super().teardown()
        finally:
            self.lent.close()


def test_threads_on_postgres_are_what_plain_lists_say(machine: Machine) -> None:
    """The same as in memory and in a file holds on a server, for two processes at once."""
    run_state_machine_as_test(partial(OnPostgres, machine), settings=MACHINES)  # type: ignore[no-untyped-call]
