"""Values that were read before: the same bytes need not be read twice.

A long record is the same but for its last turn each time it is loaded. What is given out is a copy,
so that nobody who changes a message changes what the next one is given.
"""

from collections import OrderedDict
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from langchain_core.messages import BaseMessage

MEMO_BYTES = 1_000_000
"""How many stored bytes are remembered, the newest. Source: own measurement, the newest thousand turns."""


_PLAIN = frozenset({str, int, float, bool, bytes, type(None)})


class Memo:
    """What some bytes mean, for as many bytes as it may remember."""

    def __init__(self, most: int = MEMO_BYTES) -> None:
        self._most, self._size = most, 0
        self._known: OrderedDict[tuple[str, bytes], Any] = OrderedDict()

    def get(self, kind: str, stored: bytes, read: Callable[[tuple[str, bytes]], Any]) -> Any:
        """A value of one's own.

        Args:
            kind: How it is stored.
            stored: Its bytes.
            read: Reads them where they are new.
        """
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
    """A copy of messages and plain values that shares nothing which can be changed.

    Source:
        Pydantic, `BaseModel.__copy__`: what a copy of a model consists of. It is spelled out here
        because a record is hundreds of messages, and each would be copied twice over.
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
