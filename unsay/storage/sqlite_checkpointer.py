"""LangGraph's SQLite checkpointer, extended for long conversations.

It loads a transcript without reading the state of every turn since the last snapshot, deletes
checkpoints that no later one builds on, and refuses a state that differs from what was written.
"""

import asyncio
import json
import sqlite3
import zlib
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from json import JSONDecodeError
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_id,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from unsay.storage.base import follow
from unsay.storage.items import Memo, add_checksum, damaged, reading, strip_checksum, unstorable
from unsay.storage.leases import Leases
from unsay.storage.writer_lock import set_leases

COMPRESSED = "+z"

# Smallest value that is worth compressing, in bytes. Source: own measurement.
COMPRESSED_FROM = 256
# Marks the type of a value with a checksum; a compressed value has that of zlib.
CHECKED = "+c"
ANNOTATION_SIGN = "#"

# Where a checkpoint's metadata names the channels whose values it holds.
HOLDS = "unsay_holds"
# The channel of which most checkpoints hold only the changes.
TRANSCRIPT = "messages"
# A checkpoint that holds this is one of unsay, and the event log and branches have its messages.
EVENT_LOG = "event_log"
# Full copies of a transcript that are kept, with the checkpoints that build on them. Two, because a
# run under way builds on the newest or on the one before it.
GENERATIONS = 2
_GREATEST_ID = (
    "SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ?"
)
_ANCESTORS = """
WITH RECURSIVE ancestors(id, parent, metadata, depth) AS (
  SELECT checkpoint_id, parent_checkpoint_id, metadata, 0 FROM checkpoints
  WHERE thread_id = :thread AND checkpoint_ns = :ns AND checkpoint_id = :start
  UNION ALL
  SELECT c.checkpoint_id, c.parent_checkpoint_id, c.metadata, a.depth + 1
  FROM ancestors a CROSS JOIN checkpoints c ON c.checkpoint_id = a.parent
  WHERE c.thread_id = :thread AND c.checkpoint_ns = :ns
)
SELECT id, metadata, parent FROM ancestors ORDER BY depth
"""


@dataclass(frozen=True, slots=True)
class Marked:
    """A write's value with a checksum of the channel and the task that it belongs to."""

    value: Any
    annotation: str


class CompressedSerializer(JsonPlusSerializer):
    """LangGraph's strict serializer, which compresses large values."""

    def __init__(self) -> None:
        # Only messages and plain values are restored: no value in a file can make code run.
        super().__init__(allowed_msgpack_modules=None)

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return the value's type and bytes; the type ends in `+z` if the bytes are compressed.

        Raises `InputError` if the value cannot be stored.
        """
        try:
            kind, data = super().dumps_typed(obj)
        except (TypeError, ValueError) as error:
            raise unstorable(error) from error
        if len(data) < COMPRESSED_FROM:
            return kind, data
        return f"{kind}{COMPRESSED}", zlib.compress(data, level=1)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return the value of data, compressed or not; `DatabaseCorruptError` if it cannot be decoded."""
        kind, packed = data
        with reading("A checkpoint"):
            if kind.endswith(COMPRESSED):
                kind, packed = kind.removesuffix(COMPRESSED), zlib.decompress(packed)
            return super().loads_typed((kind, packed))


