"""The live window: past `live_messages` the oldest folded part of a record lies in the store.

What is sealed stays on the record. Whoever needs a message of it as a place to go back to has it
unsealed first, so that a rollback is the same arithmetic everywhere.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise

from langchain_core.messages import AnyMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from unsay.context.compaction import Fold, hidden, summaries_of, without_spans
from unsay.context.topics import by_topic, current_topic_id, standing
from unsay.effects import Steps
from unsay.errors import LedgerGapError
from unsay.history.run import run_named_after
from unsay.messages.annotations import is_document
from unsay.messages.content import text_of
from unsay.messages.truncation import cut
from unsay.operations.compact import SUMMARY_CHARS, summary_of, told_of
from unsay.operations.pin import pinned_pages, sealed_pins, unsealed_pins, with_fold_untold
from unsay.operations.record_events import EMPTY
from unsay.operations.rollback import line_of, turns_left
from unsay.operations.segment_window import first_waiting, page_ends
from unsay.runtime import Scope
from unsay.state import State, Update, as_ours, offloaded_of, with_update
from unsay.storage.event_log import Head, pack_pages
from unsay.storage.segments import OffloadedSegment, put_page, read_back
from unsay.types import Checkpoint, Offloaded, Segment, Topic, Unfolded

PAGES = 8
"""Most pages that one turn writes: a long record that comes in at once is sealed bit by bit."""


TOPIC_PAGES = 2
"""How many of the newest pages with a topic's words return with the topic."""


def seal(state: State, scope: Scope) -> Steps[Update]:
    """Let go of the oldest folded part of a record that is longer than its window.

    Half a window stays, so that this happens once in many turns.

    Args:
        state: With the question under way on the record.
        scope: Of the run; without a store nothing is let go of.
    """
    if scope.store is None or scope.thread_id is None or scope.settings.topics == "off":
        return Update()
    messages, segments = state["messages"], state.get("segments", [])
    waiting = first_waiting(messages, scope.settings.max_judged_entries)
    limit = scope.settings.live_messages
    bounds = page_ends(messages, segments, limit=limit, waiting=waiting)[:PAGES]
    now = with_fold_untold(state) if bounds else state
    for start, end in pairwise((0, *bounds)):
        now = yield from _sealed(now, end - start, scope)
    if not bounds:
        return Update()
    head = state.get("ledger", EMPTY)
    place = Head(page_id=head["page_id"], count=head["count"])
    with suppress(LedgerGapError):  # a gap is told to whoever reads the ledger; talking goes on
        yield from pack_pages(scope.store, scope.thread_id, place)
    return Update(
        messages=[RemoveMessage(id=m.id or "") for m in messages[: bounds[-1]]],
        sealed=now["sealed"],
        segments=now["segments"],
        checkpoints=now["checkpoints"],
        topics=now["topics"],
        unfolded=now["unfolded"],
        pins=now.get("pins", []),
        fold=now.get("fold", Fold()),
    )


def _sealed(state: State, end: int, scope: Scope) -> Steps[State]:
    """The state once the messages before a place are a page of their own."""
    assert scope.store is not None and scope.thread_id is not None  # noqa: S101, PT018 - just seen
    head, messages = offloaded_of(state), state["messages"]
    part, segments = messages[:end], standing(messages, state.get("segments", []))
    ids = {message.id for message in part}
    gone, stays = _parted(messages, segments, ids)
    topics = state.get("topics", [])
    page = yield from put_page(
        scope.store,
        scope.thread_id,
        head,
        part,
        turns=turns_left(part),
        segments=[each for each in segments if each["start"] in ids],
        topics=[each for each in topics if each["id"] in gone],
        instructions=[*_instructions(head), *(text_of(m) for m in part if m.type == "system")],
    )
    current = current_topic_id(segments)
    line, forgotten = line_of(state), state.get("forgotten", [])
    told: list[Topic] = []
    for topic in topics:
        if topic["id"] in gone:
            said, earlier = _beside_fold(state, topic, gone[topic["id"]], ids)
            said = told_of(said, line, forgotten, scope)
            pages = [] if topic["id"] == current else [*topic.get("pages", []), page.id]
            over = topic["id"] not in stays
            kept: Topic = {**topic, "pages": pages}
            told.append((yield from _told(kept, said, earlier, scope, over=over)))
        else:
            told.append(topic)
    pins = sealed_pins(state.get("pins", []), ids, page.id)
    after, fold = _without(state, end, segments), without_spans(state.get("fold", Fold()), ids)
    return as_ours({**after, "sealed": page.head, "topics": told, "pins": pins, "fold": fold})


