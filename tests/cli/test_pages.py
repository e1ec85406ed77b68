from typing import Any

import pytest

from unsay.cli.run import rows_of
from unsay.effects import Steps
from unsay.history.runs import RunPage
from unsay.storage.sqlite import open_database


def read_page(store: object, *, cursor: str | None, limit: int) -> Steps[Any]:
    """Numbers to 2,500 in the place of runs, at most `limit` at once."""
    del store
    first = 0 if cursor is None else int(cursor)
    end = min(first + limit, 2_500)
    rows: Any = tuple(range(first, end))
    yield from ()
    return RunPage(runs=rows, cursor=str(end) if end < 2_500 else None)


@pytest.mark.parametrize(
    ("limit", "cursor", "lines", "following"),
    [
        pytest.param(None, None, range(2_500), None, id="everything"),
        pytest.param(None, "10", range(10, 2_500), None, id="the rest"),
        pytest.param(3, None, range(3), "3", id="a page"),
        pytest.param(3, "2498", range(2_498, 2_500), None, id="the last page"),
    ],
)
def test_rows_of_pages(
    limit: int | None, cursor: str | None, lines: range, following: str | None
) -> None:
    """Without a limit a list is read to its end, however many pages it has."""
    database = open_database(":memory:")
    page = rows_of(database, read_page, "runs", {"limit": limit, "cursor": cursor})
    database.close()
    assert (tuple(lines), following) == (page.items, page.cursor)
