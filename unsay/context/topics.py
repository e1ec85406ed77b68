"""The messages of each topic, and `TopicScoped`, which gives each topic its own context."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from langchain_core.messages import AnyMessage, ToolMessage

from unsay.arguments import configurable
from unsay.context.compaction import Compaction, Span, with_partners
from unsay.context.plan import Plan, PlanContext
from unsay.context.strategy import Strategy, call_strategy, check_least, check_strategy, plan_if_due
from unsay.context.windows import ThreeStage
from unsay.effects import Steps
from unsay.messages.annotations import annotate, is_document, is_irrelevant, spoken
from unsay.messages.boundaries import safe_split
from unsay.messages.content import has_sources, text_of
from unsay.prompts.catalogue import Texts
from unsay.protocols import TopicMemory
from unsay.types import ExpandedTopic, Forgotten, Segment, Topic

MEMORY_TEXTS = 12  # newest texts of a topic that a detector gets
MEMORY_TOPICS = 8  # most recent topics that a detector gets
TEXT_CHARS = 2_000  # characters of one text that a detector gets
TOPICS = 24  # most topics of a thread
KEPT_MESSAGES = 4  # messages that `on_topic_change="keep"` sends of the topic left last

# Topics that remain once there are too many. Dropping one at a time would change the beginning of
# each context and invalidate the provider's cache. Source: own measurement.
TOPICS_KEPT = 16

SUMMARY = ("summary", "summarized_through", "sources")  # fields of a topic that belong together


def current_topic_id(segments: Sequence[Segment]) -> str | None:
    """Return the id of the current topic; `None` before the first question."""
    return segments[-1]["topic_id"] if segments else None


def opened_topics(segments: Sequence[Segment], expanded: Sequence[ExpandedTopic]) -> set[str]:
    """Return the ids of the topics shown in full: the current one and those expanded during it.

    The set is empty before the first topic.
    """
    if not segments:
        return set()
    current = segments[-1]
    return {current["topic_id"]} | {e["topic_id"] for e in expanded if e["at"] == current["start"]}


def shift_expanded(
    expanded: Sequence[ExpandedTopic], new_starts: Mapping[str, str]
) -> list[ExpandedTopic]:
    """Return expanded topics after segments moved; `new_starts` has their new starts by old ones."""
    return [{**each, "at": new_starts.get(each["at"], each["at"])} for each in expanded]


def live_segments(messages: Sequence[AnyMessage], segments: Sequence[Segment]) -> list[Segment]:
    """Return the segments whose start is still in the transcript, in the transcript's order."""
    places = {message.id: index for index, message in enumerate(messages)}
    live = [segment for segment in segments if segment["start"] in places]
    return sorted(live, key=lambda segment: places[segment["start"]])


def live_topics(
    messages: Sequence[AnyMessage], topics: Sequence[Topic], sources: Collection[str]
) -> list[Topic]:
    """Return the topics, without the summaries of which a message was removed or rewritten.

    `sources` are those of the messages, and of the offloaded ones before them.
    """
    ids = {message.id for message in messages}

    def holds(topic: Topic) -> bool:
        return topic["summarized_through"] in ids and has_sources(topic, sources)

    return [each if holds(each) else without_summary(each) for each in topics]


def without_summary(topic: Topic) -> Topic:
    """Return a topic without its summary; that of its offloaded messages stays."""
    plain = {key: value for key, value in topic.items() if key not in SUMMARY}
    return cast("Topic", {**plain, "summary": None, "summarized_through": None})


def with_summary_of(topic: Topic, other: Topic) -> Topic:
    """Return a topic with the summary of another record of it, if that has one."""
    summary = {key: each for key, each in other.items() if key in SUMMARY}
    return cast("Topic", {**topic, **summary})


