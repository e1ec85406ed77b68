"""What threads must be, told by plain lists: a model to compare the real ones with.

It is written from the documentation of the verbs and calls nothing of unsay. A message is a role and
words under a serial number, a thread is a list of them, and a step that can be undone is a place
on the list with what stood behind it.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Literal

MAX_ROLLBACKS = 2
"""How often a turn is taken back before its best draft is delivered: the default."""

_SERIALS = count(1)


class RefusedError(Exception):
    """The order cannot be carried out, and nothing changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One message."""

    serial: int = field(default_factory=lambda: next(_SERIALS))
    """Its id is unique; a copy made by another attempt gets a new one."""

    role: Literal["human", "ai"]
    """Who said it."""

    text: str
    """The words."""

    names: frozenset[str] = frozenset()
    """Of its checkpoints; one that was made without a person has the name ""."""

    judged: bool = False
    """Whether a judge saw it, as it sees each answer of the agent."""


AUTOMATIC = frozenset([""])


@dataclass(frozen=True, slots=True)
class Step:
    """What an undo puts back, and where."""

    turn: bool
    base: int | None
    tail: tuple[Said, ...] = ()
    ids: frozenset[int] = frozenset()
    """Of a removed turn, or of a host's change: its messages; what else stands behind `base` stays."""

    named: tuple[int, frozenset[str]] | None = None
    """Of a checkpoint: its message, and the names that the message had or gets."""


def serials(messages: Collection[Said]) -> set[int]:
    """The numbers of some messages."""
    return {each.serial for each in messages}


def ends_of(messages: Sequence[Said]) -> list[int]:
    """The places of the last answers of the turns: a turn ends where the next question begins."""
    roles = [*(each.role for each in messages), "human"]
    return [place for place in range(len(messages)) if roles[place : place + 2] == ["ai", "human"]]


def answered(messages: Sequence[Said]) -> list[Said]:
    """The answers among them."""
    return [each for each in messages if each.role == "ai"]


