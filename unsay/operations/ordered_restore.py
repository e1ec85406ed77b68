"""The command `/restore`: what a person orders without naming a branch, or by the id of one."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from langchain_core.messages import AnyMessage

from unsay.context.exclusions import cleared_ids, forgotten_ids
from unsay.effects import Steps
from unsay.errors import UnknownBranchError, UnsayError
from unsay.history.branch import list_stored_branches
from unsay.messages.content import same_name
from unsay.operations.forget import restore_step
from unsay.operations.offload import load_segments
from unsay.operations.pending import refused
from unsay.operations.restore import branch_with, restore
from unsay.operations.rollback import end_change, load_branches
from unsay.operations.visibility import take_step
from unsay.runtime import Scope
from unsay.state import (
    NoticeDue,
    RollbackRequest,
    State,
    Update,
    offloaded_of,
    with_update,
)
from unsay.storage.segments import find_page
from unsay.types import Forgotten, Segment, StoredBranch


def newest_removed(state: State, scope: Scope) -> Steps[str]:
    """Return the id of the newest branch with messages that the transcript lacks.

    Branches that hold only rejected drafts do not count. Raises `UnknownBranchError` if there is
    none, `DatabaseCorruptError` if a newer branch is damaged.
    """
    present = {message.id for message in state["messages"]}
    # A branch of commands alone has no size.
    for ref in reversed([ref for ref in state.get("branches", []) if ref["size"]]):
        (branch,) = yield from load_branches([ref["id"]], scope, [ref])
        if not present.issuperset(message.id for message in branch["messages"]):
            return branch["id"]
    raise UnknownBranchError("There is no removed branch to restore in this conversation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """What a person wants to restore under the id or label `what`.

    `entry` is what was forgotten under it, `None` if nothing was. `branches` are the thread's
    stored ones, oldest first; empty with an `entry`. `needed` has the ids of the messages that the
    state must hold before it is restored; `None` among them is the start of the transcript.
    """

    what: str
    entry: Forgotten | None
    branches: Sequence[StoredBranch]
    needed: Collection[str | None]


def find_removed(state: State, scope: Scope, what: str | None) -> Steps[Removed]:
    """Return what to restore; `None` instead of a name is the newest branch.

    Nothing is changed or loaded into the state. A name that nothing has is no error here: `restore`
    raises it. Raises `UnknownBranchError` without a name if there is no branch, or for a branch's id
    that no branch has; `ConflictError` if several branches' ids begin with it;
    `DatabaseCorruptError` for damaged data.
    """
    what = what or (yield from newest_removed(state, scope))
    if (entry := (yield from _find_forgotten(state, scope, what))) is not None:
        return Removed(what=what, entry=entry, branches=(), needed={what, *entry["message_ids"]})
    if scope.address is None:
        branches = [ref["body"] for ref in state.get("branches", []) if "body" in ref]
    else:
        branches = yield from list_stored_branches(*scope.address, named=what)
    source = branch_with(branches, what)
    needed = () if source is None else (source["base"],)
    return Removed(what=what, entry=None, branches=branches, needed=needed)


def _find_forgotten(state: State, scope: Scope, what: str) -> Steps[Forgotten | None]:
    """Return the newest entry of forgotten messages that `what` names; `None` if there is none.

    `what` is an entry's id, a topic's id, the label of a single topic, or the id of a forgotten
    message, which may be offloaded. Raises `DatabaseCorruptError` if a segment is damaged.
    """
    entries = state.get("forgotten", [])[::-1]
    labelled = [each["id"] for each in state.get("topics", []) if same_name(each["label"], what)]
    for name in (what, *(labelled if len(labelled) == 1 else ())):
        for entry in entries:
            if name in (entry["id"], entry.get("topic_id")):
                return entry
    messages: Sequence[AnyMessage] = state["messages"]
    segments: Sequence[Segment] = state.get("segments", [])
    is_live = any(message.id == what for message in messages)
    if entries and not is_live and scope.address is not None:
        page = yield from find_page(*scope.address, offloaded_of(state), what)
        messages, segments = (page.messages, page.segments) if page else ((), ())
    for entry in entries:
        named = forgotten_ids(messages, segments, [entry]) | cleared_ids(messages, [entry])
        if what in named:
            return entry
    return None


def restore_ordered(state: State, scope: Scope, request: RollbackRequest) -> Steps[Update]:
    """Return the update that carries out `/restore` in a graph; the command is the whole turn.

    The request's `to` is what to restore, `None` the newest branch. A notice says what returned. An
    error of unsay becomes a notice too, and then nothing is changed.
    """
    turn, texts = state["turn"], scope.texts(state["messages"])
    try:
        loaded, update = yield from _restored(state, scope, request["to"], turn["pending"])
    except UnsayError as error:
        return refused(state, texts, error)
    state = with_update(state, loaded)
    moved = end_change(state, scope, update, turn["pending"], event="restore")
    changes = texts.changes(turns=moved.turns, removed=moved.removed, restored=moved.restored)
    text = texts.say("restored", where=moved.at, changes=changes)
    update["notice"] = NoticeDue(text=text, answers=turn["pending"])
    # Loaded messages come first: the later writes may remove some of them.
    return {**loaded, **update, "messages": [*loaded.get("messages", []), *update["messages"]]}


def _restored(
    state: State, scope: Scope, what: str | None, pending: Sequence[str]
) -> Steps[tuple[Update, Update]]:
    """Return the update that loads the offloaded messages which are needed, and the restore's own."""
    removed = yield from find_removed(state, scope, what)
    loaded = yield from load_segments(state, scope, removed.needed)
    state = with_update(state, loaded)
    if removed.entry is not None:
        step = restore_step(state, removed.entry, removed.what)
        return loaded, (yield from take_step(state, scope, step))
    update = yield from restore(state, scope, removed.what, removed.branches, pending)
    return loaded, update
