"""The exams that every LangGraph checkpointer sits, taken by the one that our files are kept with."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langgraph.checkpoint.base import Checkpoint, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from unsay.storage.base import Database
from unsay.storage.sqlite import open_database

BASE = ("put", "put_writes", "get_tuple", "list", "delete_thread")
"""What every checkpointer must do. Source: langgraph-checkpoint-conformance 0.0.2, capabilities."""

FIRST = "00000000-0000-0000-0000-000000000000"
LAST = "ffffffff-ffff-ffff-ffff-ffffffffffff"
"""Ids of tasks that sort before and behind all others."""


@pytest.fixture(params=["file", "memory"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A database of unsay, in a file or in memory."""
    database = open_database(tmp_path / "t.db" if request.param == "file" else ":memory:")
    yield database
    database.close()


@pytest.mark.parametrize("capability", BASE)
async def test_the_conformance_exam(capability: str, database: Database) -> None:
    """Our checkpointer passes every test of LangGraph's own exam."""

    @checkpointer_test(name="unsay")
    async def ours() -> AsyncIterator[Any]:
        yield database.saver

    report = await validate(ours, capabilities={capability})

    result = report.results[capability]
    assert [] == result.failures
    assert result.detected
    assert 0 < result.tests_passed


Put = Callable[..., Any]


class Chain:
    """A thread whose checkpoints hold some channels whole, and whose writes lead from one to the next.

    Source:
        LangGraph's exam for `get_delta_channel_history`, which its released package lacks.
    """

    def __init__(self, saver: Any) -> None:
        self.saver = saver
        self.thread = str(uuid4())
        self.configs: list[Any] = []

    async def step(self, writes: Any = (), **snapshots: Any) -> Any:
        """One more checkpoint that holds these channels whole, and the writes made on it."""
        configurable = {"thread_id": self.thread, "checkpoint_ns": ""}
        if self.configs:
            configurable["checkpoint_id"] = self.configs[-1]["configurable"]["checkpoint_id"]
        number = len(self.configs)
        checkpoint: Checkpoint = {
            **empty_checkpoint(),
            "id": str(uuid6(clock_seq=-1)),
            "channel_values": snapshots,
            "channel_versions": dict.fromkeys(snapshots, number + 1),
        }
        metadata: Any = {"source": "loop", "step": number, "parents": {}}
        config = await self.saver.aput(
            {"configurable": configurable}, checkpoint, metadata, checkpoint["channel_versions"]
        )
        self.configs.append(config)
        if writes:
            await self.saver.aput_writes(config, list(writes), str(uuid4()))
        return config

    async def history(self, *channels: str) -> Any:
        """What rebuilds the channels at the newest checkpoint."""
        return await self.saver.aget_delta_channel_history(
            config=self.configs[-1], channels=list(channels)
        )


def values(history: Any, channel: str = "ch") -> list[Any]:
    """The values that a history writes, in its order."""
    return [value for _, _, value in history[channel]["writes"]]


@pytest.fixture(params=["ours", "theirs"])
def chain(request: pytest.FixtureRequest, database: Database) -> Chain:
    """A new thread; LangGraph's own checkpointer sits the same exam, so that the exam is sound."""
    return Chain(database.saver if request.param == "ours" else InMemorySaver())


async def test_writes_come_oldest_first(chain: Chain) -> None:
    """What was written since the whole value comes in the order of its writing."""
    await chain.step(ch=_DeltaSnapshot(0))
    for number in (1, 2, 3, 4):
        await chain.step([("ch", number)])

    assert [1, 2, 3] == values(await chain.history("ch"))


async def test_the_nearest_whole_value_is_the_seed(chain: Chain) -> None:
    """Of two whole values the newer counts, and only what was written since."""
    await chain.step(ch=_DeltaSnapshot("old"))
    await chain.step([("ch", 1)])
    await chain.step(ch=_DeltaSnapshot("new"))
    await chain.step([("ch", 2)])
    await chain.step()
    history = await chain.history("ch")

    seed = history["ch"]["seed"]
    assert "new" == getattr(seed, "value", seed)
    assert [2] == values(history)


