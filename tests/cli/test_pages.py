import pytest

from unsay.cli.terminal import gathered
from unsay.storage.pagination import Slice


def read(cursor: str | None, limit: int) -> Slice[int]:
    """Numbers to 2,500, at most so many at once."""
    first = 0 if cursor is None else int(cursor)
    end = min(first + limit, 2_500)
    return Slice(items=tuple(range(first, end)), cursor=str(end) if end < 2_500 else None)


@pytest.mark.parametrize(
    ("limit", "cursor", "lines", "following"),
    [
        pytest.param(None, None, range(2_500), None, id="everything"),
        pytest.param(None, "10", range(10, 2_500), None, id="the rest"),
        pytest.param(3, None, range(3), "3", id="a page"),
        pytest.param(3, "2498", range(2_498, 2_500), None, id="the last page"),
    ],
)
def test_gathered(
    limit: int | None, cursor: str | None, lines: range, following: str | None
) -> None:
    """Without a limit a list is read to its end, however many pages it has."""
    found = gathered(read, limit=limit, cursor=cursor)
    assert (tuple(lines), following) == (found.items, found.cursor)