def by_topic(
    messages: Sequence[AnyMessage], segments: Sequence[Segment]
) -> dict[str, list[AnyMessage]]:
    """Return the messages of each topic, by topic id; notices are left out.

    Messages before the first segment belong to its topic. Without segments all are under `""`.
    """
    # Messages before the first segment belong to its topic: a host may put some in before a turn.
    starts = {segment["start"]: segment["topic_id"] for segment in segments}
    current = segments[0]["topic_id"] if segments else ""
    grouped: dict[str, list[AnyMessage]] = {}
    spoken_ids = {message.id for message in spoken(messages)}
    for message in messages:
        current = starts.get(message.id or "", current)
        if message.id in spoken_ids:
            grouped.setdefault(current, []).append(message)
    return grouped


def limited(topics: Sequence[Topic], segments: Sequence[Segment]) -> list[Topic]:
    """Return the topics; if there are more than `TOPICS`, only the `TOPICS_KEPT` visited last.

    Their order stays the same.
    """
    if len(topics) <= TOPICS:
        return list(topics)
    newest_first = [topic["id"] for topic in reversed(topics)]
    visited = [s["topic_id"] for s in reversed(segments) if s["topic_id"] in newest_first]
    kept_ids = list(dict.fromkeys([*visited, *newest_first]))[:TOPICS_KEPT]
    return [topic for topic in topics if topic["id"] in kept_ids]


def memories(
    messages: Sequence[AnyMessage], segments: Sequence[Segment], topics: Sequence[Topic] = ()
) -> list[TopicMemory]:
    """Return what a topic detector gets: the newest texts of each topic, most recent topic first.

    The summary of a topic's offloaded messages comes before its texts. Texts are shortened, and
    only the most recent topics are included.
    """
    offloaded = {topic["id"]: words for topic in topics if (words := topic.get("offloaded"))}
    topic_ids = [*(segment["topic_id"] for segment in reversed(segments)), *reversed(offloaded)]
    grouped = by_topic(messages, segments)
    topic_memories: list[TopicMemory] = []
    for topic_id in list(dict.fromkeys(topic_ids))[:MEMORY_TOPICS]:
        newest = grouped.get(topic_id, [])[-MEMORY_TEXTS:]
        message_texts = [text_of(message) for message in newest if message.type in ("human", "ai")]
        texts = [offloaded.get(topic_id, ""), *filter(str.strip, message_texts)]
        cut = tuple(text[:TEXT_CHARS] for text in texts if text)
        topic_memories.append(TopicMemory(topic_id=topic_id, texts=cut))
    return topic_memories


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryPlacement:
    """Where a context has the summaries of topics, in the order of the last messages they cover."""

    head: tuple[str, ...]  # in the system message
    before: Mapping[str, tuple[str, ...]]  # by the id of the message that they precede


def place_summaries(
    messages: Sequence[AnyMessage],
    segments: Sequence[Segment],
    topics: Sequence[Topic],
    opened: Collection[str],
) -> SummaryPlacement:
    """Return where in a context the summary of each topic goes.

    A summary goes before the first shown segment that follows the messages that it covers. It goes
    into the head if no shown segment follows, or if that segment is the first shown one. `opened`
    has the ids of topics that are shown in full: only their offloaded messages have a summary.
    """
    places = {message.id: index for index, message in enumerate(messages)}
    ends: list[tuple[int, str]] = []  # index of the last summarized message, and the summary
    for topic in topics:
        summary = None if topic["id"] in opened else topic["summary"]
        if text := summary or topic.get("offloaded"):
            ends.append((places.get(topic["summarized_through"], -1) if summary else -1, text))
    live = live_segments(messages, segments)
    starts = [segment["start"] for segment in live if segment["topic_id"] in opened]
    head: list[str] = []
    before: dict[str, list[str]] = {}
    for last, text in sorted(ends, key=lambda item: item[0]):
        start = next((id_ for id_ in starts if places[id_] > last), None)
        target = head if start is None or start == starts[0] else before.setdefault(start, [])
        target.append(text)
    return SummaryPlacement(
        head=tuple(head), before={id_: tuple(each) for id_, each in before.items()}
    )


def kept_messages(on_topic_change: str) -> int:
    """Return how many messages of the topic left last are sent with this setting."""
    return KEPT_MESSAGES if on_topic_change == "keep" else 0


