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
from unsay.transcript.record import EMPTY, digest_of, edited_since, write_ahead
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


def state_after(state: State, update: Update, store: BaseStore) -> State:
    """The state after a step with this update."""
    log_update = drive(write_ahead(state, scope(store), update))
    after = merge_messages(state.get("messages", []), [log_update.get("messages", [])])
    return {**state, **log_update, "messages": after}


def events_of_state(state: State, store: BaseStore) -> Sequence[Event]:
    """All that the event log tells."""
    head = state["event_log"]
    return drive(read_events(store, "t", head))


@given(st.lists(messages(), max_size=5), st.integers(0, 5))
def test_a_digest_is_that_of_its_parts(given_: list[AnyMessage], at: int) -> None:
    """What is added to a transcript is added to its digest: nothing is counted twice."""
    messages = [item.model_copy(update={"id": f"m{n}"}) for n, item in enumerate(given_)]
    assert digest_of(messages) == digest_of(messages[at:], digest_of(messages[:at]))


@pytest.mark.parametrize("size", [16, 65_536])
def test_a_digest_does_not_depend_on_how_many_there_are(size: int) -> None:
    """The packed list's header is left out, however long it is."""
    one = [HumanMessage("a", id="a")]
    assert digest_of(one * size) == digest_of(one, digest_of(one * (size - 1)))


@pytest.mark.parametrize(
    ("change", "edited_state"),
    [
        pytest.param(lambda state: state, False, id="nothing"),
        pytest.param(lambda state: [*state, *transcript(1, "new")], False, id="added"),
        pytest.param(lambda state: state[1:], True, id="first gone"),
        pytest.param(lambda state: state[:-1], True, id="last gone"),
        pytest.param(lambda state: state[::-1], True, id="moved"),
        pytest.param(lambda _: [], True, id="emptied"),
        pytest.param(
            lambda state: [state[0].model_copy(update={"content": "x"}), *state[1:]],
            True,
            id="other words",
        ),
        pytest.param(
            lambda state: [*state[:1], HumanMessage("words 1", id="m1"), *state[2:]],
            True,
            id="another role",
        ),
    ],
)
def test_a_hosts_change_is_seen(change: object, edited_state: bool) -> None:  # noqa: FBT001
    """A transcript with another beginning was changed; a longer one was not."""
    assert callable(change)
    state = state_after(State(), Update(messages=transcript(6)), InMemoryStore())
    assert edited_state == edited_since(state["event_log"], change(state["messages"]))


@given(st.integers(1, 40), st.data())
def test_a_record_of_which_a_stretch_is_left_was_not_emptied(
    size: int, data: st.DataObject
) -> None:
    """After a host removes messages in front and behind, the offloaded part stays."""
    state = state_after(State(), Update(messages=transcript(size)), InMemoryStore())
    offset = data.draw(st.integers(0, size - 1))
    size_left = data.draw(st.integers(min(offset + 1, size - offset), size - offset))
    stretch = state["messages"][size - offset - size_left : size - offset]
    assert offloaded_of({**state, "offloaded": SEALED, "messages": stretch}) is not None


def test_a_record_of_which_nothing_is_left_was_emptied() -> None:
    """New messages alone are a new transcript without an older part."""
    state: State = {
        **state_after(State(), Update(messages=transcript(9)), InMemoryStore()),
        "offloaded": SEALED,
    }
    assert offloaded_of({**state, "messages": []}) is None
    assert offloaded_of({**state, "messages": transcript(9, "new")}) is None


def test_what_was_emptied_stays_so() -> None:
    """A step that knows nothing of it does not bring the older part back."""
    store = InMemoryStore()
    state = state_after(State(), Update(messages=transcript(4)), store)
    later_state: State = {**state, "offloaded": SEALED, "messages": transcript(2, "new")}
    after = state_after(later_state, Update(messages=transcript(1, "answer")), store)
    assert after["offloaded"] is None
    assert after["messages"] == replay(events_of_state(after, store)).messages


def test_what_is_offloaded_stays_offloaded() -> None:
    """A step on a longer transcript changes nothing of its older part."""
    store = InMemoryStore()
    state = state_after(State(), Update(messages=transcript(4)), store)
    after = state_after(
        {**state, "offloaded": SEALED}, Update(messages=transcript(1, "answer")), store
    )
    assert SEALED == after["offloaded"]


def test_the_ends_are_few() -> None:
    """The state does not name each message once more."""
    state = state_after(State(), Update(messages=transcript(400)), InMemoryStore())
    ends = state["event_log"]["ends"]
    assert {"m0", "m399", "m398", "m396"} <= {*ends}
    assert len(ends) == len({*ends}) == 10


def test_an_edit_is_after_what_is_offloaded() -> None:
    """The event log replaces what the state has, and keeps the rest of the transcript."""
    store = InMemoryStore()
    state = state_after(State(), Update(messages=transcript(8)), store)
    messages = [RemoveMessage(id=message.id or "") for message in transcript(4)]
    head: Offloaded = {**SEALED, "last": "m3", "messages": 4}
    live = state_after(state, Update(messages=messages, offloaded=head), store)
    assert 4 == live["event_log"]["length"]
    edited_state: State = {**live, "messages": live["messages"][1:]}
    after = state_after(edited_state, Update(messages=transcript(1, "new")), store)
    assert [*transcript(4), *transcript(8)[5:], *transcript(1, "new")] == replay(
        events_of_state(after, store)
    ).messages


def test_texts_that_the_event_log_has_are_not_added_twice() -> None:
    """What entered and was put back in the same step is in the event log already."""
    store = InMemoryStore()
    state = state_after(State(), Update(messages=transcript(4)), store)
    options: State = {**state, "messages": [*state["messages"], *transcript(3, "new")]}
    run = scope(store)
    run.step_log.returned |= {"new0", "new2"}
    run.step_log.positions |= {"new0": 0, "new2": 2}
    after = drive(write_ahead(options, run, Update(messages=[])))
    assert EMPTY == after.get("event_log", EMPTY)
    head: EventLogHead = drive(write_ahead(options, run, Update(messages=transcript(1, "answer"))))[
        "event_log"
    ]
    assert state["event_log"]["count"] + 2 == head["count"]
