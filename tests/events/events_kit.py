"""Any message a transcript can hold, and bytes to compare messages by."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    message_to_dict,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from unsay.events.event_types import Stamp, split_message, stamped
from unsay.types import Event

STAMP = Stamp(thread_id="t", at="2026-01-01T00:00:00+00:00", run_id="r1", turn_id="q1")
_SERIALIZER = JsonPlusSerializer(allowed_msgpack_modules=None)


def events_of(message: BaseMessage, *, stamp: Stamp) -> list[Event]:
    """The events of a message at one place."""
    return stamped(split_message(message), stamp)


def as_stored(messages: Sequence[BaseMessage]) -> bytes:
    """The bytes that a checkpoint would hold."""
    return _SERIALIZER.dumps_typed([message_to_dict(message) for message in messages])[1]


NAMES = st.text(alphabet="abcé日🙈.", min_size=1, max_size=4)
WORDS = st.text(alphabet=st.characters(exclude_categories=()), max_size=12)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**63), max_value=2**64 - 1)
    | st.floats()
    | st.binary(max_size=8)
    | WORDS
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.integers(0, 9), inner, max_size=3)
    ),
    max_leaves=6,
)
DICTS = st.dictionaries(NAMES, VALUES, max_size=3)
MARKS = st.fixed_dictionaries(
    {
        "outcome": st.sampled_from(["passed", "failed", "unscored"]),
        "score": st.none() | st.floats(),
    },
    optional={"reason": WORDS, "odd": VALUES},
)
THINKING = st.one_of(
    st.fixed_dictionaries({"type": st.just("thinking"), "thinking": WORDS, "signature": WORDS}),
    st.fixed_dictionaries({"type": st.just("redacted_thinking"), "data": st.binary(max_size=5)}),
    st.fixed_dictionaries({"type": st.just("reasoning"), "summary": st.lists(DICTS, max_size=2)}),
)
BLOCKS = st.one_of(
    THINKING,
    st.fixed_dictionaries({"type": st.just("text"), "text": WORDS}),
    st.fixed_dictionaries({"type": st.just("image"), "data": st.binary(max_size=5)}),
    DICTS.map(lambda item: {**item, "type": "odd"}),
    WORDS,
)


@st.composite
def answers(draw: Any) -> AIMessage:
    """An assistant's message with any of: thinking, words, calls said twice, metadata, marks."""
    calls = draw(st.lists(st.tuples(NAMES, DICTS, st.none() | NAMES), max_size=3))
    tool_blocks = [
        {"type": "tool_use", "id": name, "name": tool, "input": draw(st.just(args) | VALUES)}
        for tool, args, name in calls
        if draw(st.booleans())
    ]
    blocks = st.lists(BLOCKS, max_size=4).map(lambda values: [*values, *tool_blocks])
    metadata = list(draw(DICTS).items())
    if draw(st.booleans()):
        position = draw(st.integers(0, len(metadata)))
        metadata.insert(position, ("unsay", draw(MARKS | VALUES)))
    aside = draw(DICTS)
    if draw(st.booleans()):
        aside["reasoning_content"] = draw(WORDS)
    return AIMessage(
        content=draw(WORDS | blocks),
        id=draw(st.none() | NAMES),
        tool_calls=[{"name": tool, "args": args, "id": name} for tool, args, name in calls],
        additional_kwargs=aside,
        response_metadata=dict(metadata),
        usage_metadata=draw(
            st.none() | st.just({"input_tokens": 3, "output_tokens": 4, "total_tokens": 7})
        ),
        name=draw(st.none() | NAMES),
    )


def other_messages() -> st.SearchStrategy[BaseMessage]:
    """Messages of every other role."""
    content = WORDS | st.lists(BLOCKS, max_size=3)
    fields = {
        "content": content,
        "id": st.none() | NAMES,
        "additional_kwargs": DICTS,
        "response_metadata": DICTS,
    }
    tool = {
        "tool_call_id": NAMES,
        "artifact": VALUES,
        "status": st.sampled_from(["success", "error"]),
    }
    return st.one_of(
        st.builds(HumanMessage, **fields, name=st.none() | NAMES),
        st.builds(SystemMessage, **fields),
        st.builds(ChatMessage, **fields, role=NAMES),
        st.builds(FunctionMessage, **fields, name=NAMES),
        st.builds(ToolMessage, **fields, **tool, name=st.none() | NAMES),
    )


SAMPLES: list[AnyMessage] = [
    HumanMessage("How warm? 🙈\ud800", additional_kwargs={"odd": [b"\xff", float("nan"), {1: 2}]}),
    SystemMessage("Be brief."),
    AIMessage("Nine.", response_metadata={"finish_reason": "stop"}),
    AIMessage(
        [
            {"type": "text", "text": "I look."},
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "tool_use", "id": "c1", "name": "find", "input": {"q": [1.0, None]}},
        ],
        tool_calls=[
            {"name": "find", "args": {"q": [1.0, None]}, "id": "c1"},
            {"name": "add", "args": {}, "id": "c2"},
        ],
        additional_kwargs={"reasoning_content": "hm"},
    ),
    AIMessage(
        "Ten.",
        response_metadata={"a": 1, "unsay": {"outcome": "failed", "score": None}, "b": 2},
    ),
    AIMessage("Went back.", response_metadata={"unsay": {"kind": "notice", "answers": ["x"]}}),
    ToolMessage("4", tool_call_id="c1", name="find", artifact={"rows": [1]}),
    ToolMessage([{"type": "text", "text": "5"}], tool_call_id="nowhere", status="error"),
]
"""One of each kind that an event log treats specially."""


def messages() -> st.SearchStrategy[AnyMessage]:
    """Any message a transcript can hold."""
    return st.one_of(answers(), other_messages())  # type: ignore[return-value]
