"""What a topic detector is shown, and what it decides."""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from unsay.arguments import configurable

ShiftKind = Literal["same", "new", "back"]


@configurable
@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMemory:
    """The newest questions and answers of a topic, oldest first, for a topic detector."""

    topic_id: str
    texts: tuple[str, ...]


@configurable
@dataclass(frozen=True, slots=True, kw_only=True)
class TopicShift:
    """The topic of a question: the current one, a new one, or the earlier `topic_id`.

    The similarity to it, or of a `new` topic to the current one, is from 0 to 1.
    """

    kind: ShiftKind
    similarity: float
    topic_id: str | None = None


class TopicDetector(Protocol):
    """Tells whether a question continues the topic, changes it, or returns to an earlier one.

    `detect` may be async. It runs off the event loop. One that fails, or takes longer than
    `part_timeout_seconds`, leaves the question in its topic.
    """

    def detect(
        self, question: str, current: TopicMemory, others: Sequence[TopicMemory]
    ) -> TopicShift | Awaitable[TopicShift]:
        """Assign a question to a topic; `back` only with the id of one of `others`.

        Args:
            question: The user's newest message.
            current: The topic of the turn before; it has at least one text.
            others: Earlier topics, the most recently left one first.
        """
