"""A topic detector that follows a script."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from unsay.arguments import configurable
from unsay.errors import ConfigurationError
from unsay.presets import hint
from unsay.testing.scripts import key_for
from unsay.topic_shift import ShiftKind, TopicMemory, TopicShift


@configurable
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
    """By part of a question, of which the longest counts; `back` means the topic left last."""

    default: ShiftKind | TopicShift = "same"
    """The shift of all other questions."""

    def __post_init__(self) -> None:
        kinds = get_args(ShiftKind)
        for shift in (*self.shifts.values(), self.default):
            if isinstance(shift, str) and shift not in kinds:
                words = ", ".join(map(repr, kinds))
                raise ConfigurationError(
                    f"ScriptedDetector: {shift!r} is no shift{hint(shift, kinds)}: write one of {words}"
                )

    def detect(
        self, question: str, current: TopicMemory, others: Sequence[TopicMemory]
    ) -> TopicShift:
        """Return the shift that the script has for a question, or `default` if it has none.

        Raises:
            AssertionError: The script goes back to a topic that is not among `others`.
        """
        key = key_for(self.shifts, question)
        shift = self.default if key is None else self.shifts[key]
        earlier = [topic.topic_id for topic in others]
        if not isinstance(shift, TopicShift):
            last = earlier[0] if shift == "back" and earlier else None
            shift = TopicShift(kind=shift, similarity=float(shift != "new"), topic_id=last)
        if shift.kind == "back" and shift.topic_id not in earlier:
            raise AssertionError(f"{question!r} goes back to {shift.topic_id!r}, not in {earlier}")
        return shift
