"""The graph: five nodes, their edges, and their services."""

import asyncio
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Literal, Unpack
from uuid import uuid4

from langchain_core.embeddings import Embeddings
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from typing_extensions import TypedDict

from unsay.arguments import configured, shown
from unsay.context.strategy import Composed, Strategy, check_strategy
from unsay.context.view import Reminder, ordered
from unsay.effects import Steps, adrive, drive, utc_now
from unsay.errors import ConfigurationError
from unsay.generation.context_builder import named_strategy
from unsay.generation.tool_loop import build_tool_loop, with_memory_tools
from unsay.hosts.entry import HostGraph
from unsay.hosts.parent_graph import watch_of
from unsay.hosts.single_writer import inside
from unsay.judging.calibration import with_messages
from unsay.judging.topic_detector import LexicalDetector, check_detector
from unsay.models.agents import report_unkept
from unsay.models.factory import JudgeLike, ModelLike, check_model, is_chat_model, refuse_class
from unsay.nodes.create_checkpoint import create_checkpoint
from unsay.nodes.detect_topic_change import detect_topic_change
from unsay.nodes.evaluate_quality import evaluate_quality
from unsay.nodes.process_message import process_message
from unsay.nodes.rollback import rollback
from unsay.prompts.catalogue import Texts, by_language
from unsay.protocols import TopicDetector
from unsay.retrieval.vectors import checked_embeddings
from unsay.runtime import Scope, Services
from unsay.settings.settings import Context, Settings, load_settings
from unsay.state import (
    Input,
    Output,
    PlainState,
    State,
    StoredPlainState,
    StoredState,
    Update,
    Working,
)
from unsay.turn.runs import Node, canceled, track_run
from unsay.types import AllowedCommands

NEXT_NODES: dict[Hashable, str] = {
    "rollback": "rollback",
    "checkpoint": "create_checkpoint",
    "continue": END,
}
"""The node after `process_message`, by the label of its edge."""


def after_process_message(state: Working) -> Literal["rollback", "checkpoint", "continue"]:
    """Return which edge the run takes after `process_message`; `continue` ends the run.

    `rollback` is taken if one is requested; else `checkpoint` if there are checkpoints to save or
    tool calls to undo. Without a turn, which only a host's update causes, it is `continue`.
    """
    if "turn" not in state:  # a host wrote as this node before the thread's first turn
        return "continue"
    if state.get("should_rollback"):
        return "rollback"
    if state["turn"]["checkpoints_due"] or state.get("pending_compensations"):
        return "checkpoint"
    return "continue"


CHANNEL = "messages"


def can_replay_deltas(saver: BaseCheckpointSaver[Any]) -> bool:
    """Return whether a checkpointer keeps the writes from which a transcript is rebuilt.

    If not, `build_graph` stores the whole transcript in each state. It is tested on a scratch
    thread, because a checkpointer that drops writes would lose messages without an error. One that
    is async or bound to an event loop is not tested: the result is whether it can store writes.
    Other errors of the checkpointer, such as those of its database, are raised.
    """
    if not hasattr(saver, "get_delta_channel_history"):
        return False
    # A saver that is bound to an event loop would block it during the test, so it is trusted if it
    # stores writes at all.
    stores_writes = type(saver).aput_writes is not BaseCheckpointSaver.aput_writes
    if getattr(saver, "loop", None) is not None:
        return stores_writes
    thread_id = f"unsay-probe-{uuid4()}"
    try:
        return _history_survives(saver, thread_id)
    except NotImplementedError:
        return stores_writes
    finally:
        with suppress(NotImplementedError):
            saver.delete_thread(thread_id)


