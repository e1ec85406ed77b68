"""Tool loop: the graph in which a model and its tools take turns until there is an answer.

Its state is the draft alone. Each step is stored, so that a finished tool does not run again after a
crash; the context is passed through the run's configuration, so that no step stores it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Annotated, Any, Required, cast

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.errors import ParentCommand
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command

from unsay.context.manifest import Manifest
from unsay.effects import Steps, adrive, drive
from unsay.errors import ConfigurationError, ToolStepsError
from unsay.generation.context_builder import AttemptContext, CallCarryover
from unsay.generation.draft import ask, fresh
from unsay.generation.relevance import (
    REWRITTEN,
    findings_of,
    judge_results,
    next_search,
    nothing_relevant,
    with_findings,
)
from unsay.history.compensations import Entry
from unsay.history.tool_steps import put_draft
from unsay.messages.annotations import annotation_of
from unsay.messages.content import text_of
from unsay.operations.compensate import entries_of_calls
from unsay.operations.run_lifecycle import advance_run
from unsay.operations.unsaved_attempts import attempt_name, keep_attempt
from unsay.runtime import Scope
from unsay.state import Output, merge_messages
from unsay.tools import also_blocking

# Where a run's configuration carries the attempt; servers copy no such key.
ATTEMPT_KEY = "__unsay_attempt"


class Draft(CallCarryover, total=False):
    """The state of the tool loop: one attempt's messages so far, and the values for its next call."""

    messages: Required[Annotated[list[AnyMessage], add_messages]]
    manifests: dict[str, Manifest]
    findings: dict[str, dict[str, Any]]  # what judges found out about searches, by message id


def carried_of(draft: Mapping[str, Any]) -> CallCarryover:
    """Return the values of a draft that its next model call takes over: those of `CallCarryover`.

    Before the first call these are the values with which the attempt began. Keys that the draft
    does not have are not in the result.
    """
    names = CallCarryover.__annotations__.keys() & draft.keys()
    return cast("CallCarryover", {name: draft[name] for name in names})


def build_tool_loop(tools: Sequence[BaseTool]) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return the compiled graph in which model and tools take turns; `tools` are those it may call.

    It uses the checkpointer of the graph around it.
    """
    builder = StateGraph(Draft)
    builder.add_node("call_model", CallModel())
    callable_tools = [also_blocking(each) for each in tools]
    builder.add_node("tools", ConversationToolNode(callable_tools, handle_tool_errors=True))
    builder.add_conditional_edges(START, next_step, ["call_model", "tools", END])
    builder.add_conditional_edges("call_model", next_step, ["tools", END])
    builder.add_edge("tools", "call_model")
    return builder.compile(name="tool_loop")


class CallModel(Runnable[Draft, Draft]):
    """The node of the tool loop that calls the model once."""

    # Not a `RunnableLambda`: tracers would see the node twice, since LangGraph reports it already.

    def invoke(self, input: Draft, config: RunnableConfig | None = None, **_: Any) -> Draft:  # noqa: A002 - its name
        """Return the draft's next message and the values for the next call, as `_step` does."""
        return drive(_step(input, config or {}))

    async def ainvoke(self, input: Draft, config: RunnableConfig | None = None, **_: Any) -> Draft:  # noqa: A002 - its name
        """Do on an event loop what `invoke` does."""
        return await adrive(_step(input, config or {}))


class ConversationToolNode(ToolNode):
    """Runs the tools that the model called; as injected state they see the conversation."""

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002 - its name
        """Run the tools that the last message calls, and return their results as `messages`.

        If a tool returned a `Command`, the result is a list with it and the messages. An error of a
        tool becomes its result; an interrupt of a tool is raised.
        """
        _report_calls(input, config)
        results = super().invoke(_state_for_tools(input, config), config, **kwargs)
        _keep_results(input, results, config)
        return results

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002 - its name
        """Do on an event loop what `invoke` does."""
        _report_calls(input, config)
        results = await super().ainvoke(_state_for_tools(input, config), config, **kwargs)
        _keep_results(input, results, config)
        return results


def _report_calls(draft: Draft, config: RunnableConfig | None) -> None:
    """Stream the calls that are now made, also those of a turn that was stopped in them."""
    attempt: AttemptContext = (config or {})["configurable"][ATTEMPT_KEY]
    for call in draft["messages"][-1].tool_calls:  # type: ignore[union-attr]  # `next_step` checked it
        attempt.scope.emit("tool_call", call_id=call["id"], name=call["name"], args=call["args"])


def _keep_results(draft: Draft, results: Any, config: RunnableConfig | None) -> None:
    """Keep the results of a step in this process before LangGraph stores them, which may fail.

    `results` of tools that return a `Command` are not kept.
    """
    attempt: AttemptContext = (config or {})["configurable"][ATTEMPT_KEY]
    if isinstance(results, Mapping):
        done = merge_messages(draft["messages"], [results["messages"]])
        keep_attempt(attempt.state, attempt.scope, done, _values(draft))


def _state_for_tools(draft: Draft, config: RunnableConfig | None) -> dict[str, Any]:
    """Return the state that a tool with `InjectedState` gets: the channels of `Output`.

    Its messages are all that a strategy may choose from, also summarized ones, then the draft.
    Not among them are commands, notices, system messages, and forgotten or irrelevant ones.
    """
    attempt: AttemptContext = (config or {})["configurable"][ATTEMPT_KEY]
    shown = {name: each for name, each in attempt.state.items() if name in Output.__annotations__}
    return {**shown, "messages": [*attempt.start.messages, *draft["messages"]]}


