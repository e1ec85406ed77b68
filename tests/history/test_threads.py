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


def moment(second: int) -> str:
    """A moment of the day that these tests take place on."""
    return f"2026-01-01T00:{second // 60:02}:{second % 60:02}.000+00:00"


@pytest.mark.parametrize("thread_id", ["t", "a.b", "a%b", "日本 語", "'; DROP TABLE store; --"])
async def test_a_session_has_one_life(thread_id: str, store: BaseStore, do: Do) -> None:
    """It begins once, comes back the same while active, ends once, and is read after that."""
    first_session = await do(begin(store, thread_id, now=moment(1), labels={"tenant": "甲"}))
    second_session = await do(begin(store, thread_id, now=moment(2), labels={"tenant": "other"}))
    session = await do(end(store, thread_id, now=moment(3)))
    twice = await do(end(store, thread_id, now=moment(4)))
    found_session = await do(get_session(store, thread_id))

    assert first_session == second_session
    assert (thread_id, "active", {"tenant": "甲"}, None) == (
        first_session.thread_id,
        first_session.status,
        first_session.labels,
        first_session.ended_at,
    )
    assert session == twice == found_session
    assert ("ended", moment(3), moment(1), {"tenant": "甲"}) == (
        found_session.status,
        found_session.ended_at,
        found_session.created_at,
        found_session.labels,
    )
    with pytest.raises(SessionEndedError, match="begin another thread"):
        await do(begin(store, thread_id, now=moment(5)))
    assert [found_session] == list_threads(store)


async def test_an_old_entry_is_a_session(store: BaseStore, do: Do) -> None:
    """A thread that was listed before there were sessions is active, and can end."""
    store.put(THREADS, "t", OLD_LINE)

    begun_session = await do(begin(store, "t", now=moment(1)))
    session = await do(end(store, "t", now=moment(2)))

    assert ("active", "before there were sessions", 2) == (
        begun_session.status,
        begun_session.title,
        begun_session.turns,
    )
    assert ("ended", OLD_LINE["created_at"]) == (session.status, session.created_at)


async def test_a_damaged_entry_is_replaced(store: BaseStore, do: Do) -> None:
    """A thread whose line cannot be read stays usable."""
    store.put(THREADS, "t", {**OLD_LINE, "labels": 5})

    assert await do(find_session(store, "t")) is None
    assert moment(1) == (await do(begin(store, "t", now=moment(1)))).created_at


async def test_what_a_newer_unsay_wrote_stays(store: BaseStore, do: Do) -> None:
    """Fields that this one does not know outlive a change."""
    store.put(THREADS, "t", {**OLD_LINE, "mood": "fine"})

    await do(revise(store, "t", now=moment(1), turns=3))

    item = store.get(THREADS, "t")
    assert item is not None
    assert ("fine", 3) == (item.value["mood"], item.value["turns"])


async def test_labels_are_set_and_taken_off(store: BaseStore, do: Do) -> None:
    """The others stay, also after the end, and the session does not count as spoken in."""
    session = await do(begin(store, "t", now=moment(1), labels={"a": "1", "b": "2"}))
    await do(label(store, "t", {"b": "3", "c": "4", "nothing": None}, now=moment(1)))
    await do(end(store, "t", now=moment(2)))
    session_with_labels = await do(label(store, "t", {"a": None}, now=moment(3)))

    assert {"b": "3", "c": "4"} == session_with_labels.labels
    assert ("ended", moment(2), moment(2)) == (
        session_with_labels.status,
        session_with_labels.ended_at,
        session_with_labels.updated_at,
    )
    assert session_with_labels == await do(get_session(store, "t"))
    assert {"a": "1", "b": "2"} == session.labels


async def test_nobody_is_made_up(store: BaseStore, do: Do) -> None:
    """What was never begun is not ended and loses no label, and nothing is stored."""
    label_steps = label(store, "t", {"a": None}, now=moment(1))
    for steps in (get_session(store, "t"), end(store, "t", now=moment(1)), label_steps):
        with pytest.raises(UnknownThreadError, match=r"'t': Registry.sessions\(\) lists"):
            await do(steps)
    with pytest.raises(InputError):
        await do(begin(store, "", now=moment(1)))
    with pytest.raises(InputError):
        await do(begin(store, "t", now=moment(1), labels={"": "x"}))
    assert await do(find_session(store, "t")) is None
    assert [] == list_threads(store)


@pytest.fixture
def store_of_sessions(store: BaseStore) -> BaseStore:
    """Ten sessions: every third ended, labeled by parity, begun one second apart."""
    for number in range(10):
        name = f"s{number}"
        labels = {"parity": "odd" if number % 2 else "even", "all": "yes"}
        drive(begin(store, name, now=moment(number), labels=labels))
        if number % 3 == 0:
            drive(end(store, name, now=moment(60)))
    store.put(THREADS, "foreign", {"no": "session"})
    return store


@pytest.mark.parametrize(
    ("search", "thread_ids"),
    [
        ({}, "9876543210"),
        ({"status": "active"}, "875421"),
        ({"status": "ended"}, "9630"),
        ({"labels": {"parity": "odd"}}, "97531"),
        ({"labels": {"parity": "odd", "all": "yes"}, "status": "ended"}, "93"),
        ({"labels": {"parity": "odd", "all": "no"}}, ""),
        ({"labels": {"none": "yes"}}, ""),
        ({"since": moment(7)}, "987"),
        ({"until": moment(2)}, "10"),
        ({"since": datetime.fromisoformat(moment(7))}, "987"),
        ({"since": "2026-01-01T09:00:03+09:00", "until": "2026-01-01T00:00:05Z"}, "43"),
    ],
    ids=str,
)
async def test_sessions_are_found(
    search: dict[str, Any], thread_ids: str, store_of_sessions: BaseStore, do: Do
) -> None:
    """By status, labels and time of beginning, all at once, the newest first."""
    page = await do(search_sessions(store_of_sessions, **search))

    assert (thread_ids, None) == ("".join(s.thread_id[1:] for s in page.sessions), page.cursor)


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


async def test_pages_fit_together_while_others_write(store_of_sessions: BaseStore, do: Do) -> None:
    """What begins, ends or is spoken in between two pages moves nothing."""
    first = await do(search_sessions(store_of_sessions, limit=4))
    await do(begin(store_of_sessions, "newer", now=moment(99)))
    await do(end(store_of_sessions, "s4", now=moment(100)))
    await do(revise(store_of_sessions, "s1", now=moment(101), turns=7))
    second = await do(search_sessions(store_of_sessions, limit=4, cursor=first.cursor))
    third = await do(search_sessions(store_of_sessions, limit=4, cursor=second.cursor))

    pages = (first, second, third)
    names = [[session.thread_id for session in page.sessions] for page in pages]
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
        drive(begin(store, f"s{number}", now=moment(time)))
    before = {thread.thread_id for thread in list_threads(store)}
    sessions: list[str] = []
    cursor: str | None = None
    while True:
        page = drive(search_sessions(store, cursor=cursor, limit=limit))
        sessions += [session.thread_id for session in page.sessions]
        cursor = page.cursor
        if cursor is None:
            break
        for number, time in writes:
            drive(revise(store, f"s{number}", now=moment(time), turns=1))

    assert len(set(sessions)) == len(sessions)
    assert before <= set(sessions)
