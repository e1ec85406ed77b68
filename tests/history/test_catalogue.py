"""The list of threads."""

from pathlib import Path

import pytest
from langgraph.store.memory import InMemoryStore

from unsay.effects import Call, Steps, adrive, drive
from unsay.history.threads import ThreadInfo, entry_of, list_threads
from unsay.storage.base import THREADS
from unsay.storage.items import get_item, put_item
from unsay.storage.sqlite import open_database

VALUE = {
    "title": "京都 🍁",
    "turns": 2,
    "created_at": "2026-01-01T00:00:00+00:00",
    "updated_at": "2026-01-02T00:00:00+00:00",
}


def entry(thread_id: str) -> ThreadInfo:
    """What a thread with that value is listed as."""
    return ThreadInfo(
        thread_id=thread_id,
        title="京都 🍁",
        turns=2,
        created_at="2026-01-01T00:00:00+00:00",
        updated_at="2026-01-02T00:00:00+00:00",
    )


def steps(*calls: Call) -> Steps[object]:
    """A step that makes these calls and gives the last one's result."""
    result: object = None
    for call in calls:
        result = yield from call
    return result


@pytest.mark.parametrize(
    "thread_id",
    ["t", "t1", "t10", "a.b", "a_b", "a%b", "'; DROP TABLE store; --", "../../x", "日本 語", " "],
)
async def test_a_thread_is_listed_under_its_own_id(thread_id: str, tmp_path: Path) -> None:
    """For any id, an entry is stored, read and listed, blocking and awaited alike."""
    database = open_database(tmp_path / "t.db")
    store = database.store
    try:
        drive(steps(put_item(store, THREADS, "t1", {**VALUE, "turns": 9})))
        unlisted = drive(steps(get_item(store, THREADS, "unlisted")))
        blocking = drive(
            steps(put_item(store, THREADS, thread_id, VALUE), get_item(store, THREADS, thread_id))
        )
        put_again = put_item(store, THREADS, thread_id, VALUE)
        values = await adrive(steps(put_again, get_item(store, THREADS, thread_id)))
        threads = list_threads(store)
    finally:
        database.close()

    assert unlisted is None
    assert [entry(thread_id)] * 2 == [entry_of(item) for item in (blocking, values)]  # type: ignore[arg-type]
    assert {"t1", thread_id} == {thread.thread_id for thread in threads}
    assert len({"t1", thread_id}) == len(threads)


def test_the_thread_spoken_in_last_comes_first() -> None:
    """Many threads are all listed, by the time of their last turn."""
    store = InMemoryStore()
    days = [f"2026-01-01T00:{index // 60:02}:{index % 60:02}+00:00" for index in range(401)]
    for index in range(len(days)):
        position = (index * 7) % len(days)
        drive(
            steps(put_item(store, THREADS, f"t{position}", {**VALUE, "updated_at": days[position]}))
        )
    store.put((*THREADS[:1], "branches", "t"), "branch-1", {"other": "things"})

    threads = list_threads(store)

    assert days[::-1] == [thread.updated_at for thread in threads]
    assert [f"t{index}" for index in range(len(days))][::-1] == [
        thread.thread_id for thread in threads
    ]


def test_an_old_entry_is_an_active_session() -> None:
    """What a line lacks has its default, and what a newer unsay added is left out."""
    store = InMemoryStore()
    drive(steps(put_item(store, THREADS, "t", {**VALUE, "mood": "fine"})))

    assert [entry("t")] == list_threads(store)
    assert ("active", {}, None) == (entry("t").status, entry("t").labels, entry("t").ended_at)


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"title": "no times"},
        {**VALUE, "created_at": "yesterday"},
        {**VALUE, "created_at": None},
        {**VALUE, "updated_at": 1},
        {**VALUE, "turns": "two"},
        {**VALUE, "status": "asleep"},
        {**VALUE, "status": ["active"]},
        {**VALUE, "labels": ["a"]},
        {**VALUE, "labels": {"a": 1}},
    ],
    ids=str,
)
def test_a_foreign_or_damaged_entry_is_left_out(value: dict[str, object]) -> None:
    """Foreign and damaged lines hide themselves, and nothing else."""
    store = InMemoryStore()
    drive(steps(put_item(store, THREADS, "bad", value), put_item(store, THREADS, "t", VALUE)))
    store.put((*THREADS, "deeper"), "foreign", VALUE)

    assert ["t"] == [thread.thread_id for thread in list_threads(store)]


def test_an_empty_store_lists_nothing() -> None:
    """A new database has no threads."""
    assert [] == list_threads(InMemoryStore())
