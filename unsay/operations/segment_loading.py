"""Loading of offloaded segments: back into the state, for a reader, or into one context."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from langchain_core.messages import AnyMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from unsay.context.exclusions import told_topics
from unsay.context.topics import opened_topics, standing
from unsay.effects import Steps
from unsay.errors import DatabaseCorruptError
from unsay.history.run import run_named_after
from unsay.messages.annotations import is_document
from unsay.operations.pin import in_order, pinned_pages, shown_of, unsealed_pins
from unsay.operations.record_events import EMPTY
from unsay.operations.rollback import turns_left
from unsay.runtime import Scope
from unsay.state import State, Update, offloaded_of, with_update
from unsay.storage.segments import OffloadedSegment, read_back, read_page
from unsay.types import Checkpoint, Segment, Topic, Unfolded


def load_segments(
    state: State, scope: Scope, wanted: Collection[str | None], *, turns: int = 0
) -> Steps[Update]:
    """Load offloaded segments into the state, as many as hold some messages and turns.

    Args:
        state: As it is.
        scope: Of the step.
        wanted: Ids of the messages; `None` is the transcript's beginning.
        turns: How many answered turns the state must hold, as far as there are so many.

    Returns:
        An update; empty where all messages are in the state already, or nowhere.

    Raises:
        DatabaseCorruptError: A segment is missing or was changed.
    """
    head = offloaded_of(state)
    if head is None or scope.address is None:
        return Update()
    missing = set(wanted) - {message.id for message in state["messages"]}
    short = turns - turns_left(state["messages"]) if turns else 0
    if not missing and short <= 0:
        return Update()
    pages = yield from read_back(*scope.address, head, missing, turns=short)
    return _put_back(state, scope, pages)


def load_resent(state: State, scope: Scope) -> Steps[Update]:
    """Load the segments of messages that a front end sent again, so that they replace themselves.

    A front end may send all of its messages with each question. A question alone is taken for
    new unless its run is known.

    Args:
        state: As the run began.
        scope: Of the run.

    Raises:
        DatabaseCorruptError: A segment is missing or was changed.
    """
    head = offloaded_of(state)
    if head is None or scope.address is None:
        return Update()
    entered = state["messages"][state.get("ledger", EMPTY)["length"] :]
    said = [message for message in entered if not is_document(message)]
    fresh = {run_named_after(scope.thread_id, message.id) for message in said}
    if len(said) <= 1 and (scope.named or scope.run_id in fresh):
        return Update()
    names = {message.id for message in entered}
    pages = yield from read_back(*scope.address, head, names)
    return _put_back(state, scope, pages)


def load_all(state: State, scope: Scope) -> Steps[State]:
    """A state with the whole transcript, for readers."""
    head = offloaded_of(state)
    if head is None or scope.address is None:
        return state
    pages = yield from read_back(*scope.address, head, None)
    return with_update(state, _with_pages(state, pages))


def _put_back(state: State, scope: Scope, pages: Sequence[OffloadedSegment]) -> Update:
    """The update that puts segments back; the event log has their messages, unless they changed."""
    known = {message.id: message for message in state["messages"]}
    back = [message for page in pages for message in page.messages]
    scope.journal.returned |= {m.id or "" for m in back if known.get(m.id, m) == m}
    return _with_pages(state, pages)


def _with_pages(state: State, pages: Sequence[OffloadedSegment]) -> Update:
    """The update that puts segments, given newest first, before the rest of the transcript."""
    if not pages:
        return Update()
    older = [message for page in reversed(pages) for message in page.messages]
    back = {message.id for message in older}
    joined: list[Segment] = []
    moved: dict[str, str] = {}
    for part in (*(page.segments for page in reversed(pages)), state.get("segments", [])):
        goes_on = bool(part and joined) and part[0]["topic_id"] == joined[-1]["topic_id"]
        if goes_on:
            moved[part[0]["start"]] = joined[-1]["start"]
        joined += part[1:] if goes_on else part
    unfolded: list[Unfolded] = [
        {**each, "at": moved.get(each["at"], each["at"])} for each in state.get("unfolded", [])
    ]
    return Update(
        messages=[RemoveMessage(id=REMOVE_ALL_MESSAGES), *older, *state["messages"]],
        sealed=pages[-1].before,
        segments=joined,
        checkpoints=[
            unmarked(each) if each["message_id"] in back else each
            for each in state.get("checkpoints", [])
        ],
        topics=[_as_before(each, pages) for each in state.get("topics", [])],
        unfolded=unfolded,
        pins=unsealed_pins(state.get("pins", []), back),
    )


def unmarked(checkpoint: Checkpoint) -> Checkpoint:
    """A checkpoint whose message is in the state."""
    plain: Checkpoint = {**checkpoint}
    plain.pop("sealed", None)
    return plain


def _unmarked_topic(topic: Topic) -> Topic:
    plain: Topic = {**topic}
    plain.pop("sealed", None)
    plain.pop("pages", None)
    return plain


def _as_before(topic: Topic, pages: Sequence[OffloadedSegment]) -> Topic:
    """A topic as it was before its messages were offloaded, with its newer summary if it has one."""
    restored = topic
    for page in pages:
        old = next((each for each in page.topics if each["id"] == topic["id"]), None)
        if old is None:
            continue
        restored = _unmarked_topic(restored)
        if "sealed" in old:
            restored["sealed"] = old["sealed"]
        if "pages" in old:
            restored["pages"] = old["pages"]
        if restored["summary"] is None:
            restored["summary"] = old["summary"]
            restored["summarized_through"] = old["summarized_through"]
    return restored


def drop_offloaded(state: State) -> Update:
    """Drop what refers to offloaded segments, where a host removed all messages of the thread."""
    topics, checkpoints = state.get("topics", []), state.get("checkpoints", [])
    refers = (
        state.get("sealed")
        or any(each.get("sealed") for each in checkpoints)
        or any("sealed" in each or "pages" in each for each in topics)
        or pinned_pages(state)
    )
    if offloaded_of(state) is not None or not refers:
        return Update()
    return Update(
        sealed=None,
        checkpoints=[each for each in checkpoints if not each.get("sealed")],
        topics=[_unmarked_topic(each) for each in topics],
        pins=unsealed_pins(state.get("pins", [])),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """Offloaded messages that the next context includes."""

    words: list[AnyMessage]
    """Oldest first."""

    places: Mapping[str, int]
    """By id, the position of each in the transcript, from 1."""


def load_opened(state: State, scope: Scope) -> Steps[Earlier]:
    """Load the offloaded messages that the next context includes: of its topics, and pinned ones.

    A segment that is missing or was changed is left out: the topic's summary covers it.
    """
    segments = standing(state["messages"], state.get("segments", []))
    opened = opened_topics(segments, state.get("unfolded", []))
    known = told_topics(state.get("topics", []), state.get("forgotten", []))
    topics = [each for each in known if each["id"] in opened]
    of_topics = (name for each in topics for name in each.get("pages", []))
    pages: list[OffloadedSegment] = []
    for name in dict.fromkeys((*of_topics, *pinned_pages(state))):
        assert scope.address is not None  # noqa: S101 - only with a store are there segments
        try:
            pages += [(yield from read_page(*scope.address, name))]
        except DatabaseCorruptError as error:
            scope.tell("words_lost", error=str(error))
    texts = scope.texts(state["messages"])
    words: list[AnyMessage] = []
    places: dict[str, int] = {}
    for page in in_order(pages):
        here = [each["id"] for each in topics if page.id in each.get("pages", [])]
        words += shown_of(page, here, state, texts)
        start = page.before["messages"] if page.before else 0
        places |= {m.id or "": place for place, m in enumerate(page.messages, start=start + 1)}
    shown = {message.id for message in words}
    return Earlier(words=words, places={name: n for name, n in places.items() if name in shown})
