"""The parts of a conversation with verbs of their own: pins, lessons and ratings."""

from collections.abc import Mapping
from typing import Any

from unsay.conversation import records
from unsay.conversation.facade import Part, checks_arguments
from unsay.effects import drive
from unsay.memory.lessons import Lesson, Rating
from unsay.orders import order as orders
from unsay.types import Pin


@checks_arguments
class Pins(Part):
    """The pins of a conversation: messages that are in every context."""

    def add(self, message_id: str | None = None, *, turn: int | None = None) -> tuple[Pin, ...]:
        """Pin a message: always include it in the context, with its tool calls and results.

        The pin has no effect while a rollback has the message removed. Of a whole turn, irrelevant
        documents are not pinned.

        Args:
            message_id: Of any message of the conversation; `None` pins a whole turn.
            turn: The turn's number, from 1; `None` is the newest. Not used with a `message_id`.

        Returns:
            All pins, the new ones last.

        Raises:
            UnknownBranchError: The message is not in the transcript.
            UnknownTurnError: No answered turn has this number.
            InputError: It is a command or a notice.
            ConflictError: It is pinned already, it is forgotten, it is an irrelevant document or search
                result, there are 64 pins, or a decision is pending.
        """
        return drive(self._handle.result_of(orders.AddPins(message_id=message_id, turn=turn)))

    def remove(self, message_id: str | None = None, *, turn: int | None = None) -> tuple[Pin, ...]:
        """Remove a pin, or the pins of a whole turn.

        Args:
            message_id: Of the pinned message; `None` removes the pins of a turn.
            turn: The turn's number, from 1; `None` is the newest. Not used with a `message_id`.

        Returns:
            The pins that are left.

        Raises:
            UnknownBranchError: The message is not pinned, or no message of the turn is.
            UnknownTurnError: No answered turn has this number.
            ConflictError: A decision is pending.
        """
        return drive(self._handle.result_of(orders.RemovePins(message_id=message_id, turn=turn)))

    def list(self) -> tuple[Pin, ...]:
        """List the pins, oldest first.

        A pin's `page` is the id of the offloaded segment with the message; a live message has none.
        """
        return drive(self._handle.reading(records.pins))


@checks_arguments
class Lessons(Part):
    """The lessons of a conversation: why drafts were rejected, which later turns are sent."""

    def list(self) -> tuple[Lesson, ...]:
        """List why drafts were rejected, oldest first; later turns on the same topic are sent this.

        Lessons of offloaded answers are not listed.
        """
        return drive(self._handle.reading(records.lessons))

    def change(self, lesson: str | int, text: str) -> Lesson:
        """Change the text of a lesson, and return the lesson.

        Args:
            lesson: Its id, or its number in the list, from 1.
            text: At most 500 characters.

        Raises:
            NotFoundError: There is no such lesson.
            InputError: The text is blank or too long.
            ConflictError: A decision is pending.
        """
        return drive(self._handle.result_of(orders.ChangeLesson(lesson=str(lesson), text=text)))

    def remove(self, lesson: str | int) -> Lesson:
        """Remove a lesson, and return it; no later turn is sent it.

        Args:
            lesson: Its id, or its number in the list, from 1.

        Raises:
            NotFoundError: There is no such lesson.
            ConflictError: A decision is pending.
        """
        return drive(self._handle.result_of(orders.ChangeLesson(lesson=str(lesson))))


@checks_arguments
class Ratings(Part):
    """The ratings of a conversation: which of its answers a person found good or bad."""

    def add(self, turn: int, label: str, *, note: str = "") -> Rating:
        """Rate the answer of a turn; ratings are labels for `unsay calibrate`.

        Args:
            turn: The turn's number, from 1.
            label: `good` or `bad`.
            note: Why. That of a bad answer is a lesson for later turns.

        Returns:
            The rating, which replaces an earlier one.

        Raises:
            UnknownTurnError: No answered turn has this number.
            InputError: The label is another word.
            ConflictError: A decision is pending.
        """
        return drive(self._handle.result_of(orders.Rate(turn=turn, label=label, note=note)))

    def list(self) -> tuple[Mapping[str, Any], ...]:
        """Return the rated turns as plain JSON, oldest first: the lines that `unsay calibrate` reads.

        Each has the question, the answer, the `earlier` exchanges, the language, the label with its
        note, and the score of the stored verdict (`None` for an unscored one). Empty if no turn is
        rated.
        """
        return drive(self._handle.reading(records.ratings))
