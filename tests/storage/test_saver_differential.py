"""Our checkpointer beside LangGraph's own in memory: any raw use of a graph gives the same states."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, TypedDict

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from unsay.errors import DatabaseCorruptError
from unsay.state import TranscriptChannel, merge_messages
from unsay.storage.sqlite import open_database

KNOWN: frozenset[str] = frozenset()
"""C1: a state behind a rewind stays, and what it builds on is let go; so it is refused as damaged."""

FLOOR = 3
"""Updates between two whole copies: few, so that a short sequence sees many."""

PLACES = st.integers(0, 9)
DURABILITIES = st.sampled_from(("sync", "async", "exit"))
PLAIN: Any = {"configurable": {"thread_id": "t"}}

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("turn"), DURABILITIES, PLACES),
        st.tuples(st.just("turn"), DURABILITIES, PLACES),
        st.tuples(st.just("add"), PLACES),
        st.tuples(st.just("remove"), PLACES),
        st.tuples(st.just("clear")),
        st.tuples(st.just("fork"), DURABILITIES, PLACES),
        st.tuples(st.just("rewind"), st.sampled_from(("__end__", "__copy__")), PLACES),
        st.tuples(st.just("fail"), DURABILITIES),
        st.tuples(st.just("go_on"), DURABILITIES),
        st.tuples(st.just("reopen")),
    ),
    min_size=1,
    max_size=16,
)
"""What a host may do to a graph, by any of LangGraph's own ways."""


class ThreadHandle(TypedDict):
    """A transcript like unsay's, and a value that is written each time."""

    messages: Annotated[
        list[AnyMessage], TranscriptChannel(merge_messages, snapshot_frequency=FLOOR)
    ]
    turn: int


class BrokenError(RuntimeError):
    """What a node raises."""


@dataclass(slots=True)
class Wiring:
    """A node that fails once on demand."""

    breaks: bool = False

    def left(self, state: ThreadHandle) -> dict[str, Any]:
        """An answer; it comes before that of the parallel node."""
        return {"messages": [AIMessage("left", id=f"l{state['turn']}")]}

    def right(self, state: ThreadHandle) -> dict[str, Any]:
        """Another answer in the same step."""
        return {"messages": [AIMessage("right", id=f"r{state['turn']}")]}

    def join(self, state: ThreadHandle) -> dict[str, Any]:
        """Takes a message back in every third turn, and breaks if it must."""
        if self.breaks:
            raise BrokenError
        target_id = _id_at([m.id or "" for m in state["messages"]], state["turn"])
        return {
            "messages": [RemoveMessage(id=i) for i in target_id] if state["turn"] % 3 == 0 else []
        }

    def graph(self, saver: BaseCheckpointSaver[Any]) -> Any:
        """Two nodes side by side, and one behind them."""
        graph = StateGraph(ThreadHandle)
        for name in ("left", "right"):
            graph.add_node(name, getattr(self, name))
            graph.add_edge(START, name)
        graph.add_node("join", self.join)
        graph.add_edge(["left", "right"], "join")
        return graph.compile(checkpointer=saver)


