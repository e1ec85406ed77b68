"""A thread that a server copied: what the store has for the original is copied as well.

A server copies LangGraph's states only. They refer to offloaded segments, branches, steps and the
event log, which the store keeps by the thread's id.
"""

from unsay.effects import Steps
from unsay.runtime import Scope
from unsay.state import State, Update
from unsay.storage.items import Kind, put_items, thread_namespace
from unsay.storage.pagination import read_items

# What the states refer to. Runs, requests, usage and compensations stay with the original.
COPIED: tuple[Kind, ...] = ("branches", "event_log", "offloaded", "steps", "turns")


def copy_stored(state: State, scope: Scope) -> Steps[None]:
    """Copy the original's items in the store if a server copied this thread; else do nothing.

    The channel `home` of the state names the original. A damaged item is copied with an empty value:
    its readers find it damaged too.
    """
    original = state.get("home")
    if scope.address is None or original in (None, scope.thread_id):
        return
    store, thread_id = scope.address
    for kind in COPIED:
        source = thread_namespace(kind, str(original))
        found = yield from read_items(store, source, lambda item: (item.key, item.value))
        if found:
            yield put_items(store, thread_namespace(kind, thread_id), dict(found))


def at_home(state: State, scope: Scope) -> Update:
    """Return the update that writes the thread's id to `home`; empty if it is there, or without an id."""
    if scope.thread_id is None or state.get("home") == scope.thread_id:
        return Update()
    return Update(home=scope.thread_id)
