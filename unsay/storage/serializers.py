"""Serializers of checkpoints: compressed, and with a checksum for a file's."""

import zlib
from dataclasses import dataclass
from typing import Any

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from unsay.storage.items import guard, sound, unguard, unstorable

COMPRESSED = "+z"
"""Marks the type of a compressed value."""

COMPRESSED_FROM = 256
"""Smallest value that is worth compressing, in bytes. Source: own measurement."""

CHECKED = "+c"
"""Marks the type of a value that has a checksum of its own; a compressed one has zlib's."""

MARK = "#"
"""Separates the type of a write from the mark of its channel."""


@dataclass(frozen=True, slots=True)
class Marked:
    """A write's value with a mark of its channel and task, which no column of its row repeats."""

    value: Any
    mark: str


class CompressedSerializer(JsonPlusSerializer):
    """LangGraph's strict serializer, its larger values compressed; its errors say who must act.

    Only messages and plain values are read back: nothing in a file can name code to run.
    """

    def __init__(self) -> None:
        super().__init__(allowed_msgpack_modules=None)

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """The value's type, marked when it is compressed, and its bytes.

        Raises:
            InputError: It is no message and no plain value.
        """
        try:
            kind, data = super().dumps_typed(obj)
        except (TypeError, ValueError) as error:
            raise unstorable(error) from error
        if len(data) < COMPRESSED_FROM:
            return kind, data
        return f"{kind}{COMPRESSED}", zlib.compress(data, level=1)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value, whether it was compressed or not.

        Raises:
            DatabaseCorruptError: It is not what was written.
        """
        kind, packed = data
        with sound("A checkpoint"):
            if kind.endswith(COMPRESSED):
                kind, packed = kind.removesuffix(COMPRESSED), zlib.decompress(packed)
            return super().loads_typed((kind, packed))


class CheckedSerializer(CompressedSerializer):
    """A serializer whose values carry a checksum, zlib's or one of four bytes."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """The value's type and bytes, marked when they are guarded by a checksum of ours.

        Raises:
            InputError: It is no message and no plain value.
        """
        if isinstance(obj, Marked):
            kind, data = self.dumps_typed(obj.value)
            return f"{kind}{MARK}{obj.mark}", data
        kind, data = super().dumps_typed(obj)
        return (kind, data) if kind.endswith(COMPRESSED) else (f"{kind}{CHECKED}", guard(data))

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value, also one that was stored without a checksum.

        Raises:
            DatabaseCorruptError: It is not what was written.
        """
        with sound("A checkpoint"):
            kind, packed = data[0].partition(MARK)[0], data[1]
            if kind.endswith(CHECKED):
                kind, packed = kind.removesuffix(CHECKED), unguard(packed)
        return super().loads_typed((kind, packed))
