"""What the graph's tests share: graphs with scripted ends, and ways to read a transcript."""

from collections.abc import Callable
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from unsay.graph.builder import build_graph
from unsay.hosts.entry import HostGraph
from unsay.messages.content import text_of

GOOD = "A list comprehension builds a list from an expression and a loop in one line."


def config(thread: str = "t") -> Any:
    """LangGraph's configuration of a thread."""
    return {"configurable": {"thread_id": thread}}


class Numbered:
    """A model that numbers its drafts and records its requests."""

    def __init__(self) -> None:
        self.inputs: list[list[BaseMessage]] = []

    def __call__(self, messages: list[BaseMessage]) -> AIMessage:
        """The next draft."""
        self.inputs.append(list(messages))
        return AIMessage(f"This is draft {len(self.inputs)}, about what was asked.")

    def texts(self, call: int = -1) -> list[str]:
        """What one call was sent, as text."""
        return [text_of(message) for message in self.inputs[call]]


def scores(*given_verdicts: float | str | Exception) -> Callable[[Any], Any]:
    """A judge that gives these in order, then 0.9."""
    verdicts = list(given_verdicts)

    def judge(_: Any) -> Any:
        verdict = verdicts.pop(0) if verdicts else 0.9
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    return judge


def make(model: Any, judge: Any = None, **options: Any) -> HostGraph:
    """A graph in memory."""
    options = {"checkpointer": InMemorySaver(), "store": InMemoryStore(), **options}
    return build_graph(model, judge=judge or scores(), **options)


def say(graph: HostGraph, *texts: str, thread: str = "t", **options: Any) -> dict[str, Any]:
    """Say each text; the whole state after the last."""
    state: dict[str, Any] = {}
    for text in texts:
        state = graph.invoke({"messages": [("user", text)], **options}, config(thread))
    return whole_state(graph, state, thread)


def whole_state(
    graph: HostGraph, returned_values: dict[str, Any], thread: str = "t"
) -> dict[str, Any]:
    """The state with what a run returned, such as its interrupts; without a saver only that."""
    if graph.checkpointer is None:
        return returned_values
    return {**graph.get_state(config(thread)).values, **returned_values}


def last_text(state: dict[str, Any]) -> str:
    """The text of a state's newest message."""
    return text_of(state["messages"][-1])
