"""Draft: call the model with a new context each time, and read its reply as messages."""

import hashlib
import json
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, convert_to_messages

from unsay.context.compaction import Compaction, summary_message, with_partners
from unsay.context.manifest import Manifest, ModelCall, WindowUse, manifest_of
from unsay.context.plan import Plan, PlanContext
from unsay.context.strategy import ask_with_strategy, plan_if_due
from unsay.context.topics import TopicScoped
from unsay.context.windows import SlidingWindow
from unsay.effects import Steps
from unsay.errors import ModelReplyError, SummarizationError
from unsay.generation.context_builder import (
    AttemptContext,
    CallCarryover,
    LaidOutContext,
    plans_at_end,
    strategy_of,
)
from unsay.llm.call import ModelRequest, ask_model, longest_reply, with_room
from unsay.llm.gateway import answered_by, replies_in
from unsay.memory.recall import ASKED_TOKENS, if_possible, search_transcript
from unsay.messages.annotations import with_annotation
from unsay.messages.conformance import plain
from unsay.models.agents import (
    STRUCTURED,
    state_after,
    state_before,
    structured_value,
    with_agent_state,
    without_state,
)
from unsay.retrieval.quotation import quoting
from unsay.runtime import Scope
from unsay.state import State, offloaded_of
from unsay.tokens.counter import TokenCounter
from unsay.turn.delivery import at_steps

LOG = logging.getLogger(__name__)

# Share of the window that a compaction leaves, and the most of it that recall may use. Source: seed
# 004; the second is our own.
ROOM = 0.375
RECALL_SHARE = 0.5
# Most of the window that a context may fill with recalled messages included.
FULLEST = 0.9
# A shorter id of a server may already be used in an offloaded segment.
UNIQUE_CHARS = 16


def ask(
    attempt: AttemptContext, done: Sequence[AnyMessage], carried: CallCarryover
) -> Steps[tuple[Any, CallCarryover]]:
    """Call the model once with a new context; return its reply and the values for the next call.

    `done` are the attempt's messages so far, `carried` the values of its last call. A context that
    is too long for the model is reduced and sent again.

    Raises:
        ContextOverflowError: The context stayed too long after it was reduced several times.
        SummarizationError: It could not be reduced, because a summary failed.
        TranscriptError: The provider would refuse the context.
        Exception: An error of `ask_model`: of a budget, of the queue or of the model's client.
    """
    start, scope, model = attempt.plan_context(done, carried), attempt.scope, attempt.model
    assert model is not None  # noqa: S101 - only a plan without a call has none
    counter, tools = attempt.counting(carried), scope.services.tools
    request = ModelRequest(
        scope=at_steps(attempt.state, scope) if scope.services.is_graph else scope,
        model=model,
        value=attempt.state["messages"],  # only for its language, until a context replaces it
        purpose="answer",
        key=f"{attempt.state['turn']['question_id']}-{attempt.hints.attempt}-{start.call}",
        tokens=lambda: min(start.tokens, start.window),
        quiet=scope.settings.stream == "held",
        handler=attempt.recorder,
        fallback=scope.services.with_tools,
    )
    contexts: list[LaidOutContext] = []
    _warn_of_pins(attempt, start)

    def send(plan: Plan) -> Steps[Any]:
        quoted, ids = carried.get("quoted"), carried.get("quoted_ids", [])
        # What must be included is too long already, so nothing is recalled.
        if plan.after.overflows:
            quoted, ids = None, []
        elif "quoted" not in carried:
            recalled = yield from _recalled(attempt, plan)
            quoted = quoting(recalled, attempt.texts) if recalled else None
            ids = [message.id or "" for message in recalled]
        contexts.append(attempt.lay_out_plan(plan, quoted, ids))
        prompt = contexts[-1].sent
        attempt.recorder.begin(prompt)  # before the call, which may fail
        value: Any = prompt
        if scope.services.is_graph:
            state = state_before(model, [*attempt.state["messages"], *done])
            value = {**state, "messages": without_state(prompt)}
        tokens = partial(counter.count, prompt, tools)
        return (yield from ask_model(replace(request, value=value, tokens=tokens)))

    reply, plan = yield from with_room(
        request,
        lambda: ask_with_strategy(
            strategy_of(scope), start, send, has_extras=lambda: contexts[-1].quoted is not None
        ),
    )
    context = contexts[-1]
    _report(plan, scope)
    manifest = _manifest(attempt, plan, context, reply, counter)
    if isinstance(reply, AIMessage):
        counter = counter.observe(context.sent, reply.usage_metadata, tools)
    return reply, CallCarryover(
        compaction=plan.compaction,
        calibration=counter.calibration,
        quoted=context.quoted,
        quoted_ids=context.quoted_ids,
        manifest=manifest,
    )


