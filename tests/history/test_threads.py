"""Sessions: threads that begin, are active, and may end."""

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from tests.conftest import Do
from unsay.effects import drive
from unsay.errors import InputError, SessionEndedError, UnknownThreadError
from unsay.history.threads import (
    begin,
    end,
    find_session,
    get_session,
    label,
    list_threads,
    revise,
    search_sessions,
)
from unsay.storage.base import THREADS

OLD_LINE = {
    "title": "before there were sessions",
    "turns": 2,
    "created_at": "2025-01-01T00:00:00.000+00:00",
    "updated_at": "2025-01-02T00:00:00.000+00:00",
}


def at(second: int) -> str:
    """A moment of the day that these tests take place on."""
    return f"2026-01-01T00:{second // 60:02}:{second % 60:02}.000+00:00"


@pytest.mark.parametrize("thread_id", ["t", "a.b", "a%b", "日本 語", "'; DROP TABLE store; --"])
async def test_a_session_has_one_life(thread_id: str, store: BaseStore, do: Do) -> None:
    """It begins once, comes back the same while active, ends once, and is read after that."""
    begun = await do(begin(store, thread_id, now=at(1), labels={"tenant": "甲"}))
    again = await do(begin(store, thread_id, now=at(2), labels={"tenant": "other"}))
    ended = await do(end(store, thread_id, now=at(3)))
    twice = await do(end(store, thread_id, now=at(4)))
    found = await do(get_session(store, thread_id))

    assert begun == again
    assert (thread_id, "active", {"tenant": "甲"}, None) == (
        begun.thread_id,
        begun.status,
        begun.labels,
        begun.ended_at,
    )
    assert ended == twice == found
    assert ("ended", at(3), at(1), {"tenant": "甲"}) == (
        found.status,
        found.ended_at,
        found.created_at,
        found.labels,
    )
    with pytest.raises(SessionEndedError, match="begin another thread"):
        await do(begin(store, thread_id, now=at(5)))
    assert [found] == list_threads(store)


async def test_an_old_entry_is_a_session(store: BaseStore, do: Do) -> None:
    """A thread that was listed before there were sessions is active, and can end."""
    store.put(THREADS, "t", OLD_LINE)

    begun = await do(begin(store, "t", now=at(1)))
    ended = await do(end(store, "t", now=at(2)))

    assert ("active", "before there were sessions", 2) == (begun.status, begun.title, begun.turns)
    assert ("ended", OLD_LINE["created_at"]) == (ended.status, ended.created_at)


async def test_a_damaged_entry_is_replaced(store: BaseStore, do: Do) -> None:
    """A thread whose line cannot be read stays usable."""
    store.put(THREADS, "t", {**OLD_LINE, "labels": 5})

    assert await do(find_session(store, "t")) is None
    assert at(1) == (await do(begin(store, "t", now=at(1)))).created_at


async def test_what_a_newer_unsay_wrote_stays(store: BaseStore, do: Do) -> None:
    """Fields that this one does not know outlive a change."""
    store.put(THREADS, "t", {**OLD_LINE, "mood": "fine"})

    await do(revise(store, "t", now=at(1), turns=3))

    item = store.get(THREADS, "t")
    assert item is not None
    assert ("fine", 3) == (item.value["mood"], item.value["turns"])


async def test_labels_are_set_and_taken_off(store: BaseStore, do: Do) -> None:
    """The others stay, also after the end, and the session does not count as spoken in."""
    begun = await do(begin(store, "t", now=at(1), labels={"a": "1", "b": "2"}))
    await do(label(store, "t", {"b": "3", "c": "4", "nothing": None}, now=at(1)))
    await do(end(store, "t", now=at(2)))
    labeled = await do(label(store, "t", {"a": None}, now=at(3)))

    assert {"b": "3", "c": "4"} == labeled.labels
    assert ("ended", at(2), at(2)) == (labeled.status, labeled.ended_at, labeled.updated_at)
    assert labeled == await do(get_session(store, "t"))
    assert {"a": "1", "b": "2"} == begun.labels