@configurable
@dataclass(frozen=True, slots=True, kw_only=True)
class TopicScoped(Strategy):
    """Send only the messages of the current topic, as another strategy plans them.

    Topics that were expanded during it are sent as well. Each topic has its own compaction. Pins
    and the running question are sent in every topic. Before the first topic all messages are sent.

    Attributes:
        within: The strategy that plans the messages of one topic.
        kept_messages: Number of newest messages of the topic left last that are sent as well.
    """

    within: Strategy = field(default_factory=ThreeStage)  # plans the messages of one topic
    kept_messages: int = 0  # newest messages of the topic left last that are sent as well

    def __post_init__(self) -> None:
        check_least(self, 0, "kept_messages")
        check_strategy(self.within)

    def plan(self, ctx: PlanContext) -> Steps[Plan]:
        """Return the plan of `within` for the messages of the topic.

        If its `per_turn` excludes this call, or it fails, nothing more of them is left out.
        """
        return (yield from plan_if_due(self.within, self.scoped(ctx)))

    def reduce(self, ctx: PlanContext) -> Steps[Plan]:
        """Return the plan of `within` for a smaller context of the topic.

        If `within` fails, the context stays as it was and the plan has the problem.
        """
        return (yield from call_strategy(self.within.reduce, self.scoped(ctx)))

    def _kept_ids(
        self,
        messages: Sequence[AnyMessage],
        segments: Sequence[Segment],
        grouped: Mapping[str, Sequence[AnyMessage]],
    ) -> set[str | None]:
        """Return the ids of the newest messages of the topic that came before the current one.

        They are at most `kept_messages`; a tool call is never split, so there can be fewer. Without
        another topic the set is empty. `segments` are those of `live_segments`, at least one, and
        `grouped` is the result of `by_topic`.
        """
        current = segments[-1]
        before = [segment for segment in segments if segment["topic_id"] != current["topic_id"]]
        if not self.kept_messages or not before:
            return set()
        places = {message.id: index for index, message in enumerate(messages)}
        old = grouped.get(before[-1]["topic_id"], [])
        earlier_messages = [
            message for message in old if places[message.id] < places[current["start"]]
        ]
        start = safe_split(
            earlier_messages, max(0, len(earlier_messages) - self.kept_messages), towards="newer"
        )
        return {message.id for message in earlier_messages[start:]}

    def scoped(self, ctx: PlanContext) -> PlanContext:
        """Return the plan context with only the messages that `within` plans.

        They are those of the topics shown in full, the newest `kept_messages` of the topic left
        last, pins, the question and system messages. Without topics, `ctx` itself is returned.
        """
        segments = live_segments(ctx.messages, ctx.segments)
        topic = current_topic_id(segments)
        if topic is None:
            return ctx
        grouped = by_topic(ctx.messages, segments)
        open_topic_ids = opened_topics(segments, ctx.expanded)
        shown_ids = ctx.loaded | {m.id for name in open_topic_ids for m in grouped.get(name, [])}
        shown_ids |= self._kept_ids(ctx.messages, segments, grouped)
        firm = with_partners(ctx.messages, ctx.pins | ctx.pending)
        shown_ids |= {m.id for m in ctx.messages if m.type == "system"}
        kept_ids = {
            m.id for index, m in enumerate(ctx.messages) if m.id in shown_ids or index in firm
        }
        topic_ids = {segment["topic_id"] for segment in segments}
        compaction = ctx.compaction.copy()
        if topics := compaction.get("topics"):
            compaction["topics"] = {k: v for k, v in topics.items() if k in topic_ids}
        others = [message.id or "" for message in ctx.messages if message.id not in kept_ids]
        return replace(
            ctx,
            messages=[message for message in ctx.messages if message.id in kept_ids],
            other_topics=(*ctx.other_topics, *others),
            compaction=compaction,
            topic_id=topic,
        )


def pinned_ids(state: Mapping[str, Any]) -> frozenset[str]:
    """Return the ids of pinned messages, also of those that a rollback removed."""
    return frozenset(each["message_id"] for each in state.get("pins", []))


