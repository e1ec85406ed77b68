"""Partial forgetting: what views leave out because a person wants it, until it is restored.

The record stays as it is. A pin and a forgetting never speak of the same message: who forgets a
message takes its pin off, and a message that is forgotten cannot be pinned.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from langchain_core.messages import AnyMessage, ToolMessage

from unsay.context.compaction import Fold, Span, with_partners
from unsay.context.topics import by_topic
from unsay.messages.annotations import with_mark
from unsay.messages.content import text_of
from unsay.prompts.fields import Texts
from unsay.types import Forgotten, Segment, Topic, Unfolded


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretches:
    """Which stretch of some messages belongs to which topic."""

    segments: Sequence[Segment]
    unfolded: Sequence[Unfolded]


def forgotten_ids(
    messages: Sequence[AnyMessage],
    segments: Sequence[Segment],
    forgotten: Sequence[Forgotten],
    *,
    pending: Collection[str] = (),
) -> frozenset[str]:
    """Ids of the messages that views leave out, with those that no cut may part from them.

    Of a forgotten topic that is all up to the newest of its entry's messages that stands here;
    where none does, all that is said on it.
    The running question, `pending`, is never among them.
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
    """Ids of the tool results in whose place views show a line; see `as_cleared`."""
    named = {n for each in forgotten if each["kind"] == "tool_results" for n in each["message_ids"]}
    return frozenset(m.id for m in messages if isinstance(m, ToolMessage) and m.id in named)


def forgotten_topics(forgotten: Sequence[Forgotten]) -> frozenset[str]:
    """Ids of the topics of which views tell nothing, nor a detector is told of."""
    return frozenset(each["topic_id"] for each in forgotten if "topic_id" in each)


def told_topics(topics: Sequence[Topic], forgotten: Sequence[Forgotten]) -> list[Topic]:
    """The topics without those that are forgotten."""
    gone = forgotten_topics(forgotten)
    return [each for each in topics if each["id"] not in gone]


def remembered(
    messages: Sequence[AnyMessage],
    segments: Sequence[Segment],
    forgotten: Sequence[Forgotten],
    texts: Texts,
    *,
    pending: Collection[str] = (),
) -> list[AnyMessage]:
    """The messages as far as they are not forgotten, forgotten tool results as cleared."""
    out = forgotten_ids(messages, segments, forgotten, pending=pending)
    cleared = cleared_ids(messages, forgotten)
    return [
        as_cleared(each, texts) if isinstance(each, ToolMessage) and each.id in cleared else each
        for each in messages
        if each.id not in out
    ]


def anchored(
    messages: Sequence[AnyMessage],
    segments: Sequence[Segment],
    unfolded: Sequence[Unfolded],
    forgotten: Collection[str],
) -> Stretches:
    """The stretches of the messages that are left, where one began at a message that is forgotten."""
    starts = {each["start"] for each in segments}
    if starts.isdisjoint(forgotten):
        return Stretches(segments=segments, unfolded=unfolded)
    moved: dict[str, str] = {}
    here = segments[0]["start"]  # what stands before the first stretch belongs to its topic
    for message in messages:
        name = message.id or ""
        here = name if name in starts else here
        if here not in moved and name not in forgotten:
            moved[here] = name
    left = [each for each in segments if each["start"] in moved]
    return Stretches(
        segments=[Segment(topic_id=each["topic_id"], start=moved[each["start"]]) for each in left],
        unfolded=[{**each, "at": moved.get(each["at"], each["at"])} for each in unfolded],
    )


def named_ids(forgotten: Sequence[Forgotten]) -> frozenset[str]:
    """Ids of all messages that are forgotten one by one, wherever they are, results too."""
    return frozenset(name for each in forgotten for name in each["message_ids"])


def as_cleared(message: ToolMessage, texts: Texts) -> ToolMessage:
    """A line in the place of a result that is forgotten, however short it is; its call stays."""
    words = texts.result_forgotten.format(chars=len(text_of(message)))
    return with_mark(message.model_copy(update={"content": words}), shortened="cleared")


def untold(
    messages: Sequence[AnyMessage],
    segments: Sequence[Segment],
    fold: Fold,
    *,
    forgotten: Collection[str],
    cleared: Collection[str],
) -> Fold:
    """The fold that is laid over the messages without those that are forgotten.

    A span whose summary tells of what is forgotten is not in it: its messages are shown, and
    folded anew. One without a summary begins and ends with what is left.
    """
    if not fold or not (forgotten or cleared):
        return fold
    made = _untold(messages, fold, forgotten, cleared)
    if "topics" in fold:
        grouped = by_topic(messages, segments)
        made["topics"] = {
            name: _untold(grouped.get(name, []), each, forgotten, cleared)
            for name, each in fold["topics"].items()
        }
    return made


def _untold(
    messages: Sequence[AnyMessage],
    fold: Fold,
    forgotten: Collection[str],
    cleared: Collection[str],
) -> Fold:
    ids = [message.id or "" for message in messages]
    made: Fold = fold.copy()
    if "spans" in fold:
        found = (_span(ids, each, forgotten, cleared) for each in fold["spans"])
        made["spans"] = [each for each in found if each is not None]

    def last_left(name: str) -> str:
        before = ids[: ids.index(name) + 1] if name in ids else []
        return next((each for each in reversed(before) if each not in forgotten), "")

    if fold.get("cleared") in forgotten:
        made["cleared"] = last_left(fold["cleared"])
    if fold.get("truncated") in forgotten:
        made["truncated"] = last_left(fold["truncated"])
    return made


def _span(
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