class CheckedSerializer(CompressedSerializer):
    """A serializer that gives each value a checksum: zlib's own if compressed, else four bytes."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return the value's type and bytes; the type has `+c` if the bytes start with a checksum.

        The type of a `Marked` value ends in `#` and its own checksum. Raises `InputError` if the
        value cannot be stored.
        """
        if isinstance(obj, Marked):
            kind, data = self.dumps_typed(obj.value)
            return f"{kind}{ANNOTATION_SIGN}{obj.annotation}", data
        kind, data = super().dumps_typed(obj)
        return (
            (kind, data) if kind.endswith(COMPRESSED) else (f"{kind}{CHECKED}", add_checksum(data))
        )

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return the value of data with or without a checksum; `DatabaseCorruptError` if damaged."""
        with reading("A checkpoint"):
            kind, packed = data[0].partition(ANNOTATION_SIGN)[0], data[1]
            if kind.endswith(CHECKED):
                kind, packed = kind.removesuffix(CHECKED), strip_checksum(packed)
        return super().loads_typed((kind, packed))


def off_loop_method(name: str) -> Any:
    """Return the async twin of the method `name`, which runs it in a background thread."""

    async def call(self: Any, *args: Any, **options: Any) -> Any:
        return await asyncio.to_thread(getattr(self, name), *args, **options)

    return call


class OffLoop(BaseCheckpointSaver[Any]):
    """A checkpointer whose asynchronous methods run the blocking ones in a background thread."""

    aget_tuple = off_loop_method("get_tuple")
    aput = off_loop_method("put")
    aput_writes = off_loop_method("put_writes")
    adelete_thread = off_loop_method("delete_thread")
    aget_delta_channel_history = off_loop_method("get_delta_channel_history")

    async def alist(self, config: Any, **options: Any) -> AsyncIterator[Any]:
        """Yield what `list` yields; all of it is read first, in a background thread. Raises as `list`."""
        for checkpoint in await asyncio.to_thread(lambda: list(self.list(config, **options))):
            yield checkpoint


@dataclass(slots=True)
class _Walk:
    """The result of `_walk`: ids of the checkpoints that a channel's value is made from.

    `behind` has all that were passed, newest first, up to the one with the full value. `seeded` has
    that one; a channel without a full value is not in it.
    """

    behind: dict[str, list[str]] = field(default_factory=dict)
    seeded: dict[str, str] = field(default_factory=dict)


class FileSaver(OffLoop, SqliteSaver):
    """LangGraph's SQLite checkpointer; lost or changed rows raise `DatabaseCorruptError`."""

    def __init__(self, conn: sqlite3.Connection, *, serde: SerializerProtocol) -> None:
        super().__init__(conn, serde=serde)
        self.memo = Memo()
        # Of its process alone; `open_database` replaces them for a file.
        set_leases(self, Leases())

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that `config` names, else the newest of its thread and namespace.

        `None` if it does not exist. Raises `DatabaseCorruptError` if it cannot be read. Ids that
        LangGraph makes afterwards are greater than those of the thread.
        """
        thread_id = str(config["configurable"]["thread_id"])
        requested_id = get_checkpoint_id(config)
        with self.cursor(transaction=False) as cursor:
            place = (thread_id, config["configurable"].get("checkpoint_ns", ""))
            follow(*cursor.execute(_GREATEST_ID, place).fetchone())
        checkpoint_name = (
            f"Checkpoint {requested_id!r}" if requested_id else "The newest checkpoint"
        )
        with reading(f"{checkpoint_name} of {thread_id!r}"):
            checkpoint_tuple: CheckpointTuple | None = super().get_tuple(config)
            if checkpoint_tuple is not None:
                checkpoint_id = checkpoint_tuple.config["configurable"]["checkpoint_id"]
                if checkpoint_tuple.checkpoint["id"] != checkpoint_id:
                    raise ValueError(f"it is stored as {checkpoint_id!r}")
        return checkpoint_tuple

    def list(self, config: RunnableConfig | None, **options: Any) -> Iterator[CheckpointTuple]:
        """Yield the checkpoints of a thread, newest first; with `None` those of all threads.

        Raises `DatabaseCorruptError` for a damaged one.
        """
        with _metadata():
            yield from super().list(config, **options)

    def put(
        self, config: RunnableConfig, checkpoint: Any, metadata: Any, new_versions: Any
    ) -> RunnableConfig:
        """Store a checkpoint, delete those that nothing builds on any more, and return its config.

        Raises `InputError` if a value cannot be stored, `DatabaseCorruptError` for damaged metadata.
        Errors of SQLite, such as for a lost lease, are raised as `sqlite3.Error`.
        """
        # Metadata is read for many checkpoints, without their values.
        with_channels: Any = {**metadata, HOLDS: sorted(checkpoint["channel_values"])}
        with _metadata():
            new_config: RunnableConfig = super().put(
                config, checkpoint, with_channels, new_versions
            )
            # Only a new full copy makes an older one useless.
            if TRANSCRIPT in checkpoint["channel_values"]:
                self._prune(new_config["configurable"])
        return new_config

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store a step's writes, each with a checksum of its channel and its task. Raises as `put`."""
        marked = [(channel, Marked(value, _mark(channel, task_path))) for channel, value in writes]
        super().put_writes(config, marked, task_id, task_path)

    def _prune(self, newest: Mapping[str, Any]) -> None:
        """Delete the thread's checkpoints that no longer have a use.

        It keeps the `GENERATIONS` newest full copies of the transcript and all that builds on them;
        see `_doomed`.
        """
        address = (str(newest["thread_id"]), newest["checkpoint_ns"])
        if ":" in address[1]:  # a task's own subgraph is pruned below, together with its thread
            return
        with self.cursor() as cursor:
            cursor.execute(
                "SELECT checkpoint_id, parent_checkpoint_id, metadata FROM checkpoints "
                "WHERE thread_id = ? AND checkpoint_ns = ? ORDER BY checkpoint_id",
                address,
            )
            rows = [
                (name, parent, json.loads(text).get(HOLDS, ()))
                for name, parent, text in cursor.fetchall()
            ]
            whole = [
                name
                for name, _, full_channels in rows
                if TRANSCRIPT in full_channels and EVENT_LOG in full_channels
            ]
            if len(whole) <= GENERATIONS:
                return
            oldest = whole[-GENERATIONS]
            doomed = _doomed(rows, oldest)
            for table in ("checkpoints", "writes"):
                cursor.executemany(
                    f"DELETE FROM {table} WHERE thread_id = ? AND checkpoint_ns = ? "  # noqa: S608 - a constant
                    "AND checkpoint_id = ?",
                    [(*address, name) for name in doomed],
                )
                if not address[1]:
                    # A namespace without the id of a task has a state that later runs build on.
                    cursor.execute(
                        f"DELETE FROM {table} WHERE thread_id = ? "  # noqa: S608 - a constant
                        "AND instr(checkpoint_ns, ':') AND checkpoint_id < ?",
                        (address[0], oldest),
                    )

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return each channel's last full value before a checkpoint, and the writes since then.

        Without a full value the writes since the thread's first checkpoint are returned. Raises
        `DatabaseCorruptError` if a checkpoint on the way there is missing, or a write or a value is
        damaged. A write that is missing is not noticed.
        """
        configurable = config["configurable"]
        thread, ns = str(configurable["thread_id"]), configurable.get("checkpoint_ns", "")
        values = {"thread": thread, "ns": ns, "start": get_checkpoint_id(config)}
        with reading(f"The transcript of {thread!r}"):
            histories: Mapping[str, DeltaChannelHistory] | None = None
            rows: Sequence[tuple[str, str, str | None]] = ()
            with self.cursor(transaction=False) as cursor:
                if values["start"]:
                    rows = cursor.execute(_ANCESTORS, values).fetchall()
                    walk = _walk(rows[1:], channels)
                    if walk is not None:
                        histories = {
                            name: self._history(cursor, (thread, ns), name, walk)
                            for name in channels
                        }
            if histories is None:
                histories = super().get_delta_channel_history(config=config, channels=channels)
            # Without a full value the writes must reach back to the thread's first checkpoint. Another
            # process may have purged the thread meanwhile: then there are no rows at all.
            begins = not rows or any(parent is None for *_, parent in rows)
            if not begins and not all("seed" in histories[name] for name in channels):
                raise ValueError(f"an ancestor of {values['start']!r} is missing")
            self._refuse_strayed(thread)
        return histories

    def _history(
        self, cursor: Any, place: tuple[str, str], channel: str, walk: _Walk
    ) -> DeltaChannelHistory:
        ids = walk.behind[channel]
        cursor.execute(
            "SELECT checkpoint_id, task_id, idx, type, value, task_path FROM writes "
            "WHERE thread_id = ? AND checkpoint_ns = ? AND channel = ? AND checkpoint_id >= ?",
            (*place, channel, min(ids, default="~")),  # `~` is after every id
        )
        order = {name: len(ids) - index for index, name in enumerate(ids)}
        rows = [row for row in cursor.fetchall() if row[0] in order]
        rows.sort(key=lambda row: (order[row[0]], writes_sort_key(row[5], row[1], row[2])))
        loader = partial(self.memo.get, read=self.serde.loads_typed)
        history = DeltaChannelHistory(writes=[(row[1], channel, loader(*row[3:5])) for row in rows])
        if channel in walk.seeded:
            cursor.execute(
                "SELECT type, checkpoint FROM checkpoints WHERE thread_id = ? "
                "AND checkpoint_ns = ? AND checkpoint_id = ?",
                (*place, walk.seeded[channel]),
            )
            history["seed"] = loader(*cursor.fetchone())["channel_values"][channel]
        return history

    def _refuse_strayed(self, thread: str) -> None:
        """Raise `ValueError` if the channel or task of a write in the thread was changed.

        The caller's `reading` turns it into `DatabaseCorruptError`.
        """
        with self.cursor(transaction=False) as cursor:
            cursor.execute(
                "SELECT channel, task_path, type FROM writes WHERE thread_id = ?", (thread,)
            )
            for channel, path, kind in cursor:
                annotation = kind.partition(ANNOTATION_SIGN)[2]
                if annotation and annotation != _mark(channel, path):
                    raise ValueError(f"a write for {channel!r} was stored for another channel")


def _doomed(rows: Sequence[tuple[str, str | None, Collection[str]]], oldest: str) -> list[str]:
    """Return the ids of the checkpoints that can be deleted: nothing that is kept needs them.

    These are kept: the full copy `oldest`, later full copies, what builds on them, checkpoints of
    other graphs (without an event log), and the ancestors that these build on.

    Args:
        rows: Each checkpoint's id, its parent's id, and the channels that it holds; oldest first.
        oldest: Id of the oldest full copy that is kept.
    """
    live_ids = {oldest}
    # Ids are ordered by time, so a parent comes before its children.
    for name, parent, full_channels in rows:
        if EVENT_LOG not in full_channels or (
            name > oldest and (parent in live_ids or TRANSCRIPT in full_channels)
        ):
            live_ids.add(name)
    # What is kept for another graph needs its own ancestors, back to a full copy.
    for name, parent, full_channels in reversed(rows):
        if (
            name in live_ids
            and name != oldest
            and TRANSCRIPT not in full_channels
            and parent is not None
        ):
            live_ids.add(parent)
    return [name for name, _, _ in rows if name not in live_ids]


def _walk(rows: Sequence[tuple[str, str, str | None]], channels: Sequence[str]) -> _Walk | None:
    """Find each channel's last full value, and the checkpoints after it.

    `rows` are the ancestors' ids, metadata and parents, newest first. Returns `None` if a
    checkpoint does not list its channels: unsay did not write it.
    """
    walk = _Walk(behind={name: [] for name in channels})
    open_channels = set(channels)
    for checkpoint_id, metadata, _ in rows:
        if not open_channels:
            break
        full_channels = json.loads(metadata).get(HOLDS)
        if full_channels is None:
            return None
        for name in sorted(open_channels):
            walk.behind[name].append(checkpoint_id)
            if name in full_channels:
                walk.seeded[name] = checkpoint_id
                open_channels.discard(name)
    return walk


@contextmanager
def _metadata() -> Iterator[None]:
    """Return a context manager that turns damaged JSON of metadata into `DatabaseCorruptError`."""
    try:
        yield
    except (JSONDecodeError, UnicodeDecodeError) as error:
        raise damaged("A checkpoint", error) from error


def _mark(channel: str, path: str) -> str:
    return f"{zlib.crc32(f'{channel} {path}'.encode()):08x}"
