"""Where a transcript may be split: the one rule for every reduction, rollback and restore."""

from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from typing import Literal

from langchain_core.messages import AnyMessage, BaseMessage, ToolMessage

from unsay.messages.annotations import annotation_of, is_document, is_notice
from unsay.messages.content import Thinking, calls_of, parts_of

Direction = Literal["older", "newer"]


def safe_indices(messages: Sequence[BaseMessage]) -> list[int]:
    """Return every index at which the messages may be split, ascending; both ends are included.

    No split separates a call from its results, thinking from the words or calls that it led to,
    documents from the question that they came with, or a notice from the message that it answers.
    """
    held = bytearray(len(messages) + 1)
    for first, last in _bonds(messages):
        held[first + 1 : last + 1] = b"\x01" * (last - first)
    return [index for index, inside in enumerate(held) if not inside]


def safe_split(messages: Sequence[BaseMessage], index: int, *, towards: Direction) -> int:
    """Return the nearest index, at this one or in a direction, at which the messages may be split.

    Args:
        messages: Oldest first.
        index: From 0 to the number of messages.
        towards: `older` keeps more messages behind the cut, `newer` fewer.

    Raises:
        IndexError: The index is outside the messages.
    """
    return _nearest(messages, index, safe_indices(messages), towards) or 0


def tail_start(messages: Sequence[BaseMessage], index: int, *, towards: Direction) -> int | None:
    """Return the nearest index, at this one or in a direction, at which a tail may begin by itself.

    A tail begins at the user's words, with the documents that came with them.

    Returns:
        A safe index, or `None` when no user message is in that direction; `safe_split` then finds
        where the tail may begin at an assistant's message.

    Raises:
        IndexError: The index is outside the messages.
    """
    return _nearest(messages, index, tail_places(messages), towards)


def tail_places(messages: Sequence[BaseMessage]) -> list[int]:
    """Return every index at which `tail_start` lets a tail begin, ascending."""
    return [index for index in safe_indices(messages)[:-1] if messages[index].type == "human"]


def steps(messages: Sequence[BaseMessage]) -> list[range]:
    """Return the indivisible groups of a transcript, each as the range of its indices.

    An assistant message that calls tools is one group with the results.
    """
    return [range(start, stop) for start, stop in pairwise(safe_indices(messages))]


def turns(messages: Sequence[BaseMessage]) -> list[range]:
    """Return the logical turns after the leading system messages, each as the range of its indices.

    What the user says opens one together with the assistant's first step; every later step opens
    its own.

    Source:
        goa-ai 97ae50f, runtime/agent/runtime/history.go (turns of a planner).
    """
    found: list[range] = []
    system = len(list(takewhile(lambda message: message.type == "system", messages)))
    for step in steps(messages)[system:]:
        # A turn without anything from the assistant still waits for its first step.
        if found and not any(messages[index].type in ("ai", "tool") for index in found[-1]):
            found[-1] = range(found[-1].start, step.stop)
        else:
            found.append(step)
    return found


def keep_recent(messages: Sequence[AnyMessage], turns_kept: int) -> list[AnyMessage]:
    """Return the leading system messages and the newest logical turns; 0 or less keeps all turns.

    Source:
        goa-ai 97ae50f, runtime/agent/runtime/history.go (KeepRecentTurns).
    """
    found = turns(messages)
    if turns_kept <= 0 or len(found) <= turns_kept:
        return list(messages)
    return [*messages[: found[0].start], *messages[found[-turns_kept].start :]]


def _nearest(
    messages: Sequence[BaseMessage], index: int, places: Sequence[int], towards: Direction
) -> int | None:
    if not 0 <= index <= len(messages):
        raise IndexError(
            f"index {index!r} lies outside 0 to {len(messages)}; count from the oldest message"
        )
    if towards == "older":
        return max((place for place in places if place <= index), default=None)
    return min((place for place in places if place >= index), default=None)


def _bonds(messages: Sequence[BaseMessage]) -> Iterator[tuple[int, int]]:
    """First and last index of each stretch that belongs together."""
    callers: dict[str, int] = {}
    places = {message.id: index for index, message in enumerate(messages) if message.id}
    for index, message in enumerate(messages):
        callers.update((call.id, index) for call in calls_of(message))
        if isinstance(message, ToolMessage) and message.tool_call_id in callers:
            yield callers[message.tool_call_id], index
        if index and _belongs(messages[index - 1], message):
            yield index - 1, index
        if is_notice(message):
            asked = (places.get(name, index) for name in annotation_of(message).get("answers", ()))
            yield min((place for place in asked if place < index), default=index), index


def _belongs(before: BaseMessage, message: BaseMessage) -> bool:
    """Whether two neighbours are one: a question's documents, or thinking and what follows it."""
    if before.type == message.type == "human":
        return is_document(before) or is_document(message)
    if not before.type == message.type == "ai":
        return False
    parts = parts_of(before)
    return bool(parts) and all(isinstance(part, Thinking) for part in parts)
