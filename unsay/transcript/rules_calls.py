"""Rules about tool calls and their results."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from unsay.transcript.parts import calls_of
from unsay.transcript.rules_base import Dialect, Finding, is_v1, role_of


def call_ids(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """Every call has an id, and no other call of its message has the same."""
    for index, message in enumerate(messages):
        for call_id, times in Counter(call.id for call in calls_of(message)).items():
            if not call_id:
                yield Finding(index=index, words="A tool call has no id: give it one.")
            elif times > 1:
                yield Finding(
                    index=index,
                    words=f"{times} tool calls share the id {call_id!r}: give each its own.",
                )


def results_follow_calls(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """Every call is answered by one of the tool messages that directly follow it."""
    answers = _answers(messages)
    for index, message in enumerate(messages):
        for call in calls_of(message):
            if call.id and call.id not in answers.get(index, ()):
                yield Finding(
                    index=index,
                    words=f"The call {call.id!r} of {call.name!r} in message {index} has no result "
                    f"directly behind it{_elsewhere(messages, index, call.id)}.",
                )


def results_match_calls(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """Every tool message answers a call of the assistant message that it follows."""
    wanted: set[str] = set()
    for index, message in enumerate(messages):
        if not isinstance(message, ToolMessage):
            wanted = {call.id for call in calls_of(message)}
        elif not message.tool_call_id:
            yield Finding(
                index=index,
                words="A tool message has an empty tool_call_id: name the call that it answers.",
            )
        elif message.tool_call_id not in wanted:
            yield Finding(
                index=index,
                words=f"The result for {message.tool_call_id!r} follows no assistant message that "
                "made this call: put it directly behind the call, or leave it out.",
            )


def results_once(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """No call is answered twice."""
    seen: set[str] = set()
    for index, message in enumerate(messages):
        if not isinstance(message, ToolMessage):
            seen = set()
            continue
        if message.tool_call_id and message.tool_call_id in seen:
            yield Finding(
                index=index,
                words=f"The call {message.tool_call_id!r} is answered twice: keep one result.",
            )
        seen.add(message.tool_call_id)


def call_ids_differ(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """No call has the id of a call of an earlier message."""
    seen: dict[str, int] = {}
    for index, message in enumerate(messages):
        for call in calls_of(message):
            if call.id and seen.setdefault(call.id, index) != index:
                yield Finding(
                    index=index,
                    words=f"The call id {call.id!r} was used in message {seen[call.id]} already: "
                    "rename it together with its result.",
                )


def calls_are_parsed(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """No assistant message carries a call whose arguments could not be read."""
    for index, message in enumerate(messages):
        for call in message.invalid_tool_calls if isinstance(message, AIMessage) else ():
            yield Finding(
                index=index,
                words=f"The call {call.get('id')!r} of {call.get('name')!r} has arguments that are "
                "no JSON object: some providers are sent it and some are not; leave it out.",
            )


def calls_are_declared(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """No call stands in the content alone: `tool_calls` names it, too."""
    for index, message in enumerate(messages):
        if not isinstance(message, AIMessage) or is_v1(message):
            continue
        declared = {call["id"] or "" for call in message.tool_calls}
        for call in calls_of(message):
            if call.id not in declared:
                yield Finding(
                    index=index,
                    words=f"The call {call.id!r} of {call.name!r} stands in the content but not in "
                    "tool_calls: name it in both, or in tool_calls alone.",
                )


def tool_names(messages: Sequence[BaseMessage], dialect: Dialect) -> Iterator[Finding]:
    """Every tool that is called has a name that the provider allows."""
    for index, message in enumerate(messages):
        for call in calls_of(message):
            if not re.fullmatch(dialect.tool_name, call.name):
                yield Finding(
                    index=index,
                    words=f"The tool name {call.name!r} does not match {dialect.tool_name!r}: "
                    "rename the tool.",
                )


def tool_ids(messages: Sequence[BaseMessage], dialect: Dialect) -> Iterator[Finding]:
    """Every call has an id that the provider allows."""
    for index, message in enumerate(messages):
        for call in calls_of(message):
            if call.id and not re.fullmatch(dialect.tool_id, call.id):
                yield Finding(
                    index=index,
                    words=f"The call id {call.id!r} does not match {dialect.tool_id!r}: rename it "
                    "together with its result.",
                )


def calls_follow_user(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """A message that calls tools comes directly after the user's words or tools' results."""
    for index, message in enumerate(messages):
        before = role_of(messages[index - 1]) if index else None
        if calls_of(message) and before not in ("human", "tool"):
            yield Finding(
                index=index,
                words=f"An assistant message with tool calls follows {before or 'nothing'!r}: "
                "it may only follow a user message or tool results.",
            )


def _answers(messages: Sequence[BaseMessage]) -> Mapping[int, set[str]]:
    """The ids that the tool messages directly behind a message answer, by its index."""
    answers: defaultdict[int, set[str]] = defaultdict(set)
    asked = -1
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            answers[asked].add(message.tool_call_id)
        else:
            asked = index
    return answers


def _elsewhere(messages: Sequence[BaseMessage], index: int, call_id: str) -> str:
    """Where the result stands instead, and what to do."""
    for later, message in enumerate(messages[index + 1 :], start=index + 1):
        if isinstance(message, ToolMessage) and message.tool_call_id == call_id:
            return f": move it there from message {later}"
    return ": add the result, or one with status 'error'"
