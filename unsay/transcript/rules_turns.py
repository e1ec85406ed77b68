"""Rules about who may speak when."""

from collections.abc import Iterator, Sequence

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage

from unsay.transcript.rules_base import Dialect, Finding, role_of


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