@dataclass(slots=True)
class Line:
    """One thread."""

    transcript: list[Said] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    undone: list[tuple[Step, int | None]] = field(default_factory=list)
    """Steps that were undone, with the last message that stood then."""

    left: list[tuple[int | None, tuple[Said, ...]]] = field(default_factory=list)
    """Every tail that was taken off, and the message that it stood behind."""

    ever: dict[int, Said] = field(default_factory=dict)
    """All that was ever said here and that no host took away."""

    begun: bool = False
    """Whether there is such a thread even without a message."""

    def told(self) -> list[tuple[str, str]]:
        """The transcript as roles and words."""
        return [(each.role, each.text) for each in self.transcript]

    def say(self, question: str, drafts: Sequence[tuple[str, float]]) -> None:
        """A question, and one draft after another; rejected drafts remove nothing."""
        self.begun = True
        self.transcript = [replace(each, judged=True) for each in self.transcript]
        self.transcript.append(Said(role="human", text=question))
        assert all(score < 0.5 for _, score in drafts[:-1])
        text, score = drafts[-1]
        self._did(Step(turn=True, base=self._base_of_turn()))
        names = AUTOMATIC if score >= 0.8 else frozenset()
        self._put(Said(role="ai", text=text, names=names, judged=True))

    def ask(self, question: str) -> None:
        """A question that stays unanswered because the model cannot be reached."""
        self.begun = True
        self._put(Said(role="human", text=question))

    def unask(self) -> None:
        """What was never answered is set aside."""
        self._swap(self._before(self.waiting()[0]), ())

    def undo_question(self) -> None:
        """Taking back a turn that never ended: it is no step that could be made again."""
        self.unask()
        self.undone = []

    def retry(self, answer: str) -> None:
        """The last question once more; the names of its answer are those of the new one."""
        asked = self._last_question()
        base = self._before(asked[0])
        gone = self._swap(base, ())
        self.transcript += [replace(each, serial=next(_SERIALS)) for each in asked]
        self._did(Step(turn=True, base=base, tail=gone))
        answers = answered(gone)
        old = [each for each in answers if each.judged][:1] or answers[-1:]
        names = AUTOMATIC.union(*(each.names for each in old))
        self._put(Said(role="ai", text=answer, names=names, judged=True))

    def undo(self, keep: Collection[int] = ()) -> None:
        """The newest step is taken back."""
        if not self.steps:
            raise RefusedError
        step, left = self.steps[-1], self._redoable(keep)
        if step.named is not None:
            self.steps.pop()
            self.undone = [*left, (self._renamed(step), self._here(keep))]
            return
        if step.ids:
            keep = self._others(step)
        gone = self._swap(step.base, step.tail, keep, notes=not step.ids)
        self.steps.pop()
        again = not step.turn or bool(gone and gone[-1].role == "ai")
        back = (replace(step, tail=gone), self._here(keep))
        self.undone = [*left, back] if again else []

    def redo(self, keep: Collection[int] = ()) -> None:
        """The step that was undone last is made again."""
        left = self._redoable(keep)
        if not left:
            raise RefusedError
        step = left[-1][0]
        if step.named is not None:
            self._did(self._renamed(step))
            self.undone = left[:-1]
            return
        if step.ids:
            keep = self._others(step)
        gone = self._swap(step.base, step.tail, keep, notes=not step.ids)
        self._did(replace(step, tail=gone))
        self.undone = left[:-1]

    def rollback(
        self, to: str | None = None, turns: int | None = None, keep: Collection[int] = ()
    ) -> None:
        """Back to a checkpoint, or some turns."""
        base = self._landing(to, turns, keep)
        gone = self._swap(base, (), keep)
        if gone:
            self._did(Step(turn=False, base=base, tail=gone))

    def restore(self, base: int | None, tail: Sequence[Said]) -> None:
        """Removed messages return to their place, and those in that place are removed."""
        if serials(tail) <= serials(self.transcript):
            raise RefusedError
        gone = self._swap(base, tail)
        self._did(Step(turn=False, base=base, tail=gone))

    def pick(self, messages: Sequence[Said]) -> None:
        """Append messages of another branch; those that are present already are copied."""
        step = Step(turn=False, base=self.transcript[-1].serial if self.transcript else None)
        there = serials(self.transcript)
        for each in messages:
            serial = next(_SERIALS) if each.serial in there else each.serial
            self._put(replace(each, serial=serial, names=frozenset()))
        self._did(step)

    def checkpoint(self, name: str, keep: Collection[int] = ()) -> None:
        """The newest answer gets a name to go back to."""
        said = answered([each for each in self.transcript if each.serial not in keep])
        if not said:
            raise RefusedError
        step = Step(turn=False, base=None, named=(said[-1].serial, said[-1].names | {name}))
        self._did(self._renamed(step))

    def edit(self, turn: int, question: str, answer: str) -> None:
        """The question of a turn in other words; all that followed is set aside."""
        asked = [each for each in self._turn(turn) if each.role == "human"]
        if not asked:
            raise RefusedError
        base = self._before(asked[0])
        gone = self._swap(base, ())
        self._did(Step(turn=True, base=base, tail=gone))
        self._put(Said(role="human", text=question))
        self._put(Said(role="ai", text=answer, names=AUTOMATIC, judged=True))

    def remove_turn(self, turn: int) -> None:
        """One turn is taken out, and the later ones stay."""
        found = self._turn(turn)
        step = Step(turn=False, base=self._before(found[0]), ids=frozenset(serials(found)))
        gone = self._swap(step.base, (), self._others(step), notes=False)
        self._did(replace(step, tail=gone))

    def order(self, carry_out: Callable[[Collection[int]], None]) -> None:
        """A typed command: it is not in the transcript, and a waiting question stays."""
        try:
            carry_out(serials(self.waiting()))
        except RefusedError:
            """The notice says so."""

    def fork(self, to: str | None = None, turns: int | None = None) -> "Line":
        """A new thread that begins like this one; its steps are its turns."""
        if not self.begun and not self.transcript:
            raise RefusedError
        end = len(self.transcript)
        if to is not None or turns is not None:
            end = self._place(self._landing(to, turns))
        transcript = self.transcript[:end]
        ends = [transcript[place].serial for place in ends_of(transcript)]
        steps = [Step(turn=True, base=base) for base in [None, *ends][: len(ends)]]
        ever = {each.serial: each for each in transcript}
        return Line(transcript=transcript, steps=steps, ever=ever, begun=True)

    def put_in(self, messages: Sequence[tuple[Literal["human", "ai"], str]]) -> None:
        """A host adds messages: a step, and only these messages leave when it is undone."""
        base = self.transcript[-1].serial if self.transcript else None
        added = [Said(role=role, text=text) for role, text in messages]
        for each in added:
            self._put(each)
        self._did(Step(turn=False, base=base, ids=frozenset(serials(added))))

    def take_out(self, message: Said) -> None:
        """A host takes a message away: a step that leaves a branch."""
        step = Step(turn=False, base=self._before(message), ids=frozenset([message.serial]))
        gone = self._swap(step.base, (), self._others(step), notes=False)
        self._did(replace(step, tail=gone))

    def replace(self, message: Said, text: str) -> None:
        """A host puts other words in its place: a step that leaves a branch."""
        base, ids = self._before(message), frozenset([message.serial])
        self._exchange(replace(message, text=text))
        self._did(Step(turn=False, base=base, tail=(message,), ids=ids))

    def clear(self) -> None:
        """A host empties the transcript: a step that leaves a branch."""
        if gone := self._swap(None, (), notes=False):
            self._did(Step(turn=False, base=None, tail=gone, ids=frozenset(serials(gone))))

    def waiting(self) -> list[Said]:
        """The user's words at the end that nothing answers."""
        place = len(self.transcript)
        while place and self.transcript[place - 1].role == "human":
            place -= 1
        return self.transcript[place:]

    def lost(self) -> set[str]:
        """Words that were said here, and is in the transcript no longer."""
        return {each.text for each in self.ever.values()} - {each.text for each in self.transcript}

    def _base_of_turn(self) -> int | None:
        """What a host added before the question is no part of the turn."""
        added = frozenset[int]().union(*(each.ids for each in self.steps))
        waiting = self.waiting()
        left = [each.serial for each in waiting[:-1] if each.serial in added]
        return left[-1] if left else self._before(waiting[0])

    def _put(self, message: Said) -> None:
        self.transcript.append(message)
        self.ever |= {each.serial: each for each in self.transcript}

    def _renamed(self, step: Step) -> Step:
        """Give a message the checkpoint of a step; the step that takes it away again."""
        assert step.named is not None
        serial, names = step.named
        for each in [each for each in self.transcript if each.serial == serial]:
            self._exchange(replace(each, names=names))
            return replace(step, named=(serial, each.names))
        return step

    def _exchange(self, message: Said) -> None:
        place = [each.serial for each in self.transcript].index(message.serial)
        self.transcript[place] = message
        self.ever[message.serial] = message

    def _did(self, step: Step) -> None:
        self.steps.append(step)
        self.undone, self.begun = [], True

    def _swap(
        self,
        base: int | None,
        tail: Sequence[Said],
        keep: Collection[int] = (),
        *,
        notes: bool = True,
    ) -> tuple[Said, ...]:
        """Replace what follows a message with a tail; what was there is stored as a branch."""
        place = self._place(base)
        stay = [each for each in self.transcript[place:] if each.serial in keep]
        gone = tuple(each for each in self.transcript[place:] if each.serial not in keep)
        there = serials([*self.transcript[:place], *stay])
        back = [each for each in tail if each.serial not in there]
        self.transcript = [*self.transcript[:place], *back, *stay]
        if gone and notes:
            self.left.append((base, gone))
        return gone

    def _others(self, step: Step) -> set[int]:
        """All messages but those of a removed turn."""
        return serials(self.transcript) - step.ids

    def _turn(self, turn: int) -> list[Said]:
        """The messages of an answered turn."""
        said = self.transcript
        ends = ends_of(said)
        if not 0 < turn <= len(ends):
            raise RefusedError
        return said[0 if turn == 1 else ends[turn - 2] + 1 : ends[turn - 1] + 1]

    def _place(self, base: int | None) -> int:
        """Index behind a message."""
        if base is None:
            return 0
        for place, each in enumerate(self.transcript, start=1):
            if each.serial == base:
                return place
        raise RefusedError

    def _before(self, message: Said) -> int | None:
        """Number of the message before one."""
        place = self._place(message.serial) - 1
        return self.transcript[place - 1].serial if place else None

    def _here(self, keep: Collection[int]) -> int | None:
        """The last message of the conversation."""
        said = [each.serial for each in self.transcript if each.serial not in keep]
        return said[-1] if said else None

    def _redoable(self, keep: Collection[int]) -> list[tuple[Step, int | None]]:
        """What was undone, unless the conversation went on."""
        here = bool(self.undone) and self.undone[-1][1] == self._here(keep)
        return self.undone if here else []

    def _landing(self, to: str | None, turns: int | None, keep: Collection[int] = ()) -> int | None:
        """Where an order leads."""
        if to is not None:
            found = [each.serial for each in self.transcript if to in each.names]
            if not found:
                raise RefusedError
            return found[0]
        said = [each for each in self.transcript if each.serial not in keep]
        if turns is not None:
            return self._before(self._turn_start(said, turns))
        if not said:
            raise RefusedError
        older = self.transcript[: self._place(said[-1].serial) - 1]
        marks = [each.serial for each in older if each.names]
        return marks[-1] if marks else self._before(self._last_turn(said))

    def _turn_start(self, said: Sequence[Said], turns: int) -> Said:
        """Return the first message of the last N turns."""
        ends = ends_of(said)
        if not 0 < turns <= len(ends):
            raise RefusedError
        return said[0 if turns == len(ends) else ends[-turns - 1] + 1]

    def _last_turn(self, said: Sequence[Said]) -> Said:
        """The first message of the last turn; without a question the first of all."""
        place = len(said) - 1
        while place and said[place].role == "ai":
            place -= 1
        while place and said[place - 1].role == "human":
            place -= 1
        return said[place]

    def _last_question(self) -> list[Said]:
        """Return the newest question with the unanswered messages before it."""
        said = list(self.transcript)
        while said and said[-1].role == "ai":
            said.pop()
        first = len(said)
        while first and said[first - 1].role == "human":
            first -= 1
        if not said:
            raise RefusedError
        return said[first:]
