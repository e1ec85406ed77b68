"""Ids of states: LangGraph makes them from the clock, and takes the greatest as a thread's newest.

So a state that was written while a clock was ahead would hide all later ones. Its time is given to
LangGraph as that of the last id it made: every id that it makes in this process is then greater.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import langgraph.checkpoint.base.id
from langgraph.checkpoint.base import CheckpointTuple

from unsay.errors import ConflictError

# Any: LangGraph annotates the time of its last id as `None`.
_IDS: Any = langgraph.checkpoint.base.id

# Time 0 of the ids, in units of 100 ns. Source: RFC 9562, section 5.6.
_EPOCH = datetime(1582, 10, 15, tzinfo=UTC)
# Ids of later times are not followed: no id can be greater than those of the year 5236.
_LAST = int((datetime(5000, 1, 1, tzinfo=UTC) - _EPOCH).total_seconds()) * 10_000_000


def follow(checkpoint_id: str | None) -> None:
    """Have LangGraph make only ids greater than this one; `None` and foreign ids are ignored."""
    ticks = _ticks(checkpoint_id or "")
    last = _IDS._last_v6_timestamp
    # No call between the reading and the assignment: another Python thread may make an id.
    if ticks < _LAST and (last is None or last < ticks):
        _IDS._last_v6_timestamp = ticks


def follow_or_refuse(newest: CheckpointTuple | None, thread_id: str) -> None:
    """Call `follow` for a thread's newest state, before a run or an update writes a newer one.

    Raises `ConflictError` if LangGraph still makes a smaller id: the new state would be lost.
    """
    checkpoint_id = newest.checkpoint["id"] if newest else ""
    follow(checkpoint_id)
    if str(_IDS.uuid6()) > checkpoint_id:
        return
    until = _EPOCH + timedelta(seconds=_ticks(checkpoint_id) // 10_000_000)
    behind = until - datetime.now(UTC).replace(microsecond=0)
    raise ConflictError(
        f"The newest state of the thread {thread_id!r} is from {until:%Y-%m-%d %H:%M:%S} UTC, and the clock "
        f"is {behind} behind: a turn would be lost until then. Copy the messages to another thread. "
        "Nothing was stored, and no model was called"
    )


def _ticks(checkpoint_id: str) -> int:
    """Return the time in an id; 0 if it is not an id of LangGraph."""
    try:
        parsed_id = _IDS.UUID(hex=checkpoint_id)
    except ValueError:
        return 0
    return parsed_id.time if parsed_id.version == 6 else 0
