"""Random changes of a thread, against plain lists."""

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.log.changes import (
    Change,
    Entry,
    Splice,
    Swap,
    Thread,
    Value,
    apply,
    fold,
    make_change,
    redo,
    undo,
)
from tests.log.oracle import Message, PlainThread, RefusedError, Step
from tests.log.ranges import index_of, intersect, join, position_at, size_of, split, subtract
from tests.log.records import change_of, record_of
from unsay.errors import ConflictError, DatabaseCorruptError
from unsay.log.ranges import Ranges, positions_of, ranges_of

POSITIONS = st.lists(st.integers(0, 40), unique=True, max_size=30)
FULL = settings().max_examples >= 60


@given(POSITIONS, POSITIONS, st.integers(0, 31))
def test_ranges_are_lists(some: list[int], others: list[int], index: int) -> None:
    """Every function of ranges does what it does on a list of positions."""
    ranges, other_ranges = ranges_of(some), ranges_of(others)

    assert some == list(positions_of(ranges))
    assert len(some) == size_of(ranges)
    assert [x for x in some if x not in others] == list(
        positions_of(subtract(ranges, other_ranges))
    )
    assert [x for x in some if x in others] == list(positions_of(intersect(ranges, other_ranges)))
    first, rest = split(ranges, index)
    assert (some[:index], some[index:]) == (list(positions_of(first)), list(positions_of(rest)))
    assert ranges == join([first, rest])
    assert [some.index(x) if x in some else None for x in range(41)] == [
        index_of(ranges, x) for x in range(41)
    ]
    assert [None, *some] == [position_at(ranges, number) for number in range(-1, len(some))]


