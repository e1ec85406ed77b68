"""Rollback, undo and redo: one implementation for the graph's node and for calls from outside."""

import hashlib
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, cast

from langchain_core.messages import AnyMessage

from unsay.effects import Steps
from unsay.errors import (
    AmbiguousCheckpointError,
    ConflictError,
    DatabaseCorruptError,
    InputError,
    NothingToRedoError,
    NothingToUndoError,
    UnknownCheckpointError,
)
from unsay.events import event_types
from unsay.history.branch import (
    Change,
    Label,
    LiveBranch,
    add_reference,
    answers_in,
    as_one,
    branches_namespace,
    put_in,
    read_branches,
    reference,
    replace_tail,
    take_out,
    without_repeats,
)
from unsay.history.checkpoints import by_age, find_checkpoint, metadata_of, renumbered
from unsay.messages.annotations import answers_by_turn, in_turns, is_answer, is_question, spoken
from unsay.messages.boundaries import safe_split
from unsay.messages.content import preview, text_of, without_files
from unsay.orders.parse import is_command
from unsay.prompts.catalogue import Texts
from unsay.runtime import Scope
from unsay.state import State, Update, merge_messages, offloaded_of
from unsay.storage.items import get_items
from unsay.transcript.record import add_note, log_rollback
from unsay.transcript.undo import (
    VALUE_STEPS,
    messages_of_step,
    renumber_and_log,
    swap,
    swap_checkpoints,
)
from unsay.types import BranchRef, ExpandedTopic, Offloaded, Operation, StoredBranch, Turn, Undone

LOG = logging.getLogger(__name__)

# Most steps in the state that can be undone, and most that can be redone; see `archived_steps`.
OPERATIONS = 1_000
# Most earlier topics that contexts include in full, the newest.
EXPANDED = 4


def live_branch(state: State) -> LiveBranch:
    """Return the parts of a state that a rollback changes, in the form that `replace_tail` takes."""
    offloaded = offloaded_of(state)
    return LiveBranch(
        messages=tuple(state.get("messages", ())),
        before=offloaded["last"] if offloaded else None,
        checkpoints=tuple(state.get("checkpoints", ())),
        segments=tuple(state.get("segments", ())),
        topics=tuple(state.get("topics", ())),
    )


def last_operation(operations: Sequence[Operation]) -> Operation:
    """Return the step that an undo reverses; raise `NothingToUndoError` if there is none."""
    if not operations:
        raise NothingToUndoError(code="nothing_to_undo")
    return operations[-1]


def step_places(steps: Sequence[Operation]) -> set[str | None]:
    """Return the ids of messages to load before the last of `steps` is undone or repeated.

    The earlier ones do not matter. `None` is the transcript's start. Empty if none are needed.
    """
    if not steps or "topic" in steps[-1]:
        return set()
    if steps[-1]["kind"] in VALUE_STEPS:
        return messages_of_step(steps[-1])
    return {steps[-1]["base"]}


def save_branch(change: Change, scope: Scope, refs: Sequence[BranchRef]) -> list[BranchRef]:
    """Log a change, keep what it removed as a branch, and return the references to branches.

    `refs` are those so far. A change without messages and drafts adds none, else `add_reference`
    adds it. `write_ahead` stores the branch when the step is committed; without a store the new
    reference holds it.
    """
    log_rollback(scope, change)
    branch = change.branch
    if not branch["messages"] and not branch["drafts"]:
        return list(refs)
    if scope.address is not None:
        scope.step_log.branches[branch["id"]] = branch
        note_turn_places(dict.fromkeys(answers_in(branch["messages"]), branch["id"]), scope)
    return add_reference(refs, reference(branch, inline=scope.address is None))


def note_turn_places(places: Mapping[str, str], scope: Scope) -> None:
    """Note where to find turns that leave the state: a repeated request then gets its old answer.

    `places` has, by the id of the turn's user message, the id of its branch, or of the new message
    that asks the question again. `write_ahead` stores them, if there is a store.
    """
    scope.step_log.turn_places.update(places)


