"""Archived steps: the oldest steps that can be undone are moved to the store, and loaded again."""

from langgraph.store.base import BaseStore

from unsay.effects import Steps
from unsay.runtime import Scope
from unsay.state import State, Update
from unsay.storage.items import thread_namespace
from unsay.storage.pages import Chain, make_page

# How many steps stay in the state when older ones are moved to the store.
NEWEST = 16
# How many steps the state holds before that.
MOST = 48
# How many steps can be undone without a store.
WITHOUT_STORE = 32


def archive_steps(state: State, scope: Scope) -> Steps[Update]:
    """Return the update that moves the oldest steps to the store; empty for up to `MOST` steps.

    The steps are stored at once. Without a store the oldest are dropped, and cannot be undone.
    """
    steps = state.get("operations", [])
    if len(steps) <= MOST:
        return Update()
    if scope.address is None:
        return Update(operations=steps[-WITHOUT_STORE:])
    page = make_page(state.get("older_steps"), {}, steps[:-NEWEST])
    yield _older_steps(*scope.address).put(page)
    return Update(operations=steps[-NEWEST:], older_steps=page.id)


def load_archived_steps(state: State, scope: Scope) -> Steps[Update]:
    """Return the update that loads the newest archived steps, so that they can be undone.

    It is empty if the state still has steps, if none are archived, or without a store. Raises
    `DatabaseCorruptError` if the archived steps are missing or damaged.
    """
    name = state.get("older_steps")
    if state.get("operations") or name is None or scope.address is None:
        return Update()
    chain = _older_steps(*scope.address)
    page = yield from chain.get(name)
    return Update(operations=chain.values(page), older_steps=page.before)


def _older_steps(store: BaseStore, thread_id: str) -> Chain:
    return Chain(
        store=store,
        namespace=thread_namespace("steps", thread_id),
        name="this thread's steps",
        hint=", or go back to a checkpoint or by a number of turns",
    )