class Twins:
    """The same graph with both checkpointers; each operation is done on both."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.wiring = Wiring()
        self.count = 0
        self.database = open_database(path)
        memory = InMemorySaver(serde=JsonPlusSerializer(allowed_msgpack_modules=None))
        self.theirs = self.wiring.graph(memory)
        self.ours = self.wiring.graph(self.database.saver)
        self.seen: list[tuple[Any, Any]] = []

    def do(self, name: str, *arguments: Any) -> None:
        """One step."""
        self.count += 1
        getattr(self, name)(*arguments)
        heads = [graph.get_state(PLAIN) for graph in (self.ours, self.theirs)]
        assert _summary_of(heads[1]) == _summary_of(heads[0])
        self.seen.append((heads[0].config, heads[1].config))

    def turn(self, durability: str, position: int) -> None:
        """Something is said."""
        self._invoke(durability, position, (PLAIN, PLAIN))

    def fork(self, durability: str, position: int) -> None:
        """Something is said at an older state."""
        if (configs := self._kept(position)) is not None:
            self._invoke(durability, position, configs)

    def rewind(self, node: str, position: int) -> None:
        """An older state becomes the newest."""
        configs = self._kept(position)
        for graph, config in zip((self.ours, self.theirs), configs or (), strict=False):
            graph.update_state(config, None, as_node=node)

    def add(self, position: int) -> None:
        """Messages are put in the state; one may take the place of another."""
        message = HumanMessage("put in", id=f"p{self.count}")
        self._update(
            lambda ids: [message, *(HumanMessage("new", id=i) for i in _id_at(ids, position))]
        )

    def remove(self, position: int) -> None:
        """A message is taken out."""
        self._update(lambda ids: [RemoveMessage(id=i) for i in _id_at(ids, position)])

    def clear(self) -> None:
        """All are."""
        self._update(lambda _: [RemoveMessage(id=REMOVE_ALL_MESSAGES)])

    def fail(self, durability: str) -> None:
        """A turn breaks before its end."""
        self.wiring.breaks = True
        self._invoke(durability, 0, (PLAIN, PLAIN))
        self.wiring.breaks = False

    def go_on(self, durability: str) -> None:
        """Resume a turn that failed."""
        if self.theirs.get_state(PLAIN).next:
            for graph in (self.ours, self.theirs):
                graph.invoke(None, PLAIN, durability=durability)

    def reopen(self) -> None:
        """The process ends, and another continues with the file."""
        self.database.close()
        self.database = open_database(self.path)
        self.ours = self.wiring.graph(self.database.saver)

    def check_past(self) -> None:
        """Every older state that our checkpointer still has is unchanged."""
        for ours, theirs in self.seen:
            if self.database.saver.get_tuple(ours) is None:
                continue
            try:
                snapshot = self.ours.get_state(ours)
            except DatabaseCorruptError:
                assert "C1" in KNOWN
            else:
                assert _summary_of(self.theirs.get_state(theirs)) == _summary_of(snapshot)

    def _invoke(self, durability: str, position: int, configs: tuple[Any, Any]) -> None:
        messages = [HumanMessage("said", id=f"h{self.count}-{n}") for n in range(1 + position % 2)]
        value = {"messages": messages, "turn": self.count}
        for graph, config in zip((self.ours, self.theirs), configs, strict=True):
            try:
                graph.invoke(value, config, durability=durability)
            except BrokenError:
                assert self.wiring.breaks

    def _update(self, change: Callable[[Sequence[str]], list[Any]]) -> None:
        ids = [m.id or "" for m in self.theirs.get_state(PLAIN).values.get("messages", [])]
        for graph in (self.ours, self.theirs):
            graph.update_state(PLAIN, {"messages": change(ids)}, as_node="join")

    def _kept(self, position: int) -> tuple[Any, Any] | None:
        """An older state that ours still has."""
        pairs = [pair for pair in self.seen if self.database.saver.get_tuple(pair[0]) is not None]
        return pairs[-1 - position % len(pairs)] if pairs else None


def _id_at(ids: Sequence[str], position: int) -> list[str]:
    return [ids[position % len(ids)]] if ids else []


def _summary_of(state: Any) -> tuple[Any, ...]:
    """What a graph makes of a checkpoint."""
    transcript = [(m.id, m.type, m.content) for m in state.values.get("messages", [])]
    return transcript, state.values.get("turn"), state.next


@settings(max_examples=settings().max_examples // 2)
@given(steps=STEPS)
def test_any_use_gives_the_states_that_memory_gives(steps: Sequence[tuple[Any, ...]]) -> None:
    """Turns, edits, forks and rewinds in any durability: the newest state, and all kept ones."""
    with TemporaryDirectory() as folder:
        twins = Twins(Path(folder) / "talk.db")
        with closing(twins.database):
            for name, *given_to in steps:
                twins.do(name, *given_to)
            twins.check_past()
            twins.database.close()