def _beside_fold(
    state: State, topic: Topic, going: list[AnyMessage], ids: Collection[str | None]
) -> tuple[list[AnyMessage], str | None]:
    """Those of a topic's messages that a view still showed, and what told of the others."""
    fold = state.get("fold", Fold()).get("topics", {}).get(topic["id"], Fold())
    said = by_topic(state["messages"], state.get("segments", [])).get(topic["id"], [])
    out = {said[index].id for index in hidden(said, fold)}
    told = [*filter(None, [topic.get("sealed")]), *summaries_of(fold, ids)]
    return [each for each in going if each.id not in out], "\n".join(told) or None


def _instructions(head: Offloaded | None) -> list[str]:
    return [] if head is None else head.get("instructions", [])


def _parted(
    messages: Sequence[AnyMessage], segments: Sequence[Segment], ids: Collection[str | None]
) -> tuple[dict[str, list[AnyMessage]], set[str]]:
    """By topic, the messages that are let go of, and the topics that keep some."""
    gone: dict[str, list[AnyMessage]] = {}
    stays: set[str] = set()
    for topic_id, said in by_topic(messages, segments).items():
        going = [message for message in said if message.id in ids]
        if going:
            gone[topic_id] = going
        if len(going) < len(said):
            stays.add(topic_id)
    return gone, stays


def _told(
    topic: Topic, said: list[AnyMessage], earlier: str | None, scope: Scope, *, over: bool
) -> Steps[Topic]:
    """A topic with what tells of those of its messages that are let go of.

    Args:
        topic: With the pages that hold them.
        said: The messages that nothing tells of yet, but for those that are forgotten.
        earlier: What tells of the others.
        scope: Of the run.
        over: Whether they are the last that it had.
    """
    pages = topic.get("pages", [])[-TOPIC_PAGES:]
    if over and topic["summary"] is not None:
        text = topic["summary"]
        return {
            **topic,
            "sealed": text,
            "pages": pages,
            "summary": None,
            "summarized_through": None,
        }
    text = cut(earlier or "", SUMMARY_CHARS)
    if said:
        text = yield from summary_of(said, scope, earlier=earlier)
    return {**topic, "sealed": text, "pages": pages}


def _without(state: State, end: int, segments: Sequence[Segment]) -> State:
    """The state without the messages before a place."""
    messages = state["messages"]
    gone = {message.id for message in messages[:end]}
    inner = [each for each in segments if each["start"] in gone]
    rest = [each for each in segments if each["start"] not in gone]
    first = messages[end].id or ""
    moved: dict[str, str] = {}
    if inner and (not rest or rest[0]["start"] != first):
        rest.insert(0, Segment(topic_id=inner[-1]["topic_id"], start=first))
        moved = {inner[-1]["start"]: first}
    marks: list[Checkpoint] = [
        {**each, "sealed": True} if each["message_id"] in gone else each
        for each in state.get("checkpoints", [])
    ]
    return {
        **state,
        "messages": messages[end:],
        "segments": rest,
        "checkpoints": marks,
        "unfolded": _moved(state.get("unfolded", []), moved),
    }


def _moved(unfolded: Sequence[Unfolded], starts: Mapping[str, str]) -> list[Unfolded]:
    return [{**each, "at": starts.get(each["at"], each["at"])} for each in unfolded]


def reach(
    state: State, scope: Scope, wanted: Collection[str | None], *, turns: int = 0
) -> Steps[Update]:
    """Take back into the state what it let go of, as far as some places lie.

    Args:
        state: As it is.
        scope: Of the step.
        wanted: Ids of the messages; `None` is the record's beginning.
        turns: How many answered turns the state must hold, as far as there are so many.

    Returns:
        An update; empty where all that is wanted is there, or nowhere.

    Raises:
        DatabaseCorruptError: What was let go of is missing or was changed.
    """
    head = offloaded_of(state)
    if head is None or scope.store is None or scope.thread_id is None:
        return Update()
    live = {message.id for message in state["messages"]}
    missing = set(wanted) - live
    short = turns - turns_left(state["messages"]) if turns else 0
    if not missing and short <= 0:
        return Update()
    pages = yield from read_back(scope.store, scope.thread_id, head, missing, turns=short)
    return _returned(state, scope, pages)


