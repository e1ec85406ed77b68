"""Restore a branch, a message or a topic, copy from other branches, and fork a thread."""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from langchain_core.messages import AnyMessage

from unsay.context.manifest import key_of
from unsay.context.topics import by_topic, cleared_ids, current_topic_id, forgotten_ids
from unsay.effects import Steps
from unsay.errors import ConflictError, InputError, UnknownBranchError
from unsay.events import event_types
from unsay.history.branch import (
    Change,
    Label,
    LiveBranch,
    holder_of,
    list_stored_branches,
    put_in,
    replace_tail,
)
from unsay.memory.offload import load_all
from unsay.messages.annotations import annotate, answers_by_turn, is_answer, spoken, without_earlier
from unsay.messages.boundaries import safe_split, steps
from unsay.messages.content import same_name, words_of
from unsay.moves.compensate import disown
from unsay.phrases import Verb
from unsay.runtime import Scope
from unsay.state import State, Update, offloaded_of
from unsay.storage.segments import find_page
from unsay.transcript.forget import move_pins
from unsay.transcript.live import (
    OPERATIONS,
    live_branch,
    load_branches,
    safe_base,
    save_branch,
    settle,
    show_topic,
    target_of,
    with_step,
)
from unsay.transcript.pending import unanswered_ids
from unsay.types import BranchRef, Forgotten, Operation, Segment, StoredBranch, Topic

# Beginning of every branch's id.
BRANCH_PREFIX = "branch-"
# Kinds of the branches that automatic rollbacks make.
AUTOMATIC = ("draft", "context")
COMPARED = Label(kind="person", reason="compared", created_at="")


def branch_with(branches: Sequence[StoredBranch], what: str) -> StoredBranch | None:
    """Return the branch whose id is or begins with `what`, or the newest with the message `what`.

    `None` if no branch has the message; drafts do not count. A text that begins with `branch-`
    is taken for a branch's id: `UnknownBranchError` if there is none, `ConflictError` if several
    ids begin with it and none is equal. `branches` are oldest first.
    """
    if what.startswith(BRANCH_PREFIX):
        return find_stored_branch(branches, what)
    return holder_of(branches, what)


def restore(
    state: State,
    scope: Scope,
    what: str,
    branches: Sequence[StoredBranch],
    pending: Sequence[str] = (),
) -> Steps[Update]:
    """Return the update that restores a branch, a message of one, or a compacted topic.

    What it removes is kept as a branch; `pending` messages stay. The base of the branch
    that `branch_with` finds must be loaded. `branches` are all of the thread's.

    Raises:
        UnknownBranchError: No branch, topic or removed message matches `what`; a rejected draft
            cannot be restored.
        ConflictError: Several match, it is in the transcript or contexts already, or the message that
            it followed is not in the transcript.
        DatabaseCorruptError: An offloaded segment, in which `what` was searched, is damaged.
    """
    source = branch_with(branches, what)
    if what.startswith(BRANCH_PREFIX) and source is not None:
        return _put_back(state, scope, source, branches, pending)
    if topic := _topic(state, what):
        segments = state.get("segments", [])
        current_start = segments[-1]["start"] if segments else None
        expanded_ids = {
            e["topic_id"] for e in state.get("expanded", []) if e["at"] == current_start
        }
        if topic["id"] in {current_topic_id(segments), *expanded_ids}:
            raise ConflictError(code="not_compacted", topic_id=topic["id"])
        step = Operation(kind="expand", base=None, branches=[], topic=topic["id"])
        return {**show_topic(state, scope, topic["id"], expand=True), **with_step(state, step)}
    if source is not None:
        return _insert(state, scope, source, [what])
    if what in _ids((yield from load_all(state, scope))["messages"]):
        raise ConflictError(code="message_present", message_id=what)
    if any(what in _ids(branch["drafts"]) for branch in branches):
        raise UnknownBranchError(code="message_is_draft", message_id=what, pick=Verb("pick"))
    raise UnknownBranchError(
        code="nothing_to_restore_named",
        name=what,
        branches=Verb("branches"),
        timeline=Verb("timeline"),
        forgotten=Verb("forgotten"),
    )


