"""An event log for builders."""

from datetime import datetime
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from tests.events.events_kit import SAMPLES, STAMP, as_stored, events_of
from unsay.errors import EventConflictError, TranscriptError
from unsay.events import EventBuilder
from unsay.events.event_types import make_event, planner_note
from unsay.events.transcript_replay import replay
from unsay.messages.content import text_of
from unsay.types import Event


def event_log(**options: Any) -> EventBuilder:
    """An event log whose clock and ids are counted."""
    ticks = count(1)
    names = count(1)
    return EventBuilder(
        thread_id="t",
        now=lambda: f"2026-01-01T00:00:{next(ticks):02}+00:00",
        new_id=lambda: f"m{next(names)}",
        **options,
    )


def test_a_builder_needs_no_arguments() -> None:
    """Thread, time and ids are its own by default, and differ from builder to builder."""
    builders = [EventBuilder(), EventBuilder()]
    events = [builder.user("hi") for builder in builders]

    assert [["hi"], ["hi"]] == [[m.content for m in builder.messages()] for builder in builders]
    assert 2 == len({event["thread_id"] for event in events} - {""})
    assert 2 == len({event["data"]["message_id"] for event in events})
    assert all(datetime.fromisoformat(event["at"]).tzinfo for event in events)


def search_events() -> EventBuilder:
    """The example of a search: thinking, text, two calls."""
    builder = event_log(run_id="r", turn_id="q", labels={"tenant": "a"})
    builder.user("How warm?")
    builder.tool_use("c1", "find", {"q": "sea"})
    builder.text("I look.")
    builder.thinking("Let me see.", "sig")
    builder.tool_use("c2", "add", {})
    return builder


def test_parts_in_any_order_become_the_sacred_one() -> None:
    """Thinking, text, calls, then results in the calls' order, then the next text."""
    builder = search_events()
    builder.results([{"id": "c2", "content": "2", "is_error": True}, {"id": "c1", "content": "1"}])
    builder.text("Done.")

    thinking = {"type": "thinking", "thinking": "Let me see.", "signature": "sig"}
    assert [
        HumanMessage("How warm?", id="m1"),
        AIMessage(
            [thinking, {"type": "text", "text": "I look."}],
            id="m2",
            tool_calls=[
                {"name": "find", "args": {"q": "sea"}, "id": "c1"},
                {"name": "add", "args": {}, "id": "c2"},
            ],
        ),
        ToolMessage("1", tool_call_id="c1", name="find", id="m4"),
        ToolMessage("2", tool_call_id="c2", name="add", id="m3", status="error"),
        AIMessage("Done.", id="m5"),
    ] == builder.messages()


def test_a_flush_ends_a_message() -> None:
    """Text after it is another message."""
    builder = event_log()
    builder.text("one")
    builder.flush()
    builder.text("two")
    builder.text("three")

    assert [1, 2] == [1 if isinstance(m.content, str) else 2 for m in builder.messages()]


def test_hidden_thinking_is_kept() -> None:
    """What a provider gave in place of its words goes back to it."""
    builder = event_log()
    builder.thinking("", redacted="abc")

    assert [{"type": "redacted_thinking", "data": "abc"}] == _blocks(builder)


def _blocks(builder: EventBuilder) -> Any:
    (message,) = builder.messages()
    return message.content


def test_a_note_is_in_the_events_and_in_no_message() -> None:
    """A remark does not tear a call from its result."""
    builder = search_events()
    before = builder.messages()
    builder.note("slow")
    builder.note("slow")

    assert before == builder.messages()
    assert 2 == sum(event["type"] == "planner_note" for event in builder.events)


def test_every_event_says_where_and_when() -> None:
    """Thread, run, turn and labels stand on each, and the time that was handed in."""
    origins = {
        (e["thread_id"], e["run_id"], e["turn_id"], *e["labels"]) for e in search_events().events
    }

    assert {("t", "r", "q", "tenant")} == origins
    assert [f"2026-01-01T00:00:0{n}+00:00" for n in range(1, 6)] == [
        event["at"] for event in search_events().events
    ]


def test_the_events_give_the_same_messages_in_another_event_log() -> None:
    """An event log continues where its events end, open calls included."""
    builder = search_events()
    second_log = event_log(events=builder.events)
    builder.results([{"id": "c1"}, {"id": "c2"}])

    assert builder.messages()[:2] == second_log.messages()
    assert 2 == len(second_log.results([{"id": "c1"}, {"id": "c2"}]))


WRONG: dict[str, list[dict[str, Any]]] = {
    "none": [],
    "unknown": [{"id": "c1"}, {"id": "c9"}],
    "no id": [{"content": "4"}],
    "twice at once": [{"id": "c1"}, {"id": "c1"}],
}


