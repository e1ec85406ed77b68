"""LangGraph's SQLite checkpointer, with what a long conversation asks of it.

It loads a record without reading the state of every turn since the last snapshot,
and lets go of checkpoints that no later one builds on: what they told of the
conversation is in the ledger.
"""

import asyncio
import json
import sqlite3
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    DeltaChannelHistory,
    get_checkpoint_id,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from unsay.storage.items import Memo

COMPRESSED = "+z"
"""Marks the type of a compressed value."""


COMPRESSED_FROM = 256
"""Smallest value that is worth compressing, in bytes. Source: own measurement."""


HOLDS = "unsay_holds"
"""Where a checkpoint's metadata names the channels whose values it holds."""


RECORD = "messages"
"""The channel of which most checkpoints hold only what was added."""


GENERATIONS = 2
"""How many of the newest whole copies of a record keep the checkpoints behind them.

Two: whatever is under way builds on the newest, or on the one before it.
"""


_ANCESTORS = """
WITH RECURSIVE ancestors(id, parent, metadata, depth) AS (
  SELECT checkpoint_id, parent_checkpoint_id, metadata, 0 FROM checkpoints
  WHERE thread_id = :thread AND checkpoint_ns = :ns AND checkpoint_id = :start
  UNION ALL
  SELECT c.checkpoint_id, c.parent_checkpoint_id, c.metadata, a.depth + 1
  FROM ancestors a CROSS JOIN checkpoints c ON c.checkpoint_id = a.parent
  WHERE c.thread_id = :thread AND c.checkpoint_ns = :ns
)
SELECT id, metadata FROM ancestors ORDER BY depth
"""