def find_stored_branch(branches: Sequence[StoredBranch], name: str) -> StoredBranch:
    """Return the branch whose id is `name`, or else the only one whose id begins with it.

    Raises `UnknownBranchError` if there is none, `ConflictError` if several begin with it.
    """
    matches = [branch for branch in branches if branch["id"] == name] or [
        branch for branch in branches if name != BRANCH_PREFIX and branch["id"].startswith(name)
    ]
    if not matches:
        raise UnknownBranchError(
            code="no_branch", name=name, branches=Verb("branches"), count=len(branches)
        )
    if len(matches) > 1:
        raise ConflictError(code="branch_ambiguous", name=name, count=len(matches))
    return matches[0]


def _put_back(
    state: State,
    scope: Scope,
    branch: StoredBranch,
    branches: Sequence[StoredBranch],
    pending: Sequence[str],
) -> Update:
    """Return the update that restores a branch at its base; what follows the base becomes a branch.

    But what follows stays if the branch is an automatic rollback's, a removed turn, documents, or
    messages that a host replaced; so do `pending` messages. Raises `ConflictError` if its messages
    are in the transcript already or are only drafts, or if its base is not in the transcript.
    """
    live = live_branch(state)
    missing = [m.id for m in branch["messages"] if m.id not in live.positions()]
    places = {m.id: m for m in live.messages}
    same = {m.id for m in branch["messages"] if words_of(m) == words_of(places.get(m.id, m))}
    replaced = [m.id or "" for m in branch["messages"] if m.id not in same]
    if not missing and replaced:
        return _swap(state, scope, branch, replaced)
    if not missing:
        if not branch["messages"]:
            raise ConflictError(code="branch_is_draft", branch=branch["id"], pick=Verb("pick"))
        raise ConflictError(code="branch_present", branch=branch["id"], pick=Verb("pick"))
    if branch["kind"] in ("document", "remove"):
        return _insert(state, scope, branch, [name for name in missing if name])
    if branch["kind"] in AUTOMATIC:
        return _put_in_place(state, scope, branch, branches)
    _check_base(live.positions(), branch["base"], branches)
    base = safe_base(live, branch["base"])
    label = Label(kind="restore", reason=branch["id"], created_at=scope.now())
    change = replace_tail(live, base, [branch], label=label, keep=pending)
    removed = [change.branch["id"]] if change.branch["messages"] else []
    waiting = unanswered_ids({"messages": change.live.messages})
    question_ids = [name for name in waiting if name in missing]
    step = Operation(kind="restore", base=base, branches=removed, asked=question_ids)
    return _with_branch(state, scope, change, step, branch)


def _put_in_place(
    state: State, scope: Scope, branch: StoredBranch, branches: Sequence[StoredBranch]
) -> Update:
    """Return the update that restores an automatic rollback's branch before what follows its base.

    Raises `ConflictError` if its base is not in the transcript.
    """
    live = live_branch(state)
    _check_base(live.positions(), branch["base"], branches)
    label = Label(kind="restore", reason=branch["id"], created_at=scope.now())
    (change,) = put_in(live, [branch], label)
    ids = [m.id or "" for m in branch["messages"] if m.id not in live.positions()]
    step = Operation(kind="insert", base=branch["base"], branches=[], ids=ids)
    return _with_branch(state, scope, change, step, branch)


def _swap(state: State, scope: Scope, branch: StoredBranch, replaced: Sequence[str]) -> Update:
    """Return the update that puts back messages which a host replaced under their ids.

    The messages that replaced them become a branch; all others stay.
    """
    live = live_branch(state)
    first = min(live.positions()[name] for name in replaced)
    base = live.id_at(first - 1)
    keep = [m.id or "" for m in live.messages[first:] if m.id not in replaced]
    label = Label(kind="restore", reason=branch["id"], created_at=scope.now())
    change = replace_tail(live, base, [branch], label=label, keep=keep, only=replaced)
    removed = [change.branch["id"]]
    step = Operation(kind="restore", base=base, branches=removed, ids=list(replaced))
    return _with_branch(state, scope, change, step, branch)


