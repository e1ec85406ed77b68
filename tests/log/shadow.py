"""The log of changes beside today's storage: each state of the suite against the fold of its log.

`Shadow.notice` gets each update with its state, as `write_ahead` does. It appends the exact change to the
thread's log, folds it, and compares the fold with the state. An undo and a redo are made by `turn_back` of the
model from the entry alone, and compared with those of today's code.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, takewhile
from typing import Any, Literal

import pytest
from langchain_core.messages import AnyMessage

from tests.log.changes import (
    Change,
    Entry,
    Splice,
    Swap,
    Thread,
    Value,
    apply,
    places_of,
    turn_back,
)
from tests.log.ranges import index_of, join, split, subtract
from tests.log.records import change_of, record_of
from unsay.conversation import thread
from unsay.effects import Steps
from unsay.errors import ConflictError
from unsay.hosts import single_writer
from unsay.log.ranges import Ranges, positions_of, ranges_of
from unsay.messages.annotations import spoken
from unsay.moves.reconcile import without_stale
from unsay.runtime import Scope, StepLog
from unsay.state import State, Update, offloaded_of, with_update
from unsay.transcript import live, record
from unsay.transcript.record import message_body
from unsay.transcript.undo import VALUE_STEPS
from unsay.turn import runs
from unsay.types import Operation, StoredBranch, Turn

LONGEST = 2_000
"""Messages of the longest thread that is compared: values are kept for each message."""


DERIVED = ("summary:", "span:", "cleared:")
"""Names of values that are made of messages, at any time, and hold while these are there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What an undo or a redo of today's code and the model make different."""

    verb: str
    kind: str
    name: str
    model: Any
    today: Any
    change: Change | None = None
    shared: Collection[str] = ()


def _thinned(difference: Difference) -> bool:
    """Return whether the model brings a checkpoint back whose message never left."""
    value = _returned(difference)
    if not difference.name.startswith("cp:") or difference.today is not None or value is None:
        return False
    splices = difference.change.splices if difference.change else ()
    inserted = join(each.inserted for each in splices)
    return value.anchor is None or index_of(inserted, value.anchor) is None


def _old_summary(difference: Difference) -> bool:
    """Return whether the model has a summary again that the change which is taken back removed."""
    return difference.name.startswith("summary:") and _returned(difference) is not None


def _shared_id(difference: Difference) -> bool:
    """Return whether only notices differ whose id another notice of the thread had, too."""
    if difference.name != "transcript":
        return False
    others = [
        [each for each in ids if each not in difference.shared]
        for ids in (difference.model, difference.today)
    ]
    return others[0] == others[1]


def _returned(difference: Difference) -> Value | None:
    swaps = difference.change.swaps if difference.change else {}
    _, new = swaps.get(difference.name, (None, None))
    return new if new is not None and new.data == difference.model else None


EXPECTED: Mapping[str, Callable[[Difference], bool]] = {
    "a thinned checkpoint returns": _thinned,
    "a summary is swapped back": _old_summary,
    "two notices had one id": _shared_id,
}
"""What an undo of the model makes better than today's code, by name; the shadow counts each."""


@dataclass(slots=True)
class Log:
    """The log of one thread, its fold, and what translates a state into the model."""

    store: Any
    records: list[str] = field(default_factory=list)
    thread: Thread = field(default_factory=Thread)
    entries: dict[str, Entry | None] = field(default_factory=dict)
    offloaded: dict[tuple[str, int], tuple[Ranges, dict[str, Value]]] = field(default_factory=dict)
    bodies: dict[tuple[str, str], int] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)
    before: Thread = field(default_factory=Thread)
    before_host: Thread | None = None
    last: tuple[str | None, Any, Thread] = None, None, Thread()
    starts: dict[str | None, Thread] = field(default_factory=dict)

    def position(self, message: Any) -> int:
        """Return the position of a body; a new one gets the next number."""
        key = (message.id or "", message_body(message))
        if key not in self.bodies:
            self.bodies[key] = len(self.ids)
            self.ids.append(key[0])
        return self.bodies[key]

    def by_id(self, transcript: Ranges) -> dict[str | None, int]:
        """Return the positions of a transcript by the id of the message."""
        return {self.ids[position]: position for position in positions_of(transcript)}

    def origin(self, step: Operation, before: Thread, turns: Iterable[Turn | None]) -> Thread:
        """Return the thread before a step: that before its turn, or else `before`."""
        for turn in turns:
            if turn is None or turn["question_id"] not in self.starts:
                continue
            is_of_turn = not {*step["branches"]} - {*turn["branches"]}
            if step["kind"] == "turn" or (step["kind"] == "rollback" and is_of_turn):
                return self.starts[turn["question_id"]]
        return before

    def append(self, change: Change) -> None:
        """Append a change to the log, as it is stored, and fold it."""
        text = json.dumps(record_of(change))
        self.records.append(text)
        self.thread = apply(self.thread, change_of(json.loads(text)))


