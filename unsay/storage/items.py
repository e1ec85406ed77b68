"""Items of a LangGraph store: their namespaces, the calls that read and write them, checksums."""

import bz2
import hashlib
import json
import zlib
from base64 import b64decode, b64encode
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, Literal
from urllib.parse import quote

from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.store.base import BaseStore, GetOp, Item, PutOp

from unsay.effects import Call, Steps
from unsay.errors import DatabaseCorruptError, InputError

Kind = Literal[
    "branches",
    "budgets",
    "compensations",
    "event_log",
    "offloaded",
    "requests",
    "runs",
    "steps",
    "stopped",
    "tool_steps",
    "turns",
]
"""The kinds of items that a store has for one thread; a purge deletes all of them."""


def thread_namespace(kind: Kind, thread_id: str) -> tuple[str, ...]:
    """Return the store's namespace for one kind of a thread's items; the id is escaped in it."""
    return ("unsay", kind, quoted(thread_id))


def quoted(thread_id: str) -> str:
    """Return a thread's id escaped as in a URL, dots too, for use as a label of a namespace."""
    return quote(thread_id, safe="").replace(".", "%2E")


def put_item(
    store: BaseStore, namespace: tuple[str, ...], key: str, value: Mapping[str, Any]
) -> Call[None]:
    """Return a call that writes an item, which is not indexed and never expires.

    A lone surrogate, which a store's JSON cannot hold, becomes `?` as in a checkpoint.
    """
    # `index` and `ttl`: a host's store may index its items, or delete them after a while.
    plain = storable(value)
    return Call.of(store.put, store.aput, namespace, key, plain, index=False, ttl=None)


def put_items(
    store: BaseStore, namespace: tuple[str, ...], values: Mapping[str, Mapping[str, Any]]
) -> Call[object]:
    """Return a call that writes several items in one batch; `values` maps each key to its value.

    In unsay's databases a batch is one transaction. The items are not indexed and never expire;
    lone surrogates become `?`.
    """
    return put_in_namespaces(store, {namespace: values})


def put_in_namespaces(
    store: BaseStore, values: Mapping[tuple[str, ...], Mapping[str, Mapping[str, Any]]]
) -> Call[object]:
    """Return a call that writes items of several namespaces in one batch, as `put_items` does."""
    ops = [
        PutOp(namespace=namespace, key=key, value=storable(value), index=False, ttl=None)
        for namespace, items in values.items()
        for key, value in items.items()
    ]
    return Call.of(store.batch, store.abatch, ops)


def get_item(store: BaseStore, namespace: tuple[str, ...], key: str) -> Call[Item | None]:
    """Return a call whose result is the `Item`, or `None` if it does not exist.

    In unsay's databases the call raises `DatabaseCorruptError` for a damaged item.
    """
    return Call.of(store.get, store.aget, namespace, key)


def get_items(
    store: BaseStore, namespace: tuple[str, ...], keys: Sequence[str]
) -> Steps[dict[str, dict[str, Any]]]:
    """Read several items and return their values by key; items that do not exist are left out.

    Raises as `get_item` if one is damaged.
    """
    if not keys:
        return {}
    ops = [GetOp(namespace=namespace, key=key, refresh_ttl=False) for key in keys]
    items = yield from Call.of(store.batch, store.abatch, ops)
    return {item.key: item.value for item in items if isinstance(item, Item)}


def drop_items(store: BaseStore, namespace: tuple[str, ...], keys: Sequence[str]) -> Call[object]:
    """Return a call that deletes several items in one batch; missing keys are skipped."""
    ops = [PutOp(namespace=namespace, key=key, value=None) for key in keys]
    return Call.of(store.batch, store.abatch, ops)


def storable(value: Any) -> Any:
    """Return a copy of a plain value with `?` in place of lone surrogates, which UTF-8 cannot hold.

    Tuples become lists.
    """
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, Mapping):
        return {storable(name): storable(item) for name, item in value.items()}
    return [storable(item) for item in value] if isinstance(value, list | tuple) else value


