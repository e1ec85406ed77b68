"""One attempt at an answer: the draft of the model alone, or of the loop of model and tools."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from difflib import SequenceMatcher
from typing import Any, cast

from langchain_core.messages import AnyMessage, BaseMessage
from langgraph.errors import GraphBubbleUp, GraphInterrupt, ParentCommand

from unsay.context.manifest import Manifest, with_manifest
from unsay.effects import Steps
from unsay.errors import BudgetExceededError
from unsay.generation.context_builder import AttemptContext, CallCarryover, keep_failed_request
from unsay.generation.draft import ask, fresh, messages_of, with_state_of
from unsay.generation.judge import exchange_of, judge_exchange, topics_to_label
from unsay.generation.relevance import findings_of, nothing_relevant, with_findings
from unsay.generation.tool_loop import ATTEMPT_KEY, carried_of, hand_over
from unsay.history.unsaved_answers import UnsavedAttempt
from unsay.llm.gateway import explain, messages_in
from unsay.messages.annotations import annotate, annotation_of, exchange_start, is_answer
from unsay.messages.content import text_of
from unsay.moves.compensate import note_own_calls
from unsay.protocols import Verdict
from unsay.runtime import Scope
from unsay.state import State
from unsay.tokens.pricing import merged
from unsay.tracing import send_score
from unsay.turn.delivery import at_steps, keep_attempt

REWRITTEN = "rewritten"
"""Name of the annotation of a draft: the new contents of messages, by id; the transcript lacks it."""


def note_rewritten(
    draft: list[AnyMessage], reply: Any, sent: Sequence[BaseMessage], state: State
) -> list[AnyMessage]:
    """Return a draft that notes which messages an agent rewrote under their ids, such as without PII.

    A context joins messages and adds hints to them: then each text that was replaced there is
    replaced in the messages of the turn.
    """
    if not isinstance(reply, Mapping):  # the state of an agent: a model alone rewrites nothing
        return draft
    before = {message.id: message for message in sent}
    new = {m.id: m for m in messages_in(reply) if m.id in before}
    changed_ids = [name for name, each in new.items() if each.content != before[name].content]
    spans = [span for name in changed_ids for span in _replaced(before[name], new[name])]
    new_contents = {}
    for message in state["messages"]:
        content: Any = message.content
        if message.id in changed_ids and before[message.id].content == content:
            content = new[message.id].content
        elif message.id in (*changed_ids, *state["turn"]["pending"]):
            for old, text in spans:
                content = _with_text(content, old, text)
        if content != message.content:
            new_contents[message.id] = content
    return (
        [*draft[:-1], annotate(draft[-1], **{REWRITTEN: new_contents})] if new_contents else draft
    )


def _replaced(before: BaseMessage, after: BaseMessage) -> Iterator[tuple[str, str]]:
    """Yield each text that one message has in place of another, with that one first."""
    old, new = (re.findall(r"\s+|\S+", text_of(each)) for each in (before, after))
    matcher = SequenceMatcher(a=old, b=new, autojunk=False)
    for _, start, end, place, stop in matcher.get_opcodes():
        if old[start:end] != new[place:stop] and "".join(old[start:end]).strip():
            yield "".join(old[start:end]), "".join(new[place:stop])


def _with_text(content: Any, old: str, text: str) -> Any:
    if isinstance(content, str):
        return content.replace(old, text)
    if isinstance(content, dict) and "text" in content:
        return {**content, "text": _with_text(content["text"], old, text)}
    if isinstance(content, list):
        return [_with_text(each, old, text) for each in content]
    return content


def rewritten_in(draft: Sequence[AnyMessage], state: State) -> list[AnyMessage]:
    """Return the messages of the transcript that `note_rewritten` noted, as the agent rewrote them."""
    new_contents = annotation_of(draft[-1]).get(REWRITTEN, {})
    return [
        each.model_copy(update={"content": new_contents[each.id]})
        for each in state["messages"]
        if each.id in new_contents
    ]


# Answers that the judge never skips: those of the first turns of a thread, and every eighth one.
FIRST_JUDGED = 4
JUDGED_EVERY = 8


def judge_draft(attempt: AttemptContext, draft: list[AnyMessage]) -> Steps[Verdict]:
    """Return the verdict on the attempt's draft with its tool calls, and stream the verdict.

    In most turns after the first four the judge may be skipped: see `judge_exchange`. A judge that
    fails, or whose call is over a budget, raises nothing: the verdict is unscored.
    """
    state, scope, answer = attempt.state, attempt.scope, draft[-1]
    turn = state["turn"]
    question = next(m for m in state["messages"] if m.id == turn["question_id"])
    before = [m for m in attempt.start.messages if m.id not in turn["pending"]]
    # After an interruption the steps that were finished before it are in the context already.
    pending = [m for m in attempt.start.messages if m.id in turn["pending"]]
    exchange = exchange_of(question, answer, before, [*pending, *draft[:-1]])
    exchange = replace(
        exchange, found_nothing=nothing_relevant(state, draft), topics=topics_to_label(state)
    )
    # The key is the same after a crash, so that a repeated step does not pay its judge twice.
    key = f"{turn['question_id']}-{attempt.hints.attempt}"
    is_first = not turn["rejections"]
    may_skip = is_first and turn["number"] > FIRST_JUDGED and turn["number"] % JUDGED_EVERY
    usage_by_purpose = merged(state.get("spent", {}), scope.step_log.spent) if may_skip else None
    verdict = yield from judge_exchange(exchange, answer, scope, key=key, spent=usage_by_purpose)
    scope.emit("verdict", of="draft", message_id=answer.id, **asdict(verdict))
    send_score(scope.config, verdict.score, of_graph=False)
    return verdict


def confirm_blame(state: State, scope: Scope, verdict: Verdict) -> Steps[list[str]]:
    """Return the ids that a draft's verdict blames, without those of answers that pass once more.

    An earlier answer that did not fail is judged again, alone and with the blame as a hint: one
    verdict that names a wrong answer by chance removes nothing. Unscored keeps the answer, too.
    """
    messages, turn = state["messages"], state["turn"]
    answers = {message.id: index for index, message in enumerate(messages) if is_answer(message)}
    confirmed = []
    for name in verdict.blamed:
        index = answers.get(name)
        if index is not None and annotation_of(messages[index]).get("outcome") != "failed":
            start = exchange_start(messages, index)
            question = messages[start] if start < index else None
            answer = messages[index]
            steps = messages[start:index]
            exchange = exchange_of(question, answer, messages[:start], steps)
            key = f"{turn['question_id']}-{len(turn['rejections']) + 1}-{name}"
            second_verdict = yield from judge_exchange(
                exchange, answer, scope, key=key, hint="blamed"
            )
            if second_verdict.outcome != "failed":
                continue
        confirmed.append(name)
    return confirmed


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
        note_own_calls(kept.draft, scope)
        return list(kept.draft), cast("CallCarryover", dict(kept.values))
    make = _made_by_loop if scope.services.tool_loop is not None else _made_by_model
    try:
        draft, carried, manifests = yield from make(attempt, kept)
    except ParentCommand as raised:
        raise hand_over(raised.args[0], scope) from None
    except (GraphBubbleUp, BudgetExceededError):
        raise
    except Exception as error:  # any client may raise anything; an unknown error is raised as it is
        yield from keep_failed_request(state, scope, recorder, error)
        explained = explain(error)
        if explained is None or explained is error:
            raise
        raise explained from error
    messages = [
        with_manifest(message, manifests[message.id]) if message.id in manifests else message
        for message in fresh(draft, state, scope)
    ]
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
    draft = note_rewritten(draft, reply, attempt.recorder.context, state)
    keep_attempt(state, scope, draft, carried)
    return draft, carried, {}


def _made_by_loop(attempt: AttemptContext, kept: UnsavedAttempt | None) -> Steps[Made]:
    """Return a draft of the loop of model and tools, in which nothing of `kept` is made again.

    Errors of the loop are raised, interrupts of several tools in the order of their calls.
    """
    scope = attempt.scope
    kept = kept or UnsavedAttempt(question="", draft=(), values={})
    attempt = replace(attempt, kept=list(kept.draft), kept_values=kept.values)
    steps, before = _start_of(attempt)
    start = {"findings": findings_of(steps), **before, "messages": steps}
    quiet, loop = scope.settings.stream == "held", cast("Any", scope.services.tool_loop)
    try:
        # Without a store only the checkpointer has the steps that finished.
        scope = scope if scope.store else at_steps(attempt.state, scope)
        output = yield from scope.ask(loop, start, quiet=quiet, configurable={ATTEMPT_KEY: attempt})
    except GraphInterrupt as raised:
        interrupts = [each for place in sorted(attempt.asked) for each in attempt.asked[place]]
        raise GraphInterrupt(interrupts or raised.args[0]) from None
    reply = cast("Mapping[str, Any]", output)
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
