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
    """The topic of a question, which a detector returns.

    `same` is the current topic, `new` another one, and `back` the earlier one with the id
    `topic_id`. `similarity`, from 0 to 1, is that of the question to its topic; for `new`, to the
    current one.
    """

    kind: ShiftKind
    similarity: float
    topic_id: str | None = None


class TopicDetector(Protocol):
    """Tells whether a question continues the topic, changes it, or returns to an earlier one.

    `detect` may be async; a blocking one runs in another thread beside an event loop. If it raises,
    or takes longer than 30 seconds, the question stays in the current topic.
    """

    def detect(
        self, question: str, current: TopicMemory, others: Sequence[TopicMemory]
    ) -> TopicShift | Awaitable[TopicShift]:
        """Return the topic of a question: the current one, a new one, or one of `others`.

        It is not called for a conversation's first question. If it raises, the topic stays.

        Args:
            question: The user's newest message.
            current: The topic of the turn before; it has at least one text.
            others: Earlier topics, the most recently left one first.
        """
