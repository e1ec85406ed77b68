"""A compaction that a person asks for: a summary replaces the messages up to a turn in contexts."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AnyMessage

from unsay.context.compaction import Compaction
from unsay.context.plan import Omission, PlanContext
from unsay.context.summaries import Summarizer, compact_with_model
from unsay.context.topics import (
    TopicScoped,
    cleared_ids,
    compaction_without,
    forgotten_ids,
    kept_messages,
    pinned_ids,
    topic_starts,
    without_forgotten,
)
from unsay.effects import Steps, off_loop
from unsay.errors import InputError
from unsay.events import event_types
from unsay.history.checkpoints import find_checkpoint
from unsay.llm.summarize import ask_summarizer
from unsay.memory.visibility import TURNS, turns_named
from unsay.messages.annotations import is_answer, spoken
from unsay.messages.conformance import conform
from unsay.models.factory import resolve_model
from unsay.orders.parse import as_sent
from unsay.runtime import Scope
from unsay.state import State, Update, offloaded_of
from unsay.tokens.counter import TokenCounter
from unsay.transcript.live import with_step
from unsay.types import Operation, Topic

WHY = "order"  # the rule's name in omissions and manifests


def compact_up_to(
    state: State, scope: Scope, up_to: str, pending: Sequence[str]
) -> Steps[tuple[Update, Omission]]:
    """Return the update that summarizes the context up to a place, and what it leaves out.

    The caller writes the update. With topics on, only messages of the topics in the context are
    summarized. Pinned messages stay. Without a model the summary is made of the messages' sentences.

    Args:
        state: The thread's state.
        scope: The scope of the thread; its summarizer writes the summary.
        up_to: A turn's number, or a checkpoint's id or name; empty is the newest answer.
        pending: Ids of the questions that wait; they are never summarized.

    Raises:
        UnknownTurnError: There is no such answered turn.
        UnknownCheckpointError: No checkpoint matches.
        AmbiguousCheckpointError: Several checkpoints match.
        InputError: The context has no message up to there that a summary could replace, or `up_to`
            is a range of turns.
        SummarizationError: The summarizer failed, or its summary is longer than the messages.
        ConfigurationError: The summarizer that the settings name cannot be made.
    """
    last = _last_message(state, up_to, pending)
    ctx = yield from _plan_context(state, scope, pending)
    places = {message.id: index for index, message in enumerate(ctx.messages)}
    order = {message.id: index for index, message in enumerate(state["messages"])}
    target_messages = [each for each in ctx.messages if order[each.id] <= order[last]]
    planner, settings = _planner(scope), scope.settings
    summarizer = Summarizer(
        model=getattr(planner, "summarizer", None),
        system=getattr(planner, "system_prompt", None) or settings.summary_system_prompt,
        tokens=settings.summary_tokens,
    )
    plan = yield from compact_with_model(ctx, target_messages, summarizer, why=WHY)
    if plan.problems:
        raise plan.problems[0]
    if plan.after is ctx:
        raise InputError(code="nothing_to_compact")
    before = state.get("compaction", Compaction())
    step = Operation(
        kind="compact",
        base=None,
        branches=[],
        old_compaction=before,
        compaction=plan.compaction,
    )
    summary = next(reversed(plan.after.summaries), None)
    segments = state.get("segments", [])
    step["compacted"] = Topic(
        id=segments[-1]["topic_id"] if segments else "",
        label=state.get("current_topic", ""),
        summary=summary,
        summarized_through=last,
    )
    scope.step_log.later_events.append(event_types.compaction(step["compacted"]))
    replaced = sorted(
        {m.id or "" for m in ctx.shown} - {m.id or "" for m in plan.after.shown},
        key=lambda name: places[name],
    )
    left_out = Omission(why=WHY, message_ids=tuple(replaced), summary=summary)
    return Update(compaction=plan.compaction, **with_step(state, step)), left_out


def _last_message(state: State, up_to: str, pending: Sequence[str]) -> str | None:
    """Return the id of the last message to summarize; arguments as in `compact_up_to`.

    Raises its errors for `up_to`. The id is `None` only if that message has no id.
    """
    checkpoints = state.get("checkpoints", [])
    is_named = any(each["name"] == up_to for each in checkpoints)
    if TURNS.fullmatch(up_to) and not up_to.removeprefix("-").isdecimal() and not is_named:
        raise InputError(code="turn_is_range", given=up_to)
    if not up_to or (up_to.removeprefix("-").isdecimal() and not is_named):
        # The turn exists, but contexts have offloaded turns as a summary already.
        if up_to and 1 <= int(up_to) <= (offloaded_of(state) or {"turns": 0})["turns"]:
            raise InputError(code="nothing_to_compact")
        return turns_named(state, up_to or None, pending)[-1].id
    last = find_checkpoint(checkpoints, up_to)["message_id"]
    if last not in {message.id for message in state["messages"]}:
        raise InputError(code="nothing_before_checkpoint", checkpoint=up_to)
    return last


def _planner(scope: Scope) -> Any:
    """Return the strategy given to the graph, without the part that selects by topic; `None` if none.

    It may have a summarizer of its own.
    """
    strategy = scope.services.strategy
    return strategy.within if isinstance(strategy, TopicScoped) else strategy


def _plan_context(state: State, scope: Scope, pending: Sequence[str]) -> Steps[PlanContext]:
    """Return the input for a strategy: the next request's messages, with the current compaction.

    Raises `ConfigurationError` if the summarizer that the settings name cannot be made.
    """
    yield from off_loop(lambda: scope.services.summarizer)
    settings, services = scope.settings, scope.services
    messages, segments = state["messages"], state.get("segments", [])
    forgotten, texts = state.get("forgotten", []), scope.texts(messages)
    hidden = forgotten_ids(messages, segments, forgotten, pending=pending)
    visible = without_forgotten(messages, segments, forgotten, texts, pending=pending)
    request_messages = [
        as_sent(m) for m in spoken(visible) if m.type != "system" and m.id not in pending
    ]
    excluded = {m.id or "" for m in messages} - {m.id or "" for m in request_messages}
    starts, shown_topics = topic_starts(messages, segments, state.get("expanded", []), excluded)
    steps_so_far = len(state.get("operations", []))

    def ask(request: Sequence[AnyMessage], model: Any) -> Steps[Any]:
        configured_model: Any = model or services.summarizer
        summarizer = yield from off_loop(lambda: resolve_model(configured_model, settings))
        key = f"compact-{sum(map(is_answer, messages))}-{steps_so_far}"
        own_request = conform(list(request), opening=texts.say("opening"))
        tokens = settings.summary_tokens
        return (yield from ask_summarizer(scope, summarizer, own_request, key=key, tokens=tokens))

    ctx = PlanContext(
        messages=request_messages,
        count=TokenCounter().count,
        texts=texts,
        compaction=compaction_without(
            messages,
            segments,
            state.get("compaction", Compaction()),
            forgotten=hidden,
            cleared=cleared_ids(messages, forgotten),
        ),
        window_tokens=settings.context_window_tokens,
        pins=pinned_ids(state),
        ask=ask,
        has_summarizer=settings.summaries == "model" and services.summarizer is not None,
        segments=starts if settings.topics != "off" else (),
        expanded=shown_topics,
        minutes=services.clock().timestamp() / 60,
    )
    if isinstance(services.strategy, TopicScoped):
        return services.strategy.scoped(ctx)
    message_limit = kept_messages(settings.on_topic_change)
    is_scoped = settings.topics != "off"
    return TopicScoped(kept_messages=message_limit).scoped(ctx) if is_scoped else ctx
