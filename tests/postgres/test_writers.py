"""Two, three and six processes on one thread of a Postgres server."""

from pathlib import Path

import pytest

from tests.postgres.places import Places
from tests.promises import test_two_writers
from tests.promises.test_two_writers import start  # noqa: F401 - a fixture

pytestmark = pytest.mark.full

AGAIN = (
    "test_every_turn_of_every_writer_lands",
    "test_a_turn_lands_whole_or_is_refused",
    "test_a_killed_writer_keeps_nobody_out",
    "test_what_a_killed_writer_asked_is_kept",
    "test_reading_waits_for_nobody",
)
"""What holds of a file and of a server alike. A writer that is stopped, not ended, keeps its leases
on a server: see `PostgresLeases`."""


@pytest.fixture
def tmp_path(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> Places:
    """The folder, its database on the server."""
    monkeypatch.setattr(test_two_writers, "CHILD", "tests.postgres.writer_child")
    return Places(tmp_path, url)


globals().update({f"{name}__on_postgres": getattr(test_two_writers, name) for name in AGAIN})
