"""What the checkpointer of our files keeps, and what it lets go of."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6

from unsay.storage.base import Database
from unsay.storage.sqlite import open_database

RECORD = "messages"
"""The channel whose whole copies decide what is kept."""


class Thread:
    """A thread of numbered checkpoints; each adds its number to the transcript."""

    def __init__(self, database: Database, name: str = "t", *, foreign: bool = False) -> None:
        self.foreign = foreign
        self.saver: Any = database.saver
        self.name = name
        self.configs: list[Any] = []
        self.parents: list[int | None] = []
        self.whole: list[bool] = []

    def step(self, *, whole: bool = False, after: int | None = -1) -> int:
        """Store one more checkpoint; its number.

        Args:
            whole: Whether it holds a whole copy of the record.
            after: Number of the checkpoint that it builds on; -1 is the newest.
        """
        number = len(self.configs)
        parent = number - 1 if after == -1 else after
        parent = None if parent is None or parent < 0 else parent
        self.parents.append(parent)
        self.whole.append(whole)
        place = {"thread_id": self.name, "checkpoint_ns": ""}
        if parent is not None:
            place = self.configs[parent]["configurable"]
        ours = {} if self.foreign else {"event_log": {"page_id": None}}
        copy = {RECORD: self.transcript(number)} if whole else {}
        self.configs.append(self.put(place, {**ours, **copy}))
        self.saver.put_writes(self.configs[number], [(RECORD, number)], "task")
        return number

    def aside(self, namespace: str = "agent:1", **values: Any) -> Any:
        """Store a checkpoint of a subgraph, with one write."""
        config = self.put({"thread_id": self.name, "checkpoint_ns": namespace}, values)
        self.saver.put_writes(config, [("words", "words")], "task")
        return config

    def put(self, place: dict[str, Any], values: dict[str, Any]) -> Any:
        """Store a checkpoint."""
        checkpoint = {
            **empty_checkpoint(),
            "id": str(uuid6(clock_seq=-1)),
            "channel_values": values,
            "channel_versions": dict.fromkeys(values, 1),
        }
        metadata = {"source": "loop", "step": 0, "parents": {}}
        return self.saver.put({"configurable": place}, checkpoint, metadata, {})

    def transcript(self, number: int) -> list[int]:
        """The transcript at a checkpoint: the numbers that lead to it."""
        parent = self.parents[number]
        return [] if parent is None else [*self.transcript(parent), parent]

    def read(self, number: int) -> list[int]:
        """The transcript at a checkpoint, as the saver rebuilds it."""
        config = self.configs[number]
        values = self.saver.get_tuple(config).checkpoint["channel_values"]
        if RECORD in values:
            return list(values[RECORD])
        found = self.saver.get_delta_channel_history(config=config, channels=[RECORD])[RECORD]
        return [*found.get("seed", []), *(value for _, _, value in found["writes"])]

    def kept(self) -> list[int]:
        """The numbers of the checkpoints that are left."""
        found = [self.saver.get_tuple(config) for config in self.configs]
        return [number for number, each in enumerate(found) if each is not None]

    def rows(self, table: str, namespace: str = "") -> list[str]:
        """The checkpoints that a table names, oldest first, once for each row."""
        order = f"SELECT checkpoint_id FROM {table} WHERE thread_id = ? AND checkpoint_ns = ?"  # noqa: S608 - our own names
        found = self.saver.conn.execute(order, (self.name, namespace)).fetchall()
        return sorted(row[0] for row in found)

    def ids(self, *numbers: int) -> list[str]:
        """The ids of checkpoints."""
        return [id_of(self.configs[number]) for number in numbers]


def id_of(config: Any) -> str:
    """The id of a checkpoint."""
    return str(config["configurable"]["checkpoint_id"])


@pytest.fixture
def database() -> Iterator[Database]:
    """A database in memory."""
    opened = open_database(":memory:")
    yield opened
    opened.close()


@pytest.fixture
def thread(database: Database) -> Thread:
    """A thread without checkpoints."""
    return Thread(database)


def two_generations(thread: Thread) -> None:
    """Three whole copies, 0, 2 and 4, each with a checkpoint that builds on it."""
    for _ in range(3):
        thread.step(whole=True)
        thread.step()


def test_two_whole_copies_prune_of_nothing(thread: Thread) -> None:
    """All checkpoints and their writes stay until there is a third whole copy."""
    for whole in (False, True, False, True, False):
        thread.step(whole=whole)

    assert [0, 1, 2, 3, 4] == thread.kept()
    assert thread.ids(0, 1, 2, 3, 4) == thread.rows("writes")


def test_a_third_whole_copy_lets_go_of_what_is_older_than_the_second(thread: Thread) -> None:
    """The first copy goes with what builds on it, in both tables, and all of the rest stays."""
    two_generations(thread)

    assert thread.ids(2, 3, 4, 5) == thread.rows("checkpoints")
    assert thread.ids(2, 3, 4, 5) == thread.rows("writes")


def test_both_kept_generations_can_be_read(thread: Thread) -> None:
    """The transcript is rebuilt at the last two whole copies and at what builds on them."""
    two_generations(thread)

    assert [thread.transcript(number) for number in (2, 3, 4, 5)] == [
        thread.read(number) for number in (2, 3, 4, 5)
    ]


def test_a_write_can_build_on_the_older_generation(thread: Thread) -> None:
    """A writer that began on the older copy may write after the newer one was stored."""
    two_generations(thread)
    late = thread.step(after=3)

    assert [0, 1, 2, 3] == thread.transcript(late) == thread.read(late)


def test_a_branch_of_pruned_checkpoints_is_pruned(thread: Thread) -> None:
    """A checkpoint that builds on an old one is deleted, however new it is itself."""
    thread.step(whole=True)
    thread.step(whole=True)
    branch = thread.step(after=0)
    on_branch = thread.step(after=branch)
    thread.step(whole=True, after=1)

    assert not {0, branch, on_branch} & set(thread.kept())
    assert thread.ids(1, 4) == thread.rows("checkpoints")


def test_rows_of_subgraphs_are_bounded(thread: Thread) -> None:
    """A thread whose agent writes checkpoints keeps only those of the last two copies."""
    beside: list[list[str]] = []
    for _ in range(12):
        thread.step(whole=True)
        beside.append([id_of(thread.aside()), id_of(thread.aside())])

        expected = [name for names in beside[-2:] for name in names]
        assert expected == thread.rows("checkpoints", "agent:1")
        assert expected == thread.rows("writes", "agent:1")


def test_every_tasks_subgraph_is_cleaned(thread: Thread) -> None:
    """The namespaces of tasks delete older checkpoints; a subgraph's own state stays."""
    names = ("agent:1", "agent:1|tool:2", "Z:1", "own", "own|deeper")
    own = [id_of(thread.aside(namespace)) for namespace in names][3:]
    two_generations(thread)

    found = [thread.rows("checkpoints", each) for each in names]
    assert [[], [], [], *([name] for name in own)] == found


