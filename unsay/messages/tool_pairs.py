"""`repair`, which gives each tool call exactly one result, directly after it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import chain, count

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from unsay.messages.content import CALL_TYPES, ToolCall, calls_of

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
    taken: set[str] = set()
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
            ids = list(_given_ids(message, calls, taken, allowed))
            open_calls.update((call.id, []) for call in calls)
            for call, call_id in zip(calls, ids, strict=True):
                open_calls[call.id].append((results, call_id))
            if [call["id"] for call in message.tool_calls] != ids:
                named = [replace(call, id=name) for call, name in zip(calls, ids, strict=True)]
                message = with_calls(message, named)  # noqa: PLW2901
        steps.append((message, results))
    repaired: list[AnyMessage] = []
    for number, (message, results) in enumerate(steps, 1):
        running = pending and number == len(steps)
        placed = results if running else _completed(message, results, interrupted)
        repaired += [message, *placed]
    return repaired


def with_calls(message: AIMessage, calls: Sequence[ToolCall]) -> AIMessage:
    """Return a copy of an assistant message that makes these tool calls and no others."""
    # Content blocks that repeat calls go: LangChain's integrations write them from `tool_calls`.
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
    placed = list(results)
    after = 0  # index after the results of the calls before this one
    for call in calls_of(message):
        found = [i for i, result in enumerate(placed, 1) if result.tool_call_id == call.id]
        if not found:
            missing = ToolMessage(
                content=interrupted,
                tool_call_id=call.id,
                name=call.name or None,
                status="error",
                id=f"interrupted-{call.id}",
            )
            placed.insert(after, missing)
            found = [after + 1]
        after = max(after, *found)
    return placed