def key_of(operation: Mapping[str, Any]) -> str:
    """Return a step of undo or redo as text, without the end of the transcript at its time."""
    return json.dumps({k: v for k, v in operation.items() if k != "at"}, sort_keys=True)


class UnknownError(Exception):
    """The state refers to messages that no state of this log had."""


def thread_of(state: State, log: Log) -> Thread:
    """Return a state as the model has it.

    Offloaded messages are positions of the log, with the topics that they had in it.
    """
    state = without_stale(state)
    messages = state.get("messages", [])
    window = ranges_of([log.position(each) for each in messages])
    before: Ranges = ()
    values: Mapping[str, Value] = {}
    if offloaded := offloaded_of(state):
        before, values = _offloaded(offloaded["last"], offloaded["messages"], log)
    # A front end may have sent offloaded messages again.
    transcript = join([before, subtract(window, before)])
    at = log.by_id(transcript)
    marks = chain(_topics(state, at), _marks(state, at), _texts(state, at))
    return Thread(transcript=transcript, values={**values, **dict(marks)})


def _topics(state: State, at: Mapping[str | None, int]) -> Iterator[tuple[str, Value]]:
    """Yield the topic of each answered message; a message that waits has none yet."""
    messages = state.get("messages", [])
    answered = {each.id for each in spoken(messages)} - _waiting(messages)
    starts = {each["start"]: each["topic_id"] for each in state.get("segments", [])}
    topic = None
    for each in messages:
        topic = starts.get(each.id or "", topic)
        if topic is not None and each.id in answered:
            yield f"topic:{at[each.id]}", Value(data=topic, anchor=at[each.id])


def _waiting(messages: Sequence[AnyMessage]) -> set[str | None]:
    """Return the ids of the messages at the end that nothing answers yet."""
    backwards = reversed(spoken(messages))
    return {each.id for each in takewhile(lambda each: each.type == "human", backwards)}


def _marks(state: State, at: Mapping[str | None, int]) -> Iterator[tuple[str, Value]]:
    """Yield checkpoints, without what follows from the transcript, pins, and what is forgotten or shown."""
    for each in state.get("checkpoints", []):
        data = {k: v for k, v in each.items() if k not in ("turn", "offloaded")}
        yield f"cp:{each['id']}", Value(data=data, anchor=at.get(each["message_id"]))
    for pin in state.get("pins", []):
        if (anchor := at.get(pin["message_id"])) is not None:
            yield f"pin:{pin['message_id']}", Value(data=True, anchor=anchor)
    for entry in state.get("forgotten", []):
        yield f"forgot:{entry['id']}", Value(data=_plain(entry))
    for shown in state.get("expanded", []):
        yield f"shown:{shown['topic_id']}", Value(data=shown["at"])


def _texts(state: State, at: Mapping[str | None, int]) -> Iterator[tuple[str, Value]]:
    """Yield summaries of topics, and what compaction replaced."""
    for topic in state.get("topics", []):
        if (summary := topic["summary"] or topic.get("offloaded")) is not None:
            anchor = at.get(topic["summarized_through"])
            yield f"summary:{topic['id']}", Value(data=summary, anchor=anchor)
    compaction = state.get("compaction", {})
    for topic_id, each in {"": compaction, **compaction.get("topics", {})}.items():
        for span in each.get("spans", []):
            name = f"span:{topic_id}:{span['first']}"
            yield name, Value(data=_plain(span), anchor=at.get(span["through"]))
        if rest := {k: v for k, v in each.items() if k not in ("spans", "topics")}:
            yield f"cleared:{topic_id}", Value(data=_plain(rest))


