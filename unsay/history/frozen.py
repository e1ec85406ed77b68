"""Messages and plain values as text for the store, byte for byte what they were.

JSON has no bytes, no NaN and no half surrogate pairs, and a message may: the
text is made of the bytes that a checkpoint would hold.
"""

import bz2
import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from unsay.errors import InputError
from unsay.history.sums import sound

DENSE = b"BZh"
"""How bzip2's data begins; zlib's begins otherwise. Source: bzip2's file format, RFC 1950."""

_SERIALIZER = JsonPlusSerializer(allowed_msgpack_modules=None)


def unstorable(error: Exception) -> InputError:
    """The error for a value that no checkpoint can hold."""
    return InputError(
        f"This cannot be stored ({error}): messages and their fields must be text, numbers, bytes, "
        "lists and dicts of such"
    )


def packed(value: Any) -> bytes:
    """Plain values as the bytes that a checkpoint would hold.

    Raises:
        InputError: One of them is not plain.
    """
    try:
        _, data = _SERIALIZER.dumps_typed(value)
    except (TypeError, ValueError) as error:
        raise unstorable(error) from error
    return data


def unpacked(data: bytes) -> Any:
    """What was packed.

    Raises:
        DatabaseCorruptError: It is not what was packed.
    """
    with sound("A stored value"):
        return _SERIALIZER.loads_typed(("msgpack", data))


def freeze(value: Any, *, dense: bool = False) -> str:
    """Plain values, bytes among them, as text.

    Args:
        value: What to freeze.
        dense: Whether it is worth more time: of a hundred turns together a quarter is saved.
    """
    plain = packed(value)
    data = bz2.compress(plain) if dense else zlib.compress(plain, level=6)
    return b64encode(data).decode("ascii")


def thaw(text: str) -> Any:
    """What was frozen.

    Raises:
        DatabaseCorruptError: It is not what was frozen.
    """
    with sound("A stored value"):
        return unpacked(bytes_of(text))


def bytes_of(text: str) -> bytes:
    """The bytes that were frozen, for whoever checks them.

    Raises:
        ValueError: They are not what was frozen.
        zlib.error: The same.
    """
    data = b64decode(text, validate=True)
    if not data.startswith(DENSE):
        return zlib.decompress(data)
    try:
        return bz2.decompress(data)
    except OSError as error:
        raise ValueError(str(error)) from error


def freeze_messages(messages: Sequence[BaseMessage], *, dense: bool = False) -> str:
    """Messages as text; see `freeze`."""
    return freeze([message_to_dict(each) for each in messages], dense=dense)


def thaw_messages(text: str) -> list[BaseMessage]:
    """The messages that were frozen.

    Raises:
        DatabaseCorruptError: They are not what was frozen.
    """
    with sound("A stored message"):
        return messages_from_dict(thaw(text))
