import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from tests.transcripts import valid_transcripts, wild_transcripts
from unsay.messages.annotations import DOCUMENT, notice
from unsay.messages.boundaries import (
    keep_recent,
    safe_indices,
    safe_split,
    steps,
    tail_start,
    turns,
)
from unsay.messages.conformance import faults

TRANSCRIPTS = st.one_of(valid_transcripts(notices=True), wild_transcripts())
TOWARDS = st.sampled_from(("older", "newer"))


def _ask(text: str = "q", **options: str) -> HumanMessage:
    return HumanMessage(text, **options)


def _call(*ids: str) -> AIMessage:
    return AIMessage("", tool_calls=[{"id": call_id, "name": "t", "args": {}} for call_id in ids])


def _result(call_id: str) -> ToolMessage:
    return ToolMessage("r", tool_call_id=call_id)


def _document() -> HumanMessage:
    return _ask("page", name=DOCUMENT)


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param([], [0], id="nothing"),
        pytest.param([_ask(), AIMessage("a")], [0, 1, 2], id="plain"),
        pytest.param(
            [_ask(), _call("a", "b"), _result("b"), _result("a"), AIMessage("x")],
            [0, 1, 4, 5],
            id="batch",
        ),
        pytest.param(
            [_call("a"), _ask(), _result("a"), AIMessage("x")], [0, 3, 4], id="strayed-result"
        ),
        pytest.param([_result("a"), _call("a")], [0, 1, 2], id="result-before-its-call"),
        pytest.param(
            [_call("a"), _result("a"), _call("a"), _result("a")], [0, 2, 4], id="id-used-again"
        ),
        pytest.param(
            [_document(), _document(), _ask(), AIMessage("a")], [0, 3, 4], id="documents-before"
        ),
        pytest.param([_ask(), _document(), AIMessage("a")], [0, 2, 3], id="documents-after"),
        pytest.param([_ask(), _ask()], [0, 1, 2], id="two-questions"),
        pytest.param(
            [AIMessage([{"type": "thinking", "thinking": "h", "signature": "s"}]), _call("a")],
            [0, 2],
            id="thinking-apart",
        ),
        pytest.param(
            [_ask(), AIMessage("a"), _ask("/undo", id="u"), notice("done", "n", ["u"]), _ask()],
            [0, 1, 2, 4, 5],
            id="notice",
        ),
        pytest.param([notice("done", "n", ["gone"])], [0, 1], id="notice-alone"),
    ],
)
def test_where_a_transcript_may_be_split(messages: list[AnyMessage], expected: list[int]) -> None:
    """No split parts what belongs together; everywhere else it is allowed."""
    assert expected == safe_indices(messages)


@given(messages=valid_transcripts(notices=True), data=st.data())
def test_both_sides_of_a_safe_split_are_valid(
    messages: list[AnyMessage], data: st.DataObject
) -> None:
    """Any safe split of any valid transcript gives two valid ones."""
    index = data.draw(st.integers(0, len(messages)))
    branch = safe_split(messages, index, towards=data.draw(TOWARDS))

    assert () == faults(messages)
    assert () == faults(messages[:branch])
    assert () == faults(messages[branch:])


@given(messages=TRANSCRIPTS, towards=TOWARDS, data=st.data())
def test_safe_split_is_the_nearest_safe_index(
    messages: list[AnyMessage], towards: str, data: st.DataObject
) -> None:
    """The split is safe and in the wanted direction, and a safe index stays."""
    index = data.draw(st.integers(0, len(messages)))
    branch = safe_split(messages, index, towards=towards)

    between = range(branch + 1, index + 1) if towards == "older" else range(index, branch)
    assert branch in safe_indices(messages)
    assert 0 <= branch <= len(messages)
    assert branch <= index if towards == "older" else branch >= index
    assert not any(index in safe_indices(messages) for index in between)
    assert branch == safe_split(messages, branch, towards=towards)


@given(messages=TRANSCRIPTS, towards=TOWARDS)
def test_safe_split_is_monotone(messages: list[AnyMessage], towards: str) -> None:
    """A later index never gives an earlier split."""
    branches = [safe_split(messages, index, towards=towards) for index in range(len(messages) + 1)]

    assert sorted(branches) == branches


@given(messages=TRANSCRIPTS)
def test_ends_are_safe(messages: list[AnyMessage]) -> None:
    """Splits at the beginning and at the end are always safe."""
    assert 0 in safe_indices(messages)
    assert len(messages) in safe_indices(messages)


@pytest.mark.parametrize("index", [-1, 3])
def test_index_outside_the_messages(index: int) -> None:
    """An index that no list has is an error, not the nearest end."""
    messages = [_ask(), AIMessage("a")]

    with pytest.raises(IndexError, match="0 to 2"):
        safe_split(messages, index, towards="older")
    with pytest.raises(IndexError, match="0 to 2"):
        tail_start(messages, index, towards="newer")


@pytest.mark.parametrize(
    ("index", "towards", "expected"),
    [
        (0, "older", None),
        (0, "newer", 1),
        (2, "older", 1),
        (2, "newer", 6),
        (4, "older", 1),
        (7, "older", 6),
        (7, "newer", None),
    ],
)
def test_tail_begins_at_the_users_words(index: int, towards: str, expected: int | None) -> None:
    """A tail begins where the user speaks, at the documents that came with the words."""
    messages = [
        SystemMessage("s"),
        _ask(),
        AIMessage("a"),
        _call("a"),
        _result("a"),
        AIMessage("b"),
        _document(),
        _ask(),
        AIMessage("c"),
    ]

    assert expected == tail_start(messages, index, towards=towards)


@given(messages=TRANSCRIPTS)
def test_steps_are_the_transcript(messages: list[AnyMessage]) -> None:
    """Joined, the steps are all the messages in order, and none is empty."""
    step_list = steps(messages)

    assert list(range(len(messages))) == [index for step in step_list for index in step]
    assert all(step_list)


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([SystemMessage("s")], [], id="instructions-alone"),
        pytest.param(
            [_ask(), _call("a"), _result("a"), _call("b"), _result("b"), AIMessage("done")],
            [3, 2, 1],
            id="steps-of-one-question",
        ),
        pytest.param(
            [SystemMessage("s"), _document(), _ask(), AIMessage("a"), _ask()],
            [3, 1],
            id="documents-and-a-pending-question",
        ),
        pytest.param([AIMessage("hi"), _ask(), AIMessage("a")], [1, 2], id="assistant-first"),
    ],
)
def test_logical_turns(messages: list[AnyMessage], expected: list[int]) -> None:
    """The user's words open a turn with the first step; each later step opens its own."""
    assert expected == [len(turn) for turn in turns(messages)]


def test_keep_recent_keeps_instructions_and_whole_turns() -> None:
    """The newest turns stay whole behind the leading instructions."""
    first = [SystemMessage("s"), _ask(), _call("a"), _result("a")]
    messages = [*first, AIMessage("done"), _ask("q2"), AIMessage("a2")]

    assert [messages[0], *messages[5:]] == keep_recent(messages, 1)
    assert [messages[0], *messages[4:]] == keep_recent(messages, 2)
    assert messages == keep_recent(messages, 3)
    assert messages == keep_recent(messages, 0)
