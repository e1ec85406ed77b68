"""Where a rollback goes: the last message that stays in the transcript."""

from collections.abc import Sequence

from unsay.errors import (
    AmbiguousCheckpointError,
    InputError,
    NothingToUndoError,
    UnknownCheckpointError,
)
from unsay.history.branch import Line
from unsay.history.checkpoints import by_age, find_checkpoint
from unsay.messages.annotations import is_answer, is_question, spoken
from unsay.messages.boundaries import safe_cut

NUMBER_CHARS = 9
"""Most digits of a typed number of turns; a longer one can only be a checkpoint's name."""


def landing_of_drafts(line: Line, base: str | None, failures: int) -> str | None:
    """Return where a failed draft goes back to.

    The first failure of a turn goes to the last checkpoint, each further one to an older
    checkpoint, as far as there are any. Without one it is the start of the turn, after `base`.
    """
    positions = line.positions()
    last = positions.get(base, -1) - (failures > 1)
    marks = by_age(line.checkpoints, positions, before=last)
    return safe_base(line, marks[0]["message_id"] if marks else base)


def safe_base(line: Line, base: str | None) -> str | None:
    """Return the message at or before this one after which the transcript may be cut."""
    place = safe_cut(line.messages, line.index_of(base) + 1, towards="older")
    return line.id_at(place - 1)


def landing_of_context(line: Line, start: int) -> str | None:
    """Return the last checkpoint before a rejected exchange that begins at an index."""
    marks = by_age(line.checkpoints, line.positions(), before=start - 1)
    return safe_base(line, marks[0]["message_id"] if marks else line.id_at(start - 1))


def landing_of_person(line: Line, target: str | None, pending: Sequence[str]) -> str | None:
    """Return where a person's rollback goes.

    Without a target it goes to the last checkpoint before the newest answer, and without one to
    the start of the last turn.

    Raises:
        UnknownCheckpointError: No checkpoint matches.
        AmbiguousCheckpointError: Several checkpoints match.
        NothingToUndoError: Nothing comes before the pending question.
    """
    if target:
        return safe_base(line, find_checkpoint(line.checkpoints, target)["message_id"])
    said = [m for m in spoken(line.messages) if m.id not in pending]
    if not said:
        raise NothingToUndoError("This conversation has nothing to go back from yet")
    positions = line.positions()
    marks = by_age(line.checkpoints, positions, before=positions[said[-1].id] - 1)
    if marks:
        return safe_base(line, marks[0]["message_id"])
    # A question may be several messages, with documents before it.
    start = next((i for i in range(len(said) - 1, -1, -1) if is_question(said[i])), 0)
    while start > 0 and said[start - 1].type == "human":
        start -= 1
    return safe_base(line, line.id_at(positions[said[start].id] - 1))


def landing_of_turns(line: Line, turns: int, pending: Sequence[str]) -> str | None:
    """Return where a rollback of N answered turns goes, their documents included.

    Raises:
        InputError: The number is under 1.
        NothingToUndoError: There are fewer turns.
    """
    if isinstance(turns, bool) or not isinstance(turns, int) or turns < 1:
        raise InputError(f"turns={turns!r} is no number of turns: give a whole number from 1")
    said = [m for m in spoken(line.messages) if m.id not in pending]
    ends = [index for index, message in enumerate(said) if is_answer(message)]
    if turns > len(ends):
        raise NothingToUndoError(
            f"turns={turns!r} is more than this conversation has: {len(ends)} answered "
            f"turn{'s' * (len(ends) != 1)} to go back over"
        )
    first = 0 if turns == len(ends) else ends[-turns - 1] + 1
    while said[first].type == "system":
        first += 1
    return safe_base(line, line.id_at(line.index_of(said[first].id) - 1))


def landing_of_order(line: Line, argument: str, pending: Sequence[str]) -> str | None:
    """Return where `/rollback` goes: a checkpoint by name or id, else N turns back.

    Raises:
        UnknownCheckpointError: No checkpoint matches.
        AmbiguousCheckpointError: Several checkpoints match.
        InputError: The number is 0.
        NothingToUndoError: There are fewer turns, or none at all.
    """
    if _is_number(line, argument):
        return landing_of_turns(line, int(argument), pending)
    return landing_of_person(line, argument or None, pending)


def _is_number(line: Line, argument: str) -> bool:
    named = any(each["name"] == argument for each in line.checkpoints)
    return argument.isdecimal() and len(argument) <= NUMBER_CHARS and not named


def landing_places(
    line: Line, target: str | None, *, number: bool = True
) -> tuple[set[str | None], int]:
    """Return what must be loaded before a target can be resolved: messages, and turns.

    `number` allows the target to be a number of turns.
    """
    if not target:
        return _newest_offloaded(line), 2
    if number and _is_number(line, target):
        return set(), int(target) + 1
    try:
        return {find_checkpoint(line.checkpoints, target)["message_id"]}, 0
    except (UnknownCheckpointError, AmbiguousCheckpointError):
        return set(), 0


def _newest_offloaded(line: Line) -> set[str | None]:
    """Messages of the newest offloaded checkpoints, unless one before the newest answer is loaded."""
    newest = next((m.id for m in reversed(spoken(line.messages)) if is_answer(m)), None)
    sealed = [each for each in line.checkpoints if each.get("sealed")]
    if any(not each.get("sealed") and each["message_id"] != newest for each in line.checkpoints):
        return set()
    # Two of them: if the newest answer is offloaded itself, one may be at that answer.
    return {each["message_id"] for each in sorted(sealed, key=lambda each: each["turn"])[-2:]}


def landing_of(
    line: Line, to: str | None, turns: int | None, pending: Sequence[str] = ()
) -> str | None:
    """Return where a host's rollback goes: to a checkpoint, or N turns back.

    Raises:
        InputError: Both are given, or the number is under 1.
        NotFoundError: There is no such checkpoint or turn.
        AmbiguousCheckpointError: Several checkpoints match.
    """
    if to is not None and turns is not None:
        raise InputError(f"to={to!r} and turns={turns!r} are two places: give one of them")
    if turns is not None:
        return landing_of_turns(line, turns, pending)
    return landing_of_person(line, to, pending)
