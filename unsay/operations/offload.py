"""Offload: past `live_messages` the oldest messages of a transcript move to the store, in segments.

They stay part of the transcript. A step that goes back to one of them loads it first, so that a
rollback is the same arithmetic everywhere.
"""

from collections.abc import Collection, Sequence
from contextlib import suppress
from itertools import pairwise

from langchain_core.messages import AnyMessage, RemoveMessage

from unsay.context.compaction import Fold, hidden, summaries_of, without_spans
from unsay.context.topics import by_topic, current_topic_id, standing
from unsay.effects import Steps
from unsay.errors import LedgerGapError
from unsay.messages.boundaries import tail_places
from unsay.messages.content import text_of
from unsay.messages.truncation import cut
from unsay.operations.compact import SUMMARY_CHARS, summary_of, told_of
from unsay.operations.pending import read_entry, unjudged
from unsay.operations.pin import sealed_pins, with_fold_untold
from unsay.operations.record_events import EMPTY
from unsay.operations.rollback import line_of, turns_left
from unsay.runtime import Scope
from unsay.state import State, Update, as_ours, offloaded_of
from unsay.storage.event_log import Head, pack_pages
from unsay.storage.segments import put_page
from unsay.types import Checkpoint, Segment, Topic, Unfolded

PAGES = 8
"""Most segments that one turn writes: a long transcript that enters at once takes several turns."""

TOPIC_PAGES = 2
"""How many of a topic's newest segments are loaded when the topic returns."""

PAGE_MESSAGES = 200
"""Most messages of a segment, unless a single turn has more."""

LONGEST = 2
"""Past this many windows the current topic is offloaded as well, and only its summary is shown."""


def offload(state: State, scope: Scope) -> Steps[Update]:
    """Offload the oldest messages of a transcript that is longer than its window.

    Half a window stays, so that this happens once in many turns.

    Args:
        state: With the pending question.
        scope: Of the run; without a store nothing is offloaded.
    """
    if scope.address is None or scope.settings.topics == "off":
        return Update()
    messages, settings = state["messages"], scope.settings
    waiting = _first_waiting(messages, settings.max_judged_entries)
    segments, limit = state.get("segments", []), settings.live_messages
    bounds = page_ends(messages, segments, limit=limit, waiting=waiting)[:PAGES]
    if not bounds:
        return Update()
    after = with_fold_untold(state)
    for start, end in pairwise((0, *bounds)):
        after = yield from _offload_segment(after, end - start, scope)
    head = state.get("ledger", EMPTY)
    with suppress(LedgerGapError):  # readers of the event log report a gap; the turn goes on
        place = Head(page_id=head["page_id"], count=head["count"])
        yield from pack_pages(*scope.address, place)
    return Update(
        messages=[RemoveMessage(id=m.id or "") for m in messages[: bounds[-1]]],
        sealed=after["sealed"],
        segments=after["segments"],
        checkpoints=after["checkpoints"],
        topics=after["topics"],
        unfolded=after["unfolded"],
        pins=after.get("pins", []),
        fold=after.get("fold", Fold()),
    )


def _first_waiting(messages: Sequence[AnyMessage], most: int) -> int:
    """Index of the pending input, or of the first exchange that waits for a verdict.

    Args:
        messages: The transcript as far as the state holds it.
        most: How many exchanges one turn judges, the newest.
    """
    start = read_entry(messages, None).start
    entered = unjudged(messages, start)[-most:]
    return entered[0].start if entered else start


