"""What `say` and `chat` share: the settings, the model, the conversation, the language."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig

from unsay.cli.labels import Labels, labels
from unsay.cli.turns import Turns, turns_of
from unsay.errors import InputError
from unsay.graph.async_conversation import AsyncConversation
from unsay.graph.builder import make_services
from unsay.graph.conversation import Conversation
from unsay.graph.reply import Reply, reply_of
from unsay.history.database import Database
from unsay.settings import Settings, load_settings
from unsay.transcript.text import language_of, newest_language


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """A conversation that a person speaks in."""

    conversation: Conversation
    """For looking at it."""

    turns: Turns
    """For saying things in it."""

    settings: Settings
    """From all sources."""

    def due(self) -> Reply | None:
        """The decision that a person must take before anything else; `None` when none is due."""
        config: RunnableConfig = {"configurable": {"thread_id": self.conversation.thread_id}}
        snapshot = self.conversation.graph.get_state(config)
        return reply_of(snapshot.values, snapshot.interrupts) if snapshot.interrupts else None

    def labels_for(self, words: str) -> Labels:
        """The notes in the language that a message is answered in."""
        chosen = self.settings.language
        return labels(language_of(words) if chosen == "auto" else chosen)

    def labels(self) -> Labels:
        """The notes in the language of what was said last."""
        chosen = self.settings.language
        newest = newest_language(self.conversation.messages())
        return labels(newest if chosen == "auto" else chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """The settings and the model, known before any file is opened."""

    settings: Settings
    """From all sources, with the models that were named on the command line."""

    model: Runnable[Any, Any]
    """Answers."""

    @classmethod
    def named(cls, *, model: str | None, judge_model: str | None) -> "Cast":
        """The configured models, or those named.

        Raises:
            ConfigurationError: A setting is impossible.
            MissingModelError: No model is configured; the message says what to set.
        """
        named: Mapping[str, Any] = {"model": model, "judge_model": judge_model}
        settings = load_settings({k: v for k, v in named.items() if v is not None})
        return cls(settings=settings, model=make_services(settings=settings).model)

    @contextmanager
    def speaker(self, database: Database, thread: str | None) -> Generator[Speaker, None, None]:
        """A thread of an open database, ready to be spoken in; `None` begins a new one."""
        conversation = Conversation.open(
            database, thread=thread, model=self.model, settings=self.settings
        )
        twin = AsyncConversation.open(
            database, thread=conversation.thread_id, model=self.model, settings=self.settings
        )
        with turns_of(twin) as turns:
            yield Speaker(conversation=conversation, turns=turns, settings=self.settings)


def readable(words: str) -> str:
    """The same words, known to be text.

    Raises:
        InputError: They came from bytes that are no UTF-8.
    """
    try:
        words.encode()
    except UnicodeEncodeError as error:
        raise InputError("The message is not UTF-8 text; convert it first") from error
    return words
