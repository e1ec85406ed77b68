"""Finding out whether a checkpointer can replay deltas."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from unsay.graph.builder import can_replay_deltas
from unsay.storage.sqlite import open_database


class Forgetful(InMemorySaver):
    """Stores no writes at all."""

    def put_writes(self, *args: Any, **kwargs: Any) -> None:
        """Drop them."""


class Shallow(InMemorySaver):
    """Keeps the newest checkpoint's writes alone."""

    def put(self, config: Any, *args: Any) -> Any:
        """Drop the older writes first."""
        self.writes.clear()
        return super().put(config, *args)


class Jumbled(InMemorySaver):
    """Gives the writes back newest first."""

    def get_delta_channel_history(self, **kwargs: Any) -> Any:
        """The writes, in the wrong order."""
        histories = super().get_delta_channel_history(**kwargs)
        return {name: {**item, "writes": item["writes"][::-1]} for name, item in histories.items()}


class Unforgiving(InMemorySaver):
    """Cannot delete."""

    def delete_thread(self, thread_id: str) -> None:
        """Refuse."""
        raise NotImplementedError


class AsyncOnly(BaseCheckpointSaver[Any]):
    """Has no blocking methods, but awaited ones."""

    async def aput_writes(self, *args: Any, **kwargs: Any) -> None:
        """Store them."""


class Old:
    """A saver from before deltas."""


class Broken(InMemorySaver):
    """Fails."""

    def put_writes(self, *args: Any, **kwargs: Any) -> None:
        """Fail."""
        raise OSError("disk")


@pytest.mark.parametrize(
    ("saver", "can"),
    [
        pytest.param(InMemorySaver, True, id="memory"),
        pytest.param(Unforgiving, True, id="cannot delete"),
        pytest.param(AsyncOnly, True, id="awaited methods alone"),
        pytest.param(Forgetful, False, id="drops writes"),
        pytest.param(Shallow, False, id="drops old writes"),
        pytest.param(Jumbled, False, id="gives writes in another order"),
        pytest.param(BaseCheckpointSaver, False, id="stores nothing"),
        pytest.param(Old, False, id="has no such method"),
    ],
)
def test_a_saver_is_tried(saver: Any, *, can: bool) -> None:
    """Only a saver that gives back every write in order is trusted."""
    assert can == can_replay_deltas(saver())


def test_a_file_is_tried_and_left_clean(tmp_path: Path) -> None:
    """SQLite can replay, and the scratch thread is gone afterwards."""
    database = open_database(tmp_path / "t.db")
    with sqlite3.connect(tmp_path / "plain.db", check_same_thread=False) as connection:
        plain = SqliteSaver(connection)
        can = [can_replay_deltas(item) for item in (database.saver, plain)]
    leftovers = [
        list(item.conn.execute("SELECT 1 FROM checkpoints UNION SELECT 1 FROM writes"))
        for item in (database.saver, plain)
    ]
    database.close()
    connection.close()

    assert [True, True] == can
    assert [[], []] == leftovers


def test_memory_is_left_clean() -> None:
    """Nothing of the try stays in a saver that other threads live in."""
    saver = InMemorySaver()
    can_replay_deltas(saver)

    assert [] == list(saver.list(None))
    assert [] == [write for write in saver.writes.values() if write]


def test_a_broken_saver_says_so() -> None:
    """A fault of the saver is not taken for an answer."""
    with pytest.raises(OSError, match="disk"):
        can_replay_deltas(Broken())


async def test_a_saver_bound_to_the_running_loop_is_not_blocked_on(tmp_path: Path) -> None:
    """Trying LangGraph's own SQLite saver for event loops on its loop ends, and trusts it."""
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "t.db")) as saver:
        assert can_replay_deltas(saver)
