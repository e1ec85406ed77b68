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

    def step(self, *, is_whole: bool = False, after: int | None = -1) -> int:
        """Store one more checkpoint; its number.

        Args:
            is_whole: Whether it holds a whole copy of the transcript.
            after: Number of the checkpoint that it builds on; -1 is the newest.
        """
        number = len(self.configs)
        parent = number - 1 if after == -1 else after
        parent = None if parent is None or parent < 0 else parent
        self.parents.append(parent)
        self.whole.append(is_whole)
        configurable = {"thread_id": self.name, "checkpoint_ns": ""}
        if parent is not None:
            configurable = self.configs[parent]["configurable"]
        ours = {} if self.foreign else {"event_log": {"page_id": None}}
        copy = {RECORD: self.transcript(number)} if is_whole else {}
        self.configs.append(self.put(configurable, {**ours, **copy}))
        self.saver.put_writes(self.configs[number], [(RECORD, number)], "task")
        return number

    def aside(self, namespace: str = "agent:1", **values: Any) -> Any:
        """Store a checkpoint of a subgraph, with one write."""
        config = self.put({"thread_id": self.name, "checkpoint_ns": namespace}, values)
        self.saver.put_writes(config, [("words", "words")], "task")
        return config

    def put(self, configurable: dict[str, Any], values: dict[str, Any]) -> Any:
        """Store a checkpoint."""
        checkpoint = {
            **empty_checkpoint(),
            "id": str(uuid6(clock_seq=-1)),
            "channel_values": values,
            "channel_versions": dict.fromkeys(values, 1),
        }
        metadata = {"source": "loop", "step": 0, "parents": {}}
        return self.saver.put({"configurable": configurable}, checkpoint, metadata, {})

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
        state = self.saver.get_delta_channel_history(config=config, channels=[RECORD])[RECORD]
        return [*state.get("seed", []), *(value for _, _, value in state["writes"])]

    def kept(self) -> list[int]:
        """The numbers of the checkpoints that are left."""
        saved_tuples = [self.saver.get_tuple(config) for config in self.configs]
        return [number for number, item in enumerate(saved_tuples) if item is not None]

    def rows(self, table: str, namespace: str = "") -> list[str]:
        """The checkpoints that a table names, oldest first, once for each row."""
        order = f"SELECT checkpoint_id FROM {table} WHERE thread_id = ? AND checkpoint_ns = ?"  # noqa: S608 - our own names
        transcripts = self.saver.conn.execute(order, (self.name, namespace)).fetchall()
        return sorted(row[0] for row in transcripts)

    def ids(self, *numbers: int) -> list[str]:
        """The ids of checkpoints."""
        return [id_of(self.configs[number]) for number in numbers]


def id_of(config: Any) -> str:
    """The id of a checkpoint."""
    return str(config["configurable"]["checkpoint_id"])


@pytest.fixture
def database() -> Iterator[Database]:
    """A database in memory."""
    database = open_database(":memory:")
    yield database
    database.close()


@pytest.fixture
def thread(database: Database) -> Thread:
    """A thread without checkpoints."""
    return Thread(database)


def two_generations(thread: Thread) -> None:
    """Three whole copies, 0, 2 and 4, each with a checkpoint that builds on it."""
    for _ in range(3):
        thread.step(is_whole=True)
        thread.step()


def test_two_whole_copies_prune_of_nothing(thread: Thread) -> None:
    """All checkpoints and their writes stay until there is a third whole copy."""
    for is_whole in (False, True, False, True, False):
        thread.step(is_whole=is_whole)

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
    thread.step(is_whole=True)
    thread.step(is_whole=True)
    branch = thread.step(after=0)
    on_branch = thread.step(after=branch)
    thread.step(is_whole=True, after=1)

    assert not {0, branch, on_branch} & set(thread.kept())
    assert thread.ids(1, 4) == thread.rows("checkpoints")


def test_rows_of_subgraphs_are_bounded(thread: Thread) -> None:
    """A thread whose agent writes checkpoints keeps only those of the last two copies."""
    names_aside: list[list[str]] = []
    for _ in range(12):
        thread.step(is_whole=True)
        names_aside.append([id_of(thread.aside()), id_of(thread.aside())])

        numbers = [name for names in names_aside[-2:] for name in names]
        assert numbers == thread.rows("checkpoints", "agent:1")
        assert numbers == thread.rows("writes", "agent:1")


def test_every_tasks_subgraph_is_cleaned(thread: Thread) -> None:
    """The namespaces of tasks delete older checkpoints; a subgraph's own state stays."""
    names = ("agent:1", "agent:1|tool:2", "Z:1", "own", "own|deeper")
    ids = [id_of(thread.aside(namespace)) for namespace in names][3:]
    two_generations(thread)

    rows = [thread.rows("checkpoints", name) for name in names]
    assert [[], [], [], *([name] for name in ids)] == rows


def test_another_graphs_thread_is_kept(database: Database) -> None:
    """Checkpoints without our event log stay, with their subgraphs, however many there are."""
    thread = Thread(database, foreign=True)
    names_aside = id_of(thread.aside())
    two_generations(thread)

    assert [0, 1, 2, 3, 4, 5] == thread.kept()
    assert [names_aside] == thread.rows("checkpoints", "agent:1")


def test_a_subgraph_with_a_record_of_its_own_lets_go_of_nothing(thread: Thread) -> None:
    """Whole copies in a namespace beside the thread's own do not count as the thread's."""
    thread.step(is_whole=True)
    ids = [id_of(thread.aside(messages=[])) for _ in range(5)]

    assert [0] == thread.kept()
    assert ids == thread.rows("checkpoints", "agent:1")


def test_other_threads_stay(thread: Thread, database: Database) -> None:
    """A long thread deletes only its own checkpoints."""
    other_thread = Thread(database, "other")
    other_thread.step(is_whole=True)
    other_thread.step()
    aside = id_of(other_thread.aside())
    two_generations(thread)

    assert [0, 1] == other_thread.kept()
    assert other_thread.ids(0, 1) == other_thread.rows("writes")
    assert (
        [aside]
        == other_thread.rows("checkpoints", "agent:1")
        == other_thread.rows("writes", "agent:1")
    )


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
    numbers: list[int] = []
    for is_whole, steps_back in steps:
        numbers_left = thread.kept()
        number = thread.step(
            is_whole=is_whole,
            after=numbers_left[-1 - steps_back] if steps_back < len(numbers_left) else None,
        )
        copies = [item for item in [*numbers_left, number] if thread.whole[item]][-2:]
        old = [item for item in numbers_left if thread.whole[item]]
        cleans = is_whole and len(old) >= 2
        numbers = [e for e in [*numbers_left, number] if not cleans or stays(thread, e, copies)]

        assert numbers == thread.kept()
        assert thread.transcript(number) == thread.read(number)
    transcripts_read = [thread.transcript(number) for number in numbers]
    transcripts = [thread.read(number) for number in numbers]
    database.close()

    assert transcripts_read == transcripts
