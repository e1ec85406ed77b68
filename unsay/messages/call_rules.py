"""Rules about tool calls and their results."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage

from unsay.messages.base import Dialect, Finding, is_v1, role_of
from unsay.messages.content import calls_of


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


def known_roles(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """Every message is a user's, an assistant's, a tool's or a system's."""
    for index, message in enumerate(messages):
        if role_of(message) is None:
            yield Finding(
                index=index,
                words=f"A message of type {message.type!r} has no role that all providers know: "
                "write it as a user, assistant, tool or system message.",
            )


def not_empty(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """There is at least one message."""
    if not messages:
        yield Finding(index=0, words="There is no message: send at least one user message.")


def has_turns(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """There is at least one message besides the system's."""
    if all(isinstance(message, SystemMessage) for message in messages):
        yield Finding(
            index=max(0, len(messages) - 1),
            words="There is nothing to answer: send at least one user message.",
        )


def starts_with_user(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """The first message besides the system's is a user's."""
    for index, message in enumerate(messages):
        if isinstance(message, SystemMessage):
            continue
        if role_of(message) != "human":
            yield Finding(
                index=index,
                words=f"The conversation starts with {message.type!r}: start it with a user "
                "message.",
            )
        return


def system_first(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """System messages stand at the beginning only."""
    spoken = False
    for index, message in enumerate(messages):
        if not isinstance(message, SystemMessage):
            spoken = True
        elif spoken:
            yield Finding(
                index=index,
                words="A system message stands inside the conversation, where the provider has no "
                "place for it: move it to the beginning, or say it as the user.",
            )


def ends_with_user(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """The last message is not the assistant's."""
    if messages and isinstance(messages[-1], AIMessage):
        yield Finding(
            index=len(messages) - 1,
            words="The conversation ends with an assistant message, which cannot be continued "
            "while thinking is on: end it with a user message or tool results.",
        )


def ends_without_space(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """A final assistant message does not end in whitespace."""
    if not messages or not isinstance(messages[-1], AIMessage):
        return
    text = _last_text(messages[-1])
    if text and text != text.rstrip():
        yield Finding(
            index=len(messages) - 1,
            words=f"The final assistant message ends in whitespace, {text[-10:]!r}: strip it.",
        )


def _last_text(message: BaseMessage) -> str:
    """The text at the end of a message; empty when it ends otherwise."""
    if isinstance(message.content, str):
        return message.content
    last = message.content[-1] if message.content else ""
    if isinstance(last, str):
        return last
    return str(last.get("text") or "") if last.get("type") == "text" else ""


def author_names(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    r"""A name beside a role has neither whitespace nor any of `<|\/>`."""
    for index, message in enumerate(messages):
        name = message.name
        if role_of(message) == "tool" or name is None:
            continue
        if not name or set(name) & set("<|\\/>") or name.split() != [name]:
            yield Finding(
                index=index,
                words=f"The name {name!r} has whitespace or one of <|\\/>, or is empty: rename it.",
            )