def hand_over(command: Command[Any], scope: Scope) -> ParentCommand:
    """Return the exception with which a node passes a tool's command to the graph around unsay.

    Raises `ConfigurationError` if there is no graph around it.
    """
    # For LangGraph the graph around the tool loop is unsay itself, which has no such nodes.
    namespace = scope.config.get("configurable", {}).get("checkpoint_ns", "")
    if "|" not in namespace:
        raise ConfigurationError(
            f"A tool hands the conversation over to {command.goto!r} (Command.PARENT), and there is no "
            "graph around this one: add it as a node to the graph that has this node"
        )
    return ParentCommand(replace(command, graph=Command.PARENT))


def next_step(draft: Draft) -> str:
    """Return the next node of the loop: `call_model`, `tools`, or the end after an answer.

    A draft that a crash stopped begins with its stored messages, so it can begin at any of them.
    """
    last = draft["messages"][-1] if draft["messages"] else None
    if not isinstance(last, AIMessage):
        return "call_model"
    return "tools" if last.tool_calls else END


def _step(draft: Draft, config: RunnableConfig) -> Steps[Draft]:
    """Call the model once; return its message and the values for the next call.

    If nothing relevant was found, the call of another search is returned instead, without the
    model. The steps so far are stored before the call and after it. Raises `ToolStepsError` if the
    model calls tools again after `max_tool_steps` steps, and the errors of `ask`, such as
    `ModelUnavailableError`.
    """
    attempt: AttemptContext = config["configurable"][ATTEMPT_KEY]
    scope, done = attempt.scope, draft.get("messages", [])
    if done:
        # Before the next call: if the process ends in it, these calls can still be undone.
        turn_id = attempt.state["turn"]["question_id"] or ""
        made = yield from entries_of_calls(done, turn_id, scope)
        yield from _store(draft, attempt, made)
        _report_results(done, attempt)
    done = with_findings(done, draft.get("findings", {}))
    done = merge_messages(done, [(yield from judge_results(attempt.state, scope, done))])
    search = next_search(attempt.state, scope, done)
    if search is not None:
        update = cast("Draft", {"messages": [search], "findings": findings_of([*done, search])})
        yield from _store({**draft, **update, "messages": [*done, search]}, attempt)
        return update
    if nothing_relevant(attempt.state, done):
        attempt = replace(attempt, hints=replace(attempt.hints, found_nothing=True))
    # Tokens are announced as those of `process_message`: without this, a host that streams messages
    # would need `subgraphs=True` to see them.
    metadata = {**config.get("metadata", {}), **scope.config.get("metadata", {})}
    scope = replace(scope, config={**config, "metadata": metadata})
    if done:
        yield from advance_run(scope, phase="synthesizing")
    reply, carried = yield from ask(replace(attempt, scope=scope), done, carried_of(draft))
    if isinstance(reply, AIMessage) and reply.tool_calls:
        _refuse_endless(done, attempt)
    (message,) = fresh([reply], attempt.state, attempt.scope, done)
    manifests = {**draft.get("manifests", {}), message.id or "": carried.pop("manifest")}
    update = cast("Draft", {**carried, "messages": [message], "manifests": manifests})
    update["findings"] = findings_of(done)
    yield from _store({**draft, **update, "messages": [*done, message]}, attempt)
    if isinstance(reply, AIMessage) and reply.tool_calls:
        yield from advance_run(scope, phase="executing_tools")
    return update


def _refuse_endless(done: Sequence[AnyMessage], attempt: AttemptContext) -> None:
    """Raise `ToolStepsError` if a draft has `max_tool_steps` steps of tools already.

    Steps that a rejected draft left, and searches that unsay made, are not counted.
    """
    limit = attempt.scope.settings.max_tool_steps
    resumed = {message.id for message in attempt.state["turn"].get("steps", [])}
    own = [m for m in done if m.type == "ai" and not annotation_of(m).get(REWRITTEN)]
    if sum(message.id not in resumed for message in own) >= limit:
        raise ToolStepsError(
            f"The model called tools in {limit} steps without an answer: raise the setting "
            "max_tool_steps, or ask for less at once"
        )


def _report_results(done: Sequence[AnyMessage], attempt: AttemptContext) -> None:
    """Stream the results of the newest step's tool calls, unless a rejected draft streamed them."""
    resumed = {message.id for message in attempt.state["turn"].get("steps", [])}
    results = list(takewhile(lambda message: isinstance(message, ToolMessage), reversed(done)))
    for result in reversed(results):
        assert isinstance(result, ToolMessage)  # noqa: S101 - for mypy; `takewhile` has checked it
        if result.id in resumed:
            continue
        attempt.scope.emit(
            "tool_result",
            call_id=result.tool_call_id,
            name=result.name,
            status=result.status,
            text=text_of(result),
        )


def _store(draft: Draft, attempt: AttemptContext, made: Sequence[Entry] = ()) -> Steps[None]:
    keep_attempt(attempt.state, attempt.scope, draft["messages"], _values(draft))
    if attempt.scope.address is not None:
        yield put_draft(*attempt.scope.address, attempt_name(attempt.state), draft, made=made)


def _values(draft: Draft) -> dict[str, Any]:
    return {name: value for name, value in draft.items() if name != "messages"}
