"""Where a rollback goes: the last message that stays in the transcript."""

from collections.abc import Sequence

from langchain_core.messages import AnyMessage

from unsay.errors import (
    AmbiguousCheckpointError,
    InputError,
    NothingToUndoError,
    UnknownCheckpointError,
)
from unsay.history.branch import LiveBranch
from unsay.history.checkpoints import by_age, find_checkpoint
from unsay.messages.annotations import answers_by_turn, in_turns, is_answer, is_question, spoken
from unsay.messages.boundaries import safe_split

# Most digits of a typed number of turns; a longer one can only be a checkpoint's name.
NUMBER_CHARS = 9


def target_of_drafts(live: LiveBranch, base: str | None, failures: int) -> str | None:
    """Return the id of the last message to keep after a failed draft; `None` is the start.

    It is for `rollback_to="checkpoint"`. `base` is the last message before the turn, `failures` the
    number of the turn's failed drafts. The result belongs to the last checkpoint up to `base`. From
    the second failure on it belongs to the last one before `base`: each rollback moved `base` to its
    checkpoint, so each failure goes back farther. Without a checkpoint the result is `base`.
    """
    last = live.positions().get(base, -1) - (failures > 1)
    return _last_checkpoint(live, through=last, otherwise=base)


def target_of_context(live: LiveBranch, start: int) -> str | None:
    """Return the id of the last message to keep if an exchange fails; `None` is the start.

    It is for `rollback_to="checkpoint"`, and belongs to the last checkpoint before index `start`,
    where the exchange begins. Without a checkpoint it is the message before `start`.
    """
    return _last_checkpoint(live, through=start - 1, otherwise=live.position_before(start))


def _last_checkpoint(live: LiveBranch, *, through: int, otherwise: str | None) -> str | None:
    """Return the message id of the newest checkpoint up to index `through`, else `otherwise`.

    Checkpoints within a turn, at the thread's start or at offloaded messages do not count. The
    id, also `otherwise`, is moved back if a tool call would stay without its result. `None` is
    the start.
    """
    whole = [each for each in live.checkpoints if not each.get("in_turn")]
    checkpoints = by_age(whole, live.positions(), through=through)
    return safe_base(live, checkpoints[0]["message_id"] if checkpoints else otherwise)


def safe_base(live: LiveBranch, base: str | None) -> str | None:
    """Return `base`, or an earlier message's id if a tool call would be split from its result.

    `None` is the start. Raises `ConflictError` if `base` is not in `live`.
    """
    index = safe_split(live.messages, live.index_of(base) + 1, towards="older")
    return live.id_at(index - 1)


def target_of(
    live: LiveBranch, to: str | None = None, turns: int | None = None, pending: Sequence[str] = ()
) -> str | None:
    """Return the id of the last message that an ordered rollback keeps; `None` is the start.

    Without `to` (a checkpoint) and `turns` it is that of the last checkpoint before the last
    message, where checkpoints at a turn's steps do not count, or without one the place before the
    last turn. `pending` messages wait for an answer and do not count.

    Raises:
        UnknownCheckpointError: No checkpoint matches `to`.
        AmbiguousCheckpointError: Several match.
        InputError: Both `to` and `turns` are given, or `turns` is not 1 or more.
        NothingToUndoError: There are fewer answered turns than `turns`, or no messages.
        ConflictError: The checkpoint's message is not in `live`: load it first.
    """
    if to is not None and turns is not None:
        raise InputError(f"Give a checkpoint ({to!r}) or a number of turns ({turns!r}), not both")
    if to is not None:
        return safe_base(live, find_checkpoint(live.checkpoints, to)["message_id"])
    messages = [m for m in in_turns(live.messages) if m.id not in pending]
    positions = live.positions()
    if turns is not None:
        start = _start_of_turns(messages, turns)
        return safe_base(live, live.position_before(positions[messages[start].id]))
    if not messages:
        raise NothingToUndoError("This conversation has no turns to roll back yet")
    # A question may be several messages, with documents before it.
    start = next((i for i in range(len(messages) - 1, -1, -1) if is_question(messages[i])), 0)
    while start > 0 and messages[start - 1].type == "human":
        start -= 1
    start_of_turn = live.position_before(positions[messages[start].id])
    return _last_checkpoint(live, through=positions[messages[-1].id] - 1, otherwise=start_of_turn)


def _start_of_turns(messages: Sequence[AnyMessage], turns: int) -> int:
    """Return the index of the message at which the newest `turns` answered turns begin.

    Raises `InputError` if `turns` is not 1 or more, `NothingToUndoError` if there are fewer.
    """
    if isinstance(turns, bool) or not isinstance(turns, int) or turns < 1:
        raise InputError(f"{turns!r} is not a number of turns: give a whole number of 1 or more")
    places = {message.id: index for index, message in enumerate(messages)}
    ends = [places[answers[-1].id] for answers in answers_by_turn(messages)]
    if turns > len(ends):
        raise NothingToUndoError(
            f"{turns!r} turn{'s' * (turns != 1)} cannot be rolled back: the conversation has "
            f"{len(ends)} answered turn{'s' * (len(ends) != 1)}"
        )
    first = 0 if turns == len(ends) else ends[-turns - 1] + 1
    while messages[first].type == "system":
        first += 1
    return first


def target_of_order(live: LiveBranch, argument: str, pending: Sequence[str]) -> str | None:
    """Return the id of the last message that `/rollback ARGUMENT` keeps; `None` is the start.

    The argument is a number of turns or a checkpoint; empty, it is neither. Raises what `target_of`
    raises: that no checkpoint or several match, that there are too few turns, and so on.
    """
    turns = turns_typed(live, argument)
    return target_of(live, argument or None if turns is None else None, turns, pending)


def turns_typed(live: LiveBranch, argument: str) -> int | None:
    """Return the number of turns that a person typed; `None` for any other text.

    A number that is the name of a checkpoint gives `None` too.
    """
    named = any(each["name"] == argument for each in live.checkpoints)
    typed = argument.isdecimal() and len(argument) <= NUMBER_CHARS and not named
    return int(argument) if typed else None


def rollback_targets(
    live: LiveBranch, to: str | None, turns: int | None
) -> tuple[set[str | None], int]:
    """Return what to load before `target_of` is called: message ids, and a number of newest turns.

    For `turns` there are no ids, and one turn more. For `to` the id is that of the checkpoint's
    message, or there is none if `to` names no checkpoint or several; the number is 0. Without both
    the number is 2; if no checkpoint in the state is a target, the ids are those of the newest two
    offloaded ones.
    """
    if turns is not None:
        return set(), turns + 1 if isinstance(turns, int) else 0
    if to is not None:
        try:
            return {find_checkpoint(live.checkpoints, to)["message_id"]}, 0
        except (UnknownCheckpointError, AmbiguousCheckpointError):
            return set(), 0
    newest = next((m.id for m in reversed(spoken(live.messages)) if is_answer(m)), None)
    whole = [each for each in live.checkpoints if not each.get("in_turn")]
    offloaded = [each for each in whole if each.get("offloaded")]
    # A checkpoint at the start of the thread has no message, and is no target here.
    if any(
        not each.get("offloaded") and each["message_id"] not in (None, newest) for each in whole
    ):
        return set(), 2
    # Two of them: one may be at the newest answer itself, which is no target.
    return {each["message_id"] for each in sorted(offloaded, key=lambda each: each["turn"])[-2:]}, 2
