"""Messages as events, and events as messages."""

from typing import Any

import pytest
from hypothesis import given
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from tests.events.events_kit import STAMP, VALUES, as_stored, events_of, messages
from unsay.errors import EventLogGapError
from unsay.events.event_types import (
    Stamp,
    body_of,
    canonical,
    checkpoint,
    compaction,
    distinct,
    edit,
    expand,
    fork,
    make_event,
    planner_note,
    recall,
    rollback,
    verdict,
)
from unsay.events.transcript_replay import replay
from unsay.messages.annotations import annotate, annotation_of
from unsay.state import merge_messages
from unsay.storage.items import freeze, thaw
from unsay.types import Checkpoint, Event, Topic

WORKER = annotate(
    AIMessage(
        [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "c1", "name": "find", "input": {"q": "x" * 50}},
        ],
        id="a",
        tool_calls=[
            {"name": "find", "args": {"q": "x" * 50}, "id": "c1"},
            {"name": "add", "args": {}, "id": "c2"},
        ],
        response_metadata={"finish_reason": "tool_calls"},
    ),
    outcome="passed",
    score=0.9,
)


def message_from(events: list[Event]) -> AnyMessage:
    """The one message that some events lead to."""
    (message,) = replay(events).messages
    return message


def kinds(events: list[Event]) -> list[str]:
    """The events' types."""
    return [event["type"] for event in events]


@given(message=messages())
def test_taking_apart_and_putting_together_is_the_identity(message: AnyMessage) -> None:
    """Every possible transcript comes back equal and, stored, byte for byte the same."""
    events = events_of(message, stamp=STAMP)
    second_message = message_from(events)

    assert as_stored([message]) == as_stored([second_message])
    assert type(message) is type(second_message)
    assert as_stored([message]) == as_stored([message_from(thaw(freeze(events)))])


@given(message=messages())
def test_a_message_made_again_is_equal(message: AnyMessage) -> None:
    """Every field has its value, where values can be compared at all."""
    second_message = message_from(events_of(message, stamp=STAMP))

    assert repr(message) == repr(second_message)


@given(message=messages())
def test_a_message_made_again_shares_nothing_with_its_events(message: AnyMessage) -> None:
    """A later change of the message does not change the event log."""
    events = events_of(message, stamp=STAMP)
    before = canonical(events)
    second_message = message_from(events)
    second_message.response_metadata["new"] = 1
    for block in second_message.content if isinstance(second_message.content, list) else []:
        if isinstance(block, dict):
            block["new"] = 1
    for call in getattr(second_message, "tool_calls", ()):
        call["args"]["new"] = 1

    assert before == canonical(events)


def test_an_answer_becomes_events_in_the_sacred_order() -> None:
    """Thinking comes first, then the message, its calls, and its verdict."""
    events = events_of(WORKER, stamp=STAMP)

    assert ["thinking", "assistant_message", "tool_call", "tool_call", "verdict"] == kinds(events)
    assert {"message_id": "a", "annotation": annotation_of(WORKER)} == events[-1]["data"]
    assert [("t", "r1", "q1")] * 5 == [(e["thread_id"], e["run_id"], e["turn_id"]) for e in events]


def test_nothing_stands_in_two_events() -> None:
    """A call's arguments are kept once, though an answer says them twice."""
    text = canonical(events_of(WORKER, stamp=STAMP))

    assert 1 == text.count("x" * 50)
    assert 1 == text.count("finish_reason")
    assert 1 == text.count("'outcome'")


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (HumanMessage("hi", id="a"), "user_message"),
        (SystemMessage("Be brief.", id="a"), "user_message"),
        (AIMessage("hi", id="a"), "assistant_message"),
        (ToolMessage("4", id="a", tool_call_id="c"), "tool_result"),
    ],
    ids=["user", "system", "assistant", "tool"],
)
def test_a_plain_message_is_one_event(message: AnyMessage, kind: str) -> None:
    """Each role has its type of event."""
    assert [kind] == kinds(events_of(message, stamp=STAMP))


def test_a_chunk_is_the_message_that_a_record_makes_of_it() -> None:
    """What was streamed is logged as what is kept."""
    chunk = AIMessageChunk(
        "hi",
        id="a",
        tool_call_chunks=[{"name": "add", "args": "{}", "id": "c", "index": 0}],
    )

    assert merge_messages([], [chunk]) == [message_from(events_of(chunk, stamp=STAMP))]


def test_an_annotation_without_a_verdict_stays_in_its_message() -> None:
    """A notice's note is no verdict event."""
    notice_message = annotate(AIMessage("hi", id="a"), kind="notice")

    assert ["assistant_message"] == kinds(events_of(notice_message, stamp=STAMP))


