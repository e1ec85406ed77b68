"""What a step did, written ahead: the event log's end, and what a host changed."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from tests.events.events_kit import messages
from unsay.effects import drive
from unsay.events.transcript_replay import replay
from unsay.judging.topic_detector import LexicalDetector
from unsay.runtime import Scope, Services
from unsay.settings.settings import load_settings
from unsay.state import EventLogHead, State, Update, merge_messages, offloaded_of
from unsay.storage.event_log import read_events
from unsay.transcript.record import EMPTY, digest_of, edited_by_host, write_ahead
from unsay.types import Event, Offloaded

SEALED = Offloaded(page_id="sealed-x", last="older", messages=7, turns=3)


def scope(store: BaseStore | None) -> Scope:
    """A step of a thread."""
    services = Services(
        settings=load_settings({}),
        model_like=None,
        judge_like=None,
        summarizer_like=None,
        title_like=None,
        detector=LexicalDetector(),
        clock=lambda: datetime(2026, 1, 1, tzinfo=UTC),
    )
    return Scope(
        services=services,
        settings=services.settings,
        config={},
        store=store,
        thread_id="t",
        stream_writer=lambda _: None,
    )


def transcript(size: int, stem: str = "m") -> list[AnyMessage]:
    """Questions and answers in turn."""
    return [
        (HumanMessage if index % 2 == 0 else AIMessage)(f"words {index}", id=f"{stem}{index}")
        for index in range(size)
    ]


def stepped(state: State, update: Update, store: BaseStore) -> State:
    """The state after a step with this update."""
    written = drive(write_ahead(state, scope(store), update))
    after = merge_messages(state.get("messages", []), [written.get("messages", [])])
    return {**state, **written, "messages": after}


def told(state: State, store: BaseStore) -> Sequence[Event]:
    """All that the event log tells."""
    head = state["event_log"]
    return drive(read_events(store, "t", {"page_id": head["page_id"], "count": head["count"]}))


@given(st.lists(messages(), max_size=5), st.integers(0, 5))
def test_a_digest_is_that_of_its_parts(given_: list[AnyMessage], at: int) -> None:
    """What is added to a transcript is added to its digest: nothing is counted twice."""
    named = [each.model_copy(update={"id": f"m{n}"}) for n, each in enumerate(given_)]
    assert digest_of(named) == digest_of(named[at:], digest_of(named[:at]))


@pytest.mark.parametrize("size", [16, 65_536])
def test_a_digest_does_not_depend_on_how_many_there_are(size: int) -> None:
    """The packed list's header is left out, however long it is."""
    one = [HumanMessage("a", id="a")]
    assert digest_of(one * size) == digest_of(one, digest_of(one * (size - 1)))


@pytest.mark.parametrize(
    ("change", "edited"),
    [
        pytest.param(lambda known: known, False, id="nothing"),
        pytest.param(lambda known: [*known, *transcript(1, "new")], False, id="added"),
        pytest.param(lambda known: known[1:], True, id="first gone"),
        pytest.param(lambda known: known[:-1], True, id="last gone"),
        pytest.param(lambda known: known[::-1], True, id="moved"),
        pytest.param(lambda _: [], True, id="emptied"),
        pytest.param(
            lambda known: [known[0].model_copy(update={"content": "x"}), *known[1:]],
            True,
            id="other words",
        ),
        pytest.param(
            lambda known: [*known[:1], HumanMessage("words 1", id="m1"), *known[2:]],
            True,
            id="another role",
        ),
    ],
)
def test_a_hosts_change_is_seen(change: object, edited: bool) -> None:  # noqa: FBT001
    """A transcript with another beginning was changed; a longer one was not."""
    assert callable(change)
    state = stepped(State(), Update(messages=transcript(6)), InMemoryStore())
    assert edited == edited_by_host({**state, "messages": change(state["messages"])})


@given(st.integers(1, 40), st.data())
def test_a_record_of_which_a_stretch_is_left_was_not_emptied(
    size: int, data: st.DataObject
) -> None:
    """After a host removes messages in front and behind, the offloaded part stays."""
    state = stepped(State(), Update(messages=transcript(size)), InMemoryStore())
    behind = data.draw(st.integers(0, size - 1))
    left = data.draw(st.integers(min(behind + 1, size - behind), size - behind))
    stretch = state["messages"][size - behind - left : size - behind]
    assert offloaded_of({**state, "offloaded": SEALED, "messages": stretch}) is not None


def test_a_record_of_which_nothing_is_left_was_emptied() -> None:
    """New messages alone are a new transcript without an older part."""
    state: State = {
        **stepped(State(), Update(messages=transcript(9)), InMemoryStore()),
        "offloaded": SEALED,
    }
    assert offloaded_of({**state, "messages": []}) is None
    assert offloaded_of({**state, "messages": transcript(9, "new")}) is None


def test_what_was_emptied_stays_so() -> None:
    """A step that knows nothing of it does not bring the older part back."""
    store = InMemoryStore()
    state = stepped(State(), Update(messages=transcript(4)), store)
    emptied: State = {**state, "offloaded": SEALED, "messages": transcript(2, "new")}
    after = stepped(emptied, Update(messages=transcript(1, "answer")), store)
    assert after["offloaded"] is None
    assert after["messages"] == replay(told(after, store)).messages


def test_what_is_offloaded_stays_offloaded() -> None:
    """A step on a longer transcript changes nothing of its older part."""
    store = InMemoryStore()
    state = stepped(State(), Update(messages=transcript(4)), store)
    after = stepped({**state, "offloaded": SEALED}, Update(messages=transcript(1, "answer")), store)
    assert SEALED == after["offloaded"]


def test_the_ends_are_few() -> None:
    """The state does not name each message once more."""
    state = stepped(State(), Update(messages=transcript(400)), InMemoryStore())
    ends = state["event_log"]["ends"]
    assert {"m0", "m399", "m398", "m396"} <= {*ends}
    assert len(ends) == len({*ends}) == 10


def test_an_edit_is_after_what_is_offloaded() -> None:
    """The event log replaces what the state has, and keeps the rest of the transcript."""
    store = InMemoryStore()
    state = stepped(State(), Update(messages=transcript(8)), store)
    gone = [RemoveMessage(id=each.id or "") for each in transcript(4)]
    offloaded: Offloaded = {**SEALED, "last": "m3", "messages": 4}
    live = stepped(state, Update(messages=gone, offloaded=offloaded), store)
    assert 4 == live["event_log"]["length"]
    edited: State = {**live, "messages": live["messages"][1:]}
    after = stepped(edited, Update(messages=transcript(1, "new")), store)
    assert [*transcript(4), *transcript(8)[5:], *transcript(1, "new")] == replay(
        told(after, store)
    ).messages


def test_texts_that_the_event_log_has_are_not_added_twice() -> None:
    """What entered and was put back in the same step is in the event log already."""
    store = InMemoryStore()
    state = stepped(State(), Update(messages=transcript(4)), store)
    entered: State = {**state, "messages": [*state["messages"], *transcript(3, "new")]}
    run = scope(store)
    run.step_log.returned |= {"new0", "new2"}
    after = drive(write_ahead(entered, run, Update(messages=[])))
    assert EMPTY == after.get("event_log", EMPTY)
    head: EventLogHead = drive(write_ahead(entered, run, Update(messages=transcript(1, "answer"))))[
        "event_log"
    ]
    assert state["event_log"]["count"] + 2 == head["count"]
