"""Offload: move the oldest messages of a long transcript to the store, in segments.

Offloaded messages stay part of the transcript. A step that needs them loads their segments first, so
every rollback works on messages of the state.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar, cast

from langchain_core.messages import AnyMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from unsay.context.compaction import (
    Compaction,
    changed_spans,
    hidden,
    summaries_of,
    with_partners,
    without_spans,
)
from unsay.context.topics import (
    by_topic,
    cleared_ids,
    compaction_without,
    current_topic_id,
    forgotten_ids,
    live_segments,
    opened_topics,
    pinned_ids,
    remaining_topics,
    shift_expanded,
    with_summary_of,
    without_forgotten,
    without_summary,
)
from unsay.effects import Steps
from unsay.errors import DatabaseCorruptError
from unsay.llm.summarize import SUMMARY_CHARS, summary_of
from unsay.memory.searchable import page_entries
from unsay.messages.annotations import answers_by_turn, spoken
from unsay.messages.boundaries import tail_places
from unsay.messages.content import clip, relocated, sources_of, text_of
from unsay.prompts.catalogue import Texts
from unsay.runtime import Scope
from unsay.state import State, Update, offloaded_of, with_update
from unsay.storage.segment_index import put_terms
from unsay.storage.segments import OffloadedSegment, put_page, read_back, read_page
from unsay.transcript.forget import move_pins, pinned_pages
from unsay.transcript.live import count_turns, live_branch
from unsay.transcript.pending import MAX_ENTRIES, find_pending, unjudged
from unsay.types import Checkpoint, Segment, Topic

_Entry = TypeVar("_Entry", Checkpoint, Topic)

# Fields of a checkpoint or a topic that refer to offloaded messages.
PAGE_REFS = ("offloaded", "pages")

# Number of a topic's newest segments that are loaded when the topic returns.
TOPIC_PAGES = 2
# Most messages of a segment, unless one turn has more.
PAGE_MESSAGES = 200
# Past this many windows (`live_messages`), messages of the current topic are offloaded as well.
LONGEST = 2
# Most messages that a host adds before the first question and that the first context can show.
FIRST_MESSAGES = 1_600
# The topic of more of them: the first question names it.
UNNAMED = Topic(id="topic-1", label="", summary=None, summarized_through=None)


def offload(state: State, scope: Scope) -> Steps[Update]:
    """Store the oldest messages of a long transcript; return the update that removes them.

    About half of `live_messages` stays; the current topic until there are twice as many. Empty if no
    message must go, or without a store. Raises `InputError` if a message cannot be stored.
    """
    messages, limit = state["messages"], scope.settings.live_messages
    topics = state.get("topics") or [UNNAMED]
    old_segments = live_segments(messages, state.get("segments", []))
    fitting = limit if old_segments else max(limit, FIRST_MESSAGES)
    if scope.address is None or scope.settings.topics == "off" or len(messages) <= fitting:
        return Update()
    waiting = find_pending(messages, None).start
    # Injected answers stay with their questions until they are judged.
    waiting = next((each.start for each in unjudged(messages, waiting)[-MAX_ENTRIES:]), waiting)
    start = Segment(topic_id=topics[-1]["id"], start=messages[0].id or "")
    segments = old_segments or [start]
    bounds = _segment_ends(messages, segments, limit=limit, waiting=waiting)
    if len(bounds) == 1:
        return Update()
    forgotten = state.get("forgotten", [])
    compaction = compaction_without(
        messages,
        segments,
        state.get("compaction", Compaction()),
        forgotten=forgotten_ids(messages, segments, forgotten),
        cleared=cleared_ids(messages, forgotten),
    )
    after: State = {**state, "segments": segments, "topics": topics, "compaction": compaction}
    after["offloaded"] = offloaded_of(state)
    leaving, of_topics = messages[: bounds[-1]], by_topic(messages, segments)
    ends = _Ends(
        topics={each[-1].id for each in of_topics.values()},
        leaving={each[-1].id for each in by_topic(leaving, segments).values()},
        compacted={
            of_topics[name][index].id
            for name, each in compaction.get("topics", {}).items()
            for index in hidden(of_topics.get(name, ()), each)
        },
    )
    for begin, end in pairwise(bounds):
        part: State = {**after, "messages": messages[begin:end]}
        after = yield from _offload_segment(part, messages[end].id or "", ends, scope)
    leave: Any = partial(relocated, gone=set(sources_of(leaving)), offloaded=True)
    gone = {message.id for message in leaving}
    spans = without_spans(compaction, lambda span: span["through"] in gone)
    # Many messages leave by one removal, else each by its own: what stays is not written again.
    removals = [RemoveMessage(id=message.id or "") for message in leaving]
    rest = [RemoveMessage(id=REMOVE_ALL_MESSAGES), *messages[bounds[-1] :]]
    return Update(
        messages=removals if len(bounds) == 2 else rest,
        offloaded=after["offloaded"],
        segments=after["segments"] if old_segments else [],
        checkpoints=[
            {**each, "offloaded": True} if each["message_id"] in gone else each
            for each in state.get("checkpoints", [])
        ],
        topics=after["topics"],
        expanded=after["expanded"],
        pins=after.get("pins", []),
        compaction=changed_spans(spans, partial(map, leave)),
    )


def _segment_ends(
    messages: Sequence[AnyMessage], segments: Sequence[Segment], *, limit: int, waiting: int
) -> list[int]:
    """Return 0 and the indices at which the segments to offload end, of more messages than `limit`.

    Messages from `waiting` on stay, and the current topic while they are up to `LONGEST` limits.
    """
    # Half of the limit stays, so that the cost of offloading is paid once in many turns.
    most = min(len(messages) - limit // 2, waiting)
    if len(messages) <= LONGEST * limit:
        grouped = by_topic(messages, segments)
        if current := grouped.get(segments[-1]["topic_id"]):
            most = min(most, [message.id for message in messages].index(current[0].id))
    bounds = [0]
    places = [each for each in tail_places(messages) if 0 < each <= most and most >= limit // 4]
    for place, following in pairwise((*places, len(messages) + PAGE_MESSAGES)):
        if following - bounds[-1] > PAGE_MESSAGES:
            bounds.append(place)
    return bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ends:
    """Ids of messages that are found once for all segments of a step.

    `topics` are the last message of each topic, and `leaving` the last of each that is offloaded.
    `compacted` are those that the contexts of their topics leave out.
    """

    topics: set[str | None]
    leaving: set[str | None]
    compacted: set[str | None]


def _offload_segment(state: State, first: str, ends: _Ends, scope: Scope) -> Steps[State]:
    """Write the state's messages as a segment; return the state after it, where `first` is the next."""
    assert scope.address is not None  # noqa: S101 - checked by the caller
    head, part, segments = state.get("offloaded"), state["messages"], state["segments"]
    ids = {message.id for message in part}
    grouped, old = by_topic(part, segments), [each for each in segments if each["start"] in ids]
    instructions = [] if head is None else head.get("instructions", [])
    leave: Any = partial(relocated, gone=set(sources_of(part)), offloaded=True)
    # Before the state drops the messages: a crash then leaves an unused segment, never a gap.
    page = yield from put_page(
        *scope.address,
        head,
        part,
        turns=len(answers_by_turn(part, goes_on=head is not None)),
        segments=old,
        topics=[each for each in state["topics"] if each["id"] in grouped],
        instructions=[*instructions, *(text_of(m) for m in part if m.type == "system")],
    )
    topic_ids = {m.id or "": name for name, of_topic in grouped.items() for m in of_topic}
    yield from put_terms(
        *scope.address, page, *page_entries(part, topic_ids, goes_on=head is not None)
    )
    scope.step_log.offloaded[page.id] = [message.id or "" for message in part]
    new_topics: list[Topic] = []
    for topic in state["topics"]:
        if of_topic := grouped.get(topic["id"]):
            is_current = topic["id"] == current_topic_id(segments)
            pages = [] if is_current else [*topic.get("pages", []), page.id][-TOPIC_PAGES:]
            paged: Topic = leave({**topic, "pages": pages})
            topic = yield from _offload_topic(paged, of_topic, ends, state, scope)  # noqa: PLW2901
        new_topics.append(topic)
    rest = [each for each in segments if each["start"] not in ids]
    new_starts: dict[str, str] = {}
    if old and (not rest or rest[0]["start"] != first):
        rest.insert(0, Segment(topic_id=old[-1]["topic_id"], start=first))
        new_starts = {old[-1]["start"]: first}
    return {
        **state,
        "offloaded": page.head,
        "segments": rest,
        "topics": new_topics,
        "expanded": shift_expanded(state.get("expanded", []), new_starts),
        "pins": move_pins(state.get("pins", []), page.id, ids),
    }


