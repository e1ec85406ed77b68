"""Where a transcript may be split by a strategy, rollback or restore."""

from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from typing import Literal

from langchain_core.messages import AnyMessage, BaseMessage, ToolMessage

from unsay.messages.annotations import annotation_of, is_document, is_notice
from unsay.messages.content import Thinking, calls_of, parts_of

Direction = Literal["older", "newer"]


def safe_indices(messages: Sequence[BaseMessage]) -> list[int]:
    """Return every index at which the messages may be split, ascending, with both ends.

    A split never separates a call from its results, thinking from the text or calls that follow,
    documents from their question, or a notice from the message that it answers.
    """
    held = bytearray(len(messages) + 1)
    for first, last in _bonds(messages):
        held[first + 1 : last + 1] = b"\x01" * (last - first)
    return [index for index, is_held in enumerate(held) if not is_held]


def safe_split(messages: Sequence[BaseMessage], index: int, *, towards: Direction) -> int:
    """Return the index, or the nearest one on the `towards` side, at which a split is allowed.

    The beginning and the end are always allowed, so there is a result on either side.

    Raises:
        IndexError: The index is not from 0 to the number of messages.
    """
    # Never `None`: both ends are safe.
    return _nearest(messages, index, safe_indices(messages), towards) or 0


def tail_start(messages: Sequence[BaseMessage], index: int, *, towards: Direction) -> int | None:
    """Return the index, or the nearest one on the `towards` side, at which a question begins.

    A question begins with its documents. `None` means that there is no question on that side.
    Raises `IndexError` if the index is not from 0 to the number of messages.
    """
    return _nearest(messages, index, tail_places(messages), towards)


def tail_places(messages: Sequence[BaseMessage]) -> list[int]:
    """Return every index at which a question begins, ascending.

    A question begins with its documents. An index is left out if no split is allowed there (see
    `safe_indices`).
    """
    return [index for index in safe_indices(messages)[:-1] if messages[index].type == "human"]


def steps(messages: Sequence[BaseMessage]) -> list[range]:
    """Return the steps of a transcript as ranges of indices: the parts that are never split.

    A step is one message, or messages that belong together: a tool call with its results, a
    question with its documents, a notice with what it answers, thinking with what follows.
    """
    return [range(start, stop) for start, stop in pairwise(safe_indices(messages))]


def turns(messages: Sequence[BaseMessage]) -> list[range]:
    """Return the logical turns after the leading system messages, as ranges of indices.

    The user's messages and the assistant's first step are one turn; each later step is another.

    Source: goa-ai 97ae50f, runtime/agent/runtime/history.go (turns of a planner).
    """
    found: list[range] = []
    system = len(list(takewhile(lambda message: message.type == "system", messages)))
    for step in steps(messages)[system:]:
        # A turn without an assistant's message still waits for its first step.
        if found and not any(messages[index].type in ("ai", "tool") for index in found[-1]):
            found[-1] = range(found[-1].start, step.stop)
        else:
            found.append(step)
    return found


def keep_recent(messages: Sequence[AnyMessage], turns_kept: int) -> list[AnyMessage]:
    """Return the leading system messages and the newest `turns_kept` turns, as `turns` finds them.

    0 or less keeps all turns.

    Source: goa-ai 97ae50f, runtime/agent/runtime/history.go (KeepRecentTurns).
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
            f"index must be from 0 to {len(messages)}, the number of messages, got {index!r}"
        )
    if towards == "older":
        return max((place for place in places if place <= index), default=None)
    return min((place for place in places if place >= index), default=None)


def _bonds(messages: Sequence[BaseMessage]) -> Iterator[tuple[int, int]]:
    """Yield index pairs; no split may be between the first and the last message of a pair."""
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
    """Return whether a message directly after `before` must stay with it.

    Documents stay with the user's message beside them, and a message of thinking alone with the
    assistant's next one. Tool calls and notices are not compared here.
    """
    if before.type == message.type == "human":
        return is_document(before) or is_document(message)
    if not before.type == message.type == "ai":
        return False
    parts = parts_of(before)
    return bool(parts) and all(isinstance(part, Thinking) for part in parts)
