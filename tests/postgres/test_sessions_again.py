"""The tests of sessions that were written for any store, made again on a Postgres server."""

from collections.abc import Iterator

import pytest
from langgraph.store.base import BaseStore

from tests.postgres.test_again import again, is_given
from tests.unit import test_sessions
from unsay.storage.sqlite import open_database

pytestmark = pytest.mark.full

globals().update(
    {name: each for name, each in again(test_sessions).items() if is_given(each, "store", "filled")}
)


@pytest.fixture
def store(url: str) -> Iterator[BaseStore]:
    """The server's store, empty."""
    database = open_database(url)
    yield database.store
    database.close()