def forgotten_ids(
    messages: Sequence[AnyMessage],
    segments: Sequence[Segment],
    forgotten: Sequence[Forgotten],
    *,
    pending: Collection[str] = (),
) -> frozenset[str]:
    """Return the ids of the forgotten messages and of the other messages of their tool calls.

    Only ids of `messages` are returned. A forgotten topic means its messages up to the newest one
    that its entry lists; if `messages` has none of the listed ones, it means the whole topic.
    `pending` has the ids of the question that is being answered: they are not returned.
    """
    if not forgotten:
        return frozenset()
    grouped = by_topic(messages, segments) if forgotten_topics(forgotten) else {}
    target_ids: set[str] = set()
    for entry in forgotten:
        if entry["kind"] in ("message", "span"):
            target_ids.update(entry["message_ids"])
        if "topic_id" in entry:
            ids = [message.id or "" for message in grouped.get(entry["topic_id"], [])]
            places = [place for place, name in enumerate(ids) if name in entry["message_ids"]]
            target_ids.update(ids[: places[-1] + 1] if places else ids)
    waiting = {messages[index].id for index in with_partners(messages, pending)}
    out = {messages[index].id or "" for index in with_partners(messages, target_ids)}
    return frozenset(out - waiting)


def cleared_ids(messages: Sequence[AnyMessage], forgotten: Sequence[Forgotten]) -> frozenset[str]:
    """Return the ids of the tool results in `messages` that were forgotten without their calls."""
    entries = [entry for entry in forgotten if entry["kind"] == "tool_results"]
    target_ids = {name for entry in entries for name in entry["message_ids"]}
    return frozenset(m.id for m in messages if isinstance(m, ToolMessage) and m.id in target_ids)


def irrelevant_ids(messages: Iterable[AnyMessage]) -> frozenset[str]:
    """Return the ids of documents that a judge found irrelevant to their question, to report them."""
    return frozenset(m.id or "" for m in messages if is_document(m) and is_irrelevant(m))


def without_irrelevant(messages: Iterable[AnyMessage], texts: Texts) -> list[AnyMessage]:
    """Return the messages without irrelevant documents.

    The text of an irrelevant search result, which must stay with its call, becomes one line.
    """
    return [_shortened(m, texts) for m in messages if not (is_document(m) and is_irrelevant(m))]


def _shortened(message: AnyMessage, texts: Texts) -> AnyMessage:
    if not (isinstance(message, ToolMessage) and is_irrelevant(message)):
        return message
    line = texts.say("result_irrelevant", chars=len(text_of(message)))
    return annotate(message.model_copy(update={"content": line}), shortened="cleared")


def forgotten_topics(forgotten: Sequence[Forgotten]) -> frozenset[str]:
    """Return the ids of the topics that were forgotten as a whole."""
    return frozenset(entry["topic_id"] for entry in forgotten if "topic_id" in entry)


def remaining_topics(topics: Sequence[Topic], forgotten: Sequence[Forgotten]) -> list[Topic]:
    """Return the topics without those that were forgotten as a whole."""
    ids = forgotten_topics(forgotten)
    return [topic for topic in topics if topic["id"] not in ids]


def without_forgotten(
    messages: Sequence[AnyMessage],
    segments: Sequence[Segment],
    forgotten: Sequence[Forgotten],
    texts: Texts,
    *,
    pending: Collection[str] = (),
) -> list[AnyMessage]:
    """Return the messages that are neither forgotten nor irrelevant.

    The text of a forgotten tool result, or of an irrelevant search result, becomes one line.
    `pending` has the ids of the question that is being answered: it is never left out.
    """
    out = forgotten_ids(messages, segments, forgotten, pending=pending)
    cleared = cleared_ids(messages, forgotten) - out
    remaining: list[AnyMessage] = []
    for message in messages:
        if isinstance(message, ToolMessage) and message.id in cleared:
            line = texts.say("result_forgotten", chars=len(text_of(message)))
            shorter = message.model_copy(update={"content": line})
            remaining.append(annotate(shorter, shortened="cleared"))
        elif message.id not in out:
            remaining.append(message)
    return without_irrelevant(remaining, texts)


