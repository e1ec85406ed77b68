"""The event log's pages in a store."""

import asyncio
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

from tests.events.events_kit import SAMPLES, STAMP, as_stored, events_of
from unsay.effects import Call, Steps, adrive, drive
from unsay.errors import EventConflictError, EventLogGapError, InputError
from unsay.events.event_types import Stamp, distinct, make_event, planner_note
from unsay.events.transcript_replay import replay
from unsay.storage.event_log import (
    Appended,
    append,
    head_of,
    make_page,
    put_pages,
    read_events,
    select,
)
from unsay.storage.items import bytes_of, freeze, thaw, unpacked
from unsay.storage.pages import (
    EMPTY,
    PACK_PAGES,
    RECENT,
    Head,
    Page,
    event_chain,
    event_log_namespace,
    pack_key,
)
from unsay.storage.sqlite import open_database
from unsay.types import Event

THREAD = "昨日 a/b.c"


def note(text: str, **data: Any) -> Event:
    """A remark."""
    return make_event(*planner_note(text), stamp=Stamp(thread_id=THREAD, at="2026", **data))


def mine(name: str, text: str = "x", **data: Any) -> Event:
    """A remark with an id of the caller's own."""
    return {**note(text, **data), "id": name}


def chain(*sizes: int) -> list[Page]:
    """Pages with this number of events each."""
    head = EMPTY
    pages = []
    for number, size in enumerate(sizes):
        events = [note(f"{number}.{item}") for item in range(size)]
        pages.append(make_page(head, events))
        head = head_of(pages[-1])
    return pages


def pack_pages(store: BaseStore, head: Head) -> Steps[None]:
    """Pack the thread's chain behind an end, as a process that wrote none of its pages."""
    RECENT.clear()
    return event_chain(store, THREAD).pack(head)


def read_pages(store: BaseStore, thread_id: str, head: Head) -> Steps[list[Page]]:
    """The event log's pages, oldest first."""
    return (yield from event_chain(store, thread_id).read_all(head))


def events_in(pages: Sequence[Page]) -> list[Event]:
    """The events of some pages, in order."""
    return [event for page in pages for event in unpacked(page.body or b"")]


def one(call: Call) -> Steps[Any]:
    """A step of one call."""
    return (yield from call)


def run(steps: Steps[Any], *, loop: bool) -> Any:
    """Run a step in place or on an event loop."""
    return asyncio.run(adrive(steps)) if loop else drive(steps)


