"""Items of a LangGraph store: where those of a thread lie, and the calls that write and read one."""

import bz2
import json
import zlib
from base64 import b64decode, b64encode
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any
from urllib.parse import quote

from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.store.base import BaseStore, GetOp, Item, Op, PutOp

from unsay.effects import Call, Steps
from unsay.errors import DatabaseCorruptError, InputError


def thread_namespace(kind: str, thread_id: str) -> tuple[str, ...]:
    """Return the store's namespace for one kind of a thread's items, safe for any thread id."""
    return ("unsay", kind, quote(thread_id, safe="").replace(".", "%2E"))


def put_item(store: BaseStore, place: tuple[str, ...], key: str, value: Mapping[str, Any]) -> Call:
    """Make a call that writes an item, not indexed and never expiring.

    Half a surrogate pair, which a store's JSON cannot hold, becomes `?` as in a checkpoint.
    """
    plain = storable(value)
    return Call.of(store.put, store.aput, place, key, plain, index=False, ttl=None)


def put_items(
    store: BaseStore, place: tuple[str, ...], values: Mapping[str, Mapping[str, Any]]
) -> Call:
    """Make a call that writes items as `put_item` does, all of them or none."""
    ops = [
        PutOp(namespace=place, key=key, value=storable(value), index=False, ttl=None)
        for key, value in values.items()
    ]
    return _batch(store, ops)


def get_item(store: BaseStore, place: tuple[str, ...], key: str) -> Call:
    """Make a call that reads an `Item`, `None` where there is none."""
    return Call.of(store.get, store.aget, place, key)


def get_items(
    store: BaseStore, place: tuple[str, ...], keys: Sequence[str]
) -> Steps[dict[str, dict[str, Any]]]:
    """Read the values of the items that there are, by their keys."""
    if not keys:
        return {}
    ops = [GetOp(namespace=place, key=key, refresh_ttl=False) for key in keys]
    found: list[Item | None] = yield _batch(store, ops)
    return {item.key: item.value for item in found if item is not None}


def drop_items(store: BaseStore, place: tuple[str, ...], keys: Sequence[str]) -> Call:
    """Make a call that deletes items, all of them or none."""
    return _batch(store, [PutOp(namespace=place, key=key, value=None) for key in keys])


def _batch(store: BaseStore, ops: Sequence[Op]) -> Call:
    return Call.of(store.batch, store.abatch, ops)


def storable(value: Any) -> Any:
    """Return a plain value without text that JSON in UTF-8 cannot hold."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, Mapping):
        return {storable(name): storable(each) for name, each in value.items()}
    return [storable(each) for each in value] if isinstance(value, list | tuple) else value


# Stored bytes that are remembered, the newest. Source: own measurement, the newest thousand turns.
MEMO_BYTES = 1_000_000
_PLAIN = frozenset({str, int, float, bool, bytes, type(None)})


class Memo:
    """Cache of deserialized values, limited by the size of their bytes."""

    def __init__(self, most: int = MEMO_BYTES) -> None:
        self._most, self._size = most, 0
        self._known: OrderedDict[tuple[str, bytes], Any] = OrderedDict()

    def get(self, kind: str, stored: bytes, read: Callable[[tuple[str, bytes]], Any]) -> Any:
        """Return a copy of the value of some bytes; `read` deserializes them the first time."""
        key = (kind, stored)
        if len(stored) > self._most:
            return read(key)
        if key in self._known:
            self._known.move_to_end(key)
        else:
            self._known[key] = read(key)
            self._size += len(stored)
            while self._size > self._most:
                (_, oldest), _ = self._known.popitem(last=False)
                self._size -= len(oldest)
        return twin(self._known[key])


def twin(value: Any) -> Any:
    """Copy messages and plain values so that nothing mutable is shared.

    Source:
        Pydantic, `BaseModel.__copy__`: the parts of a copied model. They are written out here
        because a transcript has hundreds of messages, and each would be copied twice.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is list:
        return [twin(each) for each in value]
    if kind is dict:
        return _twins(value)
    if isinstance(value, tuple):
        return kind(*map(twin, value)) if hasattr(kind, "_fields") else tuple(map(twin, value))
    if not isinstance(value, BaseMessage):
        return deepcopy(value)
    made: Any = object.__new__(kind)
    object.__setattr__(made, "__dict__", _twins(vars(value)))
    object.__setattr__(made, "__pydantic_fields_set__", set(value.__pydantic_fields_set__))
    object.__setattr__(made, "__pydantic_extra__", twin(value.__pydantic_extra__))
    object.__setattr__(made, "__pydantic_private__", twin(value.__pydantic_private__))
    return made


