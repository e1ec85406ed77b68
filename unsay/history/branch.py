"""Taking a tail off the transcript and putting it back: pure arithmetic on one branch."""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from langchain_core.messages import AnyMessage, RemoveMessage
from langgraph.store.base import BaseStore

from unsay.effects import Steps
from unsay.errors import ConflictError
from unsay.storage.items import freeze_messages, thaw_messages, thread_namespace
from unsay.storage.pagination import read_items
from unsay.types import Checkpoint, Cut, CutKind, CutRef, Segment, Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The part of a thread that a rollback moves."""

    messages: tuple[AnyMessage, ...]
    """The record, oldest first; its newest part, where the rest is sealed."""

    before: str | None = None
    """Id of the last message that is sealed; `None` where the record is whole."""

    checkpoints: tuple[Checkpoint, ...] = ()
    segments: tuple[Segment, ...] = ()
    topics: tuple[Topic, ...] = ()

    def positions(self) -> dict[str | None, int]:
        """Index of each message id."""
        return {message.id: index for index, message in enumerate(self.messages)}

    def index_of(self, message_id: str | None) -> int:
        """Index of a message; -1 for the place before the first.

        Raises:
            ConflictError: The message is not on the record, or sealed.
        """
        if message_id == self.before:
            return -1
        for index in range(len(self.messages) - 1, -1, -1):
            if self.messages[index].id == message_id:
                return index
        raise ConflictError(
            f"Message {message_id!r} is no longer on this thread's record; "
            "list the checkpoints to see where it can go back to"
        )

    def id_at(self, index: int) -> str | None:
        """Id of the message at an index; for -1 what `before` says."""
        return self.messages[index].id if index >= 0 else self.before


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What becomes of a line, as a state update and as the line itself."""

    line: Line
    writes: list[Any]
    cut: Cut
    """What was taken off; its lists are empty when nothing was."""

    keep: tuple[str, ...] = ()
    """Ids after the cut's base that stayed, in their order."""

    restored: tuple[str, ...] = ()
    only: tuple[str, ...] | None = None
    """Ids of what came back, where it is not all that the cuts hold; else `None`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """Why a cut is made, and what goes with it."""

    kind: CutKind
    reason: str
    created_at: str
    drafts: tuple[AnyMessage, ...] = ()
    """A rejected draft that never was on the record and is kept with the cut."""


def take_back(line: Line, base: str | None, *, label: Label, keep: Sequence[str] = ()) -> Change:
    """Take everything after a message off the line, except what must stay.

    A base of `None` keeps nothing before; `keep` has ids after the base, such as the pending
    question.

    Raises:
        ConflictError: The base is not on the record.
    """
    return put_back(line, base, [], label=label, keep=keep)


def put_back(
    line: Line,
    base: str | None,
    cuts: Sequence[Cut],
    *,
    label: Label,
    keep: Sequence[str] = (),
    only: Collection[str] | None = None,
) -> Change:
    """Replace everything after a message by what earlier cuts took from there.

    A message that is still there is not put back a second time. The cuts are in the order of their
    messages. What `keep` names after the base stays, behind what is put back; with `only`, nothing
    but the messages of these ids is put back.

    Raises:
        ConflictError: The base is not on the record.
    """
    start = line.index_of(base) + 1
    kept = [m for m in line.messages[start:] if m.id in keep]
    removed = [m for m in line.messages[start:] if m.id not in keep]
    stays = {m.id for m in (*line.messages[:start], *kept)}
    held = {m.id: m for cut in cuts for m in cut["messages"]}
    back = [m for m in held.values() if m.id not in stays and (only is None or m.id in only)]
    after = _line_after(line, start, cuts, back, kept)
    moved = kept if back else []
    return Change(
        line=after,
        writes=[RemoveMessage(id=m.id or "") for m in [*removed, *moved]] + back + moved,
        cut=_cut(line, after, base, removed, label),
        keep=tuple(m.id or "" for m in kept),
        restored=tuple(each["id"] for each in cuts),
        only=None if len(back) == len(held) else tuple(m.id or "" for m in back),
    )


def _cut(line: Line, after: Line, base: str | None, removed: list[AnyMessage], label: Label) -> Cut:
    gone = {m.id for m in removed}
    # The id follows from what is cut, so that a node run twice makes one cut.
    parts = [label.kind, base or "", *(m.id or "" for m in (*removed, *label.drafts))]
    digest = hashlib.sha256("\x00".join(parts).encode("utf-8", "surrogatepass"))
    cut = Cut(
        id=f"cut-{digest.hexdigest()[:16]}",
        kind=label.kind,
        base=base,
        reason=label.reason,
        created_at=label.created_at,
        messages=removed,
        drafts=list(label.drafts),
        checkpoints=[each for each in line.checkpoints if each["message_id"] in gone],
        segments=[each for each in line.segments if each["start"] in gone],
    )
    left = {each["id"] for each in after.topics if each["summary"] is not None}
    told = [each for each in line.topics if each["summary"] is not None and each["id"] not in left]
    return {**cut, "topics": told} if told else cut


def _line_after(
    line: Line,
    start: int,
    cuts: Sequence[Cut],
    back: Sequence[AnyMessage],
    kept: Sequence[AnyMessage],
) -> Line:
    messages = (*line.messages[:start], *back, *kept)
    before, came = {m.id for m in line.messages[:start]}, {m.id for m in back}
    waiting = {m.id for m in kept}
    stays = {None, *before, *waiting}
    marks = [e for e in line.checkpoints if e["message_id"] in stays or e.get("sealed")]
    returning = [each for cut in cuts for each in cut["segments"] if each["start"] in came]
    return Line(
        messages=messages,
        before=line.before,
        checkpoints=tuple(
            with_returned(marks, [m for cut in cuts for m in cut["checkpoints"]], came)
        ),
        segments=(
            *(each for each in line.segments if each["start"] in before),
            *returning,
            *(each for each in line.segments if each["start"] in waiting),
        ),
        topics=_topics_after(line, cuts, before | came | waiting),
    )


def with_returned(
    marks: Sequence[Checkpoint], returning: Sequence[Checkpoint], messages: Collection[str | None]
) -> list[Checkpoint]:
    """Checkpoints, and those that come back with their messages, in the order they were made.

    A name stays with the one that has it. `messages` has the ids of what comes back.
    """
    names = {each["name"] for each in marks}
    back = {each["id"]: each for each in returning if each["message_id"] in messages}
    named: list[Checkpoint] = []
    for each in back.values():
        named.append({**each, "name": None} if each["name"] in names else each)
        names.add(each["name"])
    return sorted([*marks, *named], key=lambda each: each["created_at"]) if named else list(marks)


def _topics_after(
    line: Line, cuts: Sequence[Cut], known: Collection[str | None]
) -> tuple[Topic, ...]:
    told = {topic["id"]: topic for cut in cuts for topic in cut.get("topics", [])}
    topics = []
    for topic in line.topics:
        found = topic if topic["summary"] is not None else told.get(topic["id"], topic)
        summary, through = found["summary"], found["summarized_through"]
        if through not in known:  # the summary may tell of messages that were taken back
            summary = through = None
        topics.append(Topic(**{**topic, "summary": summary, "summarized_through": through}))
    return tuple(topics)


CUT_REFS = 20
"""How many cuts a thread's state names; with a store all of them stay there."""