class Both:
    """A thread as a log and as plain lists, which the same orders change."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.plain = PlainThread()
        self.thread = Thread()
        self.log: list[Change] = []
        self.threads: list[Thread] = []
        self.returning: list[Mapping[str, Swap]] = []
        self.names = iter(range(10**9))

    # What the log has, and what an order does to both.

    def carry_out(
        self,
        cause: str,
        splices: Sequence[Splice],
        messages: Sequence[Message],
        *,
        marks: Mapping[tuple[int, str], Any] | None = None,
        data: Mapping[str, Any] | None = None,
        returning: Mapping[str, Value | None] | None = None,
        step: Step | None = None,
    ) -> Change:
        """Change both, with the marks and data of the order; `step` is how plain lists take it back."""
        marks, data = marks or {}, data or {}
        swaps: dict[str, Value | None] = {
            **(returning or {}),
            **{
                name: None if value is None else Value(data=value, anchor=position)
                for (position, name), value in marks.items()
            },
            **{name: None if value is None else Value(data=value) for name, value in data.items()},
        }
        entry = None
        if step is not None:
            entry = Entry(
                moves=step.moves,
                base=step.base,
                is_open=step.is_open,
                leaving=ranges_of(sorted(step.leaving)),
                returning=ranges_of(each.position for each in step.returning),
                places=tuple(
                    (base, ranges_of(each.position for each in messages))
                    for base, messages in step.places
                ),
            )
        change = make_change(self.thread, cause, splices, swaps, entry=entry)
        self.append(change)
        self.plain.did(self.plain.change(step, messages, marks, data))
        return change

    def append(self, change: Change) -> None:
        """Append a change to the log, as it is stored."""
        stored = change_of(json.loads(json.dumps(record_of(change))))
        assert change == stored
        self.thread = apply(self.thread, stored)
        self.log.append(stored)
        self.threads.append(self.thread)

    def check(self) -> None:
        """Compare the two."""
        plain = self.plain
        assert [each.position for each in plain.messages] == list(
            positions_of(self.thread.transcript)
        )
        anchored = {
            name: (value.data, value.anchor)
            for name, value in self.thread.values.items()
            if value.anchor is not None
        }
        others = {
            name: value.data for name, value in self.thread.values.items() if value.anchor is None
        }
        assert plain.marks() == anchored
        assert plain.data == others
        assert len(plain.steps) == len(self.thread.undo)
        assert len(plain.undone) == len(self.thread.redo)

    def keep(self) -> list[int]:
        """Return the positions of the waiting questions."""
        return [each.position for each in self.plain.waiting()]

    def cut(
        self, cause: str, index: int, keep: Sequence[int], new: Sequence[Message] = (), **more: Any
    ) -> None:
        """Remove what follows an index but `keep`, and put new messages there: an open step."""
        messages = self.plain.messages
        base = self.plain.before(index)
        behind = messages[index:]
        gone = tuple(each for each in behind if each.position not in keep)
        staying = [each for each in behind if each.position in keep]
        # A message that returns at once has never left, and has the marks of now.
        there = {each.position: each for each in behind}
        new = [there.get(each.position, each) for each in new]
        left = tuple(each for each in gone if each not in new)
        if left:
            self.plain.removed.append((base, left))
        after_gone = Splice(
            after=base,
            removed=ranges_of(each.position for each in behind),
            inserted=ranges_of(each.position for each in [*new, *staying]),
        )
        entered = frozenset(each.position for each in new if each.position not in there)
        step = Step(moves=True, base=base, leaving=entered, returning=left)
        change = self.carry_out(
            cause, [after_gone], [*messages[:index], *new, *staying], step=step, **more
        )
        if left:
            self.returning.append(change.swaps)

    def take(self, cause: str, chosen: Sequence[Message]) -> None:
        """Remove some messages: a closed step."""
        plain = self.plain
        positions = {each.position for each in chosen}
        index = next(i for i, each in enumerate(plain.messages) if each.position in positions)
        base = plain.before(index)
        splices = []
        for place, each in reversed(list(enumerate(plain.messages))):
            if each.position in positions:
                one = ranges_of([each.position])
                splices.append(Splice(after=plain.before(place), removed=one))
        step = Step(
            moves=True,
            base=base,
            is_open=False,
            leaving=frozenset(positions),
            places=plain.places(positions),
        )
        rest = [each for each in plain.messages if each.position not in positions]
        self.carry_out(cause, splices, rest, step=step)

    # The orders.

    def say(self) -> None:
        """A question and its answer; older turns may be removed, and values may change."""
        plain, dice = self.plain, self.dice
        waiting = plain.waiting()
        index = len(plain.messages) - len(waiting)
        if dice.random() < 0.2 and index:
            index = dice.randrange(index + 1)
        new = [plain.new(is_question=True), plain.new(is_question=False)]
        answer = new[1].position
        marks: dict[tuple[int, str], Any] = {
            (each.position, f"topic:{each.position}"): f"topic {dice.randrange(3)}" for each in new
        }
        if dice.random() < 0.6:
            marks[answer, f"checkpoint:{next(self.names)}"] = {"score": 0.9}
        names = [(at, name) for name, (_, at) in plain.marks().items() if name[0] == "c"]
        kept = {each.position for each in [*plain.messages[:index], *waiting]}
        if names and dice.random() < 0.3:
            thinned = dice.choice(names)
            if thinned[0] in kept:
                marks[thinned] = None
        data = self.some_data()
        self.cut("turn", index, [], [*waiting, *new], marks=marks, data=data)

    def some_data(self) -> dict[str, Any]:
        """Return new data of the thread: summaries, a label, or none."""
        names = ("summary:1", "summary:2", "label")
        return {
            name: self.dice.choice([None, next(self.names)])
            for name in names
            if self.dice.random() < 0.2
        }

    def ask(self) -> None:
        """A question that stays unanswered: no step."""
        message = self.plain.new(is_question=True)
        end = self.plain.before(len(self.plain.messages))
        splice = Splice(after=end, inserted=ranges_of([message.position]))
        self.carry_out("question", [splice], [*self.plain.messages, message])

    def set_aside(self) -> None:
        """The waiting questions leave without an answer: no step."""
        plain = self.plain
        waiting = plain.waiting()
        if waiting:
            index = len(plain.messages) - len(waiting)
            removed = ranges_of(each.position for each in waiting)
            splice = Splice(after=plain.before(index), removed=removed)
            self.carry_out("interrupted", [splice], plain.messages[:index])

    def insert(self) -> None:
        """Removed messages return to the place behind a message, and all others stay."""
        plain = self.plain
        if not plain.removed:
            return
        number = self.dice.randrange(len(plain.removed))
        base, tail = plain.removed[number]
        index = plain.index_behind(base)
        now = {each.position for each in plain.messages}
        back = [each for each in tail if each.position not in now]
        positions = [each.position for each in back]
        values = {
            name: old
            for name, (old, _) in self.returning[number].items()
            if old is not None and old.anchor in positions
        }
        step = Step(moves=True, base=base, is_open=False, leaving=frozenset(positions))
        messages = [*plain.messages[:index], *back, *plain.messages[index:]]
        splice = Splice(after=base, inserted=ranges_of(positions))
        self.carry_out("insert", [splice], messages, returning=values, step=step)

    def rollback(self) -> None:
        """Back to some message; the waiting questions stay."""
        answered = len(self.plain.messages) - len(self.keep())
        if answered:
            self.cut("rollback", self.dice.randrange(answered), self.keep())

    def restore(self) -> None:
        """A removed end returns to its place; what is there leaves."""
        plain, dice = self.plain, self.dice
        if not plain.removed:
            return
        number = dice.randrange(len(plain.removed))
        base, tail = plain.removed[number]
        index = plain.index_behind(base)
        there = {each.position for each in plain.messages[:index]} | set(self.keep())
        back = [each for each in tail if each.position not in there]
        now = {each.position for each in plain.messages}
        positions = [each.position for each in back if each.position not in now]
        values = {
            name: old
            for name, (old, _) in self.returning[number].items()
            if old is not None and old.anchor in positions
        }
        # What returns is in the list with its marks, so nothing is set there.
        self.cut("restore", index, self.keep(), back, returning=values)

    def pick(self) -> None:
        """Copies of messages come to the end."""
        plain = self.plain
        new = [plain.new(is_question=each.is_question) for each in plain.messages[:2]]
        if new and not plain.waiting():
            self.cut("pick", len(plain.messages), [], new)

    def add(self) -> None:
        """A host adds messages: only they leave when this is undone."""
        plain = self.plain
        new = [plain.new(is_question=self.dice.random() < 0.5) for _ in range(2)]
        base = plain.before(len(plain.messages))
        positions = [each.position for each in new]
        step = Step(moves=True, base=base, is_open=False, leaving=frozenset(positions))
        splice = Splice(after=base, inserted=ranges_of(positions))
        self.carry_out("add", [splice], [*plain.messages, *new], step=step)

    def take_some(self) -> None:
        """A turn, or what a host chose, leaves; the rest stays."""
        messages = self.plain.messages
        if messages:
            chosen = self.dice.sample(messages, self.dice.randint(1, min(3, len(messages))))
            self.take("remove", [each for each in messages if each in chosen])

    def replace_one(self) -> None:
        """A host rewrites a message: the new words have a position of their own."""
        plain = self.plain
        if not plain.messages:
            return
        index = self.dice.randrange(len(plain.messages))
        old = plain.messages[index]
        new = plain.new(is_question=old.is_question)
        step = Step(
            moves=True,
            base=plain.before(index),
            is_open=False,
            leaving=frozenset([old.position, new.position]),
            places=((plain.before(index), (old,)),),
        )
        splice = Splice(
            after=plain.before(index),
            removed=ranges_of([old.position]),
            inserted=ranges_of([new.position]),
        )
        messages = [new if each is old else each for each in plain.messages]
        self.carry_out("edit", [splice], messages, step=step)

    def mark(self) -> None:
        """Pin, forget, name or judge some messages: a step, but for the verdict."""
        plain, dice = self.plain, self.dice
        if not plain.messages:
            return
        kind = dice.choice(["pin", "forgotten", "topic", "verdict", "span"])
        chosen = dice.sample(plain.messages, dice.randint(1, min(3, len(plain.messages))))
        marks = {
            (each.position, f"{kind}:{each.position}"): dice.choice([None, next(self.names)])
            for each in chosen
        }
        step = None if kind == "verdict" else Step()
        self.carry_out(kind, [], plain.messages, marks=marks, data=self.some_data(), step=step)

    def back(self) -> None:
        """Undo, and often redo, with the waiting questions kept or not."""
        for order in self.dice.choice([(undo,), (undo, redo), (undo, undo, redo, redo), (redo,)]):
            self.take_back(order, self.keep() if self.dice.random() < 0.7 else [])

    def take_back(self, order: Callable[..., Change | None], keep: list[int]) -> None:
        """Undo or redo in both, which refuse the same."""
        plain_order = self.plain.undo if order is undo else self.plain.redo
        try:
            plain_order(keep)
        except RefusedError:
            assert self.changed_by(order, keep) is None
            return
        change = self.changed_by(order, keep)
        assert change is not None
        self.append(change)

    def changed_by(self, order: Callable[..., Change | None], keep: list[int]) -> Change | None:
        """Return what an undo or a redo changes; `None` if it is refused."""
        try:
            return order(self.thread, keep=ranges_of(keep))
        except ConflictError:
            return None

    def orders(self) -> Iterator[Callable[[], None]]:
        """Yield orders without end."""
        orders = (
            *(self.say, self.say, self.say, self.back, self.back, self.back, self.rollback),
            *(self.ask, self.restore, self.pick, self.add, self.take_some, self.replace_one),
            *(self.mark, self.mark, self.insert, self.set_aside),
        )
        while True:
            yield self.dice.choice(orders)


def run(seed: int, size: int) -> int:
    """Carry out random orders, compare after each, and fold the log again; return its length."""
    both = Both(random.Random(seed))  # noqa: S311 - the orders of a test
    for _, order in zip(range(size), both.orders(), strict=False):
        try:
            order()
        except RefusedError:
            """A branch whose place is gone."""
        both.check()
    middle = len(both.log) // 2
    assert both.threads[middle] == fold(both.log[: middle + 1])
    assert both.thread == fold(both.log[middle + 1 :], both.threads[middle])
    return len(both.log)


@pytest.mark.hypothesis
@pytest.mark.sample(every=1)
@pytest.mark.parametrize("part", range(4 if FULL else 2))
def test_any_change_is_that_of_plain_lists(part: int) -> None:
    """Transcript, values, and what can be undone and redone are the same after every change."""
    for seed in range(part * 1000, part * 1000 + (150 if FULL else 15)):
        run(seed, 100)


@pytest.mark.nightly
@pytest.mark.timeout(7200)
def test_a_million_changes_are_those_of_plain_lists() -> None:
    """The same for a million changes."""
    changes, seed = 0, 10_000
    while changes < 1_000_000:
        changes += run(seed, 100)
        seed += 1


def test_a_change_of_another_thread_is_refused() -> None:
    """The fold loses nothing in silence."""
    thread = fold([make_change(Thread(), "add", [Splice(after=None, inserted=((0, 4),))])])
    with pytest.raises(DatabaseCorruptError):
        apply(thread, Change(cause="x", splices=(Splice(after=0, removed=((2, 3),)),)))
    with pytest.raises(DatabaseCorruptError):
        apply(thread, Change(cause="x", splices=(Splice(after=3, inserted=((1, 2),)),)))
    with pytest.raises(DatabaseCorruptError):
        apply(thread, Change(cause="x", swaps={"pin:1": (Value(data=1, anchor=1), None)}))
    with pytest.raises(ConflictError):
        apply(thread, Change(cause="x", splices=(Splice(after=9, removed=((2, 3),)),)))


def test_ten_thousand_turns_are_one_range() -> None:
    """Going back over thousands of turns moves two numbers, however long the thread is."""
    thread = fold([make_change(Thread(), "add", [Splice(after=None, inserted=((0, 20_000),))])])
    removed: Ranges = ((10_000, 20_000),)
    cut = make_change(
        thread,
        "rollback",
        [Splice(after=9_999, removed=removed)],
        entry=Entry(moves=True, base=9_999, returning=removed),
    )
    short = apply(thread, cut)
    back = undo(short)

    assert ((0, 10_000),) == short.transcript
    assert back is not None
    assert thread.transcript == apply(short, back).transcript
