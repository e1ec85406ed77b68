"""Fork a thread: the branch that the new thread begins with, and the state it gets."""

from unsay.effects import Steps
from unsay.events.event_types import fork as forked
from unsay.history.branch import Label, Line, put_back, take_back
from unsay.messages.annotations import is_answer, spoken
from unsay.operations.compensation_plan import disown
from unsay.operations.pin import unsealed_pins
from unsay.operations.rollback import OPERATIONS, line_of, settle
from unsay.operations.targets import landing_of, safe_base
from unsay.runtime import Scope
from unsay.state import State, Update
from unsay.types import Operation

COMPARED = Label(kind="person", reason="compared", created_at="")
"""Label of changes that are never written."""


def branch_until(state: State, at: str | None, turns: int | None) -> Line:
    """Return the branch up to a checkpoint or N turns back; by default all that was answered.

    Raises:
        UnsayError: As a rollback to that place.
    """
    line, turn = line_of(state), state.get("turn")
    if at is not None or turns is not None:
        base = landing_of(line, at, turns)
    elif turn is not None and not turn["done"] and turn["pending"]:
        places = line.positions()
        first = min((places[name] for name in turn["pending"] if name in places), default=0)
        base = safe_base(line, line.id_at(first - 1))
    else:
        base = line.id_at(len(line.messages) - 1)
    return take_back(line, base, label=COMPARED).line


def fork(state: State, scope: Scope, line: Line, source: str) -> Steps[Update]:
    """Return the state of a new thread that begins with a copy of a branch.

    Args:
        state: Of the thread that is forked.
        scope: Of the new thread.
        line: From `branch_until`.
        source: Id of the thread that is forked.
    """
    unchanged = put_back(line, line.id_at(len(line.messages) - 1), [], label=COMPARED)
    update = settle(state, unchanged, [])
    update["messages"] = list(line.messages)
    update["operations"] = _turns_as_steps(line)
    update["pins"] = unsealed_pins(state.get("pins", []))
    update["forgotten"] = list(state.get("forgotten", []))
    yield from disown(line.messages, scope, source)
    scope.journal.returned |= {m.id or "" for m in line.messages}
    scope.journal.happenings.append(
        lambda stamp: [forked(line.messages, line.checkpoints, source=source, stamp=stamp)]
    )
    return update


def _turns_as_steps(line: Line) -> list[Operation]:
    """A step for each turn, so that undo in the fork removes them one by one."""
    ends = [m.id for m in spoken(line.messages) if is_answer(m)]
    lead = (i for i, m in enumerate(line.messages) if m.type != "system")
    before_first = next(lead, len(line.messages)) - 1
    bases = [line.id_at(before_first), *ends[:-1]] if ends else []
    return [Operation(kind="turn", base=base, cuts=[]) for base in bases][-OPERATIONS:]
