"""What unsay writes beside a message's words: verdicts, flags and notices.

It stands in `response_metadata["unsay"]`, which is stored with the message and
never sent to a provider.
"""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage

from unsay.types import Verdict

KEY = "unsay"
"""Where unsay's notes stand in `response_metadata`."""


DOCUMENT = "document"
"""The name by which a user message says that it is retrieved material."""


TOLD = ("summary", "recalled")
"""Kinds of what a view tells in the user's name, and which nobody said now."""


M = TypeVar("M", bound=BaseMessage)


def mark_of(message: BaseMessage) -> dict[str, Any]:
    """What unsay noted on a message; empty when it noted nothing."""
    noted = message.response_metadata.get(KEY)
    return noted if isinstance(noted, dict) else {}


def with_mark(message: M, **noted: Any) -> M:
    """A copy of the message with these notes added; its id and words stay."""
    metadata = {**message.response_metadata, KEY: {**mark_of(message), **noted}}
    return message.model_copy(update={"response_metadata": metadata})


def with_verdict(message: M, verdict: Verdict, *, turn: int, topic: str, **more: Any) -> M:
    """A copy of an answer that carries its verdict."""
    return with_mark(
        message,
        outcome=verdict.outcome,
        score=verdict.score,
        reason=verdict.reason,
        source=verdict.source,
        turn=turn,
        topic=topic,
        **more,
    )


def notice(text: str, message_id: str, answers: Sequence[str]) -> AIMessage:
    """A message of unsay's own: shown to people, left out of every view.

    Args:
        text: What the person reads.
        message_id: Its id on the record.
        answers: Ids of the messages that it answers, such as a slash command;
            views leave these out too.
    """
    message = AIMessage(content=text, id=message_id)
    return with_mark(message, kind="notice", answers=list(answers))


def is_notice(message: BaseMessage) -> bool:
    """Whether a message is unsay's own notice."""
    return bool(message.response_metadata) and mark_of(message).get("kind") == "notice"


def is_document(message: BaseMessage) -> bool:
    """Whether a message is retrieved material: a user message named `document`."""
    return message.type == "human" and message.name == DOCUMENT


def is_question(message: BaseMessage) -> bool:
    """Whether a message is the user's own words."""
    if message.type != "human" or message.name == DOCUMENT:
        return False
    return not message.response_metadata or mark_of(message).get("kind") not in TOLD


def is_answer(message: BaseMessage) -> bool:
    """Whether a message is an assistant's final words: no tool call, no notice."""
    return isinstance(message, AIMessage) and not message.tool_calls and not is_notice(message)


def spoken(messages: Iterable[AnyMessage]) -> list[AnyMessage]:
    """The messages that belong to the conversation itself: no notice, nothing a notice answered."""
    listed = list(messages)
    notices = [each for each in listed if is_notice(each)]
    if not notices:
        return listed
    answered = {name for each in notices for name in mark_of(each).get("answers", ())}
    return [each for each in listed if each.id not in answered and not is_notice(each)]
