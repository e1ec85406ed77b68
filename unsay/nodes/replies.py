"""What a model or agent returned, as messages that may enter the record."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    BaseMessageChunk,
    convert_to_messages,
    message_chunk_to_message,
)

from unsay.errors import ModelReplyError
from unsay.state import State, sealed_of
from unsay.transcript.marks import KEY

UNIQUE_CHARS = 16
"""An id that is shorter may stand on the sealed part of a record already."""


def messages_of(reply: Any, sent: Collection[str | None]) -> list[AnyMessage]:
    """The new messages of a reply: tool steps first, the final words last.

    Args:
        reply: A message, text, a list of messages, or a mapping with `messages`.
        sent: Ids of the messages that the model was sent; in a list of messages
            they are not new, save for the last: some servers give every reply one id.

    Raises:
        ModelReplyError: The reply is none of these, or ends without the
            assistant's words.
    """
    if isinstance(reply, Mapping) and "messages" in reply:
        reply = reply["messages"]
    if isinstance(reply, str | BaseMessage):
        reply, sent = [AIMessage(reply) if isinstance(reply, str) else reply], ()
    found = [_whole(message) for message in _converted(reply)]
    said = [m for m in found if m.type in ("ai", "tool")]
    longer = len(found) > len(sent)
    new = [m for m in said if m.id not in sent or m.id is None or (longer and m is found[-1])]
    if not new or new[-1].type != "ai":
        raise ModelReplyError("The reply does not end in a message of the assistant")
    if isinstance(new[-1], AIMessage) and new[-1].tool_calls:
        names = ", ".join(repr(call["name"]) for call in new[-1].tool_calls)
        raise ModelReplyError(f"The model calls {names} without being given such a tool")
    return new


def _converted(reply: Any) -> list[BaseMessage]:
    expected = (
        "an agent must return a message, text, a list of messages, or a mapping with 'messages'"
    )
    if not isinstance(reply, Sequence):
        raise ModelReplyError(
            f"The model returned {type(reply).__name__}, not a message: {expected}"
        )
    try:
        return convert_to_messages(list(reply))
    except (NotImplementedError, ValueError) as error:
        raise ModelReplyError(
            f"The model returned something else than messages: {expected}"
        ) from error


def _whole(message: BaseMessage) -> Any:
    """The message, joined if it is a chunk, without notes that only unsay may write."""
    whole = message_chunk_to_message(message) if isinstance(message, BaseMessageChunk) else message
    if KEY not in whole.response_metadata:
        return whole
    metadata = {key: value for key, value in whole.response_metadata.items() if key != KEY}
    return whole.model_copy(update={"response_metadata": metadata})


def with_fresh_ids(
    messages: Sequence[AnyMessage],
    taken: Collection[str | None],
    stem: str,
    *,
    shortest: int = 0,
) -> list[AnyMessage]:
    """The messages with ids that are not yet on the record.

    Some servers give every reply the same id; on the record it would replace
    the answer before it.

    Args:
        messages: New ones, in order.
        taken: Ids on the record.
        stem: Unique to the attempt; ids that must be made begin with it.
        shortest: Characters of the shortest id that is believed to be unique.
    """
    used = set(taken)
    fresh: list[AnyMessage] = []
    for index, message in enumerate(messages):
        own = message.id or ""
        name = own if own and own not in used and len(own) >= shortest else f"{stem}-{index}"
        used.add(name)
        fresh.append(message if name == message.id else message.model_copy(update={"id": name}))
    return fresh


def fresh(
    draft: Sequence[AnyMessage], state: State, done: Sequence[AnyMessage] = ()
) -> list[AnyMessage]:
    """Messages of an attempt with ids that are not on the record, nor on what the attempt has."""
    turn = state["turn"]
    stem = f"{turn['question_id']}-{len(turn['rejections']) + 1}"
    taken = {message.id for message in (*state["messages"], *done)}
    shortest = UNIQUE_CHARS if sealed_of(state) else 0
    stem = f"{stem}-{len(done)}" if done else stem
    return with_fresh_ids(draft, taken, stem, shortest=shortest)
