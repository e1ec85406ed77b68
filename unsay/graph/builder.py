"""The graph: five nodes, their edges, and what they work with."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from langchain_core.embeddings import Embeddings
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore

from unsay.context.base import Strategy, check_strategy
from unsay.context.reminders import Reminder, ordered
from unsay.effects import adrive, drive
from unsay.graph.probe import can_replay_deltas
from unsay.graph.routing import after_process_message
from unsay.judging.topics import LexicalDetector
from unsay.models import ModelLike
from unsay.nodes.bookkeeping import Node, canceled, kept
from unsay.nodes.create_checkpoint import create_checkpoint
from unsay.nodes.detect_topic_change import detect_topic_change
from unsay.nodes.evaluate_quality import evaluate_quality
from unsay.nodes.memory_tools import with_memory_tools
from unsay.nodes.process_message import process_message
from unsay.nodes.rollback import rollback
from unsay.nodes.tool_loop import build_tool_loop
from unsay.services import Scope, Services
from unsay.settings import Context, Settings, load_settings
from unsay.state import PlainState, State, Update
from unsay.types import TopicDetector

Graph = CompiledStateGraph[Any, Any, Any, Any]

NODES: dict[str, Node] = {
    "evaluate_quality": evaluate_quality,
    "detect_topic_change": detect_topic_change,
    "process_message": process_message,
    "create_checkpoint": create_checkpoint,
    "rollback": rollback,
}
"""The five nodes by name."""


def build_graph(
    model: ModelLike | None = None,
    *,
    judge: ModelLike | None = None,
    summarizer: ModelLike | None = None,
    tools: Sequence[BaseTool | Callable[..., Any]] = (),
    detector: TopicDetector | None = None,
    reminders: Sequence[Reminder] = (),
    strategy: Strategy | None = None,
    embeddings: Embeddings | None = None,
    settings: Settings | Mapping[str, Any] | None = None,
    checkpointer: BaseCheckpointSaver[Any] | None = None,
    store: BaseStore | None = None,
    clock: Callable[[], datetime] | None = None,
) -> Graph:
    """A compiled graph that judges, checkpoints, rolls back and answers.

    Args:
        model: Answers: a LangChain chat model, a name for `langchain-openai`,
            or any Runnable that takes messages and gives messages, a graph
            among them. `None` takes `UNSAY_MODEL` when the first question comes.
        judge: Scores the answers: a chat model, a name, or anything callable
            that takes messages and gives a score. `None` takes
            `UNSAY_JUDGE_MODEL`, else the answering model.
        summarizer: Summarizes topics that were left; `None` takes
            `UNSAY_SUMMARIZER_MODEL`, else a local summary is made.
        tools: What the model may call while it answers; with them come tools of our own, see
            the setting `memory_tools`.
        detector: Follows the topics; `None` takes the local one.
        reminders: What views are reminded of, and how often.
        strategy: Decides what views leave out; `None` takes the one that the
            settings name.
        embeddings: By which recall finds what means the same; `None` goes by
            words alone.
        settings: Override the environment and the settings file.
        checkpointer: Keeps the state; `None` leaves it to the host, or to one
            run alone.
        store: Keeps what rollbacks cut; without one the state carries the newest.
        clock: Gives the time, aware; `None` takes the system's, in UTC.

    Returns:
        A graph for `invoke`, `ainvoke`, `stream` and `astream`.

    Raises:
        ConfigurationError: A setting is impossible.

    Example:
        >>> from unsay.testing import ScriptedChat, ScriptedJudge
        >>> graph = build_graph(ScriptedChat(default="Hello!"), judge=ScriptedJudge())
        >>> state = graph.invoke({"messages": [("user", "Hi there")]})
        >>> state["messages"][-1].content, state["quality_score"]
        ('Hello!', 0.9)
    """
    services = make_services(
        model,
        judge=judge,
        summarizer=summarizer,
        tools=tools,
        detector=detector,
        reminders=reminders,
        strategy=strategy,
        embeddings=embeddings,
        settings=settings,
        clock=clock,
    )
    deltas = checkpointer is None or can_replay_deltas(checkpointer)
    return compile_graph(services, deltas=deltas, checkpointer=checkpointer, store=store)


def make_services(
    model: ModelLike | None = None,
    *,
    judge: ModelLike | None = None,
    summarizer: ModelLike | None = None,
    title: ModelLike | None = None,
    tools: Sequence[BaseTool | Callable[..., Any]] = (),
    detector: TopicDetector | None = None,
    reminders: Sequence[Reminder] = (),
    strategy: Strategy | None = None,
    embeddings: Embeddings | None = None,
    settings: Settings | Mapping[str, Any] | None = None,
    clock: Callable[[], datetime] | None = None,
) -> Services:
    """What a graph's nodes work with; arguments as for `build_graph`.

    Raises:
        ConfigurationError: A setting is impossible.
    """
    given = [each if isinstance(each, BaseTool) else tool(each) for each in tools]
    chosen = load_settings(settings)
    kit = with_memory_tools(given, chosen)
    if strategy is not None:
        check_strategy(strategy)
    return Services(
        settings=chosen,
        model_like=model,
        judge_like=judge,
        summarizer_like=summarizer,
        title_like=title,
        detector=detector or LexicalDetector(),
        clock=clock or _utc_now,
        tools=kit,
        tool_loop=build_tool_loop(kit) if kit else None,
        reminders=ordered(reminders),
        strategy=strategy,
        embeddings=embeddings,
    )


def _utc_now() -> datetime:
    return datetime.now(UTC)


def compile_graph(
    services: Services,
    *,
    deltas: bool,
    checkpointer: BaseCheckpointSaver[Any] | None,
    store: BaseStore | None,
) -> Graph:
    """The nodes and edges over one set of services.

    Args:
        services: What the nodes work with.
        deltas: Whether the record is stored as deltas or whole.
        checkpointer: See `build_graph`.
        store: See `build_graph`.
    """
    schema: type[Any] = State if deltas else PlainState
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(schema, context_schema=Context)
    for name, node in NODES.items():
        builder.add_node(name, Lifted(name, node, services), input_schema=schema)
    builder.add_edge(START, "evaluate_quality")
    builder.add_edge("evaluate_quality", "detect_topic_change")
    builder.add_edge("detect_topic_change", "process_message")
    builder.add_conditional_edges(
        "process_message", after_process_message, ["rollback", "create_checkpoint", END]
    )
    builder.add_edge("rollback", "process_message")
    builder.add_edge("create_checkpoint", END)
    return builder.compile(checkpointer=checkpointer, store=store, name="unsay")


class Lifted(Runnable[State, Update]):
    """A node in the two forms that LangGraph calls, with its books kept.

    LangGraph announces the node to whoever traces; a `RunnableLambda` would do so once more.
    """

    def __init__(self, name: str, node: Node, services: Services) -> None:
        self.name, self.services, self.node = name, services, kept(name, node)

    def invoke(self, input: State, config: RunnableConfig | None = None, **_: Any) -> Update:  # noqa: A002 - its name
        """The node's update."""
        return drive(self.node(input, Scope.of(self.services, config or {})))

    async def ainvoke(
        self,
        input: State,  # noqa: A002 - its name
        config: RunnableConfig | None = None,
        **_: Any,
    ) -> Update:
        """The node's update, on an event loop."""
        scope = Scope.of(self.services, config or {})
        try:
            return await adrive(self.node(input, scope))
        except asyncio.CancelledError:
            await asyncio.shield(adrive(canceled(input, scope)))
            raise
