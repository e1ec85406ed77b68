"""Context builder: the context that a strategy plans for each call of an attempt, laid out to be sent."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AnyMessage, BaseMessage, convert_to_openai_messages
from langchain_core.runnables import Runnable, RunnableBinding
from typing_extensions import TypedDict

from unsay.context.compaction import Compaction, summary_message, words_of
from unsay.context.manifest import Manifest
from unsay.context.plan import Omission, Plan, PlanContext
from unsay.context.strategy import Composed, Null, Strategy, plan_if_due, planning_interval
from unsay.context.summarizing import Summarizing
from unsay.context.topics import (
    SummaryPlacement,
    TopicScoped,
    cleared_ids,
    compaction_without,
    forgotten_ids,
    irrelevant_ids,
    kept_messages,
    opened_topics,
    pinned_ids,
    place_summaries,
    remaining_topics,
    topic_starts,
    without_forgotten,
    without_irrelevant,
)
from unsay.context.view import Hints, Reminder, head_of, inject, lay_out, sendable
from unsay.context.windows import SlidingWindow, ThreeStage
from unsay.effects import Steps, off_loop
from unsay.history.runs import FailedRequest, keep_request
from unsay.llm.summarize import ask_summarizer
from unsay.memory.offload import Earlier
from unsay.memory.recall import RecallSource
from unsay.messages.annotations import annotation_of, spoken
from unsay.messages.conformance import conform, faults, validate
from unsay.messages.content import READ_TOOL, text_of
from unsay.models.agents import with_own_state
from unsay.models.factory import inner_of, resolve_model
from unsay.orders.parse import as_sent
from unsay.prompts.catalogue import Texts
from unsay.protocols import Verdict
from unsay.runtime import Scope
from unsay.settings.settings import Settings
from unsay.state import State, offloaded_of
from unsay.tokens.counter import Calibration, TokenCounter, uncalibrated, vocabulary_of
from unsay.tools import offers
from unsay.tracing import ASIDE
from unsay.types import Turn

REASON_CHARS = 2_000

# Arguments of a call that may hold a secret or a live object, or that its body does not have.
UNKEPT = frozenset(
    {
        *("api_key", "default_headers", "extra_headers", "headers"),
        *("default_query", "extra_query", "http_client", "timeout"),
        *("stream", "stream_options"),
    }
)


class RequestRecorder(BaseCallbackHandler):
    """Records the requests of an attempt's chat models, also inside agents and tool loops."""

    # LangChain would otherwise call it in another thread, after the model may have failed.
    run_inline = True

    def __init__(self) -> None:
        self.context: Sequence[BaseMessage] = ()
        self.sent: Sequence[BaseMessage] = ()
        self.params: dict[str, Any] = {}

    def begin(self, context: Sequence[BaseMessage]) -> None:
        """Record a call's context; it counts as sent until `on_chat_model_start` records more."""
        self.context = self.sent = context

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], **more: Any
    ) -> None:
        """Record the newest request; those of judges and summaries are skipped, by their tag."""
        del serialized
        if ASIDE in (more.get("tags") or ()):
            return
        self.sent = tuple(messages[0])
        self.params = _plain(more.get("invocation_params") or {})