def _offload_topic(
    topic: Topic, messages: list[AnyMessage], ends: _Ends, state: State, scope: Scope
) -> Steps[Topic]:
    """Return a topic with its `summary`, or what `summary_of` makes of messages, as `offloaded`."""
    newest = messages[-1].id
    if topic["summary"] is not None and newest in ends.topics:
        return without_summary({**topic, "offloaded": topic["summary"]})
    ids = {message.id for message in state["messages"]}
    compaction = state["compaction"].get("topics", {}).get(topic["id"], Compaction())
    summaries, forgotten = summaries_of(compaction, ids), state.get("forgotten", [])
    # Of many segments at a time only a topic's first and last are summarized: each may cost a call.
    if topic.get("offloaded") and not summaries and newest not in ends.leaving:
        return topic
    earlier = "\n".join(filter(None, (topic.get("offloaded"), *summaries))) or None
    shown = [message for message in messages if message.id not in ends.compacted]
    text = yield from summary_of(shown, live_branch(state), forgotten, scope, earlier=earlier)
    return {**topic, "offloaded": clip(earlier or "", SUMMARY_CHARS) if text is None else text}


def load_segments(
    state: State, scope: Scope, wanted: Collection[str | None], *, turns: int = 0
) -> Steps[Update]:
    """Return the update that loads segments until the state has the `wanted` messages and `turns`.

    `turns` counts answered turns. In `wanted`, `None` is the transcript's beginning; an unknown id
    loads nothing. Empty if nothing is loaded. `DatabaseCorruptError` if a segment is missing or damaged.
    """
    missing = set(wanted) - {message.id for message in state["messages"]}
    # Counting reads the whole transcript, and most callers want messages only.
    missing_turns = turns - count_turns(state["messages"]) if turns else 0
    return (yield from put_back(state, scope, missing, turns=missing_turns))


