"""Steps that leave the transcript as it is: pins, checkpoints, labels; and what an undo says."""

from collections.abc import Mapping, Sequence
from typing import cast

from langchain_core.messages import AnyMessage
from langgraph.store.base import BaseStore

from unsay.context.topics import forgotten_topics, live_segments
from unsay.effects import Steps
from unsay.errors import ConflictError
from unsay.events import event_types
from unsay.events.event_types import NewEvent
from unsay.history import threads
from unsay.history.branch import LiveBranch, without_repeats
from unsay.history.checkpoints import add_checkpoint, metadata_of
from unsay.messages.annotations import answers_by_turn, in_turns, turn_numbers
from unsay.prompts.catalogue import StepChange, Texts
from unsay.runtime import Scope
from unsay.state import State, Update, offloaded_of
from unsay.storage.items import thread_namespace
from unsay.storage.pages import Chain, make_page
from unsay.transcript.forget import apply, bounded, move_pins, step_message_ids
from unsay.types import Checkpoint, Offloaded, Operation, Pin, Segment


def same_topic_step(state: State) -> Operation:
    """Return the step that gives the newest segment the topic of the segment before it.

    Raises `ConflictError` if the topic has not changed yet, or if the topic before is forgotten.
    """
    segments = state.get("segments", [])
    if len(segments) < 2:
        raise ConflictError(code="one_topic")
    before, newest = segments[-2:]
    if before["topic_id"] in forgotten_topics(state.get("forgotten", [])):
        raise ConflictError(code="topic_forgotten", topic_id=before["topic_id"])
    return Operation(
        kind="same_topic", base=None, branches=[], segment=newest, into=before["topic_id"]
    )


def swap_topic(state: State, scope: Scope, step: Operation, *, back: bool) -> Update:
    """Return the update that carries out a step of `same_topic_step`, or with `back` undoes it."""
    old = step["segment"]
    segment = old if back else Segment(topic_id=step["into"], start=old["start"])
    others = [each for each in state.get("segments", []) if each["start"] != old["start"]]
    segments = without_repeats(live_segments(state["messages"], [*others, segment]))
    topics = {topic["id"]: topic for topic in state.get("topics", [])}
    joined = topics.get(step["into"])
    if joined is not None and joined["summary"] is not None:
        logged = event_types.compaction(joined) if back else event_types.expand(joined)
        scope.step_log.later_events.append(logged)
    current = topics.get(segments[-1]["topic_id"]) if segments else None
    return Update(messages=[], segments=segments, current_topic=current["label"] if current else "")


# How many steps stay in the state when older ones are moved to the store.
NEWEST = 8
# How many steps the state holds before that.
MOST = 24
# Most ids of messages in an older step of the state: a host may add any number in one step.
STEP_IDS = 256
# How many steps can be undone without a store.
WITHOUT_STORE = 32


def archive_steps(state: State, scope: Scope) -> Steps[Update]:
    """Return the update that moves the oldest steps to the store; empty for up to `MOST` small steps.

    The steps are stored at once. Without a store the oldest are dropped, and cannot be undone.
    """
    steps = state.get("operations", [])
    large = [n for n, step in enumerate(steps[:-1], 1) if len(step.get("ids", ())) > STEP_IDS]
    count = max([len(steps) - NEWEST if len(steps) > MOST else 0, *large])
    if not count:
        return Update()
    if scope.address is None:
        return Update(operations=steps[-WITHOUT_STORE:])
    page = make_page(state.get("older_steps"), {}, steps[:count])
    yield from _older_steps(*scope.address).put(page)
    return Update(operations=steps[count:], older_steps=page.id)


def load_archived_steps(state: State, scope: Scope) -> Steps[Update]:
    """Return the update that loads the newest archived steps, so that they can be undone.

    It is empty if the state still has steps, if none are archived, or without a store. Raises
    `DatabaseCorruptError` if the archived steps are missing or damaged.
    """
    name = state.get("older_steps")
    if state.get("operations") or name is None or scope.address is None:
        return Update()
    chain = _older_steps(*scope.address)
    page = yield from chain.get(name)
    return Update(operations=chain.values(page), older_steps=page.before)


def _older_steps(store: BaseStore, thread_id: str) -> Chain:
    return Chain(
        store=store,
        namespace=thread_namespace("steps", thread_id),
        name="this thread's steps",
        hint=", or go back to a checkpoint or by a number of turns",
    )


VALUE_STEPS = frozenset({"forget", "pin", "checkpoint", "label", "compact", "same_topic"})
"""The kinds of step that change no message."""

# What an undo of such a step takes away.
_REMOVALS = frozenset({"unpinned", "checkpoint_removed"})


