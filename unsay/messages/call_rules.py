"""Registration of rules, and the rules about roles, tool calls and their results."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from itertools import takewhile

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from unsay.messages.content import blocks_of, calls_of
from unsay.messages.provider_rules import Dialect, Role

_ROLES: Mapping[type[BaseMessage], Role] = {
    HumanMessage: "human",
    AIMessage: "ai",
    ToolMessage: "tool",
    SystemMessage: "system",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One place where a transcript breaks a provider's rule."""

    index: int  # of the message that breaks the rule; 0 for a transcript without messages
    rule: str  # a stable name, for example `results_follow_calls`
    problem: str  # what is wrong and how to correct it
    source: str  # the public document that states the rule


Finding = tuple[int, str]  # index of the message that breaks a rule, and the `problem` of the fault
Rule = Callable[[Sequence[BaseMessage], Dialect], Iterator[Finding]]

RULES: dict[str, Rule] = {}
"""Every rule by its name, in the order in which the rules are checked."""


def rule(check: Rule) -> Rule:
    """Register a check of a whole transcript as the rule with the function's name (decorator).

    The check yields a message's index and a text for each place that breaks the rule. The function
    is returned unchanged. The rule is checked for the providers whose `Dialect` names a source for
    it: the public document that states it.
    """
    RULES[check.__name__] = check
    return check


def message_rule(check: Callable[[BaseMessage, Dialect], Iterator[str]]) -> Rule:
    """Register a check of a single message as a rule (decorator).

    The check yields a text for each fault of the message. The returned rule replaces the function
    and runs it for each message of a transcript.
    """

    @wraps(check)
    def check_all(messages: Sequence[BaseMessage], dialect: Dialect) -> Iterator[Finding]:
        for index, message in enumerate(messages):
            for problem in check(message, dialect):
                yield index, problem

    return rule(check_all)


def role_of(message: BaseMessage) -> Role | None:
    """Return the role of a message; `None` for a type that not all providers know."""
    return next((role for kind, role in _ROLES.items() if isinstance(message, kind)), None)


def is_v1(message: BaseMessage) -> bool:
    """Return whether a message is marked as one whose content is in LangChain's standard blocks.

    The mark is `output_version="v1"` in its metadata; the content is not looked at.
    """
    return message.response_metadata.get("output_version") == "v1"


@message_rule
def known_roles(message: BaseMessage, _dialect: Dialect) -> Iterator[str]:
    """Every message is a user's, an assistant's, a tool's or a system's."""
    if role_of(message) is None:
        yield (
            f"A message of type {message.type!r} has no role that all providers know: "
            "write it as a user, assistant, tool or system message."
        )


