"""A thread as one plain JSON object."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from unsay.conversation.conversation import Conversation
from unsay.errors import SnapshotError
from unsay.history.export import (
    FIELDS,
    PRESETS,
    Portable,
    from_dict,
    load_snapshot,
    resolve_fields,
    take_snapshot,
    to_dict,
)
from unsay.results.results import Checkpoint as ListedCheckpoint
from unsay.types import Checkpoint, Segment, Topic

NOW = "2026-01-01T09:00:00+09:00"
CHECKPOINT = Checkpoint(
    id="cp-1",
    name="here",
    message_id="b",
    turn=1,
    score=0.9,
    topic="maps",
    reason="score",
    created_at=NOW,
)
TOPIC = Topic(id="topic-1", label="maps", summary="Of maps.", summarized_through="b")


def live() -> dict[str, Any]:
    """A thread's fields, with bytes and a tool's call in its transcript."""
    call = {"name": "look", "args": {"q": "🗺"}, "id": "c1", "type": "tool_call"}
    return {
        "messages": [
            HumanMessage([{"type": "text", "text": "Look."}, {"image": b"\x89PNG"}], id="a"),
            AIMessage("", tool_calls=[call], id="b"),
            ToolMessage("found", tool_call_id="c1", id="c"),
        ],
        "checkpoints": [CHECKPOINT],
        "segments": [Segment(topic_id="topic-1", start="a")],
        "topics": [TOPIC],
        "current_topic": "topic-1",
        "title": "地図",
        "labels": {"k": "live"},
        "settings": {"quality_threshold": 0.5},
    }


def snapshot_values(**changes: Any) -> dict[str, Any]:
    """A snapshot of all of it as plain JSON, with other fields in `data` where given."""
    value = to_dict(take_snapshot(live(), FIELDS, now=NOW, app_data={"mine": [1]}))
    return {**value, "data": {**value["data"], **changes}}


def test_a_snapshot_comes_back_whole() -> None:
    """Through JSON and back every field is unchanged, bytes too."""
    text = json.dumps(snapshot_values())

    snapshot = from_dict(json.loads(text))

    assert live() == dict(snapshot.data)
    assert (NOW, {"mine": [1]}) == (snapshot.created_at, snapshot.app_data)
    assert text == json.dumps(to_dict(snapshot))


def test_a_conversations_state_can_be_taken() -> None:
    """A real thread's state is a snapshot without a change, and loads nowhere else."""
    conversation = Conversation.open(
        ":memory:",
        thread="t",
        model=lambda _: "An answer about what was asked.",
        judge=lambda _: 0.9,
    )
    conversation.say("What was asked?")
    conversation.checkpoint("here")
    state = conversation.graph.get_state({"configurable": {"thread_id": "t"}}).values

    snapshot = from_dict(json.loads(json.dumps(to_dict(take_snapshot(state, FIELDS, now=NOW)))))

    assert conversation.messages() == snapshot.data["messages"]
    assert list(conversation.checkpoints()) == [
        ListedCheckpoint.of(checkpoint) for checkpoint in snapshot.data["checkpoints"]
    ]
    conversation.close()
    assert {"messages", "checkpoints", "segments", "topics", "current_topic"} <= set(snapshot.data)


def test_copies_are_apart() -> None:
    """Neither the thread nor a snapshot sees what happens to the other, either way."""
    source = live()
    snapshot = take_snapshot(source, FIELDS, now=NOW)
    source["messages"][0].content = "changed"
    source["labels"]["k"] = "changed"
    restored_state = load_snapshot(live(), snapshot)
    restored_state["topics"][0]["label"] = "changed"
    restored_state["messages"].clear()

    assert live() == dict(snapshot.data)


def test_places_in_a_store_are_left_out() -> None:
    """What a topic says of pages that lie elsewhere means nothing elsewhere."""
    topic = {**TOPIC, "offloaded": "topic-1", "pages": ["page-1"]}

    snapshot = take_snapshot({"topics": [topic]}, ["topics"], now=NOW)

    assert [TOPIC] == snapshot.data["topics"]


@pytest.mark.parametrize(
    ("chosen_fields", "fields"),
    [
        pytest.param({"preset": "record"}, ("messages",), id="preset"),
        pytest.param({"include": ["labels", "messages"]}, ("messages", "labels"), id="include"),
        pytest.param(
            {"preset": "record", "include": ["title"]}, ("messages", "title"), id="preset and more"
        ),
        pytest.param(
            {"preset": "session", "exclude": ["messages", "title"]},
            tuple(item for item in PRESETS["session"] if item not in ("messages", "title")),
            id="preset less some",
        ),
        pytest.param(
            {"include": ["messages", "title"], "exclude": ["title"]},
            ("messages",),
            id="exclusion wins",
        ),
    ],
)
def test_fields_are_chosen(chosen_fields: Any, fields: tuple[str, ...]) -> None:
    """A preset, then what is included, then what is left out, always in one order."""
    assert fields == resolve_fields(**chosen_fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param({}, "No field is selected: give a preset", id="nothing"),
        pytest.param({"preset": "record", "exclude": ["messages"]}, "No field", id="nothing left"),
        pytest.param({"preset": "all"}, "preset='all' is unknown: use one of session", id="preset"),
        pytest.param(
            {"include": ["mesages"]}, "'mesages' is not a field.*use messages", id="include"
        ),
        pytest.param({"exclude": ["x"]}, "'x' is not a field", id="exclude"),
    ],
)
def test_a_choice_that_cannot_be_is_refused(fields: Any, message: str) -> None:
    """The message names the choices."""
    with pytest.raises(SnapshotError, match=message):
        resolve_fields(**fields)