MANY = 8
"""From so many messages on a cut is worth the time to store it densely. Source: own measurement."""

INLINE_CUTS = 20
"""How many whole cuts the state carries where no store is given."""

_MESSAGES: tuple[Literal["messages", "drafts"], ...] = ("messages", "drafts")


def cuts_namespace(thread_id: str) -> tuple[str, ...]:
    """The store's namespace for a thread's cuts."""
    return thread_namespace("cuts", thread_id)


def reference(cut: Cut, *, inline: bool) -> CutRef:
    """How the state names a cut; with its body where no store keeps it."""
    ref = CutRef(
        id=cut["id"],
        kind=cut["kind"],
        base=cut["base"],
        reason=cut["reason"],
        created_at=cut["created_at"],
        size=len(cut["messages"]) + len(cut["drafts"]),
    )
    return {**ref, "body": cut} if inline else ref


def add_reference(refs: Sequence[CutRef], new: CutRef) -> list[CutRef]:
    """The references with one more, bounded; a cut made again replaces itself."""
    kept = [*(ref for ref in refs if ref["id"] != new["id"]), new]
    return kept[-(INLINE_CUTS if "body" in new else CUT_REFS) :]


def pack(cut: Cut) -> dict[str, Any]:
    """A cut as plain JSON for the store."""
    dense = len(cut["messages"]) >= MANY
    return {**cut, **{str(key): freeze_messages(cut[key], dense=dense) for key in _MESSAGES}}


def unpack(value: dict[str, Any]) -> Cut:
    """A cut from the store, its messages as they were."""
    whole = {key: thaw_messages(value[key]) for key in _MESSAGES}
    return cast("Cut", {**value, **whole})


def list_cuts(store: BaseStore, thread_id: str) -> Steps[list[Cut]]:
    """All cuts of a thread that a store keeps, the oldest first."""
    place = cuts_namespace(thread_id)
    found = yield from read_items(store, place, lambda item: unpack(item.value))
    return sorted(found, key=lambda cut: (cut["created_at"], cut["id"]))