def _insert(state: State, scope: Scope, branch: StoredBranch, wanted: Sequence[str]) -> Update:
    """Return the update that restores the `wanted` messages of a branch at their old place.

    That is after the nearest earlier message of the branch that is in the transcript, or after its
    base. Their tool calls and results come with them. Raises `ConflictError` if one is in the
    transcript already, or neither place is.
    """
    live, messages = live_branch(state), branch["messages"]
    group = [m.id or "" for m in _with_partners(messages, wanted)]
    places = live.positions()
    if present := [name for name in group if name in places]:
        raise ConflictError(code="message_present", message_id=present[0])
    first = next(index for index, m in enumerate(messages) if m.id == group[0])
    near = (m.id for m in reversed(messages[:first]) if m.id in places)
    anchor = next(near, branch["base"])
    _check_base(places, anchor, [])
    # Never between a tool call and its result.
    place = safe_split(live.messages, live.index_of(anchor) + 1, towards="newer")
    label = Label(kind="restore", reason=", ".join(wanted), created_at=scope.now())
    change = replace_tail(
        live,
        live.id_at(place - 1),
        # The messages join the topic at their place: that of the branch may be gone.
        [{**branch, "segments": [], "topics": []}],
        label=label,
        keep=[m.id or "" for m in live.messages[place:]],
        only=group,
    )
    step = Operation(kind="insert", base=live.id_at(place - 1), branches=[], ids=group)
    return _with_branch(state, scope, change, step, branch)


def _with_branch(
    state: State, scope: Scope, change: Change, step: Operation, restored: StoredBranch
) -> Update:
    """Return the update for a change that put messages of the branch `restored` back.

    A branch whose messages are all back is no longer listed.
    """
    present = {key_of(message) for message in change.live.messages}
    messages = [*spoken(restored["messages"]), *restored["drafts"]]
    missing_count = sum(key_of(message) not in present for message in messages)
    refs: list[BranchRef] = []
    for ref in state.get("branches", []):
        if ref["id"] != restored["id"]:
            refs.append(ref)
        elif missing_count or "body" in ref:
            # Without a store the reference is the only copy, which an undo may need.
            refs.append({**ref, "size": missing_count})
    refs = save_branch(change, scope, refs)
    update = settle(state, change, refs)
    update.update(with_step(state, step))
    return update


def _check_base(
    places: Collection[str | None], base: str | None, branches: Sequence[StoredBranch]
) -> None:
    """Raise `ConflictError` if `base`, the message that a branch follows, is not in `places`.

    `None`, the start, passes. The error names the one of `branches` that holds the base.
    """
    if base is None or base in places:
        return
    holder = holder_of(branches, base)
    if holder:
        raise ConflictError(code="base_in_branch", base=base, branch=holder["id"])
    raise ConflictError(code="base_gone", base=base, pick=Verb("pick"))


def _with_partners(messages: Sequence[AnyMessage], wanted: Sequence[str]) -> list[AnyMessage]:
    """Return the messages with these ids and all others of the same steps, in the order of `wanted`.

    A step is, for example, a tool call with its results, or a question with its documents. Raises
    `UnknownBranchError` if an id is not among the messages.
    """
    groups = {messages[i].id: group for group in steps(messages) for i in group}
    if unknown := [name for name in wanted if name not in groups]:
        raise UnknownBranchError(code="not_in_branch", message_id=unknown[0])
    indices = dict.fromkeys(index for name in wanted for index in groups[name])
    return [messages[index] for index in indices]


def _topic(state: State, what: str) -> Topic | None:
    """Return the topic whose id or label is `what`, else `None`; `ConflictError` for several."""
    present = by_topic(state["messages"], state.get("segments", []))
    topics = [e for e in state.get("topics", []) if e["id"] in present or e.get("pages")]
    matches = [t for t in topics if t["id"] == what] or [
        t for t in topics if same_name(t["label"], what)
    ]
    if len(matches) > 1:
        ids = ", ".join(each["id"] for each in matches)
        raise ConflictError(code="topic_ambiguous", label=what, count=len(matches), ids=ids)
    return matches[0] if matches else None


