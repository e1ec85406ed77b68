"""Parts of a transcript: take messages out, put them back in their place, list what is outside."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from langchain_core.messages import AnyMessage

from unsay.history.branch import Change, Label, LiveBranch, replace_tail
from unsay.history.token_usage import Key, key_of
from unsay.messages.annotations import spoken
from unsay.messages.boundaries import safe_split, steps
from unsay.types import Segment, StoredBranch


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
        later = [message.id or "" for message in live.messages[run.stop :]]
        change = replace_tail(live, live.id_at(run.start - 1), label=label, keep=later)
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
        later = [message.id or "" for message in live.messages[start:]]
        change = replace_tail(live, live.id_at(start - 1), [branch], label=label, keep=later)
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
    kept: dict[tuple[Key, ...], StoredBranch] = {}
    for branch in reversed(branches):
        messages = [*spoken(branch["messages"]), *branch["drafts"]]
        keys = tuple(map(key_of, messages))
        lacking = [m for m in messages if m.id not in offloaded and key_of(m) not in present]
        if branch["kind"] != "order" and lacking:
            kept.setdefault(keys, branch)
    return list(reversed(kept.values()))


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
    moved = Segment(topic_id=topics[-1], start=following[0].id or "")
    segments = sorted([*after.segments, moved], key=lambda each: places.get(each["start"], -1))
    return _with_merged_segments(replace(after, segments=tuple(segments)))


def _with_merged_segments(live: LiveBranch) -> LiveBranch:
    return replace(live, segments=tuple(without_repeats(live.segments)))


def without_repeats(segments: Sequence[Segment]) -> list[Segment]:
    """Return the segments without those that continue the topic of the segment before them."""
    kept: list[Segment] = []
    for segment in segments:
        if not kept or kept[-1]["topic_id"] != segment["topic_id"]:
            kept.append(segment)
    return kept