def _plain(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that may be stored: JSON values only, and nothing in `UNKEPT`."""
    return {key: value for key, value in params.items() if key not in UNKEPT and _is_json(value)}


def _is_json(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_json(each) for key, each in value.items())
    if isinstance(value, list | tuple):
        return all(_is_json(each) for each in value)
    return value is None or isinstance(value, str | int | float | bool)


def payload_of(
    model: Runnable[Any, Any] | None, sent: Sequence[BaseMessage], params: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a request's body as its provider would get it, without secrets; nothing is sent.

    `sent` are the messages. `params` describe the call; they are used if the model cannot make the
    body itself. Errors that its client raises are raised.
    """
    bound = model.kwargs if isinstance(model, RunnableBinding) else {}
    inner = model.bound if isinstance(model, RunnableBinding) else model
    # Models of langchain-openai and langchain-anthropic make the body themselves; for others it is
    # written in the form of the OpenAI protocol.
    make = getattr(inner, "_get_request_payload", None)
    if make is not None:
        payload = dict(make(list(sent), **bound))
        more = payload.pop("extra_body", None) or {}
        body = _plain({**payload, **more})
        if "messages" in body or "input" in body:
            return body
    excluded_names = {"model_name"} if "model" in params else set()
    public_params = {
        k: v for k, v in params.items() if v and not k.startswith("_") and k not in excluded_names
    }
    return {**public_params, "messages": convert_to_openai_messages(list(sent))}


def shown_payload(
    model: Runnable[Any, Any] | None, sent: Sequence[BaseMessage], params: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the body that `payload_of` makes, or `{}` if the client raises."""
    try:
        return payload_of(model, sent, params)
    except Exception:  # noqa: BLE001 - any client's code, and without a body the messages remain
        return {}


def keep_failed_request(
    state: State,
    scope: Scope,
    recorder: RequestRecorder,
    why: Verdict | Exception,
    *,
    answer: str = "",
) -> Steps[None]:
    """Store the request of a rejected draft or a failed model, so that `replay` can repeat it.

    `recorder` has the request, `why` is the draft's verdict or the model's error, and `answer` the
    draft's text. Without a store nothing is kept. Errors of the store are raised.
    """
    if scope.store is None or scope.thread_id is None:
        return
    turn: Turn = state["turn"]
    model = yield from off_loop(lambda: scope.services.answerer)
    question = next((m for m in state["messages"] if m.id == turn["question_id"]), None)
    failed_request = FailedRequest(
        run_id=turn["run_id"],
        turn_id=turn["question_id"] or "",
        turn=turn["number"],
        attempt=len(turn["rejections"]) + 1,
        at=scope.now(),
        messages=recorder.sent,
        payload=shown_payload(model, recorder.sent, recorder.params),
        question="" if question is None else text_of(question),
        answer=answer,
        score=why.score if isinstance(why, Verdict) else None,
        reason=why.reason if isinstance(why, Verdict) else str(why)[:REASON_CHARS],
        error=None if isinstance(why, Verdict) else type(why).__name__,
    )
    yield from keep_request(scope.store, scope.thread_id, failed_request)


LOG = logging.getLogger(__name__)
LEAST_WINDOW = 1_000  # a smaller budget does not make a context smaller than this, in tokens


def strategy_of(scope: Scope) -> Strategy:
    """Return the strategy given to the graph, or else the one that the settings name.

    Unless the setting `topics` is `off`, it is a `TopicScoped`, which plans within each topic.
    Raises as `named_strategy`.
    """
    services, settings = scope.services, scope.settings
    if services.strategy is None and settings is services.settings:
        return services.sole(strategy_by)
    return strategy_by(settings, services.strategy)


def strategy_by(settings: Settings, given: Strategy | None = None) -> Strategy:
    """Return `given`, or else the strategy that the settings name, within topics; see `strategy_of`."""
    strategy = given or named_strategy(settings)
    if settings.topics == "off" or isinstance(strategy, TopicScoped):
        return strategy
    return TopicScoped(within=strategy, kept_messages=kept_messages(settings.on_topic_change))


def plans_at_end(strategy: Strategy) -> bool:
    """Return whether a strategy also plans after a turn, so that no question waits for its summary.

    It does not if its `per_turn` is `True`, the default.
    """
    if isinstance(strategy, Composed):
        return any(plans_at_end(each) for each in strategy.strategies)
    if isinstance(strategy, TopicScoped):
        return plans_at_end(strategy.within)
    return planning_interval(strategy) is not True


def _window_of(model: Runnable[Any, Any] | None) -> int | None:
    """Return the model's window in tokens, as its profile says; `None` if unknown."""
    profile = None if model is None else getattr(inner_of(model), "profile", None)
    tokens = (profile or {}).get("max_input_tokens")
    return tokens if isinstance(tokens, int) and tokens > 0 else None


def named_strategy(settings: Settings) -> Strategy:
    """Return the strategy that the setting `strategy` names, with the settings' numbers.

    Raises `ConfigurationError` if the numbers cannot be combined; `build_graph` calls it for that
    check.
    """
    timing: dict[str, Any] = {} if settings.per_turn is None else {"per_turn": settings.per_turn}
    if settings.strategy == "three_stage":
        # The default of `window_messages` is for `sliding`: here the tokens decide, unless a source
        # sets the number.
        is_set = "window_messages" in settings.model_fields_set
        return ThreeStage(
            primers=settings.primers,
            recents=settings.recents,
            trigger_ratio=settings.trigger_ratio,
            target_ratio=settings.target_ratio,
            summary_tokens=settings.summary_tokens,
            system_prompt=settings.summary_system_prompt,
            window_messages=settings.window_messages if is_set else None,
            **timing,
        )
    if settings.strategy == "sliding":
        return SlidingWindow(
            window_size=settings.window_messages,
            truncate_results=settings.truncate_results,
            **timing,
        )
    if settings.strategy == "summarizing":
        return Summarizing(
            summary_ratio=settings.summary_ratio,
            preserve_recent_messages=settings.preserve_recent_messages,
            summary_tokens=settings.summary_tokens,
            system_prompt=settings.summary_system_prompt,
            **timing,
        )
    return Null(**timing)


def _budget_tokens(settings: Settings) -> int | None:
    """Return the smaller budget of task and agent, at least `LEAST_WINDOW`; `None` if neither is set."""
    budgets = (settings.task_budget_tokens, settings.agent_budget_tokens)
    limits = [budget for budget in budgets if budget is not None]
    return max(LEAST_WINDOW, min(limits)) if limits else None


class CallCarryover(TypedDict, total=False):
    """Values that one model call of an attempt passes to the next.

    `quoted` quotes the recalled messages `quoted_ids`; `manifest` describes the last call.
    """

    compaction: Compaction
    calibration: Calibration
    quoted: AnyMessage | None
    quoted_ids: list[str]
    manifest: Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class LaidOutContext:
    """The context of one call; `lay_out_plan` makes it.

    In `sent` the messages of `context` are merged as the provider needs it. `quoted` is the message
    that quotes recalled ones, `None` if nothing is recalled; `quoted_ids` are the ids of the
    recalled ones.
    """

    context: Sequence[AnyMessage]
    sent: list[AnyMessage]
    quoted: AnyMessage | None
    quoted_ids: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptContext:
    """Everything that is the same for all model calls of one attempt; never stored.

    Attributes:
        model: Has its tools bound; `None` plans without a call.
        start: The input of the strategy for the attempt's first call.
        head: The first messages of a context: none, or the system message.
        earlier: By id, the positions in the transcript, from 1, of the loaded offloaded messages.
        left_out: What every context of the attempt leaves out, independent of the strategy.
        recall_source: Where earlier messages are searched; `None` recalls nothing.
        counter: Counts tokens of the chat model, not yet calibrated by its reports.
        fixed: The messages of every context that no strategy plans: head and summaries.
        kept: The attempt's messages so far, also of an earlier run that ended early; with the
            results of the newest calls that finished, although others of the same message did not.
        kept_values: The values that the earlier run had for its next call.
        asked: The interrupts of tool calls, by the place of the call in its message.
    """

    state: State
    scope: Scope
    model: Runnable[Any, Any] | None
    start: PlanContext
    head: Sequence[AnyMessage]
    topic_summaries: SummaryPlacement
    earlier: Mapping[str, int]
    left_out: Sequence[Omission]
    question: str
    recall_source: RecallSource | None
    hints: Hints
    reminders: Sequence[Reminder]
    recorder: RequestRecorder
    counter: TokenCounter
    fixed: Sequence[AnyMessage]
    texts: Texts
    can_read_results: bool
    kept: list[AnyMessage] = field(default_factory=list)
    kept_values: Mapping[str, Any] = field(default_factory=dict)
    asked: dict[int, Sequence[Any]] = field(default_factory=dict)

    def with_state(self, state: State) -> "AttemptContext":
        """Return the same attempt in a state in which some of its messages have another content."""
        own = {message.id: message for message in state["messages"]}
        messages = [own.get(each.id, each) for each in self.start.messages]
        return replace(self, state=state, start=replace(self.start, messages=messages))

    def plan_context(self, done: Sequence[AnyMessage], carried: CallCarryover) -> PlanContext:
        """Return the strategy's input for the next call.

        `done` has the attempt's tool steps so far, `carried` the values of its last call.
        """
        counter = self.counting(carried)
        return replace(
            self.start,
            messages=[*self.start.messages, *without_irrelevant(done, self.texts)],
            count=counter.count,
            compaction=carried.get("compaction", self.start.compaction),
            overhead_tokens=counter.count(self.fixed, self.scope.services.tools),
            ask=self._ask_summarizer,
            is_paused=self.scope.step_log.summaries_paused,
            call=1 + sum(message.type == "ai" for message in done),
            minutes=self.scope.services.clock().timestamp() / 60,
        )

    def counting(self, carried: CallCarryover) -> TokenCounter:
        """Return the token counter, corrected by the usage that the model reported so far.

        The correction is in `carried`, the values of the attempt's last call.
        """
        return replace(self.counter, calibration=carried.get("calibration") or uncalibrated())

    def lay_out_plan(
        self, plan: Plan, quoted: AnyMessage | None = None, quoted_ids: Sequence[str] = ()
    ) -> LaidOutContext:
        """Return the context of a plan as the provider gets it, with the quotation `quoted`.

        `quoted_ids` are of the quoted messages. Raises `TranscriptError` if the provider would
        refuse it.
        """
        provider = None if self.model is None else self.scope.services.provider
        planned_messages = lay_out(
            plan.messages,
            self.hints,
            self.texts,
            summaries=self.topic_summaries.before,
            recalled=quoted,
        )
        context = inject([*self.head, *planned_messages], self.reminders, self.texts)
        request_messages = sendable(
            context,
            texts=self.texts,
            provider=provider,
            readable=self.can_read_results,
        )
        if refused := {each.index for each in faults(request_messages, provider)}:
            LOG.warning("the provider refuses files of %s messages: left out", len(refused))
            request_messages = [
                each.model_copy(update={"content": words_of(each, self.texts)})
                if number in refused and each.type != "ai" and isinstance(each.content, list)
                else each
                for number, each in enumerate(request_messages)
            ]
            validate(request_messages, provider)
        return LaidOutContext(
            context=context, sent=request_messages, quoted=quoted, quoted_ids=list(quoted_ids)
        )

    def _ask_summarizer(self, request: Sequence[AnyMessage], model: Any) -> Steps[Any]:
        """Return a summarizer's reply to a request; without a `model` the configured one is asked.

        Its errors are raised; the strategy that asked handles them.
        """
        scope, services = self.scope, self.scope.services
        configured_model: Any = model or services.summarizer
        summarizer = yield from off_loop(
            lambda: with_own_state(resolve_model(configured_model, services.settings))
        )
        sendable_request = conform(list(request), opening=self.texts.say("opening"))
        # The length tells several summaries of one attempt apart.
        key = f"{self.state['turn']['question_id']}-{self.hints.attempt}-{len(request)}"
        tokens = annotation_of(request[-1]).get("tokens") if request else None
        return (
            yield from ask_summarizer(scope, summarizer, sendable_request, key=key, tokens=tokens)
        )


def attempt_context(
    state: State,
    scope: Scope,
    model: Runnable[Any, Any] | None,
    earlier: Earlier,
    hints: Hints,
    reminders: Sequence[Reminder],
    *,
    pending: Collection[str],
    recall_source: RecallSource | None = None,
) -> Steps[AttemptContext]:
    """Return what all calls of an attempt share.

    Args:
        state: Of the thread; one that is only read may have no turn.
        scope: The services and settings to use.
        model: Has its tools bound; `None` only plans.
        earlier: Loaded offloaded messages.
        hints: What the contexts tell the model about earlier attempts, lessons and searches.
        reminders: Those to repeat in these contexts.
        pending: Ids of the question's messages.
        recall_source: Where earlier messages are searched; `None` recalls nothing.

    Raises:
        ConfigurationError: The summarizer cannot be made.
    """
    yield from off_loop(lambda: scope.services.summarizer)
    counter = TokenCounter()
    if model is not None:
        counter = TokenCounter(
            encode=(yield from off_loop(lambda: scope.services.encoder)),
            vocabulary=vocabulary_of(scope.services.model_name),
            provider=scope.services.provider or "openai",
        )
    transcript, segments = state["messages"], state.get("segments", [])
    expanded, forgotten = state.get("expanded", []), state.get("forgotten", [])
    texts, can_read = scope.texts(transcript), offers(scope.services.tools, READ_TOOL)
    texts = texts.with_read_tool() if can_read else texts
    hidden = forgotten_ids(transcript, segments, forgotten, pending=pending)
    visible = without_forgotten(transcript, segments, forgotten, texts, pending=pending)
    topics = remaining_topics(state.get("topics", []), forgotten)
    offloaded, settings = offloaded_of(state), scope.settings
    open_topic_ids = opened_topics(segments, expanded)
    if settings.on_topic_change == "delete":
        topics = [topic for topic in topics if topic["id"] in open_topic_ids]
    summaries = place_summaries(transcript, segments, topics, open_topic_ids)
    head = head_of(
        transcript,
        summaries.head,
        system_prompt=settings.system_prompt,
        texts=texts,
        offloaded=offloaded,
    )
    source_messages = (*earlier.messages, *spoken(visible))
    messages = [as_sent(message) for message in source_messages if message.type != "system"]
    included = {message.id for message in messages}
    excluded = {message.id or "" for message in transcript if message.id not in included}
    starts, shown_topics = topic_starts(transcript, segments, expanded, excluded)
    compaction, cleared = state.get("compaction", Compaction()), cleared_ids(transcript, forgotten)
    start = PlanContext(
        messages=messages,
        count=counter.count,
        texts=texts,
        compaction=compaction_without(
            transcript, segments, compaction, forgotten=hidden, cleared=cleared
        ),
        window_tokens=settings.context_window_tokens or _window_of(model),
        budget_tokens=_budget_tokens(settings),
        pins=pinned_ids(state),
        pending=frozenset(pending),
        has_summarizer=settings.summaries == "model" and scope.services.summarizer is not None,
        segments=starts if settings.topics != "off" else (),
        expanded=shown_topics,
        loaded=frozenset(earlier.positions),
    )
    # A state that is only read, such as one that a host put in, may have no turn.
    question_id = state["turn"]["question_id"] if state.get("turn") else None
    question = (m for m in reversed(messages) if question_id and m.id == question_id)
    return AttemptContext(
        state=state,
        scope=scope,
        model=model,
        start=start,
        head=head,
        topic_summaries=summaries,
        earlier=earlier.positions,
        left_out=[
            Omission(why=rule, message_ids=tuple(sorted(ids)))
            for rule, ids in (("forgotten", hidden), ("irrelevant", irrelevant_ids(transcript)))
            if ids
        ],
        question=next(map(text_of, question), ""),
        recall_source=recall_source,
        hints=hints,
        reminders=reminders,
        recorder=RequestRecorder(),
        counter=counter,
        fixed=[*head, *(summary_message(text, texts) for text in summaries.before.values())],
        texts=texts,
        can_read_results=can_read,
    )


def request_of(attempt: AttemptContext) -> Steps[list[AnyMessage]]:
    """Return the messages that an attempt's first call would send; nothing is sent.

    It is for people who inspect a thread. Raises `TranscriptError` if the provider would refuse
    them.
    """
    plan = yield from plan_if_due(
        strategy_of(attempt.scope), attempt.plan_context([], CallCarryover())
    )
    return attempt.lay_out_plan(plan).sent
