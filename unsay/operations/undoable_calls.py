"""Which tool calls of messages can be undone, and what stands in the way of the others."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.tools import BaseTool

from unsay.history.branch import Change
from unsay.history.compensations import Compensation
from unsay.messages.annotations import annotation_of
from unsay.messages.content import text_of
from unsay.runtime import Services
from unsay.tools import Reversal, is_hand_off, reversal_of, whole_args

NO_UNDO = "no compensation is registered"
NO_RESULT = "no result of the call is known"
FAILED_CALL = "the call itself failed"
COPIED = "the message was copied here from elsewhere"


def compensations_of(change: Change, services: Services) -> list[Compensation]:
    """Return the calls that a change removes, drafts included; see `calls_to_undo`."""
    return calls_to_undo([*change.branch["messages"], *change.branch["drafts"]], services)


def calls_to_undo(messages: Sequence[AnyMessage], services: Services) -> list[Compensation]:
    """Return the tool calls of messages, newest first; `obstacle` says why one cannot be undone.

    Nothing is undone here. Hand-offs and calls of tools declared to have no consequences are left out.
    """
    results: dict[str, ToolMessage] = {}
    calls = []
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            results[message.tool_call_id] = message
        elif isinstance(message, AIMessage):
            for call in reversed(message.tool_calls):
                result = results.pop(call["id"] or "", None)
                calls.append(_compensation(message, call, result, services))
    return [each for each in calls if each is not None]


def _compensation(
    message: AIMessage, call: Mapping[str, Any], result: ToolMessage | None, services: Services
) -> Compensation | None:
    """Return a tool call as it can be undone; `None` if its tool has no consequences, or hands over."""
    tool = tool_of(call["name"], services)
    reversal = reversal_of(tool)
    if (tool is None and is_hand_off(call)) or (reversal is not None and reversal.undo is None):
        return None
    args = dict(call["args"]) if tool is None else whole_args(tool, call["args"])
    text = None if result is None else text_of(result)
    name, shown, obstacle = call["name"], reversal or Reversal(), ""
    if "picked" in annotation_of(message):
        obstacle = COPIED
    elif result is not None and result.status == "error":
        obstacle = FAILED_CALL
    elif reversal is None:
        obstacle = NO_UNDO
    elif result is None:
        obstacle = NO_RESULT
    return Compensation(
        key=f"{call['id']}@{message.id}",
        tool_call_id=call["id"] or "",
        message_id=message.id or "",
        tool=name,
        args=args,
        result=text,
        description=shown.describe_call(name, args, text),
        confirm=shown.confirm,
        obstacle=obstacle,
    )


def keeps_effects(messages: Sequence[AnyMessage], services: Services) -> bool:
    """Return whether no call of these messages can have been undone; `True` if there are no calls."""
    return all(each.obstacle for each in calls_to_undo(messages, services))


def tool_of(name: str, services: Services) -> BaseTool | None:
    """Return the graph's tool of this name; `None` if it has none."""
    return next((each for each in services.tools if each.name == name), None)