def topic_starts(
    messages: Sequence[AnyMessage],
    segments: Sequence[Segment],
    expanded: Sequence[ExpandedTopic],
    forgotten: Collection[str],
) -> tuple[Sequence[Segment], Sequence[ExpandedTopic]]:
    """Return segments and expanded topics for contexts without the `forgotten` messages (ids).

    A segment whose first message is forgotten starts at its next message that is not; if there is
    none, it is dropped. An expanded topic begins at the moved start too, but is never dropped. If
    no start is forgotten, both are returned unchanged.
    """
    starts = {segment["start"] for segment in segments}
    if starts.isdisjoint(forgotten):
        return segments, expanded
    new_starts: dict[str, str] = {}
    start = segments[0]["start"]  # messages before the first segment belong to its topic
    for message in messages:
        name = message.id or ""
        start = name if name in starts else start
        if start not in new_starts and name not in forgotten:
            new_starts[start] = name
    remaining_segments = [
        Segment(topic_id=segment["topic_id"], start=new_starts[segment["start"]])
        for segment in segments
        if segment["start"] in new_starts
    ]
    return remaining_segments, shift_expanded(expanded, new_starts)


def named_ids(forgotten: Sequence[Forgotten]) -> frozenset[str]:
    """Return the ids that the entries list, also of messages that the transcript does not hold.

    Forgotten tool results are included; of a forgotten topic only the listed messages.
    """
    return frozenset(name for entry in forgotten for name in entry["message_ids"])


def compaction_without(
    messages: Sequence[AnyMessage],
    segments: Sequence[Segment],
    compaction: Compaction,
    *,
    forgotten: Collection[str],
    cleared: Collection[str],
) -> Compaction:
    """Return the compaction without the `forgotten` messages and `cleared` tool results (ids).

    A span whose summary covers one of them is dropped with all later ones, which may repeat it: their
    other messages are shown and summarized again. A span without a summary shrinks to the messages
    that are not forgotten. If the ids are empty, the compaction itself is returned.
    """
    if not compaction or not (forgotten or cleared):
        return compaction
    ids = [message.id or "" for message in messages]
    new_compaction: Compaction = compaction.copy()
    if "spans" in compaction:
        new_compaction["spans"] = list(_spans_without(ids, compaction["spans"], forgotten, cleared))

    def last_left(name: str) -> str:
        before = ids[: ids.index(name) + 1] if name in ids else []
        return next((earlier for earlier in reversed(before) if earlier not in forgotten), "")

    if compaction.get("cleared") in forgotten:
        new_compaction["cleared"] = last_left(compaction["cleared"])
    if compaction.get("truncated") in forgotten:
        new_compaction["truncated"] = last_left(compaction["truncated"])
    if "topics" in compaction:
        grouped = by_topic(messages, segments)
        new_compaction["topics"] = {
            name: compaction_without(
                grouped.get(name, []), (), each, forgotten=forgotten, cleared=cleared
            )
            for name, each in compaction["topics"].items()
        }
    return new_compaction


def _spans_without(
    ids: Sequence[str], spans: Iterable[Span], forgotten: Collection[str], cleared: Collection[str]
) -> Iterator[Span]:
    """Yield the spans without forgotten ends, up to the first whose summary covers what was forgotten.

    Spans without a message that is left are skipped. `ids` are the transcript's, `cleared` of
    forgotten results.
    """
    for span in spans:
        if span["through"] not in ids:
            yield span
            continue
        first = ids.index(span["first"]) if span["first"] in ids else 0
        inside = ids[first : ids.index(span["through"]) + 1]
        covered = set(inside) - set(span["kept"])
        # The summary quotes what was forgotten: keeping it would send this to the model again.
        if span["summary"] is not None and covered & {*forgotten, *cleared}:
            return
        if remaining_ids := [name for name in inside if name not in forgotten]:
            yield {**span, "first": remaining_ids[0], "through": remaining_ids[-1]}
