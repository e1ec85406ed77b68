"""A topic detector that follows a script."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from unsay.scripted.replies import key_for
from unsay.types import ShiftKind, TopicMemory, TopicShift


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedDetector:
    """A detector that looks a question's topic up by a part of its text.

    >>> kyoto = TopicMemory(topic_id="t1", texts=("Kyoto?",))
    >>> detector = ScriptedDetector(shifts={"Osaka": "new"})
    >>> detector.detect("And Osaka?", kyoto, []).kind
    'new'
    >>> detector.detect("How long?", kyoto, []).kind
    'same'
    """

    shifts: Mapping[str, ShiftKind | TopicShift] = field(default_factory=dict)
    """By part of a question, the longest wins; the word `back` means the topic left last."""

    default: ShiftKind | TopicShift = "same"
    """For every other question."""

    def detect(
        self, question: str, current: TopicMemory, others: Sequence[TopicMemory]
    ) -> TopicShift:
        """Place a question among the topics, as scripted.

        Raises:
            AssertionError: The script goes back to a topic that is not among `others`.
        """
        key = key_for(self.shifts, question)
        shift = _shift(self.default if key is None else self.shifts[key], others)
        earlier = [topic.topic_id for topic in others]
        if shift.kind == "back" and shift.topic_id not in earlier:
            raise AssertionError(f"{question!r} goes back to {shift.topic_id!r}, not in {earlier}")
        return shift


def _shift(scripted: ShiftKind | TopicShift, others: Sequence[TopicMemory]) -> TopicShift:
    if isinstance(scripted, TopicShift):
        return scripted
    last = others[0].topic_id if scripted == "back" and others else None
    return TopicShift(kind=scripted, similarity=float(scripted != "new"), topic_id=last)