@pytest.fixture(params=["memory", "sqlite", "unsay"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseStore]:
    """Each store that can hold an event log."""
    if request.param == "memory":
        yield InMemoryStore()
    elif request.param == "sqlite":
        with SqliteStore.from_conn_string(str(tmp_path / "plain.db")) as plain:
            plain.setup()
            yield plain
    else:
        database = open_database(tmp_path / "t.db")
        yield database.store
        database.close()


BOTH = pytest.mark.parametrize("loop", [False, True], ids=["invoke", "ainvoke"])


@BOTH
def test_what_was_written_is_read(store: BaseStore, loop: bool) -> None:  # noqa: FBT001
    """Any message a transcript can hold comes back from the pages, blocking and awaited."""
    if loop and type(store) is SqliteStore:
        pytest.skip("LangGraph's own SqliteStore cannot be awaited")
    messages = [m.model_copy(update={"id": f"m{n}"}) for n, m in enumerate(SAMPLES)]
    head = EMPTY
    for message in messages:
        page = make_page(head, events_of(message, stamp=STAMP))
        run(one(put_pages(store, THREAD, [page])), loop=loop)
        head = head_of(page)
    events = run(read_events(store, THREAD, head), loop=loop)

    assert as_stored(messages) == as_stored(replay(events).messages)
    assert len(events) == head["count"]


def test_an_empty_event_log_has_no_pages(store: BaseStore) -> None:
    """Before anything happened there is nothing to read."""
    assert [] == drive(read_pages(store, THREAD, EMPTY))


def test_threads_do_not_meet(store: BaseStore) -> None:
    """Another thread's pages are not read, for any thread ids."""
    (page,) = chain(1)
    drive(one(put_pages(store, f"{THREAD}.x", [page])))

    assert event_log_namespace(THREAD) != event_log_namespace(f"{THREAD}.x")
    with pytest.raises(EventLogGapError, match=page.id):
        drive(read_pages(store, THREAD, head_of(page)))


def test_the_same_events_make_the_same_page() -> None:
    """A step that runs twice writes one page."""
    assert chain(2, 1) == chain(2, 1)
    assert chain(2)[0] != chain(1)[0]


def test_a_page_needs_an_event() -> None:
    """Nothing happened is no page."""
    with pytest.raises(InputError):
        make_page(EMPTY, [])


def test_a_page_that_was_never_committed_is_no_gap(store: BaseStore) -> None:
    """Leftovers of a crash are not reached from the head, and the log continues without them."""
    first, lost_page = chain(1, 1)
    other_page = make_page(head_of(first), [note("instead")])
    for page in (first, lost_page, other_page):
        drive(one(put_pages(store, THREAD, [page])))

    assert [first, other_page] == drive(read_pages(store, THREAD, head_of(other_page)))
    assert [first] == drive(read_pages(store, THREAD, head_of(first)))


def test_many_pages_take_few_round_trips() -> None:
    """A long event log is read in one search, not page by page."""
    store = InMemoryStore()
    pages = chain(*[1] * 300)
    for page in pages:
        drive(one(put_pages(store, THREAD, [page])))
    calls: list[Call] = []
    pages_read = drive(count_calls(read_pages(store, THREAD, head_of(pages[-1])), calls))

    assert (pages, 1) == (pages_read, len(calls))


class Blind(InMemoryStore):
    """A store whose search misses what was written meanwhile."""

    def search(self, *_: Any, **__: Any) -> list[Any]:
        """Nothing."""
        return []


def test_pages_that_a_search_misses_are_fetched() -> None:
    """A store that pages loosely costs round trips, and nothing is taken for missing."""
    store = Blind()
    pages = chain(1, 2, 1)
    for page in pages:
        drive(one(put_pages(store, THREAD, [page])))

    assert pages == drive(read_pages(store, THREAD, head_of(pages[-1])))


def count_calls(steps: Steps[Any], calls: list[Call]) -> Steps[Any]:
    """The same step, its calls noted."""
    result: Any = None
    while True:
        try:
            call = steps.send(result)
        except StopIteration as stop:
            return stop.value
        calls.append(call)
        result = yield from call


def flip_value(value: dict[str, Any], key: str, offset: int) -> dict[str, Any]:
    """A page's item with one thing changed."""
    old = value[key]
    if isinstance(old, int):
        return {**value, key: old + 1}
    if old is None:
        return {**value, key: "page-0"}
    position = offset % len(old)
    replacement = "A" if old[position] != "A" else "B"
    return {**value, key: f"{old[:position]}{replacement}{old[position + 1 :]}"}


def value_of(store: BaseStore, page: Page) -> dict[str, Any]:
    """What the store holds of a page."""
    item = store.get(event_log_namespace(THREAD), page.id)
    assert item is not None
    return item.value


def replace_page(store: BaseStore, page: Page, value: dict[str, Any]) -> None:
    """Put another value in the place of a page."""
    store.put(event_log_namespace(THREAD), page.id, value, index=False)


def says(text: str, body: bytes | None) -> bool:
    """Whether a text is read as these bytes."""
    try:
        return bytes_of(text) == body
    except (ValueError, zlib.error):
        return False


CHAINS = st.lists(st.integers(1, 3), min_size=1, max_size=5)


@given(sizes=CHAINS)
def test_a_whole_chain_is_accepted(sizes: list[int]) -> None:
    """Pages as they were made pass, and hold all events in order."""
    store = InMemoryStore()
    pages = write_log(store, *sizes)
    head = head_of(pages[-1])

    assert events_in(pages) == drive(read_events(store, THREAD, head))
    assert head["count"] == len(events_in(pages))


@given(
    sizes=CHAINS,
    page_index=st.integers(0, 4),
    key=st.sampled_from(["id", "before", "count", "body"]),
    offset=st.integers(0, 10**6),
)
def test_any_change_of_a_page_is_found(
    sizes: list[int], page_index: int, key: str, offset: int
) -> None:
    """One other character anywhere is noticed, but for bits of the text that say nothing."""
    store = InMemoryStore()
    pages = write_log(store, *sizes)
    page = pages[page_index % len(pages)]
    if key == "id":
        replacement = replace(page, id=flip_value({"id": page.id}, "id", offset)["id"])
        replace_page(store, replacement, value_of(store, page))
        store.delete(event_log_namespace(THREAD), page.id)
    else:
        value = flip_value(value_of(store, page), key, offset)
        assume(key != "body" or not says(value["body"], page.body))
        replace_page(store, page, value)

    with pytest.raises(EventLogGapError, match="Page "):
        drive(read_events(store, THREAD, head_of(pages[-1])))


@given(sizes=CHAINS, page_index=st.integers(0, 4), end=st.integers(0, 4))
def test_a_missing_or_misplaced_page_is_found(sizes: list[int], page_index: int, end: int) -> None:
    """A page that was dropped, exchanged, doubled, or cut off with all behind it is noticed."""
    store = InMemoryStore()
    pages = write_log(store, *sizes)
    head = head_of(pages[-1])
    page_index = page_index % len(pages)
    second_index = end % len(pages)

    values_by_id = {page.id: value_of(store, page) for page in pages}
    first_id = pages[page_index].id
    second_id = pages[second_index].id
    wrong = [
        {name: value for name, value in values_by_id.items() if name != first_id},
        {page.id: values_by_id[page.id] for page in pages[:page_index]},
    ]
    if page_index != second_index:
        wrong.append({**values_by_id, second_id: values_by_id[first_id]})
        wrong.append(
            {**values_by_id, second_id: values_by_id[first_id], first_id: values_by_id[second_id]}
        )

    for item in wrong:
        damaged_store = InMemoryStore()
        for name, value in item.items():
            damaged_store.put(event_log_namespace(THREAD), name, value)
        with pytest.raises(EventLogGapError, match="page-"):
            drive(read_events(damaged_store, THREAD, head))


def test_a_head_that_fits_no_page_is_found() -> None:
    """The count that was committed must be the count there is."""
    store = InMemoryStore()
    pages = write_log(store, 2, 1)
    head = head_of(pages[-1])
    wrong: list[Head] = [{**head, "count": 4}, {**head, "page_id": "page-0"}]

    for item in wrong:
        with pytest.raises(EventLogGapError, match="page-"):
            drive(read_events(store, THREAD, item))
    with pytest.raises(EventLogGapError):
        drive(read_events(store, THREAD, {**EMPTY, "count": 3}))


def test_a_page_that_counts_wrongly_is_found() -> None:
    """A page that says another place than its own does not pass, well made as it is."""
    store = InMemoryStore()
    first, second = write_log(store, 2, 1)
    page = make_page({**head_of(first), "count": 5}, events_in([second]))
    drive(one(put_pages(store, THREAD, [page])))

    with pytest.raises(EventLogGapError, match=page.id):
        drive(read_events(store, THREAD, head_of(page)))


DAMAGE: dict[str, Callable[[BaseStore, list[Page]], None]] = {
    "removed": lambda store, pages: store.delete(event_log_namespace(THREAD), pages[1].id),
    "flipped": lambda store, pages: replace_page(
        store, pages[1], flip_value(value_of(store, pages[1]), "body", 60)
    ),
    "exchanged": lambda store, pages: replace_page(store, pages[1], value_of(store, pages[0])),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damage_in_the_store_is_named(
    store: BaseStore, damage: Callable[[BaseStore, list[Page]], None]
) -> None:
    """The error says which page is missing or was changed."""
    pages = chain(2, 1, 3)
    for page in pages:
        drive(one(put_pages(store, THREAD, [page])))
    damage(store, pages)

    with pytest.raises(EventLogGapError, match=pages[1].id):
        drive(read_events(store, THREAD, head_of(pages[-1])))


def test_a_page_that_cannot_be_thawed_is_named() -> None:
    """Text that is no frozen value is damage, not a crash."""
    store = InMemoryStore()
    (page,) = write_log(store, 1)
    replace_page(store, page, {**value_of(store, page), "body": "AAAA"})

    with pytest.raises(EventLogGapError, match=page.id):
        drive(read_events(store, THREAD, head_of(page)))


def append_all(store: BaseStore, *events: Event) -> list[Appended]:
    """Each event appended, each on the head that the one before left."""
    head = EMPTY
    appends = []
    for event in events:
        appends.append(drive(append(store, THREAD, head, event)))
        head = appends[-1].head
    return appends


def test_an_event_is_appended_once(store: BaseStore) -> None:
    """The same event again, at any later time, changes nothing."""
    first = mine("e1")
    changed_event = {**mine("e1"), "at": "2030"}
    appends = append_all(store, first, mine("e2"), changed_event, mine("e2"))  # type: ignore[arg-type]

    assert [True, True, False, False] == [item.inserted for item in appends]
    assert appends[1].head == appends[3].head
    assert [first, mine("e2")] == drive(read_events(store, THREAD, appends[3].head))


@BOTH
def test_another_event_with_the_id_is_refused(store: BaseStore, loop: bool) -> None:  # noqa: FBT001
    """Same key, other body: an error, and the event log as it was."""
    if loop and type(store) is SqliteStore:
        pytest.skip("LangGraph's own SqliteStore cannot be awaited")
    head = run(append(store, THREAD, EMPTY, mine("e1")), loop=loop).head

    with pytest.raises(EventConflictError, match="e1"):
        run(append(store, THREAD, head, mine("e1", "y")), loop=loop)
    assert [mine("e1")] == run(read_events(store, THREAD, head), loop=loop)


def test_an_event_that_was_never_committed_is_appended_again(store: BaseStore) -> None:
    """A crash before the head was kept leaves nothing that would be in the way."""
    append_all(store, mine("e0"), mine("e1"))
    head = drive(append(store, THREAD, EMPTY, mine("e2"))).head
    second_append = drive(append(store, THREAD, head, mine("e1", "y")))

    assert second_append.inserted
    assert [mine("e2"), mine("e1", "y")] == drive(read_events(store, THREAD, second_append.head))


def test_an_event_of_an_older_page_is_known(store: BaseStore) -> None:
    """The id is found among pages that the graph wrote, too."""
    (appends,) = append_all(store, mine("e1"))
    page = make_page(appends.head, [note("by the graph")])
    drive(one(put_pages(store, THREAD, [page])))
    head = head_of(page)

    assert Appended(head=head, inserted=False) == drive(append(store, THREAD, head, mine("e1")))


@given(names=st.lists(st.sampled_from("abcd"), max_size=8))
def test_a_log_holds_every_id_once_in_the_order_of_arrival(names: list[str]) -> None:
    """However often each is sent, a log is its first arrivals."""
    appends = append_all(store := InMemoryStore(), *(mine(name) for name in names))
    log = drive(read_events(store, THREAD, appends[-1].head if appends else EMPTY))

    assert list(dict.fromkeys(names)) == [event["id"] for event in log]


LOG = distinct(
    make_event(
        "planner_note" if number % 3 else "compaction",
        {"number": number},
        stamp=Stamp(
            thread_id=THREAD,
            at="2026",
            run_id=f"r{number % 2}",
            labels={"tenant": "a"} if number % 4 else {"tenant": "a", "team": "b"},
        ),
    )
    for number in range(12)
)
FILTERS: dict[str, tuple[dict[str, Any], list[int]]] = {
    "all": ({}, list(range(12))),
    "a run": ({"run_id": "r1"}, [1, 3, 5, 7, 9, 11]),
    "types": ({"types": {"compaction"}}, [0, 3, 6, 9]),
    "labels": ({"labels": {"tenant": "a", "team": "b"}}, [0, 4, 8]),
    "all at once": ({"run_id": "r0", "types": {"compaction"}, "labels": {"team": "b"}}, [0]),
    "nothing": ({"run_id": "r9"}, []),
}


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
@pytest.mark.parametrize(("count_wanted", "numbers"), FILTERS.values(), ids=FILTERS)
def test_events_are_read_page_by_page(
    count_wanted: dict[str, Any], numbers: list[int], limit: int
) -> None:
    """Oldest first, none twice, none left out, and no cursor at the end."""
    event_pages: list[list[int]] = []
    cursor: str | None = None
    while not event_pages or cursor:
        page = select(LOG, limit=limit, cursor=cursor, **count_wanted)
        event_pages.append([event["data"]["number"] for event in page.items])
        cursor = page.cursor

    assert [numbers[n : n + limit] for n in range(0, len(numbers), limit)] or [[]] == event_pages
    assert numbers == [number for item in event_pages for number in item]


def test_a_cursor_stays_when_the_log_grows() -> None:
    """What was appended meanwhile comes after what was there."""
    cursor = select(LOG[:4], limit=2).cursor

    assert LOG[2:5] == list(select(LOG, limit=3, cursor=cursor).items)


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, None])
def test_a_page_has_a_length(limit: Any) -> None:
    """A limit is a positive number."""
    with pytest.raises(InputError, match="limit"):
        select(LOG, limit=limit)