def _history_survives(saver: BaseCheckpointSaver[Any], thread_id: str) -> bool:
    """Write three deltas to a scratch thread, and return whether all are read back in order.

    Raises the checkpointer's errors; `NotImplementedError` if it has no blocking methods.
    """
    config: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
    for step in range(3):
        config = saver.put(
            config, empty_checkpoint(), {"source": "loop", "step": step, "parents": {}}, {}
        )
        saver.put_writes(config, [(CHANNEL, [step])], f"probe-{step}")
    # The writes must survive a checkpoint that stores no value for the channel.
    last = saver.put(config, empty_checkpoint(), {"source": "loop", "step": 3, "parents": {}}, {})
    with warnings.catch_warnings():
        # A warning about our probe would be one on which no user can act.
        warnings.simplefilter("ignore")
        history = saver.get_delta_channel_history(config=last, channels=[CHANNEL])
    return [value for _, _, value in history[CHANNEL]["writes"]] == [[0], [1], [2]]


NODES: dict[str, Node] = {
    "evaluate_quality": evaluate_quality,
    "detect_topic_change": detect_topic_change,
    "process_message": process_message,
    "create_checkpoint": create_checkpoint,
    "rollback": rollback,
}


class GraphOptions(TypedDict, total=False):
    """Options of `build_graph` that `Conversation.open` takes as well."""

    judge: JudgeLike | None
    summarizer: ModelLike | None
    tools: Sequence[BaseTool | Callable[..., Any]]
    detector: TopicDetector | None
    reminders: Sequence[Reminder]
    strategy: Strategy | None
    embeddings: Embeddings | Callable[[list[str]], Any] | None
    prompts: Texts | Sequence[Texts] | None
    settings: Settings | Mapping[str, Any] | None
    commands: AllowedCommands | None


