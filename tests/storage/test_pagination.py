"""Lists that are read in pages."""

from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from unsay.effects import Steps, drive
from unsay.errors import InputError
from unsay.storage import pagination as paging
from unsay.storage.pagination import MOST, check_labels, moment_of, scan, window

PLACE = ("unsay", "things")


def window_of(**changes: Any) -> paging.Window:
    """What a caller asks for who asks for nothing special."""
    plain: dict[str, Any] = {"since": None, "until": None, "cursor": None, "limit": 50}
    return window("things", **{**plain, **changes})


@pytest.mark.parametrize("limit", [0, -1, MOST + 1, 1.5, True, "10", None], ids=repr)
def test_a_page_has_1_to_1000_rows(limit: Any) -> None:
    """Any other length is refused with both bounds."""
    with pytest.raises(InputError, match="from 1 to 1000"):
        window_of(limit=limit)


@pytest.mark.parametrize("name", ["since", "until"])
@pytest.mark.parametrize("text", ["2026-01-01T00:00:00", "2026-01-01", "soon", "", 5], ids=repr)
def test_a_bound_names_its_zone(name: str, text: Any) -> None:
    """A moment without a zone, or no moment, is refused with one that would do."""
    with pytest.raises(InputError, match=rf"{name}=.*2026-01-31T09:00:00\+09:00"):
        window_of(**{name: text})


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "?",
        "abc",
        5,
        "*WyJ0aGluZ3MiLCAiMjAyNi0wMS0wMVQwMDowMDowMFoiLCAiYSIsICJiIl0=",
        *(
            urlsafe_b64encode(item.encode()).decode()
            for item in (
                "5",
                "{}",
                "[]",
                '["things"]',
                '["other", "2026-01-01T00:00:00Z", "a", "b"]',
                '["things", "soon", "a", "b"]',
                '["things", "2026-01-01T00:00:00Z", "a"]',
                '["things", "2026-01-01T00:00:00Z", "a", 1]',
                '["things", 1, "a", "b"]',
                "[" * 100_000,
            )
        ),
    ],
    ids=lambda item: repr(item)[:30],
)
def test_a_cursor_of_another_hand_is_refused(cursor: Any) -> None:
    """What is no cursor of this list says where to get one."""
    with pytest.raises(InputError, match="none for the first page"):
        window_of(cursor=cursor)


def test_bounds_are_half_open_and_know_their_zones() -> None:
    """`since` is the first moment that counts, `until` the first that does not."""
    day = window_of(since="2026-01-01T09:00:00+09:00", until="2026-01-02T00:00:00Z")

    moments = ["2025-12-31T23:59:59.999Z", "2026-01-01T00:00:00Z", "2026-01-02T00:59:59+01:00"]
    assert [False, True, True] == [day.holds(moment_of(moment)) for moment in moments]
    assert not day.holds(moment_of("2026-01-02T00:00:00"))
    assert window_of().holds(moment_of("0001-01-01T00:00:00"))
    assert not window_of(since="0001-01-01T00:00:00-12:00").holds(
        moment_of("0001-01-01T00:00:00+14:00")
    )


@pytest.mark.parametrize(
    "labels",
    [[], "ab", {"": "a"}, {"a": 1}, {"a": None}, {1: "a"}, {"a": "\ud800"}, {"\udfff": "a"}],
    ids=repr,
)
def test_labels_are_text(labels: Any) -> None:
    """What a store could not keep is refused before it is there."""
    with pytest.raises(InputError, match="names and values as text"):
        check_labels(labels)


@given(
    times=st.lists(st.integers(0, 3), max_size=12),
    new_lines=st.lists(st.integers(0, 5), max_size=12),
    limit=st.integers(1, 5),
    newest_first=st.booleans(),
)
def test_pages_joined_are_the_list(
    times: list[int], new_lines: list[int], limit: int, *, newest_first: bool
) -> None:
    """While lines are added between pages, none comes twice and none that was there is skipped."""

    def position(line: tuple[int, int]) -> Any:
        return moment_of(f"2026-01-01T00:00:0{line[0]}+00:00"), f"{line[1]:03}", ""

    lines = [(time, number) for number, time in enumerate(times)]
    at_first = list(lines)
    line_numbers = iter(enumerate(new_lines, len(lines)))
    pages_seen: list[tuple[int, int]] = []
    cursor: str | None = None
    while True:
        page = window_of(cursor=cursor, limit=limit).page(
            lines, position, newest_first=newest_first
        )
        pages_seen += page.items
        cursor = page.cursor
        if cursor is None:
            break
        assert limit == len(page.items)
        if (new := next(line_numbers, None)) is not None:
            lines.append((new[1], new[0]))

    assert sorted(pages_seen, reverse=newest_first) == pages_seen
    assert len(set(pages_seen)) == len(pages_seen)
    assert set(at_first) <= set(pages_seen)


def keys(store: BaseStore, between: Callable[[int], None] = lambda _: None) -> list[str]:
    """The keys that a scan finds while something happens before each of its readings."""
    steps: Steps[list[str]] = scan(store, PLACE, lambda item: item.key)
    call = next(steps)
    reading = 0
    while True:
        between(reading)
        reading += 1
        try:
            call = steps.send(call.blocking())
        except StopIteration as stop:
            keys_found: list[str] = stop.value
            return keys_found


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 9, 10])
def test_a_scan_finds_everything_once(
    size: int, store: BaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many readings it takes."""
    monkeypatch.setattr(paging, "PAGE", 4)
    for number in range(size):
        store.put(PLACE, f"{number:02}", {})

    assert [f"{number:02}" for number in range(size)] == sorted(keys(store))


@pytest.mark.parametrize("deleted_key", [1, 4, 8, 12, 20], ids=str)
@pytest.mark.parametrize("moment", range(1, 9))
def test_a_deletion_during_a_scan_hides_nothing_else(
    deleted_key: int, moment: int, store: BaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What moves up into pages already read is found all the same."""
    monkeypatch.setattr(paging, "PAGE", 4)
    names = [f"{number:02}" for number in range(24)]
    for name in names:
        store.put(PLACE, name, {})

    def delete(reading: int) -> None:
        for name in names[:deleted_key] if reading == moment else ():
            store.delete(PLACE, name)

    assert set(names[deleted_key:]) <= set(keys(store, delete))


@pytest.mark.parametrize("number", range(12))
def test_a_write_during_a_scan_hides_nothing(
    number: int, store: BaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What moves to the front because it was written is found all the same."""
    monkeypatch.setattr(paging, "PAGE", 4)
    names = [f"{number:02}" for number in range(12)]
    for name in names:
        store.put(PLACE, name, {})
    if not isinstance(store, InMemoryStore):
        store.conn.execute("UPDATE store SET updated_at = '2020-01-01 00:00:00'")  # type: ignore[attr-defined]

    def write(reading: int) -> None:
        if reading == 1:
            store.put(PLACE, names[number], {"written": "again"})

    assert names == sorted(set(keys(store, write)))


def test_a_scan_asks_the_store_for_equal_fields(store: BaseStore) -> None:
    """Only items with these values are read."""
    for name, color in (("a", "red"), ("b", "blue"), ("c", "'; DROP TABLE store; --")):
        store.put(PLACE, name, {"color": color})

    keys_by_scan = [
        drive(scan(store, PLACE, lambda item: item.key, equal={"color": color}))
        for color in ("red", "'; DROP TABLE store; --", "$.color")
    ]
    assert [["a"], ["c"], []] == keys_by_scan
