"""Taking a tail off the record and putting it back: pure arithmetic on one line."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AnyMessage, RemoveMessage

from unsay.errors import ConflictError
from unsay.types import Checkpoint, Cut, CutKind, Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The part of a thread that a rollback moves."""

    messages: tuple[AnyMessage, ...]
    """The record, oldest first."""

    checkpoints: tuple[Checkpoint, ...] = ()
    """Each stands at a message of the record."""

    segments: tuple[Segment, ...] = ()
    """Each starts at a message of the record."""

    def positions(self) -> dict[str | None, int]:
        """Index of each message id."""
        return {message.id: index for index, message in enumerate(self.messages)}

    def index_of(self, message_id: str | None) -> int:
        """Index of a message; -1 for `None`, the place before the first.

        Raises:
            ConflictError: The message is not on the record.
        """
        if message_id is None:
            return -1
        for index in range(len(self.messages) - 1, -1, -1):
            if self.messages[index].id == message_id:
                return index
        raise ConflictError(
            f"Message {message_id!r} is no longer on this thread's record; "
            "list the checkpoints to see where it can go back to"
        )

    def id_at(self, index: int) -> str | None:
        """Id of the message at an index; `None` for -1."""
        return self.messages[index].id if index >= 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What becomes of a line, as a state update and as the line itself."""

    line: Line
    """The line afterwards."""

    writes: list[Any]
    """What to write to `messages` to get there."""

    cut: Cut
    """What was taken off; its lists are empty when nothing was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """Why a cut is made, and what goes with it."""

    kind: CutKind
    """Who or what made it."""

    reason: str
    """In words: a judge's reason, or the order."""

    created_at: str
    """ISO 8601, UTC."""

    drafts: tuple[AnyMessage, ...] = ()
    """A rejected draft that never was on the record and is kept with the cut."""


def take_back(line: Line, base: str | None, *, label: Label, keep: Sequence[str] = ()) -> Change:
    """Take everything after a message off the line, except what must stay.

    Args:
        line: As it is.
        base: Id of the last message to keep; `None` keeps nothing before.
        label: Of the cut.
        keep: Ids after the base that stay, such as the pending question.

    Raises:
        ConflictError: The base is not on the record.
    """
    return put_back(line, base, [], label=label, keep=keep)


def put_back(
    line: Line, base: str | None, cuts: Sequence[Cut], *, label: Label, keep: Sequence[str] = ()
) -> Change:
    """Replace everything after a message by what earlier cuts took from there.

    Args:
        line: As it is.
        base: Id of the last message to keep.
        cuts: In the order in which their messages stood on the record.
        label: Of the cut that takes what is replaced.
        keep: Ids after the base that stay, behind what is put back.

    Raises:
        ConflictError: The base is not on the record.
    """
    start = line.index_of(base) + 1
    kept = [m for m in line.messages[start:] if m.id in keep]
    removed = [m for m in line.messages[start:] if m.id not in keep]
    restored = [m for cut in cuts for m in cut["messages"]]
    gone = {m.id for m in removed}
    cut = Cut(
        id=_cut_id(label, base, removed),
        kind=label.kind,
        base=base,
        reason=label.reason,
        created_at=label.created_at,
        messages=removed,
        drafts=list(label.drafts),
        checkpoints=[each for each in line.checkpoints if each["message_id"] in gone],
        segments=[each for each in line.segments if each["start"] in gone],
    )
    moved = kept if restored else []
    return Change(
        line=_line_after(line, start, cuts, (restored, kept), gone),
        writes=[RemoveMessage(id=m.id or "") for m in [*removed, *moved]] + restored + moved,
        cut=cut,
    )


def _cut_id(label: Label, base: str | None, removed: Sequence[AnyMessage]) -> str:
    """An id that follows from what is cut, so that a node run twice makes one cut."""
    parts = [label.kind, base or "", *(m.id or "" for m in (*removed, *label.drafts))]
    digest = hashlib.sha256("\x00".join(parts).encode("utf-8", "surrogatepass"))
    return f"cut-{digest.hexdigest()[:16]}"


def _line_after(
    line: Line,
    start: int,
    cuts: Sequence[Cut],
    tail: tuple[list[AnyMessage], list[AnyMessage]],
    gone: set[str | None],
) -> Line:
    restored, kept = tail
    kept_ids = {m.id for m in kept}
    staying = [each for each in line.segments if each["start"] not in gone | kept_ids]
    pending = [each for each in line.segments if each["start"] in kept_ids]
    return Line(
        messages=(*line.messages[:start], *restored, *kept),
        checkpoints=(
            *(each for each in line.checkpoints if each["message_id"] not in gone),
            *(each for cut in cuts for each in cut["checkpoints"]),
        ),
        segments=(*staying, *(each for cut in cuts for each in cut["segments"]), *pending),
    )