def _plain(data: Any) -> Any:
    return json.loads(json.dumps(data))


def _offloaded(last: str, count: int, log: Log) -> tuple[Ranges, dict[str, Value]]:
    """Return the positions of the offloaded messages with their topics, also those of an earlier state."""
    transcript, _ = split(log.thread.transcript, count)
    if transcript and log.ids[transcript[-1][1] - 1] == last:
        names = [f"topic:{position}" for position in positions_of(transcript)]
        values = {name: log.thread.values[name] for name in names if name in log.thread.values}
        log.offloaded[last, count] = transcript, values
    if (last, count) not in log.offloaded:
        raise UnknownError
    return log.offloaded[last, count]


def exact_change(cause: str, before: Thread, after: Thread, entry: Entry | None = None) -> Change:
    """Return the change that leads from one thread to another."""
    old, new = list(positions_of(before.transcript)), list(positions_of(after.transcript))
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    splices: tuple[Splice, ...] = ()
    if old != new:
        splices = (
            Splice(
                after=old[start - 1] if start else None,
                removed=ranges_of(old[start : len(old) - end]),
                inserted=ranges_of(new[start : len(new) - end]),
            ),
        )
    return Change(cause=cause, splices=splices, swaps=_swaps(before, after), entry=entry)


def _swaps(before: Thread, after: Thread) -> dict[str, Any]:
    return {
        name: (before.values.get(name), after.values.get(name))
        for name in sorted({*before.values, *after.values})
        if before.values.get(name) != after.values.get(name)
    }


def entry_of(operation: Operation, before: Thread, after: Thread, log: Log) -> Entry:
    """Return how the model takes a step back that led from one thread to another."""
    swaps = _swaps(after, before)
    if operation["kind"] in VALUE_STEPS or "topic" in operation:
        return Entry(swaps=swaps)
    removed = subtract(before.transcript, after.transcript)
    # A text that was made of other messages stays with them; what it replaced does not return.
    swaps = {
        name: (new, old)
        for name, (new, old) in swaps.items()
        if not name.startswith(DERIVED) or (new is None and removed)
    }
    at = {**log.by_id(before.transcript), **log.by_id(after.transcript)}
    if "ids" in operation:
        own = ranges_of(sorted(at[name] for name in operation["ids"] if name in at))
        leaving = join([subtract(own, removed), removed])
        places = places_of(before.transcript, removed)
        return Entry(moves=True, is_open=False, leaving=leaving, places=places, swaps=swaps)
    base = at.get(operation["base"])
    leaving = ranges_of(sorted(at[name] for name in operation.get("asked", ()) if name in at))
    return Entry(moves=True, base=base, leaving=leaving, returning=removed, swaps=swaps)


def _anchored(pair: Swap, positions: Ranges) -> bool:
    anchors = [value.anchor for value in pair if value is not None and value.anchor is not None]
    return any(index_of(positions, each) is not None for each in anchors)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenBack:
    """A step that an undo or a redo (`verb`) of today's code takes back, and the ids that stay."""

    verb: Literal["undo", "redo"]
    step: Operation
    keep: Sequence[str]
    step_log: StepLog


