"""Changes of a thread, their fold, and the one function that takes any change back.

A change is exact: it names the positions that leave and enter the transcript, and the old and the new data of each
value. So the fold needs no rules of a verb. An undo is not the exact inverse of a change: what a host added behind a turn
leaves with the turn, what came after a removed turn stays, and a question that waits stays. The `Entry` of a
change says this.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from tests.log.ranges import index_of, intersect, join, split, subtract
from unsay.errors import ConflictError, DatabaseCorruptError
from unsay.log.ranges import Ranges

Stack: TypeAlias = Literal["undo", "redo"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """Data under a name, such as a checkpoint, a pin or a summary.

    `anchor` is the position of the message that the data belong to: they leave the thread with it, and return with it.
    Data without an anchor stay.
    """

    data: Any
    anchor: int | None = None


Swap: TypeAlias = tuple[Value | None, Value | None]
"""The old and the new data of a name; `None` for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Splice:
    """Positions that leave and enter the transcript behind a position; `after=None` is its beginning."""

    after: int | None
    removed: Ranges = ()
    inserted: Ranges = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What taking a change back does.

    An open entry puts `returning` behind `base`, and keeps of what is there the positions that the caller names, unless
    they are `leaving`: the change brought them. A closed one keeps all but `leaving`, and puts each of its `places` behind a position: what left from several places
    returns to each. `swaps` are the old and new data that taking the change back sets. An entry of values alone has
    `moves=False`.
    """

    moves: bool = False
    base: int | None = None
    is_open: bool = True
    leaving: Ranges = ()
    returning: Ranges = ()
    places: tuple[tuple[int | None, Ranges], ...] = ()
    swaps: Mapping[str, Swap] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One step of the log: splices in their order, then swaps.

    `entry` takes the change back; `None` if no undo does. `takes_back` names the stack whose newest entry this change
    carried out. An undo keeps the older entries to redo only if `keeps_redo`, and its entry counts while `end` is
    the last position.
    """

    cause: str
    splices: tuple[Splice, ...] = ()
    swaps: Mapping[str, Swap] = field(default_factory=dict)
    entry: Entry | None = None
    takes_back: Stack | None = None
    keeps_redo: bool = False
    end: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """The fold of a log: the transcript, the values, and what undo and redo take back.

    An entry to redo has the last position of the transcript at its time: it counts only while that is the last one.
    """

    transcript: Ranges = ()
    values: Mapping[str, Value] = field(default_factory=dict)
    undo: tuple[Entry, ...] = ()
    redo: tuple[tuple[Entry, int | None], ...] = ()


def end_of(transcript: Ranges) -> int | None:
    """Return the last position; `None` for an empty transcript."""
    return transcript[-1][1] - 1 if transcript else None


def apply(thread: Thread, change: Change) -> Thread:
    """Return the thread after a change.

    Raises:
        DatabaseCorruptError: The change is none of this thread: it removes what is not there, or swaps other data.
    """
    transcript = thread.transcript
    for splice in change.splices:
        transcript = _spliced(transcript, splice)

    values = dict(thread.values)
    for name, (old, new) in change.swaps.items():
        if values.pop(name, None) != old:
            raise DatabaseCorruptError(
                f"The log swaps data of {name!r} that the thread does not have"
            )
        if new is not None:
            values[name] = new
    return _with_stacks(replace(thread, transcript=transcript, values=values), change)


def fold(changes: Iterable[Change], thread: Thread | None = None) -> Thread:
    """Return the thread after all changes; a new one without `thread`."""
    thread = thread or Thread()
    for change in changes:
        thread = apply(thread, change)
    return thread


def _spliced(transcript: Ranges, splice: Splice) -> Ranges:
    before, behind = _split_behind(transcript, splice.after)
    index = sum(stop - start for start, stop in splice.removed)
    removed, rest = split(behind, index)
    if removed != splice.removed or intersect(splice.inserted, join([before, rest])):
        raise DatabaseCorruptError(
            "The log removes or inserts messages that do not fit the transcript"
        )
    return join([before, splice.inserted, rest])


def _split_behind(transcript: Ranges, position: int | None) -> tuple[Ranges, Ranges]:
    index = -1 if position is None else index_of(transcript, position)
    if index is None:
        raise ConflictError("The message that this step follows is no longer in the transcript")
    return split(transcript, index + 1)


def _with_stacks(thread: Thread, change: Change) -> Thread:
    entries = () if change.entry is None else (change.entry,)
    match change.takes_back:
        case "undo":
            older = thread.redo if change.keeps_redo else ()
            redo = (*older, *((entry, change.end) for entry in entries))
            return replace(thread, undo=thread.undo[:-1], redo=redo)
        case "redo":
            return replace(thread, undo=(*thread.undo, *entries), redo=thread.redo[:-1])
    return replace(thread, undo=(*thread.undo, *entries), redo=()) if entries else thread


