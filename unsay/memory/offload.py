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
from unsay.state import State, Update, offloaded_of, with_update, without_removal_check
from unsay.storage.pages import OffloadedSegment, put_page, read_back, read_page
from unsay.storage.segment_index import put_terms
from unsay.transcript.forget import move_pins, pinned_pages
from unsay.transcript.live import count_turns, live_branch
from unsay.transcript.pending import MAX_ENTRIES, find_pending, unjudged
from unsay.types import Checkpoint, Segment, Topic

_Entry = TypeVar("_Entry", Checkpoint, Topic)

# Most segments that one turn writes; a long transcript that enters at once takes several turns.
PAGES = 8
# Number of a topic's newest segments that are loaded when the topic returns.
TOPIC_PAGES = 2
# Most messages of a segment, unless one turn has more.
PAGE_MESSAGES = 200
# Past this many windows (`live_messages`), messages of the current topic are offloaded as well.
LONGEST = 2


def offload(state: State, scope: Scope) -> Steps[Update]:
    """Store the oldest messages of a long transcript; return the update that removes them.

    About half of `live_messages` stays; the current topic until there are twice as many. Empty if no
    message must go, or without a store. Raises `InputError` if a message cannot be stored.
    """
    if scope.address is None or scope.settings.topics == "off":
        return Update()
    messages, settings = state["messages"], scope.settings
    waiting = find_pending(messages, None).start
    # Injected answers stay with their questions until they are judged.
    injected = unjudged(messages, waiting)[-MAX_ENTRIES:]
    waiting = injected[0].start if injected else waiting
    segments, limit = state.get("segments", []), settings.live_messages
    bounds = _segment_ends(messages, segments, limit=limit, waiting=waiting)[:PAGES]
    if not bounds:
        return Update()
    forgotten = state.get("forgotten", [])
    compaction = compaction_without(
        messages,
        segments,
        state.get("compaction", Compaction()),
        forgotten=forgotten_ids(messages, segments, forgotten),
        cleared=cleared_ids(messages, forgotten),
    )
    after: State = {**state, "compaction": compaction}
    for start, end in pairwise((0, *bounds)):
        after = yield from _offload_segment(after, end - start, scope)
    return Update(
        messages=[RemoveMessage(id=m.id or "") for m in messages[: bounds[-1]]],
        offloaded=after["offloaded"],
        segments=after["segments"],
        checkpoints=after["checkpoints"],
        topics=after["topics"],
        expanded=after["expanded"],
        pins=after.get("pins", []),
        compaction=after["compaction"],
    )


