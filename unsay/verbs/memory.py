"""The verbs that change what contexts include, what is judged, and what later answers learn."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage

from unsay.context import topics
from unsay.context.compaction import Compaction, with_partners
from unsay.context.plan import Omission, PlanContext
from unsay.context.summaries import Summarizer, compact_with_model
from unsay.effects import Steps, off_loop
from unsay.errors import InputError
from unsay.events import event_types
from unsay.generation.relevance import judge_document
from unsay.history.checkpoints import find_checkpoint
from unsay.judging.verdict import relevance
from unsay.judging.vocabulary import vocabulary
from unsay.llm.summarize import ask_summarizer
from unsay.memory import lessons, visibility
from unsay.memory.lessons import Lesson, Rating
from unsay.memory.recall import Find, finds_text, ids_of, search_command
from unsay.memory.visibility import TURNS, turns_named
from unsay.messages.annotations import is_answer, is_question, spoken
from unsay.messages.conformance import conform
from unsay.messages.content import text_of
from unsay.models.factory import resolve_model
from unsay.orders import order as orders
from unsay.orders.parse import as_sent
from unsay.results.lists import questions_text
from unsay.results.results import Rows
from unsay.runtime import Scope
from unsay.state import State, StateDraft, Update, offloaded_of
from unsay.tokens.counter import TokenCounter
from unsay.transcript.forget import Cause, forget_step, forget_topic, left_out, make_entry
from unsay.transcript.live import count_turns, with_step
from unsay.transcript.pending import find_pending, unanswered_ids
from unsay.types import Forgotten, Operation, Pin, Topic
from unsay.verbs.outcome import Outcome, load


def _load_turns(
    draft: StateDraft, scope: Scope, turns: str | int | None
) -> Steps[list[AnyMessage]]:
    """Load turns, a number, a range or `None` for the newest, and return their messages."""
    argument = None if turns is None else str(turns)
    yield from load(draft, scope, turns=visibility.turns_needed(draft.state, argument))
    return visibility.turns_named(draft.state, argument, unanswered_ids(draft.state))


def add_pins(
    order: orders.AddPins, draft: StateDraft, scope: Scope
) -> Steps[Outcome[tuple[Pin, ...]]]:
    """Always include messages in contexts, with their tool calls and results."""
    page = None
    if order.message_id is None:
        messages = yield from _load_turns(draft, scope, order.turn)
    else:
        page = yield from visibility.page_with(draft.state, scope, order.message_id)
        messages = [m for m in draft.state["messages"] if m.id == order.message_id]
    ids = [message.id or "" for message in messages] or [order.message_id or ""]
    update = visibility.pin(draft.state, scope, ids, page)
    draft.apply(update)
    return Outcome(
        result=Rows(update["pins"]),
        notice=lambda texts: texts.say("pinned", words=questions_text(messages)),
    )


def remove_pins(
    order: orders.RemovePins, draft: StateDraft, scope: Scope
) -> Steps[Outcome[tuple[Pin, ...]]]:
    """Remove the pin of a message, or those of turns."""
    if order.message_id is None:
        messages = yield from _load_turns(draft, scope, order.turn)
    else:
        messages = [m for m in draft.state["messages"] if m.id == order.message_id]
    ids = [message.id or "" for message in messages] or [order.message_id or ""]
    update = visibility.unpin(draft.state, scope, ids)
    draft.apply(update)
    return Outcome(
        result=Rows(update["pins"]),
        notice=lambda texts: texts.say("unpinned", words=questions_text(messages)),
    )


def forget(order: orders.Forget, draft: StateDraft, scope: Scope) -> Steps[Outcome[Forgotten]]:
    """Forget messages: never send them to a model again; the transcript keeps them."""
    what, turns = order.what, order.turns
    if order.typed and (what is None or visibility.TURNS.fullmatch(what)):
        turns, what = what, None
    elif not order.typed and (what is None) == (turns is None):
        raise InputError(
            "Give a message or a topic, or turns=…: exactly one of the two, got "
            + ("neither" if what is None else f"{what!r} and turns={turns!r}")
        )
    cause = Cause(reason=order.typed or order.reason, created_at=scope.now())
    if what is None:
        messages = yield from _load_turns(draft, scope, turns)
        pending = unanswered_ids(draft.state)
        step = visibility.forget_turns(draft.state, messages, pending, cause)
        label = questions_text(messages)
    else:
        step, label = yield from _forget_named(order, what, cause, draft, scope)
    yield from _apply_step(draft, scope, step)
    return Outcome(
        result=step["forgotten"][0], notice=lambda texts: texts.say("forgot", words=label)
    )


def _forget_named(
    order: orders.Forget, what: str, cause: Cause, draft: StateDraft, scope: Scope
) -> Steps[tuple[Operation, str]]:
    """Return the step that forgets a message, a span or a topic, and what to call it in a notice."""
    through = order.through
    yield from load(draft, scope, {what, through or what})

    state = draft.state
    pending = unanswered_ids(state)
    is_message = what in {message.id for message in state["messages"]}
    if order.typed or (through is None and not is_message):
        topic = visibility.topic_named(state, what, loose=bool(order.typed))
        return forget_topic(state, topic, pending, cause), topic["label"]
    step = visibility.forget_span(state, what, through, pending, cause)
    ids = step["forgotten"][0]["message_ids"]
    return step, questions_text([m for m in state["messages"] if m.id in ids])


def _apply_step(draft: StateDraft, scope: Scope, step: Operation) -> Steps[None]:
    """Apply a step that forgets messages to the draft; `ConflictError` if it would be too much."""
    update = yield from visibility.take_step(draft.state, scope, step)
    del update["messages"]
    draft.apply(update)


def forget_tool_results(
    order: orders.ForgetToolResults, draft: StateDraft, scope: Scope
) -> Steps[Outcome[Forgotten]]:
    """Replace irrelevant tool results in contexts by a short line; the transcript keeps them."""
    below, state = order.below, draft.state
    if not 0 <= below <= 1:
        raise InputError(f"tool_results_below={below!r} is not a score: give a number from 0 to 1")
    segments, messages = state.get("segments", []), state["messages"]
    in_topic = topics.by_topic(messages, segments).get(topics.current_topic_id(segments) or "", [])
    questions = [text_of(m) for m in in_topic if is_question(m)]
    if order.question:
        questions = [order.question]
    pinned = {messages[i].id for i in with_partners(messages, topics.pinned_ids(state))}
    protected_ids = {*pinned, *left_out(state, state.get("forgotten", [])), *unanswered_ids(state)}

    ids: list[str] = []
    for message in in_topic:
        if isinstance(message, ToolMessage) and message.id not in protected_ids:
            score = yield from _score(questions, message, scope)
            if score is not None and score < below:
                ids.append(message.id or "")
    cause = Cause(reason=order.reason or f"scored below {below!r}", created_at=scope.now())
    entry = make_entry("tool_results", ids, cause)
    if ids:
        yield from _apply_step(draft, scope, forget_step(state, entry))
    return Outcome(result=entry, notice=lambda texts: texts.say("forgot", words=""))


def _score(questions: Sequence[str], result: ToolMessage, scope: Scope) -> Steps[float | None]:
    """Score from 0 to 1 how relevant a result is to the questions; `None` if that is impossible."""
    if scope.settings.judging == "model":
        question = HumanMessage("\n".join(questions))
        return (yield from judge_document(question, result, scope)).score
    text = text_of(result)
    comparable = (question for question in questions if vocabulary(question))
    return max((relevance(question, text).score for question in comparable), default=None)


def compact(order: orders.Compact, draft: StateDraft, scope: Scope) -> Steps[Outcome[Omission]]:
    """Summarize the messages of the context up to a turn or a checkpoint."""
    up_to = "" if order.up_to is None else str(order.up_to)
    pending = unanswered_ids(draft.state)
    update, omission = yield from compact_up_to(draft.state, scope, up_to, pending)
    draft.apply(update)
    count = len(omission.message_ids)
    return Outcome(result=omission, notice=lambda texts: texts.say("compacted", count=count))


def join_topics(order: orders.JoinTopics, draft: StateDraft, scope: Scope) -> Steps[Outcome[str]]:
    """Join the newest topic to the one before; the result is the label of the one that goes on."""
    del order
    if len(draft.state.get("segments", [])) < 2:
        # The topic before may be offloaded: its last turn is before those that the state has.
        yield from load(draft, scope, turns=count_turns(draft.state["messages"]) + 1)
    update = visibility.join_topics(draft.state, scope)
    del update["messages"]
    draft.apply(update)
    label = update["current_topic"]
    return Outcome(result=label, notice=lambda texts: texts.say("topics_joined", label=label))


def recall(
    order: orders.Recall, draft: StateDraft, scope: Scope
) -> Steps[Outcome[tuple[Find, ...]]]:
    """Search earlier messages, and add the matches to the next question's context."""
    messages = draft.state["messages"]
    # Without a command itself, whose words would match best.
    answered = messages[: find_pending(messages, None).start]
    finds = yield from search_command({**draft.state, "messages": answered}, scope, order.words)
    if finds:
        draft.apply(Update(asked_for=list(ids_of(finds))))
    return Outcome(result=Rows(finds), notice=lambda texts: finds_text(finds, order.words, texts))