@pytest.mark.parametrize(
    "cursor",
    ["", "x", "é", "WzAsIngiXQ==", "WzAs", "MQ==", "Wy0xLCJ4Il0=", "W1tb" * 10_000],
    ids=["empty", "x", "accent", "other", "cut", "number", "negative", "deeply-nested"],
)
def test_a_strange_cursor_is_refused(cursor: str) -> None:
    """A cursor of another event log, or none at all, is an error and not the beginning."""
    with pytest.raises(InputError, match="cursor"):
        select(LOG, limit=1, cursor=cursor)


def test_a_question_is_found_by_its_run() -> None:
    """Events of whole messages are selected like any other."""
    events = events_of(HumanMessage("hi", id="a"), stamp=STAMP)

    assert tuple(events) == select(events, limit=5, run_id="r1", types={"user_message"}).items


def write_log(store: BaseStore, *sizes: int) -> list[Page]:
    """An event log in the store, with small pages."""
    pages = chain(*sizes)
    for page in pages:
        drive(one(put_pages(store, THREAD, [page])))
    return pages


def keys(store: BaseStore) -> set[str]:
    """The names of the items that the event log has."""
    return {item.key for item in store.search(event_log_namespace(THREAD), limit=5_000)}


@BOTH
def test_pages_that_are_together_say_the_same(store: BaseStore, loop: bool) -> None:  # noqa: FBT001
    """Packing leaves one item, and the same pages, events and end of the event log."""
    if loop and type(store) is SqliteStore:
        pytest.skip("LangGraph's own SqliteStore cannot be awaited")
    pages = write_log(store, *[2] * 16)
    head = head_of(pages[-1])
    before = run(read_pages(store, THREAD, head), loop=loop)
    events = run(read_events(store, THREAD, head), loop=loop)
    run(pack_pages(store, head), loop=loop)

    assert {pack_key(0)} == keys(store)
    after = run(read_pages(store, THREAD, head), loop=loop)
    assert [head_of(item) for item in before] == [head_of(item) for item in after]
    assert events == run(read_events(store, THREAD, head), loop=loop)