def load_branches(
    ids: Sequence[str], scope: Scope, refs: Sequence[BranchRef]
) -> Steps[list[StoredBranch]]:
    """Return the branches with these ids, in this order; `DatabaseCorruptError` if one is damaged.

    Raises `ConflictError` if one is not kept: without a store only the newest are.
    """
    # A branch of this step is not stored yet.
    branches = {ref["id"]: ref["body"] for ref in refs if "body" in ref} | scope.step_log.branches
    if scope.address is not None and (missing := [name for name in ids if name not in branches]):
        store, thread_id = scope.address
        values = yield from get_items(store, branches_namespace(thread_id), missing)
        for branch in (yield from read_branches(store, thread_id, list(values.values()))):
            branches[branch["id"]] = branch
    if unknown := [name for name in ids if name not in branches]:
        raise ConflictError(code="branch_dropped", branch=unknown[0])
    return [branches[name] for name in ids]


def readable_branches(
    ids: Sequence[str], scope: Scope, refs: Sequence[BranchRef]
) -> Steps[list[StoredBranch]]:
    """Return those of the branches with these ids that are kept and not damaged, in this order.

    A damaged one is logged as a warning and streamed as `segment_lost`. It is for lists, and for
    steps that must go on; a person who names a branch gets the error of `load_branches`.
    """
    branches: list[StoredBranch] = []
    for name in ids:
        try:
            branches += yield from load_branches([name], scope, refs)
        except ConflictError:
            continue
        except DatabaseCorruptError as error:
            LOG.warning("branch=%r reason=%r a damaged branch is left out", name, str(error))
            scope.emit("segment_lost", error=str(error))
    return branches


def settle(state: State, change: Change, refs: list[BranchRef]) -> Update:
    """Return the update of the state for a change of the current branch.

    `refs` are the references to all branches, as `save_branch` returns them.
    """
    live, offloaded = change.live, offloaded_of(state)
    labels = {each["id"]: each["label"] for each in live.topics}
    checkpoints = renumbered(live.checkpoints, live.messages, offloaded)
    metadata = metadata_of(checkpoints, live.messages, offloaded)
    return Update(
        messages=change.writes,
        checkpoints=checkpoints,
        checkpoint_metadata=metadata,
        segments=list(live.segments),
        topics=list(live.topics),
        current_topic=labels.get(live.segments[-1]["topic_id"], "") if live.segments else "",
        quality_score=metadata.get("quality_score"),
        branches=refs,
    )


def with_step(state: State, step: Operation) -> Update:
    """Return an update that adds a step to undo, and clears the steps that `redo` could repeat."""
    steps, turn = state.get("operations", []), state.get("turn")
    added = {*steps[-1].get("ids", ())} if steps and steps[-1]["kind"] == "add" else set()
    # A turn takes the place of the step by which a host added its question, and nothing else.
    if step["kind"] == "turn" and turn and turn["question_id"] in added <= {*turn["pending"]}:
        steps = steps[:-1]
    return Update(operations=[*steps, step][-OPERATIONS:], redo=[])


def go_back(
    state: State, scope: Scope, base: str | None, label: Label, pending: Sequence[str]
) -> Update:
    """Keep the messages after `base` as a branch; return the update of an ordered rollback.

    `base` and the messages in `pending` stay; `None` is the place before the first message. If
    `label.kind` is `person` and more than commands and notices was moved, `undo` can reverse it.
    Raises `ConflictError` if `base` is not in the state. A judge's rollback is not made here.
    """
    change = replace_tail(live_branch(state), base, label=label, keep=pending)
    refs = save_branch(change, scope, state.get("branches", []))
    update = settle(state, change, refs)
    # A question that waits at its tool steps is asked anew: the stored steps of its old draft are over.
    update["entry_id"] = next_entry_id(state, change)
    if label.kind == "person" and spoken(change.branch["messages"]):
        step = Operation(kind="rollback", base=base, branches=[change.branch["id"]])
        update.update(with_step(state, step))
    return update


