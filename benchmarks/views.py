"""The views of one conversation as the product builds them, turn by turn, without a graph."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from langchain_core.messages import AnyMessage
from replays import Turn

from unsay.context.compaction import Compaction, summary_message
from unsay.context.plan import Plan, PlanContext, TokenCounter
from unsay.context.strategy import Strategy, plan_if_due
from unsay.context.summaries import local_summary
from unsay.context.topics import (
    SummaryPlacement,
    by_topic,
    current_topic_id,
    limited,
    memories,
    opened_topics,
    place_summaries,
)
from unsay.context.view import Hints, head_of, lay_out, sendable
from unsay.effects import drive
from unsay.generation.draft import FULLEST, RECALL_SHARE, ROOM
from unsay.judging.topic_detector import LexicalDetector
from unsay.llm.summarize import LOCAL_CHARS
from unsay.memory.recall import BAR, FLOOR, GAIN
from unsay.memory.topics import SEGMENTS
from unsay.messages.content import newest_language, text_of
from unsay.prompts.catalogue import Texts
from unsay.retrieval.quotation import quoting
from unsay.retrieval.selection import Bars, recall
from unsay.retrieval.terms import Entry, RecallIndex, entry_of, part_of, with_steps
from unsay.settings.settings import Settings
from unsay.types import Segment, Topic

RECALL_TOKENS = Settings.model_fields["recall_tokens"].default
LIVE_BARS = Bars(floor=FLOOR, bar=BAR, gain=GAIN)

SYSTEM = "Answer briefly, and say so where you do not know."
"""What every request begins with."""


@dataclass(slots=True, kw_only=True)
class Views:
    """A conversation, and all that its next view depends on."""

    strategy: Strategy
    """Plans the views."""

    window: int
    """In tokens."""

    count: TokenCounter
    """Of a request."""

    tools_tokens: int = 0
    """Of the definitions of tools that are sent with every request."""

    with_topics: bool = False
    """Whether topics are detected, and finished ones summarized."""

    with_recall: bool = False
    """Whether messages that match a question are quoted before it."""

    said: list[AnyMessage] = field(default_factory=list)
    """The record."""

    compaction: Compaction = field(default_factory=Compaction)
    """What the strategy keeps."""

    segments: list[Segment] = field(default_factory=list)
    """Which stretch belongs to which topic."""

    topics: list[Topic] = field(default_factory=list)
    """Those that were left with their summaries."""

    recalled: AnyMessage | None = None
    """What the turn's views show again."""

    entries: dict[str, Entry] = field(default_factory=dict)
    """Of the record."""

    def requests(self, turn: Turn) -> Iterator[Sequence[AnyMessage]]:
        """What the model is sent in one turn, and the turn put on the record."""
        if self.with_topics:
            self._place(turn)
        self.said += turn.asked
        done: list[AnyMessage] = []
        for call, step in enumerate(turn.steps, 1):
            yield self._request(done, call, len(turn.asked))
            done += step
        self.said += done
        self.compaction = drive(plan_if_due(self.strategy, self._situation([], None))).compaction

    def _request(self, done: Sequence[AnyMessage], call: int, asked: int) -> Sequence[AnyMessage]:
        plan = drive(plan_if_due(self.strategy, self._situation(done, call)))
        self.compaction = plan.compaction
        if call == 1:
            self.recalled = self._recalled(plan, asked) if self.with_recall else None
        shown = lay_out(
            plan.messages,
            Hints(),
            self._texts,
            summaries=self._told.before,
            recalled=self.recalled,
        )
        return sendable([*self._head(), *shown], texts=self._texts, provider="openai")

    def _recalled(self, plan: Plan, asked: int) -> AnyMessage | None:
        """Return omitted messages that match the question, as far as they fit."""
        before = self.said[: len(self.said) - asked]
        room = min(RECALL_SHARE * ROOM * self.window, FULLEST * self.window - plan.after.tokens)
        for message in before[len(self.entries) :]:
            self.entries[message.id or ""] = entry_of(message)
        found = recall(
            text_of(self.said[-1]),
            before,
            budget_tokens=max(0, min(RECALL_TOKENS, int(room))),
            count=lambda each: self.count([quoting(each, self._texts)]) if each else 0,
            shown={message.id or "" for message in plan.messages},
            index=RecallIndex(part_of(list(with_steps(self.entries.values(), before)))),
            bars=LIVE_BARS,
        )
        return quoting(found.messages, self._texts) if found.messages else None

    def _situation(self, done: Sequence[AnyMessage], call: int | None) -> PlanContext:
        beside = [summary_message(words, self._texts) for words in self._told.before.values()]
        return PlanContext(
            messages=[*self.said, *done],
            count=self.count,
            texts=self._texts,
            compaction=self.compaction,
            window_tokens=self.window,
            overhead_tokens=self.count([*self._head(), *beside]) + self.tools_tokens,
            call=call,
            segments=self.segments,
        )

    @property
    def _texts(self) -> Texts:
        return Texts(newest_language(self.said))

    @property
    def _told(self) -> SummaryPlacement:
        """Where the summaries of the other topics stand."""
        return place_summaries(
            self.said, self.segments, self.topics, opened_topics(self.segments, [])
        )

    def _head(self) -> list[AnyMessage]:
        return head_of(self.said, self._told.head, system_prompt=SYSTEM, texts=self._texts)

    def _place(self, turn: Turn) -> None:
        """Place a question among the topics, as `detect_topic_change` does."""
        question = text_of(turn.asked[-1])
        topic_id: str | None = None
        if self.segments:
            current, *others = memories(self.said, self.segments, self.topics)
            known = [each for each in others if each.texts]
            shift = LexicalDetector().detect(question, current, known)
            if shift.kind == "same":
                return
            topic_id = shift.topic_id
        if topic_id is None:
            topic_id = f"topic-{len(self.said)}"
            self.topics.append(
                Topic(id=topic_id, label=topic_id, summary=None, summarized_through=None)
            )
        here = Segment(topic_id=topic_id, start=turn.asked[0].id or "")
        self._summarize(topic_id)
        self.segments = [*self.segments, here][-SEGMENTS:]
        self.topics = limited(self.topics, self.segments)

    def _summarize(self, now: str) -> None:
        """Sum up the topic that is left."""
        left, grouped = current_topic_id(self.segments), by_topic(self.said, self.segments)
        said = grouped.get(left or "", [])
        for place, topic in enumerate(self.topics):
            if topic["id"] == left != now and said:
                words = local_summary(said, Texts(newest_language(said)), chars=LOCAL_CHARS)
                last = said[-1].id
                self.topics[place] = {**topic, "summary": words, "summarized_through": last}