@pytest.mark.parametrize("results", WRONG.values(), ids=WRONG)
def test_results_must_fit_the_open_calls(results: list[dict[str, Any]]) -> None:
    """Results that answer no open call are refused, all of them."""
    builder = search_events()
    before = builder.events

    with pytest.raises(TranscriptError, match="c1"):
        builder.results(results)
    assert before == builder.events


def test_refused_results_do_not_end_the_message() -> None:
    """What follows belongs to the same message, as before the call."""
    builder = event_log()
    builder.text("One.")
    with pytest.raises(TranscriptError):
        builder.results([{"id": "c9"}])
    builder.text(" Two.")

    assert ["One. Two."] == [text_of(message) for message in builder.messages()]


def test_a_call_is_answered_once() -> None:
    """A second result for a call is refused."""
    builder = search_events()
    builder.results([{"id": "c1"}])

    with pytest.raises(TranscriptError, match="c2"):
        builder.results([{"id": "c1"}])
    assert 1 == len(builder.results([{"id": "c2"}]))


@pytest.mark.parametrize(("call_id", "name"), [("", "add"), ("c9", ""), ("c1", "add")])
def test_a_call_needs_an_id_of_its_own_and_a_name(call_id: str, name: str) -> None:
    """Calls that could not be told apart are refused."""
    with pytest.raises(TranscriptError, match=repr(call_id)):
        search_events().tool_use(call_id, name, {})


def test_results_fit_calls_of_whole_messages() -> None:
    """Events that were taken from messages open and close calls like parts."""
    call = AIMessage("", id="a", tool_calls=[{"name": "add", "args": {}, "id": "c1"}])
    result = ToolMessage("4", tool_call_id="c1", id="r")
    open_book = event_log(events=events_of(call, stamp=STAMP))
    closed_log = event_log(events=[e for m in (call, result) for e in events_of(m, stamp=STAMP)])

    assert 1 == len(open_book.results([{"id": "c1"}]))
    with pytest.raises(TranscriptError, match="c1"):
        closed_log.results([{"id": "c1"}])


def test_the_same_event_twice_is_one() -> None:
    """A retry at another time adds nothing; another body with the id is refused."""
    builder = event_log()
    mine: Event = {**make_event(*planner_note("x"), stamp=STAMP), "id": "mine"}

    assert [True, False] == [builder.append(mine), builder.append({**mine, "at": "2030"})]
    assert [mine] == builder.events
    with pytest.raises(EventConflictError, match="mine"):
        builder.append({**mine, "data": {"text": "y"}})


@given(prefix=st.lists(st.sampled_from(SAMPLES), max_size=6), data=st.data())
def test_appending_any_prefix_twice_changes_nothing(prefix: list[Any], data: st.DataObject) -> None:
    """After any repetition, the events and messages stay."""
    messages = [m.model_copy(update={"id": f"m{n}"}) for n, m in enumerate(prefix)]
    events = [event for m in messages for event in events_of(m, stamp=STAMP)]
    size = data.draw(st.integers(0, len(events)))
    builder = event_log(events=[*events[:size], *events, *events[:size]])

    assert events == builder.events
    assert as_stored(messages) == as_stored(builder.messages())


STEPS = st.lists(
    st.sampled_from(["user", "text", "thinking", "tool", "result", "flush", "note"]), max_size=12
)


@given(steps=STEPS)
def test_nothing_that_a_builder_says_is_lost(steps: list[str]) -> None:
    """In any order of saying, every word, call and result is in the messages, once."""
    builder = event_log()
    texts = []
    open_calls = []
    for number, step in enumerate(steps):
        word = f"<{number}>"
        if step == "tool":
            builder.tool_use(word, "add", {})
            open_calls.append(word)
        elif step == "result" and open_calls:
            builder.results([{"id": open_calls.pop(), "content": word}])
        elif step in ("user", "text", "thinking"):
            getattr(builder, step)(word)
        elif step == "flush":
            builder.flush()
        else:
            builder.note("hm")
            continue
        if step != "flush":
            texts.append(word)
    messages = builder.messages()
    heard = repr([(m.content, getattr(m, "tool_calls", ())) for m in messages])

    assert [1] * len(texts) == [heard.count(word) for word in texts]
    assert messages == replay(builder.events).messages
    _check_order(messages)


def _check_order(messages: list[Any]) -> None:
    """A result follows its call with nothing but other results between."""
    declared_ids: set[str] = set()
    for message in messages:
        if message.type == "ai":
            declared_ids = {call["id"] for call in message.tool_calls}
        elif message.type == "tool":
            assert message.tool_call_id in declared_ids
        else:
            declared_ids = set()