class CompressedSerializer(JsonPlusSerializer):
    """LangGraph's strict serializer, its larger values compressed.

    Only messages and plain values are read back: nothing in a file can name code to run.
    """

    def __init__(self) -> None:
        super().__init__(allowed_msgpack_modules=None)

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """The value's type, marked when it is compressed, and its bytes."""
        kind, data = super().dumps_typed(obj)
        if len(data) < COMPRESSED_FROM:
            return kind, data
        return f"{kind}{COMPRESSED}", zlib.compress(data, level=1)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value, whether it was compressed or not."""
        kind, packed = data
        if kind.endswith(COMPRESSED):
            kind, packed = kind.removesuffix(COMPRESSED), zlib.decompress(packed)
        return super().loads_typed((kind, packed))


class OffLoop(BaseCheckpointSaver[Any]):
    """A checkpointer that is usable from an event loop as well: its calls move to a thread."""

    async def aget_tuple(self, config: Any) -> Any:
        """`get_tuple`, off the event loop."""
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(self, config: Any, **options: Any) -> AsyncIterator[Any]:
        """`list`, off the event loop."""
        for found in await asyncio.to_thread(lambda: list(self.list(config, **options))):
            yield found

    async def aput(self, *args: Any, **options: Any) -> Any:
        """`put`, off the event loop."""
        return await asyncio.to_thread(self.put, *args, **options)

    async def aput_writes(self, *args: Any, **options: Any) -> None:
        """`put_writes`, off the event loop."""
        await asyncio.to_thread(self.put_writes, *args, **options)

    async def adelete_thread(self, thread_id: str) -> None:
        """`delete_thread`, off the event loop."""
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def aget_delta_channel_history(self, *, config: Any, channels: Sequence[str]) -> Any:
        """`get_delta_channel_history`, off the event loop."""
        return await asyncio.to_thread(
            lambda: self.get_delta_channel_history(config=config, channels=channels)
        )


@dataclass(slots=True)
class _Walk:
    """How far back each channel must be read."""

    behind: dict[str, list[str]] = field(default_factory=dict)
    """For each channel, the checkpoints whose writes lead from its seed, the newest first."""

    seeded: dict[str, str] = field(default_factory=dict)
    """For each channel, the checkpoint that holds it whole."""


class FileSaver(OffLoop, SqliteSaver):
    """LangGraph's SQLite checkpointer, usable from an event loop as well."""

    def __init__(self, conn: sqlite3.Connection, *, serde: SerializerProtocol) -> None:
        super().__init__(conn, serde=serde)
        self.memo = Memo()

    def put(
        self, config: RunnableConfig, checkpoint: Any, metadata: Any, new_versions: Any
    ) -> RunnableConfig:
        """Store a checkpoint, and let go of those that nothing builds on any more."""
        noted: Any = {**metadata, HOLDS: sorted(checkpoint["channel_values"])}
        stored: RunnableConfig = super().put(config, checkpoint, noted, new_versions)
        if RECORD in checkpoint["channel_values"]:
            self._let_go(stored["configurable"])
        return stored

    def _let_go(self, newest: Mapping[str, Any]) -> None:
        """Delete what is older than the last whole copies of the record."""
        place = (str(newest["thread_id"]), newest["checkpoint_ns"])
        if place[1]:
            return
        with self.cursor() as cursor:
            cursor.execute(
                "SELECT checkpoint_id, parent_checkpoint_id, metadata FROM checkpoints "
                "WHERE thread_id = ? AND checkpoint_ns = ? ORDER BY checkpoint_id",
                place,
            )
            rows = cursor.fetchall()
            whole = [name for name, _, noted in rows if RECORD in json.loads(noted).get(HOLDS, ())]
            if len(whole) <= GENERATIONS:
                return
            doomed = _doomed([row[:2] for row in rows], whole[-GENERATIONS:])
            for table in ("checkpoints", "writes"):
                cursor.executemany(
                    f"DELETE FROM {table} WHERE thread_id = ? AND checkpoint_id = ?",  # noqa: S608 - a name of ours
                    [(place[0], name) for name in doomed],
                )
                cursor.execute(
                    f"DELETE FROM {table} WHERE thread_id = ? AND checkpoint_ns != ? "  # noqa: S608 - a name of ours
                    "AND checkpoint_id < ?",
                    (*place, whole[-GENERATIONS]),
                )

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What rebuilds each channel: its last whole value, and the writes since."""
        configurable = config["configurable"]
        thread, ns = str(configurable["thread_id"]), configurable.get("checkpoint_ns", "")
        start = get_checkpoint_id(config)
        with self.cursor(transaction=False) as cursor:
            cursor.execute(_ANCESTORS, {"thread": thread, "ns": ns, "start": start})
            walk = _walk(cursor.fetchall()[1:], channels) if start else None
            if walk is not None:
                return {name: self._history(cursor, (thread, ns), name, walk) for name in channels}
        return super().get_delta_channel_history(config=config, channels=channels)

    def _history(
        self, cursor: Any, place: tuple[str, str], channel: str, walk: _Walk
    ) -> DeltaChannelHistory:
        ids = walk.behind[channel]
        cursor.execute(
            "SELECT checkpoint_id, task_id, idx, type, value, task_path FROM writes "
            "WHERE thread_id = ? AND checkpoint_ns = ? AND channel = ? AND checkpoint_id >= ?",
            (*place, channel, min(ids, default="~")),
        )
        order = {name: len(ids) - index for index, name in enumerate(ids)}
        rows = [row for row in cursor.fetchall() if row[0] in order]
        rows.sort(key=lambda row: (order[row[0]], writes_sort_key(row[5], row[1], row[2])))
        history = DeltaChannelHistory(
            writes=[(row[1], channel, self._read(row[3], row[4])) for row in rows]
        )
        if channel in walk.seeded:
            cursor.execute(
                "SELECT type, checkpoint FROM checkpoints WHERE thread_id = ? "
                "AND checkpoint_ns = ? AND checkpoint_id = ?",
                (*place, walk.seeded[channel]),
            )
            history["seed"] = self._read(*cursor.fetchone())["channel_values"][channel]
        return history

    def _read(self, kind: str, stored: bytes) -> Any:
        """A stored value; the cursor's lock is held."""
        return self.memo.get(kind, stored, self.serde.loads_typed)


