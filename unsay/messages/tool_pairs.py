"""Tool calls and their results brought together: each call answered once, right behind it."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from unsay.messages.content import CALL_TYPES, ToolCall, calls_of

_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_-]")


@dataclass(slots=True)
class _Matched:
    """Which result answers which call."""

    callers: dict[int, AnyMessage] = field(default_factory=dict)
    """Assistant messages that call tools, with usable ids, by their index."""

    results: dict[int, list[AnyMessage]] = field(default_factory=dict)
    """The results of each, in the order in which they stand, by the same index."""


def settle(
    messages: Sequence[AnyMessage],
    *,
    interrupted: str,
    pending: bool,
    fits: Callable[[str], bool] = bool,
) -> list[AnyMessage]:
    """Put behind each tool call exactly one result, and leave out every other result.

    A call that nothing answers gets an error for a result. Ids are unique
    afterwards: a call whose id is missing, unfit or used before gets one that
    is derived from it, and so does its result.

    Args:
        messages: Oldest first.
        interrupted: What the error of an unanswered call says.
        pending: Whether the tools of the last step are still at work; its
            unanswered calls then stay so.
        fits: Whether a provider accepts an id.

    Returns:
        The same objects, save those that had to change.
    """
    matched = _match(messages, fits)
    working = _last_step(messages) if pending else None
    settled: list[AnyMessage] = []
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            continue
        settled.append(matched.callers.get(index, message))
        found = matched.results.get(index, [])
        calls = calls_of(settled[-1])
        settled += found if index == working else _completed(calls, found, interrupted)
    return settled


def with_calls(message: AIMessage, calls: Sequence[ToolCall]) -> AIMessage:
    """A copy of an assistant message that declares these calls instead of its own.

    Content blocks that repeat calls are left out: every LangChain integration
    writes them anew from `tool_calls`.
    """
    content = message.content
    if not isinstance(content, str):
        kept = [b for b in content if isinstance(b, str) or b.get("type") not in CALL_TYPES]
        content = kept or ""
    raw = ("tool_calls", "function_call")
    extra = {key: value for key, value in message.additional_kwargs.items() if key not in raw}
    declared = [{"name": c.name, "args": c.args, "id": c.id, "type": "tool_call"} for c in calls]
    changed = {"content": content, "tool_calls": declared, "additional_kwargs": extra}
    return message.model_copy(update=changed)


def fitting(name: str, *, limit: int) -> str:
    """A name of letters, digits, `_` and `-` alone that stands for another one.

    Two names that differ become two that differ: eight digits of a digest close it.
    """
    digest = sha256(name.encode()).hexdigest()[:8]
    return f"{_FORBIDDEN.sub('_', name)[: limit - 9]}-{digest}"


def _match(messages: Sequence[AnyMessage], fits: Callable[[str], bool]) -> _Matched:
    matched = _Matched()
    taken: set[str] = set()
    waiting: dict[str, list[tuple[int, str]]] = {}
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            if slots := waiting.get(message.tool_call_id):
                caller, call_id = slots.pop(0)
                matched.results.setdefault(caller, []).append(_answering(message, call_id))
        elif isinstance(message, AIMessage) and (calls := calls_of(message)):
            given = list(_given_ids(calls, taken, fits))
            waiting.update((call.id, []) for call in calls)
            for call, call_id in zip(calls, given, strict=True):
                waiting[call.id].append((index, call_id))
            matched.callers[index] = _declaring(message, calls, given)
    return matched


def _given_ids(
    calls: Sequence[ToolCall], taken: set[str], fits: Callable[[str], bool]
) -> Iterator[str]:
    """A usable id for each call, its own where that can be; `taken` grows by them."""
    for call in calls:
        base = call.id if fits(call.id) else fitting(call.id or "call", limit=36)
        call_id, nth = base, 1
        while call_id in taken:
            nth += 1
            call_id = f"{base[:36]}-{nth}"
        taken.add(call_id)
        yield call_id


def _declaring(message: AIMessage, calls: Sequence[ToolCall], ids: Sequence[str]) -> AIMessage:
    same = len(message.tool_calls) == len(calls)
    if same and [call["id"] for call in message.tool_calls] == list(ids):
        return message
    pairs = zip(calls, ids, strict=True)
    return with_calls(
        message, [ToolCall(id=name, name=call.name, args=call.args) for call, name in pairs]
    )


def _answering(result: ToolMessage, call_id: str) -> ToolMessage:
    if result.tool_call_id == call_id:
        return result
    return result.model_copy(update={"tool_call_id": call_id})


def _last_step(messages: Sequence[AnyMessage]) -> int | None:
    """Index of the newest message that is no result."""
    spoken = (i for i in range(len(messages) - 1, -1, -1) if messages[i].type != "tool")
    return next(spoken, None)


def _completed(
    calls: Sequence[ToolCall], found: Sequence[AnyMessage], interrupted: str
) -> list[AnyMessage]:
    """The results of a step, with an error in the place of each that is missing."""
    placed = list(found)
    answered = {each.tool_call_id for each in found if isinstance(each, ToolMessage)}
    earlier: set[str] = set()
    for call in calls:
        if call.id not in answered:
            placed.insert(_after(placed, earlier), _interrupted(call, interrupted))
        earlier.add(call.id)
    return placed


def _after(results: Sequence[AnyMessage], ids: set[str]) -> int:
    """Index behind the last result that answers one of these calls."""
    places = (
        i for i, r in enumerate(results) if isinstance(r, ToolMessage) and r.tool_call_id in ids
    )
    return max(places, default=-1) + 1


def _interrupted(call: ToolCall, text: str) -> ToolMessage:
    return ToolMessage(
        content=text,
        tool_call_id=call.id,
        name=call.name or None,
        status="error",
        id=f"interrupted-{call.id}",
    )
