"""A message taken apart: its pieces, and the places that they were taken from."""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from langchain_core.messages import AIMessage, BaseMessage, message_to_dict

from unsay.messages.annotations import KEY, mark_of
from unsay.messages.content import is_thinking

_ASIDE = ("reasoning_content", "reasoning")
"""Keys of `additional_kwargs` that hold a model's thinking. Source: langchain's adapters of DeepSeek,
Groq and OpenAI."""


class Hole(TypedDict):
    """A place in a message that one of its pieces was taken out of."""

    piece: Literal["thinking", "call", "args", "mark"]
    """What belongs there; `args` is the second copy of a call's arguments."""

    of: int
    """Which of the pieces of its kind, from 0; for `args`, which call."""

    path: list[str | int]
    """Keys and indexes that lead there from the message's dict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """A message in pieces that together are the message."""

    envelope: dict[str, Any]
    """`{type, data}` of the message, `None` in every hole."""

    holes: list[Hole]
    """In the order of the pieces."""

    thinking: list[Any]
    calls: list[dict[str, Any]]
    mark: dict[str, Any] | None
    """What unsay noted, when that is a verdict."""


def take_apart(message: BaseMessage) -> Pieces:
    """Return a message in pieces; only an assistant's has more than its envelope."""
    tree = message_to_dict(message)
    holes = list(_holes(message, tree["data"])) if isinstance(message, AIMessage) else []
    found: dict[str, list[Any]] = {"thinking": [], "call": [], "args": [], "mark": []}
    for hole in holes:
        value: Any = tree
        for step in hole["path"]:
            value = value[step]
        found[hole["piece"]].append(value)
    for hole in holes:
        tree = put(tree, hole["path"], None)
    return Pieces(
        envelope=tree,
        holes=holes,
        thinking=found["thinking"],
        calls=found["call"],
        mark=next(iter(found["mark"]), None),
    )


def put_together(
    envelope: Mapping[str, Any],
    holes: Sequence[Hole],
    *,
    thinking: Sequence[Any],
    calls: Sequence[Mapping[str, Any]],
    mark: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return the dict of the message that has these pieces; nothing is shared with them."""
    pieces: dict[str, Sequence[Any]] = {
        "thinking": thinking,
        "call": calls,
        "args": [call["args"] for call in calls],
        "mark": [] if mark is None else [mark],
    }
    tree: dict[str, Any] = deepcopy(dict(envelope))
    for hole in holes:
        tree = put(tree, hole["path"], deepcopy(pieces[hole["piece"]][hole["of"]]))
    return tree


def put(tree: Any, path: Sequence[str | int], value: Any) -> Any:
    """Return a copy of the tree with another value in a place; the order of keys stays."""
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
    if message.id is not None and "outcome" in mark_of(message):
        yield Hole(piece="mark", of=0, path=["data", "response_metadata", KEY])
