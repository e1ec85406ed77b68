"""The graph in which a model and its tools take turns until there is an answer.

Its state is the draft alone. The view reaches it through the run's
configuration, so that no step stores it; each step is a checkpoint of its own,
so that a tool that finished is not called again after a crash.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import BaseTool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode

from unsay.effects import Steps, adrive, drive
from unsay.errors import ToolStepsError
from unsay.nodes.bookkeeping import advance_run
from unsay.nodes.compensation import note_made
from unsay.services import Scope

ATTEMPT_KEY = "__unsay_attempt"
"""Where a run's configuration carries the attempt; servers copy no such key."""


class Draft(TypedDict):
    """What one attempt has produced so far."""

    messages: Annotated[list[AnyMessage], add_messages]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What one attempt at an answer works with; never stored."""

    request: Callable[[Sequence[AnyMessage]], list[AnyMessage]]
    """What the model is sent, from the draft's own messages so far."""

    scope: Scope
    """Of `process_message`, under whose name the model's tokens stream."""

    quiet: bool
    """Whether tokens are held back."""

    turn_id: str
    """Id of the question."""


def build_tool_loop(tools: Sequence[BaseTool]) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The loop, compiled; it takes its checkpointer from the graph around it."""
    builder = StateGraph(Draft)
    builder.add_node(
        "call_model", RunnableLambda(_call_model, afunc=_acall_model, name="call_model")
    )
    builder.add_node("tools", ToolNode(tools, handle_tool_errors=True))
    builder.add_edge(START, "call_model")
    builder.add_conditional_edges("call_model", _next, ["tools", END])
    builder.add_edge("tools", "call_model")
    return builder.compile(name="tool_loop")


def _next(draft: Draft) -> str:
    last = draft["messages"][-1]
    return "tools" if isinstance(last, AIMessage) and last.tool_calls else END


def _call_model(draft: Draft, config: RunnableConfig) -> Draft:
    return drive(_step(draft, config))


async def _acall_model(draft: Draft, config: RunnableConfig) -> Draft:
    return await adrive(_step(draft, config))


def _step(draft: Draft, config: RunnableConfig) -> Steps[Draft]:
    attempt: Attempt = config["configurable"][ATTEMPT_KEY]
    done = draft.get("messages", [])
    limit = attempt.scope.settings.max_tool_steps
    if sum(message.type == "ai" for message in done) > limit:
        raise ToolStepsError(
            f"The model called tools {limit} times without an answer; raise max_tool_steps, "
            "or ask for less at once"
        )
    scope = replace(attempt.scope, config=_under_parent(config, attempt.scope.config))
    if done:
        yield from note_made(done, attempt.turn_id, attempt.scope)
        yield from advance_run(scope, phase="synthesizing")
    model = yield scope.resolve("answerer")
    reply = yield scope.ask(model, attempt.request(done), quiet=attempt.quiet)
    if isinstance(reply, AIMessage) and reply.tool_calls:
        yield from advance_run(scope, phase="executing_tools")
    return Draft(messages=[reply])


def _under_parent(config: RunnableConfig, parent: RunnableConfig) -> RunnableConfig:
    """This step's configuration, its tokens announced as `process_message`'s own.

    Without it a host that streams messages would need `subgraphs=True` to see them.
    """
    metadata = {**config.get("metadata", {}), **parent.get("metadata", {})}
    return {**config, "metadata": metadata}
