"""Where a transcript may be split by a strategy, rollback or restore."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import chain, count, pairwise, takewhile
from typing import Literal

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolMessage

from unsay.messages.annotations import annotation_of, is_document, is_notice
from unsay.messages.content import CALL_TYPES, Thinking, ToolCall, calls_of, parts_of

Direction = Literal["older", "newer"]


def safe_indices(messages: Sequence[BaseMessage]) -> list[int]:
    """Return every index at which the messages may be split, ascending, with both ends.

    A split never separates a call from its results, thinking from the text or calls that follow,
    documents from their question, or a notice from the message that it answers.
    """
    bond_flags = bytearray(len(messages) + 1)
    for first, last in _bonds(messages):
        bond_flags[first + 1 : last + 1] = b"\x01" * (last - first)
    return [index for index, is_held in enumerate(bond_flags) if not is_held]


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
    turn_ranges: list[range] = []
    system = len(list(takewhile(lambda message: message.type == "system", messages)))
    for step in steps(messages)[system:]:
        # A turn without an assistant's message still waits for its first step.
        if turn_ranges and not any(
            messages[index].type in ("ai", "tool") for index in turn_ranges[-1]
        ):
            turn_ranges[-1] = range(turn_ranges[-1].start, step.stop)
        else:
            turn_ranges.append(step)
    return turn_ranges


def keep_recent(messages: Sequence[AnyMessage], turns_kept: int) -> list[AnyMessage]:
    """Return the leading system messages and the newest `turns_kept` turns, as `turns` finds them.

    0 or less keeps all turns.

    Source: goa-ai 97ae50f, runtime/agent/runtime/history.go (KeepRecentTurns).
    """
    turn_ranges = turns(messages)
    if turns_kept <= 0 or len(turn_ranges) <= turns_kept:
        return list(messages)
    return [*messages[: turn_ranges[0].start], *messages[turn_ranges[-turns_kept].start :]]


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
            question_places = (
                places.get(name, index) for name in annotation_of(message).get("answers", ())
            )
            yield min((place for place in question_places if place < index), default=index), index


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


INTERRUPTED = "Tool was interrupted before it returned a result."

_ANY_ID = re.compile(r".+", re.DOTALL)


def repair(
    messages: Sequence[AnyMessage],
    *,
    interrupted: str = INTERRUPTED,
    pending: bool = False,
    allowed: re.Pattern[str] = _ANY_ID,
) -> list[AnyMessage]:
    """Return the messages with exactly one result directly after each tool call.

    A missing result becomes an error, a misplaced one is moved, and one without a call, or a second
    one for a call, is removed. A call whose id is missing, not allowed or used before gets a new
    unique id, and so does its result. Nothing else changes.

    Args:
        messages: Oldest first; not changed.
        interrupted: Text of the error for a missing result.
        pending: Whether the tools of the last step are still running; its calls then stay open.
        allowed: Matches the whole of an id that may stay.

    Source: strands-agents sdk-python 1232230d, `_fix_broken_tool_use`; issues 859, 2025.
    """
    steps: list[tuple[AnyMessage, list[ToolMessage]]] = []
    used_ids: set[str] = set()
    open_calls: dict[str, list[tuple[list[ToolMessage], str]]] = {}
    for message in messages:
        if isinstance(message, ToolMessage):
            if slots := open_calls.get(message.tool_call_id):
                results, call_id = slots.pop(0)  # of calls with one id, the oldest comes first
                if message.tool_call_id != call_id:
                    message = message.model_copy(update={"tool_call_id": call_id})  # noqa: PLW2901
                results.append(message)
            continue
        results = []
        if isinstance(message, AIMessage) and (calls := calls_of(message)):
            ids = list(_given_ids(message, calls, used_ids, allowed))
            open_calls.update((call.id, []) for call in calls)
            for call, call_id in zip(calls, ids, strict=True):
                open_calls[call.id].append((results, call_id))
            if [call["id"] for call in message.tool_calls] != ids:
                new_calls = [replace(call, id=name) for call, name in zip(calls, ids, strict=True)]
                message = with_calls(message, new_calls)  # noqa: PLW2901
        steps.append((message, results))
    repaired: list[AnyMessage] = []
    for number, (message, results) in enumerate(steps, 1):
        running = pending and number == len(steps)
        step_results = results if running else _completed(message, results, interrupted)
        repaired += [message, *step_results]
    return repaired


def with_calls(message: AIMessage, calls: Sequence[ToolCall]) -> AIMessage:
    """Return a copy of an assistant message that makes these tool calls and no others."""
    # Content blocks that repeat calls go: LangChain's integrations write them from `tool_calls`.
    content = message.content
    if not isinstance(content, str):
        blocks = [b for b in content if isinstance(b, str) or b.get("type") not in CALL_TYPES]
        content = blocks or ""
    raw = ("tool_calls", "function_call")
    extra = {key: value for key, value in message.additional_kwargs.items() if key not in raw}
    declared = [{"name": c.name, "args": c.args, "id": c.id, "type": "tool_call"} for c in calls]
    updates = {"content": content, "tool_calls": declared, "additional_kwargs": extra}
    return message.model_copy(update=updates)


def fitting(name: str, *, limit: int) -> str:
    """Return the name in letters, digits, `_` and `-`, at most `limit` characters long.

    Its end is always a checksum of the given name, so that different names stay different.
    """
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{re.sub('[^a-zA-Z0-9_-]', '_', name)[: limit - 9]}-{digest}"


def _given_ids(
    message: AIMessage, calls: Sequence[ToolCall], taken: set[str], allowed: re.Pattern[str]
) -> Iterator[str]:
    """Yield an unused id for each call of a message, its own if possible, and add it to `taken`."""
    for call in calls:
        base = (
            call.id if allowed.fullmatch(call.id) else fitting(call.id or f"{message.id}", limit=36)
        )
        numbered = (f"{base[:36]}-{nth}" for nth in count(2))
        call_id = next(name for name in chain([base], numbered) if name not in taken)
        taken.add(call_id)
        yield call_id


def _completed(
    message: AnyMessage, results: Sequence[ToolMessage], interrupted: str
) -> list[ToolMessage]:
    """Return the results of a message's calls, with an error for each call that has no result.

    `interrupted` is the text of the error.
    """
    step_results = list(results)
    after = 0  # index after the results of the calls before this one
    for call in calls_of(message):
        positions = [
            i for i, result in enumerate(step_results, 1) if result.tool_call_id == call.id
        ]
        if not positions:
            missing = ToolMessage(
                content=interrupted,
                tool_call_id=call.id,
                name=call.name or None,
                status="error",
                id=f"interrupted-{call.id}",
            )
            step_results.insert(after, missing)
            positions = [after + 1]
        after = max(after, *positions)
    return step_results
