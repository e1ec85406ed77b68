"""What each provider requires: registration of rules, and the rules about roles, tool calls and their results."""

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from itertools import takewhile
from pathlib import Path
from typing import Literal, get_args

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from pydantic import TypeAdapter

from unsay.messages.content import blocks_of, calls_of
from unsay.types import Provider

Role = Literal["system", "human", "ai", "tool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What one provider requires; a rule applies if it has a source here."""

    sources: Mapping[str, str]  # for each rule by name, the document that states it
    thinking_sources: Mapping[str, str] = field(default_factory=dict)  # while thinking is on
    blocks: Mapping[Role, frozenset[str]] = field(default_factory=dict)  # types it accepts

    dropped: frozenset[str] = frozenset()  # assistant blocks that LangChain leaves out of requests
    strict: bool = False  # whether it does so only where another provider wrote the message

    # Values of `response_metadata["model_provider"]`: those whose thinking the provider recognizes,
    # and those whose standard `reasoning` blocks LangChain turns into the provider's thinking.
    own: frozenset[str] = frozenset()
    translated: frozenset[str] = frozenset()
    thinking_types: frozenset[str] = frozenset()  # blocks that reach the provider as thinking

    blank: Literal["whitespace", "empty"] = "whitespace"  # what counts as blank text

    # Regular expressions that the whole name or id matches.
    tool_name: str = ""
    tool_id: str = ""
    file_name: str = ""
    file_name_keys: tuple[str, ...] = ()  # keys of a file block, or of its extras, with its name

    # Ways to give the data of a media block, by its type; `source` and `native` are Anthropic's and
    # Bedrock's own forms. And the MIME types of inline data, by the kind of media.
    media: Mapping[str, frozenset[str]] = field(default_factory=dict)
    mime_types: Mapping[str, frozenset[str]] = field(default_factory=dict)


_TABLES = tomllib.loads(Path(__file__).with_name("provider_rules.toml").read_text("utf-8"))
_PROBLEMS: Mapping[str, str] = _TABLES.pop("problems")
# By provider; `common` has what all providers share.
_DIALECTS = TypeAdapter(dict[Provider | Literal["common"], Dialect]).validate_python(_TABLES)
COMMON = _DIALECTS["common"]
DIALECTS: Mapping[Provider, Dialect] = {
    provider: _DIALECTS[provider] for provider in get_args(Provider)
}

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


def problem(name: str, /, **values: object) -> str:
    """Return the text for a broken rule, filled with the values: see `provider_rules.toml`."""
    return _PROBLEMS[name].format(**values)


@message_rule
def known_roles(message: BaseMessage, _dialect: Dialect) -> Iterator[str]:
    """Every message is a user's, an assistant's, a tool's or a system's."""
    if role_of(message) is None:
        yield problem("known_roles", message=message)


@rule
def not_empty(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """The transcript has at least one message."""
    if not messages:
        yield 0, problem("not_empty")


@rule
def has_turns(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """The transcript has at least one message that is not a system message."""
    if all(isinstance(message, SystemMessage) for message in messages):
        yield max(0, len(messages) - 1), problem("has_turns")


@rule
def starts_with_user(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """The first message after system messages is from the user."""
    # Providers get system messages in a separate field, so the next message is their first one.
    spoken = ((i, m) for i, m in enumerate(messages) if not isinstance(m, SystemMessage))
    index, first = next(spoken, (0, None))
    if first is not None and role_of(first) != "human":
        yield index, problem("starts_with_user", message=first)


@rule
def system_first(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """System messages are at the beginning only."""
    leading = sum(1 for _ in takewhile(lambda each: isinstance(each, SystemMessage), messages))
    for index in range(leading, len(messages)):
        if isinstance(messages[index], SystemMessage):
            yield index, problem("system_first")


@rule
def ends_with_user(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """The last message is not the assistant's."""
    if messages and isinstance(messages[-1], AIMessage):
        yield len(messages) - 1, problem("ends_with_user")


@rule
def ends_without_space(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """A final assistant message does not end in whitespace."""
    if messages and isinstance(messages[-1], AIMessage):
        *_, last = {}, *blocks_of(messages[-1])
        text = str(last.get("text") or "") if last.get("type") == "text" else ""
        if text != text.rstrip():
            yield len(messages) - 1, problem("ends_without_space", end=text[-10:])


@message_rule
def author_names(message: BaseMessage, _dialect: Dialect) -> Iterator[str]:
    r"""A name beside a role is not empty, and has neither whitespace nor any of `<|\/>`."""
    name = message.name
    if role_of(message) == "tool" or name is None:
        return
    if not name or set(name) & set("<|\\/>") or name.split() != [name]:
        yield problem("author_names", name=name)


@message_rule
def call_ids(message: BaseMessage, _dialect: Dialect) -> Iterator[str]:
    """Every call has an id, and no other call of its message has the same."""
    for call_id, times in Counter(call.id for call in calls_of(message)).items():
        if not call_id:
            yield problem("call_ids")
        elif times > 1:
            yield problem("call_ids_shared", times=times, call_id=call_id)


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
                yield index, problem("results_follow_calls", call=call, index=index, advice=advice)
        result_ids = set()


@rule
def results_match_calls(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """Every tool message answers a call of the assistant message that it follows."""
    expected_ids: set[str] = set()
    for index, message in enumerate(messages):
        if not isinstance(message, ToolMessage):
            expected_ids = {call.id for call in calls_of(message)}
        elif not message.tool_call_id:
            yield index, problem("results_match_calls")
        elif message.tool_call_id not in expected_ids:
            yield index, problem("results_match_calls_here", message=message)


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
            yield index, problem("results_once", call_id=call_id)
        result_ids.add(call_id)


@rule
def call_ids_differ(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """No call has the id of a call of an earlier message; `call_ids` checks within one message."""
    index_by_id: dict[str, int] = {}
    for index, message in enumerate(messages):
        for call in calls_of(message):
            if call.id and index_by_id.setdefault(call.id, index) != index:
                yield index, problem("call_ids_differ", call=call, earlier=index_by_id[call.id])


@message_rule
def calls_are_parsed(message: BaseMessage, _dialect: Dialect) -> Iterator[str]:
    """No assistant message carries a call whose arguments could not be read."""
    for call in message.invalid_tool_calls if isinstance(message, AIMessage) else ():
        yield problem("calls_are_parsed", id=call.get("id"), name=call.get("name"))


@message_rule
def calls_are_declared(message: BaseMessage, _dialect: Dialect) -> Iterator[str]:
    """Every call in the content is in `tool_calls`, too; standard blocks are not checked."""
    calls = () if is_v1(message) else calls_of(message)
    declared = message.tool_calls if isinstance(message, AIMessage) else ()
    for call in calls[len(declared) :]:
        yield problem("calls_are_declared", call=call)


@rule
def calls_follow_user(messages: Sequence[BaseMessage], _dialect: Dialect) -> Iterator[Finding]:
    """A message that calls tools comes directly after the user's words or tools' results."""
    for index, message in enumerate(messages):
        before = role_of(messages[index - 1]) if index else None
        if calls_of(message) and before not in ("human", "tool"):
            yield index, problem("calls_follow_user", before=before or "nothing")


@message_rule
def tool_names(message: BaseMessage, dialect: Dialect) -> Iterator[str]:
    """Every tool that is called has a name that the provider allows."""
    for call in calls_of(message):
        if not re.fullmatch(dialect.tool_name, call.name):
            yield problem("tool_names", call=call, dialect=dialect)


@message_rule
def tool_ids(message: BaseMessage, dialect: Dialect) -> Iterator[str]:
    """Every call has an id that the provider allows."""
    for call in calls_of(message):
        if call.id and not re.fullmatch(dialect.tool_id, call.id):
            yield problem("tool_ids", call=call, dialect=dialect)