async def test_writes_that_are_pending_are_left_out(chain: Chain) -> None:
    """What was written on the newest checkpoint itself is not yet history."""
    await chain.step(ch=_DeltaSnapshot(0))
    await chain.step([("ch", 1)])
    await chain.step([("ch", "pending")])

    assert [1] == values(await chain.history("ch"))


async def test_each_channel_is_walked_by_itself(chain: Chain) -> None:
    """One channel's whole value does not end the way back of another."""
    for number in range(5):
        snapshots = {1: {"a": _DeltaSnapshot("a")}, 3: {"b": _DeltaSnapshot("b")}}.get(number, {})
        await chain.step([("a", number), ("b", number)], **snapshots)
    history = await chain.history("a", "b")

    assert ([1, 2, 3], [3]) == (values(history, "a"), values(history, "b"))


async def test_no_channel_asked_for_is_none_given(chain: Chain) -> None:
    """An empty question has an empty answer."""
    await chain.step(ch=_DeltaSnapshot(0))

    assert {} == await chain.history()


async def test_without_a_whole_value_there_is_no_seed(chain: Chain) -> None:
    """A channel that was never stored whole is rebuilt from its writes alone."""
    for number in range(3):
        await chain.step([("ch", number)])
    history = await chain.history("ch")

    assert "seed" not in history["ch"]
    assert [0, 1] == values(history)


async def test_a_plain_value_of_earlier_days_is_a_seed(chain: Chain) -> None:
    """A thread that was stored without deltas continues from its last plain value."""
    await chain.step([("ch", 0)])
    await chain.step(ch=[10, 20])
    await chain.step([("ch", 2)])
    await chain.step([("ch", 3)])
    history = await chain.history("ch")

    assert [10, 20] == history["ch"]["seed"]
    assert [2] == values(history)


async def test_writes_on_the_seed_itself_are_replayed(chain: Chain) -> None:
    """A whole value is the state before the writes that were made on its checkpoint."""
    await chain.step([("ch", "older")], ch=[10])
    await chain.step([("ch", "at the seed")], ch=[10, 20])
    await chain.step([("ch", "after it")])
    await chain.step([("ch", "pending")])
    history = await chain.history("ch")

    assert [10, 20] == history["ch"]["seed"]
    assert ["at the seed", "after it"] == values(history)


@pytest.mark.parametrize(
    ("paths", "order"),
    [
        pytest.param(("~pull, 02", "~pull, 01"), ["second", "first"], id="by their paths"),
        pytest.param(("~pull, a", ""), ["second", "first"], id="without a path first"),
        pytest.param(("~pull, a", "~pull, a"), ["first", "second"], id="else by their tasks"),
    ],
)
async def test_writes_side_by_side_have_an_order(
    paths: tuple[str, str], order: list[str], chain: Chain
) -> None:
    """Writes of parallel tasks are replayed in order of application, for any ids."""
    await chain.step(ch=_DeltaSnapshot(0))
    config = await chain.step()
    await chain.saver.aput_writes(config, [("ch", "first")], FIRST, paths[0])
    await chain.saver.aput_writes(config, [("ch", "second")], LAST, paths[1])
    await chain.step()

    assert order == values(await chain.history("ch"))


async def test_both_forms_tell_the_same(database: Database) -> None:
    """The blocking form finds what the awaited one finds."""
    chain = Chain(database.saver)
    await chain.step(ch=_DeltaSnapshot([1]))
    await chain.step([("ch", 2)])
    await chain.step()

    blocking = database.saver.get_delta_channel_history(config=chain.configs[-1], channels=["ch"])
    assert blocking == await chain.history("ch")
