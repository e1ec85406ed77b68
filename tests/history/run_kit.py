"""Changing a stored run, as its graph does."""

from collections.abc import Callable

from langgraph.store.base import BaseStore

from unsay.effects import Steps
from unsay.history.runs import Run, get_run, put_run


def change_run(
    store: BaseStore, thread_id: str, run_id: str, change: Callable[[Run], Run]
) -> Steps[Run]:
    """A run, read afresh, changed and written."""
    run = yield from get_run(store, thread_id, run_id)
    changed_run = change(run)
    if changed_run != run:
        yield from put_run(store, changed_run)
    return changed_run