async def test_nobody_is_made_up(store: BaseStore, do: Do) -> None:
    """What was never begun is not ended and loses no label, and nothing is stored."""
    unlabeled = label(store, "t", {"a": None}, now=at(1))
    for steps in (get_session(store, "t"), end(store, "t", now=at(1)), unlabeled):
        with pytest.raises(UnknownThreadError, match=r"'t': Registry.sessions\(\) lists"):
            await do(steps)
    with pytest.raises(InputError):
        await do(begin(store, "", now=at(1)))
    with pytest.raises(InputError):
        await do(begin(store, "t", now=at(1), labels={"": "x"}))
    assert await do(find_session(store, "t")) is None
    assert [] == list_threads(store)


@pytest.fixture
def filled(store: BaseStore) -> BaseStore:
    """Ten sessions: every third ended, labeled by parity, begun one second apart."""
    for number in range(10):
        name = f"s{number}"
        labels = {"parity": "odd" if number % 2 else "even", "all": "yes"}
        drive(begin(store, name, now=at(number), labels=labels))
        if number % 3 == 0:
            drive(end(store, name, now=at(60)))
    store.put(THREADS, "foreign", {"no": "session"})
    return store


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        ({}, "9876543210"),
        ({"status": "active"}, "875421"),
        ({"status": "ended"}, "9630"),
        ({"labels": {"parity": "odd"}}, "97531"),
        ({"labels": {"parity": "odd", "all": "yes"}, "status": "ended"}, "93"),
        ({"labels": {"parity": "odd", "all": "no"}}, ""),
        ({"labels": {"none": "yes"}}, ""),
        ({"since": at(7)}, "987"),
        ({"until": at(2)}, "10"),
        ({"since": datetime.fromisoformat(at(7))}, "987"),
        ({"since": "2026-01-01T09:00:03+09:00", "until": "2026-01-01T00:00:05Z"}, "43"),
    ],
    ids=str,
)
async def test_sessions_are_found(
    search: dict[str, Any], expected: str, filled: BaseStore, do: Do
) -> None:
    """By status, labels and time of beginning, all at once, the newest first."""
    page = await do(search_sessions(filled, **search))

    assert (expected, None) == ("".join(s.thread_id[1:] for s in page.sessions), page.cursor)


@pytest.mark.parametrize(
    "search",
    [{"status": "asleep"}, {"limit": 0}, {"since": "today"}, {"cursor": "x"}, {"labels": {"a": 1}}],
    ids=str,
)
async def test_a_search_that_cannot_be_made_is_refused(
    search: dict[str, Any], store: BaseStore, do: Do
) -> None:
    """Nothing is read for it."""
    with pytest.raises(InputError, match=next(iter(search)).removesuffix("s")):
        await do(search_sessions(store, **search))


async def test_pages_fit_together_while_others_write(filled: BaseStore, do: Do) -> None:
    """What begins, ends or is spoken in between two pages moves nothing."""
    first = await do(search_sessions(filled, limit=4))
    await do(begin(filled, "newer", now=at(99)))
    await do(end(filled, "s4", now=at(100)))
    await do(revise(filled, "s1", now=at(101), turns=7))
    second = await do(search_sessions(filled, limit=4, cursor=first.cursor))
    third = await do(search_sessions(filled, limit=4, cursor=second.cursor))

    pages = (first, second, third)
    names = [[each.thread_id for each in page.sessions] for page in pages]
    assert [["s9", "s8", "s7", "s6"], ["s5", "s4", "s3", "s2"], ["s1", "s0"]] == names
    assert third.cursor is None


@given(
    times=st.lists(st.integers(0, 4), max_size=9),
    writes=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 9)), max_size=9),
    limit=st.integers(1, 4),
)
def test_pages_joined_are_the_sessions(
    times: list[int], writes: list[tuple[int, int]], limit: int
) -> None:
    """With any session begun or used meanwhile: nothing twice, nothing skipped."""
    store = InMemoryStore()
    for number, time in enumerate(times):
        drive(begin(store, f"s{number}", now=at(time)))
    before = {each.thread_id for each in list_threads(store)}
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = drive(search_sessions(store, cursor=cursor, limit=limit))
        seen += [each.thread_id for each in page.sessions]
        cursor = page.cursor
        if cursor is None:
            break
        for number, time in writes:
            drive(revise(store, f"s{number}", now=at(time), turns=1))

    assert len(set(seen)) == len(seen)
    assert before <= set(seen)
