"""Where a transcript may be cut: the one rule that every reduction, rollback and restore obeys."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

from langchain_core.messages import AnyMessage, BaseMessage, ToolMessage

from unsay.messages.annotations import is_document, is_notice, mark_of
from unsay.messages.content import Thinking, calls_of, parts_of

Direction = Literal["older", "newer"]


def safe_indices(messages: Sequence[BaseMessage]) -> list[int]:
    """Every index at which the messages may be split in two, ascending; 0 and the end always may.

    No split parts a call from its results, thinking from the words or calls
    that it led to, documents from the question that they came with, or a
    notice from the message that it answers.
    """
    held = bytearray(len(messages) + 1)
    for first, last in _bonds(messages):
        held[first + 1 : last + 1] = b"\x01" * (last - first)
    return [index for index, inside in enumerate(held) if not inside]


def is_safe(messages: Sequence[BaseMessage], index: int) -> bool:
    """Whether the messages may be split before this index."""
    return index in safe_indices(messages)


def safe_cut(messages: Sequence[BaseMessage], index: int, *, towards: Direction) -> int:
    """The nearest index, at this one or in a direction, at which the messages may be split.

    Args:
        messages: Oldest first.
        index: From 0 to the number of messages.
        towards: `older` keeps more messages behind the cut, `newer` fewer.

    Raises:
        IndexError: The index lies outside the messages.
    """
    _check(messages, index)
    safe = safe_indices(messages)
    if towards == "older":
        return safe[bisect_right(safe, index) - 1]
    return safe[bisect_left(safe, index)]


def tail_start(messages: Sequence[BaseMessage], index: int, *, towards: Direction) -> int | None:
    """The nearest index, at this one or in a direction, at which a tail may begin by itself.

    A tail begins at the user's words, with the documents that came with them.

    Returns:
        A safe index, or `None` when no user message lies that way; `safe_cut`
        then tells where the tail may begin at an assistant's.

    Raises:
        IndexError: The index lies outside the messages.
    """
    _check(messages, index)
    places = tail_places(messages)
    if towards == "older":
        return max((place for place in places if place <= index), default=None)
    return min((place for place in places if place >= index), default=None)


def tail_places(messages: Sequence[BaseMessage]) -> list[int]:
    """Every index at which a tail may begin by itself, ascending: see `tail_start`."""
    return [each for each in safe_indices(messages)[:-1] if messages[each].type == "human"]


def steps(messages: Sequence[BaseMessage]) -> list[range]:
    """The indivisible groups of a transcript, each as the range of its indices.

    An assistant message that calls tools is one with the results; what is held
    together by no bond stands alone.
    """
    safe = safe_indices(messages)
    return [range(start, stop) for start, stop in pairwise(safe)]


def turns(messages: Sequence[BaseMessage]) -> list[range]:
    """The logical turns after the leading system messages, each as the range of its indices.

    What the user says opens one together with the assistant's first step;
    every later step opens its own.

    Source:
        goa-ai 97ae50f, runtime/agent/runtime/history.go (turns of a planner).
    """
    found: list[range] = []
    for step in steps(messages)[_preamble(messages) :]:
        if found and _waits(messages, found[-1]):
            found[-1] = range(found[-1].start, step.stop)
        else:
            found.append(step)
    return found


def keep_recent(messages: Sequence[AnyMessage], turns_kept: int) -> list[AnyMessage]:
    """The leading system messages and the newest logical turns, whole.

    Args:
        messages: Oldest first.
        turns_kept: How many; 0 or less keeps all.

    Source:
        goa-ai 97ae50f, runtime/agent/runtime/history.go (KeepRecentTurns).
    """
    found = turns(messages)
    if turns_kept <= 0 or len(found) <= turns_kept:
        return list(messages)
    return [*messages[: found[0].start], *messages[found[-turns_kept].start :]]


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
            asked = (places.get(name, index) for name in mark_of(message).get("answers", ()))
            yield min((place for place in asked if place < index), default=index), index


def _belongs(before: BaseMessage, message: BaseMessage) -> bool:
    """Whether two neighbours are one: a question's documents, or thinking and what follows it."""
    if before.type == message.type == "human":
        return is_document(before) or is_document(message)
    return before.type == message.type == "ai" and _only_thinks(before)


def _only_thinks(message: BaseMessage) -> bool:
    parts = parts_of(message)
    return bool(parts) and all(isinstance(part, Thinking) for part in parts)


def _preamble(messages: Sequence[BaseMessage]) -> int:
    """How many system messages lead."""
    return next((i for i, m in enumerate(messages) if m.type != "system"), len(messages))


def _waits(messages: Sequence[BaseMessage], turn: range) -> bool:
    """Whether nothing of the assistant's stands in a turn yet."""
    return not any(messages[index].type in ("ai", "tool") for index in turn)


def _check(messages: Sequence[BaseMessage], index: int) -> None:
    if not 0 <= index <= len(messages):
        raise IndexError(
            f"index {index!r} lies outside 0 to {len(messages)}; count from the oldest message"
        )