def make_change(
    thread: Thread,
    cause: str,
    splices: Iterable[Splice] = (),
    swaps: Mapping[str, Value | None] | None = None,
    *,
    entry: Entry | None = None,
) -> Change:
    """Return a change with the values that travel with the messages that it moves.

    Args:
        thread: The thread before the change.
        cause: The verb, or what else caused the change.
        splices: The splices in their order.
        swaps: The new data by name; data whose anchor is not in the transcript afterwards are left out.
        entry: What taking the change back does. Its swaps are set here.
    """
    exact = tuple(splices)
    transcript = thread.transcript
    for splice in exact:
        transcript = _spliced(transcript, splice)

    gone = subtract(thread.transcript, transcript)
    given = swaps or {}
    new_values: dict[str, Value | None] = {
        **{name: None for name, value in thread.values.items() if _is_at(value, gone)},
        **{name: value for name, value in given.items() if _can_be_set(value, transcript)},
    }
    exact_swaps = {
        name: (thread.values.get(name), value)
        for name, value in new_values.items()
        if thread.values.get(name) != value
    }
    back = {name: (new, old) for name, (old, new) in exact_swaps.items()}
    return Change(
        cause=cause,
        splices=exact,
        swaps=exact_swaps,
        # What is in the transcript never left, and has the values of now.
        entry=entry and replace(entry, returning=subtract(entry.returning, transcript), swaps=back),
    )


def _can_be_set(value: Value | None, transcript: Ranges) -> bool:
    return value is None or value.anchor is None or _is_at(value, transcript)


def _is_at(value: Value, positions: Ranges) -> bool:
    return value.anchor is not None and index_of(positions, value.anchor) is not None


def turn_back(thread: Thread, entry: Entry, *, keep: Ranges = ()) -> Change:
    """Return the change that takes another one back; its own entry takes this one back.

    Args:
        thread: The thread as it is now.
        entry: The entry of the change that is taken back.
        keep: Positions that stay behind an open entry's base, such as a question that waits.

    Raises:
        ConflictError: The message at `entry.base` is not in the transcript.
    """
    then = {name: old for name, (_, old) in entry.swaps.items()}
    if not entry.moves:
        return make_change(thread, "back", swaps=then, entry=entry)

    if not entry.is_open:
        removed = intersect(thread.transcript, entry.leaving)
        splices = _removals(thread.transcript, removed)
        rest = subtract(thread.transcript, removed)
        splices += [Splice(after=after, inserted=subtract(x, rest)) for after, x in entry.places]
        inverse = replace(entry, places=places_of(thread.transcript, removed))
        return make_change(thread, "back", splices, then, entry=inverse)

    before, behind = _split_behind(thread.transcript, entry.base)
    staying = intersect(behind, subtract(keep, entry.leaving))
    returning = subtract(entry.returning, join([before, staying]))
    removed = subtract(behind, staying)
    splices = _removals(thread.transcript, removed)
    if returning:
        splices.append(Splice(after=entry.base, inserted=returning))
    return make_change(thread, "back", splices, then, entry=replace(entry, returning=removed))


def places_of(transcript: Ranges, positions: Ranges) -> tuple[tuple[int | None, Ranges], ...]:
    """Return positions of a transcript as runs of neighbours, each with the position before it, oldest first."""
    places: list[tuple[int | None, Ranges]] = []
    before: int | None = None
    # Two positions in a row may be apart in the transcript, but not within one of its pairs.
    for pair in transcript:
        rest = subtract((pair,), positions)
        for start, stop in subtract((pair,), rest):
            after = start - 1 if start > pair[0] else before
            if places and after == places[-1][1][-1][1] - 1:
                places[-1] = (places[-1][0], join([places[-1][1], ((start, stop),)]))
            else:
                places.append((after, ((start, stop),)))
        before = pair[1] - 1
    return tuple(places)


def _removals(transcript: Ranges, removed: Ranges) -> list[Splice]:
    """Return the splices that remove positions, last ones first."""
    places = reversed(places_of(transcript, removed))
    return [Splice(after=after, removed=run) for after, run in places]


def undo(thread: Thread, *, keep: Ranges = ()) -> Change | None:
    """Return the change that takes the newest step back; `None` if there is none."""
    if not thread.undo:
        return None
    change = turn_back(thread, thread.undo[-1], keep=keep)
    end = end_of(subtract(apply(thread, change).transcript, keep))
    return replace(
        change, cause="undo", takes_back="undo", keeps_redo=_can_redo(thread, keep), end=end
    )


def redo(thread: Thread, *, keep: Ranges = ()) -> Change | None:
    """Return the change that takes the newest undo back; `None` if there is none, or the thread went on."""
    if not _can_redo(thread, keep):
        return None
    change = turn_back(thread, thread.redo[-1][0], keep=keep)
    return replace(change, cause="redo", takes_back="redo")


def _can_redo(thread: Thread, keep: Ranges) -> bool:
    end = end_of(subtract(thread.transcript, keep))
    return bool(thread.redo) and thread.redo[-1][1] == end
