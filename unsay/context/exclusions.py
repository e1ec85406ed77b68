"""Forgetting: messages that no context includes until they are restored.

The transcript keeps them. No message is both pinned and forgotten: forgetting unpins it, and a
forgotten message cannot be pinned.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from langchain_core.messages import AnyMessage, ToolMessage

from unsay.context.compaction import Compaction, Span, with_partners
from unsay.context.topics import by_topic
from unsay.messages.annotations import annotate
from unsay.messages.content import text_of
from unsay.prompts.fields import Texts
from unsay.types import ExpandedTopic, Forgotten, Segment, Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStarts:
    """Where topics begin in some messages, and which are shown beside the current one."""

    segments: Sequence[Segment]
    expanded: Sequence[ExpandedTopic]


def forgotten_ids(
    messages: Sequence[AnyMessage],
    segments: Sequence[Segment],
    forgotten: Sequence[Forgotten],
    *,
    pending: Collection[str] = (),
) -> frozenset[str]:
    """Return the ids of the forgotten messages, and of all that must stay with them.

    Of a topic, all messages are forgotten up to the newest one that its entry names; if none of
    these is here, all. The running question, `pending`, is never forgotten.
    """
    if not forgotten:
        return frozenset()
    grouped = by_topic(messages, segments) if forgotten_topics(forgotten) else {}
    named: set[str] = set()
    for each in forgotten:
        if each["kind"] in ("message", "span"):
            named.update(each["message_ids"])
        if "topic_id" in each:
            ids = [message.id or "" for message in grouped.get(each["topic_id"], [])]
            places = [place for place, name in enumerate(ids) if name in each["message_ids"]]
            named.update(ids[: places[-1] + 1] if places else ids)
    waiting = {messages[index].id for index in with_partners(messages, pending)}
    out = {messages[index].id or "" for index in with_partners(messages, named)}
    return frozenset(out - waiting)


def cleared_ids(messages: Sequence[AnyMessage], forgotten: Sequence[Forgotten]) -> frozenset[str]:
    """Return the ids of the forgotten tool results, which a context shows as one line."""
    named = {n for each in forgotten if each["kind"] == "tool_results" for n in each["message_ids"]}
    return frozenset(m.id for m in messages if isinstance(m, ToolMessage) and m.id in named)


def forgotten_topics(forgotten: Sequence[Forgotten]) -> frozenset[str]:
    """Return the ids of the forgotten topics."""
    return frozenset(each["topic_id"] for each in forgotten if "topic_id" in each)


def remaining_topics(topics: Sequence[Topic], forgotten: Sequence[Forgotten]) -> list[Topic]:
    """Return the topics that are not forgotten."""
    gone = forgotten_topics(forgotten)
    return [each for each in topics if each["id"] not in gone]


def without_forgotten(
    messages: Sequence[AnyMessage],
    segments: Sequence[Segment],
    forgotten: Sequence[Forgotten],
    texts: Texts,
    *,
    pending: Collection[str] = (),
) -> list[AnyMessage]:
    """Return the messages that are not forgotten, with a line for each forgotten tool result."""
    out = forgotten_ids(messages, segments, forgotten, pending=pending)
    cleared = cleared_ids(messages, forgotten) - out
    left: list[AnyMessage] = []
    for message in messages:
        if isinstance(message, ToolMessage) and message.id in cleared:
            words = texts.result_forgotten.format(chars=len(text_of(message)))
            shorter = message.model_copy(update={"content": words})
            left.append(annotate(shorter, shortened="cleared"))
        elif message.id not in out:
            left.append(message)
    return left


def topic_starts(
    messages: Sequence[AnyMessage],
    segments: Sequence[Segment],
    expanded: Sequence[ExpandedTopic],
    forgotten: Collection[str],
) -> TopicStarts:
    """Return where topics begin without the forgotten messages: at the first message that is left."""
    starts = {each["start"] for each in segments}
    if starts.isdisjoint(forgotten):
        return TopicStarts(segments=segments, expanded=expanded)
    moved: dict[str, str] = {}
    here = segments[0]["start"]  # messages before the first segment belong to its topic
    for message in messages:
        name = message.id or ""
        here = name if name in starts else here
        if here not in moved and name not in forgotten:
            moved[here] = name
    left = [each for each in segments if each["start"] in moved]
    return TopicStarts(
        segments=[Segment(topic_id=each["topic_id"], start=moved[each["start"]]) for each in left],
        expanded=[{**each, "at": moved.get(each["at"], each["at"])} for each in expanded],
    )


def named_ids(forgotten: Sequence[Forgotten]) -> frozenset[str]:
    """Return the ids of all messages that the entries name, in the transcript or not."""
    return frozenset(name for each in forgotten for name in each["message_ids"])


def compaction_without(
    messages: Sequence[AnyMessage],
    segments: Sequence[Segment],
    compaction: Compaction,
    *,
    forgotten: Collection[str],
    cleared: Collection[str],
) -> Compaction:
    """Return the fold for the messages without the forgotten ones.

    A span whose summary tells of a forgotten message is dropped, so that its other messages are
    shown and summarized again. A span without a summary shrinks to the messages that are left.
    """
    if not compaction or not (forgotten or cleared):
        return compaction
    ids = [message.id or "" for message in messages]
    made: Compaction = compaction.copy()
    if "spans" in compaction:
        found = (_span_without(ids, each, forgotten, cleared) for each in compaction["spans"])
        made["spans"] = [each for each in found if each is not None]

    def last_left(name: str) -> str:
        before = ids[: ids.index(name) + 1] if name in ids else []
        return next((each for each in reversed(before) if each not in forgotten), "")

    if compaction.get("cleared") in forgotten:
        made["cleared"] = last_left(compaction["cleared"])
    if compaction.get("truncated") in forgotten:
        made["truncated"] = last_left(compaction["truncated"])
    if "topics" in compaction:
        grouped = by_topic(messages, segments)
        made["topics"] = {
            name: compaction_without(
                grouped.get(name, []), (), each, forgotten=forgotten, cleared=cleared
            )
            for name, each in compaction["topics"].items()
        }
    return made


def _span_without(
    ids: Sequence[str], span: Span, forgotten: Collection[str], cleared: Collection[str]
) -> Span | None:
    if span["through"] not in ids:
        return span
    first = ids.index(span["first"]) if span["first"] in ids else 0
    inside = ids[first : ids.index(span["through"]) + 1]
    told = set(inside) - set(span["kept"])
    if span["summary"] is not None and told & {*forgotten, *cleared}:
        return None
    left = [name for name in inside if name not in forgotten]
    return {**span, "first": left[0], "through": left[-1]} if left else None