def _segment_ends(
    messages: Sequence[AnyMessage], segments: Sequence[Segment], *, limit: int, waiting: int
) -> list[int]:
    """Return the indices at which the segments to offload end; none if the transcript fits `limit`.

    Messages from `waiting` on stay, and the current topic while they are up to `LONGEST` limits.
    """
    if len(messages) <= limit or not segments:
        return []
    # Half of the limit stays, so that the cost of offloading is paid once in many turns.
    most = min(len(messages) - limit // 2, waiting)
    if len(messages) <= LONGEST * limit:
        grouped = by_topic(messages, live_segments(messages, segments))
        if current := grouped.get(segments[-1]["topic_id"]):
            most = min(most, [message.id for message in messages].index(current[0].id))
    if most < limit // 4:
        return []
    places = [each for each in tail_places(messages) if 0 < each <= most]
    bounds: list[int] = []
    for place, following in pairwise((*places, len(messages) + PAGE_MESSAGES)):
        start = bounds[-1] if bounds else 0
        if following - start > PAGE_MESSAGES or place == places[-1]:
            bounds.append(place)
    return bounds


def _offload_segment(state: State, end: int, scope: Scope) -> Steps[State]:
    """Write the messages before an index as a segment, and return the state without them."""
    assert scope.address is not None  # noqa: S101 - checked by the caller
    head, messages, topics = offloaded_of(state), state["messages"], state.get("topics", [])
    part, segments = messages[:end], live_segments(messages, state.get("segments", []))
    ids = {message.id for message in part}
    grouped = by_topic(messages, segments)
    leaving = {name for name, of_topic in grouped.items() if any(m.id in ids for m in of_topic)}
    instructions = [] if head is None else head.get("instructions", [])
    leave: Any = partial(relocated, gone=set(sources_of(part)), offloaded=True)
    # Before the state drops the messages: a crash then leaves an unused segment, never a gap.
    page = yield from put_page(
        *scope.address,
        head,
        part,
        turns=len(answers_by_turn(part, goes_on=head is not None)),
        segments=[each for each in segments if each["start"] in ids],
        topics=[each for each in topics if each["id"] in leaving],
        instructions=[*instructions, *(text_of(m) for m in part if m.type == "system")],
    )
    topic_ids = {m.id or "": name for name, of_topic in grouped.items() for m in of_topic}
    yield from put_terms(
        *scope.address, page, *page_entries(part, topic_ids, goes_on=head is not None)
    )
    scope.step_log.offloaded[page.id] = [message.id or "" for message in part]
    new_topics: list[Topic] = []
    for topic in topics:
        name = topic["id"]
        if name not in leaving:
            new_topics.append(topic)
            continue
        is_current = name == current_topic_id(segments)
        pages = [] if is_current else [*topic.get("pages", []), page.id][-TOPIC_PAGES:]
        paged: Topic = leave({**topic, "pages": pages})
        new_topics.append((yield from _offload_topic(paged, grouped[name], ids, state, scope)))
    return without_removal_check(
        {
            **_without(state, end, segments),
            "offloaded": page.head,
            "topics": new_topics,
            "pins": move_pins(state.get("pins", []), page.id, ids),
            "compaction": changed_spans(
                without_spans(state["compaction"], lambda span: span["through"] in ids),
                partial(map, leave),
            ),
        }
    )


def _offload_topic(
    topic: Topic,
    messages: list[AnyMessage],
    ids: Collection[str | None],
    state: State,
    scope: Scope,
) -> Steps[Topic]:
    """Return a topic with its `summary`, or what `summary_of` makes of messages, as `offloaded`."""
    if topic["summary"] is not None and all(message.id in ids for message in messages):
        return without_summary({**topic, "offloaded": topic["summary"]})
    compactions = state.get("compaction", Compaction()).get("topics", {})
    compaction = compactions.get(topic["id"], Compaction())
    compacted = {messages[index].id for index in hidden(messages, compaction)}
    source_messages = [m for m in messages if m.id in ids and m.id not in compacted]
    before, forgotten = topic.get("offloaded"), state.get("forgotten", [])
    earlier = "\n".join([*([before] if before else []), *summaries_of(compaction, ids)]) or None
    text = yield from summary_of(
        source_messages, live_branch(state), forgotten, scope, earlier=earlier
    )
    return {**topic, "offloaded": clip(earlier or "", SUMMARY_CHARS) if text is None else text}


def _without(state: State, end: int, segments: Sequence[Segment]) -> State:
    """Return the state without the messages before index `end`, and its live `segments` cut there."""
    messages = state["messages"]
    removed_ids = {message.id for message in messages[:end]}
    removed_segments = [each for each in segments if each["start"] in removed_ids]
    rest = [each for each in segments if each["start"] not in removed_ids]
    first = messages[end].id or ""
    new_starts: dict[str, str] = {}
    if removed_segments and (not rest or rest[0]["start"] != first):
        rest.insert(0, Segment(topic_id=removed_segments[-1]["topic_id"], start=first))
        new_starts = {removed_segments[-1]["start"]: first}
    checkpoints: list[Checkpoint] = [
        {**each, "offloaded": True} if each["message_id"] in removed_ids else each
        for each in state.get("checkpoints", [])
    ]
    return {
        **state,
        "messages": messages[end:],
        "segments": rest,
        "checkpoints": checkpoints,
        "expanded": shift_expanded(state.get("expanded", []), new_starts),
    }


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
    update = Update(
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
    )
    if "compaction" in state:
        update["compaction"] = changed_spans(state["compaction"], partial(map, load))
    return update


def without_page_refs(entry: _Entry) -> _Entry:
    """Return a checkpoint or a topic without its references to offloaded messages."""
    plain = {key: value for key, value in entry.items() if key not in ("offloaded", "pages")}
    return cast("_Entry", plain)


def _as_before(topic: Topic, pages: Sequence[OffloadedSegment]) -> Topic:
    """Return a topic as it was before its messages were offloaded; a newer summary is kept."""
    restored = topic
    for page in pages:
        old = next((each for each in page.topics if each["id"] == topic["id"]), None)
        if old is None:
            continue
        restored = without_page_refs(restored)
        if "offloaded" in old:
            restored["offloaded"] = old["offloaded"]
        if "pages" in old:
            restored["pages"] = old["pages"]
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