def load_all(state: State, scope: Scope) -> Steps[State]:
    """Return the state with the whole transcript, for readers; without a store, the state as it is.

    Raises `DatabaseCorruptError` if an offloaded segment is missing or was changed.
    """
    if scope.address is None:
        return state
    pages = yield from read_back(*scope.address, offloaded_of(state), None)
    return with_update(state, _with_pages(state, pages, scope))


def load_differing(one: State, other: State, scope: Scope) -> Steps[tuple[Update, Update]]:
    """Return the updates that load what one of two states of a thread has offloaded otherwise.

    With them both states have the same segments offloaded. Both are empty without a store. Raises
    `DatabaseCorruptError` if a segment is missing or damaged.
    """
    heads = [offloaded_of(one), offloaded_of(other)]
    pages: tuple[list[OffloadedSegment], list[OffloadedSegment]] = ([], [])
    while scope.address is not None and heads[0] != heads[1]:
        lengths = [head["messages"] if head else 0 for head in heads]
        longer = lengths[1] > lengths[0]
        head = heads[longer]
        assert head is not None  # noqa: S101 - of two different ones the longer is not empty
        pages[longer].append((yield from read_page(*scope.address, head["page_id"])))
        heads[longer] = pages[longer][-1].before
    return _with_pages(one, pages[0], scope), _with_pages(other, pages[1], scope)


def put_back(
    state: State, scope: Scope, wanted: Collection[str | None], *, turns: int = 0
) -> Steps[Update]:
    """Return the update that adds newest segments until they hold the `wanted` messages and `turns`.

    Empty if none do, or without a store. `DatabaseCorruptError` if one is missing or damaged.
    """
    if scope.address is None:
        return Update()
    pages = yield from read_back(*scope.address, offloaded_of(state), wanted, turns=turns)
    # The event log has these messages already, unless the state holds a changed one.
    live_by_id = {message.id: message for message in state["messages"]}
    page_messages = [message for page in pages for message in page.messages]
    scope.step_log.returned |= {m.id or "" for m in page_messages if live_by_id.get(m.id, m) == m}
    return _with_pages(state, pages, scope)


def _with_pages(state: State, pages: Sequence[OffloadedSegment], scope: Scope) -> Update:
    """Return the update that puts segments, newest first, before the state's messages; maybe empty."""
    if not pages:
        return Update()
    for page in pages:
        scope.step_log.positions |= page.positions
    older = [message for page in reversed(pages) for message in page.messages]
    loaded_ids = {message.id for message in older}
    joined: list[Segment] = []
    new_starts: dict[str, str] = {}
    for part in (*(page.segments for page in reversed(pages)), state.get("segments", [])):
        continues = bool(part and joined) and part[0]["topic_id"] == joined[-1]["topic_id"]
        if continues:
            new_starts[part[0]["start"]] = joined[-1]["start"]
        joined += part[1:] if continues else part
    load: Any = partial(relocated, back=sources_of(older), offloaded=pages[-1].before)
    return Update(
        messages=[RemoveMessage(id=REMOVE_ALL_MESSAGES), *older, *state["messages"]],
        offloaded=pages[-1].before,
        segments=joined,
        checkpoints=[
            without_page_refs(each) if each["message_id"] in loaded_ids else each
            for each in state.get("checkpoints", [])
        ],
        topics=[load(_as_before(each, pages)) for each in state.get("topics", [])],
        expanded=shift_expanded(state.get("expanded", []), new_starts),
        pins=move_pins(state.get("pins", []), None, loaded_ids),
        compaction=changed_spans(state.get("compaction", Compaction()), partial(map, load)),
    )