def test_absent_fields_are_left_alone() -> None:
    """What a snapshot does not have, or is not asked for, stays as it is."""
    snapshot = Portable(created_at=NOW, data={"title": "old", "labels": {"k": "old"}})

    assert {**live(), "title": "old", "labels": {"k": "old"}} == load_snapshot(live(), snapshot)
    assert {**live(), "title": "old"} == load_snapshot(live(), snapshot, ["title", "messages"])


def test_checkpoints_follow_the_transcript_that_comes_back() -> None:
    """Where only the transcript changes, no checkpoint or summary refers to a missing message."""
    old = HumanMessage("old", id="a")
    snapshot = Portable(created_at=NOW, data={"messages": [old]})

    after = load_snapshot(live(), snapshot)

    assert [old] == after["messages"]
    assert ([], live()["segments"]) == (after["checkpoints"], after["segments"])
    assert [{**TOPIC, "summary": None, "summarized_through": None}] == after["topics"]
    assert "地図" == after["title"]


def test_a_summary_stays_with_the_message_that_it_ends_with() -> None:
    """Topics keep their summaries if the loaded transcript has the last summarized message."""
    snapshot = Portable(created_at=NOW, data={"messages": [AIMessage("old", id="b")]})

    after = load_snapshot(live(), snapshot)

    assert ([CHECKPOINT], []) == (after["checkpoints"], after["segments"])
    assert [TOPIC] == after["topics"]


def test_a_checkpoint_at_the_beginning_stays() -> None:
    """A checkpoint before the first message refers to no message, so a load does not drop it."""
    start: Checkpoint = {**CHECKPOINT, "id": "cp-0", "name": "start", "message_id": None}
    snapshot = Portable(created_at=NOW, data={"messages": [HumanMessage("old", id="x")]})

    after = load_snapshot({**live(), "checkpoints": [start, CHECKPOINT]}, snapshot)

    assert [start] == after["checkpoints"]


WRONG: dict[str, Any] = {
    "no object": [],
    "no data": {"schema_version": "1.0", "created_at": NOW},
    "another version": {**snapshot_values(), "schema_version": "99.0"},
    "no version": {**snapshot_values(), "schema_version": None},
    "no moment": {**snapshot_values(), "created_at": "yesterday"},
    "no text as moment": {**snapshot_values(), "created_at": 5},
    "host data": {**snapshot_values(), "app_data": [1]},
    "an unknown field": snapshot_values(mesages=[]),
    "messages, no list": snapshot_values(messages="hello"),
    "messages, an empty object": snapshot_values(messages={}),
    "messages, an empty text": snapshot_values(messages=""),
    "messages of no type": snapshot_values(messages=[{"data": {"content": "hello"}}]),
    "messages, an unknown type": snapshot_values(
        messages=[{"type": "alien", "data": {"content": "x"}}]
    ),
    "messages, broken": snapshot_values(messages=[{"frozen": "AAAA"}]),
    "checkpoints, a field missing": snapshot_values(checkpoints=[{"id": "cp-1"}]),
    "checkpoints, a field more": snapshot_values(checkpoints=[{**CHECKPOINT, "more": 1}]),
    "checkpoints, a wrong reason": snapshot_values(checkpoints=[{**CHECKPOINT, "reason": "magic"}]),
    "checkpoints, a wrong score": snapshot_values(checkpoints=[{**CHECKPOINT, "score": "good"}]),
    "checkpoints, a bool as turn": snapshot_values(checkpoints=[{**CHECKPOINT, "turn": True}]),
    "checkpoints, a lost message": snapshot_values(
        checkpoints=[{**CHECKPOINT, "message_id": "gone"}]
    ),
    "segments, a lost message": snapshot_values(
        segments=[{"topic_id": "topic-1", "start": "gone"}]
    ),
    "topics, no objects": snapshot_values(topics=["maps"]),
    "labels, no text": snapshot_values(labels={"k": 1}),
    "settings, a list": snapshot_values(settings=[1]),
    "title, no text": snapshot_values(title=None),
}


@pytest.mark.parametrize("value", WRONG.values(), ids=WRONG)
def test_what_is_no_snapshot_is_refused(value: Any) -> None:
    """Every field is looked at before anything is made of it."""
    with pytest.raises(SnapshotError):
        from_dict(value)


def test_a_message_that_cannot_be_stored_is_named() -> None:
    """It may be in the state of a graph without a checkpointer; a snapshot cannot have it."""
    message = HumanMessage("Hi", id="m1", additional_kwargs={"socket": object()})
    snapshot = take_snapshot({"messages": [message]}, ["messages"], now=NOW)
    with pytest.raises(SnapshotError, match="'m1' cannot be in a snapshot"):
        to_dict(snapshot)


def test_another_version_is_named() -> None:
    """The message says which it is, which are known, and what to do."""
    with pytest.raises(
        SnapshotError, match=r"schema_version='99\.0' is unknown, this version reads '1\.0': load"
    ):
        from_dict({**snapshot_values(), "schema_version": "99.0"})


JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(field=st.sampled_from(FIELDS), junk=JUNK)
def test_no_junk_is_taken_or_breaks_the_reader(field: str, junk: Any) -> None:
    """Each field is read with its type, or refused."""
    value = snapshot_values(**{field: junk})
    try:
        snapshot = from_dict(value)
    except SnapshotError:
        return
    assert value == to_dict(snapshot)


@pytest.mark.parametrize(
    "app_data",
    [{"a": object()}, {"a": float("nan")}, {"a": (1,)}],
    ids=["object", "nan", "tuple"],
)
def test_a_hosts_data_is_plain(app_data: Any) -> None:
    """What JSON would change or cannot hold is refused when it is written."""
    with pytest.raises(SnapshotError, match="JSON cannot hold"):
        to_dict(take_snapshot({}, [], now=NOW, app_data=app_data))