def rate(order: orders.Rate, draft: StateDraft, scope: Scope) -> Steps[Outcome[Rating]]:
    """Rate the answer of a turn; the note of a bad one is a lesson for later turns."""
    messages = yield from _load_turns(draft, scope, order.turn)
    update = lessons.rate_answer(messages, scope, order.label, order.note)
    draft.apply(update)
    rating = lessons.rating_of(update["messages"][0])
    assert rating is not None  # noqa: S101 - it was just given
    question = questions_text(messages)
    return Outcome(
        result=rating,
        notice=lambda texts: texts.table("rated")[order.label].format(words=question),
    )


def change_lesson(
    order: orders.ChangeLesson, draft: StateDraft, scope: Scope
) -> Steps[Outcome[Lesson]]:
    """Change the text of a lesson, or remove the lesson."""
    yield from ()  # only a generator is a step
    lesson = lessons.lesson_named(draft.state, order.lesson)
    draft.apply(lessons.change_lesson(draft.state, scope, lesson, order.text))
    name = "lesson_removed" if order.text is None else "lesson_changed"
    text = (order.text or "").strip()
    result = lesson if order.text is None else {**lesson, "text": text}
    return Outcome(
        result=result, notice=lambda texts: texts.say(name, number=order.lesson, text=text)
    )


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
    return strategy.within if isinstance(strategy, topics.TopicScoped) else strategy


