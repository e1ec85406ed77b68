"""What one attempt at an answer is shown: the view that the strategy plans, laid out to be sent."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict

from langchain_core.messages import AnyMessage
from langchain_core.runnables import Runnable

from unsay.context.compaction import Compaction, summary_message
from unsay.context.exclusions import (
    cleared_ids,
    compaction_without,
    forgotten_ids,
    remaining_topics,
    topic_starts,
    without_forgotten,
)
from unsay.context.manifest import Manifest
from unsay.context.plan import Omission, Plan, PlanContext
from unsay.context.reminders import Reminder, inject
from unsay.context.sliding import SlidingWindow
from unsay.context.strategy import Composed, Null, Strategy, plan_if_due, planning_interval
from unsay.context.summarizing import Summarizing
from unsay.context.three_stage import ThreeStage
from unsay.context.topics import SummaryPlacement, TopicScoped, opened_topics, place_summaries
from unsay.context.view import Hints, head_of, lay_out, sendable
from unsay.effects import Steps, off_loop
from unsay.generation.failed_calls import RequestRecorder
from unsay.llm.call import ModelRequest, ask_model
from unsay.llm.usage import inner_of
from unsay.messages.annotations import spoken
from unsay.messages.conformance import conform
from unsay.messages.content import text_of
from unsay.messages.truncation import READ_TOOL
from unsay.messages.validation import validate
from unsay.model_factory import resolve_model
from unsay.operations.offload import Earlier
from unsay.operations.pin import pinned_ids
from unsay.operations.recall_source import RecallSource
from unsay.prompts.fields import Texts
from unsay.runtime import Scope
from unsay.settings import Settings
from unsay.state import State, offloaded_of
from unsay.tokens.counter import Calibration, TokenCounter, uncalibrated
from unsay.tokens.encodings import vocabulary_of
from unsay.tools import offers


def strategy_of(scope: Scope) -> Strategy:
    """What plans the views: within each topic, where topics are folded."""
    chosen = scope.services.strategy or _named(scope.settings)
    if scope.settings.topics == "off" or isinstance(chosen, TopicScoped):
        return chosen
    return TopicScoped(within=chosen)


def plans_at_end(strategy: Strategy) -> bool:
    """Whether a turn's end is another moment for it than the beginning of the next."""
    if isinstance(strategy, Composed):
        return any(plans_at_end(each) for each in strategy.strategies)
    if isinstance(strategy, TopicScoped):
        return plans_at_end(strategy.within)
    return planning_interval(strategy) is not True


def _window_of(model: Runnable[Any, Any] | None) -> int | None:
    profile = None if model is None else getattr(inner_of(model), "profile", None)
    tokens = (profile or {}).get("max_input_tokens")
    return tokens if isinstance(tokens, int) and tokens > 0 else None


def _named(settings: Settings) -> Strategy:
    if settings.strategy == "three_stage":
        return ThreeStage(primers=settings.primers, recents=settings.recents)
    if settings.strategy == "sliding":
        return SlidingWindow(window_size=settings.window_messages)
    return Summarizing() if settings.strategy == "summarizing" else Null()


