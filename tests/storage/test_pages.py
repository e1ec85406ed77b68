"""The pages that hold the oldest part of a long transcript."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from tests.events.events_kit import SAMPLES, as_stored, messages
from tests.history.log_kit import log_messages
from tests.transcripts import wild_transcripts
from unsay.effects import Steps, adrive, drive
from unsay.errors import DatabaseCorruptError
from unsay.messages.content import checksum_of
from unsay.storage.items import thread_namespace
from unsay.storage.segments import (
    PLACES,
    put_page,
    put_positions,
    read_back,
    read_holding,
    read_page,
)
from unsay.storage.segments import OffloadedSegment as Page
from unsay.storage.sqlite import open_database
from unsay.types import Offloaded, Segment, Topic

THREAD = "昨日 a/b.c"
PLACE = thread_namespace("offloaded", THREAD)
TOPIC = Topic(id="topic-1", label="猫", summary="told", summarized_through="m0", pages=["x"])


def run(steps: Steps[Any], *, loop: bool) -> Any:
    """Run a step in place or on an event loop."""
    return asyncio.run(adrive(steps)) if loop else drive(steps)


@pytest.fixture(params=["memory", "unsay"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseStore]:
    """Each store that can hold pages."""
    if request.param == "memory":
        yield InMemoryStore()
        return
    database = open_database(tmp_path / "t.db")
    yield database.store
    database.close()


def write_page(
    store: BaseStore, before: Offloaded | None, stretch: Sequence[AnyMessage], turns: int = 1
) -> Steps[Page]:
    """Write a stretch with a segment and a topic, and its messages as a line of the event log."""
    head, places = log_messages(store, THREAD, stretch)
    page = yield from put_page(
        store,
        THREAD,
        before,
        stretch,
        turns=turns,
        segments=[Segment(topic_id="topic-1", start=stretch[0].id or "")],
        topics=[TOPIC],
        instructions=["Be kind."],
    )
    ids = [message.id or "" for message in stretch]
    yield from put_positions(store, THREAD, {page.id: ids}, places, head)
    return replace(page, positions=places)


def questions_with_ids(*names: str) -> list[AnyMessage]:
    """A question with each id."""
    return [HumanMessage(f"words of {name}", id=name) for name in names]


def chain(store: BaseStore, *stretches: Sequence[str], turns: int = 1) -> list[Page]:
    """Pages with questions of these ids, each behind the one before."""
    pages: list[Page] = []
    for names in stretches:
        before = pages[-1].head if pages else None
        pages.append(drive(write_page(store, before, questions_with_ids(*names), turns)))
    return pages


@pytest.mark.parametrize("loop", [False, True], ids=["blocking", "awaiting"])
def test_a_page_is_read_as_it_was_written(store: BaseStore, loop: bool) -> None:  # noqa: FBT001
    """Everything of a stretch returns, in scripts and on an event loop."""
    stretch = [item.model_copy(update={"id": f"m{i}"}) for i, item in enumerate(SAMPLES)]
    older = run(write_page(store, None, stretch), loop=loop)
    page = run(write_page(store, older.head, questions_with_ids("next")), loop=loop)

    assert page == run(read_page(store, THREAD, page.id), loop=loop)
    restored_page = run(read_page(store, THREAD, older.id), loop=loop)
    assert as_stored(older.messages) == as_stored(restored_page.messages)
    # JSON may order the arguments of a call otherwise, and so change the checksum.
    heads = [{**item.head, "checksum": 0} for item in (older, restored_page)]
    assert (heads[0], older.segments, older.topics, older.instructions, None) == (
        heads[1],
        restored_page.segments,
        restored_page.topics,
        restored_page.instructions,
        restored_page.before,
    )


@given(st.lists(messages(), min_size=1, max_size=3) | wild_transcripts().filter(bool))
def test_messages_return_byte_for_byte(stretch: list[AnyMessage]) -> None:
    """No field of any message is other than it was."""
    store = InMemoryStore()
    stretch = [item.model_copy(update={"id": f"m{i}"}) for i, item in enumerate(stretch)]
    page = drive(write_page(store, None, stretch))
    restored_page = drive(read_page(store, THREAD, page.id))
    assert as_stored(stretch) == as_stored(restored_page.messages)
    assert [type(item) for item in stretch] == [type(message) for message in restored_page.messages]


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=5))
def test_a_head_tells_of_all_before_it(sizes: list[tuple[int, int]]) -> None:
    """The messages and turns of all pages are counted, and the last message is named."""
    store = InMemoryStore()
    before: Offloaded | None = None
    for number, (size, turns) in enumerate(sizes):
        stretch = questions_with_ids(*(f"{number}.{item}" for item in range(size)))
        before = drive(write_page(store, before, stretch, turns)).head
        assert stretch[-1].id == before["last"]
    assert before is not None
    assert sum(size for size, _ in sizes) == before["messages"]
    assert sum(turns for _, turns in sizes) == before["turns"]
    everything = [
        f"{number}.{item}" for number, (size, _) in enumerate(sizes) for item in range(size)
    ]
    assert checksum_of(questions_with_ids(*everything)) == before["checksum"]


def test_the_same_stretch_is_one_page() -> None:
    """A step that is run twice writes one page, and another place makes another."""
    store = InMemoryStore()
    page = chain(store, "ab")[0]
    second_page = chain(store, "ab")[0]
    assert page == second_page
    assert 2 == len(store.search(PLACE, limit=10)), "the page and its positions"

    next_head = drive(write_page(store, page.head, questions_with_ids("a", "b")))
    assert page.id != next_head.id


def test_a_head_without_instructions_does_not_speak_of_them() -> None:
    """The state holds no empty list for threads without system messages."""
    page = drive(
        put_page(
            InMemoryStore(),
            THREAD,
            None,
            questions_with_ids("a"),
            turns=0,
            segments=[],
            topics=[],
            instructions=[],
        )
    )
    assert "instructions" not in page.head


@pytest.mark.parametrize(
    ("ids", "turns", "page_count"),
    [
        pytest.param({"e"}, 0, 1, id="newest"),
        pytest.param({"c"}, 0, 2, id="all down to it"),
        pytest.param({"c", "f"}, 0, 2, id="several"),
        pytest.param({"a"}, 0, 3, id="oldest"),
        pytest.param({None}, 0, 3, id="the beginning"),
        pytest.param({None, "e"}, 0, 3, id="the beginning among others"),
        pytest.param(None, 0, 3, id="everything"),
        pytest.param({"nowhere"}, 0, 0, id="nowhere"),
        pytest.param({"e", "nowhere"}, 0, 1, id="in part"),
        pytest.param(set(), 0, 0, id="nothing"),
        pytest.param(set(), 1, 1, id="a turn"),
        pytest.param(set(), 2, 1, id="a page of turns"),
        pytest.param(set(), 3, 2, id="more turns"),
        pytest.param(set(), 99, 3, id="more turns than there are"),
        pytest.param({"c"}, 1, 2, id="a message farther than the turns"),
        pytest.param({"e"}, 4, 2, id="turns farther than the message"),
    ],
)
def test_no_more_is_read_back_than_it_takes(
    ids: set[str | None] | None, turns: int, page_count: int
) -> None:
    """The newest pages return, the newest first, down to the oldest that is wanted."""
    store = InMemoryStore()
    pages = chain(store, "ab", "cd", "ef", turns=2)
    pages_back = drive(read_back(store, THREAD, pages[-1].head, ids, turns=turns))
    assert [*reversed(pages)][:page_count] == pages_back


def test_only_the_segments_that_hold_a_message_are_read() -> None:
    """Those between them and the newest are left where they are."""
    store = InMemoryStore()
    pages = chain(store, "ab", "cd", "ef", "gh")
    found = drive(read_holding(store, THREAD, pages[-1].head, {"a", "f", "nowhere"}))
    assert [pages[2], pages[0]] == found
    assert [] == drive(read_holding(store, THREAD, None, {"a"}))


def test_a_record_that_is_whole_has_nothing_to_read_back() -> None:
    """Without an offloaded part there is no page."""
    assert [] == drive(read_back(InMemoryStore(), THREAD, None, None, turns=3))


def test_threads_do_not_meet(store: BaseStore) -> None:
    """A page is found in its own thread alone."""
    (page,) = chain(store, "ab")
    with pytest.raises(DatabaseCorruptError, match=page.id):
        drive(read_page(store, "another", page.id))


def _drop_key(value: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: item for name, item in value.items() if name != key}


@pytest.mark.parametrize("page_index", [0, 1], ids=["oldest", "newest"])
@pytest.mark.parametrize(
    ("suffix", "damage"),
    [
        pytest.param("", None, id="line lost"),
        pytest.param(PLACES, None, id="positions lost"),
        pytest.param("", lambda v: {**v, "turns": v["turns"] + 1}, id="turns"),
        pytest.param("", lambda v: {**v, "ids": ""}, id="ids"),
        pytest.param("", lambda v: {**v, "body": "0"}, id="body"),
        pytest.param("", lambda v: {**v, "before": {"page_id": "x", "turns": 0}}, id="chain"),
        pytest.param("", lambda v: _drop_key(v, "ids"), id="half a line"),
        pytest.param("", lambda v: {**v, "more": 1}, id="more than a line"),
        pytest.param(PLACES, lambda v: {**v, "positions": [[0, 1]]}, id="fewer positions"),
        pytest.param(PLACES, lambda v: {**v, "positions": [[1, 2], [0, 1]]}, id="other positions"),
        pytest.param(PLACES, lambda v: {**v, "positions": [[7, 9]]}, id="unknown positions"),
        pytest.param(PLACES, lambda v: {**v, "positions": None}, id="no positions"),
        pytest.param(PLACES, lambda _: {"other": 1}, id="other values"),
    ],
)
def test_damage_is_named(page_index: int, suffix: str, damage: Any) -> None:
    """A page that is missing or was changed is refused by its name."""
    store = InMemoryStore()
    pages = chain(store, "ab", "cd")
    key = f"{pages[page_index].id}{suffix}"
    item = store.get(PLACE, key)
    assert item is not None
    store.delete(PLACE, key)
    if damage is not None:
        store.put(PLACE, key, damage(item.value))
    with pytest.raises(DatabaseCorruptError, match=pages[page_index].id):
        drive(read_back(store, THREAD, pages[-1].head, None))


def test_what_is_newer_than_the_damage_is_read() -> None:
    """A damaged page is no hindrance to those behind it."""
    store = InMemoryStore()
    pages = chain(store, "ab", "cd", "ef")
    store.delete(PLACE, pages[0].id)
    assert [pages[2], pages[1]] == drive(read_back(store, THREAD, pages[-1].head, {"c"}))
