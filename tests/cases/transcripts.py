"""Operations on message lists, and what cases claim of a list."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from langchain_core.messages import AnyMessage, BaseMessage, ToolMessage
from langchain_core.messages.utils import convert_to_messages

from tests.cases.observation import Case, Observation, Operation
from tests.cases.world import NotBoundError
from unsay.messages.boundaries import keep_recent, repair, turns
from unsay.messages.conformance import validate
from unsay.messages.content import (
    Media,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    calls_of,
    parts_of,
    text_of,
)

Messages = Sequence[BaseMessage]
Claim = dict[str, Any]

PARTS = {Thinking: "thinking", Text: "text", ToolCall: "tool_call", ToolResult: "tool_result"}


def plain(message: BaseMessage) -> tuple[Any, ...]:
    """Return what cases compare of a message; ids and annotations are unsay's own."""
    result = (
        (message.tool_call_id, message.status) if isinstance(message, ToolMessage) else (None, None)
    )
    return (message.type, message.content, calls_of(message), *result)


def given_messages(case: Case, params: Sequence[str] = ()) -> list[AnyMessage]:
    """The messages of a case.

    Raises:
        NotBoundError: It has params that the operation does not know.
    """
    if unknown := set(case["params"]) - set(params):
        raise NotBoundError(f"params {sorted(unknown)}")
    return convert_to_messages(case["given"]["messages"])  # type: ignore[return-value]


def transcript_validate(case: Case, folder: Path) -> Observation:
    """Validate a transcript, which stays unchanged either way."""
    del folder
    messages = given_messages(case, ("thinking", "provider"))
    before = [message.model_copy(deep=True) for message in messages]
    provider = case["params"].get("provider")
    try:
        validate(messages, provider, thinking=case["params"].get("thinking", False))
    except Exception as error:  # noqa: BLE001 - cases expect errors of every kind
        return Observation(error=error, messages=messages, given=before)
    return Observation(value="valid", messages=messages, given=before)


def transcript_repair(case: Case, folder: Path) -> Observation:
    """Repair a transcript; a call at its end may wait, unless the user writes again."""
    del folder
    messages = given_messages(case, ("before", "pending"))
    waits = bool(messages) and messages[-1].type == "ai"
    waits = waits and case["params"].get("before") != "new_user_turn"
    pending = case["params"].get("pending", waits)
    return Observation(messages=repair(messages, pending=pending), given=messages)


def turns_parse(case: Case, folder: Path) -> Observation:
    """The lengths of the logical turns."""
    del folder
    return Observation(value=[len(turn) for turn in turns(given_messages(case))])


def turns_keep_recent(case: Case, folder: Path) -> Observation:
    """The newest logical turns."""
    del folder
    messages = given_messages(case, ("n",))
    return Observation(messages=keep_recent(messages, case["params"]["n"]), given=messages)


def _results(messages: Messages, call_id: str) -> list[ToolMessage]:
    return [m for m in messages if isinstance(m, ToolMessage) and m.tool_call_id == call_id]


def _result_text(messages: Messages, claim: Claim) -> str:
    return "\n".join(text_of(result) for result in _results(messages, claim["id"]))


def _step(messages: Messages, index: int) -> int | None:
    """Index of the assistant message that only tool messages part from an index."""
    while index >= 0 and messages[index].type == "tool":
        index -= 1
    return index if index >= 0 and messages[index].type == "ai" else None


def _is_orphan(messages: Messages, index: int) -> bool:
    message = messages[index]
    caller = _step(messages, index)
    return isinstance(message, ToolMessage) and (
        caller is None or message.tool_call_id not in {c.id for c in calls_of(messages[caller])}
    )


def _no_orphans(messages: Messages) -> bool:
    return not any(_is_orphan(messages, index) for index in range(len(messages)))


def _answered_ids(messages: Messages, index: int) -> set[str]:
    """Ids that the tool messages right behind an index answer."""
    call_ids = set()
    for message in messages[index + 1 :]:
        if not isinstance(message, ToolMessage):
            break
        call_ids.add(message.tool_call_id)
    return call_ids


def _unanswered_ids(messages: Messages) -> list[str]:
    return [
        call.id
        for index, message in enumerate(messages)
        for call in calls_of(message)
        if call.id not in _answered_ids(messages, index)
    ]


def _no_partial_batch(messages: Messages) -> bool:
    unanswered_ids = set(_unanswered_ids(messages))
    batches = [{call.id for call in calls_of(m)} for m in messages if calls_of(m)]
    return _no_orphans(messages) and all(
        not ids & unanswered_ids or ids <= unanswered_ids for ids in batches
    )