def test_an_empty_log_has_nothing_to_pack(store: BaseStore) -> None:
    """Nothing is written for it."""
    drive(pack_pages(store, EMPTY))
    assert set() == keys(store)


def test_a_pack_is_bounded() -> None:
    """Events without messages all belong to one position, and packs of them are not written anew for ever."""
    store = InMemoryStore()
    head = EMPTY
    events = []
    for number in range(3 * PACK_PAGES):
        events.append(note(f"{number}"))
        page = make_page(head, events[-1:])
        drive(one(put_pages(store, THREAD, [page])))
        head = head_of(page)
        if number % 100 == 99:
            drive(pack_pages(store, head))
    assert events == drive(read_events(store, THREAD, head))
    assert {f"{pack_key(0)}.0", f"{pack_key(0)}.1", pack_key(0)} <= keys(store)
    drive(event_chain(store, THREAD).get(head_of(page)["page_id"] or "", 0))


@given(st.lists(st.integers(0, 40), min_size=1, max_size=5), st.integers(1, 3))
def test_packing_is_invisible(rounds: list[int], size: int) -> None:
    """However often an event log that grows is packed, it says the same from each of its ends."""
    store = InMemoryStore()
    head = EMPTY
    heads: list[Head] = [EMPTY]
    events_told: list[Event] = []
    for pages in rounds:
        for _ in range(pages):
            events = [note(f"{len(events_told)}.{number}") for number in range(size)]
            page = make_page(head, events)
            drive(one(put_pages(store, THREAD, [page])))
            head = head_of(page)
            events_told += events
            heads.append(head)
        drive(pack_pages(store, head))
    for item in {0, len(heads) // 3, len(heads) // 2, len(heads) - 1}:
        found_events = drive(read_events(store, THREAD, heads[item]))
        assert events_told[: item * size] == found_events
    assert len(keys(store)) <= 1


@pytest.mark.parametrize("calls", [0, 20, 22, 23], ids=["at once", "read", "put", "dropped"])
def test_a_crash_while_packing_loses_nothing(store: BaseStore, calls: int) -> None:
    """Between the two writes pages are in two places, with the same content."""
    pages = write_log(store, *[1] * 20)
    head = head_of(pages[-1])
    events = events_in(pages)
    result = None
    packing = pack_pages(store, head)
    for _ in range(calls):
        result = packing.send(result).blocking()
    packing.close()

    assert events == drive(read_events(store, THREAD, head))
    drive(pack_pages(store, head))
    assert events == drive(read_events(store, THREAD, head))
    page = make_page(head, [note("and on")])
    drive(one(put_pages(store, THREAD, [page])))
    assert [*events, note("and on")] == drive(read_events(store, THREAD, head_of(page)))


def test_a_host_goes_on_from_an_end_that_is_in_a_pack(store: BaseStore) -> None:
    """A line that left an older state has its pages packed as well, up to where they are already."""
    pages = write_log(store, *[1] * 20)
    drive(pack_pages(store, head_of(pages[-1])))
    head = head_of(pages[4])
    other_heads = []
    for number in range(20):
        page = make_page(head, [note(f"another {number}")])
        drive(one(put_pages(store, THREAD, [page])))
        head = head_of(page)
        other_heads.append(page)
        drive(pack_pages(store, head))
    assert events_in([*pages[:5], *other_heads]) == drive(read_events(store, THREAD, head))
    assert events_in(pages) == drive(read_events(store, THREAD, head_of(pages[-1])))
    assert len(keys(store)) < 10


def test_a_page_that_is_lost_does_not_stop_the_packing() -> None:
    """The conversation continues; a reader of the event log gets an error."""
    store = InMemoryStore()
    pages = write_log(store, *[1] * 40)
    store.delete(event_log_namespace(THREAD), pages[10].id)
    drive(pack_pages(store, head_of(pages[-1])))
    with pytest.raises(EventLogGapError, match=pages[10].id):
        drive(read_pages(store, THREAD, head_of(pages[-1])))


def test_changed_pages_are_not_put_together() -> None:
    """Nothing wrong is copied, and nothing is deleted."""
    store = InMemoryStore()
    pages = write_log(store, *[1] * 20)
    drive(one(put_pages(store, THREAD, [replace(pages[3], facts={**pages[3].facts, "count": 2})])))
    with pytest.raises(EventLogGapError, match=pages[3].id):
        drive(pack_pages(store, head_of(pages[-1])))
    assert {page.id for page in pages} == keys(store)


def _repack(change: Callable[[list[Any]], list[Any]]) -> Callable[[str], Any]:
    return lambda body: freeze(change(thaw(body)), dense=True)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda _: "", id="empty"),
        pytest.param(lambda _: 7, id="no text"),
        pytest.param(lambda body: body[: len(body) // 2], id="half"),
        pytest.param(lambda body: body[:40] + "AAAA" + body[44:], id="changed"),
        pytest.param(_repack(lambda pages: pages[1:]), id="first lost"),
        pytest.param(_repack(lambda pages: pages[:-1]), id="last lost"),
        pytest.param(_repack(lambda pages: [*pages[:5], *pages[6:]]), id="one lost"),
        pytest.param(_repack(lambda pages: [{**pages[0], "count": 9}, *pages[1:]]), id="count"),
        pytest.param(_repack(lambda pages: [{"id": "x"}, *pages[1:]]), id="half a page"),
        pytest.param(_repack(lambda pages: [{}, *pages[1:]]), id="no page"),
        pytest.param(_repack(lambda pages: ["page", *pages[1:]]), id="text"),
        pytest.param(_repack(lambda _: []), id="none"),
        pytest.param(lambda _: freeze(7), id="no list"),
    ],
)
def test_damage_of_pages_that_are_together_is_named(damage: Callable[[str], Any]) -> None:
    """After any damage of the item, the event log is refused and not shown in part."""
    store = InMemoryStore()
    pages = write_log(store, *[1] * 20)
    head = head_of(pages[-1])
    drive(pack_pages(store, head))
    item = store.get(event_log_namespace(THREAD), pack_key(0))
    assert item is not None
    store.put(item.namespace, item.key, {"pages": damage(item.value["pages"])})
    with pytest.raises(EventLogGapError, match="backup"):
        drive(read_pages(store, THREAD, head))


