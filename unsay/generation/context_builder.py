"""What one attempt at an answer is shown: the view that the strategy plans, laid out to be sent."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict

from langchain_core.messages import AnyMessage
from langchain_core.runnables import Runnable

from unsay.context.compaction import Fold
from unsay.context.exclusions import (
    anchored,
    cleared_ids,
    forgotten_ids,
    remembered,
    told_topics,
    untold,
)
from unsay.context.manifest import Manifest
from unsay.context.plan import Omission, Plan, Situation
from unsay.context.reminders import Reminder, inject
from unsay.context.rendering import summary_message
from unsay.context.sliding import SlidingWindow
from unsay.context.strategy import Composed, Null, Strategy, planned, rhythm_of
from unsay.context.summarizing import Summarizing
from unsay.context.three_stage import ThreeStage
from unsay.context.topic_scoped import TopicScoped
from unsay.context.topics import Told, told
from unsay.context.view import Hints, head_of, lay_out, opened_topics, sendable
from unsay.effects import Steps
from unsay.generation.failed_calls import Witness
from unsay.llm.call import ModelRequest, ask_model
from unsay.llm.usage import inner_of
from unsay.messages.annotations import spoken
from unsay.messages.conformance import conform
from unsay.messages.content import text_of
from unsay.messages.truncation import READ_TOOL
from unsay.messages.validation import validate
from unsay.model_factory import resolve_model
from unsay.operations.pin import pinned_ids
from unsay.operations.segment_loading import Earlier
from unsay.prompts.catalog import readable
from unsay.prompts.fields import Texts
from unsay.runtime import Scope
from unsay.settings import Settings
from unsay.state import State, offloaded_of
from unsay.tokens.counter import Calibration, TokenCounter, uncalibrated
from unsay.tokens.encodings import vocabulary_of
from unsay.tools import offers
from unsay.types import Provider


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
    return rhythm_of(strategy) is not True


def window_of(model: Runnable[Any, Any] | None) -> int | None:
    """The window as the model's own profile tells it; `None` where it has none."""
    profile = None if model is None else getattr(inner_of(model), "profile", None)
    tokens = (profile or {}).get("max_input_tokens")
    return tokens if isinstance(tokens, int) and tokens > 0 else None


def _named(settings: Settings) -> Strategy:
    if settings.strategy == "three_stage":
        return ThreeStage(primers=settings.primers, recents=settings.recents)
    if settings.strategy == "sliding":
        return SlidingWindow(window_size=settings.window_messages)
    return Summarizing() if settings.strategy == "summarizing" else Null()


class Carried(TypedDict, total=False):
    """What one model call of an attempt leaves to the next; plain values and messages.

    `quoted` is what was recalled, `quoted_ids` the messages that it quotes; `manifest` is the
    last call's.
    """

    fold: Fold
    calibration: Calibration
    quoted: AnyMessage | None
    quoted_ids: list[str]
    manifest: Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What the views of one attempt are made of; never stored."""

    state: State
    """With the question on the record."""

    scope: Scope
    """Of the step."""

    model: Runnable[Any, Any] | None
    """What answers, its tools bound; `None` plans without asking."""

    attempt: int
    """Of the turn, from 1."""

    head: Sequence[AnyMessage]
    """What the view begins with: nothing, or the system message."""

    told: Told
    """The summaries of topics that are not shown."""

    messages: Sequence[AnyMessage]
    """What was said, as far as views may show it: first what was fetched of the sealed part."""

    earlier: Mapping[str, int]
    """What was fetched: its places on the record, from 1, by id."""

    forgotten: frozenset[str]
    """Ids of what a person wants left out."""

    fold: Fold
    """Over these messages, as the turn began."""

    pending: frozenset[str]
    """Ids of the question under way."""

    hints: Hints
    """For this attempt."""

    reminders: Sequence[Reminder]
    """Those that are due."""

    witness: Witness
    """Notes what is sent."""

    counter: TokenCounter
    """Of the chat model, before the first report."""

    texts: Texts
    """Of the conversation's language."""

    @property
    def provider(self) -> Provider | None:
        """Whose rules a request must keep; `None` where nobody knows."""
        return None if self.model is None else self.scope.services.provider

    @property
    def question(self) -> str:
        """The user's words."""
        name = self.state["turn"]["question_id"]
        return next((text_of(m) for m in reversed(self.messages) if m.id == name), "")

    def situation(self, done: Sequence[AnyMessage], carried: Carried) -> Situation:
        """What a strategy plans the next view from."""
        state, scope = self.state, self.scope
        counter, folds = self.counting(carried), scope.settings.topics == "fold"
        seen, record = {message.id for message in self.messages}, state["messages"]
        unseen = {message.id or "" for message in record if message.id not in seen}
        unfolded = state.get("unfolded", [])
        here = anchored(record, state.get("segments", []), unfolded, unseen)
        beside = [summary_message(words, self.texts) for words in self.told.before.values()]
        return Situation(
            messages=[*self.messages, *done],
            count=counter.count,
            texts=self.texts,
            fold=carried.get("fold", self.fold),
            window_tokens=scope.settings.context_window_tokens or window_of(self.model),
            overhead_tokens=counter.count([*self.head, *beside], scope.services.tools),
            pins=pinned_ids(state),
            pending=self.pending,
            ask=self._ask_summarizer,
            has_summarizer=scope.services.summarizer is not None,
            call=1 + sum(message.type == "ai" for message in done),
            minutes=scope.services.clock().timestamp() / 60,
            segments=here.segments if folds else (),
            unfolded=here.unfolded,
            earlier=frozenset(self.earlier),
        )

    def counting(self, carried: Carried) -> TokenCounter:
        """The counter, with what the model's reports have taught."""
        known = carried.get("calibration") or uncalibrated()
        return replace(self.counter, calibration=known)

    def laid_out(self, plan: Plan, quoted: AnyMessage | None = None) -> list[AnyMessage]:
        """A plan's view, each of its messages still by itself."""
        shown = lay_out(
            plan.messages, self.hints, self.texts, told=self.told.before, recalled=quoted
        )
        return inject([*self.head, *shown], self.reminders, self.texts)

    def sendable(self, view: Sequence[AnyMessage]) -> list[AnyMessage]:
        """A view as its provider may be sent it.

        Raises:
            InvalidTranscriptError: The provider would refuse it.
        """
        limit = self.scope.settings.max_tool_result_bytes
        sent = sendable(
            view,
            texts=self.texts,
            provider=self.provider,
            max_tool_result_bytes=limit,
            readable=offers(self.scope.services.tools, READ_TOOL),
        )
        validate(sent, self.provider)
        return sent

    def left_out(self, plan: Plan) -> list[Omission]:
        """What a view does not show, and why; what a person wants left out comes first."""
        forgotten = Omission(why="forgotten", message_ids=tuple(sorted(self.forgotten)))
        return [*([forgotten] if self.forgotten else []), *plan.left_out]

    def _ask_summarizer(self, request: Sequence[AnyMessage], model: Any) -> Steps[Any]:
        scope = self.scope
        chosen: Any = model or scope.services.summarizer
        summarizer = yield scope.off_loop(lambda: resolve_model(chosen, scope.settings))
        return (
            yield from ask_model(
                ModelRequest(
                    scope=scope,
                    model=summarizer,
                    value=conform(list(request), opening=self.texts.opening),
                    purpose="summary",
                    key=f"{self.state['turn']['question_id']}-{self.attempt}-{len(request)}",
                    aside=True,
                    timeout_seconds=scope.settings.judge_timeout_seconds,
                )
            )
        )


