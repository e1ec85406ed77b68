"""The command `/restore`: what a person orders without naming a branch, or by the id of one."""

from collections.abc import Sequence

from unsay.effects import Steps
from unsay.errors import UnknownBranchError, UnsayError
from unsay.history.branch import list_stored_branches
from unsay.messages.annotations import in_turns
from unsay.operations.automatic import turns_after
from unsay.operations.forget import find_forgotten, restore_step
from unsay.operations.pending import refused
from unsay.operations.restore import restore
from unsay.operations.rollback import count_changes, load_branches, place_name
from unsay.operations.state_history import add_note
from unsay.operations.visibility import take_step
from unsay.runtime import Scope
from unsay.state import NoticeDue, RollbackRequest, State, Update, merge_messages
from unsay.types import BranchRef

NOTHING_REMOVED = "There is no removed branch to restore in this conversation"


def newest_removed(state: State, scope: Scope) -> Steps[str]:
    """Return the id of the newest branch with messages that the transcript lacks.

    Branches that hold only rejected drafts do not count. Raises `UnknownBranchError` if there is
    none, `DatabaseCorruptError` if a newer branch is damaged.
    """
    present = {message.id for message in state["messages"]}
    for ref in reversed(removed_branches(state)):
        (branch,) = yield from load_branches([ref["id"]], scope, [ref])
        if not present.issuperset(message.id for message in branch["messages"]):
            return branch["id"]
    raise UnknownBranchError(NOTHING_REMOVED)


def places_to_restore(state: State, what: str) -> set[str | None]:
    """Return the ids of the messages that `/restore WHAT` needs in the state; `None` is the start.

    A branch needs the message that it followed. The newest branches may hold only drafts; then the
    branches before them are included, up to the first one of another kind. Only branches whose id
    begins with `what` count; the set is empty if there are none.
    """
    places: set[str | None] = set()
    for ref in reversed(removed_branches(state, what)):
        places.add(ref["base"])
        if ref["kind"] != "draft":
            break
    return places


def removed_branches(state: State, what: str = "") -> list[BranchRef]:
    """Return the references to the branches that hold messages or drafts, oldest first; maybe none.

    Only those whose id begins with `what` are included. Branches of commands alone are left out.
    """
    refs = state.get("branches", [])
    return [ref for ref in refs if ref["size"] and ref["id"].startswith(what)]


def restore_ordered(state: State, scope: Scope, request: RollbackRequest) -> Steps[Update]:
    """Return the update that carries out `/restore` in a graph; the command is the whole turn.

    The request's `to` is what to restore, `None` the newest branch. A notice says what returned. An
    error of unsay becomes a notice too, and then nothing is changed.
    """
    turn, texts = state["turn"], scope.texts(state["messages"])
    try:
        update = yield from _restored(state, scope, request["to"], turn["pending"])
    except UnsayError as error:
        return refused(state, texts, error)
    after = merge_messages(state["messages"], [update["messages"]])
    end = next((m.id for m in reversed(in_turns(after)) if m.id not in turn["pending"]), None)
    where = place_name({**state, **update, "messages": after}, end, texts)
    removed, restored = count_changes(state["messages"], update["messages"])
    left = turns_after(state, update)
    changes = texts.changes(turns=left, removed=removed, restored=restored)
    text = texts.restored.format(where=where, changes=changes)
    update["notice"] = NoticeDue(text=text, answers=turn["pending"])
    update["turn"] = {**turn, "number": left + 1, "done": True}
    update["state_history"] = add_note(state, scope, "rollback", "restore", None, number=left)
    return update


def _restored(
    state: State, scope: Scope, what: str | None, pending: Sequence[str]
) -> Steps[Update]:
    what = what or (yield from newest_removed(state, scope))
    if (entry := find_forgotten(state, what)) is not None:
        return (yield from take_step(state, scope, restore_step(state, entry, what)))
    refs = state.get("branches", [])
    if scope.address is None:
        branches = [ref["body"] for ref in refs if "body" in ref]
    else:
        branches = yield from list_stored_branches(*scope.address, named=what)
    return (yield from restore(state, scope, what, branches, pending))
