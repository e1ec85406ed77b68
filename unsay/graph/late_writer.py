"""A writer that lost its thread and still wrote: the turns of both writers are kept.

A checkpointer of LangGraph cannot check a lease in the transaction that writes. So a process that was
suspended may write its state after another writer took over the thread. The state of the later term
of the lease is the one that runs go on from; what only the late state has becomes a branch.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast
from uuid import uuid4

from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import StateSnapshot, StateUpdate

from unsay.effects import Call, Steps
from unsay.graph.time_travel import END_NODE, Place, due_again
from unsay.history.branch import Label
from unsay.operations.provenance import false_claims, with_messages
from unsay.operations.record_events import message_body, write_ahead
from unsay.operations.rollback import readable_branches
from unsay.operations.stopped import keep_beside
from unsay.runtime import Scope
from unsay.state import State, Update

TERM = "unsay_term"
"""Where the metadata of a state has the term of the lease under which it was written."""

# States among which those of two writers are looked for. A late writer writes one state, since its
# next check refuses it.
LOOK_BACK = 20
# So many terms after a takeover, late states with older ids are looked for.
LATE_TERMS = 8


def put_right(place: Place, unreleased: int, lost: int | None = None) -> Steps[None]:
    """Make the latest term's state the newest, and keep a late writer's messages as a branch.

    A term is the number of a lease; each new owner gets a higher one. Nothing is written if the
    newest state shows that no late writer can have written. Before a run, if one still may but
    has not, the newest state is copied, so that what it writes too late does not reach the copy.
    A state that waits for a decision is not copied. Raises `DatabaseCorruptError` if what is stored
    is damaged, and the errors of the checkpointer.

    Args:
        place: The thread; the caller holds its lock and lease.
        unreleased: The newest term whose owner did not release it, and so may still write.
        lost: The term that the caller lost during its run; `None` before a run.
    """
    get = Call.of(place.saver.get_tuple, place.saver.aget_tuple, place.newest())
    found = yield get
    if found is None or (lost is None and _term(found) > unreleased + LATE_TERMS):
        return
    states = yield from _history(place)
    if lost is None and _term(found) > unreleased:
        # A late writer that made its state's id before it was suspended, and then ended.
        if (older := _beside(states, unreleased)) is not None:
            yield from _keep_late(place, older, max(states, key=_term), is_newest=False)
        return
    late = next((each for each in states if lost is None or _term(each) == lost), None)
    latest = max(states, key=_term)
    if late is not None and 0 < _term(late) < _term(latest):
        yield from _keep_late(place, late, latest, is_newest=late is states[0])
    elif lost is None and not states[0].interrupts:
        # A late writer's messages are stored with the state that its run began from, and every
        # state after that one reads them. A copy has no part in them.
        yield from place.write([StateUpdate(None, "__copy__")])


def _beside(states: Sequence[StateSnapshot], unreleased: int) -> StateSnapshot | None:
    """Return a late writer's newest state that the thread's newest state does not build on.

    Only states of the term `unreleased` and earlier ones count. `None` if there is none.
    """
    line: RunnableConfig | None = states[0].config
    for state in states:
        if line is not None and _checkpoint_id(state.config) == _checkpoint_id(line):
            line = state.parent_config
        elif 0 < _term(state) <= unreleased:
            return state
    return None


def _checkpoint_id(config: RunnableConfig) -> str:
    return str(config["configurable"]["checkpoint_id"])


def _term(state: Any) -> int:
    """Return the term in which a state was written; 0 if it does not say."""
    return int((state.metadata or {}).get(TERM, 0))


def _history(place: Place) -> Steps[list[StateSnapshot]]:
    """Return the thread's newest states, newest first, at most `LOOK_BACK`."""

    async def awaited() -> list[StateSnapshot]:
        history = place.graph.aget_state_history(place.newest(), limit=LOOK_BACK)
        return [state async for state in history]

    found: list[StateSnapshot] = yield Call(
        blocking=lambda: list(place.graph.get_state_history(place.newest(), limit=LOOK_BACK)),
        awaitable=awaited,
    )
    return found


def _keep_late(
    place: Place, late: StateSnapshot, latest: StateSnapshot, *, is_newest: bool
) -> Steps[None]:
    """Store the messages that only a late state has as a branch, and go on from the latest state.

    `late` is the state of the writer that lost the thread, `latest` that of the latest term. If
    `late` is not the thread's newest state (`is_newest`), and has no messages of its own, nothing
    is written.
    """
    before: list[AnyMessage] = []
    if late.parent_config is not None:
        before = _messages((yield from place.snapshot(late.parent_config)))
    state, scope = cast("State", latest.values), place.scope()
    added = _only_in(_messages(late), before, _messages(latest))
    if added:
        kept = yield from _in_branches(state, scope)
        added = [message for message in added if message_body(message) not in kept]
    update = Update()
    if added:
        state = with_messages(state, (yield from false_claims(state, scope)))
        label = Label(kind="host", reason="another writer took over", created_at=scope.now())
        after = _common(_messages(late), before, _messages(latest))
        update = keep_beside(state, scope, added, after=after, label=label)
        update = yield from write_ahead(state, scope, update)
    elif not is_newest:
        return
    there = replace(place, config=_at(place, latest.config))
    yield from there.write([StateUpdate(dict(update), END_NODE), *due_again(latest.next)])


def _in_branches(state: State, scope: Scope) -> Steps[set[str]]:
    """Return the bodies (`message_body`) of all messages in the branches that a state lists.

    Branches that are damaged or no longer kept are left out.
    """
    refs = state.get("branches", [])
    branches = yield from readable_branches([ref["id"] for ref in refs], scope, refs)
    return {message_body(message) for branch in branches for message in branch["messages"]}


def _messages(state: StateSnapshot) -> list[AnyMessage]:
    return list(state.values.get("messages", []))


def _only_in(
    messages: Sequence[AnyMessage], before: Sequence[AnyMessage], latest: Sequence[AnyMessage]
) -> list[AnyMessage]:
    """Return the messages of a late state that neither the state before nor the latest one has.

    A message whose id the latest state uses for another message gets a new id.
    """
    bodies = {(m.id, message_body(m)) for m in (*before, *latest)}
    ids = {m.id for m in latest}
    return [
        # Two answers to one question may have the same id.
        m.model_copy(update={"id": uuid4().hex}) if m.id in ids else m
        for m in messages
        if (m.id, message_body(m)) not in bodies
    ]


def _common(
    messages: Sequence[AnyMessage], before: Sequence[AnyMessage], latest: Sequence[AnyMessage]
) -> str | None:
    """Return the id of the last message that a late state, `before` and `latest` have in common.

    `before` is the state from which the late run began, `latest` that of the latest term. `None` if
    they have no message in common.
    """
    ids = {m.id for m in latest} & {m.id for m in before}
    return next((m.id for m in reversed(messages) if m.id in ids), None)


def _at(place: Place, config: RunnableConfig) -> RunnableConfig:
    """Return the place's configuration with the checkpoint id that `config` has."""
    named = {"checkpoint_id": config["configurable"]["checkpoint_id"]}
    given = place.newest()
    return {**given, "configurable": {**given["configurable"], **named}}
