"""The transcript: how writes are merged, and how its channel is stored."""

import sqlite3
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages

from unsay.state import (
    SNAPSHOT_FLOOR,
    PlainState,
    State,
    StateDraft,
    TranscriptChannel,
    Update,
    merge_message_update,
    merge_messages,
)

IDS = st.sampled_from(["a", "b", "c", "d", "e"])
WORDS = st.text(max_size=3)
KINDS = (HumanMessage, AIMessage, SystemMessage, AIMessageChunk)
NAMED_KIND = st.builds(
    lambda kind, *given: kind(given[0], id=given[1]), st.sampled_from(KINDS), WORDS, IDS
)
NAMED_DICT = st.builds(
    lambda *given: {"role": "user", "content": given[0], "id": given[1]}, WORDS, IDS
)
ADDED = st.one_of(NAMED_KIND, NAMED_DICT)
REMOVED = st.builds(lambda name: RemoveMessage(id=name), IDS)
CLEARED = st.just(RemoveMessage(id=REMOVE_ALL_MESSAGES))
NAMELESS = st.one_of(
    st.builds(lambda kind, text: kind(text), st.sampled_from(KINDS), WORDS),
    st.builds(lambda text: {"role": "assistant", "content": text}, WORDS),
    st.tuples(st.sampled_from(["human", "ai", "system"]), WORDS),
    WORDS,
)
ITEM = st.one_of(ADDED, ADDED, REMOVED, NAMELESS, CLEARED)
WRITES = st.lists(st.one_of(ITEM, st.lists(ITEM, max_size=4)), max_size=8)


def human(name: str, text: str = "") -> HumanMessage:
    """A question with an id."""
    return HumanMessage(text or name, id=name)


RECORD = [human("a"), AIMessage("b", id="b"), human("c")]
REMOVE_ALL = RemoveMessage(id=REMOVE_ALL_MESSAGES)


@pytest.mark.parametrize(
    ("writes", "merged"),
    [
        pytest.param([], RECORD, id="nothing"),
        pytest.param([[]], RECORD, id="an empty list"),
        pytest.param([human("d")], [*RECORD, human("d")], id="appended"),
        pytest.param([[human("d"), human("e")]], [*RECORD, human("d"), human("e")], id="list"),
        pytest.param(
            [AIMessage("new", id="b")],
            [human("a"), AIMessage("new", id="b"), human("c")],
            id="replaced in place",
        ),
        pytest.param([RemoveMessage(id="b")], [human("a"), human("c")], id="removed"),
        pytest.param([RemoveMessage(id="zzz")], RECORD, id="removed, unknown"),
        pytest.param(
            [[RemoveMessage(id="a"), human("a", "again")]],
            [AIMessage("b", id="b"), human("c"), human("a", "again")],
            id="removed and said again goes to the end",
        ),
        pytest.param([REMOVE_ALL], [], id="all removed"),
        pytest.param(
            [[human("d"), REMOVE_ALL, human("e")]], [human("e")], id="all removed, then added"
        ),
        pytest.param(
            [AIMessageChunk("whole", id="d")],
            [*RECORD, AIMessage("whole", id="d")],
            id="a chunk becomes whole",
        ),
        pytest.param(
            [{"role": "user", "content": "hi", "id": "d"}],
            [*RECORD, HumanMessage("hi", id="d")],
            id="a dict",
        ),
        pytest.param(
            [ToolMessage("4", tool_call_id="1", id="d")],
            [*RECORD, ToolMessage("4", tool_call_id="1", id="d")],
            id="a tool's result",
        ),
    ],
)
def test_writes_are_applied_in_order(writes: list[Any], merged: list[AnyMessage]) -> None:
    """Known ids replace in place, removals take out, everything else is appended."""
    before = list(RECORD)

    assert merged == merge_messages(RECORD, writes)
    assert before == RECORD


@given(first=WRITES, second=WRITES, third=WRITES)
def test_batching_changes_nothing(first: list[Any], second: list[Any], third: list[Any]) -> None:
    """Writes give the same transcript in any batches, with ids made by us among them."""
    transcript = merge_messages([], first)

    apart = merge_messages(merge_messages(transcript, second), third)

    assert apart == merge_messages(transcript, second + third)
    assert apart == merge_messages([], first + second + third)


@given(writes=WRITES)
def test_every_message_has_an_id_of_its_own(writes: list[Any]) -> None:
    """A transcript never has a message without an id, two with one, a chunk, or a removal."""
    transcript = merge_messages([], writes)

    ids = [message.id for message in transcript]
    assert all(ids)
    assert len(ids) == len(set(ids))
    assert set() == {m.type for m in transcript} - {"human", "ai", "system"}