def messages_of_step(step: Operation) -> set[str | None]:
    """Return the ids of messages that the state must have to undo or redo a step of `VALUE_STEPS`."""
    pins = [*step.get("pinned", []), *step.get("unpinned", [])]
    checkpoints = [*step.get("made", []), *step.get("replaced", [])]
    return {
        *step_message_ids(step),
        *(each["message_id"] for each in pins),
        *([step["segment"]["start"]] if "segment" in step else []),
        *(each["message_id"] for each in checkpoints if not each.get("offloaded")),
    }


def below_waiting(steps: Sequence[Operation], waiting: Sequence[str]) -> list[Operation]:
    """Return the steps so that the last is not one that added only messages which still wait.

    A command is about the turns before such messages, and keeps them.
    """
    kept_steps = [each for each in steps if each["kind"] == "add" and {*each["ids"]} <= {*waiting}]
    others = [each for each in steps if each not in kept_steps]
    return [*others[:-1], *kept_steps, *others[-1:]]


def pin_step(pinned: Sequence[Pin], unpinned: Sequence[Pin]) -> Operation:
    """Return the step that adds the pins `pinned` and removes the pins `unpinned`."""
    return Operation(
        kind="pin", base=None, branches=[], pinned=list(pinned), unpinned=list(unpinned)
    )


def log_pins(scope: Scope, added: Sequence[Pin], removed: Sequence[Pin]) -> None:
    """Add the events of pins that are added and removed to the events to log."""
    events = scope.step_log.later_events
    events += [NewEvent("unpin", {"message_id": each["message_id"]}) for each in removed]
    events += [NewEvent("pin", {"message_id": each["message_id"]}) for each in added]


def checkpoint_step(before: Sequence[Checkpoint], new: Checkpoint) -> Operation | None:
    """Return the step that adds a checkpoint to those `before`; `None` if it changes nothing.

    Raises `CheckpointExistsError` if another one has the name, `ConflictError` if there are too
    many named ones.
    """
    after = add_checkpoint(before, new)
    if after == list(before):
        return None
    return Operation(
        kind="checkpoint",
        base=None,
        branches=[],
        made=[each for each in after if each not in before],
        replaced=[each for each in before if each not in after],
    )


def label_step(old: Mapping[str, str], labels: Mapping[str, str | None]) -> Operation | None:
    """Return the step that sets `labels` of a thread with the labels `old`; a `None` removes one.

    `None` if nothing changes.
    """
    new_labels = {name: value for name, value in labels.items() if old.get(name) != value}
    if not new_labels:
        return None
    before = {name: old.get(name) for name in new_labels}
    return Operation(kind="label", base=None, branches=[], labels=new_labels, old_labels=before)


def swap(state: State, scope: Scope, step: Operation, *, back: bool) -> Steps[Update]:
    """Return the update that repeats a step of `VALUE_STEPS`, or with `back` undoes it.

    Labels are in the store and are changed at once. Raises `ConflictError` if too much would be
    pinned or forgotten.
    """
    if step["kind"] == "forget":
        return (yield from apply(state, scope, step, back=back))
    if step["kind"] == "pin":
        return _swap_pins(state, scope, step, back=back)
    if step["kind"] == "checkpoint":
        return swap_checkpoints(state, scope, step, back=back)
    if step["kind"] == "same_topic":
        return swap_topic(state, scope, step, back=back)
    if step["kind"] == "compact":
        if topic := step.get("compacted"):
            logged = event_types.expand(topic) if back else event_types.compaction(topic)
            scope.step_log.later_events.append(logged)
        compaction = step["old_compaction"] if back else step["compaction"]
        return Update(messages=[], compaction=compaction)
    if scope.address is not None and (yield from threads.find_session(*scope.address)) is not None:
        # Before the commit: if a crash comes between, the step is undone again and changes nothing.
        labels = step["old_labels"] if back else step["labels"]
        yield from threads.label(*scope.address, labels, now=scope.now())
    return Update(messages=[])


def _swap_pins(state: State, scope: Scope, step: Operation, *, back: bool) -> Update:
    added, removed = step.get("pinned", []), step.get("unpinned", [])
    if back:
        added, removed = removed, added
    names = {each["message_id"] for each in (*added, *removed)}
    kept_pins = [each for each in state.get("pins", []) if each["message_id"] not in names]
    log_pins(scope, added, removed)
    return Update(messages=[], pins=bounded([*kept_pins, *move_pins(added, None)]))


def renumber_and_log(
    live: LiveBranch, offloaded: Offloaded | None, scope: Scope
) -> list[Checkpoint]:
    """Return the checkpoints with the numbers of turns that the transcript has now.

    Those that changed are added to the events to log.
    """
    numbers = turn_numbers(live.messages, offloaded["turns"] if offloaded else 0)
    after: list[Checkpoint] = []
    for each in live.checkpoints:
        number = numbers.get(each["message_id"], each["turn"])
        after.append({**each, "turn": number})
        if number != each["turn"]:
            scope.step_log.later_events.append(event_types.checkpoint(after[-1]))
    return after


