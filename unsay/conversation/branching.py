"""Branches of a thread: list, compare, fork, restore, and copy from them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from unsay.context.manifest import key_of, tokens_of
from unsay.context.topics import by_topic
from unsay.conversation.thread import ThreadHandle, checked_id
from unsay.effects import Steps
from unsay.errors import ConflictError, InvalidNameError, UnknownBranchError, UnknownCheckpointError
from unsay.history.branch import (
    LiveBranch,
    branches_beside,
    holder_of,
    list_stored_branches,
    replace_tail,
)
from unsay.history.checkpoints import RESERVED, find_checkpoint
from unsay.history.threads import entry_of, find_session, revise
from unsay.messages.annotations import annotation_of, is_answer, spoken
from unsay.moves import restore as restoring
from unsay.moves.restore import BRANCH_PREFIX, COMPARED, branch_until, find_stored_branch
from unsay.phrases import Verb
from unsay.results.lists import Branch, Diff, Side, branch_of, removed_branch
from unsay.results.results import Rows
from unsay.state import State, Update
from unsay.storage.base import THREADS
from unsay.storage.pagination import scan
from unsay.transcript.live import count_turns, live_branch, safe_base
from unsay.types import StoredBranch

LIVE = "live"  # name of the current branch


def _side(name: str, live: LiveBranch, other: LiveBranch) -> Side:
    other_keys = {key_of(message) for message in spoken(other.messages)}
    messages = spoken(live.messages)
    answer_scores = [annotation_of(m).get("score") for m in messages if is_answer(m)]
    scores = [score for score in answer_scores if score is not None]
    other_labels = _labels_of(other)
    return Side(
        name=name,
        messages=len(messages),
        topics=tuple(label for label in _labels_of(live) if label not in other_labels),
        only=tuple(m for m in messages if key_of(m) not in other_keys),
        mean_score=sum(scores) / len(scores) if scores else None,
        last_score=scores[-1] if scores else None,
        tokens=tokens_of(messages),
    )


def _labels_of(live: LiveBranch) -> list[str]:
    labels = {topic["id"]: topic["label"] for topic in live.topics}
    return [labels[topic] for topic in by_topic(live.messages, live.segments) if topic in labels]


def fork(
    handle: ThreadHandle,
    at: str | None = None,
    *,
    turns: int | None = None,
    thread: str | None = None,
) -> Steps[ThreadHandle]:
    """Start a thread in this database with a copy of this transcript; return its conversation."""
    thread_id = checked_id(thread)
    if RESERVED.fullmatch(thread_id):
        raise InvalidNameError(code="reserved_thread", name=thread)
    state = yield from handle.reading(ThreadHandle.load_whole_state)
    live = branch_until(state, at, turns)
    other = replace(handle, thread_id=thread_id, writes=True)
    # The other thread has its own lock: a writer there must not see half a copy.
    yield from other.alone(_begin(handle, other, state, live))
    return other


def _begin(
    handle: ThreadHandle, other: ThreadHandle, state: State, live: LiveBranch
) -> Steps[None]:
    """Write `live` to the locked `other` thread and list it; `ConflictError` if it exists."""
    other_entry = yield from find_session(*other.address)
    if (
        other_entry is not None or (yield from other.snapshot()).values
    ):  # a host's thread has no entry
        raise ConflictError(code="thread_exists", thread_id=other.thread_id)
    scope = other.scope()
    update = yield from restoring.fork(state, scope, live, handle.thread_id)
    # With the same salt its contexts begin as those of this thread, which a provider has cached.
    salt = (yield from handle.salted_scope()).salt
    yield from other.write(State(), scope, cast("Update", {**update, "salt": salt}))
    entry = yield from find_session(*handle.address)
    yield from revise(
        *other.address,
        now=scope.now(),
        title=entry.title if entry else "",
        turns=count_turns(live.messages),
        forked_from=handle.thread_id,
        forked_at=live.id_at(len(live.messages) - 1),
    )


def branches(handle: ThreadHandle) -> Steps[tuple[Branch, ...]]:
    """List the current branch, then the removed ones (newest first), then the forks."""
    transcript = (yield from handle.load_whole_state())["messages"]
    branches = yield from list_stored_branches(*handle.address)
    entries = yield from scan(handle.store, THREADS, entry_of)
    all_branches = [branch_of(transcript, id=LIVE, kind=LIVE)]
    all_branches += map(removed_branch, reversed(branches_beside(transcript, branches)))
    for entry in entries:
        if entry.forked_from == handle.thread_id:
            other = yield from _reader(handle, entry.thread_id).transcript()
            places = [index for index, m in enumerate(other) if m.id == entry.forked_at]
            after = other[places[0] + 1 :] if places else other
            origin: dict[str, Any] = {"base": entry.forked_at, "created_at": entry.created_at}
            origin |= {"id": entry.thread_id, "kind": "thread", "reason": entry.title}
            all_branches.append(branch_of(after, **origin))
    return Rows(all_branches)


def _reader(handle: ThreadHandle, thread_id: str) -> ThreadHandle:
    return replace(handle, thread_id=thread_id, writes=False)


def diff(handle: ThreadHandle, a: str, b: str = LIVE) -> Steps[Diff]:
    """Compare two branches: messages in common, messages and topics of one alone, scores, tokens."""
    first, second = (yield from _branch_named(handle, a)), (yield from _branch_named(handle, b))
    left_side, right = _side(a, first, second), _side(b, second, first)
    return Diff(common=left_side.messages - len(left_side.only), a=left_side, b=right)


def _branch_named(handle: ThreadHandle, name: str) -> Steps[LiveBranch]:
    """Return the whole transcript of `live`, a branch, a checkpoint or a thread; raises as `diff`."""
    state = yield from handle.load_whole_state()
    live = live_branch(state)
    if name == LIVE:
        return live
    if name.startswith(BRANCH_PREFIX):
        branches = yield from list_stored_branches(*handle.address, named=name)
        return _with_branch(live, find_stored_branch(branches, name), branches)
    try:
        checkpoint = find_checkpoint(live.checkpoints, name)
    except UnknownCheckpointError:
        other = yield from _reader(handle, name).load_whole_or_empty()
        if not other:
            raise UnknownBranchError(
                code="no_side",
                name=name,
                branches=Verb("branches"),
                checkpoints=Verb("checkpoints"),
            ) from None
        return live_branch(other)
    return replace_tail(live, safe_base(live, checkpoint["message_id"]), label=COMPARED).live


def _with_branch(
    live: LiveBranch, branch: StoredBranch, branches: Sequence[StoredBranch]
) -> LiveBranch:
    """Return the transcript up to the place of a branch, and then the branch with its drafts.

    If the place is in another one of `branches`, that one is put back first. If the place is found
    nowhere, the result has the messages of the branch alone.
    """
    base = branch["base"]
    if base is not None and base not in live.positions():
        others = [other for other in branches if other["id"] != branch["id"]]
        holder = holder_of(others, base)
        if holder is None:
            return replace(live, messages=(*branch["messages"], *branch["drafts"]))
        live = _with_branch(live, holder, others)
    whole = replace_tail(live, base, [branch], label=COMPARED).live
    return replace(whole, messages=(*whole.messages, *branch["drafts"]))
