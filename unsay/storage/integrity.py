"""LangGraph's saver and store for one file, which refuse what is no longer as it was written."""

import asyncio
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from json import JSONDecodeError
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple, DeltaChannelHistory
from langgraph.store.base import Item, Op, PutOp, Result
from langgraph.store.sqlite import SqliteStore

from unsay.storage.items import damaged, guard, sound, summed, unguard, unstorable, unsummed
from unsay.storage.sqlite_checkpointer import (
    COMPRESSED,
    CompressedSerializer,
    Connection,
    FileSaver,
)

CHECKED = "+c"
"""Marks the type of a value that has a checksum of its own; a compressed one has zlib's."""


MARK = "#"
"""Stands in the type of a write before the mark of its channel."""


OURS = "unsay"
"""First label of the namespaces whose items have checksums."""


_ROOT = """
WITH RECURSIVE ancestors(parent) AS (
  SELECT parent_checkpoint_id FROM checkpoints
  WHERE thread_id = :thread AND checkpoint_ns = :ns AND checkpoint_id = :start
  UNION ALL
  SELECT c.parent_checkpoint_id
  FROM ancestors a CROSS JOIN checkpoints c ON c.checkpoint_id = a.parent
  WHERE c.thread_id = :thread AND c.checkpoint_ns = :ns
)
SELECT count(*), count(*) - count(parent) FROM ancestors
"""


_PLACES = "SELECT channel, task_path, type FROM writes WHERE thread_id = ?"


@dataclass(frozen=True, slots=True)
class _Marked:
    """A write's value with a mark of where it belongs, which no column of its row repeats."""

    value: Any
    mark: str


class SoundSerializer(CompressedSerializer):
    """The strict serializer, whose errors say who must act."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """The value's type, marked when it is compressed, and its bytes.

        Raises:
            InputError: It is no message and no plain value.
        """
        try:
            return super().dumps_typed(obj)
        except (TypeError, ValueError) as error:
            raise unstorable(error) from error

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value, whether it was compressed or not.

        Raises:
            DatabaseCorruptError: It is not what was written.
        """
        with sound("A checkpoint"):
            return super().loads_typed(data)


class CheckedSerializer(SoundSerializer):
    """A serializer whose values carry a checksum, zlib's or one of four bytes."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """The value's type and bytes, marked when they are guarded by a checksum of ours.

        Raises:
            InputError: It is no message and no plain value.
        """
        if isinstance(obj, _Marked):
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


class CheckedSaver(FileSaver):
    """The file's checkpointer; it gives no state that rows were lost of."""

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The newest checkpoint of a thread, or the one that is named.

        Raises:
            DatabaseCorruptError: It is not what was written.
        """
        thread = str(config["configurable"]["thread_id"])
        with sound(f"The newest checkpoint of {thread!r}"):
            found: CheckpointTuple | None = super().get_tuple(config)
            if found is not None:
                name = found.config["configurable"]["checkpoint_id"]
                if found.checkpoint["id"] != name:
                    raise ValueError(f"it is stored as {name!r}")
        return found

    def list(self, config: RunnableConfig | None, **options: Any) -> Iterator[CheckpointTuple]:
        """The checkpoints of a thread, the newest first; see `SqliteSaver.list`.

        Raises:
            DatabaseCorruptError: One is not what was written.
        """
        with _metadata():
            yield from super().list(config, **options)

    def put(
        self, config: RunnableConfig, checkpoint: Any, metadata: Any, new_versions: Any
    ) -> RunnableConfig:
        """Store a checkpoint; see `FileSaver.put`.

        Raises:
            DatabaseCorruptError: An older one is not what was written.
            InputError: It holds what is no message and no plain value.
        """
        with _metadata():
            return super().put(config, checkpoint, metadata, new_versions)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What rebuilds each channel: its last whole value, and the writes since.

        Raises:
            DatabaseCorruptError: A checkpoint on the way there is gone or not what was written.
        """
        place = config["configurable"]
        thread, start = str(place["thread_id"]), place.get("checkpoint_id")
        with sound(f"The record of {thread!r}"):
            found = super().get_delta_channel_history(config=config, channels=channels)
            if start and not all("seed" in found[name] for name in channels):
                self._refuse_gap(thread, place.get("checkpoint_ns", ""), start)
            self._refuse_strayed(thread)
        return found

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store a step's writes; each bears a mark of the channel and the place it is for."""
        marked = [(channel, _Marked(value, _mark(channel, task_path))) for channel, value in writes]
        super().put_writes(config, marked, task_id, task_path)

    def _refuse_gap(self, thread: str, ns: str, start: str) -> None:
        """Let nothing be built on writes alone that do not lead back to a thread's beginning.

        A thread that was purged meanwhile has no such writes at all.
        """
        values = {"thread": thread, "ns": ns, "start": start}
        with self.cursor(transaction=False) as cursor:
            there, roots = cursor.execute(_ROOT, values).fetchone()
        if there and not roots:
            raise ValueError(f"an ancestor of {start!r} is missing")

    def _refuse_strayed(self, thread: str) -> None:
        """Let no write be left out, or come at another place, because its row was changed."""
        with self.cursor(transaction=False) as cursor:
            cursor.execute(_PLACES, (thread,))
            for channel, path, kind in cursor:
                mark = kind.partition(MARK)[2]
                if mark and mark != _mark(channel, path):
                    raise ValueError(f"a write for {channel!r} was stored for another channel")


@contextmanager
def _metadata() -> Iterator[None]:
    """What JSON's reader makes of damaged metadata, as our error."""
    try:
        yield
    except (JSONDecodeError, UnicodeDecodeError) as error:
        raise damaged("A checkpoint", error) from error


def _mark(channel: str, path: str) -> str:
    return f"{zlib.crc32(f'{channel} {path}'.encode()):08x}"


class FileStore(SqliteStore):
    """LangGraph's SQLite store, usable from an event loop as well; our items have checksums."""

    conn: Connection
    """Of this store alone."""

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """What some operations find, or nothing of them.

        Raises:
            DatabaseCorruptError: An item is not what was written.
        """
        given = [_guarded(op) for op in ops]
        with _told(puts=any(isinstance(op, PutOp) for op in given)):
            results = super().batch(given)
        for found in results:
            for item in found if isinstance(found, list) else [found]:
                if isinstance(item, Item) and item.namespace[0] == OURS:
                    item.value = unsummed(item.namespace, item.key, item.value)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """`batch`, off the event loop."""
        return await asyncio.to_thread(self.batch, list(ops))

    @contextmanager
    def _cursor(self, *, transaction: bool = True) -> Iterator[sqlite3.Cursor]:
        """A cursor in a transaction that is taken back when anything ends it early."""
        with super()._cursor(transaction=transaction) as cursor:
            try:
                yield cursor
            except BaseException:  # whatever ends it early must leave no half transaction
                self.conn.rollback()
                raise


def _guarded(op: Op) -> Op:
    if isinstance(op, PutOp) and op.value is not None and op.namespace[0] == OURS:
        return op._replace(value=summed(op.namespace, op.key, op.value))
    return op


@contextmanager
def _told(*, puts: bool) -> Iterator[None]:
    """What a store's reader makes of damaged rows, as one error; a caller's own errors stay."""
    try:
        yield
    except (AttributeError, TypeError, ValueError) as error:
        if isinstance(error.__cause__, sqlite3.Error):
            raise error.__cause__ from None
        if puts or str(error).startswith(("Invalid filter key", "Unsupported operator")):
            raise
        raise damaged("An item", f"{type(error).__name__}: {error}") from error