class Shadow:
    """The logs of all threads of a test, what was compared, and what differs without a name."""

    def __init__(self) -> None:
        self.logs: dict[Any, Log] = {}
        self.taken_back: dict[int, TakenBack] = {}
        self.too_long: set[Any] = set()
        self.counts: Counter[str] = Counter()
        self.differences: list[Difference] = []

    def notice(self, state: State, scope: Scope, update: Update, *, is_host: bool = False) -> None:
        """Append the change of an update to the log of its thread, and compare the two.

        With `is_host` the update is one of several parts of a host's change.
        """
        taken_back = self.taken_back.pop(id(scope.step_log), None)
        if scope.thread_id is None:
            self.counts["skipped: no thread"] += 1
        elif len(state.get("messages", ())) + len(update.get("messages", ())) > LONGEST:
            self.counts["skipped: long"] += 1
            self.too_long.add(_place(scope))
        elif _place(scope) in self.too_long:
            self.counts["skipped: long"] += 1
        else:
            log = self.logs.setdefault(_place(scope), Log(store=scope.store))
            try:
                self._append(log, state, scope, update, taken_back)
            except UnknownError:
                self.counts["skipped: messages offloaded before the log"] += 1
            else:
                log.before_host = log.before if is_host else None

    def _append(
        self, log: Log, state: State, scope: Scope, update: Update, taken_back: TakenBack | None
    ) -> None:
        after_state = with_update(state, update)
        before = self._begun(log, state)
        turns = (state.get("turn"), after_state.get("turn"))
        if _begins(*turns):
            log.starts[_question(turns[1])] = _without_question(
                before, state, turns[1], scope, update, log
            )
        after = thread_of(after_state, log)
        if taken_back is not None:
            cause: str = taken_back.verb
            entry = self._take_back(log, taken_back, before, after, turns[0])
            inverse: Sequence[Operation] = after_state.get("operations", [])
            if cause == "undo":
                inverse = after_state.get("redo", [])
            if inverse:
                log.entries[key_of(inverse[-1])] = entry
        else:
            cause, entry = self._new_step(log, (state, after_state), scope.run_id, after)
        log.append(exact_change(cause, before, after, entry))
        self.counts["changes"] += 1
        if _content(log.thread) != _content(after):
            self._differ(cause, "", "fold", _content(log.thread), _content(after))

    def _begun(self, log: Log, state: State) -> Thread:
        """Append what a host changed since the last update; return the thread before this one."""
        old, before = log.thread, thread_of(state, log)
        if _content(before) != _content(old):
            self.counts["changes of hosts"] += 1
            log.append(exact_change("host", old, before))
        steps = {key_of(each): each for each in state.get("operations", [])}
        new = {key: each for key, each in steps.items() if key not in log.entries}
        for key, step in new.items():
            if len(log.records) < 2:
                log.entries[key] = None
                continue
            entry = entry_of(step, log.before_host or old, before, log)
            if len(new) > 1:
                own = {k: v for k, v in entry.swaps.items() if _anchored(v, entry.leaving)}
                entry = replace(entry, swaps=own)
            log.entries[key] = entry
            self.counts[f"step of a host: {step['kind']}"] += 1
        log.before = log.thread
        return log.thread

    def _new_step(
        self, log: Log, states: tuple[State, State], run_id: str | None, after: Thread
    ) -> tuple[str, Entry | None]:
        """Return the cause of a change, and how the model takes it back."""
        old_steps, steps = ([*map(key_of, each.get("operations", []))] for each in states)
        new = [*(Counter(steps) - Counter(old_steps)).elements()]
        turns = [each.get("turn") for each in states]
        for key in new:
            step: Operation = json.loads(key)
            origin = log.origin(step, log.before, turns)
            # Several at once are those of another thread, whose copy this one is.
            log.entries[key] = entry_of(step, origin, after, log) if len(new) == 1 else None
            log.last = run_id, step, origin
            self.counts[f"step {step['kind']}"] += 1
        if new:
            return log.last[1]["kind"], log.entries[new[-1]]
        if run_id is not None and run_id == log.last[0] and log.last[1] is not None:
            # Checkpoints of a turn come after its answer, and belong to it.
            log.entries[key_of(log.last[1])] = entry_of(log.last[1], log.last[2], after, log)
        return "update", None

    def _take_back(
        self, log: Log, taken_back: TakenBack, before: Thread, after: Thread, turn: Turn | None
    ) -> Entry | None:
        """Compare an undo or a redo with that of the model; return how the model takes it back."""
        verb, step = taken_back.verb, taken_back.step
        key = key_of(step)
        if key not in log.entries:  # A turn that was stopped is a step for this undo only.
            log.entries[key] = entry_of(step, log.origin(step, before, [turn]), before, log)
        entry = log.entries[key]
        if entry is None:
            self.counts["skipped: a step from before the log"] += 1
            return None
        self.counts[f"{verb} {step['kind']}"] += 1
        at = log.by_id(before.transcript)
        keep = ranges_of(sorted(at[name] for name in taken_back.keep if name in at))
        try:
            change = turn_back(before, entry, keep=keep)
        except ConflictError as error:
            self._differ(verb, step["kind"], "refused", str(error), "")
            return None
        model = apply(before, change)
        if model.transcript != after.transcript:
            ids = [[log.ids[p] for p in positions_of(x.transcript)] for x in (model, after)]
            shared = [name for name, count in Counter(log.ids).items() if count > 1]
            shared = [name for name in shared if name.startswith("notice-")]
            self._differ(verb, step["kind"], "transcript", *ids, change=change, shared=shared)
        for name, pair in _swaps(model, after).items():
            old, new = (value and value.data for value in pair)
            if old != new:
                self._differ(verb, step["kind"], name, old, new, change=change)
        return change.entry

    def _differ(
        self,
        verb: str,
        kind: str,
        name: str,
        model: Any,
        today: Any,
        *,
        change: Change | None = None,
        shared: Collection[str] = (),
    ) -> None:
        difference = Difference(
            verb=verb,
            kind=kind,
            name=name,
            model=model,
            today=today,
            change=change,
            shared=shared,
        )
        for named, is_it in EXPECTED.items():
            if is_it(difference):
                self.counts[f"expected: {named}"] += 1
                return
        self.differences.append(difference)


