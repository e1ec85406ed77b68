"""Asking the model: a context for each call, and what the call leaves to the next."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    BaseMessageChunk,
    convert_to_messages,
    message_chunk_to_message,
)

from unsay.context.compaction import Compaction, summary_message
from unsay.context.manifest import Manifest, ModelCall, WindowUse, manifest_of
from unsay.context.plan import Plan, PlanContext
from unsay.context.strategy import ask_with_strategy, plan_if_due
from unsay.effects import Steps
from unsay.errors import ModelReplyError
from unsay.generation.context_builder import (
    AttemptContext,
    CallCarryover,
    Sending,
    plans_at_end,
    strategy_of,
)
from unsay.llm.call import ModelRequest, ask_model, with_room
from unsay.llm.usage import answered_by, longest_reply, replies_in
from unsay.messages.annotations import KEY
from unsay.operations.recall import recalled
from unsay.retrieval.excerpts import quoting
from unsay.settings import Settings
from unsay.state import State, offloaded_of
from unsay.tokens.counter import TokenCounter

ROOM = 0.375
"""Share of the window that a fold leaves, of which recall may take its share. Source: seed 004."""

FULLEST = 0.9
"""Share of the window that a view with what was recalled may take."""


def ask(
    attempt: AttemptContext, done: Sequence[AnyMessage], carried: CallCarryover
) -> Steps[tuple[Any, CallCarryover]]:
    """Call the model once with a new context; one that is too long is reduced and sent again.

    Returns:
        The reply, and what is left to the next call.

    Raises:
        ContextOverflowError: The context cannot be made small enough.
        Exception: The model failed.
    """
    now, scope, model = attempt.plan_context(done, carried), attempt.scope, attempt.model
    assert model is not None  # noqa: S101 - only a plan without a call has none
    counter, tools = attempt.counting(carried), scope.services.tools
    request = ModelRequest(
        scope=scope,
        model=model,
        value=[],
        purpose="answer",
        key=f"{attempt.state['turn']['question_id']}-{attempt.hints.attempt}-{now.call}",
        tokens=lambda: min(now.tokens, now.window),
        quiet=scope.settings.stream == "held",
        witness=attempt.witness,
        fallback=scope.services.with_tools,
    )
    sendings: list[Sending] = []

    def send(plan: Plan) -> Steps[Any]:
        quoted, ids = carried.get("quoted"), carried.get("quoted_ids", [])
        if plan.after.overflows:
            quoted, ids = None, []
        elif "quoted" not in carried:
            found = yield from recalled(
                attempt.recall_source,
                {message.id or "" for message in plan.messages},
                question=attempt.question,
                budget_tokens=_room(plan.after, scope.settings),
                count=plan.after.count,
            )
            quoted = quoting(found.messages, attempt.texts) if found.messages else None
            ids = [message.id or "" for message in found.messages]
        sendings.append(attempt.lay_out_plan(plan, quoted, ids))
        sent = sendings[-1].sent
        attempt.witness.sees(sent)
        value = {"messages": sent} if scope.services.is_graph else sent
        tokens = partial(counter.count, sent, tools)
        return (yield from ask_model(replace(request, value=value, tokens=tokens)))

    answered = yield from with_room(
        request,
        lambda: ask_with_strategy(
            strategy_of(scope), now, send, has_extras=lambda: sendings[-1].quoted is not None
        ),
    )
    plan, reply, sending = answered.plan, answered.reply, sendings[-1]
    for problem in plan.problems:
        scope.tell("context_problem", error=f"{type(problem).__name__}: {problem}"[:500])
    manifest = _manifest(attempt, plan, sending, reply, counter)
    if isinstance(reply, AIMessage):
        counter = counter.observe(sending.sent, reply.usage_metadata, tools)
    return reply, CallCarryover(
        compaction=plan.compaction,
        calibration=counter.calibration,
        quoted=sending.quoted,
        quoted_ids=sending.quoted_ids,
        manifest=manifest,
    )


def _room(after: PlanContext, settings: Settings) -> int:
    share, free = settings.recall_share * ROOM * after.window, FULLEST * after.window
    return max(0, min(settings.recall_tokens, int(share), int(free) - after.tokens))


def _manifest(
    attempt: AttemptContext, plan: Plan, sending: Sending, reply: Any, counter: TokenCounter
) -> Manifest:
    services, offloaded = attempt.scope.services, offloaded_of(attempt.state)
    assert attempt.model is not None  # noqa: S101 - it has just replied
    asked = ModelCall(
        transcript=attempt.state["messages"],
        view=sending.view,
        sent=sending.sent,
        left_out=[*attempt.left_out, *plan.left_out],
        pins=plan.after.pins,
        recalled=sending.quoted_ids,
        before=offloaded["messages"] if offloaded else 0,
        offloaded_places=attempt.earlier,
        question_id=attempt.state["turn"]["question_id"],
        attempt=attempt.hints.attempt,
        call=plan.after.call or 1,
        model=answered_by(replies_in(reply, sending.sent)) or services.model_name or "",
    )
    summaries = (
        [summary_message(attempt.topic_summaries.head, attempt.texts)]
        if attempt.topic_summaries.head
        else []
    )
    room = WindowUse(
        prompt=plan.after.tokens + counter.count([sending.quoted] if sending.quoted else []),
        tools=counter.count([], services.tools),
        summary=counter.count(summaries),
        reply=longest_reply(attempt.model, "answer"),
        window=plan.after.window_tokens or 0,
    )
    return manifest_of(asked, room, counter.count)


def at_end(
    attempt: AttemptContext, draft: Sequence[AnyMessage], carried: CallCarryover
) -> Steps[Compaction]:
    """The fold once a turn is over, by a strategy that plans at the end of turns."""
    strategy = strategy_of(attempt.scope)
    if not plans_at_end(strategy):
        return carried.get("compaction", attempt.start.compaction)
    now = replace(attempt.plan_context(draft, carried), call=None, pending=frozenset())
    return (yield from plan_if_due(strategy, now)).compaction


UNIQUE_CHARS = 16
"""An id that is shorter may stand on the sealed part of a record already."""


def messages_of(reply: Any, sent: Collection[str | None]) -> list[AnyMessage]:
    """The new messages of a reply: tool steps first, the final words last.

    Args:
        reply: A message, text, a list of messages, or a mapping with `messages`.
        sent: Ids of the messages that the model was sent; in a list of messages
            they are not new, save for the last: some servers give every reply one id.

    Raises:
        ModelReplyError: The reply is none of these, or ends without the
            assistant's words.
    """
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
        found = [_whole(message) for message in convert_to_messages(list(reply))]
    except (NotImplementedError, ValueError) as error:
        raise ModelReplyError(
            f"The model returned something else than messages: {expected}"
        ) from error
    said = [m for m in found if m.type in ("ai", "tool")]
    longer = len(found) > len(sent)
    new = [m for m in said if m.id not in sent or m.id is None or (longer and m is found[-1])]
    if not new or new[-1].type != "ai":
        raise ModelReplyError("The reply does not end in a message of the assistant")
    if isinstance(new[-1], AIMessage) and new[-1].tool_calls:
        names = ", ".join(repr(call["name"]) for call in new[-1].tool_calls)
        raise ModelReplyError(f"The model calls {names} without being given such a tool")
    return new


def _whole(message: BaseMessage) -> Any:
    """The message, joined if it is a chunk, without notes that only unsay may write."""
    whole = message_chunk_to_message(message) if isinstance(message, BaseMessageChunk) else message
    if KEY not in whole.response_metadata:
        return whole
    metadata = {key: value for key, value in whole.response_metadata.items() if key != KEY}
    return whole.model_copy(update={"response_metadata": metadata})


def with_fresh_ids(
    messages: Sequence[AnyMessage],
    taken: Collection[str | None],
    stem: str,
    *,
    shortest: int = 0,
) -> list[AnyMessage]:
    """The messages with ids that are not yet taken; `stem`, unique to the attempt, begins those made.

    Some servers give every reply the same id; in the transcript it would replace the answer before it.
    An id with fewer characters than `shortest` is not believed to be unique.
    """
    used = set(taken)
    fresh: list[AnyMessage] = []
    for index, message in enumerate(messages):
        own = message.id or ""
        name = own if own and own not in used and len(own) >= shortest else f"{stem}-{index}"
        used.add(name)
        fresh.append(message if name == message.id else message.model_copy(update={"id": name}))
    return fresh


def fresh(
    draft: Sequence[AnyMessage], state: State, done: Sequence[AnyMessage] = ()
) -> list[AnyMessage]:
    """Messages of an attempt with ids that are not on the record, nor on what the attempt has."""
    turn = state["turn"]
    stem = f"{turn['question_id']}-{len(turn['rejections']) + 1}"
    taken = {message.id for message in (*state["messages"], *done)}
    shortest = UNIQUE_CHARS if offloaded_of(state) else 0
    stem = f"{stem}-{len(done)}" if done else stem
    return with_fresh_ids(draft, taken, stem, shortest=shortest)
