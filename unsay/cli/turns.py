"""Turns on an event loop, where Ctrl-C stops a reply at once."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from unsay.graph.async_conversation import AsyncConversation
from unsay.graph.reply import Event, Reply

Show = Callable[[Event], None]
"""Shows one event to whoever is there."""


class Turns:
    """Says things in one conversation.

    A blocking run ends only when its model has answered; a task on an event
    loop is cancelled where it waits.
    """

    def __init__(self, conversation: AsyncConversation, runner: asyncio.Runner) -> None:
        """Use one loop for all turns: a model's connections belong to it."""
        self._conversation = conversation
        self._runner = runner

    def say(self, words: str, show: Show, turn_id: str | None = None) -> None:
        """Have a message answered; the last event shown is the reply.

        Args:
            words: The message.
            show: Is given every event.
            turn_id: See `Conversation.say`.

        Raises:
            UnsayError: As `Conversation.say`.
            KeyboardInterrupt: Ctrl-C was pressed; `resume` goes on from there.
        """
        self._runner.run(self._streamed(words, show, turn_id))

    def resume(self, decision: Any, show: Show) -> None:
        """Go on with a turn that stopped, or as a person decided; shows the reply.

        Raises:
            UnsayError: As `Conversation.resume`.
            KeyboardInterrupt: As `say`.
        """
        reply = self._runner.run(self._conversation.resume(decision))
        show(reply_event(reply))

    def retry(self, show: Show) -> None:
        """Have the last question answered anew; shows the reply.

        Raises:
            UnsayError: As `Conversation.retry`.
            KeyboardInterrupt: As `say`.
        """
        show(reply_event(self._runner.run(self._conversation.retry())))

    async def _streamed(self, words: str, show: Show, turn_id: str | None) -> None:
        async for event in self._conversation.stream(words, turn_id=turn_id):
            show(event)


@contextmanager
def turns_of(conversation: AsyncConversation) -> Generator[Turns, None, None]:
    """The turns of a conversation, on a loop that lives as long as they are needed."""
    with asyncio.Runner() as runner:
        yield Turns(conversation, runner)


def reply_event(reply: Reply) -> Event:
    """A reply as the event that ends a turn."""
    return Event(kind="reply", text=reply.text, message_id=reply.message_id, reply=reply)