def page_ends(
    messages: Sequence[AnyMessage], segments: Sequence[Segment], *, limit: int, waiting: int
) -> list[int]:
    """Where the segments to be offloaded end; none while the transcript fits its window.

    Messages of no topic yet stay: no summary would cover them.

    Args:
        messages: The transcript as far as the state holds it.
        segments: Which stretch belongs to which topic.
        limit: The window, in messages; half of it stays.
        waiting: Index from which all messages stay.
    """
    if len(messages) <= limit or not segments:
        return []
    most = min(len(messages) - limit // 2, waiting)
    if len(messages) <= LONGEST * limit:
        opened = _first_of(messages, segments, current_topic_id(segments))
        most = min(most, opened)
    if most < limit // 4:
        return []
    places = [each for each in tail_places(messages) if 0 < each <= most]
    bounds: list[int] = []
    for here, following in pairwise((*places, len(messages) + PAGE_MESSAGES)):
        start = bounds[-1] if bounds else 0
        if following - start > PAGE_MESSAGES or here == places[-1]:
            bounds.append(here)
    return bounds


def _first_of(
    messages: Sequence[AnyMessage], segments: Sequence[Segment], topic_id: str | None
) -> int:
    """Index of a topic's first message; the transcript's length where it has none."""
    if topic_id is None:
        return 0
    said = by_topic(messages, standing(messages, segments)).get(topic_id, [])
    first = said[0].id if said else None
    return next((i for i, m in enumerate(messages) if m.id == first), len(messages))


def _offload_segment(state: State, end: int, scope: Scope) -> Steps[State]:
    """The state after the messages before an index became a segment."""
    assert scope.address is not None  # noqa: S101 - checked by the caller
    head, messages, topics = offloaded_of(state), state["messages"], state.get("topics", [])
    part, segments = messages[:end], standing(messages, state.get("segments", []))
    ids = {message.id for message in part}
    grouped = by_topic(messages, segments)
    leaving = {name for name, said in grouped.items() if any(m.id in ids for m in said)}
    known = [] if head is None else head.get("instructions", [])
    page = yield from put_page(
        *scope.address,
        head,
        part,
        turns=turns_left(part),
        segments=[each for each in segments if each["start"] in ids],
        topics=[each for each in topics if each["id"] in leaving],
        instructions=[*known, *(text_of(m) for m in part if m.type == "system")],
    )
    told: list[Topic] = []
    for topic in topics:
        name = topic["id"]
        if name in leaving:
            is_current = name == current_topic_id(segments)
            pages = [] if is_current else [*topic.get("pages", []), page.id][-TOPIC_PAGES:]
            topic = yield from _offload_topic(  # noqa: PLW2901 - the topic as it is afterwards
                {**topic, "pages": pages}, grouped[name], ids, state, scope
            )
        told.append(topic)
    return as_ours(
        {
            **_without(state, end, segments),
            "sealed": page.head,
            "topics": told,
            "pins": sealed_pins(state.get("pins", []), ids, page.id),
            "fold": without_spans(state.get("fold", Fold()), ids),
        }
    )


def _offload_topic(
    topic: Topic, said: list[AnyMessage], ids: Collection[str | None], state: State, scope: Scope
) -> Steps[Topic]:
    """A topic with a summary of those of its messages that are offloaded.

    Args:
        topic: With the segments that hold them.
        said: All its messages.
        ids: Ids of the messages that are offloaded.
        state: Before that.
        scope: Of the run.
    """
    if topic["summary"] is not None and all(message.id in ids for message in said):
        text = topic["summary"]
        return {**topic, "sealed": text, "summary": None, "summarized_through": None}
    fold = state.get("fold", Fold()).get("topics", {}).get(topic["id"], Fold())
    compacted = {said[index].id for index in hidden(said, fold)}
    shown = [message for message in said if message.id in ids and message.id not in compacted]
    shown = told_of(shown, line_of(state), state.get("forgotten", []), scope)
    before = topic.get("sealed")
    earlier = "\n".join([*([before] if before else []), *summaries_of(fold, ids)])
    text = cut(earlier, SUMMARY_CHARS)
    if shown:
        text = yield from summary_of(shown, scope, earlier=earlier or None)
    return {**topic, "sealed": text}


def _without(state: State, end: int, segments: Sequence[Segment]) -> State:
    """The state without the messages before an index."""
    messages = state["messages"]
    gone = {message.id for message in messages[:end]}
    inner = [each for each in segments if each["start"] in gone]
    rest = [each for each in segments if each["start"] not in gone]
    first = messages[end].id or ""
    moved: dict[str, str] = {}
    if inner and (not rest or rest[0]["start"] != first):
        rest.insert(0, Segment(topic_id=inner[-1]["topic_id"], start=first))
        moved = {inner[-1]["start"]: first}
    checkpoints: list[Checkpoint] = [
        {**each, "sealed": True} if each["message_id"] in gone else each
        for each in state.get("checkpoints", [])
    ]
    unfolded: list[Unfolded] = [
        {**each, "at": moved.get(each["at"], each["at"])} for each in state.get("unfolded", [])
    ]
    return {
        **state,
        "messages": messages[end:],
        "segments": rest,
        "checkpoints": checkpoints,
        "unfolded": unfolded,
    }