def _begins(old: Turn | None, new: Turn | None) -> bool:
    if new is None:
        return False
    return old is None or _question(old) != _question(new) or old["done"] > new["done"]


def _question(turn: Turn | None) -> str | None:
    return turn["question_id"] if turn else None


def _without_question(
    thread: Thread, state: State, turn: Turn | None, scope: Scope, update: Update, log: Log
) -> Thread:
    """Return a thread before a turn: its question leaves with it, and so does a command that asks again."""
    bodies: list[StoredBranch] = [
        each["body"] for each in update.get("branches", []) if "body" in each
    ]
    branches = [*scope.step_log.branches.values(), *bodies]
    gone = {m.id for each in branches if each["kind"] == "order" for m in each["messages"]}
    # An edit moves a question that waits to the branch of the later turns.
    if turn and not turn["branches"]:
        gone |= _waiting(state.get("messages", []))
    positions = positions_of(thread.transcript)
    rest = ranges_of(each for each in positions if log.ids[each] not in gone)
    return replace(thread, transcript=rest)


def _content(thread: Thread) -> tuple[Ranges, Mapping[str, Value]]:
    return thread.transcript, thread.values


def _place(scope: Scope) -> Any:
    config = scope.config.get("configurable", {})
    parents = str(config.get("checkpoint_ns", "")).split("|")[:-1]
    store = getattr(scope.store, "location", None) or id(scope.store)
    return scope.thread_id, tuple(each.partition(":")[0] for each in parents), store


@contextmanager
def watching() -> Iterator[Shadow]:
    """Compare each update of every thread while this is open; the caller looks at the differences."""
    shadow = Shadow()
    write_ahead, undo_last, redo_last = record.write_ahead, live.undo_last, live.redo_last

    def noticed(state: State, scope: Scope, update: Update) -> Steps[Update]:
        written = yield from write_ahead(state, scope, update)
        shadow.notice(state, scope, written)
        return written

    def kept(state: State, scope: Scope, update: Update) -> Steps[Update]:
        written = yield from write_ahead(state, scope, update)
        shadow.notice(state, scope, written, is_host=True)
        return written

    def undone(state: State, scope: Scope, pending: Sequence[str], reason: str) -> Steps[Update]:
        update = yield from undo_last(state, scope, pending, reason)
        step, log = live.last_operation(state.get("operations", [])), scope.step_log
        shadow.taken_back[id(log)] = TakenBack(verb="undo", step=step, keep=pending, step_log=log)
        return update

    def redone(state: State, scope: Scope, pending: Sequence[str], reason: str) -> Steps[Update]:
        update = yield from redo_last(state, scope, pending, reason)
        step, log = live.last_undone(state, pending), scope.step_log
        shadow.taken_back[id(log)] = TakenBack(verb="redo", step=step, keep=pending, step_log=log)
        return update

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record, "write_ahead", kept)  # `moves.reconcile` calls it there, no one else
        for module in (runs, single_writer, thread):
            patch.setattr(module, "write_ahead", noticed)
        patch.setattr(live, "undo_last", undone)
        patch.setattr(live, "redo_last", redone)
        yield shadow