def _doomed(rows: Sequence[tuple[str, str | None]], whole: Sequence[str]) -> list[str]:
    """The checkpoints that are older than some whole copies, or do not build on one of them.

    Args:
        rows: Of one thread, oldest first: id, and that of the parent.
        whole: The copies that stay.
    """
    sound, doomed = set(whole), []
    for name, parent in rows:
        if name in sound or (name > whole[0] and parent in sound):
            sound.add(name)
        else:
            doomed.append(name)
    return doomed


def _walk(rows: Sequence[tuple[str, str]], channels: Sequence[str]) -> _Walk | None:
    """Where each channel's value begins; `None` where a checkpoint does not say what it holds."""
    walk = _Walk(behind={name: [] for name in channels})
    open_channels = set(channels)
    for checkpoint_id, metadata in rows:
        if not open_channels:
            break
        held = json.loads(metadata).get(HOLDS)
        if held is None:
            return None
        for name in sorted(open_channels):
            walk.behind[name].append(checkpoint_id)
            if name in held:
                walk.seeded[name] = checkpoint_id
                open_channels.discard(name)
    return walk


class Cursor(sqlite3.Cursor):
    """A cursor whose statements, when one fails, take back all that their transaction did."""

    def execute(self, sql: str, parameters: Any = (), /) -> Self:
        """See `sqlite3.Cursor.execute`; to commit what was taken back changes nothing."""
        if sql == "COMMIT" and not self.connection.in_transaction:
            return self
        try:
            return super().execute(sql, parameters)
        except sqlite3.Error as error:
            take_back(self.connection, error)
            raise

    def executemany(self, sql: str, parameters: Any, /) -> Self:
        """See `sqlite3.Cursor.executemany`."""
        try:
            return super().executemany(sql, parameters)
        except sqlite3.Error as error:
            take_back(self.connection, error)
            raise


class Connection(sqlite3.Connection):
    """A connection that commits nothing of what failed.

    LangGraph's saver and store end what they began with a commit, also where one of its statements
    failed: half of a step's writes would be stored, and the step be taken for done.

    Source:
        SQLite, "Transaction", response to errors: after a full disk, a lock or a broken read an
        application is to roll back by itself.
    """

    busy_seconds: float = 0.0
    """How long it waits for another process's lock."""

    def cursor(self, factory: Any = Cursor) -> Any:
        """See `sqlite3.Connection.cursor`."""
        return super().cursor(factory)

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        """See `sqlite3.Connection.execute`."""
        return self.cursor().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Any, /) -> Any:
        """See `sqlite3.Connection.executemany`."""
        return self.cursor().executemany(sql, parameters)

    def commit(self) -> None:
        """See `sqlite3.Connection.commit`."""
        try:
            super().commit()
        except sqlite3.Error as error:
            take_back(self, error)
            raise


def connect(path: str, *, busy_seconds: float, isolation_level: str | None = "") -> Connection:
    """A connection that any thread may use, one at a time.

    Args:
        path: Of the file, or `:memory:`.
        busy_seconds: How long to wait for another process's lock.
        isolation_level: See `sqlite3.connect`; `None` is autocommit.

    Source:
        SQLite, "Defense Against The Dark Arts": for files that others may have written to.
    """
    connection = sqlite3.connect(
        path,
        timeout=busy_seconds,
        check_same_thread=False,
        isolation_level=isolation_level,  # type: ignore[arg-type]
        factory=Connection,
    )
    connection.busy_seconds = busy_seconds
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute("PRAGMA cell_size_check=ON")
    return connection


def take_back(connection: sqlite3.Connection, error: sqlite3.Error) -> None:
    """Roll back what a failed statement stands in, and note in its error how long was waited."""
    vars(error)["busy_seconds"] = getattr(connection, "busy_seconds", 0.0)
    if connection.in_transaction:
        with suppress(sqlite3.Error):
            connection.rollback()
