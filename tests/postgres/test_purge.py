"""A purge during a run, on Postgres: no row has a word of the conversation afterwards."""

import pytest

from tests.hosts.test_purge import WORD, purged_during_a_run
from tests.postgres.conftest import TABLES, Machine, name_of

pytestmark = pytest.mark.full


@pytest.mark.parametrize("runner", ["graph", "parent"])
def test_a_purge_during_a_run_leaves_no_word(machine: Machine, url: str, runner: str) -> None:
    """Bytes are shown as hexadecimal digits, so the word is searched in this form too."""
    purged_during_a_run(url, runner)

    reads = [f"SELECT t::text FROM {table} t" for table in TABLES.split(", ")]  # noqa: S608 - our own tables
    rows = [row[0] for query in reads for row in machine.sql(query, name=name_of(url))]
    assert [] == [row for row in rows if WORD in row or WORD.encode().hex() in row]