def _adjacent(messages: Messages, call_id: str) -> bool:
    return any(
        call_id in {call.id for call in calls_of(message)} & _answered_ids(messages, index)
        for index, message in enumerate(messages)
    )


def _part_names(message: BaseMessage) -> list[str]:
    return [
        message_part.kind
        if isinstance(message_part, Media)
        else PARTS.get(type(message_part), "other")
        for message_part in parts_of(message)
    ]


def _order(messages: Messages) -> list[str]:
    return [m.tool_call_id for m in messages if isinstance(m, ToolMessage)]


def _role(message: BaseMessage) -> str:
    return {"human": "user", "ai": "assistant"}.get(message.type, message.type)


def _same(message: BaseMessage, spec: Any) -> bool:
    (expected,) = convert_to_messages([spec])
    return plain(expected) == plain(message)


def _tail_is(messages: Messages, specs: Sequence[Any]) -> bool:
    tail = messages[len(messages) - len(specs) :]
    return len(messages) >= len(specs) and all(map(_same, tail, specs))


def _no_neighbours(messages: Messages, role: str | None) -> bool:
    roles = [_role(message) for message in messages]
    return not any(a == b and a != "tool" and role in (None, a) for a, b in pairwise(roles))


def _has_call(messages: Messages, call_id: str) -> bool:
    return any(call.id == call_id for message in messages for call in calls_of(message))


def _ids_are_unique(messages: Messages) -> bool:
    ids = [message.id for message in messages if message.id is not None]
    return len(ids) == len(set(ids))


def _kinds(messages: Messages) -> set[str]:
    return {
        message_part.kind
        for m in messages
        for message_part in parts_of(m)
        if isinstance(message_part, Media)
    }


MESSAGE_CLAIMS: dict[str, Callable[[Messages, Claim], bool]] = {
    "call_and_result_adjacent": lambda m, c: _adjacent(m, c["id"]),
    "contains_tool_call": lambda m, c: _has_call(m, c["id"]),
    "contains_tool_result": lambda m, c: bool(_results(m, c["id"])),
    "contains_text": lambda m, c: any(c["value"] in text_of(message) for message in m),
    "first_contains": lambda m, c: bool(m) and c["value"] in text_of(m[0]),
    "first_message_is": lambda m, c: bool(m) and _same(m[0], c["message"]),
    "first_role": lambda m, c: bool(m) and _role(m[0]) == c["value"],
    "last_message_is": lambda m, c: bool(m) and _same(m[-1], c["message"]),
    "len_eq": lambda m, c: len(m) == c["value"],
    "len_le": lambda m, c: len(m) <= c["value"],
    "no_consecutive_same_role": lambda m, c: _no_neighbours(m, c.get("role")),
    "no_duplicate_message_ids": lambda m, c: _ids_are_unique(m),
    "no_image_blocks": lambda m, c: "image" not in _kinds(m),
    "no_orphan_tool_messages": lambda m, c: _no_orphans(m),
    "no_partial_tool_batch": lambda m, c: _no_partial_batch(m),
    "no_text": lambda m, c: not any(c["value"] in text_of(message) for message in m),
    "no_text_ci": lambda m, c: (
        not any(c["value"].lower() in text_of(message).lower() for message in m)
    ),
    "no_tool_messages": lambda m, c: not any(message.type == "tool" for message in m),
    "nth_contains": lambda m, c: c["value"] in text_of(m[c["n"]]),
    "orphan_tool_calls_eq": lambda m, c: _unanswered_ids(m) == c["value"],
    "part_order": lambda m, c: _part_names(m[c["index"]]) == c["value"],
    "tail_is": lambda m, c: _tail_is(m, c["messages"]),
    "tool_result_contains": lambda m, c: c["value"] in _result_text(m, c),
    "tool_result_contains_ci": lambda m, c: c["value"].lower() in _result_text(m, c).lower(),
    "tool_result_count": lambda m, c: len(_results(m, c["id"])) == c["value"],
    "tool_result_endswith": lambda m, c: _result_text(m, c).endswith(c["value"]),
    "tool_result_is": lambda m, c: _result_text(m, c) == c["value"],
    "tool_result_order": lambda m, c: _order(m) == c["value"],
    "tool_result_startswith": lambda m, c: _result_text(m, c).startswith(c["value"]),
    "tool_result_status": lambda m, c: any(r.status == c["value"] for r in _results(m, c["id"])),
}

OPERATIONS: dict[str, Operation] = {
    "transcript.repair": transcript_repair,
    "transcript.validate": transcript_validate,
    "turns.keep_recent": turns_keep_recent,
    "turns.parse": turns_parse,
}