def _warn_of_pins(attempt: AttemptContext, start: PlanContext) -> None:
    """Log and stream a warning if the pins do not fit into the window.

    A graph does so once for each thread.
    """
    scope, warned = attempt.scope, f"pins over the window: {attempt.scope.thread_id}"
    if not start.pins or warned in scope.services.learned:
        return
    places = with_partners(start.messages, start.pins)
    pinned = [start.messages[index] for index in sorted(places)]
    tokens = start.overhead_tokens + start.count(pinned)
    strategy = strategy_of(scope)
    strategy = strategy.within if isinstance(strategy, TopicScoped) else strategy
    most = strategy.window_size if isinstance(strategy, SlidingWindow) else None
    if tokens < start.window and (most is None or len(pinned) <= most):
        return
    limit = f"{start.window} tokens" if tokens >= start.window else f"{most} messages"
    scope.services.learned.add(warned)
    text = attempt.texts.say("pins_over_window", messages=len(pinned), tokens=tokens, limit=limit)
    LOG.warning("thread_id=%s %s", scope.thread_id, text)
    scope.warn("context_warning", text=text)


def _recalled(attempt: AttemptContext, plan: Plan) -> Steps[Sequence[AnyMessage]]:
    """Return earlier messages that a person searched for or that match the question, and fit.

    Empty without recall or after a streamed error. `RECALL_SHARE` limits only those that match.
    """
    after, settings = plan.after, attempt.scope.settings
    share, free = RECALL_SHARE * ROOM * after.window, FULLEST * after.window
    free_tokens = int(free) - after.tokens
    if attempt.recall_source is None or free_tokens <= 0:
        return ()
    search = search_transcript(
        attempt.recall_source,
        {message.id or "" for message in plan.messages},
        question=attempt.question,
        budget_tokens=min(settings.recall_tokens, int(share), free_tokens),
        asked_tokens=min(settings.recall_tokens or ASKED_TOKENS, free_tokens),
        count=after.count,
    )
    matches = yield from if_possible(search, attempt.scope)
    return matches.messages if matches else ()


def _manifest(
    attempt: AttemptContext, plan: Plan, context: LaidOutContext, reply: Any, counter: TokenCounter
) -> Manifest:
    """Return a call's record for the timeline: which messages it was sent and which not, its tokens."""
    services, offloaded = attempt.scope.services, offloaded_of(attempt.state)
    assert attempt.model is not None  # noqa: S101 - it has just replied
    model_call = ModelCall(
        transcript=attempt.state["messages"],
        context=context.context,
        sent=context.sent,
        left_out=[*attempt.left_out, *plan.left_out],
        pins=plan.after.pins,
        recalled=context.quoted_ids,
        before=offloaded["messages"] if offloaded else 0,
        offloaded_places=attempt.earlier,
        question_id=attempt.state["turn"]["question_id"],
        attempt=attempt.hints.attempt,
        call=plan.after.call or 1,
        model=answered_by(replies_in(reply, context.sent)) or services.model_name or "",
    )
    head = attempt.topic_summaries.head
    summaries = [summary_message(head, attempt.texts)] if head else []
    room = WindowUse(
        prompt=plan.after.tokens + counter.count([context.quoted] if context.quoted else []),
        tools=counter.count([], services.tools),
        summary=counter.count(summaries),
        reply=longest_reply(attempt.model, "answer"),
        window=plan.after.window_tokens or 0,
    )
    return manifest_of(model_call, room, counter.count)


def at_end(
    attempt: AttemptContext, draft: Sequence[AnyMessage], carried: CallCarryover
) -> Steps[Compaction]:
    """Return the compaction after an accepted draft, for the next turn.

    A strategy that plans after turns makes a new one here; else it is that of the last call. A
    strategy that fails raises no error: it is reported, and the compaction stays.
    """
    strategy = strategy_of(attempt.scope)
    if not plans_at_end(strategy):
        return carried.get("compaction", attempt.start.compaction)
    start = replace(attempt.plan_context(draft, carried), call=None, pending=frozenset())
    plan = yield from plan_if_due(strategy, start)
    _report(plan, attempt.scope)
    return plan.compaction


def _report(plan: Plan, scope: Scope) -> None:
    """Write a plan's problems to the custom stream; a failed summary pauses later ones."""
    for problem in plan.problems:
        scope.report_failure("context_problem", problem)
        if isinstance(problem, SummarizationError):
            scope.step_log.pause_summaries()


