"""What stored bytes mean, remembered."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    BaseMessage,
    ChatMessageChunk,
    FunctionMessageChunk,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessageChunk,
    ToolMessage,
    ToolMessageChunk,
)

from tests.events.events_kit import SAMPLES, VALUES, as_stored, messages
from unsay.storage.items import Memo, clone
from unsay.storage.sqlite_checkpointer import CompressedSerializer

SERIALIZER = CompressedSerializer()

KINDS: dict[str, BaseMessage] = {
    **{f"{number}: {item.type}": item for number, item in enumerate(SAMPLES)},
    "remove": RemoveMessage(id="a"),
    "human chunk": HumanMessageChunk("a", id="x"),
    "system chunk": SystemMessageChunk("a"),
    "chat chunk": ChatMessageChunk("a", role="critic"),
    "function chunk": FunctionMessageChunk("a", name="find"),
    "tool chunk": ToolMessageChunk("a", tool_call_id="c", artifact={"rows": [[1], []]}),
    "ai chunk": AIMessageChunk(
        "a",
        tool_call_chunks=[{"name": "find", "args": '{"q": [1]}', "id": "c", "index": 0}],
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    ),
    "invalid call": AIMessage(
        "a", invalid_tool_calls=[{"name": "f", "args": "{", "id": "c", "error": "x"}]
    ),
    "extra fields": HumanMessage("a", of_our_own=[{"b": []}], empty={}),
    "empty fields": ToolMessage([], tool_call_id="", artifact={}),
}


def changeable(value: Any) -> Iterator[int]:
    """The identities of everything in a value that can be changed."""
    if isinstance(value, dict):
        yield id(value)
        for item in value.values():
            yield from changeable(item)
    elif isinstance(value, list | tuple | set):
        if not isinstance(value, tuple):
            yield id(value)
        for item in value:
            yield from changeable(item)
    elif isinstance(value, BaseMessage):
        yield id(value)
        yield from changeable(vars(value))
        yield id(value.__pydantic_fields_set__)
        yield from changeable(value.__pydantic_extra__)
        yield from changeable(value.__pydantic_private__)


def everything(value: BaseMessage) -> tuple[Any, ...]:
    """What a message is, down to the order of its fields."""
    return (
        type(value),
        list(vars(value)),
        vars(value),
        sorted(value.__pydantic_fields_set__),
        value.__pydantic_extra__,
        value.__pydantic_private__,
    )


@pytest.mark.parametrize("name", KINDS)
def test_a_twin_is_the_message_and_shares_nothing(name: str) -> None:
    """Every kind of message is copied whole, and nothing of the copy is the original's."""
    message = KINDS[name]
    copy = clone(message)
    assert repr(everything(message)) == repr(everything(copy))
    assert as_stored([message]) == as_stored([copy])
    assert not {*changeable(message)} & {*changeable(copy)}


@given(messages())
def test_any_message_is_copied_whole(message: AnyMessage) -> None:
    """A copy has the same fields and shares nothing that can be changed."""
    copy = clone(message)
    assert as_stored([message]) == as_stored([copy])
    assert repr(everything(message)) == repr(everything(copy))
    assert not {*changeable(message)} & {*changeable(copy)}


@given(VALUES)
def test_plain_values_are_copied_whole(value: Any) -> None:
    """Lists in dicts in lists are equal and not shared."""
    copy = clone(value)
    assert repr(value) == repr(copy)
    assert not {*changeable(value)} & {*changeable(copy)}


@pytest.mark.parametrize(
    "value",
    [(), (1, [2]), Decimal("0.00"), {1, 2}, frozenset(), b"", {"a": Decimal("0.00")}, {"a": ()}],
    ids=repr,
)
def test_other_values_keep_what_they_are(value: Any) -> None:
    """What is neither a list nor a dict is copied to the last digit."""
    assert (type(value), repr(value)) == (type(clone(value)), repr(clone(value)))


def test_private_attributes_are_the_copys_own() -> None:
    """What a class of messages keeps to itself is copied with it."""

    class Guarded(HumanMessage):
        _seen: list[str]

    message = Guarded("a")
    message._seen = ["x"]
    copy = clone(message)
    copy._seen.append("y")
    assert (["x"], ["x", "y"]) == (message._seen, copy._seen)


class Reader:
    """Reads bytes as the checkpointer does, and counts."""

    def __init__(self) -> None:
        self.reads: list[bytes] = []

    def __call__(self, data: tuple[str, bytes]) -> Any:
        """What the bytes mean."""
        self.reads.append(data[1])
        return SERIALIZER.loads_typed(data)


@given(st.lists(messages(), max_size=3), VALUES)
def test_what_is_remembered_is_what_would_be_read(
    transcript: list[AnyMessage], beside: Any
) -> None:
    """A value from memory is that from the bytes, the first time and each time after."""
    kind, data = SERIALIZER.dumps_typed({"messages": transcript, "beside": beside})
    memo = Memo()
    reader = Reader()
    fresh = SERIALIZER.loads_typed((kind, data))
    for _ in range(3):
        value = memo.get(kind, data, reader)
        assert SERIALIZER.dumps_typed(fresh) == SERIALIZER.dumps_typed(value)
        assert repr(fresh) == repr(value)
    assert [data] == reader.reads


def test_who_changes_a_value_changes_it_alone() -> None:
    """The next one who asks is given what is stored."""
    kind, data = SERIALIZER.dumps_typed([HumanMessage("a", id="x")])
    memo = Memo()
    reader = Reader()
    for _ in range(3):
        value = memo.get(kind, data, reader)
        assert ["a"] == [item.content for item in value]
        value[0].content = "b"
        value[0].response_metadata["unsay"] = {}
        value.append(1)
    assert [data] == reader.reads


def test_the_same_bytes_of_another_kind_are_another_value() -> None:
    """How a value is stored is part of what it is."""
    memo = Memo()
    assert "a" == memo.get("one", b"x", lambda _: "a")
    assert "b" == memo.get("other", b"x", lambda _: "b")


@given(st.lists(st.integers(0, 6), max_size=20), st.integers(0, 12))
def test_no_more_is_remembered_than_allowed(sizes: list[int], most: int) -> None:
    """The newest values stay that fit together; what never fits is read each time."""
    memo = Memo(most)
    reads = 0
    kept: list[int] = []

    def read(key: tuple[str, bytes]) -> int:
        nonlocal reads
        reads += 1
        return len(key[1])

    for size in sizes:
        reads_expected = reads + (size not in kept)
        assert size == memo.get("kind", b"x" * size, read)
        assert reads_expected == reads
        if size <= most:
            kept = [*(item for item in kept if item != size), size]
        while sum(kept) > most:
            del kept[0]


def test_a_value_that_does_not_fit_drives_nothing_out() -> None:
    """One large value costs its own reading, and no other's."""
    memo = Memo(100)
    reader = Reader()
    small, large = (SERIALIZER.dumps_typed("x" * size) for size in (50, 120))
    for stored_value in (small, large, small):
        memo.get(*stored_value, reader)
    assert [small[1], large[1]] == reader.reads


def test_what_cannot_be_read_is_not_remembered() -> None:
    """An error says what is wrong, and says it again."""

    def read(_: Any) -> Any:
        raise ValueError("damaged")

    memo = Memo(10)
    for _ in range(2):
        with pytest.raises(ValueError, match="damaged"):
            memo.get("kind", b"x", read)
    assert "sound" == memo.get("kind", b"x", lambda _: "sound")
