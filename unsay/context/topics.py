"""Which messages belong to which topic, and the strategy that gives each topic its own context."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from langchain_core.messages import AnyMessage

from unsay.context.compaction import with_partners
from unsay.context.plan import Plan, PlanContext
from unsay.context.strategy import Strategy, call_strategy, check_strategy, plan_if_due
from unsay.context.three_stage import ThreeStage
from unsay.effects import Steps
from unsay.messages.annotations import spoken
from unsay.messages.content import text_of
from unsay.types import ExpandedTopic, Segment, Topic, TopicMemory

MEMORY_TEXTS = 12  # newest texts of a topic that a detector is shown
MEMORY_TOPICS = 8  # most recent topics that a detector is shown
TEXT_CHARS = 2_000  # characters of one text that a detector is shown
TOPICS = 24  # most topics of a thread

TOPICS_KEPT = 16
"""Topics that are left once there are too many. Dropping one at a time would change the head of
each context. Source: own measurement."""


def current_topic_id(segments: Sequence[Segment]) -> str | None:
    """Return the current topic; `None` before the first question."""
    return segments[-1]["topic_id"] if segments else None


def opened_topics(segments: Sequence[Segment], expanded: Sequence[ExpandedTopic]) -> set[str]:
    """Return the topics that are shown word for word: the current one and its expanded ones."""
    if not segments:
        return set()
    here = segments[-1]
    return {here["topic_id"]} | {u["topic_id"] for u in expanded if u["at"] == here["start"]}


def live_segments(messages: Sequence[AnyMessage], segments: Sequence[Segment]) -> list[Segment]:
    """Return the segments whose start is still in the transcript, in its order."""
    places = {message.id: index for index, message in enumerate(messages)}
    there = [each for each in segments if each["start"] in places]
    return sorted(there, key=lambda each: places[each["start"]])


def by_topic(
    messages: Sequence[AnyMessage], segments: Sequence[Segment]
) -> dict[str, list[AnyMessage]]:
    """Return the messages of each topic.

    Messages before the first segment belong to its topic; notices belong to none.
    """
    starts = {each["start"]: each["topic_id"] for each in segments}
    current = segments[0]["topic_id"] if segments else ""
    grouped: dict[str, list[AnyMessage]] = {}
    said = {message.id for message in spoken(messages)}
    for message in messages:
        current = starts.get(message.id or "", current)
        if message.id in said:
            grouped.setdefault(current, []).append(message)
    return grouped


def limited(topics: Sequence[Topic], segments: Sequence[Segment]) -> list[Topic]:
    """Return the topics; if there are too many, the most recent ones."""
    if len(topics) <= TOPICS:
        return list(topics)
    there = [each["id"] for each in reversed(topics)]
    visited = [each["topic_id"] for each in reversed(segments) if each["topic_id"] in there]
    kept = list(dict.fromkeys([*visited, *there]))[:TOPICS_KEPT]
    return [each for each in topics if each["id"] in kept]


def memories(
    messages: Sequence[AnyMessage], segments: Sequence[Segment], topics: Sequence[Topic] = ()
) -> list[TopicMemory]:
    """Return what a detector is shown of each topic, the most recent topic first.

    The summary of a topic's offloaded messages comes before its newest texts.
    """
    offloaded = {each["id"]: words for each in topics if (words := each.get("offloaded"))}
    named = [*(each["topic_id"] for each in reversed(segments)), *reversed(offloaded)]
    grouped = by_topic(messages, segments)
    return [
        TopicMemory(
            topic_id=topic_id,
            texts=(
                *([offloaded[topic_id][:TEXT_CHARS]] if topic_id in offloaded else []),
                *(
                    text[:TEXT_CHARS]
                    for message in grouped.get(topic_id, [])[-MEMORY_TEXTS:]
                    if message.type in ("human", "ai") and (text := text_of(message)).strip()
                ),
            ),
        )
        for topic_id in list(dict.fromkeys(named))[:MEMORY_TOPICS]
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryPlacement:
    """Summaries of topics, the topic left longest ago first.

    Those of `head` come before everything, those of `before` before the message with that id.
    """

    head: tuple[str, ...]
    before: Mapping[str, tuple[str, ...]]


def place_summaries(
    messages: Sequence[AnyMessage],
    segments: Sequence[Segment],
    topics: Sequence[Topic],
    opened: Collection[str],
) -> SummaryPlacement:
    """Place the summaries of topics; of `opened` ones only that of their offloaded messages."""
    places = {message.id: index for index, message in enumerate(messages)}
    left: list[tuple[int, str]] = []  # place of the last message in a summary, and the summary
    for topic in topics:
        summary = None if topic["id"] in opened else topic["summary"]
        if words := summary or topic.get("offloaded"):
            left.append((places.get(topic["summarized_through"], -1) if summary else -1, words))
    there = live_segments(messages, segments)
    starts = [each["start"] for each in there if each["topic_id"] in opened]
    head: list[str] = []
    before: dict[str, list[str]] = {}
    for last, words in sorted(left, key=lambda each: each[0]):
        start = next((id_ for id_ in starts if places[id_] > last), None)
        told_at = head if start is None or start == starts[0] else before.setdefault(start, [])
        told_at.append(words)
    return SummaryPlacement(
        head=tuple(head), before={id_: tuple(each) for id_, each in before.items()}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicScoped(Strategy):
    """Show the current topic only, as another strategy plans it.

    Pins and the running question are shown in any topic. Each topic has its own fold.
    """

    within: Strategy = field(default_factory=ThreeStage)

    def __post_init__(self) -> None:
        check_strategy(self.within)

    def plan(self, ctx: PlanContext) -> Steps[Plan]:
        """Plan the topic's context when the other strategy's `per_turn` says."""
        return (yield from plan_if_due(self.within, self.scoped(ctx)))

    def reduce(self, ctx: PlanContext) -> Steps[Plan]:
        """Make the topic's context smaller."""
        return (yield from call_strategy(self.within.reduce, self.scoped(ctx)))

    def scoped(self, ctx: PlanContext) -> PlanContext:
        """Return the situation of the current topic; all of it if there are no topics."""
        segments = live_segments(ctx.messages, ctx.segments)
        topic = current_topic_id(segments)
        if topic is None:
            return ctx
        grouped = by_topic(ctx.messages, segments)
        opened = opened_topics(segments, ctx.expanded)
        shown = ctx.loaded | {m.id for name in opened for m in grouped.get(name, [])}
        firm = with_partners(ctx.messages, ctx.pins | ctx.pending)
        kept = {
            message.id
            for index, message in enumerate(ctx.messages)
            if message.id in shown or index in firm or message.type == "system"
        }
        known = {each["topic_id"] for each in segments}
        folds = {k: v for k, v in ctx.compaction.get("topics", {}).items() if k in known}
        return replace(
            ctx,
            messages=[each for each in ctx.messages if each.id in kept],
            other_topics=(
                *ctx.other_topics,
                *(m.id or "" for m in ctx.messages if m.id not in kept),
            ),
            compaction={**ctx.compaction, "topics": folds}
            if ctx.compaction.get("topics")
            else ctx.compaction,
            topic_id=topic,
        )