def next_entry_id(state: State, change: Change) -> str:
    """Return another id than all earlier ones, and the same if the step runs again after a crash."""
    seed = f"{state.get('entry_id', '')} {change.branch['id']}"
    return hashlib.sha256(seed.encode()).hexdigest()[:16]


def undo_last(state: State, scope: Scope, pending: Sequence[str], reason: str) -> Steps[Update]:
    """Return the update that undoes the newest step, such as a turn, a rollback or a pin.

    What it removes is kept as a branch, with the `reason`; `pending` messages stay. Raises
    `NothingToUndoError` if there is no step, `ConflictError` if it is no longer possible (such as when
    a branch is not kept), `DatabaseCorruptError` if a branch is damaged.
    """
    operations = state.get("operations", [])
    step = last_operation(operations)
    undone_steps = redoable(state, pending)
    label = Label(kind="undo", reason=reason, created_at=scope.now())
    taken_back = yield from _reversed(state, scope, step, label, pending)
    change, update = taken_back.change, taken_back.update
    update["operations"] = list(operations[:-1])
    update["redo"] = []
    removed = spoken(change.branch["messages"])
    # Only an answered turn can be redone.
    if step["kind"] != "turn" or (removed and removed[-1].type != "human"):
        undone = Undone(**taken_back.inverse, at=_end(change.live.messages, pending))
        update["redo"] = [*undone_steps, undone][-OPERATIONS:]
    return update


def redo_last(state: State, scope: Scope, pending: Sequence[str], reason: str) -> Steps[Update]:
    """Return the update that repeats the step that was undone last, with the same messages.

    The arguments are those of `undo_last`, and so are the errors, except that `NothingToRedoError`
    is raised if there is no such step.
    """
    step = last_undone(state, pending)
    label = Label(kind="redo", reason=reason, created_at=scope.now())
    repeated = yield from _reversed(state, scope, step, label, pending)
    update = repeated.update
    update.update(with_step(state, repeated.inverse))
    update["redo"] = redoable(state, pending)[:-1]
    return update


def last_undone(state: State, pending: Sequence[str]) -> Undone:
    """Return the step that a redo repeats; raise `NothingToRedoError` if none is left."""
    undone_steps = redoable(state, pending)
    if not undone_steps:
        raise NothingToRedoError(code="nothing_to_redo")
    return undone_steps[-1]


def redoable(state: State, pending: Sequence[str]) -> list[Undone]:
    """Return the undone steps, newest last; empty if more than `pending` messages came since then."""
    undone = state.get("redo", [])
    # A new turn moves the end of the transcript, so what was undone before cannot be redone.
    end = _end(state.get("messages", ()), pending)
    return list(undone) if undone and undone[-1]["at"] == end else []