def test_ids_follow_from_what_happened_and_where() -> None:
    """Time and turn do not make another event; thread, page and words do."""
    events = events_of(WORKER, stamp=STAMP)
    stamp = Stamp(thread_id="t", at="2027", run_id="r2", turn_id="q2")
    elsewhere = [
        Stamp(thread_id="u", at="2026", turn_id="q1"),
        Stamp(thread_id="t", at="2026", turn_id="q1", after=5),
    ]

    assert [e["id"] for e in events] == [e["id"] for e in events_of(WORKER, stamp=stamp)]
    ids = [tuple(e["id"] for e in events_of(WORKER, stamp=item)) for item in [STAMP, *elsewhere]]
    assert 3 == len(set(ids))
    assert 15 == len({name for message_id in ids for name in message_id})


def test_the_same_thing_twice_is_two_events() -> None:
    """A repeated event has a new id, the same on every run."""
    once = make_event(*planner_note("again"), stamp=STAMP)
    twice = distinct([once, once, once])

    assert 3 == len({event["id"] for event in twice})
    assert once["id"] == twice[0]["id"]
    assert twice == distinct([once, once, once])
    assert [twice[1]["id"]] == [e["id"] for e in distinct([once], {once["id"]})]


def test_a_body_is_all_but_id_and_time() -> None:
    """A retry says the same at another time; another run or label says something else."""
    event = make_event(*planner_note("x"), stamp=STAMP)

    assert body_of(event) == body_of({**event, "id": "other", "at": "2030"})
    for key, value in (("run_id", "r2"), ("labels", {"a": "b"}), ("data", {"text": "y"})):
        assert body_of(event) != body_of({**event, key: value})  # type: ignore[misc]


@given(value=VALUES)
def test_a_body_is_the_same_after_the_store(value: Any) -> None:
    """What a store makes of a value does not make it another one."""
    assert canonical([value]) == canonical(thaw(freeze([value])))


@given(first_value=VALUES, right=VALUES)
def test_different_values_have_different_bodies(first_value: Any, right: Any) -> None:
    """Values that a checkpoint distinguishes stay distinct."""
    same = freeze([first_value]) == freeze([right])

    assert same == (canonical(first_value) == canonical(right))


MARK = Checkpoint(
    id="cp-1",
    name=None,
    message_id="a",
    turn=1,
    score=0.9,
    topic="",
    reason="score",
    created_at="2026",
)
FISH = Topic(id="t1", label="fish", summary="They swim.", summarized_through="b")
CUT = {"branch_id": "x", "kind": "person", "base": "a", "keep": [], "removed": ["b"], "drafts": []}
SHAPES = {
    "verdict": (
        make_event(*verdict("a", {"outcome": "passed"}), stamp=STAMP),
        {"message_id": "a", "annotation": {"outcome": "passed"}},
    ),
    "checkpoint": (make_event(*checkpoint(MARK), stamp=STAMP), {"checkpoint": MARK}),
    "rollback": (
        make_event(*rollback("x", "person", "a", removed=["b"], reason="back"), stamp=STAMP),
        {**CUT, "reason": "back"},
    ),
    "restore": (
        make_event(
            *rollback("x", "person", "a", restored=["y"], removed=["b"], reason="back"), stamp=STAMP
        ),
        {"branch_ids": ["y"], **CUT, "reason": "back"},
    ),
    "compaction": (
        make_event(*compaction(FISH), stamp=STAMP),
        {"topic_id": "t1", "label": "fish", "summary": "They swim.", "through": "b"},
    ),
    "expand": (make_event(*expand(FISH), stamp=STAMP), {"topic_id": "t1", "label": "fish"}),
    "recall": (make_event(*recall(["a"], "q"), stamp=STAMP), {"message_ids": ["a"], "for": "q"}),
    "planner_note": (make_event(*planner_note("hm"), stamp=STAMP), {"text": "hm"}),
    "edit": (make_event(*edit([]), stamp=STAMP), {"messages": []}),
    "fork": (
        make_event(*fork([], [MARK], source="s"), stamp=STAMP),
        {"source": "s", "at": None, "messages": [], "checkpoints": [MARK]},
    ),
}


@pytest.mark.parametrize(("kind", "example"), SHAPES.items(), ids=SHAPES)
def test_every_kind_has_its_shape(kind: str, example: tuple[Event, dict[str, Any]]) -> None:
    """What a reader finds in `data` is fixed by the type."""
    event, data = example

    assert (kind, data) == (event["type"], event["data"])


@pytest.mark.parametrize("missing", range(5), ids=kinds(events_of(WORKER, stamp=STAMP)))
def test_a_message_that_lacks_an_event_is_refused(missing: int) -> None:
    """No piece of a message may be missing."""
    events = events_of(WORKER, stamp=STAMP)
    del events[missing]

    with pytest.raises(EventLogGapError):
        message_from(events)


def test_a_set_is_the_same_in_any_order() -> None:
    """An id does not depend on the order in which a set happens to be."""
    assert "<'a','b','c'>" == canonical({"c", "a", "b"})