@rule
def not_empty(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """The transcript has at least one message."""
    if not messages:
        yield 0, "There is no message: send at least one user message."


@rule
def has_turns(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """The transcript has at least one message that is not a system message."""
    if all(isinstance(message, SystemMessage) for message in messages):
        last = max(0, len(messages) - 1)
        yield last, "There is nothing to answer: send at least one user message."


@rule
def starts_with_user(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """The first message after system messages is from the user."""
    # Providers get system messages in a separate field, so the next message is their first one.
    spoken = ((i, m) for i, m in enumerate(messages) if not isinstance(m, SystemMessage))
    index, first = next(spoken, (0, None))
    if first is not None and role_of(first) != "human":
        yield index, f"The conversation starts with {first.type!r}: start it with a user message."


@rule
def system_first(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """System messages are at the beginning only."""
    leading = sum(1 for _ in takewhile(lambda each: isinstance(each, SystemMessage), messages))
    for index in range(leading, len(messages)):
        if isinstance(messages[index], SystemMessage):
            yield (
                index,
                "The provider does not accept a system message inside the conversation: move it to "
                "the beginning, or send it as a user message.",
            )


@rule
def ends_with_user(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """The last message is not the assistant's."""
    if messages and isinstance(messages[-1], AIMessage):
        yield (
            len(messages) - 1,
            "The conversation ends with an assistant message, which cannot be continued "
            "while thinking is on: end it with a user message or tool results.",
        )


@rule
def ends_without_space(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """A final assistant message does not end in whitespace."""
    if messages and isinstance(messages[-1], AIMessage):
        *_, last = {}, *blocks_of(messages[-1])
        text = str(last.get("text") or "") if last.get("type") == "text" else ""
        if text != text.rstrip():
            problem = f"The final assistant message ends in whitespace, {text[-10:]!r}: strip it."
            yield len(messages) - 1, problem


@message_rule
def author_names(message: BaseMessage, _dialect: Dialect) -> Iterator[str]:
    r"""A name beside a role is not empty, and has neither whitespace nor any of `<|\/>`."""
    name = message.name
    if role_of(message) == "tool" or name is None:
        return
    if not name or set(name) & set("<|\\/>") or name.split() != [name]:
        yield f"The name {name!r} has whitespace or one of <|\\/>, or is empty: rename it."


@message_rule
def call_ids(message: BaseMessage, _dialect: Dialect) -> Iterator[str]:
    """Every call has an id, and no other call of its message has the same."""
    for call_id, times in Counter(call.id for call in calls_of(message)).items():
        if not call_id:
            yield "A tool call has no id: give it one."
        elif times > 1:
            yield f"{times} tool calls share the id {call_id!r}: give each its own."


@rule
def results_follow_calls(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """Every call is answered by one of the tool messages that directly follow it."""
    result_ids: set[str] = set()
    strayed: dict[str, int] = {}
    # Backwards, so that the results after a message are known before its calls.
    for index, message in reversed(list(enumerate(messages))):
        if isinstance(message, ToolMessage):
            result_ids.add(message.tool_call_id)
            strayed[message.tool_call_id] = index
            continue
        for call in calls_of(message):
            if call.id and call.id not in result_ids:
                advice = ": add the result, or one with status 'error'"
                if call.id in strayed:
                    advice = f": move it there from message {strayed[call.id]}"
                yield (
                    index,
                    f"The call {call.id!r} of {call.name!r} in message {index} has no result "
                    f"directly after it{advice}.",
                )
        result_ids = set()


@rule
def results_match_calls(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """Every tool message answers a call of the assistant message that it follows."""
    expected_ids: set[str] = set()
    for index, message in enumerate(messages):
        if not isinstance(message, ToolMessage):
            expected_ids = {call.id for call in calls_of(message)}
        elif not message.tool_call_id:
            yield index, "A tool message has an empty tool_call_id: name the call that it answers."
        elif message.tool_call_id not in expected_ids:
            yield (
                index,
                f"The result for {message.tool_call_id!r} follows no assistant message that "
                "made this call: move it directly after the call, or remove it.",
            )


@rule
def results_once(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """No call is answered twice."""
    result_ids: set[str] = set()
    for index, message in enumerate(messages):
        if not isinstance(message, ToolMessage):
            result_ids = set()
            continue
        call_id = message.tool_call_id
        if call_id and call_id in result_ids:
            yield index, f"The call {call_id!r} is answered twice: keep one result."
        result_ids.add(call_id)


@rule
def call_ids_differ(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """No call has the id of a call of an earlier message; `call_ids` checks within one message."""
    index_by_id: dict[str, int] = {}
    for index, message in enumerate(messages):
        for call in calls_of(message):
            if call.id and index_by_id.setdefault(call.id, index) != index:
                yield (
                    index,
                    f"The call id {call.id!r} was used in message {index_by_id[call.id]} already: "
                    "rename it together with its result.",
                )


@message_rule
def calls_are_parsed(message: BaseMessage, _dialect: Dialect) -> Iterator[str]:
    """No assistant message carries a call whose arguments could not be read."""
    for call in message.invalid_tool_calls if isinstance(message, AIMessage) else ():
        yield (
            f"The call {call.get('id')!r} of {call.get('name')!r} has arguments that are "
            "not a JSON object: some integrations send it and some do not; remove it."
        )


@message_rule
def calls_are_declared(message: BaseMessage, _dialect: Dialect) -> Iterator[str]:
    """Every call in the content is in `tool_calls`, too; standard blocks are not checked."""
    calls = () if is_v1(message) else calls_of(message)
    declared = message.tool_calls if isinstance(message, AIMessage) else ()
    for call in calls[len(declared) :]:
        yield (
            f"The call {call.id!r} of {call.name!r} is in the content but not in tool_calls: "
            "add it to tool_calls."
        )


@rule
def calls_follow_user(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """A message that calls tools comes directly after the user's words or tools' results."""
    for index, message in enumerate(messages):
        before = role_of(messages[index - 1]) if index else None
        if calls_of(message) and before not in ("human", "tool"):
            yield (
                index,
                f"An assistant message with tool calls follows {before or 'nothing'!r}: "
                "it may only follow a user message or tool results.",
            )


@message_rule
def tool_names(message: BaseMessage, dialect: Dialect) -> Iterator[str]:
    """Every tool that is called has a name that the provider allows."""
    for call in calls_of(message):
        if not re.fullmatch(dialect.tool_name, call.name):
            yield f"The tool name {call.name!r} does not match {dialect.tool_name!r}: rename the tool."


@message_rule
def tool_ids(message: BaseMessage, dialect: Dialect) -> Iterator[str]:
    """Every call has an id that the provider allows."""
    for call in calls_of(message):
        if call.id and not re.fullmatch(dialect.tool_id, call.id):
            yield (
                f"The call id {call.id!r} does not match {dialect.tool_id!r}: rename it "
                "together with its result."
            )
