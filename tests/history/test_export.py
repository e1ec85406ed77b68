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


def kept(**changes: Any) -> dict[str, Any]:
    """A snapshot of all of it as plain JSON, with other fields in `data` where given."""
    value = to_dict(take_snapshot(live(), FIELDS, now=NOW, app_data={"mine": [1]}))
    return {**value, "data": {**value["data"], **changes}}


def test_a_snapshot_comes_back_whole() -> None:
    """Through JSON and back every field is unchanged, bytes too."""
    text = json.dumps(kept())

    found = from_dict(json.loads(text))

    assert live() == dict(found.data)
    assert (NOW, {"mine": [1]}) == (found.created_at, found.app_data)
    assert text == json.dumps(to_dict(found))


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

    found = from_dict(json.loads(json.dumps(to_dict(take_snapshot(state, FIELDS, now=NOW)))))

    assert conversation.messages() == found.data["messages"]
    assert list(conversation.checkpoints()) == [
        ListedCheckpoint.of(each) for each in found.data["checkpoints"]
    ]
    conversation.close()
    assert {"messages", "checkpoints", "segments", "topics", "current_topic"} <= set(found.data)


def test_copies_are_apart() -> None:
    """Neither the thread nor a snapshot sees what happens to the other, either way."""
    source = live()
    snapshot = take_snapshot(source, FIELDS, now=NOW)
    source["messages"][0].content = "changed"
    source["labels"]["k"] = "changed"
    loaded = load_snapshot(live(), snapshot)
    loaded["topics"][0]["label"] = "changed"
    loaded["messages"].clear()

    assert live() == dict(snapshot.data)


def test_places_in_a_store_are_left_out() -> None:
    """What a topic says of pages that lie elsewhere means nothing elsewhere."""
    topic = {**TOPIC, "offloaded": "topic-1", "pages": ["page-1"]}

    snapshot = take_snapshot({"topics": [topic]}, ["topics"], now=NOW)

    assert [TOPIC] == snapshot.data["topics"]


@pytest.mark.parametrize(
    ("asked", "fields"),
    [
        pytest.param({"preset": "record"}, ("messages",), id="preset"),
        pytest.param({"include": ["labels", "messages"]}, ("messages", "labels"), id="include"),
        pytest.param(
            {"preset": "record", "include": ["title"]}, ("messages", "title"), id="preset and more"
        ),
        pytest.param(
            {"preset": "session", "exclude": ["messages", "title"]},
            tuple(each for each in PRESETS["session"] if each not in ("messages", "title")),
            id="preset less some",
        ),
        pytest.param(
            {"include": ["messages", "title"], "exclude": ["title"]},
            ("messages",),
            id="exclusion wins",
        ),
    ],
)
def test_fields_are_chosen(asked: Any, fields: tuple[str, ...]) -> None:
    """A preset, then what is included, then what is left out, always in one order."""
    assert fields == resolve_fields(**asked)


@pytest.mark.parametrize(
    ("asked", "said"),
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
def test_a_choice_that_cannot_be_is_refused(asked: Any, said: str) -> None:
    """The message names the choices."""
    with pytest.raises(SnapshotError, match=said):
        resolve_fields(**asked)


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
    "another version": {**kept(), "schema_version": "99.0"},
    "no version": {**kept(), "schema_version": None},
    "no moment": {**kept(), "created_at": "yesterday"},
    "no text as moment": {**kept(), "created_at": 5},
    "host data": {**kept(), "app_data": [1]},
    "an unknown field": kept(mesages=[]),
    "messages, no list": kept(messages="hello"),
    "messages, an empty object": kept(messages={}),
    "messages, an empty text": kept(messages=""),
    "messages of no type": kept(messages=[{"data": {"content": "hello"}}]),
    "messages, an unknown type": kept(messages=[{"type": "alien", "data": {"content": "x"}}]),
    "messages, broken": kept(messages=[{"frozen": "AAAA"}]),
    "checkpoints, a field missing": kept(checkpoints=[{"id": "cp-1"}]),
    "checkpoints, a field more": kept(checkpoints=[{**CHECKPOINT, "more": 1}]),
    "checkpoints, a wrong reason": kept(checkpoints=[{**CHECKPOINT, "reason": "magic"}]),
    "checkpoints, a wrong score": kept(checkpoints=[{**CHECKPOINT, "score": "good"}]),
    "checkpoints, a bool as turn": kept(checkpoints=[{**CHECKPOINT, "turn": True}]),
    "checkpoints, a lost message": kept(checkpoints=[{**CHECKPOINT, "message_id": "gone"}]),
    "segments, a lost message": kept(segments=[{"topic_id": "topic-1", "start": "gone"}]),
    "topics, no objects": kept(topics=["maps"]),
    "labels, no text": kept(labels={"k": 1}),
    "settings, a list": kept(settings=[1]),
    "title, no text": kept(title=None),
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
        from_dict({**kept(), "schema_version": "99.0"})


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
    value = kept(**{field: junk})
    try:
        found = from_dict(value)
    except SnapshotError:
        return
    assert value == to_dict(found)


@pytest.mark.parametrize(
    "app_data",
    [{"a": object()}, {"a": float("nan")}, {"a": (1,)}],
    ids=["object", "nan", "tuple"],
)
def test_a_hosts_data_is_plain(app_data: Any) -> None:
    """What JSON would change or cannot hold is refused when it is written."""
    with pytest.raises(SnapshotError, match="JSON cannot hold"):
        to_dict(take_snapshot({}, [], now=NOW, app_data=app_data))