class CallCarryover(TypedDict, total=False):
    """What one model call of an attempt leaves to the next; plain values and messages.

    `quoted` is what was recalled, `quoted_ids` the messages that it quotes; `manifest` is the
    last call's.
    """

    compaction: Compaction
    calibration: Calibration
    quoted: AnyMessage | None
    quoted_ids: list[str]
    manifest: Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """The context of one call, laid out."""

    view: Sequence[AnyMessage]
    """Each message still by itself."""

    sent: list[AnyMessage]
    """As the provider gets it."""

    quoted: AnyMessage | None
    """Quotes the recalled messages; `None` for none."""

    quoted_ids: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptContext:
    """Everything that is the same for all model calls of one attempt; never stored."""

    state: State
    scope: Scope
    model: Runnable[Any, Any] | None
    """Has its tools bound; `None` plans without asking."""

    start: PlanContext
    """What a strategy plans from before the attempt's first call."""

    head: Sequence[AnyMessage]
    """The first messages of a context: none, or the system message."""

    topic_summaries: SummaryPlacement
    earlier: Mapping[str, int]
    """The loaded messages of offloaded segments: their places in the transcript, from 1, by id."""

    left_out: Sequence[Omission]
    """What every context of the attempt leaves out, independent of the strategy."""

    question: str

    recall_source: RecallSource | None
    """What may be recalled for the question; `None` recalls nothing."""

    hints: Hints
    reminders: Sequence[Reminder]
    witness: RequestRecorder
    counter: TokenCounter
    """Of the chat model, before its first report."""

    fixed: Sequence[AnyMessage]
    """What every context has beside the planned messages: head and summaries in their places."""

    texts: Texts

    can_read_results: bool

    def plan_context(self, done: Sequence[AnyMessage], carried: CallCarryover) -> PlanContext:
        """What a strategy plans the next context from, after the attempt's steps so far."""
        counter = self.counting(carried)
        return replace(
            self.start,
            messages=[*self.start.messages, *done],
            count=counter.count,
            compaction=carried.get("compaction", self.start.compaction),
            overhead_tokens=counter.count(self.fixed, self.scope.services.tools),
            ask=self._ask_summarizer,
            call=1 + sum(message.type == "ai" for message in done),
            minutes=self.scope.services.clock().timestamp() / 60,
        )

    def counting(self, carried: CallCarryover) -> TokenCounter:
        """The counter, with what the model's reports have taught."""
        known = carried.get("calibration") or uncalibrated()
        return replace(self.counter, calibration=known)

    def lay_out_plan(
        self, plan: Plan, quoted: AnyMessage | None = None, quoted_ids: Sequence[str] = ()
    ) -> Sending:
        """A plan's context as its provider may be sent it.

        Raises:
            InvalidTranscriptError: The provider would refuse it.
        """
        provider = None if self.model is None else self.scope.services.provider
        shown = lay_out(
            plan.messages,
            self.hints,
            self.texts,
            summaries=self.topic_summaries.before,
            recalled=quoted,
        )
        view = inject([*self.head, *shown], self.reminders, self.texts)
        sent = sendable(
            view,
            texts=self.texts,
            provider=provider,
            max_tool_result_bytes=self.scope.settings.max_tool_result_bytes,
            readable=self.can_read_results,
        )
        validate(sent, provider)
        return Sending(view=view, sent=sent, quoted=quoted, quoted_ids=list(quoted_ids))

    def _ask_summarizer(self, request: Sequence[AnyMessage], model: Any) -> Steps[Any]:
        scope = self.scope
        chosen: Any = model or scope.services.summarizer
        summarizer = yield off_loop(lambda: resolve_model(chosen, scope.settings))
        return (
            yield from ask_model(
                ModelRequest(
                    scope=scope,
                    model=summarizer,
                    value=conform(list(request), opening=self.texts.opening),
                    purpose="summary",
                    key=f"{self.state['turn']['question_id']}-{self.hints.attempt}-{len(request)}",
                    aside=True,
                    timeout_seconds=scope.settings.judge_timeout_seconds,
                )
            )
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
    """What the contexts of an attempt are made of; `pending` are the ids of the question."""
    yield scope.resolve("summarizer")
    counter = TokenCounter()
    if model is not None:
        counter = TokenCounter(
            encode=(yield scope.resolve("encoder")),
            vocabulary=vocabulary_of(scope.services.model_name),
            provider=scope.services.provider or "openai",
        )
    transcript, segments = state["messages"], state.get("segments", [])
    expanded, gone = state.get("expanded", []), state.get("forgotten", [])
    texts, can_read = scope.texts(transcript), offers(scope.services.tools, READ_TOOL)
    texts = texts.with_read_tool() if can_read else texts
    out = forgotten_ids(transcript, segments, gone, pending=pending)
    left = without_forgotten(transcript, segments, gone, texts, pending=pending)
    topics = remaining_topics(state.get("topics", []), gone)
    topic_summaries = place_summaries(
        transcript, segments, topics, opened_topics(segments, expanded)
    )
    offloaded, settings = offloaded_of(state), scope.settings
    head = head_of(
        transcript,
        topic_summaries.head,
        system_prompt=settings.system_prompt,
        texts=texts,
        offloaded=offloaded,
    )
    messages = [m for m in (*earlier.words, *spoken(left)) if m.type != "system"]
    seen = {message.id for message in messages}
    unseen = {message.id or "" for message in transcript if message.id not in seen}
    here = topic_starts(transcript, segments, expanded, unseen)
    compaction, cleared = state.get("compaction", Compaction()), cleared_ids(transcript, gone)
    start = PlanContext(
        messages=messages,
        count=counter.count,
        texts=texts,
        compaction=compaction_without(
            transcript, segments, compaction, forgotten=out, cleared=cleared
        ),
        window_tokens=settings.context_window_tokens or _window_of(model),
        pins=pinned_ids(state),
        pending=frozenset(pending),
        has_summarizer=scope.services.summarizer is not None,
        segments=here.segments if settings.topics == "compaction" else (),
        expanded=here.expanded,
        loaded=frozenset(earlier.places),
    )
    # A state that is only read, such as one that a host put in, may have no turn.
    asked = state["turn"]["question_id"] if state.get("turn") else None
    question = (m for m in reversed(messages) if asked and m.id == asked)
    return AttemptContext(
        state=state,
        scope=scope,
        model=model,
        start=start,
        head=head,
        topic_summaries=topic_summaries,
        earlier=earlier.places,
        left_out=[Omission(why="forgotten", message_ids=tuple(sorted(out)))] if out else [],
        question=next(map(text_of, question), ""),
        recall_source=recall_source,
        hints=hints,
        reminders=reminders,
        witness=RequestRecorder(),
        counter=counter,
        fixed=[
            *head,
            *(summary_message(words, texts) for words in topic_summaries.before.values()),
        ],
        texts=texts,
        can_read_results=can_read,
    )


def request_of(attempt: AttemptContext) -> Steps[list[AnyMessage]]:
    """What the first call of an attempt would be sent, without asking."""
    plan = yield from plan_if_due(
        strategy_of(attempt.scope), attempt.plan_context([], CallCarryover())
    )
    return attempt.lay_out_plan(plan).sent
