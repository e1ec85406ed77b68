"""Branches: pure functions that remove the end of a transcript and put it back, and their storage."""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast

from langchain_core.messages import AnyMessage, RemoveMessage
from langgraph.store.base import BaseStore

from unsay.effects import Steps
from unsay.errors import ConflictError
from unsay.storage.items import freeze_messages, thaw_messages, thread_namespace
from unsay.storage.pagination import read_items
from unsay.types import BranchKind, BranchRef, Checkpoint, Segment, StoredBranch, Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveBranch:
    """The part of a thread that a rollback changes."""

    messages: tuple[AnyMessage, ...]
    """The transcript in the state, oldest first."""

    before: str | None = None
    """Id of the last offloaded message; `None` if the state holds the whole transcript."""

    checkpoints: tuple[Checkpoint, ...] = ()
    segments: tuple[Segment, ...] = ()
    topics: tuple[Topic, ...] = ()

    def positions(self) -> dict[str | None, int]:
        """Return the index of each message id."""
        return {message.id: index for index, message in enumerate(self.messages)}

    def index_of(self, message_id: str | None) -> int:
        """Return the index of a message; -1 for the place before the first.

        Raises:
            ConflictError: The message is not in the transcript, or it is offloaded.
        """
        if message_id == self.before:
            return -1
        for index in range(len(self.messages) - 1, -1, -1):
            if self.messages[index].id == message_id:
                return index
        raise ConflictError(
            f"Message {message_id!r} is no longer on this thread's record; "
            "list the checkpoints to see where it can go back to"
        )

    def id_at(self, index: int) -> str | None:
        """Return the id of the message at an index; for -1 that of `before`."""
        return self.messages[index].id if index >= 0 else self.before


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A changed branch, and the writes to the state that lead to it."""

    live: LiveBranch
    writes: list[Any]
    branch: StoredBranch
    """What was removed; its lists are empty if that is nothing."""

    keep: tuple[str, ...]
    """Ids of messages after the base that stayed, in their order."""

    restored: tuple[str, ...]
    """Ids of the branches that were put back."""

    only: tuple[str, ...] | None
    """Ids of the messages that were put back; `None` for all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """Why a branch is made, and a rejected draft to store with it, which was never in the transcript."""

    kind: BranchKind
    reason: str
    created_at: str
    drafts: tuple[AnyMessage, ...] = ()


def replace_tail(
    live: LiveBranch,
    base: str | None,
    branches: Sequence[StoredBranch] = (),
    *,
    label: Label,
    keep: Sequence[str] = (),
    only: Collection[str] | None = None,
) -> Change:
    """Remove everything after a message, and put back what earlier rollbacks removed there.

    Args:
        live: The current branch; it is not changed.
        base: Id of the message; `None` for the place before the first.
        branches: In the order of their messages; none to remove only.
        label: Of the branch that is made.
        keep: Ids after the base that stay, behind what is put back, such as a pending question.
        only: Ids of the messages to put back; `None` for all.

    Raises:
        ConflictError: The base is not in the transcript.
    """
    start = live.index_of(base) + 1
    kept = [m for m in live.messages[start:] if m.id in keep]
    removed = [m for m in live.messages[start:] if m.id not in keep]
    stays = {m.id for m in (*live.messages[:start], *kept)}
    held = {m.id: m for branch in branches for m in branch["messages"]}
    back = [m for m in held.values() if m.id not in stays and (only is None or m.id in only)]
    after = _live_after(live, start, branches, back, kept)
    moved = kept if back else []
    return Change(
        live=after,
        writes=[RemoveMessage(id=m.id or "") for m in [*removed, *moved]] + back + moved,
        branch=_cut(live, after, base, removed, label),
        keep=tuple(m.id or "" for m in kept),
        restored=tuple(each["id"] for each in branches),
        only=None if len(back) == len(held) else tuple(m.id or "" for m in back),
    )


def _cut(
    live: LiveBranch, after: LiveBranch, base: str | None, removed: list[AnyMessage], label: Label
) -> StoredBranch:
    gone = {m.id for m in removed}
    # The id follows from what is cut, so that a node run twice makes one cut.
    parts = [label.kind, base or "", *(m.id or "" for m in (*removed, *label.drafts))]
    digest = hashlib.sha256("\x00".join(parts).encode("utf-8", "surrogatepass"))
    branch = StoredBranch(
        id=f"cut-{digest.hexdigest()[:16]}",
        kind=label.kind,
        base=base,
        reason=label.reason,
        created_at=label.created_at,
        messages=removed,
        drafts=list(label.drafts),
        checkpoints=[each for each in live.checkpoints if each["message_id"] in gone],
        segments=[each for each in live.segments if each["start"] in gone],
    )
    left = {each["id"] for each in after.topics if each["summary"] is not None}
    told = [each for each in live.topics if each["summary"] is not None and each["id"] not in left]
    return {**branch, "topics": told} if told else branch


