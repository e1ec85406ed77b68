"""Forgotten messages and irrelevant documents: the transcript keeps them, but no context has them."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from langchain_core.messages import AnyMessage, ToolMessage

from unsay.context.compaction import Compaction, Span, with_partners
from unsay.context.topics import by_topic
from unsay.messages.annotations import annotate, is_document, is_irrelevant
from unsay.messages.content import text_of
from unsay.prompts.catalogue import Texts
from unsay.types import ExpandedTopic, Forgotten, Segment, Topic


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
    named: set[str] = set()
    for entry in forgotten:
        if entry["kind"] in ("message", "span"):
            named.update(entry["message_ids"])
        if "topic_id" in entry:
            ids = [message.id or "" for message in grouped.get(entry["topic_id"], [])]
            places = [place for place, name in enumerate(ids) if name in entry["message_ids"]]
            named.update(ids[: places[-1] + 1] if places else ids)
    waiting = {messages[index].id for index in with_partners(messages, pending)}
    out = {messages[index].id or "" for index in with_partners(messages, named)}
    return frozenset(out - waiting)


def cleared_ids(messages: Sequence[AnyMessage], forgotten: Sequence[Forgotten]) -> frozenset[str]:
    """Return the ids of the tool results in `messages` that were forgotten without their calls."""
    entries = [entry for entry in forgotten if entry["kind"] == "tool_results"]
    named = {name for entry in entries for name in entry["message_ids"]}
    return frozenset(m.id for m in messages if isinstance(m, ToolMessage) and m.id in named)


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
    moved: dict[str, str] = {}
    start = segments[0]["start"]  # messages before the first segment belong to its topic
    for message in messages:
        name = message.id or ""
        start = name if name in starts else start
        if start not in moved and name not in forgotten:
            moved[start] = name
    left = [segment for segment in segments if segment["start"] in moved]
    return (
        [Segment(topic_id=segment["topic_id"], start=moved[segment["start"]]) for segment in left],
        [{**topic, "at": moved.get(topic["at"], topic["at"])} for topic in expanded],
    )


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
    made: Compaction = compaction.copy()
    if "spans" in compaction:
        made["spans"] = list(_spans_without(ids, compaction["spans"], forgotten, cleared))

    def last_left(name: str) -> str:
        before = ids[: ids.index(name) + 1] if name in ids else []
        return next((earlier for earlier in reversed(before) if earlier not in forgotten), "")

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
        if left := [name for name in inside if name not in forgotten]:
            yield {**span, "first": left[0], "through": left[-1]}