def pick(
    state: State, messages: Sequence[AnyMessage], message_ids: Sequence[str], source: str
) -> Update:
    """Return the update that copies messages of the branch or thread `source` to the end.

    Commands and notices are not copied, and `undo` can reverse it. A copy gets a new id if the
    transcript has, or may have, its id. Raises `InputError` if `message_ids` is not a list, is empty,
    or does not end in an answer; `UnknownBranchError` if an id is not in `messages`.
    """
    if isinstance(message_ids, str) or not message_ids:
        raise InputError(
            "message_ids must be a list of one or more message ids, got {given!r}; the turns of "
            "{timeline} have them",
            given=message_ids,
            timeline=Verb("timeline"),
        )
    spoken_ids = _ids(spoken(messages))
    picked_messages = [m for m in _with_partners(messages, message_ids) if m.id in spoken_ids]
    if not picked_messages or not is_answer(picked_messages[-1]):
        raise InputError(code="ends_unanswered", ids=list(message_ids))
    live = live_branch(state)
    base = live.id_at(len(live.messages) - 1)
    # The ids of offloaded messages are unknown here, so every copy then gets a new id.
    used_ids = live.positions() if live.before is None else _ids(picked_messages)
    copies = []
    for message in picked_messages:
        name = message.id or ""
        if name in used_ids:
            seed = f"{source}\x00{base}\x00{name}".encode("utf-8", "surrogatepass")
            name = f"pick-{hashlib.sha256(seed).hexdigest()[:20]}"
        copy = annotate(without_earlier(message), picked={"from": source, "id": message.id})
        copies.append(copy.model_copy(update={"id": name}))
    update = Update(messages=copies)
    update.update(with_step(state, Operation(kind="pick", base=base, branches=[])))
    return update


def _ids(messages: Sequence[AnyMessage]) -> set[str | None]:
    return {message.id for message in messages}


def branch_until(state: State, at: str | None, turns: int | None) -> LiveBranch:
    """Return the part of the live branch that a fork copies: up to checkpoint `at`, or N turns back.

    Without both it is all, but without the question that waits for an answer. With one it raises
    what `target_of` raises, for example `UnknownCheckpointError` or `NothingToUndoError`.
    """
    live, turn = live_branch(state), state.get("turn")
    if at is not None or turns is not None:
        base = target_of(live, at, turns)
    elif turn is not None and not turn["done"] and turn["pending"]:
        places = live.positions()
        first = min((places[name] for name in turn["pending"] if name in places), default=0)
        base = safe_base(live, live.id_at(first - 1))
    else:
        base = live.id_at(len(live.messages) - 1)
    return replace_tail(live, base, label=COMPARED).live


def fork(state: State, scope: Scope, live: LiveBranch, source: str) -> Steps[Update]:
    """Return the first update of a fork: a copy of `live`, a branch of the thread `source`.

    `state` is that of `source`, `scope` that of the fork. Each turn is a step that undo can take
    back. The tool calls are stored as ones that only `source` can undo.
    """
    live = replace(live, messages=tuple(map(without_earlier, live.messages)))
    unchanged = replace_tail(live, live.id_at(len(live.messages) - 1), label=COMPARED)
    update = settle(state, unchanged, [])
    update["messages"] = list(live.messages)
    # A step for each turn, so that undo in the fork removes them one by one.
    ends = [answers[-1].id for answers in answers_by_turn(live.messages)]
    lead = (i for i, m in enumerate(live.messages) if m.type != "system")
    before_first = next(lead, len(live.messages)) - 1
    bases = [live.id_at(before_first), *ends[:-1]] if ends else []
    turns = [Operation(kind="turn", base=each, branches=[]) for each in bases]
    update["operations"] = turns[-OPERATIONS:]
    update["pins"] = move_pins(state.get("pins", []), None)
    update["forgotten"] = list(state.get("forgotten", []))
    yield from disown(live.messages, scope, source)
    scope.step_log.returned |= {m.id or "" for m in live.messages}
    begun = event_types.fork(live.messages, live.checkpoints, source=source)
    scope.step_log.new_events.append(begun)
    return update


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
    raise UnknownBranchError(code="nothing_to_restore")


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
    required_ids = () if source is None else (source["base"],)
    return Removed(what=what, entry=None, branches=branches, needed=required_ids)


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
        entry_ids = forgotten_ids(messages, segments, [entry]) | cleared_ids(messages, [entry])
        if what in entry_ids:
            return entry
    return None