def _plan_context(state: State, scope: Scope, pending: Sequence[str]) -> Steps[PlanContext]:
    """Return the input for a strategy: the next request's messages, with the current compaction.

    Raises `ConfigurationError` if the summarizer that the settings name cannot be made.
    """
    yield from off_loop(lambda: scope.services.summarizer)
    settings, services = scope.settings, scope.services
    messages, segments = state["messages"], state.get("segments", [])
    forgotten, texts = state.get("forgotten", []), scope.texts(messages)
    hidden = topics.forgotten_ids(messages, segments, forgotten, pending=pending)
    visible = topics.without_forgotten(messages, segments, forgotten, texts, pending=pending)
    request_messages = [
        as_sent(m) for m in spoken(visible) if m.type != "system" and m.id not in pending
    ]
    excluded = {m.id or "" for m in messages} - {m.id or "" for m in request_messages}
    starts, shown_topics = topics.topic_starts(
        messages, segments, state.get("expanded", []), excluded
    )
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
        compaction=topics.compaction_without(
            messages,
            segments,
            state.get("compaction", Compaction()),
            forgotten=hidden,
            cleared=topics.cleared_ids(messages, forgotten),
        ),
        window_tokens=settings.context_window_tokens,
        pins=topics.pinned_ids(state),
        ask=ask,
        has_summarizer=settings.summaries == "model" and services.summarizer is not None,
        segments=starts if settings.topics != "off" else (),
        expanded=shown_topics,
        minutes=services.clock().timestamp() / 60,
    )
    if isinstance(services.strategy, topics.TopicScoped):
        return services.strategy.scoped(ctx)
    message_limit = topics.kept_messages(settings.on_topic_change)
    is_scoped = settings.topics != "off"
    return topics.TopicScoped(kept_messages=message_limit).scoped(ctx) if is_scoped else ctx
