"""Envelopes: split a message into events, and join them to the same message again."""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from functools import reduce
from operator import getitem
from typing import Any, Literal, TypedDict

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    BaseMessageChunk,
    FunctionMessage,
    ToolMessage,
    message_chunk_to_message,
    message_to_dict,
)

from unsay.events.event_types import NewEvent
from unsay.messages.annotations import KEY, annotation_of
from unsay.messages.content import is_thinking
from unsay.types import EventType

# Keys of `additional_kwargs` that hold a model's thinking. Source: langchain's adapters of
# DeepSeek, Groq and OpenAI.
_ASIDE = ("reasoning_content", "reasoning")


class Hole(TypedDict):
    """A place in a message's dict whose value is in an event of its own.

    `piece` is the kind of the value: `args` is the second copy of a call's arguments. `of` is its
    number among the values of this kind, from 0 (for `args` that of the call), and `path` the keys
    and indexes that lead to the place.
    """

    piece: Literal["thinking", "call", "args", "annotation"]
    of: int
    path: list[str | int]


def split_message(message: BaseMessage) -> list[NewEvent]:
    """Split a message into events: thinking, the message, its tool calls, its verdict.

    Every value is in exactly one of them.
    """
    if isinstance(message, BaseMessageChunk):
        message = message_chunk_to_message(message)
    tree: Any = message_to_dict(message)
    kind: EventType = "user_message"
    holes: list[Hole] = []
    if isinstance(message, AIMessage):
        kind, holes = "assistant_message", list(_holes(message, tree["data"]))
    elif isinstance(message, ToolMessage | FunctionMessage):
        kind = "tool_result"
    pieces: dict[str, list[Any]] = {"thinking": [], "call": [], "args": [], "annotation": []}
    for hole in holes:
        pieces[hole["piece"]].append(reduce(getitem, hole["path"], tree))
    for hole in holes:
        tree = put(tree, hole["path"], None)
    name = {"message_id": message.id}
    return [
        *(NewEvent("thinking", {**name, "block": block}) for block in pieces["thinking"]),
        NewEvent(kind, {"message": tree, "holes": holes}),
        *(NewEvent("tool_call", {**name, "call": call}) for call in pieces["call"]),
        *(
            NewEvent("verdict", {**name, "annotation": annotation})
            for annotation in pieces["annotation"]
        ),
    ]


def join_message(
    envelope: Mapping[str, Any], holes: Sequence[Hole], pieces: Mapping[str, Sequence[Any]]
) -> dict[str, Any]:
    """Return a copy of a message's dict with these pieces in its holes."""
    values = {**pieces, "args": [call["args"] for call in pieces["call"]]}
    tree: dict[str, Any] = deepcopy(dict(envelope))
    for hole in holes:
        tree = put(tree, hole["path"], deepcopy(values[hole["piece"]][hole["of"]]))
    return tree


def put(tree: Any, path: Sequence[str | int], value: Any) -> Any:
    """Return a copy of a tree with another value at a path; keys keep their order."""
    if not path:
        return value
    copy = tree.copy()
    copy[path[0]] = put(copy[path[0]], path[1:], value)
    return copy


def _holes(message: AIMessage, data: Mapping[str, Any]) -> Iterator[Hole]:
    content, calls = data["content"], data["tool_calls"]
    blocks = [
        (index, block)
        for index, block in enumerate(content if isinstance(content, list) else [])
        if isinstance(block, dict)
    ]
    paths: list[list[str | int]] = []
    paths += [["additional_kwargs", key] for key in _ASIDE if data["additional_kwargs"].get(key)]
    paths += [["content", index] for index, block in blocks if is_thinking(block)]
    for number, path in enumerate(paths):
        yield Hole(piece="thinking", of=number, path=["data", *path])
    for number in range(len(calls)):
        yield Hole(piece="call", of=number, path=["data", "tool_calls", number])
    numbers = {call["id"]: number for number, call in enumerate(calls)}
    for index, block in blocks:
        repeated = numbers.get(block.get("id")) if block.get("type") == "tool_use" else None
        if repeated is None or "input" not in block:
            continue
        # By text, since 1 == 1.0 == True, and the block must come back as it was.
        if repr(block["input"]) == repr(calls[repeated]["args"]):
            yield Hole(piece="args", of=repeated, path=["data", "content", index, "input"])
    if message.id is not None and "outcome" in annotation_of(message):
        yield Hole(piece="annotation", of=0, path=["data", "response_metadata", KEY])