def sight_of(
    state: State,
    scope: Scope,
    model: Runnable[Any, Any] | None,
    earlier: Earlier,
    hints: Hints,
    reminders: Sequence[Reminder],
    *,
    pending: Collection[str],
) -> Steps[Sight]:
    """What the views of an attempt are made of.

    Args:
        state: With the question on the record.
        scope: Of the step.
        model: What answers, its tools bound; `None` plans without asking.
        earlier: Of the sealed part, what is shown with the topic under way.
        hints: For this attempt.
        reminders: Those that are due.
        pending: Ids of the question.
    """
    yield scope.resolve("summarizer")
    counter = yield from _counter(scope, model)
    texts, record = _texts(state, scope), state["messages"]
    segments, gone = state.get("segments", []), state.get("forgotten", [])
    out = forgotten_ids(record, segments, gone, pending=pending)
    left = remembered(record, segments, gone, texts, pending=pending)
    cleared, fold = cleared_ids(record, gone), state.get("fold", Fold())
    topics = told_topics(state.get("topics", []), gone)
    tale = told(record, segments, topics, opened_topics(segments, state.get("unfolded", [])))
    prompt, sealed = scope.settings.system_prompt, offloaded_of(state)
    return Sight(
        state=state,
        scope=scope,
        model=model,
        attempt=hints.attempt,
        head=head_of(record, tale.head, system_prompt=prompt, texts=texts, sealed=sealed),
        told=tale,
        messages=[m for m in (*earlier.words, *spoken(left)) if m.type != "system"],
        earlier=earlier.places,
        forgotten=out,
        fold=untold(record, segments, fold, forgotten=out, cleared=cleared),
        pending=frozenset(pending),
        hints=hints,
        reminders=reminders,
        witness=Witness(),
        counter=counter,
        texts=texts,
    )


def _texts(state: State, scope: Scope) -> Texts:
    """The catalogue, for a model that can read results where it has the tool for it."""
    texts = scope.texts(state["messages"])
    return readable(texts) if offers(scope.services.tools, READ_TOOL) else texts


def _counter(scope: Scope, model: Runnable[Any, Any] | None) -> Steps[TokenCounter]:
    if model is None:
        return TokenCounter()
    encode = yield scope.resolve("encoder")
    return TokenCounter(
        encode=encode,
        vocabulary=vocabulary_of(scope.services.model_name),
        provider=scope.services.provider or "openai",
    )


def request_of(sight: Sight) -> Steps[list[AnyMessage]]:
    """What the first call of an attempt would be sent, without asking."""
    now = sight.situation([], Carried())
    plan = yield from planned(strategy_of(sight.scope), now)
    return sight.sendable(sight.laid_out(plan))