def without_page_refs(entry: _Entry) -> _Entry:
    """Return a checkpoint or a topic without its references to offloaded messages."""
    plain = {key: value for key, value in entry.items() if key not in PAGE_REFS}
    return cast("_Entry", plain)


def _as_before(topic: Topic, pages: Sequence[OffloadedSegment]) -> Topic:
    """Return a topic as it was before its messages were offloaded; a newer summary is kept."""
    restored = topic
    for page in pages:
        old = next((each for each in page.topics if each["id"] == topic["id"]), None)
        if old is None:
            continue
        old_refs = {key: value for key, value in old.items() if key in PAGE_REFS}
        restored = cast("Topic", {**without_page_refs(restored), **old_refs})
        if restored["summary"] is None:
            restored = with_summary_of(restored, old)
    return restored


def drop_offloaded(state: State) -> Update:
    """Return an update without offloaded checkpoints and places if a host removed all messages; else empty."""
    topics, checkpoints = state.get("topics", []), state.get("checkpoints", [])
    refers = (
        state.get("offloaded")
        or any(each.get("offloaded") for each in checkpoints)
        or any("offloaded" in each or "pages" in each for each in topics)
        or pinned_pages(state)
    )
    if offloaded_of(state) is not None or not refers:
        return Update()
    return Update(
        offloaded=None,
        checkpoints=[each for each in checkpoints if not each.get("offloaded")],
        topics=[without_page_refs(each) for each in topics],
        pins=move_pins(state.get("pins", []), None),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """Offloaded messages that the next context includes, and their places in the transcript, from 1."""

    messages: list[AnyMessage]
    positions: Mapping[str, int]


def load_opened(state: State, scope: Scope) -> Steps[Earlier]:
    """Return the offloaded messages of the context's topics and pins, without damaged segments."""
    segments = live_segments(state["messages"], state.get("segments", []))
    open_topic_ids = opened_topics(segments, state.get("expanded", []))
    all_topics = remaining_topics(state.get("topics", []), state.get("forgotten", []))
    topics = [each for each in all_topics if each["id"] in open_topic_ids]
    of_topics = (name for each in topics for name in each.get("pages", []))
    pages: list[OffloadedSegment] = []
    for name in dict.fromkeys((*of_topics, *pinned_pages(state))):
        assert scope.address is not None  # noqa: S101 - only with a store are there segments
        try:
            pages += [(yield from read_page(*scope.address, name))]
        except DatabaseCorruptError as error:
            scope.emit("segment_lost", error=str(error))
    messages: list[AnyMessage] = []
    positions: dict[str, int] = {}
    texts = scope.texts(state["messages"])
    for page in sorted(pages, key=_messages_before):
        topic_ids = {topic["id"] for topic in topics if page.id in topic.get("pages", [])}
        shown_messages = _shown_of(page, topic_ids, state, texts)
        numbers = {m.id: n for n, m in enumerate(page.messages, _messages_before(page) + 1)}
        positions |= {m.id or "": numbers[m.id] for m in shown_messages}
        messages += shown_messages
    return Earlier(messages=messages, positions=positions)


def _messages_before(page: OffloadedSegment) -> int:
    return page.before["messages"] if page.before else 0


def _shown_of(
    page: OffloadedSegment, topics: Collection[str], state: State, texts: Texts
) -> list[AnyMessage]:
    """Return a segment's messages in one of the `topics` or pinned, without forgotten ones."""
    grouped = by_topic(page.messages, page.segments)
    # In a segment without topics all messages belong to the topic that refers to it.
    no_topic = grouped.get("", [])
    shown_ids = {m.id for each in topics for m in grouped.get(each, no_topic)}
    pinned = with_partners(page.messages, pinned_ids(state))
    shown_ids |= {page.messages[i].id for i in pinned} & {m.id for m in spoken(page.messages)}
    visible_messages = without_forgotten(
        page.messages, page.segments, state.get("forgotten", []), texts
    )
    return [message for message in visible_messages if message.id in shown_ids]