def test_another_graphs_thread_is_kept(database: Database) -> None:
    """Checkpoints without our event log stay, with their subgraphs, however many there are."""
    thread = Thread(database, foreign=True)
    beside = id_of(thread.aside())
    two_generations(thread)

    assert [0, 1, 2, 3, 4, 5] == thread.kept()
    assert [beside] == thread.rows("checkpoints", "agent:1")


def test_a_subgraph_with_a_record_of_its_own_lets_go_of_nothing(thread: Thread) -> None:
    """Whole copies in a namespace beside the thread's own do not count as the thread's."""
    thread.step(whole=True)
    beside = [id_of(thread.aside(messages=[])) for _ in range(5)]

    assert [0] == thread.kept()
    assert beside == thread.rows("checkpoints", "agent:1")


def test_other_threads_stay(thread: Thread, database: Database) -> None:
    """A long thread deletes only its own checkpoints."""
    other = Thread(database, "other")
    other.step(whole=True)
    other.step()
    aside = id_of(other.aside())
    two_generations(thread)

    assert [0, 1] == other.kept()
    assert other.ids(0, 1) == other.rows("writes")
    assert [aside] == other.rows("checkpoints", "agent:1") == other.rows("writes", "agent:1")


def stays(thread: Thread, number: int, copies: list[int]) -> bool:
    """Whether a checkpoint is one of the last two whole copies, or builds on one of them."""
    parent = thread.parents[number]
    if number in copies:
        return True
    return number > copies[0] and parent is not None and stays(thread, parent, copies)


STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=14)
"""Checkpoints: whether each is whole, and how far back the one lies that it builds on."""


@given(steps=STEPS)
def test_what_is_kept_can_be_read_whatever_was_written(steps: list[tuple[bool, int]]) -> None:
    """The last two whole copies and what builds on them stay, are whole, and nothing else stays."""
    database = open_database(":memory:")
    thread = Thread(database)
    expected: list[int] = []
    for whole, back in steps:
        rest = thread.kept()
        number = thread.step(whole=whole, after=rest[-1 - back] if back < len(rest) else None)
        copies = [each for each in [*rest, number] if thread.whole[each]][-2:]
        old = [each for each in rest if thread.whole[each]]
        cleans = whole and len(old) >= 2
        expected = [e for e in [*rest, number] if not cleans or stays(thread, e, copies)]

        assert expected == thread.kept()
        assert thread.transcript(number) == thread.read(number)
    records = [thread.transcript(number) for number in expected]
    found = [thread.read(number) for number in expected]
    database.close()

    assert records == found
