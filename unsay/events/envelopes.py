"""A message taken apart: what stands alone, and the places it stood in."""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from langchain_core.messages import AIMessage, BaseMessage, message_to_dict

from unsay.messages.annotations import KEY, mark_of
from unsay.messages.content import is_thinking

ASIDE = ("reasoning_content", "reasoning")
"""Where else a model's thinking stands, in `additional_kwargs`. Source: langchain's adapters of
DeepSeek, Groq and OpenAI."""


Piece = Literal["thinking", "call", "args", "mark"]


class Hole(TypedDict):
    """A place in a message that one of its pieces was taken out of."""

    piece: Piece
    """What belongs there; `args` is the arguments of a call that stand there a second time."""

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
    """The places of the pieces, in the order of the pieces."""

    thinking: list[Any]
    """Blocks of thinking."""

    calls: list[dict[str, Any]]
    """Tool calls, in the order in which they were declared."""

    mark: dict[str, Any] | None
    """What unsay noted, when that is a verdict."""


def take_apart(message: BaseMessage) -> Pieces:
    """A message in pieces; only an assistant's has more than its envelope."""
    tree = message_to_dict(message)
    holes = list(_holes(message, tree)) if isinstance(message, AIMessage) else []
    found = [(hole["piece"], at(tree, hole["path"])) for hole in holes]
    envelope = tree
    for hole in holes:
        envelope = put(envelope, hole["path"], None)
    return Pieces(
        envelope=envelope,
        holes=holes,
        thinking=[value for piece, value in found if piece == "thinking"],
        calls=[value for piece, value in found if piece == "call"],
        mark=next((value for piece, value in found if piece == "mark"), None),
    )


def put_together(
    envelope: Mapping[str, Any],
    holes: Sequence[Hole],
    *,
    thinking: Sequence[Any],
    calls: Sequence[Mapping[str, Any]],
    mark: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The dict of the message whose pieces these are; nothing is shared with them.

    Raises:
        LookupError: A piece is missing.
    """
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


def at(tree: Any, path: Sequence[str | int]) -> Any:
    """What stands at a place."""
    for step in path:
        tree = tree[step]
    return tree


def put(tree: Any, path: Sequence[str | int], value: Any) -> Any:
    """A copy of the tree with another value in a place; the order of keys stays."""
    if not path:
        return value
    copy = tree.copy()
    copy[path[0]] = put(copy[path[0]], path[1:], value)
    return copy


def _holes(message: AIMessage, tree: Mapping[str, Any]) -> Iterator[Hole]:
    data = tree["data"]
    for index, path in enumerate(_thinking(data)):
        yield Hole(piece="thinking", of=index, path=["data", *path])
    for index in range(len(data["tool_calls"])):
        yield Hole(piece="call", of=index, path=["data", "tool_calls", index])
    for index, call in _repeated(data):
        yield Hole(piece="args", of=call, path=["data", "content", index, "input"])
    if message.id is not None and "outcome" in mark_of(message):
        yield Hole(piece="mark", of=0, path=["data", "response_metadata", KEY])


def _thinking(data: Mapping[str, Any]) -> Iterator[list[str | int]]:
    for key in ASIDE:
        if data["additional_kwargs"].get(key):
            yield ["additional_kwargs", key]
    for index, block in _blocks(data):
        if is_thinking(block):
            yield ["content", index]


def _repeated(data: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    """Places of blocks that say a call's arguments once more, and which call's."""
    calls = {call["id"]: number for number, call in enumerate(data["tool_calls"])}
    for index, block in _blocks(data):
        number = calls.get(block.get("id")) if block.get("type") == "tool_use" else None
        if number is None or "input" not in block:
            continue
        if repr(block["input"]) == repr(data["tool_calls"][number]["args"]):
            yield index, number


def _blocks(data: Mapping[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    content = data["content"]
    for index, block in enumerate(content if isinstance(content, list) else []):
        if isinstance(block, dict):
            yield index, block