# Size of the cache in stored bytes: about the newest thousand turns. Source: own measurement.
MEMO_BYTES = 1_000_000
# Immutable, so that copies may share them.
_PLAIN = frozenset({str, int, float, bool, bytes, type(None)})


class Memo:
    """Cache of deserialized values for one checkpointer.

    The values that were not used for the longest time are dropped when the serialized ones have
    more than `most` bytes together.
    """

    def __init__(self, most: int = MEMO_BYTES) -> None:
        self._most, self._size = most, 0
        self._known: OrderedDict[tuple[str, bytes], Any] = OrderedDict()

    def get(self, kind: str, stored: bytes, read: Callable[[tuple[str, bytes]], Any]) -> Any:
        """Return the deserialized value of `stored`, as a copy that the caller may change.

        A value that is not in the cache is made by `read((kind, stored))` and added, unless it
        alone is larger than the cache; errors of `read` are raised. `kind` is the type that the
        serializer wrote.
        """
        key = (kind, stored)
        if len(stored) > self._most:  # it would push out all others
            return read(key)
        if key in self._known:
            self._known.move_to_end(key)
        else:
            self._known[key] = read(key)
            self._size += len(stored)
            while self._size > self._most:
                (_, oldest), _ = self._known.popitem(last=False)
                self._size -= len(oldest)
        return clone(self._known[key])


def clone(value: Any) -> Any:
    """Return a deep copy of messages and plain values, faster than `deepcopy`."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is list:
        return [clone(item) for item in value]
    if kind is dict:
        return _clone_dict(value)
    if isinstance(value, tuple):
        return kind(*map(clone, value)) if hasattr(kind, "_fields") else tuple(map(clone, value))
    if not isinstance(value, BaseMessage):
        return deepcopy(value)
    # What pydantic's `BaseModel.__copy__` does, written out: a transcript has hundreds of messages,
    # and `copy` followed by a copy of the parts would copy each of them twice.
    duplicate: Any = object.__new__(kind)
    object.__setattr__(duplicate, "__dict__", _clone_dict(vars(value)))
    object.__setattr__(duplicate, "__pydantic_fields_set__", set(value.__pydantic_fields_set__))
    object.__setattr__(duplicate, "__pydantic_extra__", clone(value.__pydantic_extra__))
    object.__setattr__(duplicate, "__pydantic_private__", clone(value.__pydantic_private__))
    return duplicate


def _clone_dict(values: dict[Any, Any]) -> dict[Any, Any]:
    return {key: item if type(item) in _PLAIN else clone(item) for key, item in values.items()}


BACKUP = "restore a backup of the database"

# Key of the checksum in an item's value.
SUM = "unsay_sum"


def damaged(what: str, error: object) -> DatabaseCorruptError:
    """Return the error for a stored value that differs from what was written.

    The caller raises it. `what` names the value and begins the message.
    """
    return DatabaseCorruptError(f"{what} is damaged ({error}): {BACKUP}")


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Return a context manager that turns errors of a deserializer into `DatabaseCorruptError`.

    `what` names the stored value in the error.
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


def digest_of(text: str) -> str:
    """Return the SHA-256 of a text as hexadecimal digits; ids of a host may have lone surrogates."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def add_checksum(data: bytes) -> bytes:
    """Return bytes with a checksum of 4 bytes before them."""
    return zlib.crc32(data).to_bytes(4) + data


def strip_checksum(data: bytes) -> bytes:
    """Return the bytes after the checksum of four bytes; `ValueError` if the checksum is wrong."""
    if add_checksum(data[4:]) != data:
        raise ValueError("the checksum does not match")
    return data[4:]