@given(first=st.lists(st.one_of(ADDED, REMOVED, CLEARED), max_size=8), write=st.lists(ADDED))
def test_valid_writes_agree_with_langgraph(first: list[Any], write: list[Any]) -> None:
    """Where `add_messages` takes a write, it gives the same transcript."""
    ours = merge_messages([], first)
    theirs: Any = []
    for item in first:
        ids = {message.id for message in theirs}
        unknown = isinstance(item, RemoveMessage) and item.id not in ids | {REMOVE_ALL_MESSAGES}
        theirs = theirs if unknown else add_messages(theirs, item)

    assert theirs == ours
    assert add_messages(theirs, write) == merge_messages(ours, [write])


@given(writes=WRITES)
def test_plain_reducer_gives_the_same_record(writes: list[Any]) -> None:
    """The reducer for savers without deltas applies one write as the channel would."""
    transcript: list[AnyMessage] = []
    for write in writes:
        transcript = merge_message_update(transcript, write)

    assert merge_messages([], writes) == transcript


def test_same_words_said_twice_are_two_messages() -> None:
    """Equal messages without ids do not replace one another."""
    transcript = merge_messages([], ["yes", "yes", ("human", "yes")])

    assert ["yes", "yes", "yes"] == [message.content for message in transcript]


def test_an_id_freed_and_needed_again_is_found_again() -> None:
    """After a removal the place's own id may be taken by the message that moved up."""
    transcript = merge_messages([], ["x", "y", "y"])
    again = merge_messages(transcript, [RemoveMessage(id=transcript[0].id or ""), "y"])

    assert ["y", "y", "y"] == [message.content for message in again]
    assert transcript[1:] == again[:2]


def test_record_of_foreign_values_is_read() -> None:
    """A transcript stored by another program, without ids, is taken as it is."""
    transcript = merge_messages([("user", "hi"), {"role": "assistant", "content": "ho"}], [])

    assert [("human", "hi"), ("ai", "ho")] == [(m.type, m.content) for m in transcript]
    assert transcript == merge_messages(transcript, [])


@pytest.mark.parametrize(
    ("floor", "length", "due"),
    [
        pytest.param(None, 0, SNAPSHOT_FLOOR, id="empty"),
        pytest.param(None, 4 * SNAPSHOT_FLOOR - 1, SNAPSHOT_FLOOR, id="under the floor"),
        pytest.param(None, 8 * SNAPSHOT_FLOOR, 2 * SNAPSHOT_FLOOR, id="over the floor"),
        pytest.param(3, 4, 3, id="own floor"),
        pytest.param(3, 40, 10, id="over the own floor"),
    ],
)
def test_cadence_grows_with_the_record(floor: int | None, length: int, due: int) -> None:
    """Snapshots come ever more rarely, never oftener than the floor, and copies keep the pace."""
    options = {} if floor is None else {"snapshot_frequency": floor}
    channel = TranscriptChannel(merge_messages, list, **options).from_checkpoint([])
    channel.update([[human(str(i)) for i in range(length)]])
    empty = TranscriptChannel(merge_messages, list, **options)

    assert due == channel.snapshot_frequency
    assert due == channel.copy().snapshot_frequency
    assert due == empty.from_checkpoint(channel.get()).snapshot_frequency
    assert (floor or SNAPSHOT_FLOOR) == empty.copy().snapshot_frequency
    assert channel.get() == channel.copy().get()


def test_cadence_shrinks_with_the_record() -> None:
    """What a long transcript once needed is forgotten when a rollback makes it short again."""
    channel = TranscriptChannel(merge_messages, list, snapshot_frequency=3).from_checkpoint([])
    channel.update([[human(str(i)) for i in range(20)]])
    copy = channel.copy()
    copy.update([REMOVE_ALL])

    assert [5, 3, 3] == [
        item.snapshot_frequency for item in (channel, copy, channel.from_checkpoint([]))
    ]


def test_a_snapshot_is_due_once_most_messages_have_left() -> None:
    """No later load reads messages that are no longer in the transcript."""
    messages = [human(str(i)) for i in range(400)]
    empty = TranscriptChannel(merge_messages, list)
    channel = empty.from_checkpoint(messages)
    assert 100 == channel.snapshot_frequency
    channel.update([[REMOVE_ALL, *messages[-10:]]])
    assert 1 == channel.snapshot_frequency
    assert SNAPSHOT_FLOOR == empty.from_checkpoint(channel.get()).snapshot_frequency


def test_channel_without_a_value_has_its_floor() -> None:
    """Before its first value a channel's cadence is the floor."""
    assert 5 == TranscriptChannel(merge_messages, list, snapshot_frequency=5).snapshot_frequency