def _live_after(
    live: LiveBranch,
    start: int,
    branches: Sequence[StoredBranch],
    back: Sequence[AnyMessage],
    kept: Sequence[AnyMessage],
) -> LiveBranch:
    messages = (*live.messages[:start], *back, *kept)
    before, came = {m.id for m in live.messages[:start]}, {m.id for m in back}
    waiting = {m.id for m in kept}
    stays = {None, *before, *waiting}
    checkpoints = [e for e in live.checkpoints if e["message_id"] in stays or e.get("offloaded")]
    returning = [
        each for branch in branches for each in branch["segments"] if each["start"] in came
    ]
    return LiveBranch(
        messages=messages,
        before=live.before,
        checkpoints=tuple(
            with_returned(
                checkpoints, [m for branch in branches for m in branch["checkpoints"]], came
            )
        ),
        segments=(
            *(each for each in live.segments if each["start"] in before),
            *returning,
            *(each for each in live.segments if each["start"] in waiting),
        ),
        topics=_topics_after(live, branches, before | came | waiting),
    )


def with_returned(
    checkpoints: Sequence[Checkpoint],
    returning: Sequence[Checkpoint],
    messages: Collection[str | None],
) -> list[Checkpoint]:
    """Return checkpoints and those whose `messages` come back, in the order they were made.

    A name stays with the one that has it.
    """
    names = {each["name"] for each in checkpoints}
    back = {each["id"]: each for each in returning if each["message_id"] in messages}
    named: list[Checkpoint] = []
    for each in back.values():
        named.append({**each, "name": None} if each["name"] in names else each)
        names.add(each["name"])
    return (
        sorted([*checkpoints, *named], key=lambda each: each["created_at"])
        if named
        else list(checkpoints)
    )


def _topics_after(
    live: LiveBranch, branches: Sequence[StoredBranch], known: Collection[str | None]
) -> tuple[Topic, ...]:
    told = {topic["id"]: topic for branch in branches for topic in branch.get("topics", [])}
    topics = []
    for topic in live.topics:
        found = topic if topic["summary"] is not None else told.get(topic["id"], topic)
        summary, through = found["summary"], found["summarized_through"]
        if through not in known:  # the summary may tell of messages that were taken back
            summary = through = None
        topics.append(Topic(**{**topic, "summary": summary, "summarized_through": through}))
    return tuple(topics)


# Most cuts to which a thread's state refers; a store keeps all of them.
BRANCH_REFS = 20
# Fewest messages of a cut that is worth compressing. Source: own measurement.
MANY = 8
# Most whole cuts in the state where there is no store.
INLINE_BRANCHES = 20
_MESSAGES: tuple[Literal["messages", "drafts"], ...] = ("messages", "drafts")

branches_namespace = partial(thread_namespace, "branches")


def reference(branch: StoredBranch, *, inline: bool) -> BranchRef:
    """Return the state's reference to a cut; `inline` holds its body, if no store keeps it."""
    ref = BranchRef(
        id=branch["id"],
        kind=branch["kind"],
        base=branch["base"],
        reason=branch["reason"],
        created_at=branch["created_at"],
        size=len(branch["messages"]) + len(branch["drafts"]),
    )
    return {**ref, "body": branch} if inline else ref


def add_reference(refs: Sequence[BranchRef], new: BranchRef) -> list[BranchRef]:
    """Return the newest references with one more; a cut made again replaces itself."""
    kept = [*(ref for ref in refs if ref["id"] != new["id"]), new]
    return kept[-(INLINE_BRANCHES if "body" in new else BRANCH_REFS) :]


def pack(branch: StoredBranch) -> dict[str, Any]:
    """Return a cut as plain JSON for the store."""
    dense = len(branch["messages"]) >= MANY
    return {**branch, **{str(key): freeze_messages(branch[key], dense=dense) for key in _MESSAGES}}


def unpack(value: dict[str, Any]) -> StoredBranch:
    """Return a cut from the store's JSON."""
    return cast("StoredBranch", {**value, **{key: thaw_messages(value[key]) for key in _MESSAGES}})


def holder_of(branches: Sequence[StoredBranch], message_id: str | None) -> StoredBranch | None:
    """Return the newest of some cuts that holds a message."""
    held = (
        branch
        for branch in reversed(branches)
        if any(m.id == message_id for m in branch["messages"])
    )
    return next(held, None)


def list_stored_branches(store: BaseStore, thread_id: str) -> Steps[list[StoredBranch]]:
    """Read all cuts of a thread from its store, oldest first."""
    found = yield from read_items(store, branches_namespace(thread_id), lambda i: unpack(i.value))
    return sorted(found, key=lambda branch: (branch["created_at"], branch["id"]))