def _returned(state: State, scope: Scope, pages: Sequence[OffloadedSegment]) -> Update:
    """The update that puts pages back; the ledger has their words, but for those that are new."""
    now = {message.id: message for message in state["messages"]}
    back = [message for page in pages for message in page.messages]
    scope.journal.returned |= {m.id or "" for m in back if now.get(m.id, m) == m}
    return unsealed(state, pages)


def came_again(state: State, scope: Scope) -> Steps[Update]:
    """Take back what came in a second time: on a record that is whole it takes the first's place.

    A front end may send all of its messages with each question. A question alone is taken for
    new unless its run is known.

    Args:
        state: As the run began.
        scope: Of the run.

    Raises:
        DatabaseCorruptError: What was let go of is missing or was changed.
    """
    head = offloaded_of(state)
    if head is None or scope.store is None or scope.thread_id is None:
        return Update()
    entered = state["messages"][state.get("ledger", EMPTY)["length"] :]
    said = [message for message in entered if not is_document(message)]
    fresh = {run_named_after(scope.thread_id, message.id) for message in said}
    alone = len(said) <= 1
    if alone and (scope.named or scope.run_id in fresh):
        return Update()
    names = {message.id for message in entered}
    pages = yield from read_back(scope.store, scope.thread_id, head, names)
    return _returned(state, scope, pages)


def without_sealed(state: State) -> Update:
    """What becomes of a state whose record the host has emptied; else an empty update."""
    if offloaded_of(state) is not None or not _tells_of_sealed(state):
        return Update()
    topics: list[Topic] = []
    for each in state.get("topics", []):
        topic: Topic = {**each}
        topic.pop("sealed", None)
        topic.pop("pages", None)
        topics.append(topic)
    marks = [each for each in state.get("checkpoints", []) if not each.get("sealed")]
    pins = unsealed_pins(state.get("pins", []))
    return Update(sealed=None, checkpoints=marks, topics=topics, pins=pins)


def _tells_of_sealed(state: State) -> bool:
    marked = any(each.get("sealed") for each in state.get("checkpoints", []))
    told = any("sealed" in each or "pages" in each for each in state.get("topics", []))
    return bool(state.get("sealed")) or marked or told or bool(pinned_pages(state))


def whole(state: State, scope: Scope) -> Steps[State]:
    """A state with all of its record, for whoever reads it."""
    head = offloaded_of(state)
    if head is None or scope.store is None or scope.thread_id is None:
        return state
    pages = yield from read_back(scope.store, scope.thread_id, head, None)
    return with_update(state, unsealed(state, pages))


def unsealed(state: State, pages: Sequence[OffloadedSegment]) -> Update:
    """The update that puts pages back before the rest of the record.

    Args:
        state: As it is.
        pages: The newest first.
    """
    if not pages:
        return Update()
    older = [message for page in reversed(pages) for message in page.messages]
    back = {message.id for message in older}
    joined: list[Segment] = []
    moved: dict[str, str] = {}
    for part in (*(page.segments for page in reversed(pages)), state.get("segments", [])):
        first = part[0] if part and joined else None
        goes_on = first is not None and first["topic_id"] == joined[-1]["topic_id"]
        if first is not None and goes_on:
            moved[first["start"]] = joined[-1]["start"]
        joined += part[1:] if goes_on else part
    return Update(
        messages=[RemoveMessage(id=REMOVE_ALL_MESSAGES), *older, *state["messages"]],
        sealed=pages[-1].before,
        segments=joined,
        checkpoints=[
            unmarked(each) if each["message_id"] in back else each
            for each in state.get("checkpoints", [])
        ],
        topics=[_as_before(each, pages) for each in state.get("topics", [])],
        unfolded=_moved(state.get("unfolded", []), moved),
        pins=unsealed_pins(state.get("pins", []), back),
    )


def unmarked(mark: Checkpoint) -> Checkpoint:
    """A checkpoint without the word that its message is sealed."""
    plain: Checkpoint = {**mark}
    plain.pop("sealed", None)
    return plain


def _as_before(topic: Topic, pages: Sequence[OffloadedSegment]) -> Topic:
    """A topic as it was before its messages were let go of, with what was said of it since."""
    found: Topic = {**topic}
    for page in pages:
        old = next((each for each in page.topics if each["id"] == topic["id"]), None)
        if old is None:
            continue
        found.pop("sealed", None)
        found.pop("pages", None)
        if "sealed" in old:
            found["sealed"] = old["sealed"]
        if "pages" in old:
            found["pages"] = old["pages"]
        if found["summary"] is None:
            found["summary"] = old["summary"]
            found["summarized_through"] = old["summarized_through"]
    return found