def _end(messages: Sequence[AnyMessage], pending: Sequence[str]) -> str | None:
    """Return the id of the last message that waits for no answer; `None` if there is none."""
    ended = [m for m in in_turns(messages) if m.id not in pending]
    return next((m.id for m in reversed(ended) if m.type != "human"), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reversed:
    """A step that was undone or repeated: the change, its update, and the step that reverses it."""

    change: Change
    update: Update
    inverse: Operation


def _reversed(
    state: State, scope: Scope, step: Operation, label: Label, pending: Sequence[str]
) -> Steps[Reversed]:
    """Return how to undo a step or, with the label `redo`, to repeat it.

    The update removes what the step added and puts back what it removed; `pending` messages that it
    did not add stay. The removed messages are kept as branches. Raises `ConflictError` if a branch is not
    kept, the step's place is not in the state, or too much would be pinned or forgotten;
    `DatabaseCorruptError` if a branch is damaged.
    """
    live, old = live_branch(state), state.get("branches", [])
    is_redo = label.kind == "redo"
    inverse = cast("Operation", {key: value for key, value in step.items() if key != "at"})
    if step["kind"] in VALUE_STEPS or "topic" in step:
        nothing = replace_tail(live, live.id_at(len(live.messages) - 1), label=label)
        if step["kind"] in VALUE_STEPS:
            update = yield from swap(state, scope, step, back=not is_redo)
        else:
            update = show_topic(state, scope, step["topic"], expand=is_redo)
        return Reversed(change=nothing, update=update, inverse={**inverse, "branches": []})
    branches = yield from load_branches(step["branches"], scope, old)
    if "ids" in step:
        commands = [m.id for m in live.messages if m.id in pending and is_command(m)]
        changes = take_out(live, step["ids"], label, commands)
        changes += put_in(changes[-1].live if changes else live, branches, label)
        inverse["ids"] = [m.id or "" for branch in branches for m in branch["messages"]]
    else:
        # A question that the step itself put back leaves, although it waits.
        keep = [name for name in pending if name not in step.get("asked", ())]
        # Each rollback of a turn goes back farther: the newest branch is the oldest part.
        tail = replace_tail(live, step["base"], branches[::-1], label=label, keep=keep)
        changes = [tail]
    back = {branch["id"] for branch in branches if not branch["drafts"]}
    refs = [ref for ref in old if ref["id"] not in back]
    for each in changes:
        refs = save_branch(each, scope, refs)
    branch_ids = [each.branch["id"] for each in changes if each.branch["messages"]]
    change = as_one(live, changes, label)
    update = settle(state, change, refs)
    update["entry_id"] = next_entry_id(state, change)
    if step["kind"] == "remove":
        # Where the turn had begun its topic, the next turn has done so since.
        update["segments"] = without_repeats(change.live.segments)
        update["checkpoints"] = renumber_and_log(change.live, offloaded_of(state), scope)
    if "made" in step:  # the checkpoint that the turn made before itself
        new_state: State = {**state, **update, "messages": list(change.live.messages)}
        swapped = swap_checkpoints(new_state, scope, step, back=not is_redo)
        update["checkpoints"] = swapped["checkpoints"]
        update["checkpoint_metadata"] = swapped["checkpoint_metadata"]
    return Reversed(change=change, update=update, inverse={**inverse, "branches": branch_ids})


def show_topic(state: State, scope: Scope, topic_id: str, *, expand: bool) -> Update:
    """Return the update that includes an earlier topic's messages in contexts, until the topic changes.

    With `expand=False` contexts show its summary again. At most `EXPANDED` topics are included, the
    newest. The change is added to the events to log. An unknown `topic_id` is not refused.
    """
    segments = state.get("segments", [])
    others = [each for each in state.get("expanded", []) if each["topic_id"] != topic_id]
    topic = next((each for each in state.get("topics", []) if each["id"] == topic_id), None)
    if topic is not None:
        logged = event_types.expand(topic) if expand else event_types.compaction(topic)
        scope.step_log.later_events.append(logged)
    if expand and segments:
        others.append(ExpandedTopic(topic_id=topic_id, at=segments[-1]["start"]))
    return Update(messages=[], expanded=others[-EXPANDED:])


def place_name(state: State, base: str | None, texts: Texts) -> str:
    """Return words for the place after message `base`: a checkpoint, an answer, or the start.

    An answer is named by its question, which a person remembers. Other messages are quoted.
    """
    if base is None:
        return texts.say("at_start")
    for checkpoint in state.get("checkpoints", []):
        if checkpoint["message_id"] == base:
            return texts.say("at_checkpoint", name=checkpoint["name"] or checkpoint["id"])
    upto = [*takewhile(lambda m: m.id != base, state["messages"])]
    message = next(iter(state["messages"][len(upto) :]), None)
    question = next((m for m in reversed(upto) if is_question(m)), None)
    if message is None or message.type == "human" or question is None:
        words = text_of(message) if message else ""
        return texts.say("at_message", words=preview(words, 40))
    return texts.say("at_answer", words=preview(without_files(text_of(question)), 40))


def count_changes(before: Sequence[AnyMessage], writes: Sequence[Any]) -> tuple[int, int]:
    """Return how many messages an update removes, and how many it adds, as `(removed, added)`.

    `writes` are the update's messages. Those that are moved or replaced do not count, nor do
    notices and the commands they answer.
    """
    new_messages = [w for w in writes if w.type != "remove"]
    removed = {w.id for w in writes if w.type == "remove"} - {m.id for m in new_messages}
    added = {m.id for m in in_turns(new_messages)} - {m.id for m in before}
    return len(removed & {m.id for m in in_turns(before)}), len(added)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What a person's change did: where the transcript ends in words, its turns, and how many messages."""

    turns: int
    removed: int
    restored: int
    at: str


def end_change(
    state: State, scope: Scope, update: Update, keeps: Collection[str] = (), *, event: str | None
) -> Moved:
    """End the turn in the update of a person's change, and return what it changed.

    `keeps` are the ids of unanswered messages that stay, which the place leaves out. `event` is the
    entry for `state_history`; `None` adds none.
    """
    after = merge_messages(state["messages"], [update["messages"]])
    settled = [message for message in after if message.id not in keeps]
    end = live_branch({**state, "messages": settled}).position_before(len(settled))
    texts = scope.texts(state["messages"] or after)
    at = place_name({**state, **update, "messages": after}, end, texts)
    turns = count_turns(after, offloaded_of(state))
    if turn := update.get("turn") or state.get("turn"):
        ended: Turn = {**turn, "number": turns + 1, "done": True}
        update["turn"] = {**ended, "checkpoints_due": [], "rejections": []}
    if event is not None:
        update["state_history"] = add_note(state, scope, "rollback", event, None, number=turns)
    removed, restored = count_changes(state["messages"], update["messages"])
    return Moved(turns=turns, removed=removed, restored=restored, at=at)


def count_turns(messages: Sequence[AnyMessage], offloaded: Offloaded | None = None) -> int:
    """Return how many answered turns the messages have, plus those of the `offloaded` part if given."""
    turns = len(answers_by_turn(messages, goes_on=offloaded is not None))
    return turns + (offloaded["turns"] if offloaded else 0)


# Most digits of a typed number of turns; a longer one can only be a checkpoint's name.
NUMBER_CHARS = 9


def target_of_drafts(live: LiveBranch, base: str | None, failures: int) -> str | None:
    """Return the id of the last message to keep after a failed draft; `None` is the start.

    It is for `rollback_to="checkpoint"`. `base` is the last message before the turn, `failures` the
    number of the turn's failed drafts. The result belongs to the last checkpoint up to `base`. From
    the second failure on it belongs to the last one before `base`: each rollback moved `base` to its
    checkpoint, so each failure goes back farther. Without a checkpoint the result is `base`.
    """
    last = live.positions().get(base, -1) - (failures > 1)
    return _last_checkpoint(live, through=last, otherwise=base)


def target_of_context(live: LiveBranch, start: int) -> str | None:
    """Return the id of the last message to keep if an exchange fails; `None` is the start.

    It is for `rollback_to="checkpoint"`, and belongs to the last checkpoint before index `start`,
    where the exchange begins. Without a checkpoint it is the message before `start`.
    """
    return _last_checkpoint(live, through=start - 1, otherwise=live.position_before(start))


def _last_checkpoint(live: LiveBranch, *, through: int, otherwise: str | None) -> str | None:
    """Return the message id of the newest checkpoint up to index `through`, else `otherwise`.

    Checkpoints within a turn, at the thread's start or at offloaded messages do not count. The
    id, also `otherwise`, is moved back if a tool call would stay without its result. `None` is
    the start.
    """
    whole = [each for each in live.checkpoints if not each.get("in_turn")]
    checkpoints = by_age(whole, live.positions(), through=through)
    return safe_base(live, checkpoints[0]["message_id"] if checkpoints else otherwise)


def safe_base(live: LiveBranch, base: str | None) -> str | None:
    """Return `base`, or an earlier message's id if a tool call would be split from its result.

    `None` is the start. Raises `ConflictError` if `base` is not in `live`.
    """
    index = safe_split(live.messages, live.index_of(base) + 1, towards="older")
    return live.id_at(index - 1)


def target_of(
    live: LiveBranch, to: str | None = None, turns: int | None = None, pending: Sequence[str] = ()
) -> str | None:
    """Return the id of the last message that an ordered rollback keeps; `None` is the start.

    Without `to` (a checkpoint) and `turns` it is that of the last checkpoint before the last
    message, where checkpoints at a turn's steps do not count, or without one the place before the
    last turn. `pending` messages wait for an answer and do not count.

    Raises:
        UnknownCheckpointError: No checkpoint matches `to`.
        AmbiguousCheckpointError: Several match.
        InputError: Both `to` and `turns` are given, or `turns` is not 1 or more.
        NothingToUndoError: There are fewer answered turns than `turns`, or no messages.
        ConflictError: The checkpoint's message is not in `live`: load it first.
    """
    if to is not None and turns is not None:
        raise InputError(code="checkpoint_or_turns", checkpoint=to, turns=turns)
    if to is not None:
        return safe_base(live, find_checkpoint(live.checkpoints, to)["message_id"])
    messages = [m for m in in_turns(live.messages) if m.id not in pending]
    positions = live.positions()
    if turns is not None:
        start = _start_of_turns(messages, turns)
        return safe_base(live, live.position_before(positions[messages[start].id]))
    if not messages:
        raise NothingToUndoError(code="nothing_to_roll_back")
    # A question may be several messages, with documents before it.
    start = next((i for i in range(len(messages) - 1, -1, -1) if is_question(messages[i])), 0)
    while start > 0 and messages[start - 1].type == "human":
        start -= 1
    start_of_turn = live.position_before(positions[messages[start].id])
    return _last_checkpoint(live, through=positions[messages[-1].id] - 1, otherwise=start_of_turn)


def _start_of_turns(messages: Sequence[AnyMessage], turns: int) -> int:
    """Return the index of the message at which the newest `turns` answered turns begin, or raise."""
    if isinstance(turns, bool) or not isinstance(turns, int) or turns < 1:
        raise InputError(code="not_turns", turns=turns)
    places = {message.id: index for index, message in enumerate(messages)}
    ends = [places[answers[-1].id] for answers in answers_by_turn(messages)]
    if turns > len(ends):
        raise NothingToUndoError(
            f"{{turns}} turn{'s' * (turns != 1)} cannot be rolled back: the conversation has "
            f"{{count}} answered turn{'s' * (len(ends) != 1)}",
            code="too_many_turns",
            turns=turns,
            count=len(ends),
        )
    first = 0 if turns == len(ends) else ends[-turns - 1] + 1
    while messages[first].type == "system":
        first += 1
    return first


def turns_typed(live: LiveBranch, argument: str) -> int | None:
    """Return the number of turns that a person typed; `None` for any other text.

    A number that is the name of a checkpoint gives `None` too.
    """
    is_name = any(each["name"] == argument for each in live.checkpoints)
    is_number = argument.isdecimal() and len(argument) <= NUMBER_CHARS and not is_name
    return int(argument) if is_number else None


def rollback_targets(
    live: LiveBranch, to: str | None, turns: int | None
) -> tuple[set[str | None], int]:
    """Return what to load before `target_of` is called: message ids, and a number of newest turns.

    For `turns` there are no ids, and one turn more. For `to` the id is that of the checkpoint's
    message, or there is none if `to` names no checkpoint or several; the number is 0. Without both
    the number is 2; if no checkpoint in the state is a target, the ids are those of the newest two
    offloaded ones.
    """
    if turns is not None:
        return set(), turns + 1 if isinstance(turns, int) else 0
    if to is not None:
        try:
            return {find_checkpoint(live.checkpoints, to)["message_id"]}, 0
        except (UnknownCheckpointError, AmbiguousCheckpointError):
            return set(), 0
    newest = next((m.id for m in reversed(spoken(live.messages)) if is_answer(m)), None)
    whole = [each for each in live.checkpoints if not each.get("in_turn")]
    offloaded = [each for each in whole if each.get("offloaded")]
    # A checkpoint at the start of the thread has no message, and is no target here.
    if any(
        not each.get("offloaded") and each["message_id"] not in (None, newest) for each in whole
    ):
        return set(), 2
    # Two of them: one may be at the newest answer itself, which is no target.
    return {each["message_id"] for each in sorted(offloaded, key=lambda each: each["turn"])[-2:]}, 2