def test_cadence_outlives_a_graph() -> None:
    """Compiling a graph keeps the channel's class and floor."""

    class Floored(TypedDict):
        messages: Annotated[list, TranscriptChannel(merge_messages, snapshot_frequency=7)]

    graph = StateGraph(Floored).add_node("n", _quiet).add_edge(START, "n").compile()
    channel = graph.channels["messages"]

    assert isinstance(channel, TranscriptChannel)
    assert 7 == channel.snapshot_frequency
    assert 7 == channel.copy().snapshot_frequency


def _quiet(_: Any) -> dict[str, Any]:
    return {}


def _echo(state: Any) -> dict[str, Any]:
    messages = state["messages"][-1:]
    content = messages[0].content if messages else "nothing"
    return {"messages": [AIMessage(f"re: {content}", id=f"re-{len(state['messages'])}")]}


def _graph(schema: Any, saver: BaseCheckpointSaver[Any]) -> Any:
    builder = StateGraph(schema)
    builder.add_node("echo", _echo)
    builder.add_edge(START, "echo")
    return builder.compile(checkpointer=saver)


class Often(TypedDict, total=False):
    """A transcript whose snapshots come soon enough for a test to see many."""

    messages: Annotated[list[AnyMessage], TranscriptChannel(merge_messages, snapshot_frequency=3)]


CONFIG: Any = {"configurable": {"thread_id": "t"}}
EXAMPLES = settings().max_examples
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["turn", "turn", "drop", "clear", "update", "reload", "fork"]),
        st.integers(min_value=0, max_value=7),
    ),
    min_size=1,
    max_size=10,
)


def _take(graph: Any, number: int, kind: str, choice: int) -> list[AnyMessage]:
    """One step of a random life of a thread, and the transcript after it."""
    messages = graph.get_state(CONFIG).values.get("messages", [])
    chosen = messages[choice % len(messages)].id if messages else "none"
    message = HumanMessage(f"{kind} {number}", id=f"h-{number}")
    if kind == "turn":
        graph.invoke({"messages": [message]}, CONFIG)
    elif kind == "drop":
        removals = [RemoveMessage(id=message.id) for message in messages[choice:]]
        graph.invoke({"messages": [*removals, message]}, CONFIG)
    elif kind == "clear":
        graph.update_state(CONFIG, {"messages": [REMOVE_ALL, message]}, as_node="echo")
    elif kind == "update":
        new = [AIMessage(f"edited {number}", id=chosen), message]
        graph.update_state(CONFIG, {"messages": new}, as_node="echo")
    elif kind == "fork":
        past = list(graph.get_state_history(CONFIG, limit=choice + 1))
        if past:
            graph.update_state(past[-1].config, None, as_node="__end__")
    after: list[AnyMessage] = graph.get_state(CONFIG).values.get("messages", [])
    return after


def _saver(kind: str, file: Path) -> BaseCheckpointSaver[Any]:
    serde = JsonPlusSerializer(allowed_msgpack_modules=None)
    if kind == "memory":
        return InMemorySaver(serde=serde)
    return SqliteSaver(sqlite3.connect(file, check_same_thread=False), serde=serde)


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("kind", ["memory", "file"])
@pytest.mark.parametrize("schema", [State, Often], ids=["as shipped", "many snapshots"])
@settings(
    max_examples=min(30, EXAMPLES) if EXAMPLES < 100 else 300,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS)
def test_channel_and_plain_reducer_agree(
    kind: str, schema: Any, tmp_path: Path, steps: list[tuple[str, int]]
) -> None:
    """Any sequence of changes gives one transcript, stored as deltas or whole."""
    files = {PlainState: tmp_path / "plain.db", schema: tmp_path / "delta.db"}
    for file in files.values():
        file.unlink(missing_ok=True)
    savers = {item: _saver(kind, file) for item, file in files.items()}
    try:
        for number, (step, choice) in enumerate(steps):
            transcripts = [
                _take(_graph(item, saver), number, step, choice) for item, saver in savers.items()
            ]
            assert transcripts[0] == transcripts[1]
            if step == "reload" and kind == "file":
                for item, saver in savers.items():
                    saver.conn.close()  # type: ignore[attr-defined]
                    savers[item] = _saver(kind, files[item])
                reread = [
                    _graph(e, s).get_state(CONFIG).values.get("messages", [])
                    for e, s in savers.items()
                ]
                assert [transcripts[0]] * 2 == reread
    finally:
        if kind == "file":
            for saver in savers.values():
                saver.conn.close()  # type: ignore[attr-defined]


def test_a_draft_of_an_empty_state_has_no_messages() -> None:
    """A node can read the messages of a state that nothing was written to."""
    draft = StateDraft(State())
    assert [] == draft.state["messages"]

    draft.apply(Update(messages=[HumanMessage("a", id="a")]))
    draft.apply(Update(messages=[HumanMessage("b", id="b")], topics=[]))

    assert ["a", "b"] == [message.id for message in draft.state["messages"]]
    assert ["a", "b"] == [message.id for message in draft.update["messages"]]
