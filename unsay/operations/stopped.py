"""Questions whose run a host stopped: each stays in the transcript, or is kept as a branch.

A host stops a run when another message comes first. Then its question waits together with the new
one. A host that deletes the run, and with it the question, leaves a branch with the question.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from langchain_core.messages import AnyMessage

from unsay.effects import Steps
from unsay.errors import DatabaseCorruptError
from unsay.events.event_types import split_message
from unsay.history.branch import Change, Label, holder_of, replace_tail
from unsay.operations.pending import PendingInput, find_pending
from unsay.operations.rollback import live_branch, readable_branches, save_branch
from unsay.runtime import Scope
from unsay.state import State, Update
from unsay.storage.items import (
    drop_items,
    freeze_messages,
    get_item,
    put_item,
    thaw_messages,
    thread_namespace,
)
from unsay.types import StoredBranch

# The one item of a thread.
KEY = "newest"


def keep_stopped(state: State, scope: Scope) -> Steps[None]:
    """Store the questions that wait in the state of a run that the host stops.

    Nothing is stored if every question was answered, or without a store. Raises `InputError` if a
    message cannot be stored.
    """
    messages, turn = state.get("messages", []), state.get("turn")
    waiting = messages[find_pending(messages, turn).start :]
    if scope.address is None or not waiting:
        return
    store, thread_id = scope.address
    # An earlier question is kept until the state shows what became of it.
    earlier = yield from _stored(scope)
    ids = {message.id for message in waiting}
    kept = [*(each for each in earlier if each.id not in ids), *waiting]
    value = {"messages": freeze_messages(kept)}
    yield from put_item(store, thread_namespace("stopped", thread_id), KEY, value)


def stopped_questions(state: State, scope: Scope, pending: PendingInput) -> Steps[list[AnyMessage]]:
    """Return the questions of stopped runs that still wait, or that the host deleted.

    The item in the store is dropped only when the committed state shows that each of its questions
    was answered or is in a branch: a process may die after any step. A damaged item is dropped; the
    event `segment_lost` reports it.
    """
    stopped = yield from _stored(scope)
    if scope.address is None or not stopped:
        return []
    known = {message.id for message in state["messages"]}
    start = pending.interrupted.start if pending.interrupted else pending.start
    waiting = {message.id for message in state["messages"][start:]}
    branches: list[StoredBranch] = []
    if any(each.id not in known for each in stopped):
        refs = state.get("branches", [])
        branches = yield from readable_branches([ref["id"] for ref in refs], scope, refs)
    left = [
        each
        for each in stopped
        if each.id in waiting or (each.id not in known and holder_of(branches, each.id) is None)
    ]
    if not left:
        store, thread_id = scope.address
        yield from drop_items(store, thread_namespace("stopped", thread_id), [KEY])
    return left


def _stored(scope: Scope) -> Steps[list[AnyMessage]]:
    if scope.address is None:
        return []
    store, thread_id = scope.address
    namespace = thread_namespace("stopped", thread_id)
    try:
        item = yield from get_item(store, namespace, KEY)
        return (
            [] if item is None else cast("list[AnyMessage]", thaw_messages(item.value["messages"]))
        )
    except DatabaseCorruptError as error:  # The thread must not stay unusable because of it.
        scope.emit("segment_lost", error=str(error))
        yield from drop_items(store, namespace, [KEY])
        return []


def branch_of_deleted(state: State, scope: Scope, stopped: list[AnyMessage]) -> Update:
    """Keep as a branch the `stopped` questions that the host deleted; they are in no branch yet.

    The update is empty if there are none.
    """
    known = {message.id for message in state["messages"]}
    deleted = [message for message in stopped if message.id not in known]
    if not deleted:
        return Update()
    live = live_branch(state)
    start = find_pending(live.messages, state.get("turn")).start
    label = Label(kind="interrupted", reason="its run was deleted", created_at=scope.now())
    after = live.id_at(start - 1)
    return keep_beside(state, scope, deleted, after=after, label=label)


def keep_beside(
    state: State,
    scope: Scope,
    messages: Sequence[AnyMessage],
    *,
    after: str | None,
    label: Label,
) -> Update:
    """Keep as a branch messages that the transcript lacks; return the update that lists the branch.

    `after` is the id of the message that they would follow; `None` is the place before the first.
    Raises `ConflictError` if the state does not have that message. `label` describes the branch.
    """
    live = live_branch(state)
    base = live.before if after is None else after
    stays = [message.id or "" for message in live.messages[live.index_of(base) + 1 :]]
    # The event log has the messages as if they had come at the end, and then left.
    there = replace_tail(
        replace(live, messages=(*live.messages, *messages)), base, label=label, keep=stays
    )
    change = Change(
        live=live, writes=[], branch=there.branch, keep=tuple(stays), restored=(), only=None
    )
    for message in messages:
        scope.step_log.new_events += split_message(message)
    refs = save_branch(change, scope, state.get("branches", []))
    return Update(branches=refs)
