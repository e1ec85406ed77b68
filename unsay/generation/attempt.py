"""One attempt at an answer: the draft of the model alone, or of the loop of model and tools."""

from typing import cast

from langchain_core.messages import AnyMessage
from langgraph.errors import GraphBubbleUp, ParentCommand

from unsay.context.manifest import Manifest, with_manifest
from unsay.effects import Steps
from unsay.errors import BudgetExceededError
from unsay.generation.context_builder import AttemptContext, CallCarryover
from unsay.generation.draft import ask, fresh, messages_of, with_state_of
from unsay.generation.failed_calls import keep_failed_request
from unsay.generation.relevance import findings_of, with_findings
from unsay.generation.tool_loop import ATTEMPT_KEY, carried_of, hand_over
from unsay.history.unsaved_answers import UnsavedAttempt
from unsay.llm.gateway import explain
from unsay.operations.compensate import note_own_calls
from unsay.operations.unsaved_attempts import keep_attempt

Made = tuple[list[AnyMessage], CallCarryover, dict[str, Manifest]]
"""A draft's messages, the values of its last call, and the manifests of its calls by message id."""


def make_draft(
    attempt: AttemptContext, kept: UnsavedAttempt | None
) -> Steps[tuple[list[AnyMessage], CallCarryover]]:
    """Return one draft's messages, tool steps first, and the values that its last call left.

    `kept` is the draft so far that an earlier run could not save; the attempt continues from there.
    Any error of the model is raised: an error of a client as the error of unsay that explains it,
    if there is one. An error of a tool becomes its result. If a tool hands the conversation over to
    another node, the exception of `hand_over` is raised.
    """
    state, scope, recorder = attempt.state, attempt.scope, attempt.recorder
    if kept and kept.verdict:  # it is finished
        if scope.services.tool_loop is not None:
            note_own_calls(kept.draft, scope)
        return list(kept.draft), cast("CallCarryover", dict(kept.values))
    make = _made_by_loop if scope.services.tool_loop is not None else _made_by_model
    try:
        draft, carried, manifests = yield from make(attempt, kept)
    except ParentCommand as raised:
        raise hand_over(raised.args[0], scope) from None
    except (GraphBubbleUp, BudgetExceededError):
        raise
    # Any client may raise anything; an error that `explain` does not know is raised as it is.
    except Exception as error:
        yield from keep_failed_request(state, scope, recorder, error)
        explained = explain(error)
        if explained is None or explained is error:
            raise
        raise explained from error
    messages = [
        with_manifest(message, manifests[message.id]) if message.id in manifests else message
        for message in fresh(draft, state, scope)
    ]
    if scope.services.tool_loop is not None:
        note_own_calls(messages, scope)
    if not manifests:
        messages[-1] = with_manifest(messages[-1], carried["manifest"])
    return messages, carried


def _made_by_model(attempt: AttemptContext, kept: UnsavedAttempt | None) -> Steps[Made]:
    """Return a draft of one call of the model; of an agent, its tool steps come first.

    `kept`, a draft that could not be saved, is returned without a call. Raises the errors of `ask`.
    """
    state, scope = attempt.state, attempt.scope
    if kept:
        return list(kept.draft), cast("CallCarryover", dict(kept.values)), {}
    steps, before = _start_of(attempt)
    reply, carried = yield from ask(attempt, steps, before)
    draft = [*steps, *messages_of(reply, {message.id for message in attempt.recorder.context})]
    draft = with_state_of(draft, reply, scope)
    keep_attempt(state, scope, draft, carried)
    return draft, carried, {}


def _made_by_loop(attempt: AttemptContext, kept: UnsavedAttempt | None) -> Steps[Made]:
    """Return a draft of the loop of model and tools, which goes on after the last finished step.

    That is the last step of `kept`, or of the stored draft if `kept` is `None` or shorter. Errors of
    the loop are raised.
    """
    scope = attempt.scope
    steps, before = _start_of(attempt)
    stored = {**kept.values, "messages": list(kept.draft)} if kept else {}
    start = {"messages": steps, "findings": findings_of(steps), **before, **stored}
    quiet, loop = scope.settings.stream == "held", scope.services.tool_loop
    assert loop is not None  # noqa: S101 - the caller has checked it
    reply = yield scope.ask(loop, start, quiet=quiet, configurable={ATTEMPT_KEY: attempt})
    draft = with_findings(messages_of(reply, ()), reply.get("findings", {}))
    return draft, carried_of(reply), reply.get("manifests", {})


def _start_of(attempt: AttemptContext) -> tuple[list[AnyMessage], CallCarryover]:
    """Return the finished steps of a rejected draft, which are not run again, and first values.

    There are no such steps in the first attempt.
    """
    before = CallCarryover(compaction=attempt.start.compaction)
    if "calibration" in attempt.state:
        before["calibration"] = attempt.state["calibration"]
    return list(attempt.state["turn"].get("steps", [])), before
