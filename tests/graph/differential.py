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
    return {message.serial for message in messages}


def ends_of(messages: Sequence[Said]) -> list[int]:
    """The places of the last answers of the turns: a turn ends where the next question begins."""
    roles = [*(message.role for message in messages), "human"]
    return [
        position
        for position in range(len(messages))
        if roles[position : position + 2] == ["ai", "human"]
    ]


def answers_in(messages: Sequence[Said]) -> list[Said]:
    """The answers among them."""
    return [message for message in messages if message.role == "ai"]


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
        return [(message.role, message.text) for message in self.transcript]

    def say(self, question: str, drafts: Sequence[tuple[str, float]]) -> None:
        """A question, and one draft after another; rejected drafts remove nothing."""
        self.begun = True
        self.transcript = [replace(message, judged=True) for message in self.transcript]
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
        question = self._last_question()
        base = self._before(question[0])
        removed = self._swap(base, ())
        self.transcript += [replace(message, serial=next(_SERIALS)) for message in question]
        self._did(Step(turn=True, base=base, tail=removed))
        answers = answers_in(removed)
        old = [answer for answer in answers if answer.judged][:1] or answers[-1:]
        names = AUTOMATIC.union(*(item.names for item in old))
        self._put(Said(role="ai", text=answer, names=names, judged=True))

    def undo(self, keep: Collection[int] = ()) -> None:
        """The newest step is taken back."""
        if not self.steps:
            raise RefusedError
        step = self.steps[-1]
        is_redoable = self._redoable(keep)
        if step.named is not None:
            self.steps.pop()
            self.undone = [*is_redoable, (self._renamed(step), self._here(keep))]
            return
        if step.ids:
            keep = self._others(step)
        removed = self._swap(step.base, step.tail, keep, notes=not step.ids)
        self.steps.pop()
        has_answer = not step.turn or bool(removed and removed[-1].role == "ai")
        redo_step = (replace(step, tail=removed), self._here(keep))
        self.undone = [*is_redoable, redo_step] if has_answer else []

    def redo(self, keep: Collection[int] = ()) -> None:
        """The step that was undone last is made again."""
        is_redoable = self._redoable(keep)
        if not is_redoable:
            raise RefusedError
        step = is_redoable[-1][0]
        if step.named is not None:
            self._did(self._renamed(step))
            self.undone = is_redoable[:-1]
            return
        if step.ids:
            keep = self._others(step)
        removed = self._swap(step.base, step.tail, keep, notes=not step.ids)
        self._did(replace(step, tail=removed))
        self.undone = is_redoable[:-1]

    def rollback(
        self, to: str | None = None, turns: int | None = None, keep: Collection[int] = ()
    ) -> None:
        """Back to a checkpoint, or some turns."""
        base = self._landing(to, turns, keep)
        removed = self._swap(base, (), keep)
        if removed:
            self._did(Step(turn=False, base=base, tail=removed))

    def restore(self, base: int | None, tail: Sequence[Said]) -> None:
        """Removed messages return to their place, and those in that place are removed."""
        if serials(tail) <= serials(self.transcript):
            raise RefusedError
        removed = self._swap(base, tail)
        self._did(Step(turn=False, base=base, tail=removed))

    def pick(self, messages: Sequence[Said]) -> None:
        """Append messages of another branch; those that are present already are copied."""
        step = Step(turn=False, base=self.transcript[-1].serial if self.transcript else None)
        present_serials = serials(self.transcript)
        for message in messages:
            serial = next(_SERIALS) if message.serial in present_serials else message.serial
            self._put(replace(message, serial=serial, names=frozenset()))
        self._did(step)

    def checkpoint(self, name: str, keep: Collection[int] = ()) -> None:
        """The newest answer gets a name to go back to."""
        answers = answers_in([message for message in self.transcript if message.serial not in keep])
        if not answers:
            raise RefusedError
        step = Step(turn=False, base=None, named=(answers[-1].serial, answers[-1].names | {name}))
        self._did(self._renamed(step))

    def edit(self, turn: int, question: str, answer: str) -> None:
        """The question of a turn in other words; all that followed is set aside."""
        asked_turn = [item for item in self._turn(turn) if item.role == "human"]
        if not asked_turn:
            raise RefusedError
        base = self._before(asked_turn[0])
        removed = self._swap(base, ())
        self._did(Step(turn=True, base=base, tail=removed))
        self._put(Said(role="human", text=question))
        self._put(Said(role="ai", text=answer, names=AUTOMATIC, judged=True))

    def remove_turn(self, turn: int) -> None:
        """One turn is taken out, and the later ones stay."""
        found_turn = self._turn(turn)
        step = Step(
            turn=False, base=self._before(found_turn[0]), ids=frozenset(serials(found_turn))
        )
        removed = self._swap(step.base, (), self._others(step), notes=False)
        self._did(replace(step, tail=removed))

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
        ends = [transcript[session].serial for session in ends_of(transcript)]
        steps = [Step(turn=True, base=base) for base in [None, *ends][: len(ends)]]
        ever = {message.serial: message for message in transcript}
        return Line(transcript=transcript, steps=steps, ever=ever, begun=True)

    def put_in(self, messages: Sequence[tuple[Literal["human", "ai"], str]]) -> None:
        """A host adds messages: a step, and only these messages leave when it is undone."""
        base = self.transcript[-1].serial if self.transcript else None
        added_messages = [Said(role=role, text=text) for role, text in messages]
        for item in added_messages:
            self._put(item)
        self._did(Step(turn=False, base=base, ids=frozenset(serials(added_messages))))

    def take_out(self, message: Said) -> None:
        """A host takes a message away: a step that leaves a branch."""
        step = Step(turn=False, base=self._before(message), ids=frozenset([message.serial]))
        removed = self._swap(step.base, (), self._others(step), notes=False)
        self._did(replace(step, tail=removed))

    def replace(self, message: Said, text: str) -> None:
        """A host puts other words in its place: a step that leaves a branch."""
        base = self._before(message)
        ids = frozenset([message.serial])
        self._exchange(replace(message, text=text))
        self._did(Step(turn=False, base=base, tail=(message,), ids=ids))

    def clear(self) -> None:
        """A host empties the transcript: a step that leaves a branch."""
        if removed := self._swap(None, (), notes=False):
            self._did(Step(turn=False, base=None, tail=removed, ids=frozenset(serials(removed))))

    def waiting(self) -> list[Said]:
        """The user's words at the end that nothing answers."""
        position = len(self.transcript)
        while position and self.transcript[position - 1].role == "human":
            position -= 1
        return self.transcript[position:]

    def lost(self) -> set[str]:
        """Words that were said here, and is in the transcript no longer."""
        return {item.text for item in self.ever.values()} - {
            message.text for message in self.transcript
        }

    def _base_of_turn(self) -> int | None:
        """What a host added before the question is no part of the turn."""
        added_messages = frozenset[int]().union(*(step.ids for step in self.steps))
        waiting = self.waiting()
        serials = [item.serial for item in waiting[:-1] if item.serial in added_messages]
        return serials[-1] if serials else self._before(waiting[0])

    def _put(self, message: Said) -> None:
        self.transcript.append(message)
        self.ever |= {message.serial: message for message in self.transcript}

    def _renamed(self, step: Step) -> Step:
        """Give a message the checkpoint of a step; the step that takes it away again."""
        assert step.named is not None
        serial, names = step.named
        for message in [message for message in self.transcript if message.serial == serial]:
            self._exchange(replace(message, names=names))
            return replace(step, named=(serial, message.names))
        return step

    def _exchange(self, message: Said) -> None:
        index = [message.serial for message in self.transcript].index(message.serial)
        self.transcript[index] = message
        self.ever[message.serial] = message

    def _did(self, step: Step) -> None:
        self.steps.append(step)
        self.undone = []
        self.begun = True

    def _swap(
        self,
        base: int | None,
        tail: Sequence[Said],
        keep: Collection[int] = (),
        *,
        notes: bool = True,
    ) -> tuple[Said, ...]:
        """Replace what follows a message with a tail; what was there is stored as a branch."""
        position = self._place(base)
        stay = [message for message in self.transcript[position:] if message.serial in keep]
        transcript = tuple(
            message for message in self.transcript[position:] if message.serial not in keep
        )
        present_serials = serials([*self.transcript[:position], *stay])
        restored_tail = [item for item in tail if item.serial not in present_serials]
        self.transcript = [*self.transcript[:position], *restored_tail, *stay]
        if transcript and notes:
            self.left.append((base, transcript))
        return transcript

    def _others(self, step: Step) -> set[int]:
        """All messages but those of a removed turn."""
        return serials(self.transcript) - step.ids

    def _turn(self, turn: int) -> list[Said]:
        """The messages of an answered turn."""
        transcript = self.transcript
        ends = ends_of(transcript)
        if not 0 < turn <= len(ends):
            raise RefusedError
        return transcript[0 if turn == 1 else ends[turn - 2] + 1 : ends[turn - 1] + 1]

    def _place(self, base: int | None) -> int:
        """Index behind a message."""
        if base is None:
            return 0
        for position, item in enumerate(self.transcript, start=1):
            if item.serial == base:
                return position
        raise RefusedError

    def _before(self, message: Said) -> int | None:
        """Number of the message before one."""
        position = self._place(message.serial) - 1
        return self.transcript[position - 1].serial if position else None

    def _here(self, keep: Collection[int]) -> int | None:
        """The last message of the conversation."""
        serials = [message.serial for message in self.transcript if message.serial not in keep]
        return serials[-1] if serials else None

    def _redoable(self, keep: Collection[int]) -> list[tuple[Step, int | None]]:
        """What was undone, unless the conversation went on."""
        is_here = bool(self.undone) and self.undone[-1][1] == self._here(keep)
        return self.undone if is_here else []

    def _landing(self, to: str | None, turns: int | None, keep: Collection[int] = ()) -> int | None:
        """Where an order leads."""
        if to is not None:
            serials = [message.serial for message in self.transcript if to in message.names]
            if not serials:
                raise RefusedError
            return serials[0]
        transcript = [message for message in self.transcript if message.serial not in keep]
        if turns is not None:
            return self._before(self._turn_start(transcript, turns))
        if not transcript:
            raise RefusedError
        older = self.transcript[: self._place(transcript[-1].serial) - 1]
        marks = [item.serial for item in older if item.names]
        return marks[-1] if marks else self._before(self._last_turn(transcript))

    def _turn_start(self, answers: Sequence[Said], turns: int) -> Said:
        """Return the first message of the last N turns."""
        ends = ends_of(answers)
        if not 0 < turns <= len(ends):
            raise RefusedError
        return answers[0 if turns == len(ends) else ends[-turns - 1] + 1]

    def _last_turn(self, answers: Sequence[Said]) -> Said:
        """The first message of the last turn; without a question the first of all."""
        position = len(answers) - 1
        while position and answers[position].role == "ai":
            position -= 1
        while position and answers[position - 1].role == "human":
            position -= 1
        return answers[position]

    def _last_question(self) -> list[Said]:
        """Return the newest question with the unanswered messages before it."""
        transcript = list(self.transcript)
        while transcript and transcript[-1].role == "ai":
            transcript.pop()
        first = len(transcript)
        while first and transcript[first - 1].role == "human":
            first -= 1
        if not transcript:
            raise RefusedError
        return transcript[first:]