def _twins(values: dict[Any, Any]) -> dict[Any, Any]:
    return {key: each if type(each) in _PLAIN else twin(each) for key, each in values.items()}


BACKUP = "put a backup of the database in its place"

# Where an item's value holds the checksum of all the rest.
SUM = "unsay_sum"


def damaged(what: str, error: object) -> DatabaseCorruptError:
    """Return the error for something stored that differs from what was written."""
    return DatabaseCorruptError(f"{what} is damaged ({error}): {BACKUP}")


@contextmanager
def sound(what: str) -> Iterator[None]:
    """Turn every error that damaged bytes cause in their reader into one.

    Raises:
        DatabaseCorruptError: The bytes differ from what was written.
    """
    try:
        yield
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        MemoryError,
        NotImplementedError,
        RecursionError,
        TypeError,
        ValueError,
        zlib.error,
    ) as error:
        raise damaged(what, f"{type(error).__name__}: {error}") from error


def guard(data: bytes) -> bytes:
    """Put a checksum before some bytes."""
    return zlib.crc32(data).to_bytes(4) + data


def unguard(data: bytes) -> bytes:
    """Return the bytes behind their checksum.

    Raises:
        ValueError: The checksum is another.
    """
    kept = data[4:]
    if guard(kept) != data:
        raise ValueError("the checksum is another")
    return kept


def summed(place: tuple[str, ...], key: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Add a checksum to an item's value, unless it is no plain JSON."""
    try:
        return {**value, SUM: _sum(place, key, value)}
    except (TypeError, ValueError):
        return dict(value)


def unsummed(place: tuple[str, ...], key: str, value: Any) -> dict[str, Any]:
    """Return an item's value without its checksum; one that has none is accepted.

    Raises:
        DatabaseCorruptError: The value was changed, or belongs to another item.
    """
    what = f"The item {key!r} of {place!r}"
    if not isinstance(value, dict):
        raise damaged(what, "it is no JSON object")
    rest = {name: each for name, each in value.items() if name != SUM}
    if SUM in value and value[SUM] != _sum(place, key, rest):
        raise damaged(what, "the checksum is another")
    return rest


def _sum(place: tuple[str, ...], key: str, value: Mapping[str, Any]) -> int:
    text = json.dumps([*place, key, value], allow_nan=False)
    return zlib.crc32(text.encode("ascii"))


_SERIALIZER = JsonPlusSerializer(allowed_msgpack_modules=None)


def unstorable(error: Exception) -> InputError:
    """Return the error for a value that no checkpoint can hold."""
    return InputError(
        f"This cannot be stored ({error}): messages and their fields must be text, numbers, bytes, "
        "lists and dicts of such"
    )


def packed(value: Any) -> bytes:
    """Serialize plain values as a checkpoint does.

    Raises:
        InputError: One of them is not plain.
    """
    try:
        _, data = _SERIALIZER.dumps_typed(value)
    except (TypeError, ValueError) as error:
        raise unstorable(error) from error
    return data


def unpacked(data: bytes) -> Any:
    """Return the values in packed bytes.

    Raises:
        DatabaseCorruptError: The bytes are damaged.
    """
    with sound("A stored value"):
        return _SERIALIZER.loads_typed(("msgpack", data))


def freeze(value: Any, *, dense: bool = False) -> str:
    """Serialize plain values and bytes as text; `dense` is slower and saves up to a quarter."""
    return frozen(packed(value), dense=dense)


def frozen(plain: bytes, *, dense: bool = False) -> str:
    """Compress packed values into text."""
    data = bz2.compress(plain) if dense else zlib.compress(plain, level=6)
    return b64encode(data).decode("ascii")


def thaw(text: str) -> Any:
    """Return the values in a frozen text.

    Raises:
        DatabaseCorruptError: The text is damaged.
    """
    with sound("A stored value"):
        return unpacked(bytes_of(text))


def bytes_of(text: str) -> bytes:
    """Return the packed values in a frozen text.

    Raises:
        ValueError: The text is damaged; `zlib.error` means the same.
    """
    data = b64decode(text, validate=True)
    if not data.startswith(b"BZh"):  # bzip2's file format; zlib's data begins otherwise, RFC 1950
        return zlib.decompress(data)
    try:
        return bz2.decompress(data)
    except OSError as error:
        raise ValueError(str(error)) from error


def freeze_messages(messages: Sequence[BaseMessage], *, dense: bool = False) -> str:
    """Serialize messages as text."""
    return freeze([message_to_dict(each) for each in messages], dense=dense)


def thaw_messages(text: str) -> list[BaseMessage]:
    """Return the messages in a frozen text.

    Raises:
        DatabaseCorruptError: The text is damaged.
    """
    with sound("A stored message"):
        return messages_from_dict(thaw(text))
