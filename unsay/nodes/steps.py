"""The steps that can be undone: the newest in the state, the older ones in the store, in pages."""

import hashlib
import json
from collections.abc import Sequence

from unsay.effects import Steps
from unsay.errors import DatabaseCorruptError
from unsay.history.items import get_item, put_item, thread_namespace
from unsay.services import Scope
from unsay.state import State, Update
from unsay.types import Operation

NEWEST = 16
"""How many steps stay in the state when the older ones are put away."""

MOST = 48
"""How many it holds before that."""

WITHOUT_STORE = 32
"""How many can be undone where there is no store."""


def put_away(state: State, scope: Scope) -> Steps[Update]:
    """Put the oldest of many steps into the store, so that the state stays small.

    Args:
        state: As a turn begins.
        scope: Of the run; without a store the oldest are forgotten.
    """
    steps = state.get("operations", [])
    if scope.store is None or scope.thread_id is None:
        return Update(operations=steps[-WITHOUT_STORE:]) if len(steps) > MOST else Update()
    if len(steps) <= MOST:
        return Update()
    before, old = state.get("older_steps"), steps[:-NEWEST]
    name = _page_id(before, old)
    place = thread_namespace("steps", scope.thread_id)
    yield put_item(scope.store, place, name, {"before": before, "steps": old})
    return Update(operations=steps[-NEWEST:], older_steps=name)


def brought_back(state: State, scope: Scope) -> Steps[Update]:
    """The newest steps that were put away, where the state has none left.

    Raises:
        DatabaseCorruptError: They are missing or were changed.
    """
    name = state.get("older_steps")
    if state.get("operations") or name is None or scope.store is None or scope.thread_id is None:
        return Update()
    item = yield get_item(scope.store, thread_namespace("steps", scope.thread_id), name)
    value = {} if item is None else item.value
    if _page_id(value.get("before"), value.get("steps", [])) != name:
        raise DatabaseCorruptError(
            f"The steps {name!r} of this thread are missing or were changed: put a backup of the "
            "database in its place, or go back to a checkpoint or by a number of turns"
        )
    return Update(operations=list(value["steps"]), older_steps=value["before"])


def _page_id(before: str | None, steps: Sequence[Operation]) -> str:
    """A name that follows from what is in a page, so that a node run twice writes one."""
    plain = json.dumps([before, list(steps)], sort_keys=True)
    return f"steps-{hashlib.sha256(plain.encode()).hexdigest()[:20]}"
