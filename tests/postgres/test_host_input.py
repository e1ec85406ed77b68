"""What a host may pass to the compiled graph, over Postgres: the tests of `tests/hosts`."""

from pathlib import Path

import pytest

from tests.hosts.test_input import (  # noqa: F401 - one is a fixture
    host,
    test_a_bad_write_of_an_older_version_is_left_out,
    test_a_host_may_pass_on_what_it_read,
    test_everything_else_is_refused_as_an_update,
    test_everything_else_is_refused_as_input,
    test_removals_work,
    test_what_add_messages_accepts_works,
)

pytestmark = pytest.mark.full


@pytest.fixture(params=["ours on postgres", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    """Our saver, and LangGraph's."""
    return str(request.param)


@pytest.fixture
def folder(tmp_path: Path, url: str) -> Path:
    """A folder that knows the way to the database."""
    (tmp_path / "url").write_text(url)
    return tmp_path
