"""What a thread must be after any change, told by plain lists that know nothing of ranges and swaps.

A message is an object with marks, such as checkpoints, a pin or its topic. A step says where it happened, which messages
leave when it is taken back, and which return; the removed messages keep the marks that they had.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any


class RefusedError(Exception):
    """The order cannot be carried out, and nothing changes."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message; `position` is its serial number."""

    position: int
    is_question: bool
    marks: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What is taken back: a move behind `base`, marks of messages that stay, and data of the thread.

    A closed step has instead the `places` of what returns: the position before, and the messages.
    """

    moves: bool = False
    base: int | None = None
    is_open: bool = True
    leaving: frozenset[int] = frozenset()
    returning: tuple[Message, ...] = ()
    places: tuple[tuple[int | None, tuple[Message, ...]], ...] = ()
    marks: Mapping[tuple[int, str], Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class PlainThread:
    """A thread as a list of messages."""

    messages: list[Message] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    undone: list[tuple[Step, int | None]] = field(default_factory=list)
    removed: list[tuple[int | None, tuple[Message, ...]]] = field(default_factory=list)
    serials: Any = field(default_factory=count)

    def marks(self) -> dict[str, tuple[Any, int]]:
        """Return the marks of all messages by name, with the position of the message."""
        return {
            name: (value, message.position)
            for message in self.messages
            for name, value in message.marks.items()
        }

    def new(self, *, is_question: bool, **marks: Any) -> Message:
        """Return a message with the next number."""
        return Message(next(self.serials), is_question, marks)

    def index_behind(self, base: int | None) -> int:
        """Return the index behind a message."""
        if base is None:
            return 0
        for index, message in enumerate(self.messages, start=1):
            if message.position == base:
                return index
        raise RefusedError

    def before(self, index: int) -> int | None:
        """Return the position of the message before an index."""
        return self.messages[index - 1].position if index else None

    def waiting(self) -> list[Message]:
        """Return the questions at the end that nothing answers."""
        index = len(self.messages)
        while index and self.messages[index - 1].is_question:
            index -= 1
        return self.messages[index:]

    def end(self, keep: Collection[int]) -> int | None:
        """Return the last position that does not wait."""
        others = [each.position for each in self.messages if each.position not in keep]
        return others[-1] if others else None

    def change(
        self,
        step: Step | None,
        messages: Sequence[Message],
        marks: Mapping[tuple[int, str], Any],
        data: Mapping[str, Any],
    ) -> Step | None:
        """Set the messages, then marks and data, where `None` removes one; return how to take it back."""
        old_messages, old_data = self.messages, dict(self.data)
        there = {each.position for each in messages}
        new_messages = [
            replace(each, marks=_marked(each.marks, marks, each.position)) for each in messages
        ]
        self.messages = new_messages
        self.data = _set(self.data, data)
        if step is None:
            return None
        old_marks = {
            (each.position, name): each.marks.get(name)
            for each in old_messages
            for name in {name for position, name in marks if position == each.position}
            if each.position in there and each.marks.get(name) != marks[each.position, name]
        }
        # A message that this change brought loses what it brought, if it stays when this is taken back.
        were_there = {each.position for each in old_messages}
        brought = {
            (each.position, name): None
            for each in new_messages
            if each.position not in were_there
            for name in each.marks
        }
        return replace(
            step,
            marks={**old_marks, **brought},
            data={
                name: old_data.get(name)
                for name, value in data.items()
                if old_data.get(name) != value
            },
        )

    def did(self, step: Step | None) -> None:
        """Note a step that can be undone."""
        if step is not None:
            self.steps.append(step)
            self.undone = []

    def take_back(self, step: Step, keep: Collection[int]) -> Step:
        """Take a step back; return the step that takes this back."""
        if not step.moves:
            inverse = self.change(step, self.messages, step.marks, step.data)
            assert inverse is not None
            return inverse
        if not step.is_open:
            return self.take_back_closed(step)
        index = self.index_behind(step.base)
        before, behind = self.messages[:index], self.messages[index:]
        keep = {*keep} - step.leaving
        staying = [each for each in behind if each.position in keep]
        there = {each.position for each in [*before, *staying]}
        now = {each.position: each for each in behind}
        returning = [
            now.get(each.position, each) for each in step.returning if each.position not in there
        ]
        gone = tuple(each for each in behind if each not in staying)
        inverse = self.change(step, [*before, *returning, *staying], step.marks, step.data)
        assert inverse is not None
        return replace(inverse, returning=gone)

    def take_back_closed(self, step: Step) -> Step:
        """Take a step back that keeps all other messages, wherever they came."""
        before = self.messages
        new = [each for each in before if each.position not in step.leaving]
        now = {each.position: each for each in before}
        for base, messages in step.places:
            positions = [None, *(each.position for each in new)]
            if base not in positions:
                raise RefusedError
            index = positions.index(base)
            there = {each.position for each in new}
            new[index:index] = [
                now.get(each.position, each) for each in messages if each.position not in there
            ]
        places = self.places({each.position for each in before} & step.leaving)
        inverse = self.change(step, new, step.marks, step.data)
        assert inverse is not None
        return replace(inverse, places=places)

    def places(
        self, positions: Collection[int]
    ) -> tuple[tuple[int | None, tuple[Message, ...]], ...]:
        """Return messages as runs of neighbours, each with the position before it."""
        runs: list[tuple[int | None, tuple[Message, ...]]] = []
        before: int | None = None
        for each in self.messages:
            if each.position in positions:
                if runs and runs[-1][1][-1].position == before:
                    runs[-1] = (runs[-1][0], (*runs[-1][1], each))
                else:
                    runs.append((before, (each,)))
            before = each.position
        return tuple(runs)

    def undo(self, keep: Collection[int]) -> None:
        """Take the newest step back."""
        if not self.steps:
            raise RefusedError
        can_redo = bool(self.undone) and self.undone[-1][1] == self.end(keep)
        inverse = self.take_back(self.steps[-1], keep)
        self.steps.pop()
        self.undone = [*(self.undone if can_redo else []), (inverse, self.end(keep))]

    def redo(self, keep: Collection[int]) -> None:
        """Take the newest undo back, unless the thread went on."""
        if not self.undone or self.undone[-1][1] != self.end(keep):
            raise RefusedError
        step, _ = self.undone[-1]
        self.steps.append(self.take_back(step, keep))
        self.undone.pop()


def _marked(
    marks: Mapping[str, Any], new: Mapping[tuple[int, str], Any], position: int
) -> dict[str, Any]:
    return _set(marks, {name: value for (at, name), value in new.items() if at == position})


def _set(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**old, **new}
    return {name: value for name, value in merged.items() if value is not None}
