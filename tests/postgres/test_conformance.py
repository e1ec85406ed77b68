"""The same exams for the checkpointer that Postgres is used with."""

from collections.abc import Iterator

import pytest

from tests.storage.test_saver_conformance import (  # noqa: F401 - pytest finds them here
    chain,
    test_a_plain_value_of_earlier_days_is_a_seed,
    test_both_forms_tell_the_same,
    test_each_channel_is_walked_by_itself,
    test_no_channel_asked_for_is_none_given,
    test_the_conformance_exam,
    test_the_nearest_whole_value_is_the_seed,
    test_without_a_whole_value_there_is_no_seed,
    test_writes_come_oldest_first,
    test_writes_on_the_seed_itself_are_replayed,
    test_writes_side_by_side_have_an_order,
    test_writes_that_are_pending_are_left_out,
)
from unsay.storage.base import Database
from unsay.storage.sqlite import open_database

pytestmark = pytest.mark.full


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    """A Postgres database of unsay."""
    postgres_database = open_database(url)
    yield postgres_database
    postgres_database.close()