def messages_of(reply: Any, sent: Collection[str | None]) -> list[AnyMessage]:
    """Return the new messages of a reply, tool steps first.

    Args:
        reply: A message, text, a list of messages, or a mapping with `messages`.
        sent: Ids of the messages that the model was sent. In a list of messages they are not new,
            except the last: some servers give every reply the same id.

    Raises:
        ModelReplyError: The reply has another form, or its last message is not an answer.
    """
    structured = reply.get(STRUCTURED) if isinstance(reply, Mapping) else None
    if isinstance(reply, Mapping) and "messages" in reply:
        reply = reply["messages"]
    if isinstance(reply, str | BaseMessage):
        reply, sent = [AIMessage(reply) if isinstance(reply, str) else reply], ()
    expected = (
        "an agent must return a message, text, a list of messages, or a mapping with 'messages'"
    )
    if not isinstance(reply, Sequence):
        raise ModelReplyError(
            f"The model returned {type(reply).__name__}, not a message: {expected}"
        )
    try:
        # Only unsay may write annotations.
        messages = [with_annotation(plain(each), {}) for each in convert_to_messages(list(reply))]
    except (NotImplementedError, TypeError, ValueError) as error:
        raise ModelReplyError(
            f"The model returned a list that is not one of messages: {expected}"
        ) from error
    longer = len(messages) > len(sent)
    new = [
        m
        for m in messages
        if m.type in ("ai", "tool")
        and (m.id not in sent or m.id is None or (longer and m is messages[-1]))
    ]
    if structured is not None and (not new or new[-1].type == "tool"):
        # The agent gave its structured reply by a tool call, without an answer in words.
        try:
            text = json.dumps(structured_value(structured), ensure_ascii=False)
        except ValueError as error:
            raise ModelReplyError(f"The agent's structured reply is not JSON: {error}") from error
        new.append(AIMessage(text))
    if not new or new[-1].type != "ai":
        raise ModelReplyError("The model's reply does not end in a message of the assistant")
    if isinstance(new[-1], AIMessage) and new[-1].tool_calls:
        names = ", ".join(repr(call["name"]) for call in new[-1].tool_calls)
        raise ModelReplyError(f"The model calls {names}, and has no such tool")
    return new


def with_state_of(draft: list[AnyMessage], reply: Any, scope: Scope) -> list[AnyMessage]:
    """Return a draft whose answer has the state of the agent that gave the reply, if it has one.

    A channel of the agent that cannot be stored is left out and reported.
    """
    state: dict[str, Any] = {}
    for name, value in state_after(scope.services.model, reply):
        if isinstance(value, Exception):
            reason = f"the agent's channel {name!r} is not kept: {value}"
            scope.report_failure("agent_state_problem", TypeError(reason))
        else:
            state[name] = value
    return with_agent_state(draft, state)


def with_fresh_ids(
    messages: Sequence[AnyMessage],
    taken: Collection[str | None],
    stem: str,
    *,
    shortest: int = 0,
) -> list[AnyMessage]:
    """Return the messages with unique ids; a message whose id changes is copied.

    An id becomes `stem-index` if it is missing, is in `taken`, is that of an earlier message, or
    has fewer than `shortest` characters. That new id is not checked: choose a `stem` with which no
    other id begins.
    """
    # Some servers give every reply the same id, which would replace the answer before it.
    used_ids = set(taken)
    fresh: list[AnyMessage] = []
    for index, message in enumerate(messages):
        own = message.id or ""
        name = own if own and own not in used_ids and len(own) >= shortest else f"{stem}-{index}"
        used_ids.add(name)
        fresh.append(message if name == message.id else message.model_copy(update={"id": name}))
    return fresh


def fresh(
    draft: Sequence[AnyMessage], state: State, scope: Scope, done: Sequence[AnyMessage] = ()
) -> list[AnyMessage]:
    """Return an attempt's messages with ids that neither transcript nor attempt (`done`) has.

    A message whose id changes is copied. A new id is made of the question's id, the number of the
    attempt and the message's place.
    """
    turn = state["turn"]
    stem = f"{turn['question_id']}-{len(turn['rejections']) + 1}"
    # Other nodes of a parent graph may answer the same question in the same step.
    node = scope.config.get("configurable", {}).get("checkpoint_ns", "").rpartition("|")[0]
    stem = f"{stem}-{hashlib.sha256(node.encode()).hexdigest()[:8]}" if node else stem
    used_ids = {message.id for message in (*state["messages"], *done)}
    shortest = UNIQUE_CHARS if offloaded_of(state) else 0
    stem = f"{stem}-{len(done)}" if done else stem
    return with_fresh_ids(draft, used_ids, stem, shortest=shortest)
