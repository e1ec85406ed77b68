"""Branches: removing the end of a transcript, putting it back, and storing what was removed."""

import hashlib
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from langchain_core.messages import AnyMessage, RemoveMessage, messages_from_dict
from langgraph.store.base import BaseStore

from unsay.context.manifest import Key, key_of
from unsay.context.topics import live_topics, with_summary_of
from unsay.effects import Steps
from unsay.errors import ConflictError, DatabaseCorruptError, EventLogGapError
from unsay.events.transcript_replay import with_returned
from unsay.log.ranges import positions_of, ranges_of
from unsay.messages.annotations import annotation_of, is_answer, is_notice, is_question, spoken
from unsay.messages.boundaries import safe_split, steps
from unsay.messages.content import checksum_of, sources_of
from unsay.phrases import Verb
from unsay.storage import items
from unsay.storage.pages import Head, end_of, event_chain
from unsay.storage.pagination import read_items
from unsay.types import BranchKind, BranchRef, Checkpoint, Segment, StoredBranch, Topic

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveBranch:
    """The part of a thread that a rollback changes; `transcript.live.live_branch` makes it.

    `messages` is the transcript in the state, oldest first. `before` is the id of the last
    offloaded message; `None` if the state holds the whole transcript.
    """

    messages: tuple[AnyMessage, ...]
    before: str | None = None
    checkpoints: tuple[Checkpoint, ...] = ()
    segments: tuple[Segment, ...] = ()
    topics: tuple[Topic, ...] = ()

    def positions(self) -> dict[str | None, int]:
        """Return the index of each message by its id; offloaded messages are not included."""
        return {message.id: index for index, message in enumerate(self.messages)}

    def index_of(self, message_id: str | None) -> int:
        """Return the index of a message; -1 for the id in `before`, the place before the first.

        Raises:
            ConflictError: The message is not in the transcript, or it is offloaded.
        """
        if message_id == self.before:
            return -1
        for index in range(len(self.messages) - 1, -1, -1):  # most bases are near the end
            if self.messages[index].id == message_id:
                return index
        raise ConflictError(
            checkpoints=Verb("checkpoints"), code="message_gone", message_id=message_id
        )

    def id_at(self, index: int) -> str | None:
        """Return the id of the message at an index; for -1 `before`, which may be `None`."""
        return self.messages[index].id if index >= 0 else self.before

    def position_before(self, index: int) -> str | None:
        """Return the id of the last message of the conversation before an index, else `before`.

        A turn begins behind it, and a rollback goes there: never to a notice or a command.
        """
        ids = {message.id for message in spoken(self.messages)}
        earlier = (message.id for message in reversed(self.messages[:index]))
        return next((name for name in earlier if name in ids), self.before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A changed branch, and the writes to the state that lead to it; `replace_tail` makes it.

    `branch` is what was removed; its lists are empty if nothing was. `keep` are the ids of messages
    after the base that stayed, `restored` those of the branches that were put back, and `only` those
    of the messages that were put back, `None` for all of them. `positions` are those of stored branches
    which these messages have in the event log.
    """

    live: LiveBranch
    writes: list[Any]
    branch: StoredBranch
    keep: tuple[str, ...]
    restored: tuple[str, ...]
    only: tuple[str, ...] | None
    positions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """Why and when a branch is made, for lists; `drafts` are rejected answers to keep in it."""

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
    """Plan to remove all messages after a base, and to put messages of stored branches there.

    Nothing is changed or stored; the caller does that with the result.

    Args:
        live: The current branch; it is not changed.
        base: Id of the last message to keep; `live.before` for the place before the first, which
            is `None` only if no messages are offloaded.
        branches: Branches to put back, in the order of their messages. Messages that stay in the
            transcript are not put back.
        label: For the branch that holds the removed messages.
        keep: Ids of messages after the base that stay, such as a pending question; they follow
            what is put back.
        only: Ids of the messages to put back; `None` for all.

    Raises:
        ConflictError: The base is neither in `live` nor `live.before`.
    """
    start = live.index_of(base) + 1
    kept_tail = [m for m in live.messages[start:] if m.id in keep]
    removed = [m for m in live.messages[start:] if m.id not in keep]
    stays = {m.id for m in (*live.messages[:start], *kept_tail)}
    stored_by_id = {m.id: m for branch in branches for m in branch["messages"]}
    restored = [
        m for m in stored_by_id.values() if m.id not in stays and (only is None or m.id in only)
    ]
    after = _live_after(live, start, branches, restored, kept_tail)
    # The messages channel appends: what stays behind restored messages is removed and added again.
    moved_tail = kept_tail if restored else []
    stored = dict[str, int]()
    for branch in branches:
        stored |= branch.get("positions", {})
    positions = {m.id or "": stored[m.id or ""] for m in restored if m.id in stored}
    return Change(
        live=after,
        writes=[RemoveMessage(id=m.id or "") for m in [*removed, *moved_tail]]
        + restored
        + moved_tail,
        branch=_removed_branch(live, after, base, removed, label),
        keep=tuple(m.id or "" for m in kept_tail),
        restored=tuple(branch["id"] for branch in branches),
        only=None if len(restored) == len(stored_by_id) else tuple(m.id or "" for m in restored),
        positions=positions,
    )


def _removed_branch(
    live: LiveBranch, after: LiveBranch, base: str | None, removed: list[AnyMessage], label: Label
) -> StoredBranch:
    """Return the branch of the removed messages, with their checkpoints, segments and summaries.

    `live` is the transcript before, `after` without them; `base` is the message that they followed.
    """
    ids = {m.id for m in removed}
    # The id is a hash of what is removed, so that a node that runs twice stores one branch.
    parts = [label.kind, base or "", *(m.id or "" for m in (*removed, *label.drafts))]
    digest = hashlib.sha256("\x00".join(parts).encode("utf-8", "surrogatepass"))
    for message in removed:  # A host can replace a message under its id several times.
        digest.update(items.packed([message.type, message.content]))
    branch = StoredBranch(
        id=f"branch-{digest.hexdigest()[:16]}",
        kind=label.kind,
        base=base,
        reason=label.reason,
        created_at=label.created_at,
        messages=removed,
        drafts=list(label.drafts),
        checkpoints=[each for each in live.checkpoints if each["message_id"] in ids],
        segments=[each for each in live.segments if each["start"] in ids],
    )
    kept_ids = {each["id"] for each in after.topics if each["summary"] is not None}
    lost = [
        each for each in live.topics if each["summary"] is not None and each["id"] not in kept_ids
    ]
    return {**branch, "topics": lost} if lost else branch


def _live_after(
    live: LiveBranch,
    start: int,
    branches: Sequence[StoredBranch],
    restored: Sequence[AnyMessage],
    kept: Sequence[AnyMessage],
) -> LiveBranch:
    messages = (*live.messages[:start], *restored, *kept)
    before, restored_ids = {m.id for m in live.messages[:start]}, {m.id for m in restored}
    kept_ids = {m.id for m in kept}
    stays = {None, *before, *kept_ids}
    # The message of an offloaded checkpoint is in a segment, before everything in `live`.
    checkpoints = [c for c in live.checkpoints if c["message_id"] in stays or c.get("offloaded")]
    returned = [each for branch in branches for each in branch["checkpoints"]]
    segments = [each for branch in branches for each in branch["segments"]]
    return LiveBranch(
        messages=messages,
        before=live.before,
        checkpoints=tuple(
            with_returned(checkpoints, returned, restored_ids, [m.id for m in messages])
        ),
        segments=(
            *(each for each in live.segments if each["start"] in before),
            *(each for each in segments if each["start"] in restored_ids),
            *(each for each in live.segments if each["start"] in kept_ids),
        ),
        topics=_topics_after(live, branches, messages),
    )


def _topics_after(
    live: LiveBranch, branches: Sequence[StoredBranch], messages: Sequence[AnyMessage]
) -> tuple[Topic, ...]:
    """Return the topics after a change that leads to `messages`.

    A topic without a summary gets that of a returning branch. A summary is dropped if a message that
    it covers is missing.
    """
    stored_topics = {
        topic["id"]: topic for branch in branches for topic in branch.get("topics", [])
    }
    topics: list[Topic] = []
    for topic in live.topics:
        source = topic if topic["summary"] is not None else stored_topics.get(topic["id"], topic)
        topics.append(with_summary_of(topic, source))
    return tuple(live_topics(messages, topics, set(sources_of(messages, live.before))))


# References to stored branches in the state, the newest; the store itself keeps all branches.
BRANCH_REFS = 20
# Branches that the state itself keeps when there is no store.
INLINE_BRANCHES = 20
_MESSAGES: tuple[Literal["messages", "drafts"], ...] = ("messages", "drafts")

branches_namespace = partial(items.thread_namespace, "branches")


def reference(branch: StoredBranch, *, inline: bool) -> BranchRef:
    """Return the state's reference to a branch; `inline` puts the branch itself into it.

    That is for graphs without a store. The reference's `size` is the number of messages and drafts,
    without commands and their notices.
    """
    # A command that asks again has no notice, by which others are recognized.
    messages = [] if branch["kind"] == "order" else spoken(branch["messages"])
    ref = BranchRef(
        id=branch["id"],
        kind=branch["kind"],
        base=branch["base"],
        reason=branch["reason"],
        created_at=branch["created_at"],
        size=len(messages) + len(branch["drafts"]),
    )
    return {**ref, "body": branch} if inline else ref


def add_reference(refs: Sequence[BranchRef], new: BranchRef) -> list[BranchRef]:
    """Return the newest references with `new` last; one to the same branch is replaced.

    The oldest are dropped: the limit is `BRANCH_REFS`, or `INLINE_BRANCHES` if `new` has a body.
    """
    references = [*(ref for ref in refs if ref["id"] != new["id"]), new]
    return references[-(INLINE_BRANCHES if "body" in new else BRANCH_REFS) :]


def put_branches(
    store: BaseStore,
    thread_id: str,
    branches: Iterable[StoredBranch],
    positions: Mapping[str, Mapping[str, int]],
    head: Head,
) -> Steps[None]:
    """Write branches, also over stored ones with the same ids, as positions of the event log.

    `positions` has, by branch, those of its messages and drafts by id, and `head` is the end of the log.
    """
    values = {}
    for branch in branches:
        places = positions[branch["id"]]
        ranges = {
            str(key): ranges_of([places[m.id or ""] for m in branch[key]]) for key in _MESSAGES
        }
        facts = {key: each for key, each in branch.items() if key not in (*_MESSAGES, "positions")}
        checksum = checksum_of((*branch["messages"], *branch["drafts"]))
        end = {"end": end_of(head), "checksum": checksum}
        values[branch["id"]] = {**ranges, **end, "facts": items.freeze(facts)}
    if values:
        yield from items.put_items(store, branches_namespace(thread_id), values)


def read_branches(
    store: BaseStore, thread_id: str, values: Sequence[Mapping[str, Any]]
) -> Steps[list[StoredBranch]]:
    """Return stored branches with their messages; `DatabaseCorruptError` if one is damaged."""
    with items.reading("A stored branch"):
        wanted = {
            place for value in values for key in _MESSAGES for place in positions_of(value[key])
        }
        ends = sorted((value["end"] for value in values), key=lambda end: end["next"])
    try:
        bodies = (
            (yield from event_chain(store, thread_id).read_bodies(ends[-1], wanted))
            if wanted
            else {}
        )
    except EventLogGapError as error:
        raise items.damaged("A stored branch", error) from error
    branches: list[Any] = []
    for value in values:
        with items.reading("A stored branch"):
            places = {key: positions_of(value[key]) for key in _MESSAGES}
            messages = {
                key: messages_from_dict([bodies[place] for place in places[key]]) for key in places
            }
            known = {bodies[p]["data"]["id"]: p for key in places for p in places[key]}
            branch = {**items.thaw(value["facts"]), **messages, "positions": known}
            checksum = checksum_of((*messages["messages"], *messages["drafts"]))
        # Other words are of another line of the log: a host went back, and the newest end is not this
        # branch's own.
        is_own = len(values) == 1 or checksum == value.get("checksum")
        branches += [branch] if is_own else (yield from read_branches(store, thread_id, [value]))
    return branches


def holder_of(branches: Sequence[StoredBranch], message_id: str | None) -> StoredBranch | None:
    """Return the newest branch that holds a message; `None` if none does."""
    for branch in branches[::-1]:
        if any(m.id == message_id for m in branch["messages"]):
            return branch
    return None


def list_stored_branches(
    store: BaseStore, thread_id: str, *, named: str | None = None
) -> Steps[list[StoredBranch]]:
    """Read all stored branches of a thread, oldest first; empty if there are none.

    A damaged one is left out and logged as a warning. If its id begins with `named`, which a person
    gave, `DatabaseCorruptError` is raised instead.
    """
    values = yield from read_items(
        store, branches_namespace(thread_id), lambda item: (item.key, item.value)
    )
    try:
        branches = yield from read_branches(store, thread_id, [value for _, value in values])
    except DatabaseCorruptError:
        branches = []
        for name, value in values:
            try:
                branches += yield from read_branches(store, thread_id, [value])
            except DatabaseCorruptError as error:
                if named and name.startswith(named):
                    raise
                LOG.warning("branch=%r reason=%r a damaged branch is left out", name, str(error))
    return sorted(branches, key=lambda branch: (branch["created_at"], branch["id"]))


# A turn is found by the id of its user message, also after the message has left the state. Its place
# is written before that, so that a crash loses no turn. Read the state first: while the message is
# there, the place does not count.
# Items that hold the places of a thread's turns. A place takes 50 bytes there, and 250 as a separate
# item; with 10,000 turns an item has 8 KB. Source: own measurement.
BUCKETS = 64
# Length of the digest of a turn id.
DIGEST_CHARS = 20
_turns_namespace = partial(items.thread_namespace, "turns")


def put_places(store: BaseStore, thread_id: str, places: Mapping[str, str]) -> Steps[None]:
    """Write where turns that leave the state are found; the caller is the thread's only writer.

    `places` has, by turn id, the id of a branch or of the message that repeats the question; for a
    slash command, JSON of its text and notice. `DatabaseCorruptError` if an item is damaged.
    """
    buckets: dict[str, dict[str, str]] = {}
    for turn_id, place in places.items():
        digest = items.digest_of(turn_id)[:DIGEST_CHARS]
        buckets.setdefault(_bucket(digest), {})[digest] = place
    if not buckets:
        return
    old = yield from items.get_items(store, _turns_namespace(thread_id), list(buckets))
    values = {key: {**old.get(key, {}), **buckets[key]} for key in buckets}
    yield from items.put_items(store, _turns_namespace(thread_id), values)


def find_place(store: BaseStore, thread_id: str, turn_id: str) -> Steps[str | None]:
    """Return where a turn that left the state is found: the id of a branch, or of the new message.

    `None` if the turn never left the state, or is unknown. A turn that came back keeps its place:
    look into the state first. Raises `DatabaseCorruptError` if the item is damaged.
    """
    digest = items.digest_of(turn_id)[:DIGEST_CHARS]
    item = yield from items.get_item(store, _turns_namespace(thread_id), _bucket(digest))
    return None if item is None else item.value.get(digest)


def answers_in(messages: Sequence[AnyMessage]) -> dict[str, AnyMessage]:
    """Return the answer to each user message, by the message's id.

    Several messages that waited together share one answer. A notice is the answer to those that it
    names; what else waited then is answered only if no question comes before the answer. Unanswered
    messages are left out.
    """
    answers: dict[str, AnyMessage] = {}
    waiting: dict[str, None] = {}
    is_passed = False
    for message in messages:
        if is_question(message):
            waiting = {} if is_passed else waiting
            waiting[message.id or ""] = None
            is_passed = False
        elif is_answer(message):
            answers |= dict.fromkeys(waiting, message)
            waiting = {}
        elif is_notice(message):
            answered_ids = [
                name for name in annotation_of(message).get("answers", ()) if name in waiting
            ]
            answers |= dict.fromkeys(answered_ids, message)
            waiting = {name: None for name in waiting if name not in answered_ids}
            is_passed = True
    return answers


def _bucket(digest: str) -> str:
    return f"{int(digest[:4], 16) % BUCKETS:02}"


def take_out(
    live: LiveBranch,
    message_ids: Collection[str | None],
    label: Label,
    commands: Collection[str | None] = (),
) -> list[Change]:
    """Plan to remove these messages and keep all others; `whole_steps` must have completed them.

    Nothing is changed or stored. `label` describes the branches. `commands` are the ids of commands
    that no notice answers yet: no topic begins there.

    Returns:
        One change for each run of adjacent messages, the newest run first; empty if the transcript
        has none of them. Each change makes one branch.
    """
    changes: list[Change] = []
    for run in reversed(_runs(live.messages, message_ids)):
        later_ids = [message.id or "" for message in live.messages[run.stop :]]
        change = replace_tail(live, live.id_at(run.start - 1), label=label, keep=later_ids)
        change = replace(change, live=_with_topic(change.live, live, run, commands))
        changes.append(change)
        live = change.live
    return changes


def whole_steps(
    messages: Sequence[AnyMessage], message_ids: Collection[str | None]
) -> list[str | None]:
    """Return the ids of these messages and of all others in the same steps.

    A step is, for example, a tool call with its results: see `boundaries.steps`.
    """
    groups = ([messages[index].id for index in step] for step in steps(messages))
    return [name for group in groups if not set(group).isdisjoint(message_ids) for name in group]


def put_in(live: LiveBranch, branches: Sequence[StoredBranch], label: Label) -> list[Change]:
    """Plan to put branches back after the messages that they followed; all others stay.

    Args:
        live: The current branch; it is not changed.
        branches: In the order in which they were made. The newest is put back first, since an
            older one may follow one of its messages.
        label: For the changes, one for each branch with messages; they remove nothing.

    Raises:
        ConflictError: The message that a branch followed is not in the transcript.
    """
    changes: list[Change] = []
    for branch in reversed([each for each in branches if each["messages"]]):
        # Never between a tool call and its result.
        start = safe_split(live.messages, live.index_of(branch["base"]) + 1, towards="newer")
        later_ids = [message.id or "" for message in live.messages[start:]]
        change = replace_tail(live, live.id_at(start - 1), [branch], label=label, keep=later_ids)
        change = replace(change, live=_with_merged_segments(change.live))
        changes.append(change)
        live = change.live
    return changes


def as_one(live: LiveBranch, changes: Sequence[Change], label: Label) -> Change:
    """Return several changes as one, with all removed messages, for one update of the state.

    `live` is the branch before the changes; without changes the result changes nothing. Store the
    branches of the changes, not that of the result: its id does not tell what was removed.
    """
    nothing = replace_tail(live, live.id_at(len(live.messages) - 1), label=label)
    places = live.positions()
    removed = [message for change in changes for message in change.branch["messages"]]
    removed.sort(key=lambda message: places.get(message.id, len(places)))
    return replace(
        changes[-1] if changes else nothing,
        writes=[write for change in changes for write in change.writes],
        branch={**nothing.branch, "messages": removed},
    )


def _runs(messages: Sequence[AnyMessage], message_ids: Collection[str | None]) -> list[range]:
    """Return the runs of adjacent messages with these ids, as ranges of indices, oldest first."""
    runs: list[range] = []
    for index, message in enumerate(messages):
        if message.id not in message_ids:
            continue
        if runs and runs[-1].stop == index:
            runs[-1] = range(runs[-1].start, index + 1)
        else:
            runs.append(range(index, index + 1))
    return runs


def branches_beside(
    transcript: Sequence[AnyMessage],
    branches: Sequence[StoredBranch],
    *,
    offloaded: Collection[str | None] = (),
) -> list[StoredBranch]:
    """Return the branches with messages or drafts that the transcript lacks, in the same order.

    A branch that was put back, a delivered draft and a branch of commands are left out. Of branches
    with the same messages the newest stays. `branches` are oldest first. `offloaded` has the ids of
    messages that the transcript has too, although they are not given.
    """
    # A redo can restore a part of a branch, which is listed while the transcript lacks the rest.
    present = {key_of(message) for message in transcript}
    distinct_branches: dict[tuple[Key, ...], StoredBranch] = {}
    for branch in reversed(branches):
        messages = [*spoken(branch["messages"]), *branch["drafts"]]
        keys = tuple(map(key_of, messages))
        lacking = [m for m in messages if m.id not in offloaded and key_of(m) not in present]
        if branch["kind"] != "order" and lacking:
            distinct_branches.setdefault(keys, branch)
    return list(reversed(distinct_branches.values()))


def _with_topic(
    after: LiveBranch, before: LiveBranch, run: range, commands: Collection[str | None]
) -> LiveBranch:
    """Return the branch after a removal; messages that follow the removed `run` keep their topic."""
    removed = {message.id for message in before.messages[run.start : run.stop]}
    topics = [each["topic_id"] for each in before.segments if each["start"] in removed]
    starts = {each["start"] for each in after.segments}
    following = [m for m in spoken(after.messages[run.start :]) if m.id not in commands]
    if not topics or not following or following[0].id in starts:
        return _with_merged_segments(after)
    places = after.positions()
    segment = Segment(topic_id=topics[-1], start=following[0].id or "")
    segments = sorted([*after.segments, segment], key=lambda each: places.get(each["start"], -1))
    return _with_merged_segments(replace(after, segments=tuple(segments)))


def _with_merged_segments(live: LiveBranch) -> LiveBranch:
    return replace(live, segments=tuple(without_repeats(live.segments)))


def without_repeats(segments: Sequence[Segment]) -> list[Segment]:
    """Return the segments without those that continue the topic of the segment before them."""
    kept_segments: list[Segment] = []
    for segment in segments:
        if not kept_segments or kept_segments[-1]["topic_id"] != segment["topic_id"]:
            kept_segments.append(segment)
    return kept_segments