def test_an_event_of_a_page_in_a_pack_is_known(store: BaseStore) -> None:
    """An event is appended once, also where its page has been put together with others."""
    head = EMPTY
    for number in range(20):
        head = drive(append(store, THREAD, head, mine(f"e{number}"))).head
    drive(pack_pages(store, head))
    for name in ("e0", "e11", "e19"):
        assert Appended(head=head, inserted=False) == drive(append(store, THREAD, head, mine(name)))
        with pytest.raises(EventConflictError, match=name):
            drive(append(store, THREAD, head, mine(name, "other words")))
    append_result = drive(append(store, THREAD, head, mine("e20")))
    assert append_result.inserted
    assert [f"e{n}" for n in range(21)] == [
        event["id"] for event in drive(read_events(store, THREAD, append_result.head))
    ]


def message_page(head: Head, *names: str) -> Page:
    """A page with a question of each of these texts, whose ids are the same on every line."""
    messages = [HumanMessage(name, id=f"m{place}") for place, name in enumerate(names)]
    return make_page(head, [event for m in messages for event in events_of(m, stamp=STAMP)])


def words_at(store: BaseStore, head: Head, *positions: int) -> list[str]:
    """The texts at positions, as a process reads them that wrote none."""
    RECENT.clear()
    bodies = drive(event_chain(store, THREAD).read_bodies(head, positions))
    return [bodies[position]["data"]["content"] for position in positions]


@pytest.mark.parametrize("packed", list(product((False, True), repeat=2)))
def test_each_line_of_a_fork_has_its_own_words(store: BaseStore, packed: tuple[bool, bool]) -> None:
    """Positions behind the place where a host went back are read from the line of the given end."""
    first = message_page(EMPTY, "a")
    drive(one(put_pages(store, THREAD, [first])))
    heads = []
    for line, is_packed in zip(("one", "two"), packed, strict=True):
        page = message_page(head_of(first), f"b {line}", f"c {line}")
        drive(one(put_pages(store, THREAD, [page])))
        heads.append(head_of(page, head_of(first)))
        if is_packed:
            drive(pack_pages(store, heads[-1]))
            heads[-1] = {**heads[-1], "loose": 0, "packed": heads[-1]["next"]}

    assert ["a", "b one", "c one"] == words_at(store, heads[0], 0, 1, 2)
    assert ["a", "b two", "c two"] == words_at(store, heads[1], 0, 1, 2)