def with_checksum(namespace: tuple[str, ...], key: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item's value with a checksum of the value, its namespace and its key.

    A value that is not plain JSON is returned without a checksum.
    """
    try:
        return {**value, SUM: _sum(namespace, key, value)}
    except (TypeError, ValueError):
        return dict(value)


def without_checksum(namespace: tuple[str, ...], key: str, value: Any) -> dict[str, Any]:
    """Return a value without its checksum, if it has one.

    Raises `DatabaseCorruptError` if the checksum is wrong or the value is not a dict.
    """
    item_name = f"The item {key!r} of {namespace!r}"
    if not isinstance(value, dict):
        raise damaged(item_name, "it is not a JSON object")
    rest = {name: field for name, field in value.items() if name != SUM}
    if SUM in value and value[SUM] != _sum(namespace, key, rest):
        raise damaged(item_name, "the checksum does not match")
    return rest


def _sum(namespace: tuple[str, ...], key: str, value: Mapping[str, Any]) -> int:
    text = json.dumps([*namespace, key, value], allow_nan=False)
    return zlib.crc32(text.encode("ascii"))


_SERIALIZER = JsonPlusSerializer(allowed_msgpack_modules=None)


def unstorable(error: Exception) -> InputError:
    """Return the error for a value that a checkpoint cannot hold; the caller raises it."""
    return InputError(
        f"This value cannot be stored ({error}): use messages, text, numbers, bytes, and lists and "
        "dicts of these"
    )


def packed(value: Any) -> bytes:
    """Serialize a plain value as a checkpoint does; `InputError` if a part cannot be stored."""
    try:
        _, data = _SERIALIZER.dumps_typed(value)
    except (TypeError, ValueError) as error:
        raise unstorable(error) from error
    return data


def unpacked(data: bytes) -> Any:
    """Deserialize bytes that `packed` returned; `DatabaseCorruptError` if they are damaged."""
    with reading("A stored value"):
        return _SERIALIZER.loads_typed(("msgpack", data))


def freeze(value: Any, *, dense: bool = False) -> str:
    """Serialize a plain value and compress it into text; `thaw` restores it.

    `dense` is slower and saves up to a quarter of the size. Raises `InputError` if a part of the
    value cannot be stored.
    """
    return frozen(packed(value), dense=dense)


# Size of a value that is compressed in less time, and not with others: a host added many messages.
LARGE = 1_000_000


def frozen(plain: bytes, *, dense: bool = False) -> str:
    """Compress bytes that `packed` returned into text; `bytes_of` restores them.

    `dense` is slower and saves up to a quarter of the size.
    """
    # Of many messages at a time the best level takes four times as long, and saves a seventh.
    level = 6 if len(plain) < LARGE else 1
    data = bz2.compress(plain) if dense else zlib.compress(plain, level=level)
    return b64encode(data).decode("ascii")


def thaw(text: str) -> Any:
    """Deserialize a text that `freeze` returned; `DatabaseCorruptError` if it is damaged."""
    with reading("A stored value"):
        return unpacked(bytes_of(text))


def bytes_of(text: str) -> bytes:
    """Decompress a text that `frozen` returned; `ValueError` or `zlib.error` if it is damaged."""
    data = b64decode(text, validate=True)
    if not data.startswith(b"BZh"):  # the header of bzip2; data of zlib never begins so, RFC 1950
        return zlib.decompress(data)
    try:
        return bz2.decompress(data)
    except OSError as error:
        raise ValueError(str(error)) from error


def freeze_messages(messages: Sequence[BaseMessage]) -> str:
    """Serialize messages as `freeze` does; `thaw_messages` restores them.

    Raises `InputError` if one has a part that cannot be stored.
    """
    return freeze([message_to_dict(message) for message in messages])


def thaw_messages(text: str) -> list[BaseMessage]:
    """Deserialize a text that `freeze_messages` returned; `DatabaseCorruptError` if damaged."""
    with reading("A stored message"):
        return messages_from_dict(thaw(text))