@configured
def build_graph(
    model: ModelLike | None = None,
    *,
    judge: JudgeLike | None = None,
    summarizer: ModelLike | None = None,
    tools: Sequence[BaseTool | Callable[..., Any]] = (),
    detector: TopicDetector | None = None,
    reminders: Sequence[Reminder] = (),
    strategy: Strategy | None = None,
    embeddings: Embeddings | Callable[[list[str]], Any] | None = None,
    prompts: Texts | Sequence[Texts] | None = None,
    settings: Settings | Mapping[str, Any] | None = None,
    commands: AllowedCommands | None = None,
    checkpointer: BaseCheckpointSaver[Any] | bool | None = None,
    store: BaseStore | None = None,
    name: str = "unsay",
    clock: Callable[[], datetime] | None = None,
) -> HostGraph:
    """Build a compiled graph that answers, judges, saves checkpoints and rolls back.

    Args:
        model: Answers the questions: a LangChain chat model, a name such as `gpt-4.1-mini` or
            `anthropic:claude-sonnet-4-5`, or a Runnable from messages to messages, such as a graph.
            `None` reads `UNSAY_MODEL` at the first question.
        judge: Scores the answers: a chat model, a name, or a function from messages, or from question
            and answer, to a score. `None` reads `UNSAY_JUDGE_MODEL`; without it the answering model
            is the judge.
        summarizer: Summarizes what contexts leave out. `None` reads `UNSAY_SUMMARIZER_MODEL`;
            without it the answering model summarizes, if it is a chat model.
        tools: Tools that the model may call. The setting `memory_tools` adds tools of our own.
        detector: Detects topic changes; `None` is the local detector.
        reminders: Texts that are repeated in contexts, and how often.
        strategy: Decides what contexts leave out; `None` is the one named in the settings.
        embeddings: Used to recall messages by meaning: LangChain's embeddings, or a function from
            texts to vectors; `None` compares words only.
        prompts: A changed copy of `unsay.prompts.ENGLISH` or `JAPANESE`, or one of each; `None` is
            both as they are.
        settings: Override the environment and the settings file.
        commands: The slash commands that users may send: `"all"`, `"none"`, or names such as
            `["undo", "help"]`. `None` reads `UNSAY_COMMANDS`; without it all are allowed. Another
            command is answered with a notice: it is not carried out, and no model is sent it.
        checkpointer: Stores the state. With `None` a host or a parent graph may set one later;
            else each run starts empty. `True` is for a node of another graph: the node keeps a
            transcript of its own with the parent's thread.
        store: Stores branches, events, runs and old messages; without one the state keeps the
            newest branches only. A run without a checkpointer writes nothing to it.
        name: Name of the graph: in traces, and as an agent of a supervisor or swarm.
        clock: Returns the time with its zone; `None` is the system's clock, in UTC.

    Returns:
        A graph for `invoke`, `ainvoke`, `stream` and `astream`.

    Raises:
        ConfigurationError: An argument or a setting cannot be used; the message names it.
        Exception: The checkpointer failed when it was tested, such as with an error of its database.

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
        prompts=prompts,
        settings=settings,
        commands=commands,
        clock=clock,
    )
    deltas = not isinstance(checkpointer, BaseCheckpointSaver) or can_replay_deltas(checkpointer)
    return compile_graph(services, deltas=deltas, checkpointer=checkpointer, store=store, name=name)


def make_services(
    model: ModelLike | None = None,
    *,
    title: ModelLike | None = None,
    clock: Callable[[], datetime] | None = None,
    **options: Unpack[GraphOptions],
) -> Services:
    """Make what the nodes of a graph use: settings, models, tools and the rest of the options.

    `build_graph` explains the arguments; `title` is a model that names new threads. Raises
    `ConfigurationError` if an argument or a setting cannot be used.
    """
    host_tools = [
        each if isinstance(each, BaseTool) else _tool_of(each) for each in options.get("tools", ())
    ]
    settings = load_settings(options.get("settings"))
    if (commands := options.get("commands")) is not None:
        allowed: Any = commands if isinstance(commands, str) else list(commands)
        settings = settings.for_run(Context(commands=allowed))
    kit = with_memory_tools(host_tools, settings)
    strategy, detector = options.get("strategy"), options.get("detector")
    judge = with_messages(options.get("judge"))
    if strategy is not None:
        check_strategy(strategy)
    if detector is not None:
        check_detector(detector)
    models = {"model": model, "judge": judge, "title": title}
    for name, each in {**models, "summarizer": options.get("summarizer")}.items():
        check_model(each, name)
    report_unkept(model, "model")
    embeddings = options.get("embeddings")
    if embeddings is not None:
        refuse_class(embeddings, "embeddings")
        embeddings = checked_embeddings(embeddings)
    services = Services(
        settings=settings,
        model_like=model,
        judge_like=judge,
        summarizer_like=options.get("summarizer"),
        title_like=title,
        detector=detector or LexicalDetector(threshold=settings.topic_change_threshold),
        clock=clock or utc_now,
        tools=kit,
        tool_loop=build_tool_loop(kit) if kit else None,
        reminders=ordered(options.get("reminders", ())),
        strategy=strategy,
        embeddings=embeddings,
        prompts=by_language(options.get("prompts")),
    )
    _check_instructions(strategy, services)
    named_strategy(settings)  # numbers that cannot be combined are refused now
    return services


def _tool_of(function: Callable[..., Any]) -> BaseTool:
    """Return a LangChain tool from a function; `ConfigurationError` if it has no docstring."""
    try:
        return tool(function)
    except ValueError as error:
        raise ConfigurationError(
            f"{shown(function)} cannot be a tool: {error} The docstring is what the model reads of it."
        ) from error


def _check_instructions(strategy: Strategy | None, services: Services) -> None:
    """Refuse a strategy with a `system_prompt` for summaries if no model makes the summaries.

    Raises `ConfigurationError`. `None` passes, and so does a strategy without a `system_prompt`.
    """
    inner = getattr(strategy, "within", strategy)
    strategies = inner.strategies if isinstance(inner, Composed) else (inner,)
    model, settings = services.model_like, services.settings
    # A name becomes a chat model; an agent or a function does not summarize.
    can_summarize = model is None or isinstance(model, str) or is_chat_model(model)
    other = services.summarizer_like or settings.summarizer_model
    is_read = settings.summaries == "model" and (other or can_summarize)
    for each in strategies:
        if getattr(each, "system_prompt", None) is not None and not is_read:
            raise ConfigurationError(
                f"{type(each).__name__}(system_prompt=…) has no effect, because summaries are made "
                'without a model: pass summarizer=…, and do not set summaries="local"'
            )


def compile_graph(
    services: Services,
    *,
    deltas: bool,
    checkpointer: BaseCheckpointSaver[Any] | bool | None,
    store: BaseStore | None,
    name: str = "unsay",
) -> HostGraph:
    """Compile the nodes into a graph, for `build_graph` and `Conversation.open`.

    With `deltas`, states store only what changed in the transcript; otherwise each has all of it.
    """
    schema: type[Any] = State if deltas else PlainState
    state_schema = StoredState if deltas else StoredPlainState
    builder = HostBuilder(
        state_schema, context_schema=Context, input_schema=Input, output_schema=Output
    )
    builder.services = services
    for each, node in NODES.items():
        builder.add_node(each, Lifted(each, node, services), input_schema=schema)
    builder.add_edge(START, "evaluate_quality")
    builder.add_edge("evaluate_quality", "detect_topic_change")
    builder.add_edge("detect_topic_change", "process_message")
    builder.add_conditional_edges("process_message", after_process_message, NEXT_NODES)
    builder.add_edge("rollback", "process_message")
    builder.add_edge("create_checkpoint", END)
    # Not `builder.compile`, which would test the checkpointer.
    return _checked(StateGraph.compile(builder, checkpointer, store=store, name=name), services)


def _checked(graph: CompiledStateGraph[Any, Any, Any, Any], services: Services) -> HostGraph:
    graph.stream_channels = [each for each in graph.stream_channels_list if each != "salt"]
    return HostGraph(services=services, **vars(graph))


class HostBuilder(StateGraph[Any, Any, Any, Any]):
    """The builder of a `HostGraph`; a host that compiles it again gets a graph with the same checks."""

    services: Services

    def compile(self, checkpointer: Any = None, **options: Any) -> HostGraph:
        """Compile the nodes; the arguments are LangGraph's.

        Raises `ConfigurationError` if the checkpointer would lose messages of this builder's states.
        """
        is_saver = isinstance(checkpointer, BaseCheckpointSaver)
        if is_saver and self.state_schema is StoredState and not can_replay_deltas(checkpointer):
            raise ConfigurationError(
                f"{type(checkpointer).__name__} would lose messages of this builder's graph: pass it "
                "to build_graph(checkpointer=…)"
            )
        return _checked(super().compile(checkpointer, **options), self.services)


class Lifted(Runnable[State, Update]):
    """A node as LangGraph calls it, blocking or awaited; it opens and ends runs as `track_run` does."""

    # Not a `RunnableLambda`: tracers would see the node twice, since LangGraph reports it already.

    def __init__(self, name: str, node: Node, services: Services) -> None:
        self.name, self.services, self.node = name, services, track_run(name, node)

    def invoke(self, input: State, config: RunnableConfig | None = None, **_: Any) -> Update:  # noqa: A002 - its name
        """Run the node on a state with blocking calls, and return its update.

        Raises `ThreadBusyError` if another writer took the thread over meanwhile, and the node's
        errors.
        """
        with inside(config) as hold:
            update = drive(self._steps(input, Scope.of(self.services, config or {})))
            drive(hold.verify())
            return _noted(config, input, update)

    async def ainvoke(self, input: State, config: RunnableConfig | None = None, **_: Any) -> Update:  # noqa: A002 - its name
        """Run the node on an event loop, and return its update; the errors are those of `invoke`.

        If the task is cancelled, the run is listed as canceled and `CancelledError` is raised on.
        """
        scope = Scope.of(self.services, config or {})
        try:
            with inside(config) as hold:
                update = await adrive(self._steps(input, scope))
                await adrive(hold.verify())
                return _noted(config, input, update)
        except asyncio.CancelledError:
            # Shielded, so that a second cancellation cannot leave the run open in the list of runs.
            await asyncio.shield(adrive(canceled(input, scope)))
            raise

    def _steps(self, state: State, scope: Scope) -> Steps[Update]:
        # A host may write as any node before the thread's first turn; then nothing is to be done.
        if "turn" not in state and self.name != "evaluate_quality":
            return Update()
        return (yield from self.node(state, scope))


def _noted(config: RunnableConfig | None, state: State, update: Update) -> Update:
    """Return the update; inside another graph, its watch notes the update first."""
    if watch := watch_of(config):
        watch.note(state, update)
    return update
