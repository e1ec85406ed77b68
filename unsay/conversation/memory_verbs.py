"""The verbs of pinning and forgetting, for scripts and for async code."""

from unsay.conversation.factory import Opened
from unsay.conversation.visibility import (
    forget,
    forget_results,
    forgotten,
    pins,
    set_pin,
    take_pin_off,
)
from unsay.effects import adrive, drive
from unsay.types import Forgotten, Pin


class Keeping(Opened):
    """What views of a conversation hold on to, and what they leave out."""

    def pin(self, message_id: str | None = None, *, turn: int | None = None) -> tuple[Pin, ...]:
        """Keep a message in every view, with the tool calls and results that belong to it.

        The pin holds wherever the record keeps the message; while a rollback has it off the
        record, it is quiet.

        Args:
            message_id: Of any message of the conversation; `None` is all of a turn.
            turn: Its number; `None` is the newest.

        Returns:
            All pins that there are then.

        Raises:
            UnknownThreadError: Nothing was ever said.
            UnknownBranchError: The message is not on the record.
            InputError: It is an order or a notice, or nothing was answered yet.
            ConflictError: It is pinned already, it is forgotten, or there are 64 pins.
        """
        return drive(self._talk.alone(set_pin(self._talk, message_id, turn)))

    def unpin(self, message_id: str | None = None, *, turn: int | None = None) -> tuple[Pin, ...]:
        """Take a pin off: views may leave the message out again.

        Args:
            message_id: Of the message; `None` is all of a turn.
            turn: Its number; `None` is the newest.

        Returns:
            The pins that are left.

        Raises:
            UnknownThreadError: Nothing was ever said.
            UnknownBranchError: The message is not pinned.
            InputError: There is no such turn.
        """
        return drive(self._talk.alone(take_pin_off(self._talk, message_id, turn)))

    def pins(self) -> tuple[Pin, ...]:
        """The pins, the one set first first; `page` is where its message is sealed.

        Raises:
            UnknownThreadError: Nothing was ever said.
        """
        return drive(self._talk.reading(pins))

    def forget(
        self,
        what: str | None = None,
        through: str | None = None,
        *,
        turns: str | int | None = None,
        reason: str = "",
    ) -> Forgotten:
        """Let the model be told nothing of some words any more; the record keeps them.

        Views, recall, topic detection and the summaries of other topics leave them out, and tool
        calls go together with their results. A pin on what is forgotten comes off. Summaries that
        told of it are made anew. `restore` or `undo` lets the model see it again.

        Args:
            what: A message's id, or a topic's id or label: all that was said on it until now. What
                is said on the same subject later is a new topic.
            through: Id of the last message of a span that begins at the message `what`.
            turns: In place of them a turn's number, or `"3-5"`.
            reason: In your words, for whoever lists it.

        Raises:
            UnknownThreadError: Nothing was ever said.
            UnknownBranchError: Nothing on the record is called so.
            InputError: The question that waits for its answer is meant.
            ConflictError: It is forgotten already, a turn is under way, a label is not clear, or
                64 things or 1,000 messages are forgotten already.
        """
        return drive(self._talk.alone(forget(self._talk, what, through, reason, turns)))

    def forget_tool_results(
        self, below: float = 0.3, *, question: str | None = None, reason: str = ""
    ) -> Forgotten | None:
        """Show a short line in place of the tool results that bear on no question.

        Looks at the topic under way, as far as the state holds it; pinned results stay. The calls
        stay too. With `judging="model"` the judge scores each result, else the words that result
        and question share do: 0.2 where there are none, 0.5 and more where there are. What nobody can
        score stays.

        Args:
            below: A result with a lower score is forgotten, from 0 to 1.
            question: What the results are weighed against; `None` takes the topic's questions.
            reason: In your words, for whoever lists it.

        Returns:
            What was forgotten; `None` where every result scored enough.

        Raises:
            UnknownThreadError: Nothing was ever said.
            InputError: `below` is no score.
            ConflictError: A turn is under way, or too much is forgotten already.
        """
        return drive(self._talk.alone(forget_results(self._talk, below, question, reason)))

    def forgotten(self) -> tuple[Forgotten, ...]:
        """What is forgotten, the oldest first.

        Raises:
            UnknownThreadError: Nothing was ever said.
        """
        return drive(self._talk.reading(forgotten))


class AsyncKeeping(Opened):
    """What views of a conversation hold on to, and what they leave out, for async code."""

    async def pin(
        self, message_id: str | None = None, *, turn: int | None = None
    ) -> tuple[Pin, ...]:
        """See `Conversation.pin`."""
        return await adrive(self._talk.alone(set_pin(self._talk, message_id, turn)))

    async def unpin(
        self, message_id: str | None = None, *, turn: int | None = None
    ) -> tuple[Pin, ...]:
        """See `Conversation.unpin`."""
        return await adrive(self._talk.alone(take_pin_off(self._talk, message_id, turn)))

    async def pins(self) -> tuple[Pin, ...]:
        """See `Conversation.pins`."""
        return await adrive(self._talk.reading(pins))

    async def forget(
        self,
        what: str | None = None,
        through: str | None = None,
        *,
        turns: str | int | None = None,
        reason: str = "",
    ) -> Forgotten:
        """See `Conversation.forget`."""
        return await adrive(self._talk.alone(forget(self._talk, what, through, reason, turns)))

    async def forget_tool_results(
        self, below: float = 0.3, *, question: str | None = None, reason: str = ""
    ) -> Forgotten | None:
        """See `Conversation.forget_tool_results`."""
        return await adrive(self._talk.alone(forget_results(self._talk, below, question, reason)))

    async def forgotten(self) -> tuple[Forgotten, ...]:
        """See `Conversation.forgotten`."""
        return await adrive(self._talk.reading(forgotten))
