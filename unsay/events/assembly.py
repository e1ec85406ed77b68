"""Assembly: messages made of parts that `EventBuilder` or a foreign agent wrote as events.

The shapes of these events:

| type | data |
|---|---|
| `thinking` | `{text, signature, redacted}` |
| `user_message`, `assistant_message` | `{text}` |
| `tool_call` | `{id, name, args}` |
| `tool_result` | `{id, content, is_error, preview, bounds}`, or `{id, omitted, preview, …}` |

Each may have a `message_id`; parts with the same id belong to one message.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage

from unsay.errors import EventLogGapError, TranscriptError
from unsay.messages.content import Part, Text, Thinking, ToolCall, message_of
from unsay.messages.truncation import REASON
from unsay.types import EventType


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One event to replay, with its `name` in errors; without an envelope `data` is the whole event."""

    kind: EventType
    data: Mapping[str, Any]
    name: str

    def text(self) -> str:
        """Return the text of a part, or the content of a tool result, as text; empty without both."""
        return str(self.data.get("text", self.data.get("content", "")))

    def need(self, key: str) -> str:
        """Return a field; `TranscriptError` unless it is a text that is not empty."""
        value = self.data.get(key)
        if not isinstance(value, str) or not value:
            raise TranscriptError(f"{self.name} has {key}={value!r}: give a text that is not empty")
        return value


@dataclass(slots=True, kw_only=True)
class _Draft:
    message_id: str | None
    parts: list[Part] = field(default_factory=list)

    def calls(self) -> dict[str, str]:
        """Return the tools' names by the calls' ids, in the order of declaration."""
        return {part.id: part.name for part in self.parts if isinstance(part, ToolCall)}


class Assembly:
    """Makes messages out of parts, one part at a time; `replay` uses it.

    Results directly follow their calls: parts between a call and its result wait until all results
    are known.
    """

    def __init__(self) -> None:
        self._draft: _Draft | None = None  # the assistant's message in progress
        self._asked: dict[str, str] = {}  # open calls of the last message: tool names by id
        self._given: dict[str, AnyMessage] = {}  # their results so far
        self._waiting: list[Step] = []  # parts that follow once all results are known
        self._late: dict[str, str] = {}  # open calls of other messages: tool names by id

    def note(self, data: Mapping[str, Any]) -> None:
        """Record the calls of a whole message as open, or the call that it answers as done."""
        self._late |= {str(call["id"]): call["name"] for call in data.get("tool_calls") or ()}
        self._late.pop(str(data.get("tool_call_id")), None)

    def feed(self, step: Step) -> list[AnyMessage]:
        """Add one part, and return the messages that it completes, often none.

        Raises `EventLogGapError` for a result without an open call, `TranscriptError` for a part
        with a missing or wrong field.
        """
        if step.kind == "tool_result":
            return self._result(step)
        if self._asked:
            self._waiting.append(step)
            return []
        name, draft = step.data.get("message_id"), self._draft
        other = draft is not None and name not in (None, draft.message_id)
        if draft is not None and (step.kind == "user_message" or other):
            return [*self._flush(draft), *self.feed(step)]
        if step.kind == "user_message":
            return [HumanMessage(step.text(), id=name)]
        self._draft = draft or _Draft(message_id=name)
        self._draft.parts.append(_part(step))
        return []

    def rest(self) -> list[AnyMessage]:
        """Return the unfinished messages with the parts that they have; a second call returns none.

        A call without its result stays open, so that `feed` still accepts the result. Parts that
        waited for results follow, and can raise the errors of `feed`.
        """
        made: list[AnyMessage] = []
        while self._asked or self._draft:
            made += self._flush(self._draft) if self._draft else self._settle()
        return made

    def _flush(self, draft: _Draft) -> list[AnyMessage]:
        """End a draft and return its one message, in a list; its calls now wait for their results."""
        self._draft, self._asked = None, draft.calls()
        return [message_of(draft.parts, message_id=draft.message_id)]

    def _result(self, step: Step) -> list[AnyMessage]:
        name = step.need("id")
        draft = self._draft
        made = self._flush(draft) if draft is not None and name in draft.calls() else []
        if name in self._asked and name not in self._given:
            self._given[name] = _result_message(step, self._asked[name])
            complete = len(self._given) == len(self._asked)
            return [*made, *(self._settle() if complete else [])]
        if name in self._late:
            return [_result_message(step, self._late.pop(name))]
        if any(part.kind == "tool_call" and part.data.get("id") == name for part in self._waiting):
            self._waiting.append(step)
            return made
        raise EventLogGapError(
            f"{step.name} is the result of call {name!r}, which is not open: its tool_call event is "
            "missing, or it has a result already"
        )

    def _settle(self) -> list[AnyMessage]:
        """Return the known results in the order of their calls, then what the waiting parts complete.

        Raises the errors of `feed` for the waiting parts.
        """
        made = [self._given[name] for name in self._asked if name in self._given]
        self._late |= {k: tool for k, tool in self._asked.items() if k not in self._given}
        self._asked, self._given = {}, {}
        waiting, self._waiting = self._waiting, []
        for step in waiting:
            made += self.feed(step)
        return made


def _part(step: Step) -> Part:
    if step.kind == "thinking":
        return Thinking(
            text=step.text(),
            signature=step.data.get("signature"),
            redacted=step.data.get("redacted"),
        )
    if step.kind == "tool_call":
        args = step.data.get("args") or {}
        if not isinstance(args, Mapping):
            raise TranscriptError(
                f"{step.name} has args={args!r}: give a dict of arguments by name"
            )
        return ToolCall(id=step.need("id"), name=step.need("name"), args=dict(args))
    return Text(text=step.text())


def _result_message(step: Step, tool: str) -> ToolMessage:
    return ToolMessage(
        content=_content(step.data),
        tool_call_id=step.need("id"),
        name=tool,
        status="error" if step.data.get("is_error") else "success",
        id=step.data.get("message_id"),
    )


def _content(data: Mapping[str, Any]) -> Any:
    """Return a tool result's content: text or blocks as they are, anything else as JSON.

    If the event says that the content was omitted, the JSON says so, with a preview if there is
    one.
    """
    content = data.get("content", "")
    if data.get("omitted"):
        known = {key: data[key] for key in ("bytes", "preview", "bounds") if key in data}
        content = {"omitted": True, "reason": data.get("reason", REASON), **known}
    elif isinstance(content, str) or (
        isinstance(content, list)
        and content
        and all(isinstance(block, dict) and isinstance(block.get("type"), str) for block in content)
    ):
        return content
    return json.dumps(content, ensure_ascii=False, default=repr)
