"""Messages and plain values as text for the store, byte for byte what they were.

JSON has no bytes, no NaN and no half surrogate pairs, and a message may: the
text is made of the bytes that a checkpoint would hold.
"""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

_SERIALIZER = JsonPlusSerializer(allowed_msgpack_modules=None)


def packed(value: Any) -> bytes:
    """Plain values as the bytes that a checkpoint would hold."""
    _, data = _SERIALIZER.dumps_typed(value)
    return data


def freeze(value: Any) -> str:
    """Plain values, bytes among them, as text."""
    return b64encode(zlib.compress(packed(value), level=6)).decode("ascii")


def thaw(text: str) -> Any:
    """What was frozen."""
    return _SERIALIZER.loads_typed(("msgpack", zlib.decompress(b64decode(text))))


def freeze_messages(messages: Sequence[BaseMessage]) -> str:
    """Messages as text."""
    return freeze([message_to_dict(each) for each in messages])


def thaw_messages(text: str) -> list[BaseMessage]:
    """The messages that were frozen."""
    return messages_from_dict(thaw(text))