def swap_checkpoints(state: State, scope: Scope, step: Operation, *, back: bool) -> Update:
    """Return the update that adds the checkpoints a step made and removes those that it replaced.

    With `back` it is the reverse. A checkpoint whose message is no longer there is not added.
    """
    added, removed = step.get("made", []), step.get("replaced", [])
    if back:
        added, removed = removed, added
    present = {message.id for message in state["messages"]}
    offloaded = offloaded_of(state)
    placed = [_placed(each, present, offloaded["turns"] if offloaded else 0) for each in added]
    # A host may have removed the message in the meantime.
    returning = {
        each["id"]: each
        for each in placed
        if each["message_id"] in {None, *present} or each.get("offloaded")
    }
    returning_ids, dropped = set(returning), {each["id"] for each in removed}
    checkpoints = [
        returning.pop(each["id"], each)
        for each in state.get("checkpoints", [])
        if each["id"] in returning or each["id"] not in dropped
    ]
    if returning:
        checkpoints = sorted([*checkpoints, *returning.values()], key=lambda each: each["turn"])
    events = scope.step_log.later_events
    # The log is not told of checkpoints that were thinned out, so it has them still.
    new = dropped - {each["id"] for each in added} if back else set()
    events += [event_types.checkpoint_removed(each) for each in removed if each["id"] in new]
    events += [event_types.checkpoint(each) for each in added if each["id"] in returning_ids]
    metadata = metadata_of(checkpoints, state["messages"], offloaded_of(state))
    return Update(messages=[], checkpoints=checkpoints, checkpoint_metadata=metadata)


def _placed(checkpoint: Checkpoint, present: set[str | None], offloaded_turns: int) -> Checkpoint:
    """Return a checkpoint with the mark `offloaded` exactly if its message is offloaded now.

    `present` has the ids of the state's messages.
    """
    plain = cast("Checkpoint", {k: v for k, v in checkpoint.items() if k != "offloaded"})
    if checkpoint["message_id"] in {None, *present} or checkpoint["turn"] > offloaded_turns:
        return plain
    return {**plain, "offloaded": True}


def _name_of_change(step: Operation, *, back: bool) -> str:
    """Return the key in `Texts.step_changes` of what undoing (`back`) or repeating a step does.

    Empty for a step that changes messages.
    """
    kind = step["kind"]
    if kind == "pin":
        return "pinned" if bool(step.get("pinned")) is not back else "unpinned"
    if kind == "forget":
        hides = bool(step.get("forgotten")) and not step.get("remembered")
        return "hidden" if hides is not back else "shown"
    if kind == "compact":
        return "shown" if back else "compact"
    if kind == "expand":
        return "shortened" if back else "expanded"
    if kind == "same_topic":
        return "topics_apart" if back else "topics_joined"
    if kind == "label":
        return "label_back" if back else kind
    if kind == "checkpoint":
        created = len(step["made"]) > len(step["replaced"])
        return ("checkpoint_removed" if created else "checkpoint_changed") if back else kind
    return kind if kind in VALUE_STEPS else ""


def change_made(
    before: Sequence[AnyMessage], update: Update, step: Operation, *, undone: bool
) -> StepChange:
    """Return what an `update` that undid or repeated a step changed in the transcript `before`.

    `undone` says which of the two. Messages that are moved or replaced do not count, nor do notices
    and the commands they answer.
    """
    writes = update["messages"]
    added_messages = [each for each in writes if each.type != "remove"]
    gone = {each.id for each in writes if each.type == "remove"} - {m.id for m in added_messages}
    earlier_ids = {message.id for message in before}
    removed = [message for message in in_turns(before) if message.id in gone]
    restored = [message for message in in_turns(added_messages) if message.id not in earlier_ids]
    return StepChange(
        what=_name_of_change(step, back=undone),
        removed=len(removed),
        restored=len(restored),
        removed_turns=len(answers_by_turn(removed)),
        restored_turns=len(answers_by_turn(restored)),
        repeatable=not undone or bool(update["redo"]),
    )


def step_notice(texts: Texts, change: StepChange, *, undone: bool) -> str:
    """Return the notice that tells a user what an undo (`undone`) or a redo changed.

    It also names the command that reverses this, unless the undone step cannot be redone.
    """
    changes = texts.step_text(change)
    if not change.repeatable:
        return changes
    if not undone:
        return texts.say("redone", changes=changes)
    removes = change.what in _REMOVALS or (change.removed and not change.restored)
    return texts.say("undone" if removes else "undone_restored", changes=changes)
